//! `layerscope import`: states computed elsewhere.

use std::collections::HashMap;
use std::path::PathBuf;

use layerscope_error::not_one_of;

use super::print;
use super::progress::Display;
use crate::collector::import::{ImportOptions, import};
use crate::collector::{CollectorSettings, ModelNote};
use crate::error::{Error, Result};
use crate::measure::event::Event;
use crate::process::cancel::CancelToken;
use crate::settings::parse;
use crate::store::write::refuse_run;
use crate::tables::overview::overview;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Files with hidden states: .npy, .npz, .safetensors or .parquet
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Folder of the run
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    options: ImportOptions,
    /// Name of the states in tables and figures [default: the name of --out]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Compute these families of measures: all, or a list of norm, cosine, spectrum, partition, dimension, sequence, layers [default: norm,cosine,spectrum,dimension]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    measures: Vec<String>,
    /// Select groups that occur between MIN and MAX times [default: 10:100000]
    #[arg(long, value_name = "MIN:MAX")]
    frequency: Option<String>,
    /// Keep a random sample of N states per layer [default: 20000]
    #[arg(long, value_name = "N")]
    sample_states: Option<usize>,
    /// Seed for the random sample of states
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Fail on or skip non-finite states [possible values: fail, skip]
    #[arg(long, value_name = "HOW", default_value = "fail")]
    on_error: String,
    /// Replace whatever is in --out
    #[arg(long)]
    overwrite: bool,
    /// Hide progress and print only the result
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    CancelToken::end_on_signals("interrupted: the files are as they were; the same command imports them again")?;
    refuse_run(&arguments.out, arguments.overwrite)?;
    let mut display = Display::new(arguments.quiet, false);
    let mut show = |event: Event<'_>| display.show(event);
    let collector = import(&arguments.files, &arguments.options, &arguments.settings()?, &mut show);
    let finished = collector.and_then(|own| own.finish_shown(&arguments.out, &HashMap::new(), arguments.overwrite, &mut show));
    display.end();
    print(&overview(&finished?.folder)?)
}

impl Arguments {
    fn settings(&self) -> Result<CollectorSettings> {
        let defaults = CollectorSettings::new(1);
        let frequency = self.frequency.as_deref().map(parse::frequency).transpose()?;
        let folder = self.out.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(CollectorSettings {
            measures: if self.measures.is_empty() { defaults.measures } else { self.measures.clone() },
            frequency: frequency.map_or(defaults.frequency, |range| (*range.start(), *range.end())),
            sample_states: self.sample_states.unwrap_or(defaults.sample_states),
            seed: self.seed,
            skip_bad: match self.on_error.as_str() {
                "fail" => false,
                "skip" => true,
                other => return Err(Error::usage(not_one_of("on-error", other, &["fail", "skip"]))),
            },
            model: ModelNote { name: self.name.clone().or(folder).unwrap_or(defaults.model.name), ..defaults.model },
            ..CollectorSettings::new(1)
        })
    }
}
