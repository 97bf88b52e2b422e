//! What batches of the kept sample say of their spectra.

use std::ops::Range;

use layerscope_compute::cpu::Isa;

use super::batches::{self, BATCH};
use super::kept_sample::KeptSample;
use super::layer_rows::{Estimate, Rows};
use super::spectrum::isoscore_star;
use crate::eigen::largest_eigenvalue;
use crate::sketch::{CentredRows, Mergeable, Scatter};

/// Of batches of all states, and of batches of the typical ones.
pub(super) struct BatchSpectra {
    pub all: Batches,
    pub typical: Batches,
}

/// Values batch by batch.
#[derive(Default)]
pub(super) struct Batches {
    anisotropies: Vec<Option<f64>>,
    stars: Vec<Option<f64>>,
    n: u64,
}

impl BatchSpectra {
    /// Batches of all states and of the typical ones share most of their states. Where one of either begins or ends, the sample is cut: what lies between two
    /// cuts is summed up once for both, and massive states apart.
    ///
    /// `all` and `typical` are all states of the point; None: there are no others than typical ones.
    pub fn new(kept: &KeptSample<'_>, all: &Scatter, typical: Option<&Scatter>) -> BatchSpectra {
        let (typical_rows, count) = (kept.rows(true), kept.rows(false).len());
        // Places among the typical rows as places among all.
        let place = |rank: usize| typical_rows.get(rank).map_or(count, |row| *row as usize);
        let all_batches: Vec<Range<usize>> = batches::of(count, BATCH).collect();
        let ranks = typical.into_iter().flat_map(|_| batches::of(typical_rows.len(), BATCH));
        let typical_batches: Vec<Range<usize>> = ranks.map(|batch| place(batch.start)..place(batch.end - 1) + 1).collect();
        let mut cuts: Vec<usize> = all_batches.iter().chain(&typical_batches).flat_map(|batch| [batch.start, batch.end]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let (mut sums, mut found) = (Sums::new(kept), BatchSpectra { all: Batches::default(), typical: Batches::default() });
        let (mut of_all, mut of_typical) = (Scatter::new(kept.dim()), Scatter::new(kept.dim()));
        for cut in cuts.windows(2) {
            let (first, last) = (
                typical_rows.partition_point(|row| (*row as usize) < cut[0]),
                typical_rows.partition_point(|row| (*row as usize) < cut[1]),
            );
            let own = &typical_rows[first..last];
            let is_inside = |batches: &[Range<usize>]| batches.iter().any(|batch| batch.start <= cut[0] && cut[1] <= batch.end);
            let ends = |batches: &[Range<usize>]| batches.iter().any(|batch| batch.end == cut[1]);
            if !is_inside(&all_batches) && !is_inside(&typical_batches) {
                continue;
            }
            sums.set(own);
            for (batches, sum) in [(&all_batches, &mut of_all), (&typical_batches, &mut of_typical)] {
                if is_inside(batches) {
                    sums.add_to(sum);
                }
            }
            if is_inside(&all_batches) && own.len() < cut[1] - cut[0] {
                let massive: Vec<u32> = (cut[0] as u32..cut[1] as u32).filter(|row| own.binary_search(row).is_err()).collect();
                sums.set(&massive);
                sums.add_to(&mut of_all);
            }
            if ends(&all_batches) {
                found.all.push(&mut of_all, all);
            }
            if let Some(typical) = typical.filter(|_| ends(&typical_batches)) {
                found.typical.push(&mut of_typical, typical);
            }
        }
        found
    }
}

/// The scatter of some rows of the sample; memory is reused.
struct Sums<'a> {
    states: &'a [f32],
    dim: usize,
    centred: CentredRows,
    scatter: Scatter,
}

impl<'a> Sums<'a> {
    fn new(kept: &'a KeptSample<'_>) -> Sums<'a> {
        Sums { states: kept.states(), dim: kept.dim(), centred: CentredRows::new(), scatter: Scatter::default() }
    }

    fn set(&mut self, rows: &[u32]) {
        self.centred.fill_states(Isa::detect(), self.states, self.dim, rows);
        self.scatter.fill(Isa::detect(), &self.centred);
    }

    fn add_to(&self, sum: &mut Scatter) {
        sum.merge(&self.scatter).expect("states of one sample have the same components");
    }
}

impl Batches {
    /// Takes a finished batch, and leaves room for the next; `corpus` are all states.
    fn push(&mut self, batch: &mut Scatter, corpus: &Scatter) {
        self.n += batch.n();
        self.anisotropies.push(anisotropy(batch));
        self.stars.push(isoscore_star(batch, corpus));
        batch.clear();
    }

    /// The rows of the table.
    pub fn add_rows(&self, rows: &mut Rows) {
        rows.push_variant("anisotropy_svd", "batch4096", Estimate::new(batches::mean(&self.anisotropies), self.n));
        rows.push_variant("anisotropy_svd", "batch4096_std", Estimate::new(batches::deviation(&self.anisotropies), self.n));
        rows.push("isoscore_star", batches::mean(&self.stars), self.n);
    }
}

/// lambda_1 / sum lambda of the covariance: the sum is the trace.
fn anisotropy(scatter: &Scatter) -> Option<f64> {
    let covariance = scatter.covariance()?;
    let trace: f64 = covariance.iter().step_by(scatter.dim() + 1).sum();
    largest_eigenvalue(&covariance, scatter.dim()).filter(|largest| *largest > 0.0).map(|largest| largest / trace)
}
