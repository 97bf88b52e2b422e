//! Numbers packed without loss: their bytes by significance, each plane compressed on its own.
//!
//! The signs and exponents of states are alike, the lowest bits of their means often zero; what lies between is noise. Blocks of [`BLOCK`]
//! numbers follow each other. In each, a plane for every byte of a number, from the lowest on: its length in four bytes, then its bytes as
//! a zstd frame, or as they are where that is not shorter.

use std::io::{self, Write};

use zstd::bulk::{Compressor, Decompressor};

/// Numbers of a block: enough to compress well, few enough to hold.
const BLOCK: usize = 1 << 15;
/// The fastest: more work gains next to nothing on such bytes.
const LEVEL: i32 = 1;
/// Bytes of the length of a plane.
const LENGTH: usize = size_of::<u32>();

/// Packs numbers of so many bytes, in pieces of any length.
pub struct Encoder<'a> {
    out: &'a mut dyn Write,
    width: usize,
    compressor: Compressor<'static>,
    block: Vec<u8>,
    plane: Vec<u8>,
    frame: Vec<u8>,
    written: u64,
}

impl<'a> Encoder<'a> {
    /// An empty one.
    pub fn new(width: usize, out: &'a mut dyn Write) -> io::Result<Encoder<'a>> {
        let block = Vec::with_capacity(BLOCK * width);
        Ok(Encoder { out, width, compressor: Compressor::new(LEVEL)?, block, plane: Vec::new(), frame: Vec::new(), written: 0 })
    }

    /// Appends bytes.
    pub fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = BLOCK * self.width - self.block.len();
            let (taken, rest) = bytes.split_at(room.min(bytes.len()));
            self.block.extend_from_slice(taken);
            bytes = rest;
            if self.block.len() == BLOCK * self.width {
                self.write_block()?;
            }
        }
        Ok(())
    }

    /// Writes what is left; returns how many bytes all of it took.
    pub fn finish(mut self) -> io::Result<u64> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        Ok(self.written)
    }

    fn write_block(&mut self) -> io::Result<()> {
        for byte in 0..self.width {
            self.plane.clear();
            self.plane.extend(self.block.chunks_exact(self.width).map(|number| number[byte]));
            self.frame.clear();
            self.frame.reserve(zstd::zstd_safe::compress_bound(self.plane.len()));
            self.compressor.compress_to_buffer(&self.plane, &mut self.frame)?;
            let stored = if self.frame.len() < self.plane.len() { &self.frame } else { &self.plane };
            self.out.write_all(&(stored.len() as u32).to_le_bytes())?;
            self.out.write_all(stored)?;
            self.written += (LENGTH + stored.len()) as u64;
        }
        self.block.clear();
        Ok(())
    }
}

/// Unpacks `numbers` numbers of `width` bytes from `stored` bytes, which `read` gives in their order; `take` gets them block by block.
///
/// What cannot be such numbers is [`io::ErrorKind::InvalidData`].
pub fn decode(
    (numbers, width): (usize, usize),
    stored: usize,
    read: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "packed numbers that cannot be unpacked");
    let mut decompressor = Decompressor::new()?;
    let (mut left, mut frame, mut plane, mut block) = (stored, Vec::new(), Vec::new(), Vec::new());
    for start in (0..numbers).step_by(BLOCK) {
        let count = BLOCK.min(numbers - start);
        block.resize(count * width, 0);
        for byte in 0..width {
            let mut length = [0; LENGTH];
            left = left.checked_sub(LENGTH).ok_or_else(invalid)?;
            read(&mut length)?;
            let length = u32::from_le_bytes(length) as usize;
            left = left.checked_sub(length).filter(|_| length <= count).ok_or_else(invalid)?;
            frame.resize(length, 0);
            read(&mut frame)?;
            plane.clear();
            if length == count {
                plane.extend_from_slice(&frame);
            } else {
                plane.reserve_exact(count);
                decompressor.decompress_to_buffer(&frame, &mut plane).map_err(|_| invalid())?;
            }
            if plane.len() != count {
                return Err(invalid());
            }
            block.iter_mut().skip(byte).step_by(width).zip(&plane).for_each(|(place, value)| *place = *value);
        }
        take(&block)?;
    }
    if left == 0 { Ok(()) } else { Err(invalid()) }
}
