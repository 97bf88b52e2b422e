//! What papers found in large models, asked of two measured ones: a post-norm encoder and a pre-norm decoder.

use layerscope_report::{Column, Run, Table};

use crate::demo::asked::{Asked, Estimate};
use crate::error::Result;

/// What two runs say to a statement, their standard errors considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same is seen here, by more than two standard errors where these are known.
    Agrees,
    /// The opposite is, by as much.
    Differs,
    /// Neither, or it was not measured.
    CannotTell,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "differs",
            Verdict::CannotTell => "cannot tell",
        }
    }

    /// All margins must be positive. One that is negative decides, one that its error hides leaves it open.
    fn of(margins: &[Estimate]) -> Verdict {
        let beyond = |margin: f64, error: f64| margin > 2.0 * error;
        match () {
            () if margins.iter().any(|margin| beyond(-margin.value, margin.error)) => Verdict::Differs,
            () if margins.iter().all(|margin| beyond(margin.value, margin.error)) => Verdict::Agrees,
            () => Verdict::CannotTell,
        }
    }
}

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
    /// Whether that is the same.
    pub verdict: Verdict,
}

/// The papers.
const NORM: &str = "Yamagiwa & Shimodaira 2025";
const SHAPE: &str = "Razzhigaev et al. 2024";
const CONTEXT: &str = "Ethayarajh 2019";
const MASSIVE: &str = "Sun et al. 2024";

/// Close to a slope of -1, and close to a line.
const CLOSE: f64 = 0.1;

/// The layer in the middle.
fn middle(profile: &[Estimate]) -> Estimate {
    profile[(profile.len() - 1) / 2]
}

/// Where the smallest value is.
fn lowest(profile: &[Estimate]) -> usize {
    (0..profile.len()).min_by(|&a, &b| profile[a].value.total_cmp(&profile[b].value)).unwrap_or(0)
}

fn highest(profile: &[Estimate]) -> usize {
    (0..profile.len()).max_by(|&a, &b| profile[a].value.total_cmp(&profile[b].value)).unwrap_or(0)
}

/// First and last value.
fn ends(profile: &[Estimate]) -> (Estimate, Estimate) {
    (profile[0], profile[profile.len() - 1])
}

/// The values between the ends.
fn inner(profile: &[Estimate]) -> &[Estimate] {
    &profile[1..profile.len() - 1]
}

