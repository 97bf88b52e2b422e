//! Every tensor a model needs, with its shape, and where a checkpoint keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use layerscope_compute::{Backend, HostTensor, Memory, NumberKind};

use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::leg::Leg;
use crate::names::{LinearLayout, Names, Slot};
use crate::point::Point;
use crate::spec::{BiasSpec, BlockSpec, Gate, ModelSpec, NormSpec, QkvStorage};

/// A parameter of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// `weight` (of a norm: gamma).
    Weight,
    /// `bias` (of a norm: beta).
    Bias,
}

impl Part {
    /// Its names in checkpoints; old ones call a norm's parameters gamma and beta.
    fn suffixes(self) -> [&'static str; 2] {
        match self {
            Part::Weight => ["weight", "gamma"],
            Part::Bias => ["bias", "beta"],
        }
    }
}

/// Which parameter of the canonical model a tensor fills.
pub type Place = (Slot, usize, Part);

/// Parameters and their shapes, linear weights as `[outputs, inputs]`.
#[derive(Default)]
struct Requirements {
    shapes: BTreeMap<Place, Vec<usize>>,
    /// The weights of linear layers.
    linear: BTreeSet<Place>,
    /// Width of a head, of queries and keys that turn.
    heads: BTreeMap<Place, usize>,
}

impl Requirements {
    fn of(spec: &ModelSpec) -> Requirements {
        let mut needs = Requirements::default();
        let embedding = &spec.embedding;
        needs.table(Slot::TokenEmbedding, spec.vocabulary, embedding.width);
        let before_positions = embedding.projection.is_some_and(|projection| projection.before_positions);
        let sum_width = if before_positions { spec.width } else { embedding.width };
        if let Some(positions) = embedding.positions {
            needs.table(Slot::PositionEmbedding, positions.rows, sum_width);
        }
        if embedding.types > 0 {
            needs.table(Slot::TypeEmbedding, embedding.types, sum_width);
        }
        needs.norm(Slot::EmbeddingNorm, 0, embedding.norm, sum_width);
        if let Some(projection) = embedding.projection {
            needs.linear(Slot::EmbeddingProjection, 0, spec.width, embedding.width, projection.bias);
        }
        for block in &spec.blocks {
            needs.block(block, spec.width);
        }
        needs.norm(Slot::FinalNorm, 0, spec.final_norm, spec.width);
        if let Some(width) = spec.output_projection {
            needs.linear(Slot::OutputProjection, 0, width, spec.width, false);
        }
        needs
    }

    fn block(&mut self, block: &BlockSpec, width: usize) {
        let (at, attention, feed_forward, norms) = (block.weights, &block.attention, &block.feed_forward, &block.norms);
        for (slot, norm) in [
            (Slot::AttentionInNorm, norms.attention_in),
            (Slot::AttentionOutNorm, norms.attention_out),
            (Slot::AfterAttentionNorm, norms.after_attention),
            (Slot::FeedForwardInNorm, norms.feed_forward_in),
            (Slot::FeedForwardOutNorm, norms.feed_forward_out),
            (Slot::AfterFeedForwardNorm, norms.after_feed_forward),
        ] {
            self.norm(slot, at, norm, width);
        }
        let queries = attention.heads * attention.head_dim;
        let keys = attention.kv_heads * attention.head_dim;
        match attention.qkv {
            QkvStorage::Separate => {
                self.linear(Slot::Query, at, queries, width, attention.qkv_bias);
                self.linear(Slot::Key, at, keys, width, attention.qkv_bias);
                self.linear(Slot::Value, at, keys, width, attention.qkv_bias);
                let places = [Slot::Query, Slot::Key].into_iter().flat_map(|slot| [Part::Weight, Part::Bias].map(|part| (slot, at, part)));
                self.heads.extend(places.map(|place| (place, attention.head_dim)));
            }
            QkvStorage::FusedBlocks | QkvStorage::FusedGroups => {
                self.linear(Slot::QueryKeyValue, at, queries + 2 * keys, width, attention.qkv_bias)
            }
        }
        if let Some(qk_norm) = attention.qk_norm {
            let of = |all| if qk_norm.per_head { attention.head_dim } else { all };
            self.norm(Slot::QueryNorm, at, Some(qk_norm.norm), of(queries));
            self.norm(Slot::KeyNorm, at, Some(qk_norm.norm), of(keys));
        }
        if let Some(BiasSpec::Buckets { rows, .. }) = attention.bias {
            self.table(Slot::RelativeBias, rows, attention.heads);
        }
        self.linear(Slot::AttentionOutput, at, width, queries, attention.out_bias);
        let (hidden, bias) = (feed_forward.width, feed_forward.in_bias);
        match feed_forward.gate {
            Gate::None => self.linear(Slot::Up, at, hidden, width, bias),
            Gate::Separate => {
                self.linear(Slot::Gate, at, hidden, width, bias);
                self.linear(Slot::Up, at, hidden, width, bias);
            }
            Gate::Fused => self.linear(Slot::GateUp, at, 2 * hidden, width, bias),
        }
        self.linear(Slot::Down, at, width, hidden, feed_forward.out_bias);
    }

