//! Which layer each file is, told by its name: files of one folder that are layers are read together, as the arrays of one file are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use layerscope_error::{Line, line, not_one_of, setting};

use super::ImportOptions;
use crate::error::{Error, Result};

/// Words before a number that make a file a layer.
const WORDS: [&str; 4] = ["layer", "layers", "hidden_state", "hidden_states"];

/// What the name of a file says about the layer of its states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileLayer {
    /// It is this one.
    Is(u32),
    /// Nothing.
    Unsaid,
    /// Nothing certain; why, and what to do.
    Unclear(Line),
}

impl FileLayer {
    /// The layer of states that have no axis for it.
    pub fn number(&self, options: &ImportOptions) -> Result<u32> {
        match self {
            FileLayer::Is(layer) => Ok(*layer),
            FileLayer::Unsaid => Ok(options.layer.unwrap_or(0)),
            FileLayer::Unclear(why) => Err(Error::usage(why.clone())),
        }
    }
}

/// Files with the layers that their names tell, those that may be read together in one list each. Layers are in order.
pub(super) fn sources(files: &[PathBuf], options: &ImportOptions) -> Result<Vec<Vec<(PathBuf, FileLayer)>>> {
    let mut files = files.to_vec();
    files.sort();
    files.dedup();
    let mut named: Vec<(PathBuf, FileLayer)> = match (options.layers_from.as_deref(), options.layer) {
        (Some("names"), Some(_)) => {
            return Err(Error::usage(line![setting("layer"), " and ", setting("layers-from").to("names"), " contradict each other"]));
        }
        (Some("names"), None) => files.into_iter().map(|path| numbered(&path).map(|layer| (path, layer))).collect::<Result<_>>()?,
        (None, Some(layer)) if files.iter().filter_map(|path| is_layer(path)).collect::<BTreeSet<_>>().len() > 1 => {
            let problem = " contradicts the names of the files, which are several layers; leave it out, or, if they are not, give ";
            return Err(Error::usage(line![setting("layer").to(layer), problem, setting("layers-from").to("none")]));
        }
        (Some("none"), _) | (None, Some(_)) => files.into_iter().map(|path| (path, FileLayer::Unsaid)).collect(),
        (None, None) => {
            let layers: Vec<FileLayer> = files.iter().map(|path| by_name(path, &files)).collect();
            files.into_iter().zip(layers).collect()
        }
        (Some(other), _) => return Err(Error::usage(not_one_of("layers-from", other, &["names", "none"]))),
    };
    let rank = |layer: &FileLayer| if let FileLayer::Is(layer) = layer { Some(*layer) } else { None };
    named.sort_by(|(a, one), (b, other)| (a.parent(), rank(one), a).cmp(&(b.parent(), rank(other), b)));
    // Parquet files have their rows told apart by columns: each is read alone.
    let joins = |(path, layer): &(PathBuf, FileLayer)| matches!(layer, FileLayer::Is(_)) && end(path) != "parquet";
    let mut sources: Vec<Vec<(PathBuf, FileLayer)>> = Vec::new();
    for file in named {
        match sources.last_mut().filter(|last| joins(&file) && last.iter().all(|other| joins(other) && belongs(other, &file))) {
            Some(last) => last.push(file),
            None => sources.push(vec![file]),
        }
    }
    Ok(sources)
}

/// Whether two files can be layers of the same tokens: they lie in one folder and are different layers.
fn belongs((one, theirs): &(PathBuf, FileLayer), (other, ours): &(PathBuf, FileLayer)) -> bool {
    one.parent() == other.parent() && theirs != ours
}

fn end(path: &Path) -> &str {
    path.extension().and_then(|end| end.to_str()).unwrap_or_default()
}

/// The name of a file before its number, and the number.
fn split(path: &Path) -> Option<(String, u32)> {
    let stem = path.file_stem()?.to_string_lossy().into_owned();
    let before = stem.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = stem[before.len()..].parse().ok()?;
    Some((before.to_owned(), number))
}

/// What `--layers-from names` makes of a file.
fn numbered(path: &Path) -> Result<FileLayer> {
    is_layer(path).or(split(path).map(|(_, number)| number)).map(FileLayer::Is).ok_or_else(|| {
        let line = format!("{}: its name does not end in the number of a layer; rename it, or give ", path.display());
        Error::usage(line![line, setting("layers-from").to("none")])
    })
}

/// The layer that a name tells, be it `layer_3` or `bert_layer3_out`: a number behind one of the words, and none behind that.
fn is_layer(path: &Path) -> Option<u32> {
    let stem = path.file_stem()?.to_string_lossy().to_lowercase();
    let stem = stem.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let before = stem.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = stem[before.len()..].parse().ok()?;
    let word = before.trim_end_matches(['_', '-', '.', ' ', '=']);
    let begins = |rest: &str| !rest.ends_with(|letter: char| letter.is_alphanumeric());
    WORDS.iter().any(|known| word.strip_suffix(known).is_some_and(begins)).then_some(number)
}

