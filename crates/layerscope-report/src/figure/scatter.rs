//! Points: as circles while there are few, as a picture inside of the vector frame when there are many.

use super::scene::{Area, Canvas, Raster, Shape};
use super::theme::Look;

/// More points than this in a figure become a picture.
pub(crate) const VECTOR_POINTS: usize = 5000;

/// Colours of a picture.
const SHADES: usize = 64;

/// How large points are: the more there are, the smaller.
pub(crate) fn radius(count: usize) -> f64 {
    match count {
        0..=300 => 1.5,
        301..=2000 => 1.1,
        2001..=40_000 => 0.8,
        _ => 0.6,
    }
}

/// Points (x, y, place on the colour map) as circles.
pub(crate) fn circles(canvas: &mut impl Canvas, look: &Look, points: &[(f64, f64, f64)], radius: f64, bounds: &Area) {
    let seen = bounds.grown(radius);
    let inside = |x: f64, y: f64| x >= seen.x && x <= seen.right() && y >= seen.y && y <= seen.bottom();
    let step = |shade: f64| (shade.clamp(0.0, 1.0) * (SHADES - 1) as f64).round();
    for run in points.chunk_by(|a, b| step(a.2) == step(b.2)) {
        let points: Vec<(f64, f64)> = run.iter().map(|(x, y, _)| (*x, *y)).filter(|(x, y)| inside(*x, *y)).collect();
        if !points.is_empty() {
            canvas.fill(Shape::Dots { points, radius }, look.map(step(run[0].2) / (SHADES - 1) as f64));
        }
    }
}

/// Points as a picture that fills `bounds`, later ones over earlier ones.
pub(crate) fn picture(look: &Look, points: &[(f64, f64, f64)], radius: f64, bounds: &Area, dots_per_inch: f64) -> Raster {
    let scale = dots_per_inch / 72.0;
    let (width, height) = ((bounds.width * scale).ceil() as usize, (bounds.height * scale).ceil() as usize);
    let mut pixels = vec![0u8; width * height];
    let reach = radius * scale;
    for (x, y, shade) in points {
        let (cx, cy) = ((x - bounds.x) * scale, (y - bounds.y) * scale);
        if !(cx > -reach && cy > -reach && cx < width as f64 + reach && cy < height as f64 + reach) {
            continue;
        }
        let index = 1 + (shade.clamp(0.0, 1.0) * (SHADES - 1) as f64).round() as u8;
        let first = |centre: f64| (centre - reach).floor().max(0.0) as usize;
        let last = |centre: f64, end: usize| ((centre + reach).ceil().max(0.0) as usize).min(end);
        for row in first(cy)..last(cy, height) {
            for column in first(cx)..last(cx, width) {
                let (dx, dy) = (column as f64 + 0.5 - cx, row as f64 + 0.5 - cy);
                if dx * dx + dy * dy <= reach * reach {
                    pixels[row * width + column] = index;
                }
            }
        }
    }
    let palette = (0..SHADES).map(|shade| look.map(shade as f64 / (SHADES - 1) as f64)).collect();
    Raster { width, height, pixels, palette }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::theme::Theme;

    #[test]
    fn later_points_cover_earlier_ones() {
        let look = Look::of(Theme::Light);
        let bounds = Area { x: 10.0, y: 10.0, width: 10.0, height: 5.0 };
        let raster = picture(&look, &[(12.0, 12.0, 0.0), (12.0, 12.0, 1.0), (500.0, 0.0, 0.5)], 1.0, &bounds, 72.0);
        assert_eq!((raster.width, raster.height), (10, 5));
        let drawn: Vec<(usize, u8)> = raster.pixels.iter().copied().enumerate().filter(|(_, index)| *index > 0).collect();
        assert_eq!(drawn, [(11, 64), (12, 64), (21, 64), (22, 64)]);
    }
}
