//! Rows of the tidy table of layers.

use super::selection::Selection;

/// One value of the layers' table.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerRow {
    /// Over which states.
    pub selection: Selection,
    /// Its measure, a name of [`MEASURES`](super::MEASURES).
    pub measure: &'static str,
    /// Which variant, where a measure has several.
    pub variant: Option<String>,
    /// The value; None where it is undefined.
    pub value: Option<f64>,
    /// Its standard error, where one is known.
    pub se: Option<f64>,
    /// What it is computed over, counted.
    pub n: u64,
}

/// A value, its standard error where one is known, and what it is computed over, counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value; None where it is undefined.
    pub value: Option<f64>,
    /// Its standard error.
    pub se: Option<f64>,
    /// The count.
    pub n: u64,
}

impl Estimate {
    /// Without a standard error.
    pub fn new(value: Option<f64>, n: u64) -> Estimate {
        Estimate { value, se: None, n }
    }
}

/// The rows of one selection as they are computed.
pub(super) struct Rows {
    pub selection: Selection,
    pub rows: Vec<LayerRow>,
    /// Why values are missing, and what was left out.
    pub notes: Vec<String>,
}

impl Rows {
    pub fn new(selection: Selection) -> Rows {
        Rows { selection, rows: Vec::new(), notes: Vec::new() }
    }

    /// The same values under the name of another selection that has the same states.
    pub fn renamed(&self, selection: Selection) -> Vec<LayerRow> {
        self.rows.iter().map(|row| LayerRow { selection, ..row.clone() }).collect()
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub fn push(&mut self, measure: &'static str, value: Option<f64>, n: u64) {
        self.push_estimate(measure, Estimate::new(value, n));
    }

    pub fn push_estimate(&mut self, measure: &'static str, estimate: Estimate) {
        self.add(measure, None, estimate);
    }

    pub fn push_variant(&mut self, measure: &'static str, variant: &str, estimate: Estimate) {
        self.add(measure, Some(variant.to_owned()), estimate);
    }

    fn add(&mut self, measure: &'static str, variant: Option<String>, estimate: Estimate) {
        let finite = |number: Option<f64>| number.filter(|number| number.is_finite());
        let (value, se) = (finite(estimate.value), finite(estimate.se));
        self.rows.push(LayerRow { selection: self.selection, measure, variant, value, se: value.and(se), n: estimate.n });
    }
}
