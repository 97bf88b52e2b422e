//! Eigenvalues of small symmetric matrices, of which every sequence has one: general solvers spend their time on preparations.
//!
//! Householder reflections to tridiagonal form, then the square-root-free QL iteration of Pal, Walker and Kahan (Parlett, *The Symmetric
//! Eigenvalue Problem*, section 8.15). The error is a few roundings of the largest eigenvalue.

use layerscope_compute::for_each_isa;

use crate::kernels::fold;

/// Numbers computed together; rows are filled up with zeros to a multiple of it.
const LANES: usize = 8;
type Strip = [f64; LANES];

/// More steps than any eigenvalue needs.
const MOST_STEPS: usize = 60;

for_each_isa! {
    /// Eigenvalues, in no order, of the symmetric `matrix`, row by row.
    pub(super) fn small_eigenvalues = small_eigenvalues_body; (matrix: &[f64], values: &mut [f64])
}

#[inline(always)]
fn small_eigenvalues_body(matrix: &[f64], values: &mut [f64]) {
    let dim = values.len();
    let mut rows = vec![[0.0; LANES]; dim * dim.div_ceil(LANES)];
    for (row, padded) in matrix.chunks_exact(dim).zip(rows.chunks_exact_mut(dim.div_ceil(LANES))) {
        padded.as_flattened_mut()[..dim].copy_from_slice(row);
    }
    let mut squares = vec![0.0; dim];
    tridiagonal(&mut rows, values, &mut squares);
    iterate(values, &mut squares);
}

/// Reflects the last row, then the one before it and so on, onto its neighbour; `squares[i]` is that of the element between `i` and `i + 1`.
#[inline(always)]
fn tridiagonal(rows: &mut [Strip], diagonal: &mut [f64], squares: &mut [f64]) {
    let dim = diagonal.len();
    let strips = dim.div_ceil(LANES);
    let mut space = vec![[0.0; LANES]; 2 * strips];
    for last in (1..dim).rev() {
        // Of the rows before this one: what lies beyond is done with, and zero in `v`.
        let width = last.div_ceil(LANES);
        let (v, w) = space.split_at_mut(strips);
        let (v, w) = (&mut v[..width], &mut w[..width]);
        let (active, own) = rows.split_at_mut(last * strips);
        diagonal[last] = own.as_flattened()[last];
        v.copy_from_slice(&own[..width]);
        v.as_flattened_mut()[last..].fill(0.0);

        let square = dot(v, v);
        squares[last - 1] = square;
        let neighbour = v.as_flattened()[last - 1];
        if square == neighbour * neighbour {
            continue;
        }
        // v = x + sign(x_n) ||x|| e_n reflects x onto the neighbour; H = 1 - v v^T / h.
        let norm = square.sqrt().copysign(neighbour);
        v.as_flattened_mut()[last - 1] = neighbour + norm;
        let inverse = 1.0 / norm.mul_add(neighbour, square);
        w.as_flattened_mut().fill(0.0);
        for (row, w) in active.chunks_exact(strips).zip(w.as_flattened_mut()) {
            *w = dot(&row[..width], v) * inverse;
        }
        let half = 0.5 * inverse * dot(v, w);
        for (w, v) in w.as_flattened_mut().iter_mut().zip(v.as_flattened()) {
            *w -= half * v;
        }
        // H A H = A - v w^T - w v^T
        for (i, row) in active.chunks_exact_mut(strips).enumerate() {
            let (own_v, own_w) = (v.as_flattened()[i], w.as_flattened()[i]);
            for ((row, v), w) in row.iter_mut().zip(&*v).zip(&*w) {
                for l in 0..LANES {
                    row[l] -= own_v.mul_add(w[l], own_w * v[l]);
                }
            }
        }
    }
    diagonal[0] = rows[0][0];
}

#[inline(always)]
fn dot(a: &[Strip], b: &[Strip]) -> f64 {
    let mut lanes = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for l in 0..LANES {
            lanes[l] = a[l].mul_add(b[l], lanes[l]);
        }
    }
    fold(lanes)
}

