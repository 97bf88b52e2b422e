//! A corpus read, cut and run window by window with all its states kept, as the definitions put it.

use std::collections::BTreeMap;
use std::path::Path;

use layerscope_compute::{Cpu, States};
use layerscope_corpus::{Tokenizer, Wrap};
use layerscope_model::{Batch, Model, Observer, Point, Transformer};
use layerscope_stats::NOT_COUNTED;
use layerscope_testing::made_up_states::Data;
use layerscope_testing::naive;

/// Documents whose norms have the median.
const PILOT: usize = 32;
/// Threshold of massive states, in medians of the norms.
pub const MASSIVE: f64 = 1.02;

/// A document: its text and the value of its column.
pub type Document = (String, String);

/// What of a text is counted, and as what.
#[derive(Clone, Copy, Debug)]
pub struct Counting<'a> {
    /// What makes a group.
    pub grouping: &'a str,
    /// `exclude`, `include` or `count`.
    pub specials: &'a str,
    /// Rows of every sequence that are not counted.
    pub skip_first: usize,
    /// Tokens of a window, those around it included; None for the model's maximum.
    pub window: Option<usize>,
}

/// All counted items of a corpus in memory.
pub struct Literal {
    /// Raw names of the groups, and tokens of a word.
    pub groups: Vec<(String, usize)>,
    /// Per item its group.
    pub ids: Vec<u32>,
    /// Groups that are never selected.
    unselectable: Vec<u32>,
    /// Items of each sequence.
    pub lengths: Vec<usize>,
    /// Items of the first documents, which set the threshold of massive states.
    pilot: usize,
    /// Item after item, point by point.
    points: BTreeMap<(usize, &'static str), Vec<f32>>,
    /// Width of the residual stream.
    pub dim: usize,
}

/// Keeps the states of one sequence.
struct Keep {
    blocks: usize,
    states: BTreeMap<(usize, &'static str), Vec<f32>>,
}

impl Observer<Cpu> for Keep {
    type Error = layerscope_model::Error;

