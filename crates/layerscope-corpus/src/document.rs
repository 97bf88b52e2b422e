//! Records as files hold them, and documents as the filters make them.

use std::fmt;

/// Who a document is, fixed before any filter: the same in every shard and for every setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentId {
    /// The file's place in the sorted list of inputs.
    pub file: u32,
    /// The record's place in the file, from 0.
    pub record: u64,
    /// The piece's place in the record, from 0; always 0 unless text is cut into pieces.
    pub chunk: u32,
}

/// `file:record`, and `file:record:chunk` for pieces of a record after the first.
impl fmt::Display for DocumentId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.file, self.record)?;
        if self.chunk > 0 { write!(out, ":{}", self.chunk) } else { Ok(()) }
    }
}

/// One record of a file: a line, or a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its text.
    pub text: String,
    /// The value of the column that groups documents, where one was asked for.
    pub column: Option<String>,
}

/// A piece of text that passed the filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Who it is.
    pub id: DocumentId,
    /// Its place among all kept documents of the whole corpus, whatever the shard.
    pub ordinal: u64,
    /// Its text as the tokenizer will read it.
    pub text: String,
    /// The value of the column that groups documents, where one was asked for.
    pub column: Option<String>,
}
