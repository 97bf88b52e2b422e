//! From sketches to values: pure functions, and the tables they fill.
//!
//! A measure is one file with a [`Computation`] and one row of [`MEASURES`], which says what it needs: the sketches that are kept, the
//! tables and the list of measures follow from that table.

mod batch_spectra;
mod batches;
mod cluster;
mod confidence;
mod cosine;
mod dimension;
mod evaluation;
mod explainable;
mod family;
mod fit;
mod identity;
mod information;
mod kept_sample;
mod layer_rows;
mod layers;
mod massive;
mod matrix;
mod neighbours;
mod norm;
mod partition;
mod point_tables;
mod row;
mod seconds;
mod selection;
mod sequence;
mod spectrum;
mod tokens;
mod variance;

pub use cluster::{Clusters, Points, silhouettes};
pub use confidence::BlockErrors;
pub use cosine::{cosine_contributions, mean_cosine, self_similarity};
pub use dimension::{Dimensions, NEIGHBOURS, levina_bickel, through_origin, twonn};
pub use evaluation::{PointInputs, Settings};
pub use explainable::max_explainable_variance;
pub use family::Family;
pub use fit::{Fit, Line, fit_line, fit_with_errors, jackknife, variation, variation_error};
pub use identity::{Identity, identities};
pub use information::adjusted_mutual_information;
pub use layer_rows::{Estimate, LayerRow};
pub use layers::{linear_cka, linearity};
pub use matrix::{MatrixTables, matrix_tables};
pub use norm::{cv_q, cv_q_exponent, cv_q_ladder, predicted_q};
pub use partition::{LogPartition, log_partition};
pub use point_tables::{PointTables, StatesTables};
pub use row::{Computation, Measure, needs};
pub use seconds::Seconds;
pub use selection::{ComponentRow, GroupRow, Selection, Summary, Totals};
pub use spectrum::{Spectrum, isoscore_star, top_variance};
pub use tokens::{TokenComponentRow, TokenRow, token_rows};
pub use variance::{VarianceComponents, unbiased};

use crate::sketch::SketchKind::{self, Corpus, Covariance, Groups, Pairs, Peaks, Sample, Shapes, Similarity, Tokens, Units, Weights};

