//! Figure 5: what the squared norm is made of, layer by layer.

use super::context::{Context, beside};
use super::data::Profile;
use super::over::Over;
use super::plate::{Body, Outcome, Plate, Skip};
use super::remarks::Few;
use super::rows::{Kind as Cells, Rows, integer, real};
use super::sheet::{Axis, Bar, Key, Mark, Paint, Panel, Preferred, Sheet};
use super::shown::Shown;
use super::tex;
use super::text::Text;
use super::ticks::{Kind, Scale};
use crate::table::Cell;

/// From the bottom up.
const PARTS: [(&str, &str, Paint); 3] = [
    ("m_over_q", "*M*(*X*) / *Q*(*X*)", Paint::Map(0.12)),
    ("v_between_over_q", "*V*_{B}(*X*) / *Q*(*X*)", Paint::Map(0.55)),
    ("v_within_over_q", "*V*_{W}(*X*) / *Q*(*X*)", Paint::Map(0.98)),
];

pub(crate) fn shares(context: &Context) -> Vec<Outcome> {
    let mut rows = Rows::new(&[
        ("model", Cells::Text),
        ("layer", Cells::Integer),
        ("point", Cells::Text),
        ("selection", Cells::Text),
        ("measure", Cells::Text),
        ("value", Cells::Real),
    ]);
    let (mut panels, mut outcomes, mut sentences, mut hollow) = (Vec::new(), Vec::new(), Vec::new(), false);
    let (mut ranges, mut shown, mut few) = (Over::default(), Shown::Any, Few::default());
    for view in &context.views {
        let found = |measure: &str| view.found(measure, &[None]).map(|found| (Profile::of_last_step(&found.rows), found.selection));
        let parts: Option<Vec<_>> = PARTS.iter().map(|(measure, ..)| found(measure)).collect();
        let Some(parts) = parts else {
            outcomes.push(Err(Skip::of(&view.label, "the run lacks m_over_q, v_between_over_q or v_within_over_q")));
            continue;
        };
        ranges.selection(view, "", parts[0].1);
        few.push_found(view, PARTS[0].0, None, parts[0].1);
        shown = shown.and(view.shown(parts[0].1));
        let mut bars = Vec::new();
        let mut heights: Vec<(i64, f64)> = Vec::new();
        for ((measure, _, paint), (profile, selection)) in PARTS.iter().zip(&parts) {
            for row in &profile.rows {
                let (Some(layer), Some(value)) = (row.layer, row.value) else { continue };
                rows.push(&[
                    Cell::Text(view.run.model()),
                    integer(row.layer),
                    Cell::Text(row.point.name()),
                    Cell::Text(selection),
                    Cell::Text(measure),
                    real(row.value),
                ]);
                let from = heights.iter().find(|(other, _)| *other == layer).map_or(0.0, |(_, height)| *height);
                heights.retain(|(other, _)| *other != layer);
                heights.push((layer, from + value));
                let x = layer as f64;
                bars.push(Bar { x0: x - 0.42, x1: x + 0.42, y0: from, y1: from + value, paint: *paint });
            }
        }
        let last = heights.iter().map(|(layer, _)| *layer).max().unwrap_or(0) as f64;
        let first = heights.iter().map(|(layer, _)| *layer).min().unwrap_or(0) as f64;
        let x = Axis::new(Text::plain("layer"), Scale { kind: Kind::Layers, min: first - 0.6, max: last + 0.6 });
        let y = Axis::new(Text::math("share of *Q*(*X*)"), Scale::linear(0.0, 1.0));
        let mut marks = vec![Mark::Bars(bars)];
        if let Some(before) = &parts[0].0.before_norm {
            rows.push(&[
                Cell::Text(view.run.model()),
                integer(before.layer),
                Cell::Text(before.point.name()),
                Cell::Text(parts[0].1),
                Cell::Text(PARTS[0].0),
                real(before.value),
            ]);
            marks.extend(before.layer.zip(before.value).map(|(layer, value)| Mark::Ring { x: layer as f64, y: value }));
            hollow = true;
        }
        panels.push(Panel::new(context.title(view), x, y, marks));
        let ends = parts[0].0.rows.first().and_then(|row| row.value).zip(parts[0].0.rows.last().and_then(|row| row.value));
        if let Some((from, to)) = ends {
            sentences.push(format!("{}: $M/Q$ from {} to {}.", tex::name(&view.name), tex::number(from, 3), tex::number(to, 3)));
        }
    }
    if panels.is_empty() {
        return outcomes;
    }
    let columns = beside(panels.len());
    let mut legend: Vec<(Key, Text)> = PARTS.iter().map(|(_, label, paint)| (Key::Swatch(*paint), Text::math(label))).collect();
    if hollow {
        legend.push((Key::Hollow, Text::math("*M* / *Q* of the last block, before the final norm")));
    }
    let sheet = Sheet {
        columns,
        ratio: 0.8,
        legend,
        colour_bar: None,
        preferred: if columns > 1 { Preferred::Page } else { Preferred::Column },
        panels,
    };
    let caption = format!(
        "Shares of the squared norm $Q(X)$ by layer: squared norm of the mean, variance between groups, and variance within groups. {} {}",
        ranges.sentence(),
        sentences.join(" ")
    );
    outcomes.push(rows.table().map_err(|error| Skip::new(error.line())).map(|table| Plate {
        name: "fig5".into(),
        body: Body::Panels(sheet),
        numbers: vec![("", table)],
        caption: caption.trim().into(),
        shown,
        remarks: few.remarks(),
        description: "fig5: stacked bars of the shares of Q by layer".into(),
    }));
    outcomes
}
