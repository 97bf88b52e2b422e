//! A folder that another process holds, and one that holds nothing to resume.

use std::path::Path;
use std::time::Duration;

use super::case::Case;
use crate::support::measure::{differing, end, measure};

#[test]
fn two_processes_do_not_share_a_folder() {
    let case = Case::shared("shared");
    let out = case.folder.join("out");
    let held = hold(&out);
    case.fails(&out, "", 5, &["another process works in this folder"]);
    drop(held);
    case.resumed(&out);
}

/// The lock of a run, as another process holds it.
fn hold(out: &Path) -> std::fs::File {
    std::fs::create_dir_all(out.join(".work")).expect("a folder");
    let lock = std::fs::File::create(out.join(".work/lock")).expect("a file");
    lock.lock().expect("a lock");
    lock
}

#[test]
fn a_process_that_is_just_ending_is_waited_for() {
    let case = Case::shared("ending");
    let out = case.folder.join("out");
    let held = hold(&out);
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        drop(held);
    });
    case.resumed(&out);
    ending.join().expect("no panic");
    // One that ends by removing its folder takes the lock with it.
    let out = case.folder.join("removed");
    let held = hold(&out);
    let work = out.join(".work");
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        std::fs::remove_dir_all(work).expect("removable");
        drop(held);
    });
    case.resumed(&out);
    ending.join().expect("no panic");
}

/// Whoever waits for the lock writes into the folder that a finished run removes: the run is complete all the same.
#[test]
fn a_working_folder_that_cannot_be_removed_is_no_error() {
    let case = Case::new("crowded", 40, 100);
    let out = case.folder.join("out");
    let mut child = case.start(&out);
    for number in 0.. {
        if child.try_wait().expect("a process").is_some() {
            break;
        }
        let _ = std::fs::write(out.join(format!(".work/other-{}", number % 50)), "");
    }
    let outcome = end(child);
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
    assert_eq!(differing(&out, &case.whole), None);
}

#[test]
fn only_an_unfinished_run_can_be_resumed() {
    let case = Case::shared("resume");
    let out = case.folder.join("out");
    case.fails(&out, "--resume", 5, &["no unfinished run to resume; leave out --resume to begin one"]);
    case.killed(&out, "checkpoint-*");
    let resumed = |flags: &str| measure(&case.model, &case.corpus, &out, &format!("{} {flags}", case.flags));
    assert_eq!(resumed("--resume").status, 0);
    case.same(&out);
    // A finished run says so.
    assert_eq!(resumed("--resume").status, 0);
}
