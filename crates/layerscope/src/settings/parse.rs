//! Texts of settings that are more than a word or a number.

use std::ops::RangeInclusive;

use layerscope_corpus::{Grouping, Shard};
use layerscope_error::{line, meant, not_one_of, setting};
use layerscope_model::Ablation;
use layerscope_report::States;
use layerscope_report::text::shortened;
use layerscope_stats::measure::{Family, MEASURES, Measure};

use super::{wrong, wrong_because, wrong_word};
use crate::error::{Error, Result};

/// What makes a group. Clusters are of the sample, beside the groups of tokens.
pub fn group(text: &str) -> Result<(Grouping, Vec<usize>)> {
    let Some(list) = text.strip_prefix("cluster:") else { return Ok((text.parse()?, Vec::new())) };
    let clusters: Option<Vec<usize>> = list.split(',').map(|k| k.trim().parse().ok().filter(|k| *k >= 2)).collect();
    clusters.map(|clusters| (Grouping::Token, clusters)).ok_or_else(|| wrong_because("group", text, "cluster:K[,K...] with K at least 2"))
}

/// The column that splits the corpus.
pub fn split(text: &str) -> Result<String> {
    text.strip_prefix("column:").filter(|name| !name.is_empty()).map(str::to_owned).ok_or_else(|| wrong_word("split", text, &["column:"]))
}

/// Families of measures, by name. A measure stands for its family.
pub fn families<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Family>> {
    let mut families = Vec::new();
    for name in names.into_iter().map(str::trim) {
        if name == "all" {
            return Ok(Family::SELECTABLE.to_vec());
        }
        let of_measure = || Measure::named(name).map(|measure| measure.family);
        match Family::named(name).or_else(of_measure) {
            Some(Family::Cluster) => {
                let of_clusters = setting("group").to("cluster:K");
                return Err(Error::usage(line![setting("measures").to(name), " is of clusters; give ", of_clusters]));
            }
            Some(family) if families.contains(&family) => {}
            Some(family) => families.push(family),
            None => return Err(unknown_measure(name)),
        }
    }
    Ok(families)
}

/// The measures that names stand for, those of a family with its name; None for all.
pub fn measures(names: &[String]) -> Result<Option<Vec<&'static str>>> {
    let mut measures = Vec::new();
    for name in names.iter().map(|name| name.trim()) {
        match (Measure::named(name), Family::named(name)) {
            _ if name == "all" => return Ok(None),
            (Some(measure), _) => measures.push(measure.name),
            (None, Some(family)) => measures.extend(MEASURES.iter().filter(|measure| measure.family == family).map(|measure| measure.name)),
            (None, None) => return Err(unknown_measure(name)),
        }
    }
    Ok(Some(measures).filter(|measures| !measures.is_empty()))
}

fn unknown_measure(name: &str) -> Error {
    let families = Family::SELECTABLE.map(Family::name);
    let meant = meant(name, families.into_iter().chain(MEASURES.iter().map(|measure| measure.name)));
    let problem = format!(
        " `{}` is neither a measure nor a family{meant}; give all, some of {}, or measures that `layerscope measures` lists",
        shortened(name),
        families.join(", ")
    );
    Error::usage(line![setting("measures"), problem])
}

/// `MIN:MAX` of n_t.
pub fn frequency(text: &str) -> Result<RangeInclusive<u64>> {
    let bounds = text.split_once(':').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    match bounds {
        Some((low, high)) if low <= high => Ok(low..=high),
        Some((low, high)) => {
            let problem = format!(": {low} is more than {high}; give the smaller number first, such as {high}:{low}");
            Err(Error::usage(line![setting("frequency").to(text), problem]))
        }
        _ => Err(wrong("frequency", text)),
    }
}

/// The states that are shown.
pub fn states(text: &str) -> Result<States> {
    States::named(text).ok_or_else(|| Error::usage(not_one_of("states", text, &States::NAMES)))
}

/// `all`, which is None, or numbers of layers.
pub fn layers(text: &str) -> Result<Option<Vec<usize>>> {
    if text == "all" {
        return Ok(None);
    }
    let layers: Option<Vec<usize>> = text.split(',').map(|layer| layer.trim().parse().ok()).collect();
    layers.map(Some).ok_or_else(|| wrong_word("layers", text, &["all"]))
}

/// Alterations of the model, in order.
pub fn ablations(text: Option<&str>) -> Result<Vec<Ablation>> {
    let parts = text.into_iter().flat_map(|text| text.split(';'));
    parts.map(|part| part.parse().map_err(|problem| Error::usage(line![setting("ablate"), format!(" {problem}")]))).collect()
}

/// Bytes, with K, M, G or T (and iB, B) for powers of 1024.
pub fn bytes(text: &str) -> Result<u64> {
    let unit = text.trim_end_matches('B').trim_end_matches('i');
    let (number, scale) = match unit.char_indices().next_back() {
        Some((at, letter)) if letter.is_ascii_alphabetic() => {
            (&unit[..at], "KMGT".find(letter.to_ascii_uppercase()).map(|power| 1024f64.powi(power as i32 + 1)))
        }
        _ => (unit, Some(1.0)),
    };
    let number: Option<f64> = number.trim().parse().ok();
    match number.zip(scale).map(|(number, scale)| number * scale) {
        Some(bytes) if (1.0..1e18).contains(&bytes) => Ok(bytes as u64),
        _ => Err(wrong("max-memory", text)),
    }
}

