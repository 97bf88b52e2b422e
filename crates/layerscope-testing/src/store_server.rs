//! An object store on loopback: it speaks enough HTTP and S3 for the tests, and misbehaves when told to.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the next request meets instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// This status and nothing else.
    Status(u16),
    /// So many bytes of the body, then a cut connection.
    Cut(usize),
    /// The same, and the file loses its last byte meanwhile.
    CutAndChange(usize),
    /// What is asked for is done, and the connection cut before a word of it.
    Unanswered,
    /// An answer as it should be.
    None,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    faults: VecDeque<Fault>,
    always: Option<Fault>,
    requests: Vec<String>,
    without_ranges: bool,
    endless: bool,
}

/// Serves `/bucket/key` until the test's process ends.
#[derive(Clone)]
pub struct StoreServer {
    /// Where it listens: `http://127.0.0.1:PORT`.
    pub address: String,
    state: Arc<Mutex<State>>,
}

/// Names in a listing's answer: few, so that every listing of more takes several requests.
const PAGE: usize = 2;

impl StoreServer {
    /// An empty one on a free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = StoreServer { address: format!("http://{}", listener.local_addr().unwrap()), state: Arc::default() };
        let state = Arc::clone(&server.state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                std::thread::spawn(move || while serve(&stream, &state).unwrap_or(false) {});
            }
        });
        server
    }

    /// The environment of somebody who uses this server as S3.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT", self.address.clone()),
            ("AWS_ALLOW_HTTP", "true".into()),
            ("AWS_REGION", "us-east-1".into()),
            ("AWS_ACCESS_KEY_ID", "somebody".into()),
            ("AWS_SECRET_ACCESS_KEY", "secret".into()),
        ]
    }

    /// Puts a file at `bucket/key`.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        self.state.lock().unwrap().files.insert(name.into(), content.as_ref().to_vec());
    }

    /// What is at `bucket/key`.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.state.lock().unwrap().files.get(name).cloned()
    }

    /// Everything that is there, by `bucket/key`.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.state.lock().unwrap().files.clone()
    }

    /// Puts these files in place of all that is there.
    pub fn replace(&self, files: BTreeMap<String, Vec<u8>>) {
        let mut state = self.state.lock().unwrap();
        (state.files, state.uploads) = (files, BTreeMap::new());
    }

    /// Uploads in parts that were begun and neither completed nor given up.
    pub fn unfinished_uploads(&self) -> usize {
        self.state.lock().unwrap().uploads.len()
    }

    /// What the next requests meet, one after the other.
    pub fn faults(&self, faults: &[Fault]) {
        self.state.lock().unwrap().faults = faults.iter().copied().collect();
    }

    /// What every request meets from now on.
    pub fn always(&self, fault: Option<Fault>) {
        self.state.lock().unwrap().always = fault;
    }

    /// From now on it sends whole files, whatever range is asked for.
    pub fn without_ranges(&self) {
        self.state.lock().unwrap().without_ranges = true;
    }

    /// From now on every listing says that there is more, and begins again.
    pub fn lists_without_end(&self) {
        self.state.lock().unwrap().endless = true;
    }

    /// The requests so far, as `METHOD target [range]`; forgets them.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    range: Option<(usize, Option<usize>)>,
    if_match: Option<String>,
    body: Vec<u8>,
}

fn serve(stream: &TcpStream, state: &Mutex<State>) -> std::io::Result<bool> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let Some(request) = receive(&mut reader, state)? else { return Ok(false) };
    let (status, headers, body, fault) = {
        let mut state = state.lock().unwrap();
        let fault = state.always.or_else(|| state.faults.pop_front()).unwrap_or(Fault::None);
        match fault {
            Fault::Status(status) => (status, String::new(), Vec::new(), fault),
            _ => {
                let (status, headers, body) = state.answer(&request);
                if let Fault::CutAndChange(_) = fault {
                    state.files.get_mut(request.path.trim_start_matches('/')).and_then(Vec::pop);
                }
                (status, headers, body, fault)
            }
        }
    };
    if fault == Fault::Unanswered {
        stream.shutdown(std::net::Shutdown::Both)?;
        return Ok(false);
    }
    let mut out = stream;
    let length = body.len();
    // At once: pieces of it would wait for each other.
    out.write_all(format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n").as_bytes())?;
    if request.method != "HEAD" {
        match fault {
            Fault::Cut(after) | Fault::CutAndChange(after) => {
                out.write_all(&body[..after.min(length)])?;
                out.flush()?;
                stream.shutdown(std::net::Shutdown::Both)?;
                return Ok(false);
            }
            _ => out.write_all(&body)?,
        }
    }
    Ok(true)
}

