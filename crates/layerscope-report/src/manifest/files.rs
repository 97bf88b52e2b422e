//! What binds the files of a run to its manifest: their digests, and a seal over the manifest itself.

use std::fs::File;
use std::io::{self, Read, Seek};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Manifest;

/// The key of the seal, the last one of a manifest.
const SEAL: &str = "seal";

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// A file of a run as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDigest {
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of all of it.
    pub sha256: String,
}

impl FileDigest {
    /// Of a file with this content.
    pub fn of(content: &[u8]) -> FileDigest {
        FileDigest { bytes: content.len() as u64, sha256: hexadecimal(Sha256::new_with_prefix(content)) }
    }

    /// Of an open file, which is at its start afterwards.
    pub(crate) fn of_file(file: &mut File) -> io::Result<FileDigest> {
        let mut hasher = Sha256::new();
        let (mut piece, mut bytes) = (vec![0; PIECE], 0);
        file.rewind()?;
        loop {
            let count = file.read(&mut piece)?;
            if count == 0 {
                file.rewind()?;
                return Ok(FileDigest { bytes, sha256: hexadecimal(hasher) });
            }
            hasher.update(&piece[..count]);
            bytes += count as u64;
        }
    }
}

/// SHA-256 of some bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

fn hexadecimal(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Manifest {
    /// With a seal over everything else, as it is written.
    pub fn sealed(self) -> serde_json::Result<Manifest> {
        let open = Manifest { seal: None, ..self };
        let seal = sha256(serde_json::to_value(&open)?.to_string().as_bytes());
        Ok(Manifest { seal: Some(seal), ..open })
    }

    /// A manifest from its bytes; one whose content differs from its seal is an error in words. Older programs wrote neither digests nor a
    /// seal: with digests alone, the name of the seal is damaged.
    pub fn from_sealed(bytes: &[u8]) -> Result<Manifest, String> {
        let mut value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let stated = value.as_object_mut().and_then(|keys| keys.shift_remove(SEAL));
        match stated {
            Some(stated) if stated != sha256(value.to_string().as_bytes()) => {
                Err("damaged, or changed since it was written: its content does not match its seal".to_owned())
            }
            None if manifest.files.is_some() => Err("damaged, or changed since it was written: its seal is missing".to_owned()),
            _ => Ok(manifest),
        }
    }
}
