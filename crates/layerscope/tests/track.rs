//! Trajectories over the checkpoints of a training.

mod support;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use layerscope_report::export::parquet;
use layerscope_report::manifest::Status;
use layerscope_report::{Cell, Manifest, Run, Table};
use layerscope_testing::hub_server::HubServer;
use support::storage::{held_at, release_with};
use support::{Outcome, empty_folder, layerscope, layerscope_with, root};

const CORPUS: &str = "pocket/corpus/sample.txt.gz";

/// The arguments of a small trajectory.
fn arguments<'a>(model: &'a str, revisions: &'a str, out: &'a Path) -> Vec<&'a str> {
    let out = out.to_str().expect("UTF-8");
    vec!["track", "--model", model, "--revisions", revisions, "--corpus", CORPUS, "--limit", "150", "--quiet", "--out", out]
}

fn tracked(model: &str, revisions: &str, out: &Path) -> Outcome {
    layerscope(&arguments(model, revisions, out))
}

/// A folder of checkpoints: (name of the copy, what it is a copy of), with the tokenizer in the parent.
fn training(name: &str, checkpoints: &[(&str, &str)]) -> PathBuf {
    let folder = empty_folder(name);
    for (copy, original) in checkpoints {
        let original = root().join("pocket").join(original);
        std::fs::create_dir(folder.join(copy)).expect("a folder");
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(original.join(file), folder.join(copy).join(file)).expect("a checkpoint");
        }
        std::fs::copy(original.join("tokenizer.json"), folder.join("tokenizer.json")).expect("a tokenizer");
        std::fs::copy(original.join("tokenizer_config.json"), folder.join("tokenizer_config.json")).expect("a tokenizer");
    }
    folder
}

/// The rows of a table without what tells the trajectory apart from a single run.
fn bare(table: &Table, keep: impl Fn(usize) -> bool) -> Vec<String> {
    let table = table.without(&["model", "revision", "step"]);
    (0..table.rows()).filter(|row| keep(*row)).map(|row| format!("{:?}", table.row(row).collect::<Vec<_>>())).collect()
}

fn cell<'a>(table: &'a Table, name: &str, row: usize) -> Cell<'a> {
    table.column(name).expect("a column").cell(row)
}

fn statuses(manifest: &Manifest) -> Vec<(String, String)> {
    let status = |status: &Status| serde_json::to_value(status).expect("a word").as_str().unwrap_or_default().to_owned();
    manifest.checkpoints().iter().map(|checkpoint| (checkpoint.revision.clone(), status(&checkpoint.status))).collect()
}

#[test]
fn its_values_are_those_of_separate_runs() {
    let out = empty_folder("track-whole");
    let outcome = tracked("pocket/pocket-pythia", "step512,step8,step32", &out);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let whole = Run::open(&out).expect("a trajectory");
    assert_eq!(whole.model(), "pocket-pythia");
    let expected = ["step8", "step32", "step512"].map(|name| (name.to_owned(), "measured".to_owned()));
    assert_eq!(statuses(&whole.manifest), expected, "sorted by number");
    assert!(!out.join(".work").exists());
    let norms = whole.norms.as_ref().expect("norms");
    for (revision, step) in [("step8", 8), ("step32", 32), ("step512", 512)] {
        let single = empty_folder(&format!("track-single-{revision}"));
        let model = format!("pocket/pocket-pythia/{revision}");
        let corpus =
            ["measure", "--model", &model, "--corpus", CORPUS, "--limit", "150", "--quiet", "--out", single.to_str().expect("UTF-8")];
        let outcome = layerscope(&corpus);
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        let single = Run::open(&single).expect("a run");
        let is_step = |table: &Table, row: usize| {
            cell(table, "step", row) == Cell::Integer(step) && cell(table, "revision", row) == Cell::Text(revision)
        };
        let with_states = |row: usize| is_step(&whole.layers, row) && cell(&whole.layers, "layer", row) != Cell::Null;
        assert_eq!(bare(&whole.layers, with_states), bare(&single.layers, |_| true), "{revision}");
        assert_eq!(bare(norms, |row| is_step(norms, row)), bare(single.norms.as_ref().expect("norms"), |_| true), "{revision}");
        let own = Run::open(&out.join("steps").join(revision)).expect("a complete run of its own");
        assert_eq!(own.groups, single.groups);
        assert_eq!(own.components, single.components);
        // The embedding matrices, as `weights` has them.
        let matrices = empty_folder("track-matrices");
        assert_eq!(layerscope(&["weights", "--model", &model, "--out", matrices.to_str().expect("UTF-8")]).status, 0);
        let matrices = parquet::read(&matrices.join("layers.parquet")).expect("a table");
        let of_matrices = |row: usize| is_step(&whole.layers, row) && cell(&whole.layers, "layer", row) == Cell::Null;
        assert!(matrices.rows() > 4);
        assert_eq!(bare(&whole.layers, of_matrices), bare(&matrices, |_| true), "{revision}");
    }
    let again = tracked("pocket/pocket-pythia", "step512,step8,step32", &out);
    assert_eq!(again.status, 0, "a finished trajectory says so: {}", again.stderr);
    assert_eq!(Run::open(&out).expect("still there").layers, whole.layers);
}

