//! The command line: one file a command, each a few lines over the library.

mod bench;
mod compare;
mod demo;
mod figures;
mod forecast;
mod import;
mod inspect;
mod manual;
mod measure;
mod merge;
pub(crate) mod progress;
mod prune;
mod report;
mod screen;
mod serve;
mod show;
mod track;
mod weights;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use layerscope_report::Table;
use layerscope_report::export::{self, Format};
use layerscope_report::text::{visible, visible_json};

use progress::Display;

use crate::error::{Error, Result};
use crate::measure::event::Event;
use crate::process::cancel::take_last_word;
use crate::process::{command, panics, system};
use crate::settings::reference;
use crate::tables::lists;

/// Measure the geometry of Transformer hidden states
#[derive(Parser)]
#[command(name = "layerscope", version, about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Show the full chain of causes when an error occurs
    #[arg(short, long, global = true, display_order = 1000)]
    verbose: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Measure two built-in models and check known findings on them (no downloads)
    Demo(demo::Arguments),
    /// Measure a corpus through a model, for every token at every layer
    Measure(Box<measure::Arguments>),
    /// Measure a corpus through the checkpoints of a training run and collect one table over all steps
    Track(Box<track::Arguments>),
    /// Merge the shards of a measurement into one run
    Merge(merge::Arguments),
    /// Free the disk space of finished runs, and keep their tables
    Prune(prune::Arguments),
    /// Turn hidden states computed elsewhere (.npy, .npz, .safetensors, .parquet) into a run
    Import(Box<import::Arguments>),
    /// Draw every figure that the runs support, as SVG, PDF, PNG and CSV
    Figures(figures::Arguments),
    /// Write a self-contained HTML page for exploring runs
    Report(report::Arguments),
    /// Serve the same page from runs on disk (this machine only by default)
    Serve(serve::Arguments),
    /// Compare runs: differences with standard errors, and joint figures
    Compare(Box<compare::Arguments>),
    /// Print the tables of a run
    Show(show::Arguments),
    /// Show a checkpoint's architecture, its used and unused tensors, memory needs and measured speed
    Inspect(inspect::Arguments),
    /// Measure what this machine does with a model: speed, cost of statistics, memory, and which settings to choose
    Bench(bench::Arguments),
    /// Analyze the embedding matrices and norms of a checkpoint (no corpus needed)
    Weights(weights::Arguments),
    /// List every measure with its formula, variants and source
    Measures(Listing),
    /// List every setting of measure and track, with defaults and what presets set
    Settings(Listing),
    /// List the supported model families
    Models,
    /// Print a script that completes commands and flags in your shell
    Completions(manual::Completions),
    /// Write manual pages for `man`
    Manual(manual::Manual),
}

/// A table that is printed.
#[derive(clap::Args)]
struct Listing {
    /// Output format: md, csv, json, jsonl or latex
    #[arg(long, value_name = "FORMAT", default_value = "md")]
    format: String,
}

impl Listing {
    fn print(&self, table: &Table) -> Result<()> {
        write_table(table, self.format.parse()?)
    }
}

/// Runs the program on the process's arguments.
pub fn main() -> ExitCode {
    ExitCode::from(run(std::env::args_os().collect()))
}

/// Runs the program on these words, the first of which is its name; returns its exit status.
pub fn run(words: Vec<OsString>) -> u8 {
    ignore_file_limit();
    command::remember(words.iter().map(|word| word.to_string_lossy().into_owned()).collect());
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(problem) => {
            match problem.use_stderr() && problem.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                true => say(&usage_line(&problem.to_string(), misplaced_model(&problem, &words))),
                // Help that nobody reads is no error.
                false => drop(problem.print()),
            }
            return problem.exit_code() as u8;
        }
    };
    let (command, verbose) = (arguments.command, arguments.verbose);
    let outcome = panics::caught(|| match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Measure(arguments) => measure::run(&arguments),
        Command::Track(arguments) => track::run(&arguments),
        Command::Merge(arguments) => merge::run(&arguments),
        Command::Prune(arguments) => prune::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Figures(arguments) => figures::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Show(arguments) => show::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Weights(arguments) => weights::run(&arguments),
        Command::Measures(listing) => listing.print(&lists::measures()?),
        Command::Settings(listing) => listing.print(&reference::table()?),
        Command::Models => print(&lists::models()),
        Command::Completions(completions) => completions.print(),
        Command::Manual(manual) => manual.write(),
    });
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            take_last_word();
            // Names of files, tensors and columns are somebody else's: a terminal must not obey them.
            say(&error.to_string());
            if verbose {
                causes(&error).iter().for_each(|cause| write_err(&format!("  because: {}", visible(cause))));
            }
            error.exit_status()
        }
    }
}

