//! Speed of `C = A W^T` on two threads, each with its own product, and whether a row's bits depend on how many rows are
//! computed with it. Prints a table in GFLOP/s.

use std::hint::black_box;
use std::time::Instant;

use layerscope_compute::cpu::{Epilogue, Floats, Isa, Panels, Part, Rows, multiply};

/// One problem: rows, inner dimension, columns.
#[derive(Clone, Copy)]
struct Shape {
    m: usize,
    k: usize,
    n: usize,
}

/// `c = a w^T` for row-major `a [m, k]`, `w [n, k]`, `c [m, n]`.
type Product = fn(Shape, &[f32], &[f32], &Panels, &mut [f32], &mut Floats);

fn with_matrixmultiply(Shape { m, k, n }: Shape, a: &[f32], w: &[f32], _: &Panels, c: &mut [f32], _: &mut Floats) {
    let (k_stride, n_stride) = (k as isize, n as isize);
    // SAFETY: the slices have the extents of the shape.
    unsafe { matrixmultiply::sgemm(m, k, n, 1.0, a.as_ptr(), k_stride, 1, w.as_ptr(), 1, k_stride, 0.0, c.as_mut_ptr(), n_stride, 1) }
}

fn with_gemm(Shape { m, k, n }: Shape, a: &[f32], w: &[f32], _: &Panels, c: &mut [f32], _: &mut Floats) {
    let (a_stride, c_stride) = (k as isize, n as isize);
    let none = gemm::Parallelism::None;
    let (c, a, w) = (c.as_mut_ptr(), a.as_ptr(), w.as_ptr());
    // SAFETY: the slices have the extents of the shape.
    unsafe { gemm::gemm(m, n, k, c, 1, c_stride, false, a, 1, a_stride, w, a_stride, 1, 0.0, 1.0, false, false, false, none) }
}

fn with_faer(Shape { m, k, n }: Shape, a: &[f32], w: &[f32], _: &Panels, c: &mut [f32], _: &mut Floats) {
    let a = faer::MatRef::from_row_major_slice(a, m, k);
    let w = faer::MatRef::from_row_major_slice(w, n, k);
    let c = faer::MatMut::from_row_major_slice_mut(c, m, n);
    faer::linalg::matmul::matmul(c, faer::Accum::Replace, a, w.transpose(), 1.0f32, faer::Par::Seq);
}

fn with_ours(Shape { m, k, n }: Shape, a: &[f32], _: &[f32], panels: &Panels, c: &mut [f32], packed: &mut Floats) {
    let rows = Rows { data: a, stride: k, count: m };
    multiply(Isa::detect(), rows, panels, &Part::all(panels), c, n, Epilogue::default(), packed);
}

const PRODUCTS: [(&str, Product); 4] =
    [("matrixmultiply", with_matrixmultiply), ("gemm", with_gemm), ("faer", with_faer), ("ours, packed", with_ours)];

fn numbers(len: usize, factor: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * factor) % 1013) as f32 / 1013.0 - 0.5).collect()
}

fn seconds(shape: Shape, product: Product, repetitions: usize) -> f64 {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let start = std::sync::Barrier::new(threads);
    let times: Vec<f64> = std::thread::scope(|scope| {
        let work = || {
            let (a, w) = (numbers(shape.m * shape.k, 7919), numbers(shape.n * shape.k, 104_729));
            let panels = Panels::from_rows(&w, shape.n, shape.k);
            let (mut c, mut packed) = (vec![0.0; shape.m * shape.n], Floats::default());
            product(shape, &a, &w, &panels, &mut c, &mut packed);
            start.wait();
            let begin = Instant::now();
            (0..repetitions).for_each(|_| product(shape, &a, &w, &panels, black_box(&mut c), &mut packed));
            begin.elapsed().as_secs_f64() / threads as f64
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no product panics")).collect()
    });
    times.into_iter().fold(0.0, f64::max) / repetitions as f64
}

/// The row counts, of those tried, whose rows differ in bits from the same rows of a large product.
fn variant_row_counts(k: usize, n: usize, product: Product) -> Vec<usize> {
    let all = 300;
    let (a, w) = (numbers(all * k, 7919), numbers(n * k, 104_729));
    let panels = Panels::from_rows(&w, n, k);
    let rows = |m: usize| {
        let mut c = vec![0.0; m * n];
        product(Shape { m, k, n }, &a[..m * k], &w, &panels, &mut c, &mut Floats::default());
        c
    };
    let whole = rows(all);
    (1..=64).filter(|&m| rows(m).iter().zip(&whole).any(|(x, y)| x.to_bits() != y.to_bits())).collect()
}

fn main() {
    println!("GFLOP/s of all threads together, best of five rounds taken in turn\n");
    print!("{:>6}{:>6}{:>6}", "m", "k", "n");
    PRODUCTS.iter().for_each(|(name, _)| print!("{name:>16}"));
    println!();
    for m in [512, 1024] {
        for (k, n) in [(384, 384), (384, 1152), (384, 1536), (1536, 384), (768, 768), (768, 2304), (768, 3072), (3072, 768)] {
            let shape = Shape { m, k, n };
            let operations = 2.0 * (m * k * n) as f64;
            let repetitions = (3e9 / operations).ceil() as usize;
            let mut best = [f64::INFINITY; PRODUCTS.len()];
            for _ in 0..5 {
                for (best, (_, product)) in best.iter_mut().zip(PRODUCTS) {
                    *best = best.min(seconds(shape, product, repetitions));
                }
            }
            print!("{m:>6}{k:>6}{n:>6}");
            best.iter().for_each(|seconds| print!("{:>16.0}", operations / seconds / 1e9));
            println!();
        }
    }
    println!("\nrow counts of 1..64 at which a row's bits differ from those in a product of 300 rows");
    for (name, product) in PRODUCTS {
        for (k, n) in [(16, 16), (37, 50), (64, 1000), (384, 1536), (4096, 128)] {
            println!("{name:>16}  k={k:<5} n={n:<5} {:?}", variant_row_counts(k, n, product));
        }
    }
}
