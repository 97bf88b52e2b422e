//! `layerscope bench`: what this machine does with a model.

use std::io::Write;

use super::{print, print_json, thread_count};
use crate::bench::{BenchSettings, bench};
use crate::error::{Error, Result};
use crate::process::cancel::CancelToken;
use crate::process::terminal;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Model folder (config.json, weights), GGUF file, or Hugging Face Hub id such as org/name [default: a built-in model]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Branch, tag or commit of a Hub model
    #[arg(long, value_name = "REV")]
    revision: Option<String>,
    /// Text to run through it: .txt, .jsonl, .parquet, also .gz and .zst [default: built-in sentences of novels]
    #[arg(long, value_name = "FILE")]
    corpus: Option<String>,
    /// Largest number of worker threads to try [default: all processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// How long to measure, in seconds; loading the weights and making tables come on top
    #[arg(long, value_name = "S", default_value_t = 25.0, value_parser = seconds)]
    seconds: f64,
    /// Numbers to compute with, as in measure [default: f32]
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "a number from 0.1 to 3600".to_owned())
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let settings = BenchSettings {
        model: arguments.model.clone(),
        revision: arguments.revision.clone(),
        corpus: arguments.corpus.clone(),
        threads: thread_count(arguments.threads),
        seconds: arguments.seconds,
        dtype: arguments.dtype.clone(),
    };
    let cancel = CancelToken::on_signals()?;
    cancel.throughout("interrupted: the same command measures again");
    let drawn = terminal::can_redraw();
    // A line that is written over; a terminal that went away is no reason to stop.
    let mut show = |text: &str| drop(write!(std::io::stderr(), "{}", if drawn { format!("\r\x1b[K{text}") } else { String::new() }));
    let outcome = bench(&settings, &cancel, &mut show);
    show("");
    let found = outcome?;
    if arguments.json {
        let json = serde_json::to_string_pretty(&found).map_err(|error| Error::io("standard output".as_ref(), error.into()))?;
        return print_json(&json);
    }
    print(&found.to_string())
}
