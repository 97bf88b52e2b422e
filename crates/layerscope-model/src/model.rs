//! A checkpoint, a folder or a GGUF file: its family, what it computes, and which tensors that takes.

use std::path::{Path, PathBuf};

use layerscope_compute::Backend;

use crate::checkpoint::{Checkpoint, gguf_in, is_gguf};
use crate::config::ConfigReader;
use crate::error::{Error, Result};
use crate::families::{Family, gguf};
use crate::foreign;
use crate::leg::Leg;
use crate::load_watch::LoadWatch;
use crate::point::Point;
use crate::requirements::TensorPlan;
use crate::spec::ModelSpec;
use crate::transformer::Transformer;

/// A checkpoint whose configuration was read and whose tensors were all accounted for; no weights in memory yet.
#[derive(Debug)]
pub struct Model {
    /// Its folder, or its GGUF file.
    pub folder: PathBuf,
    /// Which family it belongs to.
    pub family: &'static Family,
    /// What it computes.
    pub spec: ModelSpec,
    /// Its tensors.
    pub checkpoint: Checkpoint,
    /// Which tensor goes where.
    pub plan: TensorPlan,
    /// Whether the configuration says that input and output embedding are one matrix.
    pub ties_embeddings: bool,
    /// How its norms were altered, if they were.
    pub altered: Option<String>,
    /// Keys of the configuration that Layerscope does not know.
    pub unknown_keys: Vec<String>,
}

/// More than any model has; larger numbers are damage.
const MOST_POSITIONS: usize = 1 << 28;

impl Model {
    /// Reads the configuration and the headers of the weights in a folder, or of a GGUF file.
    pub fn open(folder: &Path) -> Result<Model> {
        if let Some(file) = gguf_in(folder)? {
            return Model::open_gguf(&file);
        }
        if is_gguf(folder) {
            return Model::open_gguf(folder);
        }
        let file = folder.join("config.json");
        if folder.is_dir() && !file.exists() {
            let problem = "no config.json here; a checkpoint is a folder with config.json and weights, or a GGUF file";
            return Err(Error::file(folder, format!("{problem}{}", foreign::in_folder(folder))));
        }
        let mut config = ConfigReader::open(&file)?;
        let family = Family::of(&mut config)?;
        let spec = (family.spec)(&mut config);
        let ties_embeddings = config.flag_or("tie_word_embeddings", true);
        let unknown_keys = config.finish()?;
        check_positions(&file, &spec)?;
        let checkpoint = Checkpoint::open(folder)?;
        let plan = TensorPlan::new(&spec, family.names, &checkpoint)?;
        Ok(Model { folder: folder.to_owned(), family, spec, checkpoint, plan, ties_embeddings, altered: None, unknown_keys })
    }

    fn open_gguf(file: &Path) -> Result<Model> {
        let checkpoint = Checkpoint::open(file)?;
        let metadata = checkpoint.metadata().ok_or_else(|| Error::file(file, "not a GGUF file"))?;
        let (family, stored, mut config) = gguf::configuration(&checkpoint, metadata)?;
        let mut spec = (family.spec)(&mut config);
        let ties_embeddings = config.flag_or("tie_word_embeddings", true);
        let unknown_keys = config.finish()?;
        check_positions(file, &spec)?;
        gguf::adapt(&mut spec, &checkpoint)?;
        let plan = TensorPlan::new(&spec, stored.names, &checkpoint)?;
        Ok(Model { folder: file.to_owned(), family, spec, checkpoint, plan, ties_embeddings, altered: None, unknown_keys })
    }

    /// Reads the weights onto a backend.
    pub fn load<B: Backend>(&self, backend: B) -> Result<Transformer<B>> {
        let last = self.spec.points().last().copied().unwrap_or(Point::Embedding);
        self.load_leg(backend, Leg::up_to(last), 1, &LoadWatch::default())
    }

    /// Reads those that a leg needs, several blocks at a time. `watch` counts what is read, and stops it.
    pub fn load_leg<B: Backend>(&self, backend: B, leg: Leg, threads: usize, watch: &LoadWatch) -> Result<Transformer<B>> {
        watch.expect(self.plan.leg_bytes(&self.checkpoint, &self.spec, leg));
        Transformer::load(backend, self, leg, threads, watch)
    }
}
/// Refuses a number of positions that no text has.
fn check_positions(file: &Path, spec: &ModelSpec) -> Result<()> {
    match spec.max_positions.filter(|most| *most > MOST_POSITIONS) {
        Some(most) => Err(Error::config(file, format!("{most} positions are more than any model has; {MOST_POSITIONS} are possible"))),
        None => Ok(()),
    }
}
