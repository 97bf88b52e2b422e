//! Hidden states made up by a fixed rule, and how to stream them through a sketch.

use layerscope_stats::sketch::{Mergeable, PointMoments, sample_hash};
use layerscope_stats::{BatchRows, NOT_COUNTED, Segments};

/// Random numbers from a counter.
pub struct Random {
    seed: u64,
    at: u64,
}

impl Random {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Random {
        Random { seed, at: 0 }
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.at += 1;
        sample_hash(self.seed, self.at, 0)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Of the standard normal distribution.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// A whole number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }

    /// Zipf with exponent 1 over `0..end`.
    pub fn zipf(&mut self, end: usize) -> u32 {
        ((end as f64).powf(self.uniform()) - 1.0) as u32
    }
}

/// States of a whole corpus, with groups and sequences.
#[derive(Clone)]
pub struct Data {
    /// What failures call it.
    pub name: &'static str,
    /// Components of a state.
    pub dim: usize,
    /// How many groups there are.
    pub groups: usize,
    /// The states, row after row.
    pub states: Vec<f32>,
    /// The group of each row.
    pub ids: Vec<u32>,
    /// Rows of each sequence.
    pub lengths: Vec<usize>,
    /// A longer state is massive.
    pub massive: Option<f64>,
    /// Groups that are never selected, ascending.
    pub unselectable: Vec<u32>,
}

impl Data {
    /// Sequences of 1 to 20 states, Zipf-distributed groups, each group with a mean and a spread of its own, one row in 25 not counted.
    pub fn zipf(seed: u64, rows: usize, dim: usize, groups: usize) -> Data {
        let mut random = Random::new(seed);
        let ids: Vec<u32> = (0..rows).map(|_| if random.below(25) == 0 { NOT_COUNTED } else { random.zipf(groups) }).collect();
        let (states, lengths, unselectable) = Default::default();
        let mut data = Data { name: "zipf", dim, groups, states, ids, lengths, massive: None, unselectable };
        for row in 0..rows {
            let mut own = Random::new(u64::from(data.ids[row]) + 1000);
            let spread = 0.2 + own.uniform();
            data.states.extend((0..dim).map(|i| (own.normal() + spread * random.normal() + 0.3 * (i % 3) as f64) as f32));
        }
        let mut left = rows;
        while left > 0 {
            let length = (1 + random.below(20)).min(left);
            data.lengths.push(length);
            left -= length;
        }
        data
    }

    /// The state of a row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.states[row * self.dim..][..self.dim]
    }

    /// Rows in order, changed one by one.
    pub fn map(mut self, name: &'static str, mut change: impl FnMut(usize, u32, &mut [f32])) -> Data {
        self.name = name;
        for (row, state) in self.states.chunks_exact_mut(self.dim).enumerate() {
            change(row, self.ids[row], state);
        }
        self
    }

    /// A sketch of its shape that has seen nothing.
    pub fn empty_sketch(&self) -> PointMoments {
        PointMoments::new(self.groups, self.dim, self.massive)
    }

    /// Shows whole sequences in batches of about `tokens` rows.
    pub fn batches(&self, sequences: std::ops::Range<usize>, tokens: usize, mut show: impl FnMut(&BatchRows)) {
        let first: usize = self.lengths[..sequences.start].iter().sum();
        let (mut start, mut offsets) = (first, vec![0u32]);
        let last = sequences.end;
        for sequence in sequences {
            let end = *offsets.last().unwrap() as usize + self.lengths[sequence];
            offsets.push(end as u32);
            if end >= tokens || sequence + 1 == last {
                let segments = Segments::new(&self.ids[start..start + end]);
                let states = &self.states[start * self.dim..(start + end) * self.dim];
                show(&BatchRows::new(states, self.dim, &segments, &offsets).unwrap());
                start += end;
                offsets = vec![0];
            }
        }
    }

    /// Adds whole sequences to a sketch, in batches of about `tokens` rows.
    pub fn feed(&self, sketch: &mut PointMoments, sequences: std::ops::Range<usize>, tokens: usize) {
        self.batches(sequences, tokens, |rows| sketch.update(rows).unwrap());
    }

    /// The sketch of everything, in batches of about `tokens` rows.
    pub fn sketch(&self, tokens: usize) -> PointMoments {
        let mut sketch = self.empty_sketch();
        self.feed(&mut sketch, 0..self.lengths.len(), tokens);
        sketch
    }

    /// Shards by sequence, `cuts` ascending, merged.
    pub fn sharded(&self, cuts: &[usize], tokens: usize) -> PointMoments {
        let mut bounds = vec![0];
        bounds.extend(cuts);
        bounds.push(self.lengths.len());
        let mut merged = self.empty_sketch();
        for pair in bounds.windows(2) {
            let mut shard = self.empty_sketch();
            self.feed(&mut shard, pair[0]..pair[1], tokens);
            merged.merge(&shard).unwrap();
        }
        merged
    }
}

/// Every kind of data the definitions must survive.
pub fn all_kinds() -> Vec<Data> {
    let base = |seed| Data::zipf(seed, 1500, 19, 60);
    let mut random = Random::new(99);
    let mut massive = base(5).map("massive", |row, _, x| x[7] += if row % 40 == 0 { 3000.0 } else { 0.0 });
    massive.massive = Some(100.0);
    vec![
        base(1),
        Data { name: "strips", ..Data::zipf(2, 1200, 48, 40) },
        Data { name: "more than a block", ..Data::zipf(15, 900, 277, 20) },
        base(3).map("one dimension at 3000", |_, _, x| {
            x.iter_mut().for_each(|x| *x *= 0.03);
            x[4] = 3000.0 + random.normal() as f32 * 0.03;
        }),
        Data { name: "single states", ids: (0..1500).collect(), groups: 1500, ..base(4) },
        massive,
        base(6).map("zero vectors", |row, id, x| {
            if row % 7 == 0 || id == 1 {
                x.fill(0.0);
            }
        }),
        base(7).map("all zero", |_, _, x| x.fill(0.0)),
        base(8).map("huge", |_, _, x| x.iter_mut().for_each(|x| *x *= 5e18)),
        base(14).map("limits of f32", |row, _, x| {
            let (scale, limit) = if row % 3 == 0 { (2e38, f32::MAX) } else { (1e-38, 1.0) };
            x.iter_mut().for_each(|x| *x = (f64::from(*x) * scale).clamp(-f64::from(limit), f64::from(limit)) as f32);
        }),
        base(9).map("tiny", |_, _, x| x.iter_mut().for_each(|x| *x *= 1e-30)),
        base(10).map("rotary embedding: V = 0", |_, id, x| {
            let mut own = Random::new(u64::from(id));
            x.fill_with(|| own.normal() as f32);
        }),
        Data { name: "d = 1", ..Data::zipf(11, 900, 1, 30) },
        Data { name: "one group", ids: vec![0; 1500], groups: 1, ..base(12) },
        // Of frequencies inside the range of the tests, and outside.
        Data { name: "never selected", unselectable: vec![0, 5, 6, 20], ..base(16) },
        Data { name: "nothing", ids: vec![NOT_COUNTED; 1500], ..base(13) },
    ]
}
