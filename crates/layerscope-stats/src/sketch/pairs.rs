//! The states of one point and the same states at the next.

use std::borrow::Cow;

use super::space::PointRows;
use super::{CentredRows, CrossScatter, Mergeable, Preparation, Scatter, Sketch, SketchShape, Tensors, nested};
use crate::error::Result;
use crate::rows::BatchRows;

/// Products of x, a state at the point before, and y, the same one here: of those that are typical at both points and, apart from them, of
/// those that are massive at either.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    typical: CrossScatter,
    /// Only where there are massive states.
    massive: Option<CrossScatter>,
    /// x of the states that are massive here alone: typical at the point before, and yet not among the typical pairs.
    before_alone: Option<Scatter>,
    /// y of the states that were massive at the point before alone.
    here_alone: Option<Scatter>,
    /// Whether massive states are kept apart; an older program put them among the typical ones.
    is_apart: bool,
}

impl Pairs {
    /// Of states with `this` components at the point before and `next` here.
    pub fn new(this: usize, next: usize) -> Pairs {
        Pairs { typical: CrossScatter::new(this, next), massive: None, before_alone: None, here_alone: None, is_apart: true }
    }

    /// Number of states.
    pub fn n(&self) -> u64 {
        self.typical.n() + self.massive.as_ref().map_or(0, CrossScatter::n)
    }

    /// All states.
    pub fn all(&self) -> Result<Cow<'_, CrossScatter>> {
        let Some(massive) = &self.massive else { return Ok(Cow::Borrowed(&self.typical)) };
        let mut all = self.typical.clone();
        all.merge(massive)?;
        Ok(Cow::Owned(all))
    }

    /// Those that are typical at both points; None where they are not known apart.
    pub fn typical(&self) -> Option<&CrossScatter> {
        self.is_apart.then_some(&self.typical)
    }

    /// Whether some states are massive at one of the points.
    pub fn has_massive(&self) -> bool {
        self.massive.is_some()
    }

    /// The typical states of the point before that are among the typical pairs.
    pub fn typical_before<'a>(&self, typical: &'a Scatter) -> Cow<'a, Scatter> {
        paired(typical, self.before_alone.as_ref())
    }

    /// The typical states of this point that are among the typical pairs.
    pub fn typical_here<'a>(&self, typical: &'a Scatter) -> Cow<'a, Scatter> {
        paired(typical, self.here_alone.as_ref())
    }

    fn absorb(&mut self, typical: &CrossScatter, apart: [Option<&Scatter>; 2], massive: Option<&CrossScatter>) -> Result<()> {
        self.typical.merge(typical)?;
        merge_into(&mut self.massive, massive)?;
        let [before, here] = apart;
        merge_into(&mut self.before_alone, before)?;
        merge_into(&mut self.here_alone, here)
    }
}

fn paired<'a>(typical: &'a Scatter, alone: Option<&Scatter>) -> Cow<'a, Scatter> {
    alone.map_or(Cow::Borrowed(typical), |alone| Cow::Owned(typical.without(alone)))
}

/// Merges what is there only where it is needed.
fn merge_into<S: Mergeable + Clone>(ours: &mut Option<S>, theirs: Option<&S>) -> Result<()> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => ours.merge(theirs),
        (ours @ None, Some(theirs)) => {
            *ours = Some(theirs.clone());
            Ok(())
        }
        (_, None) => Ok(()),
    }
}

/// What a batch contributes to [`Pairs`]. Reuses its memory.
#[derive(Clone, Debug, Default)]
pub struct BatchPairs {
    typical: CrossScatter,
    massive: CrossScatter,
    before_alone: Scatter,
    here_alone: Scatter,
    rows: [CentredRows; 2],
    /// Whether the previous point had the same rows.
    is_paired: bool,
}

