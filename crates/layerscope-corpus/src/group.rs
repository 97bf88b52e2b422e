//! Which group each state belongs to.
//!
//! Every row of a sequence has a *group word*: the number of its group, or [`UNCOUNTED`] for rows the model reads but no statistic
//! counts, with the bit [`CONTINUES`] (in either case) when the row belongs to the same item as the row before it (a further subword of a word).
//! Groups are numbered in the order in which the spool meets them; shards are matched by [`Group::raw`].

use std::collections::HashMap;
use std::str::FromStr;

use layerscope_error::{line, not_understood, setting};

use crate::error::{Error, Result};
use crate::settings::{Settings, Specials};
use crate::tokenize::Tokenizer;

/// Set in the group word of a row that continues the previous row's item.
pub const CONTINUES: u32 = 1 << 31;

/// The group number of rows that are read but not counted.
pub const UNCOUNTED: u32 = 0x7fff_ffff;

/// Lengths, in characters, of the words of appendix J.
const WORD_LENGTHS: std::ops::RangeInclusive<usize> = 2..=15;

/// What makes two states members of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// The token id.
    #[default]
    Token,
    /// The token's string without the mark of a word's start or inside, see [`Tokenizer::surface`].
    Surface,
    /// The word. Its state is the mean over its subwords; the model reads only the words of the document.
    Word,
    /// The row's position in its sequence.
    Position,
    /// The sequence.
    Sequence,
    /// The value of a column of the document's record.
    Column(String),
    /// All states are one group.
    None,
}

impl FromStr for Grouping {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "token" => Grouping::Token,
            "surface" => Grouping::Surface,
            "word" => Grouping::Word,
            "position" => Grouping::Position,
            "sequence" => Grouping::Sequence,
            "none" => Grouping::None,
            other => match other.strip_prefix("column:") {
                Some(name) if !name.is_empty() => Grouping::Column(name.into()),
                _ => {
                    let known = "token, surface, word, position, sequence, cluster:K[,K...], column:NAME or none";
                    let words = ["token", "surface", "word", "position", "sequence", "none", "cluster:", "column:"];
                    return Err(Error::usage(not_understood("group", other, &words, known)));
                }
            },
        })
    }
}

/// One group of the dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The token id (for a surface the smallest one), the position, or otherwise the group's own number.
    pub key: u64,
    /// Readable text.
    pub name: String,
    /// The text as the vocabulary spells it: unique among groups, and the same in every shard.
    pub raw: String,
    /// How many tokens a word has inside a sentence; 1 for tokens and surfaces, 0 for other groups.
    pub subwords: u32,
    /// How many states (tokens, or words) it has.
    pub count: u64,
    /// Whether it is a special token that [counts](Specials::Count) but is never selected by its frequency.
    pub special: bool,
}

/// A group known by its name before it has a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalName {
    pub text: String,
    pub subwords: u32,
}

/// The words of appendix J: lower-cased alphabetic runs of 2 to 15 characters.
pub fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let runs = lower.split(|character: char| !character.is_alphabetic());
    runs.filter(|run| WORD_LENGTHS.contains(&run.chars().count())).map(str::to_owned).collect()
}

/// For every token id the least id with the same surface.
pub(crate) fn least_of_surface(tokenizer: &Tokenizer) -> Vec<u32> {
    let mut least = HashMap::new();
    // Ids that no token has never occur; a few large ones must not take the memory of names for all below them.
    let least_of = |id| if tokenizer.has(id) { *least.entry(tokenizer.surface(id)).or_insert(id) } else { id };
    (0..=tokenizer.largest_id()).map(least_of).collect()
}

/// The dictionary while it grows.
pub(crate) struct Book<'a> {
    grouping: &'a Grouping,
    specials: Specials,
    tokenizer: &'a Tokenizer,
    by_key: Vec<u32>,
    by_name: HashMap<String, u32>,
    groups: Vec<Group>,
}

impl<'a> Book<'a> {
    pub fn new(settings: &'a Settings, tokenizer: &'a Tokenizer) -> Self {
        let Settings { grouping, specials, .. } = settings;
        Book { grouping, specials: *specials, tokenizer, by_key: Vec::new(), by_name: HashMap::new(), groups: Vec::new() }
    }

