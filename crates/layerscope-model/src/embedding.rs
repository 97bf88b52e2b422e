//! From token ids to the input of the first block.

use std::mem::swap;

use layerscope_compute::{Backend, Gather};

use crate::batch::Batch;
use crate::spec::EmbeddingSpec;
use crate::transformer::Workspace;
use crate::weights::EmbeddingWeights;

/// Sum of token, position and type vectors; then norm; then projection (or the projection of the tokens first).
pub(crate) fn embed<B: Backend>(spec: &EmbeddingSpec, weights: &EmbeddingWeights<B>, backend: &B, batch: &Batch, space: &mut Workspace<B>) {
    let rows = batch.tokens();
    let Workspace { stream, normed, ids, positions, scratch, width, .. } = space;
    backend.write_indices(ids, batch.ids());
    if let Some(learned) = spec.positions {
        let shifted: Vec<u32> = batch.positions().iter().map(|position| position + learned.offset as u32).collect();
        backend.write_indices(positions, &shifted);
    }
    let tokens = Gather { table: &weights.tokens, indices: Some(ids) };
    let places = weights.positions.as_ref().map(|table| Gather { table, indices: Some(positions) });
    let types = weights.types.as_ref().map(|table| Gather { table, indices: None });

    match (&weights.projection, spec.projection.is_some_and(|projection| projection.before_positions)) {
        (Some(projection), true) => {
            backend.gather_add(&[tokens], rows, spec.scale, normed);
            backend.apply_linear(scratch, normed, rows, projection, None, stream);
            let others: Vec<_> = places.into_iter().chain(types).collect();
            if !others.is_empty() {
                backend.gather_add(&others, rows, 1.0, normed);
                backend.add(stream, normed, rows * *width);
            }
        }
        _ => {
            let all: Vec<_> = [tokens].into_iter().chain(types).chain(places).collect();
            backend.gather_add(&all, rows, spec.scale, stream);
        }
    }
    if let Some(norm) = &weights.norm {
        backend.apply_norm(stream, rows, norm, normed);
        swap(stream, normed);
    }
    if let (Some(projection), Some(place)) = (&weights.projection, spec.projection)
        && !place.before_positions
    {
        backend.apply_linear(scratch, stream, rows, projection, None, normed);
        swap(stream, normed);
    }
}
