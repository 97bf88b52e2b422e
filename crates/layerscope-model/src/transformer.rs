//! The forward pass: embed, blocks, final norm, projection, each point's states pushed to the observer and forgotten.

use layerscope_compute::{Backend, States};

use crate::batch::Batch;
use crate::block::Block;
use crate::checkpoint::Checkpoint;
use crate::embedding::embed;
use crate::error::{Error, Result};
use crate::point::{Observer, Point};
use crate::position::rotary_angles;
use crate::requirements::TensorPlan;
use crate::spec::{ModelSpec, RotarySpec};
use crate::weights::{EmbeddingWeights, Loader};
use crate::workspace::Workspace;

/// A model ready to run.
pub struct Transformer<B: Backend> {
    backend: B,
    spec: ModelSpec,
    embedding: EmbeddingWeights<B>,
    blocks: Vec<Block<B>>,
    final_norm: Option<B::Norm>,
    output_projection: Option<B::Linear>,
    /// The different rotations of the blocks; each batch computes their angles once.
    rotaries: Vec<RotarySpec>,
}

impl<B: Backend> Transformer<B> {
    /// Reads a checkpoint's weights onto a backend, tensor by tensor.
    pub fn load(backend: B, spec: ModelSpec, plan: &TensorPlan, checkpoint: &Checkpoint) -> Result<Self> {
        let loader = Loader { backend: &backend, checkpoint, plan };
        let stored = loader.blocks(&spec)?;
        let mut rotaries: Vec<RotarySpec> = Vec::new();
        let mut blocks = Vec::with_capacity(spec.blocks.len());
        for (block, weights) in spec.blocks.iter().zip(stored) {
            let rotary = block.attention.rotary.as_ref().map(|rotary| {
                rotaries.iter().position(|known| known == rotary).unwrap_or_else(|| {
                    rotaries.push(rotary.clone());
                    rotaries.len() - 1
                })
            });
            let attention = loader.attention(&block.attention)?;
            blocks.push(Block { spec: block.clone(), weights, attention, rotary });
        }
        let embedding = loader.embedding(&spec)?;
        let final_norm = loader.final_norm(&spec)?;
        let output_projection = loader.output_projection(&spec)?;
        Ok(Transformer { backend, spec, embedding, blocks, final_norm, output_projection, rotaries })
    }

    /// What this model computes.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// Where it computes.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// The points in the order they are observed.
    pub fn points(&self) -> Vec<Point> {
        self.spec.points()
    }

    /// A stream and buffers for one worker, for batches of up to `tokens` tokens.
    pub fn workspace(&self, tokens: usize) -> Result<Workspace<B>> {
        Workspace::new(&self.backend, &self.spec, &self.rotaries, tokens)
    }

    /// Runs one batch, showing the states of every point to the observer. When it returns, the device is done with the batch.
    pub fn forward<O: Observer<B>>(&self, batch: &Batch, space: &mut Workspace<B>, observer: &mut O) -> Result<(), O::Error> {
        self.forward_to(Point::Projected, batch, space, observer)
    }

    /// The same, but nothing is computed beyond `last`.
    pub fn forward_to<O: Observer<B>>(
        &self,
        last: Point,
        batch: &Batch,
        space: &mut Workspace<B>,
        observer: &mut O,
    ) -> Result<(), O::Error> {
        batch.check(&self.spec)?;
        if batch.tokens() > space.capacity {
            *space = self.workspace(batch.tokens())?;
        }
        let observed = self.run(last, batch, space, observer);
        // Even after an error of the observer: a failure left in the stream would be blamed on the next batch.
        let computed = self.backend.synchronize(&mut space.stream).map_err(Error::from);
        observed?;
        Ok(computed?)
    }

    fn run<O: Observer<B>>(&self, last: Point, batch: &Batch, space: &mut Workspace<B>, observer: &mut O) -> Result<(), O::Error> {
        let backend = &self.backend;
        let mut show = |at: Point, stream: &mut B::Stream, buffer: &B::Buffer| {
            observer.observe(batch, at, &mut States { backend, stream, buffer, rows: batch.tokens(), width: self.spec.width_at(at) })
        };
        self.write_offsets(batch, space);
        self.write_angles(batch, space);
        embed(&self.spec.embedding, &self.embedding, backend, batch, space);
        show(Point::Embedding, &mut space.stream, &space.residual)?;
        for (i, block) in self.blocks.iter().enumerate().take_while(|(i, _)| Point::Block(i + 1) <= last) {
            block.forward(backend, batch.tokens(), space);
            show(Point::Block(i + 1), &mut space.stream, &space.residual)?;
        }
        if let Some(norm) = self.final_norm.as_ref().filter(|_| last >= Point::FinalNorm) {
            backend.apply_norm(&mut space.stream, &space.residual, batch.tokens(), norm, &mut space.normed);
            show(Point::FinalNorm, &mut space.stream, &space.normed)?;
        }
        if let Some(projection) = self.output_projection.as_ref().filter(|_| last == Point::Projected) {
            let states = if self.final_norm.is_some() { &space.normed } else { &space.residual };
            backend.apply_linear(&mut space.stream, states, batch.tokens(), projection, None, &mut space.branch);
            show(Point::Projected, &mut space.stream, &space.branch)?;
        }
        Ok(())
    }

    /// Empty sequences are left out: they have nothing to attend to, and there may be more of them than tokens.
    fn write_offsets(&self, batch: &Batch, space: &mut Workspace<B>) {
        let mut offsets = batch.offsets().to_vec();
        offsets.dedup();
        self.backend.write_offsets(&mut space.stream, &mut space.offsets, &offsets);
    }

    fn write_angles(&self, batch: &Batch, space: &mut Workspace<B>) {
        for (spec, (cos, sin)) in self.rotaries.iter().zip(&mut space.angles) {
            rotary_angles(spec, batch, &mut space.host_cos, &mut space.host_sin);
            self.backend.write(&mut space.stream, cos, &space.host_cos);
            self.backend.write(&mut space.stream, sin, &space.host_sin);
        }
    }
}
