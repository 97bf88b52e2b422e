//! The details of a spool as bytes: numbers as u64, texts with their length before them.

use std::collections::BTreeMap;

use super::Details;
use crate::counters::Counters;
use crate::group::Group;

pub(super) fn encode(details: &Details) -> Vec<u8> {
    let mut out = Vec::new();
    counters(&details.counters).iter().for_each(|&count| number(&mut out, count));
    number(&mut out, details.lengths.len() as u64);
    for (&words, &documents) in &details.lengths {
        number(&mut out, words);
        number(&mut out, documents);
    }
    for list in [&details.inputs, &details.skipped] {
        number(&mut out, list.len() as u64);
        list.iter().for_each(|item| text(&mut out, item));
    }
    dictionary(&mut out, &details.groups);
    number(&mut out, details.whole.is_some().into());
    details.whole.iter().for_each(|whole| dictionary(&mut out, whole));
    out
}

fn dictionary(out: &mut Vec<u8>, groups: &[Group]) {
    number(out, groups.len() as u64);
    for group in groups {
        [group.key, group.count, group.subwords.into(), group.special.into()].iter().for_each(|&value| number(out, value));
        text(out, &group.name);
        text(out, &group.raw);
    }
}

pub(super) fn decode(bytes: &[u8]) -> Option<Details> {
    let mut input = Input(bytes);
    let mut counts = [0; 13];
    for count in &mut counts {
        *count = input.number()?;
    }
    let mut lengths = BTreeMap::new();
    for _ in 0..input.number()? {
        lengths.insert(input.number()?, input.number()?);
    }
    let mut lists = [Vec::new(), Vec::new()];
    for list in &mut lists {
        for _ in 0..input.number()? {
            list.push(input.text()?);
        }
    }
    let [inputs, skipped] = lists;
    let groups = input.dictionary()?;
    let whole = match input.number()? {
        0 => None,
        _ => Some(input.dictionary()?),
    };
    input.0.is_empty().then_some(Details { counters: from_counts(counts), lengths, inputs, skipped, groups, whole })
}

fn counters(of: &Counters) -> [u64; 13] {
    let Counters { records, bad, unsampled, blank, too_long, repeated, kept, .. } = *of;
    let Counters { documents, without_tokens, untokenized, sequences, tokens, counted, .. } = *of;
    [records, bad, unsampled, blank, too_long, repeated, kept, documents, without_tokens, untokenized, sequences, tokens, counted]
}

fn from_counts(counts: [u64; 13]) -> Counters {
    let [records, bad, unsampled, blank, too_long, repeated, kept, documents, without_tokens, untokenized, sequences, tokens, counted] =
        counts;
    Counters {
        records,
        bad,
        unsampled,
        blank,
        too_long,
        repeated,
        kept,
        documents,
        without_tokens,
        untokenized,
        sequences,
        tokens,
        counted,
    }
}

fn number(out: &mut Vec<u8>, value: u64) {
    out.extend(value.to_le_bytes());
}

fn text(out: &mut Vec<u8>, value: &str) {
    number(out, value.len() as u64);
    out.extend(value.as_bytes());
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn number(&mut self) -> Option<u64> {
        let (value, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*value))
    }

    fn dictionary(&mut self) -> Option<Vec<Group>> {
        let mut groups = Vec::new();
        for _ in 0..self.number()? {
            let (key, count, subwords) = (self.number()?, self.number()?, u32::try_from(self.number()?).ok()?);
            let special = self.number()? != 0;
            groups.push(Group { key, count, subwords, special, name: self.text()?, raw: self.text()? });
        }
        Some(groups)
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (value, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(value.to_vec()).ok()
    }
}
