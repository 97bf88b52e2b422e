//! Tokens of ten thousand characters: figures stay figures, and programs get every character.

mod support;

use layerscope_report::figure::{self, Settings};
use layerscope_report::page::{self, Settings as PageSettings};
use layerscope_report::{Column, Run, Table};
use layerscope_testing::made_up_runs::{ENCODER, Shape, run};
use support::files::{Folder, check_pdf, check_png, check_svg};

const LENGTH: usize = 10_000;

/// The run with some of its chosen tokens called by very long names.
fn renamed() -> (Run, Vec<String>) {
    let mut run = run(&Shape { layers: 2, groups: 60, token_states: 3, ..ENCODER });
    let tokens = run.tokens.clone().expect("tokens");
    let mut old: Vec<String> =
        tokens.column("group").and_then(Column::texts).expect("names").iter().flatten().map(|name| name.to_string()).collect();
    old.dedup();
    let long = ["x", "字", "\u{202e}", "<b>", "=1+1,", "\\textbf{", "a b "].map(|piece| piece.repeat(LENGTH / piece.chars().count()));
    let new = |name: &str| old.iter().position(|own| own == name).and_then(|at| long.get(at)).map_or(name.to_owned(), String::clone);
    let rename = |table: &Table| {
        let columns = table.columns().map(|(name, column)| {
            let column = match column {
                Column::Text(names) if name == "group" => Column::text(names.iter().map(|own| own.as_deref().map(new))),
                other => other.clone(),
            };
            (name.to_owned(), column)
        });
        Table::new(columns.collect::<Vec<_>>()).expect("a table")
    };
    run.groups = run.groups.as_ref().map(rename);
    run.tokens = Some(rename(&tokens));
    (run, long.to_vec())
}

#[test]
fn figures_shorten_them_and_stay_sound() {
    let (run, _) = renamed();
    let out = Folder::new("long-names");
    let only = ["fig1", "fig2", "fig8", "table2"].map(str::to_owned).to_vec();
    let drawing = figure::draw(&[run], &Settings { only, ..Settings::default() }, &out.0, &mut |_| {}).unwrap();
    assert_eq!(drawing.written.len(), 4, "{:?}", drawing.skipped.iter().map(|skipped| &skipped.reason).collect::<Vec<_>>());
    for file in drawing.written.iter().flat_map(|written| &written.files) {
        let bytes = std::fs::read(file).unwrap();
        match file.extension().and_then(|kind| kind.to_str()) {
            Some("svg") => {
                let svg = String::from_utf8(bytes).unwrap();
                check_svg(&svg);
                let longest =
                    svg.split("</style>").last().unwrap().split("<text").skip(1).map(|rest| rest.split("</text>").next().unwrap().len());
                assert!(longest.max().unwrap() < 1000, "{}", file.display());
            }
            Some("pdf") => check_pdf(&bytes),
            Some("png") => check_png(&bytes),
            Some("tex" | "md") => assert!(String::from_utf8(bytes).unwrap().lines().all(|line| line.len() < 2000), "{}", file.display()),
            _ => {}
        }
    }
}

#[test]
fn the_page_has_every_character_and_none_as_markup() {
    let (run, long) = renamed();
    let mut page = Vec::new();
    page::write(std::slice::from_ref(&run), &PageSettings::default(), &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(!long.iter().any(|name| page.contains(&name[..name.char_indices().nth(50).unwrap().0])), "names are data");
    let folder = Folder::new("long-page");
    std::fs::create_dir_all(&folder.0).unwrap();
    for (name, table) in [("layers", Some(&run.layers)), ("groups", run.groups.as_ref())] {
        let mut bytes = Vec::new();
        layerscope_report::export::parquet::write(table.unwrap(), &mut bytes).unwrap();
        std::fs::write(folder.0.join(format!("{name}.parquet")), bytes).unwrap();
    }
    std::fs::write(folder.0.join("manifest.json"), serde_json::to_vec(&run.manifest).unwrap()).unwrap();
    let served = page::Served::open(std::slice::from_ref(&folder.0)).unwrap();
    assert!(served.block("run0.groups.1").unwrap().is_some());
}
