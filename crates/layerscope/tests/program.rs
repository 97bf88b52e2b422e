//! The program's commands.

mod support;

use layerscope_model::families::FAMILIES;
use support::{layerscope, root};

#[test]
fn inspect_tells_the_facts() {
    let outcome = layerscope(&["inspect", "--model", "fixtures/llama/llama2", "--json", "--probe", "--threads", "1"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let facts: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(root().join("fixtures/llama/llama2/config.json")).expect("config.json")).expect("JSON");
    for (fact, key) in [
        ("layers", "num_hidden_layers"),
        ("width", "hidden_size"),
        ("heads", "num_attention_heads"),
        ("kv_heads", "num_key_value_heads"),
        ("vocabulary", "vocab_size"),
    ] {
        assert_eq!(facts[fact], config[key], "{fact}");
    }
    assert_eq!(facts["norms"], "RMSNorm, pre-norm, and a final norm");
    assert_eq!(facts["attends"], "causally");
    assert!(facts["probe"]["tokens"].as_u64().expect("measured") > 0);

    // Parameters: tokens, and per block the four projections of attention, the three of the feed-forward, two norms.
    let number = |key: &str| config[key].as_u64().expect("a number");
    let (width, layers, hidden) = (number("hidden_size"), number("num_hidden_layers"), number("intermediate_size"));
    let keys = width / number("num_attention_heads") * number("num_key_value_heads");
    let block = 2 * width * width + 2 * width * keys + 3 * width * hidden + 2 * width;
    assert_eq!(facts["parameters"].as_u64(), Some(number("vocab_size") * width + layers * block + width));
    // Two operations for every weight of these matrices, and four for each of the 12.5 keys that a token of 24 sees.
    let operations = layers as f64 * (2.0 * (block - 2 * width) as f64 + 4.0 * 12.5 * width as f64);
    assert_eq!(facts["flops_per_token"].as_f64(), Some(operations));
}

#[test]
fn inspect_reads_headers_only() {
    let outcome = layerscope(&["inspect", "--model", "fixtures/gptj/base", "--threads", "2"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let speed = outcome.stdout.lines().find(|line| line.starts_with("speed")).expect("a line");
    assert!(speed.contains("at most") && speed.contains("tokens/s on 2 threads") && !speed.contains("(measured)"), "{speed}");
    assert!(outcome.stdout.contains("├── LayerNorm ─┬─ attention"), "the shared norm is drawn: {}", outcome.stdout);
}

#[test]
fn unknown_keys_are_a_warning() {
    let folder = support::copy_of("bert/base", "unknown-key");
    let file = folder.join("config.json");
    let text = std::fs::read_to_string(&file).expect("config.json").replacen('{', "{\"new_trick\": true,", 1);
    std::fs::write(&file, text).expect("writable");
    let inspection = layerscope::inspect(&folder.to_string_lossy(), None, 1, None).expect("still a model");
    assert_eq!(inspection.unknown_keys, ["new_trick"]);
    assert!(inspection.to_string().contains("does not know: new_trick"));
}

#[test]
fn pages_of_tables_are_what_the_program_prints() {
    for page in ["measures", "settings"] {
        let outcome = layerscope(&[page]);
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        let written = std::fs::read_to_string(root().join(format!("docs/{page}.md"))).expect("a page");
        assert!(
            written.ends_with(&outcome.stdout) && !outcome.stdout.contains('…'),
            "docs/{page}.md is not up to date: run `make reference`"
        );
    }
}

#[test]
fn models_lists_every_family() {
    let outcome = layerscope(&["models"]);
    assert_eq!(outcome.status, 0);
    for family in FAMILIES {
        assert!(outcome.stdout.lines().any(|line| line.starts_with(family.model_types[0])), "{}", family.model_types[0]);
    }
    let last = outcome.stdout.lines().last().unwrap_or_default();
    for architecture in FAMILIES.iter().filter_map(|family| Some(family.gguf?.architecture)) {
        assert!(last.starts_with("GGUF files: ") && last.contains(architecture), "{architecture}: {last}");
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [&["inspect"][..], &["dance"], &["demo", "--threads", "0"], &[]] {
        let outcome = layerscope(arguments);
        assert_eq!(outcome.status, 2, "{arguments:?}: {}", outcome.stderr);
    }
}
