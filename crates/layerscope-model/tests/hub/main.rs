//! The hub client against a server on loopback that speaks the hub's protocol.

mod access;
mod cache;
mod downloads;
mod hostile;
mod names;
mod scratch;
mod together;

use std::path::{Path, PathBuf};
use std::time::Duration;

use layerscope_model::hub::Hub;
use layerscope_testing::hub_server::HubServer;
use scratch::Scratch;

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
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
