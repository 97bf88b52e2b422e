//! Sketches do not depend on the number of workers, a run continues where another stopped, and a failure stops all workers.

use layerscope_compute::Cpu;
use layerscope_corpus::{DocumentId, Sequence, SpoolBatch, UNCOUNTED};
use layerscope_model::Model;
use layerscope_stats::{NOT_COUNTED, PointShape};

use super::*;

const GROUPS: usize = 80;
const ALL: SketchSet =
    SketchSet::of(&[SketchKind::Units, SketchKind::Covariance, SketchKind::Pairs, SketchKind::Shapes, SketchKind::Blocks]);

fn transformer() -> Transformer<Cpu> {
    Model::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gpt2/published").as_ref())
        .expect("a fixture")
        .load(Cpu::new())
        .expect("weights")
}

/// Forty batches of three sequences; the first token of each is read but not counted.
fn batches() -> Vec<Items> {
    let id = |i: usize| ((i * 7919) % GROUPS) as u32;
    let sequence = |s: usize| (0..1 + s * 5 % 23).map(|i| id(s * 31 + i)).collect::<Vec<u32>>();
    let batch = |index: usize| {
        let sequences: Vec<Vec<u32>> = (0..3).map(|s| sequence(index * 3 + s)).collect();
        let group = |(i, id): (usize, &u32)| if i == 0 { UNCOUNTED } else { *id };
        let entry = |(s, ids): (usize, &Vec<u32>)| {
            let document = DocumentId { file: 0, record: (index * 3 + s) as u64, chunk: 0 };
            Sequence { document, first: 0, row: 0, offset: 0, length: ids.len() as u32, counted: ids.len() as u32 - 1 }
        };
        let ends = sequences.iter().scan(0, |end, ids| {
            *end += ids.len() as u32;
            Some(*end)
        });
        Items::new(SpoolBatch {
            index,
            ids: sequences.concat(),
            groups: sequences.iter().flat_map(|ids| ids.iter().enumerate().map(group)).collect(),
            offsets: std::iter::once(0).chain(ends).collect(),
            sequences: sequences.iter().enumerate().map(entry).collect(),
        })
    };
    (0..40).map(batch).collect()
}

fn empty(transformer: &Transformer<Cpu>) -> Vec<(Point, PointState)> {
    let dim = transformer.spec().width;
    let shape = |previous| PointShape { groups: GROUPS, dim, previous, kept: 0, chosen: 0, sketches: ALL };
    let state = |(i, at): (usize, Point)| (at, PointState::new(&shape((i > 0).then_some(dim)), None));
    transformer.points().into_iter().enumerate().map(state).collect()
}

fn settings(kept: &Kept, threads: usize) -> WorkSettings<'_> {
    WorkSettings { kept, sketches: ALL, before: None, on_error: OnError::Fail, threads, rows: 100, passage: Passage::default() }
}

fn finished(workers: &Workers<'_, Cpu>) -> Vec<(Point, PointState)> {
    let copied = workers.with_states(|states| Ok(states.iter().map(|(at, state)| (*at, (*state).clone())).collect()));
    copied.expect("states")
}

fn states(transformer: &Transformer<Cpu>, threads: usize) -> Vec<(Point, PointState)> {
    let (kept, batches) = (Kept::default(), batches());
    let workers = Workers::new(transformer, empty(transformer), 0, settings(&kept, threads)).expect("workers");
    let next = workers.run(0, &|i| Ok(batches.get(i).cloned()), Duration::MAX, &mut |_| false).expect("a run");
    assert_eq!(next, batches.len());
    assert_eq!(workers.progress.documents(), 120);
    finished(&workers)
}

fn counted(batches: &[Items]) -> u64 {
    batches.iter().flat_map(|items| &items.groups).filter(|group| **group != NOT_COUNTED).count() as u64
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let transformer = transformer();
    let alone = states(&transformer, 1);
    assert_eq!(alone[0].1.moments.all().expect("moments").corpus().n(), counted(&batches()));
    for threads in [2, 3, 8] {
        assert!(states(&transformer, threads) == alone, "{threads} threads");
    }
}

#[test]
fn a_run_continues_where_another_stopped() {
    let (transformer, batches, kept) = (transformer(), batches(), Kept::default());
    let first = Workers::new(&transformer, empty(&transformer), 0, settings(&kept, 2)).expect("workers");
    let next = first.run(0, &|i| Ok(batches[..17].get(i).cloned()), Duration::MAX, &mut |_| false).expect("the first half");
    assert_eq!(next, 17);
    let second = Workers::new(&transformer, finished(&first), next, settings(&kept, 2)).expect("workers");
    second.run(next, &|i| Ok(batches.get(i).cloned()), Duration::MAX, &mut |_| false).expect("the second half");
    assert!(finished(&second) == states(&transformer, 1));
}

#[test]
fn a_pause_leaves_every_point_before_the_same_batch() {
    let (transformer, batches, kept) = (transformer(), batches(), Kept::default());
    let workers = Workers::new(&transformer, empty(&transformer), 0, settings(&kept, 3)).expect("workers");
    // Batches come slowly, so that pauses fall between them.
    let slowly = |i: usize| {
        std::thread::sleep(Duration::from_millis(10));
        Ok(batches.get(i).cloned())
    };
    let (mut next, mut pauses) = (0, 0);
    while next < batches.len() {
        next = workers.run(next, &slowly, Duration::MAX, &mut |_| true).expect("a leg");
        pauses += 1;
        let expected = counted(&batches[..next]);
        for (at, state) in finished(&workers) {
            assert_eq!(state.moments.all().expect("moments").corpus().n(), expected, "{at}");
        }
    }
    assert!(pauses > 1, "it was never paused");
    assert!(finished(&workers) == states(&transformer, 1));
}

#[test]
fn when_the_time_is_over_every_worker_has_done_a_batch() {
    let (transformer, batches, kept) = (transformer(), batches(), Kept::default());
    for threads in 1..4 {
        let workers = Workers::new(&transformer, empty(&transformer), 0, settings(&kept, threads)).expect("workers");
        let next = workers.run(0, &|i| Ok(batches.get(i).cloned()), Duration::ZERO, &mut |_| false).expect("a batch each");
        assert_eq!(next, threads);
    }
}

#[test]
fn a_failure_stops_everyone_and_names_its_cause() {
    let (transformer, mut batches, kept) = (transformer(), batches(), Kept::default());
    let bad = SpoolBatch { index: 20, ids: vec![1, 9999], groups: vec![1, 2], offsets: vec![0, 2], sequences: Vec::new() };
    batches[20] = Items::new(bad);
    for _ in 0..20 {
        let workers = Workers::new(&transformer, empty(&transformer), 0, settings(&kept, 4)).expect("workers");
        let failed = workers.run(0, &|i| Ok(batches.get(i).cloned()), Duration::MAX, &mut |_| false);
        let line = failed.expect_err("a bad batch").to_string();
        assert!(line.contains("id 9999"), "{line}");
    }
}
