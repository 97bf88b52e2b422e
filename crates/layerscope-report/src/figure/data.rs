//! A run as figures see it: rows of measures by name, groups by point, the reference library's view of layers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use super::Settings;
use super::font::{NAME_CHARACTERS, drawable};
use super::groups::{Group, Groups, over_groups};
use super::sheet::{Line, Paint};
use crate::lead::{Measured, is_selected, lacks_selected, order};
use crate::run::Run;
use crate::states::{States, has_typical_groups, massive};
use crate::table::{Cell, Column, Table};
use crate::text::distinct;

/// A place in the network; those of one layer in the order of the computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Point {
    Embedding,
    Block,
    FinalNorm,
    InputEmbedding,
    OutputEmbedding,
}

impl Point {
    pub fn parse(name: &str) -> Option<Point> {
        [Point::Embedding, Point::Block, Point::FinalNorm, Point::InputEmbedding, Point::OutputEmbedding]
            .into_iter()
            .find(|point| point.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Point::Embedding => "embedding",
            Point::Block => "block",
            Point::FinalNorm => "final_norm",
            Point::InputEmbedding => "input_embedding",
            Point::OutputEmbedding => "output_embedding",
        }
    }
}

/// One value of a measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    pub layer: Option<i64>,
    pub point: Point,
    pub value: Option<f64>,
    pub se: Option<f64>,
    pub step: Option<i64>,
    /// What the value is computed over.
    pub n: Option<i64>,
}

/// Which rows of the table of measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key<'a> {
    pub measure: &'a str,
    pub variant: Option<&'a str>,
    pub selection: &'a str,
}

/// A measure along the layers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    /// One row a layer: the reference library's view, after the final norm where there is one.
    pub rows: Vec<Row>,
    /// The last block's own output, where a final norm follows it.
    pub before_norm: Option<Row>,
}

impl Profile {
    fn of(mut rows: Vec<Row>) -> Profile {
        rows.retain(|row| row.layer.is_some());
        rows.sort_by_key(|row| (row.layer, row.point));
        let normed = rows.iter().find(|row| row.point == Point::FinalNorm).and_then(|row| row.layer);
        let before = rows.iter().position(|row| row.point == Point::Block && row.layer == normed && normed.is_some());
        let before_norm = before.map(|i| rows.remove(i)).filter(|row| row.value.is_some());
        Profile { rows, before_norm }
    }

    /// Of the last training step, where there are several.
    pub fn of_last_step(rows: &[Row]) -> Profile {
        Profile::of_step(rows, rows.iter().filter_map(|row| row.step).max())
    }

    pub fn of_step(rows: &[Row], step: Option<i64>) -> Profile {
        Profile::of(rows.iter().filter(|row| row.step == step).copied().collect())
    }

    pub fn defined(&self) -> bool {
        self.rows.iter().any(|row| row.value.is_some())
    }

    /// The line through it, with the last block's own output beside it, joined to the point before.
    pub fn line(&self, paint: Paint, x: impl Fn(i64) -> f64) -> Line {
        let place = |row: &Row| x(row.layer.unwrap_or(0));
        let mut line = Line::new(self.rows.iter().map(|row| (place(row), row.value)).collect(), paint);
        if let Some(before) = &self.before_norm {
            let earlier = self.rows.iter().rfind(|row| row.layer < before.layer && row.value.is_some());
            let to = (place(before), before.value.unwrap_or(0.0));
            let from = earlier.map_or(to, |row| (place(row), row.value.unwrap_or(0.0)));
            line.hollow.push((from, to));
        }
        line
    }

    /// The rows that are drawn, hollow one last.
    pub fn all(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().chain(&self.before_norm)
    }
}

/// Rows of a measure, and which they are.
pub(crate) struct Found<'k> {
    pub rows: Vec<Row>,
    pub selection: &'static str,
    pub variant: Option<&'k str>,
}

impl Found<'_> {
    fn is_defined(&self) -> bool {
        self.rows.iter().any(|row| row.value.is_some())
    }
}

/// One run with its name, its number (colour and marker) and its tables, indexed.
pub(crate) struct View<'a> {
    pub run: &'a Run,
    /// Its name among the runs, as captions give it.
    pub name: String,
    /// The same as it is drawn.
    pub label: String,
    /// Its name in file names.
    pub slug: String,
    pub series: usize,
    /// The states that are shown of it.
    pub states: States,
    /// Whether some of its states are massive.
    pub has_massive: bool,
    rows: HashMap<Key<'a>, Vec<Row>>,
    groups: Option<Groups<'a>>,
    frequency: Option<(i64, i64)>,
    /// Whether all groups stand for the selected ones, since one of the runs that are shown together has none.
    pub over_all: bool,
    selected_groups: OnceLock<Option<usize>>,
    measured: Arc<Measured<'a>>,
}

