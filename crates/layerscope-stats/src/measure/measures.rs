//! The table of measures, and what each of them needs.

use crate::sketch::SketchSet;

/// What measures are chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Norm and variance.
    Norm,
    /// Cosines.
    Cosine,
    /// Eigenvalues of the covariance.
    Spectrum,
    /// The partition function.
    Partition,
    /// Intrinsic dimension.
    Dimension,
    /// Within sequences.
    Sequence,
    /// Between layers, and massive states.
    Layers,
    /// Clusters of the sample; chosen by a grouping, not as a family.
    Cluster,
}

impl Family {
    /// Those that can be chosen.
    pub const SELECTABLE: [Family; 7] =
        [Family::Norm, Family::Cosine, Family::Spectrum, Family::Partition, Family::Dimension, Family::Sequence, Family::Layers];

    /// Those that are chosen unless others are.
    pub const DEFAULT: [Family; 4] = [Family::Norm, Family::Cosine, Family::Spectrum, Family::Dimension];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Family::Norm => "norm",
            Family::Cosine => "cosine",
            Family::Spectrum => "spectrum",
            Family::Partition => "partition",
            Family::Dimension => "dimension",
            Family::Sequence => "sequence",
            Family::Layers => "layers",
            Family::Cluster => "cluster",
        }
    }

    /// The selectable one of this name.
    pub fn named(name: &str) -> Option<Family> {
        Family::SELECTABLE.into_iter().find(|family| family.name() == name)
    }
}

/// The sketches that the measures of these families need beside the moments of groups and corpus.
pub fn needs(families: &[Family]) -> SketchSet {
    let any = |needs: &[Needs]| MEASURES.iter().any(|measure| families.contains(&measure.family) && needs.contains(&measure.needs));
    SketchSet {
        units: families.contains(&Family::Cosine),
        covariance: any(&[Needs::Covariance, Needs::CovarianceAndSample, Needs::Pairs]),
        pairs: any(&[Needs::Pairs]),
        sequences: any(&[Needs::Shapes]),
        sample: any(&[Needs::Sample, Needs::CovarianceAndSample]),
        blocks: false,
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
    /// The kept states of chosen tokens (adjusted values: also the covariance, where it is kept).
    Tokens,
    /// The covariance of all states.
    Covariance,
    /// The kept sample, and the covariance.
    CovarianceAndSample,
    /// The kept sample of states.
    Sample,
    /// The shape of every sequence.
    Shapes,
    /// Products with the next point, and both covariances.
    Pairs,
    /// Weights of the model.
    Weights,
}

impl Needs {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Needs::Groups => "groups",
            Needs::Corpus => "corpus",
            Needs::GroupsAndCorpus => "groups, corpus",
            Needs::Sequences => "sequences",
            Needs::Tokens => "token states",
            Needs::Covariance => "covariance",
            Needs::CovarianceAndSample => "covariance, sample",
            Needs::Sample => "sample",
            Needs::Shapes => "sequences",
            Needs::Pairs => "pairs, covariance",
            Needs::Weights => "weights",
        }
    }
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

impl Measure {
    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Measure> {
        MEASURES.iter().find(|measure| measure.name == name)
    }
}

const YAMAGIWA: &str = "Yamagiwa & Shimodaira 2025";
const ETHAYARAJH: &str = "Ethayarajh 2019";

const fn norm(name: &'static str, needs: Needs, counts: &'static str, formula: &'static str) -> Measure {
    Measure { name, family: Family::Norm, formula, source: YAMAGIWA, needs, variants: &[], counts }
}

const fn cosine(name: &'static str, needs: Needs, counts: &'static str, formula: &'static str) -> Measure {
    Measure { name, family: Family::Cosine, formula, source: ETHAYARAJH, needs, variants: &[], counts }
}

const fn spectrum(name: &'static str, source: &'static str, formula: &'static str) -> Measure {
    Measure { name, family: Family::Spectrum, formula, source, needs: Needs::Covariance, variants: &[], counts: "states" }
}

const fn of_sample(name: &'static str, family: Family, source: &'static str, formula: &'static str) -> Measure {
    Measure { name, family, formula, source, needs: Needs::Sample, variants: &[], counts: "states" }
}

const fn shape(name: &'static str, source: &'static str, formula: &'static str) -> Measure {
    Measure { name, family: Family::Sequence, formula, source, needs: Needs::Shapes, variants: &[], counts: "sequences" }
}

const fn between_layers(name: &'static str, needs: Needs, source: &'static str, formula: &'static str) -> Measure {
    Measure { name, family: Family::Layers, formula, source, needs, variants: &[], counts: "states" }
}

