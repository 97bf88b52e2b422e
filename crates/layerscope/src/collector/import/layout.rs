//! Which array of a file is what, and which axis is which: told by names and lengths, or refused.

use std::path::Path;

use layerscope_error::{Line, line, setting};

use super::arrays::{Array, Arrays};
use super::{ImportOptions, ids};
use crate::error::{Error, Result};
use crate::store::point_name::PointName;

/// Names under which arrays are looked for.
const STATES: [&str; 4] = ["hidden_states", "states", "embeddings", "activations"];
const GROUPS: [&str; 3] = ["token_ids", "groups", "group"];
const DOCUMENTS: [&str; 3] = ["documents", "sequence_ids", "document"];
const POSITIONS: [&str; 2] = ["positions", "position"];

/// The states of a file and who its rows are.
pub(super) struct Layout<'a> {
    pub path: &'a Path,
    pub rows: usize,
    pub dim: usize,
    pub states: Matrix<'a>,
    pub groups: Option<Vec<u64>>,
    pub documents: Option<Vec<u64>>,
    pub positions: Option<Vec<u32>>,
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

impl<'a> Layout<'a> {
    /// Of a file that is the `number`-th of all: where documents have no names and tokens are given, it is one document.
    pub fn of(arrays: &'a Arrays, options: &ImportOptions, number: u64) -> Result<Layout<'a>> {
        let groups = column(arrays, options.groups.as_deref(), &GROUPS)?;
        let documents = column(arrays, options.documents.as_deref(), &DOCUMENTS)?;
        let positions = column(arrays, options.positions.as_deref(), &POSITIONS)?;
        let known = [&groups, &documents, &positions].into_iter().flatten().map(Vec::len).next();
        let (states, rows, dim) = states(arrays, options, known)?;
        for (what, values) in [("groups", &groups), ("documents", &documents), ("positions", &positions)] {
            if let Some(values) = values.as_ref().filter(|values| values.len() != rows) {
                return Err(fault(arrays, format!("{what} has {} values for {rows} rows of states", values.len())));
            }
        }
        let alone = documents.is_none() && positions.is_none() && arrays.get("token_ids").is_some();
        let narrow = |positions: Vec<u64>| {
            let narrowed: Result<Vec<u32>, _> = positions.into_iter().map(u32::try_from).collect();
            narrowed.map_err(|_| fault(arrays, "positions must be below 2^32".to_owned()))
        };
        Ok(Layout {
            path: &arrays.path,
            rows,
            dim,
            states,
            groups,
            documents: if alone { Some(vec![number; rows]) } else { documents },
            positions: if alone { Some((0..rows as u32).collect()) } else { positions.map(narrow).transpose()? },
        })
    }

    /// The points that have states in it.
    pub fn points(&self) -> Vec<PointName> {
        match &self.states {
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

/// The ids of the rows: an array of the file, one of another file, or none.
fn column(arrays: &Arrays, asked: Option<&str>, usual: &[&str]) -> Result<Option<Vec<u64>>> {
    match asked {
        None => usual.iter().find_map(|name| arrays.get(name)).map(|array| ids(&array)).transpose(),
        Some(name) => {
            if let Some(array) = arrays.get(name) {
                return ids(&array).map(Some);
            }
            if Path::new(name).is_file() {
                let other = Arrays::open(Path::new(name), u64::MAX)?;
                let array = other.iter().next().ok_or_else(|| fault(&other, "it has no array".to_owned()))?;
                return ids(&array).map(Some);
            }
            let there: Vec<&str> = arrays.iter().map(|array| array.name).collect();
            Err(fault(arrays, format!("there is no array `{name}`; there are {}", there.join(", "))))
        }
    }
}

/// The states, their rows and components.
fn states<'a>(arrays: &'a Arrays, options: &ImportOptions, rows: Option<usize>) -> Result<(Matrix<'a>, usize, usize)> {
    let floats = || arrays.iter().filter(|array| array.described.dtype.is_float() && array.shape().len() >= 2);
    let described = || arrays.iter().map(|array| array.description()).collect::<Vec<_>>().join(", ");
    let one = match &options.states {
        Some(name) => Some(arrays.get(name).ok_or_else(|| fault(arrays, format!("there is no array `{name}`; {}", described())))?),
        None => STATES.iter().find_map(|name| arrays.get(name)).or_else(|| floats().next().filter(|_| floats().count() == 1)),
    };
    let Some(array) = one else {
        return by_layer(floats().collect()).ok_or_else(|| {
            fault(arrays, line!["which array holds the states? Name it with ", setting("states"), format!("; {}", described())])
        });
    };
    match *array.shape() {
        [tokens, dim] => {
            let at = PointName::of_layer(options.layer.unwrap_or(0));
            Ok((Matrix::Layers(vec![(at, array)]), tokens, dim))
        }
        [first, second, dim] => {
            let token_first = match options.axes.as_deref() {
                Some("token,layer,component") => true,
                Some("layer,token,component") => false,
                Some(other) => {
                    let line = line![
                        setting("axes"),
                        format!(" `{other}` is not understood; give token,layer,component or layer,token,component")
                    ];
                    return Err(Error::usage(line));
                }
                None => match rows {
                    Some(rows) if first == rows && second != rows => true,
                    Some(rows) if second == rows && first != rows => false,
                    Some(rows) if first != rows && second != rows => {
                        return Err(fault(arrays, format!("{}; no axis but the last has {rows} tokens", array.description())));
                    }
                    _ => {
                        let line = line![format!("{}: which axis is the token's? Say it with ", array.description()), setting("axes")];
                        return Err(fault(arrays, line));
                    }
                },
            };
            match token_first {
                true => Ok((Matrix::TokenFirst(array, second), first, dim)),
                false => Ok((Matrix::LayerFirst(array, first), second, dim)),
            }
        }
        _ => Err(fault(arrays, format!("{}; states have two or three axes", array.description()))),
    }
}

/// Arrays that are named by their layer, such as `layer3`, `states.3` or `3`.
fn by_layer(floats: Vec<Array<'_>>) -> Option<(Matrix<'_>, usize, usize)> {
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
    different.then_some((Matrix::Layers(layers), rows, dim))
}
