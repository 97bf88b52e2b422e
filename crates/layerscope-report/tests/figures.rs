//! Figures of made-up runs: every number they plot is in the runs' tables, and their files are what they should be.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use layerscope_report::figure::{self, Drawing, LIST, Settings, Theme};
use layerscope_report::{Cell, Run, Table};
use support::files::{Folder, check_pdf, check_png, check_svg};
use support::{DECODER, ENCODER, HOSTILE, Shape, line, run};

fn draw(runs: &[Run], settings: &Settings, out: &Folder) -> Drawing {
    figure::draw(runs, settings, &out.0, &mut |_| {}).unwrap()
}

fn only(figures: &[&str]) -> Settings {
    Settings { only: figures.iter().map(|name| (*name).to_owned()).collect(), ..Settings::default() }
}

fn cell<'a>(table: &'a Table, name: &str, row: usize) -> Cell<'a> {
    table.column(name).unwrap().cell(row)
}

/// Three runs: an encoder, a decoder with a final norm, and one that follows a training.
fn small() -> Vec<Run> {
    let small = Shape { layers: 4, groups: 120, token_states: 4, ..ENCODER };
    vec![run(&small), run(&Shape { layers: 4, groups: 120, token_states: 4, ..DECODER })]
}

fn trained() -> Run {
    run(&Shape { name: "trained", layers: 3, groups: 40, steps: &[0, 8, 512, 4000], ..DECODER })
}

#[test]
fn every_figure_is_drawn_in_every_format() {
    let out = Folder::new("all");
    let mut drawn: BTreeSet<&str> = BTreeSet::new();
    let words = run(&Shape { name: "words", grouping: "word", layers: 4, groups: 60, ..ENCODER });
    for (runs, name) in [(small(), "models"), (vec![words], "words"), (vec![trained()], "training")] {
        let folder = out.0.join(name);
        let mut seen = 0;
        let drawing = figure::draw(&runs, &Settings::default(), &folder, &mut |_| seen += 1).unwrap();
        assert_eq!(seen, drawing.written.len());
        for written in &drawing.written {
            drawn.insert(written.figure);
            assert!(written.files.iter().all(|file| std::fs::metadata(file).unwrap().len() > 20), "{:?}", written.files);
            let endings: Vec<&str> = written.files.iter().map(|file| file.extension().unwrap().to_str().unwrap()).collect();
            let wanted: &[&str] = match written.figure {
                table if table.starts_with("table") => &["md", "csv", "tex"],
                "fig3" => &["svg", "pdf", "png"],
                _ => &["svg", "pdf", "png", "csv"],
            };
            assert_eq!(&endings[..wanted.len()], wanted, "{:?}", written.files);
            for file in &written.files {
                match file.extension().unwrap().to_str().unwrap() {
                    "svg" => check_svg(&std::fs::read_to_string(file).unwrap()),
                    "pdf" => check_pdf(&std::fs::read(file).unwrap()),
                    "png" => check_png(&std::fs::read(file).unwrap()),
                    _ => {}
                }
            }
        }
        assert!(drawing.skipped.iter().all(|skipped| !skipped.reason.is_empty()));
        let accounted: BTreeSet<&str> =
            drawing.written.iter().map(|written| written.figure).chain(drawing.skipped.iter().map(|skipped| skipped.figure)).collect();
        assert_eq!(accounted.len(), LIST.len(), "every figure is drawn or has a reason");
        let tex = std::fs::read_to_string(&drawing.tex).unwrap();
        assert_eq!(tex.matches("\\includegraphics").count() + tex.matches("\\input{").count(), drawing.written.len());
    }
    assert_eq!(drawn.into_iter().collect::<BTreeSet<_>>(), LIST.iter().map(|figure| figure.id).collect::<BTreeSet<_>>());
}

