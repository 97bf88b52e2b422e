//! A few states that are far longer than all others: one more of some groups' states than the typical ones, along one component.

use layerscope_report::{Column, Table};

use super::Result;
use super::model::{Group, Model, Moments};

/// The component along which massive states lie.
pub const COMPONENT: usize = 7;

/// What a model has of them.
#[derive(Clone, Copy, PartialEq)]
pub enum Massive {
    None,
    /// Every table has the typical states too.
    Measured,
    /// As an older program wrote them: groups only with massive states.
    Old,
}

impl Model {
    /// How many states of a group are massive at a point: those of the first token all, of some others half.
    pub fn massive_of(&self, (layer, point): (i64, &str), group: &Group) -> u64 {
        let depth = layer as f64 / self.layers as f64;
        let inside = depth > 0.2 && depth < 0.95 && point == "block";
        match self.massive != Massive::None && inside {
            true if group.special => group.n,
            true if group.id % 5 == 0 && (16..20_000).contains(&group.n) => group.n / 2,
            _ => 0,
        }
    }

    pub fn has_massive(&self, at: (i64, &str), groups: &[Group]) -> bool {
        groups.iter().any(|group| self.massive_of(at, group) > 0)
    }

    /// The squared norm of a massive state.
    pub fn massive_square(&self, layer: i64) -> f64 {
        4000.0 * 40.0 * (1.0 + 60.0 * layer as f64 / self.layers as f64)
    }

    /// A group with its massive states, which are all alike and at a right angle to the mean of the others.
    pub fn with_massive(&self, at: (i64, &str), group: &Group, typical: Moments) -> Moments {
        let (n, massive) = (group.n as f64, self.massive_of(at, group) as f64);
        if massive == 0.0 {
            return typical;
        }
        let square = self.massive_square(at.0);
        let q = ((n - massive) * typical.q + massive * square) / n;
        let m = (((n - massive) / n).powi(2) * typical.m) + (massive / n).powi(2) * square;
        Moments { q, m, v: q - m }
    }

    /// The share of states that are massive.
    pub fn massive_part(&self, at: (i64, &str), groups: &[Group]) -> f64 {
        let sum = |of: &dyn Fn(&Group) -> u64| groups.iter().map(of).sum::<u64>() as f64;
        sum(&|group| self.massive_of(at, group)) / sum(&|group| group.n)
    }

    pub fn massive_table(&self, points: &[(i64, &'static str)], groups: &[Group]) -> Result<Table> {
        type Row<'a> = (i64, &'static str, &'a Group, Option<i64>, u64);
        let of_point = |&(layer, point): &(i64, &'static str)| {
            let found = groups.iter().map(move |group| (group, self.massive_of((layer, point), group))).filter(|(_, count)| *count > 0);
            found
                .flat_map(move |(group, count)| {
                    let late = if group.special { 0 } else { count / 3 };
                    [(layer, point, group, Some(0), count - late), (layer, point, group, None, late)]
                })
                .filter(|row: &Row| row.4 > 0)
                .collect::<Vec<_>>()
        };
        let rows: Vec<Row> = points.iter().flat_map(of_point).collect();
        let real = |of: &dyn Fn(&Row) -> f64| Column::Real(rows.iter().map(|row| Some(of(row))).collect());
        let mut columns = vec![
            ("layer".to_owned(), Column::Integer(rows.iter().map(|row| Some(row.0)).collect())),
            ("point".to_owned(), Column::text(rows.iter().map(|row| Some(row.1)))),
            ("token".to_owned(), Column::text(rows.iter().map(|row| Some(row.2.name.clone())))),
            ("position".to_owned(), Column::Integer(rows.iter().map(|row| row.3).collect())),
            ("count".to_owned(), Column::Integer(rows.iter().map(|row| Some(row.4 as i64)).collect())),
            ("mean_norm".to_owned(), real(&|row| self.massive_square(row.0).sqrt())),
        ];
        for (k, (component, part)) in [(COMPONENT, 1.0), (11, -0.02), (3, 0.01)].into_iter().enumerate() {
            columns.push((format!("component_{}", k + 1), Column::Integer(vec![Some(component as i64); rows.len()])));
            columns.push((format!("value_{}", k + 1), real(&|row| part * self.massive_square(row.0).sqrt())));
        }
        Ok(Table::new(columns)?)
    }

    /// Components of a few tokens: a mean that falls off, and a variance; massive states add to one component.
    pub fn token_components_table(&self, points: &[(i64, &'static str)], groups: &[Group]) -> Result<Table> {
        let chosen: Vec<&Group> = groups.iter().step_by(20).take(12).chain(groups.iter().filter(|group| group.special)).collect();
        let mut rows: Vec<(i64, &str, &Group, usize, f64, f64, &str)> = Vec::new();
        for &at in points {
            for group in &chosen {
                for selection in ["all", "typical"].into_iter().take(1 + usize::from(self.has_massive(at, groups))) {
                    let massive = self.massive_of(at, group);
                    if selection == "typical" && massive == group.n {
                        continue;
                    }
                    let part = if selection == "all" { massive as f64 / group.n as f64 } else { 0.0 };
                    for i in 0..self.width {
                        let angle = (i as f64 + 1.0) * (group.id as f64 + 1.0);
                        let (mean, variance) =
                            (3.0 * angle.sin() / (1.0 + (i % 17) as f64), 0.2 + 0.1 * (1.0 + at.0 as f64) * angle.cos().powi(2));
                        let added = if i == COMPONENT { self.massive_square(at.0).sqrt() } else { 0.0 };
                        let mixed = (1.0 - part) * mean + part * added;
                        let spread = (1.0 - part) * (variance + mean * mean) + part * added * added - mixed * mixed;
                        rows.push((at.0, at.1, group, i, mixed, spread, selection));
                    }
                }
            }
        }
        let text = |of: &dyn Fn(usize) -> String| Column::text((0..rows.len()).map(|i| Some(of(i))));
        let integer = |of: &dyn Fn(usize) -> i64| Column::Integer((0..rows.len()).map(|i| Some(of(i))).collect());
        let real = |of: &dyn Fn(usize) -> f64| Column::Real((0..rows.len()).map(|i| Some(of(i))).collect());
        Ok(Table::new([
            ("layer", integer(&|i| rows[i].0)),
            ("point", text(&|i| rows[i].1.into())),
            ("group_id", integer(&|i| rows[i].2.id)),
            ("token", text(&|i| rows[i].2.name.clone())),
            ("component", integer(&|i| rows[i].3 as i64)),
            ("q", real(&|i| rows[i].4 * rows[i].4 + rows[i].5)),
            ("mean", real(&|i| rows[i].4)),
            ("variance", real(&|i| rows[i].5)),
            ("selection", text(&|i| rows[i].6.into())),
        ])?)
    }
}
