//! Many batches on several threads: each worker carries whole batches through all layers, without barriers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use layerscope_compute::Backend;

use crate::batch::Batch;
use crate::point::Observer;
use crate::transformer::Transformer;

/// Runs all batches on `threads` workers and returns their observers, one a worker, made by `observer` from the worker's number.
///
/// Batches start in order; which worker takes a batch is left to chance. The first error stops all workers.
pub fn forward_all<B, O>(
    transformer: &Transformer<B>,
    batches: &[Batch],
    threads: usize,
    observer: impl Fn(usize) -> O + Sync,
) -> Result<Vec<O>, O::Error>
where
    B: Backend,
    O: Observer<B> + Send,
    O::Error: Send,
{
    let next = AtomicUsize::new(0);
    let stopped = AtomicBool::new(false);
    let largest = batches.iter().map(Batch::tokens).max().unwrap_or(0);
    let run = |worker: usize| -> Result<O, O::Error> {
        let mut observer = observer(worker);
        let mut space = transformer.workspace(largest)?;
        while !stopped.load(Ordering::Relaxed) {
            let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            transformer.forward(batch, &mut space, &mut observer)?;
        }
        Ok(observer)
    };
    let work = |worker: usize| run(worker).inspect_err(|_| stopped.store(true, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let workers = 0..threads.clamp(1, batches.len().max(1));
        let handles: Vec<_> = workers.map(|worker| scope.spawn(move || work(worker))).collect();
        let finished = handles.into_iter().map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        finished.collect()
    })
}
