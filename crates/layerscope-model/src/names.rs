//! What a family calls its tensors.

use std::fmt;

/// A module of the canonical model. Names of modules end where `.weight` and `.bias` begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the names say it
pub enum Slot {
    TokenEmbedding,
    PositionEmbedding,
    TypeEmbedding,
    EmbeddingNorm,
    EmbeddingProjection,
    RelativeBias,
    AttentionInNorm,
    AttentionOutNorm,
    AfterAttentionNorm,
    FeedForwardInNorm,
    FeedForwardOutNorm,
    AfterFeedForwardNorm,
    Query,
    Key,
    Value,
    QueryKeyValue,
    QueryNorm,
    KeyNorm,
    AttentionOutput,
    Gate,
    Up,
    GateUp,
    Down,
    FinalNorm,
    OutputProjection,
}

impl fmt::Display for Slot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, out)
    }
}

/// How a family stores the weight of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearLayout {
    /// `[outputs, inputs]`.
    OutIn,
    /// `[inputs, outputs]`.
    InOut,
    /// `[outputs, inputs]`; in a head of queries or keys, rows that turn together follow each other: 0, d/2, 1, d/2 + 1, ...
    OutInByPairs,
}

/// A family's tensor names.
#[derive(Debug)]
pub struct Names {
    /// What may stand before every name: one per class that saved the checkpoint, the bare model's is `""`.
    pub prefixes: &'static [&'static str],
    /// The module of each slot; `{}` is the block's number. A slot with several rows is filled by the first one that
    /// the checkpoint holds.
    pub modules: &'static [(Slot, &'static str)],
    /// Tensors deliberately not read (heads, buffers), with `*` for anything.
    pub ignored: &'static [&'static str],
    /// How the weights of linear layers are stored.
    pub linear_layout: LinearLayout,
}

impl Names {
    /// The modules that may fill a slot, in order, for block `block` where the slot is per block.
    pub fn modules_for(&self, slot: Slot, block: usize) -> impl Iterator<Item = String> {
        self.modules
            .iter()
            .filter(move |(candidate, _)| *candidate == slot)
            .map(move |(_, template)| template.replace("{}", &block.to_string()))
    }

    /// Whether a tensor, named without its prefix, is deliberately ignored.
    pub fn ignores(&self, name: &str) -> bool {
        self.ignored.iter().any(|pattern| matches(pattern, name))
    }
}

/// Glob match with `*` only.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => match name.strip_prefix(head) {
            None => false,
            Some(rest) => (0..=rest.len()).filter(|&at| rest.is_char_boundary(at)).any(|at| matches(tail, &rest[at..])),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{LinearLayout, Names, Slot, matches};

    #[test]
    fn a_slot_may_have_several_names() {
        let names = Names {
            prefixes: &[""],
            modules: &[(Slot::AttentionInNorm, "h.{}.ln_attn"), (Slot::FinalNorm, "ln_f"), (Slot::AttentionInNorm, "h.{}.ln")],
            ignored: &[],
            linear_layout: LinearLayout::OutIn,
        };
        assert_eq!(names.modules_for(Slot::AttentionInNorm, 3).collect::<Vec<_>>(), ["h.3.ln_attn", "h.3.ln"]);
        assert_eq!(names.modules_for(Slot::FinalNorm, 0).collect::<Vec<_>>(), ["ln_f"]);
        assert_eq!(names.modules_for(Slot::Query, 0).count(), 0);
    }

    #[test]
    fn globs_match_whole_names() {
        assert!(matches("h.*.attn.bias", "h.11.attn.bias"));
        assert!(matches("cls.*", "cls.predictions.bias"));
        assert!(!matches("h.*.attn.bias", "h.11.attn.c_attn.bias"));
        assert!(!matches("pooler", "pooler.dense.weight"));
    }
}
