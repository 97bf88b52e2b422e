//! A measurement split by a column: a run for each of its values, one after another, merged into the run of the whole text.
//!
//! A part is a shard, chosen by a value instead of a number: all parts keep states of the same tokens and have the same thresholds. Parts stay
//! as runs of their own. The same command goes on with the part where it was, and merges in the end.

use std::path::{Path, PathBuf};

use layerscope_corpus::{Shard, split_values};
use layerscope_error::{line, setting};
use layerscope_report::Manifest;
use layerscope_report::manifest::Part;
use layerscope_report::text::distinct;

use super::event::{Event, Show};
use super::plan::{Plan, TextPlan};
use super::run::measure_whole;
use crate::error::{Error, Result};
use crate::process::cancel::CancelToken;
use crate::store::folder::{Folder, Tentative};
use crate::store::merge::{MergeSettings, merge_folders};
use crate::store::mirror;
use crate::store::stored::{MANIFEST, STATE};
use crate::text::counted;

/// Where the parts are.
const SPLIT: &str = "split";
/// The part of documents without a value.
const NONE: &str = "none";
/// Characters of a value in names.
const LONGEST: usize = 60;

/// The documents of one value of a column.
#[derive(Clone, Debug)]
pub struct PartPlan {
    /// The value; None for documents without one.
    pub value: Option<String>,
    /// How the run names it, and its folder in that of the whole.
    pub named: Part,
}

