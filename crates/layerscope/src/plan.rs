//! Settings, validated once: from here on everything has its type and makes sense.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use layerscope_corpus::{Context, Filters, Grouping, OnError, Shard, Specials, Wrap};
use layerscope_model::spec::ModelSpec;
use layerscope_model::{Ablation, Model, Point};
use layerscope_stats::measure::{Family, needs};
use layerscope_stats::sketch::SketchSet;

use crate::error::{Error, Result};
use crate::settings::{Options, Settings, wrong};

/// Documents of the whole corpus from which every shard takes the massive threshold.
const PILOT_DOCUMENTS: u64 = 256;
/// The window of models that have no maximum.
const OPEN_WINDOW: usize = 2048;

const TRUTH: [(&str, bool); 2] = [("true", true), ("false", false)];

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

/// What the checkpoints of one training have in common.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The text as tokens.
    pub spool: PathBuf,
    /// The folder of the tokenizer; None: every checkpoint has its own.
    pub tokenizer: Option<PathBuf>,
}

/// A measurement that can be carried out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Who chose what.
    pub settings: Settings,
    /// The model as the user named it.
    pub model: String,
    /// Its revision.
    pub revision: Option<String>,
    /// The folder of the run.
    pub out: PathBuf,
    /// What to read and how to cut it; the model completes it.
    pub corpus: layerscope_corpus::Settings,
    /// What stands around each text.
    pub wrap: Wrap,
    /// A hash of the tokenizer's files; the model completes it.
    pub tokenizer: String,
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
    /// Rows of a batch.
    pub batch_tokens: usize,
    /// Workers.
    pub threads: usize,
    /// Limit of memory in bytes.
    pub max_memory: Option<u64>,
    /// Time between checkpoints.
    pub checkpoint: Duration,
    /// How the model's norms are altered.
    pub ablations: Vec<Ablation>,
    /// Text that several runs share; None: this run reads its own.
    pub shared: Option<Shared>,
    /// Start again.
    pub overwrite: bool,
    /// Keep what is only needed to resume.
    pub keep_work: bool,
}

impl Plan {
    /// Checks what was asked for.
    pub fn new(options: &Options) -> Result<Plan> {
        let settings = Settings::resolve(options)?;
        settings.word("device", &[("auto", ()), ("cpu", ())])?;
        settings.word("dtype", &[("f32", ())])?;
        let (grouping, clusters) = parse_group(settings.text("group").unwrap_or_default())?;
        let families = parse_families(settings.text("measures").unwrap_or_default())?;
        let mut sketches = needs(&families);
        sketches.sample |= !clusters.is_empty();
        sketches.blocks = settings.word("confidence", &TRUTH)?;
        let has_frequency = matches!(grouping, Grouping::Token | Grouping::Surface | Grouping::Word);
        let frequency = parse_frequency(settings.text("frequency").unwrap_or_default())?;
        let threads = settings.parsed("threads", "a number of threads, at least 1")?;
        let corpus = layerscope_corpus::Settings {
            text_column: settings.text("text-column").map(str::to_owned),
            on_error: settings.word("on-error", &[("fail", OnError::Fail), ("skip", OnError::Skip)])?,
            filters: filters(&settings)?,
            shard: parse_shard(settings.text("shard"), &|name| std::env::var(name).ok())?,
            grouping,
            specials: settings.word("specials", &[("exclude", Specials::Exclude), ("include", Specials::Include)])?,
            stride: settings.parsed("stride", "a number of tokens")?,
            pilot: PILOT_DOCUMENTS,
            ..layerscope_corpus::Settings::new(options.corpus.iter().cloned(), 0)
        };
        let plan = Plan {
            model: options.model.clone(),
            revision: options.revision.clone(),
            out: options.out.clone(),
            corpus,
            tokenizer: String::new(),
            wrap: settings.word("wrap", &[("model", Wrap::Model), ("bos-eos", Wrap::BosEos), ("none", Wrap::None)])?,
            layers: parse_layers(settings.text("layers").unwrap_or_default())?,
            frequency: has_frequency.then_some(frequency),
            tokens: match settings.text("tokens").unwrap_or_default() {
                "auto" if has_frequency => TokenChoice::Auto,
                "auto" | "none" => TokenChoice::None,
                list => TokenChoice::List(list.split(',').map(str::to_owned).collect()),
            },
            token_states: settings.required("token-states", "a number of states")?,
            sample_states: if sketches.sample { settings.required("sample-states", "a number of states")? } else { 0 },
            families,
            clusters,
            sketches,
            massive: settings.required("massive", "a multiple such as 10")?,
            batch_tokens: settings.required("batch-tokens", "a number of tokens")?,
            threads: threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |count| count.get())),
            max_memory: settings.text("max-memory").map(parse_bytes).transpose()?,
            checkpoint: Duration::try_from_secs_f64(settings.required("checkpoint-seconds", "seconds, such as 60 or 0.5")?)
                .map_err(|_| wrong("checkpoint-seconds", settings.text("checkpoint-seconds").unwrap_or_default(), "seconds"))?,
            ablations: parse_ablations(settings.text("ablate"))?,
            shared: None,
            overwrite: options.overwrite,
            keep_work: options.keep_work,
            settings,
        };
        plan.check()
    }

    fn check(self) -> Result<Plan> {
        let refuse = |name: &str, what: &str| Err(wrong(name, self.settings.text(name).unwrap_or_default(), what));
        if self.massive.is_nan() || self.massive <= 1.0 {
            return refuse("massive", "a multiple above 1");
        }
        if self.threads == 0 {
            return refuse("threads", "at least 1");
        }
        if self.batch_tokens == 0 {
            return refuse("batch-tokens", "at least 1");
        }
        Ok(self)
    }

    /// The folder of the tokenizer: the model's own, unless several share one.
    pub fn tokenizer_folder<'a>(&'a self, model: &'a Model) -> &'a Path {
        self.shared.as_ref().and_then(|shared| shared.tokenizer.as_deref()).unwrap_or(&model.folder)
    }

    /// Alters the model as asked for.
    pub fn alter(&self, model: &mut Model) -> Result<()> {
        model.ablate(&self.ablations).map_err(|problem| Error::Usage(format!("--ablate {problem}")))
    }

    /// What the model makes of the corpus: how long a window may be, and on which side there is context.
    pub fn complete(&mut self, spec: &ModelSpec) -> Result<()> {
        let limit = spec.max_positions;
        let asked: Option<usize> = self.settings.parsed("window", "a number of tokens")?;
        self.corpus.window = asked.or(limit).unwrap_or(OPEN_WINDOW);
        if let Some(limit) = limit.filter(|limit| self.corpus.window > *limit) {
            return Err(Error::Usage(format!("--window {} exceeds the {limit} positions of the model", self.corpus.window)));
        }
        self.corpus.context = if spec.blocks[0].attention.causal { Context::Left } else { Context::Both };
        self.corpus.vocabulary = Some(spec.vocabulary);
        self.corpus.threads = self.threads;
        Ok(())
    }

    /// The points to measure, in the model's order.
    pub fn points(&self, model: &Model) -> Result<Vec<Point>> {
        let blocks = model.spec.blocks.len();
        let all = Point::all(blocks, model.spec.final_norm.is_some());
        let Some(layers) = &self.layers else { return Ok(all) };
        if let Some(layer) = layers.iter().find(|layer| **layer > blocks) {
            return Err(Error::Usage(format!("--layers {layer} does not exist; the model has layers 0 to {blocks}")));
        }
        Ok(all.into_iter().filter(|point| layers.contains(&point.layer(blocks))).collect())
    }
}

