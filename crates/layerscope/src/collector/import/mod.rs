//! States that lie in files, computed by anybody: .npy, .npz, .safetensors and .parquet into a run.
//!
//! Files are read piece by piece; memory depends on the groups and layers, not on the number of states.

mod arrays;
mod axes;
mod columns;
mod layout;
mod memory;
mod npy;
mod npz;
mod sources;
mod tensors;

use std::path::{Path, PathBuf};

use layerscope_error::line;

use crate::collector::{Collector, CollectorSettings, GroupsOf, StateRows};
use crate::error::{Error, Result};
use crate::measure::event::{Event, Show};
use crate::store::point_name::PointName;
use arrays::{Array, Arrays};
use layout::{Layout, Matrix, Opened, has_layers};
use memory::Room;
use sources::{FileLayer, sources};

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
    /// Layer number of states that have no axis for it [default: the file's name, such as layer_3.npy, or 0]
    #[arg(long, value_name = "N")]
    pub layer: Option<u32>,
    /// Take the layer from the numbers that end the files' names, or from none of them [possible values: names, none]
    #[arg(long, value_name = "HOW")]
    pub layers_from: Option<String>,
    /// Order of the axes if their lengths are ambiguous: token,layer,component or layer,token,component or batch,token,component or layer,batch,token,component
    #[arg(long, value_name = "AXES")]
    pub axes: Option<String>,
    /// Use at most this much memory, such as 8G [default: what is free]
    #[arg(long, value_name = "BYTES")]
    pub max_memory: Option<String>,
}

/// Rows that are read at once.
const ROWS: usize = 4096;

/// Reads files of states into a collector, which the first of them makes. The files decide `dim` of the settings. `show` is told what is read,
/// and what was understood of it.
pub fn import(files: &[PathBuf], options: &ImportOptions, settings: &CollectorSettings, show: &mut Show<'_>) -> Result<Collector> {
    // Bad settings are refused before any file is read.
    CollectorSettings { dim: 1, ..settings.clone() }.check()?;
    let mut reading = Reading { options, settings, room: Room::new(options)?, collector: None, documents: 0, understood: String::new() };
    for source in sources(files, options)? {
        reading.source(&source, show)?;
    }
    reading.collector.ok_or_else(|| Error::usage("there are no files to import".to_owned()))
}

/// An import on its way.
struct Reading<'a> {
    options: &'a ImportOptions,
    settings: &'a CollectorSettings,
    room: Room,
    collector: Option<Collector>,
    /// Documents that had no names and were numbered.
    documents: u64,
    /// What was said last.
    understood: String,
}

impl Reading<'_> {
    /// Files that may be layers of the same tokens, or a single one.
    fn source(&mut self, files: &[(PathBuf, FileLayer)], show: &mut Show<'_>) -> Result<()> {
        if let [(path, layer)] = files
            && path.extension().is_some_and(|end| end == "parquet")
        {
            show(Event::note(format!("reading {}", path.display())));
            return columns::read(path, layer, self, show);
        }
        let open = |(path, layer): &(PathBuf, FileLayer)| Ok((Arrays::open(path, self.room.left())?, layer.clone()));
        let opened: Vec<Opened> = files.iter().map(open).collect::<Result<_>>()?;
        // Where every file has all layers, its number is another one.
        match opened.len() > 1 && opened.iter().any(|file| has_layers(file, self.options)) {
            true => opened.chunks(1).try_for_each(|file| self.arrays(file, show)),
            false => self.arrays(&opened, show),
        }
    }

    fn arrays(&mut self, files: &[Opened], show: &mut Show<'_>) -> Result<()> {
        let layout = Layout::of(files, self.options, self.documents)?;
        self.room.expect_points(layout.path, &layout.points(), layout.dim, layout.rows, layout.groups.as_deref(), self.settings)?;
        files.iter().for_each(|(arrays, _)| show(Event::note(format!("reading {}", arrays.path.display()))));
        let understood = layout.understood();
        if understood != self.understood {
            show(Event::note(understood.clone()));
            self.understood = understood;
        }
        self.documents += layout.numbered;
        read(&layout, self.settings, &mut self.collector, show)
    }
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
fn read(layout: &Layout<'_>, settings: &CollectorSettings, collector: &mut Option<Collector>, show: &mut Show<'_>) -> Result<()> {
    let collector = collector_for(collector, layout.dim, layout.path, settings)?;
    let mut start = 0;
    while start < layout.rows {
        show(Event::Importing { states: start as u64, of: layout.rows as u64 });
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
                mask: layout.mask.as_ref().map(|mask| &mask[range.clone()]),
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
