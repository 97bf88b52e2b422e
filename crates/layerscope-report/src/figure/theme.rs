//! One look for all figures: colours, sizes, and a colour and a marker per model.

use std::str::FromStr;

use layerscope_error::or;

use super::scene::{Canvas, Colour, Shape, Stroke};
use super::sheet::Fade;
use crate::error::{Error, Result};

/// The look of figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// For white paper and screens.
    #[default]
    Light,
    /// For dark slides and screens.
    Dark,
    /// Black on white without a grid. Lines also differ in their dashes, so they can be told apart in grey.
    Print,
}

impl Theme {
    /// Every theme, in the order of the command line's help.
    pub const ALL: [Theme; 3] = [Theme::Light, Theme::Dark, Theme::Print];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Theme::Light => "light",
            Theme::Dark => "dark",
            Theme::Print => "print",
        }
    }
}

impl FromStr for Theme {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Theme::ALL.into_iter().find(|theme| theme.name() == name);
        found.ok_or_else(|| {
            let names = Theme::ALL.map(Theme::name);
            Error::setting("theme", name, &names, &or(&names))
        })
    }
}

/// Sizes of text, in points.
pub(crate) const TICK: f64 = 6.5;
pub(crate) const LABEL: f64 = 7.5;
pub(crate) const TITLE: f64 = 8.0;

/// Radius of the markers of lines.
pub(crate) const MARKER: f64 = 1.7;

/// The colours of a theme.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub background: Colour,
    pub text: Colour,
    /// Tick labels, notes.
    pub quiet: Colour,
    pub axis: Colour,
    pub grid: Option<Colour>,
    /// Lines that stand out from everything: regressions, means.
    pub accent: Colour,
    series: [Colour; 7],
    /// The part of the colour map that is seen well on the background.
    map: (f64, f64),
    /// How far the first colour of the map is mixed with white, the last not at all: dark violet vanishes on black.
    lift: f64,
    /// How far the colours of the map are mixed with grey, and then with the background.
    fade: (f64, f64),
    /// The same of what was not computed with: bright colours would vanish on white without some grey.
    faint: (f64, f64),
    dashes: bool,
}

/// Okabe and Ito's colours, told apart with any colour vision, in an order in which neighbours differ in lightness too.
const SERIES: [Colour; 7] = [
    Colour(0, 114, 178),
    Colour(213, 94, 0),
    Colour(0, 158, 115),
    Colour(204, 121, 167),
    Colour(230, 159, 0),
    Colour(86, 180, 233),
    Colour(70, 70, 70),
];

const GREY: Colour = Colour(128, 128, 128);
const WHITE: Colour = Colour(255, 255, 255);

const DASHES: [&[f64]; 4] = [&[], &[4.0, 1.6], &[1.3, 1.3], &[5.0, 1.5, 1.3, 1.5]];

impl Look {
    pub fn of(theme: Theme) -> Look {
        let light = Look {
            background: Colour(255, 255, 255),
            text: Colour(26, 26, 26),
            quiet: Colour(85, 85, 85),
            axis: Colour(120, 120, 120),
            grid: Some(Colour(232, 232, 232)),
            accent: Colour(200, 30, 50),
            series: SERIES,
            map: (0.0, 0.93),
            lift: 0.0,
            fade: (0.0, 0.0),
            faint: (0.45, 0.62),
            dashes: false,
        };
        match theme {
            Theme::Light => light,
            Theme::Dark => Look {
                background: Colour(22, 24, 29),
                text: Colour(236, 236, 236),
                quiet: Colour(178, 182, 189),
                axis: Colour(120, 125, 133),
                grid: Some(Colour(46, 50, 58)),
                accent: Colour(255, 107, 107),
                series: SERIES.map(|colour| match colour {
                    Colour(70, 70, 70) => Colour(200, 200, 200),
                    Colour(0, 114, 178) => Colour(64, 150, 220),
                    other => other.mix(Colour(255, 255, 255), 0.12),
                }),
                map: (0.22, 1.0),
                lift: 0.25,
                fade: (0.0, 0.0),
                faint: (0.45, 0.5),
                dashes: false,
            },
            Theme::Print => {
                Look { text: Colour(0, 0, 0), quiet: Colour(0, 0, 0), axis: Colour(0, 0, 0), grid: None, dashes: true, ..light }
            }
        }
    }

    /// The colour of the series of this number.
    pub fn colour(&self, series: usize) -> Colour {
        self.series[series % self.series.len()]
    }

    /// The line of the series of this number.
    pub fn line(&self, series: usize, width: f64) -> Stroke {
        let turn = if self.dashes { series } else { series / self.series.len() };
        Stroke { colour: self.colour(series), width, dash: DASHES[turn % DASHES.len()] }
    }

