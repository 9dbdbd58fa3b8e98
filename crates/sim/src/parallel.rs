//! [`in_parallel`]: independent runs on several threads, with results that do not depend on how many.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does `work(0)` to `work(count - 1)` on `threads` threads and gives the results in that order.
///
/// Work is taken in order, so that the longest are best put first. A panic in `work` is passed on.
pub fn in_parallel<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let result = work(index);
                    // Nobody panics while holding it.
                    if let Ok(mut done) = done.lock() {
                        done.push((index, result));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
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
}
