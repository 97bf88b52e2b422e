//! Every file of a run is bound to it: what is damaged or of another run is refused by name, and never shown.

mod support;

mod integrity {
    mod pruned;
}

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use layerscope_report::manifest::FileDigest;
use layerscope_report::{Manifest, Run, verify_tables};
use support::measure::{corpus, differing, manifest, measure, measured, model, run, sentences, without_digests};
use support::{Outcome, empty_folder, layerscope};

const FLAGS: &str = "--quiet --measures all --frequency 2:1000 --token-states 20 --threads 1";

/// A model, a text and a finished run of them, with every table.
fn finished() -> &'static (PathBuf, PathBuf, PathBuf) {
    static RUN: OnceLock<(PathBuf, PathBuf, PathBuf)> = OnceLock::new();
    RUN.get_or_init(|| {
        let (model, corpus) = (model("bert/base", "integrity-model"), corpus("integrity-text", &sentences(80, 7)));
        let out = empty_folder("integrity").join("run");
        measured(&model, &corpus, &out, FLAGS);
        (model, corpus, out)
    })
}

/// A copy of a run to spoil.
fn copy(run: &Path, name: &str) -> PathBuf {
    let folder = empty_folder(name);
    for entry in std::fs::read_dir(run).expect("a run") {
        let path = entry.expect("a file").path();
        std::fs::copy(&path, folder.join(path.file_name().expect("a name"))).expect("copied");
    }
    folder
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// One line with all these parts.
#[track_caller]
fn refused(outcome: &Outcome, status: i32, said: &[&str]) {
    assert_eq!((outcome.status, outcome.stderr.lines().count()), (status, 1), "{}", outcome.stderr);
    said.iter().for_each(|part| assert!(outcome.stderr.contains(part), "`{part}` is not in {}", outcome.stderr));
}

/// Everything that a run shows, or why it shows nothing.
fn shown(folder: &Path) -> Result<Vec<String>, String> {
    let run = Run::open(folder).map_err(|error| error.to_string())?;
    let more = ["massive", "token_components"].map(|name| run.read_table(name));
    let mut shown = vec![format!("{:?}", run)];
    for table in more {
        shown.push(format!("{:?}", table.map_err(|error| error.to_string())?));
    }
    Ok(shown)
}

#[test]
fn a_flipped_bit_of_a_table_is_never_shown() {
    let (_, _, out) = finished();
    let folder = copy(out, "integrity-flips");
    let tables: Vec<String> = Manifest::read(out).expect("a manifest").files.expect("digests").into_keys().collect();
    assert!(tables.len() >= 7, "{tables:?}");
    assert!(shown(&folder).is_ok());
    let mut flips = 0;
    for name in &tables {
        let (file, whole) = (folder.join(name), std::fs::read(out.join(name)).expect("a table"));
        for place in 0..60 {
            let mut bytes = whole.clone();
            let at = place * whole.len() / 60;
            bytes[at] ^= 1 << (place % 8);
            std::fs::write(&file, bytes).expect("written");
            let said = shown(&folder).expect_err("damaged");
            assert!(said.contains(name.as_str()) && said.contains("does not match its digest") && !said.contains('\n'), "{said}");
            flips += 1;
        }
        std::fs::write(&file, whole).expect("written");
    }
    assert!(shown(&folder).is_ok());
    println!("{flips} flips, all noticed");
}

#[test]
fn every_command_refuses_damaged_tables_and_those_of_other_runs() {
    let (model, corpus, out) = finished();
    let other = empty_folder("integrity-other").join("run");
    measured(model, corpus, &other, &format!("{FLAGS} --skip-first 2"));
    let folder = copy(out, "integrity-commands");
    let page = empty_folder("integrity-page");
    for name in ["layers.parquet", "groups.parquet"] {
        let whole = std::fs::read(out.join(name)).expect("a table");
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        for bytes in [flipped, std::fs::read(other.join(name)).expect("a table")] {
            std::fs::write(folder.join(name), bytes).expect("written");
            for words in [
                &["show", path(&folder)][..],
                &["show", path(&folder), "--table", "groups"],
                &["figures", path(&folder), "--out", path(&page)],
                &["report", path(&folder), "--out", path(&page.join("page.html"))],
                &["serve", path(&folder), "--port", "0"],
                &["compare", path(out), path(&folder)],
            ] {
                let said = format!("{name}: damaged, or of another run");
                refused(&layerscope(words), 1, &[&said, "give the command of the run again"]);
            }
        }
        std::fs::write(folder.join(name), whole).expect("written");
    }
    // A state of another run is no state of these tables.
    std::fs::copy(other.join("state.safetensors"), folder.join("state.safetensors")).expect("copied");
    std::fs::copy(other.join("sample.safetensors"), folder.join("sample.safetensors")).expect("copied");
    refused(&layerscope(&["show", path(&folder), "--table", "identities"]), 5, &["state.safetensors", "another run than manifest.json"]);
    // A table that the run does not have is not taken from a file that happens to lie there.
    let lean = empty_folder("integrity-lean").join("run");
    measured(model, corpus, &lean, "--quiet --measures norm --tokens none");
    std::fs::copy(out.join("tokens.parquet"), lean.join("tokens.parquet")).expect("copied");
    assert!(Run::open(&lean).expect("a run").tokens.is_none());
}

#[test]
fn the_command_of_a_run_makes_damaged_tables_again() {
    let (model, corpus, out) = finished();
    let folder = copy(out, "integrity-repair");
    for name in ["layers.parquet", "manifest.json"] {
        let mut bytes = std::fs::read(folder.join(name)).expect("a file");
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        std::fs::write(folder.join(name), bytes).expect("written");
        let outcome = measured(model, corpus, &folder, FLAGS);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("warning") && outcome.stderr.contains(name), "{}", outcome.stderr);
        assert_eq!(differing(&folder, out), None);
        verify_tables(&folder, &Manifest::read(&folder).expect("a manifest")).expect("whole");
    }
    std::fs::remove_file(folder.join("groups.parquet")).expect("removed");
    refused(&layerscope(&["show", path(&folder)]), 1, &["groups.parquet"]);
    measured(model, corpus, &folder, FLAGS);
    assert_eq!(differing(&folder, out), None);
}

