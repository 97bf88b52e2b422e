//! Writing a spool: a temporary file beside its final name, synchronized, then renamed.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use layerscope_files::{Positioned, sync_folder};

use super::format::{HEADER_BYTES, Header};
use super::{Details, Sequence, code};
use crate::document::DocumentId;
use crate::error::{Error, Result};
use crate::group::{CONTINUES, UNCOUNTED};

/// A spool that grows by one sequence at a time. What is dropped unfinished leaves nothing behind.
pub(crate) struct SpoolWriter {
    path: PathBuf,
    partial: Partial,
    out: BufWriter<File>,
    index: BufWriter<File>,
    tokens_sum: crc32fast::Hasher,
    index_sum: crc32fast::Hasher,
    pilot: Vec<u8>,
    buffer: Vec<u8>,
    header: Header,
}

/// A file that nobody else made, in place of what had its name: nothing is written through a symbolic link.
fn new_file(path: &Path) -> Result<File> {
    let _ = std::fs::remove_file(path);
    File::options().read(true).write(true).create_new(true).open(path).map_err(|error| Error::io(path, error))
}

/// Removes the temporary file unless it was renamed.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One sequence on its way to the disk.
pub(crate) struct NewSequence<'a> {
    pub document: DocumentId,
    pub first: u32,
    pub row: u32,
    pub ids: &'a [u32],
    pub words: &'a [u32],
    /// Part of this shard.
    pub own: bool,
    /// Part of the pilot.
    pub pilot: bool,
}

impl SpoolWriter {
    /// Starts a spool that will be named `path`; its folder must exist.
    pub fn create(path: &Path, around: (usize, usize)) -> Result<Self> {
        let beside = |ending: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{ending}"));
            PathBuf::from(name)
        };
        let name = beside("partial");
        let out = new_file(&name)?;
        let partial = Partial(name);
        // The index grows in a file of its own that has no name, and is appended at the end.
        let name = beside("index");
        let index = new_file(&name)?;
        std::fs::remove_file(&name).map_err(|error| Error::io(&name, error))?;
        let mut writer = SpoolWriter {
            path: path.to_owned(),
            partial,
            out: BufWriter::with_capacity(1 << 18, out),
            index: BufWriter::with_capacity(1 << 16, index),
            tokens_sum: crc32fast::Hasher::new(),
            index_sum: crc32fast::Hasher::new(),
            pilot: Vec::new(),
            buffer: Vec::new(),
            header: Header { prefix: around.0 as u16, suffix: around.1 as u16, ..Header::default() },
        };
        writer.out.write_all(&[0; HEADER_BYTES]).map_err(|error| Error::io(&writer.partial.0, error))?;
        Ok(writer)
    }

    /// Adds a sequence; says how many of its states are counted.
    pub fn add(&mut self, new: &NewSequence) -> Result<u32> {
        self.buffer.clear();
        for number in new.ids.iter().chain(new.words) {
            self.buffer.extend(number.to_le_bytes());
        }
        self.tokens_sum.update(&self.buffer);
        self.out.write_all(&self.buffer).map_err(|error| Error::io(&self.partial.0, error))?;
        let counted = new.words.iter().filter(|&&word| word & CONTINUES == 0 && word != UNCOUNTED).count() as u32;
        let length = new.ids.len() as u32;
        let offset = self.header.rows;
        let entry = Sequence { document: new.document, first: new.first, row: new.row, offset, length, counted }.encode();
        if new.own {
            self.index_sum.update(&entry);
            self.index.write_all(&entry).map_err(|error| Error::io(&self.partial.0, error))?;
            self.header.sequences += 1;
        }
        if new.pilot {
            self.pilot.extend(entry);
            self.header.pilot += 1;
        }
        self.header.rows += u64::from(length);
        self.header.longest = self.header.longest.max(length);
        self.header.largest_id = self.header.largest_id.max(new.ids.iter().copied().max().unwrap_or(0));
        Ok(counted)
    }

    /// Completes the spool and gives it its name.
    pub fn finish(mut self, fingerprint: u128, details: &Details) -> Result<()> {
        self.complete(fingerprint, details).map_err(|error| Error::io(&self.partial.0, error))?;
        std::fs::rename(&self.partial.0, &self.path).map_err(|error| Error::io(&self.path, error))?;
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        sync_folder(folder).map_err(|error| Error::io(folder, error))
    }

    fn complete(&mut self, fingerprint: u128, details: &Details) -> io::Result<()> {
        self.index.flush()?;
        let index = self.index.get_mut();
        index.rewind()?;
        io::copy(&mut index.take(u64::MAX), &mut self.out)?;
        self.out.write_all(&self.pilot)?;
        let details = code::encode(details);
        self.out.write_all(&details)?;
        self.out.flush()?;
        self.header.fingerprint = fingerprint;
        self.header.tokens_sum = self.tokens_sum.clone().finalize();
        self.header.index_sum = self.index_sum.clone().finalize();
        self.header.pilot_sum = crc32fast::hash(&self.pilot);
        self.header.details_sum = crc32fast::hash(&details);
        self.header.details_bytes = details.len() as u64;
        let file = self.out.get_ref();
        file.write_all_at(&self.header.encode(), 0)?;
        file.sync_all()
    }
}
