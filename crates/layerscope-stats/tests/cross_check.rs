//! Our values beside those of IsoScore 2.0.1, scikit-dimension 0.5.0, DADApy 0.3.4 and scikit-learn 1.9.1, as `tools/cross_check.py` wrote
//! them down; it also says where they deviate and why.

use layerscope_stats::measure::{Dimensions, Spectrum, adjusted_mutual_information, isoscore_star};
use layerscope_stats::sketch::{Covariance, Scatter, Sketch};
use layerscope_stats::{BatchRows, Segments};

const VALUES: &str = include_str!("data/cross_check.txt");

/// Rows and components of an npy file of f32.
fn cloud(bytes: &[u8]) -> (Vec<f32>, usize) {
    let header = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let text = std::str::from_utf8(&bytes[10..10 + header]).unwrap();
    assert!(text.contains("'<f4'") && text.contains("'fortran_order': False"), "{text}");
    let shape = text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).unwrap().0;
    let dim = shape.split(',').nth(1).unwrap().trim().parse().unwrap();
    (bytes[10 + header..].chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect(), dim)
}

fn scatter(states: &[f32], dim: usize) -> Scatter {
    let segments = Segments::new(&vec![0; states.len() / dim]);
    let mut sketch = Covariance::new(dim, None);
    sketch.add(&BatchRows::new(states, dim, &segments, &[]).unwrap(), None).unwrap();
    sketch.typical().clone()
}

#[test]
fn clouds_have_the_values_that_other_programs_give() {
    let clouds: [(&str, &[u8]); 4] = [
        ("gaussian", include_bytes!("data/gaussian.npy")),
        ("spread", include_bytes!("data/spread.npy")),
        ("roll", include_bytes!("data/roll.npy")),
        ("wide", include_bytes!("data/wide.npy")),
    ];
    for (name, bytes) in clouds {
        let (states, dim) = cloud(bytes);
        let all = scatter(&states, dim);
        let half = scatter(&states[..states.len() / dim / 2 * dim], dim);
        let found = Dimensions::new(&states, dim, 20, 1);
        let ours = [
            ("isoscore", Spectrum::of_covariance(&all).unwrap().isoscore(), 1e-6),
            ("isoscore_star", isoscore_star(&half, &all), 1e-6),
            ("skdim_twonn_mle", found.twonn.value, 1e-9),
            ("skdim_twonn_line", found.twonn_facco.value, 1e-9),
            ("skdim_mle", found.mle.value, 1e-9),
            ("dadapy_twonn_line", found.twonn_facco.value, 1e-6),
        ];
        for (key, ours, tolerance) in ours {
            let theirs = value(name, key);
            assert!((ours.unwrap() - theirs).abs() <= tolerance * theirs, "{name} {key}: {ours:?} instead of {theirs}");
        }
    }
}

#[test]
fn partitions_have_the_information_that_another_program_gives() {
    let labels = |label: fn(u32) -> u32| (0..500).map(label).collect::<Vec<u32>>();
    for (key, a, b) in [
        ("squares", labels(|i| i * i % 7), labels(|i| i % 11)),
        ("related", labels(|i| i % 6), labels(|i| i % 12 / 2)),
        ("many", labels(|i| i % 3), labels(|i| i % 170)),
    ] {
        let (ours, theirs) = (adjusted_mutual_information(&a, &b).unwrap(), value("information", key));
        assert!((ours - theirs).abs() <= 1e-9, "{key}: {ours} instead of {theirs}");
    }
}

/// A committed value.
fn value(cloud: &str, key: &str) -> f64 {
    let line = VALUES.lines().find(|line| line.starts_with(&format!("{cloud} {key} ")));
    line.unwrap_or_else(|| panic!("{cloud} {key}")).rsplit(' ').next().unwrap().parse().unwrap()
}
