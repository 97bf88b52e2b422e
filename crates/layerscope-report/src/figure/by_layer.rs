//! The figures of measures along the layers: which measures, how their axes are called, what the captions say.

use super::context::Context;
use super::plate::Outcome;
use super::profiles::{Curve, Plan, draw};
use super::sheet::Preferred;

/// Of a measure without limits.
const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

pub(super) const fn curve(title: &'static str, label: &'static str, measure: &'static str) -> Curve {
    Curve { title, label, measure, variants: &[None], band: None, limits: ANY, mark: None, size: false }
}

/// Of a norm, a squared norm or a variance.
const fn size(label: &'static str, measure: &'static str) -> Curve {
    Curve { limits: (0.0, f64::INFINITY), size: true, ..curve("", label, measure) }
}

pub(crate) fn fig4(context: &Context) -> Vec<Outcome> {
    const CURVES: &[Curve] = &[
        curve("", "C.V. of *Q*(*X*_{t})", "cv_q"),
        Curve { mark: Some(-1.0), ..curve("", "slope of *V* on *M*", "slope_v_on_m") },
        Curve { limits: (0.0, 1.0), mark: Some(1.0), ..curve("", "*R*² of *V* on *M*", "r2_v_on_m") },
    ];
    let caption = "Coefficient of variation of $Q(X_t)$, and slope and $R^2$ of the regression of $V(X_t)$ on $M(X_t)$, by layer.";
    let plan = Plan { id: "fig4", curves: CURVES, columns: 3, preferred: Preferred::Page, caption, key: "C.V.", over_groups: true };
    vec![draw(context, &plan)]
}

pub(crate) fn fig6(context: &Context) -> Vec<Outcome> {
    const CURVES: &[Curve] = &[curve("", "*V*_{W}(*X*) / *V*(*X*)", "v_within_over_v")];
    let caption = "Share of the variance within groups, $V_W(X)/V(X)$, by layer.";
    vec![draw(
        context,
        &Plan { id: "fig6", curves: CURVES, columns: 1, preferred: Preferred::Column, caption, key: "$V_W/V$", over_groups: false },
    )]
}

pub(crate) fn fig17(context: &Context) -> Vec<Outcome> {
    const CURVES: &[Curve] = &[
        Curve { mark: Some(0.0), ..curve("", "slope of log_{10}(1 + *Q*)", "slope_log_q_on_log_n") },
        Curve { mark: Some(0.0), ..curve("", "slope of log_{10}(1 + *M*)", "slope_log_m_on_log_n") },
        Curve { mark: Some(0.0), ..curve("", "slope of log_{10}(1 + *V*)", "slope_log_v_on_log_n") },
    ];
    let caption = "Slopes of $\\log_{10}(1+Q(X_t))$, $\\log_{10}(1+M(X_t))$ and $\\log_{10}(1+V(X_t))$ on $\\log_{10} n_t$, by layer.";
    vec![draw(
        context,
        &Plan {
            id: "fig17",
            curves: CURVES,
            columns: 3,
            preferred: Preferred::Page,
            caption,
            key: "Slope of $\\log_{10}(1+Q)$",
            over_groups: true,
        },
    )]
}

pub(crate) fn fig18(context: &Context) -> Vec<Outcome> {
    const CURVES: &[Curve] = &[
        curve("", "*M*(*X*) / *Q*(*X*)", "m_over_q"),
        curve("", "*V*(*X*) / *Q*(*X*)", "v_over_q"),
        curve("", "*V*_{W}(*X*) / *Q*(*X*)", "v_within_over_q"),
        curve("", "*V*_{B}(*X*) / *Q*(*X*)", "v_between_over_q"),
    ];
    let caption =
        "Shares of the squared norm $Q(X)$ by layer: squared norm of the mean, variance, and the variance within and between groups.";
    vec![draw(
        context,
        &Plan { id: "fig18", curves: CURVES, columns: 4, preferred: Preferred::Page, caption, key: "$M/Q$", over_groups: false },
    )]
}

pub(crate) fn fig19(context: &Context) -> Vec<Outcome> {
    const CURVES: &[Curve] = &[size("*Q*(*X*)", "q"), size("*M*(*X*)", "m"), size("*V*(*X*)", "v")];
    let caption = "Mean squared norm $Q(X)$, squared norm of the mean $M(X)$ and variance $V(X)$ by layer.";
    vec![draw(
        context,
        &Plan { id: "fig19", curves: CURVES, columns: 3, preferred: Preferred::Page, caption, key: "$Q$", over_groups: false },
    )]
}

