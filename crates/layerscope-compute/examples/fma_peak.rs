//! The machine's peak of fused multiply-adds: `fma_peak [THREADS]` prints one line of JSON, in GFLOP/s.
//!
//! Independent chains in registers, no memory: the ceiling that products can only approach.

use std::time::Instant;

/// Enough independent vectors to hide the latency of the operation.
const CHAINS: usize = 24;
const LANES: usize = 16;
const STEPS: usize = 20_000_000;

#[inline(always)]
fn chains() -> f32 {
    let mut sums = [[1.0f32; LANES]; CHAINS];
    for _ in 0..STEPS {
        for sum in &mut sums {
            for lane in sum {
                *lane = lane.mul_add(0.999_999, 1e-9);
            }
        }
    }
    sums.iter().flatten().sum()
}

#[cfg(target_arch = "x86_64")]
fn run() -> f32 {
    #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
    fn avx512() -> f32 {
        use std::arch::x86_64::*;
        let (factor, term) = (_mm512_set1_ps(0.999_999), _mm512_set1_ps(1e-9));
        let mut sums = [_mm512_set1_ps(1.0); CHAINS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, term);
            }
        }
        sums.into_iter().map(|sum| _mm512_reduce_add_ps(sum)).sum()
    }
    #[target_feature(enable = "avx2,fma")]
    fn avx2() -> f32 {
        chains()
    }
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
        // SAFETY: just detected.
        unsafe { avx512() }
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: just detected.
        unsafe { avx2() }
    } else {
        chains()
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn run() -> f32 {
    chains()
}

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    let threads = std::env::args().nth(1).and_then(|given| given.parse().ok()).unwrap_or(cores);
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| std::hint::black_box(run())))));
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    let operations = (threads * STEPS * CHAINS * LANES * 2) as f64;
    println!("{{\"gflops\": {:.1}, \"threads\": {threads}}}", operations / best / 1e9);
}
