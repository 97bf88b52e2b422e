//! `layerscope serve`: what a page over runs on disk is given, and what nobody is given.

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use base64::Engine as _;
use support::http::Server;
use support::measure::{corpus, measured, model, sentences};
use support::{empty_folder, layerscope};

const FLAGS: &str = "--quiet --threads 1 --frequency 2:1000 --sample-states 200 --token-states 20";

/// An encoder and a decoder on one text; nobody changes them.
fn runs() -> &'static [PathBuf; 2] {
    static RUNS: OnceLock<[PathBuf; 2]> = OnceLock::new();
    RUNS.get_or_init(|| {
        let folder = empty_folder("serve");
        let text = corpus("serve-text", &sentences(120, 81));
        [("encoder", "bert/base"), ("decoder", "gpt2/published")].map(|(name, fixture)| {
            let out = folder.join(name);
            measured(&model(fixture, &format!("serve-{name}")), &text, &out, FLAGS);
            out
        })
    })
}

/// The elements of data in a page: names, and contents as they are written.
fn elements(page: &str) -> BTreeMap<String, String> {
    let pieces = page.split("<script type=\"application/octet-stream\" id=\"").skip(1);
    let element = |piece: &str| {
        let (name, rest) = piece.split("</script>").next().expect("an end").split_once('"').expect("a name");
        (name.to_owned(), rest.to_owned())
    };
    pieces.map(element).collect()
}

/// The bytes of an element.
fn decoded(element: &str) -> Vec<u8> {
    let (coding, text) = element.strip_prefix(" data-coding=\"").and_then(|rest| rest.split_once("\">")).expect("a coding");
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
    if coding == "identity" {
        return bytes;
    }
    let mut inflated = Vec::new();
    flate2::read::DeflateDecoder::new(&bytes[..]).read_to_end(&mut inflated).expect("deflated bytes");
    inflated
}

/// The data of the page in one file.
fn reported(folders: &[&Path], flags: &[&str], name: &str) -> BTreeMap<String, String> {
    let out = empty_folder(name).join("report.html");
    let mut words = vec!["report"];
    words.extend(folders.iter().map(|folder| folder.to_str().expect("UTF-8")));
    words.extend(["--out", out.to_str().expect("UTF-8")]);
    words.extend(flags);
    let outcome = layerscope(&words);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    elements(&std::fs::read_to_string(out).expect("a page"))
}

#[test]
fn it_gives_what_the_page_in_one_file_holds() {
    let [encoder, decoder] = runs();
    let whole = reported(&[encoder, decoder], &[], "serve-report");
    let server = Server::start(&[encoder, decoder], "");
    let page = server.page();
    let answer = server.get(&page);
    assert_eq!((answer.status, answer.headers["content-type"].as_str()), (200, "text/html; charset=utf-8"));
    let shell = elements(answer.text());
    assert!(shell.contains_key("index") && shell.iter().all(|(name, element)| whole[name] == *element));
    let asked: Vec<&String> = whole.keys().filter(|name| !shell.contains_key(*name)).collect();
    for kind in ["run0.groups.0", "run1.groups.3", "run0.components.1", "run1.spectra.2", "run0.tokens.2"] {
        assert!(asked.iter().any(|name| *name == kind), "{kind} is not among {asked:?}");
    }
    for name in asked {
        let answer = server.get(&format!("{page}block/{name}"));
        assert_eq!((answer.status, answer.headers["content-type"].as_str()), (200, "application/octet-stream"), "{name}");
        assert!(answer.body == decoded(&whole[name]), "{name}");
    }
}

