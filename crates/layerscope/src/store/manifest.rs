//! Manifests from what a run knows.

use layerscope_compute::{Backend, Cpu};
use layerscope_report::manifest::{CorpusCounts, Frequency, Host, Identity, MeasuredPoint, ModelFacts, Setting, Shard, Timings};
use layerscope_report::{Manifest, Table};

use super::facts::{self, Facts};
use crate::process::{command, system};
use crate::tables::make::Tables;
use crate::tables::summary::few_groups;
use crate::text::counted;

/// An identity that is further off than this is a defect of the program or of the machine.
const SUSPICIOUS: f64 = 1e-9;

/// What every manifest says.
pub fn begun(model: &facts::ModelFacts) -> Manifest {
    Manifest {
        format: Some(1),
        program: Some(env!("CARGO_PKG_VERSION").to_owned()),
        command: Some(command::words()),
        model: model.into(),
        ..Manifest::default()
    }
}

/// What was measured, how, on what, and whether the numbers can be trusted.
pub fn of_run(facts: &Facts, tables: &Tables, (wall_seconds, timings): (f64, Timings), warnings: &[String]) -> Manifest {
    let identities = identities(&tables.identities);
    let states = facts.corpus.states.saturating_mul(facts.points.len() as u64);
    let point = |point: &facts::PointFacts| MeasuredPoint {
        layer: point.at.layer.into(),
        point: point.at.point().to_owned(),
        ..MeasuredPoint::default()
    };
    Manifest {
        command: Some(facts.command.clone()),
        points: Some(facts.points.iter().map(point).collect()),
        corpus: CorpusCounts {
            fingerprint: Some(facts.corpus.fingerprint.clone()),
            inputs: Some(facts.corpus.inputs.clone()),
            records: Some(facts.corpus.records),
            documents: Some(facts.corpus.documents),
            sequences: Some(facts.corpus.sequences),
            tokens: Some(facts.corpus.tokens),
            states: Some(facts.corpus.states),
            groups: Some(facts.groups.len() as u64),
            skipped: Some(facts.corpus.skipped.clone()),
            ..CorpusCounts::default()
        },
        shard: Some(Shard { index: facts.shard.0, count: facts.shard.1 }),
        part: facts.part.as_ref().map(|part| part.value.clone()),
        split: (!facts.split.is_empty()).then(|| facts.split.clone()),
        grouping: Some(facts.grouping.clone()),
        frequency: Some(facts.frequency.as_ref().map(|range| Frequency { minimum: *range.start(), maximum: *range.end() })),
        sentence_words: Some(facts.corpus.sentence_words.clone()),
        settings: Some(facts.settings.iter().map(|(name, value)| (name.clone(), setting(value))).collect()),
        massive_thresholds: Some(facts.points.iter().map(|point| point.massive).collect()),
        host: Some(host(facts)),
        wall_seconds: Some(wall_seconds),
        timings: Some(timings),
        states_per_second: Some(if wall_seconds > 0.0 { states as f64 / wall_seconds } else { 0.0 }),
        peak_memory_bytes: Some(system::peak()),
        warnings: Some(all_warnings(facts, tables, &identities, warnings)),
        identities: Some(identities),
        notes: Some(tables.notes.clone()),
        kept_states: facts.kept_states.clone(),
        ..begun(&facts.model)
    }
}

fn setting(value: &serde_json::Value) -> Setting {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

fn all_warnings(facts: &Facts, tables: &Tables, identities: &[Identity], warnings: &[String]) -> Vec<String> {
    let mut warnings = warnings.to_vec();
    let off = identities.iter().filter(|row| row.residual.is_none_or(|residual| residual > SUSPICIOUS)).count();
    if off > 0 {
        let off = if off == 1 { "1 identity does".to_owned() } else { format!("{off} identities do") };
        warnings.push(format!("{off} not hold to {SUSPICIOUS}: see `layerscope show --table identities`"));
    }
    if tables.excluded > 0 {
        warnings.push(format!("{} not finite and left out", counted_were(tables.excluded, "state")));
    }
    let left_out = |(reason, count): (&String, &u64)| format!("{} left out: {reason}", counted_were(*count, "document"));
    warnings.extend(facts.corpus.skipped.iter().map(left_out));
    let frequency = facts.frequency.as_ref().map(|range| Frequency { minimum: *range.start(), maximum: *range.end() });
    warnings.extend(few_groups(&tables.layers, frequency));
    warnings
}

/// `1 document was`, `2 documents were`.
fn counted_were(count: u64, thing: &str) -> String {
    format!("{} {}", counted(count, thing), if count == 1 { "was" } else { "were" })
}

fn host(facts: &Facts) -> Host {
    Host {
        name: std::fs::read_to_string("/etc/hostname").map(|name| name.trim().to_owned()).unwrap_or_default(),
        cores: system::processors() as u64,
        isa: if facts.isa.is_empty() { Cpu::new().describe() } else { facts.isa.clone() },
        ..Host::default()
    }
}

fn identities(table: &Table) -> Vec<Identity> {
    let identity = |row: usize| Identity {
        layer: table.integer("layer", row),
        point: table.text("point", row).map(str::to_owned),
        selection: table.text("selection", row).map(str::to_owned),
        identity: table.text("identity", row).map(str::to_owned),
        residual: table.real("residual", row),
        n: table.integer("n", row),
        ..Identity::default()
    };
    (0..table.rows()).map(identity).collect()
}

impl From<&facts::ModelFacts> for ModelFacts {
    fn from(facts: &facts::ModelFacts) -> ModelFacts {
        ModelFacts {
            name: Some(facts.name.clone()),
            revision: facts.revision.clone(),
            fingerprint: Some(facts.fingerprint.clone()),
            family: Some(facts.family.clone()),
            layers: Some(facts.layers as u64),
            width: Some(facts.width as u64),
            heads: Some(facts.heads as u64),
            parameters: Some(facts.parameters as u64),
            vocabulary: Some(facts.vocabulary as u64),
            norms: Some(facts.norms.clone()),
            causal: Some(facts.causal),
            final_norm: Some(facts.final_norm),
            diagram: Some(facts.diagram.clone()),
            altered: facts.altered.clone(),
            ..ModelFacts::default()
        }
    }
}