    /// Turns a sequence's local group words into final ones and counts its items. `sequence` is the sequence's own name.
    pub fn enter(&mut self, words: &mut [u32], names: &[LocalName], sequence: &str) -> Result<()> {
        let mut locals: Vec<Option<u32>> = vec![None; names.len()];
        let mut own = None;
        for word in words {
            let local = *word & !CONTINUES;
            if local == UNCOUNTED {
                continue;
            }
            let number = match self.grouping {
                Grouping::Token | Grouping::Surface | Grouping::Position => self.of_key(local)?,
                Grouping::Word | Grouping::Column(_) => match locals[local as usize] {
                    Some(number) => number,
                    None => *locals[local as usize].insert(self.of_name(&names[local as usize])?),
                },
                Grouping::Sequence => match own {
                    Some(number) => number,
                    None => *own.insert(self.add(None, sequence.to_owned(), sequence.to_owned(), 0)?),
                },
                Grouping::None if self.groups.is_empty() => self.add(None, "all".into(), "all".into(), 0)?,
                Grouping::None => 0,
            };
            let continues = *word & CONTINUES;
            if continues == 0 {
                self.groups[number as usize].count += 1;
            }
            *word = number | continues;
        }
        Ok(())
    }

    /// The finished dictionary.
    pub fn finish(self) -> Vec<Group> {
        self.groups
    }

    fn of_key(&mut self, key: u32) -> Result<u32> {
        let at = key as usize;
        if at >= self.by_key.len() {
            self.by_key.resize(at + 1, UNCOUNTED);
        }
        if self.by_key[at] == UNCOUNTED {
            self.by_key[at] = match self.grouping {
                Grouping::Token => self.add(Some(key), self.tokenizer.readable(key), self.tokenizer.raw(key), 1)?,
                Grouping::Surface => {
                    let bare = self.tokenizer.surface(key);
                    let is_whole = bare == self.tokenizer.raw(key);
                    let name = if is_whole { self.tokenizer.readable(key) } else { self.tokenizer.readable_text(&bare) };
                    self.add(Some(key), name, bare, 1)?
                }
                _ => self.add(Some(key), key.to_string(), key.to_string(), 0)?,
            };
            let is_token = matches!(self.grouping, Grouping::Token | Grouping::Surface);
            let special = is_token && self.specials == Specials::Count && self.tokenizer.is_around(key);
            self.groups[self.by_key[at] as usize].special = special;
        }
        Ok(self.by_key[at])
    }

    fn of_name(&mut self, name: &LocalName) -> Result<u32> {
        if let Some(&number) = self.by_name.get(&name.text) {
            return Ok(number);
        }
        let number = self.add(None, name.text.clone(), name.text.clone(), name.subwords)?;
        self.by_name.insert(name.text.clone(), number);
        Ok(number)
    }

    fn add(&mut self, key: Option<u32>, name: String, raw: String, subwords: u32) -> Result<u32> {
        let number = self.groups.len() as u32;
        if number == UNCOUNTED {
            return Err(Error::usage(line!["more than 2147483647 groups; choose a coarser ", setting("group")]));
        }
        let key = u64::from(key.unwrap_or(number));
        self.groups.push(Group { key, name, raw, subwords, count: 0, special: false });
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_alphabetic_runs_of_a_sensible_length() {
        let text = "It's 2nd-RATE, a naïve É donaudampfschifffahrtsgesellschaft; ÄÖ x_y internationally";
        assert_eq!(words(text), ["it", "nd", "rate", "naïve", "äö", "internationally"]);
        assert_eq!(words("a 1 ! b"), Vec::<String>::new());
    }

    #[test]
    fn groupings_by_name() {
        assert_eq!("column:author".parse::<Grouping>().unwrap(), Grouping::Column("author".into()));
        assert_eq!("word".parse::<Grouping>().unwrap(), Grouping::Word);
        let line = "column:".parse::<Grouping>().unwrap_err().to_string();
        assert_eq!(
            line,
            "--group `column:` is not understood; give token, surface, word, position, sequence, cluster:K[,K...], column:NAME or none"
        );
    }
}
