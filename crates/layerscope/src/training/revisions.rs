//! Checkpoints of one training by name: which there are, and in which order they were made.

use std::path::PathBuf;
use std::sync::OnceLock;

use layerscope_model::hub::Hub;

use crate::error::{Error, Result};
use layerscope_error::{line, setting};

/// One checkpoint of a training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The folder's name, or the hub's branch or tag.
    pub name: String,
    /// The training step that the name tells.
    pub step: Option<i64>,
}

impl Revision {
    /// Reads the step out of the name.
    pub fn new(name: &str) -> Revision {
        Revision { name: name.to_owned(), step: step_of(name) }
    }
}

/// The step in `step1000`, `step1000-tokens2B`, `stage2-ingredient1-step1000-tokens3B`, `global_step1000`, `checkpoint-1000` or `1000`.
pub fn step_of(name: &str) -> Option<i64> {
    ["step", "checkpoint", "ckpt", "iter"].iter().find_map(|word| number_after(name, word)).or_else(|| name.parse().ok())
}

/// The number right after a word, perhaps behind a `-` or `_`.
fn number_after(name: &str, word: &str) -> Option<i64> {
    name.match_indices(word).find_map(|(at, _)| {
        let rest = name[at + word.len()..].trim_start_matches(['-', '_', '=']);
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    })
}

/// By stage, then by step; names that tell no step come last.
fn place(revision: &Revision) -> (i64, bool, Option<i64>, &str) {
    (number_after(&revision.name, "stage").unwrap_or(0), revision.step.is_none(), revision.step, &revision.name)
}

/// Where the checkpoints of a model are.
pub enum Source {
    /// A folder of folders.
    Folder(PathBuf),
    /// A model of the hub.
    Hub {
        /// The hub.
        hub: Box<Hub>,
        /// The model's id.
        model: String,
        /// Its branches and tags, once they were asked for.
        known: OnceLock<Vec<String>>,
    },
}

impl Source {
    /// The checkpoints of a hub model.
    pub fn hub(hub: Hub, model: &str) -> Source {
        Source::Hub { hub: Box::new(hub), model: model.to_owned(), known: OnceLock::new() }
    }

