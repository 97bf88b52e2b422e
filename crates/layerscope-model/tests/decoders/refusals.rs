//! What no decoder accepts.

use serde_json::json;

use super::{altered, assert_refused, read};

#[test]
fn everything_missing_is_named_in_one_line() {
    let complaint = read(&json!({"model_type": "llama", "hidden_size": 64})).unwrap_err();
    let missing = "missing `num_attention_heads`, `intermediate_size`, `vocab_size`, `num_hidden_layers`";
    assert!(complaint.contains(missing) && !complaint.contains('\n'), "{complaint}");
    let complaint = read(&json!({"model_type": "falcon"})).unwrap_err();
    assert!(complaint.contains("missing `n_embed or hidden_size`, `num_attention_heads or n_head`, `vocab_size`"), "{complaint}");
}

#[test]
fn contradictions_are_named() {
    let heads = "`num_attention_heads` = 30 does not divide `hidden_size` = 4096";
    assert_refused("llama-7b", json!({"num_attention_heads": 30}), &[heads]);
    let groups = "`num_key_value_heads` = 5 does not divide `num_attention_heads` = 32";
    assert_refused("llama-7b", json!({"num_key_value_heads": 5}), &[groups]);
    for name in ["gpt2", "gpt-j-6b", "bloom-560m"] {
        assert_refused(name, json!({"n_head": 7, "num_attention_heads": 7}), &["`n_head` = 7 does not divide"]);
    }
    for key in ["num_key_value_heads", "head_dim", "num_attention_heads", "num_hidden_layers", "hidden_size"] {
        assert!(read(&altered("Llama-2-7b", json!({key: 0}))).is_err(), "{key} = 0 passes");
    }
}

#[test]
fn activations_are_never_approximated() {
    for (name, key) in
        [("gpt2", "activation_function"), ("pythia-70m", "hidden_act"), ("falcon-7b", "activation"), ("llama-7b", "hidden_act")]
    {
        assert_refused(name, json!({key: "gelu_10"}), &[&format!("`{key}` = gelu_10")]);
    }
}
