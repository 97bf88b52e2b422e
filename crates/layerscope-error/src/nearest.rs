//! What somebody may have meant by a word that is not known.

use crate::{Line, line, setting};

/// So many letters are the beginning of a word.
const BEGINNING: usize = 3;

/// The known word that a given one is a slip away from: one letter in three may be wrong, missing, added or swapped with the next. A word of
/// which only the beginning was given comes first. Numbers are no slips of each other.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.trim().to_lowercase().replace('_', "-");
    if given.parse::<f64>().is_ok() {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    let begun = known.iter().filter(|word| given.len() >= BEGINNING && word.replace('_', "-").starts_with(&given));
    if let Some(word) = begun.min_by_key(|word| word.len()) {
        return Some(word);
    }
    let slips = |word: &str| slips(&given.chars().collect::<Vec<_>>(), &word.replace('_', "-").chars().collect::<Vec<_>>());
    let near = known.into_iter().map(|word| (slips(word), word)).min_by_key(|(slips, _)| *slips)?;
    (near.0 <= near.1.chars().count().div_ceil(3).min(4) && near.0 < given.chars().count()).then_some(near.1)
}

/// ` (did you mean `word`?)`, or nothing where no known word is near.
pub fn meant<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, known).map_or(String::new(), |word| format!(" (did you mean `{word}`?)"))
}

/// Words as a choice: `a, b or c`.
pub fn or(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// The problem of a setting that takes one of some words and was given another.
pub fn not_one_of(name: &'static str, given: &str, words: &[&str]) -> Line {
    not_understood(name, given, words, &or(words))
}

/// The problem of a setting that does not take what was given. `words` are those that it takes among others, and those that it takes with
/// something behind a colon; `example` is what to give.
pub fn not_understood(name: &'static str, given: &str, words: &[&str], example: &str) -> Line {
    let before_colon = given.split_once(':').and_then(|(head, rest)| {
        let near = nearest(head, words.iter().filter_map(|word| word.strip_suffix(':')))?;
        (near != head).then(|| format!(" (did you mean `{near}:{rest}`?)"))
    });
    let meant = before_colon.unwrap_or_else(|| meant(given, words.iter().copied().filter(|word| !word.ends_with(':'))));
    line![setting(name), format!(" `{given}` is not understood{meant}; give {example}")]
}

/// The number of letters to change, insert, delete or swap with the next: the restricted Damerau-Levenshtein distance.
fn slips(one: &[char], other: &[char]) -> usize {
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for i in 0..=one.len() {
        for j in 0..=other.len() {
            rows[i][j] = match (i, j) {
                (0, _) => j,
                (_, 0) => i,
                _ => {
                    let changed = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
                    let swapped = i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
                    let swapped = if swapped { rows[i - 2][j - 2] + 1 } else { usize::MAX };
                    changed.min(swapped).min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1)
                }
            };
        }
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognized_and_another_word_is_not() {
        let groups = ["token", "surface", "word", "position", "sequence", "none"];
        assert_eq!(nearest("wrod", groups), Some("word"));
        assert_eq!(nearest("Tokens", groups), Some("token"));
        assert_eq!(nearest("paragraph", groups), None);
        assert_eq!(nearest("", groups), None);
        assert_eq!(nearest("x", ["q", "m", "v"]), None);
        assert_eq!(nearest("mean_cosin", ["mean_norm", "mean_cosine"]), Some("mean_cosine"));
        assert_eq!(nearest("max-word", ["max_words", "min_words"]), Some("max_words"));
        assert_eq!(nearest("mean_cos", ["mean_norm", "mean_cosine", "mean_cosine_adjusted"]), Some("mean_cosine"));
        assert_eq!((nearest("33", ["3", "30"]), nearest("me", ["mean_norm"])), (None, None));
        let groups = ["word", "column:", "cluster:"];
        let said = |given: &str| not_understood("group", given, &groups, "word or column:NAME").to_string();
        assert_eq!(said("colum:x"), "--group `colum:x` is not understood (did you mean `column:x`?); give word or column:NAME");
        assert!(said("clustr:5").contains("did you mean `cluster:5`?") && said("wrod").contains("did you mean `word`?"));
        assert_eq!(said("column:"), "--group `column:` is not understood; give word or column:NAME");
        assert_eq!((meant("papers", ["paper"]), meant("pape", [])), (" (did you mean `paper`?)".to_owned(), String::new()));
    }
}
