//! Where a model runs. The one place that knows which devices there are.

use std::fmt;

use layerscope_compute::cpu::Isa;
use layerscope_compute::{ComputeDtype, Cpu, Reference};
use layerscope_cuda::Cuda;
use layerscope_stats::Accumulate;

use crate::error::Result;
use crate::settings::{wrong, wrong_word};

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// This machine's processors.
    Cpu,
    /// The GPU of this number.
    Cuda(usize),
    /// Every operation by its definition: slow, and what tests compare other devices with.
    Reference,
}

/// What a user may call a device; a number follows the colon.
const WORDS: [&str; 4] = ["auto", "cpu", "cuda", "cuda:"];

impl fmt::Display for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => out.write_str("cpu"),
            Device::Cuda(number) => write!(out, "cuda:{number}"),
            Device::Reference => out.write_str("reference"),
        }
    }
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
    /// The best device of this machine: the first GPU, if it has one and what drives it.
    pub fn best() -> Device {
        if layerscope_cuda::cards().is_ok_and(|cards| cards > 0) { Device::Cuda(0) } else { Device::Cpu }
    }

    /// The device that a user names.
    pub fn named(name: &str) -> Result<Device> {
        match name {
            "auto" => Ok(Device::best()),
            "cpu" => Ok(Device::Cpu),
            "cuda" => Ok(Device::Cuda(0)),
            "reference" => Ok(Device::Reference),
            _ => {
                let number = name.strip_prefix("cuda:").and_then(|number| number.parse().ok());
                number.map(Device::Cuda).ok_or_else(|| wrong_word("device", name, &WORDS))
            }
        }
    }

    /// The devices that a user names: one, or several with commas between them, of which later GPUs may be numbers alone; or all GPUs.
    pub fn several(names: &str) -> Result<Vec<Device>> {
        if names == "cuda:all" {
            return Ok((0..layerscope_cuda::cards()?.max(1)).map(Device::Cuda).collect());
        }
        let named = |name: &str| match name.parse() {
            Ok(number) if names.starts_with("cuda:") => Ok(Device::Cuda(number)),
            _ => Device::named(name).map_err(|_| wrong_word("device", names, &WORDS)),
        };
        let devices = names.split(',').map(named).collect::<Result<Vec<Device>>>()?;
        match devices.iter().all(|device| device.dtype() == devices[0].dtype()) {
            true => Ok(devices),
            false => Err(wrong("device", names)),
        }
    }

    /// Whether it computes products in these numbers.
    pub fn computes(self, dtype: ComputeDtype) -> bool {
        match self {
            Device::Cpu => Cpu::computes(dtype),
            Device::Cuda(_) => true,
            Device::Reference => dtype == ComputeDtype::F32,
        }
    }

    /// The numbers in which it multiplies unless told otherwise.
    pub fn dtype(self) -> ComputeDtype {
        if let Device::Cuda(_) = self { ComputeDtype::F32x3 } else { ComputeDtype::F32 }
    }

    /// Tokens of a batch unless told otherwise: a GPU has many processors to keep busy.
    pub fn batch_tokens(self) -> usize {
        if let Device::Cuda(_) = self { 16_384 } else { 512 }
    }

    /// Operations a second of one of its workers, about: for a first guess of the time.
    pub fn flops(self) -> f64 {
        match self {
            Device::Cpu => 4e9 * Isa::detect().lanes() as f64,
            Device::Cuda(_) => 5e13,
            Device::Reference => 1e8,
        }
    }

    /// Does work on this device, with products in these numbers.
    pub fn run<W: OnDevice>(self, dtype: ComputeDtype, work: W) -> Result<W::Output> {
        Ok(match self {
            Device::Cpu => work.run(Cpu::with_dtype(dtype)?),
            Device::Cuda(number) => work.run(Cuda::new(number, dtype)?),
            Device::Reference => work.run(Reference),
        })
    }

    /// What computes the numbers there, in a few words.
    pub fn describe(self, dtype: ComputeDtype) -> Result<String> {
        self.run(dtype, Describe)
    }
}
