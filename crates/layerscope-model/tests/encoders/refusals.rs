//! What no encoder accepts, and keys that nobody knows.

use serde_json::json;

use super::configurations::*;
use super::{read, refused, with, without};

#[test]
fn what_is_not_computed_is_refused_by_name() {
    for config in [bert_base_uncased(), roberta_base(), electra_small_discriminator(), albert_base_v2(), mpnet_base(), modernbert_base()] {
        let problem = refused(&with(config, json!({"position_embedding_type": "relative_key_query"})));
        assert!(problem.contains("`position_embedding_type` = \"relative_key_query\""), "{problem}");
    }
    for (config, key) in [
        (bert_base_uncased(), "hidden_act"),
        (roberta_base(), "hidden_act"),
        (electra_small_discriminator(), "hidden_act"),
        (distilbert_base_uncased(), "activation"),
        (albert_base_v2(), "hidden_act"),
        (mpnet_base(), "hidden_act"),
        (modernbert_base(), "hidden_activation"),
    ] {
        let problem = refused(&with(config, json!({key: "mish"})));
        assert!(problem.contains(&format!("`{key}` = mish changes the computation")), "{problem}");
    }
    let problem = refused(&with(bert_base_uncased(), json!({"is_decoder": true, "add_cross_attention": true})));
    assert!(problem.contains("`add_cross_attention` = true"), "{problem}");
}

#[test]
fn contradictions_and_missing_keys_stand_in_one_line() {
    for config in [bert_base_uncased(), roberta_base(), electra_small_discriminator(), albert_base_v2(), mpnet_base(), modernbert_base()] {
        let problem = refused(&with(config, json!({"num_attention_heads": 7})));
        assert!(problem.contains("`num_attention_heads` = 7 does not divide `hidden_size`"), "{problem}");
    }
    let problem = refused(&with(distilbert_base_uncased(), json!({"n_heads": 7})));
    assert!(problem.contains("`n_heads` = 7 does not divide `dim` = 768"), "{problem}");

    let keys = ["intermediate_size", "num_hidden_layers", "vocab_size"];
    for config in [bert_base_uncased(), roberta_base(), electra_small_discriminator(), albert_base_v2(), mpnet_base(), modernbert_base()] {
        let problem = refused(&without(config, &keys));
        assert!(keys.iter().all(|key| problem.contains(&format!("`{key}`"))), "{problem}");
        assert_eq!(problem.matches("missing").count(), 1, "{problem}");
    }
    let problem = refused(&without(distilbert_base_uncased(), &["hidden_dim", "n_layers"]));
    assert!(problem.contains("missing `hidden_dim`, `n_layers or num_hidden_layers`"), "{problem}");
}

#[test]
fn unknown_keys_are_reported() {
    let (_, unknown) = read(&with(bert_base_uncased(), json!({"stochastic_depth": 0.5}))).unwrap();
    assert_eq!(unknown, ["stochastic_depth"]);
    let nested = json!({"rope_parameters": {"full_attention": {"surprise": 1}}});
    let (_, unknown) = read(&with(modernbert_base(), nested)).unwrap();
    assert_eq!(unknown, ["rope_parameters.full_attention.surprise"]);
}
