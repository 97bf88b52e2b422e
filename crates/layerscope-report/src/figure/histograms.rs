//! Histograms: lengths of sentences, frequencies of groups, distributions of Q, M and V.

use std::collections::BTreeSet;

use super::context::{Context, beside, layer_name};
use super::data::bounded;
use super::fits::{M, Q, Quantity, V, percentile};
use super::groups::Group;
use super::plate::{Body, Outcome, Plate, Skip};
use super::remarks::Remarks;
use super::rows::{Kind as Cells, Rows};
use super::sheet::{Axis, Bar, Key, Mark, Paint, Panel, Preferred, Sheet};
use super::shown::Shown;
use super::tex;
use super::text::{Text, thousands};
use super::ticks::{Kind, Scale};
use crate::states::massive;
use crate::table::Cell;

/// Counts between equal edges.
struct Bins {
    low: f64,
    high: f64,
    step: f64,
    counts: Vec<i64>,
}

impl Bins {
    /// Of weighted values between `low` and `high`, the upper edge included in the last bin.
    fn of(values: impl Iterator<Item = (f64, i64)>, low: f64, high: f64, count: usize) -> Bins {
        let (step, high) = if high > low { ((high - low) / count as f64, high) } else { (1.0, low + count as f64) };
        let mut bins = Bins { low, high, step, counts: vec![0; count] };
        for (value, weight) in values.filter(|(value, _)| *value >= low && *value <= high) {
            // The edges as they are written decide, not a quotient that rounding moved across one.
            let near = (((value - low) / step) as usize).min(count - 1);
            let up = near + usize::from(near + 1 < count && value >= bins.edge(near + 1));
            let bin = up - usize::from(up > 0 && value < bins.edge(up));
            bins.counts[bin] += weight;
        }
        bins
    }

    /// The same where all values are one: a bar in the middle of as much room as a scale gives it.
    fn at(value: f64, values: impl Iterator<Item = (f64, i64)>) -> Bins {
        let Scale { min, max, .. } = Scale::around(Kind::Linear, [value]);
        Bins::of(values, min, max, 49)
    }

    /// The last one is the largest value itself, not that within rounding.
    fn edge(&self, i: usize) -> f64 {
        if i == self.counts.len() { self.high } else { self.low + self.step * i as f64 }
    }

    fn bars(&self, floor: f64, paint: Paint) -> Vec<Bar> {
        let gap = self.step * 0.04;
        let bar =
            |(i, count): (usize, &i64)| Bar { x0: self.edge(i) + gap, x1: self.edge(i + 1) - gap, y0: floor, y1: *count as f64, paint };
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(bar).collect()
    }

    fn push(&self, rows: &mut Rows, place: &[Cell]) {
        for (i, count) in self.counts.iter().enumerate() {
            let bin = [Cell::Real(self.edge(i)), Cell::Real(self.edge(i + 1)), Cell::Integer(*count)];
            rows.push(&[place, &bin[..]].concat());
        }
    }

    /// Where the last bin that counts something ends.
    fn last_edge(&self) -> f64 {
        self.edge(self.counts.iter().rposition(|count| *count > 0).map_or(self.counts.len(), |bin| bin + 1))
    }

    fn most(&self) -> f64 {
        self.counts.iter().copied().max().unwrap_or(0) as f64
    }
}

const BIN: [(&str, Cells); 3] = [("from", Cells::Real), ("to", Cells::Real), ("count", Cells::Integer)];

