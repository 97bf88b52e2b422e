//! Values on disk that must not change unnoticed.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::folder::Folder;
use crate::error::{Error, Result};

/// A value as it lies on disk: one wrong digit of a threshold must not go unnoticed.
#[derive(Serialize, Deserialize)]
struct Sealed {
    checksum: u32,
    #[serde(rename = "plan")]
    value: Value,
}

/// CRC-32 of a value as JSON.
fn checksum(value: &Value) -> u32 {
    crc32fast::hash(value.to_string().as_bytes())
}

/// The value in a file, if the file is there.
pub fn read_sealed<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match std::fs::read(path) {
        Ok(bytes) => {
            let sealed = serde_json::from_slice(&bytes).ok().filter(|sealed: &Sealed| sealed.checksum == checksum(&sealed.value));
            let value = sealed.and_then(|sealed| serde_json::from_value(sealed.value).ok());
            value.map(Some).ok_or_else(|| Error::damaged(path, "damaged"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, error)),
    }
}

/// Writes a value as a file of a folder.
pub fn write_sealed(store: &Folder, name: &str, value: &impl Serialize) -> Result<()> {
    let failed = |error: serde_json::Error| Error::io(&store.path(name), error.into());
    let value = serde_json::to_value(value).map_err(failed)?;
    let text = serde_json::to_vec_pretty(&Sealed { checksum: checksum(&value), value }).map_err(failed)?;
    store.put_atomic(name, |out| out.write_all(&text))
}
