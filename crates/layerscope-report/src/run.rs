//! A finished run, read back from its folder.

use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::export::parquet::{StoredTable, file_as_written};
use crate::manifest::{self, Checkpoint, Manifest, Status};
use crate::table::Table;
use crate::text::distinct;

/// The tables and the manifest of one finished run.
///
/// Tables of measures that the run did not compute are absent.
#[derive(Clone, Debug)]
pub struct Run {
    /// The folder it was read from.
    pub folder: PathBuf,
    /// What was measured, how, and on what.
    pub manifest: Manifest,
    /// One row per point, selection and measure.
    pub layers: Table,
    /// One row per point and group.
    pub groups: Option<Table>,
    /// One row per point and component of the states.
    pub components: Option<Table>,
    /// The eigenvalues of the covariance at every point.
    pub spectra: Option<Table>,
    /// The kept states of the chosen tokens, projected.
    pub tokens: Option<Table>,
    /// Statistics of every gamma and beta.
    pub norms: Option<Table>,
}

impl Run {
    /// Reads the run in `folder`. A run without a manifest is not finished and is refused.
    pub fn open(folder: &Path) -> Result<Run> {
        let small = Run::open_small(folder)?;
        let table = |name: &str| small.read_table(name);
        Ok(Run {
            groups: table("groups")?,
            components: table("components")?,
            spectra: table("spectra")?,
            tokens: table("tokens")?,
            ..small
        })
    }

    /// The same without the tables that grow with layers times groups, components or states.
    pub fn open_small(folder: &Path) -> Result<Run> {
        let manifest = Manifest::read(folder)?;
        let read = |name: &str| stored_table(folder, &manifest, name)?.map(|table| table.read()).transpose();
        Ok(Run {
            folder: folder.to_path_buf(),
            layers: read("layers")?.ok_or_else(|| Error::file(folder, "layers.parquet is missing"))?,
            norms: read("norms")?,
            manifest,
            groups: None,
            components: None,
            spectra: None,
            tokens: None,
        })
    }

    /// A label for every run: the model's name, with the folder's name where runs share a model. Labels are distinct.
    ///
    /// Everything that names runs to people uses these labels; the tables of figures name the model itself.
    pub fn labels(runs: &[&Run]) -> Vec<String> {
        let label = |run: &&Run| {
            let shared = runs.iter().filter(|other| other.model() == run.model()).count() > 1;
            let folder = run.folder.file_name().unwrap_or_default().to_string_lossy();
            if shared && folder != run.model() { format!("{} ({folder})", run.model()) } else { run.model().to_owned() }
        };
        distinct(runs.iter().map(label).collect())
    }

    /// The model's short name.
    pub fn model(&self) -> &str {
        self.manifest.model_name()
    }

    /// A table of the folder that [`Run::open`] does not read, such as `projections`; `None` if there is none.
    pub fn read_table(&self, name: &str) -> Result<Option<Table>> {
        stored_table(&self.folder, &self.manifest, name)?.map(|table| table.read()).transpose()
    }

    /// The measured checkpoints of a trajectory, in the order of training; empty for a single run.
    pub fn steps(&self) -> Vec<Step> {
        Step::all(&self.folder, &self.manifest)
    }
}

/// A table of the finished run in a folder, which is what its manifest says; `None` where the run has no such table.
///
/// Everything that reads a table of a run opens it here. Runs of older programs have no digests: theirs are whatever lies there.
pub fn stored_table(folder: &Path, manifest: &Manifest, name: &str) -> Result<Option<StoredTable>> {
    let file = format!("{name}.parquet");
    let path = folder.join(&file);
    match &manifest.files {
        Some(files) => files.get(&file).map(|written| StoredTable::open_as_written(&path, written)).transpose(),
        None => path.exists().then(|| StoredTable::open(&path)).transpose(),
    }
}

/// Reads every table of the finished run in a folder and compares it with its digest.
pub fn verify_tables(folder: &Path, manifest: &Manifest) -> Result<()> {
    let files = manifest.files.iter().flatten();
    files.into_iter().try_for_each(|(file, written)| file_as_written(&folder.join(file), written).map(drop))
}

