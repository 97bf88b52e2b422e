//! Models, revisions and settings by their names.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use layerscope_model::hub::HubSettings;

use super::*;

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
    for (name, said) in
        [("model.onnx", "an ONNX model; Layerscope reads"), ("x.msgpack", "a Flax checkpoint"), ("x.safetensors", "weights alone")]
    {
        fs::write(folder.join(name), "x").unwrap();
        assert_says(&hub.locate(&format!("{path}/{name}"), None).unwrap_err().to_string(), &[name, said, "folder"]);
    }
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
