//! A figure or table before it is written.

use layerscope_error::{Line, line, setting};

use super::scene::Scene;
use super::sheet::{Preferred, Sheet};
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
    /// In LaTeX.
    pub caption: String,
    /// In plain words, for those who cannot see it.
    pub description: String,
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
