//! Why a store did not do what it was asked, in one line.

use std::fmt;

use layerscope_error::{ErrorKind, Line, line};
use object_store::Error as Store;

/// This crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One line that says what went wrong, where, and what to do.
#[derive(Debug)]
pub struct Error {
    /// The address as the user named it.
    pub address: String,
    /// What is wrong and what to do.
    pub problem: Line,
    absent: bool,
}

impl Error {
    pub(crate) fn new(address: &str, problem: impl Into<Line>) -> Self {
        Error { address: address.to_owned(), problem: problem.into(), absent: false }
    }

    /// What kind of trouble this is.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Io
    }

    /// The message, with settings as data.
    pub fn line(&self) -> Line {
        line![format!("{}: ", self.address), self.problem.clone()]
    }

    /// Whether there is nothing at this address.
    pub fn is_absent(&self) -> bool {
        self.absent
    }

    pub(crate) fn absent(address: &str, problem: impl Into<Line>) -> Self {
        Error { absent: true, ..Error::new(address, problem) }
    }

    /// Puts a store's error into our words.
    pub(crate) fn store(address: &str, error: &Store) -> Self {
        let web = address.starts_with("http");
        match error {
            Store::NotFound { .. } if web => Error::absent(address, "not found (404); check the address"),
            Store::NotFound { .. } => Error::absent(address, "not found (404); check the bucket and the name"),
            Store::PermissionDenied { .. } => Error::new(address, denied(address)),
            Store::Unauthenticated { .. } => Error::new(address, unknown(address)),
            Store::Precondition { .. } => Error::new(address, "the file changed while it was being read; start again"),
            Store::NotSupported { .. } => Error::new(address, "the connection was lost and the server cannot resume a download; try again"),
            other => Error::new(address, reason(address, other)),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line().fmt(out)
    }
}

impl std::error::Error for Error {}

fn denied(address: &str) -> String {
    format!("access denied (403); {}", credentials(address))
}

fn unknown(address: &str) -> String {
    format!("credentials needed (401); {}", credentials(address))
}

fn credentials(address: &str) -> &'static str {
    match address.split_once("://").map_or("", |(scheme, _)| scheme) {
        "s3" => "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, or set AWS_SKIP_SIGNATURE=true for a public bucket",
        "gs" => "check GOOGLE_APPLICATION_CREDENTIALS, or set GOOGLE_SKIP_SIGNATURE=true for a public bucket",
        "az" | "abfss" => "check AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY (or AZURE_STORAGE_SAS_TOKEN)",
        _ => "download the file yourself and name the copy",
    }
}

/// The deepest reason there is, without the layers around it.
fn reason(address: &str, error: &Store) -> String {
    let mut deepest: &dyn std::error::Error = error;
    let mut line = String::new();
    loop {
        let text = deepest.to_string();
        if text.contains("169.254.169.254") || text.contains("metadata.google.internal") {
            return format!("no credentials; {}", credentials(address));
        }
        line = if text.is_empty() { line } else { text };
        match deepest.source() {
            Some(source) => deepest = source,
            None => break,
        }
    }
    let line: String = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = match line.strip_prefix("Server returned non-2xx status code: ") {
        Some(status) if status.starts_with("403") => return denied(address), // listings
        Some(status) if status.starts_with("401") => return unknown(address),
        Some(status) => format!("the server answered {status}"),
        None => line,
    };
    let short: String = line.chars().take(200).collect();
    format!("{}; check the network and the address, or try again", short.trim_end_matches([':', ' ', '.']))
}
