//! Do the two notions of anisotropy agree? M/Q against mean cosine, one point per layer and model.

use super::context::Context;
use super::data::{Key, Profile, View};
use super::over::Over;
use super::plate::{Body, Outcome, Plate, Skip};
use super::remarks::Few;
use super::rows::{Kind as Cells, Rows, integer, real};
use super::sheet::{Axis, Key as LegendKey, Line, Mark, Paint, Panel, Preferred, Sheet};
use super::shown::Shown;
use super::tex;
use super::text::{Text, decimals};
use super::ticks::Scale;
use crate::table::Cell;

pub(crate) fn norm_and_cosine(context: &Context) -> Vec<Outcome> {
    vec![draw(context)]
}

fn draw(context: &Context) -> Outcome {
    let mut rows = Rows::new(&[
        ("model", Cells::Text),
        ("layer", Cells::Integer),
        ("point", Cells::Text),
        ("selection", Cells::Text),
        ("mean_cosine", Cells::Real),
        ("m_over_q", Cells::Real),
    ]);
    let (mut shown, mut over, mut few) = (Shown::Any, Over::default(), Few::default());
    let (mut marks, mut all, mut drawn, mut sentences, mut hollow) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), false);
    for view in &context.views {
        let Some((pairs, selection)) = pairs(view) else { continue };
        shown = shown.and(view.shown(selection));
        over.selection(view, "", selection);
        few.push_found(view, "mean_cosine", None, selection);
        drawn.push(view.series);
        pairs.iter().for_each(|(layer, point, x, y, _)| {
            let place = [Cell::Text(view.run.model()), integer(*layer), Cell::Text(point), Cell::Text(selection)];
            rows.push(&[&place[..], &[real(Some(*x)), real(Some(*y))]].concat());
        });
        hollow |= pairs.iter().any(|pair| pair.4);
        let own: Vec<(f64, f64)> = pairs.iter().filter(|pair| !pair.4).map(|pair| (pair.2, pair.3)).collect();
        let path = own.iter().map(|(x, y)| (*x, Some(*y))).collect();
        marks.push(Mark::Line(Line { width: 0.5, ..Line::new(path, Paint::Series(view.series)) }));
        marks.push(Mark::Markers(pairs.iter().map(|(_, _, x, y, before)| (*x, *y, view.series, *before)).collect()));
        if let Some(rho) = spearman(&own) {
            sentences.push(format!("{}: $\\rho$ {}.", tex::name(&view.name), tex::number(rho, 3)));
        }
        all.extend(own);
    }
    if all.is_empty() {
        return Err(Skip::new("no run has both m_over_q and mean_cosine"));
    }
    let range = |of: fn(&(f64, f64)) -> f64| Scale::from_zero(all.iter().map(of));
    let note =
        spearman(&all).map_or(Text::default(), |rho| Text::math(&format!("Spearman’s *ρ* {} over {} points", decimals(rho, 3), all.len())));
    let diagonal = Mark::Slope { slope: 1.0, intercept: 0.0, paint: Paint::Quiet, dashed: true };
    let x = Axis::new(Text::plain("mean cosine"), range(|pair| pair.0));
    let y = Axis::new(Text::math("*M*(*X*) / *Q*(*X*)"), range(|pair| pair.1));
    let mut panel = Panel::new(Text::default(), x, y, [diagonal].into_iter().chain(marks).collect());
    panel.note = note;
    let mut legend = context.legend(&drawn, hollow);
    legend.push((LegendKey::Line(Paint::Quiet, true), Text::plain("equal")));
    let sheet = Sheet { panels: vec![panel], columns: 1, ratio: 0.9, legend, colour_bar: None, preferred: Preferred::Column };
    let rho =
        spearman(&all).map_or(String::new(), |rho| format!(" Spearman's $\\rho$ over all {} points: {}.", all.len(), tex::number(rho, 3)));
    let caption = format!(
        "Share of the squared norm in the mean, $M(X)/Q(X)$, against mean cosine, one point per layer. {}{rho} {}",
        over.sentence(),
        sentences.join(" ")
    );
    let numbers = vec![("", rows.table().map_err(|error| Skip::new(error.line()))?)];
    Ok(Plate {
        name: "agreement".into(),
        body: Body::Panels(sheet),
        numbers,
        caption: caption.trim().into(),
        shown,
        remarks: few.remarks(),
        description: "agreement: M/Q against mean cosine".into(),
    })
}

/// Layer, point, mean cosine, M/Q, and whether it is the last block before the final norm.
type Pair = (Option<i64>, &'static str, f64, f64, bool);

/// Both over the selection that leads, and its name; none where a measure is missing.
fn pairs(view: &View) -> Option<(Vec<Pair>, &'static str)> {
    let cosine = view.found("mean_cosine", &[None])?;
    let selection = cosine.selection;
    let share = Profile::of_last_step(view.rows(Key { measure: "m_over_q", variant: None, selection }));
    let cosine = Profile::of_last_step(&cosine.rows);
    let before = cosine.before_norm.map(|row| row.point);
    let pair = |row: &super::data::Row| {
        let other = share.all().find(|other| other.layer == row.layer && other.point == row.point)?;
        let last = Some(row.point) == before && cosine.before_norm.as_ref() == Some(row);
        Some((row.layer, row.point.name(), row.value?, other.value?, last))
    };
    let pairs: Vec<Pair> = cosine.all().filter_map(pair).collect();
    (!pairs.is_empty()).then_some((pairs, selection))
}

/// Spearman's rank correlation: Pearson's of the ranks, ties sharing their mean rank. None with fewer than 3 points or no spread.
pub(crate) fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let (x, y) = (ranks(pairs.iter().map(|pair| pair.0)), ranks(pairs.iter().map(|pair| pair.1)));
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let spread = (product(&x, &x) * product(&y, &y)).sqrt();
    (spread > 0.0).then(|| product(&x, &y) / spread)
}

fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let rank = |value: &f64| {
        let (below, same) =
            values.iter().fold((0, 0), |(below, same), other| (below + usize::from(other < value), same + usize::from(other == value)));
        below as f64 + (same as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlations_by_hand() {
        let pairs = |y: [f64; 5]| [1.0, 2.0, 3.0, 4.0, 5.0].into_iter().zip(y).collect::<Vec<_>>();
        assert_eq!(spearman(&pairs([2.0, 3.0, 50.0, 60.0, 1000.0])), Some(1.0));
        assert_eq!(spearman(&pairs([5.0, 4.0, 3.0, 2.0, 1.0])), Some(-1.0));
        // Ranks 1, 2.5, 2.5, 4, 5 against 1..5: 1 - 6 * 0.5 / 120 corrected for ties = 9.5 / sqrt(10 * 9.5).
        let tied = spearman(&pairs([1.0, 2.0, 2.0, 3.0, 4.0])).unwrap();
        assert!((tied - 9.5 / 95f64.sqrt()).abs() < 1e-12, "{tied}");
        assert_eq!(spearman(&pairs([1.0; 5])), None);
        assert_eq!(spearman(&[(1.0, 1.0), (2.0, 2.0)]), None);
    }
}
