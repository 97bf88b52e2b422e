//! A hub on loopback: one port lists and describes files and serves the small ones, another stores the large ones.
//! It writes down every request and misbehaves on demand.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use sha2::{Digest, Sha256};

/// The running server; its threads end with the process.
pub struct HubServer {
    shared: Arc<Shared>,
}

struct Shared {
    hub: String,
    store: String,
    state: Mutex<State>,
}

/// What the server knows and how it misbehaves.
#[derive(Default)]
pub struct State {
    /// The one model it has.
    pub id: String,
    /// What each revision's name means.
    pub revisions: BTreeMap<String, String>,
    /// Files by commit and name.
    pub files: BTreeMap<(String, String), Stored>,
    /// A name the model once had: it sends on to the present one.
    pub former: Option<String>,
    /// A file that is listed and not there.
    pub lost: Option<String>,
    /// Refuses requests to the hub's port that do not carry it.
    pub token: Option<String>,
    /// Files whose licence was not accepted answer 403.
    pub gated: bool,
    /// Ends bodies of a file at this byte, so many times.
    pub cut: BTreeMap<String, (usize, usize)>,
    /// Cuts this many bytes later each time.
    pub cut_step: usize,
    /// Goes silent instead of closing when it cuts.
    pub silent: bool,
    /// Answers the next so many requests with 503.
    pub busy: usize,
    /// Sends the whole file whatever range was asked for.
    pub ignores_ranges: bool,
    /// Resumes this many bytes too late.
    pub range_error: usize,
    /// Does not say how large the files in the store are.
    pub hides_sizes: bool,
    /// Sends this ETag instead of the true one.
    pub false_etag: Option<String>,
    /// Sends these bytes instead of a large file's, of the same length.
    pub false_bytes: Option<Vec<u8>>,
    /// Every request so far.
    pub log: Vec<Seen>,
}

/// A file of the repository.
#[derive(Clone)]
pub struct Stored {
    /// Its content.
    pub bytes: Vec<u8>,
    /// In the store on the second port, under its sha256.
    pub large: bool,
}