    /// A place on the colour map, 0 to 1.
    pub fn map(&self, part: f64) -> Colour {
        let (low, high) = self.map;
        let part = part.clamp(0.0, 1.0);
        let lifted = viridis(low + (high - low) * part).mix(WHITE, self.lift * (1.0 - part));
        lifted.mix(GREY, self.fade.0).mix(self.background, self.fade.1)
    }

    /// The same with a paler colour map.
    pub fn faded(&self, fade: Fade) -> Look {
        let fade = match fade {
            Fade::Full => self.fade,
            Fade::Pale => (0.0, 0.5),
            Fade::Faint => self.faint,
        };
        Look { fade, ..self.clone() }
    }
}

/// The perceptually uniform map of that name (CC0), by linear interpolation between 17 of its colours.
fn viridis(part: f64) -> Colour {
    const COLOURS: [Colour; 17] = [
        Colour(68, 1, 84),
        Colour(72, 21, 104),
        Colour(72, 40, 120),
        Colour(69, 56, 130),
        Colour(62, 74, 137),
        Colour(55, 90, 140),
        Colour(49, 104, 142),
        Colour(43, 118, 142),
        Colour(38, 130, 142),
        Colour(33, 145, 140),
        Colour(31, 158, 137),
        Colour(40, 174, 128),
        Colour(59, 187, 117),
        Colour(94, 201, 98),
        Colour(137, 213, 72),
        Colour(194, 223, 35),
        Colour(253, 231, 37),
    ];
    let place = part.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f64;
    let index = (place.floor() as usize).min(COLOURS.len() - 2);
    COLOURS[index].mix(COLOURS[index + 1], place - index as f64)
}

/// Draws the marker of the series of this number; hollow ones show what is beside a line, not on it.
pub(crate) fn marker(canvas: &mut impl Canvas, look: &Look, series: usize, (x, y): (f64, f64), radius: f64, hollow: bool) {
    let colour = look.colour(series);
    let polygon = |corners: &[(f64, f64)]| Shape::Lines {
        points: corners.iter().map(|(dx, dy)| (x + dx * radius, y + dy * radius)).collect(),
        closed: true,
    };
    let shape = match series % 8 {
        0 => Shape::Circle { x, y, radius },
        1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => polygon(&[(0.0, -1.2), (1.1, 0.85), (-1.1, 0.85)]),
        3 => polygon(&[(0.0, -1.35), (1.1, 0.0), (0.0, 1.35), (-1.1, 0.0)]),
        4 => polygon(&[(0.0, 1.2), (1.1, -0.85), (-1.1, -0.85)]),
        5 => polygon(&[(0.5, -1.0), (1.1, 0.0), (0.5, 1.0), (-0.5, 1.0), (-1.1, 0.0), (-0.5, -1.0)]),
        6 => polygon(&[
            (0.4, -1.2),
            (0.4, -0.4),
            (1.2, -0.4),
            (1.2, 0.4),
            (0.4, 0.4),
            (0.4, 1.2),
            (-0.4, 1.2),
            (-0.4, 0.4),
            (-1.2, 0.4),
            (-1.2, -0.4),
            (-0.4, -0.4),
            (-0.4, -1.2),
        ]),
        _ => polygon(&[(-1.2, -1.0), (0.0, -0.35), (1.2, -1.0), (0.35, 0.0), (1.2, 1.0), (0.0, 0.35), (-1.2, 1.0), (-0.35, 0.0)]),
    };
    let fill = if hollow { look.background } else { colour };
    canvas.outlined(shape, fill, Stroke::solid(colour, if hollow { 0.8 } else { 0.3 }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_look_different() {
        let look = Look::of(Theme::Print);
        let mut seen: Vec<_> = (0..56).map(|series| (look.colour(series), series % 8)).collect();
        seen.dedup();
        for (i, one) in seen.iter().enumerate() {
            assert!(!seen[i + 1..].contains(one));
        }
        assert!("dusk".parse::<Theme>().unwrap_err().to_string().contains("light, dark or print"));
    }

    #[test]
    fn every_text_is_readable() {
        let luminance = |colour: Colour| {
            let linear = |value: u8| {
                let value = f64::from(value) / 255.0;
                if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * linear(colour.0) + 0.7152 * linear(colour.1) + 0.0722 * linear(colour.2)
        };
        for theme in Theme::ALL {
            let look = Look::of(theme);
            let contrast = |colour| {
                let (a, b) = (luminance(colour), luminance(look.background));
                (a.max(b) + 0.05) / (a.min(b) + 0.05)
            };
            assert!(contrast(look.text) > 7.0 && contrast(look.quiet) > 4.5, "{theme:?}");
            assert!((0..7).all(|series| contrast(look.colour(series)) > 2.0), "{theme:?}");
            assert!(contrast(look.map(0.0)) > 3.0, "{theme:?}: points of the lowest colour");
        }
    }
}
