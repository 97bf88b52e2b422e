//! Statistics of a checkpoint's norms.

use layerscope_model::names::Slot;
use layerscope_model::{Model, NormParameters};
use layerscope_report::{Column, Table};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// One number about the gamma or beta of a norm: a row of norms.parquet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NormFact {
    /// The layer whose states it makes or reads; 0 for the embedding's.
    pub layer: usize,
    /// Which norm of the block it is.
    pub norm: String,
    /// `gamma_mean`, `beta_norm` and so on.
    pub statistic: String,
    /// The value.
    pub value: f64,
}

/// Mean, population standard deviation, extremes and Euclidean norm of every gamma and beta.
pub fn norm_facts(model: &Model) -> Result<Vec<NormFact>> {
    let layers = model.spec.blocks.len();
    Ok(model.norms()?.iter().flat_map(|norm| facts_of(norm, layers)).collect())
}

fn facts_of(norm: &NormParameters, layers: usize) -> Vec<NormFact> {
    let layer = norm.block.unwrap_or(if norm.slot == Slot::FinalNorm { layers } else { 0 });
    let name = norm_name(norm.slot);
    let parts = [("gamma", &norm.gamma), ("beta", &norm.beta)];
    let facts = |(part, values): (&str, &Option<Vec<f32>>)| -> Vec<NormFact> {
        let Some(values) = values else { return Vec::new() };
        let fact =
            |(statistic, value): (&str, f64)| NormFact { layer, norm: name.to_owned(), statistic: format!("{part}_{statistic}"), value };
        statistics(values).into_iter().map(fact).collect()
    };
    parts.into_iter().flat_map(facts).collect()
}

fn statistics(values: &[f32]) -> [(&'static str, f64); 5] {
    let n = values.len() as f64;
    let numbers = || values.iter().map(|&value| f64::from(value));
    let mean = numbers().sum::<f64>() / n;
    let variance = numbers().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
    let norm = numbers().map(|value| value * value).sum::<f64>().sqrt();
    let (low, high) = (numbers().fold(f64::INFINITY, f64::min), numbers().fold(f64::NEG_INFINITY, f64::max));
    [("mean", mean), ("std", variance.sqrt()), ("min", low), ("max", high), ("norm", norm)]
}

/// Its name in the tables.
fn norm_name(slot: Slot) -> &'static str {
    match slot {
        Slot::EmbeddingNorm => "embedding",
        Slot::AttentionInNorm => "attention_in",
        Slot::AttentionOutNorm => "attention_out",
        Slot::AfterAttentionNorm => "after_attention",
        Slot::FeedForwardInNorm => "feed_forward_in",
        Slot::FeedForwardOutNorm => "feed_forward_out",
        Slot::AfterFeedForwardNorm => "after_feed_forward",
        _ => "final",
    }
}

/// The table of norms.
pub fn norms_table(facts: &[NormFact]) -> Result<Table> {
    let text = |of: &dyn Fn(&NormFact) -> String| Column::text(facts.iter().map(|fact| Some(of(fact))));
    Ok(Table::new([
        ("layer", Column::Integer(facts.iter().map(|fact| Some(fact.layer as i64)).collect())),
        ("norm", text(&|fact| fact.norm.clone())),
        ("statistic", text(&|fact| fact.statistic.clone())),
        ("value", Column::Real(facts.iter().map(|fact| Some(fact.value)).collect())),
    ])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_the_population() {
        let [mean, std, min, max, norm] = statistics(&[1.0, 2.0, 3.0, 6.0]).map(|(_, value)| value);
        assert_eq!((mean, min, max), (3.0, 1.0, 6.0));
        assert!((std - 3.5f64.sqrt()).abs() < 1e-15 && (norm - 50f64.sqrt()).abs() < 1e-15);
    }
}
