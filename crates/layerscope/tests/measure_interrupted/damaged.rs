//! Work files that were damaged meanwhile.

use std::path::Path;

use super::case::{Case, checkpoints, flip_byte};
use crate::support::measure::{command, end, manifest, measured, run_with_input};
use crate::support::storage::held_at;

#[test]
fn a_damaged_checkpoint_is_noticed_and_the_one_before_it_used() {
    let case = Case::shared("damaged");
    // Killed twice, a run leaves two checkpoints.
    let both = |out: &Path| {
        for count in 1..=2 {
            case.killed(out, "checkpoint-*");
            assert_eq!(checkpoints(out).len(), count);
        }
        checkpoints(out)
    };
    // In a tensor, and in the header.
    for (name, from_end) in [("tensor", 5), ("header", usize::MAX)] {
        let out = case.folder.join(name);
        let found = both(&out);
        let (latest, size) = (&found[1].1, std::fs::metadata(&found[1].1).expect("a file").len() as usize);
        flip_byte(latest, from_end.min(size - 100));
        let outcome = case.resumed(&out);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        let file = latest.file_name().expect("a name").to_str().expect("UTF-8");
        for part in ["warning", file, "using the one before it"] {
            assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
        }
        let warnings = manifest(&out)["warnings"].to_string();
        assert!(warnings.contains(file), "{warnings}");
    }
    let out = case.folder.join("both");
    for (_, path) in both(&out) {
        flip_byte(&path, 5);
    }
    let outcome = case.resumed(&out);
    assert_eq!(outcome.stderr.lines().count(), 2, "{}", outcome.stderr);
    // A checkpoint that was cut short.
    let out = case.folder.join("cut");
    let latest = both(&out).remove(1).1;
    let whole = std::fs::read(&latest).expect("readable");
    std::fs::write(&latest, &whole[..whole.len() / 2]).expect("writable");
    assert!(case.resumed(&out).stderr.contains("warning"));
}

/// The text and the plan can be made again: a damaged one is set aside, and the run goes on from its checkpoints.
#[test]
fn a_damaged_spool_or_plan_is_made_again() {
    let case = Case::shared("work-files");
    let digit = |path: &Path, after: &str| {
        // A digit of a length: still JSON, but not what was planned.
        let text = std::fs::read_to_string(path).expect("readable");
        let at = text.find(after).and_then(|at| Some(at + text[at..].find(|c: char| c.is_ascii_digit())?)).expect("a number");
        let digit = if &text[at..=at] == "9" { "8" } else { "9" };
        std::fs::write(path, format!("{}{digit}{}", &text[..at], &text[at + 1..])).expect("writable");
    };
    type Damage<'a> = (&'a str, &'a dyn Fn(&Path));
    let damages: [Damage<'_>; 5] = [
        ("spool", &|path| flip_byte(path, 3000)),
        ("spool", &|path| flip_byte(path, std::fs::metadata(path).expect("a file").len() as usize)),
        ("plan.json", &|path| flip_byte(path, 4)),
        ("plan.json", &|path| digit(path, "\"legs\": [")),
        ("text.json", &|path| digit(path, "\"corpus\"")),
    ];
    for (number, (file, damage)) in damages.iter().enumerate() {
        let out = case.folder.join(number.to_string());
        case.killed(&out, "checkpoint-*");
        damage(&out.join(".work").join(file));
        let outcome = case.resumed(&out);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("warning") && outcome.stderr.contains(&format!(".work/{file}: damaged")), "{}", outcome.stderr);
    }
    // The spool of another shard is not this one's.
    let out = case.folder.join("other");
    case.killed(&out, "checkpoint-*");
    let other = Case { flags: format!("{} --shard 1/2", case.flags), ..case.clone() };
    let shard = case.folder.join("shard");
    other.killed(&shard, "checkpoint-*");
    std::fs::copy(shard.join(".work/spool"), out.join(".work/spool")).expect("copied");
    assert!(case.resumed(&out).stderr.contains(".work/spool: damaged"));
}

