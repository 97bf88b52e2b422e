//! Many rows of few groups, of which only norms and cosines are wanted: every row is read from memory once.

use layerscope_stats::sketch::{PointMoments, SketchKind};
use layerscope_stats::{NOT_COUNTED, Numbered, Segments};

use super::rows::{GroupsOf, StateRows};
use super::{Collector, lock};
use crate::error::Result;
use crate::store::point_name::PointName;

impl Collector {
    /// Adds rows if they are of this kind and all that count are finite; otherwise nothing has changed.
    pub(super) fn update_few(&self, at: PointName, rows: &StateRows<'_>, count: usize) -> Result<bool> {
        let of_points = !self.settings.massive_norms.is_empty(); // memory is shared between points, and so must be the norm
        let plain = self.sketches.without(SketchKind::Units).is_empty() && self.settings.tokens.is_empty() && !of_points;
        let simple = plain && rows.documents.is_none();
        let Some(mut local) = simple.then(|| numbered(&rows.groups, count)).flatten() else { return Ok(false) };
        if let Some(mask) = rows.mask {
            local.numbers.iter_mut().zip(mask).filter(|(_, counts)| !**counts).for_each(|(number, _)| *number = NOT_COUNTED);
        }
        let segments = Segments::new(&local.numbers);
        let mut spare = self.take_spare();
        let all_finite = match self.enter_at_once(at, rows, &local, &segments, &mut spare)? {
            Some(all_finite) => all_finite,
            None => self.enter_apart(at, rows, &local, &segments, &mut spare)?,
        };
        lock(&self.spare).push((std::thread::current().id(), spare));
        Ok(all_finite)
    }

    /// Memory that this thread gave back, so that it lies in this processor's cache; otherwise another's, or new.
    fn take_spare(&self) -> PointMoments {
        let (me, mut spares) = (std::thread::current().id(), lock(&self.spare));
        let own = spares.iter().position(|(owner, _)| *owner == me).or_else(|| spares.len().checked_sub(1));
        match own {
            Some(at) => spares.swap_remove(at).1,
            None => PointMoments::of(0, self.settings.dim, self.settings.massive_norm, self.sketches.contains(SketchKind::Units)),
        }
    }

    /// Adds rows of known groups to a point that nobody else is busy with; None if it is not of this kind. `before` is what it was.
    fn enter_at_once(
        &self,
        at: PointName,
        rows: &StateRows<'_>,
        local: &Numbered,
        segments: &Segments,
        before: &mut PointMoments,
    ) -> Result<Option<bool>> {
        let known = lock(&self.groups).known(&rows.groups, &local.firsts);
        let point = lock(&self.points).get(&at).cloned();
        let (Some(names), Some(point)) = (known, point) else { return Ok(None) };
        let Ok(mut point) = point.try_lock() else { return Ok(None) };
        if !point.state.moments.is_plain() {
            return Ok(None);
        }
        point.grow(names.iter().max().map_or(0, |last| *last as usize + 1));
        point.state.moments.excerpt(&names, before);
        let all_finite = point.state.moments.update_once(rows.states, &segments.renamed(&names))?.is_none();
        if all_finite {
            point.counts.rows += rows.count(self.settings.dim);
        } else {
            point.state.moments.restore(before, &names);
        }
        Ok(Some(all_finite))
    }

    /// Adds rows to sums of their own, and those to the point: it is not touched before all rows are known to be finite.
    fn enter_apart(
        &self,
        at: PointName,
        rows: &StateRows<'_>,
        local: &Numbered,
        segments: &Segments,
        own: &mut PointMoments,
    ) -> Result<bool> {
        own.restart(local.firsts.len());
        if own.update_once(rows.states, segments)?.is_some() {
            return Ok(false);
        }
        let (names, known) = {
            let mut groups = lock(&self.groups);
            (groups.numbers_of(&rows.groups, &local.firsts)?, groups.len())
        };
        let point = self.point(at);
        let mut point = lock(&point);
        point.grow(known);
        point.state.moments.merge_renamed(own, &names)?;
        point.counts.rows += rows.count(self.settings.dim);
        Ok(true)
    }
}

