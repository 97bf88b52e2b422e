//! The table of layers, asked by name: values with their standard errors.

use layerscope_report::{Cell, Run};

/// A value with its standard error, 0 where none is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) error: f64,
}

impl Estimate {
    /// How far this is above another one.
    pub(super) fn above(self, other: Estimate) -> Estimate {
        Estimate { value: self.value - other.value, error: self.error.hypot(other.error) }
    }

    /// How far this is above a number.
    pub(super) fn above_number(self, number: f64) -> Estimate {
        Estimate { value: self.value - number, ..self }
    }

    /// How far this is inside of a distance from a number.
    pub(super) fn near(self, number: f64, distance: f64) -> Estimate {
        Estimate { value: distance - (self.value - number).abs(), ..self }
    }
}

/// The table of layers of one run, asked by name.
pub(super) struct Asked<'a>(pub(super) &'a Run);

impl Asked<'_> {
    /// A measure at the embedding and after every block, in order.
    pub(super) fn profile(&self, selection: &str, measure: &str, variant: Option<&str>) -> Option<Vec<Estimate>> {
        self.values(selection, measure, variant, &["embedding", "block"]).filter(|values| values.len() >= 3)
    }

    /// A measure after the final norm.
    pub(super) fn final_norm(&self, selection: &str, measure: &str) -> Option<Estimate> {
        self.values(selection, measure, None, &["final_norm"])?.first().copied()
    }

    fn values(&self, selection: &str, measure: &str, variant: Option<&str>, points: &[&str]) -> Option<Vec<Estimate>> {
        let table = &self.0.layers;
        let text = |name: &str, row: usize| match table.column(name)?.cell(row) {
            Cell::Text(text) => Some(text),
            _ => None,
        };
        let wanted = |row: &usize| {
            text("selection", *row) == Some(selection)
                && text("measure", *row) == Some(measure)
                && text("variant", *row) == variant
                && text("point", *row).is_some_and(|point| points.contains(&point))
        };
        let real = |name: &str, row: usize| match table.column(name)?.cell(row) {
            Cell::Real(value) => Some(value),
            _ => None,
        };
        let estimate = |row: usize| Some(Estimate { value: real("value", row)?, error: real("se", row).unwrap_or(0.0) });
        (0..table.rows()).filter(wanted).map(estimate).collect()
    }
}
