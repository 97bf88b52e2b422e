//! A measurement that can be carried out: settings, validated once. What needs the model is a [`BoundPlan`].

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use layerscope_compute::ComputeDtype;
use layerscope_corpus::{Context, Filters, Grouping, OnError, Shard, Specials, Wrap};
use layerscope_error::{line, setting};
use layerscope_model::spec::ModelSpec;
use layerscope_model::{Ablation, Model, Point};
use layerscope_stats::measure::{Family, needs};
use layerscope_stats::sketch::{SketchKind, SketchSet};

use super::device::Device;
use super::route::Order;
use super::split::PartPlan;
use crate::checkpoint::fingerprint::{ModelHash, tokenizer_fingerprint};
use crate::error::{Error, Result};
use crate::process::system;
use crate::settings::{Choices, Settings, parse, wrong, wrong_because};
use crate::store::state::Fingerprint;

/// Documents of the whole corpus from which every shard takes the massive threshold.
const PILOT_DOCUMENTS: u64 = 32;
/// More threads than any machine has.
const MOST_THREADS: usize = 4096;
/// The window of models that have no maximum.
const OPEN_WINDOW: usize = 2048;

/// Which tokens' states are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenChoice {
    /// Appendix A's choice among the selected groups.
    Auto,
    /// These, by their names.
    List(Vec<String>),
    /// None.
    None,
}

/// A measurement that can be carried out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Who chose what.
    pub choices: Choices,
    /// The model as the user named it.
    pub model: String,
    /// Its revision.
    pub revision: Option<String>,
    /// The folder of the run.
    pub out: PathBuf,
    /// What to read.
    pub text: TextPlan,
    /// Layers to measure; None for all.
    pub layers: Option<Vec<usize>>,
    /// n_t of the selected groups; None for groupings without frequencies.
    pub frequency: Option<RangeInclusive<u64>>,
    /// Whose states are kept.
    pub tokens: TokenChoice,
    /// How many of each.
    pub token_states: usize,
    /// Size of the hash sample.
    pub sample_states: usize,
    /// Measures.
    pub families: Vec<Family>,
    /// Numbers of clusters of the sample.
    pub clusters: Vec<usize>,
    /// Sketches that these need.
    pub sketches: SketchSet,
    /// Multiple of the median norm.
    pub massive: f64,
    /// How the model's norms are altered.
    pub ablations: Vec<Ablation>,
    /// Where the model runs: on several devices, a shard on each.
    pub devices: Vec<Device>,
    /// In which numbers its products are computed.
    pub dtype: ComputeDtype,
    /// Batch after batch, or block after block.
    pub order: Order,
    /// Rows of a stretch in block order; None for as many as the disk holds.
    pub stretch_tokens: Option<u64>,
    /// Rows of a batch.
    pub batch_tokens: usize,
    /// Workers.
    pub threads: usize,
    /// Limit of memory in bytes.
    pub max_memory: Option<u64>,
    /// Time between checkpoints.
    pub checkpoint: Duration,
    /// Continue a run that must be there.
    pub resume: bool,
    /// Start again.
    pub overwrite: bool,
    /// Keep what is only needed to resume.
    pub keep_work: bool,
}

/// What to read and how to cut it, as far as that does not depend on the model.
#[derive(Clone, Debug)]
pub struct TextPlan {
    /// Files, patterns, addresses, or `-`.
    pub inputs: Vec<String>,
    /// The column of the text.
    pub column: Option<String>,
    /// What to do with bad records and states.
    pub on_error: OnError,
    /// What is kept.
    pub filters: Filters,
    /// Which part of it is ours.
    pub shard: Shard,
    /// The column whose values split it.
    pub split: Option<String>,
    /// The part of one value, which `shard` numbers; None for the whole.
    pub part: Option<PartPlan>,
    /// What makes a group.
    pub grouping: Grouping,
    /// Whether special tokens count.
    pub specials: Specials,
    /// First rows of every sequence that do not.
    pub skip_first: usize,
    /// What stands around each text.
    pub wrap: Wrap,
    /// Tokens of a window; None for the model's maximum.
    pub window: Option<usize>,
    /// Tokens from one window to the next.
    pub stride: Option<usize>,
}

