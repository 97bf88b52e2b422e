//! What a run knows beside its numbers: stored with the state, so that tables can be made from it alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use layerscope_corpus::{Group, Grouping, Spool};
use layerscope_model::{Model, Point};
use layerscope_stats::measure::predicted_q;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::inspect::Inspection;
use crate::plan::Plan;
use crate::settings::Settings;
use crate::weights::{NormFact, norm_facts};

/// Why records are skipped in every shard alike.
pub(crate) const BAD: &str = "not readable";

/// Everything but the sketches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// The command that made it.
    pub command: Vec<String>,
    /// The model.
    pub model: ModelFacts,
    /// The measured points, in order.
    pub points: Vec<PointFacts>,
    /// The text.
    pub corpus: CorpusFacts,
    /// What makes a group.
    pub grouping: String,
    /// n_t of the selected groups.
    pub frequency: Option<RangeInclusive<u64>>,
    /// Settings, by name, with who chose them.
    pub settings: Map<String, Value>,
    /// The groups, in the order of the sketches.
    pub groups: Vec<GroupFacts>,
    /// Raw names of the groups whose states are kept.
    pub chosen: Vec<String>,
    /// States kept of each of them.
    pub token_states: usize,
    /// Size of the hash sample.
    pub sample_states: usize,
    /// Families of measures.
    pub families: Vec<String>,
    /// Numbers of clusters.
    pub clusters: Vec<usize>,
    /// Statistics of the model's norms.
    pub norms: Vec<NormFact>,
    /// This worker's part, index and count.
    pub shard: (u32, u32),
    /// The shards that are in it, where it is some of them but not all.
    #[serde(default)]
    pub shards: Vec<u32>,
    /// Time it took to make the state, over all interruptions and shards.
    pub seconds: f64,
}

/// A model in a few words: table 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// Its short name.
    pub name: String,
    /// Its revision, for hub models.
    pub revision: Option<String>,
    /// SHA-256 of configuration and weights.
    pub fingerprint: String,
    /// The `model_type`.
    pub family: String,
    /// Number of blocks.
    pub layers: usize,
    /// Width of the states.
    pub width: usize,
    /// Attention heads.
    pub heads: usize,
    /// Numbers in its tensors.
    pub parameters: usize,
    /// Rows of the token embedding.
    pub vocabulary: usize,
    /// Kind and placement of the norms.
    pub norms: String,
    /// Whether tokens see only what is before them.
    pub causal: bool,
    /// Whether there is a norm after the last block.
    pub final_norm: bool,
    /// A drawing of its block.
    pub diagram: String,
    /// How the model was altered, if it was.
    pub altered: Option<String>,
}

/// A point of the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointFacts {
    /// The index of the reference library's `hidden_states`.
    pub layer: usize,
    /// `embedding`, `block` or `final_norm`.
    pub point: String,
    /// What theory says of Q, where the states come straight out of a norm.
    pub predicted_q: Option<f64>,
    /// The norm beyond which states are massive.
    pub massive: Option<f64>,
}

impl PointFacts {
    /// The name under which its tensors are stored.
    pub fn name(&self) -> String {
        stored_name(self.layer as i64, &self.point)
    }
}

/// The name of a point's tensors.
pub(crate) fn stored_name(layer: i64, point: &str) -> String {
    format!("layer{layer}.{point}")
}

/// The text, in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorpusFacts {
    /// A hash over all documents that the filters kept, the same in every shard.
    pub fingerprint: String,
    /// What the user asked to read.
    pub asked_for: Vec<String>,
    /// The files that were found.
    pub inputs: Vec<String>,
    /// Records read.
    pub records: u64,
    /// Documents measured.
    pub documents: u64,
    /// Sequences the model read.
    pub sequences: u64,
    /// Tokens the model read.
    pub tokens: u64,
    /// States counted.
    pub states: u64,
    /// Documents left out because they could not be used, by reason: `not readable` of the whole corpus, the others of this shard.
    pub skipped: BTreeMap<String, u64>,
    /// Words a document, and how many documents have so many.
    pub sentence_words: Vec<(u64, u64)>,
}

