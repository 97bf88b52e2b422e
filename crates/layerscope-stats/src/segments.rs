//! Which rows of a batch count for which group.

/// The group of a row that is not counted (special tokens, context that another window counts, rows that are not finite).
pub const NOT_COUNTED: u32 = u32::MAX;

/// The rows of one group within [`Segments::order`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The group.
    pub group: u32,
    /// Its first place in the order.
    pub start: u32,
    /// One past its last place.
    pub end: u32,
}

/// Counted rows sorted by group. Built once per batch, used at every point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    order: Vec<u32>,
    segments: Vec<Segment>,
    counted: Vec<u32>,
}

impl Segments {
    /// From the group of every row; [`NOT_COUNTED`] leaves a row out. Rows of one group keep their order.
    pub fn new(groups: &[u32]) -> Segments {
        Segments::of(groups.iter().enumerate().filter(|(_, group)| **group != NOT_COUNTED).map(|(row, &group)| (group, row as u32)))
    }

    /// From (group, row), rows ascending.
    pub(crate) fn of(pairs: impl Iterator<Item = (u32, u32)>) -> Segments {
        let most = pairs.size_hint().1.unwrap_or(0);
        let (mut groups, mut counted) = (Vec::with_capacity(most), Vec::with_capacity(most));
        for (group, row) in pairs {
            groups.push(group);
            counted.push(row);
        }
        let largest = groups.iter().max().map_or(0, |&group| group as usize);
        match largest < 2 * groups.len() {
            true => Segments::counted_out(&groups, counted, largest + 1),
            false => Segments::sorted(&groups, counted),
        }
    }

    /// For few groups: count the rows of each, then put every row in its place.
    fn counted_out(groups: &[u32], counted: Vec<u32>, known: usize) -> Segments {
        let mut places = vec![0; known];
        groups.iter().for_each(|&group| places[group as usize] += 1);
        let (mut segments, mut start) = (Vec::with_capacity(known.min(groups.len())), 0);
        for (group, place) in places.iter_mut().enumerate() {
            let end = start + *place;
            if end > start {
                segments.push(Segment { group: group as u32, start, end });
            }
            *place = start;
            start = end;
        }
        let mut order = vec![0; counted.len()];
        for (&group, &row) in groups.iter().zip(&counted) {
            let place = &mut places[group as usize];
            order[*place as usize] = row;
            *place += 1;
        }
        Segments { order, segments, counted }
    }

    fn sorted(groups: &[u32], counted: Vec<u32>) -> Segments {
        let mut keys: Vec<u64> = groups.iter().zip(&counted).map(|(&group, &row)| u64::from(group) << 32 | u64::from(row)).collect();
        keys.sort_unstable();
        let mut segments: Vec<Segment> = Vec::new();
        for (place, &key) in keys.iter().enumerate() {
            let (group, place) = ((key >> 32) as u32, place as u32);
            match segments.last_mut() {
                Some(last) if last.group == group => last.end = place + 1,
                _ => segments.push(Segment { group, start: place, end: place + 1 }),
            }
        }
        Segments { order: keys.iter().map(|&key| key as u32).collect(), segments, counted }
    }

    /// The same rows of groups with other names: `g` becomes `names[g]`. Groups may not ascend any more.
    pub fn renamed(&self, names: &[u32]) -> Segments {
        let rename = |segment: &Segment| Segment { group: names[segment.group as usize], ..*segment };
        Segments { segments: self.segments.iter().map(rename).collect(), ..self.clone() }
    }

    /// Every group with its rows, groups ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.segments.iter().map(|segment| (segment.group, &self.order[segment.start as usize..segment.end as usize]))
    }

    /// Counted rows sorted by group.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Where each group lies in the order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Counted rows as they come.
    pub fn counted(&self) -> &[u32] {
        &self.counted
    }

    /// Those rows for which `apart` holds, and the others.
    pub(crate) fn partition(&self, apart: impl Fn(u32) -> bool) -> (Segments, Segments) {
        let mut pairs: Vec<(u32, u32)> = self.iter().flat_map(|(group, rows)| rows.iter().map(move |&row| (group, row))).collect();
        pairs.sort_unstable_by_key(|&(_, row)| row);
        let (apart, rest): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|&(_, row)| apart(row));
        (Segments::of(apart.into_iter()), Segments::of(rest.into_iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_group_stay_in_order() {
        let segments = Segments::new(&[7, 2, NOT_COUNTED, 7, 2]);
        assert_eq!(segments.order(), [1, 4, 0, 3]);
        assert_eq!(segments.counted(), [0, 1, 3, 4]);
        assert_eq!(segments.segments(), [Segment { group: 2, start: 0, end: 2 }, Segment { group: 7, start: 2, end: 4 }]);
        assert_eq!(segments.renamed(&[0, 0, 5, 0, 0, 0, 0, 1]).iter().collect::<Vec<_>>(), [(5, &[1u32, 4][..]), (1, &[0, 3])]);
        let (apart, rest) = segments.partition(|row| row == 3);
        assert_eq!(apart, Segments::new(&[NOT_COUNTED, NOT_COUNTED, NOT_COUNTED, 7]));
        assert_eq!(rest, Segments::new(&[7, 2, NOT_COUNTED, NOT_COUNTED, 2]));
    }

    #[test]
    fn counting_and_sorting_give_the_same_order() {
        let groups: Vec<u32> = (0..500).map(|row| row * row % 37 * 3).collect();
        let rows: Vec<u32> = (0..500).map(|row| 2 * row).collect();
        assert_eq!(Segments::counted_out(&groups, rows.clone(), 200), Segments::sorted(&groups, rows));
    }
}
