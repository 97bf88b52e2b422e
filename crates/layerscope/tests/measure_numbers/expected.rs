//! What the oracle says of a point, by the names of the measures.

use std::ops::RangeInclusive;

use layerscope_stats::measure::Selection;
use layerscope_testing::made_up_states::Data;
use layerscope_testing::naive::Naive;

pub const FREQUENCY: RangeInclusive<u64> = 4..=60;

/// What the oracle can compute; a run may have more measures than these, and must have all of them.
pub const KNOWN: &[&str] = &[
    "q",
    "m",
    "v",
    "v_within",
    "v_between",
    "m_over_q",
    "v_over_q",
    "v_within_over_q",
    "v_between_over_q",
    "v_within_over_v",
    "v_between_over_v",
    "mean_norm",
    "cv_q",
    "cv_q_exponent",
    "slope_v_on_m",
    "intercept_v_on_m",
    "r2_v_on_m",
    "slope_q_on_log_n",
    "r2_q_on_log_n",
    "slope_m_on_log_n",
    "r2_m_on_log_n",
    "slope_v_on_log_n",
    "r2_v_on_log_n",
    "slope_log_q_on_log_n",
    "r2_log_q_on_log_n",
    "slope_log_m_on_log_n",
    "r2_log_m_on_log_n",
    "slope_log_v_on_log_n",
    "r2_log_v_on_log_n",
    "predicted_q",
    "groups",
    "states",
    "mean_cosine",
    "self_similarity",
    "self_similarity_adjusted",
    "intra_sentence_similarity",
    "intra_sentence_similarity_adjusted",
    "massive_activations",
    "massive_share_of_q",
];

/// A selection with its slow values computed once.
pub struct Expected {
    pub naive: Naive,
    mean_cosine: Option<f64>,
    self_similarity: Option<f64>,
    intra: Option<f64>,
}

impl Expected {
    pub fn new(data: &Data, selection: Selection) -> Expected {
        let naive = Naive::new(data, selection, &FREQUENCY);
        let (mean_cosine, self_similarity) = (naive.mean_cosine(), naive.self_similarity());
        Expected { mean_cosine, self_similarity, intra: naive.intra_sentence_similarity(), naive }
    }

    /// The value, and what its tolerance is relative to.
    pub fn value(&self, measure: &str, variant: Option<&str>, predicted: Option<f64>, massive: (usize, f64)) -> (Option<f64>, f64) {
        if let Some(known) = self.naive.value(measure, variant) {
            return known;
        }
        match measure {
            "predicted_q" => (predicted, predicted.unwrap_or(1.0)),
            "mean_cosine" => (self.mean_cosine, 1.0),
            "self_similarity" => (self.self_similarity, 1.0),
            "self_similarity_adjusted" => (self.self_similarity.zip(self.mean_cosine).map(|(a, b)| a - b), 1.0),
            "intra_sentence_similarity" => (self.intra, 1.0),
            "intra_sentence_similarity_adjusted" => (self.intra.zip(self.mean_cosine).map(|(a, b)| a - b), 1.0),
            "massive_activations" => (Some(massive.0 as f64), 1.0),
            "massive_share_of_q" => (Some(massive.1), 1.0),
            other => panic!("the oracle does not know {other}"),
        }
    }

    /// What the column `n` counts.
    pub fn count(&self, measure: &str, variant: Option<&str>) -> Option<usize> {
        if variant.is_some() {
            let of_lines = measure.contains("_on_");
            let counted = if of_lines { self.naive.unbiased_column("v").len() } else { self.naive.states().len() };
            return (variant == Some("unbiased")).then_some(counted);
        }
        match measure {
            "q" | "m" | "v" | "v_within" | "v_between" | "mean_norm" | "mean_cosine" | "massive_activations" | "states" => {
                Some(self.naive.states().len())
            }
            "groups" | "slope_v_on_m" | "r2_q_on_log_n" => Some(self.naive.groups.len()),
            "self_similarity" => Some(self.naive.groups.iter().filter(|group| group.states.len() >= 5).count()),
            "intra_sentence_similarity" => Some(self.naive.sequences.iter().filter(|states| states.len() >= 2).count()),
            _ => None,
        }
    }
}
