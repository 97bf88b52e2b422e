//! Independent pieces of work on several threads: tensors that are read, files that are hashed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// `work` on every item, on up to `threads` threads; the results in the order of the items.
///
/// Items start in order. The first error stops what has not begun; of several, the one of the earliest item is returned, so that
/// bad input is reported alike whatever the number of threads.
///
/// ```
/// let squares: Result<Vec<u32>, String> = layerscope_model::map_parallel(&[1, 2, 3], 2, |number| Ok(number * number));
/// assert_eq!(squares, Ok(vec![1, 4, 9]));
/// ```
pub fn map_parallel<T: Sync, R: Send, E: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> Result<R, E> + Sync) -> Result<Vec<R>, E> {
    if threads <= 1 || items.len() <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let stopped = AtomicBool::new(false);
    let done: Mutex<Vec<(usize, Result<R, E>)>> = Mutex::new(Vec::with_capacity(items.len()));
    let run = || {
        while !stopped.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            let result = work(item);
            if result.is_err() {
                stopped.store(true, Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((at, result));
        }
    };
    std::thread::scope(|scope| (0..threads.min(items.len())).for_each(|_| drop(scope.spawn(run))));
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        for threads in [0, 1, 3, 200] {
            assert_eq!(map_parallel(&items, threads, |&item| Ok::<_, ()>(2 * item)), Ok((0..100).map(|item| 2 * item).collect()));
        }
    }

    #[test]
    fn the_error_of_the_earliest_item_is_returned() {
        let items: Vec<usize> = (0..100).collect();
        for threads in [1, 2, 7] {
            // Items start in order, so the first bad one has begun before any later one could stop the work.
            let bad = |&item: &usize| if item % 10 == 7 { Err(item) } else { Ok(item) };
            assert_eq!(map_parallel(&items, threads, bad), Err(7));
        }
    }
}
