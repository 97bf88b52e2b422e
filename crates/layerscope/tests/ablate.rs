//! Altered norms, against a forward pass written out in f64 and against theory.

mod support;

use layerscope_compute::{Cpu, States};
use layerscope_model::names::Slot;
use layerscope_model::{Ablation, Batch, Error, Model, Observer, Part, Point};
use layerscope_report::{Cell, Run, Table};
use support::{empty_folder, layerscope, root};

/// What a test does to a norm: gamma and beta as stored, in place; false leaves the norm out.
type Alter = fn(layer: usize, gamma: &mut [f64], beta: &mut [f64]) -> bool;

/// The layer number under which the final norm is handed to [`Alter`].
const FINAL: usize = usize::MAX;

/// A pre-norm decoder with learned positions, in f64, straight from the definitions.
struct Plain<'a> {
    model: &'a Model,
    alter: Alter,
}

impl Plain<'_> {
    fn read(&self, slot: Slot, block: usize, part: Part) -> Vec<f64> {
        let values = self.model.plan.load(&self.model.checkpoint, (slot, block, part)).expect("a parameter");
        values.into_iter().map(f64::from).collect()
    }

    fn linear(&self, rows: &[Vec<f64>], slot: Slot, block: usize) -> Vec<Vec<f64>> {
        let (weight, bias) = (self.read(slot, block, Part::Weight), self.read(slot, block, Part::Bias));
        let outputs = |row: &Vec<f64>| weight.chunks_exact(row.len()).zip(&bias).map(|(w, b)| dot(w, row) + b).collect();
        rows.iter().map(outputs).collect()
    }

    fn norm(&self, rows: &[Vec<f64>], slot: Slot, block: usize, layer: usize) -> Vec<Vec<f64>> {
        let (mut gamma, mut beta) = (self.read(slot, block, Part::Weight), self.read(slot, block, Part::Bias));
        if !(self.alter)(layer, &mut gamma, &mut beta) {
            return rows.to_vec();
        }
        let normed = |row: &Vec<f64>| {
            let n = row.len() as f64;
            let mean = row.iter().sum::<f64>() / n;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let scale = (variance + f64::from(1e-5f32)).sqrt();
            row.iter().zip(gamma.iter().zip(&beta)).map(|(x, (gamma, beta))| (x - mean) / scale * gamma + beta).collect()
        };
        rows.iter().map(normed).collect()
    }

    fn attention(&self, rows: &[Vec<f64>], block: usize) -> Vec<Vec<f64>> {
        let (width, heads) = (self.model.spec.width, self.model.spec.blocks[block].attention.heads);
        let (qkv, head) = (self.linear(rows, Slot::QueryKeyValue, block), width / heads);
        let mut context = vec![vec![0.0; width]; rows.len()];
        for (from, out) in context.iter_mut().enumerate() {
            for at in (0..width).step_by(head) {
                let query = &qkv[from][at..at + head];
                let scores: Vec<f64> = (0..=from).map(|to| dot(query, &qkv[to][width + at..][..head]) / (head as f64).sqrt()).collect();
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
                let total: f64 = weights.iter().sum();
                for (to, weight) in weights.iter().enumerate() {
                    add(&mut out[at..at + head], &qkv[to][2 * width + at..][..head], weight / total);
                }
            }
        }
        self.linear(&context, Slot::AttentionOutput, block)
    }

    /// The states of all points, the final norm's last where it is not left out.
    fn states(&self, tokens: &[u32]) -> Vec<Vec<Vec<f64>>> {
        let (width, blocks) = (self.model.spec.width, self.model.spec.blocks.len());
        let (words, places) = (self.read(Slot::TokenEmbedding, 0, Part::Weight), self.read(Slot::PositionEmbedding, 0, Part::Weight));
        let embed = |(at, &token): (usize, &u32)| {
            let mut row = words[token as usize * width..][..width].to_vec();
            add(&mut row, &places[at * width..][..width], 1.0);
            row
        };
        let mut stream: Vec<Vec<f64>> = tokens.iter().enumerate().map(embed).collect();
        let mut points = vec![stream.clone()];
        for block in 0..blocks {
            let normed = self.norm(&stream, Slot::AttentionInNorm, block, block + 1);
            stream.iter_mut().zip(self.attention(&normed, block)).for_each(|(row, branch)| add(row, &branch, 1.0));
            let normed = self.norm(&stream, Slot::FeedForwardInNorm, block, block + 1);
            let mut hidden = self.linear(&normed, Slot::Up, block);
            hidden
                .iter_mut()
                .flatten()
                .for_each(|x| *x *= 0.5 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (*x + 0.044715 * x.powi(3))).tanh()));
            let branches = self.linear(&hidden, Slot::Down, block);
            stream.iter_mut().zip(branches).for_each(|(row, branch)| add(row, &branch, 1.0));
            points.push(stream.clone());
        }
        points.push(self.norm(&stream, Slot::FinalNorm, 0, FINAL));
        points
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], what: &[f64], factor: f64) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += factor * what);
}