/// Turns the diagonal of a tridiagonal matrix into its eigenvalues.
#[inline(always)]
fn iterate(diagonal: &mut [f64], squares: &mut [f64]) {
    let largest = diagonal.iter().fold(0.0f64, |largest, x| largest.max(x * x));
    let largest = squares.iter().fold(largest, |largest, square| largest.max(*square));
    let negligible = f64::EPSILON * f64::EPSILON * largest;
    for first in 0..diagonal.len() {
        for _ in 0..MOST_STEPS {
            let end = (first..diagonal.len() - 1).find(|&at| squares[at] <= negligible).unwrap_or(diagonal.len() - 1);
            if end == first {
                break;
            }
            step(&mut diagonal[first..=end], &mut squares[first..end]);
        }
    }
}

/// One QL step with Wilkinson's shift, on an unreduced block.
#[inline(always)]
fn step(diagonal: &mut [f64], squares: &mut [f64]) {
    let end = squares.len();
    let root = squares[0].sqrt();
    let slope = (diagonal[1] - diagonal[0]) / (2.0 * root);
    let shift = diagonal[0] - root / (slope + slope.hypot(1.0).copysign(slope));
    let (mut cosine, mut sine, mut gamma) = (1.0, 0.0, diagonal[end] - shift);
    let mut p = gamma * gamma;
    for at in (0..end).rev() {
        let square = squares[at];
        let sum = p + square;
        if at + 1 < end {
            squares[at + 1] = sine * sum;
        }
        let before = (cosine, gamma);
        (cosine, sine) = (p / sum, square / sum);
        gamma = cosine * (diagonal[at] - shift) - sine * before.1;
        diagonal[at + 1] = before.1 + (diagonal[at] - gamma);
        p = if cosine == 0.0 { before.0 * square } else { gamma * gamma / cosine };
    }
    squares[0] = sine * p;
    diagonal[0] = shift + gamma;
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::{MatRef, Side};
    use layerscope_compute::cpu::Isa;

    /// Ours, ascending, after a look at every instruction set.
    fn ours(matrix: &[f64], dim: usize) -> Vec<f64> {
        let mut found = Isa::available().into_iter().map(|isa| {
            let mut values = vec![0.0; dim];
            small_eigenvalues(isa, matrix, &mut values);
            values.sort_unstable_by(f64::total_cmp);
            values
        });
        let first = found.next().unwrap();
        assert!(found.all(|other| other == first), "{dim}");
        first
    }

    /// A A^T with A of `rank` columns of very different lengths.
    fn product(dim: usize, rank: usize) -> Vec<f64> {
        let factor = |i: usize, k: usize| ((i * 131 + k * 71 + 7) as f64 * 0.7).sin() * 0.5f64.powi(k as i32);
        (0..dim * dim).map(|at| (0..rank).map(|k| factor(at / dim, k) * factor(at % dim, k)).sum()).collect()
    }

    #[test]
    fn the_same_as_a_general_solver() {
        for dim in [1, 2, 3, 7, 8, 9, 16, 30, 65, 128] {
            let indefinite: Vec<f64> = (0..dim * dim).map(|at| ((at / dim + at % dim) as f64 * 1.3).sin() * 3.0).collect();
            for matrix in [product(dim, dim), product(dim, dim.div_ceil(3)), indefinite] {
                let theirs = MatRef::from_row_major_slice(&matrix, dim, dim).self_adjoint_eigenvalues(Side::Lower).unwrap();
                let scale = theirs.iter().fold(0.0f64, |scale, value| scale.max(value.abs()));
                for (ours, theirs) in ours(&matrix, dim).iter().zip(&theirs) {
                    assert!((ours - theirs).abs() <= 1e-14 * scale * (dim as f64).sqrt(), "{dim}: {ours} {theirs}");
                }
            }
        }
    }

    #[test]
    fn matrices_that_are_done_or_equal_stay_what_they_are() {
        let dim = 9;
        let diagonal = |of: &dyn Fn(usize) -> f64| (0..dim * dim).map(|at| if at % (dim + 1) == 0 { of(at / dim) } else { 0.0 }).collect();
        let (identity, ladder): (Vec<f64>, Vec<f64>) = (diagonal(&|_| 1.0), diagonal(&|i| i as f64));
        assert_eq!(ours(&identity, dim), [1.0; 9]);
        assert_eq!(ours(&ladder, dim), (0..dim).map(|i| i as f64).collect::<Vec<f64>>());
        assert_eq!(ours(&vec![0.0; dim * dim], dim), [0.0; 9]);
        let ones = ours(&vec![1.0; dim * dim], dim);
        assert!((ones[dim - 1] - 9.0).abs() < 1e-14 && ones[..dim - 1].iter().all(|value| value.abs() < 1e-14));
    }
}