/// The bytes of all tables of a trajectory.
fn tables(out: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![out.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|extension| extension == "parquet") => {
                    found.push((path.strip_prefix(out).expect("inside").display().to_string(), std::fs::read(&path).expect("readable")));
                }
                false => {}
            }
        }
    }
    found.sort();
    found
}

#[test]
fn killed_and_resumed_it_is_the_same_to_the_bit() {
    let (whole, cut) = (empty_folder("track-uncut"), empty_folder("track-cut"));
    assert_eq!(tracked("pocket/pocket-pythia", "step0,step128,step16384", &whole).status, 0);
    let arguments =
        [arguments("pocket/pocket-pythia", "step0,step128,step16384", &cut), vec!["--checkpoint-seconds", "0", "--threads", "1"]].concat();
    let mut child = held_at("steps/step128/.work/checkpoint-*", &cut, &arguments, Stdio::null());
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert!(!cut.join("manifest.json").exists(), "it was killed before its end");
    assert!(cut.join("steps/step0/manifest.json").exists() && !cut.join("steps/step128/manifest.json").exists());
    let outcome = layerscope(&arguments);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let (whole, cut) = (tables(&whole), tables(&cut));
    assert_eq!(whole.iter().map(|(name, _)| name).collect::<Vec<_>>(), cut.iter().map(|(name, _)| name).collect::<Vec<_>>());
    assert!(whole.len() > 15 && whole == cut);
}

#[test]
fn missing_and_broken_checkpoints_are_left_out_and_said() {
    let folder = training(
        "track-broken-model",
        &[("step1", "pocket-pythia/step8"), ("step2", "pocket-pythia/step32"), ("step10", "pocket-pythia/step128")],
    );
    let weights = folder.join("step2/model.safetensors");
    let bytes = std::fs::read(&weights).expect("weights");
    std::fs::write(&weights, &bytes[..bytes.len() / 2]).expect("cut short");
    let out = empty_folder("track-broken");
    let outcome = tracked(folder.to_str().expect("UTF-8"), "step*,step7", &out);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let run = Run::open(&out).expect("a trajectory");
    let expected = [("step1", "measured"), ("step2", "broken"), ("step7", "missing"), ("step10", "measured")];
    assert_eq!(statuses(&run.manifest), expected.map(|(name, status)| (name.to_owned(), status.to_owned())));
    let reason = run.manifest.checkpoints()[1].reason.as_deref().expect("a reason");
    assert!(reason.contains("model.safetensors"), "{reason}");
    assert!(outcome.stdout.contains("step2 is broken") && outcome.stdout.contains("step7 is missing"), "{}", outcome.stdout);
    let steps: Vec<Cell<'_>> = (0..run.layers.rows()).map(|row| cell(&run.layers, "step", row)).collect();
    assert!(steps.contains(&Cell::Integer(1)) && steps.contains(&Cell::Integer(10)) && !steps.contains(&Cell::Integer(2)));
    // Mended, the same command completes it.
    std::fs::write(&weights, bytes).expect("mended");
    assert_eq!(tracked(folder.to_str().expect("UTF-8"), "step*", &out).status, 0);
    assert!(statuses(&Run::open(&out).expect("a trajectory").manifest).iter().all(|(_, status)| status == "measured"));
}