/// Text that came through a pipe is gone: without the same text again a damaged spool is set aside and the run refused.
#[test]
fn a_damaged_spool_of_piped_text_needs_the_text_again() {
    let case = Case::shared("piped");
    let text = std::fs::read_to_string(&case.corpus).expect("a corpus");
    let piped = Case { corpus: "-".into(), whole: case.folder.join("whole"), ..case.clone() };
    let words = command(&case.model, "-".as_ref(), &piped.whole, &case.flags);
    assert_eq!(run_with_input(&words, &text).status, 0);
    let out = case.folder.join("out");
    let words = command(&case.model, "-".as_ref(), &out, &case.with_checkpoints());
    let mut child = held_at("checkpoint-*", &out, &words, std::fs::File::open(&case.corpus).expect("a corpus"));
    child.kill().expect("killed");
    end(child);
    flip_byte(&out.join(".work/spool"), 3000);
    let outcome = run_with_input(&words, "");
    assert_eq!(outcome.status, 5, "{}", outcome.stderr);
    let last = outcome.stderr.lines().last().expect("a line");
    assert!(last.contains(".work/spool: damaged; give the same text on standard input again"), "{last}");
    assert!(out.join(".work/spool.damaged").exists());
    let outcome = run_with_input(&words, "another text\nthan before");
    assert_eq!(outcome.status, 4, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the text on standard input changed since the run"), "{}", outcome.stderr);
    let outcome = run_with_input(&words, &text);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    piped.same(&out);
}

/// An unfinished run that is to be replaced comes back when the new one is not possible.
#[test]
fn an_unfinished_run_survives_a_failed_overwrite() {
    let case = Case::shared("replaced");
    let out = case.folder.join("out");
    case.killed(&out, "checkpoint-*");
    let before = checkpoints(&out);
    case.fails(&out, "--overwrite --max-memory 1M", 5, &["--max-memory"]);
    assert_eq!(checkpoints(&out), before);
    // Killed after it was put aside.
    let case_again = Case { flags: format!("{} --overwrite --massive 5", case.flags), ..case.clone() };
    case_again.killed(&out, ".work/replaced");
    assert_eq!(checkpoints(&out).len(), 0);
    let outcome = case.resumed(&out);
    assert_eq!(outcome.stderr, "");
    measured(&case.model, &case.corpus, &out, &format!("{} --overwrite", case.flags));
    case.same(&out);
}

#[test]
fn a_damaged_finished_leg_is_made_again() {
    let mut case = Case::new("leg-files", 700, 0);
    case.flags = case.flags.replace("--tokens none", "--token-states 100000");
    case.whole = case.folder.join("whole-by-norm");
    measured(&case.model, &case.corpus, &case.whole, &case.flags);
    let case = Case { flags: format!("{} --order block", case.flags), ..case };
    let out = case.folder.join("out");
    case.killed(&out, ".work/leg-0.safetensors");
    flip_byte(&out.join(".work/leg-0.safetensors"), 5);
    let outcome = case.resumed(&out);
    assert!(outcome.stderr.contains("warning") && outcome.stderr.contains("leg-0.safetensors"), "{}", outcome.stderr);
}

/// Between two legs the states wait in a file. Damage there is noticed, and nothing is computed from it.
#[test]
fn damaged_states_between_two_legs_are_noticed() {
    let mut case = Case::new("streams", 700, 0);
    case.flags = format!("{} --order block", case.flags);
    let out = case.folder.join("out");
    case.killed(&out, ".work/leg-1.safetensors");
    // Whichever leg comes next, it reads one of these.
    for stream in 0..3 {
        let path = out.join(format!(".work/stream-{stream}"));
        let middle = std::fs::metadata(&path).expect("a stream").len() as usize / 2;
        flip_byte(&path, middle);
    }
    case.fails(&out, "", 1, &["stream-", "damaged", "--overwrite"]);
    let again = Case { flags: format!("{} --overwrite", case.flags), ..case };
    again.resumed(&out);
}
