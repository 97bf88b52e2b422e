//! Draws the figures of the runs in some folders: `figures OUT [light|dark|print [WIDTH [RUN...]]]`; of made-up runs without folders,
//! of few tokens where LAYERSCOPE_TINY is set.

use std::path::Path;

use layerscope_report::figure::{self, Settings};
use layerscope_report::{Result, Run, States};
use layerscope_testing::made_up_runs::{self, DECODER, ENCODER, SINKS, Shape};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let out = arguments.first().map_or("figures", String::as_str);
    let theme = arguments.get(1).map_or(Ok(figure::Theme::Light), |name| name.parse())?;
    let width_mm = arguments.get(2).filter(|text| *text != "auto").map(|text| figure::width_mm(text)).transpose()?;
    let settings = Settings { theme, width_mm, ..Settings::default() };
    let runs = match arguments.get(3..) {
        Some(folders) if !folders.is_empty() => folders.iter().map(|folder| Run::open(Path::new(folder))).collect::<Result<Vec<Run>>>()?,
        _ => made_up(),
    };
    let started = std::time::Instant::now();
    draw(&runs, &settings, Path::new(out))?;
    if arguments.get(3).is_none() {
        draw(&runs[..1], &settings, &Path::new(out).join("one"))?;
        draw(
            &[made_up_runs::run(&Shape { name: "words", grouping: "word", ..ENCODER })],
            &Settings { only: vec!["fig22".into()], ..settings.clone() },
            &Path::new(out).join("words"),
        )?;
        let sinks =
            made_up_runs::run(&Shape { layers: 30, groups: runs[0].groups.as_ref().map_or(0, |groups| groups.rows() / 13), ..SINKS });
        draw(std::slice::from_ref(&sinks), &settings, &Path::new(out).join("sinks"))?;
        draw(&[sinks], &Settings { states: Some(States::All), ..settings.clone() }, &Path::new(out).join("sinks-all"))?;
        let steps = &[0, 1, 8, 64, 512, 4000, 16_000, 64_000, 143_000];
        let trained = [("trained-70m", 6, 70_000_000), ("trained-410m", 24, 410_000_000)]
            .map(|(name, layers, parameters)| made_up_runs::run(&Shape { name, layers, parameters, steps, groups: 60, ..DECODER }));
        draw(&trained, &settings, &Path::new(out).join("steps"))?;
    }
    eprintln!("{:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

fn draw(runs: &[Run], settings: &Settings, out: &Path) -> Result<()> {
    let drawing = figure::draw(runs, settings, out, &mut |_| {})?;
    println!("{}: {} written", out.display(), drawing.written.len());
    drawing
        .skipped
        .iter()
        .for_each(|skipped| println!("  {} {}: {}", skipped.figure, skipped.model.as_deref().unwrap_or(""), skipped.reason));
    Ok(())
}

fn made_up() -> Vec<Run> {
    let (groups, token_states) = if std::env::var_os("LAYERSCOPE_TINY").is_some() { (300, 12) } else { (24_000, 120) };
    let base = Shape { groups, token_states, ..ENCODER };
    let shapes = [
        base.clone(),
        Shape { name: "encoder-large", layers: 24, scale: 300.0, parameters: 340_000_000, groups: groups / 3, ..base.clone() },
        Shape { groups, token_states, ..DECODER },
    ];
    shapes.iter().map(made_up_runs::run).collect()
}
