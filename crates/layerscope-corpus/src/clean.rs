//! Text without its mark-up.

mod line;
mod scan;
mod tags;

use std::str::FromStr;

use layerscope_error::not_one_of;

use crate::error::{Error, Result};

/// What to strip from the text before it is cut into documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clean {
    /// Wikipedia's mark-up: templates, tables, references, media, categories, links to other languages, formulas, code and tags go;
    /// labels of links, headings with text below them, and the text of lists stay. Entities become characters, white space single
    /// spaces, paragraphs lines. Text files that are dumps in XML are read page by page: a page is a record.
    Wiki,
}

impl Clean {
    /// The text without its mark-up; empty if there was nothing else.
    pub fn apply(self, text: &str) -> String {
        match self {
            Clean::Wiki => line::tidy(&scan::strip(text)),
        }
    }
}

impl FromStr for Clean {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "wiki" => Ok(Clean::Wiki),
            _ => Err(Error::usage(not_one_of("clean", text, &["wiki"]))),
        }
    }
}
