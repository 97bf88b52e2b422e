//! The state of a point, as a measurement and a gatherer of states enter it.

mod support;

use layerscope_stats::sketch::{BatchSpace, Mergeable, Pairs, SKETCHES, SketchKind, SketchSet, SketchShape, Sketches, Tensors, Values};
use layerscope_stats::{BatchInfo, BatchRows, NOT_COUNTED, PointShape, PointState, Segments};
use layerscope_testing::made_up_states::Data;
use support::network::{Network, Run};

const SET: SketchSet = SketchSet::of(&[SketchKind::Units, SketchKind::Covariance, SketchKind::Pairs, SketchKind::Blocks]);
const DIM: usize = 6;

fn shape(first: bool) -> PointShape {
    PointShape { groups: 40, dim: DIM, previous: (!first).then_some(DIM), kept: 3, chosen: 0, sketches: SET }
}

fn state(first: bool) -> PointState {
    PointState::new(&shape(first), Some(50.0))
}

/// Two points of one width, and what a batch of all rows says.
fn two_points(rows: usize) -> (Vec<Data>, BatchInfo) {
    let mut points = Network::new(81, rows, DIM).points;
    points.truncate(2);
    let groups = points[0].ids.clone();
    let documents = (0..rows as u64).map(|row| row / 5).collect();
    let slot = |at: usize| (0..rows as u32).filter(|&row| groups[row as usize] != NOT_COUNTED).nth(at).unwrap();
    let slots = vec![(slot(2), 1), (slot(7), 0)];
    (points, BatchInfo::new(groups, vec![0, rows as u32]).with_documents(documents).with_slots(slots))
}

/// Enters one batch at both points as a measurement does that leaves bad rows out.
fn enter(points: &[Data], info: &BatchInfo, space: &mut BatchSpace) -> Vec<PointState> {
    space.start_batch();
    let enter = |(at, data): (usize, &Data)| {
        let rows = BatchRows::of(&data.states, DIM, info).unwrap();
        let bad = rows.not_finite();
        let rows = rows.without(&bad);
        space.prepare(SET, Some(50.0), &rows).unwrap();
        let mut state = state(at == 0);
        state.commit(&rows, space.contribution()).unwrap();
        state
    };
    points.iter().enumerate().map(enter).collect()
}

#[test]
fn a_batch_enters_moments_sketches_and_kept_states() {
    let (points, info) = two_points(60);
    let states = enter(&points, &info, &mut BatchSpace::new());
    for (state, data) in states.iter().zip(&points) {
        let counted = data.ids.iter().filter(|id| **id != NOT_COUNTED).count() as u64;
        assert_eq!((state.states(), state.excluded), (counted, 0));
        for &(row, slot) in info.slots() {
            assert_eq!(&state.kept[slot as usize * DIM..][..DIM], data.row(row as usize));
        }
        assert_eq!(state.kept[2 * DIM..], [0.0; DIM]);
    }
    assert!(states[0].sketches.get::<Pairs>().is_none(), "nothing comes before the first point");
    assert_eq!(states[1].sketches.get::<Pairs>().unwrap().n(), states[1].states());
    let mut beyond = state(true);
    let info = info.with_slots(vec![(0, 3)]);
    let rows = BatchRows::of(&points[0].states, DIM, &info).unwrap();
    let mut space = BatchSpace::new();
    space.prepare(SET, Some(50.0), &rows).unwrap();
    assert_eq!(beyond.commit(&rows, space.contribution()).unwrap_err().to_string(), "slot 3 lies beyond the states that are kept");
}

#[test]
fn rows_that_are_not_finite_are_left_out_and_break_the_chain_of_pairs() {
    let (points, info) = two_points(60);
    let row = info.segments().counted()[4] as usize;
    for broken in [vec![0], vec![1], vec![0, 1]] {
        let mut points = points.clone();
        broken.iter().for_each(|&at: &usize| points[at].states[row * DIM + 2] = f32::NAN);
        let states = enter(&points, &info, &mut BatchSpace::new());
        let counted = info.segments().counted().len() as u64;
        for (at, state) in states.iter().enumerate() {
            let excluded = u64::from(broken.contains(&at));
            assert_eq!((state.states(), state.excluded), (counted - excluded, excluded), "{broken:?}");
        }
        assert_eq!(states[1].sketches.get::<Pairs>().unwrap().n(), 0, "{broken:?}: the points have different rows");
    }
    // What is left out changes nothing but the counts: the same batch without the row.
    let mut bad = points.clone();
    bad.iter_mut().for_each(|data| data.states[row * DIM] = f32::INFINITY);
    let mut groups = info.groups().to_vec();
    groups[row] = NOT_COUNTED;
    let less = BatchInfo::new(groups, info.sequences().to_vec()).with_documents(info.documents().unwrap().to_vec());
    let (ours, theirs) = (enter(&bad, &info, &mut BatchSpace::new()), enter(&bad, &less, &mut BatchSpace::new()));
    assert_eq!(ours[0].moments, theirs[0].moments);
    assert_eq!(ours[0].sketches, theirs[0].sketches);
}

