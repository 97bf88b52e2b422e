//! The norm beyond which a state is massive: a multiple of the median over the first documents of the whole corpus.

use layerscope_compute::States;
use layerscope_corpus::Spool;
use layerscope_model::{Batch, Observer, Point, Transformer};
use layerscope_stats::Accumulate;

use super::items::Items;
use super::plan::Plan;
use crate::error::{Error, Result};

/// What the first documents say of a point.
pub struct PilotPoint {
    /// The norm beyond which states are massive; None where no state is finite.
    pub threshold: Option<f64>,
    /// Whether some are.
    pub has_massive: bool,
}

/// One threshold per point, the same in every shard.
pub fn massive_thresholds<D: Accumulate>(
    transformer: &Transformer<D>,
    spool: &Spool,
    plan: &Plan,
    points: &[Point],
) -> Result<Vec<PilotPoint>> {
    let Some(&last) = points.last() else { return Ok(Vec::new()) };
    let device = transformer.backend();
    let pilot: Vec<Items> = spool.pilot(plan.batch_tokens)?.into_iter().map(Items::new).collect();
    let mut space = transformer.workspace(pilot.iter().map(|items| items.batch.tokens()).max().unwrap_or(0))?;
    let mut norms: Vec<(Point, Vec<f64>)> = points.iter().map(|&at| (at, Vec::new())).collect();
    let mut own = device.space()?;
    for items in pilot {
        let info = device.info(space.stream(), items.info())?;
        transformer.forward_to(last, &items.batch, &mut space, &mut NormTaker { norms: &mut norms, info: &info, space: &mut own })?;
    }
    let of_point = |(_, norms): (Point, Vec<f64>)| {
        let largest = norms.iter().copied().filter(|norm| norm.is_finite()).fold(0.0, f64::max);
        let threshold = median(norms).map(|median| median * plan.massive);
        PilotPoint { threshold, has_massive: threshold.is_some_and(|threshold| largest > threshold) }
    };
    Ok(norms.into_iter().map(of_point).collect())
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
struct NormTaker<'a, D: Accumulate> {
    norms: &'a mut [(Point, Vec<f64>)],
    info: &'a D::Info,
    space: &'a mut D::Space,
}

impl<D: Accumulate> Observer<D> for NormTaker<'_, D> {
    type Error = Error;

    fn observe(&mut self, _: &Batch, at: Point, states: &mut States<D>) -> Result<()> {
        if let Some((_, norms)) = self.norms.iter_mut().find(|(point, _)| *point == at) {
            norms.extend(states.backend.norms(states, self.info, self.space)?);
        }
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
