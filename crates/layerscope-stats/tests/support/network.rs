//! A small network and what a run over it accumulates, call by call as a worker does.

use layerscope_stats::measure::{Family, PointInputs, PointTables, Selection, Settings};
use layerscope_stats::sketch::{
    BatchSpace, HashSample, Mergeable, PointMoments, SampleKey, SketchKind, SketchSet, SketchShape, Sketches, TokenSamples, sample_hash,
};
use layerscope_stats::{BatchInfo, BatchRows, PointState};
use layerscope_testing::made_up_states::{Data, Random};

/// States of one corpus at three points; the last has another width.
pub struct Network {
    pub points: Vec<Data>,
}

impl Network {
    pub fn new(seed: u64, rows: usize, dim: usize) -> Network {
        let first = Data::zipf(seed, rows, dim, 40);
        let mut random = Random::new(seed + 1);
        let map: Vec<f64> = (0..dim * dim).map(|_| random.normal() / (dim as f64).sqrt()).collect();
        let second = first.clone().map("second", |_, _, x| {
            let old: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
            for (i, x) in x.iter_mut().enumerate() {
                let sum: f64 = (0..old.len()).map(|j| map[i * dim + j] * old[j]).sum();
                *x = (old[i] + sum.tanh() + 0.1 * random.normal()) as f32;
            }
        });
        let width = dim + 3;
        let third = Data {
            dim: width,
            states: second
                .states
                .chunks(dim)
                .flat_map(|x| (0..width).map(|i| x[i % dim].max(0.1 * x[(i + 1) % dim])).collect::<Vec<f32>>())
                .collect(),
            ..second.clone()
        };
        Network { points: vec![first, second, third] }
    }

    /// Document and position of every row: sequences are documents.
    pub fn places(&self) -> Vec<(u64, u32)> {
        self.points[0]
            .lengths
            .iter()
            .enumerate()
            .flat_map(|(document, &length)| (0..length as u32).map(move |at| (document as u64, at)))
            .collect()
    }
}

/// What a run has accumulated.
pub struct Run {
    pub points: Vec<PointState>,
    pub samples: Vec<HashSample<'static>>,
    pub tokens: Vec<TokenSamples<'static>>,
}

/// Everything that can be wanted.
pub fn all_sketches() -> SketchSet {
    SketchSet::of(&SketchKind::ALL.into_iter().filter(|kind| kind.is_optional()).collect::<Vec<_>>())
}

pub const CHOSEN: [u32; 4] = [0, 1, 3, 39];

impl Run {
    pub fn new(network: &Network, kept: usize) -> Run {
        let points = &network.points;
        let shape = |at: usize| SketchShape {
            dim: points[at].dim,
            previous: at.checked_sub(1).map(|at| points[at].dim),
            massive: points[at].massive,
        };
        let state = |at: usize| PointState {
            moments: points[at].empty_sketch(),
            sketches: Sketches::new(all_sketches(), &shape(at)),
            kept: Vec::new(),
            excluded: 0,
        };
        Run {
            points: (0..points.len()).map(state).collect(),
            samples: points.iter().map(|data| HashSample::new(kept, data.dim)).collect(),
            tokens: points.iter().map(|data| TokenSamples::new(CHOSEN, 30, data.dim)).collect(),
        }
    }

    /// Batch by batch, point by point, as a worker does. Rows that are not finite are left out.
    pub fn feed(&mut self, network: &Network, sequences: std::ops::Range<usize>, per_batch: usize) {
        let places = network.places();
        let mut space = BatchSpace::new();
        let lengths = &network.points[0].lengths;
        let mut row0: usize = lengths[..sequences.start].iter().sum();
        for first in sequences.clone().step_by(per_batch) {
            let mut offsets = vec![0u32];
            for length in &lengths[first..(first + per_batch).min(sequences.end)] {
                offsets.push(offsets.last().unwrap() + *length as u32);
            }
            let rows = *offsets.last().unwrap() as usize;
            let documents = places[row0..row0 + rows].iter().map(|place| place.0).collect();
            let info = BatchInfo::new(network.points[0].ids[row0..row0 + rows].to_vec(), offsets).with_documents(documents);
            space.start_batch();
            for (at, data) in network.points.iter().enumerate() {
                let states = &data.states[row0 * data.dim..(row0 + rows) * data.dim];
                let batch = BatchRows::of(states, data.dim, &info).unwrap();
                let bad = batch.not_finite();
                let batch = batch.without(&bad);
                space.prepare(all_sketches(), data.massive, &batch).unwrap();
                self.points[at].commit(&batch, space.contribution()).unwrap();
                for &row in batch.segments().counted() {
                    let (document, position) = places[row0 + row as usize];
                    let (hash, token) = (sample_hash(7, document, position), info.groups()[row as usize]);
                    let key = SampleKey { document, position, token };
                    self.samples[at].offer(hash, key, batch.state(row)).unwrap();
                    self.tokens[at].offer(token, hash, key, batch.state(row)).unwrap();
                }
            }
            row0 += rows;
        }
    }

    pub fn whole(network: &Network, kept: usize) -> Run {
        let mut run = Run::new(network, kept);
        run.feed(network, 0..network.points[0].lengths.len(), 9);
        run
    }

    pub fn merge(&mut self, other: &Run) {
        let names: Vec<u32> = (0..self.points[0].moments.group_count() as u32).collect();
        self.points.iter_mut().zip(&other.points).for_each(|(ours, theirs)| ours.merge_renamed(theirs, &names).unwrap());
        self.samples.iter_mut().zip(&other.samples).for_each(|(ours, theirs)| ours.merge(theirs).unwrap());
        self.tokens.iter_mut().zip(&other.tokens).for_each(|(ours, theirs)| ours.merge(theirs).unwrap());
    }

    pub fn moments(&self, at: usize) -> &PointMoments {
        &self.points[at].moments
    }

    pub fn sketches(&self, at: usize) -> &Sketches {
        &self.points[at].sketches
    }

    /// All tables of a point.
    pub fn all_tables(&self, at: usize, settings: &Settings) -> PointTables {
        let inputs = PointInputs {
            moments: self.moments(at),
            sketches: self.sketches(at),
            next: self.points.get(at + 1).map(|next| &next.sketches),
            sample: Some(&self.samples[at]),
            tokens: Some(&self.tokens[at]),
        };
        PointTables::new(inputs, settings).unwrap()
    }

    /// The same without the rows that come from moments, which are the first.
    pub fn tables(&self, at: usize, settings: &Settings) -> PointTables {
        let (mut tables, moments) = (self.all_tables(at, settings), PointTables::of_moments(self.moments(at), settings).unwrap());
        let own = tables.layers.split_off(moments.layers.len());
        for (with, without) in std::mem::replace(&mut tables.layers, own).iter_mut().zip(&moments.layers) {
            with.se = without.se; // blocks of documents know more of it
            assert_eq!(with, without);
        }
        tables
    }
}

pub fn everything() -> Settings {
    Settings { families: Family::SELECTABLE.to_vec(), clusters: vec![3, 8], threads: 2, ..Settings::default() }
}

pub fn wide(states: &[f32]) -> Vec<f64> {
    states.iter().map(|x| f64::from(*x)).collect()
}

/// The value of a row.
pub fn value(tables: &PointTables, selection: Selection, measure: &str, variant: Option<&str>) -> f64 {
    let found = tables.layers.iter().find(|row| row.selection == selection && row.measure == measure && row.variant.as_deref() == variant);
    found.unwrap_or_else(|| panic!("{measure}")).value.unwrap_or_else(|| panic!("{measure} is undefined"))
}
