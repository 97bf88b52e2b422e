//! Covariance and its spectrum against the definitions taken literally.

mod support;

use layerscope_stats::measure::{Spectrum, top_variance};
use layerscope_stats::sketch::{Covariance, Mergeable, Scatter, Sketch, Tensors};
use layerscope_stats::{BatchRows, NOT_COUNTED, Segments};
use layerscope_testing::made_up_states::{Data, Random, all_kinds};
use support::spectrum::{Oracle, naive_covariance};

/// Feeds whole sequences in batches of about `tokens` rows.
fn covariance(data: &Data, sequences: std::ops::Range<usize>, tokens: usize) -> Covariance {
    let mut sketch = Covariance::new(data.dim, data.massive);
    data.batches(sequences, tokens, |rows| sketch.add(rows, data.massive).unwrap());
    sketch
}

fn whole(data: &Data) -> Covariance {
    covariance(data, 0..data.lengths.len(), 100)
}

/// Counted states, all or without the massive ones.
fn states(data: &Data, typical: bool) -> Vec<Vec<f64>> {
    let counted = (0..data.ids.len()).filter(|&row| data.ids[row] != NOT_COUNTED);
    let wide = counted.map(|row| data.row(row).iter().map(|&x| f64::from(x)).collect::<Vec<f64>>());
    let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    wide.filter(|x| !typical || data.massive.is_none_or(|threshold| norm(x) <= threshold)).collect()
}

#[test]
fn covariances_equal_their_definition() {
    let mut worst: f64 = 0.0;
    for data in all_kinds() {
        let sketch = whole(&data);
        for typical in [false, true] {
            let scatter = if typical { sketch.typical().clone() } else { sketch.all().unwrap().into_owned() };
            let states = states(&data, typical);
            assert_eq!(scatter.n(), states.len() as u64, "{}", data.name);
            if states.len() < 2 {
                assert_eq!(scatter.covariance(), None);
                continue;
            }
            for (ours, theirs) in [
                (scatter.covariance().unwrap(), naive_covariance(&states, data.dim, true)),
                (scatter.second_moment().unwrap(), naive_covariance(&states, data.dim, false)),
            ] {
                for i in 0..data.dim {
                    for j in 0..data.dim {
                        let at = i * data.dim + j;
                        let scale = (theirs[i * data.dim + i] * theirs[j * data.dim + j]).sqrt();
                        let apart = (ours[at] - theirs[at]).abs();
                        assert!(apart <= 1e-12 * scale, "{} {i} {j}: {:e} {:e}", data.name, ours[at], theirs[at]);
                        worst = worst.max(if scale > 0.0 { apart / scale } else { 0.0 });
                    }
                }
            }
        }
    }
    println!("largest error relative to sqrt(C_ii C_jj): {worst:e}");
}

#[test]
fn merges_of_any_partition_equal_the_whole() {
    let mut random = Random::new(3);
    for data in all_kinds() {
        let whole = whole(&data);
        let mut cuts: Vec<usize> = (0..4).map(|_| random.below(data.lengths.len())).collect();
        cuts.extend([0, data.lengths.len()]);
        cuts.sort_unstable();
        let mut merged = Covariance::new(data.dim, data.massive);
        for pair in cuts.windows(2) {
            merged.merge(&covariance(&data, pair[0]..pair[1], 37)).unwrap();
        }
        let (a, b) = (whole.all().unwrap(), merged.all().unwrap());
        assert_eq!(a.n(), b.n());
        for i in 0..data.dim {
            for j in 0..data.dim {
                let scale = (a.get(i, i) * a.get(j, j)).sqrt();
                // Means of 3000 with deviations of 0.03 leave eleven digits.
                assert!((a.get(i, j) - b.get(i, j)).abs() <= 1e-10 * scale, "{} {i} {j}", data.name);
            }
        }
        // And through storage, to the bit.
        let mut stored = Tensors(whole.encode().0.into_iter().map(|(name, tensor)| (name, tensor.into_owned())).collect());
        assert_eq!(Covariance::decode(&mut stored).unwrap(), whole, "{}", data.name);
        assert!(stored.0.is_empty());
    }
    assert!(Covariance::new(3, None).merge(&Covariance::new(4, None)).is_err());
    assert!(Covariance::new(3, None).merge(&Covariance::new(3, Some(1.0))).is_err());
}

#[track_caller]
fn close(what: &str, ours: Option<f64>, theirs: Option<f64>, scale: f64) {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => assert!((ours - theirs).abs() <= 1e-9 * scale, "{what}: {ours} instead of {theirs}"),
        _ => assert_eq!(ours, theirs, "{what}"),
    }
}