#[test]
fn profiles_plot_exactly_the_tables() {
    let out = Folder::new("profiles");
    let runs = small();
    let figures = [
        "fig4",
        "fig6",
        "fig17",
        "fig18",
        "fig19",
        "fig20",
        "ethayarajh1",
        "ethayarajh2",
        "ethayarajh3",
        "ethayarajh4",
        "isotropy",
        "shape1",
        "fig5",
    ];
    draw(&runs, &only(&figures), &out);
    for name in figures {
        let rows = out.csv(&format!("{name}.csv"));
        let mut layers = 0;
        for row in &rows {
            let run = runs.iter().find(|run| run.model() == row["model"]).unwrap();
            let table = &run.layers;
            let text = |name: &str, at: usize| match cell(table, name, at) {
                Cell::Text(text) => text.to_owned(),
                Cell::Integer(number) => number.to_string(),
                _ => String::new(),
            };
            let same = |at: &usize| {
                ["layer", "point", "selection", "measure"].iter().all(|column| text(column, *at) == row[*column])
                    && row.get("variant").is_none_or(|variant| *variant == text("variant", *at))
            };
            let found: Vec<usize> = (0..table.rows()).filter(same).collect();
            assert_eq!(found.len(), 1, "{name}: {row:?}");
            assert_eq!(cell(table, "value", found[0]), Cell::Real(row["value"].parse().unwrap()), "{name}: {row:?}");
            layers = layers.max(row["layer"].parse::<i64>().unwrap());
        }
        // Both models, every layer, and the decoder's last block beside its final norm.
        assert_eq!(layers, 4);
        let decoder: Vec<&str> =
            rows.iter().filter(|row| row["model"] == DECODER.name && row["layer"] == "4").map(|row| row["point"].as_str()).collect();
        assert!(decoder.contains(&"final_norm") && decoder.contains(&"block"), "{name}: {decoder:?}");
    }
}

/// The groups of a run at a point by the definition of the frequency range.
fn groups(run: &Run, layer: i64, point: &str, range: (i64, i64)) -> Vec<(String, i64, f64, f64, f64)> {
    let table = run.groups.as_ref().unwrap();
    let mut found = Vec::new();
    for row in 0..table.rows() {
        let (Cell::Integer(n), Cell::Text(name)) = (cell(table, "n", row), cell(table, "group", row)) else { unreachable!() };
        let (Cell::Real(q), Cell::Real(m), Cell::Real(v)) = (cell(table, "q", row), cell(table, "m", row), cell(table, "v", row)) else {
            unreachable!()
        };
        if cell(table, "layer", row) == Cell::Integer(layer)
            && cell(table, "point", row) == Cell::Text(point)
            && n >= range.0
            && n <= range.1
        {
            found.push((name.to_owned(), n, q, m, v));
        }
    }
    found
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {row:?}"))
}

#[test]
fn regressions_follow_the_frequency_range() {
    let runs = small();
    for (frequency, range) in [(None, (10, 100_000)), (Some((300, 20_000)), (300, 20_000))] {
        let out = Folder::new(&format!("range-{}", range.0));
        draw(&runs, &Settings { frequency, ..only(&["fig2", "fig4", "fig7", "fig11"]) }, &out);
        for row in out.csv("fig2-fit.csv") {
            let run = runs.iter().find(|run| run.model() == row["model"]).unwrap();
            let groups = groups(run, 2, "block", range);
            let of = |value: fn(&(String, i64, f64, f64, f64)) -> f64| groups.iter().map(value).collect::<Vec<f64>>();
            let (slope, r2) = line(&of(|group| group.3), &of(|group| group.4));
            assert!((number(&row, "slope") - slope).abs() < 1e-10 && (number(&row, "r2") - r2).abs() < 1e-10, "{row:?} {slope} {r2}");
            assert_eq!(row["groups"], groups.len().to_string());
            let plotted = out.csv("fig2.csv").into_iter().filter(|plotted| plotted["model"] == row["model"]).count();
            assert_eq!(plotted, groups.len());
        }
        for row in out.csv("fig4.csv").iter().filter(|row| row["measure"] == "cv_q") {
            let run = runs.iter().find(|run| run.model() == row["model"]).unwrap();
            let q: Vec<f64> = groups(run, row["layer"].parse().unwrap(), &row["point"], range).iter().map(|group| group.2).collect();
            let mean = q.iter().sum::<f64>() / q.len() as f64;
            let deviation = (q.iter().map(|q| (q - mean).powi(2)).sum::<f64>() / q.len() as f64).sqrt();
            assert!((number(row, "value") - deviation / mean).abs() < 1e-12, "{row:?}");
        }
        for row in out.csv(&format!("fig11-{}.csv", "encoder-base")) {
            assert_eq!(number(&row, "log10_n"), number(&row, "n").log10());
            let own = groups(&runs[0], row["layer"].parse().unwrap(), &row["point"], range);
            assert!(
                own.iter().any(|group| group.3 == number(&row, "m")
                    && group.4 == number(&row, "v")
                    && (1.0 + group.2).log10() == number(&row, "log10_1p_q")),
                "{row:?}"
            );
        }
    }
}

