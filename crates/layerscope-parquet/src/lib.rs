//! Parquet files that others made. The library that reads them believes the counts in their headers: a list of two thousand million
//! entries is skipped entry by entry behind the end of the file, and a dictionary gets its memory before it is read. Here every
//! header is walked once before the library sees it, and what its bytes cannot hold is an error.

mod header;

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length, SerializedFileReader};

/// The footer's length and the magic number: a file ends with them.
const TAIL: u64 = 8;

/// A file whose headers are checked before they are read.
#[derive(Debug)]
pub struct Checked {
    file: File,
    bytes: u64,
}

/// Opens a Parquet file.
pub fn open(file: File) -> Result<SerializedFileReader<Checked>> {
    let bytes = file.metadata()?.len();
    SerializedFileReader::new(Checked { file, bytes })
}

impl Checked {
    fn at(&self, start: u64) -> Result<BufReader<File>> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        Ok(BufReader::new(file))
    }
}

impl Length for Checked {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Checked {
    type T = BufReader<File>;

    /// Only the tail and the headers of pages are read so.
    fn get_read(&self, start: u64) -> Result<BufReader<File>> {
        if self.bytes.checked_sub(TAIL) != Some(start) {
            header::check_page(&mut self.at(start)?, self.bytes.saturating_sub(start)).map_err(damaged)?;
        }
        self.at(start)
    }

    /// The footer and the pages themselves.
    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64).filter(|end| *end <= self.bytes);
        let end = end.ok_or_else(|| ParquetError::EOF(format!("{length} bytes from byte {start} on are not in the file")))?;
        let mut content = vec![0; length];
        std::io::Read::read_exact(&mut self.at(start)?, &mut content)?;
        if self.bytes.checked_sub(TAIL) == Some(end) {
            header::check_footer(&mut content.as_slice(), length as u64).map_err(damaged)?;
        }
        Ok(content.into())
    }
}

fn damaged(problem: &str) -> ParquetError {
    ParquetError::General(problem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file without rows whose schema is so many groups in each other, in bytes of the format.
    fn nested(groups: usize) -> Vec<u8> {
        let (root, group, leaf) = (b"\x48\x01r\x15\x02\0", b"\x35\x02\x18\x01a\x15\x02\0", b"\x15\x02\x25\x02\x18\x01x\0");
        let count = groups + 2;
        let count = [(count & 127 | 128) as u8, (count >> 7 & 127 | 128) as u8, (count >> 14) as u8];
        let footer = [&b"\x15\x02\x19\xfc"[..], &count, root, &group.repeat(groups), leaf, b"\x16\0\x19\x0c\0"].concat();
        [&b"PAR1"[..], &footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
    }

    #[test]
    fn schemas_that_would_overflow_the_stack_are_refused() {
        let open = |groups: usize| {
            let path = std::env::temp_dir().join(format!("layerscope-{}-nested.parquet", std::process::id()));
            std::fs::write(&path, nested(groups)).expect("a file");
            let opened = open(File::open(&path).expect("a file")).map(drop);
            std::fs::remove_file(path).expect("removable");
            opened.map_err(|error| error.to_string())
        };
        assert_eq!(open(100), Ok(()));
        assert!(open(100_000).expect_err("too deep").contains("its schema nests too deep"));
    }
}
