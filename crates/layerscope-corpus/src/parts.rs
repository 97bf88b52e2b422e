//! Which values the column has that splits a corpus.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use layerscope_error::{line, setting};
use layerscope_remote::Remote;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::filter::Sieve;
use crate::pipeline::{Progress, Reading, Shared};
use crate::settings::Settings;
use crate::source::{STANDARD_INPUT, sources};

/// The most parts of a corpus: each is a run of its own.
pub const MOST_PARTS: usize = 64;

/// Values are counted up to this number; a column with more has a value for every document.
const COUNTED: usize = 10_000;

/// Documents between two reports of progress.
const REPORT: u64 = 256;

/// The values that the kept documents have in the column `settings.split`, in order; `None` comes last and stands for documents without a
/// value. Reads the whole corpus once. Refuses a column without values, or with too many.
pub fn split_values(
    settings: &Settings,
    scratch: &Path,
    progress: &mut dyn FnMut(&Progress),
    cancel: &AtomicBool,
) -> Result<Vec<Option<String>>> {
    let column = settings.split.as_deref().unwrap_or_default();
    let by = || setting("split").to(format!("column:{column}"));
    if settings.inputs.iter().any(|input| input == STANDARD_INPUT) {
        return Err(Error::usage(line![by(), " reads the text several times, and standard input only once; give a file"]));
    }
    settings.filters.check()?;
    let remote = Remote::new(settings.stores.clone());
    let sources = sources(&settings.inputs, settings.text_column.as_deref(), &remote, cancel)?;
    let total_bytes = sources.iter().map(|source| source.bytes).sum::<Option<u64>>();
    let (shared, mut sieve) = (Shared::default(), Sieve::new(settings.filters.clone()));
    let mut found: BTreeMap<Option<String>, u64> = BTreeMap::new();
    let mut kept = 0;
    let mut keep = |document: Document| {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        *found.entry(document.part).or_default() += 1;
        kept += 1;
        if kept % REPORT == 0 {
            let bytes = shared.bytes.load(Ordering::Relaxed);
            progress(&Progress {
                records: kept,
                kept,
                done: kept,
                bytes,
                total_bytes,
                limit: settings.filters.limit,
                ..Progress::default()
            });
        }
        if found.len() > COUNTED { Err(too_many(column, &format!("more than {COUNTED}"))) } else { Ok(()) }
    };
    let reading = Reading { settings, sources: &sources, remote: &remote, shared: &shared, stop: cancel };
    reading.read(scratch, &mut sieve, &mut Vec::new(), &mut keep)?;
    let without = found.remove(&None);
    match (found.len(), without) {
        (0, None) => Err(Error::Nothing(sieve.counters.nothing_left(&settings.filters))),
        (0, Some(_)) => {
            let name = &sources[0].name;
            Err(Error::input(name, line![format!("no document has a value in column `{column}`; name another with "), setting("split")]))
        }
        (many, _) if many > MOST_PARTS => Err(too_many(column, &many.to_string())),
        _ => Ok(found.into_keys().chain(without.map(|_| None)).collect()),
    }
}

fn too_many(column: &str, values: &str) -> Error {
    let split = setting("split").to(format!("column:{column}"));
    Error::usage(line![split, format!(" has {values} values; name a column with at most {MOST_PARTS}")])
}
