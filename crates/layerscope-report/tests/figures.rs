//! Figures of made-up runs: their files are what they should be. What they plot: `figure_numbers.rs`.

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use layerscope_report::figure::{self, LIST, Settings, Step, Theme};
use layerscope_report::{Manifest, Run, Table};
use layerscope_testing::made_up_runs::{DECODER, ENCODER, HOSTILE, Shape, projected, run};
use support::drawn::{draw, only, sinks, small, trained};
use support::files::{Folder, check_pdf, check_png, check_svg};

#[test]
fn every_figure_is_drawn_in_every_format() {
    let out = Folder::new("all");
    let mut drawn: BTreeSet<&str> = BTreeSet::new();
    let words = run(&Shape { name: "words", grouping: "word", layers: 4, groups: 60, ..ENCODER });
    let training = projected(trained(), &out.0.join("trained"));
    for (runs, name) in [(small(), "models"), (vec![words], "words"), (vec![training], "training"), (vec![sinks()], "sinks")] {
        let folder = out.0.join(name);
        let mut seen = 0;
        let count = |step: Step| seen += usize::from(matches!(step, Step::Saved(_)));
        let drawing = figure::draw(&runs, &Settings::default(), &folder, &mut { count }).unwrap();
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
        assert!(drawing.skipped.iter().all(|skipped| !skipped.reason.flags().is_empty()));
        let accounted: BTreeSet<&str> =
            drawing.written.iter().map(|written| written.figure).chain(drawing.skipped.iter().map(|skipped| skipped.figure)).collect();
        assert_eq!(accounted.len(), LIST.len(), "every figure is drawn or has a reason");
        let tex = std::fs::read_to_string(&drawing.tex).unwrap();
        assert_eq!(tex.matches("\\includegraphics").count() + tex.matches("\\input{").count(), drawing.written.len());
    }
    assert_eq!(drawn.into_iter().collect::<BTreeSet<_>>(), LIST.iter().map(|figure| figure.id).collect::<BTreeSet<_>>());
}

#[test]
fn files_of_a_figure_come_together() {
    let out = Folder::new("together");
    let here = || std::fs::read_dir(&out.0).map_or(0, Iterator::count);
    let (mut before, mut told) = (0, 0);
    let mut show = |step: Step| match step {
        // Nothing is written but between these two, so that whoever waits meanwhile never leaves a figure in part.
        Step::Saving => assert_eq!(here(), before, "nothing is written beside figures"),
        Step::Saved(written) => {
            assert!(written.files.iter().all(|file| file.exists()));
            assert_eq!(here(), before + written.files.len());
            before = here();
        }
        Step::Done { done, of } => {
            assert_eq!((done, of), (told, 3));
            told += 1;
        }
    };
    figure::draw(&small(), &only(&["fig4", "fig11", "table1"]), &out.0, &mut show).unwrap();
    assert_eq!(told, 4, "none, and one after the other");
}

#[test]
fn hostile_names_are_inert_everywhere() {
    let out = Folder::new("hostile");
    let model = "../../etc/<script>%_&$#{}\\\u{202e}😀";
    let mut runs = vec![run(&Shape { layers: 2, groups: 60, token_states: 2, ..ENCODER })];
    runs[0].manifest.model.name = Some(model.into());
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
    let nothing = Run { groups: None, tokens: None, manifest: Manifest::default(), ..bare.clone() };
    let drawing = draw(&[nothing], &Settings::default(), &out);
    let reason = |figure: &str| drawing.skipped.iter().find(|skipped| skipped.figure == figure).map(|skipped| skipped.reason.flags());
    assert_eq!(reason("fig2").unwrap(), "the run has no groups.parquet");
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
    assert!(problem(&runs, only(&["fig99\n"])).starts_with("--only `fig99\\u{a}` is not understood; give some of fig1, fig2"));
    assert_eq!(problem(&[], Settings::default()), "there are no runs to draw");
    assert!(problem(&runs, Settings { frequency: Some((10, 5)), ..Settings::default() }).contains("MIN:MAX"));
    let none = Settings { layers: vec![7, 9], ..only(&["fig2", "fig12"]) };
    assert_eq!(problem(&runs, none), "--layers 7,9: no such layer was measured; there are 0 and 1");
    let drawing = draw(&runs, &Settings { layers: vec![0, 1], ..only(&["fig2"]) }, &out);
    let names: Vec<String> =
        drawing.written.iter().map(|written| written.files[0].file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["fig2-layer0.svg", "fig2-layer1.svg"]);
    let file = out.0.join("fig2-layer0.svg");
    assert!(figure::draw(&runs, &Settings::default(), &file, &mut |_| {}).unwrap_err().to_string().contains("fig2-layer0.svg"));
}

