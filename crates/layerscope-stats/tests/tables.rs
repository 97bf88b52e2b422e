//! What every row of the two tables must do, whichever rows there are.

mod support;

use std::collections::BTreeSet;
use std::ops::Range;

use layerscope_stats::measure::{Family, MEASURES, Measure, Selection, Settings};
use layerscope_stats::sketch::{BatchSpace, Mergeable, SKETCHES, SketchKind, SketchRow, SketchSet, SketchShape, Sketches, Tensors, Values};
use layerscope_stats::{BatchInfo, BatchRows};
use support::network::{Network, Run, everything};

/// Massive states at every point, so that sketches which keep them apart do so.
fn network() -> Network {
    let mut network = Network::new(71, 900, 11);
    for data in &mut network.points {
        *data = data.clone().map("massive", |row, _, x| x[3] += if row % 40 == 0 { 500.0 } else { 0.0 });
        data.massive = Some(100.0);
    }
    network
}

fn empty(network: &Network, row: &SketchRow) -> Sketches {
    let [before, data, ..] = network.points.as_slice() else { panic!("two points") };
    Sketches::new(SketchSet::of(&[row.kind]), &SketchShape { dim: data.dim, previous: Some(before.dim), massive: data.massive })
}

/// One sketch at the second point, fed with whole sequences.
fn fed(network: &Network, row: &SketchRow, sequences: Range<usize>) -> Sketches {
    let (mut sketches, mut space, set) = (empty(network, row), BatchSpace::new(), SketchSet::of(&[row.kind]));
    let (lengths, places) = (&network.points[0].lengths, network.places());
    for first in sequences.clone().step_by(7) {
        let start: usize = lengths[..first].iter().sum();
        let mut offsets = vec![0u32];
        lengths[first..(first + 7).min(sequences.end)].iter().for_each(|length| offsets.push(offsets.last().unwrap() + *length as u32));
        let rows = start..start + *offsets.last().unwrap() as usize;
        let info = BatchInfo::new(network.points[0].ids[rows.clone()].to_vec(), offsets)
            .with_documents(places[rows.clone()].iter().map(|place| place.0).collect());
        space.start_batch();
        for (at, data) in network.points[..2].iter().enumerate() {
            let batch = BatchRows::of(&data.states[rows.start * data.dim..rows.end * data.dim], data.dim, &info).unwrap();
            space.prepare(set, data.massive, &batch).unwrap();
            if at == 1 {
                sketches.update(space.contribution(), &batch).unwrap();
            }
        }
    }
    sketches
}

/// Equal up to rounding, relative to the largest number of a tensor; counts are equal.
fn assert_close(what: &str, ours: &Tensors<'_>, theirs: &Tensors<'_>) {
    assert!(ours.0.keys().eq(theirs.0.keys()), "{what}");
    for (name, tensor) in &ours.0 {
        let other = &theirs.0[name];
        assert_eq!(tensor.shape, other.shape, "{what}: {name}");
        match (&tensor.values, &other.values) {
            (Values::F64(ours), Values::F64(theirs)) => {
                let largest = theirs.iter().fold(1e-300f64, |largest, x| largest.max(x.abs()));
                let close = |(a, b): (&f64, &f64)| a == b || (a - b).abs() <= 1e-11 * largest;
                assert!(ours.iter().zip(theirs.iter()).all(close), "{what}: {name}");
            }
            (ours, theirs) => assert_eq!(ours, theirs, "{what}: {name}"),
        }
    }
}

#[test]
fn every_sketch_is_stored_to_the_bit_and_merges() {
    let network = network();
    let all = network.points[0].lengths.len();
    for row in SKETCHES {
        let what = row.what;
        let whole = fed(&network, row, 0..all);
        assert_eq!(whole.kinds(), SketchSet::of(&[row.kind]), "{what}");
        assert_ne!(whole, empty(&network, row), "{what} has seen states");

        let mut stored = Tensors(whole.encode().0.into_iter().map(|(name, tensor)| (name, tensor.into_owned())).collect());
        assert!(stored.0.keys().all(|name| name.strip_prefix(row.prefix).is_some_and(|rest| rest.starts_with('.'))), "{what}");
        assert_eq!(Sketches::decode(&mut stored).unwrap(), whole, "{what}");
        assert!(stored.0.is_empty(), "{what}: everything stored is read");
        let mut damaged = whole.encode();
        let lost = damaged.0.pop_last().unwrap().0;
        if !damaged.0.is_empty() {
            assert!(Sketches::decode(&mut damaged).unwrap_err().to_string().contains(row.prefix), "{what} without {lost}");
        }

        let (a, b) = (fed(&network, row, 0..all / 3), fed(&network, row, all / 3..all));
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(&b).unwrap();
        ba.merge(&a).unwrap();
        assert_close(what, &ab.encode(), &whole.encode());
        assert_close(what, &ba.encode(), &whole.encode());
        let (mut left, mut right) = (whole.emptied(), whole.clone());
        assert_eq!(left, empty(&network, row), "{what}");
        left.merge(&whole).unwrap();
        right.merge(&whole.emptied()).unwrap();
        assert!(left == whole && right == whole, "{what}: empty is the identity");

        let refused = whole.clone().merge(&Sketches::default()).unwrap_err().to_string();
        assert_eq!(refused, format!("cannot merge: only one of two has kept {what}"));
        let mut forgotten = whole.clone();
        forgotten.forget(row.kind);
        assert_eq!(forgotten, Sketches::default(), "{what}");
    }
}

