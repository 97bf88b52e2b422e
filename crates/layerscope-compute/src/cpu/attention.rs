//! Softmax attention, one sequence and one head at a time: nothing outside a sequence can touch its result.

use super::floats::Floats;
use super::gemm::{self, Epilogue, Part, Rows};
use super::isa::{Isa, for_each_isa};
use super::panels::{PANEL, Panels};
use super::{lanes, math};
use crate::{AttentionShape, PositionBias};

/// Queries whose scores are held at once.
const QUERY_BLOCK: usize = 96;

/// Working memory of attention: one head's keys and values in panels, and a block of scores.
#[derive(Default)]
pub struct AttentionScratch {
    keys: Panels,
    values: Panels,
    scores: Floats,
    bias: Vec<f32>,
}

/// Attention over packed rows of `[queries | keys | values]`.
pub fn attention(
    isa: Isa,
    scratch: &mut AttentionScratch,
    packed: &mut Floats,
    qkv: &[f32],
    offsets: &[u32],
    shape: &AttentionShape,
    out: &mut [f32],
) {
    for bounds in offsets.windows(2).filter(|bounds| bounds[0] < bounds[1]) {
        let (start, end) = (bounds[0] as usize, bounds[1] as usize);
        let qkv = &qkv[start * shape.qkv_width()..end * shape.qkv_width()];
        let width = shape.heads * shape.head_dim;
        sequence(isa, scratch, packed, qkv, shape, &mut out[start * width..end * width]);
    }
}

fn sequence(isa: Isa, scratch: &mut AttentionScratch, packed: &mut Floats, qkv: &[f32], shape: &AttentionShape, out: &mut [f32]) {
    let (heads, kv_heads, head_dim) = (shape.heads, shape.kv_heads, shape.head_dim);
    let (stride, out_stride) = (shape.qkv_width(), heads * head_dim);
    let length = qkv.len() / stride;
    let AttentionScratch { keys, values, scores, bias } = scratch;
    for kv_head in 0..kv_heads {
        keys.fill_from_rows(&qkv[(heads + kv_head) * head_dim..], stride, length, head_dim);
        keys.widen_to_whole_panels();
        values.fill_from_columns(&qkv[(heads + kv_heads + kv_head) * head_dim..], stride, length, head_dim);
        for head in kv_head * heads / kv_heads..(kv_head + 1) * heads / kv_heads {
            fill_bias(shape, head, length, bias);
            for first in (0..length).step_by(QUERY_BLOCK) {
                let count = QUERY_BLOCK.min(length - first);
                let seen = shape.visible(first, length).start..shape.visible(first + count - 1, length).end;
                let panels = seen.start / PANEL..seen.end.div_ceil(PANEL);
                let key0 = panels.start * PANEL;
                let columns = panels.len() * PANEL;

                scores.resize(scores.len().max(count * columns));
                let scores = &mut scores[..count * columns];
                let queries = Rows { data: &qkv[first * stride + head * head_dim..], stride, count };
                let part = Part { inner: 0..head_dim, panels };
                gemm::multiply(isa, queries, keys, &part, scores, columns, Epilogue::default(), packed);

                softmax(isa, scores, Block { first, key0, columns, length }, shape, bias);

                let weights = Rows { data: scores, stride: columns, count };
                let part = Part { inner: key0..length.min(key0 + columns), panels: 0..values.count() };
                let target = &mut out[first * out_stride + head * head_dim..];
                gemm::multiply(isa, weights, values, &part, target, out_stride, Epilogue::default(), packed);
            }
        }
    }
}

/// Lays out the head's bias so that one query's is a contiguous run: by key position for ALiBi (`length` values), by
/// distance otherwise (`2 length - 1` values, distance 0 in the middle).
fn fill_bias(shape: &AttentionShape, head: usize, length: usize, bias: &mut Vec<f32>) {
    bias.clear();
    match &shape.bias {
        None => {}
        Some(PositionBias::Alibi { slopes, rounded_to_bf16, scale }) => {
            let slope = slopes[head];
            bias.extend((0..length).map(|key| {
                let value = match rounded_to_bf16 {
                    true => math::to_bf16(math::to_bf16(slope) * math::to_bf16(key as f32)),
                    false => slope * key as f32,
                };
                value * scale
            }));
        }
        Some(PositionBias::Relative { values, reach }) => {
            let row = &values[head * (2 * reach + 1)..][..2 * reach + 1];
            let last = length as isize - 1;
            bias.extend(
                (-last..=last).map(|distance| row[(distance.clamp(-(*reach as isize), *reach as isize) + *reach as isize) as usize]),
            );
        }
    }
}

/// Which scores a block holds: queries from `first`, keys from `key0`.
#[derive(Clone, Copy)]
struct Block {
    first: usize,
    key0: usize,
    columns: usize,
    length: usize,
}

for_each_isa! {
    /// Scores to weights, in place; what a query may not see becomes 0.
    fn softmax = softmax_body; (scores: &mut [f32], block: Block, shape: &AttentionShape, bias: &[f32])
}

/// Rows are whole panels wide: what a query may not see is minus infinity, whose exponential is exactly 0.
///
/// One step for all rows, then the next: the steps of a short row wait for one another, those of different rows do not.
#[inline(always)]
fn softmax_body(scores: &mut [f32], block: Block, shape: &AttentionShape, bias: &[f32]) {
    let by_key = matches!(shape.bias, Some(PositionBias::Alibi { .. }));
    let mut of_rows = [0.0; QUERY_BLOCK];
    for (i, (row, largest)) in scores.chunks_exact_mut(block.columns).zip(&mut of_rows).enumerate() {
        let query = block.first + i;
        let visible = shape.visible(query, block.length);
        let (from, to) = (visible.start - block.key0, visible.end - block.key0);
        if !bias.is_empty() {
            let first = if by_key { visible.start } else { block.length - 1 - query + visible.start };
            row[from..to].iter_mut().zip(&bias[first..]).for_each(|(score, bias)| *score = score.mul_add(shape.scale, *bias));
        }
        for (place, panel) in row.as_chunks_mut::<PANEL>().0.iter_mut().enumerate() {
            for j in 0..PANEL {
                let seen = ((place * PANEL + j) as u32).wrapping_sub(from as u32) < (to - from) as u32;
                panel[j] = if seen { panel[j] } else { f32::NEG_INFINITY };
            }
        }
        *largest = lanes::max(row);
    }
    let scale = std::f32::consts::LOG2_E * if bias.is_empty() { shape.scale } else { 1.0 };
    for (row, of_row) in scores.chunks_exact_mut(block.columns).zip(&mut of_rows) {
        let largest = *of_row;
        *of_row = 1.0 / lanes::replace_and_sum(row, |score| math::exp2_of_negative((score - largest) * scale));
    }
    for (row, factor) in scores.chunks_exact_mut(block.columns).zip(&of_rows) {
        row.as_chunks_mut::<PANEL>().0.as_flattened_mut().iter_mut().for_each(|weight| *weight *= factor);
    }
}
