//! Manifests that the program wrote are read and written again to the byte.

use std::path::Path;

use layerscope_report::Manifest;
use layerscope_report::manifest::{Frequency, Status};
use serde_json::{Value, json};

/// One of each kind, written by version 0.1.0: `layerscope measure`, `measure --group none`, `weights`, `weights --revisions` and `track`.
const KINDS: [&str; 5] = ["measured", "ungrouped", "weights", "weights_of_steps", "trajectory"];

fn stored(kind: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/manifests/{kind}.json"))).unwrap()
}

fn read(kind: &str) -> Manifest {
    serde_json::from_slice(&stored(kind)).unwrap()
}

#[test]
fn every_kind_keeps_its_bytes() {
    for kind in KINDS {
        let manifest = read(kind);
        assert!(manifest.other.is_empty() && manifest.model.other.is_empty(), "{kind}: every key has its field");
        let written = serde_json::to_vec_pretty(&manifest).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), String::from_utf8(stored(kind)).unwrap(), "{kind}");
        // The page gets the same.
        assert_eq!(json!(manifest).to_string(), serde_json::from_slice::<Value>(&stored(kind)).unwrap().to_string(), "{kind}");
    }
}

#[test]
fn facts_are_read() {
    let measured = read("measured");
    assert_eq!((measured.model_name(), measured.model.layers, measured.grouping()), ("pocket-char", Some(6), "token"));
    assert_eq!(measured.frequency(), Some(Frequency { minimum: 2, maximum: 1000 }));
    assert_eq!((measured.setting("limit"), measured.setting("window"), measured.setting("none")), (Some(&json!("3")), None, None));
    assert!(!measured.is_trajectory() && !measured.is_weights_only() && measured.warnings().is_empty());
    assert!(measured.identities.unwrap().iter().all(|identity| identity.residual.unwrap() < 1e-12));
    assert_eq!(read("ungrouped").frequency, Some(None), "null, and not absent");
    assert!(read("weights").is_weights_only() && !read("weights").is_trajectory());
    assert!(read("weights_of_steps").is_weights_only() && read("weights_of_steps").is_trajectory());
    let trajectory = read("trajectory");
    let statuses: Vec<(&str, &Status)> = trajectory.checkpoints().iter().map(|one| (one.revision.as_str(), &one.status)).collect();
    assert_eq!(statuses, [("step0", &Status::Measured), ("step32", &Status::Measured), ("step77", &Status::Missing)]);
    assert_eq!(trajectory.checkpoints()[2].fingerprint, Some(None));
}

#[test]
fn a_trajectory_begins_with_what_its_checkpoints_share() {
    let measured = read("measured");
    let begun = measured.begin_trajectory(vec!["layerscope".into()]);
    assert_eq!((begun.corpus, begun.settings, begun.host), (measured.corpus, measured.settings, measured.host));
    assert_eq!((begun.identities, begun.notes, begun.peak_memory_bytes, begun.model.fingerprint), (None, None, None, None));
}

#[test]
fn little_is_enough_and_more_is_kept() {
    let bare: Manifest = serde_json::from_str("{}").unwrap();
    assert_eq!((bare.model_name(), serde_json::to_string(&bare).unwrap()), ("model", "{}".to_owned()));
    let newer = json!({
        "format": 2, "model": {"name": "tiny", "revision": null, "fingerprint": null, "altered": null, "experts": 8},
        "corpus": {"states": 3, "languages": ["en"]},
        "trajectory": [{"revision": "a", "step": null, "status": "postponed", "reason": null, "loss": 2.5}], "digests": {"layers.parquet": "00"},
    });
    let manifest: Manifest = serde_json::from_value(newer.clone()).unwrap();
    assert_eq!(manifest.trajectory.as_ref().unwrap()[0].status, Status::Other("postponed".into()));
    assert_eq!(json!(manifest), newer);
}
