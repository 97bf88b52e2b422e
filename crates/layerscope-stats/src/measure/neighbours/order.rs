//! An order of rows in which near ones come close to each other: the first blocks that are compared then show how far neighbours are.

use layerscope_compute::cpu::Isa;
use layerscope_compute::parallel::in_parts;

use super::cloud::{BLOCK, Cloud};
use crate::vectors::{dot_narrow, square_distance_narrow};

/// Rows that a direction is made from.
const SAMPLE: usize = 256;

/// Halves of halves, down to blocks, each time along a direction in which the rows fall into two.
pub(super) fn of(isa: Isa, cloud: &Cloud<'_>, threads: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..cloud.len() as u32).collect();
    halve(isa, cloud, &mut order, threads);
    order
}

fn halve(isa: Isa, cloud: &Cloud<'_>, places: &mut [u32], threads: usize) {
    let blocks = places.len().div_ceil(BLOCK);
    if blocks < 2 {
        return;
    }
    let direction = direction(isa, cloud, places);
    let mut along: Vec<(f32, u32)> = places.iter().map(|place| (0.0, *place)).collect();
    in_parts(threads, &mut along, BLOCK, |_, part| {
        part.iter_mut().for_each(|(along, place)| *along = dot_narrow(isa, cloud.state(*place), &direction));
    });
    let middle = blocks / 2 * BLOCK;
    along.select_nth_unstable_by(middle, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    places.iter_mut().zip(&along).for_each(|(place, (_, sorted))| *place = *sorted);
    let (left, right) = places.split_at_mut(middle);
    halve(isa, cloud, left, threads);
    halve(isa, cloud, right, threads);
}

/// From one mean to the other of two parts of a sample: what is nearer to one row, and what to another.
fn direction(isa: Isa, cloud: &Cloud<'_>, places: &[u32]) -> Vec<f32> {
    let sample: Vec<u32> = places.iter().step_by(places.len().div_ceil(SAMPLE)).copied().collect();
    let rows = cloud.centred(&sample);
    let row = |at: usize| &rows[at * cloud.dim..][..cloud.dim];
    let from = |other: usize| -> Vec<f32> { (0..sample.len()).map(|at| square_distance_narrow(isa, row(at), row(other))).collect() };
    let first = from(0);
    // Far, but not as far as a row that is far from all.
    let mut far: Vec<usize> = (0..sample.len()).collect();
    far.sort_unstable_by(|a, b| first[*a].total_cmp(&first[*b]));
    let second = from(far[far.len() * 3 / 4]);
    let mut sums = [vec![0.0f32; cloud.dim], vec![0.0f32; cloud.dim]];
    let mut counts = [0.0f32; 2];
    for at in 0..sample.len() {
        let side = usize::from(second[at] < first[at]);
        counts[side] += 1.0;
        sums[side].iter_mut().zip(row(at)).for_each(|(sum, x)| *sum += x);
    }
    let mean = |side: usize, i: usize| sums[side][i] / counts[side].max(1.0);
    (0..cloud.dim).map(|i| mean(1, i) - mean(0, i)).collect()
}
