//! The kept sample of a point, and what is computed of it once for all states and for the typical ones.

use std::borrow::Cow;
use std::cell::OnceCell;

use layerscope_compute::cpu::Isa;

use super::neighbours::Neighbours;
use crate::kernels::square_norms;
use crate::sketch::HashSample;

/// The kept states in hash order, and which of them are typical.
pub(super) struct KeptSample<'a> {
    all: &'a HashSample<'a>,
    typical: OnceCell<HashSample<'a>>,
    threshold: f64,
    states: Cow<'a, [f32]>,
    typical_rows: Vec<u32>,
    neighbours: OnceCell<Neighbours>,
}

impl<'a> KeptSample<'a> {
    /// States whose norm exceeds the threshold are massive.
    pub fn new(sample: &'a HashSample<'a>, threshold: f64) -> KeptSample<'a> {
        let states = sample.states();
        let rows: Vec<u32> = (0..sample.len() as u32).collect();
        let mut squares = vec![0.0; rows.len()];
        square_norms(Isa::detect(), &states, sample.dim().max(1), &rows, &mut squares);
        let typical_rows = rows.into_iter().filter(|row| squares[*row as usize].sqrt() <= threshold).collect();
        KeptSample { all: sample, typical: OnceCell::new(), threshold, states, typical_rows, neighbours: OnceCell::new() }
    }

    /// The sample, or what it holds of typical states.
    pub fn sample(&self, typical: bool) -> &HashSample<'a> {
        if typical { self.typical.get_or_init(|| self.all.up_to_norm(self.threshold)) } else { self.all }
    }

    /// All kept states in hash order, row by row.
    pub fn states(&self) -> &[f32] {
        &self.states
    }

    /// Number of components.
    pub fn dim(&self) -> usize {
        self.all.dim()
    }

    /// Rows of all states, or of the typical ones.
    pub fn rows(&self, typical: bool) -> Cow<'_, [u32]> {
        if typical { Cow::Borrowed(&self.typical_rows) } else { Cow::Owned((0..self.all.len() as u32).collect()) }
    }

    /// The nearest others of every state: typical ones are rarely near massive ones, so what is found for all serves both.
    pub fn neighbours(&self, k: usize, threads: usize) -> &Neighbours {
        self.neighbours.get_or_init(|| Neighbours::new(&self.states, self.dim(), k, threads))
    }
}
