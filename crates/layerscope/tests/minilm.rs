//! Against the reference library, end to end: all-MiniLM-L6-v2 on 400 sentences.

mod support;

use std::path::{Path, PathBuf};

use layerscope_report::export::parquet;
use layerscope_report::{Cell, Run, Table};
use support::{empty_folder, layerscope};

/// The folder of the model, which `make test` fetches.
fn minilm() -> Option<String> {
    let folder = std::env::var("LAYERSCOPE_MINILM").ok();
    if folder.is_none() {
        eprintln!("skipped: LAYERSCOPE_MINILM does not name the folder of all-MiniLM-L6-v2; `make test` sets it");
    }
    folder
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/minilm").join(name)
}

#[test]
fn every_q_m_and_v_equals_the_reference_librarys() {
    let Some(model) = minilm() else { return };
    let out = empty_folder("minilm-golden").join("run");
    let corpus = data("sentences.txt");
    let outcome = layerscope(&[
        "measure",
        "--model",
        &model,
        "--corpus",
        corpus.to_str().expect("UTF-8"),
        "--out",
        out.to_str().expect("UTF-8"),
        "--quiet",
    ]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);

    let golden = parquet::read(&data("golden.parquet")).expect("the golden values");
    let groups = Run::open(&out).expect("a run").groups.expect("groups");
    assert_eq!(groups.rows(), golden.rows());
    let cell = |table: &Table, name: &str, row: usize| match table.column(name).map(|column| column.cell(row)) {
        Some(Cell::Real(number)) => number,
        Some(Cell::Integer(number)) => number as f64,
        other => panic!("{name}: {other:?}"),
    };
    let mut worst = 0.0_f64;
    for row in 0..groups.rows() {
        for name in ["layer", "group_id", "n"] {
            assert_eq!(cell(&groups, name, row), cell(&golden, name, row), "{name} of row {row}");
        }
        for measure in ["q", "m", "v"] {
            let deviation = (cell(&groups, measure, row) - cell(&golden, measure, row)).abs() / cell(&golden, "q", row);
            let (layer, token) = (cell(&groups, "layer", row), cell(&groups, "group_id", row));
            assert!(deviation <= 1e-5, "layer {layer}, token {token}: {measure} is off by {deviation:.1e} of q");
            worst = worst.max(deviation);
        }
    }
    println!("largest deviation {worst:.1e} of q");
}