fn filters(settings: &Settings) -> Result<Filters> {
    Ok(Filters {
        sample: settings.required("sample", "a fraction such as 0.01")?,
        seed: settings.required("seed", "a whole number")?,
        clean: settings.text("clean").map(|text| text.parse().map_err(|_| wrong("clean", text, "wiki"))).transpose()?,
        chunk_chars: settings.parsed("chunk-chars", "a number of characters")?,
        max_words: settings.parsed("max-words", "a number of words")?,
        lowercase: settings.word("lowercase", &TRUTH)?,
        dedup: settings.word("dedup", &TRUTH)?,
        limit: settings.parsed("limit", "a number of documents")?,
    })
}

/// What makes a group; clusters are of the sample, beside the groups of tokens.
fn parse_group(text: &str) -> Result<(Grouping, Vec<usize>)> {
    let Some(list) = text.strip_prefix("cluster:") else { return Ok((text.parse()?, Vec::new())) };
    let clusters: Option<Vec<usize>> = list.split(',').map(|k| k.trim().parse().ok().filter(|k| *k >= 2)).collect();
    clusters.map(|clusters| (Grouping::Token, clusters)).ok_or_else(|| wrong("group", text, "cluster:K[,K...] with K at least 2"))
}

/// Families of measures; norms and cosines come with every run.
fn parse_families(text: &str) -> Result<Vec<Family>> {
    if text == "all" {
        return Ok(Family::SELECTABLE.to_vec());
    }
    let known = Family::SELECTABLE.map(Family::name).join(", ");
    let family = |name: &str| Family::named(name.trim()).ok_or_else(|| wrong("measures", name, &format!("all, or some of {known}")));
    text.split(',').map(family).collect()
}

/// `MIN:MAX` of n_t.
pub fn parse_frequency(text: &str) -> Result<RangeInclusive<u64>> {
    let bounds = text.split_once(':').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    match bounds {
        Some((low, high)) if low <= high => Ok(low..=high),
        _ => Err(wrong("frequency", text, "MIN:MAX such as 10:100000")),
    }
}

fn parse_layers(text: &str) -> Result<Option<Vec<usize>>> {
    if text == "all" {
        return Ok(None);
    }
    let layers: Option<Vec<usize>> = text.split(',').map(|layer| layer.trim().parse().ok()).collect();
    layers.map(Some).ok_or_else(|| wrong("layers", text, "all, or a list such as 0,6,12"))
}

