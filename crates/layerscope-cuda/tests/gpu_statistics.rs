//! What the card accumulates against what the host does, from the same states. Without a GPU every test says so and is skipped.

use layerscope_compute::{Backend, ComputeDtype, Cpu, Error, States};
use layerscope_cuda::{Cuda, CudaStream};
use layerscope_stats::sketch::{SketchKind, SketchSet, Values};
use layerscope_stats::{Accumulate, BatchInfo, LateRow, NOT_COUNTED, PointShape, PointState, Result, Wanted};
use layerscope_testing::made_up_states::Random;

/// Sums are taken in another order: what may differ, of the largest number around.
const TOLERANCE: f64 = 1e-12;

const UNITS: SketchSet = SketchSet::of(&[SketchKind::Units]);
const ALL: SketchSet = SketchSet::of(&[
    SketchKind::Units,
    SketchKind::Covariance,
    SketchKind::Pairs,
    SketchKind::Shapes,
    SketchKind::Blocks,
    SketchKind::Peaks,
]);

/// The first card, or None with a line that says why. One that is there must work.
fn card() -> Option<Cuda> {
    match Cuda::new(0, ComputeDtype::F32) {
        Err(error @ Error::Unavailable { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        card => Some(card.expect("a card")),
    }
}

/// Batches of states at several points.
#[derive(Clone)]
struct Data {
    dim: usize,
    groups: usize,
    points: usize,
    kept: usize,
    massive: Option<f64>,
    sketches: SketchSet,
    chosen: Vec<u32>,
    skip_bad: bool,
    /// What each says, and its states at every point.
    batches: Vec<(BatchInfo, Vec<Vec<f32>>)>,
}

/// A few things that states of models do: groups differ, one component is large, some states are equal, some are zero, and rows that do
/// not count are not finite.
fn made_up(dim: usize, groups: usize, rows: &[usize], longest: usize) -> Data {
    let mut random = Random::new(17 + dim as u64);
    let points = 3;
    let centres: Vec<f64> = (0..groups * dim).map(|_| random.normal()).collect();
    let mut kept = 0;
    let mut batch = |&rows: &usize| {
        let ids: Vec<u32> = (0..rows).map(|_| if random.below(11) == 0 { NOT_COUNTED } else { random.zipf(groups) }).collect();
        let mut offsets = vec![0];
        while *offsets.last().unwrap() < rows as u32 {
            offsets.push((offsets.last().unwrap() + 1 + random.below(longest) as u32).min(rows as u32));
        }
        let slots: Vec<(u32, u32)> =
            (0..rows).filter(|row| ids[*row] != NOT_COUNTED && row % 7 == 0).map(|row| row as u32).zip(kept..).collect();
        kept += slots.len() as u32;
        let documents = (0..rows as u64).map(|row| row / 40).collect();
        let info = BatchInfo::new(ids.clone(), offsets).with_slots(slots).with_documents(documents);
        let states = (0..points).map(|point| states_of(&mut random, point, dim, &ids, &centres)).collect();
        (info, states)
    };
    let batches = rows.iter().map(&mut batch).collect();
    let kept = kept as usize;
    Data { dim, groups, points, kept, massive: None, sketches: UNITS, chosen: Vec::new(), skip_bad: false, batches }
}

fn states_of(random: &mut Random, point: usize, dim: usize, ids: &[u32], centres: &[f64]) -> Vec<f32> {
    let mut states = Vec::with_capacity(ids.len() * dim);
    for (row, &id) in ids.iter().enumerate() {
        match (id, row % 23) {
            (NOT_COUNTED, _) => states.resize(states.len() + dim, f32::NAN),
            (_, 5) => states.resize(states.len() + dim, 0.0),
            (_, 6) => states.extend((0..dim).map(|at| (at % 5) as f32)),
            _ => {
                let centre = &centres[id as usize * dim..][..dim];
                states.extend(centre.iter().enumerate().map(|(at, centre)| {
                    let large = if at == 2 { 300.0 } else { 0.0 };
                    (centre * (1.0 + point as f64) + 0.3 * random.normal() + large) as f32
                }));
            }
        }
    }
    states
}

impl Data {
    /// Makes about every so many-th row massive, at all points but the first.
    fn with_massive(mut self, every: usize) -> Data {
        self.massive = Some(1e4);
        for (_, states) in &mut self.batches {
            for (point, states) in states.iter_mut().enumerate().skip(1) {
                // Some are so at both points, some at one alone.
                let rows = states.chunks_exact_mut(self.dim).enumerate().filter(|(row, _)| row % every == 0 || row % (every + point) == 2);
                rows.for_each(|(row, state)| state[0] += 2e4 + 1e3 * (row % 13) as f32);
            }
        }
        self
    }

    fn wanted(&self) -> Wanted {
        Wanted { sketches: self.sketches, massive: self.massive, skip_bad: self.skip_bad }
    }

    fn empty(&self, point: usize) -> PointState {
        let previous = (point > 0).then_some(self.dim);
        let (groups, dim, kept, chosen, sketches) = (self.groups, self.dim, self.kept, self.chosen.len(), self.sketches);
        let mut state = PointState::new(&PointShape { groups, dim, previous, kept, chosen, sketches }, self.massive);
        self.chosen.iter().for_each(|&group| state.moments.choose(group));
        state
    }

    /// All batches on a device, in turn in so many streams; a row that was found late is the end.
    fn run<D: Accumulate>(&self, device: &D, streams: usize) -> Result<(Vec<PointState>, Option<LateRow>)> {
        let states = (0..self.points).map(|point| self.empty(point)).collect();
        self.go_on(device, streams, states, &self.batches)
    }

    fn go_on<D: Accumulate>(
        &self,
        device: &D,
        streams: usize,
        states: Vec<PointState>,
        batches: &[(BatchInfo, Vec<Vec<f32>>)],
    ) -> Result<(Vec<PointState>, Option<LateRow>)> {
        self.go_on_after(&mut |_| {}, device, streams, states, batches)
    }

    /// The same; every batch comes after other work in its stream.
    fn go_on_after<D: Accumulate>(
        &self,
        other_work: &mut dyn FnMut(&mut D::Stream),
        device: &D,
        streams: usize,
        states: Vec<PointState>,
        batches: &[(BatchInfo, Vec<Vec<f32>>)],
    ) -> Result<(Vec<PointState>, Option<LateRow>)> {
        let mut residents = states.into_iter().map(|state| device.load(state)).collect::<Result<Vec<_>>>()?;
        let mut workers = (0..streams).map(|_| Ok((device.stream()?, device.space()?))).collect::<Result<Vec<_>>>()?;
        for (at, (info, states)) in batches.iter().enumerate() {
            let (stream, space) = &mut workers[at % streams];
            let info = device.info(stream, info.clone())?;
            device.start_batch(space);
            let mut buffers = (0..self.points).map(|_| device.buffer(states[0].len())).collect::<layerscope_compute::Result<Vec<_>>>()?;
            buffers.iter_mut().zip(states).for_each(|(buffer, states)| device.write(stream, buffer, states));
            other_work(stream);
            for (buffer, resident) in buffers.iter().zip(&mut residents) {
                let mut states = States { backend: device, stream, buffer, rows: states[0].len() / self.dim, width: self.dim };
                let prepared = device.prepare(&mut states, &info, &self.wanted(), space)?;
                device.commit(states.stream, &prepared, resident)?;
            }
            if let Some(late) = device.finish_batch(stream, space)? {
                return Ok((Vec::new(), Some(late)));
            }
        }
        Ok((residents.into_iter().map(|resident| device.take(resident)).collect::<Result<_>>()?, None))
    }

    fn agrees(&self, card: &Cuda, what: &str) {
        let (host, _) = self.run(&Cpu::new(), 1).expect("the host");
        let (device, late) = self.run(card, 2).expect("the card");
        assert_eq!(late, None, "{what}");
        for (point, (host, device)) in host.iter().zip(&device).enumerate() {
            compare(host, device, &format!("{what}, point {point}"));
        }
        assert!(self.run(card, 2).expect("the card").0 == device, "{what}: the same bits twice");
        assert!(self.run(card, 1).expect("the card").0 == device, "{what}: the same bits in one stream");
    }
}

/// Every tensor of one state against that of another.
fn compare(host: &PointState, device: &PointState, what: &str) {
    let (host, device) = (host.encode(), device.encode());
    assert!(host.0.keys().eq(device.0.keys()), "{what}: {:?} and {:?}", host.0.keys(), device.0.keys());
    for ((name, ours), theirs) in host.0.iter().zip(device.0.values()) {
        assert_eq!(ours.shape, theirs.shape, "{what}: {name}");
        match (&ours.values, &theirs.values) {
            (Values::F64(ours_f64), Values::F64(theirs)) => {
                let width = ours.shape.last().copied().unwrap_or(1).max(1);
                let overall = largest(ours_f64);
                for (row, (ours, theirs)) in ours_f64.chunks(width).zip(theirs.chunks(width)).enumerate() {
                    // Components of a matrix are as good as its largest ones.
                    let is_matrix = name.ends_with("scatter") || name.ends_with("products");
                    let scale = largest(ours).max(if is_matrix { overall } else { 1e-6 * overall });
                    for (at, (x, y)) in ours.iter().zip(theirs).enumerate() {
                        assert!(
                            x == y || (x - y).abs() <= TOLERANCE * scale,
                            "{what}: {name}[{row}, {at}]: {x:e} and {y:e}, scale {scale:e}"
                        );
                    }
                }
            }
            (Values::F32(ours), Values::F32(theirs)) => {
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
                assert!(bits(ours) == bits(theirs), "{what}: {name}");
            }
            (ours, theirs) => assert_eq!(ours, theirs, "{what}: {name}"),
        }
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().map(|value| value.abs()).filter(|value| value.is_finite()).fold(0.0, f64::max)
}

#[test]
fn moments_agree_with_the_host() {
    let Some(card) = card() else { return };
    for (dim, groups, rows, longest) in [(1, 3, 40, 5), (31, 7, 300, 12), (128, 400, 500, 40), (200, 50, 700, 300), (768, 2000, 1500, 30)] {
        let data = made_up(dim, groups, &[rows, rows / 2, 1, rows + 13], longest);
        data.agrees(&card, &format!("{dim} components"));
        Data { sketches: SketchSet::default(), ..data }.agrees(&card, &format!("{dim} components without unit vectors"));
    }
}

#[test]
fn massive_states_and_chosen_groups_agree_with_the_host() {
    let Some(card) = card() else { return };
    for (every, rows) in [(97, 300), (3, 200), (1, 80)] {
        let data = made_up(70, 20, &[rows, 100, rows], 25).with_massive(every);
        let data = Data { chosen: vec![0, 1, 7, 19], ..data };
        data.agrees(&card, &format!("every {every}th state massive"));
    }
}

#[test]
fn all_sketches_agree_with_the_host() {
    let Some(card) = card() else { return };
    let data = Data { sketches: ALL, ..made_up(48, 30, &[300, 150, 220], 25) };
    data.agrees(&card, "all sketches");
    data.with_massive(40).agrees(&card, "all sketches and massive states");
}

/// More states than components, matrices that no shared memory holds, hardly any components; and components around the bounds of massive
/// ones, an odd and an even number of them.
#[test]
fn shapes_and_peaks_of_all_sizes_agree_with_the_host() {
    let Some(card) = card() else { return };
    let sketches = SketchSet::of(&[SketchKind::Shapes, SketchKind::Peaks]);
    for (dim, rows, longest) in [(1, 60, 9), (2, 90, 30), (33, 400, 130), (48, 300, 60), (66, 500, 66), (150, 700, 140), (150, 900, 400)] {
        let mut data = Data { sketches, ..made_up(dim, 12, &[rows, rows / 3, 2], longest) };
        for state in data.batches.iter_mut().flat_map(|(_, states)| states).flat_map(|states| states.chunks_exact_mut(dim)) {
            state.iter_mut().enumerate().filter(|(at, _)| *at != 2).for_each(|(_, x)| *x *= 0.2);
        }
        data.agrees(&card, &format!("{dim} components, up to {longest} states"));
        data.with_massive(9).agrees(&card, &format!("{dim} components, up to {longest} states, some massive"));
    }
}

#[test]
fn states_that_are_not_finite_are_named_or_left_out() {
    let Some(card) = card() else { return };
    for sketches in [UNITS, ALL] {
        let mut data = Data { sketches, massive: Some(1e6), ..made_up(40, 10, &[200, 150], 20) };
        let counted = data.batches[1].0.segments().counted().to_vec();
        for place in [30, 12, 100] {
            data.batches[1].1[1][counted[place] as usize * 40 + place % 40] = if place == 12 { f32::INFINITY } else { f32::NAN };
        }
        let host = data.run(&Cpu::new(), 1).expect_err("not finite").to_string();
        let found = match data.run(&card, 1) {
            Ok((_, late)) => {
                let late = late.expect("a row");
                assert_eq!(late.point, 1);
                format!("row {} is not finite", late.row)
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found, host);
        assert_eq!(found, format!("row {} is not finite", counted[12]));
        Data { skip_bad: true, ..data }.agrees(&card, "states left out");
    }
}

#[test]
fn words_of_several_rows_agree_with_the_host() {
    let Some(card) = card() else { return };
    let mut data = made_up(90, 12, &[], 1);
    let mut random = Random::new(5);
    for rows in [60u32, 41] {
        let items: Vec<_> = (0..rows / 3).map(|item| 3 * item..3 * item + 1 + item % 3).collect();
        let groups = (0..items.len()).map(|_| random.zipf(12)).collect();
        let info = BatchInfo::new(groups, vec![0, 5, items.len() as u32]).with_pooling(Some(items));
        let states = (0..3).map(|_| (0..rows * 90).map(|_| random.normal() as f32).collect()).collect();
        data.batches.push((info, states));
    }
    data.agrees(&card, "words");
    Data { sketches: ALL.without(SketchKind::Blocks), ..data }.agrees(&card, "words and all sketches");
}

#[test]
fn what_is_loaded_is_fetched_to_the_bit_and_goes_on() {
    let Some(card) = card() else { return };
    for data in [
        Data { sketches: ALL, chosen: vec![2, 5], ..made_up(33, 14, &[120, 90, 100], 20).with_massive(30) },
        Data { sketches: SketchSet::default(), ..made_up(64, 5, &[100, 90], 9) },
        // Ten megabytes of groups and a bit: they come piece by piece.
        made_up(257, 5003, &[3000, 500], 30),
    ] {
        let (host, _) = data.run(&Cpu::new(), 1).expect("the host");
        for state in host {
            let fetched = card.take(card.load(state.clone()).expect("a load")).expect("a fetch");
            assert_eq!(fetched.encode(), state.encode());
        }
        let (whole, _) = data.run(&card, 1).expect("the card");
        let empty = (0..data.points).map(|point| data.empty(point)).collect();
        let (half, _) = data.go_on(&card, 1, empty, &data.batches[..1]).expect("a batch");
        let (resumed, _) = data.go_on(&card, 1, half, &data.batches[1..]).expect("the rest");
        assert!(whole == resumed, "a run that was interrupted gives the same bits");
    }
}

/// Everything that the host reads, it must wait for.
#[test]
fn a_card_that_lags_behind_the_host_gives_the_same_bits() {
    let Some(card) = card() else { return };
    let mut gigabyte = card.zeros::<u8>(1 << 30).expect("memory");
    // A tenth of a second and more.
    let mut other_work = |stream: &mut CudaStream| (0..300).for_each(|_| stream.raw().memset_zeros(&mut gigabyte).expect("zeros"));
    for data in [
        made_up(257, 5003, &[3000, 500], 30),
        made_up(70, 20, &[300, 100, 300], 25).with_massive(7),
        Data { sketches: ALL.without(SketchKind::Blocks), ..made_up(48, 30, &[300, 150], 25) },
    ] {
        let (prompt, _) = data.run(&card, 2).expect("the card");
        let empty = (0..data.points).map(|point| data.empty(point)).collect();
        let (late, _) = data.go_on_after(&mut other_work, &card, 2, empty, &data.batches).expect("the card");
        assert!(prompt == late);
    }
}

#[test]
fn norms_agree_with_the_host() {
    let Some(card) = card() else { return };
    fn norms<D: Accumulate>(device: &D, data: &Data) -> Vec<f64> {
        let (mut stream, mut space) = (device.stream().expect("a stream"), device.space().expect("memory"));
        let (info, states) = &data.batches[0];
        let info = device.info(&mut stream, info.clone()).expect("a batch");
        let mut buffer = device.buffer(states[0].len()).expect("a buffer");
        device.write(&mut stream, &mut buffer, &states[0]);
        let rows = states[0].len() / data.dim;
        let mut states = States { backend: device, stream: &mut stream, buffer: &buffer, rows, width: data.dim };
        device.norms(&mut states, &info, &mut space).expect("norms")
    }
    let data = made_up(300, 9, &[333], 10);
    let (host, device) = (norms(&Cpu::new(), &data), norms(&card, &data));
    assert_eq!(host.len(), device.len());
    for (host, device) in host.iter().zip(&device) {
        assert!((host - device).abs() <= TOLERANCE * host, "{host} and {device}");
    }
}

#[test]
fn rows_that_do_not_fit_are_refused_in_the_words_of_the_host() {
    let Some(card) = card() else { return };
    let sound = made_up(8, 4, &[30], 6);
    let with = |change: &dyn Fn(BatchInfo) -> BatchInfo| {
        let mut data = sound.clone();
        data.batches[0].0 = change(data.batches[0].0.clone());
        data
    };
    for data in [
        with(&|_| BatchInfo::new(vec![0; 31], Vec::new())),
        with(&|_| BatchInfo::new(vec![4; 30], Vec::new())),
        with(&|info| info.with_slots(vec![(30, 0)])),
        with(&|info| info.with_slots(vec![(3, 900)])),
        with(&|info| info.with_positions(vec![0])),
        with(&|_| BatchInfo::new(vec![0; 30], vec![0, 31])),
    ] {
        let line = |error: layerscope_stats::Error| error.to_string();
        let host = line(data.run(&Cpu::new(), 1).map(|_| ()).expect_err("the host refuses"));
        assert_eq!(line(data.run(&card, 1).map(|_| ()).expect_err("the card refuses")), host);
    }
}

/// Prints what a batch of the usual size costs; too slow without a card, so it is asked for by name or with `--include-ignored`.
#[test]
#[ignore = "a batch of the usual size"]
fn a_large_batch_agrees_and_says_how_long_it_took() {
    let Some(card) = card() else { return };
    let products = UNITS.with(SketchKind::Covariance).with(SketchKind::Pairs);
    let shapes = SketchSet::of(&[SketchKind::Shapes, SketchKind::Peaks]);
    for (dim, rows, sketches) in [(768, 32_768, UNITS), (768, 32_768, products), (768, 32_768, shapes), (4096, 8_192, UNITS)] {
        let data = Data { sketches, massive: Some(1e6), ..made_up(dim, 10_000, &[rows], 40) };
        let (host, _) = data.run(&Cpu::new(), 1).expect("the host");
        let (device, _) = data.run(&card, 1).expect("the card");
        for (host, device) in host.iter().zip(&device) {
            compare(host, device, "a large batch");
        }
        let (info, states) = &data.batches[0];
        let (mut stream, mut space) = (card.stream().expect("a stream"), card.space().expect("memory"));
        let mut resident = card.load(data.empty(1)).expect("a state");
        let mut buffer = card.buffer(states[1].len()).expect("a buffer");
        card.write(&mut stream, &mut buffer, &states[1]);
        for round in 0..6 {
            let info = card.info(&mut stream, info.clone()).expect("a batch");
            card.start_batch(&mut space);
            if round == 5 {
                stream.start_clock();
            }
            for _ in 0..8 {
                let mut states = States { backend: &card, stream: &mut stream, buffer: &buffer, rows, width: dim };
                let prepared = card.prepare(&mut states, &info, &data.wanted(), &mut space).expect("a batch");
                card.commit(states.stream, &prepared, &mut resident).expect("a batch");
            }
            card.synchronize(&mut stream).expect("the card");
            card.finish_batch(&mut stream, &mut space).expect("the card");
        }
        let milliseconds: f32 = stream.times().expect("times").iter().map(|(_, time)| time).sum();
        println!("{sketches:?} of {rows} states of {dim} components: {:.3} ms a point", milliseconds / 8.0);
    }
}
