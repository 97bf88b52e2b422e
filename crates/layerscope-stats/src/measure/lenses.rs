//! The tables of a point beside [`PointTables`](super::PointTables): everything beyond norms and cosines.

use std::borrow::Cow;

use super::confidence::BlockErrors;
use super::measures::{Family, Measure};
use super::selection::Selection;
use super::spectrum::Spectrum;
use super::table::{LayerRow, Rows};
use super::tokens::{TokenRow, token_rows};
use super::{batches, cluster, dimension, layers, partition, spectrum};
use crate::error::Result;
use crate::sketch::{HashSample, Lenses, PointSketch, Scatter, TokenSamples};

/// What was accumulated at a point.
#[derive(Clone, Copy)]
pub struct LensInputs<'a> {
    /// Moments of groups and corpus.
    pub point: &'a PointSketch,
    /// The other sketches.
    pub lenses: &'a Lenses,
    /// The other sketches of the next measured point, if there is one.
    pub next: Option<&'a Lenses>,
    /// The kept sample of states, if one is kept.
    pub sample: Option<&'a HashSample>,
    /// The kept states of chosen tokens, if there are any.
    pub tokens: Option<&'a TokenSamples>,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct LensSettings {
    /// The families of measures.
    pub families: Vec<Family>,
    /// Numbers of clusters.
    pub clusters: Vec<usize>,
    /// Neighbours of the dimension's variant `mle`.
    pub neighbours: usize,
    /// Threads for the search of neighbours and for silhouettes; results do not depend on it.
    pub threads: usize,
}

impl Default for LensSettings {
    fn default() -> LensSettings {
        LensSettings { families: Family::DEFAULT.to_vec(), clusters: Vec::new(), neighbours: dimension::NEIGHBOURS, threads: 1 }
    }
}

/// What they say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LensTables {
    /// Values of the layer: selections `all`, `typical`, `sample`.
    pub layers: Vec<LayerRow>,
    /// Eigenvalues of the covariance of all states, descending: rank 1 is the first.
    pub spectrum: Vec<f64>,
    /// The chosen tokens in a plane.
    pub tokens: Vec<TokenRow>,
    /// Standard errors for rows of [`PointTables`](super::PointTables), to be [applied](BlockErrors::apply) to them.
    pub errors: Option<BlockErrors>,
    /// Why values are missing, and what was left out, a line each.
    pub notes: Vec<String>,
}

impl LensTables {
    /// Computes all that is wanted and can be.
    pub fn new(inputs: LensInputs, settings: &LensSettings) -> Result<LensTables> {
        let wanted = |family| settings.families.contains(&family);
        let mut tables = LensTables { errors: inputs.lenses.blocks.as_ref().map(BlockErrors::new).transpose()?, ..LensTables::default() };
        let all = inputs.lenses.covariance.as_ref().map(|covariance| covariance.all()).transpose()?;
        let mut rows = Rows::new(Selection::All);
        if let Some(scatter) = all.as_deref().filter(|_| wanted(Family::Spectrum)) {
            tables.add_spectrum(scatter, &mut rows);
        }
        if let Some(shape) = inputs.lenses.sequences.as_ref().filter(|_| wanted(Family::Sequence)) {
            let ((entropy, entropies), (curvature, curvatures)) = (shape.matrix_entropy(), shape.curvature());
            rows.push("matrix_entropy", entropy, entropies);
            rows.push("curvature", curvature, curvatures);
        }
        if let Some(this) = all.as_deref().filter(|_| wanted(Family::Layers)) {
            add_layers(this, inputs.next, &mut rows)?;
        }
        tables.layers.extend(rows.rows);
        if wanted(Family::Spectrum) {
            tables.add_typical(&inputs);
        }
        let mut rows = Rows::new(Selection::Sample);
        if let Some(tokens) = inputs.tokens.filter(|_| wanted(Family::Cosine)) {
            tables.tokens = token_rows(inputs.point, tokens)?;
            let values: Vec<f64> = tables.tokens.iter().filter_map(|row| row.explainable_variance).collect();
            let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
            let overall = all.as_deref().and_then(Spectrum::of_second_moment).and_then(|spectrum| spectrum.anisotropy());
            rows.push("max_explainable_variance", mean, values.len() as u64);
            rows.push("max_explainable_variance_adjusted", mean.zip(overall).map(|(mean, overall)| mean - overall), values.len() as u64);
        }
        if let Some(sample) = inputs.sample {
            tables.add_sample(sample, &inputs, settings, &mut rows)?;
        }
        tables.layers.extend(rows.rows);
        Ok(tables)
    }

