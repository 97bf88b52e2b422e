//! What can be measured of a matrix of weights.

use super::cosine::mean_cosine;
use super::layer_rows::{LayerRow, Rows};
use super::partition;
use super::selection::Selection;
use super::spectrum::{self, Spectra};
use crate::error::Result;
use crate::rows::BatchRows;
use crate::segments::Segments;
use crate::sketch::{CorpusMoments, Covariance, Sketch};

/// Rows that enter together.
const CHUNK: usize = 1024;

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
    let (mut corpus, mut covariance) = (CorpusMoments::new(dim), Covariance::new(dim, None));
    for chunk in matrix.chunks(CHUNK * dim) {
        let segments = Segments::new(&vec![0; chunk.len() / dim]);
        let batch = BatchRows::new(chunk, dim, &segments, &[])?;
        corpus.update(&batch)?;
        covariance.add(&batch, None)?;
    }
    let mut rows = Rows::new(Selection::All);
    rows.push("mean_cosine", mean_cosine(corpus.unit(), corpus.nonzero()), corpus.nonzero());
    let scatter = covariance.typical();
    let Spectra { covariance: centred, second_moment } = Spectra::new(scatter);
    spectrum::add_rows(scatter, centred.as_ref(), second_moment.as_ref(), &mut rows);
    let images = partition::add_rows(matrix, dim, &mut rows);
    let spectrum = centred.map(|spectrum| spectrum.eigenvalues().to_vec()).unwrap_or_default();
    Ok(MatrixTables { rows: rows.rows, spectrum, images })
}