#[test]
fn every_measure_of_the_spectrum_equals_its_definition() {
    let mut wide = Data::zipf(41, 700, 60, 40);
    wide.name = "wide";
    let mut few = Data::zipf(42, 15, 40, 5);
    few.name = "fewer states than components";
    for data in all_kinds().into_iter().chain([wide, few]) {
        let scatter = whole(&data).all().unwrap().into_owned();
        let states = states(&data, false);
        let ours = Spectrum::of_covariance(&scatter);
        if states.len() < 2 {
            assert_eq!(ours, None);
            continue;
        }
        let ours = ours.unwrap();
        let theirs = Oracle::new(&states, data.dim, true);
        let name = data.name;
        let defined = |value: f64| theirs.defined().then_some(value);
        let (first, sum) = (theirs.values[0], theirs.values.iter().sum::<f64>());
        assert_eq!(ours.eigenvalues().len(), theirs.values.len(), "{name}");
        for (ours, theirs) in ours.eigenvalues().iter().zip(&theirs.values) {
            close(name, Some(*ours), Some(*theirs), first * 1e-3);
        }
        close(name, ours.anisotropy(), defined(first / sum), 1.0);
        close(name, ours.participation_ratio(), defined(theirs.participation_ratio()), theirs.participation_ratio());
        close(name, ours.isoscore(), theirs.isoscore(), 1.0);
        close(name, ours.effective_rank(), defined(theirs.effective_rank()), theirs.effective_rank());
        close(name, ours.stable_rank(), defined(sum / first), sum / first);
        close(name, ours.alpha_req(), theirs.alpha_req(), 1.0);
        let uncentred = Oracle::new(&states, data.dim, false);
        let rankme = Spectrum::of_second_moment(&scatter).unwrap().rankme();
        close(name, rankme, uncentred.defined().then(|| uncentred.rankme()), uncentred.rankme());
        let covariance = naive_covariance(&states, data.dim, true);
        let mut variances: Vec<f64> = (0..data.dim).map(|i| covariance[i * data.dim + i]).collect();
        variances.sort_by(|a, b| b.total_cmp(a));
        for k in [1, 3, 10] {
            let share = (k <= data.dim && theirs.defined()).then(|| variances[..k].iter().sum::<f64>() / variances.iter().sum::<f64>());
            close(name, top_variance(&scatter, k), share, 1.0);
        }
    }
}

fn scatter_of(states: &[f32], dim: usize) -> Scatter {
    let rows = states.len() / dim;
    let segments = Segments::new(&vec![0; rows]);
    let mut sketch = Covariance::new(dim, None);
    sketch.add(&BatchRows::new(states, dim, &segments, &[]).unwrap(), None).unwrap();
    sketch.typical().clone()
}

#[test]
fn equal_states_have_no_variance_at_all() {
    // 1 / 49 is one of the numbers with n (1 / n) != 1.
    for n in [3, 49, 107] {
        let scatter = scatter_of(&[0.1f32, -3000.7, 1e-30, 1e30].repeat(n), 4);
        assert_eq!(scatter.covariance(), Some(vec![0.0; 16]), "{n}");
    }
}

#[test]
fn clouds_of_known_spectrum() {
    let mut random = Random::new(8);
    let (n, dim) = (40_000, 8);
    let gaussian: Vec<f32> = (0..n * dim).map(|_| random.normal() as f32).collect();
    let score = Spectrum::of_covariance(&scatter_of(&gaussian, dim)).unwrap().isoscore().unwrap();
    assert!(score > 0.999, "{score}");
    // Exactly equal variance along k axes: plus and minus the unit vectors of k components.
    for k in 1..=dim {
        let axes: Vec<f32> = (0..2 * k).flat_map(|at| (0..dim).map(move |i| if i == at / 2 { [1.0, -1.0][at % 2] } else { 0.0 })).collect();
        let spectrum = Spectrum::of_covariance(&scatter_of(&axes, dim)).unwrap();
        close("k axes", spectrum.isoscore(), Some((k as f64 - 1.0) / (dim as f64 - 1.0)), 1.0);
        close("k axes", spectrum.participation_ratio(), Some(k as f64), 1.0);
        close("k axes", spectrum.effective_rank(), Some(k as f64), 1.0);
        close("k axes", spectrum.stable_rank(), Some(k as f64), 1.0);
    }
    // A line has one direction; a single point, and many equal ones, have none.
    let line: Vec<f32> = (0..50).flat_map(|at| (0..dim).map(move |i| (at * (i + 1)) as f32)).collect();
    let spectrum = Spectrum::of_covariance(&scatter_of(&line, dim)).unwrap();
    close("line", spectrum.anisotropy(), Some(1.0), 1.0);
    close("line", spectrum.isoscore(), Some(0.0), 1.0);
    assert_eq!(Spectrum::of_covariance(&scatter_of(&line[..dim], dim)), None);
    let equal = Spectrum::of_covariance(&scatter_of(&[0.1; 80], dim)).unwrap();
    let nothing = [equal.anisotropy(), equal.isoscore(), equal.effective_rank(), equal.stable_rank(), equal.alpha_req()];
    assert_eq!(nothing, [None; 5]);
}