#[test]
fn every_sketch_says_what_it_takes() {
    let network = Network::new(72, 300, 50); // without massive states, which take as much again
    let all = network.points[0].lengths.len();
    let shape = SketchShape { dim: 50, previous: Some(50), massive: None };
    for row in SKETCHES {
        let stored: usize = fed(&network, row, 0..all).encode().0.values().map(|tensor| tensor.values.len() * 8).sum();
        let formula = Sketches::bytes(SketchSet::of(&[row.kind]), &shape);
        assert!((stored as f64 / formula as f64 - 1.0).abs() < 0.02, "{}: {stored} {formula}", row.what);
    }
    let wanted = SketchSet::of(&[SketchKind::Covariance, SketchKind::Pairs]);
    let parts = [SketchKind::Covariance, SketchKind::Pairs].map(|kind| BatchSpace::bytes(SketchSet::of(&[kind]), 64, 50));
    assert_eq!(BatchSpace::bytes(wanted, 64, 50), parts[0] + parts[1]);
}

#[test]
fn names_of_sketches_are_their_own() {
    for (at, row) in SKETCHES.iter().enumerate() {
        assert!(SKETCHES[..at].iter().all(|other| other.prefix != row.prefix && other.kind != row.kind), "{}", row.what);
        assert!(row.kind.is_optional() && row.kind.row().is_some_and(|found| found.prefix == row.prefix));
    }
    // Old runs open by these.
    for (kind, prefix) in [
        (SketchKind::Covariance, "lenses.covariance"),
        (SketchKind::Pairs, "lenses.pairs"),
        (SketchKind::Shapes, "lenses.sequences"),
        (SketchKind::Blocks, "lenses.blocks"),
    ] {
        assert_eq!(kind.row().unwrap().prefix, prefix);
    }
}

#[test]
fn a_sketch_that_was_not_prepared_is_refused() {
    let network = network();
    let row = SketchKind::Covariance.row().unwrap();
    let (mut sketches, mut space) = (empty(&network, row), BatchSpace::new());
    let (data, info) = (&network.points[1], BatchInfo::new(network.points[1].ids[..20].to_vec(), vec![0, 20]));
    let batch = BatchRows::of(&data.states[..20 * data.dim], data.dim, &info).unwrap();
    for set in [SketchSet::default(), SketchSet::of(&[SketchKind::Shapes])] {
        space.prepare(set, None, &batch).unwrap();
        let refused = sketches.update(space.contribution(), &batch).unwrap_err().to_string();
        assert_eq!(refused, "the batch was not prepared for a covariance");
    }
    space.prepare(SketchSet::of(&[SketchKind::Blocks]), None, &batch).unwrap();
    let refused = empty(&network, SketchKind::Blocks.row().unwrap()).update(space.contribution(), &batch).unwrap_err().to_string();
    assert_eq!(refused, "blocks of documents need the document of every row");
}

#[test]
fn every_measure_is_in_some_table_and_every_row_is_of_a_measure() {
    let run = Run::whole(&network(), 300);
    let settings = Settings { frequency: Some(2..=100), predicted_q: Some(3.0), ..everything() };
    let rows = run.all_tables(0, &settings).layers;
    let found: BTreeSet<&str> = rows.iter().map(|row| row.measure).collect();
    let known: BTreeSet<&str> = MEASURES.iter().map(|measure| measure.name).collect();
    assert_eq!(found, known);
    assert_eq!(known.len(), MEASURES.len(), "names are their own");
    for measure in MEASURES {
        let own = || rows.iter().filter(|row| row.measure == measure.name);
        assert!(own().any(|row| row.value.is_some()) || measure.name == "alpha_req", "{} is nowhere defined", measure.name);
        assert!(!measure.needs.is_empty(), "{}", measure.name);
    }
    for selection in [Selection::All, Selection::Selected, Selection::Typical, Selection::Sample] {
        assert!(rows.iter().any(|row| row.selection == selection), "{selection:?}");
    }
}

#[test]
fn what_a_measure_needs_is_said_in_words() {
    let needs = |name: &str| Measure::named(name).unwrap().needs_in_words();
    for (name, words) in [
        ("q", "corpus"),
        ("v_within", "groups"),
        ("v_within_over_q", "groups, corpus"),
        ("predicted_q", "weights"),
        ("mean_cosine", "corpus"),
        ("self_similarity_adjusted", "groups, corpus"),
        ("intra_sentence_similarity", "sequences"),
        ("max_explainable_variance", "token states"),
        ("anisotropy_svd", "covariance, sample"),
        ("isoscore", "covariance"),
        ("partition", "sample"),
        ("matrix_entropy", "sequences"),
        ("linear_cka_next", "pairs, covariance"),
        ("silhouette", "sample"),
    ] {
        assert_eq!(needs(name), words, "{name}");
    }
    assert!(MEASURES.iter().all(|measure| measure.family == Family::Cluster || Family::SELECTABLE.contains(&measure.family)));
}
