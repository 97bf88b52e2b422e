//! A disk that fills up costs nothing but the time until there is room again.

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::empty_folder;
use support::measure::{command, corpus, differing, end, measure, measured, run, sentences, wide_model};
use support::storage::{held_at, release_with};

const FLAGS: &str =
    "--quiet --threads 1 --batch-tokens 128 --checkpoint-seconds 0.1 --tokens none --sample-states 100 --measures norm,cosine";

/// A file system of its own, gone with the test; nothing where the system does not allow it.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(name: &str, size: &str) -> Option<SmallDisk> {
        let folder = empty_folder(name);
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&folder).output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk(folder)),
            _ => {
                eprintln!("skipped: this system does not let us mount a small file system; see the test with a limited file size");
                None
            }
        }
    }

    fn resize(&self, size: &str) {
        let done = Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(&self.0).status();
        assert!(done.expect("mount").success());
    }

    /// Takes all the room that is left.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("ballast");
        let mut file = std::fs::File::create(&path).expect("a file");
        for size in [1 << 20, 1 << 12, 1] {
            let piece = vec![1; size];
            while file.write_all(&piece).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn whole(name: &str) -> (PathBuf, PathBuf, PathBuf) {
    let model = wide_model(&format!("{name}-model"), 4, 192, 0.05);
    let text = corpus(&format!("{name}-text"), &sentences(1500, 51));
    let out = empty_folder(&format!("{name}-whole"));
    measured(&model, &text, &out, FLAGS);
    (model, text, out)
}

fn one_line_about_space(outcome: &support::Outcome) {
    assert_eq!((outcome.status, outcome.stderr.lines().count()), (1, 1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("No space left on device"), "{}", outcome.stderr);
}

#[test]
fn a_disk_that_fills_up() {
    let Some(disk) = SmallDisk::mount("full-disk", "40m") else { return };
    let (model, text, whole) = whole("full-disk");
    let out = disk.0.join("run");
    let words = command(&model, &text, &out, FLAGS);
    let child = held_at(".work/plan.json", &out, &words, Stdio::null());
    let ballast = disk.fill();
    release_with(&child, libc::SIGCONT);
    one_line_about_space(&end(child));
    // Still no room: nothing gets worse.
    one_line_about_space(&run(&words));
    std::fs::remove_file(ballast).expect("room");
    let outcome = run(&words);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert_eq!(differing(&out, &whole), None);
}

#[test]
fn too_little_room_is_refused_before_the_start() {
    let Some(disk) = SmallDisk::mount("small-disk", "2500k") else { return };
    let (model, text, whole) = whole("small-disk");
    let out = disk.0.join("run");
    let outcome = measure(&model, &text, &out, FLAGS);
    assert_eq!((outcome.status, outcome.stderr.lines().count()), (5, 1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("free, the run needs") && outcome.stderr.contains("make room"), "{}", outcome.stderr);
    assert!(!out.exists(), "what was refused leaves nothing");
    // Not even the tokens fit.
    disk.resize("60k");
    one_line_about_space(&measure(&model, &text, &out, FLAGS));
    disk.resize("60m");
    measured(&model, &text, &out, FLAGS);
    assert_eq!(differing(&out, &whole), None);
}

/// The same where nothing can be mounted: files must not grow beyond a limit.
#[test]
fn a_writer_that_fails() {
    let (model, text, whole) = whole("limited-files");
    let out = empty_folder("limited-files-out").join("run");
    let limited = |blocks: u32| {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let words = command(&model, &text, &out, FLAGS);
        let output =
            Command::new("sh").args(["-c", &script, "sh", env!("CARGO_BIN_EXE_layerscope")]).args(words).output().expect("a shell");
        (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let failed = |(status, stderr): (Option<i32>, String), file: &str| {
        assert_eq!((status, stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.contains(file) && stderr.contains("File too large"), "{stderr}");
    };
    // The spool does not fit; then it does, but no checkpoint.
    failed(limited(40), ".work/spool");
    failed(limited(1200), ".work/");
    assert!(!Path::exists(&out.join("manifest.json")));
    measured(&model, &text, &out, FLAGS);
    assert_eq!(differing(&out, &whole), None);
}