/// The parser's words in one line, without the usage that `--help` shows.
fn usage_line(problem: &str, model: Option<&str>) -> String {
    const UNSAID: [&str; 3] = ["Usage:", "For more information", "tip: to pass"];
    let is_said = |line: &&str| !line.is_empty() && !UNSAID.iter().any(|start| line.starts_with(start));
    let lines: Vec<&str> = problem.lines().map(str::trim).filter(is_said).collect();
    // Arguments and possible values belong to what stands before them; anything else is said apart.
    let between = |line: &str| if ["--", "<", "["].iter().any(|start| line.starts_with(start)) { " " } else { "; " };
    let parts = lines.iter().enumerate().flat_map(|(at, line)| [if at == 0 { "" } else { between(line) }, line]);
    let meant = model.map_or(String::new(), |model| format!(" (did you mean `--model {model}`?)"));
    format!("{}{meant}; see --help", parts.collect::<String>().trim_start_matches("error: "))
}

/// The word that a command did not expect, if the command wants a model and was given none: it is probably the model.
fn misplaced_model<'a>(problem: &'a clap::Error, words: &[OsString]) -> Option<&'a str> {
    let Some(ContextValue::String(word)) = problem.get(ContextKind::InvalidArg) else { return None };
    let parser = Arguments::command();
    let command = parser.find_subcommand(words.get(1)?)?;
    let takes_model = command.get_arguments().any(|argument| argument.get_long() == Some("model"));
    let has_model = words.iter().any(|word| word.to_string_lossy().starts_with("--model"));
    (takes_model && !has_model && problem.kind() == ErrorKind::UnknownArgument && !word.starts_with('-')).then_some(word)
}

/// Does something that shows events, on a terminal alone.
fn on_terminal<T>(work: impl FnOnce(&mut dyn FnMut(Event<'_>)) -> T) -> T {
    let mut display = std::io::stderr().is_terminal().then(|| Display::new(false, false));
    let done = work(&mut |event| {
        if let Some(display) = &mut display {
            display.show(event);
        }
    });
    display.iter_mut().for_each(Display::end);
    done
}

/// Does something while a terminal shows that it is under way.
fn under_way<T>(event: Event<'_>, work: impl FnOnce() -> T) -> T {
    on_terminal(|show| {
        show(event);
        work()
    })
}

/// A line for the user on standard error, in characters that a terminal only shows.
fn say(text: &str) {
    write_err(&format!("layerscope: {}", visible(text)));
}

/// Nobody listening, or a full device, is no reason to fail.
fn write_err(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// A file that grows beyond the limit of this process is an error that can be told, not the end of the process.
fn ignore_file_limit() {
    // SAFETY: the signal is ignored from now on; no handler of ours runs.
    #[cfg(unix)]
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// What is behind an error, as far as its line does not say it.
fn causes(error: &Error) -> Vec<String> {
    let mut said = error.to_string();
    let chain = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let news = chain.map(|cause| cause.to_string()).filter(|cause| {
        let new = !said.contains(cause.as_str());
        said.push_str(cause);
        new
    });
    news.collect()
}

/// The number of workers asked for, or one per processor.
fn thread_count(asked: Option<u16>) -> usize {
    asked.map_or_else(system::processors, usize::from)
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn help_has_headings_and_possible_values() {
        let mut program = Arguments::command();
        program.build();
        let help = program.find_subcommand_mut("measure").expect("a command").render_help().to_string();
        for heading in ["Input:", "Model:", "What is measured:", "Output:", "Resources:"] {
            assert_eq!(help.matches(&format!("\n{heading}\n")).count(), 1, "{heading}\n{help}");
        }
        assert!(help.contains("[possible values: model, bos-eos, none] [default: model]"), "{help}");
    }

    #[test]
    fn a_cause_is_told_once() {
        let source = || std::io::Error::from(std::io::ErrorKind::NotFound);
        assert!(causes(&Error::io("here".as_ref(), source())).is_empty());
        let hidden = std::io::Error::other("outer");
        assert!(causes(&Error::io("here".as_ref(), hidden)).is_empty());
    }
}
