//! What the page's data is made of: an index in JSON, and the blocks it names.

use std::borrow::Cow;
use std::path::Path;

use layerscope_stats::measure::MEASURES;
use serde_json::{Map, Value, json};

use super::block::Block;
use super::cut::{Cut, Holder};
use super::steps::{Parts, Projection, StepSource, steps_of};
use super::token_components;
use super::views::{self, View};
use super::{BOOK, Settings};
use crate::error::{Error, Result};
use crate::lead::{SELECTIONS, lacks_selected};
use crate::manifest::Manifest;
use crate::run::{Run, stored_table};
use crate::states::{States, has_typical_groups, massive_line};
use crate::together::differences;

/// The tables that are cut by point, those of small blocks first.
pub(super) const LARGE: [&str; 6] = ["spectra", "massive", "components", "tokens", "groups", TOKEN_COMPONENTS];

/// The largest one, of which a file does not always have all points.
pub(super) const TOKEN_COMPONENTS: &str = "token_components";

/// What takes a block and its name.
type Emit<'a> = dyn FnMut(&str, Block) -> Result<()> + 'a;

/// A run as the page sees it: its small tables in memory, the large ones wherever they are.
pub(super) struct Source<'a> {
    pub run: Cow<'a, Run>,
    cuts: Vec<Cut<'a>>,
    steps: Vec<StepSource>,
    projections: Vec<Projection>,
}

impl<'a> Source<'a> {
    /// Of a run that was read, with the tables that some views read; those that only the page wants stay on disk.
    pub fn of(run: &'a Run, only: &[&View]) -> Result<Source<'a>> {
        let kinds: Vec<&'static str> = LARGE.into_iter().filter(|kind| views::read(only, kind)).collect();
        let cut = |kind: &'static str| {
            let table = match kind {
                "spectra" => &run.spectra,
                "components" => &run.components,
                "tokens" => &run.tokens,
                "groups" => &run.groups,
                TOKEN_COMPONENTS => return stored(&run.folder, &run.manifest, kind).map(|cut| Ok(cut?.within(token_components::ROWS))),
                _ => return stored(&run.folder, &run.manifest, kind),
            };
            table.as_ref().map(|table| Cut::new(kind, Holder::Memory(table)))
        };
        let cuts = kinds.iter().filter_map(|kind| cut(kind)).collect::<Result<_>>()?;
        let projections = if views::read(only, "projections") { Projection::all(run, Parts::Some)? } else { Vec::new() };
        Ok(Source { cuts, steps: steps_of(run, Parts::Some, &kinds)?, projections, run: Cow::Borrowed(run) })
    }

    /// Of a run on disk, whose large tables stay there.
    pub fn open(folder: &Path) -> Result<Source<'static>> {
        let run = Run::open_small(folder)?;
        let cuts = cuts_in(folder, &run.manifest, &LARGE)?;
        let (steps, projections) = (steps_of(&run, Parts::All, &LARGE)?, Projection::all(&run, Parts::All)?);
        Ok(Source { run: Cow::Owned(run), cuts, steps, projections })
    }

    /// Every large table of its own, and the name of its blocks without their number.
    fn own_cuts(&self, number: usize) -> impl Iterator<Item = (String, &Cut<'a>)> {
        self.cuts.iter().map(move |cut| (format!("run{number}.{}.", cut.kind), cut))
    }

    /// Its steps and their names.
    fn steps(&self, number: usize) -> impl Iterator<Item = (String, &StepSource)> {
        self.steps.iter().enumerate().map(move |(j, step)| (format!("run{number}.step{j}"), step))
    }

    /// Those of its own and those of its steps.
    fn cuts(&self, number: usize) -> impl Iterator<Item = (String, &Cut<'a>)> {
        let of_steps = self.steps(number).flat_map(|(prefix, step)| step.cuts(&prefix).collect::<Vec<_>>());
        self.own_cuts(number).chain(of_steps)
    }

    /// The blocks that are no points: names of the steps' groups, embedding matrices.
    fn others(&self, number: usize) -> impl Iterator<Item = (String, Other<'_>)> {
        let names = self.steps(number).map(|(prefix, step)| (format!("{prefix}.groups"), Other::Names(step)));
        let matrices =
            self.projections.iter().enumerate().map(move |(k, own)| (format!("run{number}.projections.{k}"), Other::Matrices(own)));
        names.chain(matrices)
    }
}

/// A block that is no point.
enum Other<'a> {
    Names(&'a StepSource),
    Matrices(&'a Projection),
}

impl Other<'_> {
    fn block(&self) -> Option<Block> {
        match self {
            Other::Names(step) => step.names(),
            Other::Matrices(own) => Some(own.block()),
        }
    }
}

