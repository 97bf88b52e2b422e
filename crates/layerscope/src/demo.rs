//! The embedded checkpoint, and what can be shown with nothing else installed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use layerscope_compute::{Cpu, States};
use layerscope_model::{Batch, Model, Observer, Point};

use crate::error::{Error, Result};
use crate::inspect::Inspection;

const FILES: [(&str, &[u8]); 2] = [
    ("config.json", include_bytes!("../assets/tiny/config.json")),
    ("model.safetensors", include_bytes!("../assets/tiny/model.safetensors")),
];
const SEQUENCES: &str = include_str!("../assets/tiny/sequences.json");

/// A folder that disappears with this value.
#[derive(Debug)]
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Nothing can be done about a folder that stays, and it does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes the embedded checkpoint to a temporary folder, so that it is opened like any other.
pub fn unpack() -> Result<TemporaryFolder> {
    static UNPACKED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = UNPACKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("layerscope-demo-{}-{number}", std::process::id()));
    std::fs::create_dir(&folder).map_err(|source| Error::io(&folder, source))?;
    let folder = TemporaryFolder(folder);
    for (name, content) in FILES {
        let file = folder.path().join(name);
        std::fs::write(&file, content).map_err(|source| Error::io(&file, source))?;
    }
    Ok(folder)
}

/// What the demonstration shows.
#[derive(Debug)]
pub struct Demo {
    /// The embedded checkpoint.
    pub inspection: Inspection,
    /// Mean Euclidean norm of the states at every point.
    pub mean_norms: Vec<(Point, f64)>,
    /// Sequences and tokens that went through the model.
    pub counts: (usize, usize),
}

/// Inspects the embedded checkpoint and runs a forward pass, looking at the norm of the states at every point.
pub fn run(threads: usize) -> Result<Demo> {
    let folder = unpack()?;
    let mut inspection = Inspection::with_probe(folder.path(), threads, Duration::from_millis(500))?;
    inspection.folder = "the embedded model".to_owned();

    let sequences: Vec<Vec<u32>> = serde_json::from_str(SEQUENCES).unwrap_or_default(); // invariant: a test reads this asset
    let batch = Batch::pack(&sequences);
    let transformer = Model::open(folder.path())?.load(Cpu::new())?;
    let norms = MeanNorms::default();
    transformer.forward(&batch, &mut transformer.workspace(batch.tokens()), &norms)?;
    let mean_norms = norms.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    Ok(Demo { inspection, mean_norms, counts: (batch.sequences(), batch.tokens()) })
}

#[derive(Default)]
struct MeanNorms(Mutex<Vec<(Point, f64)>>);

impl Observer<Cpu> for MeanNorms {
    type Error = layerscope_model::Error;

    fn observe(&self, _: &Batch, at: Point, states: &States<Cpu>) -> layerscope_model::Result<()> {
        let norm = |row: &[f32]| row.iter().map(|&x| x as f64 * x as f64).sum::<f64>().sqrt();
        let sum: f64 = states.as_slice().chunks_exact(states.width).map(norm).sum();
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((at, sum / states.rows as f64));
        Ok(())
    }
}

impl fmt::Display for Demo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.inspection)?;
        let (sequences, tokens) = self.counts;
        writeln!(out, "A forward pass over {sequences} sequences of {tokens} tokens; mean norm of the states:\n")?;
        let longest = self.mean_norms.iter().map(|(_, norm)| *norm).fold(f64::MIN_POSITIVE, f64::max);
        for (at, norm) in &self.mean_norms {
            let bar = "█".repeat((norm / longest * 40.0).round() as usize);
            writeln!(out, "  {:<10} {norm:>8.3}  {bar}", at.to_string())?;
        }
        writeln!(out, "\nTry it on a checkpoint of yours:\n\n  layerscope inspect --model FOLDER-OR-HUB-ID")
    }
}
