//! From token ids to the input of the first block.

use std::mem::swap;

use layerscope_compute::{Backend, Gather};

use crate::batch::Batch;
use crate::spec::EmbeddingSpec;
use crate::weights::EmbeddingWeights;
use crate::workspace::Workspace;

/// Sum of token, position and type vectors; then norm; then projection (or the projection of the tokens first).
pub(crate) fn embed<B: Backend>(spec: &EmbeddingSpec, weights: &EmbeddingWeights<B>, backend: &B, batch: &Batch, space: &mut Workspace<B>) {
    let rows = batch.tokens();
    let Workspace { stream, residual, normed, ids, positions, width, .. } = space;
    backend.write_indices(stream, ids, batch.ids());
    if let Some(learned) = spec.positions {
        backend.write_indices(stream, positions, &position_rows(learned.offset as u32, spec.unnumbered, batch));
    }
    let tokens = Gather { table: &weights.tokens, indices: Some(ids) };
    let places = weights.positions.as_ref().map(|table| Gather { table, indices: Some(positions) });
    let types = weights.types.as_ref().map(|table| Gather { table, indices: None });

    match (&weights.projection, spec.projection.is_some_and(|projection| projection.before_positions)) {
        (Some(projection), true) => {
            backend.gather_add(stream, &[tokens], rows, spec.scale, normed);
            backend.apply_linear(stream, normed, rows, projection, None, residual);
            let others: Vec<_> = places.into_iter().chain(types).collect();
            if !others.is_empty() {
                backend.gather_add(stream, &others, rows, 1.0, normed);
                backend.add(stream, residual, normed, rows * *width);
            }
        }
        _ => {
            let all: Vec<_> = [tokens].into_iter().chain(types).chain(places).collect();
            backend.gather_add(stream, &all, rows, spec.scale, residual);
        }
    }
    if let Some(norm) = &weights.norm {
        backend.apply_norm(stream, residual, rows, norm, normed);
        swap(residual, normed);
    }
    if let (Some(projection), Some(place)) = (&weights.projection, spec.projection)
        && !place.before_positions
    {
        backend.apply_linear(stream, residual, rows, projection, None, normed);
        swap(residual, normed);
    }
}

/// The row of the position table for each token. Tokens equal to `unnumbered` take the row before position 0 and do not count.
fn position_rows(offset: u32, unnumbered: Option<u32>, batch: &Batch) -> Vec<u32> {
    let mut rows = Vec::with_capacity(batch.tokens());
    for range in batch.ranges() {
        let mut next = offset;
        for &id in &batch.ids()[range] {
            if Some(id) == unnumbered {
                rows.push(offset.saturating_sub(1));
            } else {
                rows.push(next);
                next += 1;
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unnumbered_tokens_take_no_position() {
        let batch = Batch::pack([[5, 1, 6, 7], [8, 9, 1, 1]]);
        assert_eq!(position_rows(2, Some(1), &batch), [2, 1, 3, 4, 2, 3, 1, 1]);
        assert_eq!(position_rows(2, None, &batch), [2, 3, 4, 5, 2, 3, 4, 5]);
    }
}
