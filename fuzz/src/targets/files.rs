//! Files for readers that take a path. They are written again for every input, so the folder should be one in memory:
//! `tools/fuzz.sh` sets `TMPDIR` to such a one.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The folder of this process.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("layerscope-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    })
}

/// A file with this content, at this path below the folder.
pub fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = folder().join(name);
    if std::fs::write(&path, content).is_err() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, content).expect("a file");
    }
    path
}