impl Plan {
    /// Checks what was asked for.
    pub fn new(settings: &Settings) -> Result<Plan> {
        let mut choices = settings.choose()?;
        let devices = Device::several(choices.text("device").unwrap_or_default())?;
        let device = devices[0];
        choices.decide("device", devices.iter().map(Device::to_string).collect::<Vec<_>>().join(","));
        if choices.text("dtype").is_none() {
            choices.decide("dtype", device.dtype().name());
        }
        if choices.text("batch-tokens").is_none() {
            choices.decide("batch-tokens", device.batch_tokens());
        }
        let (grouping, clusters) = parse::group(choices.text("group").unwrap_or_default())?;
        let families = parse::families(choices.text("measures").unwrap_or_default().split(','))?;
        let mut sketches = needs(&families);
        sketches.set(SketchKind::Sample, sketches.contains(SketchKind::Sample) || !clusters.is_empty());
        sketches.set(SketchKind::Blocks, choices.truth("confidence")?);
        let has_frequency = matches!(grouping, Grouping::Token | Grouping::Surface | Grouping::Word);
        let frequency = parse::frequency(choices.text("frequency").unwrap_or_default())?;
        let threads: Option<usize> = choices.parsed("threads")?;
        let seconds = choices.required("checkpoint-seconds")?;
        settings.needed("corpus")?;
        let plan = Plan {
            model: settings.needed("model")?.to_owned(),
            revision: settings.value("revision").map(str::to_owned),
            out: settings.needed("out")?.into(),
            text: TextPlan::new(settings, &choices, grouping)?,
            layers: parse::layers(choices.text("layers").unwrap_or_default())?,
            frequency: has_frequency.then_some(frequency),
            tokens: match choices.text("tokens").unwrap_or_default() {
                "auto" if has_frequency => TokenChoice::Auto,
                "auto" | "none" => TokenChoice::None,
                list => TokenChoice::List(list.split(',').map(str::to_owned).collect()),
            },
            token_states: choices.required("token-states")?,
            sample_states: if sketches.contains(SketchKind::Sample) { choices.required("sample-states")? } else { 0 },
            families,
            clusters,
            sketches,
            massive: choices.required("massive")?,
            ablations: parse::ablations(choices.text("ablate"))?,
            devices,
            dtype: choices.word("dtype", ComputeDtype::ALL)?,
            order: choices.word("order", [Order::Auto, Order::Batch, Order::Block])?,
            stretch_tokens: choices.parsed("stretch-tokens")?,
            batch_tokens: choices.required("batch-tokens")?,
            threads: threads.unwrap_or_else(system::processors),
            max_memory: choices.text("max-memory").map(parse::bytes).transpose()?,
            checkpoint: Duration::try_from_secs_f64(seconds).map_err(|_| wrong("checkpoint-seconds", &seconds.to_string()))?,
            resume: settings.is_on("resume"),
            overwrite: settings.is_on("overwrite"),
            keep_work: settings.is_on("keep-work"),
            choices,
        };
        plan.check()
    }

    fn check(self) -> Result<Plan> {
        let refuse = |name: &'static str, what: &str| Err(wrong_because(name, self.choices.text(name).unwrap_or_default(), what));
        if self.massive.is_nan() || self.massive <= 1.0 {
            return refuse("massive", "a multiple above 1");
        }
        if !self.device().computes(self.dtype) {
            return refuse("dtype", "f32 or bf16 on processors");
        }
        if !(1..=MOST_THREADS).contains(&self.threads) {
            return refuse("threads", &format!("1 to {MOST_THREADS}"));
        }
        if self.batch_tokens == 0 {
            return refuse("batch-tokens", "at least 1");
        }
        for (name, number) in
            [("batch-tokens", self.batch_tokens), ("token-states", self.token_states), ("sample-states", self.sample_states)]
        {
            if u32::try_from(number).is_err() {
                return refuse(name, &format!("at most {}", u32::MAX));
            }
        }
        if self.clusters.iter().any(|clusters| *clusters > self.sample_states) {
            return refuse("group", &format!("cluster:K with K at most the {} states of the sample", self.sample_states));
        }
        Ok(self)
    }

