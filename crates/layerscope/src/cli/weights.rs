//! `layerscope weights`: embedding matrices and norms, no corpus needed.

use std::path::{Path, PathBuf};

use layerscope_model::Model;
use layerscope_report::Table;
use layerscope_report::export::{self, Format};
use serde_json::json;

use super::{download, print, print_json, write_table};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::facts::{ModelFacts, model_fingerprint, model_name};
use crate::finish::{PROJECTIONS, put_json, put_table, write_weights};
use crate::mirror;
use crate::store::Store;
use crate::track::{Reference, stacked};
use crate::weights::{MatrixMeasures, embedding_measures, embeddings_table, norm_facts, norms_table, projections_table};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    asked: Asked,
    /// embeddings or norms; both without it, which csv and jsonl cannot hold
    #[arg(long, value_name = "T")]
    table: Option<Which>,
    /// md, csv, json (one object with both tables, or the list of one), jsonl or latex
    #[arg(long, value_name = "F", default_value = "md")]
    format: String,
}

/// Whose weights, and where they go.
#[derive(Clone, clap::Args)]
pub struct Asked {
    /// A folder with config.json and weights, or a hub id such as org/name
    #[arg(long, value_name = "M")]
    pub model: String,
    /// Branch, tag or commit of a hub model
    #[arg(long, value_name = "R")]
    pub revision: Option<String>,
    /// Checkpoints, as names and globs separated by commas: one table over all steps
    #[arg(long, value_name = "G", conflicts_with = "revision")]
    pub revisions: Option<String>,
    /// Also write layers.parquet, norms.parquet, spectra.parquet, projections.parquet and manifest.json there
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// One of the two tables.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Which {
    /// As `show` calls it, too.
    #[value(alias = "weights")]
    Embeddings,
    Norms,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let format: Format = arguments.format.parse()?;
    if arguments.table.is_none() && matches!(format, Format::Csv | Format::JsonLines) {
        return Err(Error::Usage(format!("{} holds one table: add --table embeddings or --table norms", format.name())));
    }
    let weights = read(&arguments.asked)?;
    match arguments.table {
        Some(Which::Embeddings) => write_table(&weights.embeddings, format),
        Some(Which::Norms) => write_table(&weights.norms, format),
        None => print_both(&weights, format),
    }
}

fn print_both(weights: &Weights, format: Format) -> Result<()> {
    let Weights { sources, embeddings, norms, hidden } = weights;
    let of = |table: &Table| -> Result<String> {
        let mut bytes = Vec::new();
        export::write(table, format, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    };
    match format {
        Format::Json => {
            let sources = serde_json::Value::from(sources.clone());
            print_json(&format!("{{\"sources\":{sources},\n\"embeddings\":{},\n\"norms\":{}}}", of(embeddings)?, of(norms)?))
        }
        Format::Markdown => print(&format!("{}\n\n{}\n\n{}", sources.join("\n"), of(&embeddings.without(hidden))?, of(norms)?)),
        _ => print(&format!("{}\n\n{}", of(embeddings)?, of(norms)?)),
    }
}

/// Measures the matrices and norms, and writes them where that was asked for.
pub fn read(asked: &Asked) -> Result<Weights> {
    let Some(out) = &asked.out else { return read_here(asked) };
    let into_folder = |here: &Path| read_here(&Asked { out: Some(here.to_owned()), ..asked.clone() });
    mirror::into(out, &CancelToken::default(), &mut |_| {}, |here, _| into_folder(here)).map(|(weights, _)| weights)
}

fn read_here(asked: &Asked) -> Result<Weights> {
    match &asked.revisions {
        Some(revisions) => of_training(asked, revisions),
        None => of_one(asked),
    }
}

/// What is printed.
pub struct Weights {
    /// Where the matrices come from, and what could not be read.
    pub sources: Vec<String>,
    /// Measures of the matrices.
    pub embeddings: Table,
    /// Statistics of the norms.
    pub norms: Table,
    /// Columns that say nothing.
    hidden: &'static [&'static str],
}

fn sources(matrices: &[MatrixMeasures]) -> Vec<String> {
    matrices.iter().map(|matrix| format!("{}: {}", matrix.point, matrix.source)).collect()
}

/// Of one checkpoint.
fn of_one(arguments: &Asked) -> Result<Weights> {
    let folder = download::locate(&arguments.model, arguments.revision.as_deref())?;
    let model = Model::open(&folder)?;
    let matrices = embedding_measures(&model)?;
    let name = model_name(&arguments.model);
    let embeddings = embeddings_table(&name, &[(arguments.revision.clone(), None, matrices.clone())])?;
    let norms = norms_table(&norm_facts(&model)?)?;
    if let Some(out) = &arguments.out {
        write_weights(out, &model, &name, arguments.revision.clone(), &matrices, &embeddings, &norms)?;
    }
    Ok(Weights { sources: sources(&matrices), embeddings, norms, hidden: &["model", "revision", "layer", "step", "se"] })
}

/// Of all checkpoints of a training; those that cannot be used are said and left out.
fn of_training(arguments: &Asked, revisions: &str) -> Result<Weights> {
    let source = download::checkpoints(&arguments.model)?;
    let (name, mut reference) = (model_name(&arguments.model), Reference::default());
    let (mut entries, mut norms, mut projections, mut said, mut last) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), None);
    let revisions = source.select(revisions)?;
    let mut trajectory = Vec::with_capacity(revisions.len());
    for revision in &revisions {
        let entry = |status: &str, reason: Option<&str>| json!({ "revision": revision.name, "step": revision.step, "status": status, "reason": reason });
        let opened = source.locate(revision)?.map(|folder| Model::open(&folder));
        let model = match opened {
            Some(Ok(model)) => model,
            problem => {
                let (status, reason) = problem
                    .and_then(|opened| opened.err())
                    .map_or(("missing", "it does not exist".to_owned()), |error| ("broken", error.to_string()));
                said.push(format!("warning: {} is {status} and left out: {reason}", revision.name));
                trajectory.push(entry(status, Some(&reason)));
                continue;
            }
        };
        reference.compare(&revision.name, &ModelFacts::new(&arguments.model, None, String::new(), &model))?;
        let matrices = embedding_measures(&model)?;
        norms.push((revision, norms_table(&norm_facts(&model)?)?));
        projections.push((revision, projections_table(&matrices)?));
        last = Some((sources(&matrices), model));
        entries.push((Some(revision.name.clone()), revision.step, matrices));
        trajectory.push(entry("measured", None));
    }
    let Some((mut sources, model)) = last else {
        return Err(Error::Refused(format!("none of the {} checkpoints could be read; {}", revisions.len(), said.join("; "))));
    };
    sources.extend(said);
    let (embeddings, norms) = (embeddings_table(&name, &entries)?, stacked(&norms)?);
    if let Some(out) = &arguments.out {
        let store = Store::create(out)?;
        put_table(&store, "layers.parquet", &embeddings)?;
        put_table(&store, "norms.parquet", &norms)?;
        put_table(&store, PROJECTIONS, &stacked(&projections)?)?;
        let facts = ModelFacts::new(&arguments.model, None, model_fingerprint(&model)?, &model);
        let command = crate::command::words();
        put_json(
            &store,
            &json!({
                "format": 1, "program": env!("CARGO_PKG_VERSION"), "command": command, "model": facts, "weights_only": true, "trajectory": trajectory,
            }),
        )?;
    }
    Ok(Weights { sources, embeddings, norms, hidden: &["model", "step", "layer", "se"] })
}
