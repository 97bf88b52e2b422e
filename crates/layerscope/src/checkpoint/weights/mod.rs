//! What a checkpoint says without any text: its embedding matrices and its norms.

mod matrices;
mod norms;
mod wide;

use std::path::{Path, PathBuf};

use layerscope_model::Model;
use layerscope_report::manifest::{Checkpoint, Status};
use layerscope_report::{Column, Manifest, Table};

pub(crate) use matrices::{MatrixMeasures, PROJECTIONS, embedding_measures, embeddings_table, projections_table};
pub(crate) use norms::{NormFact, norm_facts, norms_table};
pub(crate) use wide::{wide_embeddings, wide_norms};

use super::fingerprint::model_fingerprint;
use super::locate::{checkpoints, locate};
use super::name::model_name;
use crate::error::{Error, Result};
use crate::process::cancel::CancelToken;
use crate::store::facts::ModelFacts;
use crate::store::folder::Folder;
use crate::store::manifest::begun;
use crate::store::mirror;
use crate::store::write::{Files, put_manifest, put_table};
use crate::tables::stack::stacked;
use crate::training::alike::FirstCheckpoint;
use crate::training::join::skipped;

/// Whose weights are measured, and where the tables go.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct WeightsOf {
    /// Model folder (config.json, weights), GGUF file, or Hugging Face Hub id such as org/name
    #[arg(long, value_name = "MODEL")]
    pub model: String,
    /// Branch, tag or commit of a Hub model
    #[arg(long, value_name = "REV")]
    pub revision: Option<String>,
    /// Checkpoints to read, as comma-separated names and globs, into one table over all steps
    #[arg(long, value_name = "LIST", conflicts_with = "revision")]
    pub revisions: Option<String>,
    /// Also write layers.parquet, norms.parquet, spectra.parquet, projections.parquet and manifest.json to this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Measures of embedding matrices and norms.
pub struct Weights {
    /// Where the matrices come from, and which checkpoints were skipped.
    pub sources: Vec<String>,
    /// Measures of the matrices.
    pub embeddings: Table,
    /// Statistics of the norms.
    pub norms: Table,
    /// Columns of `embeddings` that say nothing.
    pub(crate) hidden: &'static [&'static str],
}

/// Measures the embedding matrices and norms of a checkpoint, or of several, and writes them where that is asked for.
pub fn weights(asked: &WeightsOf) -> Result<Weights> {
    let Some(out) = &asked.out else { return measured(asked, None) };
    mirror::into(out, &CancelToken::default(), &mut |_| {}, |here, _| measured(asked, Some(here))).map(|finished| finished.result)
}

fn measured(asked: &WeightsOf, out: Option<&Path>) -> Result<Weights> {
    match &asked.revisions {
        Some(revisions) => of_training(asked, revisions, out),
        None => of_one(asked, out),
    }
}

fn sources(matrices: &[MatrixMeasures]) -> Vec<String> {
    matrices.iter().map(|matrix| format!("{}: {}", matrix.point, matrix.source)).collect()
}

/// Of one checkpoint.
fn of_one(asked: &WeightsOf, out: Option<&Path>) -> Result<Weights> {
    let folder = locate(&asked.model, asked.revision.as_deref())?;
    let model = Model::open(&folder)?;
    let matrices = embedding_measures(&model)?;
    let name = model_name(&asked.model);
    let embeddings = embeddings_table(&name, &[(asked.revision.clone(), None, matrices.clone())])?;
    let norms = norms_table(&norm_facts(&model)?)?;
    if let Some(out) = out {
        let (store, mut files) = (Folder::create(out)?, Files::new());
        put_table(&store, "layers.parquet", &embeddings, &mut files)?;
        put_table(&store, "norms.parquet", &norms, &mut files)?;
        put_table(&store, "spectra.parquet", &spectra_table(&matrices)?, &mut files)?;
        put_table(&store, PROJECTIONS, &projections_table(&matrices)?, &mut files)?;
        let facts = ModelFacts::new(&name, asked.revision.clone(), model_fingerprint(&model)?, &model);
        put_manifest(&store, Manifest { weights_only: Some(true), files: Some(files), ..begun(&facts) })?;
    }
    Ok(Weights { sources: sources(&matrices), embeddings, norms, hidden: &["model", "revision", "layer", "step", "se"] })
}

