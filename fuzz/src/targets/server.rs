//! Requests to the server of a run.

use std::sync::OnceLock;

use hyper::Request;
use layerscope::internals::fuzzing::{Site, respond};

use super::run::run_folder;

/// Headers of a request that are looked at.
const HEADERS: usize = 32;
/// What the server may answer.
const STATUSES: [u16; 6] = [200, 302, 403, 404, 405, 410];

/// The bytes of a request up to its body. `VERSION` stands for the version of the page, which changes with its files.
pub fn requests(data: &[u8]) {
    static SITE: OnceLock<(Site, String)> = OnceLock::new();
    let (site, version) = SITE.get_or_init(|| {
        let site = Site::open(vec![run_folder("site")], Default::default(), true).expect("a site");
        let location = site.answer("GET", "/", &["localhost".to_owned()]).headers.into_iter().find(|(name, _)| *name == "location");
        (site, location.expect("a page").1.trim_matches('/').to_owned())
    });
    let data = replaced(data, b"VERSION", version.as_bytes());
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    if !matches!(parsed.parse(&data), Ok(httparse::Status::Complete(_))) {
        return;
    }
    let mut request = Request::builder().method(parsed.method.unwrap_or_default()).uri(parsed.path.unwrap_or_default());
    for header in parsed.headers.iter() {
        request = request.header(header.name, header.value);
    }
    let Ok(request) = request.body(()) else { return };
    let hosts = request.headers().get_all("host").iter().count();
    let response = respond(site, &request);
    let status = response.status().as_u16();
    assert!(STATUSES.contains(&status), "{status}");
    assert!(hosts == 1 || status == 403, "{status} with {hosts} hosts");
}

/// With every occurrence of some bytes replaced.
fn replaced(data: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(data.len()), data);
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        out.extend(&rest[..at]);
        out.extend(to);
        rest = &rest[at + from.len()..];
    }
    out.extend(rest);
    out
}
