//! What the model reads while it is measured: sentences.

use layerscope_corpus::{Wrap, write_spool};
use layerscope_model::Model;

use super::BenchSettings;
use crate::checkpoint::tokenizer::load_tokenizer;
use crate::demo::embedded;
use crate::error::{Error, Result};
use crate::process::cancel::CancelToken;
use crate::process::temporary::TemporaryFolder;

/// Documents that are read: enough that batches differ.
const DOCUMENTS: u64 = 2000;
/// Tokens of a longest sequence, and of one that is made up.
const WINDOW: usize = 512;
const SENTENCE: usize = 24;

/// Token sequences, and where they come from.
pub struct Text {
    /// Sequences as the model reads them.
    pub sequences: Vec<Vec<u32>>,
    /// The file of the text; None where it is made up.
    pub file: Option<String>,
    /// Why it is made up.
    pub note: Option<String>,
    _folder: Option<TemporaryFolder>,
}

impl Text {
    /// The text asked for, or the embedded one. A model without a tokenizer gets made-up sentences.
    pub fn read(model: &Model, settings: &BenchSettings, cancel: &CancelToken) -> Result<Text> {
        let tokenizer = match load_tokenizer(&model.folder, Wrap::Model) {
            Ok(tokenizer) => tokenizer,
            Err(error @ Error::Corpus(_)) if settings.corpus.is_none() => return Ok(Text::made_up(model, &error)),
            Err(error) => return Err(error),
        };
        let (file, folder) = match &settings.corpus {
            Some(file) => (file.clone(), None),
            None => {
                let (file, folder) = embedded::unpack_text()?;
                (file.display().to_string(), Some(folder))
            }
        };
        let window = model.spec.max_positions.unwrap_or(WINDOW).min(WINDOW);
        let mut reading = layerscope_corpus::Settings::new([&file], window);
        (reading.threads, reading.vocabulary) = (settings.threads, Some(model.spec.vocabulary));
        reading.filters.limit = Some(DOCUMENTS);
        let scratch = TemporaryFolder::create()?;
        let spool = write_spool(&reading, &tokenizer, &scratch.path().join("spool"), &mut |_| {}, cancel.flag())?;
        let mut sequences = Vec::new();
        for batch in spool.batches(WINDOW)? {
            sequences.extend(batch?.sequence_ids().map(<[u32]>::to_vec));
        }
        Ok(Text { sequences, file: Some(file), note: None, _folder: folder })
    }

    fn made_up(model: &Model, error: &Error) -> Text {
        let length = SENTENCE.min(model.spec.max_positions.unwrap_or(SENTENCE));
        let id = |place: usize| ((place * 7919) % model.spec.vocabulary) as u32;
        let sequences = (0..DOCUMENTS as usize).map(|s| (0..length).map(|i| id(s * length + i)).collect()).collect();
        let note = format!("made-up sentences, and no statistics: {error}");
        Text { sequences, file: None, note: Some(note), _folder: None }
    }

    /// Tokens of all sequences.
    pub fn tokens(&self) -> usize {
        self.sequences.iter().map(Vec::len).sum()
    }

    /// Keys that a query sees, on average.
    pub fn keys(&self, causal: bool) -> f64 {
        let squares: f64 = self.sequences.iter().map(|ids| (ids.len() as f64).powi(2)).sum();
        let all = squares / self.tokens().max(1) as f64;
        if causal { (all + 1.0) / 2.0 } else { all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_sees_its_whole_sequence_or_what_is_before_it() {
        let text = Text { sequences: vec![vec![1; 2], vec![1; 4]], file: None, note: None, _folder: None };
        // Two tokens see two keys and four see four; causally they see 1, 2, 1, 2, 3 and 4.
        assert_eq!(text.tokens(), 6);
        assert!((text.keys(false) - 20.0 / 6.0).abs() < 1e-12 && (text.keys(true) - 13.0 / 6.0).abs() < 1e-12);
    }
}
