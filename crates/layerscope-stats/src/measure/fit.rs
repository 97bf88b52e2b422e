//! Straight lines, coefficients of variation, and their delete-one-group jackknife in O(groups).
//!
//! A deleted point is taken out of centred sums, which is exact enough unless that point *is* the spread; such points (there
//! can be two at most) are left out by summing again.

/// Fewer points make no line.
const MIN_POINTS: usize = 3;

/// A least-squares line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Its slope.
    pub slope: f64,
    /// Its value at 0.
    pub intercept: f64,
    /// Share of y's variance that it explains; None if y does not vary.
    pub r2: Option<f64>,
}

/// A [`Line`] with standard errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The line.
    pub line: Line,
    /// Jackknife standard error of the slope.
    pub slope_se: Option<f64>,
    /// Jackknife standard error of R^2.
    pub r2_se: Option<f64>,
}

/// Ordinary least squares of y on x with intercept: slope = S_xy / S_xx, R^2 = S_xy^2 / (S_xx S_yy).
///
/// None with fewer than 3 points, or if x does not vary. The line through a constant y has slope 0 and no R^2.
pub fn fit_line(x: &[f64], y: &[f64]) -> Option<Line> {
    let tolerance = Tolerance::of(x, y);
    Sums::of(x, y, None).line(tolerance)
}

/// [`fit_line`] with delete-one-point jackknife errors; an error is None if the slope, or R^2, is undefined without some point.
pub fn fit_with_errors(x: &[f64], y: &[f64]) -> Option<Fit> {
    let tolerance = Tolerance::of(x, y);
    let sums = Sums::of(x, y, None);
    let line = sums.line(tolerance)?;
    let replicates: Option<Vec<Line>> = (0..x.len())
        .map(|i| {
            let sums = sums.without(x[i], y[i]).unwrap_or_else(|| Sums::of(x, y, Some(i)));
            sums.line(tolerance)
        })
        .collect();
    let error = |value: fn(&Line) -> Option<f64>| {
        let values: Option<Vec<f64>> = replicates.as_ref()?.iter().map(value).collect();
        values.map(|values| jackknife(&values))
    };
    Some(Fit { line, slope_se: error(|line| Some(line.slope)), r2_se: line.r2.and_then(|_| error(|line| line.r2)) })
}

/// Standard error from the values without each point: sqrt((n-1)/n sum (theta_(i) - mean theta)^2).
pub fn jackknife(replicates: &[f64]) -> f64 {
    let spread = Spread::of(replicates, None);
    ((spread.n - 1.0) / spread.n * spread.m2).sqrt()
}

/// Rounding leaves some spread in equal numbers; this much counts as none.
#[derive(Clone, Copy)]
struct Tolerance {
    x: f64,
    y: f64,
}

impl Tolerance {
    fn of(x: &[f64], y: &[f64]) -> Tolerance {
        let scale = |values: &[f64]| values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        let square = |values| (4.0 * f64::EPSILON * scale(values)).powi(2);
        Tolerance { x: square(x), y: square(y) }
    }
}

/// Centred sums of pairs.
struct Sums {
    x: Spread,
    y: Spread,
    xy: f64,
}

impl Sums {
    fn of(x: &[f64], y: &[f64], skip: Option<usize>) -> Sums {
        let (spread_x, spread_y) = (Spread::of(x, skip), Spread::of(y, skip));
        let product = |(x, y): (&f64, &f64)| (x - spread_x.mean) * (y - spread_y.mean);
        let pairs = x.iter().zip(y).enumerate().filter(|(i, _)| Some(*i) != skip);
        let xy = pairs.map(|(_, pair)| product(pair)).sum();
        Sums { x: spread_x, y: spread_y, xy }
    }

    /// The sums without one point, unless it is most of a spread.
    fn without(&self, x: f64, y: f64) -> Option<Sums> {
        let n = self.x.n;
        let product = (x - self.x.mean) * (y - self.y.mean) * n / (n - 1.0);
        Some(Sums { x: self.x.without(x)?, y: self.y.without(y)?, xy: self.xy - product })
    }

