//! The groups of a run as figures see them: of the states that are shown, each selected or not.

use std::collections::BTreeMap;
use std::sync::Arc;

use layerscope_stats::measure::{fit_line, variation};

use super::data::{Point, integers, reals, texts};
use crate::states::States;
use crate::table::Table;

/// The columns of the groups' table, one entry a row.
pub(crate) struct Groups<'a> {
    ids: Option<&'a [Option<i64>]>,
    names: &'a [Option<Arc<str>>],
    n: &'a [Option<i64>],
    q: &'a [Option<f64>],
    m: &'a [Option<f64>],
    v: &'a [Option<f64>],
    subwords: Option<&'a [Option<i64>]>,
    special: Option<&'a [Option<i64>]>,
    rows: BTreeMap<(i64, Point), Vec<usize>>,
}

/// A token by its id and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token {
    pub id: Option<i64>,
    pub name: String,
}

/// One group at one point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a> {
    pub id: Option<i64>,
    pub name: &'a str,
    pub n: i64,
    pub q: f64,
    pub m: f64,
    pub v: f64,
    pub subwords: Option<i64>,
    /// Whether it is a special token, which no range of frequencies selects.
    pub special: bool,
    /// Whether it is in the range of frequencies: regressions are over such groups.
    pub selected: bool,
}

impl Group<'_> {
    /// Whether it is this one: names alone may be shared (`ing` and `##ing`).
    pub fn is(&self, token: &Token) -> bool {
        (self.id, self.name) == (token.id, token.name.as_str())
    }

    pub fn log_n(&self) -> f64 {
        (self.n as f64).log10()
    }
}

impl<'a> Groups<'a> {
    /// The groups of these states; none if the table lacks a column.
    pub fn of(table: &'a Table, states: States) -> Option<Groups<'a>> {
        Some(Groups {
            ids: integers(table, "group_id"),
            names: texts(table, "group")?,
            n: integers(table, "n")?,
            q: reals(table, "q")?,
            m: reals(table, "m")?,
            v: reals(table, "v")?,
            subwords: integers(table, "subwords"),
            special: integers(table, "special"),
            rows: shown_rows(table, states),
        })
    }

    /// Every point that has groups.
    pub fn points(&self) -> impl Iterator<Item = (i64, Point)> + '_ {
        self.rows.keys().copied()
    }

    /// The groups at a point; those with a frequency in the range are selected, all of them where there is no range.
    pub fn at(&self, at: (i64, Point), range: Option<(i64, i64)>) -> Vec<Group<'_>> {
        let rows = self.rows.get(&at).map_or(&[][..], Vec::as_slice);
        let group = |row: &usize| {
            let n = self.n[*row].filter(|n| *n > 0)?;
            let special = self.special.and_then(|special| special[*row]).is_some_and(|special| special != 0);
            Some(Group {
                id: self.ids.and_then(|ids| ids[*row]),
                name: self.names[*row].as_deref().unwrap_or(""),
                n,
                q: self.q[*row]?,
                m: self.m[*row]?,
                v: self.v[*row]?,
                subwords: self.subwords.and_then(|subwords| subwords[*row]),
                special,
                selected: !special && range.is_none_or(|(low, high)| (low..=high).contains(&n)),
            })
        };
        rows.iter().filter_map(group).collect()
    }
}

/// The rows of a table that show these states, by point.
///
/// A point without rows of typical states has no massive ones: its rows of all states are those of the typical ones. A table without a
/// column `selection` is of an older program and has only rows of all states.
pub(crate) fn shown_rows(table: &Table, states: States) -> BTreeMap<(i64, Point), Vec<usize>> {
    let (Some(layers), Some(points)) = (integers(table, "layer"), texts(table, "point")) else { return BTreeMap::new() };
    let selections = texts(table, "selection");
    let mut rows: BTreeMap<(i64, Point), [Vec<usize>; 2]> = BTreeMap::new();
    for row in 0..table.rows() {
        let (Some(layer), Some(point)) = (layers[row], points[row].as_deref().and_then(Point::parse)) else { continue };
        let is_typical = selections.is_some_and(|selections| selections[row].as_deref() == Some(States::Typical.name()));
        rows.entry((layer, point)).or_default()[usize::from(is_typical)].push(row);
    }
    let shown = |[all, typical]: [Vec<usize>; 2]| if states == States::Typical && !typical.is_empty() { typical } else { all };
    rows.into_iter().map(|(at, rows)| (at, shown(rows))).collect()
}

/// One of the measures over groups (Yamagiwa and Shimodaira).
pub(crate) fn over_groups(measure: &str, groups: &[Group]) -> Option<f64> {
    let of = |value: fn(&Group) -> f64| groups.iter().map(value).collect::<Vec<f64>>();
    let v_on_m = || fit_line(&of(|group| group.m), &of(|group| group.v));
    let on_log_n = |value: fn(&Group) -> f64| fit_line(&of(|group| group.log_n()), &of(value)).map(|line| line.slope);
    match measure {
        "cv_q" => variation(&of(|group| group.q)),
        "slope_v_on_m" => v_on_m().map(|line| line.slope),
        "r2_v_on_m" => v_on_m().and_then(|line| line.r2),
        "slope_log_q_on_log_n" => on_log_n(|group| (1.0 + group.q).log10()),
        "slope_log_m_on_log_n" => on_log_n(|group| (1.0 + group.m).log10()),
        "slope_log_v_on_log_n" => on_log_n(|group| (1.0 + group.v).log10()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;

    fn table(selections: Option<[&str; 4]>) -> Table {
        let text = |values: [&str; 4]| Column::text(values.iter().map(|value| Some(*value)));
        let real = |values: [f64; 4]| Column::Real(values.map(Some).to_vec());
        let integer = |values: [i64; 4]| Column::Integer(values.map(Some).to_vec());
        let mut columns = vec![
            ("layer", integer([1, 1, 1, 2])),
            ("point", text(["block"; 4])),
            ("group", text(["a", "b", "a", "a"])),
            ("n", integer([40, 20, 30, 40])),
            ("q", real([9.0, 2.0, 1.0, 4.0])),
            ("m", real([1.0; 4])),
            ("v", real([8.0, 1.0, 0.0, 3.0])),
            ("special", integer([0, 1, 0, 0])),
        ];
        columns.extend(selections.map(|selections| ("selection", text(selections))));
        Table::new(columns).unwrap()
    }

    #[test]
    fn a_point_without_typical_rows_has_only_typical_states() {
        let rows = |table: &Table, states| shown_rows(table, states).into_values().collect::<Vec<_>>();
        let new = table(Some(["all", "all", "typical", "all"]));
        assert_eq!(rows(&new, States::All), [vec![0, 1], vec![3]]);
        assert_eq!(rows(&new, States::Typical), [vec![2], vec![3]]);
        let old = table(None);
        assert_eq!(rows(&old, States::All), rows(&old, States::Typical));
    }

    #[test]
    fn special_tokens_are_never_selected() {
        let table = table(None);
        let groups = Groups::of(&table, States::All).unwrap();
        let selected = |range| groups.at((1, Point::Block), range).iter().map(|group| group.selected).collect::<Vec<_>>();
        assert_eq!(selected(Some((10, 35))), [false, false, true]);
        assert_eq!(selected(None), [true, false, true]);
    }
}
