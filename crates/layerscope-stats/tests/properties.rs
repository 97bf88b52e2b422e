//! What must hold of sketches whatever the data and however it came.

use layerscope_compute::cpu::Isa;
use layerscope_stats::measure::{Family, GroupRow, Measure, PointTables, Selection, Settings, predicted_q, variation};
use layerscope_stats::sketch::{Mergeable, PointMoments, Tensors, Values};
use layerscope_stats::{BatchRows, Error, NOT_COUNTED, Segments};
use layerscope_testing::made_up_states::{Data, Random, all_kinds};

fn settings() -> Settings {
    Settings { frequency: Some(8..=200), predicted_q: None, ..Settings::default() }
}

fn tables(sketch: &PointMoments) -> PointTables {
    PointTables::of_moments(sketch, &settings()).unwrap()
}

/// Mean over standard deviation, at least 1.
fn condition(tables: &PointTables, value: fn(&GroupRow) -> f64) -> f64 {
    let values: Vec<f64> = tables.all.groups.iter().map(value).collect();
    variation(&values).map_or(1.0, |variation| (1.0 / variation).max(1.0))
}

/// Equal to `tolerance`, scaled as the definitions say.
fn assert_close(what: &str, a: &PointTables, b: &PointTables, tolerance: f64) {
    let close = |name: &str, x: f64, y: f64, scale: f64| {
        assert!((x - y).abs() <= tolerance * scale, "{what}: {name}: {x:e} {y:e} (scale {scale:e})");
    };
    assert_eq!(a.layers.len(), b.layers.len(), "{what}");
    for (x, y) in a.layers.iter().zip(&b.layers) {
        assert_eq!((x.selection, x.measure, &x.variant, x.n), (y.selection, y.measure, &y.variant, y.n), "{what}");
        assert_eq!(x.value.is_some(), y.value.is_some(), "{what}: {x:?} {y:?}");
        assert_eq!(x.se.is_some(), y.se.is_some(), "{what}: {x:?} {y:?}");
        let q = a.layers.iter().find(|row| row.selection == x.selection && row.measure == "q").and_then(|row| row.value).unwrap_or(0.0);
        // Slopes are relative to sd(y)/sd(x), which the table does not have; Q bounds it, and log10 n spans about one.
        let scale = match x.measure {
            "q" | "m" | "v" | "v_within" | "v_between" | "intercept_v_on_m" => q,
            "slope_q_on_log_n" | "slope_m_on_log_n" | "slope_v_on_log_n" => q,
            "mean_norm" => q.sqrt(),
            _ => 1.0,
        };
        // Regressions see the groups' values through their spread: where Q or M is the same for all groups up to 1e-6, six digits
        // are gone whatever one does.
        let condition = match x.measure {
            name if name.contains("_v_on_m") || name.contains("m_on_log") => condition(a, |group| group.m),
            name if name.contains("q_on_log") || name == "cv_q_exponent" => condition(a, |group| group.q),
            _ => 1.0,
        };
        if let (Some(x_value), Some(y_value)) = (x.value, y.value) {
            close(x.measure, x_value, y_value, condition * scale.max(x_value.abs()));
        }
    }
    for (x, y) in a.all.groups.iter().zip(&b.all.groups) {
        assert_eq!((x.group, x.n), (y.group, y.n));
        close("group q", x.q, y.q, x.q);
        close("group m", x.m, y.m, x.q);
        close("group v", x.v, y.v, x.q);
        close("group norm", x.mean_norm, y.mean_norm, x.mean_norm);
        close("group self_similarity", x.self_similarity.unwrap_or(9.0), y.self_similarity.unwrap_or(9.0), 1.0);
    }
    let q: f64 = a.all.components.iter().map(|row| row.second_moment).sum();
    for (x, y) in a.all.components.iter().zip(&b.all.components) {
        close("component mean", x.mean, y.mean, q.sqrt());
        close("component variance", x.variance, y.variance, q);
        close("component within", x.variance_within, y.variance_within, q);
        close("component between", x.variance_between, y.variance_between, q);
        close("component cosine", x.cosine_contribution.unwrap_or(9.0), y.cosine_contribution.unwrap_or(9.0), 1.0);
    }
}