    /// Where the model runs; the first of several devices.
    pub fn device(&self) -> Device {
        self.devices[0]
    }

    /// Alters the model as asked for.
    pub fn alter(&self, model: &mut Model) -> Result<()> {
        model.ablate(&self.ablations).map_err(|problem| Error::usage(line![setting("ablate"), format!(" {problem}")]))
    }

    /// The corpus as a model reads it.
    pub fn corpus(&self, spec: &ModelSpec) -> Result<layerscope_corpus::Settings> {
        let count_whole = self.tokens != TokenChoice::None;
        let free = || Some(system::available()? + system::resident()?);
        let memory = self.max_memory.or_else(free).unwrap_or(u64::MAX);
        Ok(layerscope_corpus::Settings { threads: self.threads, count_whole, memory, ..self.text.bind(spec)? })
    }

    /// What must be equal in all shards and for every continuation, as far as it does not depend on the model and its tokenizer.
    ///
    /// Two processors give nearly the same bits, a processor and a GPU do not.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut fingerprint = self.choices.numbers();
        if let Device::Cuda(_) = self.device() {
            fingerprint.insert("device".to_owned(), "gpu".into());
        }
        fingerprint
    }
}

impl TextPlan {
    fn new(settings: &Settings, choices: &Choices, grouping: Grouping) -> Result<TextPlan> {
        let clean = |text: &str| text.parse().map_err(Error::from);
        Ok(TextPlan {
            inputs: settings.values("corpus").to_vec(),
            column: choices.text("text-column").map(str::to_owned),
            on_error: choices.word("on-error", [OnError::Fail, OnError::Skip])?,
            filters: Filters {
                sample: choices.required("sample")?,
                seed: choices.required("seed")?,
                clean: choices.text("clean").map(clean).transpose()?,
                chunk_chars: choices.parsed("chunk-chars")?,
                max_words: choices.parsed("max-words")?,
                lowercase: choices.truth("lowercase")?,
                dedup: choices.truth("dedup")?,
                limit: choices.parsed("limit")?,
            },
            shard: parse::shard(choices.text("shard"), &|name| std::env::var(name).ok())?,
            split: choices.text("split").map(parse::split).transpose()?,
            part: None,
            grouping,
            specials: choices.word("specials", [Specials::Exclude, Specials::Include, Specials::Count])?,
            skip_first: choices.required("skip-first")?,
            wrap: choices.word("wrap", [Wrap::Model, Wrap::BosEos, Wrap::None])?,
            window: choices.parsed("window")?,
            stride: choices.parsed("stride")?,
        })
    }

    /// What is read, whatever the model: enough to tell one text from another.
    pub fn reading(&self) -> layerscope_corpus::Settings {
        layerscope_corpus::Settings {
            text_column: self.column.clone(),
            on_error: self.on_error,
            filters: self.filters.clone(),
            shard: self.shard,
            split: self.split.clone(),
            part: self.part.as_ref().map(|part| part.value.clone()),
            grouping: self.grouping.clone(),
            ..layerscope_corpus::Settings::new(self.inputs.iter().cloned(), OPEN_WINDOW)
        }
    }

    /// How a model reads it: how long a window may be, and on which side there is context.
    fn bind(&self, spec: &ModelSpec) -> Result<layerscope_corpus::Settings> {
        let limit = spec.max_positions;
        let window = self.window.or(limit).unwrap_or(OPEN_WINDOW);
        if let Some(limit) = limit.filter(|limit| window > *limit) {
            return Err(Error::usage(line![setting("window").to(window), format!(" exceeds the {limit} positions of the model")]));
        }
        Ok(layerscope_corpus::Settings {
            window,
            specials: self.specials,
            skip_first: self.skip_first,
            stride: self.stride,
            context: if spec.blocks[0].attention.causal { Context::Left } else { Context::Both },
            vocabulary: Some(spec.vocabulary),
            pilot: PILOT_DOCUMENTS,
            ..self.reading()
        })
    }
}

