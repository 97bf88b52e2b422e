//! The hub's protocol: a listing of a revision, a description of a file, the file. Redirects are followed by hand, so that
//! the token goes to the hub alone.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use ureq::http::{HeaderMap, Request, Response, Uri};
use ureq::{Agent, Body, Proxy};

use super::names;

/// Why a request failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// No connection, a cut or silent one, or a server that is busy: another attempt may succeed.
    Passing(String),
    /// The hub says no.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The hub's own word for it, such as `RevisionNotFound`.
        code: Option<String>,
    },
    /// An answer or an address that cannot be used.
    Unusable(String),
}

/// What the hub says about a revision.
pub(super) struct Listing {
    /// Its commit.
    pub(super) commit: String,
    /// Its files.
    pub(super) files: BTreeSet<String>,
}

/// A file of a commit, as the hub describes it.
pub(super) struct Remote {
    /// Its name.
    pub(super) file: String,
    /// Its address.
    pub(super) url: String,
    /// Its blob's name, checked.
    pub(super) etag: String,
    /// Its bytes.
    pub(super) size: u64,
}

impl Remote {
    /// The sha256 of its bytes, which names large files; git's names of small ones say nothing we can check.
    pub(super) fn sha256(&self) -> Option<&str> {
        Some(self.etag.as_str()).filter(|etag| etag.len() == 64 && etag.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }
}

/// A connection to one hub.
pub(super) struct Client {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
    proxy: Option<Proxy>,
    retries: u32,
    pause: Duration,
}

/// Redirects of one request.
const MAX_HOPS: usize = 8;
/// The longest listing to accept.
const MAX_LISTING_BYTES: u64 = 64 << 20;
/// The longest wait between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(30);

impl Client {
    /// A client with patience for a slow network.
    pub(super) fn new(endpoint: &str, token: Option<&str>, proxy: Option<Proxy>) -> Self {
        let agent = agent(Duration::from_secs(30), proxy.clone());
        let (endpoint, token) = (endpoint.to_owned(), token.map(str::to_owned));
        Client { agent, endpoint, token, proxy, retries: 4, pause: Duration::from_millis(500) }
    }

    /// See [`super::Hub::retries`].
    pub(super) fn set_retries(&mut self, retries: u32, pause: Duration) {
        (self.retries, self.pause) = (retries, pause);
    }

    /// See [`super::Hub::patience`].
    pub(super) fn set_patience(&mut self, patience: Duration) {
        self.agent = agent(patience, self.proxy.clone());
    }

    /// The commit and the files of a checked revision of a checked id.
    pub(super) fn list(&self, id: &str, revision: &str) -> Result<Listing, Failure> {
        #[derive(Deserialize)]
        struct Answer {
            sha: String,
            siblings: Vec<Sibling>,
        }
        #[derive(Deserialize)]
        struct Sibling {
            rfilename: String,
        }
        let url = format!("{}/api/models/{id}/revision/{}", self.endpoint, names::escape(revision));
        let body = self.persist(|| Ok(self.get(&url, 0)?.body_mut().with_config().limit(MAX_LISTING_BYTES).read_to_vec()?))?;
        let answer: Answer = serde_json::from_slice(&body).map_err(|error| Failure::Unusable(format!("not a hub's answer: {error}")))?;
        if !names::is_commit(&answer.sha) {
            return Err(Failure::Unusable(format!("not a commit hash: {:?}", answer.sha)));
        }
        Ok(Listing { commit: answer.sha, files: answer.siblings.into_iter().map(|sibling| sibling.rfilename).collect() })
    }