/// Asks a run of a post-norm encoder and a run of a pre-norm decoder what the papers asked. Every number is computed from the tables.
pub fn findings(post: &Run, pre: &Run) -> Vec<Finding> {
    let (encoder, decoder) = (Asked(post), Asked(pre));
    let (e, d) = (post.model(), pre.model());
    let mut asked = vec![
        finding(
            "in the middle layers V falls by as much as M rises: slope -1",
            (NORM, "slope near -1, R^2 near 1 in post-norm encoders"),
            || {
                let (slope, fit) =
                    (middle(&encoder.profile("selected", "slope_v_on_m", None)?), middle(&encoder.profile("selected", "r2_v_on_m", None)?));
                let text = format!("{e}: slope {:.2}, R^2 {:.3}", slope.value, fit.value);
                Some((text, vec![slope.near(-1.0, CLOSE), fit.above_number(1.0 - CLOSE)]))
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
                let [a, b, c, d_] = [slopes.0, fits.0, slopes.1, fits.1].map(|estimate| estimate.value);
                let text = format!("{d}: slope {a:.2}, R^2 {b:.2}; {e}: {c:.2}, {d_:.2}");
                Some((text, vec![slopes.0.above(slopes.1), fits.1.above(fits.0)]))
            },
        ),
        finding(
            "a norm brings it back: after the final norm the slope is near -1",
            (NORM, "explains the trade-off by layer normalization"),
            || {
                let before = *decoder.profile("selected", "slope_v_on_m", None)?.last()?;
                let after = decoder.final_norm("selected", "slope_v_on_m")?;
                let text = format!("{d}: {:.2} before, {:.2} after", before.value, after.value);
                Some((text, vec![after.near(-1.0, CLOSE), before.above(after)]))
            },
        ),
        finding(
            "Q varies least over tokens in an intermediate layer",
            (NORM, "C.V. of Q is smallest between the ends in six models"),
            || {
                let profiles = [encoder.profile("selected", "cv_q", None)?, decoder.profile("selected", "cv_q", None)?];
                let [at_e, at_d] = [lowest(&profiles[0]), lowest(&profiles[1])];
                let margin = |profile: &Vec<Estimate>| {
                    let (first, last) = ends(profile);
                    let least = inner(profile)[lowest(inner(profile))];
                    [first.above(least), last.above(least)]
                };
                let (of_e, of_d) = (profiles[0][at_e].value, profiles[1][at_d].value);
                let text = format!("{e}: {of_e:.4} in layer {at_e}; {d}: {of_d:.4} in layer {at_d}");
                Some((text, profiles.iter().flat_map(margin).collect()))
            },
        ),
        finding("Q is what the norm's parameters say: |gamma|^2 + |beta|^2", (NORM, "theory for post-norm models"), || {
            let (q, predicted) = (encoder.profile("all", "q", None)?, encoder.profile("all", "predicted_q", None)?);
            let ratio =
                |(q, predicted): (&Estimate, &Estimate)| Estimate { value: q.value / predicted.value, error: q.error / predicted.value };
            let ratios: Vec<Estimate> = q.iter().zip(&predicted).map(ratio).collect();
            let off = ratios.iter().map(|ratio| (ratio.value - 1.0).abs()).fold(0.0, f64::max);
            let text = format!("{e}: off by at most {:.1} % in any layer", 100.0 * off);
            Some((text, ratios.iter().map(|ratio| ratio.near(1.0, CLOSE)).collect()))
        }),
        finding("states move away from the origin with depth: M/Q grows", (NORM, "M/Q of the last layer above the first's"), || {
            let of = |run: &Asked<'_>| Some(ends(&run.profile("all", "m_over_q", None)?));
            Some(change((e, of(&encoder)?), (d, of(&decoder)?), Direction::Up))
        }),
        finding(
            "with depth a token's own contexts make up more of the variance: V_W/V grows",
            (NORM, "V_W/V of the last layer above the first's"),
            || {
                let of = |run: &Asked<'_>| Some(ends(&run.profile("all", "v_within_over_v", None)?));
                Some(change((e, of(&encoder)?), (d, of(&decoder)?), Direction::Up))
            },
        ),
        finding("frequent tokens have smaller M and larger V", (NORM, "slopes on log n: M negative, V positive"), || {
            // Plug-in M falls with frequency, and V rises, even over tokens that differ in nothing else.
            let of = |measure: &str| Some(middle(&encoder.profile("selected", measure, Some("unbiased"))?));
            let (m, v) = (of("slope_m_on_log_n")?, of("slope_v_on_log_n")?);
            let zero = Estimate { value: 0.0, error: 0.0 };
            Some((format!("{e}: M {:+.3}, V {:+.3}, unbiased", m.value, v.value), vec![zero.above(m), v]))
        }),
        finding(
            "a decoder is most anisotropic in its middle layers",
            (SHAPE, "bell-shaped profiles in decoders, flat ones in encoders"),
            || {
                let mut profile = decoder.profile("all", "anisotropy_svd", Some("corpus"))?;
                // Batches of the sample tell how much it varies.
                for (estimate, spread) in
                    profile.iter_mut().zip(decoder.profile("sample", "anisotropy_svd", Some("batch4096_std")).unwrap_or_default())
                {
                    estimate.error = spread.value;
                }
                let at = highest(&profile);
                let text = format!("{d}: highest ({:.3}) in layer {at} of {}", profile[at].value, profile.len() - 1);
                let (first, last) = ends(&profile);
                let most = inner(&profile)[highest(inner(&profile))];
                Some((text, vec![most.above(first), most.above(last)]))
            },
        ),
        finding(
            "upper layers are more specific to context: self-similarity falls",
            (CONTEXT, "lower in upper layers of three models"),
            || {
                let of = |run: &Asked<'_>| Some(ends(&run.profile("selected", "self_similarity", None)?));
                Some(change((e, of(&encoder)?), (d, of(&decoder)?), Direction::Down))
            },
        ),
    ];
    asked.extend(sinks(&decoder, d));
    asked
}

/// Asked only of a decoder that has massive states.
fn sinks(decoder: &Asked<'_>, name: &str) -> Option<Finding> {
    let shares = decoder.profile("all", "massive_share_of_q", None)?;
    let at = highest(&shares);
    let share = shares[at];
    (share.value > 0.0).then(|| {
        finding(
            "a few massive states carry most of the squared norm in the middle layers",
            (MASSIVE, "sinks at the first token and at delimiters of large decoders"),
            || Some((format!("{name}: {:.1} % of Q in layer {at}", 100.0 * share.value), vec![share.above_number(0.5)])),
        )
    })
}

/// Where a measure goes from the first layer to the last.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Up,
    Down,
}

/// What two models do between their first and last layer, and by how much it is in that direction.
fn change(a: (&str, (Estimate, Estimate)), b: (&str, (Estimate, Estimate)), direction: Direction) -> (String, Vec<Estimate>) {
    let text = |(name, (first, last)): (&str, (Estimate, Estimate))| format!("{name}: {:.2} to {:.2}", first.value, last.value);
    let margin = |(first, last): (Estimate, Estimate)| if direction == Direction::Up { last.above(first) } else { first.above(last) };
    (format!("{}; {}", text(a), text(b)), vec![margin(a.1), margin(b.1)])
}

fn finding(
    statement: &'static str,
    (paper, saw): (&'static str, &'static str),
    ask: impl FnOnce() -> Option<(String, Vec<Estimate>)>,
) -> Finding {
    let (here, verdict) = ask().map_or(("not measured".to_owned(), Verdict::CannotTell), |(here, margins)| (here, Verdict::of(&margins)));
    Finding { statement, paper, saw, here, verdict }
}

/// One row a finding.
pub fn findings_table(findings: &[Finding]) -> Result<Table> {
    let text = |of: &dyn Fn(&Finding) -> &str| Column::text(findings.iter().map(|finding| Some(of(finding))));
    Ok(Table::new([
        ("statement", text(&|finding| finding.statement)),
        ("paper", text(&|finding| finding.paper)),
        ("the paper saw", text(&|finding| finding.saw)),
        ("seen here", text(&|finding| &finding.here)),
        ("verdict", text(&|finding| finding.verdict.words())),
    ])?)
}
