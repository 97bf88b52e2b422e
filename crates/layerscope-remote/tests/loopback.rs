//! Stores and web servers on loopback: what they hold, what they refuse, and connections that are cut.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use layerscope_remote::{Error, Options, Remote};
use layerscope_testing::store_server::{Fault, StoreServer};

static GO_ON: AtomicBool = AtomicBool::new(false);

fn remote(server: &StoreServer) -> Remote {
    Remote::new(Options::new(server.environment()).retries(3, Duration::from_millis(1)))
}

fn read(remote: &Remote, address: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut reader = remote.open(address, &GO_ON).map_err(|error| error.to_string())?;
    reader.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn problem<T>(result: Result<T, Error>) -> String {
    let Err(error) = result else { panic!("this must fail") };
    assert!(!error.to_string().contains('\n'), "{error}");
    error.problem.flags()
}

/// Bytes that differ everywhere, so that no piece can be taken for another.
fn large(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A store that always says that there is more is given up.
#[test]
fn a_listing_without_end_is_refused() {
    let server = StoreServer::start();
    ["a.txt", "b.txt", "c.txt"].iter().for_each(|name| server.file(&format!("bucket/texts/{name}"), name));
    let remote = remote(&server);
    assert_eq!(remote.list("s3://bucket/texts/", &GO_ON).expect("files").len(), 3);
    server.lists_without_end();
    assert!(problem(remote.list("s3://bucket/texts/", &GO_ON)).starts_with("the store lists files without end"));
    assert!(problem(remote.list("s3://bucket/texts/**", &GO_ON)).starts_with("the store lists files without end"));
}

#[test]
fn files_are_listed_by_name_folder_and_pattern() {
    let server = StoreServer::start();
    for name in ["a.txt", "b.txt", "c.jsonl", "deep/d.txt", "deep/er/e.txt", "deep/[x].txt", "other/ü 1%.txt"] {
        server.file(&format!("bucket/texts/{name}"), name);
    }
    let remote = remote(&server);
    let list = |pattern: &str| -> Vec<String> {
        let entries = remote.list(&format!("s3://bucket/texts/{pattern}"), &GO_ON).unwrap();
        assert!(
            entries
                .iter()
                .all(|entry| entry.address.ends_with(std::str::from_utf8(&server.content(&entry.address[5..]).unwrap()).unwrap()))
        );
        assert!(entries.iter().all(|entry| entry.bytes == server.content(&entry.address[5..]).unwrap().len() as u64));
        entries.iter().map(|entry| entry.address["s3://bucket/texts/".len()..].to_owned()).collect()
    };
    assert_eq!(list("a.txt"), ["a.txt"]);
    assert_eq!(list("?.txt"), ["a.txt", "b.txt"]);
    assert_eq!(list("*"), ["a.txt", "b.txt", "c.jsonl"]);
    assert_eq!(list("**/*.txt").len(), 6);
    assert_eq!(list("deep/*/e.txt"), ["deep/er/e.txt"]);
    assert_eq!(list("deep/"), ["deep/[x].txt", "deep/d.txt", "deep/er/e.txt"]);
    assert_eq!(list("deep/[x].txt"), ["deep/[x].txt"]); // a name that exists is no pattern
    assert_eq!(list("other/ü 1%.txt"), ["other/ü 1%.txt"]);
    assert_eq!(read(&remote, "s3://bucket/texts/other/ü 1%.txt").unwrap(), "other/ü 1%.txt".as_bytes());
    assert_eq!(problem(remote.list("s3://bucket/texts/*.zst", &GO_ON)), "no file matches this pattern");
    assert_eq!(problem(remote.list("s3://bucket/nowhere/", &GO_ON)), "no files there; check the bucket and the name");
    assert_eq!(problem(remote.list("s3://bucket/a//b", &GO_ON)), "the name has empty, `.` or `..` parts, which stores do not allow");
    let web = format!("{}/bucket/texts/*.txt", server.address);
    assert_eq!(problem(remote.list(&web, &GO_ON)), "patterns do not work on web servers; name the files one by one");
}

#[test]
fn web_addresses_keep_their_queries() {
    let server = StoreServer::start();
    server.file("some/file.txt", "text");
    let address = format!("{}/some/file.txt?key=a%2Fb&sign=c", server.address);
    assert_eq!(remote(&server).head(&address, &GO_ON).unwrap().bytes, 4);
    assert_eq!(read(&remote(&server), &address).unwrap(), b"text");
    assert_eq!(server.requests(), ["HEAD /some/file.txt?key=a%2Fb&sign=c", "GET /some/file.txt?key=a%2Fb&sign=c"]);
    // A server that refuses HEAD is asked with GET.
    server.faults(&[Fault::Status(403)]);
    assert_eq!(remote(&server).head(&address, &GO_ON).unwrap().bytes, 4);
}

#[test]
fn a_cut_download_goes_on_where_it_was_cut() {
    let server = StoreServer::start();
    let content = large(3_000_000);
    server.file("bucket/large", &content);
    for address in ["s3://bucket/large".to_owned(), format!("{}/bucket/large", server.address)] {
        server.requests();
        server.faults(&[Fault::Cut(1_000_000), Fault::Cut(0), Fault::Cut(700_001)]);
        assert!(read(&remote(&server), &address).unwrap() == content, "{address}");
        let requests = server.requests();
        assert_eq!(requests.len(), 4, "{requests:?}");
        assert!(requests[3].contains("bytes=1700001-"), "{requests:?}");
    }
}

#[test]
fn a_download_that_stays_cut_fails() {
    let server = StoreServer::start();
    server.file("bucket/large", large(100_000));
    let address = format!("{}/bucket/large", server.address);
    server.always(Some(Fault::Cut(10)));
    let line = read(&remote(&server), &address).unwrap_err();
    assert!(line.starts_with("stopped after ") && line.contains(" of 100000 bytes"), "{line}");
    // A server that cannot continue is told apart from one that is cut again and again.
    server.always(None);
    server.without_ranges();
    server.faults(&[Fault::Cut(10_000)]);
    let line = read(&remote(&server), &address).unwrap_err();
    assert!(line.ends_with("the connection was lost and the server cannot resume a download; try again"), "{line}");
}

#[test]
fn a_file_that_changes_during_the_download_is_not_mixed() {
    let server = StoreServer::start();
    server.file("bucket/large", large(3_000_000));
    let remote = remote(&server);
    server.faults(&[Fault::CutAndChange(1_000_000)]);
    let mut reader = remote.open("s3://bucket/large", &GO_ON).unwrap();
    let error = reader.read_to_end(&mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("changed while it was being read"), "{error}");
}

#[test]
fn refusals_are_one_line_each() {
    let server = StoreServer::start();
    server.file("bucket/a", "a");
    let remote = remote(&server);
    let web = format!("{}/bucket/absent", server.address);
    let absent = remote.head("s3://bucket/absent", &GO_ON).unwrap_err();
    assert!(absent.is_absent());
    assert_eq!(absent.to_string(), "s3://bucket/absent: not found (404); check the bucket and the name");
    assert_eq!(problem(remote.head(&web, &GO_ON)), "not found (404); check the address");
    server.always(Some(Fault::Status(403)));
    let keys = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, or set AWS_SKIP_SIGNATURE=true for a public bucket";
    assert_eq!(problem(remote.head("s3://bucket/a", &GO_ON)), format!("access denied (403); {keys}"));
    assert_eq!(problem(remote.list("s3://bucket/*", &GO_ON)), format!("access denied (403); {keys}"));
    assert_eq!(problem(remote.put("s3://bucket/a", &mut &b"x"[..])), format!("access denied (403); {keys}"));
    assert_eq!(problem(remote.head(&web, &GO_ON)), "access denied (403); download the file yourself and name the copy");
    server.always(Some(Fault::Status(401)));
    assert_eq!(problem(remote.head("s3://bucket/a", &GO_ON)), format!("credentials needed (401); {keys}"));
    server.always(Some(Fault::Status(503)));
    let line = problem(remote.head("s3://bucket/a", &GO_ON));
    assert!(line.starts_with("the server answered 503") && line.ends_with("; check the network and the address, or try again"), "{line}");
    assert_eq!(problem(remote.put(&web, &mut &b"x"[..])), "cannot write to a web server; name a folder, or s3://, gs:// or az://");
}

#[test]
fn passing_trouble_is_waited_out() {
    let server = StoreServer::start();
    server.file("bucket/a", "a");
    server.faults(&[Fault::Status(503), Fault::Status(500), Fault::Status(429)]);
    assert_eq!(read(&remote(&server), "s3://bucket/a").unwrap(), b"a");
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn an_unreachable_store() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let pairs = [("AWS_ENDPOINT", format!("http://{nobody}")), ("AWS_ALLOW_HTTP", "true".into()), ("AWS_SKIP_SIGNATURE", "true".into())];
    let options = Options::new(pairs);
    let remote = Remote::new(options.clone().retries(2, Duration::from_millis(1)));
    let line = problem(remote.head("s3://bucket/a", &GO_ON));
    assert!(line.contains("refused") && line.ends_with("; check the network and the address, or try again"), "{line}");
    // Waiting for it can be given up.
    let remote = Remote::new(options.retries(100, Duration::from_secs(10)));
    let (cancel, start) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            cancel.store(true, Ordering::Relaxed);
        });
        assert_eq!(problem(remote.head("s3://bucket/a", &cancel)), "interrupted");
    });
    assert!(start.elapsed() < Duration::from_secs(9), "it waited for the next attempt");
}