/// What the name of a file says beside those of all files.
fn by_name(path: &Path, all: &[PathBuf]) -> FileLayer {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some(layer) = is_layer(path) {
        let same = |other: &&PathBuf| other.as_path() != path && other.parent() == path.parent() && is_layer(other) == Some(layer);
        return all.iter().find(same).map_or(FileLayer::Is(layer), |other| {
            let line = format!("{} and {} are both layer {layer} by their names. ", path.display(), name(other));
            FileLayer::Unclear(line![line, "If both are, give ", setting("layers-from").to("names"), "; otherwise rename one"])
        });
    }
    if let Some(layer) = all.iter().find(|other| is_layer(other).is_some()) {
        let line = format!("{}: {} is a layer by its name; which layer is this? ", path.display(), name(layer));
        let line = line![line, "Name it so too, or count all files as one layer with ", setting("layers-from").to("none")];
        return FileLayer::Unclear(line);
    }
    let same = |other: &Path| split(path).zip(split(other)).is_some_and(|((one, a), (two, b))| one == two && a != b);
    match all.iter().find(|other| same(other)) {
        None => FileLayer::Unsaid,
        Some(other) => {
            let line = format!("{} and {}: are they layers, or parts of one? ", path.display(), name(other));
            let layers = line!["For layers give ", setting("layers-from").to("names")];
            FileLayer::Unclear(line![line, layers, ", for parts ", setting("layers-from").to("none")])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understood(files: &[&str]) -> Vec<Vec<Option<u32>>> {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let number = |layer: FileLayer| if let FileLayer::Is(layer) = layer { Some(layer) } else { None };
        let found = sources(&files, &ImportOptions::default()).expect("understood");
        found.into_iter().map(|source| source.into_iter().map(|(_, layer)| number(layer)).collect()).collect()
    }

    #[test]
    fn names_tell_layers() {
        let all = |layers: &[u32]| vec![layers.iter().copied().map(Some).collect::<Vec<_>>()];
        assert_eq!(understood(&["layer_10.npy", "layer_2.npy", "layer_0.npy"]), all(&[0, 2, 10]));
        assert_eq!(understood(&["x/bert-Layer3.npy", "x/bert-Layer4.npz"]), all(&[3, 4]));
        assert_eq!(understood(&["hidden_states.7.safetensors"]), all(&[7]));
        assert_eq!(understood(&["bert_layer0_out.npy", "bert_layer1_out.npy"]), all(&[0, 1]));
        assert_eq!(understood(&["run2_layer_11.states.npy"]), all(&[11]));
        assert_eq!(understood(&["a/layer0.npy", "a/layer1.npy", "b/layer0.npy"]), [vec![Some(0), Some(1)], vec![Some(0)]]);
        assert_eq!(understood(&["layer0.npy", "layer1.parquet"]), [vec![Some(0)], vec![Some(1)]]);
        // Words that only end like these, and numbers of something else.
        assert_eq!(understood(&["player_3.npy"]), [vec![None]]);
        assert_eq!(understood(&["layer_3_shard_0.npy"]), [vec![None]]);
        assert_eq!(understood(&["states.npy", "other.npy"]), [vec![None], vec![None]]);
    }

    #[test]
    fn other_numbers_are_unclear() {
        let files = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let unclear = |names: &[&str]| {
            let found = sources(&files(names), &ImportOptions::default()).expect("sources");
            found[0][0].1.number(&ImportOptions::default()).expect_err("unclear").to_string()
        };
        let line = unclear(&["part_0.npy", "part_1.npy"]);
        assert!(line.contains("part_0.npy and part_1.npy: are they layers, or parts of one?"), "{line}");
        assert!(line.contains("For layers give --layers-from names, for parts --layers-from none"), "{line}");
        assert!(unclear(&["embeddings.npy", "layer_1.npy"]).contains("layer_1.npy is a layer by its name; which layer is this?"));
        let line = unclear(&["hidden_states_1.npy", "layer_1.npy"]);
        assert!(line.contains("hidden_states_1.npy and layer_1.npy are both layer 1 by their names"), "{line}");
        let decided = |how: &str, layer: Option<u32>| {
            let options = ImportOptions { layers_from: Some(how.to_owned()), layer, ..ImportOptions::default() };
            sources(&files(&["part_3.npy", "part_5.npy"]), &options)
        };
        let layers = |found: Vec<Vec<(PathBuf, FileLayer)>>| found.into_iter().flatten().map(|(_, layer)| layer).collect::<Vec<_>>();
        assert_eq!(layers(decided("names", None).expect("layers")), [FileLayer::Is(3), FileLayer::Is(5)]);
        assert_eq!(layers(decided("none", Some(2)).expect("parts")), [FileLayer::Unsaid, FileLayer::Unsaid]);
        assert!(decided("names", Some(2)).is_err() && decided("both", None).is_err());
    }
}
