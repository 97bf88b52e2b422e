//! What can be shown with nothing else installed: two trained models measured on the spot, and what papers found asked of them.

use std::fmt;
use std::path::{Path, PathBuf};

use layerscope_report::{Run, figure, page};

use crate::cancel::CancelToken;
use crate::embedded;
use crate::error::Result;
use crate::findings::{Finding, findings};
use crate::plan::Plan;
use crate::run::{Event, measure};
use crate::settings::Options;
use crate::store::Store;

/// The file of the page.
const PAGE: &str = "report.html";

/// What the demonstration leaves.
#[derive(Debug)]
pub struct Demo {
    /// Where the runs are.
    pub out: PathBuf,
    /// The encoder's and the decoder's run.
    pub runs: [Run; 2],
    /// What papers found, and whether it is seen here.
    pub findings: Vec<Finding>,
    /// The folder of the figures, and how many there are.
    pub figures: (PathBuf, usize),
    /// The page.
    pub page: PathBuf,
}

/// Measures the embedded models on the embedded text, anew every time, into one folder each; and draws figures and a page of both.
pub fn run(out: &Path, threads: Option<usize>, cancel: &CancelToken, show: &mut dyn FnMut(Event<'_>)) -> Result<Demo> {
    let (text, _folder) = embedded::unpack_text()?;
    let mut measured = |name: &str| -> Result<Run> {
        let folder = match embedded::unpack(name)? {
            Some(folder) => folder,
            None => embedded::Located::from(PathBuf::from(name)), // invariant: only embedded names are asked for
        };
        let options = Options {
            model: name.to_owned(),
            corpus: vec![text.to_string_lossy().into_owned()],
            out: out.join(name),
            threads: threads.map(|count| count.to_string()),
            overwrite: true,
            ..Options::default()
        };
        show(Event::Note(format!("measuring {name}")));
        measure(Plan::new(&options)?, &folder, cancel, show)?;
        Ok(Run::open(&options.out)?)
    };
    let runs = [measured(embedded::NAMES[0])?, measured(embedded::NAMES[1])?];
    let findings = findings(&runs[0], &runs[1]);
    show(Event::Note("drawing figures and a page".to_owned()));
    let figures = out.join("figures");
    let drawing = figure::draw(&runs, &figure::Settings::default(), &figures, &mut |_| {})?;
    let mut html = Vec::new();
    page::write(&runs, &page::Settings::default(), &mut html)?;
    Store::create(out)?.put_atomic(PAGE, |file| file.write_all(&html))?;
    Ok(Demo { out: out.to_owned(), runs, findings, figures: (figures, drawing.written.len()), page: out.join(PAGE) })
}

impl fmt::Display for Demo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for run in &self.runs {
            let fact = |key: &str| run.manifest["model"][key].as_str().unwrap_or_default().to_owned();
            writeln!(out, "{} ({}, {})", run.model(), fact("family"), fact("norms"))?;
            writeln!(out, "{}\n", crate::summary::summary_table(&run.layers))?;
        }
        writeln!(out, "What papers found in large models, and what these two show:\n")?;
        for (number, finding) in self.findings.iter().enumerate() {
            let mark = match finding.agrees {
                Some(true) => "agrees",
                Some(false) => "differs",
                None => "-",
            };
            writeln!(out, "{:>2}. {}", number + 1, finding.statement)?;
            writeln!(out, "    paper    {} ({})", finding.saw, finding.paper)?;
            writeln!(out, "    here     {}", finding.here)?;
            writeln!(out, "    {mark}")?;
        }
        let agreeing = self.findings.iter().filter(|finding| finding.agrees == Some(true)).count();
        writeln!(out, "\n{agreeing} of {} statements hold in these models. The runs are in {}.", self.findings.len(), self.out.display())?;
        writeln!(
            out,
            "{} figures and tables: {}. A page to explore: {}.\n",
            self.figures.1,
            self.figures.0.display(),
            self.page.display()
        )?;
        let [first, second] = embedded::NAMES;
        writeln!(out, "What to try next:\n")?;
        writeln!(out, "  layerscope show {}/{first} --table groups | less", self.out.display())?;
        writeln!(out, "  layerscope measure --model {second} --ablate final-norm --corpus YOUR-TEXT.txt --out altered")?;
        writeln!(out, "  layerscope measure --model FOLDER-OR-HUB-ID --corpus YOUR-TEXT.txt --out run")
    }
}