    /// The branches and tags of a checked id.
    pub(super) fn refs(&self, id: &str) -> Result<Vec<String>, Failure> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            branches: Vec<Reference>,
            #[serde(default)]
            tags: Vec<Reference>,
        }
        #[derive(Deserialize)]
        struct Reference {
            name: String,
        }
        let url = format!("{}/api/models/{id}/refs", self.endpoint);
        let body = self.persist(|| Ok(self.get(&url, 0)?.body_mut().with_config().limit(MAX_LISTING_BYTES).read_to_vec()?))?;
        let answer: Answer = serde_json::from_slice(&body).map_err(|error| Failure::Unusable(format!("not a hub's answer: {error}")))?;
        Ok(answer.branches.into_iter().chain(answer.tags).map(|reference| reference.name).collect())
    }

    /// The size and the blob of a file, whose name was checked.
    pub(super) fn describe(&self, id: &str, commit: &str, file: &str) -> Result<Remote, Failure> {
        let url = format!("{}/{id}/resolve/{commit}/{}", self.endpoint, names::escape(file));
        let (status, headers) = self.persist(|| self.head(&url))?;
        let own_size = text(&headers, "content-length").filter(|_| status == 200);
        let size = text(&headers, "x-linked-size").or(own_size).and_then(|size| size.parse().ok());
        let etag = text(&headers, "x-linked-etag").or_else(|| text(&headers, "etag"));
        let (Some(size), Some(etag)) = (size, etag) else {
            return Err(Failure::Unusable("the server names no size or no ETag".to_owned()));
        };
        let etag = names::etag(etag).ok_or_else(|| Failure::Unusable(format!("not a usable ETag: {etag:?}")))?;
        Ok(Remote { file: file.to_owned(), url, etag, size })
    }

    /// A file from byte `from` on: status 206 if the server resumes, 200 if it starts again.
    pub(super) fn get(&self, url: &str, from: u64) -> Result<Response<Body>, Failure> {
        let mut uri = parse(url)?;
        for _ in 0..MAX_HOPS {
            let response = self.once("GET", &uri, from)?;
            match next(&uri, &response)? {
                Some(target) => uri = target,
                None => return Ok(response),
            }
        }
        Err(Failure::Unusable(format!("more than {MAX_HOPS} redirects from {url}")))
    }

    /// The headers that describe a file: the hub's last word before it sends us to a store elsewhere.
    fn head(&self, url: &str) -> Result<(u16, HeaderMap), Failure> {
        let mut uri = parse(url)?;
        for _ in 0..MAX_HOPS {
            let response = self.once("HEAD", &uri, 0)?;
            match next(&uri, &response)? {
                Some(target) if same_origin(&uri, &target) && !response.headers().contains_key("x-linked-etag") => uri = target,
                _ => return Ok((response.status().as_u16(), response.into_parts().0.headers)),
            }
        }
        Err(Failure::Unusable(format!("more than {MAX_HOPS} redirects from {url}")))
    }

    /// One request, no redirect followed.
    fn once(&self, method: &str, uri: &Uri, from: u64) -> Result<Response<Body>, Failure> {
        let mut request = Request::builder().method(method).uri(uri).header("accept-encoding", "identity");
        if from > 0 {
            request = request.header("range", format!("bytes={from}-"));
        }
        if let Some(token) = self.token.as_ref().filter(|_| parse(&self.endpoint).is_ok_and(|hub| same_origin(&hub, uri))) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(()).map_err(|error| Failure::Unusable(format!("not a valid request: {error}")))?;
        let response = self.agent.run(request)?;
        match response.status().as_u16() {
            200..=399 if text(response.headers(), "content-encoding").is_some_and(|coding| coding != "identity") => {
                Err(Failure::Unusable("the server compressed its answer although it was asked not to".to_owned()))
            }
            200..=399 => Ok(response),
            status @ (408 | 429 | 500..) => Err(Failure::Passing(format!("the server answers {status}"))),
            status => Err(Failure::Refused { status, code: text(response.headers(), "x-error-code").map(str::to_owned) }),
        }
    }

    /// Repeats an attempt while its failures are passing ones.
    fn persist<T>(&self, attempt: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
        let mut failures = 0;
        loop {
            match attempt() {
                Err(Failure::Passing(_)) if self.wait(failures) => failures += 1,
                outcome => return outcome,
            }
        }
    }

    /// Waits before another attempt; false where there were enough.
    pub(super) fn wait(&self, failures: u32) -> bool {
        let again = failures < self.retries;
        if again {
            std::thread::sleep(self.pause.saturating_mul(1 << failures.min(16)).min(MAX_PAUSE));
        }
        again
    }
}

