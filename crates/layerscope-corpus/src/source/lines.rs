//! Lines of UTF-8 text, numbered from 1 in messages.

use std::io::{BufRead, Read};
use std::sync::atomic::Ordering;

use layerscope_error::{line, setting};

use super::{MAX_RECORD_BYTES, Records, Source, Watch, stream};
use crate::document::Record;
use crate::error::{Error, Result, or_skip};

/// The lines of one input.
pub(super) struct Lines<'a> {
    source: &'a Source,
    reader: Box<dyn BufRead + 'a>,
    watch: Watch<'a>,
    number: u64,
    ended: bool,
}

impl<'a> Lines<'a> {
    pub fn open(source: &'a Source, watch: Watch<'a>) -> Result<Self> {
        Ok(Lines { source, reader: stream::open(source, watch)?, watch, number: 0, ended: false })
    }

    /// The input's name.
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// Bytes of the longest record that memory allows.
    pub fn longest(&self) -> u64 {
        self.watch.longest
    }

    /// The place of the line last read, for messages.
    pub fn place(&self) -> String {
        format!("line {}", self.number)
    }

    /// The next line without its ending; `None` after the last.
    pub fn next_line(&mut self) -> Option<Result<String>> {
        if self.ended {
            return None;
        }
        let line = self.read_line().transpose();
        self.ended = !matches!(line, Some(Ok(_) | Err(Error::Record { .. })));
        line
    }

    fn read_line(&mut self) -> Result<Option<String>> {
        let mut bytes = Vec::new();
        let longest = self.watch.longest;
        let read = self.reader.by_ref().take(longest.saturating_add(1)).read_until(b'\n', &mut bytes);
        match read {
            Ok(0) => return Ok(None),
            Ok(_) => self.number += 1,
            Err(_) if self.watch.cancel.load(Ordering::Relaxed) => return Err(Error::Interrupted),
            Err(error) => {
                let place = format!("after line {}", self.number);
                return Err(Error::input(self.name(), stream::failure(self.source, &error, &place)));
            }
        }
        if bytes.len() as u64 > longest {
            let problem = format!("line {} is longer than {:.1} MiB; is this text?", self.number, longest as f64 / f64::from(1 << 20));
            let advice = line![" There is no memory for more; give a larger ", setting("max-memory")];
            return Err(Error::input(self.name(), if longest < MAX_RECORD_BYTES { line![problem, advice] } else { problem.into() }));
        }
        if bytes.ends_with(b"\n") {
            bytes.truncate(bytes.len() - if bytes.ends_with(b"\r\n") { 2 } else { 1 });
        }
        if self.number == 1 && bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        String::from_utf8(bytes).map(Some).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let problem = format!("not UTF-8 (byte {at} of the line is 0x{:02x}); convert the file ", error.as_bytes()[at]);
            Error::record(self.name(), self.place(), line![problem, or_skip()])
        })
    }
}

/// Each line is a record.
pub(super) struct TextRecords<'a>(pub Lines<'a>);

impl Records for TextRecords<'_> {
    fn next_record(&mut self) -> Option<Result<Record>> {
        Some(self.0.next_line()?.map(|text| Record { text, ..Record::default() }))
    }
}
