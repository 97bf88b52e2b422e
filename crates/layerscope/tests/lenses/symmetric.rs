//! Eigenvalues of large symmetric matrices without the program's library: Householder's reflections, then QL with implicit shifts.

/// Eigenvalues, descending.
pub fn eigenvalues(matrix: &[f64], dim: usize) -> Vec<f64> {
    let (mut diagonal, mut beside, _) = tridiagonal(matrix, dim, false);
    implicit_ql(&mut diagonal, &mut beside, &mut []);
    diagonal.sort_by(|a, b| b.total_cmp(a));
    diagonal
}

/// Eigenvalues, descending, and their unit eigenvectors.
pub fn eigenvectors(matrix: &[f64], dim: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    let (mut diagonal, mut beside, mut basis) = tridiagonal(matrix, dim, true);
    implicit_ql(&mut diagonal, &mut beside, &mut basis);
    let mut order: Vec<usize> = (0..dim).collect();
    order.sort_by(|&i, &j| diagonal[j].total_cmp(&diagonal[i]));
    (order.iter().map(|&i| diagonal[i]).collect(), order.iter().map(|&i| basis[i].clone()).collect())
}

/// T with A = Q T Q^T: its diagonal, what stands beside it, and the rows of Q^T if wanted.
fn tridiagonal(matrix: &[f64], dim: usize, vectors: bool) -> (Vec<f64>, Vec<f64>, Vec<Vec<f64>>) {
    let mut a: Vec<Vec<f64>> = matrix.chunks(dim).map(<[f64]>::to_vec).collect();
    let mut basis: Vec<Vec<f64>> = if vectors { (0..dim).map(|i| unit(dim, i)).collect() } else { Vec::new() };
    let mut beside = vec![0.0; dim];
    for k in 0..dim.saturating_sub(1) {
        // The reflection I - 2 v v^T that leaves only the first component of the column below the diagonal.
        let mut v: Vec<f64> = (k + 1..dim).map(|i| a[i][k]).collect();
        let length = dot(&v, &v).sqrt();
        beside[k] = if v[0] > 0.0 { -length } else { length };
        v[0] -= beside[k];
        let norm = dot(&v, &v).sqrt();
        if norm == 0.0 {
            continue;
        }
        v.iter_mut().for_each(|x| *x /= norm);
        let p: Vec<f64> = (k + 1..dim).map(|i| dot(&a[i][k + 1..], &v)).collect();
        let along = dot(&p, &v);
        let w: Vec<f64> = p.iter().zip(&v).map(|(p, v)| p - along * v).collect();
        for (i, row) in a[k + 1..].iter_mut().enumerate() {
            for (j, x) in row[k + 1..].iter_mut().enumerate() {
                *x -= 2.0 * (v[i] * w[j] + w[i] * v[j]);
            }
        }
        if vectors {
            let mut image = vec![0.0; dim];
            basis[k + 1..].iter().zip(&v).for_each(|(row, v)| image.iter_mut().zip(row).for_each(|(image, x)| *image += v * x));
            basis[k + 1..].iter_mut().zip(&v).for_each(|(row, v)| row.iter_mut().zip(&image).for_each(|(x, image)| *x -= 2.0 * v * image));
        }
    }
    ((0..dim).map(|i| a[i][i]).collect(), beside, basis)
}

/// Diagonalizes T; the rows of `basis`, if there are any, become the eigenvectors.
fn implicit_ql(d: &mut [f64], e: &mut [f64], basis: &mut [Vec<f64>]) {
    let n = d.len();
    for l in 0..n {
        loop {
            let negligible = |m: &usize| e[*m].abs() <= f64::EPSILON * (d[*m].abs() + d[*m + 1].abs());
            let m = (l..n - 1).find(negligible).unwrap_or(n - 1);
            if m == l {
                break;
            }
            let g = (d[l + 1] - d[l]) / (2.0 * e[l]);
            let mut g = d[m] - d[l] + e[l] / (g + g.hypot(1.0).copysign(g));
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            let mut whole = true;
            for i in (l..m).rev() {
                let (f, b) = (s * e[i], c * e[i]);
                let r = f.hypot(g);
                e[i + 1] = r;
                if r == 0.0 {
                    d[i + 1] -= p;
                    e[m] = 0.0;
                    whole = false;
                    break;
                }
                (s, c) = (f / r, g / r);
                g = d[i + 1] - p;
                let r = (d[i] - g) * s + 2.0 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                if let [low, high, ..] = basis.get_mut(i..).unwrap_or_default() {
                    for (x, y) in low.iter_mut().zip(high) {
                        (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
                    }
                }
            }
            if whole {
                d[l] -= p;
                e[l] = g;
                e[m] = 0.0;
            }
        }
    }
}

fn unit(dim: usize, at: usize) -> Vec<f64> {
    (0..dim).map(|i| f64::from(u8::from(i == at))).collect()
}

/// Four sums at a time, added at the end.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let ((whole_a, rest_a), (whole_b, rest_b)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    whole_a.iter().zip(whole_b).for_each(|(a, b)| (0..4).for_each(|i| sums[i] += a[i] * b[i]));
    sums.iter().sum::<f64>() + rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum::<f64>()
}

#[test]
fn householder_and_jacobi_agree() {
    let dim = 23;
    let entry = |i: usize, j: usize| ((i.min(j) * 31 + i.max(j) * 17) as f64).sin() / (1.0 + (i as f64 - j as f64).abs());
    let matrix: Vec<f64> = (0..dim * dim).map(|at| entry(at / dim, at % dim)).collect();
    let expected = layerscope_testing::eigen::jacobi(&matrix, dim);
    let (values, vectors) = eigenvectors(&matrix, dim);
    for ((value, expected), alone) in values.iter().zip(&expected).zip(eigenvalues(&matrix, dim)) {
        assert!((value - expected).abs() < 1e-13 && (alone - expected).abs() < 1e-13, "{value} {alone} {expected}");
    }
    for (value, vector) in values.iter().zip(&vectors) {
        assert!((dot(vector, vector) - 1.0).abs() < 1e-13);
        for (row, x) in matrix.chunks(dim).zip(vector) {
            assert!((dot(row, vector) - value * x).abs() < 1e-13);
        }
    }
}
