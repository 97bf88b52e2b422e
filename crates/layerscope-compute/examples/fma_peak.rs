//! The machine's peak of fused multiply-adds: `fma_peak [THREADS]` prints one line of JSON, in GFLOP/s.

use std::time::Duration;

use layerscope_compute::cpu::fma_peak;

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    let threads = std::env::args().nth(1).and_then(|given| given.parse().ok()).unwrap_or(cores);
    println!("{{\"gflops\": {:.1}, \"threads\": {threads}}}", fma_peak(threads, Duration::from_secs(1)));
}
