//! The bytes of a pickle, taken piece by piece.

use super::{Fault, broken};

/// What is still to be interpreted.
pub(super) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of a pickle.
    pub fn new(pickle: &'a [u8]) -> Self {
        Input { rest: pickle }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Fault<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| broken("it ends in the middle"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Fault<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    /// One byte.
    pub fn byte(&mut self) -> Fault<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A count in four bytes.
    pub fn count(&mut self) -> Fault<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Everything up to a newline.
    pub fn line(&mut self) -> Fault<&'a str> {
        let end = self.rest.iter().position(|&byte| byte == b'\n').ok_or_else(|| broken("it ends in the middle"))?;
        let line = self.take(end + 1)?;
        std::str::from_utf8(&line[..end]).map_err(|_| broken("a name is not UTF-8"))
    }

    /// A string of `length` bytes.
    pub fn text(&mut self, length: usize) -> Fault<&'a str> {
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|_| broken("a string is not UTF-8"))
    }

    /// A little-endian integer in two's complement.
    pub fn long(&mut self, length: usize) -> Fault<i64> {
        let bytes = self.take(length)?;
        if length > 8 {
            return Err(broken("an integer is too long"));
        }
        let mut padded = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { [0xff; 8] } else { [0; 8] };
        padded[..length].copy_from_slice(bytes);
        Ok(i64::from_le_bytes(padded))
    }
}
