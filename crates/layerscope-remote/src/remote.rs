//! Listing, reading and writing by address.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};
use tokio::runtime::Runtime;

use crate::address::Address;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::reader::{Download, Reader};

/// How often a waiting call looks whether it should stop.
pub(crate) const GLANCE: Duration = Duration::from_millis(50);

/// Parts of an upload: stores want at least 5 MiB and at most 10,000 of them.
const PART_BYTES: usize = 16 << 20;

/// No run and no corpus has more files; a store may list without end.
const MOST_ENTRIES: usize = 1_000_000;
const LONGEST_LISTING: Duration = Duration::from_secs(600);

/// A file at an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its address.
    pub address: String,
    /// Its size.
    pub bytes: u64,
    /// When it last changed, if the server tells.
    pub modified: Option<SystemTime>,
}

/// Connections to any number of stores. Clones share them; nothing is opened before it is needed.
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    options: Options,
    runtime: Mutex<Option<Arc<Runtime>>>,
    stores: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Remote").field(&self.0.options).finish()
    }
}

impl Remote {
    /// Connections with these options.
    pub fn new(options: Options) -> Self {
        Remote(Arc::new(Inner { options, runtime: Mutex::new(None), stores: Mutex::new(HashMap::new()) }))
    }

    /// The files that an address stands for, sorted: one file; everything below `s3://bucket/folder/` (with the slash); or the matches of a
    /// pattern with `*`, `?`, `[...]` and `**`. The name of an existing file is never a pattern. No file at all is an error.
    pub fn list(&self, address: &str, cancel: &AtomicBool) -> Result<Vec<Entry>> {
        let parsed = Address::parse(address)?;
        let pattern = !parsed.is_web() && parsed.key.contains(['*', '?', '[']);
        if parsed.is_web() && address.contains('*') {
            return Err(Error::new(address, "patterns do not work on web servers; name the files one by one"));
        }
        let entries = match pattern {
            false if parsed.is_web() || !(parsed.key.is_empty() || parsed.key.ends_with('/')) => {
                return Ok(vec![self.head(address, cancel)?]);
            }
            false => self.below(&parsed, parsed.key.trim_end_matches('/'), true, cancel)?,
            true => self.matching(&parsed, cancel)?,
        };
        match (entries.is_empty(), pattern) {
            (false, _) => Ok(entries),
            (true, true) => Err(Error::absent(address, "no file matches this pattern")),
            (true, false) => Err(Error::absent(address, "no files there; check the bucket and the name")),
        }
    }

    /// One file and its size.
    pub fn head(&self, address: &str, cancel: &AtomicBool) -> Result<Entry> {
        let parsed = Address::parse(address)?;
        let (store, path) = (self.store(&parsed)?, parsed.path()?);
        let found = self.wait(address, cancel, store.head(&path))?;
        let found = match found {
            // Some web servers answer GET and refuse HEAD; signed addresses always do.
            Err(_) if parsed.is_web() => self.wait(address, cancel, store.get(&path))?.map(|result| result.meta),
            found => found,
        };
        let meta = found.map_err(|error| Error::store(address, &error))?;
        Ok(entry(address.to_owned(), &meta))
    }

