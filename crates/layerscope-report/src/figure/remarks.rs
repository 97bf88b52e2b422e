//! What must be said of a figure beside what it shows: in its caption, and on the picture, which may be seen without it.

use super::data::View;
use super::tex;
use crate::lead::is_selected;
use crate::together::FEW_GROUPS;

/// Sentences of a caption, and quiet lines under a picture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remarks {
    /// In LaTeX.
    sentences: Vec<String>,
    footnotes: Vec<String>,
    /// Whether what differs between runs is nothing to the figure: it is of one of them, or not of states.
    pub alone: bool,
}

impl Remarks {
    /// Of a figure that is of one run, or to which texts and groups are nothing.
    pub fn alone() -> Remarks {
        Remarks { alone: true, ..Remarks::default() }
    }

    pub fn sentence(mut self, latex: String) -> Remarks {
        self.sentences.push(latex);
        self
    }

    pub fn footnote(mut self, words: String) -> Remarks {
        self.footnotes.push(words);
        self
    }

    /// Of a figure that shows these runs together: how else they differ.
    pub fn together(self, differences: &[String]) -> Remarks {
        let capital = |text: &str| text[..1].to_uppercase() + &text[1..];
        differences.iter().fold(self, |remarks, note| remarks.sentence(capital(note) + "."))
    }

    pub fn sentences(&self) -> &[String] {
        &self.sentences
    }

    pub fn footnotes(&self) -> &[String] {
        &self.footnotes
    }
}

/// The runs of a figure with few groups, or with none in the range of frequencies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Few {
    /// Caption name, name on the picture, and how many groups there are.
    few: Vec<(String, String, usize)>,
    /// The same names of runs without selected groups.
    none: Vec<(String, String)>,
    /// Whether all groups are shown, since some run has no others.
    over_all: bool,
}

impl Few {
    /// A run is shown with so many groups, as far as they are known.
    pub fn push(&mut self, view: &View, groups: Option<usize>) {
        self.over_all |= view.over_all;
        let names = (view.name.clone(), view.label.clone());
        if view.lacks_selected() && !self.none.contains(&names) {
            self.none.push(names);
        }
        let Some(groups) = groups.filter(|groups| *groups < FEW_GROUPS) else { return };
        match self.few.iter_mut().find(|(name, ..)| *name == view.name) {
            Some((_, _, fewest)) => *fewest = groups.min(*fewest),
            None => self.few.push((view.name.clone(), view.label.clone(), groups)),
        }
    }

    /// A measure of a run is shown in this selection: whether that is one of groups is known from the run.
    pub fn push_found(&mut self, view: &View, measure: &str, variant: Option<&str>, selection: &str) -> Option<usize> {
        let is_of_groups = is_selected(selection) || (view.over_all && view.is_of_groups(measure, variant));
        let groups = view.selected_groups().filter(|_| is_of_groups);
        if is_of_groups {
            self.push(view, groups);
        }
        groups
    }

    pub fn remarks(&self) -> Remarks {
        let mut remarks = Remarks::default();
        if !self.none.is_empty() {
            let each = |of: &dyn Fn(&(String, String)) -> String| self.none.iter().map(of).collect::<Vec<_>>().join(", ");
            remarks = remarks
                .sentence(format!("No group is selected in {}: all groups are shown.", each(&|(name, _)| tex::name(name))))
                .footnote(format!("no selected groups in {}: all are shown", each(&|(_, label)| label.clone())));
        }
        if !self.few.is_empty() {
            let each = |of: &dyn Fn(&(String, String, usize)) -> String| self.few.iter().map(of).collect::<Vec<_>>().join("; ");
            let are = if self.over_all { "There are few groups" } else { "Few groups are selected" };
            remarks = remarks
                .sentence(format!(
                    "{are} ({}): what is computed over fewer than {FEW_GROUPS} depends on single ones.",
                    each(&|(name, _, groups)| format!("{}: {groups}", tex::name(name)))
                ))
                .footnote(format!("few groups: {}", each(&|(_, label, groups)| format!("{groups} in {label}"))));
        }
        remarks
    }
}