#[test]
fn what_is_set_aside_enters_as_if_it_had_not_been() {
    let (mut points, info) = two_points(60);
    for bad in [false, true] {
        if bad {
            points[0].states[info.segments().counted()[4] as usize * DIM] = f32::NAN;
        }
        let whole = enter(&points, &info, &mut BatchSpace::new());
        let mut space = BatchSpace::new();
        space.start_batch();
        let set_aside = |data: &Data| {
            let rows = BatchRows::of(&data.states, DIM, &info).unwrap();
            let not_finite = rows.not_finite();
            let rows = rows.without(&not_finite);
            space.prepare(SET, Some(50.0), &rows).unwrap();
            (rows.detached(), space.take_contribution())
        };
        let aside: Vec<_> = points.iter().map(set_aside).collect();
        for (at, (mut rows, contribution)) in aside.into_iter().enumerate().rev() {
            let mut state = state(at == 0);
            state.commit(&rows.attached(&info), &contribution).unwrap();
            assert_eq!(state.encode().0.keys().collect::<Vec<_>>(), whole[at].encode().0.keys().collect::<Vec<_>>());
            assert_eq!((&state.moments, &state.sketches), (&whole[at].moments, &whole[at].sketches), "point {at}");
            assert_eq!(state.excluded, whole[at].excluded);
        }
    }
}

#[test]
fn a_point_that_is_only_paired_needs_no_state() {
    let (points, info) = two_points(60);
    let whole = enter(&points, &info, &mut BatchSpace::new());
    let (mut space, mut second) = (BatchSpace::new(), state(false));
    space.start_batch();
    let before = BatchRows::of(&points[0].states, DIM, &info).unwrap();
    space.prepare(SketchSet::of(&[SketchKind::Pairs]), None, &before).unwrap();
    let rows = BatchRows::of(&points[1].states, DIM, &info).unwrap();
    space.prepare(SET, Some(50.0), &rows).unwrap();
    second.commit(&rows, space.contribution()).unwrap();
    assert_eq!(second, whole[1]);
}

#[test]
fn a_gatherer_measures_first_and_groups_later() {
    let (points, info) = two_points(60);
    let info = info.with_slots(Vec::new());
    let whole = enter(&points[..1], &info, &mut BatchSpace::new());
    let (nothing, mut space, mut gathered) = (Segments::default(), BatchSpace::new(), state(true));
    let rows = BatchRows::new(&points[0].states, DIM, &nothing, &[]).unwrap();
    assert!(rows.norms().iter().all(|norm| norm.is_finite()) && rows.not_finite().is_empty());
    let rows = rows.regrouped(&info).unwrap();
    space.start_batch();
    space.prepare(SET, Some(50.0), &rows).unwrap();
    gathered.moments.grow(40);
    gathered.commit(&rows, space.contribution()).unwrap();
    assert_eq!(gathered, whole[0]);
}

#[test]
fn states_are_stored_to_the_bit_under_the_names_of_old_runs() {
    let network = Network::new(82, 300, DIM);
    let mut state = Run::whole(&network, 10).points.remove(1);
    (state.kept, state.excluded) = (vec![1.5; 4 * DIM], 7);
    let mut tensors = state.encode();
    let parts: Vec<String> = SKETCHES.iter().map(|row| row.prefix).chain(["moments"]).map(|part| format!("{part}.")).collect();
    assert!(tensors.0.keys().all(|name| parts.iter().any(|part| name.starts_with(part)) || name == "kept" || name == "excluded"));
    assert!(parts.iter().all(|part| tensors.0.keys().any(|name| name.starts_with(part))));
    assert_eq!(tensors.0["kept"].shape, [4, DIM]);
    assert_eq!(PointState::decode(&mut tensors).unwrap(), state);
    assert!(tensors.0.is_empty());

    let mut without = state.encode();
    without.0.remove("kept");
    assert_eq!(PointState::decode(&mut without).unwrap(), PointState { kept: Vec::new(), ..state.clone() });
    let by_prefix = Sketches::decode_from(|prefix| Ok::<_, layerscope_stats::Error>(state.encode().take_nested(prefix)));
    assert_eq!(by_prefix.unwrap(), state.sketches);

    let refused = |change: &dyn Fn(&mut Tensors<'_>)| {
        let mut tensors = state.encode();
        change(&mut tensors);
        PointState::decode(&mut tensors).unwrap_err().to_string()
    };
    assert_eq!(refused(&|tensors| drop(tensors.0.remove("excluded"))), "tensor `excluded`: is missing");
    assert_eq!(refused(&|tensors| drop(tensors.0.remove("moments.corpus.m2"))), "tensor `moments.corpus.m2`: is missing");
    assert_eq!(refused(&|tensors| drop(tensors.0.remove("lenses.pairs.n"))), "tensor `lenses.pairs.n`: is missing");
    let kept = |tensors: &mut Tensors<'_>| tensors.0.get_mut("kept").unwrap().values = Values::U64(vec![0; 4 * DIM].into());
    assert_eq!(refused(&kept), "tensor `kept`: is not of type F32");
}

#[test]
fn states_merge_and_say_what_they_take() {
    let network = Network::new(83, 300, DIM);
    let whole = Run::whole(&network, 10);
    let names: Vec<u32> = (0..40).collect();
    for state in &whole.points {
        let mut twice = state.emptied(40, 2);
        assert_eq!((twice.states(), twice.kept.len()), (0, 2 * state.dim()));
        twice.merge_renamed(state, &names).unwrap();
        assert_eq!((&twice.moments, &twice.sketches), (&state.moments, &state.sketches));
        twice.merge_renamed(state, &names).unwrap();
        assert_eq!(twice.states(), 2 * state.states());
    }
    let previous = |previous| SketchShape { dim: DIM, previous, massive: None };
    let pairs = Sketches::bytes(SET, &previous(Some(DIM))) - Sketches::bytes(SET, &previous(None));
    assert_eq!(shape(false).bytes() - shape(true).bytes(), pairs);
    let stored: usize = state(false).encode().0.values().map(|tensor| tensor.values.len() * 8).sum();
    assert!(shape(false).bytes().abs_diff(stored) < stored / 20, "{} {stored}", shape(false).bytes()); // counts and mean norms are beside it
    assert!(whole.points[1].clone().sketches.merge(&whole.points[2].sketches).is_err());
}
