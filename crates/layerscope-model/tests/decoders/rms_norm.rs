//! Families with RMSNorm and rotary positions.

use layerscope_compute::{Activation, NormKind};
use layerscope_model::spec::{BlockNorms, NormSpec, RotaryScaling, RotarySpec};
use serde_json::json;

use super::{assert_refused, attention, checkpoint, load, plain_rotary, read, rotary, shape, spec_of};

#[test]
fn llama() {
    let model = checkpoint("llama-7b");
    assert_eq!(shape(&model), (32, 4096, 32, 32, 128));
    assert_eq!(*rotary(&model), plain_rotary(10_000.0, 128));
    assert_eq!(model.blocks[0].norms, BlockNorms::pre(NormSpec::rms(1e-6)));
    assert_eq!((model.max_positions, model.blocks[0].feed_forward.width), (Some(2048), 11008));
    assert_eq!(model.blocks[0].feed_forward.activation, Activation::Silu);

    assert_eq!(checkpoint("Llama-2-7b").final_norm, Some(NormSpec::rms(1e-5)));

    let model = checkpoint("Llama-3.1-8B");
    assert_eq!(shape(&model), (32, 4096, 32, 8, 128));
    let scaling = RotaryScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, trained: 8192 };
    assert_eq!(*rotary(&model), RotarySpec { scaling, ..plain_rotary(500_000.0, 128) });
    assert_eq!((model.max_positions, model.vocabulary), (Some(131_072), 128_256));

    let biased = spec_of("llama-7b", json!({"attention_bias": true, "mlp_bias": true, "head_dim": 64, "num_key_value_heads": 4}));
    assert_eq!(shape(&biased), (32, 4096, 32, 4, 64));
    assert!(attention(&biased).qkv_bias && attention(&biased).out_bias);
    assert!(biased.blocks[0].feed_forward.in_bias && biased.blocks[0].feed_forward.out_bias);
}

#[test]
fn mistral() {
    let model = checkpoint("Mistral-7B-v0.1");
    assert_eq!(shape(&model), (32, 4096, 32, 8, 128));
    assert!(model.blocks.iter().all(|block| block.attention.window == Some(4096)));
    assert_eq!(model.max_positions, Some(32_768));
    // Null is no window, absent is the reference library's own.
    assert_eq!(attention(&spec_of("Mistral-7B-v0.1", json!({"sliding_window": null}))).window, None);
    let mut silent = load("published", "Mistral-7B-v0.1");
    silent.as_object_mut().unwrap().remove("sliding_window");
    assert_eq!(read(&silent).unwrap().0, model);
    assert_refused("Mistral-7B-v0.1", json!({"sliding_window": 0}), &["`sliding_window`"]);
    assert_refused("Mistral-7B-v0.1", json!({"layer_types": ["full_attention"]}), &["`layer_types`"]);
}

#[test]
fn qwen2() {
    let model = checkpoint("Qwen2-0.5B");
    assert_eq!(shape(&model), (24, 896, 14, 2, 64));
    assert!(attention(&model).qkv_bias && !attention(&model).out_bias);
    assert!(model.blocks.iter().all(|block| block.attention.window.is_none()));
    assert_eq!(*rotary(&model), plain_rotary(1e6, 64));

    let windows = json!({"use_sliding_window": true, "sliding_window": 64, "max_window_layers": 20});
    let windows: Vec<_> = spec_of("Qwen2-0.5B", windows).blocks.iter().map(|block| block.attention.window).collect();
    assert_eq!(windows, [vec![None; 20], vec![Some(64); 4]].concat());
    let kinds = [vec!["sliding_attention"; 2], vec!["full_attention"; 22]].concat();
    let written = json!({"use_sliding_window": true, "sliding_window": 64, "layer_types": kinds});
    let windows: Vec<_> = spec_of("Qwen2-0.5B", written).blocks.iter().map(|block| block.attention.window).collect();
    assert_eq!(windows, [vec![Some(64); 2], vec![None; 22]].concat());
    assert_refused("Qwen2-0.5B", json!({"layer_types": kinds}), &["`layer_types`", "`use_sliding_window`"]);
    assert_refused("Qwen2-0.5B", json!({"layer_types": ["full_attention"]}), &["`layer_types` names 1 layers", "24"]);
    assert_refused("Qwen2-0.5B", json!({"layer_types": vec!["chunked_attention"; 24]}), &["`layer_types` = chunked_attention"]);
    assert_refused("Qwen2-0.5B", json!({"is_causal": false}), &["`is_causal` = false"]);
}

