//! What papers found in large models, asked of two measured ones: a post-norm encoder and a pre-norm decoder.

use layerscope_report::{Cell, Column, Run, Table};

use crate::error::Result;

/// A statement of a paper, and what two runs say to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What was found.
    pub statement: &'static str,
    /// By whom.
    pub paper: &'static str,
    /// What was seen there, and in which models.
    pub saw: &'static str,
    /// What is seen here.
    pub here: String,
    /// Whether that is the same; None where the runs lack what is asked.
    pub agrees: Option<bool>,
}

/// The papers.
const NORM: &str = "Yamagiwa & Shimodaira 2025";
const SHAPE: &str = "Razzhigaev et al. 2024";
const CONTEXT: &str = "Ethayarajh 2019";

/// Close to a slope of -1, and close to a line.
const CLOSE: f64 = 0.1;

/// The table of layers of one run, asked by name.
struct Asked<'a>(&'a Run);

impl Asked<'_> {
    /// A measure at the embedding and after every block, in order.
    fn profile(&self, selection: &str, measure: &str, variant: Option<&str>) -> Option<Vec<f64>> {
        self.values(selection, measure, variant, &["embedding", "block"]).filter(|values| values.len() >= 3)
    }

    /// A measure after the final norm.
    fn final_norm(&self, selection: &str, measure: &str) -> Option<f64> {
        self.values(selection, measure, None, &["final_norm"])?.first().copied()
    }

    fn values(&self, selection: &str, measure: &str, variant: Option<&str>, points: &[&str]) -> Option<Vec<f64>> {
        let table = &self.0.layers;
        let text = |name: &str, row: usize| match table.column(name)?.cell(row) {
            Cell::Text(text) => Some(text),
            _ => None,
        };
        let wanted = |row: &usize| {
            text("selection", *row) == Some(selection)
                && text("measure", *row) == Some(measure)
                && text("variant", *row) == variant
                && text("point", *row).is_some_and(|point| points.contains(&point))
        };
        let value = |row: usize| match table.column("value")?.cell(row) {
            Cell::Real(value) => Some(value),
            _ => None,
        };
        (0..table.rows()).filter(wanted).map(value).collect()
    }
}

/// The layer in the middle.
fn middle(profile: &[f64]) -> f64 {
    profile[(profile.len() - 1) / 2]
}

/// Where the smallest value is.
fn lowest(profile: &[f64]) -> usize {
    (0..profile.len()).min_by(|&a, &b| profile[a].total_cmp(&profile[b])).unwrap_or(0)
}

fn highest(profile: &[f64]) -> usize {
    (0..profile.len()).max_by(|&a, &b| profile[a].total_cmp(&profile[b])).unwrap_or(0)
}

fn is_inner(layer: usize, profile: &[f64]) -> bool {
    layer > 0 && layer + 1 < profile.len()
}

/// First and last value.
fn ends(profile: &[f64]) -> (f64, f64) {
    (profile[0], profile[profile.len() - 1])
}

