//! `layerscope bench`: whatever the machine, the figures are those that were measured.

mod support;

use serde_json::Value;
use support::measure::{corpus, model, sentences};
use support::{Outcome, layerscope};

fn benched(flags: &[&str]) -> Outcome {
    let outcome = layerscope(&[&["bench", "--seconds", "0.4", "--threads", "2"], flags].concat());
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    outcome
}

fn json(flags: &[&str]) -> Value {
    serde_json::from_str(&benched(&[flags, &["--json"]].concat()).stdout).expect("JSON")
}

#[test]
fn it_needs_nothing_but_the_program() {
    let found = json(&[]);
    assert_eq!((&found["model"], &found["note"]), (&"pocket-bert".into(), &Value::Null));
    let list = |name: &str| found[name].as_array().expect("a list").clone();
    let number = |value: &Value| value.as_f64().expect("a number");
    assert_eq!(list("peaks").iter().map(|peak| peak["threads"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(2)]);
    assert!(list("peaks").iter().all(|peak| number(&peak["gflops"]) > 0.0));
    assert!(list("forward").len() >= 2 && list("forward").iter().all(|speed| number(&speed["tokens_per_second"]) > 0.0));
    let recommended = &found["recommended"];
    let same = |speed: &&Value| speed["threads"] == recommended["threads"] && speed["batch_tokens"] == recommended["batch_tokens"];
    let fastest = list("forward").iter().find(same).map(|speed| number(&speed["tokens_per_second"])).expect("one of those measured");
    for statistics in list("statistics") {
        let (timings, tokens) = (&statistics["timings"], number(&statistics["tokens"]));
        let seconds = number(&timings["forward"]) + number(&timings["sketches"]);
        assert!((number(&statistics["tokens_per_second"]) * seconds / tokens - 1.0).abs() < 1e-9, "{statistics}");
        assert!((number(&statistics["over_forward"]) * tokens / seconds / fastest - 1.0).abs() < 1e-9, "{statistics}");
    }
    assert_eq!(
        list("statistics").iter().map(|one| one["measures"].as_str()).collect::<Vec<_>>(),
        [Some("norm,cosine"), Some("default measures")]
    );
}

#[test]
fn a_model_and_a_text_of_ones_own() {
    let (model, text) = (model("llama/llama2", "bench-model"), corpus("bench-text", &sentences(60, 5)));
    let (model, text) = (model.to_str().expect("UTF-8"), text.to_str().expect("UTF-8"));
    let found = json(&["--model", model, "--corpus", text]);
    assert_eq!((&found["family"], found["documents"].as_u64()), (&"llama".into(), Some(60)));
    let shown = benched(&["--model", model, "--corpus", text]).stdout;
    assert!(shown.contains("\nrecommended: --threads ") && shown.lines().all(|line| line.chars().count() <= 120), "{shown}");
}

#[test]
fn a_model_without_a_tokenizer_reads_made_up_sentences() {
    let found = json(&["--model", "fixtures/bert/base"]);
    assert_eq!((found["tokens"].as_u64(), found["statistics"].as_array().map(Vec::len)), (Some(48_000), Some(0)));
    assert!(found["note"].as_str().expect("a note").contains("tokenizer.json"), "{}", found["note"]);
    // Two operations for every weight of a block's matrices, and four times the width for each of 24 keys.
    let config: Value =
        serde_json::from_slice(&std::fs::read(support::root().join("fixtures/bert/base/config.json")).expect("read")).expect("JSON");
    let number = |key: &str| config[key].as_f64().expect("a number");
    let (width, hidden) = (number("hidden_size"), number("intermediate_size"));
    let block = 2.0 * (4.0 * width * width + 2.0 * width * hidden) + 4.0 * 24.0 * width;
    assert_eq!(found["flops_per_token"].as_f64(), Some(number("num_hidden_layers") * block));
}

#[test]
fn wrong_flags_are_refused() {
    for (flags, status) in [(["--seconds", "0"], 2), (["--threads", "0"], 2), (["--dtype", "f8"], 2), (["--model", "/no/such/model"], 3)] {
        let outcome = layerscope(&[&["bench"][..], &flags].concat());
        assert_eq!(outcome.status, status, "{flags:?}: {}", outcome.stderr);
    }
}
