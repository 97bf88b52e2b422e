//! One blob onto the disk: resumed where an earlier attempt stopped, checked, and only then given its name.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use layerscope_files::is_open_at;
use sha2::{Digest, Sha256};

use super::cache::Repository;
use super::client::{Client, Failure, Remote};
use super::{OnProgress, Progress};
use crate::error::Error;

/// Why a blob could not be stored.
pub(super) enum Trouble {
    /// The network's or the hub's fault.
    Hub(Failure),
    /// The disk's.
    Disk(Error),
}

impl Trouble {
    /// The error to show, the hub's faults explained by `explain`.
    pub(super) fn into_error(self, explain: impl FnOnce(Failure) -> Error) -> Error {
        match self {
            Trouble::Hub(failure) => explain(failure),
            Trouble::Disk(error) => error,
        }
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Hub(failure)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Disk(error)
    }
}

/// After this many new bytes, earlier failures no longer count.
const GOOD_PROGRESS: u64 = 1 << 20;
const BUFFER_BYTES: usize = 128 << 10;

/// Makes sure that a file's blob is in the cache.
pub(super) fn blob(client: &Client, repository: &Repository, remote: &Remote, report: Option<&OnProgress>) -> Result<(), Trouble> {
    let blob = repository.blob(&remote.etag);
    let there = || blob.metadata().is_ok_and(|found| found.is_file() && found.len() == remote.size);
    if there() {
        return Ok(());
    }
    let lock = repository.lock(&remote.etag)?;
    if there() {
        return Ok(()); // another process fetched it while this one waited
    }
    // A part that nothing can check in the end is not built upon.
    let resumable = lock.is_some() && remote.sha256().is_some();
    let mut part = Part::open(repository.part(&remote.etag, resumable), resumable, remote, report)?;
    let resumed = part.done > 0;
    part.fill(client)?;
    let mut genuine = part.is_genuine()?;
    if resumed && !genuine {
        part.restart()?; // the part on disk was not the beginning of this file
        part.fill(client)?;
        genuine = part.is_genuine()?;
    }
    if !genuine {
        part.resumable = false;
        return Err(Failure::Unusable("the bytes received do not have the announced sha256".to_owned()).into());
    }
    part.file.sync_all().map_err(|source| Error::io(&part.path, source))?;
    if is_open_at(&part.file, &part.path).unwrap_or(false) {
        fs::rename(&part.path, &blob)
            .or_else(|error| if there() { Ok(()) } else { Err(error) })
            .map_err(|source| Error::io(&blob, source))?;
    }
    match there() {
        true => Ok(()),
        false => Err(Failure::Passing(format!("another process removed {}", part.path.display())).into()),
    }
}

/// The beginning of a blob.
///
/// Some shared file systems grant one lock to several machines. Then they write the same bytes to the same places of
/// one part, and the first to finish names it; so a part is never shortened, only given up for a new file.
struct Part<'a> {
    path: PathBuf,
    file: File,
    done: u64,
    resumable: bool,
    remote: &'a Remote,
    report: Option<&'a OnProgress>,
}

impl<'a> Part<'a> {
    fn open(path: PathBuf, resumable: bool, remote: &'a Remote, report: Option<&'a OnProgress>) -> Result<Self, Error> {
        let open = || {
            let mut file = options().open(&path)?;
            let done = file.seek(SeekFrom::End(0))?;
            Ok((file, done))
        };
        let (file, done) = open().map_err(|source| Error::io(&path, source))?;
        Ok(Part { path, file, done, resumable, remote, report })
    }

    /// Receives all that is missing. Attempts that make progress may be repeated without limit.
    fn fill(&mut self, client: &Client) -> Result<(), Trouble> {
        let (mut failures, mut farthest) = (0, self.done);
        while self.done < self.remote.size {
            let problem = match self.receive(client) {
                Ok(()) if self.done == self.remote.size => break,
                Ok(()) => "the server closed the connection".to_owned(),
                Err(Trouble::Hub(Failure::Passing(problem))) => problem,
                Err(other) => return Err(other),
            };
            if self.done >= farthest + GOOD_PROGRESS {
                (failures, farthest) = (0, self.done);
            }
            if !client.wait(failures) {
                let (done, size, times) = (self.done, self.remote.size, failures + 1);
                let kept = if self.resumable { " and kept" } else { "" };
                let problem = format!("the connection broke {times} times ({problem}), {done} of {size} bytes received{kept}");
                return Err(Failure::Passing(problem).into());
            }
            failures += 1;
        }
        Ok(())
    }

    /// One attempt.
    fn receive(&mut self, client: &Client) -> Result<(), Trouble> {
        let response = match client.get(&self.remote.url, self.done) {
            Err(Failure::Refused { status: 416, .. }) if self.done > 0 => {
                self.restart()?;
                return Err(Failure::Passing("the server does not resume".to_owned()).into());
            }
            outcome => outcome?,
        };
        match (response.status().as_u16(), self.done) {
            (200, 0) => {}
            (200, _) => self.restart()?,
            (206, 1..) if self.continues(response.headers().get("content-range").and_then(|value| value.to_str().ok())) => {}
            (206, 1..) => {
                self.restart()?;
                return Err(Failure::Passing("the server resumes at the wrong byte".to_owned()).into());
            }
            (status, _) => return Err(Failure::Unusable(format!("the server answers {status} to a download")).into()),
        }
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::Passing(error.to_string()).into()),
            };
            if self.done + count as u64 > self.remote.size {
                self.restart()?;
                return Err(Failure::Unusable(format!("more than the announced {} bytes", self.remote.size)).into());
            }
            self.file.write_all(&buffer[..count]).map_err(|source| Error::io(&self.path, source))?;
            self.done += count as u64;
            if let Some(report) = self.report {
                report(Progress { file: &self.remote.file, done: self.done, total: self.remote.size });
            }
        }
    }

    /// Whether a `Content-Range` is exactly the rest of this file.
    fn continues(&self, range: Option<&str>) -> bool {
        let (first, last, size) = (self.done, self.remote.size - 1, self.remote.size);
        range.is_some_and(|range| range == format!("bytes {first}-{last}/{size}") || range == format!("bytes {first}-{last}/*"))
    }

    fn restart(&mut self) -> Result<(), Error> {
        let fresh = fs::remove_file(&self.path).or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) });
        self.file = fresh.and_then(|()| options().open(&self.path)).map_err(|source| Error::io(&self.path, source))?;
        self.done = 0;
        Ok(())
    }

    /// Whether the bytes have the sha256 that names them, if one does.
    fn is_genuine(&mut self) -> Result<bool, Error> {
        let Some(announced) = self.remote.sha256() else { return Ok(true) };
        let mut hash = Sha256::new();
        let mut read = || {
            self.file.rewind()?;
            let mut buffer = vec![0; BUFFER_BYTES];
            loop {
                match self.file.read(&mut buffer)? {
                    0 => return Ok(()),
                    count => hash.update(&buffer[..count]),
                }
            }
        };
        read().map_err(|source| Error::io(&self.path, source))?;
        let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(found.eq_ignore_ascii_case(announced))
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if !self.resumable {
            let _ = fs::remove_file(&self.path); // already gone if all went well
        }
    }
}

fn options() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options
}
