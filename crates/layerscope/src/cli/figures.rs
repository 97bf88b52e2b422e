//! `layerscope figures`: every figure that some runs can support.

use std::path::{Path, PathBuf};

use layerscope_report::Run;
use layerscope_report::figure::{self, LIST, Settings, Skipped};

use super::print;
use crate::error::{Error, Result};
use crate::mirror;
use crate::plan::parse_frequency;
use crate::settings::wrong;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folders of finished runs
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// The folder of the figures
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// MIN:MAX of n_t for the groups in regressions
    #[arg(long, value_name = "MIN:MAX")]
    frequency: Option<String>,
    #[command(flatten)]
    look: Look,
}

/// Which figures are drawn, and how.
#[derive(clap::Args)]
pub(super) struct Look {
    /// Only these, such as fig2,fig5
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<String>,
    /// Layers of figures of one or several layers, such as 0,6,12
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    layers: Vec<i64>,
    /// Which of the kept tokens figures 1 and 8 show
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    tokens: Vec<String>,
    /// light, dark or print
    #[arg(long, value_name = "T", default_value = "light")]
    theme: String,
    /// Width in millimetres, or a name such as acl-column
    #[arg(long, value_name = "W")]
    width_mm: Option<String>,
    /// A line over every figure
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let folders = mirror::fetch_all(&arguments.folders)?;
    let runs = folders.iter().map(|folder| Run::open(folder)).collect::<Result<Vec<_>, _>>()?;
    print(&arguments.look.draw(&runs, arguments.frequency.as_deref(), &arguments.out)?)
}

impl Look {
    /// Draws the figures of some runs and says what was drawn.
    pub fn draw(&self, runs: &[Run], frequency: Option<&str>, out: &Path) -> Result<String> {
        if let Some(unknown) = self.only.iter().find(|name| !LIST.iter().any(|figure| figure.is_called(name))) {
            let known: Vec<&str> = LIST.iter().map(|figure| figure.id).collect();
            return Err(wrong("only", unknown, &format!("some of {}", known.join(", "))));
        }
        let frequency = frequency.map(parse_frequency).transpose()?;
        let settings = Settings {
            only: self.only.clone(),
            layers: self.layers.clone(),
            tokens: self.tokens.clone(),
            frequency: frequency.map(|range| (*range.start() as i64, *range.end() as i64)),
            theme: self.theme.parse()?,
            width_mm: self.width_mm.as_deref().map(figure::width_mm).transpose()?,
            title: self.title.clone(),
        };
        std::fs::create_dir_all(out).map_err(|source| Error::io(out, source))?;
        let drawing = figure::draw(runs, &settings, out, &mut |_| {})?;
        let files: usize = drawing.written.iter().map(|written| written.files.len()).sum();
        let mut lines = vec![format!("{} figures in {files} files in {}", drawing.written.len(), out.display())];
        lines.extend(not_drawn(&drawing.skipped, runs.len() > 1));
        Ok(lines.join("\n"))
    }
}

/// What was not drawn and why, a line a reason: of one run among several it says of which.
fn not_drawn(skipped: &[Skipped], several: bool) -> Vec<String> {
    let same = |one: &Skipped, other: &Skipped| one.figure == other.figure && one.reason == other.reason;
    let line = |alike: &[Skipped]| {
        let models: Vec<&str> = alike.iter().filter_map(|skipped| skipped.model.as_deref()).collect();
        let of = if several && !models.is_empty() { format!(" of {}", models.join(", ")) } else { String::new() };
        format!("not drawn: {}{of}: {}", alike[0].figure, alike[0].reason)
    };
    skipped.chunk_by(same).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_drawn_names_its_run_among_several() {
        let skip =
            |figure, model: Option<&str>, reason: &str| Skipped { figure, model: model.map(str::to_owned), reason: reason.to_owned() };
        let words = "grouped by token";
        let skipped = [
            skip("fig1", Some("b"), "no tokens"),
            skip("fig22", Some("a"), words),
            skip("fig22", Some("b"), words),
            skip("shape1", None, "no run"),
        ];
        let expected = ["not drawn: fig1 of b: no tokens", "not drawn: fig22 of a, b: grouped by token", "not drawn: shape1: no run"];
        assert_eq!(not_drawn(&skipped, true), expected);
        assert_eq!(not_drawn(&skipped[..2], false), ["not drawn: fig1: no tokens", "not drawn: fig22: grouped by token"]);
    }
}
