//! Normalizers that make a text many times as long, which would take all memory, are refused before they see one.

use serde_json::Value;

/// How many times as long replacements may make a text, all of them together. Real ones put one character for another.
const LARGEST_GROWTH: f64 = 16.0;

/// Looks at the normalizer of a `tokenizer.json`; what cannot be read is left to the library to refuse.
pub(super) fn check(json: &[u8]) -> Result<(), String> {
    let Ok(tokenizer) = serde_json::from_slice::<Value>(json) else { return Ok(()) };
    let factor = growth(&tokenizer["normalizer"])?;
    match factor <= LARGEST_GROWTH {
        true => Ok(()),
        false => Err(format!("its normalizer may make a text {factor:.0} times as long; {LARGEST_GROWTH} times is the most that is done")),
    }
}

fn growth(normalizer: &Value) -> Result<f64, String> {
    let parts = normalizer["normalizers"].as_array();
    let nested = parts.into_iter().flatten().try_fold(1.0, |product: f64, part| Ok::<f64, String>(product * growth(part)?))?;
    if normalizer["type"] != "Replace" {
        return Ok(nested);
    }
    let length = |text: &Value| text.as_str().map(|text| text.chars().count());
    let Some(content) = length(&normalizer["content"]) else { return Ok(nested) };
    match (length(&normalizer["pattern"]["String"]), length(&normalizer["pattern"]["Regex"])) {
        (Some(0), _) | (_, Some(0)) => Err("its normalizer replaces nothing at all: the pattern of a `Replace` is empty".to_owned()),
        (Some(pattern), _) => Ok(nested * (content as f64 / pattern as f64).max(1.0)),
        // An expression may match a single character.
        _ => Ok(nested * (content as f64).max(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_the_product_of_all_replacements() {
        let replace =
            |pattern: &str, content: &str| serde_json::json!({ "type": "Replace", "pattern": { "String": pattern }, "content": content });
        let all = |parts: Vec<Value>| serde_json::json!({ "normalizer": { "type": "Sequence", "normalizers": parts } }).to_string();
        assert_eq!(check(all(vec![replace(" ", "▁"); 50]).as_bytes()), Ok(()));
        assert_eq!(check(all(vec![replace("a", "aa"); 4]).as_bytes()), Ok(()));
        assert!(check(all(vec![replace("a", "aa"); 5]).as_bytes()).expect_err("too long").contains("32 times as long"));
        assert!(check(all(vec![replace("", "a")]).as_bytes()).expect_err("endless").contains("is empty"));
        assert_eq!((check(b"{}"), check(b"no JSON")), (Ok(()), Ok(())));
    }
}
