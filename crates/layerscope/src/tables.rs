//! From the state of a run to its tables, one point in memory at a time.

use std::collections::HashMap;

use layerscope_report::{Column, Table};
use layerscope_stats::measure::{self, GroupRow, Identity, LayerRow, PointTables};

use crate::error::Result;
use crate::facts::{Facts, PointFacts};
use crate::point_state::PointState;

/// The tables of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// One row per point, selection and measure.
    pub layers: Table,
    /// One row per point and group.
    pub groups: Table,
    /// One row per point and component.
    pub components: Table,
    /// One row per point and identity.
    pub identities: Table,
    /// States that were left out, over all points.
    pub excluded: u64,
}

/// Computes all tables; `state` gives the state of a point.
pub fn tables(facts: &Facts, mut state: impl FnMut(&PointFacts) -> Result<PointState>) -> Result<Tables> {
    let mut builder = Builder::new(facts);
    let mut excluded = 0;
    for point in &facts.points {
        let state = state(point)?;
        excluded += state.excluded;
        let settings = measure::Settings { frequency: facts.frequency.clone(), predicted_q: point.predicted_q };
        builder.add(point, &PointTables::new(&state.moments, &settings)?);
    }
    builder.finish(excluded)
}

/// Rows of all tables as they grow.
struct Builder<'a> {
    facts: &'a Facts,
    order: Vec<(u32, u64)>,
    layers: Vec<(usize, LayerRow)>,
    groups: Vec<(usize, u64, GroupRow)>,
    components: Vec<(usize, measure::ComponentRow)>,
    identities: Vec<(usize, Identity)>,
}

impl<'a> Builder<'a> {
    fn new(facts: &'a Facts) -> Builder<'a> {
        let (layers, groups, components, identities) = Default::default();
        Builder { facts, order: facts.ordered_groups(), layers, groups, components, identities }
    }

    fn add(&mut self, point: &PointFacts, tables: &PointTables) {
        let at = self.facts.points.iter().position(|known| known == point).unwrap_or(0);
        self.layers.extend(tables.layers.iter().map(|row| (at, row.clone())));
        let rows: HashMap<u32, &GroupRow> = tables.groups.iter().map(|row| (row.group, row)).collect();
        self.groups.extend(self.order.iter().filter_map(|(number, id)| rows.get(number).map(|row| (at, *id, (*row).clone()))));
        self.components.extend(tables.components.iter().map(|row| (at, row.clone())));
        self.identities.extend(tables.identities.iter().map(|row| (at, row.clone())));
    }

    fn finish(self, excluded: u64) -> Result<Tables> {
        Ok(Tables {
            layers: self.layers_table()?,
            groups: self.groups_table()?,
            components: self.components_table()?,
            identities: self.identities_table()?,
            excluded,
        })
    }

    /// The columns `layer` and `point` of rows of these points.
    fn places(&self, points: impl Iterator<Item = usize> + Clone) -> [(&'static str, Column); 2] {
        let of = |at: usize| &self.facts.points[at];
        let layer = Column::Integer(points.clone().map(|at| Some(of(at).layer as i64)).collect());
        let point = Column::Text(points.map(|at| Some(of(at).point.clone())).collect());
        [("layer", layer), ("point", point)]
    }

    fn layers_table(&self) -> Result<Table> {
        let rows = &self.layers;
        let repeated = |text: Option<&String>| Column::Text(vec![text.cloned(); rows.len()]);
        let text = |of: &dyn Fn(&LayerRow) -> Option<String>| Column::Text(rows.iter().map(|(_, row)| of(row)).collect());
        let real = |of: &dyn Fn(&LayerRow) -> Option<f64>| Column::Real(rows.iter().map(|(_, row)| of(row)).collect());
        let mut columns =
            vec![("model", repeated(Some(&self.facts.model.name))), ("revision", repeated(self.facts.model.revision.as_ref()))];
        columns.extend(self.places(rows.iter().map(|(at, _)| *at)));
        columns.extend([
            ("selection", text(&|row| Some(row.selection.name().to_owned()))),
            ("measure", text(&|row| Some(row.measure.to_owned()))),
            ("variant", text(&|row| row.variant.clone())),
            ("value", real(&|row| row.value)),
            ("se", real(&|row| row.se)),
            ("n", Column::Integer(rows.iter().map(|(_, row)| Some(row.n as i64)).collect())),
            ("step", Column::Integer(vec![None; rows.len()])),
        ]);
        Ok(Table::new(columns)?)
    }

    fn groups_table(&self) -> Result<Table> {
        let rows = &self.groups;
        let of = |row: &GroupRow| &self.facts.groups[row.group as usize];
        let real = |of: &dyn Fn(&GroupRow) -> Option<f64>| Column::Real(rows.iter().map(|(_, _, row)| of(row)).collect());
        let mut columns = self.places(rows.iter().map(|(at, _, _)| *at)).to_vec();
        columns.extend([
            ("group_id", Column::Integer(rows.iter().map(|(_, id, _)| Some(*id as i64)).collect())),
            ("group", Column::Text(rows.iter().map(|(_, _, row)| Some(of(row).name.clone())).collect())),
            ("raw", Column::Text(rows.iter().map(|(_, _, row)| Some(of(row).raw.clone())).collect())),
            ("subwords", Column::Integer(rows.iter().map(|(_, _, row)| Some(i64::from(of(row).subwords))).collect())),
            ("n", Column::Integer(rows.iter().map(|(_, _, row)| Some(row.n as i64)).collect())),
            ("q", real(&|row| Some(row.q))),
            ("m", real(&|row| Some(row.m))),
            ("v", real(&|row| Some(row.v))),
            ("self_similarity", real(&|row| row.self_similarity)),
            ("mean_norm", real(&|row| Some(row.mean_norm))),
        ]);
        Ok(Table::new(columns)?)
    }

    fn components_table(&self) -> Result<Table> {
        let rows = &self.components;
        let real = |of: &dyn Fn(&measure::ComponentRow) -> Option<f64>| Column::Real(rows.iter().map(|(_, row)| of(row)).collect());
        let mut columns = self.places(rows.iter().map(|(at, _)| *at)).to_vec();
        columns.extend([
            ("component", Column::Integer(rows.iter().map(|(_, row)| Some(i64::from(row.component))).collect())),
            ("mean", real(&|row| Some(row.mean))),
            ("variance", real(&|row| Some(row.variance))),
            ("second_moment", real(&|row| Some(row.second_moment))),
            ("variance_within", real(&|row| Some(row.variance_within))),
            ("variance_between", real(&|row| Some(row.variance_between))),
            ("cosine_contribution", real(&|row| row.cosine_contribution)),
        ]);
        Ok(Table::new(columns)?)
    }

    fn identities_table(&self) -> Result<Table> {
        let rows = &self.identities;
        let text = |of: &dyn Fn(&Identity) -> &'static str| Column::Text(rows.iter().map(|(_, row)| Some(of(row).to_owned())).collect());
        let mut columns = self.places(rows.iter().map(|(at, _)| *at)).to_vec();
        columns.extend([
            ("selection", text(&|row| row.selection.name())),
            ("identity", text(&|row| row.identity)),
            ("residual", Column::Real(rows.iter().map(|(_, row)| Some(row.residual).filter(|residual| residual.is_finite())).collect())),
            ("n", Column::Integer(rows.iter().map(|(_, row)| Some(row.n as i64)).collect())),
        ]);
        Ok(Table::new(columns)?)
    }
}