/// The states of all points as the engine has them.
#[derive(Default)]
struct Keep(Vec<(Point, Vec<f32>)>);

impl Observer<Cpu> for Keep {
    type Error = Error;

    fn observe(&mut self, _: &Batch, at: Point, states: &mut States<Cpu>) -> Result<(), Error> {
        self.0.push((at, states.as_slice().to_vec()));
        Ok(())
    }
}

fn pocket(name: &str) -> Model {
    Model::open(&root().join("pocket").join(name)).expect("a pocket model")
}

#[test]
fn altered_states_are_those_of_the_definitions() {
    let cases: [(&str, Alter); 5] = [
        ("norm:gamma=1; norm:beta=0", |_, gamma, beta| {
            gamma.fill(1.0);
            beta.fill(0.0);
            true
        }),
        ("norm:gamma*=0.5@2-3,final", |layer, gamma, _| {
            let factor = if [2, 3, FINAL].contains(&layer) { 0.5 } else { 1.0 };
            gamma.iter_mut().for_each(|gamma| *gamma *= factor);
            true
        }),
        ("norm:identity@1,6", |layer, _, _| ![1, 6].contains(&layer)),
        ("final-norm", |layer, _, _| layer != FINAL),
        ("norm:gamma=1@final; norm:gamma*=3@final", |layer, gamma, _| {
            if layer == FINAL {
                gamma.fill(3.0);
            }
            true
        }),
    ];
    let tokens: Vec<u32> = vec![0, 300, 17, 1024, 650, 12, 99, 300, 1999, 4];
    for (text, alter) in cases {
        let mut model = pocket("pocket-gpt");
        let expected = Plain { model: &model, alter }.states(&tokens);
        let unaltered = Plain { model: &model, alter: |_, _, _| true }.states(&tokens);
        assert_ne!(expected, unaltered, "{text} changes nothing");
        let ablations: Vec<Ablation> = text.split(';').map(|part| part.parse().expect("an ablation")).collect();
        model.ablate(&ablations).expect("norms that are there");
        let transformer = model.load(Cpu::new()).expect("weights");
        let (batch, mut keep) = (Batch::pack([tokens.clone()]), Keep::default());
        let mut space = transformer.workspace(batch.tokens()).expect("memory");
        transformer.forward(&batch, &mut space, &mut keep).expect("a forward pass");
        let found = keep.0;
        assert_eq!(found.iter().any(|(at, _)| *at == Point::FinalNorm), text != "final-norm", "{text}");
        for ((at, states), expected) in found.iter().zip(&expected) {
            let largest = expected.iter().flatten().fold(0.0f64, |largest, x| largest.max(x.abs()));
            let off = states.iter().zip(expected.iter().flatten()).fold(0.0f64, |off, (a, b)| off.max((f64::from(*a) - b).abs()));
            assert!(off <= 2e-5 * largest, "{text}, {at}: off by {off} of {largest}");
        }
    }
}

/// Measures a pocket model with altered norms on a few hundred sentences.
fn measured(model: &str, ablate: &[&str], name: &str) -> Run {
    let out = empty_folder(name);
    let model = format!("pocket/{model}");
    let mut arguments = vec!["measure", "--model", &model, "--corpus", "pocket/corpus/sample.txt.gz", "--limit", "200", "--quiet", "--out"];
    arguments.push(out.to_str().expect("UTF-8"));
    ablate.iter().for_each(|what| arguments.extend(["--ablate", what]));
    let outcome = layerscope(&arguments);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    Run::open(&out).expect("a run")
}

fn text<'a>(table: &'a Table, name: &str, row: usize) -> &'a str {
    match table.column(name).map(|column| column.cell(row)) {
        Some(Cell::Text(text)) => text,
        _ => "",
    }
}

