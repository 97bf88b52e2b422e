//! Plates to files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use layerscope_error::{Line, line, setting};

use super::compose::{TITLE_ROW, compose, draw_footnote, draw_title};
use super::context::Context;
use super::font::drawable;
use super::list::{Figure, LIST};
use super::plate::{Body, Plate};
use super::scene::Scene;
use super::sheet::Preferred;
use super::text::Text;
use super::theme::Look;
use super::{Settings, pdf, png, svg, tex};
use crate::error::{Error, Result};
use crate::export::{self, Format};
use crate::run::Run;
use crate::table::Table;

/// A figure or table that was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its id in [`LIST`].
    pub figure: &'static str,
    /// Its files.
    pub files: Vec<PathBuf>,
}

/// A figure that was not drawn.
#[derive(Clone, Debug)]
pub struct Skipped {
    /// Its id in [`LIST`].
    pub figure: &'static str,
    /// The run it would have shown, if it shows only one.
    pub model: Option<String>,
    /// What is missing, with settings as data.
    pub reason: Line,
}

/// The result of [`draw`].
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    /// The figures that were written, in the order of [`LIST`].
    pub written: Vec<Written>,
    /// The figures that were not drawn, and why.
    pub skipped: Vec<Skipped>,
    /// How else the runs differ than in their models, which captions of figures of several runs say too, and which layers are missing.
    pub notes: Vec<String>,
    /// The LaTeX file that includes all of them.
    pub tex: PathBuf,
}

/// What happens while figures are drawn.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The files of a figure are being written: whoever ends the process waits for them.
    Saving,
    /// All of them are there.
    Saved(&'a Written),
    /// So many figures of the list are drawn, or known not to be.
    Done {
        /// How many.
        done: usize,
        /// Of all that were asked for.
        of: usize,
    },
}

/// Points in a millimetre.
const POINTS_PER_MM: f64 = 72.0 / 25.4;
/// Widths of figures if nobody says so: those of an ACL paper.
const COLUMN_MM: f64 = 77.0;
const PAGE_MM: f64 = 160.0;

/// Draws every figure that the runs have data for into the folder `out`, which is created if there is one. Tells `show` what happens.
pub fn draw(runs: &[Run], settings: &Settings, out: &Path, show: &mut dyn FnMut(Step)) -> Result<Drawing> {
    check(runs, settings)?;
    let context = Context::new(runs, settings);
    let missing = context.missing_layers()?;
    let wanted = |figure: &&Figure| settings.only.is_empty() || settings.only.iter().any(|name| figure.is_called(name));
    let figures: Vec<&Figure> = LIST.iter().filter(wanted).collect();
    let mut done = in_parallel(&figures, &context, out, show)?;
    let notes = context.differences.iter().cloned().chain(missing).collect();
    let mut drawing = Drawing { notes, tex: out.join("figures.tex"), ..Drawing::default() };
    let mut document = String::from("% Figures and tables by Layerscope. \\usepackage{graphicx,booktabs,textcomp}\n");
    done.sort_by_key(|(place, ..)| *place);
    for (_, written, part) in done {
        document += &part.tex;
        drawing.written.extend(written);
        drawing.skipped.extend(part.skipped);
    }
    if !drawing.written.is_empty() {
        save(&drawing.tex, document.as_bytes())?;
    }
    Ok(drawing)
}

/// What became of one row of the list.
#[derive(Default)]
struct Part {
    tex: String,
    figures: Vec<Files>,
    skipped: Vec<Skipped>,
}

/// The files of a figure before they are written.
type Files = Vec<(PathBuf, Vec<u8>)>;

/// A row of the list by its place, with what was written of it.
type Done = (usize, Vec<Written>, Part);

/// Every figure by the next free thread; which one is free changes nothing in the files. They are written here, a figure at a time.
fn in_parallel(figures: &[&Figure], context: &Context, out: &Path, show: &mut dyn FnMut(Step)) -> Result<Vec<Done>> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(figures.len()).min(8);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some((place, figure)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|place| Some((place, figures.get(place)?)))
                {
                    if sender.send(part(figure, context, out).map(|part| (place, part))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut done = Vec::new();
        show(Step::Done { done: 0, of: figures.len() });
        for result in receiver {
            let (place, mut part) = result?;
            let mut written = Vec::new();
            for files in std::mem::take(&mut part.figures) {
                show(Step::Saving);
                files.iter().try_for_each(|(path, bytes)| save(path, bytes))?;
                written.push(Written { figure: figures[place].id, files: files.into_iter().map(|(path, _)| path).collect() });
                show(Step::Saved(&written[written.len() - 1]));
            }
            done.push((place, written, part));
            show(Step::Done { done: done.len(), of: figures.len() });
        }
        Ok(done)
    })
}

