//! Prints the sequences of a spool as JSON, one list of token ids each: `spool_ids SPOOL`. What `measure --keep-work` read is in
//! `OUT/.work/spool`.

use std::io::Write;

use layerscope_corpus::Spool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: spool_ids SPOOL")?;
    let mut sequences: Vec<Vec<u32>> = Vec::new();
    for batch in Spool::open(path.as_ref())?.batches(4096)? {
        sequences.extend(batch?.sequence_ids().map(<[u32]>::to_vec));
    }
    serde_json::to_writer(&mut std::io::stdout().lock(), &sequences)?;
    Ok(std::io::stdout().flush()?)
}
