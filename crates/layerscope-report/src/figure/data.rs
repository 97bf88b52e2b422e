//! A run as figures see it: rows of measures by name, groups by point, the reference library's view of layers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use layerscope_stats::measure::{fit_line, variation};

use super::Settings;
use super::font::{NAME_CHARACTERS, drawable};
use super::sheet::{Line, Paint};
use crate::run::Run;
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
    fn parse(name: &str) -> Option<Point> {
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
    pub fn of(mut rows: Vec<Row>) -> Profile {
        rows.retain(|row| row.layer.is_some());
        rows.sort_by_key(|row| (row.layer, row.point));
        let normed = rows.iter().find(|row| row.point == Point::FinalNorm).and_then(|row| row.layer);
        let before = rows.iter().position(|row| row.point == Point::Block && row.layer == normed && normed.is_some());
        let before_norm = before.map(|i| rows.remove(i)).filter(|row| row.value.is_some());
        Profile { rows, before_norm }
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

/// The columns of the groups' table, one entry a row.
pub(crate) struct Groups<'a> {
    ids: Option<&'a [Option<i64>]>,
    pub names: &'a [Option<String>],
    pub n: &'a [Option<i64>],
    q: &'a [Option<f64>],
    m: &'a [Option<f64>],
    v: &'a [Option<f64>],
    pub subwords: Option<&'a [Option<i64>]>,
    rows: BTreeMap<(i64, Point), Vec<usize>>,
}

/// A token by its id and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token {
    pub id: Option<i64>,
    pub name: String,
}

/// One group at one point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a> {
    pub id: Option<i64>,
    pub name: &'a str,
    pub n: i64,
    pub q: f64,
    pub m: f64,
    pub v: f64,
    pub subwords: Option<i64>,
}

impl Group<'_> {
    /// Whether it is this one: names alone may be shared (`ing` and `##ing`).
    pub fn is(&self, token: &Token) -> bool {
        (self.id, self.name) == (token.id, token.name.as_str())
    }

    pub fn log_n(&self) -> f64 {
        (self.n as f64).log10()
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
    rows: HashMap<Key<'a>, Vec<Row>>,
    groups: Option<Groups<'a>>,
    frequency: Option<(i64, i64)>,
}

