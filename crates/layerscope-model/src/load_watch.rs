//! How far the weights are read, for whoever waits for them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Counts the bytes of a model that is being read on another thread, and can stop it between two tensors.
#[derive(Debug, Default)]
pub struct LoadWatch {
    read: AtomicU64,
    total: AtomicU64,
    stop: AtomicBool,
}

impl LoadWatch {
    /// Bytes that were read, and all that will be.
    pub fn bytes(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Asks to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn expect(&self, bytes: u64) {
        self.total.store(bytes, Ordering::Relaxed);
    }

    /// Reads a tensor of so many bytes.
    pub(crate) fn read<T>(&self, bytes: u64, read: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let value = read()?;
        self.read.fetch_add(bytes, Ordering::Relaxed);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use layerscope_compute::Cpu;

    use super::*;
    use crate::leg::Leg;
    use crate::model::Model;
    use crate::point::Point;

    #[test]
    fn what_is_read_is_counted_and_can_be_stopped() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        for name in ["bert/base", "gpt2/published"] {
            let model = Model::open(&folder.join(name)).expect("a model");
            let last = *model.spec.points().last().expect("points");
            for (leg, whole) in [(Leg::up_to(last), true), (Leg::up_to(Point::Block(0)), false)] {
                let watch = LoadWatch::default();
                model.load_leg(Cpu::new(), leg, 2, &watch).expect("readable");
                let (read, total) = watch.bytes();
                assert_eq!(read, total, "{name}");
                assert_eq!(total == 4 * model.plan.parameters() as u64, whole, "{name}: the fixtures are of f32");
            }
            let watch = LoadWatch::default();
            watch.stop();
            let stopped = model.load_leg(Cpu::new(), Leg::up_to(last), 2, &watch);
            assert!(matches!(stopped.err(), Some(Error::Stopped)) && watch.bytes().0 == 0, "{name}");
        }
    }
}
