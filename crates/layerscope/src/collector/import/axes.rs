//! Which axis of an array of states is which.

use layerscope_error::{line, setting};

use super::arrays::Array;
use crate::error::{Error, Result};

/// The order of the axes of an array of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axes {
    Token,
    TokenLayer,
    LayerToken,
    BatchToken,
    LayerBatchToken,
}

/// Names of those that have three axes or four.
const NAMES: [(&str, Axes); 4] = [
    ("token,layer,component", Axes::TokenLayer),
    ("layer,token,component", Axes::LayerToken),
    ("batch,token,component", Axes::BatchToken),
    ("layer,batch,token,component", Axes::LayerBatchToken),
];

impl Axes {
    /// As the user says, or as the lengths tell; `rows` is the number of tokens if it is known.
    pub fn of(array: &Array<'_>, asked: Option<&str>, rows: Option<usize>) -> Result<Axes> {
        let shape = array.shape();
        let asked = asked.map(parse).transpose()?;
        if let Some(axes) = asked.filter(|axes| shape.len() > 2 && axes.count() != shape.len()) {
            let line = line![array.in_file(), "; ", setting("axes"), format!(" names {} axes", axes.count())];
            return Err(Error::usage(line));
        }
        match (shape, asked) {
            ([_, _], _) => Ok(Axes::Token),
            ([_, _, _], Some(axes)) => Ok(axes),
            ([_, _, _, _], _) => Ok(Axes::LayerBatchToken),
            (&[first, second, _], None) => match rows {
                Some(rows) if first == rows && second != rows => Ok(Axes::TokenLayer),
                Some(rows) if second == rows && first != rows => Ok(Axes::LayerToken),
                Some(rows) if first.checked_mul(second) == Some(rows) => Ok(Axes::BatchToken),
                Some(rows) if first != rows && second != rows => {
                    Err(Error::usage(format!("{}; no axis but the last has {rows} tokens", array.in_file())))
                }
                _ => {
                    let line = line![format!("{}: which axis is the token's? Say it with ", array.in_file()), setting("axes")];
                    Err(Error::usage(line![line, format!(": {}", names(3))]))
                }
            },
            _ => Err(Error::usage(format!("{}; states have two, three or four axes", array.in_file()))),
        }
    }

    /// As one says it.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, axes)| *axes == self).map_or("token,component", |(name, _)| name)
    }

    /// Whether rows are the sequences of a batch.
    pub fn has_batch(self) -> bool {
        matches!(self, Axes::BatchToken | Axes::LayerBatchToken)
    }

    /// Whether the layer is an axis.
    pub fn has_layer(self) -> bool {
        matches!(self, Axes::TokenLayer | Axes::LayerToken | Axes::LayerBatchToken)
    }

    /// How many axes there are, with the component's.
    fn count(self) -> usize {
        self.name().split(',').count()
    }
}

fn parse(asked: &str) -> Result<Axes> {
    let known = NAMES.iter().find(|(name, _)| *name == asked.replace(' ', "")).map(|(_, axes)| *axes);
    let wrong = || line![setting("axes"), format!(" `{asked}` is not understood; give {} or {}", names(3), NAMES[3].0)];
    known.ok_or_else(|| Error::usage(wrong()))
}

/// The names of all orders of so many axes.
fn names(count: usize) -> String {
    let of: Vec<&str> = NAMES.iter().filter(|(_, axes)| axes.count() == count).map(|(name, _)| *name).collect();
    of.join(", ")
}
