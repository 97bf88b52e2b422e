//! A finished or finishing run, read back: its states and who they are.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use layerscope_corpus::DocumentId;
use layerscope_error::{line, setting};
use layerscope_report::Manifest;
use layerscope_stats::PointState;
use layerscope_stats::sketch::{SketchKind, Sketches, Tensor, Tensors, Values};

use super::facts::{Facts, PointFacts};
use super::kept_samples::KeptSamples;
use super::point_name::PointName;
use super::state::StateFile;
use crate::error::{Error, Result};
use crate::measure::estimate::while_computed;
use crate::measure::items::ItemId;
use crate::measure::kept::{Kept, KeptKey};
use crate::tables::make::{PointSource, Resources, Tables, norm_tables, tables};

/// Everything needed to merge or to recompute the tables.
pub const STATE: &str = "state.safetensors";
/// The kept states.
pub const SAMPLE: &str = "sample.safetensors";
/// Where a state says which kept states belong to it.
pub const SAMPLE_DIGEST: &str = "sample";
/// Where rounded kept states say of which ones they are.
pub const ROUNDED_OF: &str = "rounded_of";
/// Where a state without numbers says of which one it is.
pub const PRUNED: &str = "pruned";
/// Written last.
pub const MANIFEST: &str = "manifest.json";

/// The manifest of the run in a folder, if the run got so far.
pub fn read_manifest(folder: &Path) -> Result<Option<Manifest>> {
    let path = folder.join(MANIFEST);
    if !path.exists() {
        return Ok(None);
    }
    let text = std::fs::read(&path).map_err(|source| Error::io(&path, source))?;
    let again = |problem| Error::damaged(&path, format!("{problem}; give the command of the run again to make it anew"));
    Manifest::from_sealed(&text).map(Some).map_err(again)
}

/// The two state files of a run.
pub struct StoredRun {
    /// The sketches.
    pub state: StateFile,
    /// The kept states; None where they were [pruned](super::prune), as the numbers of the state were.
    sample: Option<StateFile>,
    /// Everything else.
    pub facts: Facts,
}

impl StoredRun {
    /// Opens the run in a folder.
    pub fn open(folder: &Path) -> Result<StoredRun> {
        let path = folder.join(STATE);
        if !folder.exists() {
            return Err(Error::refused(format!("{}: there is no such folder", folder.display())));
        }
        if !path.exists() {
            return Err(Error::refused(format!(
                "{}: no finished run here; run `layerscope measure` into it first, or resume it",
                folder.display()
            )));
        }
        let run = StoredRun::of_files(&path, &folder.join(SAMPLE))?;
        // Where the run is finished, its manifest says which state its tables are of.
        let expected = read_manifest(folder).ok().flatten().and_then(|manifest| manifest.state);
        let is_own = |expected: &str| [Some(run.state.digest()), run.pruned_of()].contains(&Some(expected));
        match expected.is_none_or(|expected| is_own(&expected)) {
            true => Ok(run),
            false => {
                Err(Error::mismatch(format!("{} belongs to another run than manifest.json beside it; put its own back", path.display())))
            }
        }
    }

    /// Opens the run in two files.
    pub fn of_files(state: &Path, sample: &Path) -> Result<StoredRun> {
        StoredRun::of_states(StateFile::open(state)?, || StateFile::open(sample))
    }

    /// Of two states that belong together; a pruned run has no sample.
    pub fn of_states(state: StateFile, sample: impl FnOnce() -> Result<StateFile>) -> Result<StoredRun> {
        let facts = serde_json::from_value(state.about().details.clone())
            .map_err(|error| Error::damaged(state.path(), format!("unreadable details ({error})")))?;
        let mut run = StoredRun { state, sample: None, facts };
        if run.pruned_of().is_some() {
            return Ok(run);
        }
        let (sample, state) = (sample()?, &run.state);
        sample.expect(&state.about().fingerprint)?;
        // Shards have one fingerprint: only the digest tells their samples apart. Older programs wrote none.
        let rounded_of = sample.about().details[ROUNDED_OF].as_str();
        if state.about().details[SAMPLE_DIGEST].as_str().is_some_and(|own| own != sample.digest() && Some(own) != rounded_of) {
            let line = format!("{} belongs to another run or shard than {}", sample.path().display(), state.path().display());
            return Err(Error::mismatch(format!("{line}; put its own back, or measure again")));
        }
        if rounded_of.is_some() {
            run.facts.kept_states = Some("f16".to_owned());
        }
        run.sample = Some(sample);
        run.check_points()?;
        Ok(run)
    }

    /// The digest of the state that this one was before its numbers were pruned.
    pub fn pruned_of(&self) -> Option<&str> {
        self.state.about().details[PRUNED].as_str()
    }

