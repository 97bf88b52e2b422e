//! Files that nobody reads soon, past the memory in which the system keeps files.
//!
//! States of gigabytes would be copied there, into pages that are cleared or fetched first, and push out what others read. Where the system
//! or the disk cannot do without, they are written as any other file.

use std::fs::File;
use std::io::{self, Write};

/// Bytes that are written at once.
const PIECE: usize = 2 << 20;
/// What places in memory and in the file must be multiples of, for any disk.
#[cfg(target_os = "linux")]
const ALIGNMENT: usize = 4096;
#[cfg(not(target_os = "linux"))]
const ALIGNMENT: usize = 1;

/// A writer that collects whole pieces. What is left in the end is written as usual.
pub struct Uncached {
    file: File,
    memory: Vec<u8>,
    /// Where the piece begins in memory.
    start: usize,
    filled: usize,
    is_direct: bool,
}

impl Uncached {
    /// Of a new file.
    pub fn new(file: File) -> Uncached {
        let memory = vec![0; PIECE + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Uncached { file, memory, start, filled: 0, is_direct: false }
    }

    /// Writes what is left; the file is one as any other then.
    pub fn finish(mut self) -> io::Result<File> {
        self.leave_direct();
        self.file.write_all(&self.memory[self.start..self.start + self.filled])?;
        Ok(self.file)
    }

    /// A small file never comes here.
    fn write_piece(&mut self) -> io::Result<()> {
        let piece = &self.memory[self.start..self.start + PIECE];
        self.is_direct = self.is_direct || set_direct(&self.file, true);
        let mut written = 0;
        while written < PIECE {
            match self.file.write(&piece[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The disk wants something else than whole pages.
                Err(error) if self.is_direct && error.kind() == io::ErrorKind::InvalidInput => {
                    self.is_direct = false;
                    set_direct(&self.file, false);
                }
                Err(error) => return Err(error),
            }
        }
        self.filled = 0;
        Ok(())
    }

    fn leave_direct(&mut self) {
        if std::mem::take(&mut self.is_direct) {
            set_direct(&self.file, false);
        }
    }
}

impl Write for Uncached {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PIECE - self.filled);
        let place = self.start + self.filled;
        self.memory[place..place + taken].copy_from_slice(&bytes[..taken]);
        self.filled += taken;
        if self.filled == PIECE {
            self.write_piece()?;
        }
        Ok(taken)
    }

    /// Nothing is written before there is a piece.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether writes to the file pass by the system's memory from now on, if they should.
#[cfg(target_os = "linux")]
fn set_direct(file: &File, wanted: bool) -> bool {
    use std::os::fd::AsRawFd;
    // SAFETY: both calls take numbers; the descriptor is that of an open file.
    unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        let flags = if wanted { flags | libc::O_DIRECT } else { flags & !libc::O_DIRECT };
        wanted == (libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) == 0)
    }
}

#[cfg(not(target_os = "linux"))]
fn set_direct(_: &File, _: bool) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn every_length_comes_back() {
        let path = std::env::temp_dir().join(format!("layerscope-uncached-{}", std::process::id()));
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 12_345] {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
            let mut file = Uncached::new(File::create(&path).expect("a file"));
            bytes.chunks(70_001).for_each(|chunk| file.write_all(chunk).expect("room"));
            file.finish().expect("room").sync_all().expect("a disk");
            let mut found = Vec::new();
            File::open(&path).expect("there").read_to_end(&mut found).expect("readable");
            assert!(found == bytes, "{length} bytes");
        }
        std::fs::remove_file(&path).expect("removable");
    }
}
