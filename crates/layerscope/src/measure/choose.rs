//! Which tokens' states are kept: appendix A of Yamagiwa & Shimodaira, or a list.

use std::ops::RangeInclusive;

use layerscope_corpus::hash::hash64;
use layerscope_corpus::{Group, Spool};

use super::plan::{BoundPlan, TokenChoice};
use crate::error::{Error, Result};
use layerscope_error::{line, setting};

/// Bins of log10 n_t.
const BINS: usize = 10;
/// Names shorter than this are not readable in a figure.
const SHORTEST_NAME: usize = 3;

/// The groups whose states are kept: their raw names, and their numbers in this spool.
pub struct Chosen {
    /// Equal in all shards.
    pub names: Vec<String>,
    /// A group that this shard never meets keeps its place, so that shards agree on who is who.
    pub groups: Vec<u32>,
}

impl Chosen {
    /// The choice that a plan asks for. Frequencies are those of the whole corpus, whatever the shard.
    pub fn new(bound: &BoundPlan, spool: &Spool) -> Result<Chosen> {
        let plan = &bound.plan;
        let counted = spool.whole_groups();
        let chosen = chosen_groups(&plan.tokens, counted, plan.frequency.as_ref(), bound.corpus.filters.seed)?;
        let names: Vec<String> = chosen.iter().map(|&group| counted[group as usize].raw.clone()).collect();
        let own = |raw: &String| spool.groups().iter().position(|group| group.raw == *raw).map_or(u32::MAX, |at| at as u32);
        Ok(Chosen { groups: names.iter().map(own).collect(), names })
    }
}

/// The chosen groups, by their numbers, in the order of their raw names.
fn chosen_groups(choice: &TokenChoice, groups: &[Group], frequency: Option<&RangeInclusive<u64>>, seed: u64) -> Result<Vec<u32>> {
    let mut chosen = match (choice, frequency) {
        (TokenChoice::Auto, Some(frequency)) => spread_over_frequencies(groups, frequency, seed),
        (TokenChoice::List(names), _) => names.iter().map(|name| find(groups, name)).collect::<Result<_>>()?,
        _ => Vec::new(),
    };
    chosen.sort_by(|&a, &b| groups[a as usize].raw.cmp(&groups[b as usize].raw));
    chosen.dedup();
    Ok(chosen)
}

/// N_r = 2 + floor(4 sqrt(|T_r| / max_r |T_r|)) groups of each of ten equal bins of log10 n_t, drawn by a keyed hash of their names.
fn spread_over_frequencies(groups: &[Group], frequency: &RangeInclusive<u64>, seed: u64) -> Vec<u32> {
    let is_selected = |group: &Group| !group.special && frequency.contains(&group.count);
    let selected: Vec<u32> = (0..groups.len() as u32).filter(|&g| is_selected(&groups[g as usize])).collect();
    let logarithm = |g: u32| (groups[g as usize].count as f64).log10();
    let low = selected.iter().map(|&g| logarithm(g)).fold(f64::INFINITY, f64::min);
    let high = selected.iter().map(|&g| logarithm(g)).fold(f64::NEG_INFINITY, f64::max);
    let bin = |g: u32| match high > low {
        true => (((logarithm(g) - low) / (high - low) * BINS as f64) as usize).min(BINS - 1),
        false => 0,
    };
    let mut bins: Vec<Vec<u32>> = vec![Vec::new(); BINS];
    let readable = |g: &u32| groups[*g as usize].name.trim().chars().count() >= SHORTEST_NAME;
    selected.into_iter().filter(readable).for_each(|g| bins[bin(g)].push(g));
    let fullest = bins.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let hash = |g: &u32| hash64([seed, u64::from_le_bytes(*b"choosing")], groups[*g as usize].raw.as_bytes());
    bins.into_iter()
        .flat_map(|mut bin| {
            let draws = 2 + (4.0 * (bin.len() as f64 / fullest as f64).sqrt()) as usize;
            bin.sort_by_key(hash);
            bin.truncate(draws);
            bin
        })
        .collect()
}

/// The most frequent group of this name, or the one whose raw form it is.
fn find(groups: &[Group], name: &str) -> Result<u32> {
    let named = (0..groups.len() as u32).filter(|&g| groups[g as usize].name.trim() == name.trim() || groups[g as usize].raw == name);
    let exact = |g: &u32| groups[*g as usize].raw == name;
    named.max_by_key(|g| (exact(g), groups[*g as usize].count)).ok_or_else(|| {
        Error::usage(line![
            setting("tokens"),
            format!(" `{name}` does not occur in the corpus; run with "),
            setting("tokens").to("auto"),
            " to see the names of groups"
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, count: u64) -> Group {
        Group { key: 0, name: name.into(), raw: format!("Ġ{name}"), subwords: 1, count, special: false }
    }

    #[test]
    fn every_bin_gives_at_least_two_and_the_fullest_six() {
        // 64 rare groups, 16 frequent ones, too short and too rare names among them.
        let mut groups: Vec<Group> = (0..64).map(|i| group(&format!("rare{i}"), 10)).collect();
        groups.extend((0..16).map(|i| group(&format!("often{i}"), 100_000)));
        groups.extend([group("of", 10), group("once", 9)]);
        groups.extend((0..50).map(|i| Group { special: true, ..group(&format!("[SEP{i}]"), 200_000) }));
        let chosen = chosen_groups(&TokenChoice::Auto, &groups, Some(&(10..=200_000)), 0).expect("a choice");
        let rare = chosen.iter().filter(|&&g| groups[g as usize].count == 10).count();
        assert_eq!((rare, chosen.len() - rare), (6, 4)); // 2 + floor(4 sqrt(1)), 2 + floor(4 sqrt(1/4))
        assert!(chosen.iter().all(|&g| g < 80));
        let other = chosen_groups(&TokenChoice::Auto, &groups, Some(&(10..=200_000)), 1).expect("a choice");
        assert_ne!(chosen, other);
    }

    #[test]
    fn listed_tokens_are_found_by_name_or_raw_form() {
        let mut groups = vec![group("cat", 3), group("cat", 30), group("dog", 5)];
        groups[0].raw = "cat".into();
        let list = |names: &[&str]| TokenChoice::List(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(chosen_groups(&list(&["dog", "Ġcat"]), &groups, None, 0).expect("found"), [1, 2]);
        assert_eq!(chosen_groups(&list(&["cat"]), &groups, None, 0).expect("found"), [0]);
        assert!(chosen_groups(&list(&["cow"]), &groups, None, 0).is_err());
    }
}
