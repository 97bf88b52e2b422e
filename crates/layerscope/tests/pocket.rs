//! The pocket models are really trained: their losses on the test sentences, with the engine and the output heads written out here.

mod support;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use layerscope_compute::{Cpu, States};
use layerscope_corpus::{Tokenizer, Wrap};
use layerscope_model::names::Slot;
use layerscope_model::{Batch, Error, Model, Observer, Part, Point, forward_all};
use serde_json::Value;
use support::root;

/// Largest difference from the reference library's loss, in nats per token or byte.
const TOLERANCE: f64 = 1e-4;
const THREADS: usize = 2;

fn pocket() -> PathBuf {
    root().join("pocket")
}

fn test_sentences() -> Vec<String> {
    std::fs::read_to_string(pocket().join("corpus/test.txt")).expect("the test sentences").lines().map(str::to_owned).collect()
}

/// What is put into the model, and for each token what it must guess.
struct Exercise {
    given: Vec<u32>,
    wanted: Vec<Option<u32>>,
}

/// From states to logits: the token embedding, for masked models after a transform and with a bias.
struct Head {
    embedding: Vec<f32>,
    transform: Option<Transform>,
}

struct Transform {
    dense: Vec<f32>,
    dense_bias: Vec<f32>,
    gamma: Vec<f32>,
    beta: Vec<f32>,
    bias: Vec<f32>,
}

impl Head {
    fn read(model: &Model) -> Head {
        let (width, vocabulary) = (model.spec.width, model.spec.vocabulary);
        let embedding = model.plan.load(&model.checkpoint, (Slot::TokenEmbedding, 0, Part::Weight)).expect("an embedding");
        let masked = model.plan.ignored().iter().any(|name| name == "cls.predictions.bias");
        let read = |name: &str, shape: &[usize]| model.checkpoint.read(&format!("cls.predictions.{name}"), shape).expect("the head");
        let transform = masked.then(|| Transform {
            dense: read("transform.dense.weight", &[width, width]),
            dense_bias: read("transform.dense.bias", &[width]),
            gamma: read("transform.LayerNorm.weight", &[width]),
            beta: read("transform.LayerNorm.bias", &[width]),
            bias: read("bias", &[vocabulary]),
        });
        Head { embedding, transform }
    }

    /// -ln p(wanted | state).
    fn nats(&self, state: &[f32], wanted: u32) -> f64 {
        let state = match &self.transform {
            Some(transform) => transform.apply(state),
            None => state.to_vec(),
        };
        let mut logits: Vec<f64> = self.embedding.chunks_exact(state.len()).map(|row| f64::from(dot(row, &state))).collect();
        if let Some(transform) = &self.transform {
            logits.iter_mut().zip(&transform.bias).for_each(|(logit, bias)| *logit += f64::from(*bias));
        }
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        largest + logits.iter().map(|logit| (logit - largest).exp()).sum::<f64>().ln() - logits[wanted as usize]
    }
}

impl Transform {
    /// LayerNorm(gelu(W x + b)), epsilon 1e-12.
    fn apply(&self, state: &[f32]) -> Vec<f32> {
        let rows = self.dense.chunks_exact(state.len()).zip(&self.dense_bias);
        let hidden: Vec<f64> = rows.map(|(row, bias)| gelu(f64::from(dot(row, state) + bias))).collect();
        let n = hidden.len() as f64;
        let mean = hidden.iter().sum::<f64>() / n;
        let variance = hidden.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let scale = (variance + 1e-12).sqrt();
        let affine = self.gamma.iter().zip(&self.beta);
        hidden.iter().zip(affine).map(|(x, (gamma, beta))| ((x - mean) / scale) as f32 * gamma + beta).collect()
    }
}

/// Sixteen sums side by side, so that the compiler may use wide registers.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    for (a, b) in a.chunks_exact(16).zip(b.chunks_exact(16)) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum()
}

