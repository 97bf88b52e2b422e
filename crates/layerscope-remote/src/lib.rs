//! Files in object stores and on web servers, by their address. This crate does not know what the files mean.
//!
//! | address | served by | settings, from the environment |
//! |---|---|---|
//! | `s3://bucket/key` | Amazon S3 and compatible servers | AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT (or AWS_ENDPOINT_URL), AWS_ALLOW_HTTP, AWS_SKIP_SIGNATURE |
//! | `gs://bucket/key` | Google Cloud Storage | GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SERVICE_ACCOUNT, GOOGLE_SKIP_SIGNATURE |
//! | `az://container/key`, `abfss://` | Azure Blob Storage | AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_ENDPOINT |
//! | `http://`, `https://` | any web server, only for reading | HTTPS_PROXY |
//!
//! All calls block. Requests that fail temporarily are repeated, interrupted downloads continue where they stopped, and an uploaded file
//! appears complete or not at all.
//!
//! ```no_run
//! use std::io::Read;
//! use std::sync::atomic::AtomicBool;
//! use layerscope_remote::{Options, Remote};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (remote, cancel) = (Remote::new(Options::from_env()), AtomicBool::new(false));
//! for entry in remote.list("s3://corpora/novels/*.txt.gz", &cancel)? {
//!     println!("{} has {} bytes", entry.address, entry.bytes);
//! }
//! let mut text = String::new();
//! remote.open("https://example.org/novel.txt", &cancel)?.read_to_string(&mut text)?;
//! remote.put("s3://runs/one/novel.txt", &mut text.as_bytes())?;
//! # Ok(())
//! # }
//! ```

mod address;
mod error;
mod options;
mod reader;
mod remote;

pub use address::is_address;
pub use error::{Error, Result};
pub use options::Options;
pub use reader::Reader;
pub use remote::{Entry, Remote};
