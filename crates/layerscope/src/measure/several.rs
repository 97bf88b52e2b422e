//! A measurement on several devices: a shard on each at the same time, merged in the end.
//!
//! Every shard is resumed on its own. Which device has which shard follows from their order, so the same command goes on where it was.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use layerscope_corpus::Shard;
use layerscope_error::{Line, line, setting};
use layerscope_report::Manifest;

use super::event::{Event, Show};
use super::plan::{Plan, TextPlan};
use super::run;
use crate::error::{Error, ErrorKind, Result};
use crate::process::cancel::CancelToken;
use crate::process::threads::joined;
use crate::store::folder::Tentative;
use crate::store::merge::{MergeSettings, merge_folders};
use crate::store::mirror;
use crate::store::stored::STATE;

/// Where the shards are while they are measured.
const SHARDS: &str = "shards";

/// Carries out a plan on all of its devices. Returns the manifest.
pub fn measure(plan: Plan, folder: &Path, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Manifest> {
    if plan.text.shard.count > 1 {
        let several = line![setting("shard"), " is for one device; give every task its own ", setting("device")];
        return Err(Error::usage(several));
    }
    let parts = plan.out.join(SHARDS);
    if plan.out.join(STATE).exists() && !plan.overwrite {
        // Complete, or all but the tables and the end of the shards.
        let manifest = run::measure(Plan { devices: vec![plan.devices[0]], ..plan }, folder, None, cancel, show)?;
        mirror::remove(&parts)?;
        return Ok(manifest);
    }
    let _tentative = Tentative::new(&parts);
    let shards: Vec<Plan> = (0..plan.devices.len()).map(|number| shard(&plan, &parts, number)).collect();
    let folders: Vec<PathBuf> = shards.iter().map(|shard| shard.out.clone()).collect();
    {
        let _saving = cancel.saving();
        measure_shards(shards, folder, cancel, show)?;
    }
    show(Event::note(format!("merging {} shards", folders.len())));
    let settings = MergeSettings { overwrite: true, allow_devices: false };
    let manifest = merge_folders(&folders, &plan.out, settings, cancel, show)?;
    mirror::remove(&parts)?;
    show(Event::Finished(&manifest));
    Ok(manifest)
}

/// The part of a plan that one of its devices carries out.
fn shard(plan: &Plan, parts: &Path, number: usize) -> Plan {
    let count = plan.devices.len();
    let shard = Shard { index: number as u32, count: count as u32 };
    let limit = plan.max_memory.map(|limit| limit / count as u64);
    Plan {
        out: parts.join(format!("shard-{number}")),
        devices: vec![plan.devices[number]],
        text: TextPlan { shard, ..plan.text.clone() },
        threads: (plan.threads / count).max(1),
        max_memory: limit,
        ..plan.clone()
    }
}

/// Measures all shards at the same time. When one fails, the others save what they have and stop.
fn measure_shards(shards: Vec<Plan>, folder: &Path, cancel: &CancelToken, show: &mut Show<'_>) -> Result<()> {
    let count = shards.len();
    let stop = CancelToken::default();
    let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
        let (sender, told) = channel();
        let measure = |(number, plan): (usize, Plan)| {
            let (sender, stop): (Sender<(usize, Told)>, CancelToken) = (sender.clone(), stop.clone());
            scope.spawn(move || {
                let tell = &mut |event: Event<'_>| Told::of(event).into_iter().for_each(|told| drop(sender.send((number, told))));
                let outcome = run::measure_states(plan, folder, &stop, tell);
                if outcome.is_err() {
                    stop.cancel();
                }
                outcome
            })
        };
        let running: Vec<_> = shards.into_iter().enumerate().map(measure).collect();
        drop(sender);
        tell_all(count, &told, cancel, &stop, show);
        running.into_iter().map(joined).collect()
    });
    cause(outcomes.into_iter().filter_map(Result::err)).map_or(Ok(()), Err)
}

