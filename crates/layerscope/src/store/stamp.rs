//! How inputs looked, so that one that changed is noticed without reading it.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// How a file looked when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputStamp {
    /// Its path.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// When it was last changed, in nanoseconds.
    pub modified: u64,
}

impl InputStamp {
    /// Of an input that is a file; others have none.
    pub fn of(path: &str) -> Option<InputStamp> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(InputStamp { path: path.to_owned(), bytes: metadata.len(), modified: nanoseconds(&metadata) })
    }

    /// Whether the file was last changed before another one.
    pub fn is_before(&self, other: &Path) -> bool {
        fs::metadata(other).is_ok_and(|other| self.modified < nanoseconds(&other))
    }

    /// Whether the file still looks so.
    pub fn is_unchanged(&self) -> bool {
        InputStamp::of(&self.path).as_ref() == Some(self)
    }
}

/// When a file was last changed.
fn nanoseconds(metadata: &fs::Metadata) -> u64 {
    metadata.modified().unwrap_or(UNIX_EPOCH).duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}
