//! How far the k-th neighbour of a row is likely to be, from a sample of the others: what is farther need not be looked at. Rows whose guess was too
//! small are looked at again.

use layerscope_compute::cpu::{Floats, Isa};
use layerscope_compute::parallel::in_order_with;

use super::cloud::{BLOCK, Cloud};
use super::filter::{Filter, STRIP, Side};
use super::search::{marked, near_masks};

/// One row in so many is in the sample.
const ONE_IN: usize = 32;

/// Squared distances, row by row.
pub(super) fn bounds(isa: Isa, cloud: &Cloud, filter: &Filter, k: usize, threads: usize) -> Vec<f32> {
    let sample: Vec<u32> = (0..cloud.len() as u32).step_by(ONE_IN).collect();
    // So many of the k nearest are in the sample, more or less three standard deviations of Poisson's law.
    let expected = k as f64 / ONE_IN as f64;
    let rank = (expected + 3.0 * expected.sqrt()) as usize + 2;
    if 4 * rank > sample.len() {
        return vec![f32::INFINITY; cloud.len()];
    }
    let columns: Vec<Side> = sample.chunks(BLOCK).map(|places| filter.side(cloud, places)).collect();
    let memory = || (vec![0.0f32; BLOCK * BLOCK], Floats::default());
    let found = in_order_with(threads, filter.sides.len(), memory, |(products, packed), block| {
        let own = &filter.sides[block];
        let mut nearest = vec![vec![f32::INFINITY; rank]; own.places.len()];
        for columns in &columns {
            own.multiply(isa, columns, products, packed);
            let mut squares: Vec<f32> = columns.places.iter().map(|place| cloud.squares[*place as usize] as f32).collect();
            squares.resize(columns.lows.len(), f32::INFINITY);
            let (none, mut masks) = (vec![f32::NEG_INFINITY; squares.len()], vec![0; squares.len() / STRIP]);
            for ((row, nearest), products) in own.places.iter().zip(&mut nearest).zip(products.chunks_exact(BLOCK)) {
                // Less ||a||^2, which all of a row share.
                near_masks(isa, &products[..squares.len()], &squares, &none, nearest[rank - 1], 0.0, &mut masks);
                for column in marked(&masks, columns.places.len()) {
                    let away = squares[column] - 2.0 * products[column];
                    if away < nearest[rank - 1] && columns.places[column] != *row {
                        let at = nearest.partition_point(|near| *near <= away);
                        nearest[at..].rotate_right(1);
                        nearest[at] = away;
                    }
                }
            }
        }
        let bound = |(row, nearest): (&u32, &Vec<f32>)| (nearest[rank - 1] + cloud.squares[*row as usize] as f32).max(f32::MIN_POSITIVE);
        own.places.iter().zip(&nearest).map(bound).collect::<Vec<f32>>()
    });
    found.concat()
}
