//! What a device can fail with, and how a stream remembers it.

use layerscope_error::ErrorKind;

/// This crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a device could not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The memory does not suffice.
    #[error("{device}: not enough memory for {bytes} bytes more")]
    OutOfMemory {
        /// Whose memory.
        device: String,
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// There is no such device here, or nothing to drive it with.
    #[error("{device}: {problem}")]
    Unavailable {
        /// Which device.
        device: String,
        /// What is missing, and what to do about it.
        problem: String,
    },
    /// The device is gone; nothing on it can be used any more.
    #[error("{device}: lost: {problem}")]
    Lost {
        /// Which device.
        device: String,
        /// What its driver says.
        problem: String,
    },
    /// Anything else that the device says.
    #[error("{device}: {problem}")]
    Failed {
        /// Which device.
        device: String,
        /// What its driver says.
        problem: String,
    },
}

impl Error {
    /// What kind of trouble this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::OutOfMemory { .. } => ErrorKind::Refused,
            Error::Unavailable { .. } => ErrorKind::Usage,
            Error::Lost { .. } | Error::Failed { .. } => ErrorKind::Io,
        }
    }
}

/// Keeps the first failure of a stream until it is asked for: see [`Backend`](crate::Backend) for the contract.
///
/// ```
/// use layerscope_compute::{Error, Latch};
///
/// let fails = || Err(Error::Failed { device: "gpu 0".into(), problem: "bad launch".into() });
/// let mut latch = Latch::default();
/// latch.run(fails);
/// latch.run(|| unreachable!("nothing runs after a failure"));
/// assert_eq!(latch.release().unwrap_err().to_string(), "gpu 0: bad launch");
/// assert_eq!(latch.release(), Ok(()));
/// ```
#[derive(Debug, Default)]
pub struct Latch {
    failure: Option<Error>,
}

impl Latch {
    /// Does the work unless an earlier one failed, and keeps its failure.
    pub fn run(&mut self, work: impl FnOnce() -> Result<()>) {
        if self.failure.is_none() {
            self.failure = work().err();
        }
    }

    /// Hands out the failure, if there is one, and forgets it.
    pub fn release(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn failed(problem: &str) -> Result<()> {
        Err(Error::Failed { device: "test".into(), problem: problem.into() })
    }

    #[test]
    fn the_first_failure_is_kept_and_comes_out_once() {
        let mut latch = Latch::default();
        let runs = Cell::new(0);
        let sound = || {
            runs.set(runs.get() + 1);
            Ok(())
        };
        latch.run(sound);
        latch.run(|| failed("first"));
        latch.run(sound);
        latch.run(|| failed("second"));
        assert_eq!(runs.get(), 1, "nothing runs while a failure is kept");
        assert_eq!(latch.release(), failed("first"));
        assert_eq!(latch.release(), Ok(()));
        latch.run(sound);
        assert_eq!(runs.get(), 2, "the stream works again");
    }

    #[test]
    fn too_little_memory_is_a_refusal_a_missing_device_the_users_choice_and_all_else_the_systems_failure() {
        assert_eq!(Error::OutOfMemory { device: "cpu".into(), bytes: 1 }.kind(), ErrorKind::Refused);
        assert_eq!(Error::Unavailable { device: "gpu 0".into(), problem: "no driver".into() }.kind(), ErrorKind::Usage);
        assert_eq!(Error::Lost { device: "gpu 0".into(), problem: "fell off the bus".into() }.kind(), ErrorKind::Io);
        assert_eq!(failed("x").unwrap_err().kind(), ErrorKind::Io);
    }
}
