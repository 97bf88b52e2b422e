//! The largest eigenvalue alone, by Lanczos' method with all vectors kept orthogonal (Parlett, *The Symmetric Eigenvalue Problem*, chapter 13).

use layerscope_compute::cpu::Isa;
use layerscope_compute::for_each_isa;

use super::{SMALL, eigenvalues, eigenvectors, scaled};
use crate::sketch::sample_hash;

/// An eigenvalue lies within the residual of a Ritz pair; so small, as a share of the largest, it is the same to the last digits.
const RESIDUAL: f64 = 1e-13;

/// Steps after which the residual is looked at; where the last does not suffice, a general solver is asked.
const LOOKS: [usize; 6] = [16, 32, 48, 72, 108, 160];

/// The largest eigenvalue of a symmetric matrix without negative ones; None if a number is not finite.
pub(crate) fn largest_eigenvalue(matrix: &[f64], dim: usize) -> Option<f64> {
    if dim <= SMALL {
        return eigenvalues(matrix, dim)?.first().copied();
    }
    let (scale, scaled) = scaled(matrix)?;
    match lanczos(&scaled, dim) {
        Some(largest) => Some(largest * scale),
        None => eigenvalues(matrix, dim)?.first().copied(),
    }
}

fn lanczos(matrix: &[f64], dim: usize) -> Option<f64> {
    let isa = Isa::detect();
    let mut basis: Vec<Vec<f64>> = vec![start(dim)];
    let (mut diagonal, mut beside) = (Vec::new(), Vec::new());
    let mut next = vec![0.0; dim];
    for look in LOOKS {
        while diagonal.len() < look {
            let last = basis.len() - 1;
            products(isa, matrix, &basis[last], &mut next);
            diagonal.push(dot(&next, &basis[last]));
            // Twice: what rounding leaves of the first time, the second removes.
            for _ in 0..2 {
                for known in &basis {
                    let along = dot(&next, known);
                    next.iter_mut().zip(known).for_each(|(x, known)| *x -= along * known);
                }
            }
            let norm = dot(&next, &next).sqrt();
            beside.push(norm);
            // All that the start can reach: what is found is exact.
            if norm <= f64::EPSILON * dim as f64 * diagonal[0].abs().max(f64::MIN_POSITIVE) {
                return ritz(&diagonal, &beside).map(|(value, _)| value);
            }
            basis.push(next.iter().map(|x| x / norm).collect());
        }
        let (value, last) = ritz(&diagonal, &beside)?;
        if beside[look - 1] * last <= RESIDUAL * value {
            return Some(value);
        }
    }
    None
}

/// The largest eigenvalue of the tridiagonal matrix, and the last component of its eigenvector.
fn ritz(diagonal: &[f64], beside: &[f64]) -> Option<(f64, f64)> {
    let dim = diagonal.len();
    let mut matrix = vec![0.0; dim * dim];
    for i in 0..dim {
        matrix[i * dim + i] = diagonal[i];
        if i + 1 < dim {
            matrix[i * dim + i + 1] = beside[i];
            matrix[(i + 1) * dim + i] = beside[i];
        }
    }
    let (values, vectors) = eigenvectors(&matrix, dim)?;
    Some((values[0], vectors[dim - 1].abs()))
}

/// A unit vector that is orthogonal to no axis that states single out.
fn start(dim: usize) -> Vec<f64> {
    let vector: Vec<f64> = (0..dim).map(|i| sample_hash(1, i as u64, 0) as f64 / u64::MAX as f64 - 0.5).collect();
    let norm = dot(&vector, &vector).sqrt();
    vector.iter().map(|x| x / norm).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sum = 0.0;
    dot_of(Isa::detect(), a, b, &mut sum);
    sum
}

for_each_isa! {
    fn dot_of = dot_body; (a: &[f64], b: &[f64], sum: &mut f64)
}

/// Products with every row.
fn products(isa: Isa, matrix: &[f64], vector: &[f64], result: &mut [f64]) {
    for (row, result) in matrix.chunks_exact(vector.len()).zip(result) {
        dot_of(isa, row, vector, result);
    }
}

#[inline(always)]
fn dot_body(a: &[f64], b: &[f64], sum: &mut f64) {
    const LANES: usize = 32;
    let mut lanes = [0.0f64; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for l in 0..LANES {
            lanes[l] = a[l].mul_add(b[l], lanes[l]);
        }
    }
    lanes.iter_mut().zip(a_rest).zip(b_rest).for_each(|((lane, a), b)| *lane = a.mul_add(*b, *lane));
    *sum = lanes.iter().sum();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Diagonal, turned by a reflection: its eigenvalues are known.
    fn turned(values: &[f64]) -> Vec<f64> {
        let dim = values.len();
        let v: Vec<f64> = (0..dim).map(|i| ((i * i + 5) as f64).sin()).collect();
        let square = dot(&v, &v);
        let h = |i: usize, j: usize| f64::from(u8::from(i == j)) - 2.0 * v[i] * v[j] / square;
        (0..dim * dim).map(|at| (0..dim).map(|k| h(at / dim, k) * values[k] * h(k, at % dim)).sum()).collect()
    }

    #[test]
    fn the_largest_of_hard_spectra() {
        let dim = 200;
        let of = |value: &dyn Fn(usize) -> f64| (0..dim).map(value).collect::<Vec<f64>>();
        let spectra = [
            ("slowly falling", of(&|i| 1.0 / (1.0 + i as f64))),
            ("a cluster at the top", of(&|i| if i < 5 { 3.0 - 1e-9 * i as f64 } else { 1.0 / i as f64 })),
            ("nearly all equal", of(&|i| 1.0 + 1e-6 * i as f64)),
            ("evenly spread", of(&|i| i as f64)),
            ("rank one", of(&|i| if i == 3 { 2.0 } else { 0.0 })),
            ("zero", of(&|_| 0.0)),
            ("all equal", of(&|_| 4.0)),
            ("tiny", of(&|i| 1e-200 * 0.5f64.powi(i as i32))),
        ];
        for (name, values) in spectra {
            let largest = values.iter().copied().fold(0.0, f64::max);
            let ours = largest_eigenvalue(&turned(&values), dim).unwrap();
            assert!((ours - largest).abs() <= 1e-13 * largest + 1e-300, "{name}: {ours} {largest}");
        }
        assert_eq!(largest_eigenvalue(&vec![f64::NAN; dim * dim], dim), None);
        assert_eq!(largest_eigenvalue(&[2.0, 0.0, 0.0, 1.0], 2), Some(2.0));
    }
}
