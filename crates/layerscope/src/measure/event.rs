//! What happens while work goes on, for whoever shows it.

use layerscope_error::Line;
use layerscope_report::Manifest;

use super::outlook::Outlook;

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
    /// One of several runs begins, the first with number 1.
    Part {
        /// Which.
        number: usize,
        /// How many there are.
        of: usize,
    },
    /// What there will be to do, for the time that it will take.
    Ahead(Outlook),
    /// The text is being read.
    Reading(layerscope_corpus::Progress),
    /// States that were computed elsewhere are being read.
    Importing {
        /// Those of a file, or of files that are layers of the same tokens, that are done at all layers.
        states: u64,
        /// All of them.
        of: u64,
    },
    /// The weights are being read, and nothing else can be done meanwhile.
    Loading {
        /// Bytes done.
        bytes: u64,
        /// All bytes.
        of: u64,
    },
    /// The same while the files of the weights are hashed.
    Hashing {
        /// Bytes done.
        bytes: u64,
        /// All bytes.
        of: u64,
    },
    /// The first documents run through the model.
    Pilot {
        /// Tokens done.
        tokens: u64,
        /// All tokens.
        of: u64,
    },
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
    /// States are being written.
    Writing {
        /// Bytes done.
        bytes: u64,
    },
    /// Shards are being merged.
    Merging {
        /// Points done.
        done: usize,
        /// All points.
        of: usize,
    },
    /// The tables are being made.
    Tables {
        /// Points done.
        done: usize,
        /// All points.
        of: usize,
    },
    /// Something is being computed that has no parts to count.
    Computing,
    /// Figures are being drawn.
    Drawing {
        /// Figures done.
        done: usize,
        /// All figures.
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
