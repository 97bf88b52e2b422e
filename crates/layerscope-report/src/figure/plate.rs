//! A figure or table before it is written.

use layerscope_error::{Line, line, setting};

use super::remarks::Remarks;
use super::scene::Scene;
use super::sheet::{Preferred, Sheet};
use super::shown::Shown;
use super::theme::Look;
use crate::table::Table;

/// Draws for a look and a width in points.
pub(crate) type Draw = Box<dyn Fn(&Look, f64) -> Scene>;

/// What is on it.
pub(crate) enum Body {
    Panels(Sheet),
    /// A drawing of its own.
    Drawing(Preferred, Draw),
    /// A table, written as Markdown, CSV and LaTeX.
    Table(Table),
}

/// One figure with its numbers and its caption.
pub(crate) struct Plate {
    /// The files' name, without an ending.
    pub name: String,
    pub body: Body,
    /// The plotted numbers; each goes to `name` + suffix + `.csv`.
    pub numbers: Vec<(&'static str, Table)>,
    /// In LaTeX, without what is said of the states.
    pub caption: String,
    /// The states that it shows.
    pub shown: Shown,
    pub remarks: Remarks,
    /// In plain words, for those who cannot see it.
    pub description: String,
}

impl Plate {
    /// The whole caption, in LaTeX.
    pub fn full_caption(&self) -> String {
        let said = [self.caption.trim(), self.shown.sentence()].into_iter().chain(self.remarks.sentences().iter().map(String::as_str));
        said.filter(|sentence| !sentence.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// Why something is not drawn.
pub(crate) struct Skip {
    pub model: Option<String>,
    pub reason: Line,
}

impl Skip {
    pub fn new(reason: impl Into<Line>) -> Skip {
        Skip { model: None, reason: reason.into() }
    }

    pub fn of(model: &str, reason: impl Into<Line>) -> Skip {
        Skip { model: Some(model.to_owned()), reason: reason.into() }
    }
}

/// What measures embedding matrices.
pub(crate) fn matrices_come_from() -> Line {
    line!["`layerscope track`, or `layerscope weights` with ", setting("out")]
}

/// A figure, or the reason why there is none.
pub(crate) type Outcome = Result<Plate, Skip>;
