//! Connections that are cut, servers that are silent or busy, and downloads that go on.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::*;

#[test]
fn a_cut_connection_is_resumed() {
    let (server, cache) = (server(), Scratch::new());
    server.state().cut.insert("model.safetensors".to_owned(), (100_000, 1));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    let hub = hub_at(cache.path(), &server).on_progress(move |progress| {
        record.lock().unwrap().push((progress.file.to_owned(), progress.done, progress.total));
    });
    let snapshot = hub.fetch(ID, None).unwrap();

    assert_eq!(fs::read(snapshot.join("model.safetensors")).unwrap(), weights());
    let ranges: Vec<_> =
        server.take_log().into_iter().filter(|seen| seen.at_store).map(|seen| seen.headers.get("range").cloned()).collect();
    assert_eq!(ranges, [None, Some("bytes=100000-".to_owned())]);
    let seen = seen.lock().unwrap();
    let progress: Vec<_> = seen.iter().filter(|(file, ..)| file == "model.safetensors").collect();
    assert!(progress.windows(2).all(|pair| pair[0].1 < pair[1].1) && progress.iter().all(|(_, _, total)| *total == 300_000));
    assert_eq!(progress.last().unwrap().1, 300_000);
    assert!(!names(&repository(cache.path()).join("blobs")).iter().any(|name| name.contains("incomplete")));
}

#[test]
fn a_silent_server_counts_as_a_cut() {
    let (server, cache) = (server(), Scratch::new());
    server.state().cut.insert("model.safetensors".to_owned(), (100_000, 1));
    server.state().silent = true;
    let start = Instant::now();
    let snapshot = hub_at(cache.path(), &server).patience(Duration::from_secs(1)).fetch(ID, None).unwrap();
    assert_eq!(fs::read(snapshot.join("model.safetensors")).unwrap(), weights());
    assert!(start.elapsed() < Duration::from_secs(15), "it waited until the server closed");
}

#[test]
fn a_small_file_that_is_cut_for_good_leaves_nothing() {
    let (server, cache) = (server(), Scratch::new());
    server.state().cut.insert("config.json".to_owned(), (5, usize::MAX));
    let line = failure(&hub_at(cache.path(), &server), None);
    assert_says(&line, &["config.json", "3 times", "5 of 22 bytes received;"]);
    assert!(names(&repository(cache.path()).join("blobs")).is_empty(), "a part that nobody may resume");
}

#[test]
fn a_connection_cut_for_good_keeps_what_came_and_the_next_process_resumes() {
    let (server, cache) = (server(), Scratch::new());
    server.state().cut.insert("model.safetensors".to_owned(), (123_456, usize::MAX));
    let line = failure(&hub_at(cache.path(), &server), None);
    assert_says(&line, &[ID, "model.safetensors", "3 times", "123456 of 300000 bytes received and kept", "try again"]);
    let part = repository(cache.path()).join("blobs").join(format!("{}.incomplete", server.etag(MAIN, "model.safetensors")));
    assert_eq!(fs::read(&part).unwrap(), weights()[..123_456]);
    assert_says(&failure(&offline(cache.path()), None), &["no revision `main`"]);

    server.state().cut.clear();
    server.take_log();
    let snapshot = hub_at(cache.path(), &server).fetch(ID, None).unwrap();
    assert_eq!(fs::read(snapshot.join("model.safetensors")).unwrap(), weights());
    let ranges: Vec<_> =
        server.take_log().into_iter().filter(|seen| seen.at_store).map(|seen| seen.headers.get("range").cloned()).collect();
    assert_eq!(ranges, [Some("bytes=123456-".to_owned())]);
    assert!(!part.exists());
}

#[test]
fn failures_are_counted_anew_only_while_the_download_gets_on() {
    let large: Vec<u8> = weights().repeat(20);
    let serve = |cut: usize| {
        let server = server();
        server.add("main", MAIN, "model.safetensors", &large, true);
        server.state().cut.insert("model.safetensors".to_owned(), (cut, usize::MAX));
        server
    };
    let (stuck, cache) = (serve(4_000_000), Scratch::new());
    stuck.state().range_error = 1; // every second attempt starts again
    let line = failure(&hub_at(cache.path(), &stuck), None);
    assert_says(&line, &["model.safetensors", "connection broke 3 times"]);

    let (slow, cache) = (serve(0), Scratch::new());
    slow.state().cut_step = 1_200_000;
    let snapshot = hub_at(cache.path(), &slow).fetch(ID, None).unwrap();
    assert_eq!(fs::read(snapshot.join("model.safetensors")).unwrap(), large);
    assert_eq!(slow.take_log().iter().filter(|seen| seen.at_store).count(), 5, "four cuts, more than the retries there are");
}

