//! Where in a network states come from.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::facts::PointFacts;

/// A layer, and which of its points: ordered as states pass through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// 0 is the embedding, i the output of block i.
    pub layer: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Embedding,
    Block,
    FinalNorm,
}

impl Place {
    /// The embedding at layer 0, a block elsewhere.
    pub fn of_layer(layer: u32) -> Place {
        Place { layer, kind: if layer == 0 { Kind::Embedding } else { Kind::Block } }
    }

    /// With the name of a point: `embedding`, `block` or `final_norm`.
    pub fn new(layer: u32, point: &str) -> Result<Place> {
        let kind = match point {
            "embedding" => Kind::Embedding,
            "block" => Kind::Block,
            "final_norm" => Kind::FinalNorm,
            _ => return Err(Error::Usage(format!("--point `{point}` is unknown; give embedding, block or final_norm"))),
        };
        Ok(Place { layer, kind })
    }

    /// The name of the point.
    pub fn point(self) -> &'static str {
        match self.kind {
            Kind::Embedding => "embedding",
            Kind::Block => "block",
            Kind::FinalNorm => "final_norm",
        }
    }

    /// As the tables have it.
    pub(super) fn facts(self, massive: Option<f64>) -> PointFacts {
        PointFacts { layer: self.layer as usize, point: self.point().to_owned(), predicted_q: None, massive }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::FinalNorm => write!(out, "layer {} (final_norm)", self.layer),
            _ => write!(out, "layer {}", self.layer),
        }
    }
}