#[test]
fn batch_sizes_and_shards_agree() {
    for data in all_kinds() {
        let whole = tables(&data.sketch(1_000_000));
        let mut random = Random::new(3);
        for tokens in [1, 64, 1000] {
            assert_close(data.name, &tables(&data.sketch(tokens)), &whole, 1e-12);
        }
        for shards in [2, 7] {
            let mut cuts: Vec<usize> = (1..shards).map(|_| random.below(data.lengths.len())).collect();
            cuts.sort_unstable();
            assert_close(data.name, &tables(&data.sharded(&cuts, 100)), &whole, 1e-12);
        }
    }
}

#[test]
fn merging_is_commutative_up_to_rounding() {
    for data in all_kinds() {
        let half = data.lengths.len() / 3;
        let (mut a, mut b) = (data.empty_sketch(), data.empty_sketch());
        data.feed(&mut a, 0..half, 100);
        data.feed(&mut b, half..data.lengths.len(), 100);
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(&b).unwrap();
        ba.merge(&a).unwrap();
        assert_close(data.name, &tables(&ab), &tables(&ba), 1e-12);
    }
}

#[test]
fn empty_is_the_identity_to_the_bit() {
    for data in all_kinds() {
        let sketch = data.sketch(100);
        let mut left = data.empty_sketch();
        left.merge(&sketch).unwrap();
        let mut right = sketch.clone();
        right.merge(&data.empty_sketch()).unwrap();
        assert!(left == sketch && right == sketch, "{}", data.name);
    }
}

#[test]
fn encoding_and_decoding_changes_no_bit_even_half_way() {
    for data in all_kinds() {
        let half = data.lengths.len() / 2;
        let mut sketch = data.empty_sketch();
        data.feed(&mut sketch, 0..half, 100);
        let mut tensors = sketch.encode();
        let mut resumed = PointMoments::decode(&mut tensors).unwrap();
        assert!(tensors.0.is_empty(), "everything stored is read");
        assert_eq!(resumed.encode(), sketch.encode());
        data.feed(&mut sketch, half..data.lengths.len(), 100);
        data.feed(&mut resumed, half..data.lengths.len(), 100);
        assert_eq!(resumed.encode(), sketch.encode(), "{}", data.name);
        assert_eq!(tables(&resumed), tables(&sketch));
    }
}

#[test]
fn instruction_sets_give_the_same_bits() {
    let data = Data::zipf(41, 700, 53, 30);
    let segments = Segments::new(&data.ids);
    let offsets = [0, 5, 400, 700];
    let sketches = Isa::available().into_iter().map(|isa| {
        let mut sketch = PointMoments::new(data.groups, data.dim, Some(7.0));
        sketch.update(&BatchRows::with_isa(&data.states, data.dim, &segments, &offsets, isa).unwrap()).unwrap();
        sketch
    });
    let sketches: Vec<PointMoments> = sketches.collect();
    assert!(sketches[0].massive_states() > 0);
    assert!(sketches.iter().all(|sketch| *sketch == sketches[0]));
}

#[test]
fn shards_that_number_their_groups_differently_merge_by_name() {
    let kinds = all_kinds();
    let data = kinds.iter().find(|data| data.name == "massive").unwrap();
    let half = data.lengths.len() / 2;
    let rows: usize = data.lengths[..half].iter().sum();
    let mut first = data.empty_sketch();
    data.feed(&mut first, 0..half, 100);
    // The second shard numbers its groups backwards, and the first knows fewer.
    let names: Vec<u32> = (0..data.groups as u32).rev().collect();
    let mut other = data.clone();
    other.ids[rows..].iter_mut().filter(|id| **id != NOT_COUNTED).for_each(|id| *id = names[*id as usize]);
    let mut second = data.empty_sketch();
    other.feed(&mut second, half..data.lengths.len(), 100);
    let mut merged = PointMoments::new(1, data.dim, data.massive);
    merged.merge_renamed(&first, &(0..data.groups as u32).collect::<Vec<_>>()).unwrap();
    merged.merge_renamed(&second, &names).unwrap();
    assert_close("renamed", &tables(&merged), &tables(&data.sketch(100)), 1e-12);
}

