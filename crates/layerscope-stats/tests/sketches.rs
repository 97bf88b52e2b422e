//! Everything beyond norms and cosines, through the calls that a run makes, against the definitions taken literally.

mod support;

use layerscope_stats::measure::{Family, MEASURES, Selection, Settings, needs};
use layerscope_stats::sketch::{Mergeable, SketchKind, SketchSet, SketchShape, Sketches, Tensors};
use layerscope_testing::made_up_states::Data;
use support::expected::check;
use support::network::{Network, Run, all_sketches, everything};

#[test]
fn every_row_equals_its_definition() {
    let network = Network::new(51, 1500, 22);
    check(&network, &Run::whole(&network, 400), 400);
}

#[test]
fn batches_of_the_sample_are_of_4096_states() {
    let network = Network::new(52, 9000, 10);
    check(&network, &Run::whole(&network, 8500), 8500);
}

#[test]
fn rows_come_in_the_order_of_the_table_and_together_with_the_others_all_of_them() {
    let network = Network::new(53, 800, 12);
    let run = Run::whole(&network, 300);
    let tables = run.tables(0, &everything());
    for selection in [Selection::All, Selection::Typical, Selection::Sample, Selection::TypicalSample] {
        let mut names: Vec<&str> = tables.layers.iter().filter(|row| row.selection == selection).map(|row| row.measure).collect();
        names.dedup();
        // Clusters have a measure of the norms, which comes with them.
        names.retain(|name| *name != "v_within_over_v");
        let order: Vec<&str> = MEASURES.iter().map(|measure| measure.name).filter(|name| names.contains(name)).collect();
        assert_eq!(names, order, "{selection:?}");
    }
    let rows = run.all_tables(0, &Settings { frequency: Some(1..=1000), ..everything() }).layers;
    for measure in MEASURES {
        assert!(rows.iter().any(|row| row.measure == measure.name), "{} is in no table", measure.name);
        for variant in measure.variants.iter().filter(|variant| !["...", "k=K", "n0=30"].contains(variant)) {
            assert!(
                rows.iter().any(|row| row.measure == measure.name && row.variant.as_deref() == Some(variant)),
                "{} {variant}",
                measure.name
            );
        }
    }
    for row in &rows {
        let measure = MEASURES.iter().find(|measure| measure.name == row.measure).unwrap_or_else(|| panic!("{row:?} is no measure"));
        let counted = |variant: &str| variant.starts_with("k=") || variant.starts_with("n0=");
        let known = row.variant.as_deref().is_none_or(|variant| counted(variant) || measure.variants.contains(&variant));
        assert!(known, "{row:?}");
        assert!(measure.variants.contains(&"k=K") || !row.variant.as_deref().is_some_and(|variant| variant.starts_with("k=")), "{row:?}");
    }
}

#[test]
fn only_what_is_wanted_is_kept_and_computed() {
    use SketchKind::{Blocks, Covariance, Pairs, Peaks, Sample, Shapes, Units};
    assert_eq!(needs(&[Family::Norm]), SketchSet::default());
    assert_eq!(needs(&[Family::Norm, Family::Cosine]), SketchSet::of(&[Units]));
    assert_eq!(needs(&Family::DEFAULT), SketchSet::of(&[Units, Covariance, Sample]));
    assert_eq!(needs(&[Family::Layers]), SketchSet::of(&[Covariance, Pairs, Peaks]));
    assert_eq!(needs(&[Family::Sequence]), SketchSet::of(&[Shapes]));
    assert_eq!(needs(&[Family::Partition]), SketchSet::of(&[Sample]));
    assert_eq!(needs(&Family::SELECTABLE), all_sketches().without(Blocks));
    assert_eq!(Family::SELECTABLE.map(|family| Family::named(family.name())), Family::SELECTABLE.map(Some));
    assert_eq!(Family::named("cluster"), None);
    let network = Network::new(54, 300, 8);
    let run = Run::whole(&network, 100);
    let only = |family| Settings { families: vec![family], ..Settings::default() };
    for (family, rows) in [(Family::Norm, 0), (Family::Cosine, 4), (Family::Spectrum, 26), (Family::Dimension, 10), (Family::Partition, 16)]
    {
        assert_eq!(run.tables(0, &only(family)).layers.len(), rows, "{family:?}");
    }
}

#[test]
fn shards_give_the_same_tables_and_threads_the_same_bits() {
    let network = Network::new(55, 1200, 12);
    let whole = Run::whole(&network, 350);
    let mut merged = Run::new(&network, 350);
    let sequences = network.points[0].lengths.len();
    for shard in (0..5).rev() {
        let mut own = Run::new(&network, 350);
        own.feed(&network, shard * sequences / 5..(shard + 1) * sequences / 5, 4);
        merged.merge(&own);
    }
    for at in 0..3 {
        let (a, b) = (whole.tables(at, &everything()), merged.tables(at, &everything()));
        assert_eq!(a.layers.len(), b.layers.len());
        for (x, y) in a.layers.iter().zip(&b.layers) {
            assert_eq!((x.measure, &x.variant, x.n), (y.measure, &y.variant, y.n));
            let apart = x.value.unwrap_or(9.0) - y.value.unwrap_or(9.0);
            assert!(apart.abs() <= 1e-9 * x.value.unwrap_or(9.0).abs().max(1.0), "{x:?} {y:?}");
        }
        let one = whole.tables(at, &Settings { threads: 1, ..everything() });
        let three = whole.tables(at, &Settings { threads: 3, ..everything() });
        assert_eq!(one, three);
    }
    for at in 0..3 {
        let sketches = whole.sketches(at);
        let mut stored = Tensors(sketches.encode().0.into_iter().map(|(name, tensor)| (name, tensor.into_owned())).collect());
        assert_eq!(Sketches::decode(&mut stored).unwrap(), *sketches);
        assert!(stored.0.is_empty());
        assert!(sketches.clone().merge(&Sketches::default()).is_err());
    }
}

