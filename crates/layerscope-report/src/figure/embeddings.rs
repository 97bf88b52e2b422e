//! Machina and Mercer: the rows of the embedding matrices on a plane, step by step.

use std::collections::BTreeSet;

use layerscope_error::line;

use super::context::Context;
use super::data::{View, integers, reals, texts};
use super::fits::percentile;
use super::plate::{Body, Outcome, Plate, Skip, matrices_come_from};
use super::remarks::Remarks;
use super::rows::{Kind as Cells, Rows, integer};
use super::sheet::{Axis, ColourBar, Fade, Key, Mark, Panel, Preferred, Sheet};
use super::shown::Shown;
use super::tex;
use super::text::{Text, thousands};
use super::ticks::{Kind, Scale};
use crate::table::{Cell, Table};

/// So many steps side by side.
const STEPS: usize = 4;

/// A row of a matrix: its token and its image.
type Image = (i64, f64, f64);

/// One matrix at one step.
struct Matrix {
    name: &'static str,
    point: &'static str,
    step: Option<i64>,
    images: Vec<Image>,
}

/// The SVD scatter: one panel per matrix and step, one file per model.
pub(crate) fn scatter(context: &Context) -> Vec<Outcome> {
    context.each(|view| {
        let table = match view.run.read_table("projections") {
            Ok(Some(table)) => table,
            Ok(None) => {
                let reason = line!["the run has no projected embedding matrices; use ", matrices_come_from()];
                return vec![Err(Skip::of(&view.label, reason))];
            }
            Err(error) => return vec![Err(Skip::of(&view.label, error.line()))],
        };
        vec![draw(context.name("machina4", view), view, matrices(&table))]
    })
}

/// Both matrices at some of the steps, the first and the last among them; a tied output is its input and not drawn twice.
fn matrices(table: &Table) -> Vec<Matrix> {
    let (Some(points), Some(ids)) = (texts(table, "point"), integers(table, "group_id")) else { return Vec::new() };
    let (Some(x), Some(y)) = (reals(table, "x"), reals(table, "y")) else { return Vec::new() };
    let of_row = integers(table, "step");
    let step = |row: usize| of_row.and_then(|steps| steps[row]);
    let steps: Vec<Option<i64>> = (0..table.rows()).map(step).collect::<BTreeSet<_>>().into_iter().collect();
    let last = steps.len().saturating_sub(1);
    let chosen: BTreeSet<usize> = (0..STEPS).map(|i| (i * last).div_ceil(STEPS - 1)).collect();
    let of = |point: &str, at: Option<i64>| -> Vec<Image> {
        let here = |row: &usize| points[*row].as_deref() == Some(point) && step(*row) == at;
        (0..table.rows()).filter(here).filter_map(|row| Some((ids[row]?, x[row]?, y[row]?))).collect()
    };
    let mut found: Vec<Matrix> = Vec::new();
    for (name, point) in [("Input", "input_embedding"), ("Output", "output_embedding")] {
        for at in chosen.iter().filter_map(|i| steps.get(*i)) {
            let images = of(point, *at);
            let tied = found.iter().any(|other| other.step == *at && other.images == images);
            if !images.is_empty() && !tied {
                found.push(Matrix { name, point, step: *at, images });
            }
        }
    }
    found
}

fn draw(name: String, view: &View, matrices: Vec<Matrix>) -> Outcome {
    if matrices.is_empty() {
        return Err(Skip::of(&view.label, "projections.parquet has no rows"));
    }
    let last = matrices.iter().flat_map(|matrix| &matrix.images).map(|image| image.0).max().unwrap_or(1).max(1) as f64;
    let mut numbers = Rows::new(&[
        ("model", Cells::Text),
        ("point", Cells::Text),
        ("step", Cells::Integer),
        ("group_id", Cells::Integer),
        ("x", Cells::Real),
        ("y", Cells::Real),
    ]);
    for matrix in &matrices {
        for (id, x, y) in &matrix.images {
            let place = [Cell::Text(view.run.model()), Cell::Text(matrix.point), integer(matrix.step), Cell::Integer(*id)];
            numbers.push(&[&place[..], &[Cell::Real(*x), Cell::Real(*y)]].concat());
        }
    }
    let columns = matrices.iter().filter(|matrix| matrix.name == matrices[0].name).count();
    let (each, steps) = (matrices[0].images.len(), matrices[0].step.is_some());
    let sheet = Sheet {
        columns: if steps { columns } else { matrices.len() },
        ratio: 1.05,
        legend: vec![(Key::Cross, Text::plain("origin"))],
        colour_bar: Some(ColourBar { label: Text::plain("token id"), scale: Scale::linear(0.0, last) }),
        preferred: if matrices.len() > 1 { Preferred::Page } else { Preferred::Column },
        panels: matrices.iter().map(|matrix| panel(matrix, last)).collect(),
    };
    let caption = format!(
        "{} rows of the embedding matrices of {}{}, projected onto the first two right singular vectors of each matrix; $\\times$ is the origin, and the colour shows the token id.",
        tex::count(each as i64),
        tex::name(&view.name),
        if steps { " during training" } else { "" },
    );
    let table = numbers.table().map_err(|error| Skip::new(error.line()))?;
    let description = format!("{name}: rows of the embedding matrices on two singular directions");
    Ok(Plate {
        name,
        body: Body::Panels(sheet),
        numbers: vec![("", table)],
        caption,
        shown: Shown::Any,
        remarks: Remarks::default(),
        description,
    })
}

fn panel(matrix: &Matrix, last: f64) -> Panel {
    let points = matrix.images.iter().map(|(id, x, y)| (*x, *y, *id as f64 / last)).collect();
    let axis = |label: &str, of: fn(&Image) -> f64| {
        let mut values: Vec<f64> = matrix.images.iter().map(of).collect();
        let ends = [percentile(&mut values, 0.001), percentile(&mut values, 0.999), 0.0];
        Axis::new(Text::math(label), Scale::around(Kind::Linear, ends))
    };
    let title = match matrix.step {
        Some(step) => format!("{}, step {}", matrix.name, thousands(step)),
        None => format!("{} embedding", matrix.name),
    };
    let marks = vec![Mark::Points { points, fade: Fade::Full }, Mark::Cross { x: 0.0, y: 0.0 }];
    let mut panel = Panel::new(Text::plain(title), axis("*w*·*v*_{1}", |image| image.1), axis("*w*·*v*_{2}", |image| image.2), marks);
    panel.equal = true;
    panel
}
