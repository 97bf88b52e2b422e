//! Whether a product gives a row the same bits wherever it stands and however many rows there are.
//!
//! Only a trial can tell: an algorithm may share its last tiles among processors, which changes the order of sums with the number of
//! rows, and no setting of it says so. The rows of the trial repeat, so all of the result must repeat too, to the bit.

use cudarc::driver::{CudaFunction, CudaSlice};
use layerscope_compute::{Error, Result};

use crate::device::Cuda;
use crate::launch::{Grid, Word, launch};
use crate::operand::OperandKind;
use crate::products::{NOMINAL_ROWS, Plan, Products, Shape, WORKSPACE};

/// Rows that differ. A prime: the same row stands at every place of a tile.
const PERIOD: usize = 61;

/// Rows of the products, and the row of the period that comes first. The first of them is what the others are compared with.
const TRIALS: [(usize, usize); 9] =
    [(NOMINAL_ROWS, 0), (2 * NOMINAL_ROWS, 17), (NOMINAL_ROWS - 500, 5), (9000, 44), (129, 40), (128, 0), (37, 2), (1, 59), (1, 0)];

/// Bytes of an operand or a result: where rows are long, there are fewer of them.
const ROOM: usize = 256 << 20;

const THREADS: usize = 256;
const WEIGHT_SEED: u32 = 0x5eed_0001;
const ROWS_SEED: u32 = 0x5eed_0002;

/// Operands of one shape.
pub(crate) struct Trial<'a> {
    cuda: &'a Cuda,
    shape: Shape,
    most_rows: usize,
    weight: CudaSlice<u8>,
    x: CudaSlice<u8>,
    out: CudaSlice<u8>,
    known: CudaSlice<u8>,
    differs: CudaSlice<u32>,
    workspace: CudaSlice<u8>,
    repeat: CudaFunction,
    compare: CudaFunction,
}

impl<'a> Trial<'a> {
    pub fn new(cuda: &'a Cuda, shape: Shape) -> Result<Trial<'a>> {
        let operand = cuda.operand().data_size();
        let (row, result) = (shape.stride * operand, row_bytes(shape));
        let most_rows = (ROOM / row.max(result)).clamp(PERIOD, 2 * NOMINAL_ROWS);
        let bytes = |count: usize| cuda.allocate(cuda.keeper(), count);
        let function = |name: &str| cuda.kernels().function("same_bits", &[], name);
        let trial = Trial {
            cuda,
            shape,
            most_rows,
            weight: bytes(shape.outputs * shape.inner * operand)?,
            x: bytes(most_rows * row)?,
            out: bytes(most_rows * result)?,
            known: bytes(PERIOD * result)?,
            differs: cuda.zeros(1)?,
            workspace: bytes(WORKSPACE)?,
            repeat: function("repeat_rows")?,
            compare: function("compare_rows")?,
        };
        trial.make_up(WEIGHT_SEED, (shape.outputs, shape.inner), (0, shape.outputs), &trial.weight)?;
        Ok(trial)
    }

    /// Whether the products of this plan pass. One that cannot take some number of rows does not.
    pub fn passes(&mut self, products: &Products, plan: &Plan) -> Result<bool> {
        let keeper = self.cuda.keeper();
        keeper.memset_zeros(&mut self.differs).map_err(|error| self.cuda.error(error))?;
        for (number, (rows, first)) in TRIALS.into_iter().enumerate() {
            let rows = rows.min(self.most_rows);
            self.make_up(ROWS_SEED, (rows, self.shape.stride), (first, PERIOD), &self.x)?;
            let factors = (Word::from(&self.weight), Word::from(&self.x), Word::from(&self.out));
            match products.multiply(self.cuda, keeper, &self.workspace, plan, factors, rows) {
                Err(Error::Failed { .. }) => return Ok(false),
                multiplied => multiplied?,
            }
            if number == 0 {
                let first_rows = self.out.slice(..self.known.len());
                keeper.memcpy_dtod(&first_rows, &mut self.known).map_err(|error| self.cuda.error(error))?;
            }
            self.compare(rows, first)?;
        }
        let differs = keeper.clone_dtoh(&self.differs).and_then(|differs| keeper.synchronize().map(|()| differs));
        Ok(differs.map_err(|error| self.cuda.error(error))? == [0])
    }

    /// Fills rows with numbers that repeat.
    fn make_up(&self, seed: u32, (rows, width): (usize, usize), (first, period): (usize, usize), room: &CudaSlice<u8>) -> Result<()> {
        let kind = match self.cuda.operand() {
            OperandKind::Floats => 0u32,
            OperandKind::F16 => 1,
            OperandKind::Bf16 | OperandKind::Split => 2,
        };
        let words = [seed.into(), kind.into(), width.into(), first.into(), period.into(), room.into()];
        self.launch(&self.repeat, rows, &words)
    }

    fn compare(&self, rows: usize, first: usize) -> Result<()> {
        let words = row_bytes(self.shape) / size_of::<u32>();
        let words = [(&self.out).into(), words.into(), first.into(), PERIOD.into(), (&self.known).into(), (&self.differs).into()];
        self.launch(&self.compare, rows, &words)
    }

    fn launch(&self, function: &CudaFunction, rows: usize, words: &[Word]) -> Result<()> {
        launch(self.cuda.keeper(), function, Grid::new(rows, THREADS), words).map_err(|error| self.cuda.error(error))
    }
}

impl Drop for Trial<'_> {
    /// Memory is freed by whichever thread made the trial, which the card belongs to; nothing may still use it.
    fn drop(&mut self) {
        let _ = self.cuda.keeper().synchronize();
    }
}

/// Bytes of a row of the result. Rows of 16-bit numbers are even.
fn row_bytes(shape: Shape) -> usize {
    shape.outputs * if shape.to_halves { size_of::<u16>() } else { size_of::<f32>() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_trial_shows_every_row_of_the_period() {
        let (rows, first) = TRIALS[0];
        assert!(rows >= PERIOD && first == 0, "what the others are compared with begins with all of them");
        assert!(TRIALS.iter().all(|&(rows, first)| rows <= 2 * NOMINAL_ROWS && first < PERIOD));
    }

    #[test]
    fn bytes_of_a_row_are_those_of_its_numbers() {
        let shape = Shape { outputs: 24, inner: 8, stride: 8, to_halves: false };
        assert_eq!((row_bytes(shape), row_bytes(Shape { to_halves: true, ..shape })), (96, 48));
    }
}