#[test]
fn a_checkpoint_that_disappears_in_mid_run_is_missing() {
    let folder = training("track-gone-model", &[("step1", "pocket-pythia/step8"), ("step2", "pocket-pythia/step32")]);
    let out = empty_folder("track-gone");
    let model = folder.to_str().expect("UTF-8").to_owned();
    let child = held_at("steps/step1/.work/plan.json", &out, &arguments(&model, "step*", &out), Stdio::null());
    std::fs::remove_dir_all(folder.join("step2")).expect("removed");
    release_with(&child, libc::SIGCONT);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = Run::open(&out).expect("a trajectory");
    assert_eq!(
        statuses(&run.manifest),
        [("step1", "measured"), ("step2", "missing")].map(|(name, status)| (name.to_owned(), status.to_owned()))
    );
}

#[test]
fn strangers_and_globs_that_match_nothing_are_refused() {
    let folder = training("track-strange-model", &[("step1", "pocket-pythia/step8"), ("step2", "pocket-gpt")]);
    let out = empty_folder("track-strange");
    let outcome = tracked(folder.to_str().expect("UTF-8"), "step*", &out);
    assert_eq!(outcome.status, 5, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("step2 is not of the same model as step1: its family"), "{}", outcome.stderr);
    assert!(!out.join("steps").exists(), "nothing was measured");
    let folder = training("track-other-tokens", &[("step1", "pocket-gpt"), ("step2", "pocket-char")]);
    let outcome = tracked(folder.to_str().expect("UTF-8"), "step*", &out);
    assert_eq!(outcome.status, 5, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("step2 is not of the same model as step1: its vocabulary is 257, not 4096"), "{}", outcome.stderr);
    let outcome = tracked("pocket/pocket-pythia", "epoch*", &out);
    assert_eq!(outcome.status, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("`epoch*` matches none"), "{}", outcome.stderr);
    let outcome = tracked("pocket/pocket-pythia", "step1,step2", &out);
    assert_eq!(outcome.status, 5, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("none of the 2 checkpoints"), "{}", outcome.stderr);
}

#[test]
fn the_memory_of_a_trajectory_is_estimated_once() {
    let out = empty_folder("track-estimate");
    let steps = "step0,step8,step32,step128";
    let loud: Vec<&str> = arguments("pocket/pocket-pythia", steps, &out).into_iter().filter(|argument| *argument != "--quiet").collect();
    let outcome = layerscope(&loud);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stderr.matches("memory estimate").count(), 1, "{}", outcome.stderr);
    assert_eq!(outcome.stderr.matches("checkpoint ").count(), 4, "{}", outcome.stderr);
}

#[test]
fn one_tokenizer_serves_all() {
    let folder = training("track-tokenizer-model", &[("step1", "pocket-pythia/step8"), ("step2", "pocket-pythia/step32")]);
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::rename(folder.join(file), folder.join("step2").join(file)).expect("moved");
    }
    let out = empty_folder("track-tokenizer");
    let outcome = tracked(folder.to_str().expect("UTF-8"), "step*", &out);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(statuses(&Run::open(&out).expect("a trajectory").manifest).iter().all(|(_, status)| status == "measured"));
}

