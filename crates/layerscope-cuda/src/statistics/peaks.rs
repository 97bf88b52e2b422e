//! Components that stand out of their states, counted on the card.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream as RawStream};
use layerscope_compute::Result as ComputeResult;
use layerscope_stats::Result;
use layerscope_stats::sketch::{Mergeable, Peaks, Tensors};

use super::point::{Rows, THREADS, WARP};
use super::reader::Reader;
use super::tensors::{put, u64s};
use crate::device::Cuda;
use crate::launch::Grid;

/// Their numbers, as in `peaks.cu`.
pub(super) const COUNTS: usize = 4;

/// The counts of a point.
pub(super) struct ResidentPeaks(CudaSlice<u64>);

impl ResidentPeaks {
    /// Puts them on the card.
    pub fn load(cuda: &Cuda, peaks: &Peaks) -> Result<ResidentPeaks> {
        Ok(ResidentPeaks(cuda.upload(u64s(&peaks.encode(), "counts")?)?))
    }

    /// As they are now.
    pub fn fetch(&self, reader: &mut Reader<'_>) -> Result<Tensors<'static>> {
        let mut tensors = Tensors::default();
        put(&mut tensors, "counts", &[COUNTS], reader.read(&self.0, COUNTS)?);
        Ok(tensors)
    }
}

impl Rows<'_> {
    /// Counts those of a batch, before the turn. What they are counted in was cleared.
    pub fn find_peaks(&self, stream: &Arc<RawStream>) -> ComputeResult<()> {
        let (layout, waiting) = (&self.info.layout, &self.device.waiting);
        let words = [
            self.states,
            self.dim.into(),
            self.info.list(&layout.counted),
            layout.rows().into(),
            waiting.norms.word(),
            self.kinds(),
            waiting.peaks.word(),
        ];
        self.launch(stream, &self.device.functions.row_peaks, Grid::over(layout.rows() * WARP, THREADS), &words)
    }

    /// They enter.
    pub fn enter_peaks(&self, stream: &Arc<RawStream>, resident: &ResidentPeaks) -> ComputeResult<()> {
        let words = [self.device.waiting.peaks.word(), (&resident.0).into()];
        self.launch(stream, &self.device.functions.enter_peaks, Grid::new(1, WARP), &words)
    }
}
