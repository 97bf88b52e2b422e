//! What measures are computed from, and what several of them share.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::RangeInclusive;

use super::dimension::NEIGHBOURS;
use super::family::Family;
use super::layers::PairInputs;
use super::selection::Summary;
use super::spectrum::Spectrum;
use super::tokens::{TokenRow, token_rows};
use crate::error::Result;
use crate::sketch::{Covariance, HashSample, Pairs, PointMoments, Scatter, Sketches, TokenSamples};

/// What was accumulated at a point.
#[derive(Clone, Copy)]
pub struct PointInputs<'a> {
    /// Moments of groups and corpus.
    pub moments: &'a PointMoments,
    /// The other sketches.
    pub sketches: &'a Sketches,
    /// The other sketches of the next measured point, if there is one.
    pub next: Option<&'a Sketches>,
    /// The kept sample of states, if one is kept.
    pub sample: Option<&'a HashSample>,
    /// The kept states of chosen tokens, if there are any.
    pub tokens: Option<&'a TokenSamples>,
}

/// What the tables of a point depend on beside what was accumulated there.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// MIN..=MAX of n_t for the selection `selected`; None for groupings that have no frequencies.
    pub frequency: Option<RangeInclusive<u64>>,
    /// Groups that are never selected, whatever their frequency (special tokens), ascending.
    pub unselectable: Vec<u32>,
    /// [`predicted_q`](super::predicted_q) where the point is the direct output of a norm.
    pub predicted_q: Option<f64>,
    /// The families of measures; what moments alone can tell comes with every run.
    pub families: Vec<Family>,
    /// Numbers of clusters.
    pub clusters: Vec<usize>,
    /// Neighbours of the dimension's variant `mle`.
    pub neighbours: usize,
    /// Threads for the search of neighbours and for silhouettes; results do not depend on it.
    pub threads: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        let families = Family::DEFAULT.to_vec();
        let (unselectable, clusters) = Default::default();
        Settings { frequency: None, unselectable, predicted_q: None, families, clusters, neighbours: NEIGHBOURS, threads: 1 }
    }
}

impl Settings {
    /// Whether a group of so many states is selected; none is without a frequency range.
    pub(super) fn selects(&self, group: u32, n: u64) -> bool {
        self.frequency.as_ref().is_some_and(|range| range.contains(&n)) && self.unselectable.binary_search(&group).is_err()
    }

    /// Whether measures of a family are wanted; those of clusters are chosen by their numbers.
    pub(super) fn wants(&self, family: Family) -> bool {
        family == Family::Cluster || self.families.contains(&family)
    }
}

/// The moments of one selection.
pub(super) struct MomentInputs<'a> {
    pub summary: &'a Summary,
    pub moments: &'a PointMoments,
    pub settings: &'a Settings,
}

/// The sketches of a point as all states or the typical ones make them, with what several measures share computed once.
pub(super) struct Evaluation<'a> {
    pub inputs: PointInputs<'a>,
    pub settings: &'a Settings,
    scatter: Option<Cow<'a, Scatter>>,
    sample: Option<Cow<'a, HashSample>>,
    pairs: Option<PairInputs<'a>>,
    spectrum: OnceCell<Option<Spectrum>>,
    second_moment: OnceCell<Option<Spectrum>>,
    /// The table of tokens.
    pub tokens: Vec<TokenRow>,
}

impl<'a> Evaluation<'a> {
    /// Of all states.
    pub fn of_all(inputs: PointInputs<'a>, settings: &'a Settings) -> Result<Evaluation<'a>> {
        let scatter = inputs.sketches.get::<Covariance>().map(Covariance::all).transpose()?;
        let tokens = inputs.tokens.filter(|_| settings.wants(Family::Cosine)).map(|tokens| token_rows(&inputs.moments.all()?, tokens));
        Evaluation::new(inputs, settings, scatter, inputs.sample.map(Cow::Borrowed), tokens.transpose()?, false)
    }

    /// Of the typical ones.
    pub fn of_typical(inputs: PointInputs<'a>, settings: &'a Settings) -> Result<Evaluation<'a>> {
        let threshold = inputs.moments.massive_threshold().unwrap_or(f64::INFINITY);
        let scatter = inputs.sketches.get::<Covariance>().map(|covariance| Cow::Borrowed(covariance.typical()));
        let sample = inputs.sample.map(|sample| Cow::Owned(sample.up_to_norm(threshold)));
        let tokens = inputs.tokens.filter(|_| settings.wants(Family::Cosine)).map(|tokens| tokens.up_to_norm(threshold));
        let tokens = tokens.map(|tokens| token_rows(&inputs.moments.typical(), &tokens)).transpose()?;
        Evaluation::new(inputs, settings, scatter, sample, tokens, true)
    }

    fn new(
        inputs: PointInputs<'a>,
        settings: &'a Settings,
        scatter: Option<Cow<'a, Scatter>>,
        sample: Option<Cow<'a, HashSample>>,
        tokens: Option<Vec<TokenRow>>,
        typical: bool,
    ) -> Result<Evaluation<'a>> {
        let covariance = inputs.sketches.get::<Covariance>().filter(|_| settings.wants(Family::Layers));
        let pairs = covariance.zip(inputs.next).map(|(this, next)| PairInputs::new(this, next, typical)).transpose()?.flatten();
        let (spectrum, second_moment) = (OnceCell::new(), OnceCell::new());
        Ok(Evaluation { inputs, settings, scatter, sample, pairs, spectrum, second_moment, tokens: tokens.unwrap_or_default() })
    }

    /// Their scatter, if a covariance is kept.
    pub fn scatter(&self) -> Option<&Scatter> {
        self.scatter.as_deref()
    }

    /// Those in the kept sample, if there is one.
    pub fn sample(&self) -> Option<&HashSample> {
        self.sample.as_deref()
    }

    /// Together with the next point, if their products are kept.
    pub fn pairs(&self) -> Option<&PairInputs<'a>> {
        self.pairs.as_ref()
    }

    /// The spectrum of their covariance.
    pub fn spectrum(&self) -> Option<&Spectrum> {
        self.spectrum.get_or_init(|| self.scatter().and_then(Spectrum::of_covariance)).as_ref()
    }

    /// The spectrum of their uncentred second moment.
    pub fn second_moment(&self) -> Option<&Spectrum> {
        self.second_moment.get_or_init(|| self.scatter().and_then(Spectrum::of_second_moment)).as_ref()
    }
}

impl PointInputs<'_> {
    /// Whether some states are massive, here or among the pairs with the next point.
    pub(super) fn has_massive(&self) -> bool {
        let pairs = self.next.and_then(|next| next.get::<Pairs>());
        self.moments.massive_states() > 0 || pairs.is_some_and(Pairs::has_massive)
    }
}
