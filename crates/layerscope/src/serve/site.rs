//! What a server answers: the page of the runs as they are now, and the blocks of the pages it gave out lately.
//!
//! An address is one of `/`, `/VERSION/` and `/VERSION/block/NAME`, compared letter by letter. None of it ever becomes part of a
//! file's name, so there is no path that could lead out of the given folders.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use layerscope_report::page::{Served, Settings};

use crate::error::Result;

/// Versions of the runs that are kept for pages that are still open.
const KEPT: usize = 4;

/// Some runs, as a small web site.
pub struct Site {
    folders: Vec<PathBuf>,
    settings: Settings,
    /// Whether only addresses of this machine may be asked for.
    local: bool,
    /// Newest first, never empty.
    shown: Mutex<Vec<Arc<Shown>>>,
    refreshing: Mutex<()>,
}

/// Runs as they were at one time, and their page.
struct Shown {
    runs: Served,
    page: Bytes,
}

impl Shown {
    fn open(folders: &[PathBuf], settings: &Settings) -> Result<Shown> {
        let runs = Served::open(folders)?;
        let mut page = Vec::new();
        runs.write(settings, &mut page)?;
        Ok(Shown { runs, page: page.into() })
    }
}

/// A status, headers and a body.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Of HTTP.
    pub status: u16,
    /// The headers that this answer has beside those that all have.
    pub headers: Vec<(&'static str, String)>,
    /// What is sent, except to those who asked for the headers only.
    pub body: Bytes,
}

impl Answer {
    fn new(status: u16, kind: &str, body: impl Into<Bytes>) -> Answer {
        Answer { status, headers: vec![("content-type", kind.to_owned())], body: body.into() }
    }

    fn said(status: u16, text: &str) -> Answer {
        Answer::new(status, "text/plain; charset=utf-8", format!("{text}\n"))
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    /// To another address, relative to the one that was asked for: a proxy may have put something before it.
    fn elsewhere(to: String) -> Answer {
        Answer::said(302, "the page is elsewhere").with("location", to)
    }
}

impl Site {
    /// Opens the runs. A local site answers only those who call it by a name of this machine: a page of somebody else's, whose
    /// name leads here, would not.
    pub fn open(folders: Vec<PathBuf>, settings: Settings, local: bool) -> Result<Site> {
        let shown = Mutex::new(vec![Arc::new(Shown::open(&folders, &settings)?)]);
        Ok(Site { folders, settings, local, shown, refreshing: Mutex::default() })
    }

    /// The answer to a request; `path` as it was sent, `hosts` as the headers say.
    pub fn answer(&self, method: &str, path: &str, hosts: &[String]) -> Answer {
        if self.local && !matches!(hosts, [host] if names_this_machine(host)) {
            return Answer::said(403, "this server answers to names of its own machine only");
        }
        if !matches!(method, "GET" | "HEAD") {
            return Answer::said(405, "only GET and HEAD").with("allow", "GET, HEAD");
        }
        let absent = || Answer::said(404, "nothing here");
        let Some(path) = path.strip_prefix('/') else { return absent() };
        let Some((version, rest)) = path.split_once('/') else {
            return if path.is_empty() { Answer::elsewhere(format!("{}/", self.current().runs.version())) } else { absent() };
        };
        let shown = self.lock().iter().find(|shown| shown.runs.version() == version).cloned();
        match (shown, rest.strip_prefix("block/")) {
            (Some(shown), None) if rest.is_empty() => {
                Answer::new(200, "text/html; charset=utf-8", shown.page.clone()).with("content-security-policy", policy())
            }
            (Some(shown), Some(name)) => match shown.runs.block(name) {
                Ok(Some(bytes)) => Answer::new(200, "application/octet-stream", bytes),
                Ok(None) => absent(),
                Err(error) => Answer::said(500, &layerscope_report::text::visible(&error.to_string())),
            },
            // An address from before the runs were replaced.
            (None, None) if rest.is_empty() && is_version(version) => Answer::elsewhere(format!("../{}/", self.current().runs.version())),
            (None, Some(_)) if is_version(version) => Answer::said(410, "the run was replaced; load the page again"),
            _ => absent(),
        }
    }

    /// The runs as they are now; as they were where they cannot be opened, because one is just being measured again.
    fn current(&self) -> Arc<Shown> {
        let _one_at_a_time = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = Arc::clone(&self.lock()[0]);
        if newest.runs.is_current() != Some(false) {
            return newest;
        }
        let Ok(opened) = Shown::open(&self.folders, &self.settings) else { return newest };
        let opened = Arc::new(opened);
        let mut shown = self.lock();
        shown.insert(0, Arc::clone(&opened));
        shown.truncate(KEPT);
        opened
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Shown>>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The page's own policy; and no page may put it into a frame, which only a header can say.
fn policy() -> String {
    format!("{}; frame-ancestors 'none'", Served::policy())
}

fn is_version(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether the `Host` of a request is this machine, whatever the port: it may have been forwarded.
fn names_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) => name,
        _ => host,
    };
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|own| name.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine() {
        for own in ["localhost", "LOCALHOST:80", "127.0.0.1:8765", "[::1]", "[::1]:9000"] {
            assert!(names_this_machine(own), "{own}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.evil.example:80",
            "127.0.0.1.evil.example",
            "10.0.0.1:8765",
            "::1",
            "localhost:80:80",
            "localhost:x",
        ] {
            assert!(!names_this_machine(other), "{other}");
        }
    }

    #[test]
    fn versions_are_recognized() {
        assert!(is_version("0123456789abcdef"));
        assert!(!is_version("0123456789abcde/") && !is_version("..") && !is_version(""));
    }
}
