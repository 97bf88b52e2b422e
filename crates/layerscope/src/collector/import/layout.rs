//! Which array of a file is what, and which axis is which: told by names and lengths, or refused.

use std::path::Path;

use layerscope_error::{Line, line, setting};

use super::arrays::{Array, Arrays};
use super::axes::Axes;
use super::sources::FileLayer;
use super::{ImportOptions, ids};
use crate::error::{Error, Result};
use crate::store::point_name::PointName;

/// Names under which arrays are looked for.
const STATES: [&str; 4] = ["hidden_states", "states", "embeddings", "activations"];
const GROUPS: [&str; 4] = ["token_ids", "input_ids", "groups", "group"];
const DOCUMENTS: [&str; 3] = ["documents", "sequence_ids", "document"];
const POSITIONS: [&str; 2] = ["positions", "position"];
const MASK: [&str; 2] = ["attention_mask", "mask"];

/// The states of a file, or of files that are layers of the same tokens, and who their rows are.
pub(super) struct Layout<'a> {
    pub path: &'a Path,
    pub rows: usize,
    pub dim: usize,
    pub states: Matrix<'a>,
    pub groups: Option<Vec<u64>>,
    pub documents: Option<Vec<u64>>,
    pub positions: Option<Vec<u32>>,
    pub mask: Option<Vec<bool>>,
    /// How many documents were numbered here because nothing names them.
    pub numbered: u64,
    /// The order of the axes, where there are more than two.
    axes: Axes,
    files: usize,
}

