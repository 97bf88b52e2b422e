//! Matrices in f64 whose rows come from f32 states, packed for products.

use layerscope_compute::cpu::Isa;
use layerscope_compute::for_each_isa;

/// Columns of a panel: three vectors of eight.
pub(crate) const PANEL: usize = 24;
/// Rows accumulated in registers: a block of a panel, 24 KiB, stays in the first-level cache while others pass by.
pub(crate) const K_BLOCK: usize = 128;

/// 64 bytes, so that panels start on cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([f64; 8]);

/// A matrix of `depth` rows in panels of [`PANEL`] columns; columns beyond its width are zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Panels {
    pub depth: usize,
    pub width: usize,
    lines: Vec<Line>,
}

/// Panels that so many columns take.
pub(crate) fn panels_of(width: usize) -> usize {
    width.div_ceil(PANEL)
}

/// Memory of panels, in bytes.
pub(crate) fn panel_bytes(depth: usize, width: usize) -> usize {
    depth * panels_of(width) * PANEL * size_of::<f64>()
}

impl Panels {
    /// Refills with `states[row] - center` for every one of `rows`, reusing the memory.
    pub fn fill(&mut self, isa: Isa, states: &[f32], rows: &[u32], center: &[f64]) {
        self.resize(rows.len(), center.len());
        pack(isa, states, rows, center, self.data_mut());
    }

    /// Refills with columns: column `j` is `columns[j * depth..][..depth]`.
    pub fn fill_columns(&mut self, columns: &[f64], depth: usize) {
        let width = columns.len() / depth.max(1);
        self.resize(depth, width);
        let panels = panels_of(width);
        let mut target = self.data_mut().chunks_exact_mut(PANEL);
        for first_row in (0..depth).step_by(K_BLOCK) {
            for first in (0..panels).map(|panel| panel * PANEL) {
                let used = PANEL.min(width - first);
                for (l, line) in (first_row..depth.min(first_row + K_BLOCK)).zip(target.by_ref()) {
                    for j in 0..used {
                        line[j] = columns[(first + j) * depth + l];
                    }
                    line[used..].fill(0.0);
                }
            }
        }
    }

    /// Refills with some rows of others, minus a center.
    pub fn fill_rows(&mut self, of: &Panels, rows: &[u32], center: &[f64]) {
        self.resize(rows.len(), of.width);
        let mut target = self.data_mut().as_chunks_mut::<PANEL>().0.iter_mut();
        for block in rows.chunks(K_BLOCK) {
            for (panel, center) in center.chunks(PANEL).enumerate() {
                for (&row, line) in block.iter().zip(target.by_ref()) {
                    line.copy_from_slice(of.line(row as usize, panel));
                    line.iter_mut().zip(center).for_each(|(x, center)| *x -= center);
                }
            }
        }
    }

    /// The mean of some rows, 0 if there are none.
    pub fn mean_of_rows(&self, rows: &[u32]) -> Vec<f64> {
        let mut mean = vec![0.0; self.width];
        for &row in rows {
            for (panel, mean) in mean.chunks_mut(PANEL).enumerate() {
                mean.iter_mut().zip(self.line(row as usize, panel)).for_each(|(mean, x)| *mean += x);
            }
        }
        let n = rows.len().max(1) as f64;
        mean.iter_mut().for_each(|mean| *mean /= n);
        mean
    }

    /// The part of a row that lies in one panel.
    fn line(&self, row: usize, panel: usize) -> &[f64] {
        let first = row / K_BLOCK * K_BLOCK;
        let depth = K_BLOCK.min(self.depth - first);
        &self.panel(first, depth, panel)[(row - first) * PANEL..][..PANEL]
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    fn resize(&mut self, depth: usize, width: usize) {
        (self.depth, self.width) = (depth, width);
        self.lines.resize(depth * panels_of(width) * (PANEL / 8), Line([0.0; 8]));
    }

    /// First row and number of rows of every block.
    pub fn blocks(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let depth = self.depth;
        (0..depth).step_by(K_BLOCK).map(move |first| (first, K_BLOCK.min(depth - first)))
    }

    /// The part of a panel that belongs to the block of `depth` rows from `first` on.
    #[inline(always)]
    pub fn panel(&self, first: usize, depth: usize, panel: usize) -> &[f64] {
        let start = (first * panels_of(self.width) + panel * depth) * PANEL;
        &self.data()[start..start + depth * PANEL]
    }

    #[inline(always)]
    pub(crate) fn data(&self) -> &[f64] {
        // SAFETY: a Line is exactly eight numbers without padding.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * 8) }
    }

    fn data_mut(&mut self) -> &mut [f64] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * 8) }
    }
}

for_each_isa! {
    /// `states[row] - center` in panels, a block of rows after another.
    fn pack = pack_body; (states: &[f32], rows: &[u32], center: &[f64], target: &mut [f64])
}

#[inline(always)]
fn pack_body(states: &[f32], rows: &[u32], center: &[f64], target: &mut [f64]) {
    let dim = center.len();
    let mut lines = target.as_chunks_mut::<PANEL>().0.iter_mut();
    for block in rows.chunks(K_BLOCK) {
        for first in (0..dim).step_by(PANEL) {
            let used = PANEL.min(dim - first);
            let center = &center[first..first + used];
            for (&row, line) in block.iter().zip(lines.by_ref()) {
                let state = &states[row as usize * dim + first..][..used];
                if let (Ok(state), Ok(center)) = (<&[f32; PANEL]>::try_from(state), <&[f64; PANEL]>::try_from(center)) {
                    for j in 0..PANEL {
                        line[j] = f64::from(state[j]) - center[j];
                    }
                } else {
                    line.fill(0.0);
                    line.iter_mut().zip(state).zip(center).for_each(|((to, x), center)| *to = f64::from(*x) - center);
                }
            }
        }
    }
}
