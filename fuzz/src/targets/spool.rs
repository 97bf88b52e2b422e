//! Spools whose sizes and checksums are right, whatever is in them.

use layerscope_corpus::{CONTINUES, Spool, SpoolBatch, UNCOUNTED};

use super::files::file;
use super::told;

const HEADER: usize = 128;
const SEQUENCE: usize = 40;
/// Rows of a batch.
const BATCH: usize = 16;

/// Eight bytes for the header, then the parts: tokens, index, pilot and details. What is missing is zero.
pub fn spool(data: &[u8]) {
    let path = file("spool", &spelled(data));
    let Some(spool) = told(Spool::open(&path)) else { return };
    std::hint::black_box((spool.fingerprint(), spool.identity(), spool.around(), spool.longest(), spool.largest_id()));
    std::hint::black_box((spool.counters(), spool.groups(), spool.whole_groups(), spool.sentence_lengths(), spool.skipped()));
    for sequence in spool.sequences() {
        told(sequence);
    }
    for batch in told(spool.batches(BATCH)).into_iter().flatten().filter_map(told) {
        check(&spool, &batch);
        let is_known = |&word: &u32| word & UNCOUNTED == UNCOUNTED || ((word & !CONTINUES) as usize) < spool.groups().len();
        assert!(batch.groups.iter().all(is_known), "a group that is not in the dictionary");
    }
    told(spool.pilot(BATCH)).into_iter().flatten().for_each(|batch| check(&spool, &batch));
}

/// What the rest of the program relies on.
fn check(spool: &Spool, batch: &SpoolBatch) {
    assert_eq!((batch.ids.len(), batch.places().count()), (batch.groups.len(), batch.ids.len()));
    assert!(batch.ids.iter().all(|id| *id <= spool.largest_id()), "an id beyond the largest");
    assert!(batch.sequence_ids().all(|ids| ids.len() <= spool.longest()), "a sequence longer than the longest");
}

/// The file that an input stands for.
pub fn spelled(data: &[u8]) -> Vec<u8> {
    let mut start = [0; 8];
    let length = data.len().min(8);
    start[..length].copy_from_slice(&data[..length]);
    let [rows, sequences, pilot, prefix, suffix, longest, largest, _] = start.map(usize::from);
    let mut body = data[length..].to_vec();
    let ends = [rows * 8, (rows * 8) + sequences * SEQUENCE, (rows * 8) + (sequences + pilot) * SEQUENCE];
    body.resize(body.len().max(ends[2]), 0);
    let details = body.len() - ends[2];
    let mut bytes = b"LSspool\n".to_vec();
    bytes.extend(3u32.to_le_bytes());
    bytes.extend([prefix as u16, suffix as u16].iter().flat_map(|number| number.to_le_bytes()));
    bytes.extend([7; 16]);
    bytes.extend([rows, sequences, pilot, details].iter().flat_map(|size| (*size as u64).to_le_bytes()));
    let parts = [&body[..ends[0]], &body[ends[0]..ends[1]], &body[ends[1]..ends[2]], &body[ends[2]..]];
    bytes.extend(parts.iter().flat_map(|part| crc32fast::hash(part).to_le_bytes()));
    bytes.extend([longest as u32, largest as u32].iter().flat_map(|number| number.to_le_bytes()));
    bytes.resize(HEADER - 4, 0);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.extend(body);
    bytes
}
