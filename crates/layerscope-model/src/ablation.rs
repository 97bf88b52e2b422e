//! Norms altered on purpose, so that "is it the layer norm?" is an experiment. Whatever reads the specification afterwards (the
//! forward pass, the predictions of theory, the drawing) sees the altered model.

use std::fmt;
use std::str::FromStr;

use layerscope_error::meant;

use crate::model::Model;
use crate::spec::{BlockNorms, NormSpec, Residual};

/// One alteration of some of a model's norms.
#[derive(Clone, Debug, PartialEq)]
pub struct Ablation {
    change: Change,
    /// None: every norm of the model.
    places: Option<Vec<Place>>,
    /// As it was asked for.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Identity,
    UnitGamma,
    NoBeta,
    ScaledGamma(f32),
}

/// Whose norms: 0 is the embedding's, `i` those of block `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Layers(usize, usize),
    Final,
}

/// What can be asked for.
const EXAMPLES: &str =
    "final-norm, norm:identity, norm:gamma=1, norm:beta=0 or norm:gamma*=S; add layers such as @0,2-4 or @final to alter only theirs";

/// Those of them that are single words.
const WORDS: [&str; 4] = ["final-norm", "norm:identity", "norm:gamma=1", "norm:beta=0"];

impl FromStr for Ablation {
    type Err = String;

    fn from_str(text: &str) -> Result<Ablation, String> {
        let text = text.trim();
        let wrong = || format!("`{text}` is not understood{}; give {EXAMPLES}", meant(text, WORDS));
        if text == "final-norm" {
            return Ok(Ablation { change: Change::Identity, places: Some(vec![Place::Final]), text: text.to_owned() });
        }
        let (what, places) = text.split_once('@').map_or((text, None), |(what, places)| (what, Some(places)));
        let change = match what.strip_prefix("norm:").ok_or_else(wrong)? {
            "identity" => Change::Identity,
            "gamma=1" => Change::UnitGamma,
            "beta=0" => Change::NoBeta,
            other => {
                let factor: Option<f32> = other.strip_prefix("gamma*=").and_then(|factor| factor.parse().ok());
                Change::ScaledGamma(factor.filter(|factor| factor.is_finite()).ok_or_else(wrong)?)
            }
        };
        let places = places.map(|list| list.split(',').map(|place| parse_place(place).ok_or_else(wrong)).collect()).transpose()?;
        Ok(Ablation { change, places, text: text.to_owned() })
    }
}

fn parse_place(text: &str) -> Option<Place> {
    if text == "final" {
        return Some(Place::Final);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(Place::Layers(first, last))
}

impl fmt::Display for Ablation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Model {
    /// Alters the norms, one ablation after the other, and remembers it in `altered`. Norms of queries and keys stay as they are.
    ///
    /// Refuses what would change nothing: a norm, gamma or beta that the model lacks. After an error the model is unusable.
    pub fn ablate(&mut self, ablations: &[Ablation]) -> Result<(), String> {
        for ablation in ablations {
            self.ablate_once(ablation).map_err(|problem| format!("`{ablation}`: {problem}"))?;
        }
        let all: Vec<String> = ablations.iter().map(Ablation::to_string).collect();
        self.altered = (!all.is_empty()).then(|| all.join("; "));
        Ok(())
    }

    fn ablate_once(&mut self, Ablation { change, places, .. }: &Ablation) -> Result<(), String> {
        let blocks = self.spec.blocks.len();
        let Some(places) = places else {
            let changed: usize = (0..=blocks).map(|layer| self.ablate_layer(layer, *change)).sum();
            return match changed + apply(&mut self.spec.final_norm, *change) {
                0 => Err(format!("the model has {}", change.lacking())),
                _ => Ok(()),
            };
        };
        for place in places {
            match *place {
                Place::Final if apply(&mut self.spec.final_norm, *change) == 0 => {
                    return Err(match self.spec.final_norm {
                        Some(_) => format!("the final norm has no {}", change.part()),
                        None => "the model has no final norm".to_owned(),
                    });
                }
                Place::Final => {}
                Place::Layers(_, last) if last > blocks => return Err(format!("no layer {last}; the model has layers 0 to {blocks}")),
                Place::Layers(first, last) => {
                    for layer in first..=last {
                        if self.ablate_layer(layer, *change) == 0 {
                            let whose = if layer == 0 { "the embedding".to_owned() } else { format!("block {layer}") };
                            return Err(format!("{whose} has {}", change.lacking()));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// How many norms of a layer were changed.
    fn ablate_layer(&mut self, layer: usize, change: Change) -> usize {
        let Some(block) = layer.checked_sub(1).map(|index| &mut self.spec.blocks[index]) else {
            return apply(&mut self.spec.embedding.norm, change);
        };
        let BlockNorms { attention_in, attention_out, after_attention, feed_forward_in, feed_forward_out, after_feed_forward } =
            &mut block.norms;
        let norms = [attention_in, attention_out, after_attention, feed_forward_in, feed_forward_out, after_feed_forward];
        let changed = norms.into_iter().map(|norm| apply(norm, change)).sum();
        if change == Change::Identity && block.residual == Residual::SequentialFromNorms {
            block.residual = Residual::Sequential; // the output of an identity is the stream itself
        }
        changed
    }
}

impl Change {
    /// The part of a norm that is changed.
    fn part(self) -> &'static str {
        match self {
            Change::Identity => "norm",
            Change::UnitGamma | Change::ScaledGamma(_) => "gamma",
            Change::NoBeta => "beta",
        }
    }

    /// What is wrong with a layer in which this changes nothing.
    fn lacking(self) -> String {
        match self {
            Change::Identity => "no norm".to_owned(),
            _ => format!("no norm with {}", self.part()),
        }
    }
}

/// 1 if the norm was there and had what is changed.
fn apply(norm: &mut Option<NormSpec>, change: Change) -> usize {
    let Some(spec) = norm else { return 0 };
    match change {
        Change::Identity => *norm = None,
        Change::UnitGamma if spec.gamma => (spec.gamma, spec.gamma_scale) = (false, 1.0),
        Change::NoBeta if spec.beta => spec.beta = false,
        Change::ScaledGamma(factor) => spec.gamma_scale *= factor,
        Change::UnitGamma | Change::NoBeta => return 0,
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ablations_are_read_as_they_are_written() {
        for text in ["final-norm", "norm:identity", "norm:gamma=1@0", "norm:beta=0@final", "norm:gamma*=0.5@1-3,5,final"] {
            assert_eq!(text.parse::<Ablation>().expect(text).to_string(), text);
        }
        let scaled: Ablation = "norm:gamma*=0.5@1-3,5,final".parse().expect("an ablation");
        assert_eq!(scaled.change, Change::ScaledGamma(0.5));
        assert_eq!(scaled.places, Some(vec![Place::Layers(1, 3), Place::Layers(5, 5), Place::Final]));
        for text in
            ["", "norm", "norm:", "norm:gamma=2", "norm:gamma*=x", "norm:gamma*=inf", "norm:identity@", "norm:identity@3-1", "final-norm@2"]
        {
            assert!(text.parse::<Ablation>().is_err(), "{text}");
        }
    }
}
