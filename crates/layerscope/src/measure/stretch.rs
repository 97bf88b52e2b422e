//! The states of a stretch of text at one point of the model: they wait on disk between two legs of the way.
//!
//! One record a batch: its states in f32, little-endian, row after row, then their CRC-32. Records may be written in any order and
//! from any thread; the system keeps in memory what it has room for.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use layerscope_corpus::BatchPlan;
use layerscope_error::{line, setting};
use layerscope_files::{Positioned, open_no_link};

use crate::error::{Error, Result};

/// Bytes after the states of a batch.
const CHECKSUM: u64 = 4;

/// Which rows a stretch has: those of consecutive batches.
#[derive(Clone, Debug)]
pub struct StretchRows {
    first: usize,
    /// Rows before each of its batches, and all of them.
    starts: Vec<u64>,
}

impl StretchRows {
    /// Of some batches of a plan.
    pub fn of_plan(plan: &BatchPlan, batches: Range<usize>) -> StretchRows {
        let first = plan.rows(batches.start..batches.start).start;
        let ends = batches.clone().map(|batch| plan.rows(batch..batch + 1).end - first);
        StretchRows { first: batches.start, starts: std::iter::once(0).chain(ends).collect() }
    }

    /// Of batches with so many rows each.
    pub fn of_lengths(lengths: impl Iterator<Item = usize>) -> StretchRows {
        let ends = lengths.scan(0, |end, rows| {
            *end += rows as u64;
            Some(*end)
        });
        StretchRows { first: 0, starts: std::iter::once(0).chain(ends).collect() }
    }

    /// Rows before each batch, and all of them.
    pub fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// Bytes on disk of states of so many components.
    pub fn bytes(&self, width: usize) -> u64 {
        self.starts[self.starts.len() - 1] * row_bytes(width) + (self.starts.len() - 1) as u64 * CHECKSUM
    }
}

fn row_bytes(width: usize) -> u64 {
    (width * size_of::<f32>()) as u64
}

/// The states, in a file.
#[derive(Debug)]
pub struct Stretch {
    path: PathBuf,
    file: File,
    rows: StretchRows,
    width: usize,
    /// Whose states these are: files are used again.
    owner: u64,
}

impl Stretch {
    /// Opens the file, creating it where it is missing. What it holds stays until it is written over; what another owner wrote is not read.
    pub fn create(path: &Path, rows: StretchRows, width: usize, owner: u64) -> Result<Stretch> {
        let file = open_no_link(path, OpenOptions::new().read(true).write(true).create(true).truncate(false));
        let stretch = Stretch { path: path.to_owned(), file: file.map_err(|source| Error::io(path, source))?, rows, width, owner };
        let bytes = stretch.rows.bytes(width);
        stretch.file.set_len(bytes).map_err(|source| Error::io(path, source))?;
        Ok(stretch)
    }

    /// The states of a batch.
    pub fn read(&self, batch: usize) -> Result<Vec<f32>> {
        let (start, len) = self.record(batch)?;
        let mut bytes = vec![0; len + CHECKSUM as usize];
        self.file.read_exact_at(&mut bytes, start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged(),
            _ => Error::io(&self.path, error),
        })?;
        let (states, checksum) = bytes.split_at(len);
        if self.checksum(states) != checksum {
            return Err(self.damaged());
        }
        Ok(states.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect())
    }

    /// Puts the states of a batch down.
    pub fn write(&self, batch: usize, states: &[f32]) -> Result<()> {
        let (start, len) = self.record(batch)?;
        if size_of_val(states) != len {
            return Err(self.damaged());
        }
        let mut bytes = vec![0; len + CHECKSUM as usize];
        let (numbers, checksum) = bytes.split_at_mut(len);
        numbers.as_chunks_mut().0.iter_mut().zip(states).for_each(|(place, number)| *place = number.to_le_bytes());
        checksum.copy_from_slice(&self.checksum(numbers));
        self.file.write_all_at(&bytes, start).map_err(|source| Error::io(&self.path, source))
    }

    /// Makes sure that everything written is on the disk.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|source| Error::io(&self.path, source))
    }

    /// CRC-32 of the owner and the states of a batch.
    fn checksum(&self, states: &[u8]) -> [u8; CHECKSUM as usize] {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.owner.to_le_bytes());
        hasher.update(states);
        hasher.finalize().to_le_bytes()
    }

    /// Where the record of a batch begins, and the bytes of its states.
    fn record(&self, batch: usize) -> Result<(u64, usize)> {
        let place = batch.checked_sub(self.rows.first).filter(|place| place + 1 < self.rows.starts.len()).ok_or_else(|| self.damaged())?;
        let [start, end] = [place, place + 1].map(|at| self.rows.starts[at] * row_bytes(self.width));
        Ok((start + place as u64 * CHECKSUM, (end - start) as usize))
    }

    fn damaged(&self) -> Error {
        Error::damaged(&self.path, line!["damaged; start again with ", setting("overwrite")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_and_damage_is_noticed() {
        let folder = std::env::temp_dir().join(format!("layerscope-stretch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("stream");
        let rows = StretchRows::of_lengths([3, 1, 2].into_iter());
        assert_eq!(rows.bytes(2), 6 * 8 + 3 * 4);
        let stretch = Stretch::create(&path, rows.clone(), 2, 7).expect("a file");
        stretch.write(2, &[5.0, -0.0, f32::MIN_POSITIVE, 8.0]).expect("room");
        stretch.write(0, &[1.0; 6]).expect("room");
        stretch.sync().expect("a disk");
        assert_eq!(stretch.read(2).expect("states").iter().map(|x| x.to_bits()).collect::<Vec<_>>()[1], (-0.0f32).to_bits());
        assert!(stretch.read(1).is_err(), "never written");
        assert!(stretch.read(3).is_err() && stretch.write(0, &[1.0; 4]).is_err());
        drop(stretch);
        assert!(Stretch::create(&path, rows.clone(), 2, 8).expect("a file").read(0).is_err(), "another owner's");
        let again = Stretch::create(&path, rows, 2, 7).expect("a file");
        assert_eq!(again.read(0).expect("states"), [1.0; 6]);
        again.file.write_all_at(&[1], 5).expect("a disk");
        assert!(again.read(0).expect_err("damaged").to_string().contains("damaged"));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
