//! Which sentences all-MiniLM-L6-v2 reads, and its states of them, all in memory.

use std::collections::BTreeSet;
use std::path::Path;

use layerscope::internals::document_number;
use layerscope_compute::{Cpu, States};
use layerscope_corpus::{Spool, UNCOUNTED};
use layerscope_model::{Batch, Model, Observer, Point};

use super::naive_sample::documented_hash;
use super::symmetric::dot;
use super::table::Tensors;

/// States that a run keeps of each chosen token.
pub const KEPT_PER_TOKEN: usize = 50;

/// The folder of the model, which `make test` fetches.
pub fn minilm() -> Option<String> {
    let folder = std::env::var("LAYERSCOPE_MINILM").ok();
    if folder.is_none() {
        eprintln!("skipped: LAYERSCOPE_MINILM does not name the folder of all-MiniLM-L6-v2; `make test` sets it");
    }
    folder
}

/// The first sentences of the test's text. Beyond its 400, the first half of one sentence goes on with the second half of another.
pub fn sentences(count: usize) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/minilm/sentences.txt");
    let text = std::fs::read_to_string(path).expect("the sentences");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let sentence = |at: usize| {
        let (line, round) = (at % lines.len(), at / lines.len());
        let (first, last) = (&lines[line], &lines[(line + 37 * round) % lines.len()]);
        [&first[..first.len() / 2], &last[last.len() / 2..]].concat().join(" ")
    };
    (0..count).map(sentence).collect()
}

/// All counted states of the corpus, at every point.
pub struct Corpus {
    /// Document, position and token of every state.
    pub ids: Vec<(u64, u32, u64)>,
    /// States of each sequence.
    pub lengths: Vec<usize>,
    /// The states at each point, as f64; they are f32.
    pub points: Vec<Vec<Vec<f64>>>,
}

/// Notes all states of one batch.
struct Notes(Vec<Vec<f32>>);

impl Observer<Cpu> for Notes {
    type Error = layerscope_model::Error;

    fn observe(&mut self, _: &Batch, _: Point, states: &mut States<Cpu>) -> Result<(), Self::Error> {
        self.0.push(states.as_slice().to_vec());
        Ok(())
    }
}

impl Corpus {
    /// Runs the sequences of the run's spool through the model, one at a time.
    pub fn read(run: &Path, model: &Path) -> Corpus {
        let spool = Spool::open(&run.join(".work/spool")).expect("a spool");
        let transformer = Model::open(model).expect("a model").load(Cpu::new()).expect("weights");
        let dim = transformer.spec().width;
        let mut corpus = Corpus { ids: Vec::new(), lengths: Vec::new(), points: vec![Vec::new(); transformer.points().len()] };
        for sequence in spool.batches(1).expect("sequences") {
            let sequence = sequence.expect("a sequence");
            let mut notes = Notes(Vec::new());
            let mut space = transformer.workspace(0).expect("memory");
            transformer.forward(&Batch::pack(sequence.sequence_ids()), &mut space, &mut notes).expect("states");
            let counted: Vec<usize> = (0..sequence.tokens()).filter(|&row| sequence.groups[row] != UNCOUNTED).collect();
            let document = document_number(sequence.sequences[0].document);
            let places: Vec<u32> = sequence.places().collect();
            corpus.ids.extend(counted.iter().map(|&row| (document, places[row], u64::from(sequence.ids[row]))));
            corpus.lengths.push(counted.len());
            for (point, states) in corpus.points.iter_mut().zip(notes.0) {
                point.extend(counted.iter().map(|&row| states[row * dim..][..dim].iter().map(|&x| f64::from(x)).collect::<Vec<f64>>()));
            }
        }
        corpus
    }

    pub fn some(&self, at: usize, rows: &[usize]) -> Vec<&[f64]> {
        rows.iter().map(|&row| self.points[at][row].as_slice()).collect()
    }

    /// 1.1 times the median norm over the first 32 documents, each of one sequence.
    pub fn check_thresholds(&self, thresholds: &[f64]) {
        let pilot: usize = self.lengths.iter().take(32).sum();
        for (states, threshold) in self.points.iter().zip(thresholds) {
            let mut norms: Vec<f64> = states[..pilot].iter().map(|x| dot(x, x).sqrt()).collect();
            norms.sort_by(f64::total_cmp);
            let median = (norms[(norms.len() - 1) / 2] + norms[norms.len() / 2]) / 2.0;
            assert!((threshold / (1.1 * median) - 1.0).abs() < 1e-12, "{threshold} {median}");
        }
    }
}

/// Rows of the corpus that the run kept.
pub struct Kept {
    pub sample: Vec<usize>,
    /// Token and rows.
    pub tokens: Vec<(u64, Vec<usize>)>,
}

impl Kept {
    /// Which states are the first in the order of the documented hash; the run must have kept those, bit by bit.
    pub fn read(run: &Path, corpus: &Corpus, sample: usize) -> Kept {
        let hash = |row: usize| documented_hash(0, corpus.ids[row].0, corpus.ids[row].1);
        let mut order: Vec<usize> = (0..corpus.ids.len()).collect();
        order.sort_by_key(|&row| hash(row));
        let file = Tensors::open(&run.join("sample.safetensors"));
        let (classes, tokens, hashes) = (file.u64("keys.class"), file.u64("keys.token"), file.u64("keys.hash"));
        let mut kept = Kept { sample: order.iter().copied().take(sample).collect(), tokens: Vec::new() };
        assert_eq!(kept.sample.len(), sample, "the corpus is larger than the sample");
        let chosen: BTreeSet<(u64, u64)> = classes.iter().zip(&tokens).filter(|(class, _)| **class > 0).map(|(c, t)| (*c, *t)).collect();
        assert!(chosen.len() >= 10, "tokens were chosen");
        for (_, token) in chosen {
            let own = order.iter().copied().filter(|&row| corpus.ids[row].2 == token).take(KEPT_PER_TOKEN);
            kept.tokens.push((token, own.collect()));
        }
        let rows: Vec<usize> = kept.sample.iter().chain(kept.tokens.iter().flat_map(|(_, rows)| rows)).copied().collect();
        assert_eq!(hashes, rows.iter().map(|&row| hash(row)).collect::<Vec<_>>());
        assert_eq!(tokens, rows.iter().map(|&row| corpus.ids[row].2).collect::<Vec<_>>());
        // A state that is in the sample and of a chosen token is stored once.
        let places = file.u64("keys.row");
        assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), rows.iter().collect::<BTreeSet<_>>().len());
        for (at, states) in corpus.points.iter().enumerate() {
            let name = if at == 0 { "layer0.embedding.kept".to_owned() } else { format!("layer{at}.block.kept") };
            let (stored, width) = (file.f32(&name), states[0].len());
            let stored: Vec<f32> = places.iter().flat_map(|&at| &stored[at as usize * width..][..width]).copied().collect();
            let expected = rows.iter().flat_map(|&row| &states[row]);
            assert!(stored.iter().map(|x| f64::from(*x)).eq(expected.copied()), "{name} has other states");
        }
        kept
    }
}