    fn table(&mut self, slot: Slot, rows: usize, width: usize) {
        self.shapes.insert((slot, 0, Part::Weight), vec![rows, width]);
    }

    fn linear(&mut self, slot: Slot, block: usize, outputs: usize, inputs: usize, bias: bool) {
        self.shapes.insert((slot, block, Part::Weight), vec![outputs, inputs]);
        self.linear.insert((slot, block, Part::Weight));
        if bias {
            self.shapes.insert((slot, block, Part::Bias), vec![outputs]);
        }
    }

    fn norm(&mut self, slot: Slot, block: usize, norm: Option<NormSpec>, width: usize) {
        let Some(norm) = norm else { return };
        for (present, part) in [(norm.gamma, Part::Weight), (norm.beta, Part::Bias)] {
            if present {
                self.shapes.insert((slot, block, part), vec![width]);
            }
        }
    }
}

/// The tensors of one checkpoint, each with its place in the model or deliberately ignored.
#[derive(Debug)]
pub struct TensorPlan {
    tensors: BTreeMap<Place, PlannedTensor>,
    ignored: Vec<String>,
}

#[derive(Debug)]
struct PlannedTensor {
    name: String,
    stored_shape: Vec<usize>,
    /// In which numbers it is read.
    numbers: NumberKind,
    /// Whether it is the weight of a linear layer.
    linear: bool,
    transposed: bool,
    /// Width of a head whose rows are stored in pairs.
    pairs_in: Option<usize>,
}

impl PlannedTensor {
    fn count(&self) -> usize {
        self.stored_shape.iter().product()
    }
}

impl PlannedTensor {
    fn memory<B: Backend>(&self, backend: &B) -> Memory {
        match self.linear {
            true => backend.linear_memory(self.count(), self.numbers),
            false => backend.table_memory(self.count(), self.numbers),
        }
    }
}

impl TensorPlan {
    /// Finds every tensor the model needs, and refuses a checkpoint that lacks one or holds an unknown one.
    pub fn new(spec: &ModelSpec, names: &Names, checkpoint: &Checkpoint) -> Result<TensorPlan> {
        let prefix = prefix_of(names, checkpoint)?;
        let needs = Requirements::of(spec);
        let mut tensors = BTreeMap::new();
        let mut missing = Vec::new();
        for (place, shape) in needs.shapes {
            let linear = needs.linear.contains(&place);
            let transposed = names.linear_layout == LinearLayout::InOut && linear;
            let stored_shape = if transposed { shape.iter().rev().copied().collect() } else { shape };
            match candidates(names, prefix, place).find_map(|name| Some((checkpoint.info(&name)?.dtype, name))) {
                Some((dtype, name)) => {
                    // Vectors are read as f32 whatever they are stored as.
                    let numbers = if stored_shape.len() > 1 { dtype.read_as() } else { NumberKind::F32 };
                    let by_pairs = names.linear_layout == LinearLayout::OutInByPairs;
                    let pairs_in = needs.heads.get(&place).copied().filter(|_| by_pairs);
                    tensors.insert(place, PlannedTensor { name, stored_shape, numbers, linear, transposed, pairs_in });
                }
                None => missing.push((candidates(names, prefix, place).next().unwrap_or_else(|| place.0.to_string()), stored_shape)),
            }
        }
        if let Some((name, shape)) = missing.first() {
            let more = if missing.len() > 1 { format!(" (and {} more)", missing.len() - 1) } else { String::new() };
            return Err(Error::tensor(checkpoint.folder(), name, format!("missing, expected shape {shape:?}{more}")));
        }
        let plan = TensorPlan { ignored: ignored(names, prefix, &tensors, checkpoint)?, tensors };
        plan.check_shapes(checkpoint)?;
        Ok(plan)
    }

    /// Names of the tensors that are read.
    pub fn read(&self) -> impl Iterator<Item = &str> {
        self.tensors.values().map(|tensor| tensor.name.as_str())
    }

    /// Names of the tensors that are deliberately not read.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// Numbers in all tensors that are read.
    pub fn parameters(&self) -> usize {
        self.tensors.values().map(PlannedTensor::count).sum()
    }

    /// What all tensors that are read take on a device.
    pub fn memory<B: Backend>(&self, backend: &B) -> Memory {
        self.tensors.values().map(|tensor| tensor.memory(backend)).sum()
    }

    /// What those take that a leg of the model needs.
    pub fn leg_memory<B: Backend>(&self, backend: &B, spec: &ModelSpec, leg: Leg) -> Memory {
        self.of_leg(spec, leg).map(|(_, tensor)| tensor.memory(backend)).sum()
    }

    /// What those take in the checkpoint's files.
    pub fn leg_bytes(&self, checkpoint: &Checkpoint, spec: &ModelSpec, leg: Leg) -> u64 {
        self.of_leg(spec, leg).map(|(place, _)| self.bytes(checkpoint, *place)).sum()
    }