impl<'a> View<'a> {
    /// The runs, each with a name of its own.
    pub fn all(runs: &'a [Run], settings: &Settings) -> Vec<View<'a>> {
        let together: Vec<&Run> = runs.iter().collect();
        let names = Run::labels(&together);
        let wanted = settings.states.unwrap_or_else(|| States::lead(&together));
        // Runs of older programs, which have no typical states, do not decide what others show of theirs.
        let decides = |run: &&Run| wanted == States::All || has_typical_groups(&run.layers);
        let deciding: Vec<&Table> = runs.iter().filter(decides).map(|run| &run.layers).collect();
        let measured = Arc::new(Measured::of(&deciding));
        // Names that differ only in what the font lacks, or far behind, are drawn alike.
        let labels = distinct(names.iter().map(|name| drawable(name, NAME_CHARACTERS)).collect());
        let mut slugs: Vec<String> = Vec::new();
        for label in &labels {
            slugs.push(unique(slug(label), &slugs));
        }
        let named = names.into_iter().zip(labels).zip(slugs).zip(runs).enumerate();
        let mut views: Vec<View> = named
            .map(|(series, (((name, label), slug), run))| {
                // Runs of older programs show what they have.
                let states = if has_typical_groups(&run.layers) { wanted } else { States::All };
                View {
                    run,
                    name,
                    label,
                    slug,
                    series,
                    states,
                    has_massive: !massive(&run.layers).is_empty(),
                    rows: measures(&run.layers),
                    groups: run.groups.as_ref().and_then(|table| Groups::of(table, states)),
                    frequency: settings.frequency,
                    over_all: false,
                    selected_groups: OnceLock::new(),
                    measured: measured.clone(),
                }
            })
            .collect();
        if views.iter().any(View::lacks_selected) {
            let measured = Arc::new(Measured::of(&deciding).over_all_groups());
            views.iter_mut().for_each(|view| (view.over_all, view.measured) = (true, measured.clone()));
        }
        views
    }

    /// The rows of exactly this name.
    pub fn rows(&self, key: Key) -> &[Row] {
        self.rows.iter().find(|(own, _)| **own == key).map_or(&[], |(_, rows)| rows)
    }

    /// The first of these variants that the run has of a measure of hidden states, in the selection that leads.
    pub fn found<'k>(&self, measure: &str, variants: &[Option<&'k str>]) -> Option<Found<'k>> {
        let found = variants.iter().filter_map(|variant| {
            let lead = self.measured.selection(self.states, measure, *variant);
            // A run that shares no selection with the others shows the first it has.
            let is_shown = |selection: &&str| !self.over_all || !is_selected(selection);
            lead.into_iter().chain(order(self.states)).filter(is_shown).find_map(|name| self.found_in(measure, *variant, name))
        });
        found.into_iter().find(Found::is_defined)
    }

    /// The same of exactly this variant and selection.
    pub fn found_of<'k>(&self, measure: &str, variant: Option<&'k str>, selection: &'static str) -> Option<Found<'k>> {
        self.found_in(measure, variant, selection).filter(Found::is_defined)
    }

    fn found_in<'k>(&self, measure: &str, variant: Option<&'k str>, selection: &'static str) -> Option<Found<'k>> {
        let rows: Vec<Row> = self.rows(Key { measure, variant, selection }).iter().filter(|row| row.layer.is_some()).copied().collect();
        (!rows.is_empty()).then_some(Found { rows, selection, variant })
    }

    /// The training steps that were measured.
    pub fn steps(&self) -> Vec<i64> {
        let steps: BTreeSet<i64> = self.rows.values().flatten().filter_map(|row| row.step).collect();
        steps.into_iter().collect()
    }

    /// Whether the run follows a training.
    pub fn is_trajectory(&self) -> bool {
        self.steps().len() > 1
    }

    /// What the groups' regressions range over. None where that is every group.
    pub fn frequency(&self) -> Option<(i64, i64)> {
        self.wanted_frequency().filter(|_| !self.over_all)
    }

    /// The range that was asked for, or what the run says, whether it selects a group or not.
    pub fn wanted_frequency(&self) -> Option<(i64, i64)> {
        self.own_frequency().map(|own| self.frequency.unwrap_or(own))
    }

    /// Whether groups are selected by their frequency, and none is.
    pub fn lacks_selected(&self) -> bool {
        let has_range = self.wanted_frequency().is_some();
        has_range
            && match &self.groups {
                Some(groups) if groups.points().next().is_some() => groups.points().all(|at| self.in_range(at) == 0),
                _ => lacks_selected(&self.run.layers),
            }
    }

    /// How many groups at a point have a frequency in the range.
    pub fn in_range(&self, at: (i64, Point)) -> usize {
        let count = |groups: &Groups| groups.at(at, self.wanted_frequency()).iter().filter(|group| group.selected).count();
        self.groups.as_ref().map_or(0, count)
    }

    /// Whether a measure depends on which groups are selected: then it was taken of those too.
    pub fn is_of_groups(&self, measure: &str, variant: Option<&str>) -> bool {
        let has = |states: States| !self.rows(Key { measure, variant, selection: states.of("selected") }).is_empty();
        [States::All, States::Typical].into_iter().any(has)
    }

    /// The range of the run's own `selected` rows. None where every group is selected.
    pub fn own_frequency(&self) -> Option<(i64, i64)> {
        let range = self.run.manifest.frequency().unwrap_or_default();
        let has_range = matches!(self.grouping(), "token" | "surface" | "word");
        has_range.then(|| (bounded(range.minimum), bounded(range.maximum)))
    }

    /// How states were grouped.
    pub fn grouping(&self) -> &str {
        self.run.manifest.grouping()
    }

    /// Every layer there are groups of, each at the reference library's point.
    pub fn group_points(&self) -> Vec<(i64, Point)> {
        let points: BTreeMap<i64, Point> = self.groups.iter().flat_map(Groups::points).collect();
        points.into_iter().collect()
    }

    /// All groups at a point.
    pub fn groups_at(&self, at: (i64, Point)) -> Vec<Group<'_>> {
        self.groups.as_ref().map_or(Vec::new(), |groups| groups.at(at, self.frequency()))
    }

    /// Those of the frequency range.
    pub fn selected_at(&self, at: (i64, Point)) -> Vec<Group<'_>> {
        let mut groups = self.groups_at(at);
        groups.retain(|group| group.selected);
        groups
    }

    /// How many groups are selected where the fewest are: from the groups, or from the regressions of a run that has no table of them.
    pub fn selected_groups(&self) -> Option<usize> {
        *self.selected_groups.get_or_init(|| {
            if let Some(groups) = &self.groups {
                return groups.points().map(|at| self.selected_at(at).len()).min();
            }
            let found = self.found("slope_v_on_m", &[None])?;
            Profile::of_last_step(&found.rows).all().filter_map(|row| row.n.map(|n| n.max(0) as usize)).min()
        })
    }

    /// C.V. of Q, slope of V on M and R^2 along the layers, from the groups: over the range that was asked for.
    pub fn profile_over_groups(&self, measure: &str) -> Option<Profile> {
        let value = |at: (i64, Point)| over_groups(measure, &self.selected_at(at));
        let rows = self.groups.as_ref()?.points().map(|at| Row { value: value(at), ..at_point(at) }).collect();
        Some(Profile::of(rows)).filter(Profile::defined)
    }
}

