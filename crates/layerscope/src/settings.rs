//! What a user may ask of a measurement, shared by the command line and Python: flag over preset over default.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// The flags of `measure`, as they were given. Their texts are also the program's help, where brackets hold defaults.
#[allow(rustdoc::broken_intra_doc_links)]
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// A folder with config.json, weights and tokenizer.json, or a hub id such as org/name
    #[arg(long, value_name = "M")]
    pub model: String,
    /// Branch, tag or commit of a hub model
    #[arg(long, value_name = "R")]
    pub revision: Option<String>,
    /// Files or globs (.txt, .jsonl, .parquet, each also .gz or .zst), URLs, or - for standard input
    #[arg(long, value_name = "C", num_args = 1.., required = true)]
    pub corpus: Vec<String>,
    /// The folder of the run
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Settings of a paper: paper, shape-of-learning, machina, ethayarajh; flags go over it
    #[arg(long, value_name = "P")]
    pub preset: Option<String>,
    /// The column of the text in .jsonl and .parquet [text]
    #[arg(long, value_name = "NAME")]
    pub text_column: Option<String>,
    /// wiki: strip Wikipedia mark-up, code and tags
    #[arg(long, value_name = "WHAT")]
    pub clean: Option<String>,
    /// Cut running text into documents of so many characters
    #[arg(long, value_name = "N")]
    pub chunk_chars: Option<String>,
    /// Fraction of the documents kept, by a keyed hash of their ids [1.0]
    #[arg(long, value_name = "F")]
    pub sample: Option<String>,
    /// Seed of every random choice [0]
    #[arg(long, value_name = "N")]
    pub seed: Option<String>,
    /// Only documents of at most so many space-separated words
    #[arg(long, value_name = "N")]
    pub max_words: Option<String>,
    /// Lower-case the text
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub lowercase: Option<String>,
    /// Drop exact repeats of documents
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub dedup: Option<String>,
    /// Only the first so many documents that remain
    #[arg(long, value_name = "N")]
    pub limit: Option<String>,
    /// Long documents become windows of so many tokens [the model's maximum]
    #[arg(long, value_name = "N")]
    pub window: Option<String>,
    /// Tokens from one window to the next; every token is counted once, with the most context it gets
    #[arg(long, value_name = "N")]
    pub stride: Option<String>,
    /// Tokens around each text: model (what its tokenizer does), bos-eos, none [model]
    #[arg(long, value_name = "HOW")]
    pub wrap: Option<String>,
    /// Whether statistics exclude or include those tokens [exclude]
    #[arg(long, value_name = "HOW")]
    pub specials: Option<String>,
    /// token, surface, word, position, sequence, cluster:K[,K...], column:NAME or none [token]
    #[arg(long, value_name = "BY")]
    pub group: Option<String>,
    /// MIN:MAX of n_t for the selected groups [10:100000]
    #[arg(long, value_name = "MIN:MAX")]
    pub frequency: Option<String>,
    /// Tokens whose states are kept: auto, none, or a comma-separated list [auto]
    #[arg(long, value_name = "LIST")]
    pub tokens: Option<String>,
    /// How many states are kept of each of them [500]
    #[arg(long, value_name = "N")]
    pub token_states: Option<String>,
    /// How many states per point the hash sample keeps [20000]
    #[arg(long, value_name = "N")]
    pub sample_states: Option<String>,
    /// all, or a list such as 0,6,12 [all]
    #[arg(long, value_name = "LIST")]
    pub layers: Option<String>,
    /// all, or families: norm, cosine, spectrum, partition, dimension, sequence, layers [norm,cosine,spectrum,dimension]
    #[arg(long, value_name = "LIST")]
    pub measures: Option<String>,
    /// Multiple of the median norm beyond which a state is massive [10]
    #[arg(long, value_name = "X")]
    pub massive: Option<String>,
    /// Standard errors that cost memory
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub confidence: Option<String>,
    /// cpu, or auto [auto]
    #[arg(long, value_name = "D")]
    pub device: Option<String>,
    /// f32 [f32]
    #[arg(long, value_name = "T")]
    pub dtype: Option<String>,
    /// Tokens of one batch [1024]
    #[arg(long, value_name = "N")]
    pub batch_tokens: Option<String>,
    /// Worker threads [all processors]
    #[arg(long, value_name = "N")]
    pub threads: Option<String>,
    /// Limit of memory, such as 8G: several passes over the layers are made, or the run is refused
    #[arg(long, value_name = "BYTES")]
    pub max_memory: Option<String>,
    /// This worker's documents, I/N with I from 0 to N-1, or auto for Slurm arrays and Kubernetes indexed jobs
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,
    /// How often the state is saved; stretched so that saving stays under 5 % of the time [60]
    #[arg(long, value_name = "S")]
    pub checkpoint_seconds: Option<String>,
    /// Continue the run in --out from its last checkpoint (what happens anyway when it matches)
    #[arg(long, conflicts_with = "overwrite")]
    pub resume: bool,
    /// Start again, whatever lies in --out
    #[arg(long)]
    pub overwrite: bool,
    /// Leave the folder .work where it is at the end
    #[arg(long)]
    pub keep_work: bool,
    /// Alter norms: final-norm, norm:identity, norm:gamma=1, norm:beta=0, norm:gamma*=S; with @ some layers (@0,2-4, @final). Repeatable
    #[arg(long, value_name = "WHAT")]
    pub ablate: Vec<String>,
    /// fail or skip bad documents and states that are not finite [fail]
    #[arg(long, value_name = "HOW")]
    pub on_error: Option<String>,
}

