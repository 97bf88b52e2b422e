//! A served page and requests to it, byte by byte.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use super::Outcome;
use super::measure::{end, start};

/// `layerscope serve` as it runs; it ends with the test.
pub struct Server {
    child: Option<Child>,
    /// `127.0.0.1:PORT`.
    pub address: String,
}

impl Server {
    /// Starts it on a free port and waits until it says where.
    pub fn start(folders: &[&Path], flags: &str) -> Server {
        let mut words: Vec<String> = vec!["serve".to_owned()];
        words.extend(folders.iter().map(|folder| folder.to_str().expect("UTF-8").to_owned()));
        words.extend(flags.split_whitespace().map(str::to_owned));
        Server::of(&words)
    }

    /// The same from the words of a command.
    pub fn of(words: &[String]) -> Server {
        let mut words = words.to_vec();
        words.extend(["--port", "0"].map(str::to_owned));
        let mut child = start(&words);
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let address = line.strip_prefix("http://").and_then(|rest| rest.split_once('/')).map(|(address, _)| address.to_owned());
        Server { address: address.unwrap_or_else(|| panic!("no address: {line} {}", end_of(&mut child))), child: Some(child) }
    }

    /// Lets it open so many files at most.
    pub fn limit_files(&self, count: u64) {
        let limit = libc::rlimit { rlim_cur: count, rlim_max: count };
        let id = self.child.as_ref().expect("still running").id();
        // SAFETY: the call reads a whole structure, and changes nothing but the limit of a process of ours.
        assert_eq!(unsafe { libc::prlimit(id as i32, libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) }, 0);
    }

    /// What it answers to a whole request.
    pub fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).expect("somebody listens");
        stream.set_read_timeout(Some(Duration::from_secs(300))).expect("patience");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        Answer::parse(&bytes)
    }

    /// What is at a path, sent as it is written here.
    pub fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address))
    }

    /// The path of the page.
    pub fn page(&self) -> String {
        let answer = self.get("/");
        assert_eq!(answer.status, 302);
        format!("/{}", answer.headers["location"])
    }

    /// Sends a signal and waits for the end.
    pub fn signalled(mut self, signal: &str) -> Outcome {
        let child = self.child.take().expect("still running");
        let id = child.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &id]).status().expect("kill").success());
        end(child)
    }
}

fn end_of(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut text);
    }
    text
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// An answer, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    /// By names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Answer {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("the end of the headers");
        let head = std::str::from_utf8(&bytes[..end]).expect("ASCII");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|word| word.parse().ok()).expect("a status");
        let headers = lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let headers = headers.filter(|(name, _)| name != "date"); // the only one that changes by itself
        Answer { status, headers: headers.collect(), body: bytes[end + 4..].to_vec() }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }
}
