//! `layerscope weights`: embedding matrices and norms against their definitions over the stored tensors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::naive::{self, Spectrum};
use super::states::minilm;
use super::table::{Tensors, integer, layers, parquet, real, scale, text};
use crate::support::{empty_folder, layerscope, root};

/// Runs the program into an empty folder.
fn weights(model: &Path, name: &str) -> PathBuf {
    let out = empty_folder(name).join("weights");
    let words = ["weights", "--model", model.to_str().expect("UTF-8"), "--out", out.to_str().expect("UTF-8"), "--table", "long"];
    let outcome = layerscope(&words);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    for said in ["input_embedding", "log_partition", "mean_cosine", "effective_rank", "gamma_mean", "beta_norm"] {
        assert!(outcome.stdout.contains(said), "{said} is not printed:\n{}", outcome.stdout);
    }
    out
}

/// Every row about a matrix, and its spectrum.
fn check_matrix(out: &Path, point: &str, file: &Tensors, tensor: &str) {
    let (values, dim) = (file.floats(tensor), file.width(tensor));
    let states: Vec<&[f64]> = values.chunks(dim).collect();
    let n = states.len();
    let centred = naive::centred(&states);
    let centred = naive::refs(&centred);
    let part = |rows: &naive::States| {
        let products = naive::products(rows, rows);
        let logs = naive::log_partitions(rows, &products);
        (products, logs)
    };
    let ((products, logs), (scatter, centred_logs)) = std::thread::scope(|scope| {
        let other = scope.spawn(|| part(&centred));
        (part(&states), other.join().expect("no panic"))
    });
    let covariance: Vec<f64> = scatter.iter().map(|x| x / (n as f64 - 1.0)).collect();
    let spectrum = Spectrum::of_covariance(&covariance, n, dim);
    let uncentred = Spectrum::of_second_moment(&products, n, dim);

    let mut rows: BTreeMap<(String, Option<String>), Option<f64>> = BTreeMap::new();
    for ((layer, of, selection, measure, variant), row) in layers(out).into_iter().filter(|(name, _)| name.1 == point) {
        assert_eq!((layer, of.as_str(), selection.as_str(), row.n, row.se), (None, point, "all", n as i64, None));
        rows.insert((measure, variant), row.value);
    }
    let mut take = |measure: &str, variant: &str| -> f64 {
        let found = rows.remove(&(measure.to_owned(), (!variant.is_empty()).then(|| variant.to_owned())));
        found.unwrap_or_else(|| panic!("no {measure} {variant} of {point}")).unwrap_or_else(|| panic!("{measure} {variant} is undefined"))
    };
    let mut worst: Vec<(String, f64)> = Vec::new();
    let mut close = |measure: &str, variant: &str, found: f64, expected: f64| {
        let deviation = (found - expected).abs() / scale(measure, expected);
        assert!(deviation <= 1e-8, "{point} {measure} {variant}: {found} instead of {expected}");
        worst.push((format!("{measure} {variant}"), deviation));
    };
    for (measure, variant, expected) in [
        ("mean_cosine", "", naive::mean_cosine(&states)),
        ("anisotropy_svd", "corpus", spectrum.anisotropy()),
        ("isoscore", "", spectrum.isoscore()),
        ("participation_ratio", "", spectrum.participation_ratio()),
        ("effective_rank", "", spectrum.effective_rank()),
        ("rankme", "", uncentred.rankme()),
        ("stable_rank", "", 1.0 / spectrum.anisotropy()),
        ("alpha_req", "", spectrum.alpha_req().expect("ranks")),
        ("top_variance_1", "", naive::top_variance(&covariance, dim, 1)),
        ("top_variance_3", "", naive::top_variance(&covariance, dim, 3)),
        ("top_variance_10", "", naive::top_variance(&covariance, dim, 10)),
        ("log_partition", "default", naive::log_partition(&logs)),
        ("log_partition", "default_centred", naive::log_partition(&centred_logs)),
    ] {
        close(measure, variant, take(measure, variant), expected);
    }
    for (variant, logs) in [("machina", &logs), ("machina_centred", &centred_logs)] {
        let found = take("log_partition", variant);
        close("log_partition", variant, found, naive::nearest_log_partition(logs, found));
        close("partition", variant, take("partition", variant), found.exp());
    }
    for (variant, logs) in [("default", &logs), ("default_centred", &centred_logs)] {
        close("partition", variant, take("partition", variant), naive::log_partition(logs).exp());
    }
    assert!(rows.is_empty(), "rows without a definition: {:?}", rows.keys());
    let (measure, deviation) = worst.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("values");
    println!("{tensor}: largest deviation {deviation:.1e} ({measure})");

    let table = parquet(out, "spectra");
    let own = (0..table.rows()).filter(|&row| text(&table, "point", row).as_deref() == Some(point));
    let found: Vec<f64> = own.map(|row| real(&table, "eigenvalue", row).expect("an eigenvalue")).collect();
    assert_eq!(found.len(), spectrum.values.len());
    found.iter().zip(&spectrum.values).for_each(|(a, b)| assert!((a - b).abs() <= 1e-12 * spectrum.values[0], "{a} {b}"));
}

