//! One pass over the rows of a chunk; a [`Sums`] says what is added up.

use std::ops::Range;

use super::{BLOCK, LANES, prefetch};
use crate::rows::Chunk;

/// Sums over the rows of a chunk, of the components of a block.
pub(super) trait Sums {
    /// Adds component `l` of some rows, with 1 / ||x|| of each.
    fn add<const R: usize>(&mut self, l: usize, x: [f64; R], inverses: [f64; R]);
}

/// Adds all rows, four at a time: sums are read and written once for all of them.
#[inline(always)]
pub(super) fn add_rows<S: Sums>(chunk: &Chunk, block: &Range<usize>, sums: &mut S) {
    let (fours, rest) = chunk.rows.as_chunks::<4>();
    let (ahead, _) = chunk.ahead.as_chunks::<4>();
    for (place, rows) in fours.iter().enumerate() {
        let later = ahead.get(place).or(fours.get(place + 1)).unwrap_or(rows);
        add_some(chunk, block, *rows, *later, sums);
    }
    for &row in rest {
        add_some(chunk, block, [row], [row], sums);
    }
}

/// Components after which the next ones are fetched.
const STEP: usize = 64;

/// Adds some rows. They are scattered over memory: `later` ones are fetched meanwhile.
#[inline(always)]
fn add_some<const R: usize, S: Sums>(chunk: &Chunk, block: &Range<usize>, rows: [u32; R], later: [u32; R], sums: &mut S) {
    let mut inverses = [0.0; R];
    for r in 0..R {
        inverses[r] = chunk.inverses[rows[r] as usize];
    }
    let row = |row: u32| &chunk.states[row as usize * chunk.dim + block.start..][..block.len()];
    let mut states = [&[0.0; BLOCK]; R];
    if block.len() == BLOCK {
        for r in 0..R {
            states[r] = row(rows[r]).first_chunk().unwrap_or(states[r]);
        }
        add_states(chunk, states, inverses, later, block.start, sums);
    } else {
        // Components beyond the last are zero, and so are their sums.
        let mut padded = [[0.0; BLOCK]; R];
        for (r, (padded, states)) in padded.iter_mut().zip(&mut states).enumerate() {
            padded[..block.len()].copy_from_slice(row(rows[r]));
            *states = padded;
        }
        add_states(chunk, states, inverses, later, block.start, sums);
    }
}

#[inline(always)]
fn add_states<const R: usize, S: Sums>(
    chunk: &Chunk,
    states: [&[f32; BLOCK]; R],
    inverses: [f64; R],
    later: [u32; R],
    first: usize,
    sums: &mut S,
) {
    for start in (0..BLOCK).step_by(STEP) {
        for &row in &later {
            for line in (start..start + STEP).step_by(LANES) {
                prefetch(chunk.states.as_ptr().wrapping_add(row as usize * chunk.dim + first + line), false);
            }
        }
        for l in start..start + STEP {
            let mut x = [0.0; R];
            for r in 0..R {
                x[r] = f64::from(states[r][l]);
            }
            sums.add(l, x, inverses);
        }
    }
}
