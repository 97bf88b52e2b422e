//! Writes invented runs, and the pages of them, for tests of the page: `synthetic_runs FOLDER`.
//!
//! The numbers are smooth curves with noise from a fixed generator, the same on every machine; what derives from groups (means,
//! regressions, C.V.) is computed from them. `FOLDER/NAME.html` is the page of `FOLDER/NAME-*`; beside every run's tables lie
//! the same as CSV, so that a test can read them without Parquet.

mod massive;
mod model;
mod random;
mod tables;

use std::error::Error;
use std::fs;
use std::path::Path;

use layerscope_report::{Column, Run, Table, page};
use massive::Massive;
use model::Model;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Texts that try to leave the page, the table or the line.
const HOSTILE: [&str; 15] = [
    "</script><script>window.injected=1</script>",
    "<!--<script>",
    "<img src=x onerror=window.injected=1>",
    "\"'`&amp;",
    "=1+1",
    "\u{202e}desrever",
    "line\u{2028}separator",
    "nul\0bell\u{7}",
    "]]>{{constructor}}${1}",
    "javascript:alert(1)",
    "@SUM(A1)",
    "\u{feff}",
    "\" onmouseover=\"window.injected=1",
    "\u{2067}isolate\u{1b}[31m",
    " blank before",
];

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).ok_or("usage: synthetic_runs FOLDER [NAME...]")?;
    let only: Vec<String> = std::env::args().skip(2).collect();
    let folder = Path::new(&folder);
    let two = [Model::new("encoder-small", 12, 2_000, 96, false, 1), Model::new("decoder-small", 12, 1_500, 96, true, 2)];
    let big = [Model::new("encoder-large", 24, 25_000, 1024, false, 3)];
    let steps = [Model { steps: vec![0, 1, 8, 64, 512, 1_000, 8_000, 33_000, 143_000], ..Model::new("decoder-steps", 6, 0, 64, true, 4) }];
    let words = [Model { words: true, ..Model::new("encoder-words", 4, 600, 32, false, 6) }];
    let hostile = [Model { hostile: true, ..Model::new("</title><script>window.injected=1</script>", 3, 40, 16, true, 5) }];
    let sinks = [
        Model { massive: Massive::Measured, ..Model::new("decoder-sinks", 12, 800, 64, true, 7) },
        Model::new("encoder-plain", 6, 300, 64, false, 8),
    ];
    let old = [Model { massive: Massive::Old, ..Model::new("decoder-old", 6, 300, 32, true, 9) }];
    let trained =
        [Model { massive: Massive::Measured, steps: vec![0, 512, 143_000], ..Model::new("decoder-sink-steps", 4, 120, 32, true, 10) }];
    let few =
        [Model::new("encoder-few", 6, 24, 16, false, 11), Model { words: true, ..Model::new("encoder-other", 6, 200, 16, false, 12) }];
    let three = [
        Model::new("all_small_encoder_l6_v2 (corpus2000)", 2, 40, 16, false, 13),
        Model::new("SmallDecoder-135M-Instruct.Q4_1", 2, 40, 16, true, 14),
        Model::new("all_small_encoder_l6_v2 (corpus)", 2, 40, 16, false, 15),
    ];
    let mixed = [sinks[0].clone(), old[0].clone()];
    for (name, models) in [
        ("two", &two[..]),
        ("sinks", &sinks),
        ("old", &old),
        ("mixed", &mixed),
        ("trained", &trained),
        ("big", &big),
        ("steps", &steps),
        ("words", &words),
        ("hostile", &hostile),
        ("few", &few),
        ("three", &three),
    ] {
        if !only.is_empty() && !only.iter().any(|own| own == name) {
            continue;
        }
        let mut runs = Vec::new();
        for (i, model) in models.iter().enumerate() {
            let path = folder.join(format!("{name}-{i}"));
            model.write(&path)?;
            runs.push(Run::open(&path)?);
        }
        let mut html = Vec::new();
        page::write(&runs, &page::Settings::default(), &mut html)?;
        println!("{name}.html {:.2} MB", html.len() as f64 / 1e6);
        fs::write(folder.join(format!("{name}.html")), html)?;
        if name == "two" {
            fs::write(folder.join("some.html"), some_views(&runs)?)?;
            fs::write(folder.join("asked.html"), asked(&runs)?)?;
        }
    }
    Ok(())
}

/// A page of two views, and the data of these alone.
fn some_views(runs: &[Run]) -> Result<Vec<u8>> {
    let only = page::VIEWS.iter().filter(|view| ["tokens", "layers"].contains(&view.name)).collect();
    let mut html = Vec::new();
    page::write(runs, &page::Settings { only, ..page::Settings::default() }, &mut html)?;
    Ok(html)
}

/// A page that opens on what was asked of the runs.
fn asked(runs: &[Run]) -> Result<Vec<u8>> {
    let column = |texts: [&str; 3]| Column::text(texts.iter().map(|text| Some(*text)));
    let findings = Table::new([
        ("statement", column(["variance falls as the norm grows", "the last layers are isotropic", "<b>sinks</b> carry Q"])),
        ("paper", column(["Someone 2025", "Another 2024", "A third 2024"])),
        ("the paper saw", column(["slope -1", "0.01 in the last layer", "all of it"])),
        ("seen here", column(["slope -0.98 ± 0.01", "0.31 ± 0.02", "no state is massive"])),
        ("verdict", column(["agrees", "differs", "cannot tell"])),
    ])?;
    let mut html = Vec::new();
    page::write(runs, &page::Settings { findings: Some(findings), ..page::Settings::default() }, &mut html)?;
    Ok(html)
}