/// A value as a caller in another language gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// Yes or no.
    Truth(bool),
    /// Text and numbers, as one would type them.
    Words(Vec<String>),
}

impl Options {
    /// From the names of flags, with `_` for `-`, and their values.
    pub fn from_named(values: &[(String, Given)]) -> Result<Options> {
        use clap::{ArgAction, CommandFactory, Parser};
        #[derive(Parser)]
        #[command(no_binary_name = true)]
        struct Flags {
            #[command(flatten)]
            options: Options,
        }
        let known = Flags::command();
        let mut words = Vec::new();
        for (name, given) in values {
            let flag = name.replace('_', "-");
            let Some(argument) = known.get_arguments().find(|argument| argument.get_long() == Some(flag.as_str())) else {
                let names = known.get_arguments().filter_map(|argument| argument.get_long()).filter(|name| *name != "help");
                let names: Vec<String> = names.map(|name| name.replace('-', "_")).collect();
                return Err(Error::Usage(format!("there is no setting `{name}`; there are {}", names.join(", "))));
            };
            match (argument.get_action(), given) {
                (ArgAction::SetTrue, Given::Truth(true)) => words.push(format!("--{flag}")),
                (ArgAction::SetTrue, Given::Truth(false)) => {}
                (ArgAction::SetTrue, Given::Words(_)) => return Err(Error::Usage(format!("{name} is either true or false"))),
                (_, Given::Truth(truth)) => words.push(format!("--{flag}={truth}")),
                (ArgAction::Append, Given::Words(values)) => words.extend(values.iter().map(|value| format!("--{flag}={value}"))),
                (_, Given::Words(values)) => words.push(format!("--{flag}={}", values.join(","))),
            }
        }
        match Flags::try_parse_from(words) {
            Ok(flags) => Ok(flags.options),
            Err(problem) => {
                let text = problem.to_string();
                let line = text.lines().next().unwrap_or_default();
                Err(Error::Usage(line.trim_start_matches("error: ").to_owned()))
            }
        }
    }
}

/// Where a setting came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The preset of this name.
    Preset(&'static str),
    /// The user.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => out.write_str("default"),
            Origin::Preset(name) => write!(out, "preset {name}"),
            Origin::Flag => out.write_str("flag"),
        }
    }
}

/// One setting: its text, and who chose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// As one would type it; None where the setting is off or left to the program.
    pub value: Option<String>,
    /// Who chose it.
    pub from: Origin,
}

/// Every setting that decides a result, by the name of its flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<&'static str, Setting>,
}

