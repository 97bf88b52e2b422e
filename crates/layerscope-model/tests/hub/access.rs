//! Private and gated models.

use std::fs;

use layerscope_model::hub::Hub;

use super::*;

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
fn a_gated_model_asks_for_its_licence() {
    let (server, cache) = (server(), Scratch::new());
    server.state().gated = true;
    assert_says(&failure(&hub_at(cache.path(), &server), None), &["config.json", "403", "accept its licence", "HF_TOKEN"]);
    assert!(!repository(cache.path()).join("refs/main").exists(), "a revision without its files");
}
