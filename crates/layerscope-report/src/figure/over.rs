//! What captions say of the groups that numbers are over.

use super::data::View;
use super::tex;
use crate::lead::is_selected;
use crate::states::States;

/// What the numbers of a figure are over, run by run and measure by measure.
#[derive(Default)]
pub(crate) struct Over(Vec<Entry>);

#[derive(PartialEq)]
struct Entry {
    run: String,
    measure: String,
    words: String,
}

impl Over {
    /// A measure of a run is shown in this selection of its table.
    pub fn selection(&mut self, view: &View, measure: &str, selection: &str) {
        let is_sample = [States::All, States::Typical].iter().any(|states| states.of("sample") == selection);
        match is_sample {
            true => self.push(view, measure, "the kept sample of states".into()),
            false => self.measure(view, measure, view.own_frequency().filter(|_| is_selected(selection))),
        }
    }

    /// A run is shown with the groups of this range; with all of them where there is none.
    pub fn range(&mut self, view: &View, range: Option<(i64, i64)>) {
        self.measure(view, "", range);
    }

    /// The same of one of its measures.
    pub fn measure(&mut self, view: &View, measure: &str, range: Option<(i64, i64)>) {
        let words = match range {
            None => "all groups".to_owned(),
            Some((low, high)) => {
                let is_other = view.frequency().is_some_and(|asked| asked != (low, high));
                let why = if is_other { ", the run's own range since it keeps no state to compute another from" } else { "" };
                format!("groups with {} to {} states{why}", tex::count(low), tex::count(high))
            }
        };
        self.push(view, measure, words);
    }

    fn push(&mut self, view: &View, measure: &str, words: String) {
        let entry = Entry { run: tex::name(&view.name), measure: measure.to_owned(), words };
        if !self.0.contains(&entry) {
            self.0.push(entry);
        }
    }

    /// "groups with 10 to 100,000 states", for each run or each measure where they differ.
    pub fn words(&self) -> String {
        let mut distinct: Vec<&str> = Vec::new();
        self.0.iter().for_each(|entry| distinct.extend((!distinct.contains(&entry.words.as_str())).then_some(entry.words.as_str())));
        if let [] | [_] = distinct[..] {
            return distinct.first().map_or("all groups".to_owned(), |words| (*words).to_owned());
        }
        let decides =
            |of: fn(&Entry) -> &str| self.0.iter().all(|one| self.0.iter().all(|other| of(one) != of(other) || one.words == other.words));
        let name = |entry: &Entry| match (decides(|entry| &entry.run), decides(|entry| &entry.measure)) {
            (true, _) => entry.run.clone(),
            (false, true) => entry.measure.clone(),
            (false, false) => format!("{} of {}", entry.measure, entry.run),
        };
        let each = |words: &str| {
            let mut names: Vec<String> = Vec::new();
            for name in self.0.iter().filter(|entry| entry.words == words).map(name) {
                names.extend((!names.contains(&name)).then_some(name));
            }
            format!("{words} ({})", names.join(", "))
        };
        distinct.into_iter().map(each).collect::<Vec<_>>().join("; ")
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A sentence of the caption.
    pub fn sentence(&self) -> String {
        format!("Over {}.", self.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_and_nothing_else() {
        let words = |entries: &[[&str; 3]]| {
            let entry =
                |[run, measure, words]: &[&str; 3]| Entry { run: (*run).into(), measure: (*measure).into(), words: (*words).into() };
            Over(entries.iter().map(entry).collect()).words()
        };
        assert_eq!(words(&[]), "all groups");
        assert_eq!(words(&[["a", "q", "x"], ["b", "m", "x"]]), "x");
        assert_eq!(words(&[["a", "q", "x"], ["b", "q", "y"], ["c", "q", "x"], ["a", "m", "x"]]), "x (a, c); y (b)");
        assert_eq!(words(&[["a", "q", "x"], ["a", "m", "y"], ["b", "q", "x"], ["b", "m", "y"]]), "x (q); y (m)");
        assert_eq!(words(&[["a", "q", "x"], ["a", "m", "y"], ["b", "q", "y"]]), "x (q of a); y (m of a, q of b)");
    }
}
