//! Rotary positions stretched beyond the trained ones.

use layerscope_model::spec::{RotaryScaling, RotarySpec};
use serde_json::json;

use super::{altered, assert_refused, plain_rotary, read, rotary};

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
    assert_refused("Llama-2-7b", json!({"rope_parameters": {"partial_rotary_factor": 0.5}}), &["all 128 dimensions of a head, found 64"]);
    let (_, unknown) = read(&altered("Llama-2-7b", json!({"rope_scaling": {"type": "linear", "factor": 2, "twist": 1}}))).unwrap();
    assert_eq!(unknown, ["rope_scaling.twist"]);
}
