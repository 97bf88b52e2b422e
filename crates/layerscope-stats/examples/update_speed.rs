//! Speed of the default accumulators: prints GB/s of f32 rows, batches of 1024 rows, one core; Zipf-distributed groups, then a few over
//! rows that come from memory.

use std::time::Instant;

use layerscope_stats::sketch::{CorpusMoments, GroupMoments, PointMoments, sample_hash};
use layerscope_stats::{BatchRows, Segments};

const ROWS: usize = 1024;
const GROUPS: usize = 25_000;
const BATCHES: usize = 200;
const STRETCH: usize = 20;
/// More than any cache holds.
const MANY_BATCHES: usize = 160;
const SEQUENCE: usize = 32;

/// Uniform in 0..1, from a counter.
fn uniform(stream: u64, at: u64) -> f64 {
    (sample_hash(stream, at, 0) >> 11) as f64 / (1u64 << 53) as f64
}

/// Zipf with exponent 1 by inversion of the continuous law.
fn zipf(at: u64) -> u32 {
    ((GROUPS as f64).powf(uniform(1, at)) - 1.0) as u32
}

fn main() {
    for dim in [384, 768] {
        let states: Vec<f32> = (0..ROWS * dim).map(|at| uniform(2, at as u64) as f32 - 0.5).collect();
        let batches: Vec<Segments> = (0..BATCHES)
            .map(|batch| Segments::new(&(0..ROWS).map(|row| zipf((batch * ROWS + row) as u64)).collect::<Vec<u32>>()))
            .collect();
        let sequences: Vec<u32> = (0..=ROWS).step_by(SEQUENCE).map(|end| end as u32).collect();
        let groups = batches.iter().map(|batch| batch.segments().len()).sum::<usize>() as f64 / BATCHES as f64;
        println!("d = {dim}, {groups:.0} groups in a batch of {ROWS} rows");

        let speed = |name: &str, update: &mut dyn FnMut(&BatchRows)| {
            // The best of many short stretches, each long enough to find the groups cold: other work on the machine is not ours.
            let mut best = f64::INFINITY;
            for stretch in (0..4).flat_map(|_| batches.chunks(STRETCH)) {
                let start = Instant::now();
                for segments in stretch {
                    update(&BatchRows::new(&states, dim, segments, &sequences).expect("rows fit"));
                }
                best = best.min(start.elapsed().as_secs_f64());
            }
            let bytes = (STRETCH * states.len() * size_of::<f32>()) as f64;
            let rows = (STRETCH * ROWS) as f64;
            println!("  {name:10} {:6.2} GB/s  {:6.0} ns a row", bytes / best / 1e9, best / rows * 1e9);
        };
        speed("norms", &mut |_| ());
        let mut moments = GroupMoments::new(GROUPS, dim);
        speed("groups", &mut |batch| moments.update(batch).expect("rows fit"));
        let mut corpus = CorpusMoments::new(dim);
        speed("corpus", &mut |batch| corpus.update(batch).expect("rows fit"));
        let mut point = PointMoments::new(GROUPS, dim, Some(1e9));
        speed("all", &mut |batch| point.update(batch).expect("rows fit"));
        // A massive state at the start of every sequence, as in GPT-2.
        let mut massive = states.clone();
        massive.chunks_exact_mut(dim * SEQUENCE).for_each(|sequence| sequence[0] = 3000.0);
        let mut point = PointMoments::new(GROUPS, dim, Some(1000.0));
        let start = Instant::now();
        for segments in &batches {
            point.update(&BatchRows::new(&massive, dim, segments, &sequences).expect("rows fit")).expect("rows fit");
        }
        println!("  first pass with massive states {:6.2} GB/s", (BATCHES * states.len() * 4) as f64 / start.elapsed().as_secs_f64() / 1e9);
        let many = states.repeat(MANY_BATCHES);
        for groups in [1, 8, 64] {
            let segments = Segments::new(&(0..4 * ROWS as u32).map(|row| row * 7919 % groups).collect::<Vec<u32>>());
            let mut point = PointMoments::new(groups as usize, dim, None);
            let mut best = f64::INFINITY;
            for _ in 0..5 {
                let start = Instant::now();
                for states in many.chunks_exact(4 * ROWS * dim) {
                    point.update_once(states, &segments).expect("rows fit");
                }
                best = best.min(start.elapsed().as_secs_f64());
            }
            println!("  {groups:2} groups {:6.2} GB/s", (many.len() * size_of::<f32>()) as f64 / best / 1e9);
        }
    }
}
