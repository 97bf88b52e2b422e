//! Scales, and where their ticks stand.

use super::text::{Text, decimals, thousands};

/// Below this, steps between ticks would vanish; above the other, they would not be finite.
const SMALLEST: f64 = 1e-290;
const LARGEST: f64 = 1e290;
/// More layers and steps than there are: beyond it, one more is no difference.
const LARGEST_COUNT: f64 = 1e12;

/// Room for half a marker, as a part of a scale.
pub(crate) const MARKER: f64 = 0.02;

/// How numbers become lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Linear,
    /// Whole numbers from 0 to the last layer.
    Layers,
    Log,
    /// log10(1 + x): training steps, which start at 0.
    Steps,
    /// Two places: 0 is before, 1 is after.
    BeforeAfter,
}

/// A range of numbers along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    pub kind: Kind,
    pub min: f64,
    pub max: f64,
}

/// A mark on an axis; those without a label are shorter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: Option<Text>,
}

impl Scale {
    /// The range of some numbers, with a little room; a single number gets room of its own size.
    pub fn around(kind: Kind, values: impl IntoIterator<Item = f64>) -> Scale {
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        let usable = |value: &f64| value.is_finite() && (kind != Kind::Log || *value > 0.0);
        let drawable = |value: f64| match kind {
            Kind::Layers | Kind::Steps => value.clamp(-LARGEST_COUNT, LARGEST_COUNT),
            _ => drawable(value),
        };
        for value in values.into_iter().map(drawable).filter(usable) {
            (min, max) = (min.min(value), max.max(value));
        }
        if min > max {
            (min, max) = if kind == Kind::Log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        match kind {
            Kind::Log => {
                let room = ((max / min).log10() * 0.05).max(0.05);
                Scale { kind, min: min / 10f64.powf(room), max: max * 10f64.powf(room) }
            }
            Kind::Steps => Scale { kind, min: min.max(0.0), max: max.max(min.max(0.0) + 1.0) },
            Kind::BeforeAfter => Scale { kind, min: -0.3, max: 1.3 },
            Kind::Layers => Scale { kind, min, max: if max > min { max } else { min + 1.0 } },
            Kind::Linear => {
                let spread = max - min;
                let room =
                    if spread > 1e-12 * max.abs().max(min.abs()) { spread * 0.05 } else { if max == 0.0 { 0.5 } else { max.abs() * 0.5 } };
                Scale { kind, min: min - room, max: max + room }
            }
        }
    }

    /// From 0 to a little above the largest of some numbers; below 0 only if some of them are.
    pub fn from_zero(values: impl IntoIterator<Item = f64>) -> Scale {
        let values: Vec<f64> = values.into_iter().chain([0.0]).collect();
        let scale = Scale::around(Kind::Linear, values.iter().copied());
        if values.iter().any(|value| *value < 0.0) { scale } else { Scale { min: 0.0, ..scale } }
    }

    /// With this number inside.
    pub fn including(mut self, value: f64) -> Scale {
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
        self
    }

    /// Wider where some of these numbers touch an end, or lie beyond it by at most this part of the scale: points are on it whole, or
    /// far outside.
    pub fn with_room_for(self, values: &[f64], beyond: f64) -> Scale {
        let length = self.max - self.min;
        let (marker, reach) = (MARKER * length, beyond * length);
        let near = |value: &&f64| **value >= self.min - reach && **value <= self.max + reach;
        values.iter().filter(near).fold(self, |scale, value| scale.including(value - marker).including(value + marker))
    }

    pub fn linear(min: f64, max: f64) -> Scale {
        Scale { kind: Kind::Linear, min, max }
    }

    /// Where a number lies: 0 at the start, 1 at the end.
    pub fn place(&self, value: f64) -> f64 {
        let bend = |value: f64| match self.kind {
            Kind::Linear | Kind::Layers | Kind::BeforeAfter => value,
            Kind::Log => value.max(f64::MIN_POSITIVE).log10(),
            Kind::Steps => (1.0 + value.max(0.0)).log10(),
        };
        (bend(value) - bend(self.min)) / (bend(self.max) - bend(self.min))
    }

    /// At most about `room` labelled ticks, and the power of ten all labels have been divided by.
    pub fn ticks(&self, room: usize) -> (Vec<Tick>, i32) {
        match self.kind {
            Kind::Linear => linear_labelled(self.min, self.max, room.max(2)),
            Kind::Layers => (layers(self.min.ceil() as i64, self.max.floor() as i64, room.max(2)), 0),
            Kind::Log => {
                let ticks = decades(self.min, self.max, room.max(2));
                // Between two powers of ten there may be nothing round enough to be labelled: then as on a linear axis.
                let labelled = ticks.iter().filter(|tick| tick.label.is_some()).count();
                if labelled < 2 { linear_labelled(self.min, self.max, room.max(2)) } else { (ticks, 0) }
            }
            Kind::Steps => {
                let ticks = steps(self.min, self.max, room.max(2));
                let labelled = ticks.iter().filter(|tick| tick.label.is_some()).count();
                if labelled < 2 { linear_labelled(self.min, self.max, room.max(2)) } else { (ticks, 0) }
            }
            Kind::BeforeAfter => (
                ["before", "after"].iter().enumerate().map(|(i, name)| Tick { value: i as f64, label: Some(Text::plain(*name)) }).collect(),
                0,
            ),
        }
    }
}

/// What an axis can show: numbers whose powers of ten are numbers themselves, with room around them. Smaller ones are 0.
fn drawable(value: f64) -> f64 {
    if value.abs() < SMALLEST { 0.0 } else { value.clamp(-LARGEST, LARGEST) }
}

/// With more steps than there is room for where only so at least two are labelled: one number alone tells no scale.
fn linear_labelled(min: f64, max: f64, room: usize) -> (Vec<Tick>, i32) {
    let mut rooms = (room..room + 6).map(|room| linear(min, max, room));
    let first = rooms.next().unwrap_or_default();
    if first.0.len() < 2 { rooms.find(|(ticks, _)| ticks.len() > 1).unwrap_or(first) } else { first }
}

/// Steps of 1, 2, 2.5 or 5 times a power of ten.
fn linear(min: f64, max: f64, room: usize) -> (Vec<Tick>, i32) {
    let rough = (max - min) / room as f64;
    if !(SMALLEST..=LARGEST).contains(&rough) {
        return (Vec::new(), 0);
    }
    let power = rough.log10().floor();
    let base = 10f64.powf(power);
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * base).into_iter().find(|step| *step >= rough * 0.999).unwrap_or(10.0 * base);
    let largest = min.abs().max(max.abs());
    // Five digits, or many zeros after the point, are taken out of the labels.
    let factor = if !(1e-2..1e4).contains(&largest) { largest.log10().floor() as i32 } else { 0 };
    let unit = 10f64.powi(factor);
    let digits = (0..12)
        .find(|digits| ((step / unit) * 10f64.powi(*digits)).fract().min(1.0 - ((step / unit) * 10f64.powi(*digits)).fract()) < 1e-6);
    let digits = digits.unwrap_or(3) as usize;
    let first = (min / step - 1e-9).ceil() as i64;
    let last = (max / step + 1e-9).floor() as i64;
    let label = |value: f64| decimals(value / unit, digits);
    let tick = |i: i64| Tick { value: i as f64 * step, label: Some(Text::plain(label(i as f64 * step))) };
    ((first..=last).map(tick).collect(), factor)
}

