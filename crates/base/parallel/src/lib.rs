//! Independent jobs on several threads, with results that do not depend on how many threads there are.
//!
//! [`in_parallel`] does all jobs. [`in_parallel_until`] begins no further job once it is told to end. A
//! library such as `rayon` would bring work stealing and a pool that outlives the call; jobs here take
//! seconds each and are handed out in order, longest first.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Does `work(0)` to `work(count - 1)` on `threads` threads and gives the results in that order.
///
/// Work is taken in order, so that the longest are best put first. A panic in `work` is passed on.
pub fn in_parallel<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let results = in_parallel_until(count, threads, &AtomicBool::new(false), work);
    results.into_iter().flatten().collect()
}

/// Works like [`in_parallel`], but begins nothing once `is_over`: what was not begun is `None`, at its place.
///
/// Work that takes long should look at `is_over` itself, and give what says that it was not finished.
pub fn in_parallel_until<T: Send>(
    count: usize,
    threads: usize,
    is_over: &AtomicBool,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<Option<T>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<T>>> = Mutex::new((0..count).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let result = work(index);
                    // Nobody panics while holding it.
                    if let Ok(mut done) = done.lock() {
                        done[index] = Some(result);
                    }
                }
            });
        }
    });
    done.into_inner().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_number_of_threads() {
        let squares: Vec<usize> = (0..500).map(|i| i * i).collect();
        for threads in [0, 1, 2, 7] {
            assert_eq!(in_parallel(500, threads, |i| i * i), squares);
        }
        assert_eq!(in_parallel(0, 4, |i| i), Vec::<usize>::new());
    }

    #[test]
    fn what_was_not_begun_when_it_is_over_is_missing_at_its_place() {
        let is_over = AtomicBool::new(false);
        let results = in_parallel_until(5, 1, &is_over, |i| {
            is_over.store(i == 2, Ordering::Relaxed);
            i
        });
        assert_eq!(results, [Some(0), Some(1), Some(2), None, None]);
    }
}
