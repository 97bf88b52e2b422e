//! Decoders: from config.json to specification.
//!
//! `configs/published` holds the configurations of well-known checkpoints, `configs/today` what the reference library makes
//! of them (`tools/translate_configs.py`): both must mean the same model.

use std::path::{Path, PathBuf};

use layerscope_compute::{Activation, NormKind, RotaryPairs};
use layerscope_model::config::ConfigReader;
use layerscope_model::families::Family;
use layerscope_model::spec::{
    AttentionSpec, BiasSpec, BlockNorms, LearnedPositions, ModelSpec, NormSpec, Projection, QkvStorage, Residual, RotaryScaling, RotarySpec,
};
use serde_json::{Value, json};

/// The specification of a configuration and the keys nobody knew, or the complaint.
fn read(config: &Value) -> Result<(ModelSpec, Vec<String>), String> {
    let mut reader = ConfigReader::parse(Path::new("config.json"), config.to_string().as_bytes()).map_err(|error| error.to_string())?;
    let family = Family::of(&mut reader).map_err(|error| error.to_string())?;
    let spec = (family.spec)(&mut reader);
    let unknown = reader.finish().map_err(|error| error.to_string())?;
    Ok((spec, unknown))
}

fn load(form: &str, checkpoint: &str) -> Value {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/configs").join(form).join(format!("{checkpoint}.json"));
    serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap()
}

/// The specification of a well-known checkpoint, equal in both forms and without unknown keys.
fn checkpoint(name: &str) -> ModelSpec {
    let (published, unknown) = read(&load("published", name)).unwrap();
    assert_eq!(unknown, Vec::<String>::new(), "{name}, published");
    let (today, unknown) = read(&load("today", name)).unwrap();
    assert_eq!(unknown, Vec::<String>::new(), "{name}, today");
    assert_eq!(published, today, "{name}");
    published
}

/// A published configuration with some keys replaced; `null` stays null.
fn altered(name: &str, changes: Value) -> Value {
    let mut config = load("published", name);
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

fn spec_of(name: &str, changes: Value) -> ModelSpec {
    read(&altered(name, changes)).unwrap().0
}

fn refusal(name: &str, changes: Value) -> String {
    let complaint = read(&altered(name, changes)).unwrap_err();
    assert!(!complaint.contains('\n'), "{complaint}");
    complaint
}

#[track_caller]
fn assert_refused(name: &str, changes: Value, words: &[&str]) {
    let complaint = refusal(name, changes);
    for word in words {
        assert!(complaint.contains(word), "`{word}` is not in: {complaint}");
    }
}

/// Layers, width, heads, key heads, width of a head.
fn shape(model: &ModelSpec) -> (usize, usize, usize, usize, usize) {
    let attention = &model.blocks[0].attention;
    assert!(model.blocks.iter().enumerate().all(|(layer, block)| block.weights == layer && block.attention.causal));
    (model.blocks.len(), model.width, attention.heads, attention.kv_heads, attention.head_dim)
}

fn attention(model: &ModelSpec) -> &AttentionSpec {
    &model.blocks[0].attention
}

fn rotary(model: &ModelSpec) -> &RotarySpec {
    attention(model).rotary.as_ref().unwrap()
}

fn plain_rotary(base: f32, dim: usize) -> RotarySpec {
    RotarySpec { base, dim, pairs: RotaryPairs::Halves, scaling: RotaryScaling::None }
}

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
    assert_eq!(model.blocks[0].feed_forward.activation, Activation::Relu);

    let model = checkpoint("opt-350m");
    assert_eq!(shape(&model), (24, 1024, 16, 16, 64));
    assert_eq!(model.embedding.width, 512);
    assert_eq!(model.embedding.projection, Some(Projection { bias: false, before_positions: true }));
    assert_eq!(model.blocks[0].norms, BlockNorms::post(NormSpec::layer(1e-5)));
    assert_eq!(model.final_norm, None);

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
fn rotary_scalings_in_both_forms() {
    let cases = [
        (json!({"type": "linear", "factor": 4}), RotaryScaling::Linear { factor: 4.0 }, Some(4096)),
        (json!({"rope_type": "dynamic", "factor": 2.0}), RotaryScaling::Dynamic { factor: 2.0, trained: 4096 }, None),
        (json!({"rope_type": "default", "type": "yarn"}), RotaryScaling::None, Some(4096)),
        (
            json!({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}),
            RotaryScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, trained: 4096 },
            Some(4096),
        ),
    ];
    for (published, scaling, max_positions) in cases {
        let mut today = published.clone();
        today["rope_theta"] = json!(20_000.0);
        for changes in [json!({"rope_theta": 20_000, "rope_scaling": published}), json!({"rope_parameters": today})] {
            let (model, unknown) = read(&altered("Llama-2-7b", changes)).unwrap();
            assert_eq!(*rotary(&model), RotarySpec { scaling: scaling.clone(), ..plain_rotary(20_000.0, 128) });
            assert_eq!(model.max_positions, max_positions);
            assert_eq!(unknown, Vec::<String>::new());
        }
    }
}

#[test]
fn rotary_settings_that_are_refused() {
    for form in ["rope_scaling", "rope_parameters"] {
        for kind in ["yarn", "longrope", "mrope", "proportional"] {
            let expected = format!("{form}: `rope_type` = {kind}");
            assert_refused("Llama-2-7b", json!({form: {"rope_type": kind, "factor": 4.0}}), &[&expected]);
            assert_refused("Llama-2-7b", json!({form: {"type": kind, "factor": 4.0}}), &[&expected]);
        }
        assert_refused("Llama-2-7b", json!({form: {"type": "linear"}}), &["missing", &format!("`{form}.factor`")]);
        assert_refused("Llama-2-7b", json!({form: {"type": "linear", "factor": 0}}), &["`factor` = 0"]);
        assert_refused("Llama-2-7b", json!({form: {"full_attention": {"rope_type": "default"}}}), &["`full_attention`"]);
        assert_refused("Llama-2-7b", json!({form: "linear"}), &[&format!("`{form}` should be an object")]);
    }
    let ramp = json!({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4});
    assert_refused("Llama-2-7b", json!({"rope_scaling": ramp}), &["`low_freq_factor` = 4"]);
    let both = json!({"rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"rope_type": "default"}});
    assert_refused("Llama-2-7b", both, &["`rope_scaling` and `rope_parameters`"]);
    assert_refused("Llama-2-7b", json!({"partial_rotary_factor": 0.5}), &["`partial_rotary_factor` = 0.5"]);
    assert_refused("Llama-2-7b", json!({"rope_parameters": {"partial_rotary_factor": 0.5}}), &["64 of 128"]);
    let (_, unknown) = read(&altered("Llama-2-7b", json!({"rope_scaling": {"type": "linear", "factor": 2, "twist": 1}}))).unwrap();
    assert_eq!(unknown, ["rope_scaling.twist"]);
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
