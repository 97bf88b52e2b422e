//! What the final norm does: measures just before it and just after it.

use super::context::Context;
use super::data::{Point, Row, View};
use super::over::Over;
use super::plate::{Outcome, Plate, Skip};
use super::remarks::Few;
use super::rows::{Kind as Cells, Rows, integer, real};
use super::sheet::{Axis, Key as LegendKey, Line, Mark, Paint, Panel};
use super::shown::Shown;
use super::tex;
use super::text::Text;
use super::ticks::{Kind, Scale};
use super::trajectories::{finish, panel_of_steps};
use crate::table::Cell;

const ANISOTROPY: &[Option<&str>] = &[Some("corpus"), Some("batch4096"), None];

/// One panel per measure; along training steps where there are trajectories.
pub(crate) fn machina3(context: &Context) -> Vec<Outcome> {
    // A measure, its axis, its name in the caption, its variants.
    const MEASURES: [(&str, &str, &str, &[Option<&str>]); 4] = [
        ("mean_cosine", "mean cosine", "mean cosine", &[None]),
        ("anisotropy_svd", "anisotropy *λ*_{1} / Σ*λ*", "anisotropy", ANISOTROPY),
        ("isoscore", "IsoScore", "IsoScore", &[None]),
        ("m_over_q", "*M*(*X*) / *Q*(*X*)", "$M/Q$", &[None]),
    ];
    let training = context.views.iter().any(View::is_trajectory);
    let mut numbers = Rows::new(&[
        ("model", Cells::Text),
        ("measure", Cells::Text),
        ("selection", Cells::Text),
        ("step", Cells::Integer),
        ("before", Cells::Real),
        ("after", Cells::Real),
    ]);
    let (mut panels, mut drawn, mut sentences) = (Vec::new(), Vec::new(), Vec::new());
    let (mut shown, mut over, mut few) = (Shown::Any, Over::default(), Few::default());
    for (measure, label, name, variants) in MEASURES {
        let mut lines = Vec::new();
        for view in &context.views {
            let Some(found) = view.found(measure, variants) else { continue };
            let pairs = before_and_after(&found.rows);
            if pairs.is_empty() || (training && !view.is_trajectory()) {
                continue;
            }
            shown = shown.and(view.shown(found.selection));
            over.selection(view, name, found.selection);
            few.push_found(view, measure, found.variant, found.selection);
            drawn.push(view.series);
            pairs.iter().for_each(|(step, before, after)| {
                let place = [Cell::Text(view.run.model()), Cell::Text(measure), Cell::Text(found.selection), integer(*step)];
                numbers.push(&[&place[..], &[real(Some(*before)), real(Some(*after))]].concat())
            });
            let last = pairs[pairs.len() - 1];
            if measure == "mean_cosine" {
                sentences.push(format!(
                    "{}: mean cosine {} before, {} after.",
                    tex::name(&view.name),
                    tex::number(last.1, 3),
                    tex::number(last.2, 3)
                ));
            }
            if training {
                let line = |of: fn(&(Option<i64>, f64, f64)) -> f64| {
                    pairs.iter().map(|pair| (pair.0.unwrap_or(0) as f64, Some(of(pair)))).collect()
                };
                lines.push(Line { dashed: true, marker: None, ..Line::of_series(line(|pair| pair.1), view.series) });
                lines.push(Line::of_series(line(|pair| pair.2), view.series));
            } else {
                lines.push(Line::of_series(vec![(0.0, Some(last.1)), (1.0, Some(last.2))], view.series));
            }
        }
        if lines.is_empty() {
            continue;
        }
        panels.push(if training {
            panel_of_steps("", label, lines)
        } else {
            let heights: Vec<f64> = lines.iter().flat_map(|line| line.heights().collect::<Vec<f64>>()).collect();
            let y = Axis::new(Text::math(label), Scale::from_zero(heights));
            let x = Axis::new(Text::plain("final norm"), Scale::around(Kind::BeforeAfter, []));
            Panel::new(Text::default(), x, y, lines.into_iter().map(Mark::Line).collect())
        });
    }
    if panels.is_empty() {
        return vec![Err(Skip::new("no run has measures both before and after a final norm"))];
    }
    let mut legend = context.legend(&drawn, false);
    if training {
        legend.extend([
            (LegendKey::Line(Paint::Quiet, true), Text::plain("before the final norm")),
            (LegendKey::Line(Paint::Quiet, false), Text::plain("after")),
        ]);
    }
    let caption = format!("Effect of the final norm: measures just before and just after it. {} {}", over.sentence(), sentences.join(" "));
    let plate = finish("machina3".into(), panels, legend, None, numbers, caption, shown);
    vec![plate.map(|plate| Plate { remarks: few.remarks(), ..plate })]
}

/// Step, value at the last block, value after the final norm.
fn before_and_after(rows: &[Row]) -> Vec<(Option<i64>, f64, f64)> {
    let mut pairs: Vec<(Option<i64>, f64, f64)> = rows
        .iter()
        .filter(|row| row.point == Point::FinalNorm)
        .filter_map(|after| {
            let before = rows.iter().find(|row| row.point == Point::Block && row.layer == after.layer && row.step == after.step)?;
            Some((after.step, before.value?, after.value?))
        })
        .collect();
    pairs.sort_by_key(|pair| pair.0);
    pairs
}