    /// Starts a download. Setting `cancel` soon ends it with an error.
    pub fn open<'c>(&self, address: &str, cancel: &'c AtomicBool) -> Result<Reader<'c>> {
        let parsed = Address::parse(address)?;
        let download =
            Download { address: address.to_owned(), store: self.store(&parsed)?, path: parsed.path()?, options: self.0.options.clone() };
        let first = self.wait(address, cancel, download.from(None))?.map_err(|error| Error::store(address, &error))?;
        Ok(Reader::start(download, first, self.runtime(address)?, cancel))
    }

    /// Uploads a file and replaces what was there. It appears complete or not at all.
    pub fn put(&self, address: &str, content: &mut dyn Read) -> Result<()> {
        let parsed = Address::parse(address)?;
        if parsed.is_web() {
            return Err(Error::new(address, "cannot write to a web server; name a folder, or s3://, gs:// or az://"));
        }
        let (store, path, runtime) = (self.store(&parsed)?, parsed.path()?, self.runtime(address)?);
        let unread = |error: std::io::Error| Error::new(address, format!("cannot read what is to be uploaded: {error}"));
        let failed = |error: object_store::Error| Error::store(address, &error);
        let mut part = next_part(content).map_err(unread)?;
        if part.len() < PART_BYTES {
            return runtime.block_on(store.put(&path, part.into())).map(drop).map_err(failed);
        }
        let mut upload = runtime.block_on(store.put_multipart(&path)).map_err(failed)?;
        let mut send = || {
            while !part.is_empty() {
                runtime.block_on(upload.put_part(PutPayload::from(std::mem::take(&mut part)))).map_err(failed)?;
                part = next_part(content).map_err(unread)?;
            }
            runtime.block_on(upload.complete()).map(drop).map_err(failed)
        };
        let sent = send();
        if sent.is_err() {
            let _ = runtime.block_on(upload.abort()); // the first error is the one to report
        }
        sent
    }

    /// Removes a file; a missing file is not an error.
    pub fn delete(&self, address: &str) -> Result<()> {
        let parsed = Address::parse(address)?;
        let (store, path) = (self.store(&parsed)?, parsed.path()?);
        match self.runtime(address)?.block_on(store.delete(&path)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(Error::store(address, &error)),
        }
    }

    fn matching(&self, parsed: &Address, cancel: &AtomicBool) -> Result<Vec<Entry>> {
        let start = parsed.key.find(['*', '?', '[']).unwrap_or(parsed.key.len());
        let folder = parsed.key[..start].rfind('/').map_or("", |slash| &parsed.key[..slash]);
        let deep = parsed.key[start..].contains('/') || parsed.key[start..].contains("**");
        let mut entries = self.below(parsed, folder, deep, cancel)?;
        if let Some(itself) = entries.iter().position(|entry| entry.address == parsed.whole) {
            return Ok(vec![entries.swap_remove(itself)]);
        }
        let pattern = glob::Pattern::new(parsed.key).map_err(|error| Error::new(parsed.whole, format!("not a valid pattern: {error}")))?;
        let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
        let key = |entry: &Entry| entry.address[parsed.root.len() + 1..].to_owned();
        entries.retain(|entry| pattern.matches_with(&key(entry), options));
        Ok(entries)
    }

    /// What lies in a folder, and where `deep`, in the folders in it.
    fn below(&self, parsed: &Address, folder: &str, deep: bool, cancel: &AtomicBool) -> Result<Vec<Entry>> {
        let store = self.store(parsed)?;
        let folder = Path::parse(folder)
            .map_err(|_| Error::new(parsed.whole, "the name has empty, `.` or `..` parts, which stores do not allow"))?;
        let listed = self.wait(parsed.whole, cancel, async {
            match deep {
                true => all_of(store.list(Some(&folder))).await,
                false => store.list_with_delimiter(Some(&folder)).await.map(|listed| Some(listed.objects)),
            }
        })?;
        let listed = listed.map_err(|error| Error::store(parsed.whole, &error))?;
        let listed = listed.ok_or_else(|| {
            Error::new(parsed.whole, format!("the store lists files without end, or more than {MOST_ENTRIES}; name fewer of them"))
        })?;
        let mut entries: Vec<Entry> = listed.iter().map(|meta| entry(format!("{}/{}", parsed.root, meta.location), meta)).collect();
        entries.sort();
        Ok(entries)
    }

    fn store(&self, address: &Address) -> Result<Arc<dyn ObjectStore>> {
        let mut stores = self.0.stores.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(store) = stores.get(address.root) {
            return Ok(Arc::clone(store));
        }
        // Fails where the program has installed one already, which is as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = address.store(&self.0.options)?;
        stores.insert(address.root.to_owned(), Arc::clone(&store));
        Ok(store)
    }

    fn runtime(&self, address: &str) -> Result<Arc<Runtime>> {
        let mut runtime = self.0.runtime.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(runtime) = runtime.as_ref() {
            return Ok(Arc::clone(runtime));
        }
        let built = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("layerscope-remote").enable_all().build();
        let built = Arc::new(built.map_err(|error| Error::new(address, format!("cannot start a thread for the network: {error}")))?);
        Ok(Arc::clone(runtime.insert(built)))
    }

    /// Waits for an answer, or for `cancel`.
    fn wait<T>(&self, address: &str, cancel: &AtomicBool, answer: impl Future<Output = T>) -> Result<T> {
        self.runtime(address)?.block_on(async {
            let mut answer = pin!(answer);
            loop {
                match tokio::time::timeout(GLANCE, &mut answer).await {
                    Ok(answer) => return Ok(answer),
                    Err(_) if cancel.load(Ordering::Relaxed) => return Err(Error::new(address, "interrupted")),
                    Err(_) => {}
                }
            }
        })
    }
}

/// What a store lists; None where that has no end: a name comes again, there are too many, or it takes too long.
async fn all_of(mut listing: BoxStream<'_, object_store::Result<ObjectMeta>>) -> object_store::Result<Option<Vec<ObjectMeta>>> {
    let (mut seen, mut listed) = (HashSet::new(), Vec::new());
    let collect = async {
        while let Some(meta) = listing.try_next().await? {
            if !seen.insert(meta.location.clone()) || listed.len() == MOST_ENTRIES {
                return Ok(None);
            }
            listed.push(meta);
        }
        Ok(Some(listed))
    };
    tokio::time::timeout(LONGEST_LISTING, collect).await.unwrap_or(Ok(None))
}

fn entry(address: String, meta: &ObjectMeta) -> Entry {
    let modified = SystemTime::from(meta.last_modified);
    Entry { address, bytes: meta.size, modified: Some(modified).filter(|time| *time > SystemTime::UNIX_EPOCH) }
}

/// The next so many bytes, fewer at the end.
fn next_part(content: &mut dyn Read) -> std::io::Result<Vec<u8>> {
    let mut part = Vec::new();
    content.take(PART_BYTES as u64).read_to_end(&mut part)?;
    Ok(part)
}