#[test]
fn memory_is_what_the_formulas_say() {
    let network = Network::new(56, 300, 50);
    let run = Run::whole(&network, 100);
    for at in 0..3 {
        let dim = network.points[at].dim;
        let stored: usize = run.sketches(at).encode().0.values().map(|tensor| tensor.values.len() * 8).sum();
        let previous = at.checked_sub(1).map(|at| network.points[at].dim);
        let formula = Sketches::bytes(all_sketches(), &SketchShape { dim, previous, massive: None });
        assert!((stored as f64 / formula as f64 - 1.0).abs() < 0.02, "{stored} {formula}");
    }
}

#[test]
fn rotation_scaling_and_shift() {
    let network = Network::new(57, 1500, 12);
    let change = |name, change: &dyn Fn(&mut [f32])| Network {
        points: network.points.iter().map(|data| data.clone().map(name, |_, _, x| change(x))).collect(),
    };
    let (sin, cos) = 0.9f64.sin_cos();
    let turn = |x: &mut [f32]| {
        for pair in [(0, 5), (2, 7), (3, 11), (5, 6)] {
            let (a, b) = (f64::from(x[pair.0]), f64::from(x[pair.1]));
            (x[pair.0], x[pair.1]) = ((cos * a - sin * b) as f32, (sin * a + cos * b) as f32);
        }
    };
    let tables = |network: &Network| Run::whole(network, 400).tables(0, &everything());
    let plain = tables(&network);
    // Rounding rotated and shifted states to f32 moves values in the seventh digit.
    let cases = [
        ("turned", tables(&change("turned", &turn)), 2e-5),
        ("doubled", tables(&change("doubled", &|x| x.iter_mut().for_each(|x| *x *= 2.0))), 1e-12),
    ];
    for (name, other, tolerance) in cases {
        for (x, y) in plain.layers.iter().zip(&other.layers) {
            let variant = x.variant.as_deref().unwrap_or_default();
            let component_wise = name == "turned" && (x.measure.starts_with("top_variance") || variant.starts_with("machina"));
            let grows = name == "doubled" && x.measure.ends_with("partition");
            if component_wise || grows {
                continue;
            }
            let (x_value, y_value) = (x.value.unwrap_or(9.0), y.value.unwrap_or(9.0));
            assert!((x_value - y_value).abs() <= tolerance * x_value.abs().max(0.1), "{name}: {x:?} {y:?}");
        }
    }
    let shifted = tables(&change("shifted", &|x| x.iter_mut().for_each(|x| *x += 1.5)));
    let uncentred = ["rankme", "max_explainable_variance", "max_explainable_variance_adjusted"];
    for (x, y) in plain.layers.iter().zip(&shifted.layers) {
        let variant = x.variant.as_deref().unwrap_or_default();
        let moves = uncentred.contains(&x.measure) || ["default", "machina"].contains(&variant);
        let (x_value, y_value) = (x.value.unwrap_or(9.0), y.value.unwrap_or(9.0));
        if moves {
            assert!((x_value - y_value).abs() > 1e-4 * x_value.abs(), "{x:?} {y:?}");
        } else if !variant.starts_with("machina") {
            assert!((x_value - y_value).abs() <= 2e-5 * x_value.abs().max(0.1), "{x:?} {y:?}");
        }
    }
    let eigenvalues = cases_doubled(&network);
    assert!(plain.all.spectrum.iter().zip(&eigenvalues).all(|(a, b)| (4.0 * a - b).abs() <= 1e-12 * b), "eigenvalues grow by the square");
}

fn cases_doubled(network: &Network) -> Vec<f64> {
    let points = network.points.iter().map(|data| data.clone().map("doubled", |_, _, x| x.iter_mut().for_each(|x| *x *= 2.0))).collect();
    Run::whole(&Network { points }, 50).tables(0, &everything()).all.spectrum
}

#[test]
fn single_and_equal_states_have_no_values_and_say_why() {
    for rows in [1, 30] {
        let data = Data {
            name: "equal",
            dim: 4,
            groups: 1,
            states: [1.5, -2.0, 0.0, 3.0].repeat(rows),
            ids: vec![0; rows],
            lengths: vec![rows],
            massive: None,
            unselectable: Vec::new(),
        };
        let network = Network { points: vec![data.clone(), data] };
        let run = Run::whole(&network, 100);
        let tables = run.tables(0, &everything());
        for row in &tables.layers {
            let defined = [
                "massive_components",
                "max_explainable_variance",
                "max_explainable_variance_adjusted",
                "partition",
                "log_partition",
                "rankme",
            ];
            assert!(row.value.is_none_or(f64::is_finite));
            assert!(row.value.is_none() || defined.contains(&row.measure), "{row:?}");
        }
        assert!(tables.notes.iter().any(|note| note.starts_with("spectrum: ")), "{:?}", tables.notes);
        assert!(tables.notes.iter().any(|note| note == "dimension: 1 different states are too few"), "{:?}", tables.notes);
        let duplicates = tables.notes.iter().any(|note| note.contains("29 of 30 kept states equal an earlier one"));
        assert_eq!(duplicates, rows == 30);
    }
}
