//! Floats that start on a cache line, so that no vector of 16 straddles two.

use std::ops::{Deref, DerefMut};

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
