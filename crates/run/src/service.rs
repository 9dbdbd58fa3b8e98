//! [`Service`]: what a service manager such as systemd hears of an instance.
//!
//! To it the watchdog is the service's main process: that one outlives a death with debt, and starts who goes on.
//!
//! ```text
//!   started ── READY, main is its watchdog ──▶ alive … ── death ──▶ successor: main is its own watchdog
//!                                                │
//!                                                └─ replaced ──▶ main is the other one, which says the rest
//! ```
//!
//! INVARIANT: whoever is to end without the service's end has named another main process before.

use io::{Clock, ServiceManager, sign_of_life_within};
use units::{Duration, Instant};

/// How often the manager is told who is the main process, where it wants no sign of life.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What the manager is told; nothing where there is none.
#[derive(Debug)]
pub(crate) struct Service {
    manager: Option<ServiceManager>,
    every: Duration,
    next: Instant,
}

impl Service {
    /// Of this process. A manager that cannot be spoken with waits in vain, and says so itself.
    pub fn find() -> Self {
        let every = sign_of_life_within().map_or(TELL_EVERY, |within| (within / 4).min(TELL_EVERY));
        Self { manager: ServiceManager::find().ok().flatten(), every, next: Instant::ZERO }
    }

    /// Packets are steered; `main` is the main process.
    pub fn is_ready(&self, main: u32, steering: &str) {
        self.tell(&format!("READY=1\nMAINPID={main}\nSTATUS=steering by {steering}"));
    }

    /// All shards turn. `main` is the main process, unless another instance says which one is.
    pub fn is_alive(&mut self, main: Option<u32>) {
        let now = Clock::now();
        if self.manager.is_none() || now < self.next {
            return;
        }
        self.next = now + self.every;
        self.tell("WATCHDOG=1");
        main.into_iter().for_each(|main| self.main_is(main));
    }

    /// Whose end is the end of the service from here on.
    pub fn main_is(&self, process: u32) {
        self.tell(&format!("MAINPID={process}"));
    }

    fn tell(&self, lines: &str) {
        // It is told again, and what it does without a sign of life is its business.
        self.manager.iter().for_each(|manager| drop(manager.tell(lines)));
    }
}
