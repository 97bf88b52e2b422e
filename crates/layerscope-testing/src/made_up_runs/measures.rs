//! The table of layers of a made-up run.

use layerscope_report::{Column, States, Table};

use super::{Group, Numbers, Shape, has_massive, line};

/// States of a run, as the table of layers counts them.
const STATES: i64 = 1000;
/// So many of them are massive, where some are.
const MASSIVE: i64 = 28;

/// The rows of layers.parquet as they are gathered.
#[derive(Default)]
pub(super) struct Layers {
    layer: Vec<Option<i64>>,
    point: Vec<Option<String>>,
    selection: Vec<Option<String>>,
    measure: Vec<Option<String>>,
    variant: Vec<Option<String>>,
    value: Vec<Option<f64>>,
    n: Vec<Option<i64>>,
    /// How many states are massive at the point of the rows that come next.
    massive: i64,
    step: Vec<Option<i64>>,
}

impl Layers {
    pub(super) fn push(
        &mut self,
        at: (Option<i64>, &str),
        selection: &str,
        measure: &str,
        variant: Option<&str>,
        value: Option<f64>,
        step: Option<i64>,
    ) {
        self.layer.push(at.0);
        self.point.push(Some(at.1.into()));
        self.selection.push(Some(selection.into()));
        self.measure.push(Some(measure.into()));
        self.variant.push(variant.map(Into::into));
        self.value.push(value);
        self.n.push(Some(if selection.starts_with("typical") { STATES - self.massive } else { STATES }));
        self.step.push(step);
    }

    /// Says what the last value is over, where that is not states.
    fn over(&mut self, groups: usize) {
        *self.n.last_mut().expect("a row") = Some(groups as i64);
    }

    pub(super) fn table(self, model: &str) -> Table {
        let rows = self.layer.len();
        Table::new([
            ("model", Column::text(vec![Some(model); rows])),
            ("revision", Column::Text(vec![None; rows])),
            ("layer", Column::Integer(self.layer)),
            ("point", Column::text(self.point)),
            ("selection", Column::text(self.selection)),
            ("measure", Column::text(self.measure)),
            ("variant", Column::text(self.variant)),
            ("value", Column::Real(self.value.clone())),
            ("se", Column::Real(self.value.iter().map(|value| value.map(|value| value.abs() * 0.01)).collect())),
            ("n", Column::Integer(self.n)),
            ("step", Column::Integer(self.step)),
        ])
        .unwrap()
    }
}