/// How the states lie in the file.
pub(super) enum Matrix<'a> {
    /// An array of rows for each layer.
    Layers(Vec<(PointName, Array<'a>)>),
    /// One array, layer by layer.
    LayerFirst(Array<'a>, usize),
    /// One array, token by token.
    TokenFirst(Array<'a>, usize),
}

/// A file with the layer that its name tells.
pub(super) type Opened = (Arrays, FileLayer);

impl<'a> Layout<'a> {
    /// Of files that are layers of the same tokens, or of a single one. Documents without names are numbered from `first` on.
    pub fn of(files: &'a [Opened], options: &ImportOptions, first: u64) -> Result<Layout<'a>> {
        let arrays = &files[0].0;
        let groups = column(files, options.groups.as_deref(), &GROUPS)?;
        let documents = column(files, options.documents.as_deref(), &DOCUMENTS)?;
        let positions = column(files, options.positions.as_deref(), &POSITIONS)?;
        let known = [&groups, &documents, &positions].into_iter().flatten().map(Vec::len).next();
        let found = states(files, options, known)?;
        let mask = if found.axes.has_batch() { column(files, None, &MASK)? } else { None };
        for (what, values) in [("groups", &groups), ("documents", &documents), ("positions", &positions), ("mask", &mask)] {
            if let Some(values) = values.as_ref().filter(|values| values.len() != found.rows) {
                return Err(fault(arrays, format!("{what} has {} values for {} rows of states", values.len(), found.rows)));
            }
        }
        let narrow = |positions: Vec<u64>| {
            let narrowed: Result<Vec<u32>, _> = positions.into_iter().map(u32::try_from).collect();
            narrowed.map_err(|_| fault(arrays, "positions must be below 2^32".to_owned()))
        };
        // A batch is its sequences; a file with tokens and nothing else is one.
        let is_named = documents.is_some() || positions.is_some();
        let has_tokens = || files.iter().any(|(arrays, _)| arrays.get("token_ids").is_some());
        let length = match is_named {
            false if found.axes.has_batch() => Some(found.length.max(1)),
            false if has_tokens() => Some(found.rows.max(1)),
            _ => None,
        };
        let own = |of: &dyn Fn(usize) -> u64| length.map(|_| (0..found.rows).map(of).collect::<Vec<u64>>());
        let each = length.unwrap_or(1);
        let (own_documents, own_positions) = (own(&|row| first + (row / each) as u64), own(&|row| (row % each) as u64));
        Ok(Layout {
            path: &arrays.path,
            rows: found.rows,
            dim: found.dim,
            states: found.matrix,
            groups,
            numbered: length.map_or(0, |length| found.rows.div_ceil(length) as u64),
            documents: documents.or(own_documents),
            positions: positions.or(own_positions).map(narrow).transpose()?,
            mask: mask.map(|mask| mask.into_iter().map(|counts| counts != 0).collect()),
            axes: found.axes,
            files: files.len(),
        })
    }

    /// What was understood, in one line; the same for files alike.
    pub fn understood(&self) -> String {
        let points = self.points();
        let numbers: Vec<u32> = points.iter().map(|at| at.layer).collect();
        let layers = match *numbers {
            [one] => format!("layer {one}"),
            [first, .., last] if (last - first) as usize + 1 == numbers.len() => format!("layers {first} to {last}"),
            _ => format!("layers {}", numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
        };
        let from = if self.files > 1 { ", a file each" } else { "" };
        let with = |name: &'static str, is_there: bool| if is_there { name.to_owned() } else { format!("no {name}") };
        let who = [
            with("groups", self.groups.is_some()),
            with("documents", self.documents.is_some()),
            with("positions", self.positions.is_some()),
        ];
        let mask = if self.mask.is_some() { ", attention mask" } else { "" };
        let kept = match (&self.documents, &self.positions) {
            (Some(_), Some(_)) => "",
            _ => "; no states are kept without documents and positions, and there is no intrinsic dimension",
        };
        format!("{layers}{from}; axes {}; {} components; {}{mask}{kept}", self.axes.name(), self.dim, who.join(", "))
    }

    /// The points that have states in it. A file of no states can claim any number of layers.
    pub fn points(&self) -> Vec<PointName> {
        match &self.states {
            _ if self.rows == 0 => Vec::new(),
            Matrix::Layers(layers) => layers.iter().map(|(at, _)| *at).collect(),
            Matrix::LayerFirst(_, layers) | Matrix::TokenFirst(_, layers) => (0..*layers as u32).map(PointName::of_layer).collect(),
        }
    }

    /// Where a piece that begins at `start` ends: about `rows` later, and never within a document.
    pub fn end_of_piece(&self, start: usize, rows: usize) -> usize {
        let end = (start + rows).min(self.rows);
        let Some(documents) = &self.documents else { return end };
        if end == self.rows {
            return end;
        }
        let boundary = |at: &usize| documents[*at] != documents[*at - 1];
        let before = (start + 1..=end).rev().find(boundary);
        before.or_else(|| (end..self.rows).find(boundary)).unwrap_or(self.rows)
    }
}

fn fault(arrays: &Arrays, problem: impl Into<Line>) -> Error {
    Error::usage(line![format!("{}: ", arrays.path.display()), problem.into()])
}

/// The ids of the rows: an array of one of the files, one of another file, or none.
fn column(files: &[Opened], asked: Option<&str>, usual: &[&str]) -> Result<Option<Vec<u64>>> {
    let find = |name: &str| files.iter().find_map(|(arrays, _)| arrays.get(name));
    match asked {
        None => usual.iter().find_map(|name| find(name)).map(|array| ids(&array)).transpose(),
        Some(name) => {
            if let Some(array) = find(name) {
                return ids(&array).map(Some);
            }
            if Path::new(name).is_file() {
                let other = Arrays::open(Path::new(name), u64::MAX)?;
                let array = other.iter().next().ok_or_else(|| fault(&other, "it has no array".to_owned()))?;
                return ids(&array).map(Some);
            }
            let there: Vec<&str> = files.iter().flat_map(|(arrays, _)| arrays.iter()).map(|array| array.name).collect();
            Err(fault(&files[0].0, format!("there is no array `{name}`; there are {}", there.join(", "))))
        }
    }
}

/// States as they were found.
struct Found<'a> {
    matrix: Matrix<'a>,
    rows: usize,
    dim: usize,
    /// Tokens of a sequence, where the axes have batches.
    length: usize,
    axes: Axes,
}

/// The states of all files.
fn states<'a>(files: &'a [Opened], options: &ImportOptions, rows: Option<usize>) -> Result<Found<'a>> {
    let mut all = files.iter().map(|file| states_of(file, options, rows));
    let mut first = all.next().ok_or_else(|| Error::usage("there are no files to import".to_owned()))??;
    for ((arrays, _), found) in files[1..].iter().zip(all) {
        let found = found?;
        match (&mut first.matrix, found.matrix) {
            (Matrix::Layers(layers), Matrix::Layers(more))
                if (first.rows, first.dim, first.axes) == (found.rows, found.dim, found.axes) =>
            {
                layers.extend(more);
            }
            _ => {
                let line = format!("{} rows of {} components, and {} of {}", found.rows, found.dim, first.rows, first.dim);
                let line = line![line, format!(" in {}: layers have the same rows; ", files[0].0.path.display())];
                return Err(fault(arrays, line![line, "if they are none, give ", setting("layers-from").to("none")]));
            }
        }
    }
    Ok(first)
}

/// Whether the arrays of a file say themselves which layers they are.
pub(super) fn has_layers(file: &Opened, options: &ImportOptions) -> bool {
    let known = |names: &[&str]| names.iter().find_map(|name| file.0.get(name)).and_then(|array| array.described.count());
    let rows = known(&GROUPS).or_else(|| known(&DOCUMENTS)).or_else(|| known(&POSITIONS));
    match one_array(&file.0, options) {
        Ok(Some(array)) => Axes::of(&array, options.axes.as_deref(), rows).is_ok_and(Axes::has_layer),
        _ => true,
    }
}

/// The array that holds the states, if there is one for all of them.
fn one_array<'a>(arrays: &'a Arrays, options: &ImportOptions) -> Result<Option<Array<'a>>> {
    match &options.states {
        Some(name) => arrays.get(name).map(Some).ok_or_else(|| fault(arrays, format!("there is no array `{name}`; {}", described(arrays)))),
        None => {
            let mut floats = floats(arrays);
            let only = floats.next().filter(|_| floats.next().is_none());
            Ok(STATES.iter().find_map(|name| arrays.get(name)).or(only))
        }
    }
}