pub(crate) fn fig20(context: &Context) -> Vec<Outcome> {
    const CURVES: &[Curve] =
        &[size("*V*_{W}(*X*)", "v_within"), size("*V*_{B}(*X*)", "v_between"), curve("", "*V*_{B}(*X*) / *V*(*X*)", "v_between_over_v")];
    let caption = "Variance within groups $V_W(X)$, variance between groups $V_B(X)$, and the share $V_B(X)/V(X)$, by layer.";
    vec![draw(
        context,
        &Plan { id: "fig20", curves: CURVES, columns: 3, preferred: Preferred::Page, caption, key: "$V_W$", over_groups: false },
    )]
}

pub(crate) fn ethayarajh1(context: &Context) -> Vec<Outcome> {
    const CURVES: &[Curve] = &[curve("", "mean cosine", "mean_cosine"), size("mean norm", "mean_norm")];
    let caption = "Mean cosine over pairs of states, and mean norm of the states, by layer.";
    vec![draw(
        context,
        &Plan {
            id: "ethayarajh1",
            curves: CURVES,
            columns: 2,
            preferred: Preferred::Page,
            caption,
            key: "Mean cosine",
            over_groups: false,
        },
    )]
}

pub(crate) fn ethayarajh2(context: &Context) -> Vec<Outcome> {
    const CURVES: &[Curve] = &[
        curve("Self-similarity", "self-similarity", "self_similarity"),
        Curve { mark: Some(0.0), ..curve("Adjusted for anisotropy", "self-similarity − mean cosine", "self_similarity_adjusted") },
    ];
    let caption = "Self-similarity of groups with at least five states, and the same minus the mean cosine, by layer.";
    vec![draw(
        context,
        &Plan {
            id: "ethayarajh2",
            curves: CURVES,
            columns: 2,
            preferred: Preferred::Page,
            caption,
            key: "Self-similarity",
            over_groups: false,
        },
    )]
}

pub(crate) fn ethayarajh3(context: &Context) -> Vec<Outcome> {
    const CURVES: &[Curve] = &[
        curve("Intra-sentence similarity", "similarity", "intra_sentence_similarity"),
        Curve { mark: Some(0.0), ..curve("Adjusted for anisotropy", "similarity − mean cosine", "intra_sentence_similarity_adjusted") },
    ];
    let caption = "Intra-sentence similarity, and the same minus the mean cosine, by layer.";
    vec![draw(
        context,
        &Plan { id: "ethayarajh3", curves: CURVES, columns: 2, preferred: Preferred::Page, caption, key: "Similarity", over_groups: false },
    )]
}

pub(crate) fn ethayarajh4(context: &Context) -> Vec<Outcome> {
    const CURVES: &[Curve] = &[
        curve("Maximum explainable variance", "share of variance", "max_explainable_variance"),
        Curve { mark: Some(0.0), ..curve("Adjusted for anisotropy", "share of variance, adjusted", "max_explainable_variance_adjusted") },
    ];
    let caption = "Maximum explainable variance of the chosen tokens, and the same minus that of all states, by layer.";
    vec![draw(
        context,
        &Plan {
            id: "ethayarajh4",
            curves: CURVES,
            columns: 2,
            preferred: Preferred::Page,
            caption,
            key: "Explainable variance",
            over_groups: false,
        },
    )]
}

pub(crate) fn isotropy(context: &Context) -> Vec<Outcome> {
    const CURVES: &[Curve] = &[
        curve("", "IsoScore", "isoscore"),
        curve("", "effective rank", "effective_rank"),
        Curve { variants: &[Some("twonn"), Some("mle"), None], ..curve("", "intrinsic dimension", "intrinsic_dimension") },
    ];
    let caption = "IsoScore, effective rank of the covariance, and intrinsic dimension (TwoNN) of the states, by layer.";
    vec![draw(
        context,
        &Plan { id: "isotropy", curves: CURVES, columns: 3, preferred: Preferred::Page, caption, key: "IsoScore", over_groups: false },
    )]
}
