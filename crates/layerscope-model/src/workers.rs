//! Many batches on several threads: each worker carries whole batches through all layers, without barriers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use layerscope_compute::Backend;

use crate::batch::Batch;
use crate::point::Observer;
use crate::transformer::Transformer;

/// Runs all batches on `threads` workers. Batches start in order; the first error stops all workers.
pub fn forward_all<B, O>(transformer: &Transformer<B>, batches: &[Batch], threads: usize, observer: &O) -> Result<(), O::Error>
where
    B: Backend,
    O: Observer<B>,
    O::Error: Send,
{
    let next = AtomicUsize::new(0);
    let stopped = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let largest = batches.iter().map(Batch::tokens).max().unwrap_or(0);
    let work = || {
        let mut space = transformer.workspace(largest);
        while !stopped.load(Ordering::Relaxed) {
            let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            if let Err(error) = transformer.forward(batch, &mut space, observer) {
                stopped.store(true, Ordering::Relaxed);
                failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, batches.len().max(1)) {
            scope.spawn(work);
        }
    });
    failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).map_or(Ok(()), Err)
}