impl From<ureq::Error> for Failure {
    fn from(error: ureq::Error) -> Self {
        use ureq::Error as E;
        match error {
            E::Io(_) | E::Timeout(_) | E::HostNotFound | E::ConnectionFailed | E::ConnectProxyFailed(_) | E::Protocol(_) => {
                Failure::Passing(error.to_string())
            }
            _ => Failure::Unusable(error.to_string()),
        }
    }
}

fn agent(patience: Duration, proxy: Option<Proxy>) -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(proxy)
        .user_agent(concat!("layerscope/", env!("CARGO_PKG_VERSION")))
        .timeout_resolve(Some(patience))
        .timeout_connect(Some(patience))
        .timeout_recv_response(Some(patience))
        .timeout_per_read(Some(patience))
        .build()
        .new_agent()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn parse(url: &str) -> Result<Uri, Failure> {
    let uri: Option<Uri> = url.parse().ok();
    let known = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    uri.filter(known).ok_or_else(|| Failure::Unusable(format!("{url:?} is not an http or https address")))
}

/// Where a response sends us, if it does; never from an encrypted connection to an open one.
fn next(from: &Uri, response: &Response<Body>) -> Result<Option<Uri>, Failure> {
    if !response.status().is_redirection() {
        return Ok(None);
    }
    let location = text(response.headers(), "location").ok_or_else(|| Failure::Unusable("a redirect without a location".to_owned()))?;
    let scheme = from.scheme_str().unwrap_or("https");
    let target = match (location.strip_prefix("//"), location.starts_with('/'), from.authority()) {
        (Some(rest), ..) => parse(&format!("{scheme}://{rest}"))?,
        (None, true, Some(authority)) => parse(&format!("{scheme}://{authority}{location}"))?,
        _ => parse(location)?,
    };
    if scheme == "https" && target.scheme_str() != Some("https") {
        return Err(Failure::Unusable(format!("a redirect from https to {target}")));
    }
    Ok(Some(target))
}

/// Whether two addresses are served by the same program: scheme, host and port.
fn same_origin(a: &Uri, b: &Uri) -> bool {
    let port = |uri: &Uri| uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    a.scheme_str() == b.scheme_str() && host(a) == host(b) && port(a) == port(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let same = |a: &str, b: &str| same_origin(&parse(a).unwrap(), &parse(b).unwrap());
        assert!(same("https://hub.example", "https://HUB.example:443/a/b?c"));
        assert!(!same("https://hub.example", "http://hub.example:443/"));
        assert!(!same("https://hub.example", "https://hub.example:8443/"));
        assert!(!same("https://hub.example", "https://hub.example.org/"));
        assert!(!same("https://hub.example", "https://hub.example@elsewhere.org/"));
        assert!(parse("file:///etc/passwd").is_err() && parse("hub.example").is_err());
    }

    #[test]
    fn a_redirect_is_joined_and_never_leaves_https() {
        let to = |location: &str| {
            let response = Response::builder().status(302).header("location", location).body(Body::builder().data("")).unwrap();
            next(&parse("https://hub.example/a/b").unwrap(), &response).map(|uri| uri.unwrap().to_string()).ok()
        };
        assert_eq!(to("/c?d=e").as_deref(), Some("https://hub.example/c?d=e"));
        assert_eq!(to("//store.example/c").as_deref(), Some("https://store.example/c"));
        assert_eq!(to("https://store.example/c").as_deref(), Some("https://store.example/c"));
        assert_eq!(to("http://hub.example/c"), None);
        assert_eq!(to("ftp://hub.example/c"), None);
    }
}
