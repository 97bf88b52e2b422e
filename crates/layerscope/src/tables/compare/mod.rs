//! Several runs side by side: every measure at every depth, differences to the first run, and their standard errors.
//!
//! Layers are matched by relative depth, in the reference library's view: the last point of a model with a final norm is the one
//! after it, and its last block's own output is compared only with that of another such model. A layer whose nearest
//! counterpart is half a layer of the shallower model away, or further, has none.

mod tables;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use layerscope_report::lead::Measured;
use layerscope_report::{Run, States, Table, differences};
use layerscope_stats::measure::BlockErrors;
use layerscope_stats::sketch::{DocumentBlocks, SketchKind, Sketches, Tensors};

use crate::error::{Error, Result};
use crate::settings::parse;
use crate::store::point_name::PointName;
use crate::store::state::StateFile;
use crate::store::stored::STATE;
use crate::tables::select::with_frequency;
use crate::tables::states::{about_massive, chosen, is_of};
use layerscope_error::{line, setting};

/// Compares finished runs with the first of them, of all measures where none is named; `frequency` is MIN:MAX of n_t for the selected
/// groups in place of each run's own. `states` keeps only what is about `typical` or `all` states; otherwise everything is kept, and the
/// overview shows those that hide no others.
pub fn compare(runs: &[Run], frequency: Option<&str>, states: Option<&str>, measures: &[String]) -> Result<Comparison> {
    let layers = |run: &Run| match frequency {
        Some(frequency) => with_frequency(&run.folder, frequency, "layers"),
        None => Ok(run.layers.clone()),
    };
    let shown = chosen(&runs.iter().collect::<Vec<_>>(), states)?;
    let mut comparison = Comparison::new(runs, &runs.iter().map(layers).collect::<Result<Vec<_>>>()?, shown)?;
    if states.is_some() {
        let is_of_weights = |row: &Row| row.values[0].as_ref().is_some_and(|value| value.layer.is_none());
        comparison.rows.retain(|row| is_of(&row.key.selection, shown) || is_of_weights(row));
    }
    comparison.keep(measures)?;
    Ok(comparison)
}

/// Runs that are compared, and what they say of each place and measure that the first one has.
pub struct Comparison {
    /// A name for each run.
    pub labels: Vec<String>,
    /// Measure after measure, each from the first layer to the last.
    pub rows: Vec<Row>,
    /// What else is different between the runs.
    pub notes: Vec<String>,
    /// The states that the overview shows.
    pub states: States,
    /// Lines about the massive states of each run.
    pub massive: Vec<String>,
    /// The selection that the overview shows of each measure and variant.
    leading: HashMap<(String, Option<String>), &'static str>,
    /// Runs that could have had errors over blocks of documents, which were not asked for.
    without_confidence: Vec<usize>,
}

/// One measure at one place.
pub struct Row {
    /// What is compared.
    pub key: Key,
    /// What each run says; the first always does.
    pub values: Vec<Option<Value>>,
    /// What each run has more than the first.
    pub differences: Vec<Option<Difference>>,
}

/// What names a curve along the layers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// `all`, `selected` and so on.
    pub selection: String,
    /// The measure.
    pub measure: String,
    /// Its variant.
    pub variant: Option<String>,
    /// The training step, where all runs follow a training.
    pub step: Option<i64>,
}

/// A row of the table of layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The layer; none for matrices of weights.
    pub layer: Option<i64>,
    /// The point.
    pub point: String,
    /// The layer as a part of all layers.
    pub depth: Option<f64>,
    /// The value.
    pub value: Option<f64>,
    /// Its standard error.
    pub se: Option<f64>,
    /// What it is computed over.
    pub n: Option<i64>,
}

/// A value less the first run's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The difference.
    pub value: f64,
    /// Its standard error, where both runs have one.
    pub se: Option<f64>,
    /// Whether the error is that of pairs: the same blocks of documents left out of both.
    pub paired: bool,
}

