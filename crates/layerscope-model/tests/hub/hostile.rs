//! Indexes, names and links that would like to leave the cache.

use std::fs;

use super::*;

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
        assert_says(&line, &["model.safetensors.index.json", "not a file name in this folder"]);
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
#[cfg(unix)]
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
