//! Families with LayerNorm: learned, rotary or no positions.

use layerscope_compute::{Activation, RotaryPairs};
use layerscope_model::spec::{
    BiasSpec, BlockNorms, LearnedPositions, NormSpec, Projection, QkvStorage, Residual, RotaryScaling, RotarySpec,
};
use serde_json::json;

use super::{assert_refused, attention, checkpoint, plain_rotary, rotary, shape, spec_of};

#[test]
fn gpt2() {
    let model = checkpoint("gpt2");
    assert_eq!(shape(&model), (12, 768, 12, 12, 64));
    assert_eq!(model.max_positions, Some(1024));
    assert_eq!(attention(&model).qkv, QkvStorage::FusedBlocks);
    assert_eq!(model.blocks[0].feed_forward.width, 3072);
    assert_eq!(model.blocks[0].feed_forward.activation, Activation::GeluTanh);
    let renamed = json!({"n_embd": null, "hidden_size": 768, "n_layer": null, "num_hidden_layers": 12});
    assert_eq!(spec_of("gpt2", renamed), model);
    assert_eq!(attention(&spec_of("gpt2", json!({"scale_attn_weights": false}))).scale, 1.0);
    assert_refused("gpt2", json!({"scale_attn_by_inverse_layer_idx": true}), &["`scale_attn_by_inverse_layer_idx` = true"]);
    assert_refused("gpt2", json!({"is_causal": false}), &["`is_causal` = false"]);
}

#[test]
fn gpt_neo() {
    let model = checkpoint("gpt-neo-125m");
    assert_eq!(shape(&model), (12, 768, 12, 12, 64));
    let windows: Vec<_> = model.blocks.iter().map(|block| block.attention.window).collect();
    assert_eq!(windows, [None, Some(256)].repeat(6));
    assert_eq!((attention(&model).scale, attention(&model).qkv_bias, attention(&model).out_bias), (1.0, false, true));
    assert_eq!(model.embedding.positions, Some(LearnedPositions { rows: 2048, offset: 0 }));
    assert_eq!(model.blocks[0].feed_forward.width, 3072);

    // The pattern alone means the same; the list written out wins.
    assert_eq!(spec_of("gpt-neo-125m", json!({"attention_layers": null})), model);
    let all_local = spec_of("gpt-neo-125m", json!({"attention_layers": vec!["local"; 12]}));
    assert!(all_local.blocks.iter().all(|block| block.attention.window == Some(256)));
    assert_refused("gpt-neo-125m", json!({"num_layers": 11}), &["`attention_layers`", "`num_layers` = 11"]);
    for pattern in [json!([[["global"], 1e18 as u64]]), json!([[[], 1e18 as u64]]), json!("global"), json!([["global", 12]])] {
        assert_refused("gpt-neo-125m", json!({"attention_layers": null, "attention_types": pattern}), &["`attention_types`"]);
    }
    assert_refused("gpt-neo-125m", json!({"attention_layers": vec!["strided"; 12]}), &["`attention_layers` = strided"]);
}

#[test]
fn gptj() {
    let model = checkpoint("gpt-j-6b");
    assert_eq!(shape(&model), (28, 4096, 16, 16, 256));
    assert_eq!(model.blocks[0].residual, Residual::Parallel { shared_norm: true });
    assert_eq!(model.blocks[0].norms, BlockNorms { attention_in: Some(NormSpec::layer(1e-5)), ..BlockNorms::default() });
    assert_eq!(*rotary(&model), RotarySpec { pairs: RotaryPairs::Interleaved, ..plain_rotary(10_000.0, 64) });
    assert_eq!((attention(&model).qkv_bias, attention(&model).out_bias), (false, false));
    assert!(model.blocks[0].feed_forward.in_bias && model.blocks[0].feed_forward.out_bias);
    assert_eq!(model.max_positions, Some(2048));
    assert_refused("gpt-j-6b", json!({"rotary_dim": null}), &["`rotary_dim` = null"]);
    assert_refused("gpt-j-6b", json!({"rotary_dim": 258}), &["`rotary_dim` = 258", "256"]);
}

#[test]
fn gpt_neox() {
    let model = checkpoint("pythia-70m");
    assert_eq!(shape(&model), (6, 512, 8, 8, 64));
    assert_eq!(model.blocks[0].residual, Residual::Parallel { shared_norm: false });
    assert_eq!(attention(&model).qkv, QkvStorage::FusedGroups);
    assert_eq!(*rotary(&model), plain_rotary(10_000.0, 16));
    assert_eq!(model.blocks[0].feed_forward.activation, Activation::GeluErf);
    assert!(attention(&model).qkv_bias && attention(&model).out_bias);

    let other = json!({"use_parallel_residual": false, "attention_bias": false, "rotary_pct": 1.0, "rotary_emb_base": 5000});
    let other = spec_of("pythia-70m", other);
    assert_eq!(other.blocks[0].residual, Residual::Sequential);
    assert_eq!(*rotary(&other), plain_rotary(5000.0, 64));
    assert!(!attention(&other).qkv_bias && !attention(&other).out_bias);
    let stretched = spec_of("pythia-70m", json!({"rope_scaling": {"type": "linear", "factor": 2.0}}));
    assert_eq!(*rotary(&stretched), RotarySpec { scaling: RotaryScaling::Linear { factor: 2.0 }, ..plain_rotary(10_000.0, 16) });
    assert_refused("pythia-70m", json!({"rotary_pct": 0.05}), &["even", "found 3"]);
    assert_refused("pythia-70m", json!({"rope_theta": 7}), &["`rope_theta` = 7"]);
}