#[test]
fn layers_that_are_missing_are_said_once() {
    let out = Folder::new("layers");
    let runs = [(2, ENCODER), (4, DECODER)].map(|(layers, shape)| run(&Shape { layers, groups: 60, token_states: 4, ..shape }));
    let drawn = |runs: &[Run], layers: &[i64]| draw(runs, &Settings { layers: layers.into(), ..only(&["fig2", "fig7", "fig8"]) }, &out);
    let names = |drawing: &figure::Drawing| -> Vec<String> {
        drawing.written.iter().map(|written| written.files[0].file_name().unwrap().to_string_lossy().replace(".svg", "")).collect()
    };
    let alone = drawn(&runs[..1], &[1, 5, 7]);
    assert_eq!((&alone.notes[..], alone.skipped.len()), (&["layers 5 and 7 were not measured".to_owned()][..], 0));
    assert_eq!(names(&alone), ["fig2-layer1", "fig7-layer1", "fig8-layer1"]);
    // Each layer is drawn of the runs that have it.
    let both = drawn(&runs, &[1, 3]);
    assert_eq!(both.notes, ["layer 3 was not measured in encoder-base"]);
    let models = |figure: &str| out.csv(&format!("{figure}-fit.csv")).iter().map(|row| row["model"].clone()).collect::<Vec<_>>();
    assert_eq!((models("fig2-layer1").len(), models("fig2-layer3")), (2, vec![DECODER.name.to_owned()]));
    assert_eq!(drawn(&runs, &[1, 9]).notes, ["layer 9 was not measured"], "once for all runs");
    // A run without any of them is not drawn, and says why.
    let one = drawn(&runs, &[3]);
    assert!(one.notes.is_empty() && one.skipped.len() == 3, "{:?}", one.notes);
    assert!(one.skipped.iter().all(|skipped| skipped.reason.flags() == "layer 3 was not measured" && skipped.model.is_some()));
    let nowhere = Settings { layers: vec![77], ..Settings::default() };
    let error = figure::draw(&runs, &nowhere, &out.0, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "--layers 77: no such layer was measured; there are 0 to 4");
}

#[test]
fn runs_of_one_model_have_one_name_each_everywhere() {
    let out = Folder::new("labels");
    let of = |folder: &str| Run { folder: folder.into(), ..run(&Shape { layers: 2, groups: 40, token_states: 0, ..ENCODER }) };
    let runs = [of("runs/first"), of("runs/second"), of("again/second")];
    let labels = Run::labels(&runs.iter().collect::<Vec<_>>());
    assert_eq!(labels, ["first)", "second)", "second) 2"].map(|end| format!("{} ({end}", ENCODER.name)));
    draw(&runs, &only(&["fig4", "fig10"]), &out);
    assert!(labels.iter().all(|label| out.text("fig10.svg").contains(label)), "drawn");
    assert!(labels.iter().all(|label| out.text("figures.tex").contains(&format!("{label} smallest"))), "in captions");
    assert!(out.csv("fig4.csv").iter().all(|row| row["model"] == ENCODER.name), "numbers name the model");
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
