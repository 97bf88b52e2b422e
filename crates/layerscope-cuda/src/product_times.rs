//! How long each algorithm takes that a product could be computed by: whether the library's choice is the best.

use cudarc::driver::sys::CUevent_flags;
use layerscope_compute::{Backend, Result};

use crate::device::Cuda;
use crate::launch::Word;
use crate::products::{Shape, WORKSPACE};

const WARM: usize = 3;
const TIMED: usize = 20;

impl Cuda {
    /// Microseconds of one product `[rows, inputs] x [inputs, outputs]` by each algorithm, the one that is used first. The result is
    /// floats, or, where the products have 16 bits, such numbers.
    pub fn product_times(&self, rows: usize, inputs: usize, outputs: usize, to_halves: bool) -> Result<Vec<f32>> {
        let kind = self.operand();
        let inner = kind.parts().max(1) * kind.padded(inputs);
        let bytes = kind.data_size();
        let shape = Shape { outputs, inner, stride: inner, to_halves: to_halves && kind.is_halves() };
        let weight = self.zeros::<u8>(outputs * inner * bytes)?;
        let x = self.zeros::<u8>(rows * inner * bytes)?;
        let out = self.zeros::<u8>(rows * outputs * size_of::<f32>())?;
        let workspace = self.zeros::<u8>(WORKSPACE)?;
        let stream = self.stream()?;
        let now = || stream.raw().record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(|error| self.error(error));
        let mut times = Vec::new();
        for plan in self.products().plans(self, shape)? {
            let factors = (Word::from(&weight), Word::from(&x), Word::from(&out));
            let multiply = || self.products().multiply(self, stream.raw(), &workspace, &plan, factors, rows);
            (0..WARM).try_for_each(|_| multiply())?;
            let start = now()?;
            (0..TIMED).try_for_each(|_| multiply())?;
            let milliseconds = start.elapsed_ms(&now()?).map_err(|error| self.error(error))?;
            times.push(milliseconds * 1e3 / TIMED as f32);
        }
        Ok(times)
    }
}