    /// The names there are to choose from.
    fn names(&self) -> Result<Vec<String>> {
        match self {
            Source::Hub { hub, model, known } => match known.get() {
                Some(names) => Ok(names.clone()),
                None => {
                    let names = hub.revisions(model)?;
                    Ok(known.get_or_init(|| names).clone())
                }
            },
            Source::Folder(folder) => {
                let entries = std::fs::read_dir(folder).map_err(|source| Error::io(folder, source))?;
                let folders = entries.flatten().filter(|entry| entry.path().is_dir());
                Ok(folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
            }
        }
    }

    /// The checkpoints that globs and names in a comma-separated list mean, each once, in the order of their training. A name
    /// that does not exist is among them, and missing later; a glob that matches nothing is refused.
    pub fn select(&self, list: &str) -> Result<Vec<Revision>> {
        let known = self.names()?;
        let mut chosen: Vec<Revision> = Vec::new();
        for wanted in list.split(',').map(str::trim) {
            let pattern = glob::Pattern::new(wanted)
                .ok()
                .filter(|_| !wanted.is_empty())
                .ok_or_else(|| Error::usage(line![setting("revisions"), format!(" `{wanted}` is not a name or a glob")]))?;
            let matching: Vec<&str> = known.iter().map(String::as_str).filter(|name| pattern.matches(name)).collect();
            match (matching.is_empty(), wanted.contains(['*', '?', '['])) {
                (true, true) => {
                    return Err(Error::usage(line![setting("revisions"), format!(" `{wanted}` matches none of {}", self.shown(&known))]));
                }
                (true, false) => chosen.push(Revision::new(wanted)),
                (false, _) => chosen.extend(matching.into_iter().map(Revision::new)),
            }
        }
        chosen.sort_by(|a, b| place(a).cmp(&place(b)));
        chosen.dedup();
        Ok(chosen)
    }

    /// Some of what there is, for an error message.
    fn shown(&self, known: &[String]) -> String {
        let place = match self {
            Source::Folder(folder) => format!("the folders in {}", folder.display()),
            Source::Hub { model, .. } => format!("the revisions of {model}"),
        };
        let mut names: Vec<&str> = known.iter().map(String::as_str).collect();
        names.sort_unstable();
        match names.len() {
            0 => format!("{place}; there are none"),
            1..=8 => format!("{place}: {}", names.join(", ")),
            count => format!("the {count} {}: {}, ...", place.trim_start_matches("the "), names[..8].join(", ")),
        }
    }

    /// The folder of a checkpoint, fetched where it must be; None where it does not exist.
    pub fn locate(&self, revision: &Revision) -> Result<Option<PathBuf>> {
        match self {
            Source::Folder(folder) => Ok(Some(folder.join(&revision.name)).filter(|folder| folder.is_dir())),
            Source::Hub { hub, model, .. } => match self.names()?.contains(&revision.name) {
                true => Ok(Some(hub.fetch(model, Some(&revision.name))?)),
                false => Ok(None),
            },
        }
    }

    /// Whether nothing must be fetched for a checkpoint.
    pub fn is_here(&self, revision: &Revision) -> bool {
        match self {
            Source::Folder(_) => true,
            Source::Hub { hub, model, .. } => hub.is_cached(model, &revision.name),
        }
    }

    /// Removes a fetched checkpoint from the hub's cache; folders of the user stay.
    pub fn evict(&self, revision: &Revision) -> Result<()> {
        match self {
            Source::Folder(_) => Ok(()),
            Source::Hub { hub, model, .. } => Ok(hub.evict(model, &revision.name)?),
        }
    }

    /// The folder whose tokenizer serves all checkpoints in a folder: the parent's, or the first checkpoint's that has one. A hub's
    /// checkpoints have their own.
    pub fn tokenizer(&self) -> Option<PathBuf> {
        let Source::Folder(parent) = self else { return None };
        let mut siblings: Vec<PathBuf> = std::fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        siblings.sort();
        [parent.clone()].into_iter().chain(siblings).find(|folder| folder.join("tokenizer.json").is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_out_of_names() {
        for (name, step) in [
            ("step1000", Some(1000)),
            ("step0", Some(0)),
            ("step1000-tokens2B", Some(1000)),
            ("stage1-step5000-tokens21B", Some(5000)),
            ("stage2-ingredient3-step700-tokens6B", Some(700)),
            ("global_step1000", Some(1000)),
            ("checkpoint-500", Some(500)),
            ("0042", Some(42)),
            ("main", None),
            ("stepless", None),
        ] {
            assert_eq!(step_of(name), step, "{name}");
        }
    }

    #[test]
    fn checkpoints_are_sorted_by_stage_and_step_not_by_letters() {
        let folder = std::env::temp_dir().join(format!("layerscope-revisions-{}", std::process::id()));
        for name in ["step512", "step8", "step16384", "main", "stage2-step1-tokens1B", "stage1-step99-tokens1B"] {
            std::fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        let source = Source::Folder(folder.clone());
        let names = |list: &str| source.select(list).map(|all| all.into_iter().map(|one| one.name).collect::<Vec<_>>());
        assert_eq!(names("step*").expect("some"), ["step8", "step512", "step16384"]);
        assert_eq!(names("stage*").expect("some"), ["stage1-step99-tokens1B", "stage2-step1-tokens1B"]);
        assert_eq!(names("main, step8,step9,step*").expect("some"), ["step8", "step9", "step512", "step16384", "main"]);
        let none = names("epoch*").expect_err("nothing matches").to_string();
        assert!(none.contains("`epoch*` matches none of the folders in") && none.contains("step512"), "{none}");
        assert!(names("").is_err());
        std::fs::remove_dir_all(folder).expect("removable");
    }
}