/// All measures, in the order of the tables.
pub const MEASURES: &[Measure] = &[
    norm("q", &[Corpus], "states", "Q(X) = mean of ||x||^2"),
    both_ways("m", &[Corpus], "states", "M(X) = ||mean of x||^2; unbiased: Q - V_W - V_B, both unbiased"),
    both_ways("v", &[Corpus], "states", "V(X) = mean of ||x - mu(X)||^2; unbiased: V_W + V_B, both unbiased"),
    both_ways("v_within", &[Groups], "states", "V_W(X) = sum_t p_t V(X_t); unbiased: MSW = n V_W / (n - G), G the number of groups"),
    both_ways(
        "v_between",
        &[Groups],
        "states",
        "V_B(X) = sum_t p_t ||mu(X_t) - mu(X)||^2; unbiased: (n V_B / (G - 1) - MSW) / n0, n0 = (n - sum_t n_t^2 / n) / (G - 1)",
    ),
    both_ways("m_over_q", &[Corpus], "states", "M(X) / Q(X)"),
    both_ways("v_over_q", &[Corpus], "states", "V(X) / Q(X)"),
    both_ways("v_within_over_q", &[Groups, Corpus], "states", "V_W(X) / Q(X)"),
    both_ways("v_between_over_q", &[Groups, Corpus], "states", "V_B(X) / Q(X)"),
    Measure {
        variants: &["unbiased", "k=K"],
        ..norm("v_within_over_v", &[Groups, Corpus], "states", "V_W(X) / V(X); k=K over clusters of the sample")
    },
    both_ways("v_between_over_v", &[Groups, Corpus], "states", "V_B(X) / V(X)"),
    norm("mean_norm", &[Corpus], "states", "mean of ||x||"),
    Measure {
        variants: &["n0=1", "n0=3", "n0=10", "n0=30", "..."],
        ..norm(
            "cv_q",
            &[Groups],
            "groups",
            "population standard deviation / mean of Q(X_t) over groups, unweighted; n0=K over the groups with n_t >= K",
        )
    },
    norm(
        "cv_q_exponent",
        &[Groups],
        "values of n0",
        "slope of log10 cv_q(n0) on log10 n0, n0 = 1, 3, 10, ... with at least 10 groups; theory: -1/2",
    ),
    both_ways(
        "slope_v_on_m",
        &[Groups],
        "groups",
        "slope of the least-squares line of V(X_t) on M(X_t), unweighted; unbiased: of V n/(n-1) on M - V/(n-1) over the groups with n_t >= 2",
    ),
    both_ways("intercept_v_on_m", &[Groups], "groups", "intercept of the least-squares line of V(X_t) on M(X_t)"),
    both_ways("r2_v_on_m", &[Groups], "groups", "R^2 of the least-squares line of V(X_t) on M(X_t); null if V is constant"),
    norm("slope_q_on_log_n", &[Groups], "groups", "slope of the least-squares line of Q(X_t) on log10 n_t"),
    norm("r2_q_on_log_n", &[Groups], "groups", "R^2 of the least-squares line of Q(X_t) on log10 n_t"),
    both_ways("slope_m_on_log_n", &[Groups], "groups", "slope of the least-squares line of M(X_t) on log10 n_t"),
    both_ways("r2_m_on_log_n", &[Groups], "groups", "R^2 of the least-squares line of M(X_t) on log10 n_t"),
    both_ways("slope_v_on_log_n", &[Groups], "groups", "slope of the least-squares line of V(X_t) on log10 n_t"),
    both_ways("r2_v_on_log_n", &[Groups], "groups", "R^2 of the least-squares line of V(X_t) on log10 n_t"),
    norm("slope_log_q_on_log_n", &[Groups], "groups", "slope of the least-squares line of log10(1 + Q(X_t)) on log10 n_t"),
    norm("r2_log_q_on_log_n", &[Groups], "groups", "R^2 of the least-squares line of log10(1 + Q(X_t)) on log10 n_t"),
    norm("slope_log_m_on_log_n", &[Groups], "groups", "slope of the least-squares line of log10(1 + M(X_t)) on log10 n_t"),
    norm("r2_log_m_on_log_n", &[Groups], "groups", "R^2 of the least-squares line of log10(1 + M(X_t)) on log10 n_t"),
    norm("slope_log_v_on_log_n", &[Groups], "groups", "slope of the least-squares line of log10(1 + V(X_t)) on log10 n_t"),
    norm("r2_log_v_on_log_n", &[Groups], "groups", "R^2 of the least-squares line of log10(1 + V(X_t)) on log10 n_t"),
    norm("predicted_q", &[Weights], "components", "||gamma||^2 + ||beta||^2 of the norm whose output this is (RMSNorm: ||gamma||^2)"),
    norm("groups", &[Groups], "groups", "number of groups"),
    norm("states", &[Corpus], "states", "number of states"),
    cosine(
        "mean_cosine",
        &[Corpus, Units],
        "non-zero states",
        "mean cosine over all pairs: (||s||^2 - n) / (n (n - 1)), s the sum of unit vectors",
    ),
    cosine("self_similarity", &[Groups, Units], "groups", "mean over groups with n_t >= 5 of the mean cosine over all pairs of the group"),
    cosine("self_similarity_adjusted", &[Groups, Corpus, Units], "groups", "self_similarity - mean_cosine"),
    cosine(
        "intra_sentence_similarity",
        &[Similarity, Units],
        "sequences",
        "mean over sequences of the mean cosine between each state and the sequence's mean",
    ),
    cosine("intra_sentence_similarity_adjusted", &[Similarity, Units], "sequences", "intra_sentence_similarity - mean_cosine"),
    of_tokens(
        "max_explainable_variance",
        "mean over the chosen tokens of lambda_1 / sum lambda of the uncentred second moment of their kept states",
    ),
    of_tokens(
        "max_explainable_variance_adjusted",
        "max_explainable_variance - lambda_1 / sum lambda of the uncentred second moment of X (null without a covariance)",
    ),
    Measure {
        needs: &[Covariance, Sample],
        variants: &["corpus", "batch4096", "batch4096_std"],
        ..spectrum(
            "anisotropy_svd",
            "Razzhigaev et al. 2024",
            "lambda_1 / sum lambda of the covariance; batch4096: mean and standard deviation over batches of the sample",
        )
    },
    spectrum("isoscore", "Rudman et al. 2022", "(PR - 1) / (d - 1), PR the participation ratio"),
    Measure {
        needs: &[Covariance, Sample],
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
    partition("partition", "I(W) = min_v Z(v) / max_v Z(v), Z(v) = sum_w exp(w.v), v the eigenvectors of W^T W"),
    partition("log_partition", "ln I(W) = min_v ln Z(v) - max_v ln Z(v)"),
    Measure {
        variants: &["twonn", "twonn_facco", "twonn_razzhigaev", "twonn_razzhigaev_std", "mle"],
        counts: "different states",
        ..dimension(
            "intrinsic_dimension",
            "Facco et al. 2017; Razzhigaev et al. 2024; Levina & Bickel 2004",
            "from distances to the nearest neighbours; twonn: maximum likelihood of r_2 / r_1 with the largest 10 % censored",
        )
    },
    shape("matrix_entropy", "Skean et al. 2025", "mean over sequences of the von Neumann entropy of centred unit states / ln min(N, d)"),
    shape("curvature", "Hosseini & Fedorenko 2023", "mean over sequences of the mean angle between successive steps, in radians"),
    between_layers(
        "linear_cka_next",
        "Kornblith et al. 2019",
        "||Y^T X||_F^2 / (||X^T X||_F ||Y^T Y||_F), centred, Y the states at the next point",
    ),
    between_layers(
        "linearity_next",
        "Razzhigaev et al. 2024",
        "tr(C_yx C_xx^+ C_xy) / tr C_yy: the share of the next point's variance that a linear map explains",
    ),
    Measure {
        needs: &[Corpus],
        compute: &massive::COMPUTATION,
        ..between_layers(
            "massive_activations",
            "Layerscope; after Sun et al. 2024",
            "number of states whose norm exceeds --massive times the median norm at that point",
        )
    },
    Measure {
        needs: &[Corpus],
        compute: &massive::COMPUTATION,
        ..between_layers("massive_share_of_q", "Layerscope", "share of the sum of ||x||^2 that the states of massive_activations carry")
    },
    Measure {
        needs: &[Peaks],
        compute: &layers::PEAKS,
        ..between_layers(
            "massive_components",
            "Sun et al. 2024",
            "number of components a with |a| > 100 and |a| > 1000 times the median |a| of their state",
        )
    },
    cluster("calinski_harabasz", "Calinski & Harabasz 1974", "(V_B / (K - 1)) / (V_W / (n - K)) over the clusters"),
    cluster("silhouette", "Rousseeuw 1987", "mean of (b - a) / max(a, b), a and b the mean distances within and to the next cluster"),
    cluster("adjusted_mutual_information", "Vinh et al. 2010", "(MI - E MI) / (mean entropy - E MI) of cluster and token identity"),
];

const YAMAGIWA: &str = "Yamagiwa & Shimodaira 2025";
const ETHAYARAJH: &str = "Ethayarajh 2019";
const MU: &str = "Mu & Viswanath 2018; Machina & Mercer 2024";
const PARTITIONS: &[&str] = &["default", "machina", "default_centred", "machina_centred"];
const CLUSTERS: &[&str] = &["k=K"];

const fn norm(name: &'static str, needs: &'static [SketchKind], counts: &'static str, formula: &'static str) -> Measure {
    Measure { name, family: Family::Norm, formula, source: YAMAGIWA, needs, variants: &[], counts, compute: &norm::COMPUTATION }
}

/// One that also comes without plug-in bias.
const fn both_ways(name: &'static str, needs: &'static [SketchKind], counts: &'static str, formula: &'static str) -> Measure {
    Measure { variants: &["unbiased"], ..norm(name, needs, counts, formula) }
}

const fn cosine(name: &'static str, needs: &'static [SketchKind], counts: &'static str, formula: &'static str) -> Measure {
    Measure { name, family: Family::Cosine, formula, source: ETHAYARAJH, needs, variants: &[], counts, compute: &cosine::COMPUTATION }
}

const fn of_tokens(name: &'static str, formula: &'static str) -> Measure {
    Measure { compute: &explainable::COMPUTATION, ..cosine(name, &[Tokens], "tokens", formula) }
}

const fn spectrum(name: &'static str, source: &'static str, formula: &'static str) -> Measure {
    let (family, needs, compute) = (Family::Spectrum, &[Covariance], &spectrum::COMPUTATION);
    Measure { name, family, formula, source, needs, variants: &[], counts: "states", compute }
}

const fn partition(name: &'static str, formula: &'static str) -> Measure {
    let (family, needs, compute) = (Family::Partition, &[Sample], &partition::COMPUTATION);
    Measure { name, family, formula, source: MU, needs, variants: PARTITIONS, counts: "states", compute }
}

const fn dimension(name: &'static str, source: &'static str, formula: &'static str) -> Measure {
    let (family, needs, compute) = (Family::Dimension, &[Sample], &dimension::COMPUTATION);
    Measure { name, family, formula, source, needs, variants: &[], counts: "states", compute }
}

const fn shape(name: &'static str, source: &'static str, formula: &'static str) -> Measure {
    let (family, needs, compute) = (Family::Sequence, &[Shapes], &sequence::COMPUTATION);
    Measure { name, family, formula, source, needs, variants: &[], counts: "sequences", compute }
}

const fn between_layers(name: &'static str, source: &'static str, formula: &'static str) -> Measure {
    let (family, needs, compute) = (Family::Layers, &[Pairs, Covariance], &layers::COMPUTATION);
    Measure { name, family, formula, source, needs, variants: &[], counts: "states", compute }
}

const fn cluster(name: &'static str, source: &'static str, formula: &'static str) -> Measure {
    let (family, needs, compute) = (Family::Cluster, &[Sample], &cluster::COMPUTATION);
    Measure { name, family, formula, source, needs, variants: CLUSTERS, counts: "states", compute }
}