    fn line(&self, tolerance: Tolerance) -> Option<Line> {
        let n = self.x.n;
        let varies = self.x.m2 > n * tolerance.x;
        if n < MIN_POINTS as f64 || !varies || !self.y.mean.is_finite() {
            return None;
        }
        if self.y.m2 <= n * tolerance.y {
            return Some(Line { slope: 0.0, intercept: self.y.mean, r2: None });
        }
        let slope = self.xy / self.x.m2;
        // Not S_xy^2: that overflows for states near f32's limits.
        let r2 = (slope * (self.xy / self.y.m2)).clamp(0.0, 1.0);
        Some(Line { slope, intercept: self.y.mean - slope * self.x.mean, r2: Some(r2) })
    }
}

/// Count, mean and sum of squared deviations of some numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub n: f64,
    pub mean: f64,
    pub m2: f64,
}

impl Spread {
    /// Of all values but one, in two passes.
    pub fn of(values: &[f64], skip: Option<usize>) -> Spread {
        let kept = || values.iter().enumerate().filter(|(i, _)| Some(*i) != skip).map(|(_, value)| *value);
        let n = kept().count() as f64;
        let center = kept().sum::<f64>() / n;
        let (left, m2) = kept().fold((0.0, 0.0), |(left, m2), value| (left + (value - center), m2 + (value - center).powi(2)));
        Spread { n, mean: center + left / n, m2: (m2 - left * left / n).max(0.0) }
    }

    /// Without one of the values, unless it makes up most of the spread.
    pub fn without(&self, value: f64) -> Option<Spread> {
        let deviation = value - self.mean;
        let part = deviation * deviation * self.n / (self.n - 1.0);
        let spread = Spread { n: self.n - 1.0, mean: self.mean - deviation / (self.n - 1.0), m2: self.m2 - part };
        (part <= 0.5 * self.m2).then_some(spread)
    }

    /// Population standard deviation over mean; None without values or with mean 0.
    pub fn variation(&self) -> Option<f64> {
        (self.n > 0.0 && self.mean != 0.0).then(|| (self.m2 / self.n).sqrt() / self.mean)
    }
}

/// Coefficient of variation: population standard deviation over mean. None without values or with mean 0.
pub fn variation(values: &[f64]) -> Option<f64> {
    Spread::of(values, None).variation()
}

/// Coefficients of variation without each of the values; None if one of them is undefined.
pub(super) fn variations_without_each(values: &[f64]) -> Option<Vec<f64>> {
    let spread = Spread::of(values, None);
    (0..values.len()).map(|i| spread.without(values[i]).unwrap_or_else(|| Spread::of(values, Some(i))).variation()).collect()
}

