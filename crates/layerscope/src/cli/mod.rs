//! The command line: one file a command, each a few lines over the library.

pub mod compare;
mod demo;
pub mod download;
mod figures;
mod import;
mod inspect;
mod measure;
pub mod measures;
mod merge;
pub mod models;
pub mod progress;
mod report;
mod serve;
pub mod show;
mod track;
pub mod weights;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use layerscope_report::Table;
use layerscope_report::export::{self, Format};
use layerscope_report::text::{visible, visible_json};

use crate::error::{Error, Result};
use crate::{command, panics};

/// An instrument for looking inside Transformers.
#[derive(Parser)]
#[command(name = "layerscope", version, about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Show the chain behind an error
    #[arg(short, long, global = true)]
    verbose: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the embedded models and show what papers found in them; needs nothing else
    Demo(demo::Arguments),
    /// Measure a corpus through a model: norm and variance of every token at every layer
    Measure(Box<measure::Arguments>),
    /// Measure a corpus through the checkpoints of a training, into one table over all steps
    Track(Box<track::Arguments>),
    /// Join the shards of a measurement into one run
    Merge(merge::Arguments),
    /// States computed elsewhere (.npy, .npz, .safetensors, .parquet) as a run
    Import(Box<import::Arguments>),
    /// Every figure of the papers that the runs can support, as SVG, PDF, PNG and CSV
    Figures(figures::Arguments),
    /// One self-contained page to explore runs with
    Report(report::Arguments),
    /// The same page over runs on disk, on this machine only unless told otherwise
    Serve(serve::Arguments),
    /// Several runs side by side: differences with their standard errors, and figures of all of them
    Compare(Box<compare::Arguments>),
    /// Print the tables of a run
    Show(show::Arguments),
    /// Architecture of a checkpoint, tensors read and ignored, memory needed and measured speed
    Inspect(inspect::Arguments),
    /// Embedding matrices and norms of a checkpoint; needs no corpus
    Weights(weights::Arguments),
    /// The table of measures: name, formula, variants, source
    Measures {
        /// md, csv, json, jsonl or latex
        #[arg(long, value_name = "F", default_value = "md")]
        format: String,
    },
    /// The table of supported families
    Models,
}

/// Runs the program on the process's arguments.
pub fn main() -> ExitCode {
    ExitCode::from(run(std::env::args_os().collect()))
}

/// Runs the program on these words, the first of which is its name; returns its exit status.
pub fn run(words: Vec<OsString>) -> u8 {
    command::remember(words.iter().map(|word| word.to_string_lossy().into_owned()).collect());
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(problem) => {
            // Help that nobody reads is no error.
            let _ = problem.print();
            return problem.exit_code() as u8;
        }
    };
    let (command, verbose) = (arguments.command, arguments.verbose);
    let outcome = panics::caught(|| match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Measure(arguments) => measure::run(&arguments),
        Command::Track(arguments) => track::run(&arguments),
        Command::Merge(arguments) => merge::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Figures(arguments) => figures::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Show(arguments) => show::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Weights(arguments) => weights::run(&arguments),
        Command::Measures { format } => format.parse().map_err(Error::from).and_then(|format| write_table(&measures::table()?, format)),
        Command::Models => print(&models::table()),
    });
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            // Names of files, tensors and columns are somebody else's: a terminal must not obey them.
            eprintln!("layerscope: {}", visible(&error.to_string()));
            if verbose {
                let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
                causes.for_each(|cause| eprintln!("  because: {}", visible(&cause.to_string())));
            }
            error.exit_status()
        }
    }
}

/// The number of workers asked for, or one per processor.
fn thread_count(asked: Option<u16>) -> usize {
    asked.map_or_else(|| std::thread::available_parallelism().map_or(1, |count| count.get()), usize::from)
}

/// Writes a table to standard output; a reader that went away is no error.
fn write_table(table: &Table, format: Format) -> Result<()> {
    match export::write(table, format, &mut std::io::stdout().lock()) {
        Err(layerscope_report::Error::Write(source)) if source.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes a result in JSON to standard output.
fn print_json(json: &str) -> Result<()> {
    write_out(&visible_json(json))
}

/// Writes a result to standard output, in characters that a terminal only shows; a reader that went away (`| head`) is no error.
fn print(text: &str) -> Result<()> {
    let lines: Vec<String> = text.split('\n').map(visible).collect();
    write_out(&lines.join("\n"))
}

fn write_out(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{}", text.trim_end()) {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("standard output".as_ref(), source)),
        _ => Ok(()),
    }
}
