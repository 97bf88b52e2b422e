//! Squared norms of rows.

use layerscope_compute::for_each_isa;

use super::{LANES, fold, prefetch};

for_each_isa! {
    /// ||x||^2 of these rows, one after another.
    pub(crate) fn square_norms = square_norms_body; (states: &[f32], dim: usize, rows: &[u32], squares: &mut [f64])
}

#[inline(always)]
fn square_norms_body(states: &[f32], dim: usize, rows: &[u32], squares: &mut [f64]) {
    // Two rows at a time: one would wait for its own sums.
    let (pairs, last) = rows.as_chunks::<2>();
    let (square_pairs, last_square) = squares.as_chunks_mut::<2>();
    for (place, (rows, squares)) in pairs.iter().zip(square_pairs).enumerate() {
        let ahead = *pairs.get(place + AHEAD / 2).unwrap_or(rows);
        *squares = square_norms_of(states, dim, *rows, ahead);
    }
    for (&row, square) in last.iter().zip(last_square) {
        [*square] = square_norms_of(states, dim, [row], [row]);
    }
}

/// Rows that are asked for before their turn comes.
const AHEAD: usize = 4;

#[inline(always)]
fn square_norms_of<const R: usize>(states: &[f32], dim: usize, rows: [u32; R], ahead: [u32; R]) -> [f64; R] {
    let mut lanes = [[0.0; LANES]; R];
    let whole = dim - dim % LANES;
    for start in (0..whole).step_by(LANES) {
        for r in 0..R {
            prefetch(states.as_ptr().wrapping_add(ahead[r] as usize * dim + start), true);
            let strip = &states[rows[r] as usize * dim + start..][..LANES];
            for l in 0..LANES {
                lanes[r][l] = f64::from(strip[l]).mul_add(f64::from(strip[l]), lanes[r][l]);
            }
        }
    }
    let mut squares = [0.0; R];
    for r in 0..R {
        for (lane, &x) in lanes[r].iter_mut().zip(&states[rows[r] as usize * dim + whole..][..dim - whole]) {
            *lane = f64::from(x).mul_add(f64::from(x), *lane);
        }
        squares[r] = fold(lanes[r]);
    }
    squares
}
