//! Numbers off the card: large arrays by way of page-locked memory, which the card writes as fast as the bus is.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream as RawStream, DriverError};
use layerscope_stats::Result;

use super::tensors::Number;
use crate::device::Cuda;
use crate::landing::Landing;

/// Bytes that are on their way while as many are copied out; a multiple of every number's size.
const HALF: usize = 4 << 20;

/// A stream, and memory in which arrays stop over.
pub(super) struct Reader<'a> {
    cuda: &'a Cuda,
    raw: Arc<RawStream>,
    halves: Option<[Landing<u8>; 2]>,
}

impl<'a> Reader<'a> {
    /// In a stream of its own: several points are read at the same time.
    pub fn new(cuda: &'a Cuda) -> Result<Reader<'a>> {
        let raw = cuda.context().new_stream().map_err(|error| cuda.error(error))?;
        Ok(Reader { cuda, raw, halves: None })
    }

    /// The stream.
    pub fn raw(&self) -> &Arc<RawStream> {
        &self.raw
    }

    /// The first numbers of a slice.
    pub fn read<T: Number>(&mut self, slice: &CudaSlice<T>, len: usize) -> Result<Vec<T>> {
        let read = match len * size_of::<T>() {
            0 => Ok(Vec::new()),
            bytes if bytes >= 2 * HALF => self.read_large(slice, len),
            _ => self.read_small(slice, len),
        };
        Ok(read.map_err(|error| self.cuda.error(error))?)
    }

    fn read_small<T: Number>(&self, slice: &CudaSlice<T>, len: usize) -> Result<Vec<T>, DriverError> {
        let numbers = self.raw.clone_dtoh(&slice.slice(..len))?;
        self.raw.synchronize()?;
        Ok(numbers)
    }

    /// Half by half: one is copied out while the card writes the other.
    fn read_large<T: Number>(&mut self, slice: &CudaSlice<T>, len: usize) -> Result<Vec<T>, DriverError> {
        if self.halves.is_none() {
            let half = || Landing::new(self.cuda, HALF);
            self.halves = half().and_then(|first| Ok([first, half()?])).ok();
        }
        let slice_of_numbers = slice.slice(..len);
        let bytes = len * size_of::<T>();
        // SAFETY: numbers are bytes too.
        let bytes_there = unsafe { slice_of_numbers.transmute::<u8>(bytes) };
        // Where no memory can be locked, slowly.
        let (Some(halves), Some(there)) = (&mut self.halves, bytes_there) else { return self.read_small(slice, len) };
        let mut numbers = Vec::<T>::with_capacity(len);
        let here = numbers.as_mut_ptr().cast::<u8>();
        halves[0].copy(&self.raw, &there.slice(..HALF))?;
        for number in 0..bytes.div_ceil(HALF) {
            if number + 1 < bytes.div_ceil(HALF) {
                let next = start(number + 1, bytes);
                halves[(number + 1) % 2].copy(&self.raw, &there.slice(next..next + HALF))?;
            }
            let arrived = halves[number % 2].wait()?;
            // SAFETY: there is room for as many bytes from here on; the two do not overlap.
            unsafe { here.add(start(number, bytes)).copy_from_nonoverlapping(arrived.as_ptr(), HALF) };
        }
        // SAFETY: every byte was written.
        unsafe { numbers.set_len(len) };
        Ok(numbers)
    }
}

/// Where a half of so many bytes begins: the last ends with them, and repeats some.
fn start(number: usize, bytes: usize) -> usize {
    (number * HALF).min(bytes - HALF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_cover_all_bytes() {
        for bytes in [2 * HALF, 2 * HALF + 8, 3 * HALF - 8, 5 * HALF] {
            let starts: Vec<usize> = (0..bytes.div_ceil(HALF)).map(|number| start(number, bytes)).collect();
            assert!(starts[0] == 0 && starts.windows(2).all(|pair| pair[1] <= pair[0] + HALF));
            assert_eq!(starts.last().map(|last| last + HALF), Some(bytes));
        }
    }
}
