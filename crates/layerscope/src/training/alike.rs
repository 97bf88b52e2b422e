//! Checkpoints of one training are of one model.

use layerscope_error::{line, setting};

use crate::error::{Error, Result};
use crate::store::facts::ModelFacts;

/// The first checkpoint of a training: every other must be like it.
#[derive(Default)]
pub struct FirstCheckpoint(Option<(String, ModelFacts)>);

impl FirstCheckpoint {
    /// Refuses a checkpoint of another architecture or vocabulary than the first.
    pub fn compare(&mut self, revision: &str, facts: &ModelFacts) -> Result<()> {
        let Some((first, reference)) = &self.0 else {
            self.0 = Some((revision.to_owned(), facts.clone()));
            return Ok(());
        };
        let differing = architecture(reference).into_iter().zip(architecture(facts)).find(|((_, there), (_, here))| there != here);
        let Some(((what, there), (_, here))) = differing else { return Ok(()) };
        Err(Error::mismatch(line![
            format!("{revision} is not of the same model as {first}: its {what} is {here}, not {there}; leave it out of "),
            setting("revisions")
        ]))
    }
}

/// What must be equal in all checkpoints.
fn architecture(facts: &ModelFacts) -> [(&'static str, String); 7] {
    [
        ("family", facts.family.clone()),
        ("vocabulary", facts.vocabulary.to_string()),
        ("number of layers", facts.layers.to_string()),
        ("width", facts.width.to_string()),
        ("number of heads", facts.heads.to_string()),
        ("number of parameters", facts.parameters.to_string()),
        ("block", facts.norms.clone()),
    ]
}
