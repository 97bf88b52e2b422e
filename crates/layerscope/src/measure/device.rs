//! Where a model runs. The one place that knows which devices there are.

use layerscope_compute::{ComputeDtype, Cpu, Reference};
use layerscope_stats::Accumulate;

use crate::error::Result;
use crate::settings::wrong;

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// This machine's processors.
    Cpu,
    /// Every operation by its definition: slow, and what tests compare other devices with.
    Reference,
}

/// Asks a device what it is.
struct Describe;

impl OnDevice for Describe {
    type Output = String;

    fn run<D: Accumulate>(self, device: D) -> String {
        device.describe()
    }
}

/// Work that any device can do.
pub trait OnDevice {
    /// What comes of it.
    type Output;

    /// Does it there.
    fn run<D: Accumulate>(self, device: D) -> Self::Output;
}

impl Device {
    /// What a user may name; [`Device::Reference`] is for tests.
    pub const NAMES: &[&str] = &["auto", "cpu"];

    /// The best device of this machine.
    pub fn best() -> Device {
        Device::Cpu
    }

    /// The device that a user names.
    pub fn named(name: &str) -> Result<Device> {
        match name {
            "auto" => Ok(Device::best()),
            "cpu" => Ok(Device::Cpu),
            "reference" => Ok(Device::Reference),
            _ => Err(wrong("device", name)),
        }
    }

    /// Whether it computes products in these numbers.
    pub fn computes(self, dtype: ComputeDtype) -> bool {
        match self {
            Device::Cpu => Cpu::computes(dtype),
            Device::Reference => dtype == ComputeDtype::F32,
        }
    }

    /// Does work on this device, with products in these numbers.
    pub fn run<W: OnDevice>(self, dtype: ComputeDtype, work: W) -> Result<W::Output> {
        Ok(match self {
            Device::Cpu => work.run(Cpu::with_dtype(dtype)?),
            Device::Reference => work.run(Reference),
        })
    }

    /// What computes the numbers there, in a few words.
    pub fn describe(self, dtype: ComputeDtype) -> Result<String> {
        self.run(dtype, Describe)
    }
}