/// A group of the dictionary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupFacts {
    /// The token id or position; nothing where groups have only names.
    pub key: Option<u64>,
    /// Text that people can read.
    pub name: String,
    /// As the vocabulary writes it.
    pub raw: String,
    /// Tokens of a word.
    pub subwords: u32,
}

impl Facts {
    /// Of a run that is about to begin.
    pub fn new(
        plan: &Plan,
        model: &Model,
        fingerprint: String,
        points: &[Point],
        massive: &[Option<f64>],
        spool: &Spool,
        chosen: Vec<String>,
    ) -> Result<Facts> {
        let blocks = model.spec.blocks.len();
        let point = |(&at, &massive): (&Point, &Option<f64>)| {
            let norm = model.output_norm(at)?;
            let predicted = norm.map(|norm| match &norm.gamma {
                Some(gamma) => predicted_q(gamma, norm.beta.as_deref()),
                None => predicted_q(&vec![1.0; model.spec.width], norm.beta.as_deref()),
            });
            Ok(PointFacts { layer: at.layer(blocks), point: point_kind(at).to_owned(), predicted_q: predicted, massive })
        };
        Ok(Facts {
            command: crate::command::words(),
            model: ModelFacts::new(&plan.model, plan.revision.clone(), fingerprint, model),
            points: points.iter().zip(massive).map(point).collect::<Result<_>>()?,
            corpus: CorpusFacts::of(&plan.corpus.inputs, spool),
            grouping: plan.settings.text("group").unwrap_or_default().to_owned(),
            frequency: plan.frequency.clone(),
            settings: settings_json(&plan.settings),
            groups: group_facts(spool.groups(), &plan.corpus.grouping),
            chosen,
            token_states: plan.token_states,
            sample_states: plan.sample_states,
            families: plan.families.iter().map(|family| family.name().to_owned()).collect(),
            clusters: plan.clusters.clone(),
            norms: norm_facts(model)?,
            shard: (plan.corpus.shard.index, plan.corpus.shard.count),
            shards: Vec::new(),
            seconds: 0.0,
        })
    }

    /// The shards that are in it.
    pub fn parts(&self) -> Vec<u32> {
        if self.shards.is_empty() { vec![self.shard.0] } else { self.shards.clone() }
    }

    /// The groups in the order of the tables, each with its id there: by key, or by raw name where groups have only names.
    pub fn ordered_groups(&self) -> Vec<(u32, u64)> {
        let mut order: Vec<u32> = (0..self.groups.len() as u32).collect();
        let group = |number: u32| &self.groups[number as usize];
        order.sort_by(|&a, &b| (group(a).key, &group(a).raw).cmp(&(group(b).key, &group(b).raw)));
        order.iter().enumerate().map(|(rank, &number)| (number, group(number).key.unwrap_or(rank as u64))).collect()
    }
}

/// `embedding`, `block` or `final_norm`.
pub fn point_kind(at: Point) -> &'static str {
    match at {
        Point::Embedding => "embedding",
        Point::Block(_) => "block",
        Point::FinalNorm => "final_norm",
    }
}

impl ModelFacts {
    /// Of a checkpoint.
    pub fn new(name: &str, revision: Option<String>, fingerprint: String, model: &Model) -> ModelFacts {
        let inspection = Inspection::new(model);
        ModelFacts {
            name: match &model.altered {
                Some(altered) => format!("{} [{altered}]", model_name(name)),
                None => model_name(name),
            },
            revision,
            fingerprint,
            family: inspection.family.to_owned(),
            layers: inspection.layers,
            width: inspection.width,
            heads: inspection.heads,
            parameters: inspection.parameters,
            vocabulary: inspection.vocabulary,
            norms: inspection.norms,
            causal: model.spec.blocks[0].attention.causal,
            final_norm: model.spec.final_norm.is_some(),
            diagram: inspection.blocks.into_iter().next().unwrap_or_default(),
            altered: model.altered.clone(),
        }
    }
}

/// Names of folders that say nothing of what is in them.
const GENERIC: [&str; 8] = ["model", "models", "checkpoint", "checkpoints", "snapshots", "final", "best", "output"];

