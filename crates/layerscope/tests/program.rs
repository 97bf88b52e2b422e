//! The program's commands.

mod support;

use layerscope::{Inspection, demo};
use layerscope_model::Point;
use layerscope_model::families::FAMILIES;
use support::{layerscope, root};

#[test]
fn the_demo_shows_the_reference_librarys_norms() {
    let shown = demo::run(1).expect("a demo");
    let golden = std::fs::read(root().join("fixtures/bert/base/golden.safetensors")).expect("golden states");
    let header_end = 8 + u64::from_le_bytes(golden[..8].try_into().expect("eight bytes")) as usize;
    let header: serde_json::Value = serde_json::from_slice(&golden[8..header_end]).expect("a header");
    let rows = |name: String| -> Option<Vec<f32>> {
        let offsets = &header.get(&name)?["data_offsets"];
        let at = |i: usize| header_end + offsets[i].as_u64().expect("an offset") as usize;
        Some(golden[at(0)..at(1)].as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    };
    assert_eq!(shown.mean_norms.len(), 4);
    for (at, norm) in shown.mean_norms {
        let name = match at {
            Point::Embedding => "embedding".to_owned(),
            Point::Block(block) => format!("block.{block}"),
            Point::FinalNorm => unreachable!("a post-norm model"),
        };
        let states: Vec<f32> = (0..).map_while(|sequence| rows(format!("{name}.{sequence}"))).flatten().collect();
        let norms: Vec<f64> = states.chunks(32).map(|row| row.iter().map(|&x| (x as f64).powi(2)).sum::<f64>().sqrt()).collect();
        assert_eq!(norms.len(), shown.counts.1);
        let expected = norms.iter().sum::<f64>() / norms.len() as f64;
        assert!((norm - expected).abs() < 1e-5 * expected, "{at}: {norm}, not {expected}");
    }
    let printed = layerscope(&["demo", "--threads", "1"]);
    assert_eq!(printed.status, 0, "{}", printed.stderr);
    assert!(printed.stdout.contains("block 3") && printed.stdout.contains("on 1 threads"), "{}", printed.stdout);
}

#[test]
fn inspect_tells_the_facts() {
    let outcome = layerscope(&["inspect", "--model", "fixtures/llama/llama2", "--json", "--threads", "1"]);
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
}

#[test]
fn inspect_without_probe_reads_headers_only() {
    let outcome = layerscope(&["inspect", "--model", "fixtures/gptj/base", "--no-probe"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(!outcome.stdout.contains("tokens/s"));
    assert!(outcome.stdout.contains("├── LayerNorm ─┬─ attention"), "the shared norm is drawn: {}", outcome.stdout);
}

#[test]
fn unknown_keys_are_a_warning() {
    let folder = support::copy_of("bert/base", "unknown-key");
    let file = folder.join("config.json");
    let text = std::fs::read_to_string(&file).expect("config.json").replacen('{', "{\"new_trick\": true,", 1);
    std::fs::write(&file, text).expect("writable");
    let inspection = Inspection::of(&folder).expect("still a model");
    assert_eq!(inspection.unknown_keys, ["new_trick"]);
    assert!(inspection.to_string().contains("does not know: new_trick"));
}

#[test]
fn models_lists_every_family() {
    let outcome = layerscope(&["models"]);
    assert_eq!(outcome.status, 0);
    for family in FAMILIES {
        assert!(outcome.stdout.lines().any(|line| line.starts_with(family.model_types[0])), "{}", family.model_types[0]);
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [&["inspect"][..], &["dance"], &["demo", "--threads", "0"], &[]] {
        let outcome = layerscope(arguments);
        assert_eq!(outcome.status, 2, "{arguments:?}: {}", outcome.stderr);
    }
}
