//! Sketches do not depend on the number of workers, and a failure stops all of them.

mod support;

use layerscope::collect::{Collector, GroupedBatch};
use layerscope_compute::Cpu;
use layerscope_model::{Batch, Model, Point, Transformer};
use layerscope_stats::NOT_COUNTED;
use layerscope_stats::sketch::PointSketch;
use support::root;

const GROUPS: usize = 80;

fn transformer() -> Transformer<Cpu> {
    Model::open(&root().join("fixtures/gpt2/published")).expect("a fixture").load(Cpu::new()).expect("weights")
}

/// Forty batches of a few sequences; the first token of each is read but not counted.
fn batches() -> Vec<GroupedBatch> {
    let id = |i: usize| ((i * 7919) % GROUPS) as u32;
    let sequence = |s: usize| (0..1 + s * 5 % 23).map(|i| id(s * 31 + i)).collect::<Vec<u32>>();
    let batch = |b: usize| {
        let sequences: Vec<Vec<u32>> = (0..3).map(|s| sequence(b * 3 + s)).collect();
        let group = |(i, id): (usize, &u32)| if i == 0 { NOT_COUNTED } else { *id };
        let groups = sequences.iter().flat_map(|ids| ids.iter().enumerate().map(group)).collect();
        GroupedBatch { batch: Batch::pack(&sequences), groups }
    };
    (0..40).map(batch).collect()
}

fn collector(transformer: &Transformer<Cpu>) -> Collector {
    let sketch = |at: Point| (at, PointSketch::new(GROUPS, transformer.spec().width, None));
    Collector::new(transformer.points().into_iter().map(sketch).collect(), 0)
}

fn sketches(transformer: &Transformer<Cpu>, threads: usize) -> Vec<(Point, PointSketch)> {
    let (collector, batches) = (collector(transformer), batches());
    collector.run(transformer, 0, threads, &|i| Ok(batches.get(i).cloned())).expect("a run");
    collector.finish()
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let transformer = transformer();
    let alone = sketches(&transformer, 1);
    let counted: usize = batches().iter().map(|batch| batch.groups.iter().filter(|group| **group != NOT_COUNTED).count()).sum();
    assert_eq!(alone[0].1.all().expect("moments").corpus().n(), counted as u64);
    for threads in [2, 3, 8] {
        assert!(sketches(&transformer, threads) == alone, "{threads} threads");
    }
}

#[test]
fn a_run_continues_where_another_stopped() {
    let (transformer, batches) = (transformer(), batches());
    let first = collector(&transformer);
    first.run(&transformer, 0, 2, &|i| Ok(batches[..17].get(i).cloned())).expect("the first half");
    let second = Collector::new(first.finish(), 17);
    second.run(&transformer, 17, 2, &|i| Ok(batches.get(i).cloned())).expect("the second half");
    assert!(second.finish() == sketches(&transformer, 1));
}

#[test]
fn a_failure_stops_everyone_and_names_its_cause() {
    let (transformer, mut batches) = (transformer(), batches());
    batches[20].batch = Batch::pack([[1u32, 9999]]);
    for _ in 0..20 {
        let failed = collector(&transformer).run(&transformer, 0, 4, &|i| Ok(batches.get(i).cloned())).expect_err("a bad batch");
        assert!(failed.to_string().contains("id 9999"), "{failed}");
    }
}