#[test]
fn a_changed_manifest_is_noticed_and_one_without_digests_is_read() {
    let (_, _, out) = finished();
    let folder = copy(out, "integrity-manifest");
    let (file, whole) = (folder.join("manifest.json"), std::fs::read(out.join("manifest.json")).expect("a manifest"));
    let read = Manifest::read(out).expect("a manifest");
    // Some of all bytes, and the name of the seal: it comes last.
    for place in (0..whole.len()).step_by(97).chain(whole.len() - 90..whole.len()) {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        std::fs::write(&file, bytes).expect("written");
        // Another kind of white space says the same.
        assert!(Manifest::read(&folder).is_err() || Manifest::read(&folder).expect("read") == read, "byte {place}");
    }
    std::fs::write(&file, &whole).expect("written");
    without_digests(&folder);
    assert!(Manifest::read(&folder).expect("older").files.is_none());
    assert!(shown(&folder).is_ok());
    let digest = read.files.expect("digests")["layers.parquet"].clone();
    assert_eq!(digest, FileDigest::of(&std::fs::read(out.join("layers.parquet")).expect("a table")));
}

/// The text that a command says on success.
#[track_caller]
fn said(words: &[&str]) -> String {
    let outcome = layerscope(words);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    outcome.stdout
}

#[test]
fn a_sample_of_another_shard_is_refused() {
    let (model, corpus, _) = finished();
    let folder = empty_folder("integrity-shards");
    let shards = [0, 1].map(|shard| folder.join(format!("shard-{shard}")));
    for (index, shard) in shards.iter().enumerate() {
        measured(model, corpus, shard, &format!("{FLAGS} --shard {index}/2"));
    }
    let merge = |out: &str| layerscope(&["merge", path(&shards[0]), path(&shards[1]), "--out", path(&folder.join(out)), "--quiet"]);
    assert_eq!(merge("merged").status, 0);
    let own = std::fs::read(shards[0].join("sample.safetensors")).expect("a sample");
    std::fs::copy(shards[1].join("sample.safetensors"), shards[0].join("sample.safetensors")).expect("copied");
    refused(&merge("wrong"), 5, &["shard-0/sample.safetensors", "another run or shard"]);
    std::fs::write(shards[0].join("sample.safetensors"), own).expect("written");
    assert_eq!(merge("again").status, 0);
    assert_eq!(differing(&folder.join("merged"), &folder.join("again")), None);
}

