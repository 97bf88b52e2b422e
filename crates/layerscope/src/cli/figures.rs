//! `layerscope figures`: every figure that some runs can support.

use std::path::{Path, PathBuf};

use layerscope_report::figure::{Drawing, Skipped, Step};

use super::{on_terminal, print};
use crate::error::Result;
use crate::measure::event::Event;
use crate::pictures::{Look, figures_with};
use crate::process::cancel::CancelToken;
use crate::store::load::load_with_parts;
use crate::text::counted;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folders of finished runs
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Folder for the figures
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Select groups that occur between MIN and MAX times, instead of each run's own range
    #[arg(long, value_name = "MIN:MAX")]
    frequency: Option<String>,
    #[command(flatten)]
    look: Look,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let token = CancelToken::end_on_signals(
        "interrupted while figures were drawn: those that are there are whole; the same command draws all of them",
    )?;
    let runs = load_with_parts(&arguments.folders)?;
    let drawing = with_bar(&token, |show| figures_with(&runs, &arguments.look, arguments.frequency.as_deref(), &arguments.out, show))?;
    let notes: String = drawing.notes.iter().map(|note| format!("\nnote: {note}")).collect();
    print(&(drawn(&drawing, &arguments.out, runs.len() > 1) + &notes))
}

/// Draws, and shows how far it is on a terminal. A figure that is being written is finished before a signal ends the process.
pub(super) fn with_bar<T>(token: &CancelToken, draw: impl FnOnce(&mut dyn FnMut(Step)) -> T) -> T {
    let mut saving = None;
    on_terminal(|display| {
        draw(&mut |step: Step| match step {
            Step::Saving => saving = Some(token.saving_unless_ended()),
            Step::Saved(_) => saving = None,
            Step::Done { done, of } => display(Event::Drawing { done, of }),
        })
    })
}

/// What was drawn, and what was not.
pub(super) fn drawn(drawing: &Drawing, out: &Path, several: bool) -> String {
    let files: usize = drawing.written.iter().map(|written| written.files.len()).sum();
    let (figures, files) = (counted(drawing.written.len() as u64, "figure"), counted(files as u64, "file"));
    let mut lines = vec![format!("{figures} in {files} in {}", out.display())];
    lines.extend(not_drawn(&drawing.skipped, several));
    lines.join("\n")
}

/// What was not drawn and why, a line a reason: of one run among several it says of which.
fn not_drawn(skipped: &[Skipped], several: bool) -> Vec<String> {
    let same = |one: &Skipped, other: &Skipped| one.figure == other.figure && one.reason == other.reason;
    let mut lines: Vec<(Vec<&str>, String)> = Vec::new();
    for alike in skipped.chunk_by(same) {
        let models: Vec<&str> = alike.iter().filter_map(|skipped| skipped.model.as_deref()).collect();
        let of = if several && !models.is_empty() { format!(" of {}", models.join(", ")) } else { String::new() };
        let why = format!("{of}: {}", alike[0].reason);
        match lines.iter_mut().find(|(_, said)| *said == why) {
            Some((figures, _)) => figures.push(alike[0].figure),
            None => lines.push((vec![alike[0].figure], why)),
        }
    }
    lines.into_iter().map(|(figures, why)| format!("not drawn: {}{why}", figures.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_drawn_names_its_run_among_several() {
        let skip = |figure, model: Option<&str>, reason: &str| Skipped { figure, model: model.map(str::to_owned), reason: reason.into() };
        let words = "grouped by token";
        let skipped = [
            skip("fig1", Some("b"), "no tokens"),
            skip("fig8", Some("b"), "no tokens"),
            skip("fig22", Some("a"), words),
            skip("fig22", Some("b"), words),
            skip("shape1", None, "no run"),
        ];
        let expected = ["not drawn: fig1, fig8 of b: no tokens", "not drawn: fig22 of a, b: grouped by token", "not drawn: shape1: no run"];
        assert_eq!(not_drawn(&skipped, true), expected);
        assert_eq!(not_drawn(&skipped[..3], false), ["not drawn: fig1, fig8: no tokens", "not drawn: fig22: grouped by token"]);
    }
}
