//! Runs that give back disk space: what stays is what it was, and what is gone is said.

use std::path::Path;

use half::f16;
use layerscope::internals::StateFile;
use layerscope_report::{Manifest, verify_tables};
use layerscope_stats::sketch::Values;

use crate::support::measure::{differing, measured};
use crate::support::{empty_folder, layerscope};
use crate::{FLAGS, copy, finished, path, refused, said, shown};

fn size(folder: &Path) -> u64 {
    std::fs::read_dir(folder).expect("a run").map(|entry| entry.expect("a file").metadata().expect("a file").len()).sum()
}

#[test]
fn a_pruned_run_has_its_tables_and_says_what_is_gone() {
    let (model, corpus, out) = finished();
    let folder = copy(out, "integrity-pruned");
    let (before, tables) = (size(&folder), shown(&folder).expect("tables"));
    assert!(said(&["prune", path(&folder), "--keep", "merge"]).contains("nothing to free"));
    assert!(said(&["prune", path(&folder), "--keep", "all"]).contains("nothing to free"));
    assert_eq!(size(&folder), before);
    // Killed on its way: the state is without numbers, and the manifest still names the one that had them.
    let line = said(&["prune", path(&folder), "--keep", "tables"]);
    assert!(line.contains("freed") && line.contains("states; merge, --frequency and --table identities need them"), "{line}");
    std::fs::copy(out.join("manifest.json"), folder.join("manifest.json")).expect("copied");
    std::fs::copy(out.join("sample.safetensors"), folder.join("sample.safetensors")).expect("copied");
    assert_eq!(measured(model, corpus, &folder, FLAGS).status, 0);
    assert!(said(&["prune", path(&folder), "--keep", "tables"]).contains("freed"));
    assert!(said(&["prune", path(&folder), "--keep", "tables"]).contains("nothing to free"));
    assert!(!folder.join("sample.safetensors").exists() && !folder.join(".work").exists());
    assert!(size(&folder) < before / 2, "{} of {before}", size(&folder));
    // What is left is a finished run.
    let manifest = Manifest::read(&folder).expect("a manifest");
    assert_eq!(manifest.pruned.as_deref(), Some("tables"));
    verify_tables(&folder, &manifest).expect("whole");
    assert_eq!(shown(&folder).expect("tables")[1..], tables[1..]);
    assert_eq!(differing_tables(&folder, out), Vec::<String>::new());
    let page = empty_folder("integrity-pruned-page");
    said(&["show", path(&folder)]);
    said(&["compare", path(&folder), path(out)]);
    said(&["figures", path(&folder), "--only", "fig2", "--out", path(&page)]);
    said(&["report", path(&folder), "--out", path(&page.join("page.html"))]);
    let again = measured(model, corpus, &folder, &FLAGS.replace("--quiet ", ""));
    assert!(again.stderr.contains("is complete; to measure it again, give --overwrite"), "{}", again.stderr);
    let line = "its states were pruned and only its tables are left; measure again with --overwrite";
    refused(&layerscope(&["show", path(&folder), "--table", "identities"]), 5, &[line]);
    refused(&layerscope(&["show", path(&folder), "--frequency", "3:9"]), 5, &[line]);
    refused(&layerscope(&["merge", path(&folder), "--out", path(&page.join("merged")), "--quiet"]), 5, &[line]);
    refused(&layerscope(&["prune", path(&folder), "--keep", "some"]), 2, &["--keep `some` is not understood; give tables, merge or all"]);
    refused(&layerscope(&["prune", path(&page), "--keep", "tables"]), 5, &["no finished run here"]);
    // A new measurement has everything again.
    measured(model, corpus, &folder, &format!("{FLAGS} --overwrite"));
    assert_eq!(differing(&folder, out), None);
}

/// The tables of two runs that are not the same bytes.
fn differing_tables(one: &Path, other: &Path) -> Vec<String> {
    let names = ["layers", "groups", "components", "spectra", "tokens", "token_components", "norms"];
    let bytes = |folder: &Path, name: &str| std::fs::read(folder.join(format!("{name}.parquet"))).expect("a table");
    names.into_iter().filter(|name| bytes(one, name) != bytes(other, name)).map(str::to_owned).collect()
}

/// The kept states of all points, one after the other.
fn states_of(run: &Path) -> Vec<f32> {
    let sample = StateFile::open(&run.join("sample.safetensors")).expect("a sample");
    let states = |point: &str| match sample.read(point).expect("whole").0.remove("kept").expect("kept states").values {
        Values::F32(values) => values.into_owned(),
        other => panic!("{other:?}"),
    };
    sample.names().filter_map(|name| name.strip_suffix(".kept")).flat_map(states).collect()
}

#[test]
fn kept_states_are_packed_and_rounded_on_request() {
    let (model, corpus, out) = finished();
    let folder = copy(out, "integrity-kept-as");
    let sample = || std::fs::read(folder.join("sample.safetensors")).expect("a sample");
    let (plain, identities) = (sample(), || said(&["show", path(&folder), "--table", "identities"]));
    let expected = identities();
    let prune = |how: &str| said(&["prune", path(&folder), "--states", how]);
    assert!(prune("plain").contains("nothing to free"));
    let line = prune("packed");
    assert!(line.contains("freed") && line.contains("kept states are packed now, without loss"), "{line}");
    assert!(prune("packed").contains("nothing to free"));
    assert!(sample().len() < plain.len() * 95 / 100, "{} of {}", sample().len(), plain.len());
    assert_eq!(identities(), expected, "all that is made of states is the same");
    assert_eq!(differing_tables(&folder, out), Vec::<String>::new());
    let line = prune("plain");
    assert!(line.contains("kept states take") && line.contains("open with any safetensors reader"), "{line}");
    assert_eq!(sample(), plain, "to the byte");
    // Rounded: said in the manifest, also of what is merged from it.
    let line = prune("f16");
    assert!(line.contains("freed") && line.contains("kept states are rounded to f16 now; the tables stay as they were"), "{line}");
    assert!(prune("f16").contains("nothing to free"));
    assert!(sample().len() < plain.len() * 6 / 10, "{} of {}", sample().len(), plain.len());
    assert_eq!(Manifest::read(&folder).expect("a manifest").kept_states.as_deref(), Some("f16"));
    assert_eq!(differing_tables(&folder, out), Vec::<String>::new());
    let (rounded, exact) = (states_of(&folder), states_of(out));
    assert_eq!(rounded, exact.iter().map(|value| f16::from_f32(*value).to_f32()).collect::<Vec<_>>());
    assert_ne!(rounded, exact);
    let merged = empty_folder("integrity-kept-as-merged");
    said(&["merge", path(&folder), "--out", path(&merged), "--quiet"]);
    assert_eq!(Manifest::read(&merged).expect("a manifest").kept_states.as_deref(), Some("f16"));
    // Killed before the manifest: the same command says it.
    std::fs::copy(out.join("manifest.json"), folder.join("manifest.json")).expect("copied");
    prune("f16");
    assert_eq!(Manifest::read(&folder).expect("a manifest").kept_states.as_deref(), Some("f16"));
    refused(&layerscope(&["prune", path(&folder), "--states", "f8"]), 2, &["--states `f8` is not understood; give plain, packed or f16"]);
    refused(&layerscope(&["prune", path(&folder), "--states", "f16", "--keep", "tables"]), 2, &["--keep tables keeps none"]);
    measured(model, corpus, &folder, &format!("{FLAGS} --overwrite"));
    assert_eq!(differing(&folder, out), None);
}
