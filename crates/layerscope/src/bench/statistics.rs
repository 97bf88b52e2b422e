//! Whole measurements of a part of the text, and what they cost beside the model alone.

use layerscope_report::manifest::Timings;
use serde::Serialize;

use super::BenchSettings;
use super::forward::Speed;
use crate::error::Result;
use crate::measure::measure;
use crate::process::cancel::CancelToken;
use crate::process::temporary::TemporaryFolder;
use crate::settings::Settings;

/// The measurements: what they are called, and their `--measures`, where that is not the default.
pub const MEASURES: [(&str, Option<&str>); 2] = [("norm,cosine", Some("norm,cosine")), ("default measures", None)];

/// A whole measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    /// What was measured.
    pub measures: String,
    /// Tokens that the model read.
    pub tokens: u64,
    /// Tokens a second of the model and the sketches.
    pub tokens_per_second: f64,
    /// Their time over that of the model alone.
    pub over_forward: f64,
    /// Where the time went.
    pub timings: Timings,
}

/// What every measurement is asked for.
pub fn asked(model: &str, text: &str, out: &str, settings: &BenchSettings) -> Result<Settings> {
    let asked = Settings::new(model, [text], out);
    match &settings.dtype {
        Some(dtype) => asked.set("dtype", dtype.as_str()),
        None => Ok(asked),
    }
}

/// Measures so many documents of a text at the speed that is recommended.
pub fn measured(
    model: &str,
    text: &str,
    (name, measures): &(&str, Option<&str>),
    documents: usize,
    fastest: &Speed,
    settings: &BenchSettings,
    cancel: &CancelToken,
) -> Result<Statistics> {
    let folder = TemporaryFolder::create()?;
    let out = folder.path().join("run").display().to_string();
    let mut asked = asked(model, text, &out, settings)?
        .set("limit", documents.max(1))?
        .set("threads", fastest.threads)?
        .set("batch-tokens", fastest.batch_tokens)?;
    if let Some(measures) = measures {
        asked = asked.set("measures", *measures)?;
    }
    let manifest = measure(&asked, cancel, &mut |_| {})?.result;
    let (tokens, timings) = (manifest.corpus.tokens.unwrap_or(0), manifest.timings.unwrap_or_default());
    Ok(Statistics::new(name, tokens, timings, fastest))
}

impl Statistics {
    fn new(measures: &str, tokens: u64, timings: Timings, fastest: &Speed) -> Statistics {
        let tokens_per_second = tokens as f64 / (timings.forward + timings.sketches).max(1e-9);
        let over_forward = fastest.tokens_per_second / tokens_per_second;
        Statistics { measures: measures.to_owned(), tokens, tokens_per_second, over_forward, timings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_the_time_over_that_of_the_model_alone() {
        let timings = Timings { forward: 3.0, sketches: 1.0, load: 7.0, ..Timings::default() };
        let fastest = Speed { threads: 2, batch_tokens: 256, tokens_per_second: 300.0 };
        // The model alone would have taken 1000 / 300 s.
        let statistics = Statistics::new("norm", 1000, timings, &fastest);
        assert_eq!((statistics.tokens_per_second, statistics.over_forward), (250.0, 1.2));
    }
}