/// The error to tell of: that of a shard that failed. Those that were asked to stop then are not the cause.
fn cause(errors: impl Iterator<Item = Error>) -> Option<Error> {
    let (interrupted, failed): (Vec<Error>, Vec<Error>) = errors.partition(|error| error.kind() == ErrorKind::Interrupted);
    failed.into_iter().chain(interrupted).next()
}

/// How far a shard is.
#[derive(Clone, Copy, Default)]
struct Done {
    documents: u64,
    tokens: u64,
    total: u64,
    fresh: u64,
}

/// What a shard tells.
enum Told {
    Note(Line),
    Warning(Line),
    Done(Done),
    /// What all shards do alike and is shown of the first: they read the same text and the same weights.
    Alike(Event<'static>),
    Saved,
    Stopping,
}

impl Told {
    fn of(event: Event<'_>) -> Option<Told> {
        match event {
            Event::Note(line) | Event::Estimate(line) => Some(Told::Note(line)),
            Event::Warning(line) => Some(Told::Warning(line)),
            Event::Measuring { documents, tokens, total, fresh, .. } => Some(Told::Done(Done { documents, tokens, total, fresh })),
            Event::Saved => Some(Told::Saved),
            Event::Stopping => Some(Told::Stopping),
            Event::Ahead(outlook) => Some(Told::Alike(Event::Ahead(outlook))),
            Event::Reading(progress) => Some(Told::Alike(Event::Reading(progress))),
            Event::Loading { bytes, of } => Some(Told::Alike(Event::Loading { bytes, of })),
            Event::Hashing { bytes, of } => Some(Told::Alike(Event::Hashing { bytes, of })),
            Event::Pilot { tokens, of } => Some(Told::Alike(Event::Pilot { tokens, of })),
            Event::Writing { bytes } => Some(Told::Alike(Event::Writing { bytes })),
            Event::Part { .. } | Event::Importing { .. } | Event::Merging { .. } | Event::Tables { .. } => None,
            Event::Computing | Event::Drawing { .. } | Event::Finished(_) => None,
        }
    }
}

/// Shows what the shards tell as one run, until the last has ended; hands on a request to stop.
fn tell_all(count: usize, told: &Receiver<(usize, Told)>, cancel: &CancelToken, stop: &CancelToken, show: &mut Show<'_>) {
    let mut done = vec![Done::default(); count];
    let mut is_stopping = false;
    loop {
        if cancel.is_cancelled() {
            stop.cancel();
        }
        let (number, event) = match told.recv_timeout(super::workers::TICK) {
            Ok(told) => told,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => continue,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
        };
        let named = |line: Line| line![format!("shard {number}: "), line];
        match event {
            Told::Note(line) => show(Event::Note(named(line))),
            Told::Warning(line) => show(Event::Warning(named(line))),
            Told::Saved => show(Event::Saved),
            Told::Alike(event) if number == 0 => show(event),
            Told::Alike(_) => {}
            Told::Stopping if is_stopping => {}
            Told::Stopping => {
                is_stopping = true;
                show(Event::Stopping);
            }
            Told::Done(own) => {
                done[number] = own;
                let sum = |of: fn(&Done) -> u64| done.iter().map(of).sum();
                let (documents, tokens) = (sum(|done| done.documents), sum(|done| done.tokens));
                show(Event::Measuring { documents, tokens, total: sum(|done| done.total), fresh: sum(|done| done.fresh), leg: (1, 1) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_asked_to_stop_is_not_the_cause() {
        let stopped = || Error::Corpus(layerscope_corpus::Error::Interrupted);
        let failed = || Error::usage("no text");
        for errors in [vec![stopped(), failed()], vec![failed(), stopped()], vec![Error::Interrupted("asked".into()), failed()]] {
            assert_eq!(cause(errors.into_iter()).map(|error| error.to_string()).as_deref(), Some("no text"));
        }
        assert_eq!(cause([stopped()].into_iter()).map(|error| error.kind()), Some(ErrorKind::Interrupted));
    }
}