/// Text that the checkpoints of one training share.
#[derive(Clone, Debug)]
pub struct SharedText {
    /// The spool.
    pub spool: PathBuf,
    /// The folder of the tokenizer; None: every checkpoint has its own.
    pub tokenizer: Option<PathBuf>,
}

/// A plan and the model it is for: everything is known that the text and the model decide.
#[derive(Debug)]
pub struct BoundPlan {
    /// The plan.
    pub plan: Plan,
    /// The model, altered as asked for; its weights are on disk.
    pub model: Model,
    /// The points to measure, in the model's order.
    pub points: Vec<Point>,
    /// What to read and how to cut it.
    pub corpus: layerscope_corpus::Settings,
    /// Text that several runs share; None: this run reads its own.
    pub shared: Option<SharedText>,
    /// The hash of configuration and weights, which takes its time.
    pub model_hash: ModelHash,
    /// SHA-256 of the tokenizer's files.
    pub tokenizer_hash: String,
}

impl BoundPlan {
    /// Opens the model in a folder, or a GGUF file, and fits the plan to it.
    pub fn new(plan: Plan, folder: &Path, shared: Option<SharedText>) -> Result<BoundPlan> {
        let mut model = Model::open(folder)?;
        plan.alter(&mut model)?;
        let model_hash = ModelHash::begin(&model, plan.threads);
        let corpus = plan.corpus(&model.spec)?;
        let tokenizer_hash = tokenizer_fingerprint(&model.folder)?;
        let points = points(&plan, &model)?;
        Ok(BoundPlan { points, corpus, model_hash, tokenizer_hash, plan, model, shared })
    }

    /// The folder or GGUF file of the tokenizer: the model's own, unless several models share one.
    pub fn tokenizer_folder(&self) -> &Path {
        self.shared.as_ref().and_then(|shared| shared.tokenizer.as_deref()).unwrap_or(&self.model.folder)
    }

    /// What must be equal in all shards and for every continuation, the text excepted. Waits until the weights are hashed.
    pub fn fingerprint(&self) -> Result<Fingerprint> {
        let mut fingerprint = self.without_weights();
        fingerprint.insert("model".to_owned(), self.model_hash.wait()?.into());
        Ok(fingerprint)
    }

    /// What decides the tokens. The weights do not: the text is read while they are hashed.
    pub fn text_fingerprint(&self) -> Fingerprint {
        let mut fingerprint: Fingerprint = self.without_weights().into_iter().chain(self.order()).collect();
        fingerprint.insert("vocabulary".to_owned(), self.model.spec.vocabulary.into());
        fingerprint.insert("context".to_owned(), format!("{:?}", self.corpus.context).into());
        fingerprint
    }

    fn without_weights(&self) -> Fingerprint {
        let mut fingerprint = self.plan.fingerprint();
        fingerprint.insert("--window".to_owned(), self.corpus.window.into());
        fingerprint.insert("tokenizer".to_owned(), self.tokenizer_hash.clone().into());
        fingerprint
    }

    /// What must also be equal to continue with the very same batches.
    pub fn order(&self) -> Fingerprint {
        let Shard { index, count } = self.corpus.shard;
        let order = [("--shard", format!("{index}/{count}").into()), ("--batch-tokens", self.plan.batch_tokens.into())];
        order.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn points(plan: &Plan, model: &Model) -> Result<Vec<Point>> {
    let blocks = model.spec.blocks.len();
    let all = model.spec.points();
    let Some(layers) = &plan.layers else { return Ok(all) };
    if let Some(layer) = layers.iter().find(|layer| **layer > blocks) {
        let line = line![setting("layers").to(layer), format!(" does not exist; the model has layers 0 to {blocks}")];
        return Err(Error::usage(line));
    }
    Ok(all.into_iter().filter(|point| layers.contains(&point.layer(blocks))).collect())
}