impl BatchPairs {
    fn fill(&mut self, batch: &BatchRows, before: &PointRows, here: &PointRows) -> Result<()> {
        let isa = batch.isa();
        self.massive.clear();
        self.before_alone.clear();
        self.here_alone.clear();
        if before.massive.is_empty() && here.massive.is_empty() {
            return self.typical.fill(isa, &before.rows, &here.rows);
        }
        let (was, is) =
            (|place: &u32| before.massive.binary_search(place).is_ok(), |place: &u32| here.massive.binary_search(place).is_ok());
        let all = 0..before.rows.n() as u32;
        let (massive, typical): (Vec<u32>, Vec<u32>) = all.partition(|place| was(place) || is(place));
        let [left, right] = &mut self.rows;
        let mut fill = |products: &mut CrossScatter, places: &[u32]| {
            left.fill_some(&before.rows, places);
            right.fill_some(&here.rows, places);
            products.fill(isa, left, right)
        };
        fill(&mut self.typical, &typical)?;
        fill(&mut self.massive, &massive)?;
        for (scatter, rows, apart) in [
            (&mut self.before_alone, &before.rows, here.massive.iter().copied().filter(|place| !was(place)).collect::<Vec<u32>>()),
            (&mut self.here_alone, &here.rows, before.massive.iter().copied().filter(|place| !is(place)).collect()),
        ] {
            if !apart.is_empty() {
                left.fill_some(rows, &apart);
                scatter.fill(isa, left);
            }
        }
        Ok(())
    }
}

impl Sketch for Pairs {
    type Prepared = BatchPairs;

    /// None at the first point: it has no previous one.
    fn empty(shape: &SketchShape) -> Option<Pairs> {
        shape.previous.map(|previous| Pairs::new(previous, shape.dim))
    }

    fn emptied(&self) -> Pairs {
        let (this, next) = self.typical.dims();
        Pairs::new(this, next)
    }

    fn prepare(prepared: &mut BatchPairs, batch: &mut Preparation<'_>) -> Result<()> {
        let rows = batch.batch;
        // Asked for even where there is no previous point: the next one needs them.
        let (here, before) = batch.centred();
        prepared.is_paired = before.is_some();
        before.map_or(Ok(()), |before| prepared.fill(rows, before, here))
    }

    fn update(&mut self, prepared: &BatchPairs, _: &BatchRows<'_>) -> Result<()> {
        if !prepared.is_paired {
            return Ok(());
        }
        let some = |scatter| Some(scatter).filter(|scatter: &&Scatter| scatter.n() > 0);
        let apart = [some(&prepared.before_alone), some(&prepared.here_alone)];
        self.absorb(&prepared.typical, apart, Some(&prepared.massive).filter(|massive| massive.n() > 0))
    }

    /// Twice that where there are massive states.
    fn bytes(shape: &SketchShape) -> usize {
        shape.previous.map_or(0, |previous| CrossScatter::bytes(previous, shape.dim))
    }

    fn prepared_bytes(rows: usize, dim: usize) -> usize {
        CrossScatter::bytes(dim, dim) + CentredRows::bytes(rows, dim)
    }
}

impl Mergeable for Pairs {
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.is_apart &= other.is_apart;
        self.absorb(&other.typical, [other.before_alone.as_ref(), other.here_alone.as_ref()], other.massive.as_ref())
    }

    fn encode(&self) -> Tensors<'_> {
        let mut tensors = self.typical.encode();
        tensors.put_u64("apart", &[1], vec![u64::from(self.is_apart)]);
        if let Some(massive) = &self.massive {
            tensors.nest("massive", massive.encode());
        }
        for (name, alone) in [("before_alone", &self.before_alone), ("here_alone", &self.here_alone)] {
            if let Some(alone) = alone {
                tensors.nest(name, alone.encode());
            }
        }
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let is_apart = tensors.has("apart") && tensors.take_u64("apart", &[1])?[0] == 1;
        let massive = if tensors.has_nested("massive") { Some(nested("massive", tensors)?) } else { None };
        let mut alone = |name: &str| if tensors.has_nested(name) { nested(name, tensors).map(Some) } else { Ok(None) };
        let (before_alone, here_alone) = (alone("before_alone")?, alone("here_alone")?);
        Ok(Pairs { typical: CrossScatter::decode(tensors)?, massive, before_alone, here_alone, is_apart })
    }
}