    /// What one parameter takes there.
    pub fn bytes(&self, checkpoint: &Checkpoint, place: Place) -> u64 {
        let info = self.tensors.get(&place).and_then(|tensor| checkpoint.info(&tensor.name));
        info.map_or(0, |info| {
            let block = info.dtype.block();
            (info.elements().div_ceil(block.numbers) * block.bytes) as u64
        })
    }

    fn of_leg(&self, spec: &ModelSpec, leg: Leg) -> impl Iterator<Item = (&Place, &PlannedTensor)> {
        let blocks: BTreeSet<usize> = spec.blocks[leg.blocks(spec)].iter().map(|block| block.weights).collect();
        let is_needed = move |&(slot, at, _): &Place| match slot {
            Slot::RelativeBias => true,
            Slot::FinalNorm => leg.to >= Point::FinalNorm,
            Slot::OutputProjection => leg.to == Point::Projected,
            of_embedding if of_embedding <= Slot::EmbeddingProjection => leg.from.is_none(),
            _ => blocks.contains(&at),
        };
        self.tensors.iter().filter(move |(place, _)| is_needed(place))
    }

    /// Whether the model has this parameter.
    pub fn has(&self, place: Place) -> bool {
        self.tensors.contains_key(&place)
    }

    /// Reads one parameter as f32, linear weights as `[outputs, inputs]`.
    pub fn load(&self, checkpoint: &Checkpoint, place: Place) -> Result<Vec<f32>> {
        let tensor = &self.tensors[&place]; // invariant: callers ask for places of the same specification
        match tensor.transposed || tensor.pairs_in.is_some() {
            false => checkpoint.read(&tensor.name, &tensor.stored_shape),
            true => Ok(self.load_stored(checkpoint, place)?.values.into_f32()),
        }
    }

    /// Reads one matrix in the numbers of the file, linear weights as `[outputs, inputs]`.
    pub fn load_stored(&self, checkpoint: &Checkpoint, place: Place) -> Result<HostTensor> {
        let tensor = &self.tensors[&place]; // invariant: as above
        let rows = tensor.stored_shape.first().copied().unwrap_or(1);
        let columns = tensor.stored_shape.iter().skip(1).product();
        let values = checkpoint.read_stored(&tensor.name, &tensor.stored_shape)?;
        let stored = HostTensor { values, rows, columns };
        Ok(match (tensor.transposed, tensor.pairs_in) {
            (true, _) => stored.transposed(),
            (_, Some(head_dim)) => stored.select_rows(&apart(rows, head_dim)),
            _ => stored,
        })
    }

    fn check_shapes(&self, checkpoint: &Checkpoint) -> Result<()> {
        for tensor in self.tensors.values() {
            checkpoint.check(&tensor.name, &tensor.stored_shape)?;
        }
        Ok(())
    }
}

/// Rows of heads that are stored as 0, d/2, 1, d/2 + 1, ...: the order in which they are 0, 1, ..., d - 1.
fn apart(rows: usize, head_dim: usize) -> Vec<Range<usize>> {
    let in_head = (0..head_dim / 2).map(|pair| 2 * pair).chain((0..head_dim / 2).map(|pair| 2 * pair + 1));
    (0..rows / head_dim).flat_map(|head| in_head.clone().map(move |row| head * head_dim + row)).map(|row| row..row + 1).collect()
}

/// The prefix under which this checkpoint keeps its token embedding.
fn prefix_of(names: &Names, checkpoint: &Checkpoint) -> Result<&'static str> {
    let place = (Slot::TokenEmbedding, 0, Part::Weight);
    let found = names.prefixes.iter().find(|prefix| candidates(names, prefix, place).any(|name| checkpoint.info(&name).is_some()));
    found.copied().ok_or_else(|| {
        let name = candidates(names, "", place).next().unwrap_or_default();
        Error::tensor(checkpoint.folder(), &name, format!("missing, even with the prefixes {:?}", names.prefixes))
    })
}

fn candidates<'a>(names: &'a Names, prefix: &'a str, (slot, block, part): Place) -> impl Iterator<Item = String> + 'a {
    names.modules_for(slot, block).flat_map(move |module| part.suffixes().map(|suffix| format!("{prefix}{module}.{suffix}")))
}

/// What the checkpoint holds beyond the model, each tensor known to its family.
fn ignored(names: &Names, prefix: &str, used: &BTreeMap<Place, PlannedTensor>, checkpoint: &Checkpoint) -> Result<Vec<String>> {
    let used: BTreeSet<&str> = used.values().map(|tensor| tensor.name.as_str()).collect();
    let mut ignored = Vec::new();
    for name in checkpoint.names().filter(|name| !used.contains(name)) {
        let bare = name.strip_prefix(prefix).unwrap_or(name);
        if !names.ignores(name) && !names.ignores(bare) {
            let shape = checkpoint.info(name).map(|info| info.shape.clone()).unwrap_or_default();
            let doubt = if checkpoint.metadata().is_some() { "" } else { ": does config.json belong to these weights?" };
            let problem = format!("shape {shape:?}, has no place in this architecture{doubt}");
            return Err(Error::tensor(checkpoint.folder(), name, problem));
        }
        ignored.push(name.to_owned());
    }
    Ok(ignored)
}
