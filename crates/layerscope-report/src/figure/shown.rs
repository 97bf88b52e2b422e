//! What captions say of the states that a figure shows.

use super::data::View;
use crate::states::States;

/// The states that a figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// No state is massive, or the figure is not about states: nothing to be said.
    Any,
    /// These, out of some that are massive.
    Only(States),
    /// Both, in different places.
    Mixed,
}

impl Shown {
    /// Of two parts of a figure.
    pub fn and(self, other: Shown) -> Shown {
        match (self, other) {
            (Shown::Any, one) | (one, Shown::Any) => one,
            (one, other) if one == other => one,
            _ => Shown::Mixed,
        }
    }

    pub fn of_all(parts: impl IntoIterator<Item = Shown>) -> Shown {
        parts.into_iter().fold(Shown::Any, Shown::and)
    }

    /// A sentence of the caption.
    pub fn sentence(self) -> &'static str {
        match self {
            Shown::Any => "",
            Shown::Only(States::Typical) => "Without massive states.",
            Shown::Only(States::All) => "All states, massive ones included.",
            Shown::Mixed => {
                "Some values are without massive states and some with them; the column \\texttt{selection} of the numbers tells."
            }
        }
    }

    /// What the figure itself says, since it may be seen without its caption: only that something was left out.
    pub fn footnote(self) -> Option<&'static str> {
        match self {
            Shown::Any | Shown::Only(States::All) => None,
            Shown::Only(States::Typical) => Some("without massive states"),
            Shown::Mixed => Some("partly without massive states"),
        }
    }
}

impl View<'_> {
    /// What rows of this selection show.
    pub fn shown(&self, selection: &str) -> Shown {
        let states = if selection.starts_with(States::Typical.name()) { States::Typical } else { States::All };
        if self.has_massive { Shown::Only(states) } else { Shown::Any }
    }

    /// What its groups and tokens show.
    pub fn shown_in_tables(&self) -> Shown {
        self.shown(self.states.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_differ_are_mixed() {
        let (typical, all) = (Shown::Only(States::Typical), Shown::Only(States::All));
        assert_eq!(Shown::of_all([Shown::Any, typical, typical, Shown::Any]), typical);
        assert_eq!(Shown::of_all([typical, all]), Shown::Mixed);
        assert_eq!(Shown::of_all([]).sentence(), "");
    }
}
