//! M and V without the bias of plug-in values: of one group, and of all groups by a one-way analysis of variance.
//!
//! The mean of n states is itself off by V / n on average. Plug-in M is too large by that, and plug-in V too small, so tokens that differ
//! in nothing but their frequency have plug-in values that depend on it. These estimates do not.

use super::selection::{GroupRow, Totals};

/// M and V of one group: M - V / (n - 1) and V n / (n - 1). None with fewer than 2 states; M may be negative.
pub fn unbiased(group: &GroupRow) -> Option<(f64, f64)> {
    let n = group.n as f64;
    (group.n >= 2).then(|| (group.m - group.v / (n - 1.0), group.v * n / (n - 1.0)))
}

/// Components of variance over groups of different size, by a one-way analysis of variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VarianceComponents {
    /// V_W = MSW = SSW / (n - G); None if no group has two states.
    pub within: Option<f64>,
    /// V_B = (SSB / (G - 1) - MSW) / n0 with n0 = (n - sum_t n_t^2 / n) / (G - 1); None with fewer than 2 groups or without MSW. It may be
    /// negative.
    pub between: Option<f64>,
}

impl VarianceComponents {
    /// Of G groups and their totals: SSW = n V_W and SSB = n V_B of the plug-in values.
    pub fn new(groups: &[GroupRow], totals: &Totals) -> VarianceComponents {
        let (n, count) = (totals.n as f64, groups.len() as f64);
        let within = (totals.n > groups.len() as u64).then(|| n * totals.v_within / (n - count));
        let squares: f64 = groups.iter().map(|group| (group.n as f64).powi(2)).sum();
        let between = within.filter(|_| groups.len() >= 2).map(|within| {
            let size = (n - squares / n) / (count - 1.0);
            (n * totals.v_between / (count - 1.0) - within) / size
        });
        VarianceComponents { within, between }
    }

    /// V_W + V_B.
    pub fn total(&self) -> Option<f64> {
        Some(self.within? + self.between?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(n: u64, m: f64, v: f64) -> GroupRow {
        GroupRow { group: 0, n, q: m + v, m, v, self_similarity: None, mean_norm: 0.0 }
    }

    fn totals(n: u64, v_within: f64, v_between: f64) -> Totals {
        let v = v_within + v_between;
        Totals { n, nonzero: n, q: v, m: 0.0, v, v_within, v_between, mean_norm: 0.0, mean_cosine: None }
    }

    #[test]
    fn a_group_computed_by_hand() {
        // 1, 2, 6: mean 3, V = (4 + 1 + 9) / 3; with divisor 2: 7. M = 9 - 7 / 3.
        let (m, v) = unbiased(&group(3, 9.0, 14.0 / 3.0)).unwrap();
        assert!((v - 7.0).abs() < 1e-14 && (m - 20.0 / 3.0).abs() < 1e-14, "{m} {v}");
        assert_eq!(unbiased(&group(1, 9.0, 0.0)), None);
    }

    #[test]
    fn an_analysis_of_variance_computed_by_hand() {
        // Groups {1, 3}, {4, 5, 9}, {8}: means 2, 6, 8; mean of all 5.
        // SSW = 2 + 14 + 0 = 16; SSB = 2 * 9 + 3 * 1 + 1 * 9 = 30. n = 6, G = 3.
        // MSW = 16 / 3; MSB = 15; n0 = (6 - (4 + 9 + 1) / 6) / 2 = 11 / 6; V_B = (15 - 16 / 3) / (11 / 6) = 58 / 11.
        let groups = [group(2, 4.0, 1.0), group(3, 36.0, 14.0 / 3.0), group(1, 64.0, 0.0)];
        let found = VarianceComponents::new(&groups, &totals(6, 16.0 / 6.0, 5.0));
        assert!((found.within.unwrap() - 16.0 / 3.0).abs() < 1e-14, "{found:?}");
        assert!((found.between.unwrap() - 58.0 / 11.0).abs() < 1e-14, "{found:?}");
        assert!((found.total().unwrap() - 16.0 / 3.0 - 58.0 / 11.0).abs() < 1e-14);
    }

    #[test]
    fn what_has_no_degrees_of_freedom_is_undefined() {
        // One group of three states has a spread of its own and none between groups.
        let one = VarianceComponents::new(&[group(3, 9.0, 14.0 / 3.0)], &totals(3, 14.0 / 3.0, 0.0));
        assert!((one.within.unwrap() - 7.0).abs() < 1e-14);
        assert_eq!((one.between, one.total()), (None, None));
        // Every group has one state.
        let alone = VarianceComponents::new(&[group(1, 1.0, 0.0), group(1, 4.0, 0.0)], &totals(2, 0.0, 0.25));
        assert_eq!((alone.within, alone.between), (None, None));
    }
}
