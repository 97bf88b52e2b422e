//! What a checkpoint is: everything that can be said of it without a text.

use std::fmt;
use std::time::Duration;

use layerscope_compute::cpu::fma_peak;
use layerscope_compute::{ComputeDtype, Cpu};
use layerscope_model::spec::{AttentionSpec, BiasSpec, ModelSpec, RotaryScaling};
use layerscope_model::{Leg, Model, Point, activation_memory, leg_memory, weight_memory};
use layerscope_stats::measure::{Family, needs};
use layerscope_stats::{Accumulate, PointShape};
use serde::Serialize;

use super::diagram::{block_diagram, norm_label};
use super::locate::locate;
use super::probe::{BATCH_TOKENS, Probe, probe, sentence_keys};
use crate::error::Result;
use crate::measure::device::{Device, OnDevice};
use crate::text::{bytes, counted, grouped, short};

/// Groups for which an inspection tells the memory of sketches: about those of a book.
const INSPECTED_GROUPS: usize = 10_000;

/// How long the processor's peak is measured: the answer comes at once.
const PEAK: Duration = Duration::from_millis(40);

/// The facts of a checkpoint.
#[derive(Debug, Serialize)]
pub struct Inspection {
    /// Where it lies.
    pub folder: String,
    /// The `model_type` of its configuration's family.
    pub family: &'static str,
    /// Number of blocks.
    pub layers: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Width of the last states, where a projection follows everything else.
    pub projected: Option<usize>,
    /// Query heads of the first block.
    pub heads: usize,
    /// Key and value heads of the first block.
    pub kv_heads: usize,
    /// Width of a head of the first block.
    pub head_dim: usize,
    /// Numbers in the tensors that are read.
    pub parameters: usize,
    /// Rows of the token embedding.
    pub vocabulary: usize,
    /// Longest sequence, if limited.
    pub max_positions: Option<usize>,
    /// How positions enter.
    pub positions: String,
    /// Kind and placement of the norms.
    pub norms: String,
    /// Which way tokens attend.
    pub attends: &'static str,
    /// One line per different block: which ones, and a drawing.
    pub blocks: Vec<String>,
    /// Dtypes of the stored weights with their number of tensors.
    pub dtypes: Vec<(String, usize)>,
    /// Bytes of the weight files.
    pub bytes_on_disk: u64,
    /// Names of the tensors that are read.
    pub tensors_read: Vec<String>,
    /// Names of the tensors that are knowingly not read.
    pub tensors_ignored: Vec<String>,
    /// Keys of config.json that Layerscope does not know.
    pub unknown_keys: Vec<String>,
    /// Bytes of the weights in memory.
    pub weight_bytes: usize,
    /// Bytes of the weights of the largest block, or of the embedding if that is larger; in block order two such parts are in memory.
    pub block_bytes: usize,
    /// Bytes of one worker's buffers.
    pub worker_bytes: usize,
    /// Bytes of the sketches of one point for the default measures and 10,000 groups.
    pub sketch_bytes: usize,
    /// Points where states are measured.
    pub points: usize,
    /// Floating-point operations that a token of a sentence takes.
    pub flops_per_token: f64,
    /// Threads that would do them.
    pub threads: usize,
    /// Billions of such operations that these threads can do in a second.
    pub peak_gflops: f64,
    /// Measured speed, where it was measured.
    pub probe: Option<Probe>,
    #[serde(skip)]
    distinct_blocks: Vec<(Vec<usize>, String)>,
}

/// Opens a checkpoint and says what it is, from the headers of its files. With `probe`, the weights are loaded too, and the model runs for
/// about so long.
pub fn inspect(model: &str, revision: Option<&str>, threads: usize, probe: Option<Duration>) -> Result<Inspection> {
    let folder = locate(model, revision)?;
    let model = Model::open(&folder)?;
    let measure = |limit| Device::best().run(ComputeDtype::F32, ProbeOf { model: &model, threads, limit })?;
    let measured = probe.map(measure).transpose()?;
    let peak_gflops = fma_peak(threads, PEAK);
    Ok(Inspection { probe: measured, threads, peak_gflops, ..Inspection::new(&model) })
}

/// A model whose speed is measured.
struct ProbeOf<'a> {
    model: &'a Model,
    threads: usize,
    limit: Duration,
}

impl OnDevice for ProbeOf<'_> {
    type Output = Result<Probe>;

    fn run<D: Accumulate>(self, device: D) -> Result<Probe> {
        Ok(probe(&self.model.load(device)?, self.threads, self.limit)?)
    }
}

