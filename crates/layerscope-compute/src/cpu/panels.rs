//! The right-hand side of a product, laid out once for the kernels: panels of [`PANEL`] columns, each contiguous in `k`.

use super::floats::Floats;
use crate::Result;

/// Columns of a panel: two vectors of 16.
pub const PANEL: usize = 32;

/// A matrix `[k, n]` in panels; columns beyond `n` are zero.
#[derive(Default)]
pub struct Panels {
    /// Inner dimension.
    pub k: usize,
    /// Columns in use.
    pub n: usize,
    data: Floats,
}

impl Panels {
    /// From a weight stored as `[n, k]`: the transpose of the product's right-hand side.
    pub fn from_rows(weight: &[f32], n: usize, k: usize) -> Panels {
        let mut panels = Panels::default();
        panels.fill_from_rows(weight, k, n, k);
        panels
    }

    /// The same where the memory may not suffice.
    pub fn try_from_rows(weight: &[f32], n: usize, k: usize) -> Result<Panels> {
        let mut panels = Panels { k, n, data: Floats::try_zeros(n.div_ceil(PANEL) * PANEL * k)? };
        panels.fill_from_rows(weight, k, n, k);
        Ok(panels)
    }

    /// Counts the zero columns that fill the last panel as columns.
    pub fn widen_to_whole_panels(&mut self) {
        self.n = self.n.next_multiple_of(PANEL);
    }

    /// Panels in use.
    pub fn count(&self) -> usize {
        self.n.div_ceil(PANEL)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.data.bytes()
    }

    /// Refills with column `j` = `rows[j * stride..][..k]`, reusing the memory.
    #[inline(always)]
    pub fn fill_from_rows(&mut self, rows: &[f32], stride: usize, n: usize, k: usize) {
        self.resize(k, n);
        for (j0, panel) in (0..n).step_by(PANEL).zip(self.data.chunks_exact_mut(PANEL * k)) {
            fill_panel(&rows[j0 * stride..], stride, PANEL.min(n - j0), k, panel);
        }
    }

    /// Refills with row `l` = `rows[l * stride..][..n]`, reusing the memory.
    #[inline(always)]
    pub fn fill_from_columns(&mut self, rows: &[f32], stride: usize, k: usize, n: usize) {
        self.resize(k, n);
        for (j0, panel) in (0..n).step_by(PANEL).zip(self.data.chunks_exact_mut(PANEL * k)) {
            let used = PANEL.min(n - j0);
            for (l, line) in panel.chunks_exact_mut(PANEL).enumerate() {
                let row = &rows[l * stride + j0..][..used];
                if used == PANEL {
                    line.copy_from_slice(&row[..PANEL]); // of known length: no call
                } else {
                    line[..used].copy_from_slice(row);
                    line[used..].fill(0.0);
                }
            }
        }
    }

    /// Panel `j` from inner index `l` on.
    #[inline(always)]
    pub fn panel(&self, j: usize, l: usize) -> &[f32] {
        &self.data[j * PANEL * self.k + l * PANEL..(j + 1) * PANEL * self.k]
    }

    fn resize(&mut self, k: usize, n: usize) {
        (self.k, self.n) = (k, n);
        self.data.resize(n.div_ceil(PANEL) * PANEL * k);
    }
}

/// Fills one panel with column `j` = `rows[j * stride..][..k]` for the `used` first columns, and zeros.
#[inline(always)]
pub(super) fn fill_panel(rows: &[f32], stride: usize, used: usize, k: usize, panel: &mut [f32]) {
    let row = |j: usize| &rows[j * stride..][..k];
    let fours = used / 4 * 4;
    for j in (0..fours).step_by(4) {
        interleave_four([row(j), row(j + 1), row(j + 2), row(j + 3)], &mut panel[j..]);
    }
    for j in fours..used {
        for (line, value) in panel.chunks_exact_mut(PANEL).zip(row(j)) {
            line[j] = *value;
        }
    }
    if used < PANEL {
        panel.chunks_exact_mut(PANEL).for_each(|line| line[used..].fill(0.0));
    }
}

/// `target[l * PANEL + i] = rows[i][l]`, four by four.
#[inline(always)]
fn interleave_four(rows: [&[f32]; 4], target: &mut [f32]) {
    let [a, b, c, d] = rows.map(|row| row.as_chunks::<4>().0);
    let mut lines = target.chunks_mut(PANEL);
    for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
        for (column, line) in transpose_four([*a, *b, *c, *d]).iter().zip(&mut lines) {
            line[..4].copy_from_slice(column);
        }
    }
    let depth = rows[0].len();
    for l in depth / 4 * 4..depth {
        for i in 0..4 {
            target[l * PANEL + i] = rows[i][l];
        }
    }
}

/// Transposes 4 x 4. Left to itself the compiler moves the sixteen numbers one by one.
#[inline(always)]
fn transpose_four(rows: [[f32; 4]; 4]) -> [[f32; 4]; 4] {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        let mut columns = [[0.0; 4]; 4];
        // SAFETY: SSE is part of every x86-64; loads and stores are unaligned, within the arrays.
        unsafe {
            let [mut a, mut b, mut c, mut d] = rows.map(|row| _mm_loadu_ps(row.as_ptr()));
            _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
            for (column, values) in columns.iter_mut().zip([a, b, c, d]) {
                _mm_storeu_ps(column.as_mut_ptr(), values);
            }
        }
        columns
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::array::from_fn(|c| std::array::from_fn(|r| rows[r][c]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_fillings_agree_and_pad_with_zeros() {
        let (k, n) = (37, 41);
        let by_rows: Vec<f32> = (0..n * k).map(|i| i as f32 + 1.0).collect();
        let by_columns: Vec<f32> = (0..k * n).map(|i| by_rows[(i % n) * k + i / n]).collect();
        let (mut a, mut b) = (Panels::default(), Panels::default());
        a.fill_from_rows(&vec![9.0; 64 * 64], 64, 64, 64); // leftovers of a larger use must not show
        a.fill_from_rows(&by_rows, k, n, k);
        b.fill_from_columns(&by_columns, n, k, n);
        assert_eq!(*a.data, *b.data);
        assert_eq!(a.panel(1, 36)[..9], by_rows[32 * k..].chunks(k).map(|row| row[36]).collect::<Vec<_>>()[..]);
        assert!(a.panel(1, 0).chunks(PANEL).all(|line| line[9..].iter().all(|&x| x == 0.0)));
    }
}
