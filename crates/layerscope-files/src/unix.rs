//! Linux and macOS.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;

pub fn read_exact_at(file: &File, buffer: &mut [u8], start: u64) -> io::Result<()> {
    FileExt::read_exact_at(file, buffer, start)
}

pub fn write_all_at(file: &File, bytes: &[u8], start: u64) -> io::Result<()> {
    FileExt::write_all_at(file, bytes, start)
}

pub fn open_no_link(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.custom_flags(libc::O_NOFOLLOW).open(path).map_err(|source| match source.raw_os_error() {
        Some(libc::ELOOP) => crate::link_refused(source.kind()),
        _ => source,
    })
}

pub fn link(target: &Path, path: &Path) -> io::Result<()> {
    symlink(target, path)
}

pub fn is_open_at(file: &File, path: &Path) -> io::Result<bool> {
    let identity = |found: &Metadata| (found.dev(), found.ino());
    let open = identity(&file.metadata()?);
    Ok(fs::metadata(path).is_ok_and(|named| identity(&named) == open))
}

pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
