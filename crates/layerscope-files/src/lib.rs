//! What systems do differently with files: reads and writes at a place, links, which file a name leads to, names that last.
//!
//! `unix.rs` and `windows.rs` have the same functions; nothing else in Layerscope asks which of the two it runs on before it touches a file.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

/// Reads and writes at a place in a file, from any number of threads. Where the next plain read or write begins is not certain afterwards.
pub trait Positioned {
    /// Fills `buffer` from byte `start` on; [`io::ErrorKind::UnexpectedEof`] where the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], start: u64) -> io::Result<()>;

    /// Writes all bytes from byte `start` on.
    fn write_all_at(&self, bytes: &[u8], start: u64) -> io::Result<()>;
}

impl Positioned for File {
    fn read_exact_at(&self, buffer: &mut [u8], start: u64) -> io::Result<()> {
        system::read_exact_at(self, buffer, start)
    }

    fn write_all_at(&self, bytes: &[u8], start: u64) -> io::Result<()> {
        system::write_all_at(self, bytes, start)
    }
}

/// Opens a file with these options, and never through a symbolic link.
pub fn open_no_link(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    system::open_no_link(path, options)
}

fn link_refused(kind: io::ErrorKind) -> io::Error {
    io::Error::new(kind, "a symbolic link, through which nothing is written; remove it")
}

/// Makes a symbolic link at `path` that leads to a file, by way of `target` as seen from the folder of `path`.
pub fn link(target: &Path, path: &Path) -> io::Result<()> {
    system::link(target, path)
}

/// Whether a path still leads to an open file.
pub fn is_open_at(file: &File, path: &Path) -> io::Result<bool> {
    system::is_open_at(file, path)
}

/// Makes the names in a folder last: what was renamed there keeps its new name whatever happens to the machine.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    system::sync_folder(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("layerscope-files-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder");
        folder
    }

    fn read_and_write() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options
    }

    #[test]
    fn bytes_are_read_and_written_at_their_place_by_many_threads() {
        let folder = folder("places");
        let file = open_no_link(&folder.join("file"), &mut read_and_write()).expect("a file");
        let record = |number: u8| vec![number; 10_000];
        std::thread::scope(|scope| {
            for number in (0..8).rev() {
                let file = &file;
                scope.spawn(move || {
                    file.write_all_at(&record(number), u64::from(number) * 10_000).expect("room");
                    let mut found = vec![0; 10_000];
                    file.read_exact_at(&mut found, u64::from(number) * 10_000).expect("there");
                    assert!(found == record(number), "{number}");
                });
            }
        });
        let mut all = vec![0; 80_000];
        file.read_exact_at(&mut all, 0).expect("there");
        assert!(all.chunks(10_000).zip(0..).all(|(found, number)| found == record(number)));
        file.read_exact_at(&mut [], 80_000).expect("nothing is everywhere");
        for start in [79_999, 80_000, 1 << 40] {
            let error = file.read_exact_at(&mut [0; 2], start).expect_err("beyond the end");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{start}");
        }
        file.write_all_at(b"end", 90_000).expect("room");
        assert_eq!(file.metadata().expect("open").len(), 90_003);
        drop(file);
        fs::remove_dir_all(folder).expect("removable");
    }

    #[test]
    fn nothing_is_opened_through_a_link() {
        let folder = folder("links");
        let (target, path) = (folder.join("target"), folder.join("link"));
        fs::write(&target, "precious").expect("written");
        match link("target".as_ref(), &path) {
            // Not everybody may make links there.
            Err(_) if cfg!(windows) => return,
            made => made.expect("a link"),
        }
        assert_eq!(fs::read(&path).expect("a link"), b"precious");
        let error = open_no_link(&path, read_and_write().truncate(true)).expect_err("a link");
        assert_eq!(error.to_string(), "a symbolic link, through which nothing is written; remove it");
        assert_eq!(fs::read(&target).expect("there"), b"precious");
        let opened = open_no_link(&target, &mut read_and_write()).expect("no link");
        assert!(is_open_at(&opened, &path).expect("an open file"), "by way of the link");
        drop(opened);
        fs::remove_dir_all(folder).expect("removable");
    }

    #[test]
    fn a_file_is_known_by_more_than_its_name() {
        let folder = folder("identity");
        let (path, other) = (folder.join("file"), folder.join("other"));
        let file = open_no_link(&path, &mut read_and_write()).expect("a file");
        assert!(is_open_at(&file, &path).expect("an open file"));
        assert!(!is_open_at(&file, &other).expect("an open file"), "nothing is there");
        fs::write(&other, "").expect("written");
        assert!(!is_open_at(&file, &other).expect("an open file"), "another file");
        fs::rename(&path, folder.join("moved")).expect("moved");
        fs::rename(&other, &path).expect("moved");
        assert!(!is_open_at(&file, &path).expect("an open file"), "another file of the same name");
        assert!(is_open_at(&file, &folder.join("moved")).expect("an open file"));
        sync_folder(&folder).expect("a disk");
        drop(file);
        fs::remove_dir_all(folder).expect("removable");
    }
}