/// Of all checkpoints of a training; those that cannot be used are skipped with a warning.
fn of_training(asked: &WeightsOf, revisions: &str, out: Option<&Path>) -> Result<Weights> {
    let source = checkpoints(&asked.model)?;
    let (name, mut first) = (model_name(&asked.model), FirstCheckpoint::default());
    let (mut entries, mut norms, mut projections, mut warnings, mut last) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), None);
    let revisions = source.select(revisions)?;
    let mut trajectory = Vec::with_capacity(revisions.len());
    for revision in &revisions {
        let entry =
            |status, reason| Checkpoint { revision: revision.name.clone(), step: revision.step, status, reason, ..Checkpoint::default() };
        let model = match source.locate(revision)?.map(|folder| Model::open(&folder)) {
            Some(Ok(model)) => model,
            problem => {
                let (status, reason) = problem
                    .and_then(|opened| opened.err())
                    .map_or((Status::Missing, "it does not exist".to_owned()), |error| (Status::Broken, error.to_string()));
                warnings.push(format!("warning: {}", skipped(&revision.name, &status, &reason)));
                trajectory.push(entry(status, Some(reason)));
                continue;
            }
        };
        first.compare(&revision.name, &ModelFacts::new(&asked.model, None, String::new(), &model))?;
        let matrices = embedding_measures(&model)?;
        norms.push((revision, norms_table(&norm_facts(&model)?)?));
        projections.push((revision, projections_table(&matrices)?));
        last = Some((sources(&matrices), model));
        entries.push((Some(revision.name.clone()), revision.step, matrices));
        trajectory.push(entry(Status::Measured, None));
    }
    let Some((mut sources, model)) = last else {
        return Err(Error::refused(format!("none of the {} checkpoints could be read; {}", revisions.len(), warnings.join("; "))));
    };
    sources.extend(warnings);
    let (embeddings, norms) = (embeddings_table(&name, &entries)?, stacked(&norms)?);
    if let Some(out) = out {
        let (store, mut files) = (Folder::create(out)?, Files::new());
        put_table(&store, "layers.parquet", &embeddings, &mut files)?;
        put_table(&store, "norms.parquet", &norms, &mut files)?;
        put_table(&store, PROJECTIONS, &stacked(&projections)?, &mut files)?;
        let facts = ModelFacts::new(&asked.model, None, model_fingerprint(&model)?, &model);
        put_manifest(&store, Manifest { weights_only: Some(true), trajectory: Some(trajectory), files: Some(files), ..begun(&facts) })?;
    }
    Ok(Weights { sources, embeddings, norms, hidden: &["model", "step", "layer", "se"] })
}

/// The eigenvalues of all matrices.
fn spectra_table(matrices: &[MatrixMeasures]) -> Result<Table> {
    let ranks = |matrix: &MatrixMeasures| {
        matrix.tables.spectrum.iter().enumerate().map(|(i, &value)| (matrix.point, i as i64 + 1, value)).collect::<Vec<_>>()
    };
    let spectra: Vec<(&str, i64, f64)> = matrices.iter().flat_map(ranks).collect();
    Ok(Table::new([
        ("layer", Column::Integer(vec![None; spectra.len()])),
        ("point", Column::text(spectra.iter().map(|(point, ..)| Some(*point)))),
        ("rank", Column::Integer(spectra.iter().map(|(_, rank, _)| Some(*rank)).collect())),
        ("eigenvalue", Column::Real(spectra.iter().map(|(.., value)| Some(*value)).collect())),
    ])?)
}
