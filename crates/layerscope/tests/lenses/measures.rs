//! `layerscope measures` tells every measure, and every name that scripts depend on is one.

use layerscope_stats::measure::MEASURES;

use crate::support::layerscope;

/// The names of values in layers.parquet, by family: a contract with whoever reads it.
const NAMES: [(&str, &[&str]); 8] = [
    (
        "norm",
        &[
            "q",
            "m",
            "v",
            "v_within",
            "v_between",
            "m_over_q",
            "v_over_q",
            "v_within_over_q",
            "v_between_over_q",
            "v_within_over_v",
            "v_between_over_v",
            "mean_norm",
            "cv_q",
            "cv_q_exponent",
            "slope_v_on_m",
            "intercept_v_on_m",
            "r2_v_on_m",
            "slope_q_on_log_n",
            "slope_m_on_log_n",
            "slope_v_on_log_n",
            "r2_q_on_log_n",
            "r2_m_on_log_n",
            "r2_v_on_log_n",
            "slope_log_q_on_log_n",
            "slope_log_m_on_log_n",
            "slope_log_v_on_log_n",
            "r2_log_q_on_log_n",
            "r2_log_m_on_log_n",
            "r2_log_v_on_log_n",
            "predicted_q",
            "groups",
            "states",
        ],
    ),
    (
        "cosine",
        &[
            "mean_cosine",
            "self_similarity",
            "self_similarity_adjusted",
            "intra_sentence_similarity",
            "intra_sentence_similarity_adjusted",
            "max_explainable_variance",
            "max_explainable_variance_adjusted",
        ],
    ),
    (
        "spectrum",
        &[
            "anisotropy_svd",
            "isoscore",
            "isoscore_star",
            "participation_ratio",
            "effective_rank",
            "rankme",
            "stable_rank",
            "alpha_req",
            "top_variance_1",
            "top_variance_3",
            "top_variance_10",
        ],
    ),
    ("partition", &["partition", "log_partition"]),
    ("dimension", &["intrinsic_dimension"]),
    ("sequence", &["matrix_entropy", "curvature"]),
    ("layers", &["linear_cka_next", "linearity_next", "massive_activations", "massive_share_of_q", "massive_components"]),
    ("cluster", &["calinski_harabasz", "silhouette", "adjusted_mutual_information"]),
];

const VARIANTS: [(&str, &[&str]); 10] = [
    ("cv_q", &["n0=1", "n0=3"]),
    ("anisotropy_svd", &["corpus", "batch4096", "batch4096_std"]),
    ("partition", &["default", "machina", "default_centred", "machina_centred"]),
    ("log_partition", &["default", "machina", "default_centred", "machina_centred"]),
    ("intrinsic_dimension", &["twonn", "twonn_facco", "twonn_razzhigaev", "twonn_razzhigaev_std", "mle"]),
    ("v_within_over_v", &["unbiased", "k=K"]),
    ("m", &["unbiased"]),
    ("slope_m_on_log_n", &["unbiased"]),
    ("silhouette", &["k=K"]),
    ("adjusted_mutual_information", &["k=K"]),
];

#[test]
fn every_name_is_a_measure_that_is_printed() {
    let outcome = layerscope(&["measures", "--format", "json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let printed: Vec<serde_json::Value> = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(printed.len(), MEASURES.len());
    for (row, measure) in printed.iter().zip(MEASURES) {
        let said = |column: &str| row[column].as_str().unwrap_or_else(|| panic!("{} has no {column}", measure.name));
        assert_eq!((said("measure"), said("family"), said("formula")), (measure.name, measure.family.name(), measure.formula));
        assert_eq!((said("n counts"), said("source"), said("needs")), (measure.counts, measure.source, measure.needs_in_words().as_str()));
        assert_eq!(said("variants"), measure.variants.join(", "));
        for text in [said("formula"), said("n counts"), said("source"), said("needs")] {
            assert!(!text.is_empty(), "{}", measure.name);
        }
    }
    let expected: Vec<(&str, &str)> = NAMES.iter().flat_map(|(family, names)| names.iter().map(|name| (*family, *name))).collect();
    for (family, name) in &expected {
        assert!(printed.iter().any(|row| row["measure"] == *name && row["family"] == *family), "{name} of {family} is missing");
    }
    for (name, variants) in VARIANTS {
        let row = printed.iter().find(|row| row["measure"] == name).expect("a row");
        let said: Vec<&str> = row["variants"].as_str().expect("variants").split(", ").collect();
        assert!(variants.iter().all(|variant| said.contains(variant)), "{name}: {said:?}");
    }
    // For a reader, too.
    let shown = layerscope(&["measures"]).stdout;
    assert!(MEASURES.iter().all(|measure| shown.contains(&format!("| {} ", measure.name))), "{shown}");
}
