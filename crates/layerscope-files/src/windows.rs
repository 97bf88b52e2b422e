//! Windows.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt, symlink_file};
use std::path::{Path, PathBuf};

use same_file::Handle;

/// The system's name for opening a link itself, not what it leads to.
const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;

pub fn read_exact_at(file: &File, mut buffer: &mut [u8], mut start: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.seek_read(buffer, start) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => (buffer, start) = (&mut buffer[count..], start + count as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub fn write_all_at(file: &File, mut bytes: &[u8], mut start: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_write(bytes, start) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => (bytes, start) = (&bytes[count..], start + count as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub fn open_no_link(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(path)?;
    match file.metadata()?.is_symlink() {
        true => Err(crate::link_refused(io::ErrorKind::InvalidInput)),
        false => Ok(file),
    }
}

pub fn link(target: &Path, path: &Path) -> io::Result<()> {
    // With the system's own separators: a link with others leads nowhere.
    symlink_file(target.components().collect::<PathBuf>(), path)?;
    // Wine says that it made one, and makes none.
    std::fs::symlink_metadata(path).map(drop)
}

pub fn is_open_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = Handle::from_file(file.try_clone()?)?;
    Ok(Handle::from_path(path).is_ok_and(|named| named == open))
}

pub fn sync_folder(_folder: &Path) -> io::Result<()> {
    // The system writes names down by itself, and opens no folder to be asked for it.
    Ok(())
}