fn receive(reader: &mut BufReader<&TcpStream>, state: &Mutex<State>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or("").to_owned(), words.next().unwrap_or("").to_owned());
    let (mut length, mut range, mut if_match) = (0, None, None);
    let mut noted = format!("{method} {target}");
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "if-match" => if_match = Some(value.to_owned()),
            "range" => {
                noted = format!("{noted} {value}");
                let (first, last) = value.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
                range = Some((first.parse().unwrap(), last.parse().ok()));
            }
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    state.lock().unwrap().requests.push(noted);
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    };
    let query = query.split('&').filter(|text| !text.is_empty()).map(pair).collect();
    Ok(Some(Request { method, path: decode(path), query, range, if_match, body }))
}

type Answer = (u16, String, Vec<u8>);

impl State {
    fn answer(&mut self, request: &Request) -> Answer {
        let name = request.path.trim_start_matches('/').to_owned();
        let xml = |body: String| (200, "content-type: application/xml\r\n".into(), body.into_bytes());
        match (request.method.as_str(), request.query.get("uploadId")) {
            ("GET", _) if request.query.contains_key("list-type") => xml(self.list(&name, &request.query)),
            ("GET" | "HEAD", _) => self.get(&name, request),
            ("POST", None) if request.query.contains_key("uploads") => {
                let id = format!("upload-{}", self.uploads.len());
                self.uploads.insert(id.clone(), BTreeMap::new());
                xml(format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"))
            }
            ("PUT", Some(id)) => {
                let number = request.query["partNumber"].parse().unwrap();
                self.uploads.get_mut(id).unwrap().insert(number, request.body.clone());
                (200, format!("etag: \"part-{number}\"\r\n"), Vec::new())
            }
            ("POST", Some(id)) => {
                let parts = self.uploads.remove(id).unwrap();
                self.files.insert(name, parts.into_values().flatten().collect());
                xml("<CompleteMultipartUploadResult><ETag>\"done\"</ETag></CompleteMultipartUploadResult>".into())
            }
            ("DELETE", Some(id)) => {
                self.uploads.remove(id);
                (204, String::new(), Vec::new())
            }
            ("PUT", None) => {
                self.files.insert(name, request.body.clone());
                (200, "etag: \"put\"\r\n".into(), Vec::new())
            }
            ("DELETE", None) => {
                self.files.remove(&name);
                (204, String::new(), Vec::new())
            }
            // Deletion of many, which is how S3's clients delete one.
            ("POST", None) if request.query.contains_key("delete") => {
                let body = String::from_utf8_lossy(&request.body).into_owned();
                let key = body.split("<Key>").nth(1).unwrap().split("</Key>").next().unwrap();
                self.files.remove(&format!("{name}/{key}"));
                xml(format!("<DeleteResult><Deleted><Key>{key}</Key></Deleted></DeleteResult>"))
            }
            _ => (405, String::new(), Vec::new()),
        }
    }

    fn get(&self, name: &str, request: &Request) -> Answer {
        let Some(content) = self.files.get(name) else { return (404, String::new(), Vec::new()) };
        let sum = content.iter().fold(7u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let etag = format!("\"{sum:x}\"");
        if request.if_match.as_ref().is_some_and(|wanted| *wanted != etag) {
            return (412, String::new(), Vec::new());
        }
        let headers = format!("etag: {etag}\r\nlast-modified: Sun, 01 Nov 2020 00:00:00 GMT\r\n");
        match request.range {
            Some((first, last)) if !self.without_ranges => {
                let end = last.map_or(content.len(), |last| (last + 1).min(content.len()));
                let range = format!("content-range: bytes {first}-{}/{}\r\n", end - 1, content.len());
                (206, headers + &range, content[first..end].to_vec())
            }
            _ => (200, headers, content.clone()),
        }
    }

    fn list(&self, bucket: &str, query: &BTreeMap<String, String>) -> String {
        let bucket = bucket.trim_end_matches('/');
        let prefix = query.get("prefix").map_or("", String::as_str);
        let after = query.get("continuation-token").filter(|_| !self.endless).map_or("", String::as_str);
        let keys = self.files.iter().filter_map(|(name, content)| Some((name.strip_prefix(&format!("{bucket}/"))?, content.len())));
        let direct = |key: &str| !query.contains_key("delimiter") || !key[prefix.len()..].contains('/');
        let wanted: Vec<_> = keys.filter(|(key, _)| key.starts_with(prefix) && *key > after && direct(key)).collect();
        let mut body = format!("<ListBucketResult><IsTruncated>{}</IsTruncated>", self.endless || wanted.len() > PAGE);
        for (key, size) in wanted.iter().take(PAGE) {
            body += &format!(
                "<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>2020-11-01T00:00:00.000Z</LastModified><ETag>x</ETag></Contents>"
            );
        }
        if self.endless || wanted.len() > PAGE {
            body += &format!("<NextContinuationToken>{}</NextContinuationToken>", wanted.get(PAGE - 1).map_or("more", |(key, _)| key));
        }
        body + "</ListBucketResult>"
    }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'%' => {
                bytes.push(u8::from_str_radix(std::str::from_utf8(&tail[..2]).unwrap(), 16).unwrap());
                rest = &tail[2..];
            }
            b'+' => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}
