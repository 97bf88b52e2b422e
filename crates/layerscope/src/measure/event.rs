//! What happens while work goes on, for whoever shows it.

use layerscope_error::Line;
use layerscope_report::Manifest;

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Something to know, such as what a preset set.
    Note(Line),
    /// What there is to do, and the memory it will take.
    Estimate(Line),
    /// Something to worry about.
    Warning(Line),
    /// The text is being read.
    Reading(layerscope_corpus::Progress),
    /// The model runs over the text.
    Measuring {
        /// Documents done, in this process and before; of a model that is run leg by leg, a leg is worth its part.
        documents: u64,
        /// Tokens done likewise.
        tokens: u64,
        /// All tokens.
        total: u64,
        /// Tokens done since the process began, for the rate.
        fresh: u64,
        /// The leg of the model where they are, and how many there are.
        leg: (usize, usize),
    },
    /// The tables are being made.
    Tables {
        /// Points done.
        done: usize,
        /// All points.
        of: usize,
    },
    /// The run can be resumed from here.
    Saved,
    /// Stopping was asked for and is under way.
    Stopping,
    /// The run is complete.
    Finished(&'a Manifest),
}

impl Event<'_> {
    /// Something to know.
    pub(crate) fn note(line: impl Into<Line>) -> Event<'static> {
        Event::Note(line.into())
    }

    /// Something to worry about.
    pub(crate) fn warning(line: impl Into<Line>) -> Event<'static> {
        Event::Warning(line.into())
    }
}

/// Whoever is told what happens.
pub type Show<'a> = dyn FnMut(Event<'_>) + 'a;