impl Comparison {
    /// Of runs whose tables are `layers`, read or computed again.
    fn new(runs: &[Run], layers: &[Table], states: States) -> Result<Comparison> {
        let follow = layers.iter().all(|table| last_step(table).is_some());
        let curves: Vec<Curves> = runs.iter().zip(layers).map(|(run, table)| Curves::new(run, table, follow)).collect();
        let (first, others) = curves.split_first().ok_or_else(|| Error::usage("no runs to compare".to_owned()))?;
        let mut pairs = others.iter().zip(&runs[1..]).map(|(_, run)| Pairs::open(&runs[0], run)).collect::<Result<Vec<_>>>()?;
        let mut rows = Vec::new();
        for key in &first.keys {
            for value in &first.values[key] {
                let mut row = Row { key: key.clone(), values: vec![Some(value.clone())], differences: vec![None] };
                for (other, pairs) in others.iter().zip(&mut pairs) {
                    let theirs = first.counterpart(key, value, other);
                    row.differences.push(theirs.map(|theirs| difference(key, value, theirs, pairs)).transpose()?.flatten());
                    row.values.push(theirs.cloned());
                }
                if row.values.iter().flatten().count() > 1 {
                    rows.push(row);
                }
            }
        }
        if rows.is_empty() {
            return Err(Error::usage("these runs have no measure in common".to_owned()));
        }
        let labels = Run::labels(&runs.iter().collect::<Vec<_>>());
        let named: Vec<(Option<&str>, &Table)> = labels.iter().map(|label| Some(label.as_str())).zip(layers).collect();
        let massive = about_massive(&named, states);
        let measured = Measured::of(&layers.iter().collect::<Vec<_>>());
        let named = rows.iter().map(|row| (row.key.measure.clone(), row.key.variant.clone())).collect::<HashSet<_>>();
        let lead = |name: (String, Option<String>)| Some((name.clone(), measured.selection(states, &name.0, name.1.as_deref())?));
        let leading = named.into_iter().filter_map(lead).collect();
        let is_without = |run: &usize| runs[*run].manifest.setting("confidence").is_some_and(|value| value == "false");
        let without_confidence = (0..runs.len()).filter(is_without).collect();
        let notes = differences(&runs.iter().collect::<Vec<_>>());
        Ok(Comparison { labels, rows, notes, states, massive, leading, without_confidence })
    }

    /// Whether a curve is of the selection that the summary of a run shows first.
    fn leads(&self, key: &Key) -> bool {
        self.leading.get(&(key.measure.clone(), key.variant.clone())).is_none_or(|selection| *selection == key.selection)
    }

    /// Keeps only these measures and families; refuses one that is not there.
    fn keep(&mut self, names: &[String]) -> Result<()> {
        let Some(measures) = parse::measures(names)? else { return Ok(()) };
        for name in names {
            let own = parse::measures(std::slice::from_ref(name))?.unwrap_or_default();
            if !self.rows.iter().any(|row| own.contains(&row.key.measure.as_str())) {
                return Err(Error::usage(line![
                    setting("measures"),
                    format!(" `{name}` is in at most one of these runs; measure both with it")
                ]));
            }
        }
        self.rows.retain(|row| measures.contains(&row.key.measure.as_str()));
        Ok(())
    }
}

fn difference(key: &Key, first: &Value, other: &Value, pairs: &mut Pairs) -> Result<Option<Difference>> {
    let (Some(ours), Some(theirs)) = (first.value, other.value) else { return Ok(None) };
    // Of independent errors; where both come from the same text they are not, and this is on the large side.
    let independent = first.se.zip(other.se).map(|(ours, theirs)| ours.hypot(theirs));
    let paired = pairs.error(key, first, other)?;
    Ok(Some(Difference { value: theirs - ours, se: paired.or(independent), paired: paired.is_some() }))
}

/// The rows of a table of layers, by measure.
struct Curves {
    /// In the order of the table.
    keys: Vec<Key>,
    values: HashMap<Key, Vec<Value>>,
    /// Blocks of the model.
    blocks: i64,
    /// The layer after which there is a final norm.
    normed: Option<i64>,
}

/// Where a value belongs, whatever the depth of the model.
#[derive(PartialEq)]
enum Place<'a> {
    Layer(i64),
    BeforeFinalNorm,
    Projected,
    Weights(&'a str),
}

impl Curves {
    fn new(run: &Run, table: &Table, follow: bool) -> Curves {
        let last = last_step(table);
        let deepest = (0..table.rows()).filter_map(|row| table.integer("layer", row)).max().unwrap_or(0);
        let blocks = run.manifest.model.layers.map_or(deepest, |layers| layers as i64);
        let normed =
            (0..table.rows()).find(|&row| table.text("point", row) == Some("final_norm")).and_then(|row| table.integer("layer", row));
        let mut curves = Curves { keys: Vec::new(), values: HashMap::new(), blocks, normed };
        for row in (0..table.rows()).filter(|&row| follow || table.integer("step", row) == last) {
            let text = |name: &str| table.text(name, row).map(str::to_owned);
            let key = Key {
                selection: text("selection").unwrap_or_default(),
                measure: text("measure").unwrap_or_default(),
                variant: text("variant"),
                step: table.integer("step", row).filter(|_| follow),
            };
            let layer = table.integer("layer", row);
            let value = Value {
                layer,
                point: text("point").unwrap_or_default(),
                depth: layer.filter(|_| blocks > 0).map(|layer| layer as f64 / blocks as f64),
                value: table.real("value", row),
                se: table.real("se", row),
                n: table.integer("n", row),
            };
            if !curves.values.contains_key(&key) {
                curves.keys.push(key.clone());
            }
            curves.values.entry(key).or_default().push(value);
        }
        curves
    }

