//! A web server for the page of some runs, on this machine alone unless told otherwise.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::ErrorKind as IoKind;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HOST};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use layerscope_report::page::Settings;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::process::cancel::CancelToken;
use crate::serve::site::{Answer, Site};
use layerscope_error::{line, setting};

/// Headers of every answer. What is sent is what it says it is, for this site's own pages, and is kept by nobody.
const HEADERS: [(&str, &str); 6] = [
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// How long somebody may take to say what they want.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections at a time. Beyond them, the one that has kept silent for longest makes room: whoever asks is heard at once.
const CONNECTIONS: usize = 256;

/// How often the server looks whether it should stop.
const BEAT: Duration = Duration::from_millis(100);

/// Threads that read blocks.
const READERS: usize = 8;

/// A server that listens already.
pub struct Server {
    listener: TcpListener,
    site: Site,
}

impl Server {
    /// Opens the runs and takes the port, 0 for any free one.
    pub fn bind(host: &str, port: u16, folders: Vec<PathBuf>, settings: Settings) -> Result<Server> {
        let name = format!("{host}:{port}");
        let unknown = || {
            Error::usage(line![
                setting("host"),
                format!(" `{host}` is not an address or a name of this machine; leave it out to use 127.0.0.1")
            ])
        };
        let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(|_| unknown())?.collect();
        let local = addresses.iter().all(|address| address.ip().is_loopback());
        let site = Site::open(folders, settings, local)?;
        let listener = TcpListener::bind(&addresses[..]).map_err(|error| match error.kind() {
            IoKind::AddrInUse => {
                Error::refused(line![format!("another program uses {name}; choose another "), setting("port"), ", or 0 for any free one"])
            }
            IoKind::PermissionDenied => {
                Error::refused(line![format!("{name}: ports below 1024 need privileges; choose a "), setting("port"), " from 1024 on"])
            }
            IoKind::AddrNotAvailable | IoKind::InvalidInput => unknown(),
            _ => Error::io(name.as_ref(), error),
        })?;
        Ok(Server { listener, site })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(|error| Error::io("the server".as_ref(), error))
    }

    /// Answers until it is asked to stop.
    pub fn run(self, cancel: &CancelToken) -> Result<()> {
        let failed = |error| Error::io("the server".as_ref(), error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(READERS).build().map_err(failed)?;
        self.listener.set_nonblocking(true).map_err(failed)?;
        let site = Arc::new(self.site);
        let outcome = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let mut guests = Guests::default();
            while !cancel.is_cancelled() {
                match tokio::time::timeout(BEAT, listener.accept()).await {
                    Err(_) => {}
                    Ok(Ok((stream, _))) => guests.admit(|heard| converse(TokioIo::new(stream), Arc::clone(&site), heard)),
                    // Somebody hung up at once, or there are too many at a time: neither is the end.
                    Ok(Err(_)) => tokio::time::sleep(BEAT).await,
                }
            }
            Ok(())
        });
        runtime.shutdown_background();
        outcome.map_err(failed)
    }
}

/// Who is connected, the oldest first, and whether each has asked for anything yet.
#[derive(Default)]
struct Guests(VecDeque<(JoinHandle<()>, Arc<AtomicBool>)>);

impl Guests {
    fn admit<F: Future<Output = ()> + Send + 'static>(&mut self, converse: impl FnOnce(Arc<AtomicBool>) -> F) {
        self.0.retain(|(task, _)| !task.is_finished());
        if self.0.len() >= CONNECTIONS {
            let silent = self.0.iter().position(|(_, heard)| !heard.load(Ordering::Relaxed)).unwrap_or(0);
            if let Some((task, _)) = self.0.remove(silent) {
                task.abort();
            }
        }
        let heard = Arc::new(AtomicBool::new(false));
        self.0.push_back((tokio::spawn(converse(Arc::clone(&heard))), heard));
    }
}

/// One connection, until either side ends it; what goes wrong in it concerns nobody else.
async fn converse(stream: TokioIo<tokio::net::TcpStream>, site: Arc<Site>, heard: Arc<AtomicBool>) {
    let service = service_fn(move |request| {
        heard.store(true, Ordering::Relaxed);
        respond(Arc::clone(&site), request)
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let _ = server.serve_connection(stream, service).await;
}

async fn respond(site: Arc<Site>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let asked = Asked::of(&request);
    let body_wanted = asked.body_wanted;
    // Blocks are read from disk: not on the thread that hears everybody.
    let answer = tokio::task::spawn_blocking(move || asked.answer(&site)).await;
    let answer =
        answer.unwrap_or_else(|_| Answer { status: 500, headers: Vec::new(), body: Bytes::from_static(b"a defect of Layerscope\n") });
    Ok(response(answer, body_wanted))
}

/// What matters of a request.
pub(crate) struct Asked {
    method: String,
    path: String,
    hosts: Vec<String>,
    pub body_wanted: bool,
}

impl Asked {
    pub fn of<B>(request: &Request<B>) -> Asked {
        Asked {
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            hosts: request.headers().get_all(HOST).iter().map(|host| host.to_str().unwrap_or("?").to_owned()).collect(),
            body_wanted: request.method() != Method::HEAD,
        }
    }

    pub fn answer(&self, site: &Site) -> Answer {
        site.answer(&self.method, &self.path, &self.hosts)
    }
}

/// An answer as it is sent.
pub(crate) fn response(answer: Answer, body_wanted: bool) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(answer.status).header(CONTENT_LENGTH, answer.body.len());
    for (name, value) in HEADERS {
        response = response.header(name, value);
    }
    for (name, value) in &answer.headers {
        response = response.header(*name, value);
    }
    let body = if body_wanted { answer.body } else { Bytes::new() };
    response.body(Full::new(body)).expect("headers of our own")
}
