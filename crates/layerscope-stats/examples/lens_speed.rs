//! Cost of everything beyond norms and cosines: microseconds a row and point while streaming, on one thread; then the time that the
//! finished tables of one point take.
//!
//! `lens_speed` prints all of it at d = 768; `lens_speed dimension FILE ROWS DIM` estimates the dimension of raw f32 rows, with everything that belongs to
//! the measure.

use std::time::Instant;

use layerscope_compute::cpu::Isa;
use layerscope_stats::measure::{Clusters, Dimensions, NEIGHBOURS, Points, Spectrum, linearity, log_partition, silhouettes};
use layerscope_stats::sketch::{
    BatchCovariance, BatchSpace, CentredRows, Covariance, CrossScatter, Mergeable, PointMoments, Scatter, SequenceShape, Sketch,
    SketchKind, SketchSet, SketchShape, Sketches, sample_hash,
};
use layerscope_stats::{BatchRows, Segments};

const ROWS: usize = 1024;
const DIM: usize = 768;
const SEQUENCE: usize = 26; // the mean length of a sentence of the novels

fn normal(stream: u64, at: u64) -> f32 {
    let sum: u64 = (0..4).map(|k| sample_hash(stream, at, k) >> 40).sum();
    sum as f32 / (1 << 24) as f32 - 2.0
}

/// Seconds that this thread has run, where the system tells, so that other work on the machine does not count.
fn seconds(since: Instant) -> f64 {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = counted.and_then(|text| text.split(' ').next().and_then(|first| first.parse::<f64>().ok()));
    nanoseconds.map_or_else(|| since.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

/// Mean over many, in microseconds a row.
fn streaming(name: &str, mut work: impl FnMut()) {
    const TIMES: usize = 40;
    let (origin, start) = (Instant::now(), seconds(Instant::now()));
    (0..TIMES).for_each(|_| work());
    println!("  {name:28} {:8.2} us a row", (seconds(origin) - start) * 1e6 / (TIMES * ROWS) as f64);
}

fn timed<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("  {name:28} {:8.3} s", start.elapsed().as_secs_f64());
    result
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    if let [mode, file, rows, dim] = arguments.as_slice()
        && mode == "dimension"
    {
        let bytes = std::fs::read(file).expect("the file can be read");
        let states: Vec<f32> = bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect();
        let (rows, dim): (usize, usize) = (rows.parse().expect("rows"), dim.parse().expect("dim"));
        assert_eq!(states.len(), rows * dim, "the file holds rows x dim numbers");
        let start = Instant::now();
        let (found, _) = Dimensions::with_batches(&states, dim, NEIGHBOURS, threads);
        println!("{} {} {}", start.elapsed().as_secs_f64(), found.twonn.value.unwrap_or(0.0), found.twonn_facco.value.unwrap_or(0.0));
        return;
    }
    let make = |stream: u64| -> Vec<f32> { (0..ROWS * DIM).map(|at| normal(stream, at as u64)).collect() };
    let (states, next) = (make(1), make(2));
    let segments = Segments::new(&(0..ROWS as u32).collect::<Vec<u32>>());
    let sequences: Vec<u32> = (0..=ROWS).step_by(SEQUENCE).map(|end| end as u32).collect();
    let batch = BatchRows::new(&states, DIM, &segments, &sequences).expect("rows fit");
    let next_batch = BatchRows::new(&next, DIM, &segments, &sequences).expect("rows fit");
    println!("streaming, d = {DIM}, batches of {ROWS} rows, one thread");
    let mut point = PointMoments::new(ROWS, DIM, Some(1e9));
    streaming("norms and cosines", || point.update(&batch).expect("rows fit"));
    let (mut centred, mut other) = (CentredRows::new(), CentredRows::new());
    other.fill(&next_batch);
    streaming("centre and pack", || centred.fill(&batch));
    let (mut own, mut covariance) = (BatchCovariance::default(), Covariance::new(DIM, None));
    streaming("covariance of a batch", || own.fill(None, &batch, &centred));
    streaming("absorb covariance", || covariance.update(&own, &batch).expect("same shape"));
    let (mut pair, mut pairs) = (CrossScatter::default(), CrossScatter::new(DIM, DIM));
    streaming("pairs of a batch", || pair.fill(Isa::detect(), &centred, &other).expect("same rows"));
    streaming("absorb pairs", || pairs.merge(&pair).expect("same shape"));
    let shape = SketchShape { dim: DIM, previous: Some(DIM), massive: None };
    streaming("sequences", || SequenceShape::empty(&shape).expect("any shape").add(&batch, None).expect("rows fit"));
    let set = SketchSet::of(&[SketchKind::Covariance, SketchKind::Pairs, SketchKind::Shapes]);
    let (mut space, mut sketches) = (BatchSpace::new(), Sketches::new(set, &shape));
    space.prepare(set, None, &next_batch).expect("rows fit");
    streaming("all of it", || {
        space.prepare(set, None, &batch).expect("rows fit");
        sketches.update(space.contribution(), &batch).expect("rows fit");
    });

    println!("finish, d = {DIM}, a sample of 20000, {threads} threads");
    let mut scatter = Scatter::new(DIM);
    scatter.merge(covariance.typical()).expect("same shape");
    timed("eigenvalues", || Spectrum::of_covariance(&scatter));
    let mut next_covariance = Covariance::new(DIM, None);
    (0..12).for_each(|_| next_covariance.add(&next_batch, None).expect("rows fit"));
    timed("linearity", || linearity(&scatter, next_covariance.typical(), &pairs));
    let sample: Vec<f32> = (0..20_000 * DIM).map(|at| normal(3, at as u64)).collect();
    timed("TwoNN", || Dimensions::new(&sample, DIM, 0, threads));
    timed("TwoNN and MLE", || Dimensions::new(&sample, DIM, 20, threads));
    timed("partition", || log_partition(&sample, DIM, false));
    let points = Points::new(&sample, DIM);
    let clusters = timed("k-means, K = 50", || Clusters::new(&points, 50)).expect("enough points");
    timed("silhouette", || silhouettes(&points, &[&clusters], threads));
}
