//! Shards of one measurement into one run, one point in memory at a time.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Instant;

use layerscope_error::{line, setting};
use layerscope_report::Manifest;
use layerscope_report::manifest::Timings;
use layerscope_stats::PointState;
use layerscope_stats::sketch::Tensors;
use serde_json::{Value, json};

use super::facts::{BAD, Facts, GroupFacts, PointFacts};
use super::folder::Folder;
use super::mirror::{self, Finished};
use super::state::{About, Fingerprint, StateFile, differences, write_state};
use super::stored::StoredRun;
use super::work::Work;
use super::write::{Ended, Ending, LegStates, WrittenStates, open_replacing, write_run, write_states};
use crate::error::{Error, Result};
use crate::measure::event::{Event, Show};
use crate::measure::kept::{Kept, KeptKey};
use crate::process::cancel::CancelToken;
use crate::process::system;

/// How shards are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeSettings {
    /// Replace what is there.
    pub overwrite: bool,
    /// Also shards whose numbers were computed on different devices, or in different numbers.
    pub allow_devices: bool,
}

/// What a device decides in a run's fingerprint.
const DEVICE_KEYS: [&str; 2] = ["device", "--dtype"];

/// Merges the shards of one measurement into the run that a single worker would have made.
pub fn merge(
    shards: &[PathBuf],
    out: &Path,
    settings: MergeSettings,
    cancel: &CancelToken,
    show: &mut Show<'_>,
) -> Result<Finished<Manifest>> {
    into(shards, out, |folders, here| merge_folders(folders, here, settings, cancel, show))
}

/// The same for folders of this machine.
pub fn merge_folders(
    folders: &[PathBuf],
    out: &Path,
    settings: MergeSettings,
    cancel: &CancelToken,
    show: &mut Show<'_>,
) -> Result<Manifest> {
    let merging = "interrupted while runs were merged: they are as they were; the same command merges them again";
    cancel.during(merging);
    let (store, mut work, written, warning) = merge_states(folders, out, settings, true, &mut |done, of| {
        show(Event::Merging { done, of });
        cancel.check()
    })?;
    work.retire()?;
    let mut ending = Ending { warnings: warning.into_iter().collect(), ..Ending::default() };
    ending.resources.cancel = cancel.clone();
    let manifest = write_run(&store, Some(Ended::Written(written)), &ending, &mut |done, of| show(Event::Tables { done, of }))?;
    work.remove();
    Ok(manifest)
}

/// Merges some shards, or parts merged before, into a part of the run: its states, to be merged with the other parts.
pub fn merge_part(shards: &[PathBuf], out: &Path) -> Result<()> {
    let settled = |folders: &[PathBuf], here: &Path| {
        let settings = MergeSettings { overwrite: true, allow_devices: false };
        let (_, mut work, written, _) = merge_states(folders, here, settings, false, &mut |_, _| Ok(()))?;
        work.retire()?;
        written.settle()?;
        work.remove();
        Ok(())
    };
    into(shards, out, settled).map(drop)
}

/// Works on copies of shards that lie at addresses.
fn into<T>(shards: &[PathBuf], out: &Path, work: impl FnOnce(&[PathBuf], &Path) -> Result<T>) -> Result<Finished<T>> {
    let here = mirror::fetch_all(shards)?;
    let folders: Vec<PathBuf> = here.iter().map(|shard| shard.to_path_buf()).collect();
    mirror::into(out, &CancelToken::default(), &mut |_| {}, |here, _| work(&folders, here))
}

