//! What tests on a card share: the card, random numbers, and how far two results are apart.
#![allow(dead_code)] // every test file uses a part of it

use layerscope_compute::ComputeDtype;
use layerscope_cuda::{Cuda, cards};
use layerscope_testing::made_up_states::Random;

/// The first card, in every kind of numbers; none where there is no card, and that is said. `LAYERSCOPE_GPU` makes that an error.
pub fn cards_of_every_dtype() -> Vec<Cuda> {
    if let Err(missing) = cards() {
        assert!(std::env::var_os("LAYERSCOPE_GPU").is_none(), "a GPU is asked for: {missing}");
        eprintln!("skipped: {missing}");
        return Vec::new();
    }
    ComputeDtype::ALL.into_iter().map(|dtype| Cuda::new(0, dtype).unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// Normal numbers.
pub fn normal(random: &mut Random, count: usize, scale: f64) -> Vec<f32> {
    (0..count).map(|_| (scale * random.normal()) as f32).collect()
}

/// How far numbers are from a reference, as shares of its root mean square.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deviation {
    /// Of the largest difference.
    pub largest: f64,
    /// Of the root mean square of all differences.
    pub rms: f64,
}

/// Not a number counts as infinitely far.
pub fn deviation(ours: &[f32], reference: &[f32]) -> Deviation {
    assert_eq!(ours.len(), reference.len());
    let mean_square = |of: &mut dyn Iterator<Item = f64>| of.map(|x| x * x).sum::<f64>() / reference.len() as f64;
    let scale = mean_square(&mut reference.iter().map(|&x| f64::from(x))).sqrt().max(f64::MIN_POSITIVE);
    let difference = |(&a, &b): (&f32, &f32)| if a.is_nan() { f64::INFINITY } else { (f64::from(a) - f64::from(b)).abs() };
    let largest = ours.iter().zip(reference).map(difference).fold(0.0, f64::max);
    Deviation { largest: largest / scale, rms: mean_square(&mut ours.iter().zip(reference).map(difference)).sqrt() / scale }
}

/// Whether two results have the same bits.
pub fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}