fn floats(arrays: &Arrays) -> impl Iterator<Item = Array<'_>> {
    arrays.iter().filter(|array| array.described.dtype.is_float() && array.shape().len() >= 2)
}

fn described(arrays: &Arrays) -> String {
    arrays.iter().map(|array| array.description()).collect::<Vec<_>>().join(", ")
}

/// The states of a file, their rows and components.
fn states_of<'a>((arrays, layer): &'a Opened, options: &ImportOptions, rows: Option<usize>) -> Result<Found<'a>> {
    let Some(array) = one_array(arrays, options)? else {
        return by_layer(floats(arrays).collect()).ok_or_else(|| {
            fault(arrays, line!["which array holds the states? Name it with ", setting("states"), format!("; {}", described(arrays))])
        });
    };
    if array.shape().last() == Some(&0) {
        return Err(fault(arrays, format!("{}; a state has at least one component", array.description())));
    }
    let axes = Axes::of(&array, options.axes.as_deref(), rows)?;
    let flat = || layer.number(options).map(|layer| Matrix::Layers(vec![(PointName::of_layer(layer), array)]));
    let (matrix, rows, dim, length) = match (axes, array.shape()) {
        (Axes::Token, &[tokens, dim]) => (flat()?, tokens, dim, tokens),
        (Axes::TokenLayer, &[tokens, layers, dim]) => (Matrix::TokenFirst(array, layers), tokens, dim, tokens),
        (Axes::LayerToken, &[layers, tokens, dim]) => (Matrix::LayerFirst(array, layers), tokens, dim, tokens),
        (Axes::BatchToken, &[batch, tokens, dim]) => (flat()?, batch * tokens, dim, tokens),
        (Axes::LayerBatchToken, &[layers, batch, tokens, dim]) => (Matrix::LayerFirst(array, layers), batch * tokens, dim, tokens),
        _ => return Err(fault(arrays, format!("{}; it has other axes than {}", array.description(), axes.name()))),
    };
    Ok(Found { matrix, rows, dim, length, axes })
}

/// Arrays that are named by their layer, such as `layer3`, `states.3` or `3`.
fn by_layer(floats: Vec<Array<'_>>) -> Option<Found<'_>> {
    let layer = |name: &str| {
        let digits = name.len() - name.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
        name[name.len() - digits..].parse::<u32>().ok()
    };
    let &[rows, dim] = floats.first()?.shape() else { return None };
    let mut layers = floats
        .iter()
        .map(|array| Some((PointName::of_layer(layer(array.name)?), *array)).filter(|_| array.shape() == [rows, dim]))
        .collect::<Option<Vec<_>>>()?;
    layers.sort_by_key(|(at, _)| *at);
    let different = layers.windows(2).all(|pair| pair[0].0 != pair[1].0);
    different.then_some(Found { matrix: Matrix::Layers(layers), rows, dim, length: rows, axes: Axes::Token })
}
