//! Rows of the tidy table of layers, and the table of measures.

use super::selection::Selection;

/// One value of the layers' table.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerRow {
    /// Over which states.
    pub selection: Selection,
    /// Its measure, a name of [`MEASURES`].
    pub measure: &'static str,
    /// Which variant, where a measure has several.
    pub variant: Option<String>,
    /// The value; None where it is undefined.
    pub value: Option<f64>,
    /// Its standard error, where one is known.
    pub se: Option<f64>,
    /// What it is computed over, counted.
    pub n: u64,
}

/// A value, its standard error where one is known, and what it is computed over, counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value; None where it is undefined.
    pub value: Option<f64>,
    /// Its standard error.
    pub se: Option<f64>,
    /// The count.
    pub n: u64,
}

impl Estimate {
    /// Without a standard error.
    pub fn new(value: Option<f64>, n: u64) -> Estimate {
        Estimate { value, se: None, n }
    }
}

/// The rows of one selection.
pub(super) struct Rows {
    pub selection: Selection,
    pub rows: Vec<LayerRow>,
}

impl Rows {
    pub fn push(&mut self, measure: &'static str, value: Option<f64>, n: u64) {
        self.push_estimate(measure, Estimate::new(value, n));
    }

    pub fn push_estimate(&mut self, measure: &'static str, estimate: Estimate) {
        self.add(measure, None, estimate);
    }

    pub fn push_variant(&mut self, measure: &'static str, variant: &str, estimate: Estimate) {
        self.add(measure, Some(variant.to_owned()), estimate);
    }

    fn add(&mut self, measure: &'static str, variant: Option<String>, estimate: Estimate) {
        let finite = |number: Option<f64>| number.filter(|number| number.is_finite());
        let (value, se) = (finite(estimate.value), finite(estimate.se));
        self.rows.push(LayerRow { selection: self.selection, measure, variant, value, se: value.and(se), n: estimate.n });
    }
}

/// What measures are chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Norm and variance.
    Norm,
    /// Cosines.
    Cosine,
    /// Between layers, and massive states.
    Layers,
}

impl Family {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Family::Norm => "norm",
            Family::Cosine => "cosine",
            Family::Layers => "layers",
        }
    }
}

/// What a measure is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Moments of every group.
    Groups,
    /// Moments of all states.
    Corpus,
    /// Both.
    GroupsAndCorpus,
    /// Similarity within sequences, and moments of all states.
    Sequences,
    /// Weights of the model.
    Weights,
}

/// One measure: what `layerscope measures` prints of it.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its name in the tables.
    pub name: &'static str,
    /// Its family.
    pub family: Family,
    /// What it is, in one line.
    pub formula: &'static str,
    /// Who defined it.
    pub source: &'static str,
    /// What it is computed from.
    pub needs: Needs,
    /// Names of its variants beside the plain value.
    pub variants: &'static [&'static str],
    /// What `n` counts.
    pub counts: &'static str,
}

const YAMAGIWA: &str = "Yamagiwa & Shimodaira 2025";
const ETHAYARAJH: &str = "Ethayarajh 2019";

const fn norm(name: &'static str, needs: Needs, counts: &'static str, formula: &'static str) -> Measure {
    Measure { name, family: Family::Norm, formula, source: YAMAGIWA, needs, variants: &[], counts }
}

const fn cosine(name: &'static str, needs: Needs, counts: &'static str, formula: &'static str) -> Measure {
    Measure { name, family: Family::Cosine, formula, source: ETHAYARAJH, needs, variants: &[], counts }
}

