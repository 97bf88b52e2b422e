//! How far the k-th neighbour of a row is likely to be, from a sample of the others: what is farther need not be looked at. Rows whose guess was too
//! small are looked at again.

use layerscope_compute::cpu::Isa;
use layerscope_compute::parallel::in_order_with;

use super::cloud::{BLOCK, Cloud};
use super::filter::{Filter, Memory, STRIP, Side};
use super::search::marked;

/// One row in so many is in the sample.
const ONE_IN: usize = 32;

/// Squared distances, row by row.
pub(super) fn bounds(isa: Isa, cloud: &Cloud<'_>, filter: &Filter<'_>, k: usize, threads: usize) -> Vec<f32> {
    let sample: Vec<u32> = (0..cloud.len() as u32).step_by(ONE_IN).collect();
    // So many of the k nearest are in the sample, more or less three standard deviations of Poisson's law.
    let expected = k as f64 / ONE_IN as f64;
    let rank = (expected + 3.0 * expected.sqrt()) as usize + 2;
    if 4 * rank > sample.len() {
        return vec![f32::INFINITY; cloud.len()];
    }
    // A few first: they tell of most of the others that they are too far.
    let (first, others) = sample.split_at(STRIP.min(sample.len()));
    let columns: Vec<Side> = std::iter::once(first).chain(others.chunks(BLOCK)).map(|places| filter.side(places)).collect();
    let found = in_order_with(threads, filter.sides.len(), Memory::new, |memory, block| {
        let own = &filter.sides[block];
        let mut nearest = vec![vec![f32::INFINITY; rank]; own.places.len()];
        for columns in &columns {
            let limits: Vec<f32> = nearest.iter().zip(&own.lows).map(|(nearest, low)| nearest[rank - 1] - low).collect();
            let none = vec![f32::NEG_INFINITY; columns.lows.len()];
            own.multiply_near(isa, columns, (&limits, &none), memory);
            let masks = memory.masks.chunks_exact(columns.lows.len() / STRIP);
            for (i, (nearest, masks)) in nearest.iter_mut().zip(masks).enumerate() {
                for j in marked(masks, columns.places.len()) {
                    let (low, high) = own.distance(i, columns, j, memory.products[i * BLOCK + j]);
                    let away = 0.5 * (low + high);
                    if away < nearest[rank - 1] && columns.places[j] != own.places[i] {
                        let at = nearest.partition_point(|near| *near <= away);
                        nearest[at..].rotate_right(1);
                        nearest[at] = away;
                    }
                }
            }
        }
        nearest.iter().map(|nearest| nearest[rank - 1].max(f32::MIN_POSITIVE)).collect::<Vec<f32>>()
    });
    found.concat()
}