/// A step that ends on the last layer if there is one.
fn layers(min: i64, max: i64, room: usize) -> Vec<Tick> {
    let count = max.saturating_sub(min).max(1);
    let fits = |step: &i64| count / step < room as i64 + 1;
    // As many parts of equal length as there is room for.
    let exact = (2..=count.min(room as i64)).rev().find(|parts| count % parts == 0).map(|parts| count / parts);
    let step = exact.or_else(|| [1, 2, 5, 10, 20, 50, 100, 500].into_iter().find(fits)).unwrap_or(count);
    (min..=max).step_by(step as usize).map(|layer| Tick { value: layer as f64, label: Some(Text::plain(layer.to_string())) }).collect()
}

fn decades(min: f64, max: f64, room: usize) -> Vec<Tick> {
    let (first, last) = (drawable(min).max(SMALLEST).log10().floor() as i32, drawable(max).max(SMALLEST).log10().ceil() as i32);
    let inside = |value: f64| value >= min * 0.999_999 && value <= max * 1.000_001;
    let whole = (first..=last).filter(|power| inside(10f64.powi(*power))).count();
    let every = whole.div_ceil(room).max(1) as i32;
    let mut ticks = Vec::new();
    for power in first..=last {
        for digit in 1..10 {
            let value = f64::from(digit) * 10f64.powi(power);
            // Less than two decades: 1, 2 and 5 are labelled too.
            let labelled = match digit {
                1 => power.rem_euclid(every) == 0,
                2 | 5 => whole < 2,
                _ => false,
            };
            if inside(value) && (labelled || every == 1) {
                ticks.push(Tick { value, label: labelled.then(|| power_label(digit, power, max < 2e4)) });
            }
        }
    }
    ticks
}

