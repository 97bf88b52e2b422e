//! The runs of several checkpoints as one trajectory.

use std::path::{Path, PathBuf};
use std::time::Instant;

use layerscope_error::{line, setting};
use layerscope_report::manifest::{Checkpoint, Status, Timings};
use layerscope_report::{Manifest, stored_table};

use super::revisions::Revision;
use crate::checkpoint::weights::PROJECTIONS;
use crate::error::{Error, Result};
use crate::process::command;
use crate::store::folder::Folder;
use crate::store::stored::{STATE, read_manifest};
use crate::store::write::{Files, put_manifest, put_table};
use crate::tables::stack::stacked;

/// Measures of the embedding matrices of one checkpoint, in its own folder.
pub const WEIGHTS: &str = "weights.parquet";

/// A checkpoint and what became of it.
pub struct Station {
    /// The checkpoint.
    pub revision: Revision,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a checkpoint.
pub enum Outcome {
    /// Its folder and manifest.
    Measured(PathBuf, Box<Manifest>),
    /// It could not be used.
    Skipped {
        /// How.
        status: Status,
        /// Why.
        reason: String,
    },
}

impl Outcome {
    /// It is not there.
    pub fn missing(reason: &str) -> Outcome {
        Outcome::Skipped { status: Status::Missing, reason: reason.to_owned() }
    }

    /// It cannot be used.
    pub fn broken(error: &Error) -> Outcome {
        Outcome::Skipped { status: Status::Broken, reason: error.to_string() }
    }

    /// The line that tells the user of a checkpoint that was skipped.
    pub fn warning(&self, revision: &Revision) -> Option<String> {
        match self {
            Outcome::Measured(..) => None,
            Outcome::Skipped { status, reason } => Some(skipped(&revision.name, status, reason)),
        }
    }
}

/// The line that tells the user of a checkpoint that was skipped.
pub fn skipped(revision: &str, status: &Status, reason: &str) -> String {
    let how = if *status == Status::Missing { "missing" } else { "broken" };
    format!("{revision} is {how} and was skipped: {reason}")
}

/// A revision as the name of a folder.
pub fn folder_name(revision: &str) -> String {
    revision.replace('/', "--")
}

/// Refuses a folder that holds the run of one checkpoint.
pub fn refuse_single_run(store: &Folder) -> Result<()> {
    match store.path(STATE).exists() {
        true => Err(Error::refused(line![
            format!("{} holds a run of one checkpoint; choose another ", store.path("").display()),
            setting("out")
        ])),
        false => Ok(()),
    }
}

/// Puts complete runs in `out/steps`, one a checkpoint, together as a trajectory. Returns its manifest.
pub fn join_steps(out: &Path, names: &[String]) -> Result<Manifest> {
    let start = Instant::now();
    let store = Folder::create(out)?;
    refuse_single_run(&store)?;
    let mut stations = Vec::with_capacity(names.len());
    for name in names {
        let folder = out.join("steps").join(folder_name(name));
        let absent = || Error::refused(format!("{}: no finished run here; measure this step first", folder.display()));
        let manifest = read_manifest(&folder)?.ok_or_else(absent)?;
        stations.push(Station { revision: Revision::new(name), outcome: Outcome::Measured(folder, Box::new(manifest)) });
    }
    write_trajectory(&store, &stations, start)
}

/// The tables over all steps, and the manifest last.
pub fn write_trajectory(store: &Folder, stations: &[Station], start: Instant) -> Result<Manifest> {
    let measured: Vec<(&Revision, &Path, &Manifest)> = stations
        .iter()
        .filter_map(|station| match &station.outcome {
            Outcome::Measured(folder, manifest) => Some((&station.revision, folder.as_path(), manifest.as_ref())),
            Outcome::Skipped { .. } => None,
        })
        .collect();
    let Some(&(last, _, manifest)) = measured.last() else {
        let first = stations.iter().find_map(|station| station.outcome.warning(&station.revision)).unwrap_or_default();
        return Err(Error::refused(format!("none of the {} checkpoints could be measured; {first}", stations.len())));
    };
    if let Some((other, ..)) = measured.iter().find(|(.., one)| one.corpus.fingerprint != manifest.corpus.fingerprint) {
        return Err(Error::changed(line![
            format!("{} was measured on other text than {}: the corpus changed; start again with ", other.name, last.name),
            setting("overwrite")
        ]));
    }
    let mut layers = Vec::new();
    let (mut norms, mut projections) = (Vec::new(), Vec::new());
    for (revision, folder, manifest) in &measured {
        let table = |name: &str| stored_table(folder, manifest, name)?.map(|table| table.read()).transpose();
        // States that came from elsewhere have no weights.
        for own in [table("layers")?, table(WEIGHTS.trim_end_matches(".parquet"))?].into_iter().flatten() {
            layers.push((*revision, own));
        }
        let missing = || Error::refused(format!("{}: norms.parquet is missing; measure this step again", folder.display()));
        norms.push((*revision, table("norms")?.ok_or_else(missing)?));
        // A step of a training in memory has no matrices of its own.
        projections.extend(table(PROJECTIONS.trim_end_matches(".parquet"))?.map(|own| (*revision, own)));
    }
    let mut files = Files::new();
    put_table(store, "layers.parquet", &stacked(&layers)?, &mut files)?;
    put_table(store, "norms.parquet", &stacked(&norms)?, &mut files)?;
    if !projections.is_empty() {
        put_table(store, PROJECTIONS, &stacked(&projections)?, &mut files)?;
    }
    let manifest = trajectory_manifest(stations, &measured, manifest, start.elapsed().as_secs_f64());
    put_manifest(store, Manifest { files: Some(files), ..manifest })
}

/// What is common to all checkpoints, and what became of each.
fn trajectory_manifest(stations: &[Station], measured: &[(&Revision, &Path, &Manifest)], like: &Manifest, seconds: f64) -> Manifest {
    let own = measured.iter().flat_map(|(revision, _, one)| one.warnings().iter().map(|warning| format!("{}: {warning}", revision.name)));
    let skipped = stations.iter().filter_map(|station| station.outcome.warning(&station.revision));
    let mut timings = Timings::default();
    measured.iter().filter_map(|(.., one)| one.timings.as_ref()).for_each(|own| timings.add(own));
    let checkpoint = |Station { revision, outcome }: &Station| {
        let (status, reason, fingerprint) = match outcome {
            Outcome::Measured(_, one) => (Status::Measured, None, one.model.fingerprint.clone()),
            Outcome::Skipped { status, reason } => (status.clone(), Some(reason.clone()), None),
        };
        Checkpoint {
            revision: revision.name.clone(),
            step: revision.step,
            status,
            reason,
            folder: Some(format!("steps/{}", folder_name(&revision.name))),
            fingerprint: Some(fingerprint),
            ..Checkpoint::default()
        }
    };
    Manifest {
        wall_seconds: Some(seconds),
        timings: Some(timings),
        warnings: Some(own.chain(skipped).collect()),
        trajectory: Some(stations.iter().map(checkpoint).collect()),
        ..like.begin_trajectory(command::words())
    }
}
