//! Which pairs of rows may be near each other, from their products.

use super::isa::{Isa, for_each_isa};

/// Columns that one mask is of.
const STRIP: usize = 32;

/// A product p of a row and a column may be of a near pair if `low - 2 p` of the column is within the limit of the row, or that of the row within the
/// limit of the column. Columns are padded to whole strips with what is never near.
#[derive(Clone, Copy)]
pub struct NearPairs<'a> {
    /// Of rows.
    pub row_lows: &'a [f32],
    /// Of rows.
    pub row_limits: &'a [f32],
    /// Of columns.
    pub lows: &'a [f32],
    /// Of columns.
    pub limits: &'a [f32],
}

impl NearPairs<'_> {
    /// For every row and strip of 32 columns, a bit for each that may be near, given products in rows of `stride`.
    pub fn mark(&self, isa: Isa, products: &[f32], stride: usize, rows: usize, masks: &mut [u32]) {
        mark(isa, self, products, stride, rows, masks);
    }

    /// Masks of a row.
    pub(super) fn strips(&self) -> usize {
        self.lows.len() / STRIP
    }

    /// The mask of a row and a strip.
    #[inline(always)]
    pub(super) fn mask(&self, row: usize, strip: usize, products: &[f32; STRIP]) -> u32 {
        let (lows, limits) = (&self.lows[strip * STRIP..][..STRIP], &self.limits[strip * STRIP..][..STRIP]);
        let (low, limit) = (self.row_lows[row], self.row_limits[row]);
        let mut near = [0u32; STRIP];
        for j in 0..STRIP {
            near[j] = u32::from((lows[j] - 2.0 * products[j] <= limit) | (low - 2.0 * products[j] <= limits[j])) << j;
        }
        near.iter().fold(0, |all, near| all | near)
    }
}

for_each_isa! {
    fn mark = mark_body; (near: &NearPairs<'_>, products: &[f32], stride: usize, rows: usize, masks: &mut [u32])
}

#[inline(always)]
fn mark_body(near: &NearPairs<'_>, products: &[f32], stride: usize, rows: usize, masks: &mut [u32]) {
    let strips = near.strips();
    for (row, (masks, products)) in masks.chunks_exact_mut(strips).zip(products.chunks(stride)).enumerate().take(rows) {
        for (strip, (mask, products)) in masks.iter_mut().zip(products.as_chunks::<STRIP>().0).enumerate() {
            *mask = near.mask(row, strip, products);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_near_for_its_row_or_for_its_column() {
        let mut products = vec![0.0f32; 2 * STRIP];
        (products[3], products[STRIP + 5]) = (1.0, 1.0); // low - 2 p = -1
        let (mut limits, lows) = (vec![f32::NEG_INFINITY; STRIP], vec![1.0; STRIP]);
        limits[5] = -1.0;
        for isa in Isa::available() {
            let mut masks = [0; 2];
            let near = NearPairs { row_lows: &[1.0, 1.0], row_limits: &[-1.0, -2.0], lows: &lows, limits: &limits };
            near.mark(isa, &products, STRIP, 2, &mut masks);
            assert_eq!(masks, [1 << 3, 1 << 5], "{isa:?}");
        }
    }
}