/// x Phi(x), with erf from its power series.
fn gelu(x: f64) -> f64 {
    let z = x / std::f64::consts::SQRT_2;
    let erf = if z.abs() > 4.0 {
        z.signum()
    } else {
        let mut power = z;
        let mut sum = z;
        for n in 1..120 {
            power *= -z * z / f64::from(n);
            sum += power / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    };
    0.5 * x * (1.0 + erf)
}

/// Adds up the losses of all batches.
struct Marker<'a> {
    head: &'a Head,
    at: Point,
    batches: &'a [Batch],
    wanted: &'a [Vec<Option<u32>>],
    total: (f64, usize),
}

impl Observer<Cpu> for Marker<'_> {
    type Error = Error;

    fn observe(&mut self, batch: &Batch, at: Point, states: &mut States<Cpu>) -> Result<(), Error> {
        if at == self.at {
            let number = self.batches.iter().position(|known| std::ptr::eq(known, batch)).expect("one of ours");
            let rows = states.as_slice().chunks_exact(states.width).zip(&self.wanted[number]);
            let nats: Vec<f64> = rows.filter_map(|(state, wanted)| wanted.map(|token| self.head.nats(state, token))).collect();
            self.total.0 += nats.iter().sum::<f64>();
            self.total.1 += nats.len();
        }
        Ok(())
    }
}

/// Sum of the losses, and of how many tokens.
fn total_nats(folder: &Path, exercises: &[Exercise]) -> (f64, usize) {
    let model = Model::open(folder).unwrap_or_else(|error| panic!("{error}"));
    let transformer = model.load(Cpu::new()).unwrap_or_else(|error| panic!("{error}"));
    let given: Vec<&[u32]> = exercises.iter().map(|exercise| exercise.given.as_slice()).collect();
    let batches = Batch::cut(&given, 1024);
    let mut rest = exercises.iter();
    let wanted: Vec<Vec<Option<u32>>> =
        batches.iter().map(|batch| rest.by_ref().take(batch.sequences()).flat_map(|one| one.wanted.clone()).collect()).collect();
    let at = *transformer.points().last().expect("points");
    let head = Head::read(&model);
    let marker = |_| Marker { head: &head, at, batches: &batches, wanted: &wanted, total: (0.0, 0) };
    let markers = forward_all(&transformer, &batches, THREADS, marker).expect("a forward pass");
    markers.iter().fold((0.0, 0), |(nats, tokens), marker| (nats + marker.total.0, tokens + marker.total.1))
}

/// Every token from those before it, the boundary token first.
fn next_token_exercises(tokenizer: &Tokenizer, sentences: &[String]) -> Vec<Exercise> {
    let exercise = |sentence: &String| {
        let ids = tokenizer.encode(sentence).expect("tokens");
        let given = [tokenizer.prefix(), &ids[..ids.len() - 1]].concat();
        Exercise { given, wanted: ids.into_iter().map(Some).collect() }
    };
    sentences.iter().map(exercise).collect()
}

/// Every token from all others: each hidden in turn, alone, behind the mask token.
fn masked_exercises(tokenizer: &Tokenizer, mask: u32, sentences: &[String]) -> Vec<Exercise> {
    let exercises = |sentence: &String| -> Vec<Exercise> {
        let ids = tokenizer.encode(sentence).expect("tokens");
        let first = tokenizer.prefix().len();
        let whole = [tokenizer.prefix(), &ids, tokenizer.suffix()].concat();
        let exercise = |place: usize| {
            let (mut given, mut wanted) = (whole.clone(), vec![None; whole.len()]);
            wanted[place] = Some(std::mem::replace(&mut given[place], mask));
            Exercise { given, wanted }
        };
        (first..first + ids.len()).map(exercise).collect()
    };
    sentences.iter().flat_map(exercises).collect()
}

