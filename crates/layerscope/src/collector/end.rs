//! From what was collected to a run on disk, by way of the same state files as every measurement.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::time::Instant;

use layerscope_report::Manifest;
use layerscope_report::manifest::Timings;
use layerscope_stats::PointState;
use layerscope_stats::sketch::{Kept as KeptState, SketchKind, Tensors};
use serde_json::Value;

use super::groups::{GroupKey, Groups};
use super::point::{CollectedPoint, document};
use super::{Collector, lock};
use crate::error::{Error, Result};
use crate::measure::event::{Event, Show};
use crate::measure::items::ItemId;
use crate::measure::kept::{Kept, KeptKey};
use crate::process::cancel::CancelToken;
use crate::process::command;
use crate::process::system;
use crate::store::facts::{CorpusFacts, Facts, GroupFacts, ModelFacts, PointFacts};
use crate::store::folder::Folder;
use crate::store::mirror::{self, Finished};
use crate::store::point_name::PointName;
use crate::store::state::{About, StateFile, write_state};
use crate::store::write::{Ended, Ending, LegStates, open_replacing, write_run, write_states};

impl Collector {
    /// Makes the tables of everything so far and writes a run; returns its manifest. `names` are what people call groups. More can be
    /// collected afterwards.
    pub fn finish(&self, out: &Path, names: &HashMap<String, String>, overwrite: bool) -> Result<Finished<Manifest>> {
        self.finish_shown(out, names, overwrite, &mut |_| {})
    }

    /// The same, and `show` hears how it goes on.
    pub fn finish_shown(
        &self,
        out: &Path,
        names: &HashMap<String, String>,
        overwrite: bool,
        show: &mut Show<'_>,
    ) -> Result<Finished<Manifest>> {
        mirror::into(out, &CancelToken::default(), show, |here, show| self.write(here, names, overwrite, show))
    }

    fn write(&self, out: &Path, names: &HashMap<String, String>, overwrite: bool, show: &mut Show<'_>) -> Result<Manifest> {
        let start = Instant::now();
        let places = self.places();
        if places.is_empty() {
            return Err(Error::usage("there are no states yet: update the collector first"));
        }
        let (store, mut work) = open_replacing(out, overwrite, &self.settings.fingerprint())?;
        let scratch = Folder::create_own(&work.path(""))?;
        let groups = lock(&self.groups).clone();
        let kept = self.kept_keys(&places);
        let about = About { fingerprint: self.settings.fingerprint(), details: Value::Null };
        let mut parts = Vec::with_capacity(places.len());
        let mut before = None;
        for &at in &places {
            let point = lock(&self.point(at)).clone();
            let name = at.stored();
            let mut tensors = Tensors::default();
            let state = stored_point(point, before, groups.len(), &kept);
            tensors.nest(&name, state.encode());
            write_state(&scratch, &format!("{name}.safetensors"), &about, &tensors)?.settle()?;
            parts.push(StateFile::open(&scratch.path(&format!("{name}.safetensors")))?);
            before = Some(at);
        }
        let mut facts = self.facts(&places, &groups, names)?;
        facts.seconds = start.elapsed().as_secs_f64();
        let written = write_states(&store, &about.fingerprint, &facts, &kept, &LegStates::OnDisk(parts), system::processors())?;
        work.retire()?;
        let manifest =
            write_run(&store, Some(Ended::Written(written)), &Ending::default(), &mut |done, of| show(Event::Tables { done, of }))?;
        work.remove();
        Ok(manifest)
    }

    /// Who is kept at any point: states of other points that lack one are not numbers there.
    fn kept_keys(&self, places: &[PointName]) -> Kept {
        let mut classes: Vec<BTreeSet<KeptKey>> = vec![BTreeSet::new(); self.settings.tokens.len() + 1];
        for &at in places {
            let point = self.point(at);
            let point = lock(&point);
            for (class, sample) in classes.iter_mut().zip(&point.samples) {
                class.extend(sample.iter().map(|kept| kept_key(&kept)));
            }
        }
        // The samples of points that saw different states may together be more than one sample.
        let capacity = |class: usize| if class == 0 { self.settings.sample_states } else { self.settings.token_states };
        Kept::from_classes(classes.into_iter().enumerate().map(|(class, keys)| keys.into_iter().take(capacity(class)).collect()).collect())
    }

