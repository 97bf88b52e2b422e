//! Absurd lengths, sizes and numbers: one line, before anything is computed, and never more memory than there is.

mod support;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use support::measure::{command, corpus, end, manifest, measure, measured, model, npy, run, sentences};
use support::{Outcome, copy_of, empty_folder, layerscope, root};

#[track_caller]
fn refused(outcome: &Outcome, status: i32, said: &[&str]) {
    assert_eq!((outcome.status, outcome.stderr.lines().count()), (status, 1), "{:.2000}", outcome.stderr);
    assert!(outcome.stderr.len() < 2000 && !outcome.stderr.contains("internal error"), "{:.2000}", outcome.stderr);
    said.iter().for_each(|part| assert!(outcome.stderr.contains(part), "`{part}` is not in {}", outcome.stderr));
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_line_that_memory_does_not_hold_is_refused_and_can_be_cut() {
    let model = model("bert/base", "limits-line-model");
    let line = "the old house said it was time ".repeat(700_000);
    let text = corpus("limits-line", &["a short one".to_owned(), line]);
    let out = empty_folder("limits-line-out");
    let limited = "--quiet --threads 2 --max-memory 1G --measures norm --tokens none";
    let outcome = measure(&model, &text, &out.join("whole"), limited);
    refused(&outcome, 4, &["line 2", "20.", "MiB are too long a text for the memory there is", "--chunk-chars"]);
    let outcome = measured(&model, &text, &out.join("skipped"), &format!("{limited} --on-error skip"));
    assert!(outcome.stdout.contains("1 document was left out"), "{}", outcome.stdout);
    measured(&model, &text, &out.join("cut"), &format!("{limited} --chunk-chars 2000 --sample 0.5 --limit 200"));
    let peak = manifest(&out.join("cut"))["peak_memory_bytes"].as_f64().expect("a peak");
    println!("a line of 20 MiB, cut: peak {:.0} MiB", peak / 1048576.0);
    assert!(peak < 300.0 * 1048576.0, "{peak}");
    // Not even the line itself.
    refused(&measure(&model, &text, &out.join("small"), "--quiet --max-memory 100M --chunk-chars 2000"), 4, &["line 2", "--max-memory"]);
}

#[test]
fn absurd_settings_are_refused_before_anything_is_measured() {
    let model = model("bert/base", "limits-settings-model");
    let text = corpus("limits-settings", &sentences(30, 4));
    let out = empty_folder("limits-settings-out").join("out");
    for (flags, name) in [
        ("--token-states 1152921504606846976", "--token-states"),
        ("--sample-states 1152921504606846976", "--sample-states"),
        ("--threads 1152921504606846976", "--threads"),
        ("--threads 1000000", "--threads"),
        ("--batch-tokens 1152921504606846976", "--batch-tokens"),
        ("--group cluster:18446744073709551615", "--group"),
        ("--group cluster:20001", "--group"),
    ] {
        refused(&measure(&model, &text, &out, &format!("--quiet {flags}")), 2, &[name]);
        assert!(!out.exists(), "{flags}");
    }
    measured(&model, &text, &out, "--quiet --token-states 4294967295 --frequency 2:1000");
}

#[test]
fn an_import_says_what_memory_it_needs() {
    let file = npy("limits-import", "(20, 10000)", 200_000);
    let out = empty_folder("limits-import-out");
    let import = |out: &Path, flags: &str| {
        let words = ["import", path(&file), "--out", path(out), "--quiet"];
        layerscope(&words.into_iter().chain(flags.split_whitespace()).collect::<Vec<_>>())
    };
    refused(&import(&out.join("refused"), "--max-memory 1G"), 5, &["states.npy", "GiB of memory", "--measures", "--max-memory"]);
    assert!(!out.join("refused").exists());
    assert_eq!(import(&out.join("lean"), "--max-memory 200M --measures norm,cosine").status, 0);
    let peak = manifest(&out.join("lean"))["peak_memory_bytes"].as_f64().expect("a peak");
    assert!(peak < 200.0 * 1048576.0, "{peak}");
}

#[test]
fn figures_of_the_largest_layer_are_drawn() {
    let (file, out) = (npy("limits-layer", "(40, 4)", 160), empty_folder("limits-layer-out"));
    let run = out.join("run");
    let imported = layerscope(&["import", path(&file), "--out", path(&run), "--layer", "4294967295", "--quiet", "--frequency", "1:1000"]);
    assert_eq!(imported.status, 0, "{}", imported.stderr);
    let begin = std::time::Instant::now();
    let outcome = layerscope(&["figures", path(&run), "--out", path(&out.join("figures"))]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(begin.elapsed() < std::time::Duration::from_secs(60));
}

#[test]
fn faults_of_models_exit_with_3() {
    let text = corpus("limits-models", &sentences(30, 4));
    let out = empty_folder("limits-models-out").join("out");
    for (key, value) in [("layer_norm_eps", "-1.0"), ("max_position_embeddings", "1152921504606846976")] {
        let folder = model("bert/base", "limits-model");
        let config = std::fs::read_to_string(folder.join("config.json")).expect("a file");
        let mut config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
        config[key] = serde_json::from_str(value).expect("a number");
        std::fs::write(folder.join("config.json"), config.to_string()).expect("written");
        refused(&measure(&folder, &text, &out, "--quiet"), 3, &["config.json"]);
    }
    // Nothing waits for a pipe, or reads a device without end.
    let folder = copy_of("bert/base", "limits-model-pipe");
    let config = folder.join("config.json");
    std::fs::remove_file(&config).expect("removed");
    std::os::unix::fs::symlink("/dev/zero", &config).expect("a link");
    refused(&layerscope(&["inspect", "--model", path(&folder)]), 3, &["config.json"]);
    std::fs::remove_file(&config).expect("removed");
    let name = std::ffi::CString::new(path(&config)).expect("a name");
    // SAFETY: the name ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    refused(&layerscope(&["inspect", "--model", path(&folder)]), 3, &["config.json"]);
}

#[test]
fn wrong_arguments_are_one_line() {
    for words in [
        &["dance"][..],
        &["measure", "--no-such-flag"],
        &["measure", "--modell", "x"],
        &["inspect"],
        &["merge"],
        &["demo", "--threads", "0"],
        &["serve", "x", "--port", "99999999"],
    ] {
        refused(&layerscope(words), 2, &["--help"]);
    }
    let said = "unexpected argument '--modell' found; tip: a similar argument exists: '--model'; see --help";
    refused(&layerscope(&["measure", "--modell", "x"]), 2, &[said]);
    refused(&layerscope(&["merge"]), 2, &["were not provided: --out <DIR>"]);
    let said = "unexpected argument 'pocket-bert' found (did you mean `--model pocket-bert`?); see --help";
    refused(&layerscope(&["inspect", "pocket-bert"]), 2, &[said]);
    refused(&layerscope(&["inspect", "--model", "x", "y"]), 2, &["unexpected argument 'y' found; see --help"]);
    refused(&layerscope(&["figures", "x", "--out", "y", "--formats", "svg"]), 2, &["unexpected argument '--formats' found; see --help"]);
}

/// Standard error on a full device, and a limit on the size of files.
#[test]
fn full_devices_and_file_limits_are_no_crashes() {
    let model = model("bert/base", "limits-device-model");
    let text = corpus("limits-device", &sentences(400, 4));
    let folder = empty_folder("limits-device-out");
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").expect("a device"));
    for (words, status) in [
        (vec!["inspect".to_owned(), "--model".to_owned(), "/no/such/model".to_owned()], 3),
        (command(&model, &text, &folder.join("run"), ""), 0),
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_layerscope"));
        child.args(&words).stderr(full()).stdout(Stdio::null()).current_dir(root());
        let outcome = child.status().expect("an end");
        assert_eq!(outcome.code(), Some(status), "{words:?}");
    }
    let words = command(&model, &text, &folder.join("limited"), "--quiet --threads 1");
    let limited = Command::new("sh")
        .arg("-c")
        .arg("ulimit -f 20; exec \"$0\" \"$@\"")
        .arg(env!("CARGO_BIN_EXE_layerscope"))
        .args(&words)
        .current_dir(root())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    refused(&end(limited), 1, &["limited", "File too large"]);
    assert_eq!(run(&words).status, 0, "and it goes on");
}

#[test]
fn a_folder_may_have_any_name() {
    let file = npy("limits-name", "(40, 4)", 160);
    let folder = empty_folder("limits-name-out");
    let out = folder.join(std::ffi::OsStr::from_bytes(b"run-\xff\xfe"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_layerscope"));
    command.args(["import", path(&file), "--quiet", "--out"]).arg(&out).stdout(Stdio::piped()).stderr(Stdio::piped());
    let outcome = command.output().expect("an end");
    assert_eq!(outcome.status.code(), Some(0), "{}", String::from_utf8_lossy(&outcome.stderr));
    let mut command = Command::new(env!("CARGO_BIN_EXE_layerscope"));
    let outcome = command.arg("show").arg(&out).output().expect("an end");
    assert_eq!(outcome.status.code(), Some(0), "{}", String::from_utf8_lossy(&outcome.stderr));
    // A model's run too, or one line that says why not.
    let model = model("bert/base", "limits-name-model");
    let text = corpus("limits-name-text", &sentences(30, 4));
    let mut command = Command::new(env!("CARGO_BIN_EXE_layerscope"));
    command
        .args(["measure", "--quiet", "--model", path(&model), "--corpus", path(&text), "--out"])
        .arg(folder.join(std::ffi::OsStr::from_bytes(b"m-\xff")));
    let outcome = command.output().expect("an end");
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.code() == Some(0) || (outcome.status.code() == Some(2) && said.lines().count() == 1), "{said}");
}