#[test]
fn opt() {
    let model = checkpoint("opt-125m");
    assert_eq!(shape(&model), (12, 768, 12, 12, 64));
    assert_eq!(model.max_positions, Some(2048));
    assert_eq!(model.embedding.positions, Some(LearnedPositions { rows: 2050, offset: 2 }));
    assert_eq!((model.embedding.width, model.embedding.projection), (768, None));
    assert_eq!(model.blocks[0].norms, BlockNorms::pre(NormSpec::layer(1e-5)));
    assert_eq!(model.final_norm, Some(NormSpec::layer(1e-5)));
    assert_eq!(model.output_projection, None);
    assert_eq!(model.blocks[0].feed_forward.activation, Activation::Relu);

    let model = checkpoint("opt-350m");
    assert_eq!(shape(&model), (24, 1024, 16, 16, 64));
    assert_eq!(model.embedding.width, 512);
    assert_eq!(model.embedding.projection, Some(Projection { bias: false, before_positions: true }));
    assert_eq!(model.blocks[0].norms, BlockNorms::post(NormSpec::layer(1e-5)));
    assert_eq!((model.final_norm, model.output_projection), (None, Some(512)));

    let bare = json!({"enable_bias": false, "layer_norm_elementwise_affine": false, "_remove_final_layer_norm": true});
    let bare = spec_of("opt-125m", bare);
    assert_eq!(bare.final_norm, None);
    assert_eq!(bare.blocks[0].norms.attention_in.map(|norm| (norm.gamma, norm.beta)), Some((false, false)));
    assert!(!attention(&bare).qkv_bias && !attention(&bare).out_bias);
    assert!(!bare.blocks[0].feed_forward.in_bias && !bare.blocks[0].feed_forward.out_bias);
}

#[test]
fn bloom() {
    let model = checkpoint("bloom-560m");
    assert_eq!(shape(&model), (24, 1024, 16, 16, 64));
    assert_eq!(model.vocabulary, 250_880);
    assert_eq!(model.max_positions, None);
    assert_eq!(model.embedding.norm, Some(NormSpec::layer(1e-5)));
    assert_eq!(attention(&model).qkv, QkvStorage::FusedGroups);
    assert_eq!(attention(&model).bias, Some(BiasSpec::Alibi { rounded_to_bf16: false, scaled_with_scores: false }));
    assert_eq!(model.blocks[0].feed_forward.activation, Activation::GeluTanh);
    assert_eq!(spec_of("bloom-560m", json!({"slow_but_exact": true})), model);
    assert_refused("bloom-560m", json!({"slow_but_exact": true, "pretraining_tp": 4}), &["`slow_but_exact` = true"]);
    let residual = json!({"apply_residual_connection_post_layernorm": true});
    assert_eq!(spec_of("bloom-560m", residual).blocks[0].residual, Residual::SequentialFromNorms);
}

#[test]
fn falcon() {
    let model = checkpoint("falcon-7b");
    assert_eq!(shape(&model), (32, 4544, 71, 1, 64));
    assert_eq!(attention(&model).qkv, QkvStorage::FusedBlocks);
    assert_eq!(model.blocks[0].residual, Residual::Parallel { shared_norm: true });
    assert_eq!(model.blocks[0].norms.feed_forward_in, None);
    assert_eq!(*rotary(&model), plain_rotary(10_000.0, 64));
    assert_eq!(model.max_positions, Some(2048));
    assert!(!attention(&model).qkv_bias && !model.blocks[0].feed_forward.in_bias);
    let older = json!({"num_hidden_layers": null, "n_layer": 32, "num_attention_heads": null, "n_head": 71});
    assert_eq!(spec_of("falcon-7b", older), model);

    let model = checkpoint("falcon-40b");
    assert_eq!(shape(&model), (60, 8192, 128, 8, 64));
    assert_eq!(attention(&model).qkv, QkvStorage::FusedGroups);
    assert_eq!(model.blocks[0].residual, Residual::Parallel { shared_norm: false });
    assert_eq!(model.blocks[0].norms, BlockNorms::pre(NormSpec::layer(1e-5)));
    let one_norm = spec_of("falcon-40b", json!({"num_ln_in_parallel_attn": 1, "num_kv_heads": null, "n_head_kv": 8}));
    assert_eq!(one_norm.blocks[0].residual, Residual::Parallel { shared_norm: true });
    assert_eq!(attention(&one_norm).kv_heads, 8);

    let model = checkpoint("falcon-rw-1b");
    assert_eq!(shape(&model), (24, 2048, 32, 32, 64));
    assert_eq!(attention(&model).qkv, QkvStorage::FusedGroups);
    assert_eq!(model.blocks[0].residual, Residual::Sequential);
    assert_eq!(attention(&model).bias, Some(BiasSpec::Alibi { rounded_to_bf16: true, scaled_with_scores: true }));
    assert_eq!((attention(&model).rotary.as_ref(), model.max_positions), (None, None));
    assert!(attention(&model).qkv_bias && model.blocks[0].feed_forward.out_bias);

    assert_refused("falcon-rw-1b", json!({"num_kv_heads": 4}), &["`num_kv_heads` = 4", "`num_attention_heads` = 32"]);
    assert_refused("falcon-40b", json!({"num_kv_heads": 7}), &["`num_kv_heads` = 7 does not divide `num_attention_heads` = 128"]);
    assert_refused("falcon-40b", json!({"parallel_attn": false}), &["`parallel_attn`"]);
    assert_refused("falcon-7b", json!({"num_ln_in_parallel_attn": 2}), &["`num_ln_in_parallel_attn` = 2"]);
}
