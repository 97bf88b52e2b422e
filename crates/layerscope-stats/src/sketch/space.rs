//! A worker's memory for what a batch contributes.

use super::erased::AnyPrepared;
use super::sketches::COUNT;
use super::{CentredRows, SKETCHES, SketchSet};
use crate::error::Result;
use crate::rows::BatchRows;

/// What a batch contributes to the sketches of one point after another. Nearly all work happens here, before the turn.
#[derive(Default)]
pub struct BatchSpace {
    centred: CentredPoints,
    contribution: Contribution,
}

/// What a batch contributes to the sketches of one point.
#[derive(Default)]
pub struct Contribution {
    /// In the order of [`SKETCHES`]; made when it is first wanted.
    prepared: [Option<Box<dyn AnyPrepared>>; COUNT],
    /// What the last batch was prepared for.
    ready: SketchSet,
}

impl Contribution {
    /// What was prepared last, in the order of [`SKETCHES`].
    pub(super) fn prepared(&self) -> impl Iterator<Item = Option<&dyn AnyPrepared>> {
        let ready = |(row, prepared)| -> Option<&dyn AnyPrepared> { Option::as_deref(prepared).filter(|_| self.ready.contains(row)) };
        SKETCHES.iter().map(|row| row.kind).zip(&self.prepared).map(ready)
    }
}

impl BatchSpace {
    /// Empty.
    pub fn new() -> BatchSpace {
        BatchSpace::default()
    }

    /// Memory for batches of `rows` rows.
    pub fn bytes(set: SketchSet, rows: usize, dim: usize) -> usize {
        SKETCHES.iter().filter(|row| set.contains(row.kind)).map(|row| (row.prepared_bytes)(rows, dim)).sum()
    }

    /// Forgets the previous point: to be called before the first point of every batch.
    pub fn start_batch(&mut self) {
        self.centred.has_this = false;
    }

    /// Computes what a batch contributes at its next measured point, where states whose norm exceeds `massive` are massive.
    ///
    /// A batch that lacks rows at one point is paired neither with the point before nor with the next: those have other rows.
    pub fn prepare(&mut self, set: SketchSet, massive: Option<f64>, batch: &BatchRows<'_>) -> Result<()> {
        if batch.excluded() > 0 {
            self.start_batch();
        }
        let Contribution { prepared, ready } = &mut self.contribution;
        *ready = SketchSet::default();
        self.centred.move_on();
        for (row, prepared) in SKETCHES.iter().zip(prepared).filter(|(row, _)| set.contains(row.kind)) {
            prepared.get_or_insert_with(row.prepared).prepare(&mut Preparation::new(batch, massive, &mut self.centred))?;
        }
        *ready = set;
        if batch.excluded() > 0 {
            self.start_batch();
        }
        Ok(())
    }

    /// What was prepared last.
    pub fn contribution(&self) -> &Contribution {
        &self.contribution
    }

    /// The same, taken away; the next batch gets memory of its own.
    pub fn take_contribution(&mut self) -> Contribution {
        std::mem::take(&mut self.contribution)
    }
}

/// What a sketch may ask for while it prepares a batch.
pub struct Preparation<'a> {
    /// The batch.
    pub batch: &'a BatchRows<'a>,
    /// The norm beyond which a state is massive, if there is one.
    pub massive: Option<f64>,
    centred: &'a mut CentredPoints,
}

impl<'a> Preparation<'a> {
    pub(super) fn new(batch: &'a BatchRows<'a>, massive: Option<f64>, centred: &'a mut CentredPoints) -> Preparation<'a> {
        Preparation { batch, massive, centred }
    }

    /// The norm that no typical state exceeds.
    pub fn threshold(&self) -> f64 {
        self.massive.unwrap_or(f64::INFINITY)
    }

    /// The counted rows, centred and packed, at this point and at the previous one, if they are the same rows.
    ///
    /// They are computed for the first who asks. Those of the previous point are there only if somebody asked then.
    pub fn centred(&mut self) -> (&PointRows, Option<&PointRows>) {
        let threshold = self.threshold();
        let CentredPoints { this, previous, has_this, has_previous } = &mut *self.centred;
        if !*has_this {
            this.rows.fill(self.batch);
            let counted = self.batch.segments().counted();
            this.massive.clear();
            this.massive.extend(counted.iter().zip(0..).filter(|(row, _)| self.batch.exceeds(**row, threshold)).map(|(_, place)| place));
            *has_this = true;
        }
        (this, has_previous.then_some(previous))
    }
}

/// The counted rows of a batch at one point.
#[derive(Default)]
pub struct PointRows {
    /// Centred and packed.
    pub rows: CentredRows,
    /// The places of massive ones among the counted rows, ascending.
    pub massive: Vec<u32>,
}

/// Centred rows of a batch at this point and at the previous one.
#[derive(Default)]
pub(super) struct CentredPoints {
    this: PointRows,
    previous: PointRows,
    has_this: bool,
    has_previous: bool,
}

impl CentredPoints {
    /// This point becomes the previous one.
    fn move_on(&mut self) {
        std::mem::swap(&mut self.this, &mut self.previous);
        self.has_previous = std::mem::take(&mut self.has_this);
    }
}
