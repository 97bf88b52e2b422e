//! What measures are computed from, and what several of them share.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::RangeInclusive;

use super::batch_spectra::{BatchSpectra, Batches};
use super::dimension::NEIGHBOURS;
use super::family::Family;
use super::kept_sample::KeptSample;
use super::layers::PairInputs;
use super::selection::Summary;
use super::spectrum::{Spectra, Spectrum};
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
    pub sample: Option<&'a HashSample<'a>>,
    /// The kept states of chosen tokens, if there are any.
    pub tokens: Option<&'a TokenSamples<'a>>,
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

/// What all states and the typical ones of a point share.
pub(super) struct PointShared<'a> {
    all: Option<Cow<'a, Scatter>>,
    typical: Option<&'a Scatter>,
    kept: Option<KeptSample<'a>>,
    batches: OnceCell<BatchSpectra>,
}

impl<'a> PointShared<'a> {
    pub fn new(inputs: &PointInputs<'a>) -> Result<PointShared<'a>> {
        let covariance = inputs.sketches.get::<Covariance>();
        let threshold = inputs.moments.massive_threshold().unwrap_or(f64::INFINITY);
        Ok(PointShared {
            all: covariance.map(Covariance::all).transpose()?,
            typical: covariance.map(Covariance::typical),
            kept: inputs.sample.map(|sample| KeptSample::new(sample, threshold)),
            batches: OnceCell::new(),
        })
    }

    fn scatter(&self, typical: bool) -> Option<&Scatter> {
        if typical { self.typical } else { self.all.as_deref() }
    }
}

/// The sketches of a point as all states or the typical ones make them, with what several measures share computed once.
pub(super) struct Evaluation<'a> {
    pub inputs: PointInputs<'a>,
    pub settings: &'a Settings,
    shared: &'a PointShared<'a>,
    is_typical: bool,
    pairs: Option<PairInputs<'a>>,
    spectra: OnceCell<Spectra>,
    /// The table of tokens.
    pub tokens: Vec<TokenRow>,
}

impl<'a> Evaluation<'a> {
    /// Of all states.
    pub fn of_all(inputs: PointInputs<'a>, settings: &'a Settings, shared: &'a PointShared<'a>) -> Result<Evaluation<'a>> {
        let tokens = inputs.tokens.filter(|_| settings.wants(Family::Cosine)).map(|tokens| token_rows(&inputs.moments.all()?, tokens, &[]));
        Evaluation::new(inputs, settings, shared, tokens.transpose()?, false)
    }

    /// Of the typical ones, with what is known of all.
    pub fn of_typical(
        inputs: PointInputs<'a>,
        settings: &'a Settings,
        shared: &'a PointShared<'a>,
        all: &Evaluation<'_>,
    ) -> Result<Evaluation<'a>> {
        let threshold = inputs.moments.massive_threshold().unwrap_or(f64::INFINITY);
        let tokens = inputs.tokens.filter(|_| settings.wants(Family::Cosine)).map(|tokens| tokens.up_to_norm(threshold));
        let tokens = tokens.map(|tokens| token_rows(&inputs.moments.typical(), &tokens, &all.tokens)).transpose()?;
        Evaluation::new(inputs, settings, shared, tokens, true)
    }

    fn new(
        inputs: PointInputs<'a>,
        settings: &'a Settings,
        shared: &'a PointShared<'a>,
        tokens: Option<Vec<TokenRow>>,
        is_typical: bool,
    ) -> Result<Evaluation<'a>> {
        let covariance = inputs.sketches.get::<Covariance>().filter(|_| settings.wants(Family::Layers));
        let pairs = covariance.zip(inputs.next).map(|(this, next)| PairInputs::new(this, next, is_typical)).transpose()?.flatten();
        Ok(Evaluation { inputs, settings, shared, is_typical, pairs, spectra: OnceCell::new(), tokens: tokens.unwrap_or_default() })
    }

    /// Their scatter, if a covariance is kept.
    pub fn scatter(&self) -> Option<&Scatter> {
        self.shared.scatter(self.is_typical)
    }

    /// The kept sample of all states, if there is one.
    pub fn kept(&self) -> Option<&KeptSample<'a>> {
        self.shared.kept.as_ref()
    }

    /// Those in the kept sample, if there is one.
    pub fn sample(&self) -> Option<&HashSample<'a>> {
        self.kept().map(|kept| kept.sample(self.is_typical))
    }

    /// What batches of the kept sample say of their spectra, if there are both a sample and a covariance.
    pub fn batches(&self) -> Option<&Batches> {
        let (all, kept) = self.shared.scatter(false).zip(self.kept())?;
        let typical = self.shared.scatter(true).filter(|_| self.inputs.has_massive());
        let found = self.shared.batches.get_or_init(|| BatchSpectra::new(kept, all, typical));
        Some(if self.is_typical { &found.typical } else { &found.all })
    }

    /// Together with the next point, if their products are kept.
    pub fn pairs(&self) -> Option<&PairInputs<'a>> {
        self.pairs.as_ref()
    }

    /// The spectrum of their covariance.
    pub fn spectrum(&self) -> Option<&Spectrum> {
        self.spectra().covariance.as_ref()
    }

    /// The spectrum of their uncentred second moment.
    pub fn second_moment(&self) -> Option<&Spectrum> {
        self.spectra().second_moment.as_ref()
    }

    fn spectra(&self) -> &Spectra {
        self.spectra.get_or_init(|| self.scatter().map(Spectra::new).unwrap_or_default())
    }
}

impl PointInputs<'_> {
    /// Whether some states are massive, here or among the pairs with the next point.
    pub(super) fn has_massive(&self) -> bool {
        let pairs = self.next.and_then(|next| next.get::<Pairs>());
        self.moments.massive_states() > 0 || pairs.is_some_and(Pairs::has_massive)
    }
}
