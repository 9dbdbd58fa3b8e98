//! [`Computing`]: other programs that want every processor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A thread for each processor that computes without a pause; until dropped.
#[derive(Debug)]
pub(crate) struct Computing {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Computing {
    pub fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let compute = |_| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                let mut number = 1_u64;
                while !is_over.load(Ordering::Relaxed) {
                    number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005) | 1);
                }
            })
        };
        let threads = (0..io::sched::cpu_count()).map(compute).collect();
        Self { is_over, threads }
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It computes, and cannot have panicked.
            drop(thread.join());
        }
    }
}
