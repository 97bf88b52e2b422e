//! The norm beyond which a state is massive: a multiple of the median over the first documents of the whole corpus.

use std::sync::Mutex;

use layerscope_compute::{Cpu, States};
use layerscope_corpus::Spool;
use layerscope_model::{Batch, Observer, Point, Transformer};
use layerscope_stats::BatchRows;

use crate::error::{Error, Result};
use crate::items::Items;
use crate::plan::Plan;

/// One threshold per point, the same in every shard; None where no state is finite.
pub fn massive_thresholds(transformer: &Transformer<Cpu>, spool: &Spool, plan: &Plan, points: &[Point]) -> Result<Vec<Option<f64>>> {
    let norms: Vec<(Point, Mutex<Vec<f64>>)> = points.iter().map(|&at| (at, Mutex::new(Vec::new()))).collect();
    let Some(&last) = points.last() else { return Ok(Vec::new()) };
    let mut space = transformer.workspace(0);
    for batch in spool.pilot(plan.batch_tokens)? {
        let items = Items::new(batch);
        transformer.forward_to(last, &items.batch, &mut space, &NormTaker { norms: &norms, items: &items })?;
    }
    let median = |norms: Vec<f64>| median(norms).map(|median| median * plan.massive);
    Ok(norms.into_iter().map(|(_, norms)| median(norms.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))).collect())
}

/// The middle value; the mean of the two middle ones of an even number.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some(0.5 * (values[middle - 1] + values[middle])),
    }
}

/// Notes the norms of counted states.
struct NormTaker<'a> {
    norms: &'a [(Point, Mutex<Vec<f64>>)],
    items: &'a Items,
}

impl Observer<Cpu> for NormTaker<'_> {
    type Error = Error;

    fn observe(&self, _: &Batch, at: Point, states: &States<Cpu>) -> Result<()> {
        let Some((_, norms)) = self.norms.iter().find(|(point, _)| *point == at) else { return Ok(()) };
        let pooled = self.items.states(states.as_slice(), states.width);
        let rows = BatchRows::new(&pooled, states.width, &self.items.segments, &self.items.offsets)?;
        let counted = self.items.segments.counted().iter().map(|&item| rows.norms()[item as usize]);
        norms.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend(counted);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, f64::NAN, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![f64::INFINITY]), None);
    }
}
