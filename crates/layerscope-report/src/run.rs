//! A finished run, read back from its folder.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::export::parquet;
use crate::table::Table;

/// The tables and the manifest of one finished run.
///
/// Tables that belong to measures the run did not compute are absent.
#[derive(Clone, Debug)]
pub struct Run {
    /// Where it was read from.
    pub folder: PathBuf,
    /// What was measured, how, and on what.
    pub manifest: Value,
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
    /// Reads the run in `folder`; one without a manifest is not finished and is refused.
    pub fn open(folder: &Path) -> Result<Run> {
        let path = folder.join("manifest.json");
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::file(folder, "no finished run here (manifest.json is written last); resume it first"),
            _ => Error::file(&path, error.to_string()),
        })?;
        let manifest = serde_json::from_str(&text).map_err(|error| Error::file(&path, error.to_string()))?;
        let table = |name: &str| {
            let path = folder.join(name);
            path.exists().then(|| parquet::read(&path)).transpose()
        };
        let layers = table("layers.parquet")?.ok_or_else(|| Error::file(folder, "layers.parquet is missing"))?;
        Ok(Run {
            folder: folder.to_path_buf(),
            manifest,
            layers,
            groups: table("groups.parquet")?,
            components: table("components.parquet")?,
            spectra: table("spectra.parquet")?,
            tokens: table("tokens.parquet")?,
            norms: table("norms.parquet")?,
        })
    }

    /// The model's short name.
    pub fn model(&self) -> &str {
        self.manifest["model"]["name"].as_str().unwrap_or("model")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        std::fs::remove_dir_all(folder).unwrap();
    }
}