/// All measures, in the order of the tables.
pub const MEASURES: &[Measure] = &[
    norm("q", Needs::Corpus, "states", "Q(X) = mean of ||x||^2"),
    norm("m", Needs::Corpus, "states", "M(X) = ||mean of x||^2"),
    norm("v", Needs::Corpus, "states", "V(X) = mean of ||x - mu(X)||^2"),
    norm("v_within", Needs::Groups, "states", "V_W(X) = sum_t p_t V(X_t)"),
    norm("v_between", Needs::Groups, "states", "V_B(X) = sum_t p_t ||mu(X_t) - mu(X)||^2"),
    norm("m_over_q", Needs::Corpus, "states", "M(X) / Q(X)"),
    norm("v_over_q", Needs::Corpus, "states", "V(X) / Q(X)"),
    norm("v_within_over_q", Needs::GroupsAndCorpus, "states", "V_W(X) / Q(X)"),
    norm("v_between_over_q", Needs::GroupsAndCorpus, "states", "V_B(X) / Q(X)"),
    norm("v_within_over_v", Needs::GroupsAndCorpus, "states", "V_W(X) / V(X)"),
    norm("v_between_over_v", Needs::GroupsAndCorpus, "states", "V_B(X) / V(X)"),
    norm("mean_norm", Needs::Corpus, "states", "mean of ||x||"),
    Measure {
        variants: &["n0=1", "n0=3", "n0=10", "n0=30", "..."],
        ..norm(
            "cv_q",
            Needs::Groups,
            "groups",
            "population standard deviation / mean of Q(X_t) over groups, unweighted; n0=K over the groups with n_t >= K",
        )
    },
    norm(
        "cv_q_exponent",
        Needs::Groups,
        "values of n0",
        "slope of log10 cv_q(n0) on log10 n0, n0 = 1, 3, 10, ... with at least 10 groups; theory: -1/2",
    ),
    norm("slope_v_on_m", Needs::Groups, "groups", "slope of the least-squares line of V(X_t) on M(X_t), unweighted"),
    norm("intercept_v_on_m", Needs::Groups, "groups", "intercept of that line"),
    norm("r2_v_on_m", Needs::Groups, "groups", "R^2 of that line"),
    norm("slope_q_on_log_n", Needs::Groups, "groups", "slope of the least-squares line of Q(X_t) on log10 n_t"),
    norm("r2_q_on_log_n", Needs::Groups, "groups", "R^2 of that line"),
    norm("slope_m_on_log_n", Needs::Groups, "groups", "slope of the least-squares line of M(X_t) on log10 n_t"),
    norm("r2_m_on_log_n", Needs::Groups, "groups", "R^2 of that line"),
    norm("slope_v_on_log_n", Needs::Groups, "groups", "slope of the least-squares line of V(X_t) on log10 n_t"),
    norm("r2_v_on_log_n", Needs::Groups, "groups", "R^2 of that line"),
    norm("slope_log_q_on_log_n", Needs::Groups, "groups", "slope of the least-squares line of log10(1 + Q(X_t)) on log10 n_t"),
    norm("r2_log_q_on_log_n", Needs::Groups, "groups", "R^2 of that line"),
    norm("slope_log_m_on_log_n", Needs::Groups, "groups", "slope of the least-squares line of log10(1 + M(X_t)) on log10 n_t"),
    norm("r2_log_m_on_log_n", Needs::Groups, "groups", "R^2 of that line"),
    norm("slope_log_v_on_log_n", Needs::Groups, "groups", "slope of the least-squares line of log10(1 + V(X_t)) on log10 n_t"),
    norm("r2_log_v_on_log_n", Needs::Groups, "groups", "R^2 of that line"),
    norm("predicted_q", Needs::Weights, "components", "||gamma||^2 + ||beta||^2 of the norm whose output this is (RMSNorm: ||gamma||^2)"),
    norm("groups", Needs::Groups, "groups", "number of groups"),
    norm("states", Needs::Corpus, "states", "number of states"),
    cosine(
        "mean_cosine",
        Needs::Corpus,
        "non-zero states",
        "mean cosine over all pairs: (||s||^2 - n) / (n (n - 1)), s the sum of unit vectors",
    ),
    cosine("self_similarity", Needs::Groups, "groups", "mean over groups with n_t >= 5 of the mean cosine over all pairs of the group"),
    cosine("self_similarity_adjusted", Needs::GroupsAndCorpus, "groups", "self_similarity - mean_cosine"),
    cosine(
        "intra_sentence_similarity",
        Needs::Sequences,
        "sequences",
        "mean over sequences of the mean cosine between each state and the sequence's mean",
    ),
    cosine("intra_sentence_similarity_adjusted", Needs::Sequences, "sequences", "intra_sentence_similarity - mean_cosine"),
    Measure {
        name: "massive_activations",
        family: Family::Layers,
        formula: "number of states whose norm exceeds --massive times the median norm at that point",
        source: "Sun et al. 2024",
        needs: Needs::Corpus,
        variants: &[],
        counts: "states",
    },
];
