//! What the states of files will take in memory, said before they are read.

use std::collections::BTreeSet;
use std::path::Path;

use layerscope_error::{line, setting};
use layerscope_stats::PointShape;
use layerscope_stats::sketch::SketchKind;

use super::{ImportOptions, ROWS};
use crate::collector::CollectorSettings;
use crate::error::{Error, Result};
use crate::measure::estimate::while_computed;
use crate::process::system;
use crate::settings::parse;
use crate::store::point_name::PointName;
use crate::text::bytes;

/// Square matrices while a spectrum is computed, where nothing is computed between layers.
const SPECTRUM_MATRICES: usize = 4;

/// The memory that an import may take, and what is in it.
pub(super) struct Room {
    limit: Option<u64>,
    /// What was resident before.
    before: u64,
    points: BTreeSet<PointName>,
    groups: BTreeSet<u64>,
    rows: usize,
}

impl Room {
    /// What the user allows, or what the machine has left.
    pub fn new(options: &ImportOptions) -> Result<Room> {
        let limit = options.max_memory.as_deref().map(parse::bytes).transpose()?;
        let free = || Some(system::available()? + system::resident()?);
        Ok(Room {
            limit: limit.or_else(free),
            before: system::resident().unwrap_or(0),
            points: BTreeSet::new(),
            groups: BTreeSet::new(),
            rows: 0,
        })
    }

    /// Bytes that may still be taken.
    pub fn left(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(system::resident().unwrap_or(0)))
    }

    /// Refuses to read so many bytes at once where there is no room for them.
    pub fn expect(&self, path: &Path, needed: usize) -> Result<()> {
        match needed as u64 <= self.left() {
            true => Ok(()),
            false => Err(self.refused(path, needed)),
        }
    }

    /// Refuses states of some more points, rows and groups where what is collected of them would not fit.
    pub fn expect_points(
        &mut self,
        path: &Path,
        points: &[PointName],
        dim: usize,
        rows: usize,
        ids: Option<&[u64]>,
        settings: &CollectorSettings,
    ) -> Result<()> {
        let sketches = CollectorSettings { dim: dim.max(1), ..settings.clone() }.check()?;
        self.points.extend(points);
        self.groups.extend(ids.into_iter().flatten());
        self.rows = self.rows.saturating_add(rows);
        let sample = if sketches.contains(SketchKind::Sample) { settings.sample_states.min(self.rows) } else { 0 };
        let kept = sample + (settings.tokens.len() * settings.token_states).min(self.rows);
        let chosen = settings.tokens.len();
        let shape = PointShape { groups: self.groups.len().max(1), dim, previous: Some(dim), kept, chosen, sketches };
        // What is collected at every point, one of them once more as it is written, rows as they are read, and what tables take.
        let spectrum = if sketches.contains(SketchKind::Covariance) { SPECTRUM_MATRICES * dim * dim * size_of::<f64>() } else { 0 };
        let computed = while_computed(dim, sample, sketches.contains(SketchKind::Pairs), true).max(spectrum);
        let piece = rows.min(ROWS).saturating_mul(points.len()).saturating_mul(dim).saturating_mul(4 * size_of::<f32>());
        let needed = (self.points.len() + 2).saturating_mul(shape.bytes()).saturating_add(piece).saturating_add(computed);
        match self.limit.is_none_or(|limit| (needed as u64).saturating_add(self.before) <= limit) {
            true => Ok(()),
            false => Err(self.refused(path, needed)),
        }
    }

    fn refused(&self, path: &Path, needed: usize) -> Error {
        let line =
            format!("{}: its states need about {} of memory, {} are left", path.display(), bytes(needed), bytes(self.left() as usize));
        Error::refused(line![line, "; choose fewer ", setting("measures"), " or give ", setting("max-memory")])
    }
}
