//! `layerscope weights`: embedding matrices and norms, no corpus needed.

use std::path::PathBuf;

use layerscope_model::Model;
use layerscope_report::Table;
use layerscope_report::export::{self, Format};

use super::{download, print, write_table};
use crate::error::Result;
use crate::finish::write_weights;
use crate::weights::{embedding_measures, embeddings_table, norm_facts, norms_table};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A folder with config.json and weights, or a hub id such as org/name
    #[arg(long, value_name = "M")]
    model: String,
    /// Branch, tag or commit of a hub model
    #[arg(long, value_name = "R")]
    revision: Option<String>,
    /// Also write layers.parquet, norms.parquet, spectra.parquet and manifest.json there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// md, csv, json, jsonl or latex
    #[arg(long, value_name = "F", default_value = "md")]
    format: String,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let format: Format = arguments.format.parse()?;
    let folder = download::locate(&arguments.model, arguments.revision.as_deref())?;
    let model = Model::open(&folder)?;
    let matrices = embedding_measures(&model)?;
    let name = crate::facts::model_name(&arguments.model);
    let embeddings = embeddings_table(&name, &[(arguments.revision.clone(), None, matrices.clone())])?;
    let norms = norms_table(&norm_facts(&model)?)?;
    if let Some(out) = &arguments.out {
        write_weights(out, &model, &name, arguments.revision.clone(), &matrices, &embeddings, &norms)?;
    }
    let of = |table: &Table| -> Result<String> {
        let mut bytes = Vec::new();
        export::write(table, format, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match format {
        Format::Markdown => {
            let sources: Vec<String> = matrices.iter().map(|matrix| format!("{}: {}", matrix.point, matrix.source)).collect();
            print(&format!(
                "{}\n\n{}\n{}",
                sources.join("\n"),
                of(&embeddings.without(&["model", "revision", "layer", "step", "se"]))?,
                of(&norms)?
            ))
        }
        _ => write_table(&embeddings, format).and_then(|()| write_table(&norms, format)),
    }
}
