//! Every operation on a card against its definition, in every kind of numbers; and what a row's bits must not depend on.
//!
//! Without a card these tests say so and pass. `make test-gpu` asks for one.

mod attention;
mod bits;
mod failures;
mod products;
mod rows;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::thread;

use layerscope_compute::{Backend, ComputeDtype};
use layerscope_cuda::Cuda;
use support::{cards_of_every_dtype, deviation};

/// Operations that multiply no matrices.
const EXACT: f64 = 1e-5;

/// Largest difference of a product, as a share of the result's root mean square.
fn of_product(dtype: ComputeDtype) -> f64 {
    match dtype {
        ComputeDtype::F32 => 2e-5,
        ComputeDtype::F32x3 => 2e-4,
        ComputeDtype::Tf32 | ComputeDtype::F16 => 1e-2,
        ComputeDtype::Bf16 => 8e-2,
    }
}

/// Collects what is too far off, and prints the worst of each operation.
#[derive(Default)]
struct Report {
    worst: BTreeMap<(&'static str, &'static str), f64>,
    failures: Vec<String>,
}

impl Report {
    fn compare(&mut self, cuda: &Cuda, operation: &'static str, tolerance: f64, case: &str, ours: &[f32], reference: &[f32]) {
        let largest = deviation(ours, reference).largest;
        let dtype = cuda.dtype().name();
        let worst = self.worst.entry((operation, dtype)).or_default();
        *worst = worst.max(largest);
        if largest.is_nan() || largest > tolerance {
            self.failures.push(format!("{operation} in {dtype}, {case}: {largest:.1e}, allowed {tolerance:.0e}"));
        }
    }
}

/// The cases with what they should give, if there is a card to compare with. Definitions are slow: one thread a case, once for all cards.
fn with_references<Case: Send + Sync>(cases: Vec<Case>, reference: impl Fn(&Case) -> Vec<f32> + Sync) -> Vec<(Case, Vec<f32>)> {
    if layerscope_cuda::cards().is_err() {
        return Vec::new();
    }
    let references: Vec<Vec<f32>> = thread::scope(|scope| {
        let threads: Vec<_> = cases.iter().map(|case| scope.spawn(|| reference(case))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a definition")).collect()
    });
    cases.into_iter().zip(references).collect()
}

/// Checks every kind of numbers in a thread of its own: kernels are compiled side by side.
fn on_every_card(check: impl Fn(&Cuda, &mut Report) + Sync) {
    let cards = cards_of_every_dtype();
    let reports: Vec<Report> = thread::scope(|scope| {
        let check = &check;
        let run = move |cuda: &Cuda| {
            let mut report = Report::default();
            check(cuda, &mut report);
            report
        };
        let threads: Vec<_> = cards.iter().map(|cuda| scope.spawn(move || run(cuda))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a sound thread")).collect()
    });
    for ((operation, dtype), worst) in reports.iter().flat_map(|report| &report.worst) {
        println!("{operation:24} {dtype:6} {worst:.1e}");
    }
    let failures: Vec<String> = reports.into_iter().flat_map(|report| report.failures).collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// A buffer with these values.
fn filled<B: Backend>(device: &B, stream: &mut B::Stream, values: &[f32]) -> B::Buffer {
    let mut buffer = device.buffer(values.len()).expect("memory");
    device.write(stream, &mut buffer, values);
    buffer
}
