//! What a batch says about its rows, on the host and on the card.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream as RawStream, DevicePtr, DriverError};
use layerscope_compute::Result;
use layerscope_stats::BatchInfo;

use super::layout::Layout;
use crate::device::Cuda;
use crate::launch::Word;

/// A batch's [`BatchInfo`] and its words on the card.
pub struct CudaInfo {
    pub(super) host: Arc<BatchInfo>,
    pub(super) layout: Layout,
    words: CudaSlice<u32>,
}

impl CudaInfo {
    /// Uploads what the kernels need.
    pub(super) fn new(cuda: &Cuda, stream: &Arc<RawStream>, info: BatchInfo) -> Result<CudaInfo> {
        let layout = Layout::new(&info);
        let upload = || {
            // SAFETY: the memory is written at once; a single word is never read if there are none.
            let mut words = unsafe { stream.alloc(layout.words.len().max(1)) }?;
            stream.memcpy_htod(&layout.words, &mut words)?;
            Ok(words)
        };
        let words = upload().map_err(|error: DriverError| cuda.error(error))?;
        Ok(CudaInfo { host: Arc::new(info), layout, words })
    }

    /// Where a list of the layout begins on the card.
    pub(super) fn list(&self, range: &Range<usize>) -> Word {
        let (first, _) = self.words.device_ptr(self.words.stream());
        Word::pointer(first + (range.start * size_of::<u32>()) as u64)
    }
}