#[test]
fn histograms_count_every_group() {
    let out = Folder::new("histograms");
    let runs = small();
    draw(&runs[..1], &only(&["fig9", "fig10", "fig14"]), &out);
    let all = groups(&runs[0], 0, "embedding", (1, i64::MAX));
    let rows = out.csv("fig10.csv");
    assert_eq!((rows.len(), number(&rows[29], "to")), (30, 6.5));
    for row in &rows {
        let (from, to) = (number(row, "from"), number(row, "to"));
        let inside = all.iter().filter(|group| (group.1 as f64).log10() >= from && (group.1 as f64).log10() < to).count();
        assert_eq!(row["count"], inside.to_string());
    }
    let sentences: i64 = runs[0].manifest["sentence_words"].as_array().unwrap().iter().map(|pair| pair[1].as_i64().unwrap()).sum();
    assert_eq!(out.csv("fig9.csv").iter().map(|row| row["count"].parse::<i64>().unwrap()).sum::<i64>(), sentences);
    let rows = out.csv("fig14.csv");
    assert_eq!(rows.len(), 5 * 3 * 50);
    let selected = groups(&runs[0], 2, "block", (10, 100_000));
    let v: Vec<&BTreeMap<String, String>> = rows.iter().filter(|row| row["layer"] == "2" && row["quantity"] == "v").collect();
    let mean = selected.iter().map(|group| group.4).sum::<f64>() / selected.len() as f64;
    assert!((number(v[0], "mean") - mean).abs() < 1e-9);
    let counted: usize = v.iter().map(|row| row["count"].parse::<usize>().unwrap()).sum();
    assert_eq!(counted, (0.99 * (selected.len() - 1) as f64) as usize + 1);
}

#[test]
fn chosen_tokens_are_plotted_and_tabled() {
    let out = Folder::new("tokens");
    let runs = small();
    let table = runs[0].tokens.as_ref().unwrap();
    let drawing = draw(&runs[..1], &only(&["fig1", "fig8", "table2"]), &out);
    assert!(drawing.skipped.is_empty());
    let rows = out.csv("fig1.csv");
    let kept = (0..table.rows()).filter(|row| cell(table, "layer", *row) == Cell::Integer(2)).count();
    assert_eq!(rows.len(), kept);
    for row in rows.iter().take(50) {
        assert!(
            (0..table.rows())
                .any(|at| cell(table, "x", at) == Cell::Real(number(row, "x")) && cell(table, "y", at) == Cell::Real(number(row, "y")))
        );
    }
    assert_eq!(out.csv("fig8.csv").iter().filter(|row| row["labelled"] == "1").count(), 40);
    for row in out.csv("table2.csv") {
        let tenth = |value: f64| (value * 10.0).round() / 10.0;
        assert!((number(&row, "q") - (number(&row, "m") + number(&row, "v"))).abs() < 1e-9);
        let group = groups(&runs[0], 2, "block", (1, i64::MAX))
            .into_iter()
            .find(|group| tenth(group.3) == number(&row, "m") && group.1.to_string() == row["n"]);
        assert_eq!(tenth(group.unwrap_or_else(|| panic!("{row:?}")).4), number(&row, "v"));
    }
    let names: Vec<String> = vec!["winked".into()];
    draw(&runs[..1], &Settings { tokens: names.clone(), ..only(&["fig1"]) }, &out);
    assert!(out.csv("fig1.csv").iter().all(|row| row["group"] == names[0]));
    let none = Settings { tokens: vec!["absent".into()], ..only(&["fig1"]) };
    assert!(draw(&runs[..1], &none, &out).skipped[0].reason.contains("none of the tokens"));
}

