//! The machine's peak of fused multiply-adds: independent chains in registers, no memory. Products can only approach it.

use std::time::{Duration, Instant};

/// Enough independent vectors to hide the latency of the operation.
const CHAINS: usize = 24;
const LANES: usize = 16;
/// Between two looks at the clock: a few milliseconds.
const STEPS: usize = 200_000;

/// Floating-point operations a second, in units of 10^9, of `threads` threads that work at the same time for about `limit`: what each did
/// in its best few milliseconds, so that whatever else the machine does counts little.
pub fn fma_peak(threads: usize, limit: Duration) -> f64 {
    let operations = (STEPS * CHAINS * LANES * 2) as f64;
    let best = || {
        let begun = Instant::now();
        let mut fastest = f64::INFINITY;
        loop {
            let start = Instant::now();
            std::hint::black_box(chains_of_this_machine());
            fastest = fastest.min(start.elapsed().as_secs_f64());
            if begun.elapsed() >= limit {
                return operations / fastest.max(1e-9) / 1e9;
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(best)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).sum()
    })
}

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
fn chains_of_this_machine() -> f32 {
    use super::{InstructionSet, Isa};
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
    match Isa::detect().set() {
        // SAFETY: values of `Isa` come from detection at run time.
        InstructionSet::Avx512 => unsafe { avx512() },
        // SAFETY: as above.
        InstructionSet::Avx2 => unsafe { avx2() },
        _ => chains(),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn chains_of_this_machine() -> f32 {
    chains()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit of x -> a x + b is the same in every lane, whatever instructions computed it.
    #[test]
    fn every_chain_is_computed() {
        let (mut one, sum) = (1.0f32, chains_of_this_machine());
        (0..STEPS).for_each(|_| one = one.mul_add(0.999_999, 1e-9));
        assert!((sum / (CHAINS * LANES) as f32 - one).abs() < 1e-5 * one, "{sum} of {one}");
    }
}
