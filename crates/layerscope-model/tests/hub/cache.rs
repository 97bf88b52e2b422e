//! What is in the cache: its layout, what it spares, what others left there, what goes out of it.

use std::fs;
use std::path::Path;

use layerscope_model::hub::Hub;

use super::*;

#[test]
fn a_fetch_fills_the_standard_layout() {
    let (server, cache) = (server(), Scratch::new());
    let snapshot = hub_at(cache.path(), &server).fetch(ID, None).unwrap();

    let root = repository(cache.path());
    assert_eq!(snapshot, root.join("snapshots").join(MAIN));
    assert_eq!(names(&snapshot), ["config.json", "model.safetensors", "tokenizer.json"]);
    assert_eq!(fs::read(snapshot.join("model.safetensors")).unwrap(), weights());
    assert_eq!(fs::read_to_string(root.join("refs/main")).unwrap(), MAIN);
    let mut blobs: Vec<_> = names(&snapshot).iter().map(|file| server.etag(MAIN, file)).collect();
    blobs.sort();
    assert_eq!(names(&root.join("blobs")), blobs, "nothing but whole blobs");
    for file in names(&snapshot) {
        let link = snapshot.join(&file);
        // Not everybody may make links on Windows.
        assert!(link.is_symlink() || cfg!(windows));
        assert!(!link.is_symlink() || fs::read_link(link).unwrap() == Path::new("../../blobs").join(server.etag(MAIN, &file)));
    }
}

#[test]
fn a_second_fetch_downloads_nothing() {
    let (server, cache) = (server(), Scratch::new());
    let hub = hub_at(cache.path(), &server);
    let first = hub.fetch(ID, None).unwrap();
    assert!(server.take_log().len() > 1);
    assert_eq!(hub.fetch(ID, None).unwrap(), first);
    let paths: Vec<_> = server.take_log().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, [format!("/api/models/{ID}/revision/main")], "the listing alone");
}

#[test]
fn a_new_commit_reuses_the_blobs_that_did_not_change() {
    let (server, cache) = (server(), Scratch::new());
    let hub = hub_at(cache.path(), &server);
    hub.fetch(ID, None).unwrap();
    server.take_log();
    server.add("main", STEP, "config.json", b"{\"model_type\": \"moved\"}", false);
    server.add("main", STEP, "model.safetensors", &weights(), true);

    let snapshot = hub.fetch(ID, None).unwrap();
    assert!(snapshot.ends_with(STEP));
    assert_eq!(fs::read(snapshot.join("model.safetensors")).unwrap(), weights());
    assert!(server.take_log().iter().all(|seen| !seen.at_store), "the weights were there");
    assert_eq!(offline(cache.path()).fetch(ID, None).unwrap(), snapshot);
}

#[test]
fn offline_finds_what_was_fetched_and_says_what_was_not() {
    let (server, cache) = (server(), Scratch::new());
    let snapshot = hub_at(cache.path(), &server).fetch(ID, None).unwrap();
    assert_eq!(offline(cache.path()).fetch(ID, None).unwrap(), snapshot);
    assert_eq!(offline(cache.path()).fetch(ID, Some(MAIN)).unwrap(), snapshot);
    assert_says(&failure(&offline(cache.path()), Some("step7")), &[ID, "`step7`", "HF_HUB_OFFLINE"]);

    fs::remove_file(snapshot.join("model.safetensors")).unwrap();
    assert_says(&failure(&offline(cache.path()), None), &["weights", "HF_HUB_OFFLINE"]);
    let empty = Scratch::new();
    assert_says(&failure(&offline(empty.path()), None), &[ID, "HF_HUB_OFFLINE", &empty.path().display().to_string()]);
}

#[test]
fn an_unreachable_hub_leaves_the_cached_copy() {
    let (server, cache) = (server(), Scratch::new());
    let snapshot = hub_at(cache.path(), &server).fetch(ID, None).unwrap();
    let unreachable = quick(Hub::new(cache.path(), "http://127.0.0.1:1", None, false));
    assert_eq!(unreachable.fetch(ID, None).unwrap(), snapshot);
    assert_says(&failure(&unreachable, Some("step7")), &["cannot reach http://127.0.0.1:1", "HF_ENDPOINT"]);
}