impl<'a> View<'a> {
    /// The runs, each with a name of its own.
    pub fn all(runs: &'a [Run], settings: &Settings) -> Vec<View<'a>> {
        let names = Run::labels(&runs.iter().collect::<Vec<_>>());
        // Names that differ only in what the font lacks, or far behind, are drawn alike.
        let labels = distinct(names.iter().map(|name| drawable(name, NAME_CHARACTERS)).collect());
        let mut slugs: Vec<String> = Vec::new();
        for label in &labels {
            slugs.push(unique(slug(label), &slugs));
        }
        let named = names.into_iter().zip(labels).zip(slugs).zip(runs).enumerate();
        named
            .map(|(series, (((name, label), slug), run))| View {
                run,
                name,
                label,
                slug,
                series,
                rows: measures(&run.layers),
                groups: run.groups.as_ref().and_then(groups),
                frequency: settings.frequency,
            })
            .collect()
    }

    pub fn rows(&self, key: Key) -> &[Row] {
        self.rows.iter().find(|(own, _)| **own == key).map_or(&[], |(_, rows)| rows)
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

    /// A measure along the layers, of this step; of the last one if none is named.
    pub fn profile(&self, key: Key, step: Option<i64>) -> Profile {
        let rows = self.rows(key);
        let step = step.or_else(|| rows.iter().filter_map(|row| row.step).max());
        Profile::of(rows.iter().filter(|row| row.step == step).copied().collect())
    }

    /// The first of these selections that has the measure.
    pub fn profile_of(&self, measure: &str, variants: &[Option<&str>], selections: &[&str]) -> Option<(Profile, String)> {
        let found = selections.iter().flat_map(|selection| variants.iter().map(move |variant| (*selection, *variant)));
        found
            .map(|(selection, variant)| (self.profile(Key { measure, variant, selection }, None), selection.to_owned()))
            .find(|(profile, _)| profile.defined())
    }

    /// What the groups' regressions range over: what was asked for, or what the run says.
    pub fn frequency(&self) -> (i64, i64) {
        self.frequency.unwrap_or_else(|| self.own_frequency())
    }

    /// The range of the run's own `selected` rows.
    pub fn own_frequency(&self) -> (i64, i64) {
        let range = self.run.manifest.frequency().unwrap_or_default();
        (bounded(range.minimum), bounded(range.maximum))
    }

    /// How states were grouped.
    pub fn grouping(&self) -> &str {
        self.run.manifest.grouping()
    }

    fn is_filtered(&self) -> bool {
        matches!(self.grouping(), "token" | "surface" | "word")
    }

    /// Every layer there are groups of, each at the reference library's point.
    pub fn group_points(&self) -> Vec<(i64, Point)> {
        let points: BTreeMap<i64, Point> = self.groups.iter().flat_map(|groups| groups.rows.keys().copied()).collect();
        points.into_iter().collect()
    }

    /// The groups at a point, those of the frequency range or all.
    pub fn groups_at(&self, at: (i64, Point), filtered: bool) -> Vec<Group<'_>> {
        let Some(groups) = &self.groups else { return Vec::new() };
        let (low, high) = if filtered && self.is_filtered() { self.frequency() } else { (1, i64::MAX) };
        let rows = groups.rows.get(&at).map_or(&[][..], Vec::as_slice);
        let group = |row: &usize| {
            let n = groups.n[*row].filter(|n| (low..=high).contains(n))?;
            let subwords = groups.subwords.and_then(|subwords| subwords[*row]);
            Some(Group {
                id: groups.ids.and_then(|ids| ids[*row]),
                name: groups.names[*row].as_deref().unwrap_or(""),
                n,
                q: groups.q[*row]?,
                m: groups.m[*row]?,
                v: groups.v[*row]?,
                subwords,
            })
        };
        rows.iter().filter_map(group).collect()
    }

    /// C.V. of Q, slope of V on M and R^2 along the layers: the run's own, or over another frequency range.
    pub fn norm_profile(&self, measure: &str) -> Option<Profile> {
        if self.frequency.is_none_or(|range| range == self.own_frequency()) {
            let own = self.profile(Key { measure, variant: None, selection: "selected" }, None);
            if own.defined() {
                return Some(own);
            }
        }
        let value = |at: (i64, Point)| over_groups(measure, &self.groups_at(at, true));
        let rows = self.groups.as_ref()?.rows.keys().map(|at| Row { value: value(*at), ..at_point(*at) }).collect();
        Some(Profile::of(rows)).filter(Profile::defined)
    }
}

/// One of the measures over groups (Yamagiwa and Shimodaira).
pub(crate) fn over_groups(measure: &str, groups: &[Group]) -> Option<f64> {
    let of = |value: fn(&Group) -> f64| groups.iter().map(value).collect::<Vec<f64>>();
    let on_log_n = |value: fn(&Group) -> f64| fit_line(&of(|group| group.log_n()), &of(value)).map(|line| line.slope);
    match measure {
        "cv_q" => variation(&of(|group| group.q)),
        "slope_v_on_m" => fit_line(&of(|group| group.m), &of(|group| group.v)).map(|line| line.slope),
        "r2_v_on_m" => fit_line(&of(|group| group.m), &of(|group| group.v)).map(|line| line.r2),
        "slope_log_q_on_log_n" => on_log_n(|group| (1.0 + group.q).log10()),
        "slope_log_m_on_log_n" => on_log_n(|group| (1.0 + group.m).log10()),
        "slope_log_v_on_log_n" => on_log_n(|group| (1.0 + group.v).log10()),
        _ => None,
    }
}

/// A count of a manifest among those of tables.
pub(crate) fn bounded(count: u64) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

fn at_point((layer, point): (i64, Point)) -> Row {
    Row { layer: Some(layer), point, value: None, se: None, step: None }
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

pub(crate) fn texts<'a>(table: &'a Table, name: &str) -> Option<&'a [Option<String>]> {
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
        let entry = Row { layer: integer("layer", row), point, value: real("value", row), se: real("se", row), step: integer("step", row) };
        rows.entry(Key { measure, variant, selection }).or_default().push(entry);
    }
    rows
}

fn groups(table: &Table) -> Option<Groups<'_>> {
    let (layers, points) = (integers(table, "layer")?, texts(table, "point")?);
    let mut rows: BTreeMap<(i64, Point), Vec<usize>> = BTreeMap::new();
    for row in 0..table.rows() {
        if let (Some(layer), Some(point)) = (layers[row], points[row].as_deref().and_then(Point::parse)) {
            rows.entry((layer, point)).or_default().push(row);
        }
    }
    Some(Groups {
        ids: integers(table, "group_id"),
        names: texts(table, "group")?,
        n: integers(table, "n")?,
        q: reals(table, "q")?,
        m: reals(table, "m")?,
        v: reals(table, "v")?,
        subwords: integers(table, "subwords"),
        rows,
    })
}