/// Figure 9: sentences by their words, of every corpus.
pub(crate) fn sentences(context: &Context) -> Vec<Outcome> {
    let mut rows = Rows::new(&[&[("model", Cells::Text)], &BIN[..]].concat());
    let (mut panels, mut captions, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    let mut known = Vec::new();
    for view in &context.views {
        let corpus = view.run.manifest.text();
        if corpus.0.is_some_and(|text| !text.is_empty()) && known.contains(&corpus) {
            continue;
        }
        let counts = view.run.manifest.sentence_words().iter();
        let words: Vec<(f64, i64)> = counts.map(|(words, count)| (*words as f64, bounded(*count))).collect();
        let (Some(low), Some(high)) = (words.iter().map(|pair| pair.0).reduce(f64::min), words.iter().map(|pair| pair.0).reduce(f64::max))
        else {
            outcomes.push(Err(Skip::of(&view.label, "the manifest has no sentence lengths")));
            continue;
        };
        known.push(corpus);
        let bins = Bins::of(words.iter().copied(), low, high, 30);
        bins.push(&mut rows, &[Cell::Text(view.run.model())]);
        let y = Axis::new(Text::plain("sentences"), Scale { kind: Kind::Log, min: 0.7, max: bins.most().max(2.0) * 1.6 });
        let x =
            Axis::new(Text::plain("words per sentence"), Scale::linear(low - bins.step * 0.5, high.max(low + bins.step) + bins.step * 0.5));
        panels.push(Panel::new(context.title(view), x, y, vec![Mark::Bars(bins.bars(0.7, Paint::Series(view.series)))]));
        let (count, total) = words.iter().fold((0, 0.0), |(count, total), (length, times)| (count + times, total + length * *times as f64));
        captions.push(format!("{} sentences with {} words on average.", tex::count(count), tex::number(total / count.max(1) as f64, 1)));
    }
    if panels.is_empty() {
        return outcomes;
    }
    if let [alone] = &mut panels[..] {
        alone.title = Text::default(); // one text, whichever models read it
    }
    let columns = beside(panels.len());
    outcomes.push(finish(
        "fig9",
        panels,
        columns,
        rows,
        format!("Sentence lengths in words, in 30 bins. {}", captions.join(" ")),
        Shown::Any,
        Remarks::default(),
    ));
    outcomes
}

/// Figure 10: groups by their frequency, one panel per model.
pub(crate) fn frequencies(context: &Context) -> Vec<Outcome> {
    const END: f64 = 6.5;
    let mut rows = Rows::new(&[&[("model", Cells::Text)], &BIN[..]].concat());
    let (mut panels, mut outcomes, mut captions) = (Vec::new(), Vec::new(), Vec::new());
    let (mut shown, mut last) = (Shown::Any, 0.0f64);
    for view in &context.views {
        let Some(at) = view.group_points().first().copied() else {
            outcomes.push(Err(Skip::of(&view.label, "the run has no groups.parquet")));
            continue;
        };
        let groups = view.groups_at(at);
        let has_massive = massive(&view.run.layers).iter().any(|massive| massive.layer == at.0);
        shown = shown.and(if has_massive { view.shown_in_tables() } else { Shown::Any });
        let longest = groups.iter().map(|group| group.log_n()).fold(END, f64::max);
        let bins = Bins::of(groups.iter().map(|group| (group.log_n(), 1)), 0.0, longest, 30);
        bins.push(&mut rows, &[Cell::Text(view.run.model())]);
        // The paper's bins, and an axis that ends with the data: the same one for all models.
        last = last.max(bins.last_edge());
        let x = Axis::new(Text::math("log_{10} *n*_{t}"), Scale::linear(-0.1, END));
        let y = Axis::new(Text::plain("groups"), Scale::linear(0.0, bins.most() * 1.06));
        panels.push(Panel::new(context.title(view), x, y, vec![Mark::Bars(bins.bars(0.0, Paint::Series(view.series)))]));
        captions.push(format!("{}: {} groups.", tex::name(&view.name), tex::count(groups.len() as i64)));
    }
    if panels.is_empty() {
        return outcomes;
    }
    panels.iter_mut().for_each(|panel| panel.x.scale.max = last + 0.1);
    let columns = beside(panels.len());
    outcomes.push(finish(
        "fig10",
        panels,
        columns,
        rows,
        format!("All groups by their number of states, in 30 bins; the axis ends with the data. {}", captions.join(" ")),
        shown,
        Remarks::default(),
    ));
    outcomes
}

/// Figures 14 to 16: Q, M and V at five layers, one model.
pub(crate) fn five_layers(context: &Context) -> Vec<Outcome> {
    context.each(|view| {
        let layers = match context.several_layers(view) {
            Ok(layers) => layers,
            Err(skip) => return vec![Err(skip)],
        };
        let place =
            [("model", Cells::Text), ("layer", Cells::Integer), ("point", Cells::Text), ("quantity", Cells::Text), ("mean", Cells::Real)];
        let mut rows = Rows::new(&[&place[..], &BIN[..]].concat());
        let (mut panels, mut all_left_out) = (Vec::new(), BTreeSet::new());
        for at in &layers {
            let groups = view.groups_at(*at);
            if groups.is_empty() {
                return vec![Err(Skip::of(&view.label, "the layer has no groups"))];
            }
            let alone = groups.iter().filter(|group| group.n == 1).count();
            let left_out = if alone < groups.len() { alone } else { 0 };
            all_left_out.extend((left_out > 0).then_some(left_out));
            for quantity in [Q, M, V] {
                // A state alone has no variance, whatever the group: one bar that would hide the others.
                let is_left_out = |group: &Group| left_out > 0 && quantity.name == V.name && group.n == 1;
                let mut values: Vec<f64> = groups.iter().filter(|group| !is_left_out(group)).map(quantity.of).collect();
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                let end = percentile(&mut values, 0.99);
                let counted = values.iter().map(|value| (*value, 1));
                let bins = if end > values[0] { Bins::of(counted, values[0], end, 50) } else { Bins::at(end, counted) };
                bins.push(
                    &mut rows,
                    &[
                        Cell::Text(view.run.model()),
                        Cell::Integer(at.0),
                        Cell::Text(at.1.name()),
                        Cell::Text(quantity.name),
                        Cell::Real(mean),
                    ],
                );
                panels.push(distribution(quantity, &bins, mean, Paint::Series(view.series), layer_name(*at)));
            }
        }
        let mut remarks = Remarks::default().footnote("values above each 99th percentile are not shown".into());
        if let (Some(least), Some(most)) = (all_left_out.first(), all_left_out.last()) {
            let to = if least < most { format!(" to {}", thousands(*most as i64)) } else { String::new() };
            remarks = remarks.footnote(format!("V without {}{to} groups of one state", thousands(*least as i64)));
        }
        let caption = format!(
            "Distributions of $Q(X_t)$, $M(X_t)$ and $V(X_t)$ of all groups below their 99th percentile in {}. The dashed line is the mean, values that are not shown included.{}",
            tex::name(&view.name),
            if !all_left_out.is_empty() { " Groups of one state have $V(X_t) = 0$ by definition: they are left out of $V$." } else { "" }
        );
        let plate = finish(&context.name("fig14", view), panels, 3, rows, caption, view.shown_in_tables(), remarks);
        vec![plate.map(with_mean)]
    })
}

/// Says what the dashed lines are.
fn with_mean(mut plate: Plate) -> Plate {
    if let Body::Panels(sheet) = &mut plate.body {
        sheet.legend.push((Key::Line(Paint::Text, true), Text::plain("mean")));
    }
    plate
}

fn distribution(quantity: Quantity, bins: &Bins, mean: f64, paint: Paint, title: String) -> Panel {
    let end = bins.edge(bins.counts.len());
    let x = Axis::new(Text::math(quantity.label), Scale::around(Kind::Linear, [bins.low, end, mean]));
    let y = Axis::new(Text::plain("groups"), Scale::linear(0.0, bins.most() * 1.06));
    Panel::new(Text::plain(title), x, y, vec![Mark::Bars(bins.bars(0.0, paint)), Mark::Vertical { x: mean, paint: Paint::Text }])
}

fn finish(name: &str, panels: Vec<Panel>, columns: usize, rows: Rows, caption: String, shown: Shown, remarks: Remarks) -> Outcome {
    let preferred = if columns > 1 { Preferred::Page } else { Preferred::Column };
    let sheet = Sheet { columns, ratio: if columns > 1 { 0.75 } else { 0.7 }, legend: Vec::new(), colour_bar: None, preferred, panels };
    let table = rows.table().map_err(|error| Skip::new(error.line()))?;
    Ok(Plate {
        name: name.into(),
        body: Body::Panels(sheet),
        numbers: vec![("", table)],
        caption,
        shown,
        remarks,
        description: format!("{name}: histograms"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_count_everything_once() {
        let values = [0.0, 0.1, 0.99, 1.0, 2.0, 3.0, 3.1].map(|value| (value, 2));
        let bins = Bins::of(values.into_iter(), 0.0, 3.0, 3);
        assert_eq!((bins.counts, bins.step), (vec![6, 2, 4], 1.0));
        let one = Bins::at(0.0, [(0.0, 7)].into_iter());
        assert_eq!((one.low, one.high, one.counts[24], one.most()), (-0.5, 0.5, 7, 7.0), "around the one value there is");
        assert_eq!(Bins::of([(5.0, 1)].into_iter(), 5.0, 5.0, 4).counts, [1, 0, 0, 0]);
    }
}