#[test]
#[cfg(unix)]
fn an_entry_of_the_python_library_is_used() {
    let (server, cache) = (server(), Scratch::new());
    let root = repository(cache.path());
    let snapshot = root.join("snapshots").join(MAIN);
    for folder in [&root.join("blobs"), &root.join("refs"), &snapshot] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(root.join("refs/main"), MAIN).unwrap();
    for (file, content) in [("config.json", &b"{\"placed\": true}"[..]), ("model.safetensors", b"placed")] {
        let etag = server.etag(MAIN, file);
        fs::write(root.join("blobs").join(&etag), content).unwrap();
        std::os::unix::fs::symlink(Path::new("../../blobs").join(&etag), snapshot.join(file)).unwrap();
    }
    assert_eq!(offline(cache.path()).fetch(ID, None).unwrap(), snapshot);
    assert_eq!(hub_at(cache.path(), &server).fetch(ID, None).unwrap(), snapshot);
    assert_eq!(fs::read(snapshot.join("model.safetensors")).unwrap(), b"placed");
    let asked: Vec<_> = server.take_log().into_iter().map(|seen| seen.path).filter(|path| path.contains("resolve")).collect();
    assert_eq!(asked, vec![format!("/{ID}/resolve/{MAIN}/tokenizer.json"); 2], "only the file that was not there");
}

#[test]
#[cfg(unix)]
fn a_blob_that_the_python_library_shares_between_models_is_used() {
    let (server, cache) = (server(), Scratch::new());
    let hub = hub_at(cache.path(), &server);
    let snapshot = hub.fetch(ID, None).unwrap();
    let blob = repository(cache.path()).join("blobs").join(server.etag(MAIN, "model.safetensors"));
    fs::create_dir_all(cache.path().join("blobs/ab")).unwrap();
    fs::rename(&blob, cache.path().join("blobs/ab/abcd")).unwrap();
    std::os::unix::fs::symlink("../../blobs/ab/abcd", &blob).unwrap();
    server.take_log();
    for hub in [hub, offline(cache.path())] {
        assert_eq!(hub.fetch(ID, None).unwrap(), snapshot);
    }
    assert_eq!(server.take_log().len(), 1, "the listing alone");
}

#[test]
#[cfg_attr(windows, ignore = "not everybody may make links")]
fn a_link_to_a_lost_blob_is_fetched_again() {
    let (server, cache) = (server(), Scratch::new());
    let hub = hub_at(cache.path(), &server);
    let snapshot = hub.fetch(ID, None).unwrap();
    fs::remove_file(repository(cache.path()).join("blobs").join(server.etag(MAIN, "model.safetensors"))).unwrap();
    assert_says(&failure(&offline(cache.path()), None), &["weights"]);
    hub.fetch(ID, None).unwrap();
    assert_eq!(fs::read(snapshot.join("model.safetensors")).unwrap(), weights());
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let (server, scratch) = (server(), Scratch::new());
    let file = scratch.path().join("file");
    fs::write(&file, "in the way").unwrap();
    assert_says(&failure(&hub_at(&file, &server), None), &[file.to_str().unwrap()]);
}

#[test]
#[cfg_attr(windows, ignore = "blobs that are no links stay")]
fn evicting_a_revision_leaves_what_others_share() {
    let (server, cache) = (server(), Scratch::new());
    server.add("step8", STEP, "config.json", b"{\"model_type\": \"main\"}", false);
    server.add("step8", STEP, "model.safetensors", b"other weights", true);
    let hub = hub_at(cache.path(), &server);
    let (main, step) = (hub.fetch(ID, None).unwrap(), hub.fetch(ID, Some("step8")).unwrap());
    assert!(hub.is_cached(ID, "step8"));
    hub.evict(ID, "step8").unwrap();
    assert!(!hub.is_cached(ID, "step8") && hub.is_cached(ID, "main"));
    let root = repository(cache.path());
    assert!(!step.exists() && !root.join("refs/step8").exists());
    assert!(!root.join("blobs").join(server.etag(STEP, "model.safetensors")).exists());
    assert_eq!(fs::read(main.join("model.safetensors")).unwrap(), weights(), "the other revision is whole");
    assert!(main.join("config.json").is_file(), "the shared blob stayed");
    hub.evict(ID, "step8").unwrap();
    hub.evict(ID, "main").unwrap();
    assert!(names(&root.join("blobs")).is_empty() && names(&root.join("snapshots")).is_empty());
}
