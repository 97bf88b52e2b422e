//! What can be shown with nothing else installed: two trained models measured on the spot, and what papers found asked of them.

mod asked;
pub mod embedded;
pub mod findings;
mod picture;

use std::fmt;
use std::path::{Path, PathBuf};

use layerscope_report::export::{self, Format};
use layerscope_report::figure::Step;
use layerscope_report::{Run, figure, page};

use crate::demo::findings::{Finding, Verdict, findings, findings_table};
use crate::demo::picture::picture;
use crate::error::Result;
use crate::measure::event::{Event, Show};
use crate::measure::plan::Plan;
use crate::measure::run::measure;
use crate::process::cancel::CancelToken;
use crate::settings::Settings;
use crate::store::folder::Folder;

/// What the folder holds beside the runs.
const FINDINGS: &str = "findings.md";
const FIGURES: &str = "figures";
const PAGE: &str = "report.html";

/// Two batches of 4,096, which tell how much the anisotropy varies. The intrinsic dimension compares all pairs: more would take most of
/// the time.
const SAMPLE_STATES: usize = 8_192;

/// What the demonstration leaves.
#[derive(Debug)]
pub struct Demo {
    /// Where everything is: a folder for each run, the figures, the page.
    pub out: PathBuf,
    /// The encoder's and the decoder's run.
    pub runs: [Run; 2],
    /// What papers found, and whether it is seen here.
    pub findings: Vec<Finding>,
    /// The figures of both.
    pub drawing: figure::Drawing,
}

/// Measures the embedded models on the embedded text, anew every time, into one folder each; then writes the findings, every figure and
/// the page.
pub fn run(out: &Path, threads: Option<usize>, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Demo> {
    let (text, _folder) = embedded::unpack_text()?;
    let mut measured = |number: usize, name: &str| -> Result<Run> {
        let folder = match embedded::unpack(name)? {
            Some(folder) => folder,
            None => PathBuf::from(name).into(), // invariant: only embedded names are asked for
        };
        let folder_of_run = out.join(name);
        let corpus = [text.to_string_lossy().into_owned()];
        let settings = Settings::new(name, corpus, &folder_of_run.to_string_lossy()).set("overwrite", true)?;
        let settings = settings.set("sample_states", SAMPLE_STATES)?;
        let settings = threads.map_or(Ok(settings.clone()), |count| settings.set("threads", count))?;
        show(Event::Part { number, of: embedded::NAMES.len() });
        show(Event::note(format!("measuring {name}")));
        measure(Plan::new(&settings)?, &folder, None, cancel, show)?;
        Ok(Run::open(&folder_of_run)?)
    };
    let runs = [measured(1, embedded::NAMES[0])?, measured(2, embedded::NAMES[1])?];
    cancel.check()?;
    let findings = findings(&runs[0], &runs[1]);
    let store = Folder::create(out)?;
    let table = findings_table(&findings)?;
    put(&store, FINDINGS, |bytes| export::write(&table, Format::Markdown, bytes))?;
    show(Event::note("drawing the figures"));
    let drawing = figure::draw(&runs, &figure::Settings::default(), &out.join(FIGURES), &mut |step| {
        if let Step::Done { done, of } = step {
            show(Event::Drawing { done, of });
        }
    })?;
    let opens_on = page::Settings { findings: Some(table), ..page::Settings::default() };
    put(&store, PAGE, |bytes| page::write(&runs, &opens_on, bytes))?;
    Ok(Demo { out: out.to_owned(), runs, findings, drawing })
}

fn put(store: &Folder, name: &str, write: impl FnOnce(&mut Vec<u8>) -> layerscope_report::Result<()>) -> Result<()> {
    let mut bytes = Vec::new();
    write(&mut bytes)?;
    store.put_atomic(name, |out| out.write_all(&bytes))
}

impl fmt::Display for Demo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}\n", picture(&self.runs))?;
        writeln!(out, "What papers found in large models, and what these two show:\n")?;
        for finding in &self.findings {
            writeln!(out, "{:<12} {}", finding.verdict.words(), finding.statement)?;
            writeln!(out, "{:<12} {} ({})", "", finding.here, finding.paper)?;
        }
        let count = |verdict: Verdict| self.findings.iter().filter(|finding| finding.verdict == verdict).count();
        let [agree, differ, open] = [Verdict::Agrees, Verdict::Differs, Verdict::CannotTell].map(count);
        writeln!(out, "\n{agree} of {} agree, {differ} differ, {open} cannot be told.\n", self.findings.len())?;
        let (at, [first, second]) = (|name: &str| self.out.join(name).display().to_string(), embedded::NAMES);
        let files: usize = self.drawing.written.iter().map(|written| written.files.len()).sum();
        writeln!(out, "page       {}: open it in a browser", at(PAGE))?;
        writeln!(out, "figures    {}: {} in {files} files", at(FIGURES), self.drawing.written.len())?;
        writeln!(out, "tables     {} and {}, as Parquet", at(first), at(second))?;
        writeln!(out, "findings   {}\n", at(FINDINGS))?;
        writeln!(out, "Try next:\n")?;
        writeln!(out, "  layerscope show {}", at(first))?;
        writeln!(out, "  layerscope serve {} {}", at(first), at(second))?;
        writeln!(out, "  layerscope measure --model FOLDER-OR-HUB-ID --corpus YOUR-TEXT.txt --out run")
    }
}
