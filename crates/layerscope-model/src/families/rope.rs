//! Rotary settings, in the form of published checkpoints (`rope_theta`, `rope_scaling`, `rotary_pct`, ...) and in the
//! reference library's own of today (`rope_parameters`, nested by kind of layer where kinds differ).

use layerscope_compute::RotaryPairs;

use crate::config::ConfigReader;
use crate::spec::{RotaryScaling, RotarySpec};

/// What a family says about its rotary positions outside the dictionary of settings.
pub(super) struct Outside {
    /// Base of the frequencies.
    pub base: f32,
    /// Part of each head that is rotated.
    pub fraction: f64,
    /// Width of a head.
    pub head_dim: usize,
    /// The model's `max_position_embeddings`.
    pub positions: usize,
}

/// Rotary settings of each kind of layer.
pub(super) struct ByLayerType {
    pub full: RotarySpec,
    pub sliding: RotarySpec,
}

/// The settings of a model whose layers all rotate whole heads alike, its base under `rope_theta`.
pub(super) fn whole_heads(config: &mut ConfigReader, head_dim: usize, positions: usize) -> RotarySpec {
    let outside = Outside { base: config.number_or("rope_theta", 10_000.0), fraction: 1.0, head_dim, positions };
    config.only("partial_rotary_factor", 1.0);
    let rotary = all_layers(config, &outside);
    config.ensure(rotary.dim == head_dim, || format!("this family rotates all {head_dim} dimensions of a head, found {}", rotary.dim));
    rotary
}

/// The settings of a model whose layers all rotate alike.
pub(super) fn all_layers(config: &mut ConfigReader, outside: &Outside) -> RotarySpec {
    let (key, mut dictionary) = dictionary(config);
    for kind in ["full_attention", "sliding_attention"] {
        dictionary.only(kind, serde_json::Value::Null);
    }
    let trained = config.optional_count("original_max_position_embeddings");
    let rotary = read(&mut dictionary, outside, trained);
    config.absorb(key, dictionary);
    rotary
}

/// The settings of a model whose full and sliding layers rotate differently. A published `rope_scaling` concerns full layers.
pub(super) fn by_layer_type(config: &mut ConfigReader, full: &Outside, sliding: &Outside) -> ByLayerType {
    let (key, mut dictionary) = dictionary(config);
    if key == "rope_scaling" {
        let full = read(&mut dictionary, full, None);
        config.absorb(key, dictionary);
        return ByLayerType { full, sliding: read(&mut config.empty_section(), sliding, None) };
    }
    for flat in ["rope_type", "type", "rope_theta", "factor"] {
        dictionary.only(flat, serde_json::Value::Null);
    }
    let mut read_kind = |kind: &str, outside: &Outside| {
        let mut section = dictionary.section(kind).unwrap_or_else(|| dictionary.empty_section());
        let rotary = read(&mut section, outside, None);
        dictionary.absorb(kind, section);
        rotary
    };
    let rotary = ByLayerType { full: read_kind("full_attention", full), sliding: read_kind("sliding_attention", sliding) };
    config.absorb(key, dictionary);
    rotary
}

/// The longest sequence: the trained one, except where the rotation adapts to any length.
pub(super) fn max_positions(rotary: &RotarySpec, positions: usize) -> Option<usize> {
    match rotary.scaling {
        RotaryScaling::Dynamic { .. } => None,
        _ => Some(positions),
    }
}

/// The dictionary of settings under whichever name it has; empty where there is none.
fn dictionary(config: &mut ConfigReader) -> (&'static str, ConfigReader) {
    match (config.section("rope_scaling"), config.section("rope_parameters")) {
        (Some(published), None) => ("rope_scaling", published),
        (None, Some(today)) => ("rope_parameters", today),
        (None, None) => ("rope_parameters", config.empty_section()),
        (Some(published), Some(_)) => {
            config.ensure(false, || "`rope_scaling` and `rope_parameters` are two forms of the same settings, found both".to_owned());
            ("rope_scaling", published)
        }
    }
}

/// One dictionary of settings.
fn read(dictionary: &mut ConfigReader, outside: &Outside, trained: Option<usize>) -> RotarySpec {
    let base = dictionary.number_or("rope_theta", outside.base);
    dictionary.ensure(base > 0.0, || format!("`rope_theta` = {base} should be positive"));
    let fraction = dictionary.optional_real("partial_rotary_factor").unwrap_or(outside.fraction);
    let dim = (outside.head_dim as f64 * fraction) as usize;
    dictionary.ensure(dim > 0 && dim.is_multiple_of(2) && dim <= outside.head_dim, || {
        format!("rotary positions need an even part of the {} dimensions of a head, found {dim}", outside.head_dim)
    });
    let older = dictionary.word_or("type", "default");
    let kind = dictionary.word_or("rope_type", &older);
    let scaling = match kind.as_str() {
        "default" => RotaryScaling::None,
        "linear" => RotaryScaling::Linear { factor: factor(dictionary) },
        "dynamic" => {
            dictionary.ensure(dim > 2, || "dynamic rotary positions need more than two dimensions".to_owned());
            RotaryScaling::Dynamic { factor: factor(dictionary), trained: outside.positions }
        }
        "llama3" => {
            if let (Some(low), Some(high)) = (dictionary.optional_number("low_freq_factor"), dictionary.optional_number("high_freq_factor"))
            {
                dictionary.ensure(0.0 < low && low < high, || {
                    format!("`low_freq_factor` = {low} should lie between 0 and `high_freq_factor` = {high}")
                });
            }
            let (low, high) = (dictionary.number("low_freq_factor"), dictionary.number("high_freq_factor"));
            let inside = dictionary.optional_count("original_max_position_embeddings");
            RotaryScaling::Llama3 { factor: factor(dictionary), low, high, trained: trained.or(inside).unwrap_or(outside.positions) }
        }
        _ => {
            dictionary.refuse("rope_type", &kind);
            RotaryScaling::None
        }
    };
    dictionary.harmless(&["original_max_position_embeddings"]); // of no effect on the other kinds
    RotarySpec { base, dim, pairs: RotaryPairs::Halves, scaling }
}

fn factor(dictionary: &mut ConfigReader) -> f32 {
    let factor = dictionary.number("factor");
    dictionary.ensure(factor > 0.0, || format!("`factor` = {factor} should be positive"));
    factor
}