#[test]
fn puts_are_complete_or_nothing() {
    let server = StoreServer::start();
    let remote = remote(&server);
    remote.put("s3://bucket/small", &mut &b"small"[..]).unwrap();
    assert_eq!(server.content("bucket/small").unwrap(), b"small");
    remote.put("s3://bucket/small", &mut &b""[..]).unwrap();
    assert_eq!(server.content("bucket/small").unwrap(), b"");
    // More than a part, and passing trouble on the way.
    let content = large(40 << 20);
    server.faults(&[Fault::None, Fault::Status(503)]);
    remote.put("s3://bucket/large", &mut content.as_slice()).unwrap();
    assert!(server.content("bucket/large").unwrap() == content);
    assert!(read(&remote, "s3://bucket/large").unwrap() == content);
    // What should be put cannot be read to its end: nothing appears, nothing is left.
    struct Broken(usize);
    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(buffer.len()).ok_or_else(|| std::io::Error::other("broken"))?;
            Ok(buffer.len())
        }
    }
    assert_eq!(problem(remote.put("s3://bucket/broken", &mut Broken(40 << 20))), "cannot read what is to be uploaded: broken");
    assert_eq!((server.content("bucket/broken"), server.unfinished_uploads()), (None, 0));
    remote.delete("s3://bucket/small").unwrap();
    remote.delete("s3://bucket/small").unwrap();
    assert_eq!(server.content("bucket/small"), None);
}