#[test]
fn a_file_of_some_views_holds_what_they_show() {
    let [encoder, _] = runs();
    let whole = reported(&[encoder], &[], "report-whole");
    let some = reported(&[encoder], &["--only", "tokens,layers"], "report-some");
    let size = |data: &BTreeMap<String, String>| data.values().map(String::len).sum::<usize>();
    assert!(2 * size(&some) < size(&whole), "{} of {}", size(&some), size(&whole));
    let index: serde_json::Value = serde_json::from_slice(&decoded(&some["index"])).expect("JSON");
    assert_eq!(index["views"], serde_json::json!(["tokens", "layers"]));
    let others: Vec<&String> = some.keys().filter(|name| *name != "index").collect();
    assert!(others.iter().all(|name| *name == "run0.layers" || name.starts_with("run0.groups")), "{others:?}");
    assert!(others.iter().all(|name| some[*name] == whole[*name]), "the same numbers");
    let refused = layerscope(&["report", encoder.to_str().expect("UTF-8"), "--only", "tokens,layrs"]);
    let line = "--only `layrs` is not understood (did you mean `layers`?); give some of overview, tokens, layers, training, spectrum, \
                components, massive, pca, embeddings, tables or method";
    assert_eq!((refused.status, refused.stderr.lines().count()), (2, 1), "{}", refused.stderr);
    assert!(refused.stderr.contains(line), "{}", refused.stderr);
}

