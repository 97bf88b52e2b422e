//! Is the paper's range of frequencies harmless? Its measures as the bounds move, one line per layer: flat lines say yes.

use super::context::Context;
use super::data::View;
use super::groups::{Group, over_groups};
use super::plate::{Body, Outcome, Plate, Skip};
use super::remarks::Few;
use super::rows::{Kind as Cells, Rows, real};
use super::sheet::{Axis, ColourBar, Line, Mark, Paint, Panel, Preferred, Sheet};
use super::tex;
use super::text::Text;
use super::ticks::{Kind, Scale};
use crate::table::Cell;

const MEASURES: [(&str, &str); 3] =
    [("cv_q", "C.V. of *Q*(*X*_{t})"), ("slope_v_on_m", "slope of *V* on *M*"), ("r2_v_on_m", "*R*² of *V* on *M*")];
const LOWEST: [i64; 8] = [1, 2, 5, 10, 20, 50, 100, 200];
const HIGHEST: [i64; 9] = [100, 200, 500, 1000, 2000, 5000, 10_000, 100_000, 1_000_000];

pub(crate) fn sweep(context: &Context) -> Vec<Outcome> {
    context.each(|view| vec![of_run(context, view)])
}

fn of_run(context: &Context, view: &View) -> Outcome {
    let points = view.group_points();
    let Some(first) = points.first() else { return Err(Skip::of(&view.label, "the run has no groups.parquet")) };
    let Some((low, high)) = view.wanted_frequency() else {
        return Err(Skip::of(&view.label, format!("groups by {} are not selected by their frequency", view.grouping())));
    };
    let most = view.groups_at(*first).iter().map(|group| group.n).max().unwrap_or(1);
    // Beyond the most frequent group nothing changes any more.
    let end = HIGHEST.iter().position(|bound| *bound >= most).map_or(HIGHEST.len(), |i| i + 1);
    let (own_low, own_high) = (low, high);
    let lowest: Vec<(i64, i64)> = LOWEST.iter().filter(|bound| **bound <= most).map(|bound| (*bound, own_high)).collect();
    let highest: Vec<(i64, i64)> = HIGHEST[..end].iter().map(|bound| (own_low, *bound)).collect();
    let sweeps = [("minimum", "smallest *n*_{t}", lowest), ("maximum", "largest *n*_{t}", highest)];
    let mut rows = Rows::new(&[
        ("model", Cells::Text),
        ("sweep", Cells::Text),
        ("minimum", Cells::Integer),
        ("maximum", Cells::Integer),
        ("layer", Cells::Integer),
        ("point", Cells::Text),
        ("measure", Cells::Text),
        ("value", Cells::Real),
    ]);
    let last = points.last().map_or(1, |(layer, _)| *layer).max(1) as f64;
    let mut panels = Vec::new();
    let mut change = 0.0f64;
    for (sweep, label, ranges) in &sweeps {
        let computed: Vec<Vec<[Option<f64>; 3]>> = points.iter().map(|at| over_ranges(&view.groups_at(*at), ranges)).collect();
        for (index, (measure, name)) in MEASURES.into_iter().enumerate() {
            let mut lines = Vec::new();
            for (at, of_ranges) in points.iter().zip(&computed) {
                let values: Vec<Option<f64>> = of_ranges.iter().map(|values| values[index]).collect();
                for ((low, high), value) in ranges.iter().zip(&values) {
                    rows.push(&[
                        Cell::Text(view.run.model()),
                        Cell::Text(sweep),
                        Cell::Integer(*low),
                        Cell::Integer(*high),
                        Cell::Integer(at.0),
                        Cell::Text(at.1.name()),
                        Cell::Text(measure),
                        real(*value),
                    ]);
                }
                if measure == "slope_v_on_m" {
                    let defined: Vec<f64> = values.iter().flatten().copied().collect();
                    let spread =
                        defined.iter().copied().fold(f64::NEG_INFINITY, f64::max) - defined.iter().copied().fold(f64::INFINITY, f64::min);
                    change = if spread.is_finite() { change.max(spread) } else { change };
                }
                let bounds = ranges.iter().map(|(low, high)| if *sweep == "minimum" { *low } else { *high } as f64);
                lines.push(Line { width: 0.9, ..Line::new(bounds.zip(values).collect(), Paint::Map(at.0 as f64 / last)) });
            }
            let y = Scale::around(Kind::Linear, lines.iter().flat_map(|line| line.heights().collect::<Vec<f64>>()));
            let x = Scale::around(Kind::Log, lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x));
            let own = if *sweep == "minimum" { own_low } else { own_high } as f64;
            let shown = (own >= x.min && own <= x.max).then_some(Mark::Vertical { x: own, paint: Paint::Accent });
            let marks = lines.into_iter().map(Mark::Line).chain(shown).collect();
            panels.push(Panel::new(Text::default(), Axis::new(Text::math(label), x), Axis::new(Text::math(name), y), marks));
        }
    }
    if rows.is_empty() {
        return Err(Skip::of(&view.label, "there are too few groups"));
    }
    let sheet = Sheet {
        panels,
        columns: 3,
        ratio: 0.8,
        legend: Vec::new(),
        colour_bar: Some(ColourBar { label: Text::plain("layer"), scale: Scale { kind: Kind::Layers, min: 0.0, max: last } }),
        preferred: Preferred::Page,
    };
    let caption = format!(
        "{}: the measures of figure 4 as the smallest (top) and the largest (bottom) frequency of a group change, one line per layer. Dashed lines mark the range in use, {} to {}. The slope changes by at most {} in any layer.",
        tex::name(&view.name),
        tex::count(low),
        tex::count(high),
        tex::number(change, 3)
    );
    let mut few = Few::default();
    few.push(view, view.selected_groups());
    let numbers = vec![("", rows.table().map_err(|error| Skip::new(error.line()))?)];
    let name = context.name("frequency", view);
    Ok(Plate {
        description: format!("{name}: C.V., slope and R squared as the frequency range changes"),
        name,
        body: Body::Panels(sheet),
        numbers,
        caption,
        shown: view.shown_in_tables(),
        remarks: few.remarks(),
    })
}

/// The three measures over every range of frequencies.
fn over_ranges(groups: &[Group], ranges: &[(i64, i64)]) -> Vec<[Option<f64>; 3]> {
    let of_range = |(low, high): &(i64, i64)| {
        let kept: Vec<Group> = groups.iter().filter(|group| !group.special && (*low..=*high).contains(&group.n)).copied().collect();
        MEASURES.map(|(measure, _)| over_groups(measure, &kept))
    };
    ranges.iter().map(of_range).collect()
}
