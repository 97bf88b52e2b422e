//! Floats that start on a cache line, so that no vector of 16 straddles two.

use std::ops::{Deref, DerefMut};

use crate::{Error, Result};

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// A buffer of floats; its length is a multiple of 16.
#[derive(Default)]
pub struct Floats {
    lines: Vec<Line>,
}

impl Floats {
    /// At least `len` zeros.
    pub fn zeros(len: usize) -> Floats {
        let mut floats = Floats::default();
        floats.resize(len);
        floats
    }

    /// At least `len` zeros, or an error where the memory does not suffice.
    pub fn try_zeros(len: usize) -> Result<Floats> {
        let lines = len.div_ceil(16);
        let mut floats = Floats::default();
        let too_large = |_| Error::OutOfMemory { device: "cpu".to_owned(), bytes: lines.saturating_mul(size_of::<Line>()) };
        floats.lines.try_reserve_exact(lines).map_err(too_large)?;
        floats.resize(len);
        Ok(floats)
    }

    /// Makes room for exactly `len` floats, rounded up; new ones are 0.
    pub fn resize(&mut self, len: usize) {
        self.lines.resize(len.div_ceil(16), Line([0.0; 16]));
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }
}

impl Deref for Floats {
    type Target = [f32];

    #[inline(always)]
    fn deref(&self) -> &[f32] {
        // SAFETY: a Line is exactly 16 floats without padding.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * 16) }
    }
}

impl DerefMut for Floats {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * 16) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_can_be_asked_for() {
        assert_eq!(Floats::try_zeros(17).map(|floats| floats.len()), Ok(32));
        let error = Floats::try_zeros(1 << 60).map(|_| ()).expect_err("an exabyte");
        assert_eq!(error, Error::OutOfMemory { device: "cpu".to_owned(), bytes: 1 << 62 });
    }
}
