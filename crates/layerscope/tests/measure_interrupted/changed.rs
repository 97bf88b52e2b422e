//! A folder that holds another run, and a corpus that changed.

use super::case::Case;
use crate::support::empty_folder;
use crate::support::measure::{differing, manifest, measure, measured, model};

#[test]
fn other_settings_are_refused_and_said() {
    let case = Case::shared("settings");
    let out = case.folder.join("out");
    case.killed(&out, "checkpoint-*");
    for (more, said) in [
        ("--massive 5", "--massive is \"10\" there and \"5\" here"),
        ("--group surface", "--group is \"token\" there and \"surface\" here"),
        ("--shard 0/2", "--shard is \"0/1\" there and \"0/2\" here"),
        ("--lowercase", "--lowercase is \"false\" there and \"true\" here"),
        ("--limit 7", "--limit is null there and \"7\" here"),
        ("--frequency 1:1000", "--frequency is \"10:100000\" there and \"1:1000\" here"),
        ("--window 20", "--window is 48 there and 20 here"),
    ] {
        case.fails(&out, more, 5, &["holds another run", said, "--overwrite"]);
    }
    let batches = case.flags.replace("--batch-tokens 128", "--batch-tokens 64");
    let outcome = measure(&case.model, &case.corpus, &out, &batches);
    assert_eq!(outcome.status, 5);
    assert!(outcome.stderr.contains("--batch-tokens is 128 there and 64 here"), "{}", outcome.stderr);
    let tokenizer = std::fs::read(case.model.join("tokenizer.json")).expect("a tokenizer");
    let changed = empty_folder("settings-other-tokenizer");
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(case.model.join(name), changed.join(name)).expect("copied");
    }
    std::fs::write(changed.join("tokenizer.json"), [&tokenizer[..], b" "].concat()).expect("written");
    let outcome = measure(&changed, &case.corpus, &out, &case.flags);
    assert_eq!(outcome.status, 5);
    assert!(outcome.stderr.contains("tokenizer is "), "{}", outcome.stderr);
    let other = model("bert/base", "settings-other-model");
    let outcome = measure(&other, &case.corpus, &out, &case.flags);
    assert_eq!(outcome.status, 5);
    assert!(outcome.stderr.contains("model is "), "{}", outcome.stderr);
    case.fails(&out, "--max-memory 1M", 5, &["--max-memory"]);

    // Threads, time between checkpoints and a generous limit may differ.
    let outcome = measure(&case.model, &case.corpus, &out, &case.flags.replace("--threads 1", "--threads 2 --max-memory 8G --resume"));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    case.same(&out);

    // A finished run says so, and is not touched.
    let before = std::fs::metadata(out.join("manifest.json")).expect("a manifest").modified().expect("a time");
    let outcome = measure(&case.model, &case.corpus, &out, &case.flags.replace("--quiet", ""));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("is complete; to measure it again, give --overwrite") && outcome.stdout.contains("R^2"),
        "{}",
        outcome.stderr
    );
    assert_eq!(before, std::fs::metadata(out.join("manifest.json")).expect("a manifest").modified().expect("a time"));
    let outcome = measure(&case.model, &case.corpus, &out, &format!("{} --massive 5", case.flags));
    assert_eq!(outcome.status, 5);
    assert!(outcome.stderr.contains("--massive is"), "{}", outcome.stderr);

    // Starting again.
    let outcome = measured(&case.model, &case.corpus, &out, &format!("{} --massive 5 --overwrite", case.flags));
    assert!(outcome.stdout.contains("R^2"));
    assert_eq!(manifest(&out)["settings"]["massive"]["value"], "5");
    let both = measure(&case.model, &case.corpus, &out, "--resume --overwrite");
    assert_eq!(both.status, 2, "{}", both.stderr);
}

#[test]
fn a_corpus_that_changed_is_refused_and_a_touched_one_is_not() {
    let mut case = Case::shared("changed");
    let text = std::fs::read_to_string(&case.corpus).expect("a corpus");
    let own = case.folder.join("own.txt");
    std::fs::write(&own, &text).expect("written");
    case.corpus = own.clone();
    let out = case.folder.join("out");
    case.killed(&out, "checkpoint-*");
    std::fs::write(&own, text.replacen("the", "The", 1)).expect("written");
    case.fails(&out, "", 4, &["own.txt changed since the run", "--overwrite"]);
    std::fs::write(&own, format!("{text}\nmore")).expect("written");
    case.fails(&out, "", 4, &["own.txt changed since the run"]);
    std::fs::remove_file(&own).expect("removed");
    case.fails(&out, "", 4, &["own.txt", "no such file"]);
    std::fs::write(&own, &text).expect("written");
    let outcome = measured(&case.model, &own, &out, &case.flags.replace("--quiet", ""));
    assert!(outcome.stderr.contains("touched, and its text is the same"), "{}", outcome.stderr);
    assert_eq!(differing(&out, &case.whole), None);
}

#[test]
fn a_file_that_joins_the_corpus_is_refused() {
    let mut case = Case::shared("joined");
    let text = std::fs::read(&case.corpus).expect("a corpus");
    let files = empty_folder("interrupted-joined-files");
    std::fs::write(files.join("one.txt"), text).expect("written");
    case.corpus = files.join("*.txt");
    let out = case.folder.join("out");
    case.killed(&out, "checkpoint-*");
    std::fs::write(files.join("two.txt"), "more").expect("written");
    case.fails(&out, "", 4, &["two.txt", "not part of the corpus when this run began", "--overwrite"]);
    std::fs::remove_file(files.join("two.txt")).expect("removed");
    case.resumed(&out);
}