#[test]
fn a_killed_merge_goes_on_with_the_same_command() {
    let (model, corpus, _) = finished();
    let folder = empty_folder("integrity-merge");
    let shards = [0, 1].map(|shard| folder.join(format!("shard-{shard}")));
    for (index, shard) in shards.iter().enumerate() {
        measured(model, corpus, shard, &format!("{FLAGS} --shard {index}/2"));
    }
    let merge = |out: &Path, more: &str| {
        let mut words = vec!["merge", path(&shards[0]), path(&shards[1]), "--out", path(out), "--quiet"];
        words.extend(more.split_whitespace());
        layerscope(&words)
    };
    let whole = folder.join("whole");
    assert_eq!(merge(&whole, "").status, 0);
    // Killed between the state and the manifest, and while points were merged.
    let late = copy(&whole, "integrity-merge-late");
    std::fs::remove_file(late.join("manifest.json")).expect("removed");
    std::fs::remove_file(late.join("groups.parquet")).expect("removed");
    let early = empty_folder("integrity-merge-early");
    for out in [&late, &early] {
        std::fs::create_dir_all(out.join(".work")).expect("a folder");
        std::fs::write(out.join(".work/layer0.embedding.safetensors"), "half").expect("written");
        let outcome = merge(out, "");
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        assert_eq!(differing(out, &whole), None);
        assert!(!out.join(".work").exists());
    }
    // A finished run is another matter, and so is a measurement that waits to be resumed.
    refused(&merge(&whole, ""), 5, &["holds a run already"]);
    std::fs::create_dir_all(early.join(".work")).expect("a folder");
    std::fs::remove_file(early.join("manifest.json")).expect("removed");
    std::fs::write(early.join(".work/plan.json"), "{}").expect("written");
    refused(&merge(&early, ""), 5, &["holds a run already"]);
    assert_eq!(merge(&early, "--overwrite").status, 0);
}

#[test]
fn a_finished_run_whose_text_changed_is_refused() {
    let (model, _, _) = finished();
    let folder = empty_folder("integrity-text-changed");
    let (corpus, out) = (folder.join("own.txt"), folder.join("out"));
    let text = sentences(60, 8).join("\n");
    std::fs::write(&corpus, &text).expect("written");
    measured(model, &corpus, &out, FLAGS);
    assert_eq!(measure(model, &corpus, &out, FLAGS).stderr, "");
    // Touched, with the same text.
    std::fs::write(&corpus, &text).expect("written");
    assert_eq!(measure(model, &corpus, &out, FLAGS).status, 0);
    std::fs::write(&corpus, text.replacen("the", "The", 1)).expect("written");
    // As old as before: the times of files are no proof.
    let file = std::fs::File::options().write(true).open(&corpus).expect("a file");
    for modified in [std::time::SystemTime::now(), std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000)] {
        file.set_modified(modified).expect("a time");
        refused(&measure(model, &corpus, &out, FLAGS), 4, &["own.txt", "its text changed", "--overwrite"]);
    }
    let before = manifest(&out)["corpus"]["fingerprint"].clone();
    measured(model, &corpus, &out, &format!("{FLAGS} --overwrite"));
    assert_ne!(manifest(&out)["corpus"]["fingerprint"], before);
}

#[test]
fn other_text_on_standard_input_is_refused() {
    let (model, _, _) = finished();
    let out = empty_folder("integrity-piped").join("out");
    let words = support::measure::command(model, Path::new("-"), &out, FLAGS);
    let piped = |text: &str| support::measure::run_with_input(&words, text);
    let text = sentences(60, 9).join("\n");
    assert_eq!(piped(&text).status, 0);
    for same in ["", &text] {
        assert_eq!(piped(same).status, 0, "the same text, or none");
    }
    refused(&piped("another text\nof two lines"), 4, &["standard input", "another text than the one this run began with", "--overwrite"]);
    assert_eq!(run(&words).status, 0);
}