/// The same server in the clothes of the other clouds: Google's protocol is close to S3's, Azure's is for single files.
#[test]
fn other_clouds() {
    let server = StoreServer::start();
    let pairs = [
        ("GOOGLE_BASE_URL", server.address.as_str()),
        ("GOOGLE_ALLOW_HTTP", "true"),
        ("GOOGLE_BEARER_TOKEN", "token"),
        ("AZURE_STORAGE_ACCOUNT_NAME", "somebody"),
        ("AZURE_STORAGE_ENDPOINT", server.address.as_str()),
        ("AZURE_ALLOW_HTTP", "true"),
        ("AZURE_SKIP_SIGNATURE", "true"),
    ];
    let remote = Remote::new(Options::new(pairs).retries(1, Duration::from_millis(1)));
    for address in ["gs://bucket/folder/a.txt", "az://bucket/folder/a.txt"] {
        server.file("bucket/folder/a.txt", "");
        remote.put(address, &mut address.as_bytes()).unwrap();
        assert_eq!(server.content("bucket/folder/a.txt").unwrap(), address.as_bytes());
        assert_eq!(remote.head(address, &GO_ON).unwrap().bytes, address.len() as u64);
        assert_eq!(read(&remote, address).unwrap(), address.as_bytes());
    }
    let listed = remote.list("gs://bucket/folder/*.txt", &GO_ON).unwrap();
    assert_eq!(listed.iter().map(|entry| entry.address.as_str()).collect::<Vec<_>>(), ["gs://bucket/folder/a.txt"]);
    server.always(Some(Fault::Status(403)));
    assert!(problem(remote.head("gs://bucket/a", &GO_ON)).contains("GOOGLE_APPLICATION_CREDENTIALS"));
    assert!(problem(remote.head("az://bucket/a", &GO_ON)).contains("AZURE_STORAGE_ACCOUNT_KEY"));
}