    fn observe(&mut self, _: &Batch, at: Point, states: &mut States<Cpu>) -> layerscope_model::Result<()> {
        self.states.insert(place(at, self.blocks), states.as_slice().to_vec());
        Ok(())
    }
}

pub fn place(at: Point, blocks: usize) -> (usize, &'static str) {
    match at {
        Point::Embedding => (0, "embedding"),
        Point::Block(number) => (number, "block"),
        Point::FinalNorm => (blocks, "final_norm"),
        Point::Projected => (blocks, "projected"),
    }
}

/// One item of a document: its group and its tokens.
struct Item {
    group: Option<String>,
    ids: Vec<u32>,
}

/// The items of a text, and how many of them there are.
fn items(text: &str, column: &str, grouping: &str, tokenizer: &Tokenizer) -> Vec<Item> {
    if grouping == "word" {
        let lower = text.to_lowercase();
        let words = lower.split(|c: char| !c.is_alphabetic()).filter(|word| (2..=15).contains(&word.chars().count()));
        let ids = |word: &str| tokenizer.encode(word).expect("ids");
        return words.map(|word| Item { group: Some(word.to_owned()), ids: ids(word) }).collect();
    }
    let group = |id: u32| match grouping {
        "token" => tokenizer.raw(id),
        "surface" => tokenizer.raw(id).trim_start_matches("##").to_owned(),
        "none" => "all".to_owned(),
        _ => column.to_owned(), // positions and sequences are named later
    };
    tokenizer.encode(text).expect("ids").into_iter().map(|id| Item { group: Some(group(id)), ids: vec![id] }).collect()
}

/// Reads every document, cuts it into windows, runs each window alone, and keeps everything.
pub fn literal(folder: &Path, documents: &[Document], counting: Counting) -> Literal {
    let Counting { grouping, specials, skip_first, window } = counting;
    let include_specials = specials != "exclude" && grouping != "word";
    let model = Model::open(folder).expect("a model");
    let transformer: Transformer<Cpu> = model.load(Cpu::new()).expect("weights");
    let tokenizer = Tokenizer::load(folder, Wrap::Model).expect("a tokenizer");
    let room = window.or(model.spec.max_positions).unwrap_or(2048) - 2;
    let blocks = model.spec.blocks.len();
    let dim = model.spec.width;
    let (groups, ids, unselectable, lengths, pilot) = Default::default();
    let mut found = Literal { groups, ids, unselectable, lengths, pilot, points: BTreeMap::new(), dim };
    for (record, (text, column)) in documents.iter().enumerate() {
        let (mut window, mut first): (Vec<Item>, usize) = (Vec::new(), 0);
        let mut windows: Vec<(usize, Vec<Item>)> = Vec::new();
        for item in items(text, column, grouping, &tokenizer) {
            let length: usize = window.iter().map(|item| item.ids.len()).sum();
            if length + item.ids.len() > room {
                windows.push((first, std::mem::take(&mut window)));
                first += length;
            }
            window.push(item);
        }
        if !window.is_empty() {
            windows.push((first, window));
        }
        for (first, mut window) in windows {
            let special = |raw: &str, id: u32| {
                let name = match grouping {
                    "token" | "surface" => raw,
                    "none" => "all",
                    _ => column,
                };
                Item { group: include_specials.then(|| name.to_owned()), ids: vec![id] }
            };
            window.insert(0, special("[CLS]", 2));
            window.push(special("[SEP]", 3));
            let ids: Vec<u32> = window.iter().flat_map(|item| item.ids.iter().copied()).collect();
            let mut keep = Keep { blocks, states: BTreeMap::new() };
            let mut space = transformer.workspace(ids.len()).expect("memory");
            transformer.forward(&Batch::pack([&ids]), &mut space, &mut keep).expect("a forward pass");
            let states = keep.states;
            found.lengths.push(window.len());
            let mut row = 0;
            for item in &window {
                let group = item.group.as_ref().filter(|_| row >= skip_first).map(|name| match grouping {
                    "position" => row.to_string(),
                    "sequence" => format!("0:{record}:0:{first}"),
                    _ => name.clone(),
                });
                let id = group.map(|name| {
                    let known = found.groups.iter().position(|(other, _)| *other == name);
                    known.unwrap_or_else(|| {
                        found.groups.push((name, item.ids.len()));
                        found.groups.len() - 1
                    }) as u32
                });
                found.ids.push(id.unwrap_or(NOT_COUNTED));
                for (at, rows) in &states {
                    let dim = rows.len() / ids.len();
                    let mean = |i: usize| {
                        let values = (row..row + item.ids.len()).map(|row| f64::from(rows[row * dim + i]));
                        (values.sum::<f64>() / item.ids.len() as f64) as f32
                    };
                    found.points.entry(*at).or_default().extend((0..dim).map(mean));
                }
                row += item.ids.len();
            }
        }
        if record < PILOT {
            found.pilot = found.ids.len();
        }
    }
    if specials == "count" && ["token", "surface"].contains(&grouping) {
        let groups = (0..).zip(&found.groups).filter(|(_, (raw, _))| raw == "[CLS]" || raw == "[SEP]");
        found.unselectable = groups.map(|(id, _)| id).collect();
    }
    found
}

impl Literal {
    pub fn data(&self, at: (usize, &'static str)) -> Data {
        let (groups, ids) = (self.groups.len(), self.ids.clone());
        let mut data = Data {
            name: "corpus",
            dim: self.points[&at].len() / self.ids.len(),
            groups,
            states: self.points[&at].clone(),
            ids,
            lengths: self.lengths.clone(),
            massive: None,
            unselectable: self.unselectable.clone(),
        };
        let norm = |row: usize| naive::norm(&data.row(row).iter().map(|&x| f64::from(x)).collect::<Vec<f64>>());
        let mut norms: Vec<f64> = (0..self.pilot).filter(|&row| data.ids[row] != NOT_COUNTED).map(norm).collect();
        norms.sort_by(f64::total_cmp);
        let middle = norms.len() / 2;
        let median = if norms.len() % 2 == 1 { norms[middle] } else { 0.5 * (norms[middle - 1] + norms[middle]) };
        data.massive = Some(MASSIVE * median);
        data
    }
}
