//! Eigenvalues of symmetric matrices: the only place that knows who computes them.

mod largest;
mod rank_one;
mod small;

use faer::{MatRef, Side};
use layerscope_compute::cpu::Isa;

pub(crate) use largest::largest_eigenvalue;
pub(crate) use rank_one::with_square_of;
use small::small_eigenvalues;

/// Those at most this times the largest count as 0.
pub(crate) const NEGLIGIBLE: f64 = 1e-12;

/// Sides up to this are small.
const SMALL: usize = 128;

/// Eigenvalues of a symmetric matrix, descending; None if a number is not finite.
pub(crate) fn eigenvalues(matrix: &[f64], dim: usize) -> Option<Vec<f64>> {
    let (scale, scaled) = scaled(matrix)?;
    let mut values = vec![0.0; dim];
    if dim <= SMALL {
        small_eigenvalues(Isa::detect(), &scaled, &mut values);
        values.sort_unstable_by(f64::total_cmp);
    } else {
        values = MatRef::from_row_major_slice(&scaled, dim, dim).self_adjoint_eigenvalues(Side::Lower).ok()?;
    }
    values.reverse();
    values.iter_mut().for_each(|value| *value *= scale);
    Some(values)
}

/// Eigenvalues, descending, and unit eigenvectors, one after another, of a symmetric matrix; None if a number is not finite.
pub(crate) fn eigenvectors(matrix: &[f64], dim: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let (scale, scaled) = scaled(matrix)?;
    let found = MatRef::from_row_major_slice(&scaled, dim, dim).self_adjoint_eigen(Side::Lower).ok()?;
    let (values, vectors) = (found.S().column_vector(), found.U());
    let descending = || (0..dim).rev();
    let vectors = descending().flat_map(|column| (0..dim).map(move |row| vectors[(row, column)])).collect();
    Some((descending().map(|at| values[at] * scale).collect(), vectors))
}

/// The rule for spectra: at most `rank` eigenvalues of those given in descending order, negligible ones as 0.
pub(crate) fn significant(mut values: Vec<f64>, rank: usize) -> Vec<f64> {
    values.truncate(rank);
    let least = NEGLIGIBLE * values.first().copied().unwrap_or(0.0).max(0.0);
    values.iter_mut().filter(|value| **value <= least).for_each(|value| *value = 0.0);
    values
}

/// The matrix divided by its largest element, so that no square over- or underflows, and that element.
fn scaled(matrix: &[f64]) -> Option<(f64, Vec<f64>)> {
    let largest = matrix.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    let finite = matrix.iter().all(|x| x.is_finite());
    let scale = if largest > 0.0 { largest } else { 1.0 };
    finite.then(|| (scale, matrix.iter().map(|x| x / scale).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_solved_by_hand() {
        // [[2, 1], [1, 2]]: 3 with (1, 1), 1 with (1, -1).
        for scale in [1.0, 1e-200, 1e200] {
            let matrix = [2.0, 1.0, 1.0, 2.0].map(|x| x * scale);
            let (values, vectors) = eigenvectors(&matrix, 2).unwrap();
            for found in [&values, &eigenvalues(&matrix, 2).unwrap()] {
                assert!((found[0] / scale - 3.0).abs() < 1e-14 && (found[1] / scale - 1.0).abs() < 1e-14);
            }
            assert!((vectors[0] - vectors[1]).abs() < 1e-14 && (vectors[2] + vectors[3]).abs() < 1e-14);
        }
        assert_eq!(eigenvalues(&[f64::NAN], 1), None);
        assert_eq!(eigenvalues(&[0.0; 4], 2), Some(vec![0.0; 2]));
        assert_eq!(significant(vec![2.0, 1e-3, 1e-12, -1e-17], 3), [2.0, 1e-3, 0.0]);
        assert_eq!(significant(vec![], 3), [0.0; 0]);
    }
}