/// Asks a run of a post-norm encoder and a run of a pre-norm decoder what the papers asked. Every number is computed from the tables.
pub fn findings(post: &Run, pre: &Run) -> Vec<Finding> {
    let (encoder, decoder) = (Asked(post), Asked(pre));
    let (e, d) = (post.model(), pre.model());
    vec![
        finding(
            "in the middle layers V falls by as much as M rises: slope -1",
            (NORM, "slope near -1, R^2 near 1 in post-norm encoders"),
            || {
                let (slope, fit) =
                    (middle(&encoder.profile("selected", "slope_v_on_m", None)?), middle(&encoder.profile("selected", "r2_v_on_m", None)?));
                Some((format!("{e}: slope {slope:.2}, R^2 {fit:.3}"), (slope + 1.0).abs() <= CLOSE && fit >= 1.0 - CLOSE))
            },
        ),
        finding(
            "without a norm at the end of the block the trade-off is weaker",
            (NORM, "pre-norm decoders have flatter slopes and lower R^2"),
            || {
                let at = |run: &Asked<'_>, measure: &str| Some(middle(&run.profile("selected", measure, None)?));
                let (slopes, fits) = (
                    (at(&decoder, "slope_v_on_m")?, at(&encoder, "slope_v_on_m")?),
                    (at(&decoder, "r2_v_on_m")?, at(&encoder, "r2_v_on_m")?),
                );
                Some((
                    format!("{d}: slope {:.2}, R^2 {:.2}; {e}: {:.2}, {:.2}", slopes.0, fits.0, slopes.1, fits.1),
                    slopes.0 > slopes.1 && fits.0 < fits.1,
                ))
            },
        ),
        finding(
            "a norm brings it back: after the final norm the slope is near -1",
            (NORM, "explains the trade-off by layer normalization"),
            || {
                let before = *decoder.profile("selected", "slope_v_on_m", None)?.last()?;
                let after = decoder.final_norm("selected", "slope_v_on_m")?;
                Some((format!("{d}: {before:.2} before, {after:.2} after"), (after + 1.0).abs() <= CLOSE && after < before))
            },
        ),
        finding(
            "Q varies least over tokens in an intermediate layer",
            (NORM, "C.V. of Q is smallest between the ends in six models"),
            || {
                let (of_e, of_d) = (encoder.profile("selected", "cv_q", None)?, decoder.profile("selected", "cv_q", None)?);
                let (at_e, at_d) = (lowest(&of_e), lowest(&of_d));
                let text = format!("{e}: {:.4} in layer {at_e}; {d}: {:.4} in layer {at_d}", of_e[at_e], of_d[at_d]);
                Some((text, is_inner(at_e, &of_e) && is_inner(at_d, &of_d)))
            },
        ),
        finding("Q is what the norm's parameters say: |gamma|^2 + |beta|^2", (NORM, "theory for post-norm models"), || {
            let (q, predicted) = (encoder.profile("all", "q", None)?, encoder.profile("all", "predicted_q", None)?);
            let off = q.iter().zip(&predicted).map(|(q, predicted)| (q / predicted - 1.0).abs()).fold(0.0, f64::max);
            Some((format!("{e}: off by at most {:.1} % in any layer", 100.0 * off), off <= CLOSE))
        }),
        finding("states move away from the origin with depth: M/Q grows", (NORM, "M/Q of the last layer above the first's"), || {
            let (of_e, of_d) = (ends(&encoder.profile("all", "m_over_q", None)?), ends(&decoder.profile("all", "m_over_q", None)?));
            let text = format!("{e}: {:.2} to {:.2}; {d}: {:.2} to {:.2}", of_e.0, of_e.1, of_d.0, of_d.1);
            Some((text, of_e.1 > of_e.0 && of_d.1 > of_d.0))
        }),
        finding(
            "with depth a token's own contexts make up more of the variance: V_W/V grows",
            (NORM, "V_W/V of the last layer above the first's"),
            || {
                let of = |run: &Asked<'_>| Some(ends(&run.profile("all", "v_within_over_v", None)?));
                let (of_e, of_d) = (of(&encoder)?, of(&decoder)?);
                let text = format!("{e}: {:.2} to {:.2}; {d}: {:.2} to {:.2}", of_e.0, of_e.1, of_d.0, of_d.1);
                Some((text, of_e.1 > of_e.0 && of_d.1 > of_d.0))
            },
        ),
        finding("frequent tokens have smaller M and larger V", (NORM, "slopes on log n: M negative, V positive"), || {
            // Plug-in M falls with frequency, and V rises, even over tokens that differ in nothing else.
            let of = |measure: &str| Some(middle(&encoder.profile("selected", measure, Some("unbiased"))?));
            let (m, v) = (of("slope_m_on_log_n")?, of("slope_v_on_log_n")?);
            Some((format!("{e}: M {m:+.3}, V {v:+.3}, unbiased"), m < 0.0 && v > 0.0))
        }),
        finding(
            "a decoder is most anisotropic in its middle layers",
            (SHAPE, "bell-shaped profiles in decoders, flat ones in encoders"),
            || {
                let profile = decoder.profile("all", "anisotropy_svd", Some("corpus"))?;
                let at = highest(&profile);
                Some((format!("{d}: highest ({:.3}) in layer {at} of {}", profile[at], profile.len() - 1), is_inner(at, &profile)))
            },
        ),
        finding(
            "upper layers are more specific to context: self-similarity falls",
            (CONTEXT, "lower in upper layers of three models"),
            || {
                let of = |run: &Asked<'_>| Some(ends(&run.profile("selected", "self_similarity", None)?));
                let (of_e, of_d) = (of(&encoder)?, of(&decoder)?);
                let text = format!("{e}: {:.2} to {:.2}; {d}: {:.2} to {:.2}", of_e.0, of_e.1, of_d.0, of_d.1);
                Some((text, of_e.1 < of_e.0 && of_d.1 < of_d.0))
            },
        ),
    ]
}

fn finding(statement: &'static str, (paper, saw): (&'static str, &'static str), ask: impl FnOnce() -> Option<(String, bool)>) -> Finding {
    let (here, agrees) = ask().map_or(("not measured".to_owned(), None), |(here, agrees)| (here, Some(agrees)));
    Finding { statement, paper, saw, here, agrees }
}

/// One row a finding.
pub fn findings_table(findings: &[Finding]) -> Result<Table> {
    let text = |of: &dyn Fn(&Finding) -> &str| Column::Text(findings.iter().map(|finding| Some(of(finding).to_owned())).collect());
    Ok(Table::new([
        ("statement", text(&|finding| finding.statement)),
        ("paper", text(&|finding| finding.paper)),
        ("the paper saw", text(&|finding| finding.saw)),
        ("seen here", text(&|finding| &finding.here)),
        (
            "agrees",
            text(&|finding| match finding.agrees {
                Some(true) => "yes",
                Some(false) => "no",
                None => "-",
            }),
        ),
    ])?)
}
