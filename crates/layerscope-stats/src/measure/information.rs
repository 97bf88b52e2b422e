//! How much two partitions of the same things tell of each other.

use std::collections::BTreeMap;

/// (MI - E) / ((H(a) + H(b)) / 2 - E), E the expectation of MI over permutations (Vinh, Epps & Bailey 2010).
///
/// None if that is 0 / 0: both partitions are one part, or all parts of both are single.
pub fn adjusted_mutual_information(a: &[u32], b: &[u32]) -> Option<f64> {
    assert_eq!(a.len(), b.len(), "two partitions of the same things");
    let n = a.len() as f64;
    let (left, right) = (sizes(a), sizes(b));
    let mut joint: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    a.iter().zip(b).for_each(|(&a, &b)| *joint.entry((a, b)).or_default() += 1);
    let entropy = |sizes: &BTreeMap<u32, u64>| -> f64 { sizes.values().map(|&size| size as f64 / n).map(|p| -p * p.ln()).sum() };
    let mutual: f64 =
        joint.iter().map(|((a, b), &both)| both as f64 / n * (both as f64 * n / (left[a] as f64 * right[b] as f64)).ln()).sum();
    let expected = expected_information(&left, &right, a.len());
    let scale = (entropy(&left) + entropy(&right)) / 2.0 - expected;
    (scale.abs() > 1e-12).then(|| (mutual - expected) / scale)
}

fn sizes(parts: &[u32]) -> BTreeMap<u32, u64> {
    let mut sizes = BTreeMap::new();
    parts.iter().for_each(|part| *sizes.entry(*part).or_default() += 1);
    sizes
}

/// Expected mutual information of two random partitions with these sizes: a sum over the hypergeometric law of every cell.
fn expected_information(left: &BTreeMap<u32, u64>, right: &BTreeMap<u32, u64>, n: usize) -> f64 {
    let factorials = log_factorials(n);
    let f = |k: usize| factorials[k];
    // Many parts have the same size: each pair of sizes is summed once.
    let (left, right) = (multiplicities(left), multiplicities(right));
    let mut sum = 0.0;
    for (&a, &times_a) in &left {
        for (&b, &times_b) in &right {
            let fixed = f(a) + f(b) + f(n - a) + f(n - b) - f(n);
            let mut cell = 0.0;
            for both in (a + b).saturating_sub(n).max(1)..=a.min(b) {
                let chance = (fixed - f(both) - f(a - both) - f(b - both) - f(n + both - a - b)).exp();
                cell += chance * (both as f64 / n as f64) * (n as f64 * both as f64 / (a as f64 * b as f64)).ln();
            }
            sum += (times_a * times_b) as f64 * cell;
        }
    }
    sum
}

/// How many parts have each size.
fn multiplicities(sizes: &BTreeMap<u32, u64>) -> BTreeMap<usize, u64> {
    let mut times = BTreeMap::new();
    sizes.values().for_each(|&size| *times.entry(size as usize).or_default() += 1);
    times
}

/// ln k! for k = 0..=n, by a compensated sum.
fn log_factorials(n: usize) -> Vec<f64> {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    let mut all = vec![0.0];
    for k in 1..=n {
        let term = (k as f64).ln() - lost;
        let next = sum + term;
        lost = (next - sum) - term;
        sum = next;
        all.push(sum);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_computed_by_hand() {
        let close = |a: &[u32], b: &[u32], value: f64| {
            let ours = adjusted_mutual_information(a, b).unwrap();
            assert!((ours - value).abs() < 1e-12, "{ours} {value}");
        };
        close(&[0, 0, 1, 1], &[7, 7, 3, 3], 1.0);
        // All 2 + 2 splits against 2 + 2: MI = 0 here; with probability 1/3 a permutation gives ln 2, so E = ln 2 / 3.
        close(&[0, 0, 1, 1], &[0, 1, 0, 1], -(2f64.ln() / 3.0) / (2f64.ln() - 2f64.ln() / 3.0));
        assert_eq!(adjusted_mutual_information(&[0, 0], &[1, 1]), None);
        assert_eq!(adjusted_mutual_information(&[0, 1], &[1, 2]), None);
    }
}
