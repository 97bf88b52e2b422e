//! The hub client against a server on loopback that speaks the hub's protocol.

#[path = "support/hub_server.rs"]
mod hub_server;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hub_server::{HubServer, Scratch};
use layerscope_model::hub::{Hub, HubSettings};

const ID: &str = "org/tiny";
const MAIN: &str = "1111111111111111111111111111111111111111";
const STEP: &str = "2222222222222222222222222222222222222222";

/// Weights long enough to be cut in the middle.
fn weights() -> Vec<u8> {
    (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A server with a whole model on `main`.
fn server() -> HubServer {
    let server = HubServer::start(ID);
    server.add("main", MAIN, "config.json", b"{\"model_type\": \"main\"}", false);
    server.add("main", MAIN, "tokenizer.json", b"{}", false);
    server.add("main", MAIN, "README.md", b"not wanted", false);
    server.add("main", MAIN, "pytorch_model.bin", b"not wanted either", true);
    server.add("main", MAIN, "model.safetensors", &weights(), true);
    server
}

fn hub_at(cache: &Path, server: &HubServer) -> Hub {
    quick(Hub::new(cache, server.endpoint(), None, false))
}

fn offline(cache: &Path) -> Hub {
    Hub::new(cache, "http://127.0.0.1:1", None, true)
}

fn quick(hub: Hub) -> Hub {
    hub.retries(2, Duration::from_millis(1)).patience(Duration::from_secs(10))
}

fn repository(cache: &Path) -> PathBuf {
    cache.join("models--org--tiny")
}

/// The error's line, checked to be one.
fn failure(hub: &Hub, revision: Option<&str>) -> String {
    let line = hub.fetch(ID, revision).expect_err("this fetch should fail").to_string();
    assert!(!line.contains('\n'), "more than one line: {line}");
    line
}

#[track_caller]
fn assert_says(line: &str, words: &[&str]) {
    for word in words {
        assert!(line.contains(word), "{line:?} does not say {word:?}");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

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
        let target = fs::read_link(snapshot.join(&file)).unwrap();
        assert_eq!(target, Path::new("../../blobs").join(server.etag(MAIN, &file)));
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
fn what_does_not_exist_is_named() {
    let (server, cache) = (server(), Scratch::new());
    let hub = hub_at(cache.path(), &server);
    let unknown = hub.fetch("org/tyni", None).unwrap_err().to_string();
    assert_says(&unknown, &["org/tyni", "no such model", server.endpoint(), "typo", "HF_TOKEN"]);
    assert_says(&failure(&hub, Some("step7")), &[ID, "no revision `step7`", "--revision"]);
    server.state().lost = Some("tokenizer.json".to_owned());
    assert_says(&failure(&hub, None), &[ID, "tokenizer.json", "404"]);

    let empty = HubServer::start(ID);
    empty.add("main", MAIN, "config.json", b"{}", false);
    assert_says(&failure(&hub_at(cache.path(), &empty), None), &["no weights", "model.safetensors", "pytorch_model.bin"]);
    let bare = HubServer::start(ID);
    bare.add("main", MAIN, "model.safetensors", b"", true);
    assert_says(&failure(&hub_at(cache.path(), &bare), None), &["no config.json"]);
}

#[test]
fn a_private_model_needs_its_token() {
    let (server, cache) = (server(), Scratch::new());
    server.state().token = Some("hf_secret".to_owned());
    assert_says(&failure(&hub_at(cache.path(), &server), None), &["401", "set HF_TOKEN"]);
    let with = |token| quick(Hub::new(cache.path(), server.endpoint(), Some(token), false));
    let wrong = failure(&with("hf_wrong"), None);
    assert_says(&wrong, &["401", "does not accept the token"]);
    assert!(!wrong.contains("hf_wrong"), "a token in an error message");
    server.take_log();

    let snapshot = with("hf_secret").fetch(ID, None).unwrap();
    assert_eq!(fs::read(snapshot.join("model.safetensors")).unwrap(), weights());
    let log = server.take_log();
    let (store, hub): (Vec<_>, Vec<_>) = log.iter().partition(|seen| seen.at_store);
    assert!(!store.is_empty() && store.iter().all(|seen| !seen.headers.contains_key("authorization")), "the token left the hub");
    assert!(hub.iter().all(|seen| seen.headers["authorization"] == "Bearer hf_secret"));
}

#[test]
fn a_renamed_model_is_followed_with_its_token() {
    let (server, cache) = (server(), Scratch::new());
    server.state().former = Some("tiny-once".to_owned());
    server.state().token = Some("hf_secret".to_owned());
    let hub = quick(Hub::new(cache.path(), server.endpoint(), Some("hf_secret"), false));
    let snapshot = hub.fetch("tiny-once", None).unwrap();
    assert_eq!(snapshot, cache.path().join("models--tiny-once/snapshots").join(MAIN), "cached under the name that was asked for");
    assert_eq!(fs::read(snapshot.join("model.safetensors")).unwrap(), weights());
    assert_eq!(fs::read(snapshot.join("tokenizer.json")).unwrap(), b"{}");
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let (server, scratch) = (server(), Scratch::new());
    let file = scratch.path().join("file");
    fs::write(&file, "in the way").unwrap();
    assert_says(&failure(&hub_at(&file, &server), None), &[file.to_str().unwrap()]);
}

#[test]
fn a_gated_model_asks_for_its_licence() {
    let (server, cache) = (server(), Scratch::new());
    server.state().gated = true;
    assert_says(&failure(&hub_at(cache.path(), &server), None), &["config.json", "403", "accept its licence", "HF_TOKEN"]);
    assert!(!repository(cache.path()).join("refs/main").exists(), "a revision without its files");
}

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
    assert_says(&line, &["model.safetensors", "broke off 3 times"]);

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

#[test]
fn revisions_are_kept_apart() {
    let (server, cache) = (server(), Scratch::new());
    for revision in ["step7", "refs/pr/1"] {
        server.add(revision, STEP, "config.json", b"{\"model_type\": \"step\"}", false);
        server.add(revision, STEP, "pytorch_model.bin", b"step", true);
    }
    let hub = hub_at(cache.path(), &server);
    let (main, step) = (hub.fetch(ID, None).unwrap(), hub.fetch(ID, Some("step7")).unwrap());
    assert!(main.ends_with(MAIN) && step.ends_with(STEP));
    assert_eq!(names(&step), ["config.json", "pytorch_model.bin"]);
    assert_eq!(fs::read(step.join("config.json")).unwrap(), b"{\"model_type\": \"step\"}");

    server.take_log();
    assert_eq!(hub.fetch(ID, Some("refs/pr/1")).unwrap(), step);
    assert_eq!(server.take_log()[0].path, format!("/api/models/{ID}/revision/refs%2Fpr%2F1"));
    assert_eq!(hub.fetch(ID, Some(STEP)).unwrap(), step);
    let refs = repository(cache.path()).join("refs");
    assert_eq!(fs::read_to_string(refs.join("refs/pr/1")).unwrap(), STEP);
    assert_eq!(names(&refs), ["main", "refs", "step7"], "a commit needs no reference");
    assert_eq!(offline(cache.path()).fetch(ID, Some("step7")).unwrap(), step);
    assert_eq!(offline(cache.path()).fetch(ID, None).unwrap(), main);
}

/// A server with a sharded model whose index is given.
fn sharded(index: &str, shards: &[&str]) -> HubServer {
    let server = HubServer::start(ID);
    server.add("main", MAIN, "config.json", b"{}", false);
    server.add("main", MAIN, "model.safetensors.index.json", index.as_bytes(), false);
    for shard in shards {
        server.add("main", MAIN, shard, shard.as_bytes(), true);
    }
    server
}

#[test]
fn an_index_brings_its_shards() {
    let shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let index = format!(r#"{{"weight_map": {{"a": "{}", "b": "{}", "c": "{}"}}}}"#, shards[0], shards[1], shards[0]);
    let (server, cache) = (sharded(&index, &shards), Scratch::new());
    let snapshot = hub_at(cache.path(), &server).fetch(ID, None).unwrap();
    for shard in shards {
        assert_eq!(fs::read_to_string(snapshot.join(shard)).unwrap(), shard);
    }
    assert_eq!(server.take_log().iter().filter(|seen| seen.at_store).count(), 2, "each shard once");
    fs::remove_file(snapshot.join(shards[1])).unwrap();
    assert_says(&failure(&offline(cache.path()), None), &[shards[1]]);

    let (lacking, cache) = (sharded(&index, &shards[..1]), Scratch::new());
    assert_says(&failure(&hub_at(cache.path(), &lacking), None), &["index.json names", shards[1]]);
}

#[test]
fn hostile_names_write_nothing_outside_the_cache() {
    for shard in ["../../../escaped", "/tmp/escaped", "..\\\\escaped", "a/../../b", ""] {
        let server = sharded(&format!(r#"{{"weight_map": {{"a": "{shard}"}}}}"#), &["../../../escaped"]);
        let outside = Scratch::new();
        let line = failure(&hub_at(&outside.path().join("cache"), &server), None);
        assert_says(&line, &["model.safetensors.index.json", "no file of this folder"]);
        assert_eq!(names(outside.path()), ["cache"]);
    }
    for index in ["[]", "{}", "{\"weight_map\": {\"a\": 1}}", "no JSON"] {
        let line = failure(&hub_at(Scratch::new().path(), &sharded(index, &[])), None);
        assert_says(&line, &["model.safetensors.index.json"]);
    }
    for etag in ["../../../escaped", "..", "/tmp/escaped", "a/b", "a\\b", "", "x.incomplete"] {
        let (server, outside) = (server(), Scratch::new());
        server.state().false_etag = Some(etag.to_owned());
        let line = failure(&hub_at(&outside.path().join("cache"), &server), None);
        assert_says(&line, &["config.json", "ETag"]);
        assert_eq!(names(outside.path()), ["cache"]);
        assert!(!repository(&outside.path().join("cache")).join("blobs").exists());
    }
    let (server, cache) = (HubServer::start(ID), Scratch::new());
    server.add("main", "../../../escaped", "config.json", b"{}", false);
    server.add("main", "../../../escaped", "model.safetensors", b"{}", false);
    assert_says(&failure(&hub_at(cache.path(), &server), None), &["not a commit hash"]);
    assert!(names(cache.path()).is_empty());
}

#[test]
fn ids_and_revisions_are_checked_before_anything_else() {
    let (server, cache) = (server(), Scratch::new());
    let hub = hub_at(cache.path(), &server);
    for id in ["", "a/b/c", "../b", "a/..", "a/", "/a", "a--b/c", "a b", "a/b?x", "a/-b", "~/b", "a\\b"] {
        assert_says(&hub.fetch(id, None).unwrap_err().to_string(), &["not a hub id", "org/name"]);
    }
    for revision in ["", "../x", "a//b", "/a", "a/../b", "a\nb", "a\\b"] {
        assert_says(&failure(&hub, Some(revision)), &["is not a revision"]);
    }
    assert!(server.take_log().is_empty() && names(cache.path()).is_empty());
}

#[test]
fn a_link_out_of_the_cache_is_refused() {
    let (server, cache, outside) = (server(), Scratch::new(), Scratch::new());
    let hub = hub_at(cache.path(), &server);
    let snapshot = hub.fetch(ID, None).unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        let honest = fs::read_link(snapshot.join(file)).unwrap();
        fs::remove_file(snapshot.join(file)).unwrap();
        std::os::unix::fs::symlink(&secret, snapshot.join(file)).unwrap();
        for hub in [&hub, &offline(cache.path())] {
            assert_says(&failure(hub, None), &[file, "out of the hub cache", "secret"]);
        }
        fs::remove_file(snapshot.join(file)).unwrap();
        std::os::unix::fs::symlink(honest, snapshot.join(file)).unwrap();
    }
    assert_eq!(hub.fetch(ID, None).unwrap(), snapshot);
    let blob = repository(cache.path()).join("blobs").join(server.etag(MAIN, "config.json"));
    fs::rename(&blob, outside.path().join("config.json")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("config.json"), &blob).unwrap();
    assert_says(&failure(&hub, None), &["config.json", "out of the hub cache"]);
    fs::rename(outside.path().join("config.json"), &blob).unwrap();

    fs::remove_dir_all(&snapshot).unwrap();
    std::os::unix::fs::symlink(outside.path(), &snapshot).unwrap();
    assert_says(&failure(&hub, None), &["out of the hub cache"]);
    assert_eq!(names(outside.path()), ["secret"]);
}

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

#[test]
fn a_model_is_a_folder_or_an_id_and_else_neither() {
    let (server, cache) = (server(), Scratch::new());
    let hub = hub_at(cache.path(), &server);
    let folder = cache.path().join("models/mine");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.json"), "{}").unwrap();
    let path = folder.to_str().unwrap();
    assert_eq!(hub.locate(path, None).unwrap(), folder);
    assert_says(&hub.locate(path, Some("main")).unwrap_err().to_string(), &[path, "no revisions", "--revision"]);
    assert_says(&hub.locate(&format!("{path}/config.json"), None).unwrap_err().to_string(), &["not a folder"]);
    for neither in [&format!("{path}/gone"), "./gone", "a/b/c", ""] {
        assert_says(&hub.locate(neither, None).unwrap_err().to_string(), &["neither an existing folder nor a hub id"]);
    }
    assert!(server.take_log().is_empty());
    assert!(hub.locate(ID, None).unwrap().ends_with(MAIN));
}

/// Settings under the given variables.
fn settings(variables: &[(&str, &str)]) -> HubSettings {
    let variables: HashMap<_, _> = variables.iter().copied().collect();
    HubSettings::from_lookup(|name| variables.get(name).map(|value| (*value).to_owned()))
}

#[test]
fn the_environment_is_read_by_the_python_librarys_rules() {
    let cache = |variables: &[(&str, &str)]| settings(variables).cache;
    assert_eq!(cache(&[("HOME", "/home/me")]), Path::new("/home/me/.cache/huggingface/hub"));
    assert_eq!(cache(&[("HOME", "/home/me"), ("XDG_CACHE_HOME", "/x")]), Path::new("/x/huggingface/hub"));
    assert_eq!(cache(&[("HOME", "/home/me"), ("HF_HOME", "~/hf")]), Path::new("/home/me/hf/hub"));
    assert_eq!(cache(&[("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/fast")]), Path::new("/fast"));
    assert_eq!(cache(&[("HF_HOME", "/hf"), ("HF_HUB_CACHE", "")]), Path::new("/hf/hub"));

    assert_eq!(settings(&[]).endpoint, "https://huggingface.co");
    assert_eq!(settings(&[("HF_ENDPOINT", "http://127.0.0.1:8080/")]).endpoint, "http://127.0.0.1:8080");
    for (value, offline) in [("1", true), ("true", true), ("YES", true), ("On", true), ("0", false), ("", false), ("no", false)] {
        assert_eq!(settings(&[("HF_HUB_OFFLINE", value)]).offline, offline, "{value:?}");
    }

    let home = Scratch::new();
    let path = home.path().to_str().unwrap();
    assert_eq!(settings(&[("HF_HOME", path)]).token, None);
    fs::write(home.path().join("token"), "hf_file\n").unwrap();
    fs::write(home.path().join("other"), "hf_other").unwrap();
    assert_eq!(settings(&[("HF_HOME", path)]).token.as_deref(), Some("hf_file"));
    assert_eq!(settings(&[("HF_HOME", path), ("HF_TOKEN_PATH", &format!("{path}/other"))]).token.as_deref(), Some("hf_other"));
    assert_eq!(settings(&[("HF_HOME", path), ("HF_TOKEN", " hf_variable ")]).token.as_deref(), Some("hf_variable"));
}

#[test]
fn revisions_are_listed_and_offline_those_of_the_cache() {
    let (server, cache) = (server(), Scratch::new());
    server.add("step8", STEP, "config.json", b"{}", false);
    let hub = hub_at(cache.path(), &server);
    assert_eq!(hub.revisions(ID).unwrap(), ["main", "step8", "a-tag"]);
    assert!(offline(cache.path()).revisions(ID).unwrap().is_empty());
    hub.fetch(ID, None).unwrap();
    assert_eq!(offline(cache.path()).revisions(ID).unwrap(), ["main"]);
    assert!(hub.revisions("org/other").unwrap_err().to_string().contains("list of revisions"));
}

#[test]
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