/// Some of the large tables of a run on disk.
pub(super) fn cuts_in(folder: &Path, manifest: &Manifest, kinds: &[&'static str]) -> Result<Vec<Cut<'static>>> {
    kinds.iter().filter_map(|kind| stored(folder, manifest, kind)).collect()
}

/// A table on disk, where there is one.
fn stored(folder: &Path, manifest: &Manifest, kind: &'static str) -> Option<Result<Cut<'static>>> {
    let table = stored_table(folder, manifest, kind).transpose()?;
    Some(table.and_then(|table| Cut::new(kind, Holder::Disk(table))))
}

/// Emits the index, then the blocks every view needs.
pub(super) fn common(sources: &[Source], labels: &[String], title: &str, settings: &Settings, emit: &mut Emit) -> Result<()> {
    let mut kept = Vec::new();
    let mut entries = Vec::new();
    for (i, (source, label)) in sources.iter().zip(labels).enumerate() {
        let run = &source.run;
        let left_out: Map<String, Value> =
            source.cuts.iter().filter(|cut| cut.left_out > 0).map(|cut| (cut.kind.to_owned(), json!(cut.left_out))).collect();
        let mut entry = json!({
            "label": label, "manifest": run.manifest, "left_out": left_out,
            "massive": massive_line(&run.layers), "has_typical": has_typical_groups(&run.layers),
        });
        let mut small = |kind: &str, block: Block| {
            let name = format!("run{i}.{kind}");
            entry[kind] = json!(name);
            kept.push((name, block));
        };
        small("layers", Block::table(&run.layers, &[], &[]));
        if let Some(table) = run.norms.as_ref().filter(|_| views::read(&settings.only, "norms")) {
            small("norms", Block::table(table, &[], &[]));
        }
        if let Some(names) = source.cuts.iter().find_map(Cut::names) {
            small("groups", names);
        }
        entry["points"] = Value::Object(source.own_cuts(i).map(places).collect());
        let step = |(prefix, step): (String, &StepSource)| step.entry(&prefix, Value::Object(step.cuts(&prefix).map(places).collect()));
        entry["steps"] = source.steps(i).map(step).collect();
        let matrices = |(k, own): (usize, &Projection)| json!({"step": own.step, "block": format!("run{i}.projections.{k}")});
        entry["projections"] = source.projections.iter().enumerate().map(matrices).collect();
        entries.push(entry);
    }
    let measures: Vec<Value> = MEASURES
        .iter()
        .map(|m| json!({"name": m.name, "family": m.family.name(), "formula": m.formula, "source": m.source, "counts": m.counts, "variants": m.variants}))
        .collect();
    if let Some(table) = &settings.findings {
        kept.push(("findings".to_owned(), Block::table(table, &[], &[])));
    }
    let runs: Vec<&Run> = sources.iter().map(|source| source.run.as_ref()).collect();
    let index = json!({
        "format": 1, "program": env!("CARGO_PKG_VERSION"), "title": title,
        "frequency": settings.frequency.as_ref().map(|range| [*range.start(), *range.end()]),
        "states": States::lead(&runs).name(), "differences": differences(&runs),
        "selections": selections(&runs), "measures": measures, "runs": entries, "views": views::names(&settings.only), "book": BOOK,
        "findings": settings.findings.as_ref().map(|_| "findings"),
    });
    emit("index", Block::json(&index))?;
    kept.into_iter().try_for_each(|(name, block)| emit(&name, block))
}

/// The selections in the order in which the page looks for a value. Beside a run in which no group is selected, all groups come first: like
/// beside like.
fn selections(runs: &[&Run]) -> [&'static str; 3] {
    let [selected, all, sample] = SELECTIONS;
    if runs.iter().any(|run| lacks_selected(&run.layers)) { [all, selected, sample] } else { SELECTIONS }
}

/// What the index says of a table: its points and the blocks of each.
fn places((prefix, cut): (String, &Cut)) -> (String, Value) {
    let place = |(k, (layer, point, has_typical)): (usize, (Option<i64>, &str, bool))| {
        let mut place = json!({"layer": layer, "point": point, "block": name(&prefix, k, States::All)});
        if has_typical {
            place["typical"] = json!(name(&prefix, k, States::Typical));
        }
        place
    };
    (cut.kind.to_owned(), cut.places().enumerate().map(place).collect())
}

/// The name of a point's block.
fn name(prefix: &str, place: usize, states: States) -> String {
    match states {
        States::All => format!("{prefix}{place}"),
        States::Typical => format!("{prefix}{place}.{}", states.name()),
    }
}

/// Emits the blocks of all points, and those of steps.
pub(super) fn points(sources: &[Source], emit: &mut Emit) -> Result<()> {
    for (i, source) in sources.iter().enumerate() {
        for (name, other) in source.others(i) {
            other.block().map_or(Ok(()), |block| emit(&name, block))?;
        }
        for (prefix, cut) in source.cuts(i) {
            for (place, (_, _, has_typical)) in cut.places().enumerate() {
                let states = [States::All, States::Typical].into_iter().take(1 + usize::from(has_typical));
                for states in states {
                    let name = name(&prefix, place, states);
                    let block = cut.block(place, states)?.ok_or_else(|| Error::table(format!("there is no block {name}")))?;
                    emit(&name, block)?;
                }
            }
        }
    }
    Ok(())
}

/// The block of a point or step by its name.
pub(super) fn point(sources: &[Source], name: &str) -> Result<Option<Block>> {
    let mut others = sources.iter().enumerate().flat_map(|(i, source)| source.others(i));
    if let Some((_, other)) = others.find(|(own, _)| own == name) {
        return Ok(other.block());
    }
    let mut cuts = sources.iter().enumerate().flat_map(|(i, source)| source.cuts(i));
    // A name is one only as it is written in the index: `7`, neither `07` nor `+7`.
    let place = |number: &str| number.parse::<usize>().ok().filter(|place| place.to_string() == number);
    let (whole, states) = match name.strip_suffix(".typical") {
        Some(whole) => (whole, States::Typical),
        None => (name, States::All),
    };
    let found = cuts.find_map(|(prefix, cut)| Some((cut, place(whole.strip_prefix(&prefix)?)?)));
    found.map_or(Ok(None), |(cut, place)| cut.block(place, states))
}
