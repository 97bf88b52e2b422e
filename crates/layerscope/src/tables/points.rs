//! The tables of all points, several at once, in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use crate::error::Result;

/// How many of `points` are in memory at once where each takes so many bytes and so many are free: one at least, one a thread at most.
pub fn at_once(points: usize, threads: usize, each: u64, free: u64) -> usize {
    fitting(each, free).min(threads).min(points).max(1)
}

/// How many of so many bytes each fit into those that are free.
pub fn fitting(each: u64, free: u64) -> usize {
    usize::try_from(free / each.max(1)).unwrap_or(usize::MAX)
}

/// `work(i)` for every `i` below `count`, `at_once` of them at a time; `take(i, result)` on this thread, in order. The first error ends it.
pub fn in_order<T: Send>(
    count: usize,
    at_once: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
    mut take: impl FnMut(usize, T) -> Result<()>,
) -> Result<()> {
    if at_once <= 1 {
        return (0..count).try_for_each(|at| take(at, work(at)?));
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..at_once {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    // Nobody listens any more after an error.
                    if at >= count || sender.send((at, work(at))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let (mut waiting, mut done) = (BTreeMap::new(), 0);
        for (at, result) in results {
            waiting.insert(at, result);
            while let Some(result) = waiting.remove(&done) {
                // After an error, no new point is begun.
                let taken = result.and_then(|result| take(done, result));
                if taken.is_err() {
                    next.store(count, Ordering::Relaxed);
                    return taken;
                }
                done += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn results_come_in_order_and_an_error_ends_it() {
        for threads in [1, 2, 5] {
            let mut seen = Vec::new();
            let take = |at: usize, result: usize| {
                seen.push((at, result));
                Ok(())
            };
            in_order(9, threads, |at| Ok(at * at), take).expect("no errors");
            assert_eq!(seen, (0..9).map(|at| (at, at * at)).collect::<Vec<_>>());
            let failing = |at: usize| if at == 3 { Err(Error::refused("the fourth")) } else { Ok(at) };
            let mut count = 0;
            let error = in_order(9, threads, failing, |_, _| {
                count += 1;
                Ok(())
            });
            assert_eq!((error.expect_err("one failed").to_string().contains("the fourth"), count), (true, 3));
        }
    }

    #[test]
    fn memory_and_threads_bound_the_points_at_once() {
        assert_eq!(at_once(13, 4, 100, 250), 2);
        assert_eq!(at_once(13, 4, 100, 50), 1);
        assert_eq!(at_once(13, 4, 100, 10_000), 4);
        assert_eq!(at_once(3, 16, 100, 10_000), 3);
        assert_eq!(at_once(0, 16, 0, 0), 1);
    }
}