/// (layer, point, value) of a measure over all states, where it is defined.
fn values(run: &Run, measure: &str) -> Vec<(i64, String, f64)> {
    let table = &run.layers;
    let wanted = |row: &usize| {
        text(table, "measure", *row) == measure && text(table, "selection", *row) == "all" && text(table, "variant", *row).is_empty()
    };
    let value = |row: usize| match (table.column("layer").map(|c| c.cell(row)), table.column("value").map(|c| c.cell(row))) {
        (Some(Cell::Integer(layer)), Some(Cell::Real(value))) => Some((layer, text(table, "point", row).to_owned(), value)),
        _ => None, // no norm makes these states
    };
    (0..table.rows()).filter(wanted).filter_map(value).collect()
}

#[test]
fn without_gamma_and_beta_q_is_the_width_after_every_norm() {
    let run = measured("pocket-bert", &["norm:gamma=1", "norm:beta=0"], "ablate-unit");
    let q = values(&run, "q");
    assert_eq!(q.len(), 7);
    for (layer, _, q) in q {
        // The variance is divided by itself plus epsilon, so that Q is below the width by a hair.
        assert!(q <= 128.0 + 1e-3 && q > 128.0 - 1e-3, "layer {layer}: Q is {q}");
    }
    assert!(values(&run, "predicted_q").iter().all(|(_, _, q)| *q == 128.0));
    let altered = "norm:gamma=1; norm:beta=0";
    assert_eq!(run.manifest.model.altered.as_deref(), Some(altered));
    assert_eq!(run.manifest.setting("ablate").and_then(|value| value.as_str()), Some(altered));
    assert_eq!(text(&run.layers, "model", 0), format!("pocket-bert [{altered}]"));
    let norms = run.norms.expect("norms");
    assert!((0..norms.rows()).all(|row| !text(&norms, "statistic", row).starts_with("beta")), "no betas are left");
}

#[test]
fn the_prediction_follows_the_altered_norm() {
    let (before, after) = (measured("pocket-gpt", &[], "ablate-none"), measured("pocket-gpt", &["norm:gamma*=2@final"], "ablate-twice"));
    assert_eq!(before.manifest.model.altered, None);
    let norm = pocket("pocket-gpt").output_norm(Point::FinalNorm).expect("readable").expect("a final norm");
    let square = |values: Option<Vec<f32>>| values.expect("stored").iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
    let (gamma, beta) = (square(norm.gamma), square(norm.beta));
    let predictions = values(&after, "predicted_q");
    assert_eq!(predictions.len(), 1, "one norm makes states");
    let (_, _, predicted) = predictions[0];
    assert!((predicted - (4.0 * gamma + beta)).abs() <= 1e-6 * predicted, "{predicted}");
    let same = |run: &Run| values(run, "q").into_iter().filter(|(_, point, _)| point != "final_norm").collect::<Vec<_>>();
    assert_eq!(same(&before), same(&after), "nothing before the final norm changes");
}

#[test]
fn what_the_model_lacks_is_refused() {
    for (model, ablation, reason) in [
        ("pocket-bert", "final-norm", "no final norm"),
        ("pocket-gpt", "norm:identity@0", "the embedding has no norm"),
        ("pocket-gpt", "norm:identity@7", "layers 0 to 6"),
        ("pocket-llama", "norm:beta=0", "no norm with beta"),
        ("pocket-llama", "norm:beta=0@final", "the final norm has no beta"),
        ("pocket-gpt", "norm:delta=3", "is not understood"),
    ] {
        let out = empty_folder("ablate-refused");
        let model = format!("pocket/{model}");
        let (corpus, out) = ("pocket/corpus/held-out.txt", out.to_str().expect("UTF-8").to_owned());
        let outcome = layerscope(&["measure", "--model", &model, "--corpus", corpus, "--out", &out, "--ablate", ablation]);
        assert_eq!(outcome.status, 2, "{ablation}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(reason) && outcome.stderr.lines().count() == 1, "{ablation}: {}", outcome.stderr);
    }
}

#[test]
fn another_ablation_is_another_run() {
    let out = empty_folder("ablate-other");
    let out = out.to_str().expect("UTF-8");
    let command =
        ["measure", "--model", "pocket/pocket-gpt", "--corpus", "pocket/corpus/held-out.txt", "--limit", "20", "--quiet", "--out", out];
    assert_eq!(layerscope(&command).status, 0);
    let outcome = layerscope(&[&command[..], &["--ablate", "final-norm"]].concat());
    assert_eq!(outcome.status, 5, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--ablate"), "{}", outcome.stderr);
}
