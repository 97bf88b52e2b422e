//! Rows of the table of measures.

use super::MEASURES;
use super::evaluation::{Evaluation, MomentInputs};
use super::family::Family;
use super::layer_rows::Rows;
use super::seconds::Seconds;
use crate::error::Result;
use crate::sketch::{SketchKind, SketchSet};

/// One measure: how it is computed, and what `layerscope measures` prints of it.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its name in the tables.
    pub name: &'static str,
    /// Its family.
    pub family: Family,
    /// What it is, in one line.
    pub formula: &'static str,
    /// Who defined it.
    pub source: &'static str,
    /// What it is computed from.
    pub needs: &'static [SketchKind],
    /// Names of its variants beside the plain value.
    pub variants: &'static [&'static str],
    /// What `n` counts.
    pub counts: &'static str,
    /// What computes it.
    pub compute: &'static Computation,
}

impl Measure {
    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Measure> {
        MEASURES.iter().find(|measure| measure.name == name)
    }

    /// What it is computed from, in words. Unit vectors are not listed: they are a part of the moments.
    pub fn needs_in_words(&self) -> String {
        let listed = self.needs.iter().filter(|kind| **kind != SketchKind::Units);
        listed.map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
    }
}

/// The sketches that the measures of these families need beside the moments of groups and corpus.
pub fn needs(families: &[Family]) -> SketchSet {
    let wanted = MEASURES.iter().filter(|measure| families.contains(&measure.family)).flat_map(|measure| measure.needs);
    wanted.filter(|kind| kind.is_optional()).fold(SketchSet::default(), |set, kind| set.with(*kind))
}

/// What computes the rows of one or more measures, selection by selection.
#[derive(Debug)]
pub struct Computation(Function);

#[derive(Debug)]
enum Function {
    Moments(fn(&MomentInputs<'_>, &mut Rows)),
    Sketches(fn(&Evaluation<'_>, &mut Rows) -> Result<()>),
}

impl Computation {
    /// From the moments of a selection: comes with every run.
    pub(super) const fn of_moments(compute: fn(&MomentInputs<'_>, &mut Rows)) -> Computation {
        Computation(Function::Moments(compute))
    }

    /// From sketches beside the moments: comes if its family is wanted.
    pub(super) const fn of_sketches(compute: fn(&Evaluation<'_>, &mut Rows) -> Result<()>) -> Computation {
        Computation(Function::Sketches(compute))
    }

    /// Whether moments alone suffice: such values come with every run.
    pub fn is_of_moments(&self) -> bool {
        matches!(self.0, Function::Moments(_))
    }

    /// Those of the wanted families, each once, in the order in which [`MEASURES`] first names them.
    fn all(wanted: impl Fn(Family) -> bool) -> Vec<(Family, &'static Computation)> {
        let mut found: Vec<(Family, &'static Computation)> = Vec::new();
        for measure in MEASURES.iter().filter(|measure| wanted(measure.family)) {
            // Several measures may share one: it is known by its address.
            if !found.iter().any(|(_, known)| std::ptr::eq(*known, measure.compute)) {
                found.push((measure.family, measure.compute));
            }
        }
        found
    }

    /// Computes everything that comes from the moments of one selection.
    pub(super) fn run_moments(inputs: &MomentInputs<'_>, rows: &mut Rows, seconds: &mut Seconds) {
        for (family, computation) in Computation::all(|_| true) {
            if let Function::Moments(compute) = computation.0 {
                seconds.spend(family, || compute(inputs, rows));
            }
        }
    }

    /// Computes everything that comes from the other sketches over one selection.
    pub(super) fn run_sketches(evaluation: &Evaluation<'_>, rows: &mut Rows, seconds: &mut Seconds) -> Result<()> {
        for (family, computation) in Computation::all(|family| evaluation.settings.wants(family)) {
            if let Function::Sketches(compute) = computation.0 {
                seconds.spend(family, || compute(evaluation, rows))?;
            }
        }
        Ok(())
    }
}
