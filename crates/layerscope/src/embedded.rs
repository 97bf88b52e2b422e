//! What a lone executable carries: two trained models and a slice of their text; and where the other pocket models are found.

use std::io::Read;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::read::GzDecoder;

use crate::error::{Error, Result};

/// A file's name and content, compressed.
type File = (&'static str, &'static [u8]);

/// The embedded models: name and files.
const MODELS: [(&str, [File; 4]); 2] = include!("../assets/models.in");

/// Every fifth sentence of the pocket corpus.
const NOVELS: &[u8] = include_bytes!("../assets/novels.txt.gz");

/// The embedded models by name: a post-norm encoder first, then a pre-norm decoder.
pub const NAMES: [&str; 2] = [MODELS[0].0, MODELS[1].0];

/// A folder that disappears with this value.
#[derive(Debug)]
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    pub(crate) fn create() -> Result<TemporaryFolder> {
        static CREATED: AtomicUsize = AtomicUsize::new(0);
        loop {
            let number = CREATED.fetch_add(1, Ordering::Relaxed);
            let folder = std::env::temp_dir().join(format!("layerscope-{}-{number}", std::process::id()));
            match std::fs::create_dir(&folder) {
                // Left by a killed process that had the same number.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| TemporaryFolder(folder.clone())).map_err(|source| Error::io(&folder, source)),
            }
        }
    }

    /// A folder that exists already.
    pub(crate) fn of(folder: PathBuf) -> TemporaryFolder {
        TemporaryFolder(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let file = self.0.join(name);
        std::fs::write(&file, content).map_err(|source| Error::io(&file, source))?;
        Ok(file)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Nothing can be done about a folder that stays, and it does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The folder of a model or a run; a temporary one disappears with this value.
#[derive(Debug)]
pub struct Located {
    path: PathBuf,
    _temporary: Option<TemporaryFolder>,
}

impl Located {
    /// A place in a temporary folder.
    pub(crate) fn within(path: PathBuf, temporary: TemporaryFolder) -> Located {
        Located { path, _temporary: Some(temporary) }
    }
}

impl Deref for Located {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl From<PathBuf> for Located {
    fn from(path: PathBuf) -> Located {
        Located { path, _temporary: None }
    }
}

/// Writes an embedded model to a temporary folder, so that it is opened like any other; None for other names.
pub fn unpack(name: &str) -> Result<Option<Located>> {
    let Some((_, files)) = MODELS.iter().find(|(known, _)| *known == name) else { return Ok(None) };
    let folder = TemporaryFolder::create()?;
    for (name, compressed) in files {
        let mut content = Vec::new();
        GzDecoder::new(*compressed).read_to_end(&mut content).map_err(|source| Error::io(&folder.path().join(name), source))?;
        folder.write(name, &if name.ends_with(".safetensors") { interleaved(&content) } else { content })?;
    }
    Ok(Some(Located { path: folder.path().to_owned(), _temporary: Some(folder) }))
}

/// The bytes of the first half at even places and those of the second at odd ones.
fn interleaved(planes: &[u8]) -> Vec<u8> {
    let (even, odd) = planes.split_at(planes.len() / 2);
    even.iter().zip(odd).flat_map(|(even, odd)| [*even, *odd]).collect()
}

/// Writes the embedded text to a temporary file of the given folder.
pub fn unpack_text() -> Result<(PathBuf, TemporaryFolder)> {
    let folder = TemporaryFolder::create()?;
    Ok((folder.write("novels.txt.gz", NOVELS)?, folder))
}

/// The folder of a model that is named `pocket-...`: in LAYERSCOPE_HOME, in the checkout around the current folder or around the
/// program, or the embedded copy. None for other names.
pub fn locate(name: &str) -> Result<Option<Located>> {
    if !name.starts_with("pocket-") || name.contains(['/', '\\']) {
        return Ok(None);
    }
    if let Some(folder) = on_disk(name) {
        return Ok(Some(folder.into()));
    }
    match unpack(name)? {
        Some(located) => Ok(Some(located)),
        None => Err(Error::Model(layerscope_model::Error::hub(
            name,
            format!("not among the embedded models ({}); run in a checkout of Layerscope, or set LAYERSCOPE_HOME to one", NAMES.join(", ")),
        ))),
    }
}

/// Where a pocket model lies with all its checkpoints.
fn on_disk(name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("LAYERSCOPE_HOME").map(PathBuf::from);
    let at_home = home.into_iter().flat_map(|home| [home.join("pocket").join(name), home.join(name)]);
    let around = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let in_checkout = around.iter().flatten().flat_map(|place| place.ancestors()).map(|folder| folder.join("pocket").join(name));
    at_home.chain(in_checkout).find(|folder| folder.join("config.json").is_file())
}