#[test]
fn every_answer_is_guarded() {
    let [encoder, _] = runs();
    let server = Server::start(&[encoder], "");
    let page = server.page();
    for path in ["/", page.as_str(), &format!("{page}block/run0.groups.1"), "/nothing", "/favicon.ico"] {
        let answer = server.get(path);
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.headers.get(name).map(String::as_str), Some(value), "{path}: {name}");
        }
        assert_eq!(answer.headers["content-length"], answer.body.len().to_string(), "{path}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
    let answer = server.get(&page);
    let policy = &answer.headers["content-security-policy"];
    assert!(policy.starts_with("default-src 'none'; connect-src 'self'; script-src 'sha256-"), "{policy}");
    assert!(policy.ends_with("; frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    let in_page = policy.strip_suffix("; frame-ancestors 'none'").expect("as above");
    assert!(answer.text().contains(&format!("content=\"{in_page}\"")), "the header and the page say the same");
}

#[test]
fn only_reading_is_allowed() {
    let [encoder, _] = runs();
    let server = Server::start(&[encoder], "");
    let page = server.page();
    let host = &server.address;
    let block = format!("{page}block/run0.groups.1");
    for path in [&page, &block] {
        let (got, headers) = (server.get(path), server.send(&format!("HEAD {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")));
        assert_eq!((headers.status, headers.body.len()), (200, 0));
        assert_eq!(headers.headers["content-length"], got.body.len().to_string());
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECTION"] {
        let answer = server.send(&format!("{method} {page} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!((answer.status, answer.headers["allow"].as_str()), (405, "GET, HEAD"), "{method}");
    }
}

#[test]
fn no_path_leads_out() {
    let [encoder, _] = runs();
    let server = Server::start(&[encoder], "");
    let page = server.page();
    let hostile = [
        "/../manifest.json",
        "/../../../../../../etc/passwd",
        "/etc/passwd",
        "//etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%2fetc%2fpasswd",
        "/..\\..\\etc\\passwd",
        "/%5c..%5c",
        "/manifest.json",
        "/layers.parquet",
        "/state.safetensors",
        "/.work/",
        "/%00",
        "/?path=/etc/passwd/../x",
    ];
    let secret = "layerscope/Cargo.toml";
    for path in hostile.iter().map(|path| (*path).to_owned()).chain(hostile.iter().map(|path| format!("{page}block{path}"))) {
        let answer = server.get(&path);
        assert!([302, 400, 404].contains(&answer.status), "{path}: {}", answer.status);
        // The only way anywhere is to the page itself.
        assert!(answer.status != 302 || answer.headers["location"] == page[1..], "{path}");
        assert!(!answer.text().contains("root:") && !answer.text().contains(secret), "{path}");
    }
    for name in [
        "../manifest.json",
        "..",
        "",
        "run0.groups",
        "run0.groups.",
        "run0.groups.99",
        "run9.groups.0",
        "run0.groups.0/",
        "run0.groups.0%00",
        "index",
    ] {
        let answer = server.get(&format!("{page}block/{name}"));
        assert_eq!(answer.status, 404, "{name}");
    }
    // What is not HTTP is told so, and the next one is served.
    for request in ["\r\n\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", &format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20))] {
        let mut stream = std::net::TcpStream::connect(&server.address).expect("somebody listens");
        let _ = std::io::Write::write_all(&mut stream, request.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{:?}", &request[..request.len().min(20)]);
    }
    assert_eq!(server.get(&page).status, 200);
}

/// A page of somebody else's whose name was made to lead here is not answered.
#[test]
fn strangers_names_are_refused() {
    let [encoder, _] = runs();
    let server = Server::start(&[encoder], "");
    let asked_as = |host: &str| server.send(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status;
    assert_eq!(["evil.example", "evil.example:80", "127.0.0.1.evil.example", "169.254.169.254"].map(asked_as), [403; 4]);
    assert_eq!(["localhost:9000", "127.0.0.1", "[::1]:1"].map(asked_as), [302; 3], "a port may have been forwarded");
    // Whoever opens it to others gives up that guard, and is told.
    let sent = |headers: &str| server.send(&format!("GET / HTTP/1.1\r\n{headers}Connection: close\r\n\r\n")).status;
    assert_eq!(sent(""), 403, "who does not say whom they ask");
    assert_eq!(sent("Host: localhost\r\nHost: evil.example\r\n"), 403, "and who says two names");
    assert_eq!(sent("Host: evil.example\r\nHost: localhost\r\n"), 403);
    let mut open = Server::start(&[encoder], "--host 0.0.0.0");
    open.address = open.address.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(open.send("GET / HTTP/1.1\r\nHost: my-workstation\r\nConnection: close\r\n\r\n").status, 302);
    assert!(open.signalled("-INT").stderr.contains("can see these runs"));
}

#[test]
fn many_ask_at_once() {
    let [encoder, decoder] = runs();
    let server = Server::start(&[encoder, decoder], "");
    let page = server.page();
    let names: Vec<String> =
        (0..3).flat_map(|at| ["groups", "components", "tokens"].map(|kind| format!("run{}.{kind}.{at}", at % 2))).collect();
    let expected: Vec<Vec<u8>> = names.iter().map(|name| server.get(&format!("{page}block/{name}")).body).collect();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (server, page, names, expected) = (&server, &page, &names, &expected);
            scope.spawn(move || {
                for i in 0..18 {
                    let at = (i + thread) % names.len();
                    assert!(server.get(&format!("{page}block/{}", names[at])).body == expected[at], "{}", names[at]);
                }
            });
        }
    });
}

#[test]
fn a_run_may_be_replaced_while_it_is_looked_at() {
    let folder = empty_folder("serve-replaced");
    let (model, out) = (model("bert/base", "serve-replaced-model"), folder.join("run"));
    let measure = |seed: u64| measured(&model, &corpus("serve-replaced-text", &sentences(80, seed)), &out, &format!("{FLAGS} --overwrite"));
    measure(91);
    let server = Server::start(&[&out], "");
    let (old, block) = (server.page(), "block/run0.groups.1");
    let before = server.get(&format!("{old}{block}"));
    assert_eq!(server.page(), old, "nothing has changed");
    // While it is measured again there is no manifest, and the old run is shown.
    let manifest = out.join("manifest.json");
    std::fs::rename(&manifest, folder.join("elsewhere")).expect("moved");
    assert_eq!((server.page(), server.get(&format!("{old}{block}"))), (old.clone(), before.clone()));
    measure(92);
    let new = server.page();
    assert_ne!(new, old);
    let after = server.get(&format!("{new}{block}"));
    assert_eq!(after.body, decoded(&reported(&[&out], &[], "serve-replaced-report")["run0.groups.1"]));
    assert_ne!(after.body, before.body);
    // Who has the old page open sees the old run to its end; who loads it again gets the new one.
    assert_eq!(server.get(&format!("{old}{block}")), before);
    for seed in 93..97 {
        measure(seed);
        server.page();
    }
    assert_eq!(server.get(&format!("{old}{block}")).status, 410);
    let moved = server.get(&old);
    assert_eq!((moved.status, moved.headers["location"].clone()), (302, format!("..{}", server.page())));
}

#[test]
fn what_goes_wrong_is_one_line() {
    let [encoder, _] = runs();
    let folder = empty_folder("serve-wrong");
    let serve = |arguments: &[&str]| layerscope(&[&["serve"], arguments].concat());
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let linked = folder.join("linked");
    std::fs::create_dir_all(&linked).expect("a folder");
    std::fs::copy(encoder.join("manifest.json"), linked.join("manifest.json")).expect("copied");
    std::os::unix::fs::symlink(encoder.canonicalize().expect("a folder").join("layers.parquet"), linked.join("layers.parquet"))
        .expect("a link");
    for (arguments, status, words) in [
        (vec![path(encoder), "--port".into(), port.clone()], 5, format!("another program uses 127.0.0.1:{port}; choose another --port")),
        (vec![path(&folder)], 1, format!("{}: no finished run here", path(&folder))),
        (vec![path(&linked)], 1, "a symbolic link that leads out of the run's folder".into()),
        (vec![path(encoder), "--host".into(), "no such host".into()], 2, "--host `no such host`".into()),
        (vec![path(encoder), "--host".into(), "192.0.2.1".into()], 2, "--host `192.0.2.1`".into()),
        (vec![path(encoder), "--frequency".into(), "9".into()], 2, "--frequency".into()),
    ] {
        let outcome = serve(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((outcome.status, outcome.stderr.lines().count()), (status, 1), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(&words) && outcome.stdout.is_empty(), "{}", outcome.stderr);
    }
    assert_eq!(serve(&[]).status, 2);
}

#[test]
fn it_ends_when_asked_to() {
    let [encoder, _] = runs();
    for signal in ["-INT", "-TERM"] {
        let server = Server::start(&[encoder], "");
        assert_eq!(server.get(&server.page()).status, 200);
        // Somebody who keeps a connection open does not keep the server.
        let idle = std::net::TcpStream::connect(&server.address).expect("somebody listens");
        let outcome = server.signalled(signal);
        // The request may be acknowledged; there is nothing else to say.
        let others = outcome.stderr.lines().filter(|line| !line.starts_with("layerscope: stopping")).count();
        assert_eq!((outcome.status, others), (0, 0), "{signal}: {}", outcome.stderr);
        drop(idle);
    }
}

/// Whoever is slow to ask or slow to read is in nobody's way.
#[test]
fn slow_clients_hold_nobody_up() {
    let [encoder, _] = runs();
    let server = Server::start(&[encoder], "");
    server.limit_files(400);
    let page = server.page();
    let expected = server.get(&page).body;
    // As many as this process may open, more than the server may and more than it keeps: silent ones, some that say a letter now and then, and some that ask for
    // much and read nothing.
    let asked = format!("GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n").repeat(100);
    let mut slow: Vec<TcpStream> = (0..allowed_files(1100).saturating_sub(100).min(1000))
        .map_while(|number| {
            let mut stream = TcpStream::connect(&server.address).ok()?;
            let begun = ["", "GET / HTTP/1.1\r\nHost: loc", &asked][number % 3];
            stream.write_all(begun.as_bytes()).ok()?;
            Some(stream)
        })
        .collect();
    assert!(slow.len() > 500, "only {} connections", slow.len());
    let begin = Instant::now();
    for _ in 0..20 {
        let answer = server.get(&page);
        assert!(answer.status == 200 && answer.body == expected);
        for stream in slow.iter_mut().skip(1).step_by(3) {
            let _ = stream.write_all(b"a"); // the server may have hung up
        }
    }
    println!("20 pages beside {} slow clients: {:.2} s", slow.len(), begin.elapsed().as_secs_f64());
    assert!(begin.elapsed() < Duration::from_secs(30));
}

/// Lets this process open so many files, or as many as it may.
fn allowed_files(wanted: u64) -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a whole structure.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_cur.max(wanted.min(limit.rlim_max));
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
    limit.rlim_cur as usize
}