    /// The kept states, unless they were pruned.
    pub(super) fn sample(&self) -> Result<&StateFile> {
        self.sample.as_ref().ok_or_else(|| {
            let folder = self.state.path().parent().unwrap_or(self.state.path());
            let line = format!("{}: its states were pruned and only its tables are left; measure again with ", folder.display());
            Error::refused(line![line, setting("overwrite")])
        })
    }

    /// The details name the points that have numbers, each once.
    fn check_points(&self) -> Result<()> {
        let named: Vec<String> = self.facts.points.iter().map(|point| point.at.stored()).collect();
        let distinct: BTreeSet<&str> = named.iter().map(String::as_str).collect();
        let prefix = |name: &str| name.match_indices('.').nth(1).map_or(name.len(), |(at, _)| at);
        let stored: BTreeSet<&str> = self.state.names().map(|name| &name[..prefix(name)]).collect();
        match distinct.len() == named.len() && distinct == stored {
            true => Ok(()),
            false => Err(self.damaged("its details name other points than it has numbers of".to_owned())),
        }
    }

    /// The state of one point; its kept states are left on disk.
    pub fn point(&self, at: PointName) -> Result<PointState> {
        self.sample()?;
        let mut tensors = self.state.read(&at.stored())?;
        if let Some(name) = tensors.not_finite() {
            return Err(self.damaged(format!("`{}.{name}` has numbers that are not finite", at.stored())));
        }
        let state = PointState::decode(&mut tensors)?;
        let expected =
            (self.facts.groups.len(), self.facts.points.iter().find(|point| point.at == at).map(|point| self.facts.width_of(point)));
        match (state.moments.group_count(), Some(state.dim())) == expected {
            true => Ok(state),
            false => Err(self.damaged(format!("{at} has other groups or components than its details say"))),
        }
    }

    /// Computes with what the file holds. Its checksums are right and still its numbers may make no sense: that is an error, not a panic.
    pub fn computed<T>(&self, compute: impl FnOnce() -> Result<T>) -> Result<T> {
        catch_unwind(AssertUnwindSafe(compute)).unwrap_or_else(|_| Err(self.damaged("its contents do not fit together".to_owned())))
    }

    fn damaged(&self, problem: String) -> Error {
        Error::damaged(self.state.path(), format!("{problem}; it is damaged or of another program; measure again"))
    }

    /// The kept states of one point, as they are stored.
    pub fn kept_states(&self, at: PointName, kept: &Kept) -> Result<Vec<f32>> {
        let (sample, count) = (self.sample()?, kept.states() * self.width(at));
        match sample.read(&at.stored())?.0.remove("kept").map(|tensor| tensor.values) {
            Some(Values::F32(values)) if values.len() == count => Ok(values.into_owned()),
            _ => Err(Error::damaged(sample.path(), format!("no kept states of {at}, or not as many as it names"))),
        }
    }

    fn width(&self, at: PointName) -> usize {
        self.facts.points.iter().find(|point| point.at == at).map_or(0, |point| self.facts.width_of(point))
    }

    /// Who the kept states are.
    pub fn kept(&self) -> Result<Kept> {
        let sample = self.sample()?;
        let mut tensors = sample.read("keys")?;
        let rows = tensors.0.remove("row").map(|tensor| tensor.values);
        let mut column = |name: &str| match tensors.0.remove(name).map(|tensor| tensor.values) {
            Some(Values::U64(values)) => Ok(values.into_owned()),
            _ => Err(Error::damaged(sample.path(), format!("no column `keys.{name}`"))),
        };
        let (class, hash, file, record) = (column("class")?, column("hash")?, column("file")?, column("record")?);
        let (chunk, position, token) = (column("chunk")?, column("position")?, column("token")?);
        if [&hash, &file, &record, &chunk, &position, &token].iter().any(|other| other.len() != class.len()) {
            return Err(Error::damaged(sample.path(), "the columns of `keys` differ in length"));
        }
        let mut classes: Vec<Vec<KeptKey>> = vec![Vec::new(); self.facts.chosen.len() + 1];
        for (i, &class) in class.iter().enumerate() {
            let document = DocumentId { file: file[i] as u32, record: record[i], chunk: chunk[i] as u32 };
            let item = ItemId { document, position: position[i] as u32, token: token[i] as u32 };
            let place = classes.get_mut(class as usize).ok_or_else(|| Error::damaged(sample.path(), "a kept state without a class"))?;
            place.push(KeptKey { hash: hash[i], item });
        }
        if !class.is_sorted() || !classes.iter().all(|keys| keys.is_sorted_by(|a, b| a < b)) {
            return Err(Error::damaged(sample.path(), "the kept states are not in their order"));
        }
        let kept = Kept::from_classes(classes);
        // Older programs gave every key a row.
        let Some(Values::U64(rows)) = rows else { return Ok(kept) };
        let is = |kept: &Kept| kept.rows().iter().map(|row| u64::from(*row)).eq(rows.iter().copied());
        match is(&kept) {
            true => Ok(kept),
            false => Some(kept.sharing()).filter(is).ok_or_else(|| Error::damaged(sample.path(), "the kept states have other rows")),
        }
    }

