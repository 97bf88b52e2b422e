//! Runs at a glance: a line for each measure, a bar for each layer.

use layerscope_report::{Run, States};

use crate::demo::asked::{Asked, Estimate};
use crate::tables::summary::short_real;

/// What a line shows: its name, the states, the measure and its variant.
const LINES: &[(&str, &str, &str, Option<&str>)] = &[
    ("Q, mean squared length", "all", "q", None),
    ("M/Q, share of the mean", "all", "m_over_q", None),
    ("V_W/V, share of context", "all", "v_within_over_v", None),
    ("slope of V on M", "selected", "slope_v_on_m", None),
    ("mean cosine", "all", "mean_cosine", None),
    ("anisotropy, one axis", "all", "anisotropy_svd", Some("corpus")),
    ("intrinsic dimension", "sample", "intrinsic_dimension", Some("twonn")),
];

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A line for each measure and a column for each run: its first value, a bar for each layer from the lowest to the highest value, its last
/// value.
pub(super) fn picture(runs: &[Run]) -> String {
    let states = States::lead(&runs.iter().collect::<Vec<_>>());
    let width = runs.iter().filter_map(|run| run.manifest.points.as_ref()).map(Vec::len).max().unwrap_or(0) + 22;
    let heading = runs.iter().map(|run| format!("{:^width$}", run.model())).collect::<String>();
    let mut lines = vec![format!("{:<25}{heading}", "first to last layer").trim_end().to_owned()];
    for (name, selection, measure, variant) in LINES {
        let cells = runs.iter().map(|run| {
            let profile = Asked(run).profile(states.of(selection), measure, *variant).unwrap_or_default();
            let (first, last) = (shown(profile.first()), shown(profile.last()));
            format!("{:^width$}", format!("{first:>9} {} {last:<9}", bars(&profile)))
        });
        lines.push(format!("{name:<25}{}", cells.collect::<String>()).trim_end().to_owned());
    }
    lines.join("\n")
}

fn shown(value: Option<&Estimate>) -> String {
    value.map_or("-".to_owned(), |value| short_real(value.value))
}

/// One bar a value.
fn bars(profile: &[Estimate]) -> String {
    let values = || profile.iter().map(|estimate| estimate.value);
    let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let place = |value: f64| if high > low { ((value - low) / (high - low) * (BARS.len() - 1) as f64).round() as usize } else { 0 };
    values().map(|value| BARS[place(value)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_go_from_the_lowest_to_the_highest_value() {
        let of = |values: &[f64]| bars(&values.iter().map(|&value| Estimate { value, error: 0.0 }).collect::<Vec<_>>());
        assert_eq!(of(&[-1.0, 0.0, 6.0, 3.0]), "▁▂█▅");
        assert_eq!(of(&[2.0, 2.0]), "▁▁");
        assert_eq!(of(&[]), "");
    }
}