/// The states of a merged run, and what is worth a warning; `complete` if no shard may be missing.
fn merge_states(
    folders: &[PathBuf],
    out: &Path,
    settings: MergeSettings,
    complete: bool,
    show: &mut dyn FnMut(usize, usize) -> Result<()>,
) -> Result<(Folder, Work, WrittenStates, Option<String>)> {
    let start = Instant::now();
    let (shards, missing) = open_shards(folders, settings.allow_devices)?;
    if complete && !missing.is_empty() {
        let count = shards[0].facts.shard.1;
        return Err(Error::mismatch(format!("shard {} of {count} is missing: give all folders of the run", missing.join(", "))));
    }
    if let Some(shard) =
        folders.iter().find(|folder| folder.canonicalize().is_ok_and(|folder| out.canonicalize().is_ok_and(|out| out == folder)))
    {
        return Err(Error::refused(line![format!("{} is one of the shards; choose another ", shard.display()), setting("out")]));
    }
    let mut merged = Merged::of(&shards, missing.is_empty(), settings.allow_devices)?;
    let fingerprint = &shards[0].state.about().fingerprint;
    let (store, work) = open_replacing(out, settings.overwrite, fingerprint)?;
    let scratch = Folder::create_own(&work.path(""))?;
    let mut parts = Vec::with_capacity(merged.facts.points.len());
    for (done, point) in merged.facts.points.iter().enumerate() {
        show(done, merged.facts.points.len())?;
        let state = shards[0].computed(|| merged.point(&shards, point))?;
        let name = format!("{}.safetensors", point.at.stored());
        let mut tensors = Tensors::default();
        tensors.nest(&point.at.stored(), state.encode());
        write_state(&scratch, &name, &About { fingerprint: fingerprint.clone(), details: Value::Null }, &tensors)?.settle()?;
        parts.push(StateFile::open(&scratch.path(&name))?);
    }
    merged.facts.seconds += start.elapsed().as_secs_f64();
    merged.facts.timings.write += start.elapsed().as_secs_f64();
    let written = write_states(&store, fingerprint, &merged.facts, &merged.kept, &LegStates::OnDisk(parts), system::processors())?;
    Ok((store, work, written, merged.warning))
}

/// Merges every point and keeps nothing.
pub(crate) fn try_merge(shards: &[StoredRun]) -> Result<()> {
    let merged = Merged::of(shards, false, false)?;
    merged.facts.points.iter().try_for_each(|point| shards[0].computed(|| merged.point(shards, point)).map(drop))
}

/// A state's fingerprint but for what its device decided.
fn without_device(state: &StateFile) -> Fingerprint {
    let mut fingerprint = state.about().fingerprint.clone();
    fingerprint.retain(|key, _| !DEVICE_KEYS.contains(&key.as_str()));
    fingerprint
}

/// Whether a GPU computed some shards, but not all.
fn is_gpu_shared(shards: &[StoredRun]) -> bool {
    let on_gpu = shards.iter().filter(|shard| shard.state.about().fingerprint.contains_key("device")).count();
    (1..shards.len()).contains(&on_gpu)
}

/// What computed the shards, each once: the device, and the numbers of its products.
fn devices(shards: &[StoredRun]) -> (Vec<&str>, Vec<&str>) {
    let mut found: (Vec<&str>, Vec<&str>) = Default::default();
    for shard in shards {
        let dtype = shard.facts.settings.get("dtype").and_then(|dtype| dtype["value"].as_str()).unwrap_or_default();
        for (known, name) in [(&mut found.0, shard.facts.isa.as_str()), (&mut found.1, dtype)] {
            if !known.contains(&name) {
                known.push(name);
            }
        }
    }
    found
}

/// The shards in the order of their numbers, and those that are missing; refuses duplicates and strangers.
fn open_shards(folders: &[PathBuf], allow_devices: bool) -> Result<(Vec<StoredRun>, Vec<String>)> {
    let mut shards: BTreeMap<u32, StoredRun> = BTreeMap::new();
    let mut known: BTreeMap<u32, &Path> = BTreeMap::new();
    let mut first: Option<(StateFile, u32, &Path)> = None;
    for folder in folders {
        let run = StoredRun::open(folder)?;
        let count = run.facts.shard.1;
        match &first {
            None => first = Some((StateFile::open(run.state.path())?, count, folder)),
            Some((state, of, other)) => {
                let first_facts = &shards.values().next().map_or(&run, |first| first).facts;
                let compared = |state: &StateFile| if allow_devices { without_device(state) } else { state.about().fingerprint.clone() };
                let mut differing = differences(&compared(state), &compared(&run.state));
                if differing.is_empty() && *of != count {
                    differing = format!("it is one of {of} shards there and one of {count} here");
                }
                if differing.is_empty() && !is_alike(first_facts, &run.facts) {
                    differing = "other points, tokens or sizes of samples are in it".to_owned();
                }
                if !differing.is_empty() {
                    let line = format!("{} does not belong to {}: {differing}", folder.display(), other.display());
                    let is_device_alone = differences(&without_device(state), &without_device(&run.state)).is_empty() && *of == count;
                    return Err(Error::mismatch(match is_device_alone {
                        true => line![line, "; merge them all the same with ", setting("allow-devices")],
                        false => line.into(),
                    }));
                }
            }
        }
        for index in run.facts.parts() {
            if let Some(other) = known.insert(index, folder) {
                return Err(Error::mismatch(format!("{} and {} are both shard {index} of {count}", other.display(), folder.display())));
            }
        }
        shards.insert(run.facts.parts()[0], run);
    }
    let count = first.map_or(0, |(_, count, _)| count);
    let missing: Vec<u32> = (0..count).filter(|index| !known.contains_key(index)).take(NAMED + 1).collect();
    let named = missing.iter().take(NAMED).map(u32::to_string);
    let missing = named.chain((missing.len() > NAMED).then(|| "...".to_owned())).collect();
    match shards.is_empty() {
        true => Err(Error::usage("there are no shards to merge: give their folders".to_owned())),
        false => Ok((shards.into_values().collect(), missing)),
    }
}