#[test]
fn trajectories_average_and_compare() {
    let out = Folder::new("steps");
    let runs = [trained()];
    draw(&runs, &only(&["shape2", "shape3", "machina1", "machina2", "machina3"]), &out);
    let table = &runs[0].layers;
    let values = |measure: &str, variant: Cell, step: i64, keep: &dyn Fn(usize) -> bool| -> Vec<f64> {
        let here = |row: &usize| {
            cell(table, "measure", *row) == Cell::Text(measure)
                && cell(table, "variant", *row) == variant
                && cell(table, "step", *row) == Cell::Integer(step)
                && keep(*row)
        };
        (0..table.rows()).filter(here).map(|row| if let Cell::Real(value) = cell(table, "value", row) { value } else { panic!() }).collect()
    };
    let rows = out.csv("shape2.csv");
    assert_eq!(rows.len(), 4);
    for row in &rows {
        // Layers 0 to 3, the last one after its norm only.
        let last_block = |at: usize| cell(table, "layer", at) == Cell::Integer(3) && cell(table, "point", at) == Cell::Text("block");
        let of_layers = values("intrinsic_dimension", Cell::Text("twonn"), row["step"].parse().unwrap(), &|at| !last_block(at));
        assert_eq!(of_layers.len(), 4);
        assert!((number(row, "mean_intrinsic_dimension") - of_layers.iter().sum::<f64>() / 4.0).abs() < 1e-12);
    }
    for row in out.csv("machina3.csv").iter().filter(|row| row["measure"] == "isoscore") {
        let at = |point: &'static str| {
            values("isoscore", Cell::Null, row["step"].parse().unwrap(), &|at| {
                cell(table, "point", at) == Cell::Text(point) && cell(table, "layer", at) == Cell::Integer(3)
            })[0]
        };
        assert_eq!((number(row, "before"), number(row, "after")), (at("block"), at("final_norm")));
    }
    assert_eq!(out.csv("shape3.csv").len(), 4 * 4);
    for row in out.csv("machina1.csv").iter().filter(|row| row["variant"] == "as it is" && row["place"] == "Output embedding") {
        let found = values("partition", Cell::Text("default"), row["step"].parse().unwrap(), &|at| {
            cell(table, "point", at) == Cell::Text("output_embedding")
        });
        assert_eq!(number(row, "partition"), found[0]);
    }
}

#[test]
fn hostile_names_are_inert_everywhere() {
    let out = Folder::new("hostile");
    let model = "../../etc/<script>%_&$#{}\\\u{202e}😀";
    let mut runs = vec![run(&Shape { layers: 2, groups: 60, token_states: 2, ..ENCODER })];
    runs[0].manifest["model"]["name"] = model.into();
    runs.push(runs[0].clone());
    let settings =
        Settings { title: Some("</text><script>\u{7}".into()), ..only(&["fig1", "fig2", "fig4", "fig8", "fig21", "table1", "table2"]) };
    let drawing = draw(&runs, &settings, &out);
    for file in drawing.written.iter().flat_map(|written| &written.files) {
        assert_eq!(file.parent(), Some(out.0.as_path()));
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(name.chars().all(|character| character.is_ascii_alphanumeric() || "-.".contains(character)), "{name}");
        if name.ends_with(".svg") {
            check_svg(&std::fs::read_to_string(file).unwrap());
        }
        if name.ends_with(".tex") || name.ends_with(".csv") {
            let text = std::fs::read_to_string(file).unwrap();
            assert!(!text.chars().any(|character| layerscope_report::text::is_hidden(character) && character != '\n'), "{name}");
            assert!(!text.contains("\n=1+1") && !text.contains(",=1+1"), "{name}");
        }
    }
    let tex = out.text("figures.tex");
    for unescaped in ["<script>", "_&", "&$", "$#", "😀"] {
        assert!(!tex.contains(unescaped), "{unescaped}");
    }
    // Each hostile name is drawn: as it is where the font has it, else as escapes.
    let figure8 = drawing.written.iter().find(|written| written.figure == "fig8").unwrap();
    let svg = std::fs::read_to_string(&figure8.files[0]).unwrap();
    let shown = ["&lt;script&gt;alert(1)", "%_&amp;$#{}\\", "\\u{1f600}", "\\u{4f60}", "\\u{202e}", "дом"];
    assert!(shown.iter().filter(|name| svg.contains(**name)).count() >= 3, "few of the hostile names are labels");
    assert!(HOSTILE.iter().all(|name| !svg.contains(&format!(">{name}<")) || *name == "дом" || *name == "=1+1"));
}

#[test]
fn what_is_missing_is_said() {
    let out = Folder::new("missing");
    let mut bare = run(&Shape { layers: 1, groups: 5, token_states: 1, ..ENCODER });
    let nothing = Run { groups: None, tokens: None, manifest: serde_json::json!({}), ..bare.clone() };
    let drawing = draw(&[nothing], &Settings::default(), &out);
    let reason = |figure: &str| drawing.skipped.iter().find(|skipped| skipped.figure == figure).map(|skipped| skipped.reason.as_str());
    assert_eq!(reason("fig2"), Some("the run has no groups.parquet"));
    assert!(
        reason("fig1").unwrap().contains("--tokens")
            && reason("fig9").unwrap().contains("manifest")
            && reason("shape2").unwrap().contains("track")
    );
    // No row of any table: nothing but the diagram and the tables of facts.
    let empty =
        Table::new([("measure", layerscope_report::Column::Text(vec![])), ("point", layerscope_report::Column::Text(vec![]))]).unwrap();
    bare = Run { layers: empty.clone(), groups: Some(empty.clone()), tokens: Some(empty), ..bare };
    let drawing = draw(&[bare], &Settings::default(), &out);
    let drawn: Vec<&str> = drawing.written.iter().map(|written| written.figure).collect();
    assert_eq!(drawn, ["fig3", "fig9", "fig21", "table1", "table3"]);
}

