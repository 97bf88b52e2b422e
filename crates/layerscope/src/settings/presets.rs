//! The conventions of papers. Flags override them.

use crate::error::{Error, Result};
use layerscope_error::not_one_of;

/// The conventions of one paper.
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Settings and their values.
    pub sets: &'static [(&'static str, &'static str)],
}

/// The names, in the order of the table.
pub const NAMES: [&str; 4] = [PRESETS[0].name, PRESETS[1].name, PRESETS[2].name, PRESETS[3].name];

/// All presets.
pub const PRESETS: [Preset; 4] = [
    // Yamagiwa & Shimodaira 2025: section 3 and appendix A.
    Preset {
        name: "paper",
        sets: &[
            ("sample", "0.01"),
            ("max-words", "63"),
            ("lowercase", "true"),
            ("wrap", "bos-eos"),
            ("specials", "count"),
            ("group", "surface"),
        ],
    },
    // Razzhigaev et al. 2024: enwik8 without mark-up, in pieces of 512 characters, batches of 4096 states.
    Preset {
        name: "shape-of-learning",
        sets: &[("clean", "wiki"), ("chunk-chars", "512"), ("measures", "norm,cosine,spectrum,dimension")],
    },
    // Machina & Mercer 2024: the partition function and the mean cosine.
    Preset { name: "machina", sets: &[("measures", "norm,cosine,spectrum,partition")] },
    // Ethayarajh 2019: words in at least 5 unique contexts.
    Preset { name: "ethayarajh", sets: &[("dedup", "true"), ("frequency", "5:100000"), ("measures", "norm,cosine")] },
];

/// The preset of this name.
pub fn find(name: &str) -> Result<&'static Preset> {
    const ALL: &[Preset] = &PRESETS;
    ALL.iter().find(|preset| preset.name == name).ok_or_else(|| Error::usage(not_one_of("preset", name, &NAMES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::table::{Role, Row};

    #[test]
    fn presets_set_known_settings() {
        for (name, _) in PRESETS.iter().flat_map(|preset| preset.sets) {
            assert!(Row::named(name).is_some_and(|row| row.role == Role::Numbers), "{name}");
        }
        let line = find("papers").err().map(|error| error.to_string());
        assert_eq!(
            line.as_deref(),
            Some("--preset `papers` is not understood (did you mean `paper`?); give paper, shape-of-learning, machina or ethayarajh")
        );
    }
}
