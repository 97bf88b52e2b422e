//! Numbers packed without loss: their bytes by significance, each plane compressed on its own.
//!
//! The signs and exponents of states are alike, the lowest bits of their means often zero; what lies between is noise. Blocks of [`BLOCK`]
//! numbers follow each other. In each, a plane for every byte of a number, from the lowest on: its length in four bytes, then its bytes as
//! a zstd frame, or as they are where that is not shorter.

use std::io::{self, Write};
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use layerscope_compute::parallel::in_order;
use zstd::bulk::{Compressor, Decompressor};

/// Numbers of a block: enough to compress well, few enough to hold.
const BLOCK: usize = 1 << 15;
/// Blocks that a thread packs before they are written: enough to be worth starting it.
const BLOCKS_A_THREAD: usize = 8;
/// The fastest: more work gains next to nothing on such bytes.
const LEVEL: i32 = 1;
/// Bytes of the length of a plane.
const LENGTH: usize = size_of::<u32>();

/// Bytes that tell whether a plane is noise, and the sum of their squared counts if it is.
const SEEN: usize = 4096;
const EVEN: u64 = (SEEN * SEEN / 256 + SEEN) as u64;

/// Memory of packing on so many threads: what waits, what is packed and what is written.
pub fn packing_bytes(threads: usize) -> usize {
    3 * threads * BLOCKS_A_THREAD * BLOCK * size_of::<f64>()
}

/// Memory that is used again and again: to get it anew for every few blocks takes longer than to pack them.
#[derive(Default)]
pub struct Packing {
    packers: Pool<Packer>,
    blocks: Pool<Vec<u8>>,
}

/// Things that whoever needs one takes and gives back.
struct Pool<T>(Mutex<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool(Mutex::default())
    }
}

impl<T: Default> Pool<T> {
    fn take(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn give(&self, thing: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(thing);
    }
}

/// Packs numbers of so many bytes, in pieces of any length, on several threads.
pub struct Encoder<'a> {
    out: &'a mut dyn Write,
    packing: &'a Packing,
    width: usize,
    threads: usize,
    /// Numbers that wait until there are [`BLOCKS_A_THREAD`] blocks for every thread.
    waiting: Vec<u8>,
    /// Blocks that are written while the next ones are packed.
    packed: Vec<Vec<u8>>,
    written: u64,
}

impl<'a> Encoder<'a> {
    /// An empty one.
    pub fn new(width: usize, threads: usize, packing: &'a Packing, out: &'a mut dyn Write) -> Encoder<'a> {
        let mut waiting = packing.blocks.take();
        waiting.clear();
        Encoder { out, packing, width, threads, waiting, packed: Vec::new(), written: 0 }
    }

    /// Appends bytes.
    pub fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let full = self.threads * BLOCKS_A_THREAD * BLOCK * self.width;
        while !bytes.is_empty() {
            let (taken, rest) = bytes.split_at((full - self.waiting.len()).min(bytes.len()));
            self.waiting.extend_from_slice(taken);
            bytes = rest;
            if self.waiting.len() == full {
                self.pack_waiting()?;
            }
        }
        Ok(())
    }

    /// Writes what is left; returns how many bytes all of it took.
    pub fn finish(mut self) -> io::Result<u64> {
        self.pack_waiting()?;
        // Nothing waits any more: this writes what was packed.
        self.pack_waiting()?;
        self.packing.blocks.give(self.waiting);
        Ok(self.written)
    }

    /// Every block is packed on its own: the bytes do not depend on the threads.
    fn pack_waiting(&mut self) -> io::Result<()> {
        let Encoder { out, packing, width, threads, waiting, packed, written } = self;
        let blocks: Vec<&[u8]> = waiting.chunks(BLOCK * *width).collect();
        let pack = |at: usize| {
            let (mut packer, mut block) = (packing.packers.take(), packing.blocks.take());
            let outcome = packer.pack(blocks[at], *width, &mut block);
            packing.packers.give(packer);
            outcome.map(|()| block)
        };
        let mut write = || {
            packed.drain(..).try_for_each(|block| {
                *written += block.len() as u64;
                out.write_all(&block)?;
                packing.blocks.give(block);
                Ok(())
            })
        };
        // A state has thousands of small tensors: to start a thread takes longer than to pack one.
        let next: io::Result<Vec<Vec<u8>>> = match blocks.len() {
            0 | 1 => write().and_then(|()| (0..blocks.len()).map(pack).collect()),
            _ => std::thread::scope(|scope| {
                let next = scope.spawn(|| in_order(*threads, blocks.len(), pack));
                write()?;
                next.join().unwrap_or_else(|panic| resume_unwind(panic)).into_iter().collect()
            }),
        };
        *packed = next?;
        self.waiting.clear();
        Ok(())
    }
}

/// Memory for packing blocks.
#[derive(Default)]
struct Packer {
    compressor: Compressor<'static>,
    plane: Vec<u8>,
    frame: Vec<u8>,
}

impl Packer {
    fn pack(&mut self, block: &[u8], width: usize, packed: &mut Vec<u8>) -> io::Result<()> {
        self.compressor.set_compression_level(LEVEL)?;
        packed.clear();
        packed.reserve(block.len() + width * LENGTH);
        for byte in 0..width {
            self.plane.clear();
            match width {
                8 => self.plane.extend(block.as_chunks().0.iter().map(|number| (u64::from_le_bytes(*number) >> (8 * byte)) as u8)),
                4 => self.plane.extend(block.as_chunks().0.iter().map(|number| (u32::from_le_bytes(*number) >> (8 * byte)) as u8)),
                _ => self.plane.extend(block.chunks_exact(width).map(|number| number[byte])),
            }
            self.frame.clear();
            if !is_noise(&self.plane) {
                self.frame.reserve(zstd::zstd_safe::compress_bound(self.plane.len()));
                self.compressor.compress_to_buffer(&self.plane, &mut self.frame)?;
            }
            let is_shorter = !self.frame.is_empty() && self.frame.len() < self.plane.len();
            let stored = if is_shorter { &self.frame } else { &self.plane };
            packed.extend_from_slice(&(stored.len() as u32).to_le_bytes());
            packed.extend_from_slice(stored);
        }
        Ok(())
    }
}

/// Whether bytes are so evenly spread that packing them would gain next to nothing, as their beginning tells.
fn is_noise(bytes: &[u8]) -> bool {
    let Some(seen) = bytes.get(..SEEN) else { return false };
    let mut counts = [0u32; 256];
    seen.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let squares: u64 = counts.iter().map(|count| u64::from(*count).pow(2)).sum();
    // The mean of even noise, SEEN^2 / 256 + SEEN, and ten standard deviations: packing would gain less than one byte in a hundred.
    squares < EVEN + EVEN / 20
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