/// Leaves a part of a file as an earlier process would, and fetches.
fn fetch_over_part(server: &HubServer, file: &str, part: &[u8]) -> (Vec<u8>, Vec<Option<String>>) {
    let cache = Scratch::new();
    let blobs = repository(cache.path()).join("blobs");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join(format!("{}.incomplete", server.etag(MAIN, file))), part).unwrap();
    let snapshot = hub_at(cache.path(), server).fetch(ID, None).unwrap();
    let ranges = server.take_log().into_iter().filter(|seen| seen.at_store).map(|seen| seen.headers.get("range").cloned()).collect();
    (fs::read(snapshot.join(file)).unwrap(), ranges)
}

#[test]
fn a_part_is_resumed_or_started_again_and_never_glued_wrongly() {
    let (whole, range) = (weights(), |from: usize| Some(format!("bytes={from}-")));
    let resumed = fetch_over_part(&server(), "model.safetensors", &whole[..5000]);
    assert_eq!(resumed, (whole.clone(), vec![range(5000)]));

    let complete = fetch_over_part(&server(), "model.safetensors", &whole);
    assert_eq!(complete, (whole.clone(), vec![]), "a part that is the whole file only wants its name");

    let foreign = fetch_over_part(&server(), "model.safetensors", &vec![7; 5000]);
    assert_eq!(foreign, (whole.clone(), vec![range(5000), None]), "sha256 shows that the part was another file's");

    let too_long = fetch_over_part(&server(), "model.safetensors", &vec![7; 300_001]);
    assert_eq!(too_long, (whole.clone(), vec![None]));

    let stubborn = server();
    stubborn.state().ignores_ranges = true;
    assert_eq!(fetch_over_part(&stubborn, "model.safetensors", &whole[..5000]), (whole.clone(), vec![range(5000)]), "a 200 starts again");

    let inexact = server();
    inexact.state().range_error = 3;
    assert_eq!(
        fetch_over_part(&inexact, "model.safetensors", &whole[..5000]),
        (whole, vec![range(5000), None]),
        "the wrong range is not believed"
    );

    for part in [&b"{\"model_t"[..], b"!!", b"longer than the configuration itself"] {
        let (content, _) = fetch_over_part(&server(), "config.json", part);
        assert_eq!(content, b"{\"model_type\": \"main\"}", "a part that nothing can check is not used");
    }
}

#[test]
fn a_busy_hub_is_asked_again_but_not_for_ever() {
    let (server, cache) = (server(), Scratch::new());
    server.state().busy = 2;
    hub_at(cache.path(), &server).fetch(ID, None).unwrap();
    server.state().busy = usize::MAX;
    server.take_log();
    assert_says(&failure(&hub_at(Scratch::new().path(), &server), None), &["503", server.endpoint()]);
    assert_eq!(server.take_log().len(), 3, "one attempt and two more");
}

#[test]
fn wrong_bytes_never_become_a_blob() {
    let (server, cache) = (server(), Scratch::new());
    server.state().false_bytes = Some(vec![0; 300_000]);
    assert_says(&failure(&hub_at(cache.path(), &server), None), &["model.safetensors", "sha256"]);
    server.state().false_bytes = Some(vec![0; 300_001]);
    assert_says(&failure(&hub_at(cache.path(), &server), None), &["model.safetensors", "300000 bytes"]);
    assert!(!repository(cache.path()).join("blobs").join(server.etag(MAIN, "model.safetensors")).exists());
    server.state().false_bytes = None;
    server.state().hides_sizes = true;
    assert_says(&failure(&hub_at(cache.path(), &server), None), &["model.safetensors", "no size"]);
    server.state().hides_sizes = false;
    let snapshot = hub_at(cache.path(), &server).fetch(ID, None).unwrap();
    assert_eq!(fs::read(snapshot.join("model.safetensors")).unwrap(), weights());
}
