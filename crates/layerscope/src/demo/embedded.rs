//! What a lone executable carries: two trained models and a slice of their text; and where the other pocket models are found.

use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use layerscope_error::meant;

use crate::error::{Error, Result};
use crate::process::temporary::{Located, TemporaryFolder};

/// A file's name and content, compressed.
type File = (&'static str, &'static [u8]);

/// The embedded models: name and files.
const MODELS: [(&str, [File; 4]); 2] = include!("../../assets/models.in");

/// Every eighth sentence of the pocket corpus.
const NOVELS: &[u8] = include_bytes!("../../assets/novels.txt.gz");

/// The embedded models by name: a post-norm encoder first, then a pre-norm decoder.
pub const NAMES: [&str; 2] = [MODELS[0].0, MODELS[1].0];

/// Writes an embedded model to a temporary folder, so that it is opened like any other; None for other names.
pub fn unpack(name: &str) -> Result<Option<Located>> {
    let Some((_, files)) = MODELS.iter().find(|(known, _)| *known == name) else { return Ok(None) };
    let folder = TemporaryFolder::create()?;
    for (name, compressed) in files {
        let mut content = Vec::new();
        GzDecoder::new(*compressed).read_to_end(&mut content).map_err(|source| Error::io(&folder.path().join(name), source))?;
        folder.write(name, &if name.ends_with(".safetensors") { interleaved(&content) } else { content })?;
    }
    Ok(Some(Located::within(folder.path().to_owned(), folder)))
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
            format!(
                "not one of the embedded models, {}{}; for others, run in a checkout of Layerscope, or set LAYERSCOPE_HOME to one",
                NAMES.join(" and "),
                meant(name, NAMES)
            ),
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