/// What the program does when nobody says anything; None is off, or left to the model or the machine.
const DEFAULTS: &[(&str, Option<&str>)] = &[
    ("text-column", None),
    ("clean", None),
    ("chunk-chars", None),
    ("sample", Some("1.0")),
    ("seed", Some("0")),
    ("max-words", None),
    ("lowercase", Some("false")),
    ("dedup", Some("false")),
    ("limit", None),
    ("window", None),
    ("stride", None),
    ("wrap", Some("model")),
    ("specials", Some("exclude")),
    ("group", Some("token")),
    ("frequency", Some("10:100000")),
    ("tokens", Some("auto")),
    ("token-states", Some("500")),
    ("sample-states", Some("20000")),
    ("layers", Some("all")),
    ("measures", Some("norm,cosine,spectrum,dimension")),
    ("massive", Some("10")),
    ("confidence", Some("false")),
    ("device", Some("auto")),
    ("dtype", Some("f32")),
    ("batch-tokens", Some("1024")),
    ("threads", None),
    ("max-memory", None),
    ("shard", None),
    ("checkpoint-seconds", Some("60")),
    ("on-error", Some("fail")),
    ("ablate", None),
];

/// The conventions of a paper.
struct Preset {
    name: &'static str,
    sets: &'static [(&'static str, &'static str)],
}

const PRESETS: &[Preset] = &[
    // Yamagiwa & Shimodaira 2025: sections 3 and appendix A.
    Preset {
        name: "paper",
        sets: &[
            ("sample", "0.01"),
            ("max-words", "63"),
            ("lowercase", "true"),
            ("wrap", "bos-eos"),
            ("specials", "include"),
            ("group", "surface"),
        ],
    },
    // Razzhigaev et al. 2024: enwik8 without mark-up, in pieces of 512 characters, batches of 4096 states.
    Preset {
        name: "shape-of-learning",
        sets: &[("clean", "wiki"), ("chunk-chars", "512"), ("measures", "norm,cosine,spectrum,dimension")],
    },
    // Machina & Mercer 2024: the partition function and the mean cosine.
    Preset { name: "machina", sets: &[("measures", "norm,cosine,spectrum,partition")] },
    // Ethayarajh 2019: words in at least 5 unique contexts.
    Preset { name: "ethayarajh", sets: &[("dedup", "true"), ("frequency", "5:100000"), ("measures", "norm,cosine")] },
];

impl Settings {
    /// Joins what was asked for with the preset and the defaults.
    pub fn resolve(options: &Options) -> Result<Settings> {
        let preset = options.preset.as_deref().map(find_preset).transpose()?;
        let given = given(options);
        let setting = |name: &'static str, default: Option<&str>| {
            let flag = given.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.clone());
            let set =
                preset.and_then(|preset| preset.sets.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value, preset.name)));
            match (flag, set) {
                (Some(value), _) => Setting { value: Some(value), from: Origin::Flag },
                (None, Some((value, by))) => Setting { value: Some(value.to_owned()), from: Origin::Preset(by) },
                (None, None) => Setting { value: default.map(str::to_owned), from: Origin::Default },
            }
        };
        Ok(Settings { values: DEFAULTS.iter().map(|&(name, default)| (name, setting(name, default))).collect() })
    }

    /// All settings, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Setting)> {
        self.values.iter().map(|(name, setting)| (*name, setting))
    }

    /// What was set by the preset, for the user to read.
    pub fn by_preset(&self) -> Vec<String> {
        let chosen = self.iter().filter(|(_, setting)| matches!(setting.from, Origin::Preset(_)));
        chosen.map(|(name, setting)| format!("--{name} {}", setting.value.as_deref().unwrap_or_default())).collect()
    }

    /// The text of a setting, if it has one.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(|setting| setting.value.as_deref())
    }

    /// A setting as a value of its type, if it is set. `example` completes the line "give ...".
    pub fn parsed<T: std::str::FromStr>(&self, name: &str, example: &str) -> Result<Option<T>> {
        self.text(name).map(|text| text.parse().map_err(|_| wrong(name, text, example))).transpose()
    }

    /// A setting that has a default, as a value of its type.
    pub fn required<T: std::str::FromStr>(&self, name: &str, example: &str) -> Result<T> {
        self.parsed(name, example)?.ok_or_else(|| wrong(name, "", example))
    }

    /// A setting that is one of a few words.
    pub fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T> {
        let text = self.text(name).unwrap_or_default();
        let known = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or ");
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| wrong(name, text, &known))
    }
}

/// The line for a value that makes no sense.
pub(crate) fn wrong(name: &str, text: &str, example: &str) -> Error {
    Error::Usage(format!("--{name} `{text}` is not understood; give {example}"))
}

fn find_preset(name: &str) -> Result<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        Error::Usage(format!("--preset `{name}` is unknown; give {}", known.join(", ")))
    })
}

