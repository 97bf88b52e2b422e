//! Bytes of an input, unpacked and counted.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;

use layerscope_remote::is_address;

use super::list::{distant, unreadable};
use super::{Compression, STANDARD_INPUT, Source, Watch};
use crate::error::{Error, Result};

const BUFFER: usize = 128 * 1024;

/// Opens an input and unpacks it on the way.
pub(super) fn open<'a>(source: &Source, watch: Watch<'a>) -> Result<Box<dyn BufRead + 'a>> {
    let raw: Box<dyn Read + 'a> = match source.name.as_str() {
        STANDARD_INPUT => Box::new(Patient::start(|| Ok(io::stdin()), watch.cancel)),
        name if is_address(name) => Box::new(watch.remote.open(name, watch.cancel).map_err(|error| distant(error, watch.cancel))?),
        // A pipe may keep us waiting, for somebody to open it and then for every byte.
        name if source.bytes.is_none() => {
            let name = name.to_owned();
            Box::new(Patient::start(move || File::open(name), watch.cancel))
        }
        name => Box::new(File::open(name).map_err(|error| Error::input(name, unreadable(&error)))?),
    };
    let counted = BufReader::with_capacity(BUFFER, Counted { inner: raw, bytes: Arc::clone(watch.bytes) });
    Ok(match source.compression {
        Compression::Plain => Box::new(counted),
        Compression::Gzip => Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(counted))),
        Compression::Zstd => {
            let broken = |error: io::Error| Error::input(&source.name, failure(source, &error, "at its start"));
            let mut decoder = zstd::Decoder::with_buffer(counted).map_err(broken)?;
            decoder.window_log_max(31).map_err(broken)?;
            Box::new(BufReader::with_capacity(BUFFER, decoder))
        }
    })
}

/// Why reading stopped in the middle, in one line without the file's name.
pub(super) fn failure(source: &Source, error: &io::Error, place: &str) -> String {
    let packing = match source.compression {
        Compression::Plain => return format!("cannot be read {place}: {error}"),
        Compression::Gzip => "gzip",
        Compression::Zstd => "zstd",
    };
    match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("the {packing} data is cut short {place}; write or fetch the file again"),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ConnectionAborted => format!("cannot be read {place}: {error}"),
        _ => format!("the {packing} data is damaged {place} ({error}); write or fetch the file again"),
    }
}

struct Counted<R> {
    inner: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// An input read by a thread of its own, so that waiting for it can be given up.
struct Patient<'a> {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    at: usize,
    cancel: &'a AtomicBool,
}

impl<'a> Patient<'a> {
    fn start<R: Read>(open: impl FnOnce() -> io::Result<R> + Send + 'static, cancel: &'a AtomicBool) -> Self {
        let (sender, pieces) = sync_channel(4);
        // Never joined: it may wait for input for ever, and ends with the process.
        std::thread::spawn(move || {
            let mut input = match open() {
                Ok(input) => input,
                Err(error) => return drop(sender.send(Err(error))),
            };
            loop {
                let mut piece = vec![0; BUFFER];
                let read = match input.read(&mut piece) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read,
                };
                let last = !matches!(read, Ok(1..));
                let message = read.map(|count| {
                    piece.truncate(count);
                    piece
                });
                if sender.send(message).is_err() || last {
                    break;
                }
            }
        });
        Patient { pieces, piece: Vec::new(), at: 0, cancel }
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            match self.pieces.recv_timeout(Duration::from_millis(50)) {
                Ok(piece) => {
                    self.piece = piece?;
                    self.at = 0;
                    if self.piece.is_empty() {
                        return Ok(0);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) if self.cancel.load(Ordering::Relaxed) => return Err(io::Error::other("cancelled")),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let count = buffer.len().min(self.piece.len() - self.at);
        buffer[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}
