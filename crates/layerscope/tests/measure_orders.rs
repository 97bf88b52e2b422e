//! Batch after batch or block after block: the same tables, in less memory.

mod support;

use support::measure::{corpus, differing, manifest, measure, measured, model, sentences, wide_model};
use support::{Outcome, empty_folder};

/// The printed estimate in bytes, and the number of legs.
fn estimate(outcome: &Outcome) -> (f64, usize) {
    let line = outcome.stderr.lines().find(|line| line.contains("memory estimate")).unwrap_or_else(|| panic!("{}", outcome.stderr));
    let words: Vec<&str> = line.split("memory estimate ").nth(1).expect("a number").split(' ').collect();
    let unit = if words[1].starts_with("MiB") { 1048576.0 } else { panic!("{line}") };
    (words[0].parse::<f64>().expect("a number") * unit, words.get(6).map_or(1, |legs| legs.parse().expect("a number")))
}

/// Of every family in the fixtures that the block differs in, and of layers that are not neighbours.
#[test]
fn block_order_gives_the_same_bits() {
    let folder = empty_folder("split-blocks");
    let text = corpus("split-blocks-text", &sentences(150, 29));
    for (fixture, flags) in [
        ("bert/base", "--measures all --confidence"),
        ("albert/base", "--measures all"),
        ("gpt2/published", "--measures all --layers 0,2 --token-states 30"),
        ("gpt_neox/pythia", "--measures norm,cosine --layers 1"),
        ("gemma3/1b", "--measures all --group word"),
        ("opt/350m", "--measures all --threads 3"),
        ("mpnet/base", "--measures all --on-error skip"),
    ] {
        let name = fixture.replace('/', "-");
        let checkpoint = model(fixture, &format!("blocks-{name}"));
        let run = |order: &str| {
            let out = folder.join(format!("{name}-{}", order.replace(' ', "")));
            measured(&checkpoint, &text, &out, &format!("--quiet --batch-tokens 200 --frequency 10:300 {flags} --order {order}"));
            out
        };
        let batch = run("batch");
        for order in ["block", "block --stretch-tokens 1000"] {
            assert_eq!(differing(&run(order), &batch), None, "{fixture}, {order}");
        }
    }
}

/// Tables are made of the states in memory; without a manifest the same command makes them of their file.
#[test]
fn states_in_memory_and_on_disk_give_the_same_tables() {
    let folder = empty_folder("split-memory");
    let text = corpus("split-memory-text", &sentences(150, 30));
    for (fixture, flags) in [
        ("bert/base", "--measures all --confidence --massive 1.1"),
        ("opt/350m", "--measures norm,cosine --token-states 30"),
        ("gpt2/published", "--group word --frequency 1:300"),
    ] {
        let name = fixture.replace('/', "-");
        let checkpoint = model(fixture, &format!("memory-{name}"));
        let (fresh, again) = (folder.join(format!("{name}-fresh")), folder.join(format!("{name}-again")));
        for out in [&fresh, &again] {
            measured(&checkpoint, &text, out, &format!("--quiet {flags}"));
        }
        let digest = manifest(&again)["state"].clone();
        for file in std::fs::read_dir(&again).expect("a run").map(|file| file.expect("a file").path()) {
            if file.extension().is_none_or(|ending| ending != "safetensors") {
                std::fs::remove_file(file).expect("removable");
            }
        }
        measured(&checkpoint, &text, &again, &format!("--quiet {flags}"));
        assert_eq!(differing(&again, &fresh), None, "{fixture}");
        assert_eq!((manifest(&again)["state"].clone(), digest.is_string()), (digest.clone(), true), "{fixture}");
    }
}

#[test]
fn half_the_memory_gives_the_same_tables_in_legs() {
    let folder = empty_folder("split-legs");
    let text = corpus("split-legs-text", &sentences(1500, 25));
    let checkpoint = wide_model("split-legs-model", 9, 256, 0.05);
    let flags = "--threads 1 --batch-tokens 256 --measures norm,cosine --group sequence";
    let whole = folder.join("whole");
    let outcome = measured(&checkpoint, &text, &whole, flags);
    let (bytes, legs) = estimate(&outcome);
    assert_eq!(legs, 1);
    let limited = folder.join("limited");
    let outcome = measured(&checkpoint, &text, &limited, &format!("{flags} --max-memory {}", (bytes / 2.0) as u64));
    let (half, legs) = estimate(&outcome);
    assert!(legs > 1 && half <= bytes / 2.0, "{legs} legs of {half} bytes, {bytes} at once");
    assert_eq!(differing(&limited, &whole), None);
    let peak = manifest(&limited)["peak_memory_bytes"].as_f64().expect("a peak");
    assert!(peak <= bytes / 2.0, "{peak} of {}", bytes / 2.0);

    let refused = folder.join("refused");
    let outcome = measure(&checkpoint, &text, &refused, &format!("{flags} --quiet --max-memory {}", (bytes / 10.0) as u64));
    assert_eq!((outcome.status, outcome.stderr.lines().count()), (5, 1), "{}", outcome.stderr);
    for flag in ["--max-memory", "--sample-states", "--batch-tokens", "--threads", "--group"] {
        assert!(outcome.stderr.contains(flag), "{}", outcome.stderr);
    }
    // With another limit the same folder goes on.
    measured(&checkpoint, &text, &refused, &format!("{flags} --quiet"));
    assert_eq!(differing(&refused, &whole), None);
}
