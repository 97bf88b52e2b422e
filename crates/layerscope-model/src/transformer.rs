//! The forward pass: embed, blocks, final norm, projection, each point's states pushed to the observer and forgotten.

use layerscope_compute::{Backend, States};

use crate::batch::Batch;
use crate::block::Block;
use crate::embedding::embed;
use crate::error::{Error, Result};
use crate::leg::Leg;
use crate::load_watch::LoadWatch;
use crate::model::Model;
use crate::point::{Observer, Point};
use crate::position::rotary_angles;
use crate::spec::{ModelSpec, RotarySpec};
use crate::weights::{EmbeddingWeights, Loader};
use crate::workspace::Workspace;

/// A model ready to run, or a leg of one.
pub struct Transformer<B: Backend> {
    backend: B,
    spec: ModelSpec,
    leg: Leg,
    embedding: Option<EmbeddingWeights<B>>,
    /// Those of the leg.
    blocks: Vec<Block<B>>,
    final_norm: Option<B::Norm>,
    output_projection: Option<B::Linear>,
    /// The different rotations of all blocks; each batch computes their angles once.
    rotaries: Vec<RotarySpec>,
}

impl<B: Backend> Transformer<B> {
    /// Reads what a leg needs of a checkpoint's weights onto a backend, several blocks at a time, until `watch` says to stop.
    pub(crate) fn load(backend: B, model: &Model, leg: Leg, threads: usize, watch: &LoadWatch) -> Result<Self> {
        let spec = model.spec.clone();
        let loader = Loader { backend: &backend, checkpoint: &model.checkpoint, plan: &model.plan, watch };
        let rotaries = different_rotaries(&spec);
        let own = &spec.blocks[leg.blocks(&spec)];
        let mut blocks = Vec::with_capacity(own.len());
        for (block, weights) in own.iter().zip(loader.blocks(own, spec.width, threads)?) {
            let rotary = block.attention.rotary.as_ref().and_then(|rotary| rotaries.iter().position(|known| known == rotary));
            let attention = loader.attention(&block.attention)?;
            blocks.push(Block { spec: block.clone(), weights, attention, rotary });
        }
        let embedding = if leg.from.is_none() { Some(loader.embedding(&spec)?) } else { None };
        let final_norm = if leg.to >= Point::FinalNorm { loader.final_norm(&spec)? } else { None };
        let output_projection = if leg.to == Point::Projected { loader.output_projection(&spec)? } else { None };
        Ok(Transformer { backend, spec, leg, embedding, blocks, final_norm, output_projection, rotaries })
    }

    /// The part of the model that this is.
    pub fn leg(&self) -> Leg {
        self.leg
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

    /// Runs one batch from its token ids, showing the states of every point to the observer. When it returns, the device is done with the
    /// batch.
    pub fn forward<O: Observer<B>>(&self, batch: &Batch, space: &mut Workspace<B>, observer: &mut O) -> Result<(), O::Error> {
        self.forward_from(None, batch, space, observer)
    }

    /// The same for a leg that begins with the states of a point: `entering`, row-major. The observer sees them too.
    pub fn forward_from<O: Observer<B>>(
        &self,
        entering: Option<&[f32]>,
        batch: &Batch,
        space: &mut Workspace<B>,
        observer: &mut O,
    ) -> Result<(), O::Error> {
        batch.check(&self.spec)?;
        if batch.tokens() > space.capacity {
            *space = self.workspace(batch.tokens())?;
        }
        let observed = self.run(entering, batch, space, observer);
        // Even after an error of the observer: a failure left in the stream would be blamed on the next batch.
        let computed = self.backend.synchronize(&mut space.stream).map_err(Error::from);
        observed?;
        Ok(computed?)
    }

    /// Shows states of a batch at a point that were computed before, as [`Transformer::forward`] would.
    pub fn show<O: Observer<B>>(
        &self,
        (at, states): (Point, &[f32]),
        batch: &Batch,
        space: &mut Workspace<B>,
        observer: &mut O,
    ) -> Result<(), O::Error> {
        let (backend, rows, width) = (&self.backend, batch.tokens(), self.spec.width_at(at));
        if states.len() != rows * width {
            return Err(Error::Batch("states of another batch".into()).into());
        }
        if rows > space.capacity {
            *space = self.workspace(rows)?;
        }
        let buffer = if at == Point::Projected { &mut space.branch } else { &mut space.residual };
        backend.write(&mut space.stream, buffer, states);
        let observed = observer.observe(batch, at, &mut States { backend, stream: &mut space.stream, buffer, rows, width });
        let written = backend.synchronize(&mut space.stream).map_err(Error::from);
        observed?;
        Ok(written?)
    }

    fn run<O: Observer<B>>(
        &self,
        entering: Option<&[f32]>,
        batch: &Batch,
        space: &mut Workspace<B>,
        observer: &mut O,
    ) -> Result<(), O::Error> {
        let backend = &self.backend;
        let mut show = |at: Point, stream: &mut B::Stream, buffer: &B::Buffer| {
            observer.observe(batch, at, &mut States { backend, stream, buffer, rows: batch.tokens(), width: self.spec.width_at(at) })
        };
        self.write_offsets(batch, space);
        self.write_angles(batch, space);
        match (&self.embedding, self.leg.from, entering) {
            (Some(weights), None, None) => {
                embed(&self.spec.embedding, weights, backend, batch, space);
                show(Point::Embedding, &mut space.stream, &space.residual)?;
            }
            (_, Some(from), Some(states)) if states.len() == batch.tokens() * self.spec.width => {
                backend.write(&mut space.stream, &mut space.residual, states);
                show(from, &mut space.stream, &space.residual)?;
            }
            _ => return Err(Error::Batch("a leg of the model was given what another one needs".into()).into()),
        }
        for (block, number) in self.blocks.iter().zip(self.leg.blocks(&self.spec)) {
            block.forward(backend, batch.tokens(), space);
            show(Point::Block(number + 1), &mut space.stream, &space.residual)?;
        }
        if let Some(norm) = &self.final_norm {
            backend.apply_norm(&mut space.stream, &space.residual, batch.tokens(), norm, &mut space.normed);
            show(Point::FinalNorm, &mut space.stream, &space.normed)?;
        }
        if let Some(projection) = &self.output_projection {
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

fn different_rotaries(spec: &ModelSpec) -> Vec<RotarySpec> {
    let mut different: Vec<RotarySpec> = Vec::new();
    for rotary in spec.blocks.iter().filter_map(|block| block.attention.rotary.as_ref()) {
        if !different.contains(rotary) {
            different.push(rotary.clone());
        }
    }
    different
}
