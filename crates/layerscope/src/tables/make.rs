//! From the state of a run to its tables, few points in memory at a time.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use layerscope_report::{Column, Table};
use layerscope_stats::PointState;
use layerscope_stats::measure::{
    ComponentRow, Family, GroupRow, Identity, LayerRow, PointInputs, PointTables, Seconds, Selection, Settings, StatesTables,
    TokenComponentRow, TokenRow,
};
use layerscope_stats::sketch::{LARGEST, MassiveGroup, Sketches};

use super::points;
use crate::error::{Error, Result};
use crate::measure::estimate::table_bytes;
use crate::process::cancel::CancelToken;
use crate::process::system;
use crate::process::threads::joined;
use crate::store::facts::{Facts, GroupFacts, PointFacts};
use crate::store::kept_samples::KeptSamples;

/// The tables of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// One row per point, selection and measure.
    pub layers: Table,
    /// One row per point and group.
    pub groups: Table,
    /// One row per point and component.
    pub components: Table,
    /// Eigenvalues of the covariance at every point, where it is kept.
    pub spectra: Option<Table>,
    /// The kept states of chosen tokens in a plane, where there are any.
    pub tokens: Option<Table>,
    /// Components of the chosen tokens, where there are any.
    pub token_components: Option<Table>,
    /// Who the massive states are, where there are any.
    pub massive: Option<Table>,
    /// One row per point and identity.
    pub identities: Table,
    /// Why values are missing.
    pub notes: Vec<String>,
    /// States that were left out, over all points.
    pub excluded: u64,
    /// Wall seconds by family of measures, and of reading, summed over points.
    pub timings: BTreeMap<String, f64>,
}

/// What making tables may use, and who may stop it.
#[derive(Clone, Debug)]
pub struct Resources {
    /// Asks to stop.
    pub cancel: CancelToken,
    /// Threads.
    pub threads: usize,
    /// Bytes that this process may occupy.
    pub memory: u64,
}

/// Where the states of a run are, one point at a time.
pub trait PointSource: Sync {
    /// Bytes that it takes to make the tables of a point.
    fn memory(&self, point: &PointFacts) -> u64;
    /// The sketches of a point, and perhaps its kept states.
    fn state(&self, point: &PointFacts) -> Result<Cow<'_, PointState>>;
    /// Those beside the moments alone.
    fn sketches(&self, point: &PointFacts) -> Result<Cow<'_, Sketches>>;
    /// Who the kept states are.
    fn samples(&self) -> &KeptSamples;
    /// Those of a point as they are stored, which its state may have brought.
    fn kept_states<'s>(&self, point: &PointFacts, state: &'s PointState) -> Result<Cow<'s, [f32]>>;
}

/// The tables of norms and cosines alone: all that depends on the selected groups.
pub fn norm_tables(facts: &Facts, source: &dyn PointSource) -> Result<Tables> {
    let mut builder = Builder::new(facts, source);
    for (at, point) in facts.points.iter().enumerate() {
        let state = source.state(point)?;
        builder.excluded += state.excluded;
        builder.add(at, PointTables::of_moments(&state.moments, &settings(facts, point, 1))?);
    }
    builder.finish()
}

/// All tables; `show` hears how many points are done.
pub fn tables(facts: &Facts, source: &dyn PointSource, resources: &Resources, show: &mut dyn FnMut(usize, usize)) -> Result<Tables> {
    let mut builder = Builder::new(facts, source);
    let count = facts.points.len();
    let each = facts.points.iter().map(|point| source.memory(point)).max().unwrap_or(0);
    let rows = long_tables(facts, source.samples());
    let free = resources.memory.saturating_sub(system::resident().unwrap_or(0) + rows as u64);
    let at_once = points::at_once(count, resources.threads, each, free);
    let threads = (resources.threads / at_once).max(1);
    show(0, count);
    let take = |at: usize, (excluded, tables, seconds): (u64, PointTables, BTreeMap<&'static str, f64>)| {
        builder.excluded += excluded;
        builder.add(at, tables);
        seconds.into_iter().for_each(|(name, seconds)| *builder.timings.entry(name.to_owned()).or_default() += seconds);
        if at + 1 < count {
            show(at + 1, count);
        }
        Ok(())
    };
    points::in_order(count, at_once, |at| point_tables(facts, source, at, threads, &resources.cancel), take)?;
    builder.finish()
}

