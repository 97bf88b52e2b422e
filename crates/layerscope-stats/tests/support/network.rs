//! A small network and what a run over it accumulates, call by call as a worker does.

use layerscope_stats::measure::{Family, LensInputs, LensSettings, LensTables, Selection};
use layerscope_stats::sketch::{HashSample, LensSpace, Lenses, PointSketch, SampleKey, Sketch, SketchSet, TokenSamples, sample_hash};
use layerscope_stats::{BatchRows, Segments};

use super::{Data, Random};

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
    pub sketches: Vec<PointSketch>,
    pub lenses: Vec<Lenses>,
    pub samples: Vec<HashSample>,
    pub tokens: Vec<TokenSamples>,
}

pub const ALL: SketchSet = SketchSet { units: true, covariance: true, pairs: true, sequences: true, sample: true, blocks: true };
pub const CHOSEN: [u32; 4] = [0, 1, 3, 39];

impl Run {
    pub fn new(network: &Network, kept: usize) -> Run {
        let points = &network.points;
        let previous = |at: usize| at.checked_sub(1).map(|at| points[at].dim);
        Run {
            sketches: points.iter().map(|data| data.empty_sketch()).collect(),
            lenses: (0..points.len()).map(|at| Lenses::new(ALL, points[at].dim, previous(at), points[at].massive)).collect(),
            samples: points.iter().map(|data| HashSample::new(kept, data.dim)).collect(),
            tokens: points.iter().map(|data| TokenSamples::new(CHOSEN, 30, data.dim)).collect(),
        }
    }

    /// Batch by batch, point by point, as a worker does.
    pub fn feed(&mut self, network: &Network, sequences: std::ops::Range<usize>, per_batch: usize) {
        let places = network.places();
        let mut space = LensSpace::new();
        let lengths = &network.points[0].lengths;
        let mut row0: usize = lengths[..sequences.start].iter().sum();
        for first in sequences.clone().step_by(per_batch) {
            let mut offsets = vec![0u32];
            for length in &lengths[first..(first + per_batch).min(sequences.end)] {
                offsets.push(offsets.last().unwrap() + *length as u32);
            }
            let rows = *offsets.last().unwrap() as usize;
            space.start_batch();
            for (at, data) in network.points.iter().enumerate() {
                let ids = &data.ids[row0..row0 + rows];
                let segments = Segments::new(ids);
                let states = &data.states[row0 * data.dim..(row0 + rows) * data.dim];
                let batch = BatchRows::new(states, data.dim, &segments, &offsets).unwrap();
                let documents: Vec<u64> = places[row0..row0 + rows].iter().map(|place| place.0).collect();
                space.prepare(ALL, data.massive, &batch).unwrap();
                self.lenses[at].absorb(&space, &batch, Some(&documents)).unwrap();
                self.sketches[at].update(&batch).unwrap();
                for &row in segments.counted() {
                    let (document, position) = places[row0 + row as usize];
                    let (hash, token) = (sample_hash(7, document, position), ids[row as usize]);
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
        self.sketches.iter_mut().zip(&other.sketches).for_each(|(ours, theirs)| ours.merge(theirs).unwrap());
        self.lenses.iter_mut().zip(&other.lenses).for_each(|(ours, theirs)| ours.merge(theirs).unwrap());
        self.samples.iter_mut().zip(&other.samples).for_each(|(ours, theirs)| ours.merge(theirs).unwrap());
        self.tokens.iter_mut().zip(&other.tokens).for_each(|(ours, theirs)| ours.merge(theirs).unwrap());
    }

    pub fn tables(&self, at: usize, settings: &LensSettings) -> LensTables {
        let inputs = LensInputs {
            point: &self.sketches[at],
            lenses: &self.lenses[at],
            next: self.lenses.get(at + 1),
            sample: Some(&self.samples[at]),
            tokens: Some(&self.tokens[at]),
        };
        LensTables::new(inputs, settings).unwrap()
    }
}

pub fn everything() -> LensSettings {
    LensSettings { families: Family::SELECTABLE.to_vec(), clusters: vec![3, 8], threads: 2, ..LensSettings::default() }
}

pub fn wide(states: &[f32]) -> Vec<f64> {
    states.iter().map(|x| f64::from(*x)).collect()
}

/// The value of a row.
pub fn value(tables: &LensTables, selection: Selection, measure: &str, variant: Option<&str>) -> f64 {
    let found = tables.layers.iter().find(|row| row.selection == selection && row.measure == measure && row.variant.as_deref() == variant);
    found.unwrap_or_else(|| panic!("{measure}")).value.unwrap_or_else(|| panic!("{measure} is undefined"))
}
