//! Work files that were damaged meanwhile.

use std::path::Path;

use super::case::{Case, checkpoints, flip_byte, signal, wait_for};
use crate::support::measure::{end, manifest, measured};

#[test]
fn a_damaged_checkpoint_is_noticed_and_the_one_before_it_used() {
    let case = Case::shared("damaged");
    // Asked to stop twice, a run leaves two checkpoints.
    let both = |out: &Path| {
        for count in 1..=2 {
            let lock = || std::fs::metadata(out.join(".work/lock")).and_then(|file| file.modified()).ok();
            let before = lock();
            let mut child = case.start(out);
            // Before the plan is made there is nothing to save.
            wait_for(&mut child, || lock() != before && out.join(".work/plan.json").exists());
            signal(&child, libc::SIGTERM);
            assert_eq!(end(child).status, 6);
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

#[test]
fn damaged_work_files_say_so() {
    let case = Case::shared("work-files");
    let out = case.folder.join("out");
    case.killed(&out, || !checkpoints(&out).is_empty());
    let damage = |file: &str, from_end: usize, said: &[&str]| {
        let path = out.join(".work").join(file);
        let whole = std::fs::read(&path).expect("readable");
        flip_byte(&path, from_end.min(whole.len()));
        case.fails(&out, "", 1, said);
        std::fs::write(&path, whole).expect("writable");
    };
    damage("spool", 3000, &[".work/spool", "--overwrite"]);
    damage("spool", usize::MAX, &[".work/spool", "--overwrite"]);
    damage("plan.json", 4, &[".work/plan.json", "--overwrite"]);
    // A digit of a length: still JSON, but not what was planned.
    let path = out.join(".work/plan.json");
    let plan = std::fs::read_to_string(&path).expect("readable");
    let at = plan.find("\"legs\": [").and_then(|at| Some(at + plan[at..].find(|c: char| c.is_ascii_digit())?)).expect("a number");
    let digit = if &plan[at..=at] == "9" { "8" } else { "9" };
    std::fs::write(&path, format!("{}{digit}{}", &plan[..at], &plan[at + 1..])).expect("writable");
    case.fails(&out, "", 1, &[".work/plan.json", "--overwrite"]);
    std::fs::write(&path, plan).expect("writable");
    case.resumed(&out);
    std::fs::create_dir_all(out.join(".work")).expect("a folder");
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
    case.killed(&out, || out.join(".work/leg-0.safetensors").exists());
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
    case.killed(&out, || out.join(".work/leg-1.safetensors").exists());
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
