//! Which value of a measure people see first, where it was computed over several selections: one rule for the summary, for comparisons,
//! figures, the page and Python.

use std::collections::HashSet;

use crate::states::States;
use crate::table::Table;

/// In this order a value is looked for: over the selected groups, which the summary leads with, over all states, in the kept sample.
pub const SELECTIONS: [&str; 3] = ["selected", "all", "sample"];

/// What ends the name of a variant that is the spread of another.
const SPREAD: &str = "_std";

/// Counts are known of a selection that nothing else is known of.
const COUNTS: [&str; 2] = ["groups", "states"];

/// What tables of layers have rows of, in selections that have values at all. A value may still be undefined: it is shown as such, not
/// taken from another selection. Matrices of weights have no selections, and are not looked at.
pub struct Measured<'a>(Vec<HashSet<Key<'a>>>);

/// A measure, its variant and its selection.
type Key<'a> = (&'a str, Option<&'a str>, &'a str);

impl<'a> Measured<'a> {
    /// Of tables that are shown together.
    pub fn of(tables: &[&'a Table]) -> Measured<'a> {
        let keys = |table: &&'a Table| {
            let key = |row: usize| Some((table.text("measure", row)?, table.text("variant", row), table.text("selection", row)?));
            let is_state = |row: &usize| table.integer("layer", *row).is_some();
            let keys: HashSet<Key> = (0..table.rows()).filter(is_state).filter_map(key).collect();
            let has_value =
                |row: &usize| table.real("value", *row).is_some() && table.text("measure", *row).is_some_and(|own| !COUNTS.contains(&own));
            let known: HashSet<&str> =
                (0..table.rows()).filter(is_state).filter(has_value).filter_map(|row| table.text("selection", row)).collect();
            keys.into_iter().filter(|(.., selection)| known.contains(selection)).collect()
        };
        Measured(tables.iter().map(keys).collect())
    }

    /// The same where some groups are shown beside runs in which none is selected: over all groups, like beside like.
    pub fn over_all_groups(mut self) -> Measured<'a> {
        self.0.iter_mut().for_each(|own| own.retain(|(.., selection)| !is_selected(selection)));
        self
    }

    /// The selection to show of a measure: the first that every table has that has the measure at all, so that like is shown beside
    /// like; where they have none in common, the first that one of them has.
    pub fn selection(&self, states: States, measure: &str, variant: Option<&str>) -> Option<&'static str> {
        let having: Vec<_> = self.0.iter().filter(|own| own.iter().any(|key| (key.0, key.1) == (measure, variant))).collect();
        let has = |own: &HashSet<Key>, selection: &str| own.contains(&(measure, variant, selection));
        let common = order(states).find(|selection| having.iter().all(|own| has(own, selection)) && !having.is_empty());
        common.or_else(|| order(states).find(|selection| having.iter().any(|own| has(own, selection))))
    }
}

/// Whether a selection is that of the frequency range.
pub fn is_selected(selection: &str) -> bool {
    [States::All, States::Typical].iter().any(|states| states.of("selected") == selection)
}

/// Whether groups are selected by their frequency, and none was: a table of layers counts them.
pub fn lacks_selected(layers: &Table) -> bool {
    let is_count = |row: &usize| layers.text("measure", *row) == Some("groups") && layers.text("selection", *row) == Some("selected");
    let counts: Vec<f64> = (0..layers.rows()).filter(is_count).map(|row| layers.real("value", row).unwrap_or(0.0)).collect();
    !counts.is_empty() && counts.iter().all(|count| *count == 0.0)
}

/// The selections of these states, then those of all states: not every measure was taken without the massive ones.
pub fn order(states: States) -> impl Iterator<Item = &'static str> {
    [states, States::All].into_iter().flat_map(|states| SELECTIONS.map(|selection| states.of(selection)))
}

/// The variant that the bare name of a measure stands for: the plain one, or else the first that is not the spread of another.
pub fn plain_variant<'a>(variants: impl IntoIterator<Item = Option<&'a str>>) -> Option<&'a str> {
    let named: Option<Vec<&str>> = variants.into_iter().collect();
    let named = named?;
    named.iter().find(|variant| !variant.ends_with(SPREAD)).or(named.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;

    fn layers(rows: &[(&str, &str, Option<f64>)]) -> Table {
        let text = |of: &dyn Fn(usize) -> String| Column::text((0..rows.len()).map(|row| Some(of(row))));
        Table::new([
            ("layer", Column::Integer(vec![Some(1); rows.len()])),
            ("measure", text(&|row| rows[row].0.to_owned())),
            ("variant", Column::Text(vec![None; rows.len()])),
            ("selection", text(&|row| rows[row].1.to_owned())),
            ("value", Column::Real(rows.iter().map(|row| row.2).collect())),
        ])
        .unwrap()
    }

    #[test]
    fn selected_groups_come_first_where_all_runs_have_them() {
        let both = layers(&[("q", "all", Some(1.0)), ("q", "selected", Some(2.0)), ("q", "typical_selected", Some(3.0))]);
        let few = layers(&[
            ("q", "all", Some(1.0)),
            ("q", "selected", None),
            ("groups", "selected", Some(0.0)),
            ("dimension", "sample", Some(4.0)),
        ]);
        let flat = layers(&[("q", "selected", Some(1.0)), ("cv_q", "selected", None), ("cv_q", "all", Some(1.0))]);
        let lead = |tables: &[&Table], states: States, measure: &str| Measured::of(tables).selection(states, measure, None);
        assert_eq!(lead(&[&both], States::All, "q"), Some("selected"));
        assert_eq!(lead(&[&both], States::Typical, "q"), Some("typical_selected"));
        assert_eq!(lead(&[&few], States::All, "q"), Some("all"), "no group was frequent enough");
        assert_eq!(lead(&[&both, &few], States::All, "q"), Some("all"), "like beside like");
        assert_eq!(lead(&[&both, &few], States::Typical, "q"), Some("all"));
        assert_eq!(lead(&[&both, &few], States::Typical, "dimension"), Some("sample"), "of the run that has it");
        assert_eq!(lead(&[&both], States::All, "m"), None);
        assert_eq!(lead(&[&flat], States::All, "cv_q"), Some("selected"), "undefined there, and not taken from elsewhere");
    }

    #[test]
    fn runs_without_selected_groups_are_known() {
        let few = layers(&[("q", "all", Some(1.0)), ("groups", "selected", Some(0.0))]);
        let some = layers(&[("q", "selected", Some(1.0)), ("q", "all", Some(2.0)), ("groups", "selected", Some(2.0))]);
        let ungrouped = layers(&[("q", "all", Some(1.0))]);
        assert_eq!([&few, &some, &ungrouped].map(lacks_selected), [true, false, false]);
        let over_all = Measured::of(&[&some]).over_all_groups();
        assert_eq!(over_all.selection(States::All, "q", None), Some("all"));
    }

    #[test]
    fn a_bare_name_is_the_plain_variant_or_the_first() {
        assert_eq!(plain_variant([Some("unbiased"), None]), None);
        assert_eq!(plain_variant([Some("batch_std"), Some("corpus"), Some("batch")]), Some("corpus"));
        assert_eq!(plain_variant([Some("batch_std")]), Some("batch_std"));
        assert_eq!(plain_variant([]), None);
    }
}