    fn facts(&self, places: &[PointName], groups: &Groups, names: &HashMap<String, String>) -> Result<Facts> {
        let settings = &self.settings;
        let model = &settings.model;
        let counts = places.iter().map(|&at| lock(&self.point(at)).counts);
        let (documents, sequences, tokens) =
            counts.fold((0, 0, 0), |(d, s, r), counts| (d.max(counts.documents), s.max(counts.sequences), r.max(counts.rows)));
        let states = places.iter().map(|&at| self.states(at)).max().unwrap_or(0);
        Ok(Facts {
            command: command::words(),
            model: ModelFacts {
                name: model.name.clone(),
                revision: model.revision.clone(),
                fingerprint: String::new(),
                family: model.family.clone(),
                layers: places.iter().map(|at| at.layer as usize).max().unwrap_or(0),
                width: settings.dim,
                heads: model.heads,
                parameters: model.parameters,
                vocabulary: model.vocabulary,
                norms: String::new(),
                causal: model.causal,
                final_norm: places.iter().any(|at| at.is_final_norm()),
                diagram: String::new(),
                altered: None,
            },
            points: places.iter().map(|&at| PointFacts { at, predicted_q: None, massive: settings.massive_at(at), width: None }).collect(),
            corpus: CorpusFacts {
                fingerprint: String::new(),
                asked_for: Vec::new(),
                inputs: Vec::new(),
                stamps: Vec::new(),
                records: documents,
                documents,
                sequences,
                tokens,
                states,
                skipped: BTreeMap::new(),
                sentence_words: Vec::new(),
            },
            grouping: if groups.is_grouped() { settings.group.clone() } else { "none".to_owned() },
            frequency: groups.is_grouped().then_some(settings.frequency.0..=settings.frequency.1),
            settings: settings.shown(),
            groups: group_facts(groups, names),
            chosen: chosen(groups, names, &settings.tokens),
            token_states: settings.token_states,
            sample_states: settings.sample_states,
            families: settings.families()?.into_iter().map(|family| family.name().to_owned()).collect(),
            clusters: settings.clusters.clone(),
            norms: Vec::new(),
            shard: (0, 1),
            shards: Vec::new(),
            part: None,
            split: Vec::new(),
            isa: String::new(),
            kept_states: None,
            seconds: 0.0,
            timings: Timings::default(),
        })
    }
}

fn kept_key(kept: &KeptState<'_>) -> KeptKey {
    let (position, token) = (kept.key.position, kept.key.token);
    KeptKey { hash: kept.hash, item: ItemId { document: document(kept.key.document), position, token } }
}

/// A point as it is stored; `before` is the measured point before it.
fn stored_point(point: CollectedPoint, before: Option<PointName>, groups: usize, kept: &Kept) -> PointState {
    let CollectedPoint { mut state, samples, previous, .. } = point;
    state.moments.grow(groups);
    if previous.is_none() || previous != before {
        state.sketches.forget(SketchKind::Pairs);
    }
    let dim = state.dim();
    state.kept = vec![f32::NAN; kept.len() * dim];
    for ((start, keys), sample) in kept.starts().into_iter().zip(&kept.classes).zip(&samples) {
        for found in sample.iter() {
            if let Ok(row) = keys.binary_search(&kept_key(&found)) {
                state.kept[(start + row) * dim..][..dim].copy_from_slice(found.state);
            }
        }
    }
    state
}

/// The groups with their names, each with a raw name of its own.
fn group_facts(groups: &Groups, names: &HashMap<String, String>) -> Vec<GroupFacts> {
    let raw = raw_names(groups, names);
    let facts = |(key, raw): (&GroupKey, String)| GroupFacts {
        key: match key {
            GroupKey::Id(id) => Some(*id),
            GroupKey::Name(_) => None,
        },
        name: names.get(&key.text()).cloned().unwrap_or_else(|| key.text()),
        raw,
        subwords: 1,
        special: false,
    };
    groups.keys().iter().zip(raw).map(facts).collect()
}

fn raw_names(groups: &Groups, names: &HashMap<String, String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let raw = |key: &GroupKey| {
        let text = key.text();
        let raw = names.get(&text).cloned().unwrap_or_else(|| text.clone());
        if seen.insert(raw.clone()) { raw } else { format!("{raw} ({text})") }
    };
    groups.keys().iter().map(raw).collect()
}

/// The raw names of the groups whose states are kept; one without states keeps its own.
fn chosen(groups: &Groups, names: &HashMap<String, String>, tokens: &[String]) -> Vec<String> {
    let raw: HashMap<String, String> = groups.keys().iter().map(GroupKey::text).zip(raw_names(groups, names)).collect();
    tokens.iter().map(|token| raw.get(token).cloned().unwrap_or_else(|| token.clone())).collect()
}