/// Nothing outside the run is emptied, deleted or written.
#[test]
fn no_link_in_a_run_is_followed() {
    let (model, corpus, out) = finished();
    let precious = empty_folder("integrity-precious");
    std::fs::create_dir_all(precious.join("deep")).expect("a folder");
    for name in ["a", "deep/b", "lock"] {
        std::fs::write(precious.join(name), "precious").expect("written");
    }
    let untouched = || {
        for name in ["a", "deep/b", "lock"] {
            assert_eq!(std::fs::read_to_string(precious.join(name)).expect("there"), "precious", "{name}");
        }
        assert_eq!(std::fs::read_dir(&precious).expect("a folder").count(), 3);
    };
    let link = |to: &Path, at: &Path| std::os::unix::fs::symlink(to, at).expect("a link");
    // The working folder itself: of a finished run, of a new one, and with everything to be replaced.
    for (name, more) in [("complete", ""), ("new", ""), ("overwrite", "--overwrite")] {
        let folder = if name == "new" { empty_folder("integrity-link-new") } else { copy(out, &format!("integrity-link-{name}")) };
        link(&precious, &folder.join(".work"));
        refused(&measure(model, corpus, &folder, &format!("{FLAGS} {more}")), 5, &[".work: a symbolic link", "remove it"]);
        untouched();
        std::fs::remove_file(folder.join(".work")).expect("still a link");
        measured(model, corpus, &folder, &format!("{FLAGS} {more}"));
    }
    // Files in it.
    let folder = empty_folder("integrity-link-files");
    std::fs::create_dir_all(folder.join(".work")).expect("a folder");
    link(&precious.join("a"), &folder.join(".work/lock"));
    refused(&measure(model, corpus, &folder, FLAGS), 1, &[".work/lock", "a symbolic link"]);
    untouched();
    std::fs::remove_file(folder.join(".work/lock")).expect("still a link");
    for name in ["spool.again.partial", "spool.again.index", "plan.json.partial", "text.json.partial", "fetched"] {
        link(&precious.join("a"), &folder.join(".work").join(name));
    }
    link(&precious, &folder.join(".work/deep"));
    for name in
        ["state.safetensors.partial", "sample.safetensors.partial", "layers.parquet.partial", "layers.parquet", "manifest.json.partial"]
    {
        link(&precious.join("a"), &folder.join(name));
    }
    measured(model, corpus, &folder, FLAGS);
    untouched();
    assert_eq!(differing(&folder, out), None);
}

/// Whatever makes a new run impossible, the old one is as it was.
#[test]
fn overwriting_keeps_the_old_run_until_the_new_one_has_states() {
    let (model, corpus, out) = finished();
    let folder = copy(out, "integrity-overwrite");
    let files = |folder: &Path| {
        let mut files: Vec<(PathBuf, Vec<u8>)> = std::fs::read_dir(folder)
            .expect("a run")
            .map(|entry| entry.expect("a file").path())
            .filter(|path| path.is_file())
            .map(|path| (path.clone(), std::fs::read(&path).expect("readable")))
            .collect();
        files.sort();
        files
    };
    let before = files(&folder);
    let empty = empty_folder("integrity-overwrite-text").join("empty.txt");
    std::fs::write(&empty, "\n").expect("written");
    let missing = empty.with_file_name("missing.txt");
    for (text, flags, status) in [
        (missing.as_path(), "", 4),
        (&empty, "", 4),
        (corpus, "--layers 99", 2),
        (corpus, "--max-memory 1M", 5),
        (corpus, "--tokens no-such-token", 2),
    ] {
        let outcome = measure(model, text, &folder, &format!("{FLAGS} --overwrite {flags}"));
        assert_eq!(outcome.status, status, "{flags}: {}", outcome.stderr);
        assert!(files(&folder) == before, "{flags}: the old run changed");
    }
    assert_eq!(measure(model, corpus, &folder, FLAGS).status, 0);
    measured(model, corpus, &folder, &format!("{FLAGS} --overwrite --massive 5"));
    assert_eq!(manifest(&folder)["settings"]["massive"]["value"], "5");
}