const PARTITIONS: &[&str] = &["default", "machina", "default_centred", "machina_centred"];
const MU: &str = "Mu & Viswanath 2018; Machina & Mercer 2024";

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
    Measure {
        variants: CLUSTERS,
        ..norm("v_within_over_v", Needs::GroupsAndCorpus, "states", "V_W(X) / V(X); k=K over clusters of the sample")
    },
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
    cosine(
        "max_explainable_variance",
        Needs::Tokens,
        "tokens",
        "mean over the chosen tokens of lambda_1 / sum lambda of the uncentred second moment of their kept states",
    ),
    cosine(
        "max_explainable_variance_adjusted",
        Needs::Tokens,
        "tokens",
        "max_explainable_variance - lambda_1 / sum lambda of the uncentred second moment of X (null without a covariance)",
    ),
    Measure {
        needs: Needs::CovarianceAndSample,
        variants: &["corpus", "batch4096", "batch4096_std"],
        ..spectrum(
            "anisotropy_svd",
            "Razzhigaev et al. 2024",
            "lambda_1 / sum lambda of the covariance; batch4096: mean and standard deviation over batches of the sample",
        )
    },
    spectrum("isoscore", "Rudman et al. 2022", "(PR - 1) / (d - 1), PR the participation ratio"),
    Measure {
        needs: Needs::CovarianceAndSample,
        ..spectrum(
            "isoscore_star",
            "Rudman & Eickhoff 2024",
            "mean over batches of 4096 of the sample of isoscore of 0.25 C_batch + 0.75 C",
        )
    },
    spectrum("participation_ratio", "Gao & Ganguli 2015", "PR = (sum lambda)^2 / sum lambda^2"),
    spectrum("effective_rank", "Roy & Vetterli 2007", "exp(-sum p ln p), p = lambda / sum lambda"),
    spectrum("rankme", "Garrido et al. 2023", "exp(-sum p ln p), p = sigma / sum sigma + 1e-7 of the uncentred singular values"),
    spectrum("stable_rank", "Rudelson & Vershynin 2007", "sum lambda / lambda_1"),
    spectrum(
        "alpha_req",
        "Agrawal et al. 2022",
        "slope of ln lambda on -ln rank over ranks 11..min(d, n - 1, 100), weights 1 / rank; null with fewer than 10",
    ),
    spectrum("top_variance_1", "Timkey & van Schijndel 2021", "share of the variance in the component with the most"),
    spectrum("top_variance_3", "Timkey & van Schijndel 2021", "share of the variance in the 3 components with the most"),
    spectrum("top_variance_10", "Timkey & van Schijndel 2021", "share of the variance in the 10 components with the most"),
    Measure {
        variants: PARTITIONS,
        ..of_sample(
            "partition",
            Family::Partition,
            MU,
            "I(W) = min_v Z(v) / max_v Z(v), Z(v) = sum_w exp(w.v), v the eigenvectors of W^T W",
        )
    },
    Measure { variants: PARTITIONS, ..of_sample("log_partition", Family::Partition, MU, "ln I(W) = min_v ln Z(v) - max_v ln Z(v)") },
    Measure {
        variants: &["twonn", "twonn_facco", "twonn_razzhigaev", "twonn_razzhigaev_std", "mle"],
        counts: "different states",
        ..of_sample(
            "intrinsic_dimension",
            Family::Dimension,
            "Facco et al. 2017; Razzhigaev et al. 2024; Levina & Bickel 2004",
            "from distances to the nearest neighbours; twonn: maximum likelihood of r_2 / r_1 with the largest 10 % censored",
        )
    },
    shape("matrix_entropy", "Skean et al. 2025", "mean over sequences of the von Neumann entropy of centred unit states / ln min(N, d)"),
    shape("curvature", "Hosseini & Fedorenko 2023", "mean over sequences of the mean angle between successive steps, in radians"),
    between_layers(
        "linear_cka_next",
        Needs::Pairs,
        "Kornblith et al. 2019",
        "||Y^T X||_F^2 / (||X^T X||_F ||Y^T Y||_F), centred, Y the states at the next point",
    ),
    between_layers(
        "linearity_next",
        Needs::Pairs,
        "Razzhigaev et al. 2024",
        "tr(C_yx C_xx^+ C_xy) / tr C_yy: the share of the next point's variance that a linear map explains",
    ),
    between_layers(
        "massive_activations",
        Needs::Corpus,
        "Sun et al. 2024",
        "number of states whose norm exceeds --massive times the median norm at that point",
    ),
    Measure {
        variants: CLUSTERS,
        ..of_sample("calinski_harabasz", Family::Cluster, "Calinski & Harabasz 1974", "(V_B / (K - 1)) / (V_W / (n - K)) over the clusters")
    },
    Measure {
        variants: CLUSTERS,
        ..of_sample(
            "silhouette",
            Family::Cluster,
            "Rousseeuw 1987",
            "mean of (b - a) / max(a, b), a and b the mean distances within and to the next cluster",
        )
    },
    Measure {
        variants: CLUSTERS,
        ..of_sample(
            "adjusted_mutual_information",
            Family::Cluster,
            "Vinh et al. 2010",
            "(MI - E MI) / (mean entropy - E MI) of cluster and token identity",
        )
    },
];

const CLUSTERS: &[&str] = &["k=K"];
