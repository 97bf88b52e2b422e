//! Tables of the typical states, where some are massive, against the definitions taken literally.

mod support;

use layerscope_stats::PointState;
use layerscope_stats::measure::{PointInputs, PointTables, Selection};
use layerscope_stats::sketch::Tensors;
use support::expected::{belongs, check};
use support::network::{Network, Run, everything};

/// Some rows are massive at each point, others at one or two of them.
fn with_massive(seed: u64, rows: usize, dim: usize) -> Network {
    let mut network = Network::new(seed, rows, dim);
    for (at, data) in network.points.iter_mut().enumerate() {
        let is_massive = |row: usize| row.is_multiple_of(30) || (at > 0 && row.is_multiple_of(41)) || (at == 0 && row.is_multiple_of(47));
        *data = data.clone().map("massive", |row, _, x| x[2] += if is_massive(row) { 3000.0 } else { 0.0 });
        data.massive = Some(300.0);
    }
    network
}

#[test]
fn every_row_of_typical_states_equals_its_definition() {
    let network = with_massive(58, 1500, 12);
    let run = Run::whole(&network, 400);
    check(&network, &run, 400);
    let tables = run.tables(0, &everything());
    let rows = |selection| tables.layers.iter().filter(|row| row.selection == selection).map(|row| row.value).collect::<Vec<_>>();
    assert_ne!(rows(Selection::All), rows(Selection::Typical));
    assert_ne!(rows(Selection::Sample), rows(Selection::TypicalSample));
    assert!(tables.typical.is_some() && !tables.massive.is_empty());
}

#[test]
fn shards_with_massive_states_give_the_same_tables() {
    let network = with_massive(59, 1200, 10);
    let whole = Run::whole(&network, 350);
    let mut merged = Run::new(&network, 350);
    let sequences = network.points[0].lengths.len();
    for shard in 0..4 {
        let mut own = Run::new(&network, 350);
        own.feed(&network, shard * sequences / 4..(shard + 1) * sequences / 4, 3);
        merged.merge(&own);
    }
    for at in 0..3 {
        let (a, b) = (whole.all_tables(at, &everything()), merged.all_tables(at, &everything()));
        for (x, y) in a.layers.iter().zip(&b.layers) {
            assert_eq!((x.measure, &x.variant, x.selection, x.n), (y.measure, &y.variant, y.selection, y.n));
            let apart = x.value.unwrap_or(9.0) - y.value.unwrap_or(9.0);
            assert!(apart.abs() <= 1e-8 * x.value.unwrap_or(9.0).abs().max(1.0), "{x:?} {y:?}");
        }
        let who = |tables: &PointTables| tables.massive.iter().map(|row| (row.group, row.position, row.count)).collect::<Vec<_>>();
        assert_eq!(who(&a), who(&b));
        assert_eq!(a.massive.iter().map(|row| row.count).sum::<u64>(), whole.moments(at).massive_states());
        let stored = whole.points[at].encode();
        let mut stored = Tensors(stored.0.into_iter().map(|(name, tensor)| (name, tensor.into_owned())).collect());
        let back = PointState::decode(&mut stored).unwrap();
        assert_eq!(back.moments, whole.points[at].moments);
        assert_eq!(back.sketches, whole.points[at].sketches);
        assert!(stored.0.is_empty(), "{:?}", stored.0.keys());
    }
}

#[test]
fn states_of_an_older_program_have_no_typical_sequences_and_pairs() {
    let network = with_massive(60, 600, 8);
    let run = Run::whole(&network, 100);
    let old = |at: usize| {
        let newer =
            ["massive_states.", "chosen.", ".typical.sequences", ".typical.similarity", ".typical.shape", ".apart", "lenses.pairs.massive"];
        let tensors = run.points[at].encode().0.into_iter().filter(|(name, _)| !newer.iter().any(|part| name.contains(part)));
        PointState::decode(&mut Tensors(tensors.map(|(name, tensor)| (name, tensor.into_owned())).collect())).unwrap()
    };
    let (this, next) = (old(0), old(1));
    let (moments, sketches) = (&this.moments, &this.sketches);
    let inputs = PointInputs { moments, sketches, next: Some(&next.sketches), sample: None, tokens: None };
    let tables = PointTables::new(inputs, &everything()).unwrap();
    for measure in ["matrix_entropy", "curvature", "linear_cka_next", "linearity_next", "intra_sentence_similarity"] {
        let row = tables.layers.iter().find(|row| row.selection == Selection::Typical && row.measure == measure).unwrap();
        assert_eq!(row.value, None, "{measure}");
    }
    assert!(tables.massive.is_empty());
}

#[test]
fn components_of_chosen_groups_equal_their_definition() {
    let network = with_massive(61, 900, 7);
    let mut run = Run::new(&network, 50);
    for (at, group) in (0..3).flat_map(|at| [0, 3].map(|group| (at, group))) {
        run.points[at].moments.choose(group);
    }
    run.feed(&network, 0..network.points[0].lengths.len(), 5);
    for (at, data) in network.points.iter().enumerate() {
        let tables = run.all_tables(at, &everything());
        for (tables, typical) in [(&tables.all, false), (tables.typical.as_ref().unwrap(), true)] {
            assert_eq!(tables.token_components.len(), 2 * data.dim);
            for row in &tables.token_components {
                let own: Vec<f64> = (0..data.ids.len())
                    .filter(|&at| data.ids[at] == row.group && belongs(data, at, typical))
                    .map(|at| f64::from(data.row(at)[row.component as usize]))
                    .collect();
                let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / own.len() as f64;
                let mu = mean(&mut own.iter().copied());
                let q = mean(&mut own.iter().map(|x| x * x));
                let v = mean(&mut own.iter().map(|x| (x - mu).powi(2)));
                assert!(
                    (row.q - q).abs() <= 1e-12 * q && (row.variance - v).abs() <= 1e-12 * q && (row.mean - mu).abs() <= 1e-12 * q.sqrt()
                );
            }
        }
    }
}
