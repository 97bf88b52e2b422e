//! Eigenvalues of a symmetric matrix and of the same with a vector's square added, for the price of one.
//!
//! A reflection turns the vector onto the first axis; reducing the matrix to tridiagonal form T leaves that axis alone. So adding the square of
//! the vector changes the first element of T and nothing else (Golub & Van Loan, *Matrix Computations*, section 8.4).

use faer::diag::{DiagMut, DiagRef};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::tridiag::{tridiag_in_place, tridiag_in_place_scratch};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd_scratch, tridiagonal_self_adjoint_evd};
use faer::{Mat, MatMut, Par};

use super::scaled;

/// Eigenvalues of the symmetric A and of `factor` A + v v^T, both descending; None if a number is not finite.
pub(crate) fn with_square_of(vector: &[f64], matrix: &[f64], factor: f64) -> Option<(Vec<f64>, Vec<f64>)> {
    let dim = vector.len();
    let (scale, mut rows) = scaled(matrix)?;
    let largest = vector.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    let norm = if largest > 0.0 { largest * vector.iter().map(|x| (x / largest).powi(2)).sum::<f64>().sqrt() } else { 0.0 };
    if !(norm * norm).is_finite() || vector.iter().any(|x| x.is_nan()) {
        return None;
    }
    if norm > 0.0 {
        reflect(&mut rows, &vector.iter().map(|x| x / norm).collect::<Vec<f64>>());
    }
    let (diagonal, beside) = tridiagonal(&mut rows, dim);
    let own = eigenvalues_of(&diagonal, &beside)?.into_iter().map(|value| value * scale).collect();
    // Each at a scale of its own: one may be far smaller than the other.
    let whole = scale.max(norm * norm);
    let shrunk = |numbers: &[f64]| numbers.iter().map(|x| x * (factor * scale / whole)).collect::<Vec<f64>>();
    let mut changed = shrunk(&diagonal);
    changed[0] += norm * norm / whole;
    let with = eigenvalues_of(&changed, &shrunk(&beside))?.into_iter().map(|value| value * whole).collect();
    Some((own, with))
}

/// H A H with the reflection H that turns a unit vector onto the first axis.
fn reflect(rows: &mut [f64], unit: &[f64]) {
    let dim = unit.len();
    // H = 1 - v v^T / h with v = u + sign(u_1) e_1, h = v.v / 2.
    let mut v = unit.to_vec();
    v[0] += 1f64.copysign(unit[0]);
    let inverse = 2.0 / v.iter().map(|x| x * x).sum::<f64>();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut w: Vec<f64> = rows.chunks_exact(dim).map(|row| inverse * dot(row, &v)).collect();
    let half = 0.5 * inverse * dot(&v, &w);
    w.iter_mut().zip(&v).for_each(|(w, v)| *w -= half * v);
    // H A H = A - v w^T - w v^T
    for (i, row) in rows.chunks_exact_mut(dim).enumerate() {
        row.iter_mut().zip(&v).zip(&w).for_each(|((x, v_j), w_j)| *x -= v[i] * w_j + w[i] * v_j);
    }
}

/// The diagonal of T = Q^T A Q and what lies beside it, filled up with a zero; Q leaves the first axis alone.
fn tridiagonal(rows: &mut [f64], dim: usize) -> (Vec<f64>, Vec<f64>) {
    let mut reflections = Mat::<f64>::zeros(1, dim.saturating_sub(1));
    let mut memory = MemBuffer::new(tridiag_in_place_scratch::<f64>(dim, Par::Seq, Default::default()));
    let mut matrix = MatMut::from_column_major_slice_mut(rows, dim, dim);
    tridiag_in_place(matrix.as_mut(), reflections.as_mut(), Par::Seq, MemStack::new(&mut memory), Default::default());
    let diagonal = (0..dim).map(|i| matrix[(i, i)]).collect();
    let beside = (0..dim).map(|i| if i + 1 < dim { matrix[(i + 1, i)] } else { 0.0 }).collect();
    (diagonal, beside)
}

/// Eigenvalues of a tridiagonal matrix, descending.
fn eigenvalues_of(diagonal: &[f64], beside: &[f64]) -> Option<Vec<f64>> {
    let dim = diagonal.len();
    let mut values = vec![0.0; dim];
    let mut memory = MemBuffer::new(self_adjoint_evd_scratch::<f64>(dim, ComputeEigenvectors::No, Par::Seq, Default::default()));
    tridiagonal_self_adjoint_evd(
        DiagRef::from_slice(diagonal),
        DiagRef::from_slice(beside),
        DiagMut::from_slice_mut(&mut values),
        None,
        Par::Seq,
        MemStack::new(&mut memory),
        Default::default(),
    )
    .ok()?;
    values.reverse();
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::super::eigenvalues;
    use super::*;

    /// A matrix with these eigenvalues, in a basis made of reflections.
    fn matrix(values: &[f64]) -> Vec<f64> {
        let dim = values.len();
        let mut rows = vec![0.0; dim * dim];
        values.iter().enumerate().for_each(|(i, value)| rows[i * dim + i] = *value);
        for turn in 1..4 {
            let v: Vec<f64> = (0..dim).map(|i| ((i * i * turn + 3) as f64).sin()).collect();
            let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
            reflect(&mut rows, &v.iter().map(|x| x / norm).collect::<Vec<f64>>());
        }
        rows
    }

    #[test]
    fn both_spectra_equal_those_of_a_general_solver() {
        for dim in [1, 2, 3, 40, 200] {
            let falling: Vec<f64> = (0..dim).map(|i| 0.9f64.powi(i as i32)).collect();
            let equal: Vec<f64> = vec![2.0; dim];
            let one: Vec<f64> = (0..dim).map(|i| if i == 0 { 5.0 } else { 0.0 }).collect();
            for values in [falling, equal, one, vec![0.0; dim]] {
                for size in [0.0, 1e-9, 1.0, 1e3, 1e150] {
                    let vector: Vec<f64> = (0..dim).map(|i| size * ((7 * i + 1) as f64).cos()).collect();
                    let (matrix, factor) = (matrix(&values), 0.97);
                    let (own, with) = with_square_of(&vector, &matrix, factor).unwrap();
                    let sum: Vec<f64> = (0..dim * dim).map(|at| factor * matrix[at] + vector[at / dim] * vector[at % dim]).collect();
                    for (ours, theirs) in [(own, eigenvalues(&matrix, dim).unwrap()), (with, eigenvalues(&sum, dim).unwrap())] {
                        let largest = theirs[0].abs();
                        let near = ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() <= 4e-14 * largest);
                        assert!(near && ours.len() == dim, "{dim} {size}: {ours:?} {theirs:?}");
                    }
                }
            }
        }
        assert_eq!(with_square_of(&[f64::NAN], &[1.0], 1.0), None);
        assert_eq!(with_square_of(&[1.0], &[f64::INFINITY], 1.0), None);
    }
}