#[test]
fn wrong_settings_are_one_clear_line() {
    let out = Folder::new("wrong");
    let runs = [run(&Shape { layers: 1, groups: 5, ..ENCODER })];
    let problem = |runs: &[Run], settings: Settings| figure::draw(runs, &settings, &out.0, &mut |_| {}).unwrap_err().to_string();
    assert!(problem(&runs, only(&["fig99\n"])).starts_with("unknown figure `fig99\\u{a}`; use fig1, fig2"));
    assert_eq!(problem(&[], Settings::default()), "no runs to draw figures of");
    assert!(problem(&runs, Settings { frequency: Some((10, 5)), ..Settings::default() }).contains("MIN:MAX"));
    let drawing = draw(&runs, &Settings { layers: vec![7], ..only(&["fig2", "fig12"]) }, &out);
    assert!(drawing.written.is_empty() && drawing.skipped.iter().all(|skipped| skipped.reason == "layer 7 was not measured"));
    let drawing = draw(&runs, &Settings { layers: vec![0, 1], ..only(&["fig2"]) }, &out);
    let names: Vec<String> =
        drawing.written.iter().map(|written| written.files[0].file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["fig2-layer0.svg", "fig2-layer1.svg"]);
    let file = out.0.join("fig2-layer0.svg");
    assert!(figure::draw(&runs, &Settings::default(), &file, &mut |_| {}).unwrap_err().to_string().contains("fig2-layer0.svg"));
}

#[test]
fn many_points_stay_small() {
    let out = Folder::new("many");
    let runs = [run(&Shape { layers: 1, groups: 300_000, token_states: 0, ..ENCODER })];
    draw(&runs, &Settings { frequency: Some((1, i64::MAX)), layers: vec![1], ..only(&["fig2"]) }, &out);
    assert_eq!(out.text("fig2.csv").lines().count(), 300_001);
    for file in ["fig2.svg", "fig2.pdf"] {
        let size = std::fs::metadata(out.0.join(file)).unwrap().len();
        assert!(size < 300_000, "{file}: {size} bytes");
    }
    let svg = out.text("fig2.svg");
    assert_eq!((svg.matches("<image").count(), svg.matches("data:image/png").count()), (1, 1));
    assert!(svg.contains("slope ") && svg.contains("text-anchor"), "the frame is not a picture");
}

#[test]
fn the_same_runs_give_the_same_bytes_as_ever() {
    let runs = [
        run(&Shape { layers: 2, groups: 40, token_states: 2, ..ENCODER }),
        run(&Shape { layers: 3, groups: 40, token_states: 2, ..DECODER }),
    ];
    let (one, two) = (Folder::new("first"), Folder::new("second"));
    let names = ["fig1-encoder-base", "fig2", "fig4", "fig5", "fig8-org-decoder-small", "fig10", "fig21", "agreement"];
    let figures: Vec<&str> = names.iter().map(|name| name.split_once('-').map_or(*name, |(figure, _)| figure)).collect();
    let settings = Settings { theme: Theme::Dark, width_mm: Some(120.0), ..only(&figures) };
    let drawing = draw(&runs, &settings, &one);
    draw(&runs, &settings, &two);
    for file in drawing.written.iter().flat_map(|written| &written.files) {
        let name = file.file_name().unwrap();
        assert!(std::fs::read(file).unwrap() == std::fs::read(two.0.join(name)).unwrap(), "{name:?}");
    }
    draw(&runs, &only(&figures), &one);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    for name in names {
        let svg = one.text(&format!("{name}.svg"));
        let (head, tail) = svg.split_once("<style>").unwrap();
        let plain = head.to_owned() + tail.split_once("</style>\n").unwrap().1;
        let path = folder.join(format!("{name}.svg"));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &plain).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(plain == kept, "{name}.svg is not its snapshot; look at it, then run with UPDATE_SNAPSHOTS=1");
    }
}