/// Bytes of the long tables of a run while they are made.
pub fn long_tables(facts: &Facts, kept: &KeptSamples) -> usize {
    let (states, tokens) = kept.tokens();
    facts.points.iter().map(|point| table_bytes(facts.groups.len(), states, tokens * facts.width_of(point))).sum()
}

/// What there is of one point: states left out, tables, seconds.
fn point_tables(
    facts: &Facts,
    source: &dyn PointSource,
    at: usize,
    threads: usize,
    cancel: &CancelToken,
) -> Result<(u64, PointTables, BTreeMap<&'static str, f64>)> {
    let (start, point) = (Instant::now(), &facts.points[at]);
    let settings = settings(facts, point, threads);
    cancel.check()?;
    let state = source.state(point)?;
    let next = facts.points.get(at + 1).filter(|_| settings.families.contains(&Family::Layers));
    let next = next.map(|next| source.sketches(next)).transpose()?;
    let states = source.kept_states(point, &state)?;
    let (sample, tokens) = source.samples().of_point(&states, facts.width_of(point));
    let read = start.elapsed().as_secs_f64();
    let inputs = PointInputs {
        moments: &state.moments,
        sketches: &state.sketches,
        next: next.as_deref(),
        sample: Some(&sample).filter(|sample| !sample.is_empty()),
        tokens: Some(&tokens).filter(|tokens| tokens.iter().next().is_some()),
    };
    let (tables, Seconds(mut seconds)) = PointTables::timed(inputs, &settings)?;
    seconds.insert("read", read);
    Ok((state.excluded, tables, seconds))
}

fn settings(facts: &Facts, point: &PointFacts, threads: usize) -> Settings {
    Settings {
        frequency: facts.frequency.clone(),
        unselectable: (0..).zip(&facts.groups).filter(|(_, group)| group.special).map(|(number, _)| number).collect(),
        predicted_q: point.predicted_q,
        families: facts.families.iter().filter_map(|name| Family::named(name)).collect(),
        clusters: facts.clusters.clone(),
        threads,
        ..Settings::default()
    }
}

/// A point by its number, and which of its states.
type Place = (usize, Selection);

/// Rows of all tables as they grow.
struct Builder<'a> {
    facts: &'a Facts,
    source: &'a dyn PointSource,
    order: Vec<(u32, u64)>,
    layers: Vec<(usize, LayerRow)>,
    groups: Vec<(Place, u64, GroupRow)>,
    components: Vec<(Place, ComponentRow)>,
    spectra: Vec<(Place, usize, f64)>,
    tokens: Vec<(Place, TokenRow)>,
    token_components: Vec<(Place, TokenComponentRow)>,
    massive: Vec<(usize, MassiveGroup)>,
    identities: Vec<(usize, Identity)>,
    notes: Vec<String>,
    excluded: u64,
    timings: BTreeMap<String, f64>,
}

