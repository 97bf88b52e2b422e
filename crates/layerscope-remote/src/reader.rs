//! A download as a stream of bytes that continues where it was interrupted.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, Result as StoreResult};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::error::Error;
use crate::options::Options;
use crate::remote::GLANCE;

/// Pieces that may wait for their reader, each some tens of kilobytes.
const AHEAD: usize = 32;

/// Once this much more has arrived, earlier failures are forgotten.
const GOOD_PROGRESS: u64 = 1 << 20;

/// A download, read as a stream of bytes.
pub struct Reader<'c> {
    runtime: Arc<Runtime>,
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
    /// Bytes that have not arrived yet.
    missing: u64,
    cancel: &'c AtomicBool,
}

/// What is downloaded, and how patiently.
pub(crate) struct Download {
    pub address: String,
    pub store: Arc<dyn ObjectStore>,
    pub path: Path,
    pub options: Options,
}

impl Download {
    /// Asks for all of it, or for what remains of a file already known.
    pub async fn from(&self, rest: Option<(u64, &ObjectMeta)>) -> StoreResult<GetResult> {
        let options = match rest {
            None => GetOptions::default(),
            Some((at, meta)) => GetOptions { range: Some(GetRange::Offset(at)), if_match: meta.e_tag.clone(), ..GetOptions::default() },
        };
        self.store.get_opts(&self.path, options).await
    }

    fn problem(&self, error: &object_store::Error) -> String {
        Error::store(&self.address, error).problem.flags()
    }

    /// Sends piece after piece until the end, an error that stays, or nobody listens.
    async fn run(self, first: GetResult, pieces: mpsc::Sender<io::Result<Bytes>>) {
        let known = first.meta.clone();
        let (mut at, mut failures, mut good) = (0, 0, GOOD_PROGRESS);
        let mut body = first.into_stream();
        let problem = loop {
            let cut = match body.next().await {
                Some(Ok(piece)) => {
                    at += piece.len() as u64;
                    if pieces.send(Ok(piece)).await.is_err() {
                        return;
                    }
                    continue;
                }
                None if at == known.size => return,
                None => format!("stopped after {at} of {} bytes", known.size),
                Some(Err(error)) => format!("stopped after {at} of {} bytes; {}", known.size, self.problem(&error)),
            };
            if at >= good {
                (failures, good) = (0, at + GOOD_PROGRESS);
            }
            failures += 1;
            let Some(pause) = self.options.pause_after(failures) else { break cut };
            tokio::time::sleep(pause).await;
            body = match self.from(Some((at, &known))).await {
                Ok(rest) if rest.meta.size != known.size || rest.meta.e_tag != known.e_tag || rest.range.start != at => {
                    break "the file changed while it was being read; start again".to_owned();
                }
                Ok(rest) => rest.into_stream(),
                Err(error) => break format!("stopped after {at} of {} bytes; then {}", known.size, self.problem(&error)),
            };
        };
        let _ = pieces.send(Err(io::Error::new(io::ErrorKind::ConnectionAborted, problem))).await;
    }
}

impl<'c> Reader<'c> {
    pub(crate) fn start(download: Download, first: GetResult, runtime: Arc<Runtime>, cancel: &'c AtomicBool) -> Self {
        let (sender, pieces) = mpsc::channel(AHEAD);
        let missing = first.meta.size;
        runtime.spawn(download.run(first, sender));
        Reader { runtime, pieces, piece: Bytes::new(), missing, cancel }
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.runtime.block_on(async { tokio::time::timeout(GLANCE, self.pieces.recv()).await }) {
                Ok(Some(piece)) => {
                    self.piece = piece?;
                    self.missing = self.missing.saturating_sub(self.piece.len() as u64);
                }
                Ok(None) if self.missing == 0 => return Ok(0),
                Ok(None) => return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the download stopped in the middle")),
                Err(_) if self.cancel.load(Ordering::Relaxed) => return Err(io::Error::other("interrupted")),
                Err(_) => {}
            }
        }
        let count = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