    /// All tables, computed from the state.
    pub fn tables(&self, resources: &Resources, show: &mut dyn FnMut(usize, usize)) -> Result<Tables> {
        self.computed(|| tables(&self.facts, &StoredPoints::new(self)?, resources, show))
    }

    /// The tables of norms and cosines alone.
    pub fn norm_tables(&self) -> Result<Tables> {
        self.computed(|| norm_tables(&self.facts, &StoredPoints::new(self)?))
    }
}

/// Who the kept states are, column by column.
pub fn key_tensors(kept: &Kept) -> Tensors<'static> {
    let mut tensors = Tensors::default();
    let keys: Vec<(usize, &KeptKey)> =
        kept.classes.iter().enumerate().flat_map(|(class, keys)| keys.iter().map(move |key| (class, key))).collect();
    let mut put = |name: &str, of: &dyn Fn(usize, &KeptKey) -> u64| {
        let values: Vec<u64> = keys.iter().map(|(class, key)| of(*class, key)).collect();
        tensors.0.insert(format!("keys.{name}"), Tensor { shape: vec![values.len()], values: Values::U64(Cow::Owned(values)) });
    };
    put("class", &|class, _| class as u64);
    put("hash", &|_, key| key.hash);
    put("file", &|_, key| u64::from(key.item.document.file));
    put("record", &|_, key| key.item.document.record);
    put("chunk", &|_, key| u64::from(key.item.document.chunk));
    put("position", &|_, key| u64::from(key.item.position));
    put("token", &|_, key| u64::from(key.item.token));
    let rows: Vec<u64> = kept.rows().iter().map(|row| u64::from(*row)).collect();
    tensors.0.insert("keys.row".to_owned(), Tensor { shape: vec![rows.len()], values: Values::U64(Cow::Owned(rows)) });
    tensors
}

/// Bytes while the tables of a point of a file are made: its state and the next point's as they are read, kept states, and what is computed.
pub fn memory_for_tables(file: &StateFile, point: &PointFacts, facts: &Facts, kept: &KeptSamples) -> u64 {
    let (at, dim) = (point.at.stored(), facts.width_of(point));
    let state = point_bytes(file, &at, (facts.groups.len(), dim));
    let has_covariance = SketchKind::Covariance.row().is_some_and(|row| file.bytes(&format!("{at}.{}", row.prefix)) > 0);
    let computed = while_computed(dim, kept.sample_len(), has_covariance, !facts.clusters.is_empty());
    (2 * state + kept.bytes(dim) + computed) as u64
}

/// Bytes of a point of a file once it is read: vectors of groups are there again then.
fn point_bytes(file: &StateFile, at: &str, (groups, dim): (usize, usize)) -> usize {
    let of_groups = |name: &str| file.bytes_of(&format!("{at}.moments.groups.{name}"));
    let vectors = if of_groups("unit") > 0 { 2 } else { 1 } * groups * dim * size_of::<f64>();
    file.bytes(at) + vectors.saturating_sub(of_groups("mean") + of_groups("unit"))
}

/// The points of a stored run.
struct StoredPoints<'a> {
    run: &'a StoredRun,
    kept: KeptSamples,
}

impl<'a> StoredPoints<'a> {
    fn new(run: &'a StoredRun) -> Result<StoredPoints<'a>> {
        Ok(StoredPoints { run, kept: KeptSamples::new(run.kept()?, &run.facts) })
    }
}

impl PointSource for StoredPoints<'_> {
    fn memory(&self, point: &PointFacts) -> u64 {
        memory_for_tables(&self.run.state, point, &self.run.facts, &self.kept)
    }

    fn state(&self, point: &PointFacts) -> Result<Cow<'_, PointState>> {
        self.run.point(point.at).map(Cow::Owned)
    }

    fn sketches(&self, point: &PointFacts) -> Result<Cow<'_, Sketches>> {
        let sketches = Sketches::decode_from(|prefix| self.run.state.read(&format!("{}.{prefix}", point.at.stored())));
        sketches.map(Cow::Owned)
    }

    fn samples(&self) -> &KeptSamples {
        &self.kept
    }

    fn kept_states<'s>(&self, point: &PointFacts, _: &'s PointState) -> Result<Cow<'s, [f32]>> {
        self.run.kept_states(point.at, self.kept.keys()).map(Cow::Owned)
    }
}
