//! Cosines between states (Ethayarajh 2019; Machina & Mercer 2024).

use super::evaluation::MomentInputs;
use super::fit::{Spread, jackknife};
use super::layer_rows::{Estimate, Rows};
use super::row::Computation;
use super::selection::{Selection, Summary, square_norm};
use crate::sketch::{CorpusMoments, SequenceSimilarity};

/// Groups with fewer states say little of self-similarity.
const MIN_STATES: u64 = 5;

/// Mean cosine over all ordered pairs i != j of n non-zero states: (||s||^2 - n) / (n (n - 1)) with s the sum of their unit
/// vectors; here from their mean s / n. None with fewer than 2.
pub fn mean_cosine(unit: &[f64], n: u64) -> Option<f64> {
    let count = n as f64;
    (n >= 2).then(|| (count * square_norm(unit) - 1.0) / (count - 1.0))
}

/// Each component's part of the mean cosine, (s_i^2 - sum_k u_{k,i}^2) / (n (n - 1)); the large ones are rogue dimensions (Timkey &
/// van Schijndel 2021). None with fewer than 2 non-zero states.
pub fn cosine_contributions(corpus: &CorpusMoments) -> Option<Vec<f64>> {
    let n = corpus.nonzero() as f64;
    let part = |(unit, square): (&f64, &f64)| (n * unit * unit - square) / (n - 1.0);
    (corpus.nonzero() >= 2).then(|| corpus.unit().iter().zip(corpus.unit_square()).map(part).collect())
}

/// Mean over groups with n_t >= 5 of their self-similarity.
pub fn self_similarity(summary: &Summary) -> Estimate {
    let groups = summary.groups.iter().filter(|group| group.n >= MIN_STATES);
    let values: Vec<f64> = groups.filter_map(|group| group.self_similarity).collect();
    let spread = Spread::of(&values, None);
    let value = (!values.is_empty()).then_some(spread.mean);
    // The mean without one value is (n mean - x) / (n - 1): the jackknife of a mean is its usual standard error.
    let without = |x: &f64| spread.mean - (x - spread.mean) / (spread.n - 1.0);
    let error = (values.len() >= 2).then(|| jackknife(&values.iter().map(without).collect::<Vec<f64>>()));
    Estimate { value, se: error, n: values.len() as u64 }
}

pub(super) static COMPUTATION: Computation = Computation::of_moments(compute);

/// The cosine rows of one selection; similarity within sequences has no frequency range.
fn compute(inputs: &MomentInputs<'_>, rows: &mut Rows) {
    let summary = inputs.summary;
    let totals = summary.totals.as_ref();
    let overall = totals.and_then(|totals| totals.mean_cosine);
    let adjusted = |value: Option<f64>| Some(value? - overall?);
    rows.push("mean_cosine", overall, totals.map_or(0, |totals| totals.nonzero));
    let similarity = self_similarity(summary);
    rows.push_estimate("self_similarity", similarity);
    rows.push("self_similarity_adjusted", adjusted(similarity.value), similarity.n);
    let sequences = match summary.selection {
        Selection::All => Some(inputs.moments.sequences()),
        Selection::Typical if inputs.moments.massive_states() == 0 => Some(inputs.moments.sequences()),
        Selection::Typical => inputs.moments.typical_sequences(),
        _ => return,
    };
    let (mean, counted) = (sequences.and_then(SequenceSimilarity::mean), sequences.map_or(0, SequenceSimilarity::sequences));
    rows.push("intra_sentence_similarity", mean, counted);
    rows.push("intra_sentence_similarity_adjusted", adjusted(mean), counted);
}