/// In nats, of the tokens of all sentences.
fn unigram_entropy(tokenizer: &Tokenizer, sentences: &[String]) -> f64 {
    let mut counts: HashMap<u32, f64> = HashMap::new();
    for id in sentences.iter().flat_map(|sentence| tokenizer.encode(sentence).expect("tokens")) {
        *counts.entry(id).or_default() += 1.0;
    }
    let total: f64 = counts.values().sum();
    counts.values().map(|count| -count / total * (count / total).ln()).sum()
}

/// What a model's training wrote down.
fn facts(folder: &Path) -> Value {
    let facts = std::fs::read_to_string(folder.join("training.json")).expect("facts about the training");
    serde_json::from_str(&facts).expect("JSON")
}

/// The checkpoints, in order, with the reference library's loss.
fn checkpoints(folder: &Path, key: &str) -> Vec<(u64, f64)> {
    let row = |row: &Value| (row["step"].as_u64().expect("a step"), row[key].as_f64().expect("a loss"));
    facts(folder)["checkpoints"].as_array().expect("checkpoints").iter().map(row).collect()
}

/// The losses of models that only count, on the same sentences.
fn baselines(name: &str) -> Vec<f64> {
    let facts = facts(&pocket().join(name));
    facts["baselines"].as_object().expect("baselines").values().map(|loss| loss.as_f64().expect("a loss")).collect()
}

/// Losses of all checkpoints: each as the reference library has it, and smaller than the one before. The last one's.
fn last_loss(name: &str, key: &str, loss: impl Fn(&Path) -> f64) -> f64 {
    let folder = pocket().join(name);
    let mut previous = f64::INFINITY;
    for (step, reference) in checkpoints(&folder, key) {
        let ours = loss(&folder.join(format!("step{step}")));
        eprintln!("{name} step {step}: {ours:.5}, reference {reference:.5}");
        assert!((ours - reference).abs() <= TOLERANCE, "{name} step {step}: {ours}, the reference library has {reference}");
        assert!(ours < previous, "{name} step {step}: {ours} is no better than {previous}");
        previous = ours;
    }
    let last = std::fs::canonicalize(folder.join("model.safetensors")).expect("the last checkpoint");
    let steps = checkpoints(&folder, key);
    assert!(last.parent().expect("a folder").ends_with(format!("step{}", steps[steps.len() - 1].0)), "{}", last.display());
    previous
}

/// Less than every model that only counts.
fn beats_counting(name: &str, loss: f64) {
    let baselines = baselines(name);
    assert!(!baselines.is_empty() && baselines.iter().all(|counting| loss < *counting), "{name}: {loss}, by counting {baselines:?}");
}

#[test]
fn the_decoders_predict_the_test_sentences() {
    let sentences = test_sentences();
    let bytes: usize = sentences.iter().map(String::len).sum();
    for name in ["pocket-gpt", "pocket-pythia", "pocket-llama", "pocket-char"] {
        let tokenizer = Tokenizer::load(&pocket().join(name), Wrap::BosEos).expect("a tokenizer");
        let exercises = next_token_exercises(&tokenizer, &sentences);
        let loss = last_loss(name, "nats_per_byte", |folder| total_nats(folder, &exercises).0 / bytes as f64);
        beats_counting(name, loss);
    }
}

#[test]
fn the_masked_model_guesses_hidden_tokens() {
    let (name, sentences) = ("pocket-bert", test_sentences());
    let tokenizer = Tokenizer::load(&pocket().join(name), Wrap::Model).expect("a tokenizer");
    let mask = (0..=tokenizer.largest_id()).find(|&id| tokenizer.raw(id) == "[MASK]").expect("a mask token");
    let exercises = masked_exercises(&tokenizer, mask, &sentences);
    let loss = last_loss(name, "nats_per_masked_token", |folder| {
        let (nats, tokens) = total_nats(folder, &exercises);
        nats / tokens as f64
    });
    beats_counting(name, loss);
    let entropy = unigram_entropy(&tokenizer, &sentences);
    let told = checkpoints(&pocket().join(name), "unigram_entropy");
    assert!((entropy - told[told.len() - 1].1).abs() <= TOLERANCE, "{entropy}");
}
