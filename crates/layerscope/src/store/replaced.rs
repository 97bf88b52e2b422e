//! A run that is being replaced stays whole until the new one has its first checkpoint.
//!
//! A finished run stays where it is. What an unfinished one needs to go on is put aside inside `.work`: moved into a folder that gets its
//! name once all of it is there. So whatever a killed process leaves, the next one knows whose files these are.

use std::fs;
use std::path::Path;

use super::folder::clear;
use super::lock::LOCK;
use crate::error::{Error, Result};

/// What belongs to the run that is being replaced.
const ASIDE: &str = "replaced";
/// The same while it is being moved, in whichever direction: all of it belongs back.
const MOVING: &str = "replaced.partial";
/// Puts the unfinished run in a working folder aside.
pub fn put_aside(work: &Path) -> Result<()> {
    let moving = work.join(MOVING);
    fs::create_dir(&moving).map_err(|source| Error::io(&moving, source))?;
    move_all(work, &moving)?;
    rename(&moving, &work.join(ASIDE))
}

/// Whether an unfinished run was put aside.
pub fn is_aside(work: &Path) -> bool {
    work.join(ASIDE).exists()
}

/// Ends what a killed process left half done: a run that was put aside comes back, unless the new one has states of its own.
pub fn recover(work: &Path) -> Result<()> {
    if work.join(MOVING).exists() {
        return finish_return(work);
    }
    match (is_aside(work), has_states(work)) {
        (true, true) => forget(work),
        (true, false) => bring_back(work),
        (false, _) => Ok(()),
    }
}

/// Removes everything of the new run and brings back what was put aside.
pub fn bring_back(work: &Path) -> Result<()> {
    let (aside, moving) = (work.join(ASIDE), work.join(MOVING));
    for entry in entries(work)? {
        if entry != aside && entry != work.join(LOCK) {
            let removed = if entry.is_dir() && !entry.is_symlink() { fs::remove_dir_all(&entry) } else { fs::remove_file(&entry) };
            removed.map_err(|source| Error::io(&entry, source))?;
        }
    }
    rename(&aside, &moving)?;
    finish_return(work)
}

/// Removes what was put aside.
pub fn forget(work: &Path) -> Result<()> {
    let aside = work.join(ASIDE);
    match fs::remove_dir_all(&aside) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&aside, source)),
        _ => Ok(()),
    }
}

/// Removes everything but the lock.
pub fn empty(work: &Path) -> Result<()> {
    clear(work, LOCK)
}

fn finish_return(work: &Path) -> Result<()> {
    let moving = work.join(MOVING);
    move_all(&moving, work)?;
    fs::remove_dir(&moving).map_err(|source| Error::io(&moving, source))
}

fn move_all(from: &Path, to: &Path) -> Result<()> {
    for entry in entries(from)? {
        let name = entry.file_name().unwrap_or_default();
        if name != LOCK && entry != to {
            rename(&entry, &to.join(name))?;
        }
    }
    Ok(())
}

fn has_states(work: &Path) -> bool {
    let is_state = |name: &str| name.starts_with("checkpoint-") || name.starts_with("leg-");
    entries(work).is_ok_and(|entries| entries.iter().filter_map(|path| path.file_name()?.to_str()).any(is_state))
}

fn entries(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let failed = |source| Error::io(folder, source);
    fs::read_dir(folder).map_err(failed)?.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|source| Error::io(from, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            entries(folder).expect("a folder").iter().map(|path| path.file_name().expect("a name").to_string_lossy().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_old_run_comes_back_until_the_new_one_has_states() {
        let work = std::env::temp_dir().join(format!("layerscope-replaced-{}", std::process::id()));
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(&work).expect("a folder");
        let old = ["checkpoint-0-1.safetensors", "plan.json", "spool"];
        for name in old.iter().chain(&["lock"]) {
            fs::write(work.join(name), "old").expect("written");
        }
        let whole = ["checkpoint-0-1.safetensors", "lock", "plan.json", "spool"];
        put_aside(&work).expect("moved");
        assert_eq!(names(&work), ["lock", "replaced"]);
        // Killed before the first checkpoint.
        fs::write(work.join("plan.json"), "new").expect("written");
        recover(&work).expect("moved");
        assert_eq!(names(&work), whole);
        assert_eq!(fs::read_to_string(work.join("plan.json")).expect("a plan"), "old");
        // Killed while files were moved.
        fs::create_dir(work.join(MOVING)).expect("a folder");
        fs::rename(work.join("spool"), work.join(MOVING).join("spool")).expect("moved");
        recover(&work).expect("moved");
        assert_eq!(names(&work), whole);
        // Killed right after the first checkpoint.
        put_aside(&work).expect("moved");
        fs::write(work.join("checkpoint-0-0.safetensors"), "new").expect("written");
        recover(&work).expect("removed");
        assert_eq!(names(&work), ["checkpoint-0-0.safetensors", "lock"]);
        fs::remove_dir_all(&work).expect("removed");
    }
}
