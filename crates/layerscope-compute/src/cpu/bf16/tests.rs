//! Every kernel of this machine against the definition: products of rounded operands, added up in f64.

use crate::cpu::{Bf16Kernel, Cpu, Isa};
use crate::{Activation, Backend, HostTensor, HostValues};

fn numbers(seed: u32, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 - 0.5
    };
    (0..len).map(|_| next()).collect()
}

fn rounded(x: f32) -> f64 {
    half::bf16::from_f32(x).to_f64()
}

fn product(cpu: Cpu, rows: &[f32], weight: HostTensor, bias: Option<Vec<f32>>, activation: Option<Activation>) -> Vec<f32> {
    let (n, count) = (weight.rows, rows.len() / weight.columns);
    let layer = cpu.linear(weight, bias).expect("enough memory");
    let mut stream = cpu.stream().expect("a stream");
    let (mut x, mut y) = (cpu.buffer(rows.len()).expect("memory"), cpu.buffer(count * n).expect("memory"));
    cpu.write(&mut stream, &mut x, rows);
    cpu.write(&mut stream, &mut y, &vec![f32::NAN; count * n]);
    cpu.apply_linear(&mut stream, &x, count, &layer, activation, &mut y);
    cpu.read(&mut stream, &y, count * n).expect("no failure")
}

/// Kernels of the processor, and the emulation on every instruction set.
fn kernels() -> Vec<Bf16Kernel> {
    let own = Bf16Kernel::available().into_iter().filter(|kernel| !matches!(kernel, Bf16Kernel::Emulated(_)));
    own.chain(Isa::available().into_iter().map(Bf16Kernel::Emulated)).collect()
}

#[test]
fn every_kernel_agrees_with_the_definition() {
    let shapes =
        [(1, 1, 1), (1, 768, 64), (13, 7, 33), (16, 64, 32), (17, 31, 65), (33, 300, 64), (250, 41, 31), (31, 1601, 100), (600, 770, 96)];
    for (m, k, n) in shapes {
        let (a, w, bias) = (numbers(1, m * k), numbers(2, n * k), numbers(3, n));
        for kernel in kernels() {
            let weight = HostTensor::from_f32(w.clone(), n, k);
            let c = product(Cpu::with_bf16(kernel), &a, weight, Some(bias.clone()), None);
            for i in 0..m {
                for j in 0..n {
                    let terms = (0..k).map(|l| rounded(a[i * k + l]) * rounded(w[j * k + l]));
                    let (exact, size) = terms.fold((f64::from(bias[j]), 1.0), |(sum, size), term| (sum + term, size + term.abs()));
                    let off = (f64::from(c[i * n + j]) - exact).abs();
                    assert!(off <= k as f64 * f64::from(f32::EPSILON) * size, "{kernel} {m}x{k}x{n} at {i},{j}: off by {off:e}");
                }
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_rows() {
    for (k, n) in [(37, 50), (768, 96), (2200, 40)] {
        let a = numbers(3, 610 * k);
        for kernel in kernels() {
            let weight = || HostTensor::from_f32(numbers(4, n * k), n, k);
            let whole = product(Cpu::with_bf16(kernel), &a, weight(), None, Some(Activation::Relu));
            for (m, offset) in [(1, 0), (1, 609), (2, 7), (12, 0), (13, 1), (16, 3), (17, 3), (31, 2), (33, 0), (240, 1), (529, 5)] {
                let c = product(Cpu::with_bf16(kernel), &a[offset * k..(offset + m) * k], weight(), None, Some(Activation::Relu));
                let same = c.iter().zip(&whole[offset * n..]).all(|(x, y)| x.to_bits() == y.to_bits());
                assert!(same, "{kernel}: {m} rows from {offset}, k={k} n={n}");
            }
        }
    }
}

#[test]
fn emulation_has_the_same_bits_on_every_instruction_set() {
    let (m, k, n) = (29, 1000, 70);
    let (a, w) = (numbers(5, m * k), numbers(6, n * k));
    let of = |isa| product(Cpu::with_bf16(Bf16Kernel::Emulated(isa)), &a, HostTensor::from_f32(w.clone(), n, k), None, None);
    let portable = of(Isa::portable());
    assert!(Isa::available().into_iter().all(|isa| of(isa) == portable));
}

#[test]
fn weights_of_bfloat16_are_taken_as_they_are_and_others_rounded() {
    let (m, k, n) = (5, 70, 40);
    let (a, w) = (numbers(7, m * k), numbers(8, n * k));
    let of = |values| product(Cpu::with_bf16(Bf16Kernel::detect()), &a, HostTensor { values, rows: n, columns: k }, None, None);
    let as_bf16 = of(HostValues::Bf16(w.iter().map(|&x| half::bf16::from_f32(x)).collect()));
    assert_eq!(as_bf16, of(HostValues::F32(w.clone())));
    let halves: Vec<half::f16> = w.iter().map(|&x| half::f16::from_f32(x)).collect();
    let widened = halves.iter().map(|x| x.to_f32()).collect();
    assert_eq!(of(HostValues::F16(halves)), of(HostValues::F32(widened)));
}

/// The f32 product of a weight that stays in 16 bits has the bits of the same weight in f32.
#[test]
fn stored_halves_do_not_change_a_bit_of_an_f32_product() {
    for (m, k, n) in [(1, 1, 1), (5, 37, 41), (260, 770, 64), (12, 384, 96), (3, 1601, 33)] {
        let (a, w) = (numbers(9, m * k), numbers(10, n * k));
        let f16s: Vec<half::f16> = w.iter().map(|&x| half::f16::from_f32(x * 1e-3)).collect(); // some of them subnormal
        let bf16s: Vec<half::bf16> = w.iter().map(|&x| half::bf16::from_f32(x)).collect();
        let pairs = [
            (f16s.iter().map(|x| x.to_f32()).collect::<Vec<f32>>(), HostValues::F16(f16s)),
            (bf16s.iter().map(|x| x.to_f32()).collect(), HostValues::Bf16(bf16s)),
        ];
        for (wide, stored) in pairs {
            for isa in Isa::available() {
                let of = |values| product(Cpu::with_isa(isa), &a, HostTensor { values, rows: n, columns: k }, None, None);
                assert_eq!(of(stored.clone()), of(HostValues::F32(wide.clone())), "{isa:?} {m}x{k}x{n}");
            }
        }
    }
}
