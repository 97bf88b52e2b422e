//! BERT and its kin: norms after the sums.

use layerscope_compute::Activation;
use layerscope_model::families::FAMILIES;
use layerscope_model::spec::{BiasSpec, BlockNorms, Gate, LearnedPositions, ModelSpec, NormSpec, Projection, QkvStorage};
use serde_json::json;

use super::configurations::*;
use super::{accepted, refused, with, without};

/// What a post-norm encoder of BERT's kind always is.
fn assert_post_norm(spec: &ModelSpec, layers: usize, heads: usize, epsilon: f32) {
    let norm = NormSpec::layer(epsilon);
    let head_dim = spec.width / heads;
    assert_eq!(spec.blocks.len(), layers);
    assert_eq!(spec.embedding.norm, Some(norm));
    assert_eq!(spec.embedding.scale, 1.0);
    assert_eq!(spec.final_norm, None);
    for block in &spec.blocks {
        assert_eq!(block.norms, BlockNorms::post(norm));
        assert_eq!((block.attention.heads, block.attention.kv_heads, block.attention.head_dim), (heads, heads, head_dim));
        assert_eq!(block.attention.scale, 1.0 / (head_dim as f32).sqrt());
        assert!(!block.attention.causal && block.attention.qkv_bias && block.attention.out_bias);
        assert_eq!((block.attention.window, &block.attention.rotary), (None, &None));
        assert_eq!(block.attention.qkv, QkvStorage::Separate);
        assert_eq!(block.feed_forward.gate, Gate::None);
    }
}

fn stored_blocks(spec: &ModelSpec) -> Vec<usize> {
    spec.blocks.iter().map(|block| block.weights).collect()
}

#[test]
fn bert_reads_published_and_todays_configurations() {
    let published = accepted(&bert_base_uncased());
    assert_post_norm(&published, 12, 12, 1e-12);
    assert_eq!((published.vocabulary, published.width, published.max_positions), (30522, 768, Some(512)));
    assert_eq!(published.embedding.positions, Some(LearnedPositions { rows: 512, offset: 0 }));
    assert_eq!((published.embedding.types, published.embedding.unnumbered), (2, None));
    assert_eq!(published.blocks[0].feed_forward.width, 3072);
    assert_eq!(published.blocks[0].feed_forward.activation, Activation::GeluErf);
    assert_eq!(stored_blocks(&published), (0..12).collect::<Vec<_>>());

    let todays = accepted(&todays_base(json!({
        "model_type": "bert", "vocab_size": 30522, "type_vocab_size": 2, "pad_token_id": 0, "use_cache": true, "classifier_dropout": null,
        "is_decoder": false, "add_cross_attention": false, "bos_token_id": null, "eos_token_id": null
    })));
    assert_eq!(todays, published);

    let minilm = with(
        bert_base_uncased(),
        json!({
            "_name_or_path": "nreimers/MiniLM-L6-H384-uncased", "architectures": ["BertModel"], "hidden_size": 384,
            "intermediate_size": 1536, "num_hidden_layers": 6
        }),
    );
    assert_post_norm(&accepted(&minilm), 6, 12, 1e-12);

    let multilingual = json!({
        "directionality": "bidi", "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
        "pooler_size_per_head": 128, "pooler_type": "first_token_transform", "vocab_size": 119547
    });
    assert_eq!(accepted(&with(bert_base_uncased(), multilingual)).vocabulary, 119547);
}

#[test]
fn a_decoder_of_berts_kind_attends_backwards() {
    for config in [bert_base_uncased(), roberta_base(), electra_small_discriminator()] {
        let spec = accepted(&with(config, json!({"is_decoder": true})));
        assert!(spec.blocks.iter().all(|block| block.attention.causal));
    }
}

