//! A header's bytes in order, each piece checked against what is left of the file.

use crate::checkpoint::WeightFile;
use crate::error::Error;

/// The longest header worth reading: a vocabulary of 262,144 tokens with its merges takes 15 million bytes.
const MAX_HEADER_BYTES: u64 = 200_000_000;
/// The longest text of a header: templates of conversations take some ten thousand bytes.
const MAX_TEXT_BYTES: u64 = 4 << 20;
/// Bytes read at a time.
const CHUNK: usize = 64 * 1024;

/// Why a header cannot be read.
pub(super) enum Fault {
    /// The file could not be read.
    Read(Error),
    /// The file breaks a promise of the format; says which, but not in which file.
    Malformed(String),
}

impl Fault {
    pub fn of(problem: String) -> Fault {
        Fault::Malformed(problem)
    }
}

/// Reads a file from its beginning.
pub(super) struct Input<'a> {
    file: &'a WeightFile,
    position: u64,
    buffer: Vec<u8>,
    /// The byte of the file where the buffer begins.
    buffer_start: u64,
}

impl<'a> Input<'a> {
    pub fn new(file: &'a WeightFile) -> Self {
        Input::at(file, 0)
    }

    pub fn at(file: &'a WeightFile, position: u64) -> Self {
        Input { file, position, buffer: Vec::new(), buffer_start: position }
    }

    pub fn file_size(&self) -> u64 {
        self.file.bytes
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    /// Refuses what ends past the file, or past any header.
    fn check(&self, count: u64, what: &str) -> Result<u64, Fault> {
        let size = self.file.bytes;
        match self.position.checked_add(count) {
            Some(end) if end > MAX_HEADER_BYTES && end <= size => {
                Err(Fault::of(format!("its header is longer than {MAX_HEADER_BYTES} bytes; is this a GGUF file?")))
            }
            Some(end) if end <= size => Ok(end),
            _ => Err(Fault::of(format!("{what} ends past the {size} bytes of the file, which may be truncated"))),
        }
    }

    /// Passes over some bytes.
    pub fn skip(&mut self, count: u64, what: &str) -> Result<(), Fault> {
        self.position = self.check(count, what)?;
        Ok(())
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Fault> {
        let end = self.check(N as u64, what)?;
        let buffer_end = self.buffer_start + self.buffer.len() as u64;
        if self.position < self.buffer_start || end > buffer_end {
            self.buffer.resize(CHUNK.min((self.file.bytes - self.position) as usize), 0);
            self.file.read_at(&mut self.buffer, self.position).map_err(Fault::Read)?;
            self.buffer_start = self.position;
        }
        let at = (self.position - self.buffer_start) as usize;
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.buffer[at..at + N]);
        self.position = end;
        Ok(bytes)
    }

    pub fn u8(&mut self, what: &str) -> Result<u8, Fault> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    pub fn u16(&mut self, what: &str) -> Result<u16, Fault> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub fn u32(&mut self, what: &str) -> Result<u32, Fault> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &str) -> Result<u64, Fault> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// The length of a text that follows, checked.
    fn text_length(&mut self, what: &str) -> Result<u64, Fault> {
        let length = self.u64(what)?;
        self.check(length, what)?;
        match length {
            0..=MAX_TEXT_BYTES => Ok(length),
            _ => Err(Fault::of(format!("{what} is {length} bytes long; is this a GGUF file?"))),
        }
    }

    pub fn skip_text(&mut self, what: &str) -> Result<(), Fault> {
        let length = self.text_length(what)?;
        self.skip(length, what)
    }

    pub fn text(&mut self, what: &str) -> Result<String, Fault> {
        let length = self.text_length(what)?;
        let mut bytes = vec![0; length as usize];
        let at = self.position.checked_sub(self.buffer_start).map(|at| at as usize);
        match at.and_then(|at| self.buffer.get(at..at + bytes.len())) {
            Some(buffered) => bytes.copy_from_slice(buffered),
            None => self.file.read_at(&mut bytes, self.position).map_err(Fault::Read)?,
        }
        self.position += length;
        String::from_utf8(bytes).map_err(|_| Fault::of(format!("{what} is not UTF-8")))
    }
}