impl Stored {
    /// The name of its blob.
    pub fn etag(&self) -> String {
        let hash: String = Sha256::digest(&self.bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if self.large { hash } else { hash[..40].to_owned() }
    }
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// At the store's port rather than the hub's.
    pub at_store: bool,
    /// GET or HEAD.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
}

impl HubServer {
    /// A hub with one empty model.
    pub fn start(id: &str) -> Self {
        let listen = || TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (hub, store) = (listen(), listen());
        let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let state = Mutex::new(State { id: id.to_owned(), ..State::default() });
        let shared = Arc::new(Shared { hub: url(&hub), store: url(&store), state });
        for (listener, at_store) in [(hub, false), (store, true)] {
            let shared = shared.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let shared = shared.clone();
                    std::thread::spawn(move || shared.serve(stream, at_store));
                }
            });
        }
        HubServer { shared }
    }

    /// Adds a file to a revision.
    pub fn add(&self, revision: &str, commit: &str, file: &str, bytes: &[u8], large: bool) {
        let mut state = self.state();
        state.revisions.insert(revision.to_owned(), commit.to_owned());
        state.revisions.insert(commit.to_owned(), commit.to_owned());
        state.files.insert((commit.to_owned(), file.to_owned()), Stored { bytes: bytes.to_vec(), large });
    }

    /// The address for HF_ENDPOINT.
    pub fn endpoint(&self) -> &str {
        &self.shared.hub
    }

    /// Its knowledge and its faults.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// The name of a file's blob.
    pub fn etag(&self, commit: &str, file: &str) -> String {
        self.state().files[&(commit.to_owned(), file.to_owned())].etag()
    }

    /// The requests since the last call.
    pub fn take_log(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state().log)
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream, at_store: bool) {
        let Some(seen) = read_request(&stream, at_store) else { return };
        let mut state = self.state.lock().unwrap();
        state.log.push(seen.clone());
        let silent = state.silent;
        let reply = if at_store { self.at_store(&mut state, &seen) } else { self.at_hub(&mut state, &seen) };
        drop(state);
        let head = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<String>();
        let length = reply.body.len();
        let _ = write!(stream, "HTTP/1.1 {} X\r\n{head}Content-Length: {length}\r\nConnection: close\r\n\r\n", reply.status);
        if seen.method != "HEAD" {
            let sent = reply.cut.unwrap_or(length).min(length);
            let _ = stream.write_all(&reply.body[..sent]).and_then(|()| stream.flush());
            if sent < length && silent {
                std::thread::sleep(std::time::Duration::from_secs(20));
            }
        }
    }

    fn at_hub(&self, state: &mut State, seen: &Seen) -> Reply {
        if state.busy > 0 {
            state.busy -= 1;
            return Reply::status(503);
        }
        if state.token.as_ref().is_some_and(|token| seen.headers.get("authorization") != Some(&format!("Bearer {token}"))) {
            return Reply::status(401);
        }
        if let Some(former) = state.former.as_ref().filter(|former| seen.path.contains(&format!("/{former}/"))) {
            return Reply::status(307).header("Location", &seen.path.replacen(former.as_str(), &state.id, 1));
        }
        if seen.path == format!("/api/models/{}/refs", state.id) {
            let names = state.revisions.iter().filter(|(name, commit)| name != commit);
            let branches: Vec<_> = names.map(|(name, commit)| serde_json::json!({ "name": name, "targetCommit": commit })).collect();
            let answer = serde_json::json!({ "branches": branches, "converts": [], "tags": [{ "name": "a-tag" }] });
            return Reply::body(answer.to_string().into_bytes());
        }
        let (listing, resolve) = (format!("/api/models/{}/revision/", state.id), format!("/{}/resolve/", state.id));
        if let Some(revision) = seen.path.strip_prefix(&listing) {
            let Some(commit) = state.revisions.get(&revision.replace("%2F", "/")) else {
                return Reply::status(404).header("X-Error-Code", "RevisionNotFound");
            };
            let names = state.files.keys().filter(|(at, _)| at == commit).map(|(_, name)| serde_json::json!({ "rfilename": name }));
            let answer = serde_json::json!({ "id": state.id, "sha": commit, "siblings": names.collect::<Vec<_>>() });
            return Reply::body(answer.to_string().into_bytes());
        }
        let Some((commit, name)) = seen.path.strip_prefix(&resolve).and_then(|rest| rest.split_once('/')) else {
            return Reply::status(404).header("X-Error-Code", "RepoNotFound");
        };
        if state.gated {
            return Reply::status(403).header("X-Error-Code", "GatedRepo");
        }
        let found = state.files.get(&(commit.to_owned(), name.to_owned())).filter(|_| state.lost.as_deref() != Some(name));
        let Some(file) = found.cloned() else {
            return Reply::status(404).header("X-Error-Code", "EntryNotFound");
        };
        let etag = format!("\"{}\"", state.false_etag.clone().unwrap_or_else(|| file.etag()));
        if file.large {
            let location = format!("{}/{commit}/{name}?signature=x", self.store);
            let reply = Reply::status(302).header("Location", &location).header("X-Linked-Etag", &etag);
            return if state.hides_sizes { reply } else { reply.header("X-Linked-Size", &file.bytes.len().to_string()) };
        }
        state.send(seen, name, file.bytes).header("ETag", &etag).header("X-Repo-Commit", commit)
    }

    fn at_store(&self, state: &mut State, seen: &Seen) -> Reply {
        let path = seen.path.split('?').next().unwrap_or_default();
        let Some((commit, name)) = path.trim_start_matches('/').split_once('/') else { return Reply::status(404) };
        let Some(file) = state.files.get(&(commit.to_owned(), name.to_owned())).cloned() else { return Reply::status(404) };
        let bytes = state.false_bytes.clone().unwrap_or(file.bytes);
        state.send(seen, name, bytes).header("ETag", "\"an-etag-of-the-store\"")
    }
}

impl State {
    /// A file's bytes from the asked one on, with the faults ordered for it.
    fn send(&mut self, seen: &Seen, name: &str, bytes: Vec<u8>) -> Reply {
        let asked =
            seen.headers.get("range").map(|range| range.trim_start_matches("bytes=").trim_end_matches('-').parse::<usize>().unwrap());
        let from = asked.filter(|_| !self.ignores_ranges);
        let size = bytes.len();
        let mut reply = match from {
            None => Reply::body(bytes),
            Some(from) if from >= size => return Reply::status(416).header("Content-Range", &format!("bytes */{size}")),
            Some(from) => {
                let from = (from + self.range_error).min(size - 1);
                let mut reply = Reply::body(bytes[from..].to_vec()).header("Content-Range", &format!("bytes {from}-{}/{size}", size - 1));
                reply.status = 206;
                reply
            }
        };
        if seen.method == "GET"
            && let Some((at, times)) = self.cut.get_mut(name).filter(|(_, times)| *times > 0)
        {
            *times -= 1;
            *at += self.cut_step;
            reply.cut = Some(at.saturating_sub(from.unwrap_or(0)));
        }
        reply
    }
}

struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    cut: Option<usize>,
}

impl Reply {
    fn status(status: u16) -> Self {
        Reply { status, headers: Vec::new(), body: Vec::new(), cut: None }
    }

    fn body(body: Vec<u8>) -> Self {
        Reply { body, ..Self::status(200) }
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

fn read_request(stream: &TcpStream, at_store: bool) -> Option<Seen> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line.ok()?;
        if line.is_empty() {
            return Some(Seen { at_store, method, path, headers });
        }
        let (name, value) = line.split_once(':')?;
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    None
}
