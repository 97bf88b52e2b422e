//! Invented values as the tables of a run.

use layerscope_report::{Column, Table};

use super::Result;
use super::massive::{COMPONENT, Massive};
use super::model::{Group, Model, Moments};
use super::random::Random;

impl Model {
    /// With massive states and, where there are any, without.
    fn selections(&self, at: (i64, &'static str), groups: &[Group]) -> impl Iterator<Item = (&'static str, f64)> {
        let part = self.massive_part(at, groups);
        let measured = self.massive == Massive::Measured && part > 0.0;
        let all = ("all", if part.is_nan() { 0.0 } else { part });
        [all, ("typical", 0.0)].into_iter().take(1 + usize::from(measured))
    }

    pub fn components_table(&self, points: &[(i64, &'static str)], groups: &[Group], random: &mut Random) -> Result<Table> {
        let mut cells = Cells::new(
            ["layer", "point", "component"],
            ["mean", "variance", "second_moment", "variance_within", "variance_between", "cosine_contribution"],
        );
        for &(layer, point) in points {
            let invented: Vec<(f64, f64)> = (0..self.width)
                .map(|i| {
                    let rogue = i == 7 || i == self.width / 2;
                    let size = if rogue { 40.0 * layer as f64 } else { 1.0 };
                    (0.3 * random.normal() + if rogue { size.sqrt() } else { 0.0 }, 0.5 + random.uniform() + 0.02 * size)
                })
                .collect();
            for (selection, part) in self.selections((layer, point), groups) {
                for (i, &(mean, variance)) in invented.iter().enumerate() {
                    let added = if i == COMPONENT { self.massive_square(layer).sqrt() } else { 0.0 };
                    let mixed = (1.0 - part) * mean + part * added;
                    let variance = (1.0 - part) * (variance + mean * mean) + part * added * added - mixed * mixed;
                    let rogue = i == 7 || i == self.width / 2;
                    let size = if rogue { 40.0 * layer as f64 } else { 1.0 };
                    let cosine = mixed * mixed / (self.width as f64 * (1.0 + size));
                    let reals = [mixed, variance, mixed * mixed + variance, 0.6 * variance, 0.4 * variance, cosine];
                    cells.push([Some(layer), None, Some(i as i64)], Some(point), reals.map(Some), selection);
                }
            }
        }
        cells.table(self.massive == Massive::Measured)
    }

    pub fn spectra_table(&self, points: &[(i64, &'static str)], groups: &[Group]) -> Result<Table> {
        let mut cells = Cells::new(["layer", "point", "rank"], ["eigenvalue"]);
        for &(layer, point) in points {
            let exponent = 0.6 + 0.6 * layer as f64 / self.layers as f64;
            for (selection, part) in self.selections((layer, point), groups) {
                for rank in 1..=self.width {
                    let value = 30.0 * (rank as f64).powf(-exponent) + if rank == 1 { part * self.massive_square(layer) } else { 0.0 };
                    cells.push([Some(layer), None, Some(rank as i64)], Some(point), [Some(value)], selection);
                }
            }
        }
        cells.table(self.massive == Massive::Measured)
    }

    pub fn norms_table(&self, points: &[(i64, &str)]) -> Result<Table> {
        let (mut layers, mut norms, mut statistics, mut values) = (vec![], vec![], vec![], vec![]);
        for &(layer, _) in points {
            for (statistic, value) in [("gamma_mean", 0.8 + 0.01 * layer as f64), ("gamma_norm2", 70.0), ("beta_norm2", 4.5)] {
                layers.push(Some(layer));
                norms.push(Some("attention"));
                statistics.push(Some(statistic));
                values.push(Some(value));
            }
        }
        let columns = [("layer", Column::Integer(layers)), ("norm", Column::text(norms)), ("statistic", Column::text(statistics))];
        Ok(Table::new(columns.into_iter().chain([("value", Column::Real(values))]))?)
    }

    /// Embedding matrices on a plane: the output one drifts away from the origin.
    pub fn projections_table(&self, random: &mut Random) -> Result<Table> {
        let (mut points, mut steps, mut ids, mut x, mut y) = (vec![], vec![], vec![], vec![], vec![]);
        for &step in &self.steps {
            for (point, drift) in [("input_embedding", 0.0), ("output_embedding", (1.0 + step as f64).ln() / 2.0)] {
                for id in 0..500 {
                    points.push(Some(point));
                    steps.push(Some(step));
                    ids.push(Some(2 * id));
                    x.push(Some(random.normal() + drift));
                    y.push(Some(random.normal()));
                }
            }
        }
        let columns = [("point", Column::text(points)), ("group_id", Column::Integer(ids)), ("x", Column::Real(x)), ("y", Column::Real(y))];
        Ok(Table::new(columns.into_iter().chain([("step", Column::Integer(steps))]))?)
    }

    pub fn tokens_table(&self, points: &[(i64, &'static str)], groups: &[Group], random: &mut Random) -> Result<Table> {
        let chosen: Vec<&Group> = groups.iter().filter(|group| group.n >= 10).step_by((groups.len() / 40).max(1)).collect();
        let mut rows: Vec<TokenRow> = Vec::new();
        for &(layer, point) in points {
            let spread = 0.4 + 2.0 * layer as f64 / self.layers as f64;
            for (k, group) in chosen.iter().enumerate() {
                let angle = k as f64 * 2.4;
                let radius = 8.0 + 6.0 * (k as f64 / chosen.len() as f64);
                let (x, y) = (radius * angle.cos() + 10.0, radius * angle.sin());
                let states: Vec<[f64; 2]> = (0..60).map(|_| [x + spread * random.normal(), y + spread * random.normal()]).collect();
                let massive = 60 * self.massive_of((layer, point), group) / group.n;
                for (selection, _) in self.selections((layer, point), groups) {
                    let left = if selection == "all" { 0 } else { massive as usize };
                    for (i, &[x, y]) in states.iter().enumerate().skip(left) {
                        // Massive states lie far out, and the plane is theirs.
                        let far = selection == "all" && (i as u64) < massive;
                        let x = if far { self.massive_square(layer).sqrt() } else { x };
                        rows.push((
                            layer,
                            point,
                            group,
                            Some((format!("corpus.txt:{}", i * 31 % 977), i as i64 % 20)),
                            x,
                            y,
                            None,
                            selection,
                        ));
                    }
                    rows.push((layer, point, group, None, x, y, Some(0.9 - 0.5 * layer as f64 / self.layers as f64), selection));
                }
            }
        }
        let text = |of: &dyn Fn(usize) -> Option<String>| Column::text((0..rows.len()).map(of));
        let integer = |of: &dyn Fn(usize) -> Option<i64>| Column::Integer((0..rows.len()).map(of).collect());
        let real = |of: &dyn Fn(usize) -> Option<f64>| Column::Real((0..rows.len()).map(of).collect());
        let mut columns = vec![
            ("layer", integer(&|i| Some(rows[i].0))),
            ("point", text(&|i| Some(rows[i].1.into()))),
            ("group_id", integer(&|i| Some(rows[i].2.id))),
            ("group", text(&|i| Some(rows[i].2.name.clone()))),
            ("n", integer(&|i| Some(rows[i].2.n as i64))),
            ("role", text(&|i| Some(if rows[i].3.is_some() { "state" } else { "mean" }.into()))),
            ("document", text(&|i| rows[i].3.as_ref().map(|place| place.0.clone()))),
            ("position", integer(&|i| rows[i].3.as_ref().map(|place| place.1))),
            ("x", real(&|i| Some(rows[i].4))),
            ("y", real(&|i| Some(rows[i].5))),
            ("explainable_variance", real(&|i| rows[i].6)),
            ("explained_x", real(&|i| rows[i].6.map(|_| 0.42))),
            ("explained_y", real(&|i| rows[i].6.map(|_| 0.137))),
        ];
        if self.massive == Massive::Measured {
            columns.push(("selection", text(&|i| Some(rows[i].7.into()))));
        }
        Ok(Table::new(columns)?)
    }
}

/// Point, group, how many of its states, their moments, and which states.
pub type GroupRow<'a> = ((i64, &'static str), &'a Group, u64, Moments, &'static str);

pub fn groups_table(model: &Model, rows: &[GroupRow]) -> Result<Table> {
    let text = |of: &dyn Fn(&GroupRow) -> String| Column::text(rows.iter().map(|row| Some(of(row))));
    let integer = |of: &dyn Fn(&GroupRow) -> i64| Column::Integer(rows.iter().map(|row| Some(of(row))).collect());
    let real = |of: &dyn Fn(&GroupRow) -> Option<f64>| Column::Real(rows.iter().map(of).collect());
    let mut columns = vec![
        ("layer", integer(&|row| row.0.0)),
        ("point", text(&|row| row.0.1.into())),
        ("group_id", integer(&|row| row.1.id)),
        ("group", text(&|row| row.1.name.clone())),
        ("raw", text(&|row| format!("Ġ{}", row.1.name))),
        ("subwords", integer(&|row| if model.words { 1 + row.1.id % 3 } else { 1 })),
        ("n", integer(&|row| row.2 as i64)),
        ("q", real(&|row| Some(row.3.q))),
        ("m", real(&|row| Some(row.3.m))),
        ("v", real(&|row| Some(row.3.v))),
        ("self_similarity", real(&|row| (row.2 > 1).then_some(row.3.m / row.3.q))),
        ("mean_norm", real(&|row| Some(row.3.q.sqrt() * 0.98))),
    ];
    if model.massive == Massive::Measured {
        columns.push(("special", integer(&|row| i64::from(row.1.special))));
        columns.push(("selection", text(&|row| row.4.into())));
    }
    Ok(Table::new(columns)?)
}

/// Layer, point, group, document and position of a state, place, explainable variance of a mean, which states.
pub type TokenRow<'a> = (i64, &'a str, &'a Group, Option<(String, i64)>, f64, f64, Option<f64>, &'static str);

/// Columns of the layers' table.
#[derive(Default)]
pub struct LayerRows {
    pub model: String,
    pub rows: Vec<LayerRow>,
}

pub type LayerRow =
    (Option<i64>, &'static str, &'static str, (&'static str, Option<&'static str>), Option<f64>, Option<f64>, i64, Option<i64>);

impl LayerRows {
    #[allow(clippy::too_many_arguments)] // one per column
    pub fn push(
        &mut self,
        layer: Option<i64>,
        point: &'static str,
        selection: &'static str,
        measure: (&'static str, Option<&'static str>),
        value: Option<f64>,
        se: Option<f64>,
        n: i64,
        step: Option<i64>,
    ) {
        self.rows.push((layer, point, selection, measure, value, se, n, step));
    }

    pub fn table(&self) -> Result<Table> {
        let text = |of: &dyn Fn(&LayerRow) -> Option<String>| Column::text(self.rows.iter().map(of));
        Ok(Table::new([
            ("model", text(&|_| Some(self.model.clone()))),
            ("revision", text(&|_| Some("main".into()))),
            ("layer", Column::Integer(self.rows.iter().map(|row| row.0).collect())),
            ("point", text(&|row| Some(row.1.into()))),
            ("selection", text(&|row| Some(row.2.into()))),
            ("measure", text(&|row| Some(row.3.0.into()))),
            ("variant", text(&|row| row.3.1.map(Into::into))),
            ("value", Column::Real(self.rows.iter().map(|row| row.4).collect())),
            ("se", Column::Real(self.rows.iter().map(|row| row.5).collect())),
            ("n", Column::Integer(self.rows.iter().map(|row| Some(row.6)).collect())),
            ("step", Column::Integer(self.rows.iter().map(|row| row.7).collect())),
        ])?)
    }
}

/// A table of two integers and a point, then reals.
pub struct Cells<const N: usize> {
    keys: [&'static str; 3],
    names: [&'static str; N],
    integers: [Vec<Option<i64>>; 3],
    points: Vec<Option<String>>,
    reals: Vec<[Option<f64>; N]>,
    selections: Vec<Option<String>>,
}

impl<const N: usize> Cells<N> {
    pub fn new(keys: [&'static str; 3], names: [&'static str; N]) -> Self {
        Cells { keys, names, integers: Default::default(), points: Vec::new(), reals: Vec::new(), selections: Vec::new() }
    }

    pub fn push(&mut self, integers: [Option<i64>; 3], point: Option<&str>, reals: [Option<f64>; N], selection: &str) {
        self.integers.iter_mut().zip(integers).for_each(|(column, value)| column.push(value));
        self.points.push(point.map(Into::into));
        self.reals.push(reals);
        self.selections.push(Some(selection.into()));
    }

    /// The table, with the states it is about where it tells them apart.
    pub fn table(self, has_selection: bool) -> Result<Table> {
        let [layers, _, last] = self.integers;
        let keys = [Column::Integer(layers), Column::text(self.points), Column::Integer(last)];
        let reals = (0..N).map(|i| (self.names[i], Column::Real(self.reals.iter().map(|row| row[i]).collect())));
        let selections = has_selection.then_some(("selection", Column::text(self.selections)));
        Ok(Table::new(self.keys.into_iter().zip(keys).chain(reals).chain(selections))?)
    }
}
