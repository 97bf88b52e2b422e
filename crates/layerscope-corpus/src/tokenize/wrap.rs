//! What stands around every sequence.

use std::path::Path;

use layerscope_error::{Line, line, setting};
use serde_json::Value;
use tokenizers::{Encoding, Tokenizer};

use super::one_line;
use crate::error::{Error, Result};

/// Which special tokens are added around a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wrap {
    /// Those that the tokenizer adds by itself.
    #[default]
    Model,
    /// One at each end: BOS or else CLS, EOS or else SEP. A model that has only one of them gets it at both ends.
    BosEos,
    /// None.
    None,
}

/// The ids before and after every sequence.
pub(super) fn around(
    tokenizer: &Tokenizer,
    named: impl FnOnce() -> Result<Vec<Value>>,
    file: &Path,
    wrap: Wrap,
) -> Result<(Vec<u32>, Vec<u32>)> {
    match wrap {
        Wrap::None => Ok((Vec::new(), Vec::new())),
        Wrap::Model => of_model(tokenizer, file),
        Wrap::BosEos => {
            let (start, end) = ends(tokenizer, &named()?, file)?;
            Ok((vec![start], vec![end]))
        }
    }
}

/// Sends one token through the post-processor and sees what comes back around it.
fn of_model(tokenizer: &Tokenizer, file: &Path) -> Result<(Vec<u32>, Vec<u32>)> {
    let probe =
        Encoding::new(vec![0], vec![0], vec!["a".into()], vec![Some(0)], vec![(0, 1)], vec![0], vec![1], vec![], Default::default());
    let wrapped = tokenizer.post_process(probe, None, true).map_err(|error| Error::tokenizer(file, one_line(&error)))?;
    let mask = wrapped.get_special_tokens_mask();
    let (ids, at) = (wrapped.get_ids(), mask.iter().position(|&special| special == 0));
    match at {
        Some(at) if mask[at + 1..].iter().all(|&special| special == 1) => Ok((ids[..at].to_vec(), ids[at + 1..].to_vec())),
        _ => Err(Error::tokenizer(file, line!["its post-processor does more than put tokens around a text; ", choose("bos-eos")])),
    }
}

/// What the files beside a tokenizer name its tokens, the first file that does so first.
pub(super) fn named_ends(folder: &Path) -> Result<Vec<Value>> {
    let files = ["tokenizer_config.json", "special_tokens_map.json"];
    files.iter().filter_map(|name| read_json(&folder.join(name)).transpose()).collect()
}

/// BOS and EOS, from what files name them, or what the tokenizer does by itself, in this order.
fn ends(tokenizer: &Tokenizer, maps: &[Value], file: &Path) -> Result<(u32, u32)> {
    let folder = file.parent().filter(|_| file.ends_with("tokenizer.json")).unwrap_or(file);
    let named = |keys: [&str; 2]| -> Result<Option<u32>> {
        for key in keys {
            let token = maps.iter().find_map(|map| token_text(&map[key]));
            if let Some(token) = token {
                let problem = || line![format!("{key} is `{token}`, which is not in tokenizer.json; "), choose("model")];
                return tokenizer.token_to_id(token).map(Some).ok_or_else(|| Error::tokenizer(folder, problem()));
            }
        }
        Ok(None)
    };
    let (prefix, suffix) = of_model(tokenizer, file).unwrap_or_default();
    let start = named(["bos_token", "cls_token"])?.or(prefix.first().copied());
    let end = named(["eos_token", "sep_token"])?.or(suffix.last().copied());
    match (start.or(end), end.or(start)) {
        (Some(start), Some(end)) => Ok((start, end)),
        _ => Err(Error::tokenizer(folder, line!["names no token for the start or end of a text; ", choose("model")])),
    }
}

/// The other ways to wrap.
fn choose(wrap: &str) -> Line {
    line!["use ", setting("wrap").to(wrap), " or ", setting("wrap").to("none")]
}

fn read_json(path: &Path) -> Result<Option<Value>> {
    match std::fs::read_to_string(path) {
        Ok(text) => match serde_json::from_str(&text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(Error::tokenizer(path, format!("not JSON: {}", one_line(&error)))),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::tokenizer(path, format!("cannot be read: {error}"))),
    }
}

/// A special token is written as its text or as an object that holds it.
fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value["content"].as_str())
}
