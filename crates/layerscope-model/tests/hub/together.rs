//! Several processes at once.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;

#[test]
fn processes_that_fetch_together_share_one_download() {
    let (server, cache) = (server(), Scratch::new());
    server.state().cut.insert("model.safetensors".to_owned(), (50_000, 2));
    std::thread::scope(|scope| {
        let fetches: Vec<_> = (0..6).map(|_| scope.spawn(|| hub_at(cache.path(), &server).fetch(ID, None).unwrap())).collect();
        for fetch in fetches {
            assert_eq!(fs::read(fetch.join().unwrap().join("model.safetensors")).unwrap(), weights());
        }
    });
    assert_eq!(server.take_log().iter().filter(|seen| seen.at_store).count(), 3, "two cuts and the end");
    let leftovers: Vec<_> = names(&repository(cache.path()).join("blobs")).into_iter().filter(|name| name.contains('.')).collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

#[test]
fn locks_that_exclude_nobody_cost_time_and_not_bytes() {
    let (server, cache) = (server(), Scratch::new());
    let locks = cache.path().join(".locks/models--org--tiny");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for entry in fs::read_dir(&locks).into_iter().flatten().flatten() {
                    let _ = fs::remove_file(entry.path());
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let fetches: Vec<_> = (0..8).map(|_| scope.spawn(|| hub_at(cache.path(), &server).fetch(ID, None))).collect();
        let outcomes: Vec<_> = fetches.into_iter().map(|fetch| fetch.join()).collect();
        done.store(true, Ordering::Relaxed);
        for outcome in outcomes {
            let snapshot = outcome.unwrap().unwrap();
            assert_eq!(fs::read(snapshot.join("model.safetensors")).unwrap(), weights());
            assert_eq!(fs::read(snapshot.join("config.json")).unwrap(), b"{\"model_type\": \"main\"}");
        }
    });
}
