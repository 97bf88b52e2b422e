//! Row-wise operations: everything between two products.

use super::isa::for_each_isa;
use super::math::{self, WithFunction};
use super::{CpuNorm, lanes};
use crate::{Activation, HeadSegments, NormKind, RotaryPairs};

for_each_isa! {
    /// `out = norm(x)` row by row.
    pub fn norm = norm_body; (x: &[f32], norm: &CpuNorm, out: &mut [f32])
}

#[inline(always)]
fn norm_body(x: &[f32], norm: &CpuNorm, out: &mut [f32]) {
    for (row, out) in x.chunks_exact(norm.width).zip(out.chunks_exact_mut(norm.width)) {
        norm_row(row, norm, out);
    }
}

for_each_isa! {
    /// `x += y; out = norm(x)` row by row, while the row is in the cache.
    pub fn add_norm = add_norm_body; (x: &mut [f32], y: &[f32], norm: &CpuNorm, out: &mut [f32])
}

#[inline(always)]
fn add_norm_body(x: &mut [f32], y: &[f32], norm: &CpuNorm, out: &mut [f32]) {
    let width = norm.width;
    for ((x, y), out) in x.chunks_exact_mut(width).zip(y.chunks_exact(width)).zip(out.chunks_exact_mut(width)) {
        add_body(x, y);
        norm_row(x, norm, out);
    }
}

for_each_isa! {
    /// Normalizes slices of each row in place.
    pub fn norm_segments = norm_segments_body; (x: &mut [f32], segments: HeadSegments, norm: &CpuNorm)
}

#[inline(always)]
fn norm_segments_body(x: &mut [f32], segments: HeadSegments, norm: &CpuNorm) {
    for row in x.chunks_exact_mut(segments.row_width) {
        for segment in row[segments.start..].chunks_exact_mut(segments.width).take(segments.count) {
            let (shift, factor) = norm_moments(segment, norm);
            for (value, (gamma, beta)) in segment.iter_mut().zip(norm.gamma.iter().zip(&norm.beta)) {
                *value = ((*value - shift) * factor).mul_add(*gamma, *beta);
            }
        }
    }
}

#[inline(always)]
fn norm_row(row: &[f32], norm: &CpuNorm, out: &mut [f32]) {
    let (shift, factor) = norm_moments(row, norm);
    for ((out, x), (gamma, beta)) in out.iter_mut().zip(row).zip(norm.gamma.iter().zip(&norm.beta)) {
        *out = ((x - shift) * factor).mul_add(*gamma, *beta);
    }
}

/// What is subtracted from a row, and what the rest is multiplied by.
#[inline(always)]
fn norm_moments(row: &[f32], norm: &CpuNorm) -> (f32, f32) {
    let count = row.len() as f32;
    let shift = match norm.kind {
        NormKind::Layer => lanes::sum(row, |x| x) / count,
        NormKind::Rms => 0.0,
    };
    let variance = lanes::sum(row, |x| (x - shift) * (x - shift)) / count;
    (shift, 1.0 / (variance + norm.epsilon).sqrt())
}

for_each_isa! {
    /// `x += y`.
    pub fn add = add_body; (x: &mut [f32], y: &[f32])
}

#[inline(always)]
fn add_body(x: &mut [f32], y: &[f32]) {
    // Not `math::combine`: a body this small the compiler would turn into gathers from many chunks.
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

for_each_isa! {
    /// `out[r, j] = activation(x[r, j]) * x[r, width + j]`.
    pub fn gate = gate_body; (x: &[f32], width: usize, activation: Activation, out: &mut [f32])
}

#[inline(always)]
fn gate_body(x: &[f32], width: usize, activation: Activation, out: &mut [f32]) {
    math::with_activation(Some(activation), Gating { x, width, out });
}

struct Gating<'a> {
    x: &'a [f32],
    width: usize,
    out: &'a mut [f32],
}

impl WithFunction for Gating<'_> {
    #[inline(always)]
    fn call(self, function: impl Fn(f32) -> f32 + Copy) {
        for (row, out) in self.x.chunks_exact(2 * self.width).zip(self.out.chunks_exact_mut(self.width)) {
            let (gate, up) = row.split_at(self.width);
            out.copy_from_slice(gate);
            math::combine(out, up, |gate, up| function(gate) * up);
        }
    }
}

/// Angles of one batch, `[rows, dim / 2]` each.
#[derive(Clone, Copy)]
pub struct Angles<'a> {
    pub cos: &'a [f32],
    pub sin: &'a [f32],
    pub dim: usize,
    pub pairs: RotaryPairs,
}

for_each_isa! {
    /// Rotates slices of each row by the row's angles.
    pub fn rotate = rotate_body; (x: &mut [f32], segments: HeadSegments, angles: Angles)
}

#[inline(always)]
fn rotate_body(x: &mut [f32], segments: HeadSegments, angles: Angles) {
    let half = angles.dim / 2;
    let angle_rows = angles.cos.chunks_exact(half).zip(angles.sin.chunks_exact(half));
    for (row, (cos, sin)) in x.chunks_exact_mut(segments.row_width).zip(angle_rows) {
        for head in row[segments.start..].chunks_exact_mut(segments.width).take(segments.count) {
            match angles.pairs {
                RotaryPairs::Halves => {
                    let (first, second) = head[..angles.dim].split_at_mut(half);
                    for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                    }
                }
                RotaryPairs::Interleaved => {
                    for ((pair, cos), sin) in head[..angles.dim].chunks_exact_mut(2).zip(cos).zip(sin) {
                        (pair[0], pair[1]) = (pair[0] * cos - pair[1] * sin, pair[1] * cos + pair[0] * sin);
                    }
                }
            }
        }
    }
}
