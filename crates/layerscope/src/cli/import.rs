//! `layerscope import`: states computed elsewhere.

use std::collections::HashMap;
use std::path::PathBuf;

use super::{print, show};
use crate::cancel::CancelToken;
use crate::error::Result;
use crate::finish::refuse_run;
use crate::gather::{GatherSettings, ModelNote};
use crate::import::{ImportOptions, import};
use crate::mirror;
use crate::plan::parse_frequency;
use crate::settings::wrong;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Files of states: .npy, .npz, .safetensors, .parquet
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The folder of the run
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    options: ImportOptions,
    /// What the states are called in tables and figures [the name of --out]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// all, or families: norm, cosine, spectrum, partition, dimension, sequence, layers [norm,cosine,spectrum,dimension]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    measures: Vec<String>,
    /// MIN:MAX of n_t for the selected groups [10:100000]
    #[arg(long, value_name = "MIN:MAX")]
    frequency: Option<String>,
    /// How many states per layer the hash sample keeps [20000]
    #[arg(long, value_name = "N")]
    sample_states: Option<usize>,
    /// Seed of the sample [0]
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// fail or skip states that are not finite
    #[arg(long, value_name = "HOW", default_value = "fail")]
    on_error: String,
    /// Replace what lies there
    #[arg(long)]
    overwrite: bool,
    /// No progress, only the result
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let out = &arguments.out;
    refuse_run(out, arguments.overwrite)?;
    let frequency = arguments.frequency.as_deref().map(parse_frequency).transpose()?;
    let skip_bad = match arguments.on_error.as_str() {
        "fail" => false,
        "skip" => true,
        other => return Err(wrong("on-error", other, "fail or skip")),
    };
    let last = out.file_name().map(|name| name.to_string_lossy().into_owned());
    let settings = |dim: usize| {
        let defaults = GatherSettings::new(dim);
        GatherSettings {
            measures: if arguments.measures.is_empty() { defaults.measures } else { arguments.measures.clone() },
            frequency: frequency.as_ref().map_or(defaults.frequency, |range| (*range.start(), *range.end())),
            sample_states: arguments.sample_states.unwrap_or(defaults.sample_states),
            seed: arguments.seed,
            skip_bad,
            model: ModelNote { name: arguments.name.clone().or_else(|| last.clone()).unwrap_or(defaults.model.name), ..defaults.model },
            ..GatherSettings::new(dim)
        }
    };
    let gatherer = import(&arguments.files, &arguments.options, settings, &mut |path| {
        if !arguments.quiet {
            eprintln!("layerscope: reading {}", path.display());
        }
    })?;
    let (_, here) =
        mirror::into(out, &CancelToken::default(), &mut |_| {}, |here, _| gatherer.finish(here, &HashMap::new(), arguments.overwrite))?;
    print(&show::overview(&here)?)
}
