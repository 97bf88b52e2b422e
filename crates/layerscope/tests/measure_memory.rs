//! Disk and memory are known before the model runs; memory is used to the announced degree, and does not grow with the corpus.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::empty_folder;
use support::measure::{corpus, manifest, measured, number, sentences, table, wide_model};

/// The printed estimate and the peak, in bytes.
fn run(model: &Path, text: &Path, out: &Path, flags: &str) -> (f64, f64) {
    let outcome = measured(model, text, out, flags);
    let line = outcome.stderr.lines().find(|line| line.contains("memory estimate")).unwrap_or_else(|| panic!("{}", outcome.stderr));
    let mut words = line.split("memory estimate ").nth(1).expect("an estimate").split(' ');
    let number: f64 = words.next().expect("a number").parse().expect("a number");
    assert_eq!(words.next(), Some("MiB"), "{line}");
    let disk: f64 = line.split("disk about ").nth(1).and_then(|rest| rest.split(' ').next()).expect("disk").parse().expect("a number");
    let stored: u64 = std::fs::read_dir(out).expect("a run").map(|file| file.expect("a file").metadata().expect("a file").len()).sum();
    // The manifest and the headers of files have a size of their own, which tells where there is hardly anything else.
    assert!(disk < 10.0 || (stored as f64 / 1048576.0 / disk - 1.0).abs() < 0.06, "{line}, and {stored} bytes are there");
    // Printed to a tenth.
    let peak = manifest(out)["peak_memory_bytes"].as_f64().expect("a peak");
    ((number + 0.05) * 1048576.0, peak)
}

fn model() -> PathBuf {
    wide_model("memory-model", 8, 256, 0.05)
}

#[test]
fn the_estimate_is_never_exceeded_and_at_most_15_percent_too_high() {
    let folder = empty_folder("memory-estimate");
    let text = corpus("memory-text", &sentences(2000, 41));
    let model = model();
    for (name, flags) in [
        ("one", "--threads 1 --measures norm,cosine"),
        ("two", "--threads 2 --batch-tokens 512 --measures norm,cosine"),
        ("sequences", "--threads 1 --group sequence --sample-states 5000 --measures norm,cosine"),
    ] {
        let (estimate, peak) = run(&model, &text, &folder.join(name), flags);
        println!("{name}: estimate {:.1} MiB, peak {:.1} MiB, {:.1} %", estimate / 1048576.0, peak / 1048576.0, 100.0 * peak / estimate);
        assert!(peak <= estimate, "{name}: {peak} of {estimate}");
        assert!(peak >= 0.85 * estimate, "{name}: {peak} of {estimate}");
    }
}

#[test]
fn eight_times_the_text_takes_no_more_memory() {
    let folder = empty_folder("memory-flat");
    let lines = sentences(8000, 42);
    let model = wide_model("memory-flat-model", 2, 64, 0.05);
    let flags = "--threads 1 --sample-states 2000 --token-states 50 --measures norm,cosine";
    let peak = |count: usize| {
        let text = corpus(&format!("memory-flat-{count}"), &lines[..count]);
        run(&model, &text, &folder.join(count.to_string()), flags).1
    };
    let (some, all) = (peak(1000), peak(8000));
    println!("{:.2} MiB, eight times the text {:.2} MiB", some / 1048576.0, all / 1048576.0);
    // The states of one point alone would be 20 MB; how much of the program's own file is resident differs by up to 3 from run to run.
    assert!(all <= some + 4.0 * 1048576.0, "{some} grows to {all}");
}

#[test]
fn batches_shrink_where_the_device_has_no_memory_for_them() {
    let folder = empty_folder("memory-shrink");
    let text = corpus("memory-shrink-text", &sentences(4000, 43));
    let model = wide_model("memory-shrink-model", 2, 256, 0.05);
    let flags = "--device cpu --threads 1 --sample-states 2000 --token-states 50 --measures norm,cosine";
    let (whole, shrunk) = (folder.join("whole"), folder.join("shrunk"));
    measured(&model, &text, &whole, flags);
    let words = format!(
        "measure --model {} --corpus {} --out {} {flags} --order batch --batch-tokens 1000000",
        model.display(),
        text.display(),
        shrunk.display()
    );
    // All tokens in one batch need half a gigabyte.
    let limited = Command::new("sh")
        .args(["-c", "ulimit -v 300000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_layerscope")])
        .args(words.split(' '))
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&limited.stderr);
    assert!(limited.status.success(), "{said}");
    assert!(said.contains("not enough memory for") && said.contains("going on with batches of"), "{said}");
    assert!(manifest(&shrunk)["warnings"].to_string().contains("going on with batches of"));
    let values = |run: &Path| {
        let layers = table(run, "layers");
        (0..layers.rows()).map(|row| number(&layers, "value", row)).collect::<Vec<_>>()
    };
    for (ours, theirs) in values(&shrunk).into_iter().zip(values(&whole)) {
        // Sums are taken in another order.
        let near = |(ours, theirs): (f64, f64)| (ours - theirs).abs() <= 1e-9 * theirs.abs().max(1.0);
        assert!(ours.is_some() == theirs.is_some() && ours.zip(theirs).is_none_or(near), "{ours:?} and {theirs:?}");
    }
}