/// The options that became settings.
fn given(options: &Options) -> Vec<(&'static str, Option<String>)> {
    let Options { text_column, clean, chunk_chars, sample, seed, max_words, lowercase, dedup, limit, window, stride, .. } = options;
    let Options { wrap, specials, group, frequency, tokens, token_states, sample_states, layers, measures, massive, confidence, .. } =
        options;
    let ablate = &(!options.ablate.is_empty()).then(|| options.ablate.join("; "));
    let Options { device, dtype, batch_tokens, threads, max_memory, shard, checkpoint_seconds, on_error, .. } = options;
    [
        ("text-column", text_column),
        ("clean", clean),
        ("chunk-chars", chunk_chars),
        ("sample", sample),
        ("seed", seed),
        ("max-words", max_words),
        ("lowercase", lowercase),
        ("dedup", dedup),
        ("limit", limit),
        ("window", window),
        ("stride", stride),
        ("wrap", wrap),
        ("specials", specials),
        ("group", group),
        ("frequency", frequency),
        ("tokens", tokens),
        ("token-states", token_states),
        ("sample-states", sample_states),
        ("layers", layers),
        ("measures", measures),
        ("massive", massive),
        ("confidence", confidence),
        ("device", device),
        ("dtype", dtype),
        ("batch-tokens", batch_tokens),
        ("threads", threads),
        ("max-memory", max_memory),
        ("shard", shard),
        ("checkpoint-seconds", checkpoint_seconds),
        ("on-error", on_error),
        ("ablate", ablate),
    ]
    .map(|(name, value)| (name, value.clone()))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_over_preset_over_default() {
        let options = Options { preset: Some("paper".into()), max_words: Some("20".into()), ..Options::default() };
        let settings = Settings::resolve(&options).expect("known");
        let chosen = |name: &str| settings.iter().find(|(known, _)| *known == name).map(|(_, setting)| setting.clone());
        assert_eq!(chosen("max-words"), Some(Setting { value: Some("20".into()), from: Origin::Flag }));
        assert_eq!(chosen("group"), Some(Setting { value: Some("surface".into()), from: Origin::Preset("paper") }));
        assert_eq!(chosen("massive"), Some(Setting { value: Some("10".into()), from: Origin::Default }));
        assert_eq!(settings.by_preset(), ["--group surface", "--lowercase true", "--sample 0.01", "--specials include", "--wrap bos-eos"]);
    }

    #[test]
    fn named_values_are_flags() {
        let words = |text: &str| Given::Words(vec![text.to_owned()]);
        let named = |more: &[(&str, Given)]| {
            let needed = [("model", words("m")), ("corpus", Given::Words(vec!["a".into(), "-".into()])), ("out", words("o"))];
            Options::from_named(&needed.iter().chain(more).map(|(name, given)| ((*name).to_owned(), given.clone())).collect::<Vec<_>>())
        };
        let given = [("max_words", words("63")), ("lowercase", Given::Truth(true)), ("overwrite", Given::Truth(true))];
        let options = named(&given).expect("known");
        assert_eq!((options.max_words.as_deref(), options.lowercase.as_deref(), options.overwrite), (Some("63"), Some("true"), true));
        assert_eq!(options.corpus, ["a", "-"]);
        let layers = Given::Words(vec!["0".into(), "6".into()]);
        assert_eq!(named(&[("layers", layers)]).expect("known").layers.as_deref(), Some("0,6"));
        let line = named(&[("max_word", words("63"))]).expect_err("unknown").to_string();
        assert!(line.starts_with("there is no setting `max_word`; there are model, revision, corpus,"), "{line}");
        assert!(named(&[("overwrite", words("yes"))]).is_err());
    }

    #[test]
    fn every_option_has_a_default_and_every_preset_sets_known_ones() {
        let known: Vec<&str> = DEFAULTS.iter().map(|(name, _)| *name).collect();
        assert!(given(&Options::default()).iter().map(|(name, _)| *name).eq(known.iter().copied()));
        assert!(PRESETS.iter().flat_map(|preset| preset.sets).all(|(name, _)| known.contains(name)));
        let line = Settings::resolve(&Options { preset: Some("papers".into()), ..Options::default() }).expect_err("unknown").to_string();
        assert_eq!(line, "--preset `papers` is unknown; give paper, shape-of-learning, machina, ethayarajh");
    }
}
