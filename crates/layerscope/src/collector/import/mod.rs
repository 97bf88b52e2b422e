//! States that lie in files, computed by anybody: .npy, .npz, .safetensors and .parquet into a run.
//!
//! Files are read piece by piece; memory depends on the groups and layers, not on the number of states.

mod arrays;
mod columns;
mod layout;
mod memory;
mod npy;
mod npz;
mod tensors;

use std::path::{Path, PathBuf};

use layerscope_error::line;

use crate::collector::{Collector, CollectorSettings, GroupsOf, StateRows};
use crate::error::{Error, Result};
use crate::store::point_name::PointName;
use arrays::{Array, Arrays};
use layout::{Layout, Matrix};
use memory::Room;

/// How files of states are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct ImportOptions {
    /// Name of the array of states, if the files leave it unclear
    #[arg(long, value_name = "NAME")]
    pub states: Option<String>,
    /// Group of each row: an array in the same file or a .npy file [default: token_ids, groups or group]
    #[arg(long, value_name = "NAME")]
    pub groups: Option<String>,
    /// Document of each row: an array in the same file or a .npy file [default: documents, sequence_ids or document]
    #[arg(long, value_name = "NAME")]
    pub documents: Option<String>,
    /// Position of each row in its document: an array in the same file or a .npy file [default: positions or position]
    #[arg(long, value_name = "NAME")]
    pub positions: Option<String>,
    /// Layer number of two-dimensional states [default: 0]
    #[arg(long, value_name = "N")]
    pub layer: Option<u32>,
    /// Order of the axes of three-dimensional states if their lengths are ambiguous: token,layer,component or layer,token,component
    #[arg(long, value_name = "AXES")]
    pub axes: Option<String>,
    /// Use at most this much memory, such as 8G [default: what is free]
    #[arg(long, value_name = "BYTES")]
    pub max_memory: Option<String>,
}

/// Rows that are read at once.
const ROWS: usize = 4096;

/// Reads files of states into a collector, which the first of them makes. The files decide `dim` of the settings.
pub fn import(files: &[PathBuf], options: &ImportOptions, settings: &CollectorSettings, show: &mut dyn FnMut(&Path)) -> Result<Collector> {
    // Bad settings are refused before any file is read.
    CollectorSettings { dim: 1, ..settings.clone() }.check()?;
    let mut files = files.to_vec();
    files.sort();
    files.dedup();
    let (mut collector, mut room) = (None::<Collector>, Room::new(options)?);
    for (number, path) in files.iter().enumerate() {
        show(path);
        match path.extension().and_then(|end| end.to_str()) {
            Some("parquet") => columns::read(path, options, settings, &mut room, &mut collector)?,
            _ => {
                let arrays = Arrays::open(path, room.left())?;
                let layout = Layout::of(&arrays, options, number as u64)?;
                room.expect_points(path, &layout.points(), layout.dim, layout.rows, layout.groups.as_deref(), settings)?;
                read(&layout, settings, &mut collector)?;
            }
        }
    }
    collector.ok_or_else(|| Error::usage("there are no files to import".to_owned()))
}

/// The collector of states with `dim` components; refuses others than those before.
fn collector_for<'a>(collector: &'a mut Option<Collector>, dim: usize, path: &Path, settings: &CollectorSettings) -> Result<&'a Collector> {
    let known = match collector.take() {
        Some(known) => known,
        None => Collector::new(CollectorSettings { dim, ..settings.clone() })?,
    };
    if known.settings().dim != dim {
        let line = format!("{}: states of {dim} components after states of {}", path.display(), known.settings().dim);
        return Err(Error::usage(line));
    }
    Ok(collector.insert(known))
}

/// Enters the states of one file, some rows at all layers after another.
fn read(layout: &Layout<'_>, settings: &CollectorSettings, collector: &mut Option<Collector>) -> Result<()> {
    let collector = collector_for(collector, layout.dim, layout.path, settings)?;
    let mut start = 0;
    while start < layout.rows {
        let end = layout.end_of_piece(start, ROWS);
        let range = start..end;
        let read: Vec<(PointName, Vec<f32>)> = match &layout.states {
            Matrix::Layers(layers) => {
                layers.iter().map(|(at, array)| Ok((*at, array.floats(start * layout.dim, end * layout.dim)?))).collect::<Result<_>>()?
            }
            Matrix::LayerFirst(array, layers) => {
                let layer = |layer: usize| {
                    let first = layer * layout.rows;
                    Ok((PointName::of_layer(layer as u32), array.floats((first + start) * layout.dim, (first + end) * layout.dim)?))
                };
                (0..*layers).map(layer).collect::<Result<_>>()?
            }
            Matrix::TokenFirst(array, layers) => {
                let (layers, dim) = (*layers, layout.dim);
                let all = array.floats(start * layers * dim, end * layers * dim)?;
                let layer = |layer: usize| {
                    let rows = all.chunks_exact(layers * dim).flat_map(|row| &row[layer * dim..(layer + 1) * dim]);
                    (PointName::of_layer(layer as u32), rows.copied().collect())
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
            collector.update(*at, &rows).map_err(|error| in_file(layout.path, start, error))?;
        }
        start = end;
    }
    Ok(())
}

/// An error with the file it is about.
fn in_file(path: &Path, start: usize, error: Error) -> Error {
    let from = if start > 0 { format!(", from row {start} on") } else { String::new() };
    Error::usage(line![format!("{}{from}: ", path.display()), error.line()])
}

/// A whole array as ids.
fn ids(array: &Array<'_>) -> Result<Vec<u64>> {
    array.ids()
}
