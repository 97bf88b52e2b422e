//! Header and index entries, byte by byte.

use std::ops::Range;

use crate::document::DocumentId;

const MAGIC: [u8; 8] = *b"LSspool\n";
const VERSION: u32 = 3;

pub(super) const HEADER_BYTES: usize = 128;
pub(super) const SEQUENCE_BYTES: usize = 40;

/// The first bytes of a spool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub prefix: u16,
    pub suffix: u16,
    pub fingerprint: u128,
    pub rows: u64,
    pub sequences: u64,
    pub pilot: u64,
    pub details_bytes: u64,
    pub tokens_sum: u32,
    pub index_sum: u32,
    pub pilot_sum: u32,
    pub details_sum: u32,
    pub longest: u32,
    pub largest_id: u32,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.prefix.to_le_bytes());
        bytes.extend(self.suffix.to_le_bytes());
        bytes.extend(self.fingerprint.to_le_bytes());
        [self.rows, self.sequences, self.pilot, self.details_bytes].iter().for_each(|size| bytes.extend(size.to_le_bytes()));
        let rest = [self.tokens_sum, self.index_sum, self.pilot_sum, self.details_sum, self.longest, self.largest_id];
        rest.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.resize(HEADER_BYTES - 4, 0);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&bytes);
        header
    }

    /// Reads a header and compares it with the file's size; otherwise says what is wrong.
    pub fn decode(bytes: &[u8; HEADER_BYTES], file_bytes: u64) -> Result<Self, String> {
        if bytes[..8] != MAGIC {
            return Err("not a spool, or a truncated one".into());
        }
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|place| bytes[at + place]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|place| bytes[at + place]));
        let version = u32_at(8);
        if version != VERSION {
            return Err(format!("a spool of version {version}, but this program reads version {VERSION}"));
        }
        if crc32fast::hash(&bytes[..HEADER_BYTES - 4]) != u32_at(HEADER_BYTES - 4) {
            return Err("its header is damaged".into());
        }
        let header = Header {
            prefix: u16::from_le_bytes([bytes[12], bytes[13]]),
            suffix: u16::from_le_bytes([bytes[14], bytes[15]]),
            fingerprint: u128::from(u64_at(16)) | u128::from(u64_at(24)) << 64,
            rows: u64_at(32),
            sequences: u64_at(40),
            pilot: u64_at(48),
            details_bytes: u64_at(56),
            tokens_sum: u32_at(64),
            index_sum: u32_at(68),
            pilot_sum: u32_at(72),
            details_sum: u32_at(76),
            longest: u32_at(80),
            largest_id: u32_at(84),
        };
        match header.total() {
            Some(total) if total == u128::from(file_bytes) => Ok(header),
            Some(total) => Err(format!("it has {file_bytes} bytes instead of {total}")),
            None => Err("its header gives impossible sizes".into()),
        }
    }

    fn total(&self) -> Option<u128> {
        let entries = u128::from(self.sequences) + u128::from(self.pilot);
        let total = HEADER_BYTES as u128 + u128::from(self.rows) * 8 + entries * SEQUENCE_BYTES as u128 + u128::from(self.details_bytes);
        (total <= u128::from(u64::MAX)).then_some(total)
    }

    pub fn index_start(&self) -> u64 {
        HEADER_BYTES as u64 + self.rows * 8
    }

    pub fn pilot_start(&self) -> u64 {
        self.index_start() + self.sequences * SEQUENCE_BYTES as u64
    }

    pub fn details_start(&self) -> u64 {
        self.pilot_start() + self.pilot * SEQUENCE_BYTES as u64
    }

    /// Every part with its bytes and its checksum.
    pub fn parts(&self) -> [(&'static str, Range<u64>, u32); 4] {
        [
            ("token part", HEADER_BYTES as u64..self.index_start(), self.tokens_sum),
            ("index", self.index_start()..self.pilot_start(), self.index_sum),
            ("pilot index", self.pilot_start()..self.details_start(), self.pilot_sum),
            ("dictionary", self.details_start()..self.details_start() + self.details_bytes, self.details_sum),
        ]
    }
}

/// One sequence of the index: 40 bytes on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The document it is part of.
    pub document: DocumentId,
    /// The place of its first token of text in the document, special tokens not counted.
    pub first: u32,
    /// Rows of the document's earlier sequences: `row` plus a row's place here numbers every state of a document once.
    pub row: u32,
    /// Rows of the token part before it.
    pub offset: u64,
    /// Its rows, special tokens included.
    pub length: u32,
    /// How many states of it are counted.
    pub counted: u32,
}

impl Sequence {
    pub(super) fn encode(&self) -> [u8; SEQUENCE_BYTES] {
        let mut bytes = [0; SEQUENCE_BYTES];
        let DocumentId { file, record, chunk } = self.document;
        for (at, number) in [(0, file), (4, chunk), (16, self.first), (20, self.row), (32, self.length), (36, self.counted)] {
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        for (at, number) in [(8, record), (24, self.offset)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8; SEQUENCE_BYTES]) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|place| bytes[at + place]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|place| bytes[at + place]));
        Sequence {
            document: DocumentId { file: u32_at(0), chunk: u32_at(4), record: u64_at(8) },
            first: u32_at(16),
            row: u32_at(20),
            offset: u64_at(24),
            length: u32_at(32),
            counted: u32_at(36),
        }
    }
}
