//! Eigenvalues by Jacobi's rotations: slow, simple and exact.

/// Eigenvalues of a symmetric matrix, descending.
pub fn jacobi(matrix: &[f64], dim: usize) -> Vec<f64> {
    jacobi_vectors(matrix, dim).0
}

/// Eigenvalues, descending, and their unit eigenvectors.
pub fn jacobi_vectors(matrix: &[f64], dim: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    let scale = matrix.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    let scale = if scale > 0.0 { scale } else { 1.0 };
    let mut a: Vec<Vec<f64>> = matrix.chunks(dim).map(|row| row.iter().map(|x| x / scale).collect()).collect();
    let mut v: Vec<Vec<f64>> = (0..dim).map(|i| (0..dim).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for _ in 0..60 {
        let off: f64 = (0..dim).flat_map(|p| (p + 1..dim).map(move |q| (p, q))).map(|(p, q)| a[p][q].powi(2)).sum();
        if off < 1e-34 {
            break;
        }
        for p in 0..dim {
            for q in p + 1..dim {
                if a[p][q] == 0.0 {
                    continue;
                }
                let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                let t = if theta.is_infinite() { 0.0 } else { theta.signum() / (theta.abs() + theta.hypot(1.0)) };
                let t = if theta == 0.0 { 1.0 } else { t };
                let c = 1.0 / t.hypot(1.0);
                let s = t * c;
                for k in 0..dim {
                    let (x, y) = (a[k][p], a[k][q]);
                    (a[k][p], a[k][q]) = (c * x - s * y, s * x + c * y);
                }
                for k in 0..dim {
                    let (x, y) = (a[p][k], a[q][k]);
                    (a[p][k], a[q][k]) = (c * x - s * y, s * x + c * y);
                }
                for row in &mut v {
                    let (x, y) = (row[p], row[q]);
                    (row[p], row[q]) = (c * x - s * y, s * x + c * y);
                }
            }
        }
    }
    let mut order: Vec<usize> = (0..dim).collect();
    order.sort_by(|&i, &j| a[j][j].total_cmp(&a[i][i]));
    let vectors = order.iter().map(|&i| v.iter().map(|row| row[i]).collect()).collect();
    (order.iter().map(|&i| a[i][i] * scale).collect(), vectors)
}