/// Alterations, in order.
fn parse_ablations(text: Option<&str>) -> Result<Vec<Ablation>> {
    let parts = text.into_iter().flat_map(|text| text.split(';'));
    parts.map(|part| part.parse().map_err(|problem| Error::Usage(format!("--ablate {problem}")))).collect()
}

/// Bytes, with K, M, G or T (and iB, B) for powers of 1024.
pub(crate) fn parse_bytes(text: &str) -> Result<u64> {
    let unit = text.trim_end_matches('B').trim_end_matches('i');
    let (number, scale) = match unit.char_indices().next_back() {
        Some((at, letter)) if letter.is_ascii_alphabetic() => {
            (&unit[..at], "KMGT".find(letter.to_ascii_uppercase()).map(|power| 1024f64.powi(power as i32 + 1)))
        }
        _ => (unit, Some(1.0)),
    };
    let number: Option<f64> = number.trim().parse().ok();
    match number.zip(scale).map(|(number, scale)| number * scale) {
        Some(bytes) if (1.0..1e18).contains(&bytes) => Ok(bytes as u64),
        _ => Err(wrong("max-memory", text, "bytes, such as 8G or 500M")),
    }
}

/// `I/N`, or the index and count that a scheduler gives.
fn parse_shard(text: Option<&str>, variable: &dyn Fn(&str) -> Option<String>) -> Result<Shard> {
    let Some(text) = text else { return Ok(Shard::default()) };
    let example = "I/N with I from 0 to N-1, or auto";
    let number = |text: &str| text.parse::<u32>().ok();
    let (first, second) = text.split_once('/').map_or((text, None), |(first, second)| (first, Some(second)));
    let count = second.map(|count| number(count).ok_or_else(|| wrong("shard", text, example))).transpose()?;
    if first != "auto" {
        let index = number(first).ok_or_else(|| wrong("shard", text, example))?;
        let shard = Shard { index, count: count.ok_or_else(|| wrong("shard", text, example))? };
        shard.check()?;
        return Ok(shard);
    }
    let of = |name: &str| variable(name).and_then(|value| number(&value));
    let scheduled = match (of("SLURM_ARRAY_TASK_ID"), of("JOB_COMPLETION_INDEX")) {
        (Some(task), _) => {
            let (start, step) = (of("SLURM_ARRAY_TASK_MIN").unwrap_or(0), of("SLURM_ARRAY_TASK_STEP").unwrap_or(1).max(1));
            task.checked_sub(start).map(|place| (place / step, count.or_else(|| of("SLURM_ARRAY_TASK_COUNT"))))
        }
        (None, Some(index)) => Some((index, count)),
        (None, None) => None,
    };
    let Some((index, Some(count))) = scheduled else {
        let problem =
            "--shard auto finds no SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT, nor JOB_COMPLETION_INDEX with auto/N; give I/N";
        return Err(Error::Usage(problem.to_owned()));
    };
    let shard = Shard { index, count };
    shard.check()?;
    Ok(shard)
}

/// The variables of a scheduler that would make shards, if anybody asked for them.
pub(crate) fn ignored_scheduler() -> Option<&'static str> {
    ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"].into_iter().find(|name| std::env::var_os(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_with_units() {
        let bytes = ["1024", "1K", "1.5M", "2GiB", "3 GB", "1t"].map(|text| parse_bytes(text).expect("bytes"));
        assert_eq!(bytes, [1024, 1024, 3 << 19, 2 << 30, 3 << 30, 1 << 40]);
        for text in ["", "G", "-1", "1X", "0", "nan"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shards_come_from_flags_and_schedulers() {
        let shard = |text: &str, variables: &[(&str, &str)]| {
            let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            parse_shard(Some(text), &variable).map(|shard| (shard.index, shard.count)).map_err(|error| error.to_string())
        };
        assert_eq!(shard("2/5", &[]), Ok((2, 5)));
        assert!(shard("5/5", &[]).is_err() && shard("2", &[]).is_err() && shard("auto", &[]).is_err());
        let slurm =
            [("SLURM_ARRAY_TASK_ID", "7"), ("SLURM_ARRAY_TASK_MIN", "1"), ("SLURM_ARRAY_TASK_STEP", "2"), ("SLURM_ARRAY_TASK_COUNT", "8")];
        assert_eq!(shard("auto", &slurm), Ok((3, 8)));
        assert_eq!(shard("auto/4", &[("JOB_COMPLETION_INDEX", "3")]), Ok((3, 4)));
        assert!(shard("auto", &[("JOB_COMPLETION_INDEX", "3")]).is_err());
    }

    #[test]
    fn frequencies_and_layers() {
        assert_eq!(parse_frequency("10:20").expect("a range"), 10..=20);
        assert!(parse_frequency("20:10").is_err() && parse_frequency("10").is_err());
        assert_eq!(parse_layers("0, 6,12").expect("layers"), Some(vec![0, 6, 12]));
        assert_eq!(parse_layers("all").expect("layers"), None);
        assert!(parse_layers("0-6").is_err());
    }
}
