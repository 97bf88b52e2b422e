//! The name of a point of a network: how tables, state files and callers call it.

use std::fmt;

use layerscope_error::not_one_of;
use layerscope_model::Point;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A layer and one of its points, ordered as states pass through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PointName {
    /// The index of the reference library's `hidden_states`: 0 is the embedding, i the output of block i.
    pub layer: u32,
    #[serde(rename = "point", alias = "kind")]
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Embedding,
    Block,
    FinalNorm,
    Projected,
}

impl PointName {
    /// The embedding at layer 0, a block elsewhere.
    pub fn of_layer(layer: u32) -> PointName {
        PointName { layer, kind: if layer == 0 { Kind::Embedding } else { Kind::Block } }
    }

    /// A point of a layer by its name: `embedding`, `block`, `final_norm` or `projected`.
    pub fn new(layer: u32, point: &str) -> Result<PointName> {
        let kinds = [Kind::Embedding, Kind::Block, Kind::FinalNorm, Kind::Projected];
        let kind = kinds.into_iter().find(|kind| kind.name() == point);
        let unknown = || Error::usage(not_one_of("point", point, &kinds.map(|kind| kind.name())));
        Ok(PointName { layer, kind: kind.ok_or_else(unknown)? })
    }

    /// A point of a model with this many blocks.
    pub(crate) fn of(at: Point, blocks: usize) -> PointName {
        let kind = match at {
            Point::Embedding => Kind::Embedding,
            Point::Block(_) => Kind::Block,
            Point::FinalNorm => Kind::FinalNorm,
            Point::Projected => Kind::Projected,
        };
        PointName { layer: at.layer(blocks) as u32, kind }
    }

    /// The name of the point: `embedding`, `block`, `final_norm` or `projected`.
    pub fn point(self) -> &'static str {
        self.kind.name()
    }

    /// Whether the point lies after the final norm.
    pub(crate) fn is_final_norm(self) -> bool {
        self.kind == Kind::FinalNorm
    }

    /// The prefix of its tensors in a state file.
    pub(crate) fn stored(self) -> String {
        format!("layer{}.{}", self.layer, self.point())
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Embedding => "embedding",
            Kind::Block => "block",
            Kind::FinalNorm => "final_norm",
            Kind::Projected => "projected",
        }
    }
}

impl fmt::Display for PointName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::FinalNorm | Kind::Projected => write!(out, "layer {} ({})", self.layer, self.point()),
            _ => write!(out, "layer {}", self.layer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_one_name_everywhere() {
        let points = [Point::Embedding, Point::Block(1), Point::Block(2), Point::FinalNorm, Point::Projected];
        let names: Vec<PointName> = points.into_iter().map(|at| PointName::of(at, 2)).collect();
        let stored: Vec<String> = names.iter().map(|name| name.stored()).collect();
        assert_eq!(stored, ["layer0.embedding", "layer1.block", "layer2.block", "layer2.final_norm", "layer2.projected"]);
        assert!(names.is_sorted());
        assert_eq!(names[0], PointName::of_layer(0));
        assert_eq!(PointName::new(2, "final_norm").expect("known"), names[3]);
        assert_eq!(PointName::new(2, "projected").expect("known"), names[4]);
        assert_eq!(serde_json::to_string(&names[1]).expect("JSON"), r#"{"layer":1,"point":"block"}"#);
        assert_eq!(serde_json::from_str::<PointName>(r#"{"layer":1,"kind":"block"}"#).expect("as collectors saved it"), names[1]);
        assert!(PointName::new(2, "norm").expect_err("unknown").to_string().starts_with("--point `norm` is not understood"));
    }
}
