//! States that lie in files, computed by anybody: .npy, .npz, .safetensors and .parquet into a run.
//!
//! Files are read piece by piece; memory depends on the groups and layers, not on the number of states.

mod arrays;
mod columns;
mod layout;
mod npy;
mod npz;
mod tensors;

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::gather::{GatherSettings, Gatherer, GroupsOf, Place, StateRows};
use arrays::{Array, Arrays};
use layout::{Layout, Matrix};

/// How files are read. Their texts are also the program's help, where brackets hold defaults.
#[allow(rustdoc::broken_intra_doc_links)]
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct ImportOptions {
    /// The array of states, where the files do not make it plain
    #[arg(long, value_name = "NAME")]
    pub states: Option<String>,
    /// Groups of the rows: an array in the same file, or a .npy file [token_ids, groups or group]
    #[arg(long, value_name = "NAME")]
    pub groups: Option<String>,
    /// Documents of the rows, likewise [documents, sequence_ids or document]
    #[arg(long, value_name = "NAME")]
    pub documents: Option<String>,
    /// Places of the rows in their documents, likewise [positions or position]
    #[arg(long, value_name = "NAME")]
    pub positions: Option<String>,
    /// The layer of states that have two axes [0]
    #[arg(long, value_name = "N")]
    pub layer: Option<u32>,
    /// What the axes of states with three are: token,layer,component or layer,token,component, where lengths do not tell
    #[arg(long, value_name = "AXES")]
    pub axes: Option<String>,
}

/// Rows that are read at once.
const ROWS: usize = 4096;

/// Reads files of states into a gatherer, which the first of them makes; `settings` gets the number of components.
pub fn import(
    files: &[PathBuf],
    options: &ImportOptions,
    settings: impl Fn(usize) -> GatherSettings,
    show: &mut dyn FnMut(&Path),
) -> Result<Gatherer> {
    let mut files = files.to_vec();
    files.sort();
    files.dedup();
    let mut gatherer: Option<Gatherer> = None;
    for (number, path) in files.iter().enumerate() {
        show(path);
        match path.extension().and_then(|end| end.to_str()) {
            Some("parquet") => columns::read(path, options, &settings, &mut gatherer)?,
            _ => {
                let arrays = Arrays::open(path)?;
                let layout = Layout::of(&arrays, options, number as u64)?;
                read(&layout, &settings, &mut gatherer)?;
            }
        }
    }
    gatherer.ok_or_else(|| Error::Usage("there are no files to import".to_owned()))
}

/// The gatherer of states with `dim` components; refuses others than those before.
fn gatherer_for<'a>(
    gatherer: &'a mut Option<Gatherer>,
    dim: usize,
    path: &Path,
    settings: &dyn Fn(usize) -> GatherSettings,
) -> Result<&'a Gatherer> {
    let known = match gatherer.take() {
        Some(known) => known,
        None => Gatherer::new(settings(dim))?,
    };
    if known.settings().dim != dim {
        let line = format!("{}: states of {dim} components after states of {}", path.display(), known.settings().dim);
        return Err(Error::Usage(line));
    }
    Ok(gatherer.insert(known))
}

/// Enters the states of one file, some rows at all layers after another.
fn read(layout: &Layout<'_>, settings: &dyn Fn(usize) -> GatherSettings, gatherer: &mut Option<Gatherer>) -> Result<()> {
    let gatherer = gatherer_for(gatherer, layout.dim, layout.path, settings)?;
    let mut start = 0;
    while start < layout.rows {
        let end = layout.end_of_piece(start, ROWS);
        let range = start..end;
        let read: Vec<(Place, Vec<f32>)> = match &layout.states {
            Matrix::Layers(layers) => {
                layers.iter().map(|(at, array)| Ok((*at, array.floats(start * layout.dim, end * layout.dim)?))).collect::<Result<_>>()?
            }
            Matrix::LayerFirst(array, layers) => {
                let layer = |layer: usize| {
                    let first = layer * layout.rows;
                    Ok((Place::of_layer(layer as u32), array.floats((first + start) * layout.dim, (first + end) * layout.dim)?))
                };
                (0..*layers).map(layer).collect::<Result<_>>()?
            }
            Matrix::TokenFirst(array, layers) => {
                let (layers, dim) = (*layers, layout.dim);
                let all = array.floats(start * layers * dim, end * layers * dim)?;
                let layer = |layer: usize| {
                    let rows = all.chunks_exact(layers * dim).flat_map(|row| &row[layer * dim..(layer + 1) * dim]);
                    (Place::of_layer(layer as u32), rows.copied().collect())
                };
                (0..layers).map(layer).collect()
            }
        };
        for (at, states) in &read {
            let rows = StateRows {
                states,
                groups: layout.groups.as_ref().map_or(GroupsOf::None, |groups| GroupsOf::Ids(&groups[range.clone()])),
                documents: layout.documents.as_ref().map(|documents| &documents[range.clone()]),
                positions: layout.positions.as_ref().map(|positions| &positions[range.clone()]),
                mask: None,
            };
            gatherer.update(*at, &rows).map_err(|error| in_file(layout.path, start, error))?;
        }
        start = end;
    }
    Ok(())
}

/// An error with the file it is about.
fn in_file(path: &Path, start: usize, error: Error) -> Error {
    let from = if start > 0 { format!(", from row {start} on") } else { String::new() };
    Error::Usage(format!("{}{from}: {error}", path.display()))
}

/// A whole array as ids.
fn ids(array: &Array<'_>) -> Result<Vec<u64>> {
    array.ids()
}
