//! The spectrum by its definition: all states in memory, f64, Jacobi's rotations.

use layerscope_testing::eigen;

/// The mean state.
pub fn mean(states: &[Vec<f64>], dim: usize) -> Vec<f64> {
    let first: Vec<f64> = (0..dim).map(|i| states.iter().map(|x| x[i]).sum::<f64>() / states.len() as f64).collect();
    // Once more around the first mean, which rounding has moved.
    (0..dim).map(|i| first[i] + states.iter().map(|x| x[i] - first[i]).sum::<f64>() / states.len() as f64).collect()
}

/// Covariance, divisor n - 1, or the uncentred second moment.
pub fn naive_covariance(states: &[Vec<f64>], dim: usize, center: bool) -> Vec<f64> {
    let mu = if center { mean(states, dim) } else { vec![0.0; dim] };
    let divisor = if center { states.len() - 1 } else { states.len() } as f64;
    let entry = |i: usize, j: usize| states.iter().map(|x| (x[i] - mu[i]) * (x[j] - mu[j])).sum::<f64>() / divisor;
    (0..dim * dim).map(|at| entry(at / dim, at % dim)).collect()
}

/// Every measure from naive eigenvalues.
pub struct Oracle {
    pub values: Vec<f64>,
    dim: usize,
}

impl Oracle {
    pub fn new(states: &[Vec<f64>], dim: usize, center: bool) -> Oracle {
        let mut values = eigen::jacobi(&naive_covariance(states, dim, center), dim);
        values.truncate(if center { states.len() - 1 } else { states.len() });
        let least = 1e-12 * values[0];
        Oracle { values: values.into_iter().map(|value| if value <= least { 0.0 } else { value }).collect(), dim }
    }

    pub fn defined(&self) -> bool {
        self.values[0] > 0.0
    }

    pub fn participation_ratio(&self) -> f64 {
        self.values.iter().sum::<f64>().powi(2) / self.values.iter().map(|x| x * x).sum::<f64>()
    }

    pub fn isoscore(&self) -> Option<f64> {
        (self.defined() && self.dim > 1).then(|| (self.participation_ratio() - 1.0) / (self.dim as f64 - 1.0))
    }

    pub fn effective_rank(&self) -> f64 {
        let sum: f64 = self.values.iter().sum();
        (-self.values.iter().filter(|x| **x > 0.0).map(|x| x / sum * (x / sum).ln()).sum::<f64>()).exp()
    }

    pub fn rankme(&self) -> f64 {
        let sum: f64 = self.values.iter().map(|x| x.sqrt()).sum();
        (-self.values.iter().map(|x| x.sqrt() / sum + 1e-7).map(|p| p * p.ln()).sum::<f64>()).exp()
    }

    /// By the normal equations of weighted least squares.
    pub fn alpha_req(&self) -> Option<f64> {
        let last = self.values.iter().filter(|x| **x > 0.0).count().min(100);
        let ranks: Vec<f64> = (11..=last).map(|rank| rank as f64).collect();
        let sum = |term: &dyn Fn(f64, f64) -> f64| ranks.iter().map(|r| term(-r.ln(), self.values[*r as usize - 1].ln()) / r).sum::<f64>();
        let (w, x, y) = (sum(&|_, _| 1.0), sum(&|x, _| x), sum(&|_, y| y));
        let (xx, xy) = (sum(&|x, _| x * x), sum(&|x, y| x * y));
        (ranks.len() >= 10).then(|| (w * xy - x * y) / (w * xx - x * x))
    }
}

/// (PR - 1) / (d - 1) of a covariance, from its eigenvalues.
pub fn isoscore_of(covariance: &[f64], dim: usize) -> f64 {
    let values = eigen::jacobi(covariance, dim);
    let ratio = values.iter().sum::<f64>().powi(2) / values.iter().map(|x| x * x).sum::<f64>();
    (ratio - 1.0) / (dim as f64 - 1.0)
}
