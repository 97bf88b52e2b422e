//! Page-locked memory of the host that the card writes while both go on.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream as RawStream, DevicePtr, DeviceRepr, DriverError, PinnedHostSlice, ValidAsZeroBits};

use crate::device::Cuda;

/// Memory in which numbers of the card land, and when they have.
///
/// The event is the crate's own: cudarc records the one of its page-locked slices only where it tracks events, which is off.
pub(crate) struct Landing<T> {
    numbers: PinnedHostSlice<T>,
    landed: CudaEvent,
}

impl<T: DeviceRepr + ValidAsZeroBits> Landing<T> {
    /// Room for so many.
    pub fn new(cuda: &Cuda, len: usize) -> Result<Landing<T>, DriverError> {
        // SAFETY: nobody reads the numbers before the card has written them. Without flags: the host reads them.
        let numbers = unsafe { cuda.context().alloc_pinned_with_flags(len, 0) }?;
        Ok(Landing { numbers, landed: cuda.context().new_event(None)? })
    }

    /// Puts a copy to here in the stream.
    pub fn copy(&mut self, raw: &Arc<RawStream>, from: &impl DevicePtr<T>) -> Result<(), DriverError> {
        raw.memcpy_dtoh(from, &mut self.numbers)?;
        self.landed.record(raw)
    }

    /// Waits for the last copy.
    pub fn wait(&self) -> Result<&[T], DriverError> {
        self.landed.synchronize()?;
        self.numbers.as_slice()
    }
}

impl<T> Drop for Landing<T> {
    /// The card may still write here.
    fn drop(&mut self) {
        // What fails here has failed before, and was said then.
        let _ = self.landed.synchronize();
    }
}
