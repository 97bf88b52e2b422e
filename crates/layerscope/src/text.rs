//! Numbers as people read them.

pub use layerscope_report::text::grouped;

/// Three significant digits with a unit of thousand: `22.6 M`.
pub fn short(number: usize) -> String {
    let units = [(1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| number as f64 >= *scale).unwrap_or((1.0, ""));
    let scaled = number as f64 / scale;
    let decimals = if unit.is_empty() || scaled >= 100.0 { 0 } else { 1 };
    format!("{scaled:.decimals$}{unit}")
}

/// Bytes in binary units: `86.4 MiB`.
pub fn bytes(count: usize) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(scale, _)| count >= *scale) {
        Some((scale, unit)) => format!("{:.1} {unit}", count as f64 / scale as f64),
        None => format!("{count} B"),
    }
}

/// A number of things: `1 document`, `2,000 documents`.
pub fn counted(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(count as usize), if count == 1 { "" } else { "s" })
}

/// Lines of whole words, of at most `width` characters where words allow it.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("never empty");
        match line.is_empty() || line.len() + 1 + word.len() <= width {
            true => line.push_str(&if line.is_empty() { word.to_owned() } else { format!(" {word}") }),
            false => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([7, 1500, 22_565_376, 124_000_000].map(short), ["7", "1.5 k", "22.6 M", "124 M"]);
        assert_eq!([0, 1, 2000].map(|count| counted(count, "document")), ["0 documents", "1 document", "2,000 documents"]);
        assert_eq!([512, 2048, 90_868_376].map(bytes), ["512 B", "2.0 KiB", "86.7 MiB"]);
    }
}