/// Jackknife standard error of [`variation`]; None with fewer than 3 values.
pub fn variation_error(values: &[f64]) -> Option<f64> {
    if values.len() < MIN_POINTS {
        return None;
    }
    variations_without_each(values).map(|replicates| jackknife(&replicates))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} {b}");
    }

    #[test]
    fn a_line_computed_by_hand() {
        // x = 1, 2, 3, 4; y = 2, 3, 5, 4: means 2.5, 3.5; S_xx = 5, S_xy = 4, S_yy = 5.
        let line = fit_line(&[1.0, 2.0, 3.0, 4.0], &[2.0, 3.0, 5.0, 4.0]).unwrap();
        close(line.slope, 0.8);
        close(line.intercept, 1.5);
        close(line.r2.unwrap(), 0.64);
        let exact = fit_line(&[1.0, 2.0, 4.0], &[3.0, 1.0, -3.0]).unwrap();
        close(exact.slope, -2.0);
        close(exact.intercept, 5.0);
        close(exact.r2.unwrap(), 1.0);
    }

    #[test]
    fn lines_without_spread_of_x_or_points_are_undefined() {
        assert_eq!(fit_line(&[1.0, 2.0], &[1.0, 2.0]), None);
        assert_eq!(fit_line(&[0.1; 7], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), None);
        assert_eq!(fit_line(&[0.1; 7], &[0.0; 7]), None);
        assert_eq!(fit_line(&[1.0, 2.0, 3.0], &[1.0, f64::INFINITY, 3.0]), None);
        assert_eq!(fit_line(&[], &[]), None);
    }

    #[test]
    fn a_constant_y_has_slope_0_and_no_r2() {
        let x = [1.0, 2.0, 3.0, 5.0];
        // Rounding leaves some spread in 0.1 + 0.2 and 0.3; it is none.
        for y in [[0.0; 4], [0.1; 4], [0.3, 0.1 + 0.2, 0.3, 0.3]] {
            let fit = fit_with_errors(&x, &y).unwrap();
            assert_eq!((fit.line.slope, fit.line.r2), (0.0, None));
            close(fit.line.intercept, y[0]);
            assert_eq!((fit.slope_se, fit.r2_se), (Some(0.0), None));
        }
        // Constant without its last point: that line has a slope, so the slope's error is known, and no R^2.
        let y = [2.0, 2.0, 2.0, 7.0];
        let fit = fit_with_errors(&x, &y).unwrap();
        let drop = |values: &[f64], i: usize| [&values[..i], &values[i + 1..]].concat();
        let slopes: Vec<f64> = (0..4).map(|i| fit_line(&drop(&x, i), &drop(&y, i)).unwrap().slope).collect();
        assert_eq!(slopes[3], 0.0);
        close(fit.slope_se.unwrap(), jackknife(&slopes));
        assert_eq!((fit.line.r2.is_some(), fit.r2_se), (true, None));
    }

    #[test]
    fn variation_computed_by_hand() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, population standard deviation 2.
        close(variation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap(), 0.4);
        assert_eq!(variation(&[]), None);
        assert_eq!(variation(&[1.0, -1.0]), None);
        assert_eq!(variation(&[3.0]), Some(0.0));
        assert_eq!(variation_error(&[1.0, 2.0]), None);
    }

    /// Values of every size, one of which is nearly all of the spread.
    fn awkward(n: usize) -> (Vec<f64>, Vec<f64>) {
        let noise = |i: usize, k: usize| ((i * 7919 + k * 104_729) % 1000) as f64 / 1000.0;
        let mut x: Vec<f64> = (0..n).map(|i| 10.0 + noise(i, 1)).collect();
        let mut y: Vec<f64> = (0..n).map(|i| 2.0 * x[i] + 3.0 * noise(i, 2)).collect();
        x[n / 2] = 1e7;
        y[n / 3] = -1e6;
        (x, y)
    }

    #[test]
    fn the_jackknife_equals_the_naive_one() {
        let (x, y) = awkward(40);
        let drop = |values: &[f64], i: usize| [&values[..i], &values[i + 1..]].concat();
        let naive = |value: &dyn Fn(&[f64], &[f64]) -> f64| {
            let replicates: Vec<f64> = (0..x.len()).map(|i| value(&drop(&x, i), &drop(&y, i))).collect();
            let mean = replicates.iter().sum::<f64>() / replicates.len() as f64;
            let n = replicates.len() as f64;
            ((n - 1.0) / n * replicates.iter().map(|r| (r - mean).powi(2)).sum::<f64>()).sqrt()
        };
        let fit = fit_with_errors(&x, &y).unwrap();
        let slope = naive(&|x, y| fit_line(x, y).unwrap().slope);
        let r2 = naive(&|x, y| fit_line(x, y).unwrap().r2.unwrap());
        let cv = naive(&|x, _| variation(x).unwrap());
        assert!((fit.slope_se.unwrap() - slope).abs() <= 1e-10 * slope, "{:?} {slope}", fit.slope_se);
        assert!((fit.r2_se.unwrap() - r2).abs() <= 1e-10 * r2, "{:?} {r2}", fit.r2_se);
        assert!((variation_error(&x).unwrap() - cv).abs() <= 1e-10 * cv);
    }

    #[test]
    fn an_error_is_undefined_if_a_line_without_one_point_is() {
        let fit = fit_with_errors(&[1.0, 1.0, 1.0, 2.0], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((fit.slope_se, fit.r2_se), (None, None));
    }
}