#[test]
fn identities_hold() {
    for data in all_kinds() {
        for identity in tables(&data.sharded(&[20, 50], 64)).identities {
            assert!(identity.residual <= 1e-12, "{}: {identity:?}", data.name);
        }
    }
}

/// The same sketch with one number of one tensor changed by a thousandth.
fn corrupted(sketch: &PointMoments, tensor: &str, at: usize) -> PointMoments {
    let owned = sketch.encode().0.into_iter().map(|(name, tensor)| (name, tensor.into_owned())).collect();
    let mut tensors = Tensors(owned);
    match &mut tensors.0.get_mut(tensor).unwrap().values {
        Values::F64(values) => values.to_mut()[at] *= 1.001,
        Values::U64(values) => values.to_mut()[at] += 3,
        Values::F32(_) => unreachable!("moments hold no f32"),
    }
    PointMoments::decode(&mut tensors).unwrap()
}

#[test]
fn identities_fail_when_an_accumulator_is_wrong() {
    let mut data = all_kinds().remove(0);
    data.massive = Some(7.0);
    let sketch = data.sketch(100);
    assert!(sketch.massive_states() > 0);
    let accumulators = [
        "groups.n",
        "groups.m2",
        "groups.square",
        "groups.mean",
        "groups.within",
        "corpus.n",
        "corpus.mean",
        "corpus.m2",
        "corpus.square",
        "corpus.unit_square",
        "massive_groups.m2",
        "massive_groups.mean",
        "massive_corpus.mean",
        "massive_corpus.m2",
    ];
    for tensor in accumulators {
        let worst = |sketch| tables(sketch).identities.iter().map(|identity| identity.residual).fold(0.0, f64::max);
        assert!(worst(&sketch) < 1e-12);
        let residual = worst(&corrupted(&sketch, tensor, 0));
        assert!(residual > 1e-9, "{tensor}: {residual:e}");
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let sketch = PointMoments::new(3, 4, Some(5.0));
    let strangers = [(2, 4, Some(5.0), true), (3, 5, Some(5.0), true), (3, 4, None, true), (3, 4, Some(5.0), false)];
    for (groups, dim, massive, units) in strangers {
        let other = PointMoments::of(groups, dim, massive, units);
        let refused = sketch.clone().merge(&other).unwrap_err();
        assert!(matches!(refused, Error::Mismatch(_)), "{refused}");
    }
    let segments = Segments::new(&[0, 3]);
    let mut updated = sketch.clone();
    assert!(updated.update(&BatchRows::new(&[1.0; 8], 4, &segments, &[]).unwrap()).is_err());
    assert!(updated.update(&BatchRows::new(&[1.0; 2], 1, &segments, &[]).unwrap()).is_err());
    assert!(updated == sketch);
    let mut tensors = sketch.encode();
    tensors.0.remove("groups.m2");
    assert_eq!(PointMoments::decode(&mut tensors).unwrap_err().to_string(), "tensor `groups.m2`: is missing");
    // A tensor that got lost is not the same as one that was never wanted.
    let counted = Data::zipf(3, 50, 4, 3).sketch(50);
    for name in ["groups.unit", "corpus.unit", "massive_groups.unit", "massive_corpus.unit"] {
        let mut tensors = counted.encode();
        tensors.0.remove(name);
        assert!(PointMoments::decode(&mut tensors).unwrap_err().to_string().contains("unit"), "{name}");
    }
    let mut tensors = sketch.encode();
    tensors.0.get_mut("corpus.m2").unwrap().shape = vec![2];
    assert!(PointMoments::decode(&mut tensors).unwrap_err().to_string().contains("corpus.m2"));
}

#[test]
fn rows_that_are_not_finite_do_not_panic_and_tables_hold_no_nan() {
    let data = Data::zipf(51, 300, 5, 10).map("broken", |row, _, x| match row % 50 {
        0 => x[1] = f32::NAN,
        1 => x[2] = f32::INFINITY,
        _ => (),
    });
    let found = tables(&data.sketch(64));
    assert!(found.layers.iter().all(|row| row.value.is_none_or(f64::is_finite)));
    assert!(found.identities.iter().any(|identity| identity.residual == f64::INFINITY));
}

#[test]
fn typical_leaves_massive_states_out_and_all_has_them() {
    let kinds = all_kinds();
    let data = kinds.iter().find(|data| data.name == "massive").unwrap();
    let value = |tables: &PointTables, selection, measure: &str| {
        tables.layers.iter().find(|row| row.selection == selection && row.measure == measure).and_then(|row| row.value)
    };
    let apart = tables(&data.sketch(100));
    let together = tables(&Data { massive: None, ..data.clone() }.sketch(100));
    assert!(value(&apart, Selection::All, "massive_activations").unwrap() > 20.0);
    assert_eq!(value(&together, Selection::All, "massive_activations"), None);
    let q = value(&together, Selection::All, "q").unwrap();
    assert!((value(&apart, Selection::All, "q").unwrap() - q).abs() <= 1e-12 * q);
    assert!(value(&apart, Selection::Typical, "q").unwrap() < 0.01 * q);
}

#[test]
fn selected_comes_only_with_frequencies_and_prediction_only_with_weights() {
    let sketch = all_kinds()[0].sketch(100);
    let found = PointTables::of_moments(&sketch, &Settings::default()).unwrap();
    assert!(found.layers.iter().all(|row| row.selection != Selection::Selected));
    assert!(found.layers.iter().any(|row| row.measure == "predicted_q" && row.value.is_none()));
    assert_eq!(predicted_q(&[3.0, 1.0], Some(&[2.0, 0.0])), 14.0);
    assert_eq!(predicted_q(&[3.0, 1.0], None), 10.0);
}

#[test]
fn memory_is_as_announced() {
    for units in [true, false] {
        let sketch = PointMoments::of(50, 16, None, units);
        let stored: usize = sketch.encode().0.values().map(|tensor| tensor.values.len() * 8).sum();
        assert!(PointMoments::bytes(50, 16, units).abs_diff(stored) < 100);
    }
}

#[test]
fn rows_that_are_read_once_give_the_same_tables() {
    for data in all_kinds() {
        let segments = Segments::new(&data.ids);
        let batch = BatchRows::new(&data.states, data.dim, &segments, &[]).unwrap();
        for units in [true, false] {
            let mut twice = PointMoments::of(data.groups, data.dim, data.massive, units);
            let mut once = twice.clone();
            twice.update(&batch).unwrap();
            assert_eq!(once.update_once(&data.states, &segments).unwrap(), None);
            assert_eq!(once.massive_states(), twice.massive_states());
            assert_close(data.name, &tables(&once), &tables(&twice), 1e-12);
        }
        if segments.counted().is_empty() {
            continue;
        }
        let mut broken = data.states.clone();
        let row = segments.counted()[segments.counted().len() / 2];
        broken[(row as usize + 1) * data.dim - 1] = f32::NAN;
        for units in [true, false] {
            let mut sketch = PointMoments::of(data.groups, data.dim, data.massive, units);
            assert_eq!(sketch.update_once(&broken, &segments).unwrap(), Some(row));
        }
    }
}

#[test]
fn without_unit_vectors_all_but_cosines_is_the_same() {
    for data in all_kinds() {
        let (with, mut without) = (data.sketch(100), PointMoments::of(data.groups, data.dim, data.massive, false));
        data.batches(0..data.lengths.len(), 100, |batch| without.update(batch).unwrap());
        let back = PointMoments::decode(&mut without.encode()).unwrap();
        assert!(back == without && without.emptied(data.groups) == PointMoments::of(data.groups, data.dim, data.massive, false));
        let (with, without) = (tables(&with), tables(&without));
        assert_eq!(with.layers.len(), without.layers.len());
        for (theirs, ours) in with.layers.iter().zip(&without.layers) {
            match Measure::named(ours.measure).map(|measure| measure.family) {
                Some(Family::Cosine) => assert_eq!(ours.value, None, "{}: {}", data.name, ours.measure),
                _ => assert_eq!(ours.value, theirs.value, "{}: {}", data.name, ours.measure),
            }
        }
        assert!(without.all.groups.iter().all(|row| row.self_similarity.is_none()));
        assert!(without.all.components.iter().all(|row| row.cosine_contribution.is_none()));
    }
}