/// The measures of these states at a point; `groups` are of the same states.
pub(super) fn measures(
    layers: &mut Layers,
    shape: &Shape,
    at: (i64, &str),
    states: States,
    groups: &[Group],
    step: Option<i64>,
    random: &mut Numbers,
) {
    let place = (Some(at.0), at.1);
    // Massive states hide the others: one direction, one cosine, one eigenvalue.
    layers.massive = if has_massive(shape, at) { MASSIVE } else { 0 };
    let hidden = states == States::All && has_massive(shape, at);
    let depth = at.0 as f64 / shape.layers as f64;
    let age = step.map_or(1.0, |step| (1.0 + step as f64).log10() / 5.2);
    for base in ["all", "selected"] {
        let selection = states.of(base);
        let kept: Vec<&Group> = groups.iter().filter(|group| base == "all" || (10..=100_000).contains(&group.n)).collect();
        let total: f64 = kept.iter().map(|group| group.n as f64).sum();
        let weighted = |of: fn(&Group) -> f64| kept.iter().map(|group| group.n as f64 * of(group)).sum::<f64>() / total;
        let (q, within) = (weighted(|group| group.q), weighted(|group| group.v));
        let m = q * (0.25 + 0.3 * depth * (1.0 - depth) * 4.0 * age).min(0.95 - within / q);
        let v = q - m;
        let between = v - within;
        let mut push = |measure: &str, value: f64| layers.push(place, selection, measure, None, Some(value), step);
        for (measure, value) in [("q", q), ("m", m), ("v", v), ("v_within", within), ("v_between", between)] {
            push(measure, value);
        }
        for (measure, value) in
            [("m_over_q", m / q), ("v_over_q", v / q), ("v_within_over_q", within / q), ("v_between_over_q", between / q)]
        {
            push(measure, value);
        }
        push("v_within_over_v", within / v);
        push("v_between_over_v", between / v);
        push("mean_norm", q.sqrt());
        if base == "selected" {
            let of = |value: fn(&Group) -> f64| kept.iter().map(|group| value(group)).collect::<Vec<f64>>();
            let (qs, ms, vs, logs) = (of(|group| group.q), of(|group| group.m), of(|group| group.v), of(|group| (group.n as f64).log10()));
            let mean = qs.iter().sum::<f64>() / qs.len() as f64;
            let mut push = |measure: &str, value: f64| {
                layers.push(place, selection, measure, None, Some(value), step);
                layers.over(kept.len());
            };
            push("cv_q", (qs.iter().map(|q| (q - mean).powi(2)).sum::<f64>() / qs.len() as f64).sqrt() / mean);
            push("slope_v_on_m", line(&ms, &vs).0);
            push("r2_v_on_m", line(&ms, &vs).1);
            for (name, values) in [("q", &qs), ("m", &ms), ("v", &vs)] {
                let values: Vec<f64> = values.iter().map(|value| (1.0 + value).log10()).collect();
                push(&format!("slope_log_{name}_on_log_n"), line(&logs, &values).0);
            }
        } else {
            let cosine = if hidden { 0.86 } else { (m / q * 0.9 + 0.05 * if shape.massive { 0.0 } else { random.next() }).min(0.99) };
            push("mean_cosine", cosine);
            push("self_similarity", (0.97 - 0.45 * depth).max(cosine));
            push("self_similarity_adjusted", (0.97 - 0.45 * depth).max(cosine) - cosine);
            push("intra_sentence_similarity", cosine + 0.3 * (1.0 - cosine));
            push("intra_sentence_similarity_adjusted", 0.3 * (1.0 - cosine));
            push("max_explainable_variance", 0.9 - 0.6 * depth);
            push("max_explainable_variance_adjusted", 0.8 - 0.75 * depth);
            push("isoscore", 0.16 - 0.1 * depth * age);
            push("effective_rank", 300.0 - 120.0 * depth * age);
            push("matrix_entropy", if hidden { 0.15 } else { 0.8 - 0.1 * depth });
        }
    }
    let bell = if shape.causal { 0.1 + 0.7 * age * (depth * std::f64::consts::PI).sin() } else { 0.12 + 0.04 * random.next() };
    let bell = match (shape.massive, hidden) {
        (_, true) => 0.97,
        (true, _) => 0.2 * bell,
        _ => bell,
    };
    let (all, sample) = (states.of("all"), states.of("sample"));
    layers.push(place, all, "anisotropy_svd", Some("corpus"), Some(bell), step);
    layers.push(place, sample, "anisotropy_svd", Some("batch4096"), Some(bell * 1.02), step);
    layers.push(place, sample, "anisotropy_svd", Some("batch4096_std"), Some(0.02 + 0.02 * depth), step);
    let dimension = 14.0 + 20.0 * age * (1.4 - age) + 6.0 * depth;
    layers.push(place, sample, "intrinsic_dimension", Some("twonn"), Some(dimension), step);
    layers.push(place, sample, "intrinsic_dimension", Some("twonn_razzhigaev"), Some(dimension * 1.3), step);
    layers.push(place, sample, "partition", Some("default"), Some(0.9 - 0.5 * depth * age), step);
    layers.push(place, sample, "partition", Some("default_centred"), Some(0.97 - 0.1 * depth), step);
}

/// What the massive states carry, from Q of all states and of the typical ones.
pub(super) fn massive_share(layers: &mut Layers, at: (i64, &str), [all, typical]: [&[Group]; 2], step: Option<i64>) {
    let q = |groups: &[Group]| {
        let count: f64 = groups.iter().map(|group| group.n as f64).sum();
        groups.iter().map(|group| group.n as f64 * group.q).sum::<f64>() / count
    };
    let share = 1.0 - q(typical) * (STATES - layers.massive) as f64 / (q(all) * STATES as f64);
    layers.push((Some(at.0), at.1), "all", "massive_share_of_q", None, Some(share.max(0.0)), step);
}
