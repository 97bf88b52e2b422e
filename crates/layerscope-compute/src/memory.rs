//! How much memory something takes, and whose.

use std::iter::Sum;
use std::ops::{Add, Mul};

/// Bytes of the host and bytes of the device. A backend that computes on the host has no device bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of the host's memory.
    pub host: usize,
    /// Bytes of the device's own memory.
    pub device: usize,
}

impl Memory {
    /// Bytes on the host alone.
    pub fn on_host(bytes: usize) -> Memory {
        Memory { host: bytes, device: 0 }
    }

    /// Bytes on the device alone.
    pub fn on_device(bytes: usize) -> Memory {
        Memory { host: 0, device: bytes }
    }
}

impl Add for Memory {
    type Output = Memory;

    fn add(self, other: Memory) -> Memory {
        Memory { host: self.host + other.host, device: self.device + other.device }
    }
}

impl Mul<usize> for Memory {
    type Output = Memory;

    fn mul(self, count: usize) -> Memory {
        Memory { host: self.host * count, device: self.device * count }
    }
}

impl Sum for Memory {
    fn sum<I: Iterator<Item = Memory>>(parts: I) -> Memory {
        parts.fold(Memory::default(), Add::add)
    }
}