/// The groups of an update, numbered as they come; None if there are many for so many rows.
fn numbered(groups: &GroupsOf<'_>, count: usize) -> Option<Numbered> {
    match groups {
        GroupsOf::None => Numbered::all_equal(count),
        GroupsOf::Ids(ids) => Numbered::by_id(ids),
        GroupsOf::Names(names) => Numbered::by_name(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::CollectorSettings;

    const DIM: usize = 3;
    const ROWS: usize = 400;

    fn collector(families: &[&str], massive_norm: Option<f64>) -> Collector {
        let measures = families.iter().map(|family| (*family).to_owned()).collect();
        Collector::new(CollectorSettings { measures, massive_norm, ..CollectorSettings::new(DIM) }).unwrap()
    }

    fn states() -> Vec<f32> {
        (0..ROWS * DIM).map(|at| ((at * 7919 % 1009) as f32).sqrt() - 9.0 + if at % 97 == 0 { 80.0 } else { 0.0 }).collect()
    }

    #[test]
    fn rows_together_are_what_they_are_one_by_one() {
        let (states, mask): (Vec<f32>, Vec<bool>) = (states(), (0..ROWS).map(|row| row % 11 != 4).collect());
        let small: Vec<u64> = (0..ROWS as u64).map(|row| row * row % 5).collect();
        let large: Vec<u64> = small.iter().map(|id| id << 40).collect();
        let names: Vec<String> = small.iter().map(|id| format!("group {id}")).collect();
        let all = [GroupsOf::None, GroupsOf::Ids(&small), GroupsOf::Ids(&large), GroupsOf::Names(&names)];
        let kinds = [(&["norm", "cosine"][..], Some(50.0)), (&["norm"], Some(50.0)), (&["norm"], None)];
        for (groups, (families, massive)) in all.into_iter().flat_map(|groups| kinds.map(|kind| (groups, kind))) {
            let (together, apart, at) = (collector(families, massive), collector(families, massive), PointName::of_layer(2));
            let rows = StateRows { states: &states, groups, mask: Some(&mask), ..StateRows::default() };
            assert!(together.update_few(at, &rows, ROWS).unwrap());
            for row in 0..ROWS {
                let groups = match groups {
                    GroupsOf::None => GroupsOf::None,
                    GroupsOf::Ids(ids) => GroupsOf::Ids(&ids[row..=row]),
                    GroupsOf::Names(names) => GroupsOf::Names(&names[row..=row]),
                };
                let rows = StateRows { states: &states[row * DIM..][..DIM], groups, mask: Some(&mask[row..=row]), ..StateRows::default() };
                assert!(!apart.update_few(at, &rows, 1).unwrap());
                apart.update(at, &rows).unwrap();
            }
            let (together, apart) = (lock(&together.point(at)).clone(), lock(&apart.point(at)).clone());
            assert_eq!((together.state.states(), together.counts), (apart.state.states(), apart.counts));
            assert_eq!(together.state.moments.massive_states(), apart.state.moments.massive_states());
            assert!(massive.is_none() || together.state.moments.massive_states() > 5);
            let (ours, theirs) = (together.state.moments.all().unwrap(), apart.state.moments.all().unwrap());
            assert_eq!(ours.groups().count(), theirs.groups().count());
            for ((id, ours), (their_id, theirs)) in ours.groups().zip(theirs.groups()) {
                assert_eq!(id, their_id);
                let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * theirs.square * theirs.n as f64;
                assert_eq!((ours.n, ours.nonzero), (theirs.n, theirs.nonzero));
                assert!(close(ours.m2, theirs.m2) && close(ours.square, theirs.square) && close(ours.norm, theirs.norm));
                assert!((0..DIM).all(|i| close(ours.mean[i], theirs.mean[i])));
                assert_eq!(ours.unit.len(), if families.contains(&"cosine") { DIM } else { 0 });
                assert!(ours.unit.iter().zip(theirs.unit).all(|(ours, theirs)| close(*ours, *theirs)));
            }
        }
    }

    #[test]
    fn known_groups_enter_at_once_and_a_refused_update_changes_nothing() {
        let (states, at) = (states(), PointName::of_layer(0));
        let ids: Vec<u64> = (0..ROWS as u64).map(|row| row * row % 5).collect();
        let (half, rest) = (ROWS / 2 * DIM, &ids[ROWS / 2..]);
        let (at_once, apart) = (collector(&["norm"], None), collector(&["norm"], None));
        let first = StateRows::new(&states[..half]).groups(GroupsOf::Ids(&ids[..ROWS / 2]));
        let second = StateRows::new(&states[half..]).groups(GroupsOf::Ids(rest));
        let local = numbered(&second.groups, rest.len()).unwrap();
        let segments = Segments::new(&local.numbers);
        let mut spare = PointMoments::of(0, DIM, None, false);
        for collector in [&at_once, &apart] {
            // The first rows of a point, and the first ones of a group, do not.
            assert_eq!(collector.enter_at_once(at, &second, &local, &segments, &mut spare).unwrap(), None);
            assert!(collector.update_few(at, &first, ROWS / 2).unwrap());
        }

        let mut broken = states[half..].to_vec();
        *broken.last_mut().unwrap() = f32::NAN;
        let before = lock(&at_once.point(at)).state.moments.clone();
        let refused = at_once.enter_at_once(at, &StateRows::new(&broken).groups(second.groups), &local, &segments, &mut spare).unwrap();
        assert_eq!(refused, Some(false));
        assert!(lock(&at_once.point(at)).state.moments == before);

        assert_eq!(at_once.enter_at_once(at, &second, &local, &segments, &mut spare).unwrap(), Some(true));
        assert!(apart.enter_apart(at, &second, &local, &segments, &mut spare).unwrap());
        let (ours, theirs) = (lock(&at_once.point(at)).clone(), lock(&apart.point(at)).clone());
        assert_eq!((ours.state.states(), ours.counts), (ROWS as u64, theirs.counts));
        let (ours, theirs) = (ours.state.moments.all().unwrap(), theirs.state.moments.all().unwrap());
        for ((_, ours), (_, theirs)) in ours.groups().zip(theirs.groups()) {
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-13 * theirs.square * theirs.n as f64;
            assert!(ours.n == theirs.n && close(ours.m2, theirs.m2) && (0..DIM).all(|i| close(ours.mean[i], theirs.mean[i])));
        }
        let pairs = [(ours.corpus().m2(), theirs.corpus().m2()), (ours.corpus().square(), theirs.corpus().square())];
        assert!(pairs.iter().flat_map(|(a, b)| a.iter().zip(*b)).all(|(a, b)| (a - b).abs() <= 1e-13 * b));
    }

    #[test]
    fn many_groups_and_bad_rows_are_left_to_others() {
        let (mut states, ids): (Vec<f32>, Vec<u64>) = (states(), (0..ROWS as u64).map(|row| row % 40).collect());
        let (collector, at) = (collector(&["norm"], None), PointName::of_layer(0));
        assert!(!collector.update_few(at, &StateRows::new(&states).groups(GroupsOf::Ids(&ids)), ROWS).unwrap());
        states[77] = f32::INFINITY;
        assert!(!collector.update_few(at, &StateRows::new(&states), ROWS).unwrap());
        assert!(collector.update(at, &StateRows::new(&states)).unwrap_err().to_string().contains("row 25"));
        assert_eq!((collector.states(at), collector.places().len()), (0, 0));
    }
}
