//! The forward pass: embed, blocks, final norm, each point's states pushed to the observer and forgotten.

use layerscope_compute::{Backend, States};

use crate::batch::Batch;
use crate::block::Block;
use crate::checkpoint::Checkpoint;
use crate::embedding::embed;
use crate::error::Result;
use crate::point::{Observer, Point};
use crate::position::rotary_angles;
use crate::requirements::TensorPlan;
use crate::spec::{BlockSpec, Gate, ModelSpec, Residual, RotarySpec};
use crate::weights::{EmbeddingWeights, Loader};

/// A model ready to run.
pub struct Transformer<B: Backend> {
    backend: B,
    spec: ModelSpec,
    embedding: EmbeddingWeights<B>,
    blocks: Vec<Block<B>>,
    final_norm: Option<B::Norm>,
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
            let shape = loader.attention_shape(&block.attention)?;
            blocks.push(Block { spec: block.clone(), weights, shape, rotary });
        }
        let embedding = loader.embedding(&spec)?;
        let final_norm = loader.final_norm(&spec)?;
        Ok(Transformer { backend, spec, embedding, blocks, final_norm, rotaries })
    }

    /// What this model computes.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// The points in the order they are observed.
    pub fn points(&self) -> Vec<Point> {
        Point::all(self.spec.blocks.len(), self.spec.final_norm.is_some())
    }

    /// Buffers for one worker, for batches of up to `tokens` tokens.
    pub fn workspace(&self, tokens: usize) -> Workspace<B> {
        Workspace::new(&self.backend, &self.spec, &self.rotaries, tokens)
    }

    /// Runs one batch, showing the states of every point to the observer.
    pub fn forward<O: Observer<B>>(&self, batch: &Batch, space: &mut Workspace<B>, observer: &O) -> Result<(), O::Error> {
        self.forward_to(Point::FinalNorm, batch, space, observer)
    }

    /// The same, but nothing is computed beyond `last`.
    pub fn forward_to<O: Observer<B>>(&self, last: Point, batch: &Batch, space: &mut Workspace<B>, observer: &O) -> Result<(), O::Error> {
        batch.check(&self.spec)?;
        if batch.tokens() > space.capacity {
            *space = self.workspace(batch.tokens());
        }
        let backend = &self.backend;
        let show = |at: Point, buffer: &B::Buffer| {
            observer.observe(batch, at, &States { backend, buffer, rows: batch.tokens(), width: self.spec.width })
        };
        self.fill_angles(batch, space);
        embed(&self.spec.embedding, &self.embedding, backend, batch, space);
        show(Point::Embedding, &space.stream)?;
        for (i, block) in self.blocks.iter().enumerate().take_while(|(i, _)| Point::Block(i + 1) <= last) {
            block.forward(backend, batch, space);
            show(Point::Block(i + 1), &space.stream)?;
        }
        if let Some(norm) = self.final_norm.as_ref().filter(|_| last == Point::FinalNorm) {
            backend.apply_norm(&space.stream, batch.tokens(), norm, &mut space.normed);
            show(Point::FinalNorm, &space.normed)?;
        }
        Ok(())
    }

    fn fill_angles(&self, batch: &Batch, space: &mut Workspace<B>) {
        for (spec, (cos, sin)) in self.rotaries.iter().zip(&mut space.angles) {
            rotary_angles(spec, batch, &mut space.host_cos, &mut space.host_sin);
            self.backend.write(cos, &space.host_cos);
            self.backend.write(sin, &space.host_sin);
        }
    }
}

/// One worker's buffers, allocated once and reused by every batch.
pub struct Workspace<B: Backend> {
    pub(crate) capacity: usize,
    pub(crate) width: usize,
    /// The residual stream.
    pub(crate) stream: B::Buffer,
    /// The output of a norm.
    pub(crate) normed: B::Buffer,
    /// The output of one half of a block, before it joins the stream.
    pub(crate) branch: B::Buffer,
    /// The other half's, in parallel blocks.
    pub(crate) other_branch: B::Buffer,
    pub(crate) qkv: B::Buffer,
    pub(crate) context: B::Buffer,
    pub(crate) hidden: B::Buffer,
    pub(crate) gated: B::Buffer,
    pub(crate) ids: B::Indices,
    pub(crate) positions: B::Indices,
    pub(crate) angles: Vec<(B::Buffer, B::Buffer)>,
    pub(crate) host_cos: Vec<f32>,
    pub(crate) host_sin: Vec<f32>,
    pub(crate) scratch: B::Scratch,
}

/// Floats per token of each buffer of a [`Workspace`].
struct BufferWidths {
    stream: usize,
    parallel: usize,
    qkv: usize,
    context: usize,
    hidden: usize,
    gated: usize,
}

impl BufferWidths {
    fn of(spec: &ModelSpec) -> BufferWidths {
        let widest = |of: &dyn Fn(&BlockSpec) -> usize| spec.blocks.iter().map(of).max().unwrap_or(0);
        BufferWidths {
            stream: spec.width.max(spec.embedding.width),
            parallel: widest(&|block| if matches!(block.residual, Residual::Parallel { .. }) { spec.width } else { 0 }),
            qkv: widest(&|block| (block.attention.heads + 2 * block.attention.kv_heads) * block.attention.head_dim),
            context: widest(&|block| block.attention.heads * block.attention.head_dim),
            hidden: widest(&|block| block.feed_forward.width * if block.feed_forward.gate == Gate::None { 1 } else { 2 }),
            gated: widest(&|block| if block.feed_forward.gate == Gate::None { 0 } else { block.feed_forward.width }),
        }
    }

    fn total(&self) -> usize {
        3 * self.stream + self.parallel + self.qkv + self.context + self.hidden + self.gated
    }
}

impl<B: Backend> Workspace<B> {
    fn new(backend: &B, spec: &ModelSpec, rotaries: &[RotarySpec], tokens: usize) -> Self {
        let widths = BufferWidths::of(spec);
        let buffer = |width: usize| backend.buffer(tokens * width);
        Workspace {
            capacity: tokens,
            width: spec.width,
            stream: buffer(widths.stream),
            normed: buffer(widths.stream),
            branch: buffer(widths.stream),
            other_branch: buffer(widths.parallel),
            qkv: buffer(widths.qkv),
            context: buffer(widths.context),
            hidden: buffer(widths.hidden),
            gated: buffer(widths.gated),
            ids: backend.indices(tokens),
            positions: backend.indices(tokens),
            angles: rotaries.iter().map(|rotary| (buffer(rotary.dim / 2), buffer(rotary.dim / 2))).collect(),
            host_cos: Vec::new(),
            host_sin: Vec::new(),
            scratch: backend.scratch(),
        }
    }
}

/// Bytes of one worker's activations for batches of `tokens` tokens.
pub fn workspace_bytes(spec: &ModelSpec, tokens: usize) -> usize {
    BufferWidths::of(spec).total() * tokens * size_of::<f32>()
}