impl<'a> Builder<'a> {
    fn new(facts: &'a Facts, source: &'a dyn PointSource) -> Builder<'a> {
        Builder {
            facts,
            source,
            order: facts.ordered_groups(),
            layers: Vec::new(),
            groups: Vec::new(),
            components: Vec::new(),
            spectra: Vec::new(),
            tokens: Vec::new(),
            token_components: Vec::new(),
            massive: Vec::new(),
            identities: Vec::new(),
            notes: Vec::new(),
            excluded: 0,
            timings: BTreeMap::new(),
        }
    }

    fn add(&mut self, at: usize, tables: PointTables) {
        let name = self.facts.points[at].at;
        self.layers.extend(tables.layers.into_iter().map(|row| (at, row)));
        self.add_states((at, Selection::All), tables.all);
        if let Some(typical) = tables.typical {
            self.add_states((at, Selection::Typical), typical);
        }
        self.massive.extend(tables.massive.into_iter().map(|row| (at, row)));
        self.identities.extend(tables.identities.into_iter().map(|row| (at, row)));
        self.notes.extend(tables.notes.into_iter().map(|note| format!("layer {} ({}): {note}", name.layer, name.point())));
    }

    fn add_states(&mut self, place: Place, tables: StatesTables) {
        let mut rows: HashMap<u32, GroupRow> = tables.groups.into_iter().map(|row| (row.group, row)).collect();
        self.groups.extend(self.order.iter().filter_map(|(number, id)| rows.remove(number).map(|row| (place, *id, row))));
        self.components.extend(tables.components.into_iter().map(|row| (place, row)));
        self.spectra.extend(tables.spectrum.iter().enumerate().map(|(rank, &value)| (place, rank + 1, value)));
        self.tokens.extend(tables.tokens.into_iter().map(|row| (place, row)));
        self.token_components.extend(tables.token_components.into_iter().map(|row| (place, row)));
    }

    fn finish(self) -> Result<Tables> {
        // The two long ones while the others are made.
        let (groups, token_components, rest) = std::thread::scope(|scope| {
            let groups = scope.spawn(|| self.groups_table());
            let rest = scope
                .spawn(|| Ok::<_, Error>((self.layers_table()?, self.components_table()?, self.spectra_table()?, self.tokens_table()?)));
            let token_components = self.token_components_table();
            (joined(groups), token_components, joined(rest))
        });
        let (layers, components, spectra, tokens) = rest?;
        Ok(Tables {
            layers,
            groups: groups?,
            components,
            spectra,
            tokens,
            token_components: token_components?,
            massive: self.massive_table()?,
            identities: self.identities_table()?,
            notes: self.notes,
            excluded: self.excluded,
            timings: self.timings,
        })
    }

    fn name(&self, group: u32) -> &str {
        &self.facts.groups[group as usize].name
    }

    /// The columns `layer` and `point` of rows of these points.
    fn places(&self, points: impl Iterator<Item = usize> + Clone) -> [(&'static str, Column); 2] {
        let of = |at: usize| &self.facts.points[at];
        let layer = Column::Integer(points.clone().map(|at| Some(i64::from(of(at).at.layer))).collect());
        let point = Column::text(points.map(|at| Some(of(at).at.point())));
        [("layer", layer), ("point", point)]
    }

    /// The column `selection` of rows at these places.
    fn selections(places: impl Iterator<Item = Place>) -> (&'static str, Column) {
        ("selection", Column::text(places.map(|(_, selection)| Some(selection.name()))))
    }

    fn layers_table(&self) -> Result<Table> {
        let rows = &self.layers;
        let repeated = |text: Option<&String>| Column::text(vec![text; rows.len()]);
        let text = |of: fn(&LayerRow) -> Option<&str>| Column::text(rows.iter().map(|(_, row)| of(row)));
        let real = |of: &dyn Fn(&LayerRow) -> Option<f64>| Column::Real(rows.iter().map(|(_, row)| of(row)).collect());
        let mut columns =
            vec![("model", repeated(Some(&self.facts.model.name))), ("revision", repeated(self.facts.model.revision.as_ref()))];
        columns.extend(self.places(rows.iter().map(|(at, _)| *at)));
        columns.extend([
            ("selection", text(|row| Some(row.selection.name()))),
            ("measure", text(|row| Some(row.measure))),
            ("variant", text(|row| row.variant.as_deref())),
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
        // A group has a row at every point.
        let names = |of: fn(&GroupFacts) -> &str| {
            let shared: Vec<Arc<str>> = self.facts.groups.iter().map(|group| of(group).into()).collect();
            Column::Text(rows.iter().map(|(_, _, row)| Some(Arc::clone(&shared[row.group as usize]))).collect())
        };
        let mut columns = self.places(rows.iter().map(|((at, _), _, _)| *at)).to_vec();
        columns.extend([
            ("group_id", Column::Integer(rows.iter().map(|(_, id, _)| Some(*id as i64)).collect())),
            ("group", names(|group| &group.name)),
            ("raw", names(|group| &group.raw)),
            ("subwords", Column::Integer(rows.iter().map(|(_, _, row)| Some(i64::from(of(row).subwords))).collect())),
            ("n", Column::Integer(rows.iter().map(|(_, _, row)| Some(row.n as i64)).collect())),
            ("q", real(&|row| Some(row.q))),
            ("m", real(&|row| Some(row.m))),
            ("v", real(&|row| Some(row.v))),
            ("self_similarity", real(&|row| row.self_similarity)),
            ("mean_norm", real(&|row| Some(row.mean_norm))),
            Builder::selections(rows.iter().map(|(place, _, _)| *place)),
            ("special", Column::Integer(rows.iter().map(|(_, _, row)| Some(i64::from(of(row).special))).collect())),
        ]);
        Ok(Table::new(columns)?)
    }

    fn components_table(&self) -> Result<Table> {
        let rows = &self.components;
        let real = |of: &dyn Fn(&ComponentRow) -> Option<f64>| Column::Real(rows.iter().map(|(_, row)| of(row)).collect());
        let mut columns = self.places(rows.iter().map(|((at, _), _)| *at)).to_vec();
        columns.extend([
            ("component", Column::Integer(rows.iter().map(|(_, row)| Some(i64::from(row.component))).collect())),
            ("mean", real(&|row| Some(row.mean))),
            ("variance", real(&|row| Some(row.variance))),
            ("second_moment", real(&|row| Some(row.second_moment))),
            ("variance_within", real(&|row| Some(row.variance_within))),
            ("variance_between", real(&|row| Some(row.variance_between))),
            ("cosine_contribution", real(&|row| row.cosine_contribution)),
            Builder::selections(rows.iter().map(|(place, _)| *place)),
        ]);
        Ok(Table::new(columns)?)
    }

    fn spectra_table(&self) -> Result<Option<Table>> {
        let rows = &self.spectra;
        let mut columns = self.places(rows.iter().map(|((at, _), _, _)| *at)).to_vec();
        columns.extend([
            ("rank", Column::Integer(rows.iter().map(|(_, rank, _)| Some(*rank as i64)).collect())),
            ("eigenvalue", Column::Real(rows.iter().map(|(_, _, value)| Some(*value)).collect())),
            Builder::selections(rows.iter().map(|(place, _, _)| *place)),
        ]);
        (!rows.is_empty()).then(|| Ok(Table::new(columns)?)).transpose()
    }

    fn tokens_table(&self) -> Result<Option<Table>> {
        let rows = &self.tokens;
        let ids: HashMap<u32, u64> = self.order.iter().copied().collect();
        let integer = |of: &dyn Fn(&TokenRow) -> Option<i64>| Column::Integer(rows.iter().map(|(_, row)| of(row)).collect());
        let real = |of: &dyn Fn(&TokenRow) -> Option<f64>| Column::Real(rows.iter().map(|(_, row)| of(row)).collect());
        let mut columns = self.places(rows.iter().map(|((at, _), _)| *at)).to_vec();
        columns.extend([
            ("group_id", integer(&|row| ids.get(&row.group).map(|id| *id as i64))),
            ("group", Column::text(rows.iter().map(|(_, row)| Some(self.name(row.group))))),
            ("n", integer(&|row| Some(row.n as i64))),
            ("role", Column::text(rows.iter().map(|(_, row)| Some(if row.state.is_some() { "state" } else { "mean" })))),
            ("document", Column::text(rows.iter().map(|(_, row)| self.source.samples().document(row.state?.0)))),
            ("position", integer(&|row| row.state.map(|(_, position)| i64::from(position)))),
            ("x", real(&|row| Some(row.x))),
            ("y", real(&|row| Some(row.y))),
            ("explainable_variance", real(&|row| row.explainable_variance)),
            Builder::selections(rows.iter().map(|(place, _)| *place)),
            ("explained_x", real(&|row| row.explained.map(|[x, _]| x))),
            ("explained_y", real(&|row| row.explained.map(|[_, y]| y))),
        ]);
        (!rows.is_empty()).then(|| Ok(Table::new(columns)?)).transpose()
    }

    fn token_components_table(&self) -> Result<Option<Table>> {
        let rows = &self.token_components;
        let ids: HashMap<u32, u64> = self.order.iter().copied().collect();
        let real = |of: &dyn Fn(&TokenComponentRow) -> f64| Column::Real(rows.iter().map(|(_, row)| Some(of(row))).collect());
        let mut columns = self.places(rows.iter().map(|((at, _), _)| *at)).to_vec();
        columns.extend([
            ("group_id", Column::Integer(rows.iter().map(|(_, row)| ids.get(&row.group).map(|id| *id as i64)).collect())),
            ("token", Column::text(rows.iter().map(|(_, row)| Some(self.name(row.group))))),
            ("component", Column::Integer(rows.iter().map(|(_, row)| Some(i64::from(row.component))).collect())),
            ("q", real(&|row| row.q)),
            ("mean", real(&|row| row.mean)),
            ("variance", real(&|row| row.variance)),
            Builder::selections(rows.iter().map(|(place, _)| *place)),
        ]);
        (!rows.is_empty()).then(|| Ok(Table::new(columns)?)).transpose()
    }

    /// The most frequent ones of a point first.
    fn massive_table(&self) -> Result<Option<Table>> {
        let mut rows: Vec<&(usize, MassiveGroup)> = self.massive.iter().collect();
        rows.sort_by_key(|(at, row)| (*at, std::cmp::Reverse(row.count)));
        let integer = |of: &dyn Fn(&MassiveGroup) -> Option<i64>| Column::Integer(rows.iter().map(|(_, row)| of(row)).collect());
        let real = |of: &dyn Fn(&MassiveGroup) -> Option<f64>| Column::Real(rows.iter().map(|(_, row)| of(row)).collect());
        let mut columns: Vec<(String, Column)> =
            self.places(rows.iter().map(|(at, _)| *at)).into_iter().map(|(name, column)| (name.to_owned(), column)).collect();
        columns.extend([
            ("token".to_owned(), Column::text(rows.iter().map(|(_, row)| Some(self.name(row.group))))),
            ("position".to_owned(), integer(&|row| row.position.map(i64::from))),
            ("count".to_owned(), integer(&|row| Some(row.count as i64))),
            ("mean_norm".to_owned(), real(&|row| Some(row.mean_norm))),
        ]);
        for at in 0..LARGEST {
            columns
                .push((format!("component_{}", at + 1), integer(&|row| row.largest.get(at).map(|(component, _)| i64::from(*component)))));
            columns.push((format!("value_{}", at + 1), real(&|row| row.largest.get(at).map(|(_, value)| *value))));
        }
        (!rows.is_empty()).then(|| Ok(Table::new(columns)?)).transpose()
    }

    fn identities_table(&self) -> Result<Table> {
        let rows = &self.identities;
        let text = |of: &dyn Fn(&Identity) -> &'static str| Column::text(rows.iter().map(|(_, row)| Some(of(row))));
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
