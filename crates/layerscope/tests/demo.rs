//! What a lone executable shows, and that it is computed.

mod support;

use std::path::Path;
use std::process::Command;

use layerscope::internals::{Verdict, findings};
use layerscope_report::{Cell, Column, Run, Table};
use support::{layerscope, layerscope_with, root};

fn assets() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets")
}

fn gunzip(path: &Path) -> String {
    let output = Command::new("gzip").arg("-dc").arg(path).output().expect("gzip");
    assert!(output.status.success(), "{}", path.display());
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_embedded_files_are_the_pocket_models() {
    for model in ["pocket-bert", "pocket-gpt"] {
        for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
            let embedded = assets().join(model).join(format!("{file}.gz"));
            assert!(embedded.symlink_metadata().expect("there").is_file(), "a package needs files, not links: {}", embedded.display());
            let original = std::fs::read(root().join("pocket").join(model).join(file)).expect("readable");
            let unpacked = layerscope::internals::embedded::unpack(model).expect("a folder").expect("embedded");
            assert!(std::fs::read(unpacked.join(file)).expect("readable") == original, "{model}/{file}");
        }
    }
    let whole = gunzip(&root().join("pocket/corpus/sample.txt.gz"));
    let slice: Vec<&str> = whole.lines().step_by(8).collect();
    assert_eq!(gunzip(&assets().join("novels.txt.gz")).lines().collect::<Vec<_>>(), slice, "every eighth sentence");
}

/// A program alone in an empty folder: no checkout around it.
fn alone(folder: &Path, arguments: &[&str]) -> std::process::Output {
    let program = folder.join("layerscope");
    // Linked, not copied: a copy just written may still be held open by a process that another test starts.
    if !program.exists() && std::fs::hard_link(env!("CARGO_BIN_EXE_layerscope"), &program).is_err() {
        std::fs::copy(env!("CARGO_BIN_EXE_layerscope"), &program).expect("a copy");
    }
    Command::new(&program)
        .args(arguments)
        .current_dir(folder)
        .env("HF_HUB_OFFLINE", "1")
        .env_remove("LAYERSCOPE_HOME")
        .output()
        .expect("it runs")
}

