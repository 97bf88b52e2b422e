//! Independent pieces of work on several threads, results in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `work(i)` for every `i` below `count`, on up to `threads` threads.
pub fn in_order<T: Send>(threads: usize, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    in_order_with(threads, count, || (), |(), at| work(at))
}

/// The same with memory of its own for every thread.
pub fn in_order_with<M, T: Send>(
    threads: usize,
    count: usize,
    memory: impl Fn() -> M + Sync,
    work: impl Fn(&mut M, usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    let run = || {
        let mut memory = memory();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return;
            }
            let result = work(&mut memory, at);
            done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((at, result));
        }
    };
    if threads <= 1 || count <= 1 {
        run();
    } else {
        std::thread::scope(|scope| (0..threads.min(count)).for_each(|_| drop(scope.spawn(run))));
    }
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Fills parts of `length` numbers: `fill(i, part i)`, on up to `threads` threads.
pub fn in_parts<T: Send>(threads: usize, numbers: &mut [T], length: usize, fill: impl Fn(usize, &mut [T]) + Sync) {
    let parts: Vec<Mutex<&mut [T]>> = numbers.chunks_mut(length.max(1)).map(Mutex::new).collect();
    in_order(threads, parts.len(), |at| fill(at, &mut parts[at].lock().unwrap_or_else(|poisoned| poisoned.into_inner())));
}
