//! The figures of the papers, drawn from runs.
//!
//! [`draw`] writes each of [`LIST`] as SVG, PDF and PNG with a CSV of exactly the plotted numbers, tables 1 to 3 as Markdown, CSV and
//! LaTeX, and `figures.tex`, which includes them with captions whose numbers come from the runs. A figure that
//! the runs have no data for is skipped with a reason.
//!
//! A figure is made in three steps: a function of its own turns runs into a `Sheet` (panels, axes, marks: no sizes, no colours),
//! `compose` lays that out as a `Scene` (shapes and text in points), and three small writers turn the scene into files. All text is
//! measured with the embedded font, so margins fit, labels do not overlap and the bytes are the same on every machine.

mod agreement;
mod block;
mod by_layer;
mod compose;
mod context;
mod data;
mod diagram;
mod embeddings;
mod final_norm;
mod fits;
mod font;
mod frequency;
mod groups;
mod histograms;
mod labels;
mod legend;
mod list;
mod marks;
mod output;
mod over;
mod pdf;
mod plate;
mod png;
mod profiles;
mod remarks;
mod rows;
mod scatter;
mod scene;
mod shares;
mod sheet;
mod shown;
mod sinks;
mod svg;
pub mod tables;
mod tex;
mod text;
mod theme;
mod ticks;
mod tokens;
mod trajectories;

pub use list::{Figure, LIST};
pub use output::{Drawing, Skipped, Step, Written, draw};
pub use theme::Theme;

use crate::error::{Error, Result};
use crate::states::States;

/// What is drawn, and how.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Ids of [`LIST`]; all of them if empty.
    pub only: Vec<String>,
    /// The layers to draw: one file each in figures of one layer, one row each in figures of several. If empty, the middle one, or five.
    pub layers: Vec<i64>,
    /// The kept tokens that figures 1 and 8 show; all of them if empty.
    pub tokens: Vec<String>,
    /// Smallest and largest n of the groups in regressions; each run's own range if absent.
    pub frequency: Option<(i64, i64)>,
    /// The states that are shown; what [`States::lead`] says of the runs if absent.
    pub states: Option<States>,
    /// Colours.
    pub theme: Theme,
    /// Width of every figure; if absent, a column or the page, whichever suits the figure.
    pub width_mm: Option<f64>,
    /// Whether figures along the layers show their share of the depth, so that models of different depths lie over each other.
    pub relative_depth: bool,
    /// A title above every figure.
    pub title: Option<String>,
}

/// Named widths, in millimetres.
pub const WIDTHS: [(&str, f64); 9] = [
    ("acl-column", 77.0),
    ("acl-page", 160.0),
    ("icml-column", 82.55),
    ("icml-page", 171.45),
    ("neurips", 139.7),
    ("iclr", 139.7),
    ("nature-column", 89.0),
    ("nature-page", 183.0),
    ("slide", 254.0),
];

/// A width by number (`120`) or by name (`acl-column`), in millimetres.
pub fn width_mm(text: &str) -> Result<f64> {
    let named = WIDTHS.iter().find(|(name, _)| *name == text).map(|(_, width)| *width);
    let number = || text.trim_end_matches("mm").trim().parse::<f64>().ok().filter(|width| (40.0..=1000.0).contains(width));
    named.or_else(number).ok_or_else(|| {
        let names: Vec<&str> = WIDTHS.iter().map(|(name, _)| *name).collect();
        Error::setting("width-mm", text, &names, &format!("40 to 1000 (millimetres) or one of {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_by_name_and_number() {
        assert_eq!(width_mm("acl-column").unwrap(), 77.0);
        assert_eq!(width_mm("120").unwrap(), 120.0);
        assert_eq!(width_mm("82.55mm").unwrap(), 82.55);
        for wrong in ["", "acl", "-5", "1e9", "NaN"] {
            assert!(width_mm(wrong).unwrap_err().to_string().contains("acl-column"), "{wrong}");
        }
    }
}