#[test]
fn the_demo_computes_what_it_says() {
    let folder = std::env::temp_dir().join(format!("layerscope-alone-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let output = alone(&folder, &["demo", "--quiet"]);
    let (shown, errors) = (String::from_utf8(output.stdout).expect("UTF-8"), String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "{errors}");
    let open = |name: &str| Run::open(&folder.join("layerscope-demo").join(name)).expect("a run");
    let (encoder, decoder) = (open("pocket-bert"), open("pocket-gpt"));
    assert_eq!(encoder.manifest.corpus.documents, Some(2500));

    // Every statement's numbers are in the tables, and the verdicts follow from them.
    let value = |run: &Run, layer: i64, point: &str, selection: &str, measure: &str, variant: Option<&str>| -> f64 {
        let cell = |name: &str, row: usize| run.layers.column(name).expect("a column").cell(row);
        let wanted = |row: &usize| {
            cell("layer", *row) == Cell::Integer(layer)
                && cell("point", *row) == Cell::Text(point)
                && cell("selection", *row) == Cell::Text(selection)
                && cell("measure", *row) == Cell::Text(measure)
                && cell("variant", *row) == variant.map_or(Cell::Null, Cell::Text)
        };
        match (0..run.layers.rows()).find(wanted).map(|row| cell("value", row)) {
            Some(Cell::Real(value)) => value,
            other => panic!("{measure}: {other:?}"),
        }
    };
    let block = |run: &Run, layer: i64, selection: &str, measure: &str, variant: Option<&str>| {
        value(run, layer, if layer == 0 { "embedding" } else { "block" }, selection, measure, variant)
    };
    let (slope, fit) = (block(&encoder, 3, "selected", "slope_v_on_m", None), block(&encoder, 3, "selected", "r2_v_on_m", None));
    assert!(shown.contains(&format!("pocket-bert: slope {slope:.2}, R^2 {fit:.3}")), "{shown}");
    let (weak, loose) = (block(&decoder, 3, "selected", "slope_v_on_m", None), block(&decoder, 3, "selected", "r2_v_on_m", None));
    assert!(shown.contains(&format!("pocket-gpt: slope {weak:.2}, R^2 {loose:.2}; pocket-bert: {slope:.2}, {fit:.2}")), "{shown}");
    let (before, after) =
        (block(&decoder, 6, "selected", "slope_v_on_m", None), value(&decoder, 6, "final_norm", "selected", "slope_v_on_m", None));
    assert!(shown.contains(&format!("pocket-gpt: {before:.2} before, {after:.2} after")), "{shown}");
    let lowest = |run: &Run| {
        (0..7).map(|layer| (block(run, layer, "selected", "cv_q", None), layer)).min_by(|a, b| a.0.total_cmp(&b.0)).expect("layers")
    };
    let ((e, at_e), (d, at_d)) = (lowest(&encoder), lowest(&decoder));
    assert!(shown.contains(&format!("pocket-bert: {e:.4} in layer {at_e}; pocket-gpt: {d:.4} in layer {at_d}")), "{shown}");
    let off = (0..7)
        .map(|layer| (block(&encoder, layer, "all", "q", None) / block(&encoder, layer, "all", "predicted_q", None) - 1.0).abs())
        .fold(0.0, f64::max);
    assert!(shown.contains(&format!("off by at most {:.1} %", 100.0 * off)), "{shown}");
    for (selection, measure) in [("all", "m_over_q"), ("all", "v_within_over_v"), ("selected", "self_similarity")] {
        let ends = |run: &Run| (block(run, 0, selection, measure, None), block(run, 6, selection, measure, None));
        let ((a, b), (c, d)) = (ends(&encoder), ends(&decoder));
        assert!(shown.contains(&format!("pocket-bert: {a:.2} to {b:.2}; pocket-gpt: {c:.2} to {d:.2}")), "{measure}: {shown}");
    }
    let unbiased = |measure: &str| block(&encoder, 3, "selected", measure, Some("unbiased"));
    let (m, v) = (unbiased("slope_m_on_log_n"), unbiased("slope_v_on_log_n"));
    assert!(shown.contains(&format!("M {m:+.3}, V {v:+.3}, unbiased")), "{shown}");
    let (peak, at) = (0..7)
        .map(|layer| (block(&decoder, layer, "all", "anisotropy_svd", Some("corpus")), layer))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .expect("layers");
    assert!(shown.contains(&format!("highest ({peak:.3}) in layer {at} of 6")), "{shown}");

    let all = findings(&encoder, &decoder);
    assert!(all.len() == 10 && all.iter().all(|finding| finding.here != "not measured"));
    assert!(all.iter().all(|finding| shown.contains(&format!("{:<12} {}\n", finding.verdict.words(), finding.statement))), "{shown}");
    // Q is far from constant in this encoder, and so is M + V: it does not show the trade-off, and the demo says so.
    assert!((slope + 1.0).abs() > 0.1 && fit < 0.9 && all[0].verdict == Verdict::Differs, "{slope}, {fit}: {}", all[0].here);
    let agreeing = all.iter().filter(|finding| finding.verdict == Verdict::Agrees).count();
    assert!(shown.contains(&format!("{agreeing} of 10 agree, ")), "{shown}");
    // The picture begins with the first layer's value and ends with the last one's.
    let line = shown.lines().find(|line| line.starts_with("slope of V on M")).expect("a line of the picture");
    for (run, layer) in [(&encoder, 0), (&encoder, 6), (&decoder, 0), (&decoder, 6)] {
        assert!(line.contains(&format!("{:.4}", block(run, layer, "selected", "slope_v_on_m", None))), "{line}");
    }
    println!("{shown}");

    // Figures, the page and the findings are there, and where the text says.
    let demo = folder.join("layerscope-demo");
    let read = |path: &Path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let files: Vec<_> = std::fs::read_dir(demo.join("figures")).expect("figures").map(|entry| entry.expect("a file").path()).collect();
    assert!(files.iter().all(|file| !read(file).is_empty()), "{files:?}");
    // Everything but what needs words, steps, embedding matrices or massive states.
    let absent = ["fig22", "shape2", "shape3", "machina1", "machina4", "sinks"];
    for id in layerscope_report::figure::LIST.iter().map(|figure| figure.id).filter(|id| !absent.contains(id)) {
        let extensions: &[&str] = match id {
            "table1" | "table2" | "table3" => &["md", "csv", "tex"],
            "fig3" => &["svg", "pdf", "png"],
            _ => &["svg", "pdf", "png", "csv"],
        };
        for extension in extensions {
            let is = |name: &str| name.split(['-', '.']).next() == Some(id) && name.ends_with(extension);
            assert!(
                files.iter().any(|file| is(file.file_name().expect("a name").to_str().expect("UTF-8"))),
                "{id} as {extension}: {files:?}"
            );
        }
    }
    assert!(shown.contains(&format!(" in {} files", files.len() - 1)), "figures.tex apart, {}: {shown}", files.len());
    let page = String::from_utf8(read(&demo.join("report.html"))).expect("UTF-8");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>") && page.contains("pocket-bert"));
    assert!(page.contains("id=\"findings\""), "it opens on the findings");
    let saved = String::from_utf8(read(&demo.join("findings.md"))).expect("UTF-8");
    assert!(all.iter().all(|finding| saved.contains(&finding.statement.replace('|', "\\|"))), "{saved}");
    for path in ["layerscope-demo/report.html", "layerscope-demo/figures", "layerscope-demo/pocket-bert", "layerscope-demo/findings.md"] {
        assert!(shown.contains(path), "{path}: {shown}");
    }
    std::fs::remove_dir_all(folder).expect("removable");
}

/// A run that says the opposite of the papers where it says anything.
fn made_up(values: &[(&str, &str, [f64; 3])]) -> Run {
    let rows: Vec<(&str, &str, i64, f64)> = values
        .iter()
        .flat_map(|(selection, measure, values)| (0..3).map(move |layer| (*selection, *measure, layer as i64, values[layer])))
        .collect();
    let text = |of: &dyn Fn(usize) -> String| Column::text((0..rows.len()).map(|row| Some(of(row))));
    let layers = Table::new([
        ("layer", Column::Integer(rows.iter().map(|row| Some(row.2)).collect())),
        ("point", text(&|row| if rows[row].2 == 0 { "embedding" } else { "block" }.to_owned())),
        ("selection", text(&|row| rows[row].0.to_owned())),
        ("measure", text(&|row| rows[row].1.to_owned())),
        ("variant", Column::Text(vec![None; rows.len()])),
        ("value", Column::Real(rows.iter().map(|row| Some(row.3)).collect())),
    ])
    .expect("a table");
    let none = || None;
    Run {
        folder: Default::default(),
        manifest: Default::default(),
        layers,
        groups: none(),
        components: none(),
        spectra: none(),
        tokens: none(),
        norms: none(),
    }
}

#[test]
fn a_model_that_differs_is_said_to_differ() {
    let flat = made_up(&[
        ("selected", "slope_v_on_m", [-0.5, -0.3, -0.1]),
        ("selected", "r2_v_on_m", [0.9, 0.2, 0.1]),
        ("selected", "cv_q", [0.1, 0.2, 0.3]),
        ("all", "m_over_q", [0.9, 0.5, 0.1]),
    ]);
    let steep = made_up(&[("selected", "slope_v_on_m", [-0.5, -0.9, -0.1]), ("selected", "r2_v_on_m", [0.9, 0.8, 0.1])]);
    let verdict = |pre: &Run, start: &str| {
        let all = findings(&flat, pre);
        all.iter().find(|finding| finding.statement.starts_with(start)).expect("asked").verdict
    };
    assert_eq!(verdict(&flat, "in the middle layers"), Verdict::Differs);
    assert_eq!(verdict(&steep, "without a norm"), Verdict::Differs);
    assert_eq!(verdict(&flat, "without a norm"), Verdict::CannotTell, "both are the same");
    assert_eq!(verdict(&flat, "Q varies least"), Verdict::Differs);
    assert_eq!(verdict(&flat, "states move away"), Verdict::Differs);
    assert_eq!(verdict(&flat, "a norm brings it back"), Verdict::CannotTell, "it has no final norm");
    assert_eq!(verdict(&flat, "upper layers"), Verdict::CannotTell, "it was not measured");
}

#[test]
fn what_standard_errors_hide_cannot_be_told() {
    let falls = [("selected", "self_similarity", [0.5, 0.4, 0.3])];
    let verdict = |error: f64| {
        let mut run = made_up(&falls);
        let columns = ["layer", "point", "selection", "measure", "variant", "value"];
        let known = columns.map(|name| (name, run.layers.column(name).expect("a column").clone()));
        run.layers = Table::new(known.into_iter().chain([("se", Column::Real(vec![Some(error); 3]))])).expect("a table");
        let all = findings(&run, &run);
        all.iter().find(|finding| finding.statement.starts_with("upper layers")).expect("asked").verdict
    };
    assert_eq!(verdict(0.05), Verdict::Agrees, "0.2 is more than 2 x 0.05 x sqrt(2)");
    assert_eq!(verdict(0.08), Verdict::CannotTell);
}

#[test]
fn pocket_models_are_found_by_name() {
    let shown = layerscope(&["inspect", "--model", "pocket-llama", "--no-probe"]);
    assert_eq!(shown.status, 0, "{}", shown.stderr);
    for home in [root().join("pocket"), root()] {
        let shown =
            layerscope_with(&["inspect", "--model", "pocket-pythia", "--no-probe"], &[("LAYERSCOPE_HOME", home.to_str().expect("UTF-8"))]);
        assert_eq!(shown.status, 0, "{}", shown.stderr);
    }
    let folder = std::env::temp_dir().join(format!("layerscope-named-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let embedded = alone(&folder, &["inspect", "--model", "pocket-gpt", "--no-probe"]);
    assert!(embedded.status.success(), "{}", String::from_utf8_lossy(&embedded.stderr));
    let absent = alone(&folder, &["inspect", "--model", "pocket-pythia", "--no-probe"]);
    assert_eq!(absent.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&absent.stderr).contains("LAYERSCOPE_HOME"));
    std::fs::remove_dir_all(folder).expect("removable");
}