#[test]
fn roberta_numbers_positions_from_behind_the_padding_token() {
    let published = accepted(&roberta_base());
    assert_post_norm(&published, 12, 12, 1e-5);
    assert_eq!((published.vocabulary, published.width, published.max_positions), (50265, 768, Some(512)));
    assert_eq!(published.embedding.positions, Some(LearnedPositions { rows: 514, offset: 2 }));
    assert_eq!((published.embedding.types, published.embedding.unnumbered), (1, Some(1)));

    let todays = todays_base(json!({
        "model_type": "roberta", "vocab_size": 50265, "type_vocab_size": 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
        "use_cache": true, "classifier_dropout": null, "is_decoder": false, "add_cross_attention": false
    }));
    let spec = accepted(&todays);
    assert_post_norm(&spec, 12, 12, 1e-12);
    assert_eq!((spec.max_positions, spec.embedding.types), (Some(510), 2));

    let spec = accepted(&with(todays, json!({"pad_token_id": 4})));
    assert_eq!(spec.embedding.positions, Some(LearnedPositions { rows: 512, offset: 5 }));
    assert_eq!((spec.max_positions, spec.embedding.unnumbered), (Some(507), Some(4)));

    let problem = refused(&with(roberta_base(), json!({"pad_token_id": 600})));
    assert!(problem.contains("`max_position_embeddings` = 514 leaves no position after the padding token 600"), "{problem}");
}

#[test]
fn xlm_roberta_is_a_family_of_its_own() {
    let published = with(
        roberta_base(),
        json!({
            "architectures": ["XLMRobertaForMaskedLM"], "model_type": "xlm-roberta", "output_past": true,
            "position_embedding_type": "absolute", "transformers_version": "4.17.0.dev0", "use_cache": true, "vocab_size": 250002
        }),
    );
    let spec = accepted(&published);
    assert_post_norm(&spec, 12, 12, 1e-5);
    assert_eq!((spec.vocabulary, spec.max_positions, spec.embedding.types), (250002, Some(512), 1));

    let spec = accepted(&todays_base(json!({
        "model_type": "xlm-roberta", "vocab_size": 30522, "type_vocab_size": 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
        "use_cache": true, "classifier_dropout": null, "is_decoder": false, "add_cross_attention": false
    })));
    assert_eq!((spec.vocabulary, spec.max_positions), (30522, Some(510)));
    assert_eq!(FAMILIES.iter().filter(|family| family.model_types == ["xlm-roberta"]).count(), 1);
}

#[test]
fn electra_projects_only_where_widths_differ() {
    let published = accepted(&electra_small_discriminator());
    assert_post_norm(&published, 12, 4, 1e-12);
    assert_eq!((published.width, published.embedding.width, published.max_positions), (256, 128, Some(512)));
    assert_eq!(published.embedding.projection, Some(Projection { bias: true, before_positions: false }));

    let todays = accepted(&todays(json!({
        "model_type": "electra", "vocab_size": 30522, "embedding_size": 128, "hidden_size": 256, "num_hidden_layers": 12,
        "num_attention_heads": 4, "intermediate_size": 1024, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        "summary_type": "first", "summary_use_proj": true, "summary_activation": "gelu", "summary_last_dropout": 0.1, "pad_token_id": 0,
        "use_cache": true, "classifier_dropout": null, "is_decoder": false, "add_cross_attention": false, "bos_token_id": null,
        "eos_token_id": null
    })));
    assert_eq!(todays, published);

    let base = with(electra_small_discriminator(), json!({"embedding_size": 256}));
    assert_eq!(accepted(&base).embedding.projection, None);
}

