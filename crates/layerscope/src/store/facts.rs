//! What a run knows beside its numbers: stored with the state, so that tables can be made from it alone.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use layerscope_corpus::{Group, Grouping, Spool};
use layerscope_model::{Model, Point};
use layerscope_report::manifest::{Part, Timings};
use layerscope_stats::measure::predicted_q;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::point_name::PointName;
use super::stamp::InputStamp;
use crate::checkpoint::inspect::Inspection;
use crate::checkpoint::name::model_name;
use crate::checkpoint::weights::{NormFact, norm_facts};
use crate::error::Result;
use crate::measure::plan::BoundPlan;
use crate::settings::Choices;

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
    /// The value that makes this a part of a split run; the model's name ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// The parts that a split run has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub split: Vec<Part>,
    /// What computed the numbers; nothing in runs of earlier versions and without a model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub isa: String,
    /// `f16` where kept states were rounded, here or in a shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_states: Option<String>,
    /// Time it took to make the state, over all interruptions and shards.
    pub seconds: f64,
    /// Where that time went.
    #[serde(default)]
    pub timings: Timings,
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
    /// Width of the states, but for points that have their own.
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

/// A measured point of the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointFacts {
    /// Which one.
    #[serde(flatten)]
    pub at: PointName,
    /// What theory says of Q, where the states come straight out of a norm.
    pub predicted_q: Option<f64>,
    /// The norm beyond which states are massive.
    pub massive: Option<f64>,
    /// Width of its states, where it is not the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
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
    /// How those that are files looked when they were read; one that changed since is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stamps: Vec<InputStamp>,
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
    /// Whether it is a special token, which no frequency range selects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub special: bool,
}

impl Facts {
    /// Of a run whose states were measured in this many seconds.
    pub fn new(
        bound: &BoundPlan,
        isa: String,
        massive: &[Option<f64>],
        spool: &Spool,
        chosen: Vec<String>,
        spent: (f64, Timings),
    ) -> Result<Facts> {
        let BoundPlan { plan, model, corpus, .. } = bound;
        let blocks = model.spec.blocks.len();
        let point = |(&at, &massive): (&Point, &Option<f64>)| {
            let norm = model.output_norm(at)?;
            let predicted = norm.map(|norm| match &norm.gamma {
                Some(gamma) => predicted_q(gamma, norm.beta.as_deref()),
                None => predicted_q(&vec![1.0; model.spec.width], norm.beta.as_deref()),
            });
            let width = Some(model.spec.width_at(at)).filter(|width| *width != model.spec.width);
            Ok(PointFacts { at: PointName::of(at, blocks), predicted_q: predicted, massive, width })
        };
        let part = plan.text.part.as_ref().map(|part| part.named.clone());
        let mut model_facts = ModelFacts::new(&plan.model, plan.revision.clone(), bound.model_hash.wait()?, model);
        part.iter().for_each(|part| model_facts.name.push_str(&ending(part)));
        Ok(Facts {
            command: crate::process::command::words(),
            model: model_facts,
            points: bound.points.iter().zip(massive).map(point).collect::<Result<_>>()?,
            corpus: CorpusFacts::of(&corpus.inputs, spool),
            grouping: plan.choices.text("group").unwrap_or_default().to_owned(),
            frequency: plan.frequency.clone(),
            settings: settings_json(&plan.choices),
            groups: group_facts(spool.groups(), &corpus.grouping),
            chosen,
            token_states: plan.token_states,
            sample_states: plan.sample_states,
            families: plan.families.iter().map(|family| family.name().to_owned()).collect(),
            clusters: plan.clusters.clone(),
            norms: norm_facts(model)?,
            shard: (corpus.shard.index, corpus.shard.count),
            shards: Vec::new(),
            part,
            split: Vec::new(),
            isa,
            kept_states: None,
            seconds: spent.0,
            timings: spent.1,
        })
    }

    /// Turns the facts of the first part of a split run into those of the whole.
    pub fn join_parts(&mut self, parts: Vec<Part>) {
        if let Some(part) = self.part.take() {
            let name = self.model.name.strip_suffix(&ending(&part)).map(str::to_owned);
            self.model.name = name.unwrap_or_else(|| self.model.name.clone());
        }
        self.split = parts;
    }

    /// Width of the states of a point.
    pub fn width_of(&self, point: &PointFacts) -> usize {
        point.width.unwrap_or(self.model.width)
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

/// What a part adds to the name of the model.
fn ending(part: &Part) -> String {
    format!(" ({})", part.value)
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

impl CorpusFacts {
    fn of(asked_for: &[String], spool: &Spool) -> CorpusFacts {
        let counters = spool.counters();
        CorpusFacts {
            fingerprint: spool.fingerprint(),
            asked_for: asked_for.to_vec(),
            inputs: spool.inputs().to_vec(),
            stamps: spool.inputs().iter().filter_map(|input| InputStamp::of(input)).filter(|stamp| stamp.is_before(spool.path())).collect(),
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
        special: group.special,
    };
    groups.iter().map(facts).collect()
}

/// Settings with who chose them.
fn settings_json(choices: &Choices) -> Map<String, Value> {
    choices.iter().map(|(name, choice)| (name.to_owned(), json!({ "value": choice.value, "from": choice.from.to_string() }))).collect()
}