/// Carries out a plan for each value of its column. Returns the manifest of the whole.
pub fn measure(plan: Plan, folder: &Path, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Manifest> {
    for (is_there, name) in [(plan.text.shard.count > 1, "shard"), (plan.devices.len() > 1, "device")] {
        if is_there {
            let asked = plan.choices.text(name).unwrap_or_default();
            return Err(Error::usage(line![setting("split"), " does not go with ", setting(name).to(asked), "; leave out one of them"]));
        }
    }
    if plan.out.join(STATE).exists() && !plan.overwrite {
        // Complete, or all but the tables.
        return measure_whole(plan, folder, None, cancel, show);
    }
    let parts = plan.out.join(SPLIT);
    if plan.resume && !parts.exists() {
        let line = line![format!("{}: no unfinished run to resume; leave out ", plan.out.display()), setting("resume"), " to begin one"];
        return Err(Error::refused(line));
    }
    let _tentative = Tentative::new(&parts);
    Folder::create(&parts)?;
    let plans = parts_of(&plan, &parts, cancel, show)?;
    let count = plans.len();
    let (mut is_told, mut warned) = (false, Vec::new());
    for (number, part) in plans.iter().enumerate() {
        let value = part.text.part.as_ref().map_or("", |part| &part.named.value);
        cancel.during(format!("interrupted before part {} of {count}: the same command goes on with it", number + 1));
        cancel.check()?;
        // The whole comes after its parts.
        show(Event::Part { number: number + 1, of: count + 1 });
        let is_complete = part.out.join(MANIFEST).exists() && !part.overwrite;
        show(Event::note(format!("part {} of {count}: {value}{}", number + 1, if is_complete { " (complete)" } else { "" })));
        measure_whole(part.clone(), folder, None, cancel, &mut |event| match event {
            // What parts have in common is said of the first that is measured now, and there is more to do after each.
            Event::Finished(_) => {}
            Event::Note(_) if is_complete || is_told => {}
            Event::Estimate(_) if is_complete => {}
            Event::Warning(line) if warned.contains(&line.flags()) => {}
            Event::Warning(line) => {
                warned.push(line.flags());
                show(Event::Warning(line));
            }
            event => show(event),
        })?;
        is_told |= !is_complete;
    }
    show(Event::Part { number: count + 1, of: count + 1 });
    show(Event::note(format!("merging {} into the run of the whole, which takes its own room on the disk", counted(count as u64, "part"))));
    let folders: Vec<PathBuf> = plans.iter().map(|part| part.out.clone()).collect();
    let manifest = merge_folders(&folders, &plan.out, MergeSettings { overwrite: true, allow_devices: false }, cancel, show)?;
    if plan.overwrite {
        remove_others(&parts, &folders)?;
    }
    show(Event::Finished(&manifest));
    Ok(manifest)
}

/// A plan for each value, in order.
fn parts_of(plan: &Plan, scratch: &Path, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Vec<Plan>> {
    cancel.during("interrupted while reading the corpus: the same command reads it again");
    show(Event::Reading(layerscope_corpus::Progress::default()));
    let values = split_values(&plan.text.reading(), scratch, &mut |progress| show(Event::Reading(*progress)), cancel.flag())?;
    let (names, count) = (names(&values), values.len() as u32);
    let part = |(index, (value, named)): (u32, (Option<String>, Part))| Plan {
        out: plan.out.join(&named.folder),
        text: TextPlan { shard: Shard { index, count }, part: Some(PartPlan { value, named }), ..plan.text.clone() },
        resume: false,
        ..plan.clone()
    };
    Ok((0..).zip(values.into_iter().zip(names)).map(part).collect())
}

/// How values are shown, and their folders: no two alike, not even for disks that take capitals for small letters.
fn names(values: &[Option<String>]) -> Vec<Part> {
    let short = |value: &Option<String>| match value {
        Some(value) if value.chars().count() > LONGEST => format!("{}…", value.chars().take(LONGEST).collect::<String>()),
        Some(value) => value.clone(),
        None => NONE.to_owned(),
    };
    let safe = |value: &Option<String>| {
        let kept = |character: char| if character.is_alphanumeric() || "._-".contains(character) { character } else { '-' };
        let name: String = value.as_deref().unwrap_or(NONE).to_lowercase().chars().take(LONGEST).map(kept).collect();
        let name = name.trim_matches(['.', '-']);
        if name.is_empty() { "part".to_owned() } else { name.to_owned() }
    };
    let shown = distinct(values.iter().map(short).collect());
    let mut folders: Vec<String> = Vec::new();
    for name in values.iter().map(safe) {
        let mut candidates = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}-{number}")));
        folders.extend(candidates.find(|candidate| !folders.contains(candidate)));
    }
    let part = |(value, folder): (String, String)| Part { value, folder: format!("{SPLIT}/{folder}") };
    shown.into_iter().zip(folders).map(part).collect()
}

/// Removes parts of a run that was replaced: values that no document has any more. What is no run is somebody else's.
fn remove_others(parts: &Path, folders: &[PathBuf]) -> Result<()> {
    let entries = std::fs::read_dir(parts).map_err(|source| Error::io(parts, source))?;
    let is_run = |path: &Path| [MANIFEST, STATE].iter().any(|name| path.join(name).exists());
    let mut others = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_run(path) && !folders.contains(path));
    others.try_for_each(|path| mirror::remove(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_names_and_folders_that_are_safe_and_distinct() {
        let long = "x".repeat(300);
        let values = ["News", "news", "a/b", "a b", "../..", "é", &long, &format!("{long}y"), "a-b-2", "none"];
        let values: Vec<Option<String>> = values.iter().map(|value| Some((*value).to_owned())).chain([None]).collect();
        let names = names(&values);
        assert_eq!((names[0].value.as_str(), names[2].value.as_str(), names[10].value.as_str()), ("News", "a/b", "none 2"));
        let mut folders: Vec<&str> = names.iter().map(|part| part.folder.as_str()).collect();
        assert_eq!(folders[..6], ["split/news", "split/news-2", "split/a-b", "split/a-b-2", "split/part", "split/é"]);
        assert_eq!(folders[8..], ["split/a-b-2-2", "split/none", "split/none-2"]);
        assert!(folders.iter().all(|folder| folder.len() < 200 && folder.matches('/').count() == 1));
        folders.sort_unstable();
        folders.dedup();
        assert_eq!(folders.len(), names.len());
    }
}