impl Inspection {
    pub(crate) fn new(model: &Model) -> Inspection {
        let spec = &model.spec;
        let attention = &spec.blocks[0].attention;
        let parameters = model.plan.parameters();
        let distinct_blocks = distinct_blocks(spec);
        Inspection {
            folder: model.folder.display().to_string(),
            family: model.family.model_types[0],
            layers: spec.blocks.len(),
            width: spec.width,
            projected: spec.output_projection,
            heads: attention.heads,
            kv_heads: attention.kv_heads,
            head_dim: attention.head_dim,
            parameters,
            vocabulary: spec.vocabulary,
            max_positions: spec.max_positions,
            positions: positions(spec),
            norms: norms(spec),
            attends: if attention.causal { "causally" } else { "both ways" },
            blocks: spec.blocks.iter().map(block_diagram).collect(),
            dtypes: model.checkpoint.dtypes().into_iter().map(|(dtype, count)| (dtype.to_string(), count)).collect(),
            bytes_on_disk: model.checkpoint.bytes_on_disk(),
            tensors_read: model.plan.read().map(str::to_owned).collect(),
            tensors_ignored: model.plan.ignored().to_vec(),
            unknown_keys: model.unknown_keys.clone(),
            weight_bytes: weight_memory(&Cpu::new(), &model.plan).host,
            block_bytes: largest_part(model),
            worker_bytes: activation_memory(&Cpu::new(), spec, BATCH_TOKENS).host,
            sketch_bytes: sketches_of(spec.width),
            points: spec.points().len(),
            flops_per_token: spec.flops_per_token(sentence_keys(attention.causal)),
            threads: 0,
            peak_gflops: 0.0,
            probe: None,
            distinct_blocks,
        }
    }
}

/// Bytes of the weights of the largest part that block order holds.
fn largest_part(model: &Model) -> usize {
    let ends: Vec<Point> = model.spec.points().into_iter().filter(|at| Leg::may_end_at(*at)).collect();
    let legs = ends.iter().enumerate().map(|(at, &to)| Leg { from: at.checked_sub(1).map(|before| ends[before]), to });
    legs.map(|leg| leg_memory(&Cpu::new(), &model.spec, &model.plan, leg).host).max().unwrap_or(0)
}

/// Bytes of the sketches of a point of this width, kept states apart.
fn sketches_of(dim: usize) -> usize {
    let sketches = needs(&Family::DEFAULT);
    PointShape { groups: INSPECTED_GROUPS, dim, previous: Some(dim), kept: 0, chosen: 0, sketches }.bytes()
}

/// The different drawings and the blocks (from 1) that look like them.
fn distinct_blocks(spec: &ModelSpec) -> Vec<(Vec<usize>, String)> {
    let mut distinct: Vec<(Vec<usize>, String)> = Vec::new();
    for (i, block) in spec.blocks.iter().enumerate() {
        let drawing = block_diagram(block);
        match distinct.iter_mut().find(|(_, known)| *known == drawing) {
            Some((blocks, _)) => blocks.push(i + 1),
            None => distinct.push((vec![i + 1], drawing)),
        }
    }
    distinct
}

fn positions(spec: &ModelSpec) -> String {
    let AttentionSpec { rotary, bias, .. } = &spec.blocks[0].attention;
    let learned = spec.embedding.positions.map(|table| format!("learned, {}", grouped(table.rows - table.offset)));
    let rotary = rotary.as_ref().map(|rotary| {
        let scaling = match rotary.scaling {
            RotaryScaling::None => String::new(),
            RotaryScaling::Each { .. } => ", each frequency stretched by a number of its own".to_owned(),
            RotaryScaling::Linear { factor } => format!(", stretched {factor} times"),
            RotaryScaling::Dynamic { factor, .. } => format!(", stretched {factor} times as needed"),
            RotaryScaling::Llama3 { factor, .. } => format!(", low frequencies stretched {factor} times"),
        };
        format!("rotary over {} dimensions, base {}{scaling}", rotary.dim, rotary.base)
    });
    let bias = bias.as_ref().map(|bias| match bias {
        BiasSpec::Alibi { .. } => "linear biases (ALiBi)".to_owned(),
        BiasSpec::Buckets { buckets, .. } => format!("relative biases in {buckets} buckets"),
    });
    let all: Vec<String> = [learned, rotary, bias].into_iter().flatten().collect();
    if all.is_empty() { "none".to_owned() } else { all.join("; ") }
}