/// The short name of a model: a hub id as it is; of a folder the last part of its path that says something.
///
/// A snapshot in the hub's cache has its hub id. Where no part of the path says anything, what `config.json` remembers as the
/// model's name does, unless that is a path: it comes last because it often names what a model was fine-tuned from.
pub fn model_name(asked_for: &str) -> String {
    let Some(path) = Path::new(asked_for).canonicalize().ok().filter(|path| path.is_dir()) else { return asked_for.to_owned() };
    // As it was written: a link may have the better name. Only `.` and `..` have none.
    let written = Path::new(asked_for);
    let path = if written.file_name().is_some() { std::path::absolute(written).unwrap_or(path) } else { path };
    let parts: Vec<String> = path.iter().rev().map(|part| part.to_string_lossy().into_owned()).filter(|part| part != "/").collect();
    if let [_, snapshots, cached, ..] = parts.as_slice()
        && let Some(id) = cached.strip_prefix("models--").filter(|_| snapshots == "snapshots")
    {
        return id.replacen("--", "/", 1);
    }
    let telling = |part: &&String| !GENERIC.contains(&part.to_lowercase().as_str());
    let remembered = || {
        let config: Value = serde_json::from_slice(&std::fs::read(path.join("config.json")).ok()?).ok()?;
        let name = config["_name_or_path"].as_str()?.to_owned();
        let is_path = name.starts_with(['/', '.', '~']) || name.contains('\\') || name.matches('/').count() > 1;
        (!name.is_empty() && !is_path && !GENERIC.contains(&name.to_lowercase().as_str())).then_some(name)
    };
    let named = parts.iter().take(NEARBY).find(telling).cloned();
    named.or_else(remembered).or_else(|| parts.first().cloned()).unwrap_or_else(|| asked_for.to_owned())
}

/// How many parts of a path are near enough to name a model.
const NEARBY: usize = 3;

impl CorpusFacts {
    fn of(asked_for: &[String], spool: &Spool) -> CorpusFacts {
        let counters = spool.counters();
        CorpusFacts {
            fingerprint: spool.fingerprint(),
            asked_for: asked_for.to_vec(),
            inputs: spool.inputs().to_vec(),
            records: counters.records,
            documents: counters.documents,
            sequences: counters.sequences,
            tokens: counters.tokens,
            states: counters.counted,
            skipped: [(BAD, counters.bad), ("refused by the tokenizer", counters.untokenized), ("without words", counters.without_tokens)]
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(reason, count)| (reason.to_owned(), count))
                .collect(),
            sentence_words: spool.sentence_lengths().iter().map(|(&words, &count)| (words, count)).collect(),
        }
    }
}

fn group_facts(groups: &[Group], grouping: &Grouping) -> Vec<GroupFacts> {
    let keyed = matches!(grouping, Grouping::Token | Grouping::Surface | Grouping::Position);
    let facts = |group: &Group| GroupFacts {
        key: keyed.then_some(group.key),
        name: group.name.clone(),
        raw: group.raw.clone(),
        subwords: group.subwords,
    };
    groups.iter().map(facts).collect()
}

/// Settings with who chose them.
pub fn settings_json(settings: &Settings) -> Map<String, Value> {
    settings.iter().map(|(name, setting)| (name.to_owned(), json!({ "value": setting.value, "from": setting.from.to_string() }))).collect()
}

/// SHA-256 over config.json and every file of weights, in the order of their names.
pub fn model_fingerprint(model: &Model) -> Result<String> {
    let mut files = vec![model.folder.join("config.json")];
    files.extend(model.checkpoint.files().map(Path::to_path_buf));
    sha256(&files)
}

/// SHA-256 over the files that decide how text is cut into tokens.
pub fn tokenizer_fingerprint(folder: &Path) -> Result<String> {
    let names = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"];
    sha256(&names.map(|name| folder.join(name)).into_iter().filter(|path| path.is_file()).collect::<Vec<_>>())
}

fn sha256(files: &[PathBuf]) -> Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    for path in files {
        let mut file = File::open(path).map_err(|source| Error::io(path, source))?;
        loop {
            match file.read(&mut buffer).map_err(|source| Error::io(path, source))? {
                0 => break,
                count => hasher.update(&buffer[..count]),
            }
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