#[test]
fn weights_over_checkpoints_have_the_rows_of_each() {
    let out = empty_folder("track-weights");
    let steps = "step0,step32,step512,step16384";
    let outcome = layerscope(&["weights", "--model", "pocket/pocket-pythia", "--revisions", steps, "--out", out.to_str().expect("UTF-8")]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let [layers, norms, projections] =
        ["layers", "norms", "projections"].map(|name| parquet::read(&out.join(format!("{name}.parquet"))).expect("a table"));
    assert_eq!(projections.rows(), 4 * 2 * 4096, "every token of both matrices at every step");
    for (revision, step) in [("step0", 0), ("step32", 32), ("step512", 512), ("step16384", 16384)] {
        let single = empty_folder("track-weights-single");
        let model = format!("pocket/pocket-pythia/{revision}");
        assert_eq!(layerscope(&["weights", "--model", &model, "--out", single.to_str().expect("UTF-8")]).status, 0);
        for (table, name) in [(&layers, "layers.parquet"), (&norms, "norms.parquet"), (&projections, "projections.parquet")] {
            let single = parquet::read(&single.join(name)).expect("a table");
            assert_eq!(bare(table, |row| cell(table, "step", row) == Cell::Integer(step)), bare(&single, |_| true), "{revision} {name}");
        }
    }
}

#[test]
fn the_final_norm_is_shown_as_a_difference() {
    let out = empty_folder("track-final-norm");
    assert_eq!(tracked("pocket/pocket-pythia", "step0,step512", &out).status, 0);
    let shown = layerscope(&["show", out.to_str().expect("UTF-8"), "--table", "final-norm", "--format", "json"]);
    assert_eq!(shown.status, 0, "{}", shown.stderr);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&shown.stdout).expect("JSON");
    let layers = Run::open(&out).expect("a trajectory").layers;
    let value = |point: &str, step: i64, measure: &str| {
        let wanted = |row: &usize| {
            cell(&layers, "point", *row) == Cell::Text(point)
                && cell(&layers, "layer", *row) == Cell::Integer(6)
                && cell(&layers, "step", *row) == Cell::Integer(step)
                && cell(&layers, "selection", *row) == Cell::Text("all")
                && cell(&layers, "measure", *row) == Cell::Text(measure)
                && cell(&layers, "variant", *row) == Cell::Null
        };
        match (0..layers.rows()).find(wanted).map(|row| cell(&layers, "value", row)) {
            Some(Cell::Real(value)) => value,
            other => panic!("{other:?}"),
        }
    };
    for step in [0, 512] {
        for measure in ["mean_cosine", "q", "m_over_q"] {
            let row = rows
                .iter()
                .find(|row| row["step"] == step && row["measure"] == measure && row["selection"] == "all" && row["variant"].is_null());
            let row = row.unwrap_or_else(|| panic!("{measure} of step {step}"));
            let (before, after) = (value("block", step, measure), value("final_norm", step, measure));
            assert_eq!(
                (row["before"].as_f64(), row["after"].as_f64(), row["difference"].as_f64()),
                (Some(before), Some(after), Some(after - before))
            );
        }
    }
}

#[test]
fn hub_revisions_are_fetched_measured_and_evicted_one_by_one() {
    let server = HubServer::start("org/tiny");
    for (revision, commit) in [("step8", '1'), ("step32", '2')] {
        let commit = commit.to_string().repeat(40);
        for file in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
            let bytes = std::fs::read(root().join("pocket/pocket-pythia").join(revision).join(file)).expect("a checkpoint");
            server.add(revision, &commit, file, &bytes, file == "model.safetensors");
        }
    }
    server.add("step99", &"3".repeat(40), "README.md", b"no checkpoint", false);
    let (out, cache, local) = (empty_folder("track-hub"), empty_folder("track-hub-cache"), empty_folder("track-hub-local"));
    let variables = [("HF_ENDPOINT", server.endpoint()), ("HF_HUB_CACHE", cache.to_str().expect("UTF-8")), ("NO_PROXY", "127.0.0.1")];
    let command = [arguments("org/tiny", "step*,step7", &out), vec!["--evict"]].concat();
    let outcome = layerscope_with(&command, &variables);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let run = Run::open(&out).expect("a trajectory");
    let expected = [("step7", "missing"), ("step8", "measured"), ("step32", "measured"), ("step99", "broken")];
    assert_eq!(statuses(&run.manifest), expected.map(|(name, status)| (name.to_owned(), status.to_owned())));
    let left = |folder: &str| std::fs::read_dir(cache.join("models--org--tiny").join(folder)).expect("a folder").count();
    assert_eq!((left("snapshots"), left("blobs")), (0, 0), "every checkpoint was removed");
    assert_eq!(tracked("pocket/pocket-pythia", "step8,step32", &local).status, 0);
    assert_eq!(bare(&run.layers, |_| true), bare(&Run::open(&local).expect("a trajectory").layers, |_| true));

    // What was measured is not fetched again.
    server.take_log();
    assert_eq!(layerscope_with(&command, &variables).status, 0);
    let fetched: Vec<String> = server.take_log().into_iter().map(|seen| seen.path).filter(|path| path.contains("/resolve/")).collect();
    assert!(fetched.is_empty(), "{fetched:?}");
}
