//! Axes of sizes: one for all models, logarithmic where they are far apart.

use std::collections::BTreeMap;

use layerscope_report::Run;
use layerscope_testing::made_up_runs::{DECODER, ENCODER, Shape, run};

use crate::support::drawn::{draw, only};
use crate::support::files::Folder;

/// The numbers beside every panel, from left to right.
fn axes(svg: &str) -> Vec<Vec<f64>> {
    let mut axes: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for text in svg.split("<text ").skip(1).filter(|text| text.contains(r#"text-anchor="end""#)) {
        let (attributes, content) = text.split("</text>").next().unwrap().split_once('>').unwrap();
        let x: f64 = attributes.split('"').nth(1).unwrap().parse().unwrap();
        let number = |text: &str| text.replace(',', "").replace('−', "-").parse::<f64>().unwrap();
        // An exponent is a span of its own.
        let value = match content.split_once("<tspan") {
            Some((base, exponent)) => number(base).powf(number(exponent.split(['>', '<']).nth(1).unwrap())),
            None => number(content),
        };
        axes.entry((x * 100.0) as u64).or_default().push(value);
    }
    axes.into_values().collect()
}

/// Steps on a linear axis are as large as each other, and two alone are not powers of ten.
fn is_logarithmic(axis: &[f64]) -> bool {
    let uneven = |three: &[f64]| ((three[2] - three[1]) / (three[1] - three[0]) - 1.0).abs() > 1e-6;
    axis.windows(3).any(uneven) || (axis.len() == 2 && axis[1] >= 10.0 * axis[0])
}

fn are_logarithmic(runs: &[Run], figure: &str, out: &Folder) -> Vec<bool> {
    draw(runs, &only(&[figure]), out);
    axes(&out.text(&format!("{figure}.svg"))).iter().map(|axis| is_logarithmic(axis)).collect()
}

#[test]
fn models_share_one_axis_which_is_logarithmic_where_they_are_far_apart() {
    let out = Folder::new("sizes");
    let shape = |shape: Shape| Shape { layers: 4, groups: 60, token_states: 4, ..shape };
    let runs = |scale: f64| [run(&shape(ENCODER)), run(&Shape { scale, ..shape(DECODER) })];
    // Norms of 15 to 200, and of 15 to 7,000.
    assert_eq!(are_logarithmic(&runs(9_000.0), "ethayarajh1", &out), [false, false]);
    let far = runs(9_000_000.0);
    assert_eq!(are_logarithmic(&far, "ethayarajh1", &out), [false, true]);
    assert_eq!(are_logarithmic(&far, "fig19", &out), [true, true, true]);
    assert_eq!(are_logarithmic(&far, "fig20", &out), [true, true, false], "the last is a share");
    // Both models are on that axis.
    let sizes: Vec<f64> = out.csv("fig19.csv").iter().filter(|row| row["panel"] == "q").map(|row| row["value"].parse().unwrap()).collect();
    let (low, high) = sizes.iter().fold((f64::INFINITY, 0.0f64), |(low, high), size| (low.min(*size), high.max(*size)));
    let axis = &axes(&out.text("fig19.svg"))[0];
    assert!(axis[0] < 20.0 * low && axis[axis.len() - 1] > high / 20.0 && high > 20.0 * low, "{axis:?} {low} {high}");
}
