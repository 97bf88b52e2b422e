//! ModernBERT: norms before the parts, rotary positions, windows.

use layerscope_model::spec::{BlockNorms, Gate, NormSpec, QkvStorage};
use serde_json::{Value, json};

use super::configurations::{modernbert_base, todays};
use super::{accepted, refused, with, without};

#[test]
fn modernbert_alternates_windows_and_rotary_bases() {
    let published = accepted(&modernbert_base());
    assert_eq!((published.vocabulary, published.width, published.max_positions), (50368, 768, Some(8192)));
    let norm = NormSpec { beta: false, ..NormSpec::layer(1e-5) };
    assert_eq!((published.embedding.norm, published.final_norm), (Some(norm), Some(norm)));
    assert_eq!((published.embedding.positions, published.embedding.types), (None, 0));
    assert_eq!(published.blocks.len(), 22);
    for (layer, block) in published.blocks.iter().enumerate() {
        let (window, base) = if layer % 3 == 0 { (None, 160_000.0) } else { (Some(65), 10_000.0) };
        let rotary = block.attention.rotary.as_ref().unwrap();
        assert_eq!((block.attention.window, rotary.base, rotary.dim), (window, base, 64));
        assert_eq!(block.attention.qkv, QkvStorage::FusedBlocks);
        assert_eq!((block.attention.heads, block.attention.scale), (12, 0.125));
        assert!(!block.attention.causal && !block.attention.qkv_bias && !block.attention.out_bias);
        assert_eq!((block.feed_forward.width, block.feed_forward.gate), (1152, Gate::Fused));
        assert!(!block.feed_forward.in_bias && !block.feed_forward.out_bias);
        let mut norms = BlockNorms::pre(norm);
        if layer == 0 {
            norms.attention_in = None;
        }
        assert_eq!(block.norms, norms);
    }

    let layer_types: Vec<_> = (0..22).map(|layer| if layer % 3 == 0 { "full_attention" } else { "sliding_attention" }).collect();
    let todays = todays(json!({
        "model_type": "modernbert", "vocab_size": 50368, "hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 22,
        "num_attention_heads": 12, "hidden_activation": "gelu", "max_position_embeddings": 8192, "initializer_cutoff_factor": 2.0,
        "norm_eps": 1e-5, "norm_bias": false, "pad_token_id": 50283, "eos_token_id": 50282, "bos_token_id": 50281, "cls_token_id": 50281,
        "sep_token_id": 50282, "attention_bias": false, "attention_dropout": 0.0, "layer_types": layer_types,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "default", "rope_theta": 160000.0}
        },
        "local_attention": 128, "embedding_dropout": 0.0, "mlp_bias": false, "mlp_dropout": 0.0, "decoder_bias": true,
        "classifier_pooling": "cls", "classifier_dropout": 0.0, "classifier_bias": false, "classifier_activation": "gelu",
        "deterministic_flash_attn": false, "sparse_prediction": false, "sparse_pred_ignore_index": -100
    }));
    assert_eq!(accepted(&todays), published);
}

#[test]
fn modernbert_reads_every_axis() {
    let small = with(modernbert_base(), json!({"num_hidden_layers": 4}));
    let windows = |config: &Value| accepted(config).blocks.iter().map(|block| block.attention.window).collect::<Vec<_>>();
    assert_eq!(windows(&with(small.clone(), json!({"local_attention": 9}))), [None, Some(5), Some(5), None]);
    assert_eq!(windows(&with(small.clone(), json!({"sliding_window": 9}))), [None, Some(10), Some(10), None]);
    assert_eq!(windows(&with(small.clone(), json!({"global_attn_every_n_layers": 2}))), [None, Some(65), None, Some(65)]);
    let types = json!({"layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]});
    assert_eq!(windows(&with(small.clone(), types)), [Some(65), None, None, Some(65)]);

    let biased = accepted(&with(small.clone(), json!({"attention_bias": true, "mlp_bias": true, "norm_bias": true})));
    assert!(biased.blocks[0].attention.qkv_bias && biased.blocks[0].attention.out_bias);
    assert!(biased.blocks[0].feed_forward.in_bias && biased.blocks[0].feed_forward.out_bias);
    assert_eq!(biased.final_norm, Some(NormSpec::layer(1e-5)));

    let bases = |config: &Value| {
        let spec = accepted(config);
        [0, 1].map(|layer| spec.blocks[layer].attention.rotary.as_ref().unwrap().base)
    };
    assert_eq!(bases(&without(small.clone(), &["global_rope_theta", "local_rope_theta"])), [160_000.0, 10_000.0]);
    let nested = json!({"rope_parameters": {"sliding_attention": {"rope_theta": 5.0}}, "global_rope_theta": 7.0});
    assert_eq!(bases(&with(small.clone(), nested)), [7.0, 5.0]);

    for (changes, expected) in [
        (json!({"rope_scaling": {"type": "linear", "factor": 2.0}}), "`rope_scaling` = "),
        (json!({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}), "rope_parameters: full_attention: `rope_type` = \"yarn\""),
        (json!({"rope_parameters": {"rope_theta": 5.0}}), "rope_parameters: `rope_theta` = 5.0"),
        (json!({"layer_types": ["full_attention"]}), "`layer_types` lists 1 layers, `num_hidden_layers` = 4"),
        (json!({"layer_types": ["linear_attention", "full_attention", "a", "b"]}), "`layer_types` = linear_attention"),
        (json!({"global_attn_every_n_layers": 0}), "`global_attn_every_n_layers` should be at least 1"),
        (json!({"head_dim": 32}), "`head_dim` = 32"),
        (json!({"hidden_size": 36}), "even width of heads, found 3"),
    ] {
        let problem = refused(&with(small.clone(), changes));
        assert!(problem.contains(expected), "{problem}");
    }
}
