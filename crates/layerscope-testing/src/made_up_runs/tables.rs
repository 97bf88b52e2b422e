//! The tables of groups and of tokens of a made-up run.

use layerscope_report::{Column, States, Table};

use super::{Group, Numbers, Rows, Shape};

/// The groups at every point; `selection` where some states are massive.
pub(super) fn groups_table(rows: &[Rows]) -> Table {
    fn column<T>(rows: &[Rows], of: impl Fn(i64, &str, usize, &Group) -> T) -> Vec<Option<T>> {
        rows.iter()
            .flat_map(|Rows { at, groups, .. }| {
                groups.iter().enumerate().map(|(i, group)| Some(of(at.0, at.1, i, group))).collect::<Vec<_>>()
            })
            .collect()
    }
    let selections = rows.iter().flat_map(|Rows { states, groups, .. }| vec![Some(states.name()); groups.len()]);
    let mut columns = vec![
        ("layer", Column::Integer(column(rows, |layer, _, _, _| layer))),
        ("point", Column::text(column(rows, |_, point, _, _| point.to_owned()))),
        ("group_id", Column::Integer(column(rows, |_, _, i, _| i as i64))),
        ("group", Column::text(column(rows, |_, _, _, group| group.name.clone()))),
        ("raw", Column::text(column(rows, |_, _, _, group| group.name.clone()))),
        ("subwords", Column::Integer(column(rows, |_, _, i, _| 1 + (i % 6) as i64))),
        ("n", Column::Integer(column(rows, |_, _, _, group| group.n))),
        ("q", Column::Real(column(rows, |_, _, _, group| group.q))),
        ("m", Column::Real(column(rows, |_, _, _, group| group.m))),
        ("v", Column::Real(column(rows, |_, _, _, group| group.v))),
        ("self_similarity", Column::Real(column(rows, |_, _, _, _| 0.5))),
        ("mean_norm", Column::Real(column(rows, |_, _, _, group| group.q.sqrt()))),
    ];
    columns.extend(has_typical(rows).then_some(("selection", Column::text(selections))));
    Table::new(columns).unwrap()
}

fn has_typical(rows: &[Rows]) -> bool {
    rows.iter().any(|rows| rows.states == States::Typical)
}

/// The kept states of some tokens at every point.
pub(super) fn tokens_table(shape: &Shape, rows: &[Rows], random: &mut Numbers) -> Table {
    let mut table: Vec<(i64, String, String, i64, bool, f64, f64)> = Vec::new();
    let (mut ids, mut selections) = (Vec::new(), Vec::new());
    for Rows { at: (layer, point), states, groups } in rows {
        let every = (groups.len() / 40).max(1);
        for (id, group) in groups.iter().enumerate().step_by(every).take(40) {
            ids.extend(vec![Some(id as i64); shape.token_states + 1]);
            selections.extend(vec![Some(states.name().to_owned()); shape.token_states + 1]);
            let angle = random.next() * 2.2 - 0.4;
            let (x, y) = (group.m.sqrt() * angle.cos(), group.m.sqrt() * angle.sin());
            table.push((*layer, (*point).into(), group.name.clone(), group.n, true, x, y));
            for _ in 0..shape.token_states {
                let spread = (group.v / 2.0).sqrt() * 0.35;
                table.push((
                    *layer,
                    (*point).into(),
                    group.name.clone(),
                    group.n,
                    false,
                    x + spread * random.normal(),
                    y + spread * random.normal(),
                ));
            }
        }
    }
    let mut columns = vec![
        ("layer", Column::Integer(table.iter().map(|row| Some(row.0)).collect())),
        ("point", Column::text(table.iter().map(|row| Some(row.1.clone())))),
        ("group_id", Column::Integer(ids)),
        ("group", Column::text(table.iter().map(|row| Some(row.2.clone())))),
        ("n", Column::Integer(table.iter().map(|row| Some(row.3)).collect())),
        ("role", Column::text(table.iter().map(|row| Some(if row.4 { "mean" } else { "state" })))),
        ("document", Column::text(table.iter().map(|row| (!row.4).then_some("0:1")))),
        ("position", Column::Integer(table.iter().map(|row| (!row.4).then_some(3)).collect())),
        ("x", Column::Real(table.iter().map(|row| Some(row.5)).collect())),
        ("y", Column::Real(table.iter().map(|row| Some(row.6)).collect())),
        ("explainable_variance", Column::Real(table.iter().map(|row| row.4.then_some(0.3)).collect())),
        ("explained_x", Column::Real(table.iter().map(|row| row.4.then_some(0.42)).collect())),
        ("explained_y", Column::Real(table.iter().map(|row| row.4.then_some(0.137)).collect())),
    ];
    columns.extend(has_typical(rows).then_some(("selection", Column::text(selections))));
    Table::new(columns).unwrap()
}