#[test]
fn distilbert_reads_its_own_keys() {
    let published = accepted(&distilbert_base_uncased());
    assert_post_norm(&published, 6, 12, 1e-12);
    assert_eq!((published.vocabulary, published.width, published.max_positions), (30522, 768, Some(512)));
    assert_eq!((published.embedding.types, published.blocks[0].feed_forward.width), (0, 3072));

    let todays = accepted(&todays(json!({
        "model_type": "distilbert", "vocab_size": 30522, "max_position_embeddings": 512, "sinusoidal_pos_embds": false, "n_layers": 6,
        "n_heads": 12, "dim": 768, "hidden_dim": 3072, "dropout": 0.1, "attention_dropout": 0.1, "activation": "gelu", "qa_dropout": 0.1,
        "seq_classif_dropout": 0.2, "pad_token_id": 0, "eos_token_id": null, "bos_token_id": null
    })));
    assert_eq!(todays, published);

    let relu = with(distilbert_base_uncased(), json!({"activation": "relu"}));
    assert_eq!(accepted(&relu).blocks[5].feed_forward.activation, Activation::Relu);
}

#[test]
fn albert_shares_weights_between_blocks() {
    let published = accepted(&albert_base_v2());
    assert_post_norm(&published, 12, 12, 1e-12);
    assert_eq!((published.vocabulary, published.width, published.embedding.width), (30000, 768, 128));
    assert_eq!(published.embedding.projection, Some(Projection { bias: true, before_positions: false }));
    assert_eq!(published.blocks[0].feed_forward.activation, Activation::GeluTanh);
    assert_eq!(stored_blocks(&published), [0; 12]);

    let todays = todays(json!({
        "model_type": "albert", "vocab_size": 30000, "embedding_size": 128, "hidden_size": 4096, "num_hidden_layers": 12,
        "num_hidden_groups": 1, "num_attention_heads": 64, "intermediate_size": 16384, "inner_group_num": 1, "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 512, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12, "classifier_dropout_prob": 0.1, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3
    }));
    assert_post_norm(&accepted(&todays), 12, 64, 1e-12);
    assert_eq!(accepted(&without(todays, &["hidden_act"])).blocks[0].feed_forward.activation, Activation::GeluTanh);

    let groups = |groups: usize| with(albert_base_v2(), json!({"num_hidden_groups": groups}));
    assert_eq!(stored_blocks(&accepted(&groups(3))), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(stored_blocks(&accepted(&groups(5))), [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4]);
    assert!(refused(&groups(13)).contains("`num_hidden_groups` = 13 should be between 1 and `num_hidden_layers` = 12"));
    assert!(refused(&groups(0)).contains("`num_hidden_groups` = 0"));

    let equal = accepted(&with(albert_base_v2(), json!({"embedding_size": 768})));
    assert!(equal.embedding.projection.is_some(), "there is a projection even between equal widths");
    assert!(refused(&with(albert_base_v2(), json!({"inner_group_num": 2}))).contains("`inner_group_num` = 2"));
}

#[test]
fn mpnet_biases_scores_by_distance() {
    let published = accepted(&mpnet_base());
    assert_post_norm(&published, 12, 12, 1e-5);
    assert_eq!((published.vocabulary, published.max_positions, published.embedding.types), (30527, Some(512), 0));
    assert_eq!(published.embedding.positions, Some(LearnedPositions { rows: 514, offset: 2 }));
    let bias = Some(BiasSpec::Buckets { buckets: 32, rows: 32, max_distance: 128 });
    assert!(published.blocks.iter().all(|block| block.attention.bias == bias));

    let todays = todays_base(json!({
        "model_type": "mpnet", "vocab_size": 30527, "relative_attention_num_buckets": 32, "pad_token_id": 1, "bos_token_id": 0,
        "eos_token_id": 2
    }));
    assert_eq!(accepted(&todays).max_positions, Some(510));
    // The padding token is a constant of the reference library's code here.
    let padded = accepted(&with(todays, json!({"pad_token_id": 0})));
    assert_eq!((padded.max_positions, padded.embedding.unnumbered), (Some(510), Some(1)));

    let problem = refused(&with(mpnet_base(), json!({"relative_attention_num_buckets": 16})));
    assert!(problem.contains("`relative_attention_num_buckets` = 16"), "{problem}");
}