/// `I/N`, or the index and count that a scheduler gives.
pub fn shard(text: Option<&str>, variable: &dyn Fn(&str) -> Option<String>) -> Result<Shard> {
    let Some(text) = text else { return Ok(Shard::default()) };
    let number = |text: &str| text.parse::<u32>().ok();
    let (first, second) = text.split_once('/').map_or((text, None), |(first, second)| (first, Some(second)));
    let count = second.map(|count| number(count).ok_or_else(|| wrong("shard", text))).transpose()?;
    let shard = if first == "auto" {
        scheduled_shard(count, &|name| variable(name).and_then(|value| number(&value)))?
    } else {
        Shard { index: number(first).ok_or_else(|| wrong("shard", text))?, count: count.ok_or_else(|| wrong("shard", text))? }
    };
    shard.check()?;
    Ok(shard)
}

/// The variables of schedulers that number their tasks.
const SCHEDULED: [&str; 2] = ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"];

fn scheduled_shard(count: Option<u32>, of: &dyn Fn(&str) -> Option<u32>) -> Result<Shard> {
    let scheduled = match SCHEDULED.map(of) {
        [Some(task), _] => {
            let (start, step) = (of("SLURM_ARRAY_TASK_MIN").unwrap_or(0), of("SLURM_ARRAY_TASK_STEP").unwrap_or(1).max(1));
            task.checked_sub(start).map(|place| (place / step, count.or_else(|| of("SLURM_ARRAY_TASK_COUNT"))))
        }
        [None, Some(index)] => Some((index, count)),
        [None, None] => None,
    };
    match scheduled {
        Some((index, Some(count))) => Ok(Shard { index, count }),
        _ => Err(Error::usage(line![
            setting("shard").to("auto"),
            " finds no SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT, nor JOB_COMPLETION_INDEX with auto/N; give I/N"
        ])),
    }
}

/// The variable of a scheduler that would make a shard, if anybody asked for one.
pub fn ignored_scheduler() -> Option<&'static str> {
    SCHEDULED.into_iter().find(|name| std::env::var_os(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_with_units() {
        let read = ["1024", "1K", "1.5M", "2GiB", "3 GB", "1t"].map(|text| bytes(text).expect("bytes"));
        assert_eq!(read, [1024, 1024, 3 << 19, 2 << 30, 3 << 30, 1 << 40]);
        for text in ["", "G", "-1", "1X", "0", "nan"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shards_come_from_flags_and_schedulers() {
        let shard = |text: &str, variables: &[(&str, &str)]| {
            let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            shard(Some(text), &variable).map(|shard| (shard.index, shard.count)).map_err(|error| error.to_string())
        };
        assert_eq!(shard("2/5", &[]), Ok((2, 5)));
        assert!(shard("5/5", &[]).is_err() && shard("2", &[]).is_err() && shard("auto", &[]).is_err());
        let slurm =
            [("SLURM_ARRAY_TASK_ID", "7"), ("SLURM_ARRAY_TASK_MIN", "1"), ("SLURM_ARRAY_TASK_STEP", "2"), ("SLURM_ARRAY_TASK_COUNT", "8")];
        assert_eq!(shard("auto", &slurm), Ok((3, 8)));
        assert_eq!(shard("auto/4", &[("JOB_COMPLETION_INDEX", "3")]), Ok((3, 4)));
        assert!(shard("auto", &[("JOB_COMPLETION_INDEX", "3")]).is_err());
    }

    #[test]
    fn frequencies_layers_and_families() {
        assert_eq!(frequency("10:20").expect("a range"), 10..=20);
        assert!(frequency("20:10").is_err() && frequency("10").is_err());
        assert_eq!(layers("0, 6,12").expect("layers"), Some(vec![0, 6, 12]));
        assert_eq!(layers("all").expect("layers"), None);
        assert!(layers("0-6").is_err());
        assert_eq!(families(["norm", " cosine"]).expect("families"), [Family::Norm, Family::Cosine]);
        assert_eq!(families(["all"]).expect("families"), Family::SELECTABLE);
        assert_eq!(families(["mean_cosine", "cosine", "q"]).expect("families"), [Family::Cosine, Family::Norm]);
        let line = families(["norms"]).expect_err("unknown").to_string();
        let start = "--measures `norms` is neither a measure nor a family (did you mean `norm`?); give all, some of norm, cosine,";
        assert!(line.starts_with(start), "{line}");
        assert!(families(["silhouette"]).expect_err("of clusters").to_string().ends_with("give --group cluster:K"));
        let named = |names: &[&str]| measures(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).expect("measures");
        assert_eq!(named(&["q", "partition"]), Some(vec!["q", "partition"]));
        assert_eq!(named(&["dimension"]), Some(vec!["intrinsic_dimension"]));
        assert_eq!((named(&["q", "all"]), named(&[])), (None, None));
    }
}
