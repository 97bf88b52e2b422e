//! Records as files hold them, and documents as the filters make them.

use std::fmt;

/// The identity of a document. It is assigned before any filter, so it is the same in every shard and for every setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentId {
    /// The file's position in the sorted list of inputs.
    pub file: u32,
    /// The record's position in the file, from 0.
    pub record: u64,
    /// The chunk's position in the record, from 0; always 0 unless records are cut into chunks.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Its text.
    pub text: String,
    /// The value of the column that groups documents, if there is one.
    pub column: Option<String>,
    /// The value of the column that splits the corpus; `None` without such a column, and where the record has no value.
    pub part: Option<String>,
}

/// A piece of text that passed the filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its identity.
    pub id: DocumentId,
    /// Its position among all kept documents of the whole corpus, not only of this shard.
    pub ordinal: u64,
    /// Its text as the tokenizer will read it.
    pub text: String,
    /// The value of the column that groups documents, if there is one.
    pub column: Option<String>,
    /// The value of the column that splits the corpus, if there is one.
    pub part: Option<String>,
}