fn part(figure: &Figure, context: &Context, out: &Path) -> Result<Part> {
    let look = Look::of(context.settings.theme);
    let mut part = Part::default();
    for outcome in (figure.draw)(context) {
        match outcome {
            Ok(mut plate) => {
                if !plate.remarks.alone {
                    plate.remarks = plate.remarks.together(&context.differences);
                }
                part.tex += &include(&plate, context.settings);
                part.figures.push(files(&plate, context.settings, &look, out)?);
            }
            Err(skip) => part.skipped.push(Skipped { figure: figure.id, model: skip.model, reason: skip.reason }),
        }
    }
    Ok(part)
}

fn check(runs: &[Run], settings: &Settings) -> Result<()> {
    if runs.is_empty() {
        return Err(Error::Setting("there are no runs to draw".into()));
    }
    if let Some(unknown) = settings.only.iter().find(|name| !LIST.iter().any(|figure| figure.is_called(name))) {
        let known: Vec<&str> = LIST.iter().map(|figure| figure.id).collect();
        return Err(Error::setting("only", unknown, &known, &format!("some of {}", known.join(", "))));
    }
    if let Some((low, high)) = settings.frequency.filter(|(low, high)| low > high || *low < 1) {
        let range = setting("frequency").to(format!("{low}:{high}"));
        return Err(Error::Setting(line![range, " is not a range MIN:MAX with 1 <= MIN <= MAX"]));
    }
    Ok(())
}

/// The scene of a plate; none for a table.
pub(crate) fn scene(plate: &Plate, settings: &Settings, look: &Look) -> Option<Scene> {
    let width =
        |preferred: Preferred| settings.width_mm.unwrap_or(if preferred == Preferred::Page { PAGE_MM } else { COLUMN_MM }) * POINTS_PER_MM;
    let title = settings.title.as_ref().map(|title| Text::plain(drawable(title, 200)));
    let mut scene = match &plate.body {
        Body::Panels(sheet) => compose(sheet, look, width(sheet.preferred), title.as_ref()),
        Body::Drawing(preferred, draw) => {
            let mut scene = draw(look, width(*preferred));
            if let Some(title) = &title {
                scene.items.iter_mut().for_each(|item| item.lower(TITLE_ROW));
                scene.height += TITLE_ROW;
                draw_title(&mut scene, look, title);
            }
            scene
        }
        Body::Table(_) => return None,
    };
    for footnote in plate.shown.footnote().into_iter().chain(plate.remarks.footnotes().iter().map(String::as_str)) {
        draw_footnote(&mut scene, look, footnote);
    }
    scene.description = plate.description.clone();
    Some(scene)
}

fn files(plate: &Plate, settings: &Settings, look: &Look, out: &Path) -> Result<Files> {
    let mut files = Vec::new();
    let mut keep = |ending: &str, bytes: Vec<u8>| files.push((out.join(format!("{}{ending}", plate.name)), bytes));
    if let Body::Table(table) = &plate.body {
        for (format, ending) in [(Format::Markdown, ".md"), (Format::Csv, ".csv"), (Format::Latex, ".tex")] {
            keep(ending, printed(table, format)?);
        }
    }
    if let Some(scene) = scene(plate, settings, look) {
        keep(".svg", svg::write(&scene, true).into_bytes());
        keep(".pdf", pdf::write(&scene)?);
        keep(".png", png::write(&scene)?);
    }
    for (suffix, table) in &plate.numbers {
        keep(&format!("{suffix}.csv"), printed(table, Format::Csv)?);
    }
    Ok(files)
}

fn printed(table: &Table, format: Format) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    export::write(table, format, &mut bytes)?;
    Ok(bytes)
}

fn include(plate: &Plate, settings: &Settings) -> String {
    let wide = |preferred: Preferred| settings.width_mm.map_or(preferred == Preferred::Page, |width| width > 100.0);
    match &plate.body {
        Body::Panels(sheet) => "\n".to_owned() + &tex::figure(&plate.name, &plate.full_caption(), wide(sheet.preferred)),
        Body::Drawing(preferred, _) => "\n".to_owned() + &tex::figure(&plate.name, &plate.full_caption(), wide(*preferred)),
        Body::Table(_) => "\n".to_owned() + &tex::table(&plate.name, &plate.full_caption()),
    }
}

/// Written beside and renamed, so that a file is whole or absent.
fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, error.to_string()))?;
    let part = path.with_extension("part");
    std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, path)).map_err(|error| Error::file(path, error.to_string()))
}