    fn add_spectrum(&mut self, scatter: &Scatter, rows: &mut Rows) {
        let spectrum = Spectrum::of_covariance(scatter);
        match &spectrum {
            None => self.notes.push(format!("spectrum: {} states have no covariance", scatter.n())),
            Some(spectrum) if spectrum.anisotropy().is_none() => self.notes.push("spectrum: all states are equal".to_owned()),
            Some(_) => {}
        }
        spectrum::rows(scatter, spectrum.as_ref(), rows);
        self.spectrum = spectrum.map(|spectrum| spectrum.eigenvalues().to_vec()).unwrap_or_default();
    }

    /// The spectrum without massive states: that of all states where there are none.
    fn add_typical(&mut self, inputs: &LensInputs) {
        let Some(covariance) = &inputs.lenses.covariance else { return };
        let mut rows = Rows::new(Selection::Typical);
        if covariance.has_massive() {
            let typical = covariance.typical();
            spectrum::rows(typical, Spectrum::of_covariance(typical).as_ref(), &mut rows);
        } else {
            let spectrum = |row: &&LayerRow| Measure::named(row.measure).is_some_and(|measure| measure.family == Family::Spectrum);
            rows.rows = self.layers.iter().filter(spectrum).map(|row| LayerRow { selection: Selection::Typical, ..row.clone() }).collect();
        }
        self.layers.extend(rows.rows);
    }

    fn add_sample(&mut self, sample: &HashSample, inputs: &LensInputs, settings: &LensSettings, rows: &mut Rows) -> Result<()> {
        let wanted = |family| settings.families.contains(&family);
        if let Some(covariance) = inputs.lenses.covariance.as_ref().filter(|_| wanted(Family::Spectrum)) {
            spectrum::sample_rows(sample, covariance, rows)?;
        }
        if wanted(Family::Partition) {
            partition::rows(&batches::states(sample), sample.dim(), rows);
        }
        if wanted(Family::Dimension) {
            let duplicates = dimension::rows(sample, settings.neighbours, settings.threads, rows);
            let n = sample.len();
            if duplicates > 0 {
                self.notes.push(format!("dimension: {duplicates} of {n} kept states equal an earlier one and were left out"));
            }
            if n as u64 - duplicates < 3 {
                self.notes.push(format!("dimension: {} different states are too few", n as u64 - duplicates));
            }
        }
        cluster::rows(sample, &settings.clusters, settings.threads, rows);
        Ok(())
    }
}

fn add_layers(this: &Scatter, next: Option<&Lenses>, rows: &mut Rows) -> Result<()> {
    let (covariance, pairs) = (next.and_then(|next| next.covariance.as_ref()), next.and_then(|next| next.pairs.as_ref()));
    let next = covariance.map(|covariance| covariance.all()).transpose()?;
    let both = next.as_ref().map(Cow::as_ref).zip(pairs);
    let n = pairs.map_or(0, |pairs| pairs.n());
    rows.push("linear_cka_next", both.and_then(|(next, pairs)| layers::linear_cka(this, next, pairs)), n);
    rows.push("linearity_next", both.and_then(|(next, pairs)| layers::linearity(this, next, pairs)), n);
    Ok(())
}

/// What is measured of a matrix of weights, such as the input or output embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixTables {
    /// Mean cosine, spectrum, partition.
    pub rows: Vec<LayerRow>,
    /// Eigenvalues of its covariance, descending.
    pub spectrum: Vec<f64>,
    /// Every row of the matrix on the plane of its first two singular directions (uncentred), the origin being (0, 0).
    pub images: Vec<[f64; 2]>,
}

/// The measures of a matrix of weights.
pub fn matrix_tables(matrix: &[f32], dim: usize) -> Result<MatrixTables> {
    use crate::rows::{BatchRows, Segments};
    use crate::sketch::{CorpusMoments, Covariance};
    const CHUNK: usize = 1024;
    let (mut corpus, mut covariance) = (CorpusMoments::new(dim), Covariance::new(dim, None));
    for chunk in matrix.chunks(CHUNK * dim) {
        let segments = Segments::new(&vec![0; chunk.len() / dim]);
        let batch = BatchRows::new(chunk, dim, &segments, &[])?;
        corpus.update(&batch)?;
        covariance.update(&batch)?;
    }
    let mut rows = Rows::new(Selection::All);
    rows.push("mean_cosine", super::mean_cosine(corpus.unit(), corpus.nonzero()), corpus.nonzero());
    let mut tables = LensTables::default();
    tables.add_spectrum(covariance.typical(), &mut rows);
    let images = partition::rows(matrix, dim, &mut rows);
    Ok(MatrixTables { rows: rows.rows, spectrum: tables.spectrum, images })
}

impl BlockErrors {
    /// Fills in the standard errors of the rows of all states that it knows.
    pub fn apply(&self, rows: &mut [LayerRow]) {
        for row in rows.iter_mut().filter(|row| row.selection == Selection::All && row.value.is_some()) {
            let known = match row.measure {
                "q" => self.q,
                "m" => self.m,
                "mean_cosine" => self.mean_cosine,
                _ => continue,
            };
            row.se = known.filter(|error| error.is_finite());
        }
    }
}
