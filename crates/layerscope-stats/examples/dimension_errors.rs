//! Standard errors of the intrinsic dimension beside the spread of the estimates over many simulated clouds. docs/accuracy.md quotes it.
//!
//! `dimension_errors` prints the table for Gaussian clouds of 2,000 points in 2, 5, 10 and 20 dimensions, 1,000 of each;
//! `dimension_errors SHAPE POINTS CLOUDS NEIGHBOURS DIMENSION...` prints another one. Shapes are
//! - `gaussian`: the standard normal distribution in d dimensions,
//! - `torus`: uniform on the flat torus, d circles of radius 1 in 2 d dimensions,
//! - `linear`: a Gaussian cloud under a random linear map into 3 d + 10 dimensions, the same map for all clouds.

use std::fmt::Display;
use std::str::FromStr;

use layerscope_stats::measure::{Dimensions, Estimate, NEIGHBOURS};
use layerscope_stats::sketch::sample_hash;
use layerscope_testing::made_up_states::Random;

const SEED: u64 = 0;
const THREADS: usize = 2;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => table("gaussian", 2000, 1000, NEIGHBOURS, &[2, 5, 10, 20]),
        [shape, points, clouds, neighbours, dimensions @ ..] if !dimensions.is_empty() => {
            let dimensions: Vec<usize> = dimensions.iter().map(|text| parsed(text)).collect();
            table(shape, parsed(points), parsed(clouds), parsed(neighbours), &dimensions);
        }
        _ => panic!("usage: dimension_errors [gaussian|torus|linear POINTS CLOUDS NEIGHBOURS DIMENSION...]"),
    }
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> T {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn table(shape: &str, points: usize, clouds: usize, neighbours: usize, dimensions: &[usize]) {
    println!("{shape}, {points} points, {clouds} clouds each, {neighbours} neighbours, seed {SEED}");
    println!("dimension  estimator       mean         sd  mean s.e.  sd / mean s.e.");
    for &dimension in dimensions {
        let found = simulated(shape, points, clouds, neighbours, dimension);
        for (name, of) in [("twonn", (|found| found.twonn) as fn(&Dimensions) -> Estimate), ("mle", |found| found.mle)] {
            let of = |part: fn(Estimate) -> Option<f64>| -> Vec<f64> {
                found.iter().map(|found| part(of(found)).expect("clouds have a dimension")).collect()
            };
            let (values, errors) = (of(|own| own.value), of(|own| own.se));
            let (spread, error) = (deviation(&values), mean(&errors));
            println!("{dimension:9}  {name:9}  {:9.4}  {spread:9.5}  {error:9.5}  {:14.3}", mean(&values), spread / error);
        }
    }
}

/// The estimates of every cloud, in order.
fn simulated(shape: &str, points: usize, clouds: usize, neighbours: usize, dimension: usize) -> Vec<Dimensions> {
    let work = |first: usize| {
        let of = move |cloud: usize| {
            let (states, width) = states(shape, points, dimension, cloud as u64);
            (cloud, Dimensions::new(&states, width, neighbours, 1))
        };
        (first..clouds).step_by(THREADS).map(of).collect::<Vec<_>>()
    };
    let mut all: Vec<(usize, Dimensions)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|first| scope.spawn(move || work(first))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    all.sort_by_key(|(cloud, _)| *cloud);
    all.into_iter().map(|(_, found)| found).collect()
}

/// One cloud, and how many components its points have.
fn states(shape: &str, points: usize, dimension: usize, cloud: u64) -> (Vec<f32>, usize) {
    let mut random = Random::new(sample_hash(SEED, cloud, dimension as u32));
    match shape {
        "gaussian" => ((0..points * dimension).map(|_| random.normal() as f32).collect(), dimension),
        "torus" => {
            let pair = |angle: f64| [angle.cos() as f32, angle.sin() as f32];
            ((0..points * dimension).flat_map(|_| pair(std::f64::consts::TAU * random.uniform())).collect(), 2 * dimension)
        }
        "linear" => {
            let width = 3 * dimension + 10;
            let mut of_map = Random::new(SEED + 1);
            let map: Vec<f64> = (0..dimension * width).map(|_| of_map.normal()).collect();
            let mut states = Vec::with_capacity(points * width);
            for _ in 0..points {
                let point: Vec<f64> = (0..dimension).map(|_| random.normal()).collect();
                states.extend((0..width).map(|i| point.iter().enumerate().map(|(j, x)| x * map[j * width + i]).sum::<f64>() as f32));
            }
            (states, width)
        }
        _ => panic!("no shape {shape}"),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation, divisor n - 1.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}
