//! Whether a corpus is still the text that was read before.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use layerscope_error::{line, setting};
use layerscope_remote::Remote;

use crate::error::{Error, Result};
use crate::filter::Sieve;
use crate::pipeline::{Reading, Shared};
use crate::settings::Settings;
use crate::source::{STANDARD_INPUT, Source, sources};
use crate::spool::Spool;

impl Spool {
    /// Checks that the corpus is still the one this spool was written from, see [`check_text`].
    pub fn check_corpus(&self, settings: &Settings, cancel: &AtomicBool) -> Result<()> {
        let written = self.modified()?;
        let known = KnownText { inputs: self.inputs(), fingerprint: &self.fingerprint() };
        let is_unchanged = |source: &Source| source.modified.is_none_or(|modified| modified < written);
        check_text(settings, &known, is_unchanged, self.path().parent().unwrap_or(Path::new(".")), cancel)
    }
}

/// A text as it was read before.
#[derive(Clone, Copy, Debug)]
pub struct KnownText<'a> {
    /// The sorted list of its inputs.
    pub inputs: &'a [String],
    /// Its [fingerprint](Spool::fingerprint).
    pub fingerprint: &'a str,
}

/// Refuses a corpus that is not the same text as before: other inputs, or inputs with another text. They are read again unless all of them
/// look unchanged. Standard input is read if there is anything on it; nothing on it means that the text of before is to be used.
pub fn check_text(
    settings: &Settings,
    known: &KnownText<'_>,
    is_unchanged: impl Fn(&Source) -> bool,
    scratch: &Path,
    cancel: &AtomicBool,
) -> Result<()> {
    let remote = Remote::new(settings.stores.clone());
    let sources = sources(&settings.inputs, settings.text_column.as_deref(), &remote, cancel)?;
    let or_again = |problem: &str| line![problem, ", or start again with ", setting("overwrite")];
    if let Some(new) = sources.iter().find(|source| !known.inputs.contains(&source.name)) {
        return Err(Error::input(&new.name, or_again("it was not part of the corpus when this run began; leave it out")));
    }
    if let Some(gone) = known.inputs.iter().find(|name| !sources.iter().any(|source| source.name == **name)) {
        return Err(Error::input(gone, or_again("it was part of the corpus when this run began; put it back")));
    }
    let is_piped = |source: &&Source| source.name == STANDARD_INPUT;
    let changed = sources.iter().find(|source| !is_piped(source) && !is_unchanged(source));
    let piped = sources.iter().find(is_piped);
    if changed.is_none() && (piped.is_none() || std::io::stdin().is_terminal()) {
        return Ok(());
    }
    let (shared, mut sieve) = (Shared::default(), Sieve::new(settings.filters.clone()));
    let mut keep = |_| if cancel.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) };
    let reading = Reading { settings, sources: &sources, remote: &remote, shared: &shared, stop: cancel };
    reading.read(scratch, &mut sieve, &mut Vec::new(), &mut keep)?;
    if (piped.is_some() && shared.piped.load(Ordering::Relaxed) == 0) || format!("{:032x}", sieve.fingerprint()) == known.fingerprint {
        return Ok(());
    }
    match changed {
        Some(changed) => Err(Error::input(&changed.name, or_again("its text changed since this run began; put it back as it was"))),
        None => Err(Error::input("standard input", or_again("another text than the one this run began with; give the same, or none"))),
    }
}