    fn place<'a>(&self, value: &'a Value) -> Place<'a> {
        match value.layer {
            None => Place::Weights(&value.point),
            Some(layer) if self.normed == Some(layer) && value.point == "block" => Place::BeforeFinalNorm,
            // Another space than the layers': it has a counterpart only where there is such a projection too.
            Some(_) if value.point == "projected" => Place::Projected,
            Some(layer) => Place::Layer(layer),
        }
    }

    /// What another run says of the same measure at the same relative depth.
    fn counterpart<'a>(&self, key: &Key, value: &Value, other: &'a Curves) -> Option<&'a Value> {
        let theirs = other.values.get(key)?;
        let Place::Layer(layer) = self.place(value) else {
            return theirs.iter().find(|theirs| other.place(theirs) == self.place(value));
        };
        // |a / A - b / B| in whole numbers, with A B for unit.
        let apart = |their: i64| (layer * other.blocks - their * self.blocks).abs();
        let layers = theirs.iter().filter_map(|theirs| match other.place(theirs) {
            Place::Layer(layer) => Some((apart(layer), theirs)),
            _ => None,
        });
        let nearest = layers.min_by_key(|(apart, _)| *apart)?;
        (nearest.0 == 0 || 2 * nearest.0 < self.blocks.max(other.blocks)).then_some(nearest.1)
    }
}

fn last_step(table: &Table) -> Option<i64> {
    (0..table.rows()).filter_map(|row| table.integer("step", row)).max()
}

/// Standard errors of the differences between two measurements of one text, from blocks of its documents.
struct Pairs {
    states: Option<(StateFile, StateFile)>,
    errors: HashMap<(String, String), Option<BlockErrors>>,
}

impl Pairs {
    /// Of runs that kept such blocks (`--confidence`) and read the same documents.
    fn open(first: &Run, other: &Run) -> Result<Pairs> {
        let kept = |run: &Run| run.manifest.setting("confidence").is_some_and(|value| value == "true") && run.folder.join(STATE).exists();
        let (text, other_text) = (first.manifest.text(), other.manifest.text());
        let same = text.0.is_some() && text == other_text && kept(first) && kept(other);
        let open = |folder: &Path| StateFile::open(&folder.join(STATE));
        let states = same.then(|| Ok::<_, Error>((open(&first.folder)?, open(&other.folder)?))).transpose()?;
        Ok(Pairs { states, errors: HashMap::new() })
    }

    fn error(&mut self, key: &Key, first: &Value, other: &Value) -> Result<Option<f64>> {
        let (Some(states), true) = (&self.states, key.selection == "all" && key.variant.is_none() && key.step.is_none()) else {
            return Ok(None);
        };
        let of: fn(&BlockErrors) -> Option<f64> = match key.measure.as_str() {
            "q" => |errors| errors.q,
            "m" => |errors| errors.m,
            "mean_cosine" => |errors| errors.mean_cosine,
            _ => return Ok(None),
        };
        let (Some(ours), Some(theirs)) = (first.layer, other.layer) else { return Ok(None) };
        let stored = |layer: i64, point: &str| PointName::new(layer as u32, point).map(PointName::stored);
        let places = (stored(ours, &first.point)?, stored(theirs, &other.point)?);
        let errors = match self.errors.get(&places) {
            Some(known) => *known,
            None => {
                let (ours, theirs) = (blocks(&states.0, &places.0)?, blocks(&states.1, &places.1)?);
                let pair = ours.zip(theirs);
                let errors = pair.map(|(ours, theirs)| BlockErrors::of_difference(&ours, &theirs)).transpose()?;
                *self.errors.entry(places).or_insert(errors)
            }
        };
        Ok(errors.and_then(|errors| of(&errors)).filter(|error| error.is_finite()))
    }
}

fn blocks(state: &StateFile, point: &str) -> Result<Option<DocumentBlocks>> {
    let read = |prefix: &'static str| match SketchKind::Blocks.row().is_some_and(|row| row.prefix == prefix) {
        true => state.read(&format!("{point}.{prefix}")),
        false => Ok(Tensors::default()),
    };
    Ok(Sketches::decode_from(read)?.get::<DocumentBlocks>().cloned())
}
