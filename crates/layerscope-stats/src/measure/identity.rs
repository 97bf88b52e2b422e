//! Identities that must hold, each side from its own accumulator so that the check can fail.

use super::selection::{Selection, Summary};

/// An identity and how far its sides are apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// What must be equal.
    pub identity: &'static str,
    /// Over which states.
    pub selection: Selection,
    /// The largest |left - right|, divided by Q (1 for cosines); infinite if a side is not a number.
    pub residual: f64,
    /// The group or component where it is largest.
    pub at: Option<u32>,
    /// How many groups, components or states were compared.
    pub n: u64,
}

/// All identities of a point's [selections](Summary::of_point): per group Q = M + V; over X Q = M + V, V = V_W + V_B, per component too, and the contributions to the mean
/// cosine; over the selected groups Q = M + V_W + V_B (Yamagiwa & Shimodaira 2025, section 3 and eq. 24).
pub fn identities(summaries: &[Summary]) -> Vec<Identity> {
    let mut found = Vec::new();
    for summary in summaries {
        let Some(totals) = &summary.totals else { continue };
        let (selection, n) = (summary.selection, totals.n);
        let whole =
            |identity, left: f64, right: f64| Identity { identity, selection, residual: residual(left, right, totals.q), at: None, n };
        if matches!(selection, Selection::Selected | Selection::TypicalSelected) {
            found.push(whole("q = m + v_within + v_between", totals.q, totals.m + totals.v_within + totals.v_between));
            continue;
        }
        let groups = summary.groups.iter().map(|group| (group.group, residual(group.q, group.m + group.v, group.q)));
        found.push(worst("group q = m + v", selection, groups));
        found.push(whole("q = m + v", totals.q, totals.m + totals.v));
        found.push(whole("v = v_within + v_between", totals.v, totals.v_within + totals.v_between));
        let components = &summary.components;
        let apart =
            components.iter().map(|row| (row.component, residual(row.variance, row.variance_within + row.variance_between, totals.q)));
        found.push(worst("component v = v_within + v_between", selection, apart));
        let parts: Option<f64> = components.iter().map(|row| row.cosine_contribution).sum();
        if let Some((mean, parts)) = totals.mean_cosine.zip(parts) {
            let identity = "mean_cosine = sum of cosine_contribution";
            found.push(Identity { identity, selection, residual: residual(mean, parts, 1.0), at: None, n: totals.nonzero });
        }
    }
    found
}

fn residual(left: f64, right: f64, scale: f64) -> f64 {
    let apart = (left - right).abs();
    let scaled = if scale > 0.0 { apart / scale } else { apart };
    if scaled.is_nan() { f64::INFINITY } else { scaled }
}

/// The largest of several residuals.
fn worst(identity: &'static str, selection: Selection, residuals: impl Iterator<Item = (u32, f64)>) -> Identity {
    let mut worst = Identity { identity, selection, residual: 0.0, at: None, n: 0 };
    for (at, residual) in residuals {
        worst.n += 1;
        if residual > worst.residual {
            (worst.residual, worst.at) = (residual, Some(at));
        }
    }
    worst
}