/// A count of a manifest among those of tables.
pub(crate) fn bounded(count: u64) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

fn at_point((layer, point): (i64, Point)) -> Row {
    Row { layer: Some(layer), point, value: None, se: None, step: None, n: None }
}

fn unique(name: String, taken: &[String]) -> String {
    let mut candidates = std::iter::once(name.clone()).chain((2..).map(|i| format!("{name}-{i}")));
    candidates.find(|candidate| !taken.contains(candidate)).expect("an endless list")
}

/// Lower-case letters, digits and single dashes: safe in file names and in LaTeX.
fn slug(label: &str) -> String {
    let mut slug = String::new();
    for character in label.to_lowercase().chars() {
        if character.is_ascii_alphanumeric() {
            slug.push(character);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "model".into() } else { slug.into() }
}

pub(crate) fn texts<'a>(table: &'a Table, name: &str) -> Option<&'a [Option<Arc<str>>]> {
    if let Some(Column::Text(values)) = table.column(name) { Some(values) } else { None }
}

pub(crate) fn integers<'a>(table: &'a Table, name: &str) -> Option<&'a [Option<i64>]> {
    if let Some(Column::Integer(values)) = table.column(name) { Some(values) } else { None }
}

pub(crate) fn reals<'a>(table: &'a Table, name: &str) -> Option<&'a [Option<f64>]> {
    if let Some(Column::Real(values)) = table.column(name) { Some(values) } else { None }
}

fn measures(table: &Table) -> HashMap<Key<'_>, Vec<Row>> {
    let mut rows: HashMap<Key, Vec<Row>> = HashMap::new();
    let column = |name: &str| table.column(name);
    let (Some(measures), Some(points)) = (texts(table, "measure"), texts(table, "point")) else { return rows };
    let variants = texts(table, "variant");
    let selections = texts(table, "selection");
    let integer = |name: &str, row: usize| match column(name).map(|column| column.cell(row)) {
        Some(Cell::Integer(value)) => Some(value),
        _ => None,
    };
    let real = |name: &str, row: usize| match column(name).map(|column| column.cell(row)) {
        Some(Cell::Real(value)) => Some(value),
        Some(Cell::Integer(value)) => Some(value as f64),
        _ => None,
    };
    for row in 0..table.rows() {
        let (Some(measure), Some(point)) = (&measures[row], points[row].as_deref().and_then(Point::parse)) else { continue };
        let variant = variants.and_then(|variants| variants[row].as_deref());
        let selection = selections.and_then(|selections| selections[row].as_deref()).unwrap_or("all");
        let entry = Row {
            layer: integer("layer", row),
            point,
            value: real("value", row),
            se: real("se", row),
            step: integer("step", row),
            n: integer("n", row),
        };
        rows.entry(Key { measure, variant, selection }).or_default().push(entry);
    }
    rows
}
