//! Inner products of the sums of a sequence.

use layerscope_compute::for_each_isa;

use super::passes::{Sums, add_rows};
use super::{BLOCK, LANES, blocks, fold, fused};
use crate::rows::Chunk;

/// Inner products of the sum s of states and the sum u of unit vectors of a chunk.
#[derive(Clone, Copy, Default)]
pub(crate) struct SumProducts {
    /// s . u
    pub across: f64,
    /// ||s||^2
    pub square: f64,
}

for_each_isa! {
    /// The two inner products that the mean cosine with the mean state needs.
    pub(crate) fn sum_products = sum_products_body; (chunk: Chunk, products: &mut SumProducts)
}

#[inline(always)]
fn sum_products_body(chunk: Chunk, products: &mut SumProducts) {
    let (mut across, mut square) = ([0.0; LANES], [0.0; LANES]);
    for block in blocks(chunk.dim) {
        let mut sums = StateSums { state: [0.0; BLOCK], unit: [0.0; BLOCK] };
        add_rows(&chunk, &block, &mut sums);
        for (state, unit) in sums.state.as_chunks::<LANES>().0.iter().zip(sums.unit.as_chunks::<LANES>().0) {
            across = fused(*state, *unit, across);
            square = fused(*state, *state, square);
        }
    }
    *products = SumProducts { across: fold(across), square: fold(square) };
}

/// Sums of the rows of a chunk and of their unit vectors.
struct StateSums {
    state: [f64; BLOCK],
    unit: [f64; BLOCK],
}

impl Sums for StateSums {
    #[inline(always)]
    fn add<const R: usize>(&mut self, l: usize, x: [f64; R], inverses: [f64; R]) {
        for r in 0..R {
            self.state[l] += x[r];
            self.unit[l] = x[r].mul_add(inverses[r], self.unit[l]);
        }
    }
}
