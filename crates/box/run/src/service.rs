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
//! It also keeps what the watchdog keeps for a successor ([`crate::inherited_resources`]), for the next start of the service:
//! process and watchdog may die together. That is one descriptor, of a socket in which the list waits with all
//! its descriptors. Its name is that of the instance's directory.
//!
//! INVARIANT: whoever is to end without the service's end has named another main process before.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use io::{Clock, IoError, ServiceManager, sign_of_life_within};
use units::{Duration, Instant};

use crate::inherited_resources::{self, Inventory};

/// Interval at which the manager is told who is the main process, where it wants no sign of life.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Messages to the manager; nothing where there is none.
#[derive(Debug, Default)]
pub(crate) struct Service {
    manager: Option<ServiceManager>,
    every: Duration,
    next: Instant,
    /// Descriptor that the manager is still to keep: it could not be told so.
    unstored: Option<OwnedFd>,
}

impl Service {
    /// Of this process. A manager that cannot be spoken with waits in vain, and says so itself.
    pub fn find() -> Self {
        let every = sign_of_life_within().map_or(TELL_EVERY, |within| (within / 4).min(TELL_EVERY));
        Self { manager: ServiceManager::find().ok().flatten(), every, next: Instant::ZERO, unstored: None }
    }

    /// Packets are steered; `main` is the main process.
    pub fn is_ready(&self, main: u32, steering: &str) {
        self.tell(&format!("READY=1\nMAINPID={main}\nSTATUS=steering by {steering}"));
    }

    /// All shards turn. `main` is the main process, unless another instance says which one is.
    pub fn is_alive(&mut self, main: Option<u32>, directory: &Path) {
        let now = Clock::now();
        if self.manager.is_none() || now < self.next {
            return;
        }
        self.next = now + self.every;
        self.tell("WATCHDOG=1");
        main.into_iter().for_each(|main| self.main_is(main));
        self.store(directory);
    }

    /// Nothing is steered for the time being, and this process waits.
    pub fn stands_by(&mut self) {
        let now = Clock::now();
        if self.manager.is_none() || now < self.next {
            return;
        }
        self.next = now + self.every;
        let own = std::process::id();
        self.tell(&format!("WATCHDOG=1\nMAINPID={own}\nSTATUS=stands by: a packet filter is against it"));
    }

    /// Has the manager keep what a successor of the instance with this directory needs, in place of what it kept
    /// before.
    ///
    /// # Errors
    /// When that cannot be one descriptor.
    pub fn keep(
        &mut self,
        directory: &Path,
        inventory: &Inventory,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), IoError> {
        if self.manager.is_none() {
            return Ok(());
        }
        let (own, theirs) =
            UnixStream::pair().map_err(|error| IoError::system("open a pair of sockets", error))?;
        // All of it has to wait in there: nobody reads before this process has died.
        own.set_nonblocking(true).map_err(|error| IoError::system("open a pair of sockets", error))?;
        inherited_resources::send(&own, &[], inventory, descriptors)?;
        self.forget(directory);
        self.unstored = Some(theirs.into());
        self.store(directory);
        Ok(())
    }

    fn store(&mut self, directory: &Path) {
        let Some(manager) = &self.manager else { return };
        // What cannot be told at the moment is told with the next sign of life.
        self.unstored.take_if(|kept| manager.store(stored_name(directory), kept.as_fd()).is_ok());
    }

    /// Has the manager keep nothing any more of the instance with this directory.
    pub fn forget(&self, directory: &Path) {
        self.manager.iter().for_each(|manager| drop(manager.forget(stored_name(directory))));
    }

    /// Names the process whose end is the end of the service from here on.
    pub fn main_is(&self, process: u32) {
        self.tell(&format!("MAINPID={process}"));
    }

    fn tell(&self, lines: &str) {
        // It is told again, and what it does without a sign of life is its business.
        self.manager.iter().for_each(|manager| drop(manager.tell(lines)));
    }
}

/// By what name the manager keeps what is of the instance with this directory.
fn stored_name(directory: &Path) -> &str {
    directory.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}