/// The parts that the manifest of a run names and its folder holds, in order.
pub fn run_parts(run: &Path, manifest: &Manifest) -> Vec<PathBuf> {
    let parts = manifest.split.iter().flatten().map(|part| Path::new(&part.folder));
    parts.filter(|folder| is_run_inside(run, folder)).map(|folder| run.join(folder)).collect()
}

/// Whether a folder that a manifest names holds a finished run, and does not lead out of the folder of the manifest's run.
fn is_run_inside(run: &Path, folder: &Path) -> bool {
    folder.components().all(|part| matches!(part, Component::Normal(_))) && run.join(folder).join(manifest::FILE).exists()
}

/// A measured checkpoint of a trajectory: a complete run in a folder of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its revision.
    pub revision: String,
    /// Its training step, if known.
    pub step: Option<i64>,
    /// The folder of its run.
    pub folder: PathBuf,
}

/// The measured checkpoints that the manifest of a trajectory names and its folder holds, in the order of training.
pub fn run_steps(run: &Path, manifest: &Manifest) -> Vec<Step> {
    Step::all(run, manifest)
}

impl Step {
    /// Those that a manifest names and a folder holds.
    pub(crate) fn all(run: &Path, manifest: &Manifest) -> Vec<Step> {
        let step = |checkpoint: &Checkpoint| {
            let folder = Path::new(checkpoint.folder.as_deref()?);
            let finished = checkpoint.status == Status::Measured && is_run_inside(run, folder);
            let folder = run.join(folder);
            finished.then(|| Step { revision: checkpoint.revision.clone(), step: checkpoint.step, folder })
        };
        let mut steps: Vec<Step> = manifest.checkpoints().iter().filter_map(step).collect();
        steps.sort_by_key(|step| step.step);
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::parquet;
    use crate::table::Column;

    #[test]
    fn a_run_is_read_back_and_an_unfinished_one_refused() {
        let folder = std::env::temp_dir().join(format!("layerscope-run-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let unfinished = Run::open(&folder).unwrap_err().to_string();
        assert!(unfinished.contains("no finished run"), "{unfinished}");
        std::fs::write(folder.join("manifest.json"), r#"{"model": {"name": "tiny"}}"#).unwrap();
        let missing = Run::open(&folder).unwrap_err().to_string();
        assert!(missing.ends_with("layers.parquet is missing"), "{missing}");
        let layers = Table::new([("layer", Column::Integer(vec![Some(0)]))]).unwrap();
        let mut bytes = Vec::new();
        parquet::write(&layers, &mut bytes).unwrap();
        std::fs::write(folder.join("layers.parquet"), bytes).unwrap();
        let run = Run::open(&folder).unwrap();
        assert_eq!((run.model(), &run.layers, run.groups.is_none()), ("tiny", &layers, true));
        assert_eq!((run.read_table("layers").unwrap(), run.read_table("projections").unwrap()), (Some(layers), None));
        assert!(run.steps().is_empty());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn steps_are_finished_runs_inside_the_folder() {
        let folder = std::env::temp_dir().join(format!("layerscope-steps-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("steps/a")).unwrap();
        std::fs::create_dir_all(folder.join("steps/b")).unwrap();
        for name in ["manifest.json", "steps/a/manifest.json", "steps/b/manifest.json"] {
            std::fs::write(folder.join(name), "{}").unwrap();
        }
        let entry =
            |folder: &str, step: i64, status: &str| serde_json::json!({"revision": "r", "step": step, "status": status, "folder": folder});
        let outside = folder.file_name().unwrap().to_str().unwrap();
        let manifest = serde_json::json!({"trajectory": [
            entry("steps/b", 9, "measured"), entry("steps/a", 1, "measured"), entry("steps/a", 2, "broken"), entry("steps/c", 3, "measured"),
            entry(&format!("../{outside}"), 4, "measured"), entry(folder.to_str().unwrap(), 5, "measured"),
        ]});
        let manifest = serde_json::from_value(manifest).unwrap();
        let layers = Table::new([("layer", Column::Integer(vec![]))]).unwrap();
        let run =
            Run { folder: folder.clone(), manifest, layers, groups: None, components: None, spectra: None, tokens: None, norms: None };
        let found: Vec<(Option<i64>, PathBuf)> = run.steps().into_iter().map(|step| (step.step, step.folder)).collect();
        assert_eq!(found, [(Some(1), folder.join("steps/a")), (Some(9), folder.join("steps/b"))]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