/// norms.parquet has five statistics of each of these tensors and no others: (layer, norm, its tensors' name before .weight and .bias).
fn check_norms(out: &Path, file: &Tensors, norms: &[(i64, &str, String)]) {
    let table = parquet(out, "norms");
    let mut found: BTreeMap<(i64, String, String), f64> = (0..table.rows())
        .map(|row| {
            let name = |column| text(&table, column, row).expect("a name");
            (
                (integer(&table, "layer", row).expect("a layer"), name("norm"), name("statistic")),
                real(&table, "value", row).expect("a value"),
            )
        })
        .collect();
    for (layer, norm, tensor) in norms {
        for (part, suffix) in [("gamma", "weight"), ("beta", "bias")] {
            let values = file.floats(&format!("{tensor}.{suffix}"));
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let (mut square, mut low, mut high, mut length) = (0.0, f64::INFINITY, f64::NEG_INFINITY, 0.0);
            for x in &values {
                square += (x - mean).powi(2);
                length += x * x;
                (low, high) = (low.min(*x), high.max(*x));
            }
            for (statistic, expected) in
                [("mean", mean), ("std", (square / n).sqrt()), ("min", low), ("max", high), ("norm", length.sqrt())]
            {
                let name = (*layer, (*norm).to_owned(), format!("{part}_{statistic}"));
                let value = found.remove(&name).unwrap_or_else(|| panic!("{name:?} is missing"));
                assert!((value - expected).abs() <= 1e-14 * length.sqrt(), "{name:?}: {value} instead of {expected}");
            }
        }
    }
    assert!(found.is_empty(), "norms that are not there: {:?}", found.keys());
}

#[test]
fn minilms_input_embedding_and_norms() {
    let Some(model) = minilm() else { return };
    let (model, file) = (Path::new(&model), Tensors::open(&Path::new(&model).join("model.safetensors")));
    let out = weights(model, "lenses-weights-minilm");
    check_matrix(&out, "input_embedding", &file, "embeddings.word_embeddings.weight");
    assert!(layers(&out).keys().all(|name| name.1 == "input_embedding"), "an encoder without a head has no output embedding");
    let mut norms = vec![(0, "embedding", "embeddings.LayerNorm".to_owned())];
    for block in 0..6 {
        norms.push((block + 1, "after_attention", format!("encoder.layer.{block}.attention.output.LayerNorm")));
        norms.push((block + 1, "after_feed_forward", format!("encoder.layer.{block}.output.LayerNorm")));
    }
    check_norms(&out, &file, &norms);
}

#[test]
fn an_output_embedding_of_its_own() {
    let model = root().join("fixtures/gpt_neox/pythia");
    let (out, file) = (weights(&model, "lenses-weights-untied"), Tensors::open(&model.join("model.safetensors")));
    check_matrix(&out, "input_embedding", &file, "gpt_neox.embed_in.weight");
    check_matrix(&out, "output_embedding", &file, "embed_out.weight");
    let mut norms = vec![(2, "final", "gpt_neox.final_layer_norm".to_owned())];
    for block in 0..2 {
        norms.push((block + 1, "attention_in", format!("gpt_neox.layers.{block}.input_layernorm")));
        norms.push((block + 1, "feed_forward_in", format!("gpt_neox.layers.{block}.post_attention_layernorm")));
    }
    check_norms(&out, &file, &norms);
}

#[test]
fn an_output_embedding_that_is_the_input_embedding() {
    let model = root().join("fixtures/gpt2/published");
    let (out, file) = (weights(&model, "lenses-weights-tied"), Tensors::open(&model.join("model.safetensors")));
    check_matrix(&out, "input_embedding", &file, "wte.weight");
    check_matrix(&out, "output_embedding", &file, "wte.weight");
    let mut norms = vec![(2, "final", "ln_f".to_owned())];
    for block in 0..2 {
        norms.push((block + 1, "attention_in", format!("h.{block}.ln_1")));
        norms.push((block + 1, "feed_forward_in", format!("h.{block}.ln_2")));
    }
    check_norms(&out, &file, &norms);
}