#[test]
fn qwen3() {
    let model = checkpoint("Qwen3-0.6B");
    assert_eq!(shape(&model), (28, 1024, 16, 8, 128));
    let qk_norm = attention(&model).qk_norm.unwrap();
    assert_eq!((qk_norm.norm, qk_norm.per_head), (NormSpec::rms(1e-6), true));
    assert!(!attention(&model).qkv_bias && !attention(&model).out_bias);
    assert_eq!(model.max_positions, Some(40_960));
    assert!(attention(&spec_of("Qwen3-0.6B", json!({"attention_bias": true}))).out_bias);
}

#[test]
fn olmo2() {
    let model = checkpoint("OLMo-2-0425-1B");
    assert_eq!(shape(&model), (16, 2048, 16, 16, 128));
    let norm = Some(NormSpec::rms(1e-6));
    assert_eq!(model.blocks[0].norms, BlockNorms { attention_out: norm, feed_forward_out: norm, ..BlockNorms::default() });
    assert_eq!(attention(&model).qk_norm.map(|qk| qk.per_head), Some(false));
    assert_eq!(*rotary(&model), plain_rotary(500_000.0, 128));
    assert_refused("OLMo-2-0425-1B", json!({"clip_qkv": 8.0}), &["`clip_qkv` = 8.0"]);
}

#[test]
fn gemma3() {
    let model = checkpoint("gemma-3-1b-pt");
    assert_eq!(shape(&model), (26, 1152, 4, 1, 256));
    let norm = NormSpec { kind: NormKind::Rms, epsilon: 1e-6, gamma: true, gamma_offset: 1.0, gamma_scale: 1.0, beta: false };
    let sandwich = BlockNorms {
        attention_in: Some(norm),
        attention_out: Some(norm),
        feed_forward_in: Some(norm),
        feed_forward_out: Some(norm),
        ..BlockNorms::default()
    };
    assert_eq!(model.blocks[0].norms, sandwich);
    assert_eq!(model.final_norm, Some(norm));
    assert_eq!(attention(&model).qk_norm.map(|qk| (qk.norm, qk.per_head)), Some((norm, true)));
    assert_eq!(model.embedding.scale, 1152_f32.sqrt());
    assert_eq!(attention(&model).scale, 1.0 / 16.0);
    for (layer, block) in model.blocks.iter().enumerate() {
        let (window, base) = if layer % 6 == 5 { (None, 1e6) } else { (Some(512), 1e4) };
        assert_eq!((block.attention.window, block.attention.rotary.clone()), (window, Some(plain_rotary(base, 256))));
    }
    assert_eq!((model.max_positions, model.vocabulary), (Some(32_768), 262_144));
    assert_eq!(model.blocks[0].feed_forward.activation, Activation::GeluTanh);

    let model = checkpoint("gemma-3-4b-pt");
    assert_eq!(shape(&model), (34, 2560, 8, 4, 256));
    assert_eq!((model.max_positions, model.vocabulary), (Some(131_072), 262_208));
    let full = RotarySpec { scaling: RotaryScaling::Linear { factor: 8.0 }, ..plain_rotary(1e6, 256) };
    assert_eq!(model.blocks[5].attention.rotary, Some(full));
    assert_eq!(*rotary(&model), plain_rotary(1e4, 256));
    assert_eq!(model.blocks.iter().filter(|block| block.attention.window == Some(1024)).count(), 29);

    assert_refused("gemma-3-1b-pt", json!({"attn_logit_softcapping": 50.0}), &["`attn_logit_softcapping` = 50.0"]);
    let both_ways = spec_of("gemma-3-1b-pt", json!({"use_bidirectional_attention": true})).blocks.remove(0).attention;
    assert_eq!((both_ways.causal, both_ways.window), (false, Some(257)));
    assert_refused("gemma-3-1b-pt", json!({"sliding_window": null}), &["`sliding_window`"]);
    let flat = json!({"rope_parameters": {"rope_type": "default", "rope_theta": 5.0}});
    assert_refused("gemma-3-1b-pt", flat, &["rope_parameters: `rope_type`", "`rope_theta` = 5.0"]);
    let nested = json!({"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 8}}});
    assert_refused("gemma-3-1b-pt", nested, &["rope_parameters: full_attention: `rope_type` = yarn"]);
    let text = json!({"text_config": {"hidden_size": 64, "num_attention_heads": 3, "odd_key": 1}});
    assert_refused(
        "gemma-3-4b-pt",
        text,
        &["`text_config.intermediate_size`", "`text_config.num_hidden_layers`", "text_config: `num_key_value_heads` = 4"],
    );
}