/// So many missing shards are named.
const NAMED: usize = 20;

/// Whether two parts have states of the same points and keep states of the same tokens.
fn is_alike(one: &Facts, other: &Facts) -> bool {
    let points = |facts: &Facts| facts.points.iter().map(|point| (point.at, facts.width_of(point))).collect::<Vec<_>>();
    let kept = |facts: &Facts| (facts.chosen.clone(), facts.token_states, facts.sample_states);
    points(one) == points(other) && kept(one) == kept(other)
}

/// What is known before any point is merged.
struct Merged {
    facts: Facts,
    /// For every shard, the merged number of each of its groups.
    names: Vec<Vec<u32>>,
    kept: Kept,
    /// For every key its shard and its place there.
    sources: Vec<(usize, usize)>,
    /// What every shard keeps.
    shards: Vec<Kept>,
    /// Whether shards may have been computed differently, and where they were.
    allow_devices: bool,
    warning: Option<String>,
}

impl Merged {
    fn of(shards: &[StoredRun], complete: bool, allow_devices: bool) -> Result<Merged> {
        let groups = all_groups(shards);
        let number: HashMap<&str, u32> = groups.iter().enumerate().map(|(number, group)| (group.raw.as_str(), number as u32)).collect();
        let names = shards.iter().map(|shard| shard.facts.groups.iter().map(|group| number[group.raw.as_str()]).collect()).collect();
        let own: Vec<Kept> = shards.iter().map(StoredRun::kept).collect::<Result<_>>()?;
        let (kept, sources) = all_kept(shards, &own);
        let mut facts = shards[0].facts.clone();
        let sum = |of: fn(&Facts) -> u64| shards.iter().map(|shard| of(&shard.facts)).fold(0, u64::saturating_add);
        facts.corpus.documents = sum(|facts| facts.corpus.documents);
        facts.corpus.sequences = sum(|facts| facts.corpus.sequences);
        facts.corpus.tokens = sum(|facts| facts.corpus.tokens);
        facts.corpus.states = sum(|facts| facts.corpus.states);
        for (reason, count) in shards[1..].iter().flat_map(|shard| &shard.facts.corpus.skipped).filter(|(reason, _)| *reason != BAD) {
            let sum = facts.corpus.skipped.entry(reason.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        let mut lengths: BTreeMap<u64, u64> = BTreeMap::new();
        for (words, count) in shards.iter().flat_map(|shard| &shard.facts.corpus.sentence_words) {
            let sum = lengths.entry(*words).or_default();
            *sum = sum.saturating_add(*count);
        }
        facts.corpus.sentence_words = lengths.into_iter().collect();
        if complete {
            let count = facts.shard.1;
            facts.settings.insert("shard".to_owned(), json!({ "value": null, "from": format!("merge of {count}") }));
        }
        let (isas, dtypes) = devices(shards);
        facts.isa = isas.join(" and ");
        let differ = is_gpu_shared(shards) || dtypes.len() > 1;
        let warning = differ.then(|| {
            format!("the shards were computed on {}, in {}; the sample of states is of one of these alone", facts.isa, dtypes.join(" and "))
        });
        if dtypes.len() > 1 {
            facts.settings.insert("dtype".to_owned(), json!({ "value": dtypes.join(" and "), "from": "merge" }));
        }
        facts.kept_states = shards.iter().find_map(|shard| shard.facts.kept_states.clone());
        facts.command = crate::process::command::words();
        let mut parts: Vec<u32> = shards.iter().flat_map(|shard| shard.facts.parts()).collect();
        parts.sort_unstable();
        (facts.shard, facts.shards) = if complete { ((0, 1), Vec::new()) } else { ((parts[0], facts.shard.1), parts) };
        if complete {
            facts.join_parts(shards.iter().filter_map(|shard| shard.facts.part.clone()).collect());
        }
        facts.seconds = shards.iter().map(|shard| shard.facts.seconds).sum();
        facts.timings = Timings::default();
        shards.iter().for_each(|shard| facts.timings.add(&shard.facts.timings));
        drop(number);
        facts.groups = groups;
        Ok(Merged { facts, names, kept, sources, shards: own, allow_devices, warning })
    }

    /// All shards' states of one point.
    fn point(&self, shards: &[StoredRun], point: &PointFacts) -> Result<PointState> {
        let dim = self.facts.width_of(point);
        let mut merged: Option<PointState> = None;
        for (number, (shard, names)) in shards.iter().zip(&self.names).enumerate() {
            let mut state = shard.point(point.at)?;
            let merged = merged.get_or_insert_with(|| state.emptied(self.facts.groups.len(), self.kept.states()));
            if self.allow_devices {
                state.set_massive_threshold(merged.moments.massive_threshold());
            }
            merged.merge_renamed(&state, names)?;
            drop(state);
            let own = &self.shards[number];
            let kept = shard.kept_states(point.at, own)?;
            for (&row, &(_, source)) in self.kept.rows().iter().zip(&self.sources).filter(|(_, (from, _))| *from == number) {
                let source = own.rows()[source] as usize;
                merged.kept[row as usize * dim..][..dim].copy_from_slice(&kept[source * dim..][..dim]);
            }
        }
        merged.ok_or_else(|| Error::mismatch("nothing to merge".to_owned()))
    }
}

/// The groups of all shards, in the order of the tables.
fn all_groups(shards: &[StoredRun]) -> Vec<GroupFacts> {
    let groups = shards.iter().flat_map(|shard| &shard.facts.groups);
    let ordered: BTreeMap<(Option<u64>, &str), &GroupFacts> = groups.map(|group| ((group.key, group.raw.as_str()), group)).collect();
    ordered.into_values().cloned().collect()
}

/// The device that computed a shard, as far as its numbers depend on it.
fn device_of(shard: &StoredRun) -> Vec<Option<&Value>> {
    DEVICE_KEYS.iter().map(|key| shard.state.about().fingerprint.get(*key)).collect()
}

/// Which shards give the sample of states: those of the device that computed most. States that are equal on one device differ a little
/// between two, and neighbours that near would be measured.
fn sampled(shards: &[StoredRun]) -> Vec<bool> {
    let as_many = |shard: &StoredRun| shards.iter().filter(|other| device_of(other) == device_of(shard)).count();
    let most = shards.iter().rev().max_by_key(|shard| as_many(shard)).map(device_of);
    shards.iter().map(|shard| Some(device_of(shard)) == most).collect()
}

/// The states that a single run would have kept, and where each of them is.
fn all_kept(shards: &[StoredRun], kept: &[Kept]) -> (Kept, Vec<(usize, usize)>) {
    let facts = &shards[0].facts;
    let starts: Vec<Vec<usize>> = kept.iter().map(Kept::starts).collect();
    let sampled = sampled(shards);
    let (mut classes, mut sources) = (Vec::new(), Vec::new());
    for class in 0..=facts.chosen.len() {
        let capacity = if class == 0 { facts.sample_states } else { facts.token_states };
        let of = |(shard, kept): (usize, &Kept)| {
            let start = starts[shard][class];
            kept.classes[class]
                .iter()
                .enumerate()
                .map(move |(row, key)| (*key, (shard, start + row)))
                .collect::<Vec<(KeptKey, (usize, usize))>>()
        };
        let mut all: Vec<(KeptKey, (usize, usize))> =
            kept.iter().enumerate().filter(|(shard, _)| class > 0 || sampled[*shard]).flat_map(of).collect();
        all.sort_by_key(|(key, _)| *key);
        all.truncate(capacity);
        classes.push(all.iter().map(|(key, _)| *key).collect());
        sources.extend(all.into_iter().map(|(_, source)| source));
    }
    let merged = Kept::from_classes(classes);
    // As the shards do: where states came from elsewhere, a point may have one of the two and lack the other.
    let is_shared = kept.iter().all(|kept| kept.rows() == kept.clone().sharing().rows());
    (if is_shared { merged.sharing() } else { merged }, sources)
}