/// 100, 0.02 or 10 with an exponent.
fn power_label(digit: i32, power: i32, plain: bool) -> Text {
    match power {
        0..=4 if plain => Text::plain(thousands(i64::from(digit) * 10i64.pow(power as u32))),
        0 => Text::plain(digit.to_string()),
        -2..=-1 => Text::plain(decimals(f64::from(digit) * 10f64.powi(power), power.unsigned_abs() as usize)),
        1 if digit == 1 => Text::plain("10"),
        _ if digit == 1 => Text::math(&format!("10^{{{power}}}")),
        _ => Text::math(&format!("{digit}×10^{{{power}}}")),
    }
}

/// 0, 1, 10, 100, ...: a few of them if there is little room.
fn steps(min: f64, max: f64, room: usize) -> Vec<Tick> {
    let label = |value: f64| match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value => format!("{value}"),
    };
    let values: Vec<f64> =
        [0.0].into_iter().chain((0..12).map(|power| 10f64.powi(power))).filter(|value| *value >= min && *value <= max).collect();
    let every = values.len().div_ceil(room).max(1);
    values
        .iter()
        .enumerate()
        .map(|(i, value)| Tick { value: *value, label: (i % every == 0).then(|| Text::plain(label(*value))) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, room: usize) -> Vec<String> {
        scale.ticks(room).0.into_iter().filter_map(|tick| tick.label).map(|label| label.characters()).collect()
    }

    #[test]
    fn linear_ticks_are_round() {
        assert_eq!(labels(Scale::linear(-1.03, 0.2), 5), ["−1.00", "−0.75", "−0.50", "−0.25", "0.00"]);
        assert_eq!(labels(Scale::linear(0.0, 480.0), 5), ["0", "100", "200", "300", "400"]);
        assert_eq!(labels(Scale::linear(0.0, 40_000.0), 4), ["0", "1", "2", "3", "4"]);
        let (ticks, factor) = Scale::linear(0.0, 3.1e5).ticks(3);
        assert_eq!((factor, ticks.last().unwrap().value, ticks.last().unwrap().label.clone()), (5, 2e5, Some(Text::plain("2"))));
    }

    #[test]
    fn every_axis_has_two_labels() {
        // A step of 0.5 has room, and only 0 lies on it.
        assert_eq!(labels(Scale::linear(-0.45, 0.35), 2), ["−0.4", "−0.2", "0.0", "0.2"]);
        for (low, high) in [(-0.45, 0.35), (0.51, 0.99), (-1.04, -0.97), (101.0, 199.0), (3.2, 3.3)] {
            for room in 1..8 {
                assert!(labels(Scale::linear(low, high), room).len() > 1, "{low} to {high}, {room}");
                assert!(labels(Scale { kind: Kind::Steps, min: low.abs() * 1e3, max: low.abs() * 1e3 + 900.0 }, room).len() > 1);
            }
        }
    }

    #[test]
    fn points_are_whole_or_outside() {
        let scale = Scale::linear(0.0, 100.0);
        assert_eq!(scale.with_room_for(&[50.0, 99.0, 101.5, 103.0], MARKER), Scale::linear(0.0, 103.5));
        assert_eq!(scale.with_room_for(&[2.0, 98.0, -40.0], 0.1), scale);
        assert_eq!(scale.with_room_for(&[1.0, -8.0], MARKER), Scale::linear(-1.0, 100.0));
        assert_eq!(scale.with_room_for(&[1.0, -8.0], 0.1), Scale::linear(-10.0, 100.0));
    }

    #[test]
    fn layer_ticks_end_on_the_last_layer() {
        let layers = |last: i64, room| labels(Scale { kind: Kind::Layers, min: 0.0, max: last as f64 }, room);
        assert_eq!(layers(12, 6), ["0", "2", "4", "6", "8", "10", "12"]);
        assert_eq!(layers(24, 5), ["0", "6", "12", "18", "24"]);
        assert_eq!(layers(6, 6), ["0", "1", "2", "3", "4", "5", "6"]);
        assert_eq!(layers(1, 6), ["0", "1"]);
        assert_eq!(layers(23, 5), ["0", "5", "10", "15", "20"]);
        // 5 parts; a prime has none.
        assert_eq!(layers(4_294_967_295, 6).len(), 6);
        assert_eq!(layers(4_294_967_291, 6), ["0", "4294967291"]);
    }

    #[test]
    fn log_ticks_are_decades() {
        assert_eq!(labels(Scale { kind: Kind::Log, min: 0.5, max: 2e5 }, 6), ["1", "10", "102", "103", "104", "105"]);
        assert_eq!(labels(Scale { kind: Kind::Log, min: 3.0, max: 60.0 }, 6), ["5", "10", "20", "50"]);
        assert_eq!(labels(Scale { kind: Kind::Log, min: 5.9e5, max: 7.1e5 }, 3), ["6.0", "6.5", "7.0"]);
        assert_eq!(labels(Scale { kind: Kind::Steps, min: 0.0, max: 143_000.0 }, 7), ["0", "1", "10", "100", "1k", "10k", "100k"]);
    }

    #[test]
    fn scales_never_collapse() {
        for kind in [Kind::Linear, Kind::Layers, Kind::Log, Kind::Steps] {
            let subnormal = f64::from_bits(3);
            for values in [
                vec![],
                vec![0.0],
                vec![5.0, 5.0],
                vec![f64::NAN],
                vec![-3.0],
                vec![subnormal],
                vec![subnormal, 1e-310],
                vec![0.0, f64::MIN_POSITIVE],
                vec![-f64::MAX, f64::MAX],
                vec![f64::MAX],
            ] {
                let scale = Scale::around(kind, values);
                let place = scale.place((scale.min + scale.max) / 2.0);
                assert!(scale.max > scale.min && place > 0.0 && place < 1.0, "{scale:?}");
                assert!(scale.ticks(5).0.len() < 2000, "{scale:?}");
            }
        }
        for (min, max) in [(0.0, f64::from_bits(7)), (f64::from_bits(1), f64::MIN_POSITIVE), (-f64::MAX, f64::MAX)] {
            for kind in [Kind::Linear, Kind::Log] {
                assert!(Scale { kind, min, max }.ticks(5).0.len() < 2000);
            }
        }
    }
}