fn norms(spec: &ModelSpec) -> String {
    let block = spec.blocks.last().map(|block| block.norms).unwrap_or_default();
    let before = block.attention_in.or(block.feed_forward_in);
    let inside = block.attention_out.or(block.feed_forward_out);
    let after = block.after_attention.or(block.after_feed_forward);
    let placement = match (before, inside, after) {
        (Some(_), Some(_), _) => "sandwich (before and after each half)",
        (Some(_), None, _) => "pre-norm",
        (None, Some(_), _) => "on the outputs of each half",
        (None, None, Some(_)) => "post-norm",
        (None, None, None) => "none",
    };
    let kind = before.or(inside).or(after).map_or(String::new(), |norm| norm_label(norm) + ", ");
    let last = if spec.final_norm.is_some() { ", and a final norm" } else { "" };
    format!("{kind}{placement}{last}")
}

impl fmt::Display for Inspection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: String| writeln!(out, "{name:<12} {value}");
        row("model", format!("{} ({})", self.folder, self.family))?;
        let projected = self.projected.map_or(String::new(), |width| format!(", projected to width {width} at the end"));
        row("layers", format!("{} of width {}{projected}", self.layers, self.width))?;
        let shared = if self.kv_heads == self.heads { String::new() } else { format!(", {} for keys and values", self.kv_heads) };
        row("heads", format!("{} of width {}{shared}, attending {}", self.heads, self.head_dim, self.attends))?;
        row("norms", self.norms.clone())?;
        row("positions", self.positions.clone())?;
        row("vocabulary", grouped(self.vocabulary))?;
        let dtypes: Vec<&str> = self.dtypes.iter().map(|(dtype, _)| dtype.as_str()).collect();
        let disk = bytes(self.bytes_on_disk as usize);
        row("parameters", format!("{} ({} on disk as {})", short(self.parameters), disk, dtypes.join(", ")))?;
        row(
            "tensors",
            format!("{} read, {} ignored{}", self.tensors_read.len(), self.tensors_ignored.len(), listed(&self.tensors_ignored)),
        )?;
        row("memory", format!("{} of weights, {} per worker", bytes(self.weight_bytes), bytes(self.worker_bytes)))?;
        let [one, all] = [self.sketch_bytes, self.sketch_bytes * self.points].map(bytes);
        row(
            "sketches",
            format!("{one} per layer with {} groups and the default measures, {all} for all layers", grouped(INSPECTED_GROUPS)),
        )?;
        let blocks = 2 * (self.block_bytes + self.sketch_bytes);
        row("block order", format!("{} for weights and sketches with --order block, which --max-memory chooses if needed", bytes(blocks)))?;
        let rounded = |speed: f64| grouped(speed.round() as usize);
        match self.probe {
            Some(probe) => row(
                "speed",
                format!("{} tokens/s on {} (measured)", rounded(probe.tokens_per_second()), counted(probe.threads as u64, "thread")),
            )?,
            None => {
                let most = rounded(1e9 * self.peak_gflops / self.flops_per_token);
                let each = self.flops_per_token / 1e9;
                row(
                    "speed",
                    format!(
                        "at most {most} tokens/s on {} ({each:.3} GFLOP each; --probe measures it)",
                        counted(self.threads as u64, "thread")
                    ),
                )?;
            }
        }
        if !self.unknown_keys.is_empty() {
            row("warning", format!("the configuration has keys Layerscope does not know: {}", self.unknown_keys.join(", ")))?;
        }
        for (blocks, drawing) in &self.distinct_blocks {
            writeln!(out, "\n{}", which(blocks, self.layers))?;
            drawing.lines().try_for_each(|line| writeln!(out, "  {line}"))?;
        }
        Ok(())
    }
}

/// A few of the names, in brackets.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 3;
    match names.len() {
        0 => String::new(),
        count if count <= SHOWN => format!(" ({})", names.join(", ")),
        count => format!(" ({}, and {} more)", names[..SHOWN].join(", "), count - SHOWN),
    }
}

fn which(blocks: &[usize], layers: usize) -> String {
    if blocks.len() == layers {
        return "every block".to_owned();
    }
    let numbers: Vec<String> = blocks.iter().map(usize::to_string).collect();
    format!("block{} {}", if blocks.len() == 1 { "" } else { "s" }, numbers.join(", "))
}
