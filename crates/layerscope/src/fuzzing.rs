//! Ways into the crate for `fuzz/`, where the library has none. Not part of the library.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response};

use crate::error::Result;
use crate::serve::server::{Asked, response};
use crate::store::manifest::of_run;
use crate::store::merge::try_merge;
use crate::store::state::StateFile;
use crate::store::stored::{SAMPLE, STATE, StoredRun};
use crate::store::write::MadeTables;
use crate::tables::make::Resources;

pub use crate::serve::site::Site;

/// Memory for the tables of a state.
const MEMORY: u64 = 1 << 30;

/// Makes the tables and the manifest of a run that consists of these two files, and merges it with itself.
pub fn tables_of(state: Vec<u8>, sample: Vec<u8>) -> Result<()> {
    let open = |state, sample| StoredRun::of_states(StateFile::decode(state, STATE)?, || StateFile::decode(sample, SAMPLE));
    let shards = [open(state.clone(), sample.clone())?, open(state, sample)?];
    let merged = try_merge(&shards);
    let [run, _] = shards;
    let resources = Resources { cancel: Default::default(), threads: 1, memory: MEMORY };
    let made = MadeTables::of_stored(run, &resources, &mut |_, _| {})?;
    let manifest = of_run(&made.facts, &made.encoded.tables, (made.facts.seconds, made.facts.timings.clone()), &[]);
    manifest.sealed().expect("a manifest can be written");
    merged
}

/// The answer of a site to a request, as it is sent.
pub fn respond(site: &Site, request: &Request<()>) -> Response<Full<Bytes>> {
    let asked = Asked::of(request);
    response(asked.answer(site), asked.body_wanted)
}
