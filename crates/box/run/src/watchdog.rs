//! The watchdog: a second, tiny process that takes the steering away when the first one hangs or dies.
//!
//! A hung process is a black hole (H37): the rules stand and lead into devices nobody reads. So the
//! packet loop sends a heartbeat through a socket. When it stays away, the watchdog deletes the rules and
//! the nft table, and TCP is plainly forwarded. When the loop goes on, it is told and
//! installs the steering again. When the socket closes, the process is gone, and the watchdog undoes
//! whatever is left and ends; of a process that goes on all the same it undoes nothing. It runs no code of the
//! accelerator's, and is not stopped by what stops a terminal's programs.
//!
//! A process that has no processor is silent, too, and is no black hole: it goes on by itself. So silence is measured
//! in the time that the process could have worked ([`io::RunningTime`]), up to a bound.
//!
//! Where it keeps what a successor needs ([`crate::inherited_resources`]), a death with debt does not open the way for
//! packets at once: they wait, a successor is started, and goes on with the flows. It has a certain time for
//! that; then the way is opened, the flows are reset, and the program is started once more as from nothing. A hang with
//! debt is made a death first. The same is
//! done without debt where packets have no other way (of a bridge beside which no bridge of the kernel's stands
//! by), and where subscribers are on their way to or from other boxes.
//!
//! Where the process was started on a lifeline ([`io::Tethered`]) and that is cut, nobody is to go on, and there are
//! no ends to reset: the process ends by itself, or is killed, and everything is undone.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use io::{Clock, Instance, IoError, Lifeline, RECORD, Waiter};
use units::{Duration, Instant};

use crate::inherited_resources::{self, Inventory};
use crate::{Config, RunError};

mod death;
mod said;
mod watch;

pub use watch::watch;

/// Outcome for a process that was watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// It has ended in good order, or another one goes on.
    Well,
    /// It has died, and nobody goes on.
    Died,
}

/// Sent by the loop: all is well.
const BEAT: u8 = b'.';
/// Sent by the loop: the steering is installed again.
const RESUMED: u8 = b'r';
/// Sent by the process: it is undoing everything, and has no more heartbeats to send.
const CLOSING: u8 = b'c';
/// Sent by the process: it ends in good order.
const ENDS: u8 = b'q';
/// Sent by the process: keep what follows, a list and its descriptors.
const KEEP: u8 = b'k';
/// Behind a list.
const END_OF_LIST: u8 = b'\n';
/// Sent by the process: keep nothing any more.
const FORGET: u8 = b'n';
/// Sent by the process: another one has all that leads packets here, and what is written down.
const GIVEN: u8 = b'g';
/// Sent by the watchdog: the steering was taken away.
const REMOVED: u8 = b'h';

/// The path to the file of this program, whatever has become of the one that it was started from.
const OWN_FILE: &str = "/proc/self/exe";

/// A dead watchdog is replaced after this time at the earliest.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// Longest time that a watchdog may take to end once it is not needed.
const END_TIME_MAX: Duration = Duration::from_secs(3);

/// News of what the watchdog did, as the packet loop hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It took the steering away because the loop was silent.
    SteeringRemoved,
    /// It ended although it should not.
    Died,
}

/// The watched process's end: starts the watchdog, sends heartbeats, starts it again when it dies.
#[derive(Debug)]
pub(crate) struct Guardian {
    command: Vec<String>,
    record: PathBuf,
    hang_after: Duration,
    running: Option<(Child, UnixStream)>,
    /// One in whose place another one was put, until it has ended.
    retired: Option<Child>,
    started_at: Instant,
}

impl Guardian {
    /// Starts the watchdog over `instance`, whose lock it shares.
    pub fn start(config: &Config, instance: &Instance) -> Result<Self, RunError> {
        let mut guardian = Self {
            command: config.watchdog.command.clone(),
            record: instance.path().join(RECORD),
            hang_after: config.hang_after(),
            running: None,
            retired: None,
            started_at: Instant::ZERO,
        };
        guardian.launch(instance)?;
        Ok(guardian)
    }

    /// Starts it anew if it is not running and the last start was long enough ago; true if it did.
    pub fn revive(&mut self, instance: &Instance) -> Result<bool, RunError> {
        self.retired.take_if(|child| !matches!(child.try_wait(), Ok(None)));
        let now = Clock::now();
        let is_due = now.saturating_since(self.started_at) >= RESTART_PAUSE;
        if self.running.is_some() || !is_due {
            return Ok(false);
        }
        self.started_at = now;
        self.launch(instance).map(|()| true)
    }

    fn launch(&mut self, instance: &Instance) -> Result<(), RunError> {
        let failed = |error| RunError::Watchdog(IoError::system("start the watchdog", error));
        let (own, theirs) = UnixStream::pair().map_err(failed)?;
        own.set_nonblocking(true).map_err(failed)?;
        theirs.set_nonblocking(true).map_err(failed)?;
        let (program, arguments) = self.command.split_first().ok_or_else(|| {
            failed(std::io::Error::new(ErrorKind::NotFound, "no watchdog command is configured"))
        })?;
        let mut command = command_of(program);
        Lifeline::pass_on(&mut command);
        // Never written to: it carries the instance's lock, where there is room for one.
        let lock = instance.share_lock().map_or_else(|_| Stdio::null(), Stdio::from);
        let child = command
            .args(arguments)
            .arg(&self.record)
            .arg(self.hang_after.as_millis().to_string())
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(lock)
            .spawn()
            .map_err(failed)?;
        self.started_at = Clock::now();
        self.running = Some((child, own));
        Ok(())
    }

    /// The watchdog's process, while it runs.
    pub fn process(&self) -> Option<u32> {
        self.running.as_ref().map(|(child, _)| child.id())
    }

    /// Descriptor to watch for news.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|(_, socket)| socket.as_fd())
    }

    /// Has it keep what a successor needs, in place of what it kept before.
    ///
    /// # Errors
    /// When it cannot be sent: then nothing is kept. Where the watchdog cannot be told so either it is killed, and
    /// [`Guardian::revive`] starts another one.
    pub fn keep(&mut self, inventory: &Inventory, descriptors: &[BorrowedFd<'_>]) -> Result<(), IoError> {
        let Some((child, socket)) = self.running.as_mut() else { return Ok(()) };
        let sent = inherited_resources::send(socket, &[FORGET, KEEP], inventory, descriptors);
        // A list that has begun ends here, and is not whole. The line stays open: its end is that of this process.
        if sent.is_err() && socket.write_all(&[END_OF_LIST, FORGET]).is_err() {
            drop(child.kill());
        }
        sent
    }

    /// Tells that another process has all that leads packets here, and what is written down.
    pub fn given(&mut self) {
        self.tell(GIVEN);
    }

    /// Puts another watchdog in the place of the one that runs, with the lock that `instance` has by this time. It
    /// keeps nothing yet.
    ///
    /// # Errors
    /// When it cannot be started: then the other one stays.
    pub fn relaunch(&mut self, instance: &Instance) -> Result<(), RunError> {
        let before = self.running.take();
        if let Err(error) = self.launch(instance) {
            self.running = before;
            return Err(error);
        }
        if let Some((mut child, _socket)) = before {
            // It does nothing any more, and is not waited for: it may be stopped or frozen.
            drop(child.kill());
            self.retired = Some(child);
        }
        Ok(())
    }

    /// Tells that the loop is alive.
    pub fn beat(&mut self) {
        self.tell(BEAT);
    }

    /// Tells that a step of undoing everything begins.
    pub fn closing(&mut self) {
        self.tell(CLOSING);
    }

    /// Tells that the steering is installed again.
    pub fn resumed(&mut self) {
        self.tell(RESUMED);
    }

    fn tell(&mut self, word: u8) {
        // A full socket holds many heartbeats; a closed one is noticed by `news`.
        if let Some((_, socket)) = self.running.as_mut() {
            drop(socket.write(&[word]));
        }
    }

    /// News of what has happened, if anything.
    pub fn news(&mut self) -> Option<News> {
        let (child, socket) = self.running.as_mut()?;
        let mut word = [0];
        match socket.read(&mut word) {
            Ok(0) => {}
            Ok(_) => return (word[0] == REMOVED).then_some(News::SteeringRemoved),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return None,
            Err(_) => {}
        }
        // Closed: it has ended or is about to.
        drop(child.kill());
        drop(child.wait());
        self.running = None;
        Some(News::Died)
    }

    /// Lets it end, and waits until it has.
    pub fn finish(mut self) -> Result<(), IoError> {
        self.tell(ENDS);
        let Some((mut child, socket)) = self.running.take() else { return Ok(()) };
        drop(socket);
        let mut waiter = Waiter::new(Duration::ZERO)?;
        let give_up = Clock::now() + END_TIME_MAX;
        while matches!(child.try_wait(), Ok(None)) && Clock::now() < give_up {
            waiter.wait(Some(Clock::now() + Duration::from_millis(2)))?;
        }
        drop(child.kill());
        drop(child.wait());
        Ok(())
    }
}

/// Command that starts `program`. This program itself is listed (`ps`) by the words that it was started with,
/// not by that path.
fn command_of(program: &str) -> Command {
    let mut command = Command::new(program);
    if program == OWN_FILE
        && let Some(word) = std::env::args_os().next()
    {
        command.arg0(word);
    }
    command
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use io::Interest;

    use super::said::Said;
    use super::*;
    use crate::WatchdogConfig;

    /// A watchdog that takes nothing in, as one that is stopped.
    fn deaf() -> Config {
        let command = ["/bin/sh", "-c", "exec sleep 60"].map(str::to_owned).to_vec();
        Config { watchdog: WatchdogConfig { command, ..WatchdogConfig::default() }, ..Config::default() }
    }

    #[test]
    fn a_watchdog_that_cannot_be_told_what_to_keep_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let instance = Instance::register(folder.path(), "run").unwrap();
        let mut guardian = Guardian::start(&deaf(), &instance).unwrap();
        assert!(guardian.keep(&Inventory::default(), &[]).is_ok());
        assert_eq!(guardian.news(), None);
        (0..100_000).for_each(|_| guardian.beat());
        assert!(guardian.keep(&Inventory::default(), &[]).is_err(), "there is no room any more");
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(&guardian.fd().unwrap(), Interest::Read, 0).unwrap();
        waiter.wait(Some(Clock::now() + Duration::from_secs(10))).unwrap();
        assert_eq!(guardian.news(), Some(News::Died));
        guardian.started_at = Instant::ZERO;
        assert!(guardian.revive(&instance).unwrap());
        assert!(guardian.keep(&Inventory::default(), &[]).is_ok());
        let (mut child, _socket) = guardian.running.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_list_that_is_not_whole_is_forgotten_and_the_next_one_is_kept() {
        let (own, theirs) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        let mut said = Said::default();
        let hear = |said: &mut Said| {
            theirs.set_nonblocking(true).unwrap();
            let mut bytes = [0; 4_096];
            while let Ok((len, descriptors)) = io::receive_with_descriptors(&theirs, &mut bytes) {
                said.hear(&bytes[..len], descriptors);
            }
        };
        let file = File::open("/dev/null").unwrap();
        let shards = 60;
        let has_memory = vec![true; shards];
        let inventory = Inventory { shards, journals: shards, has_memory, ..Inventory::default() };
        let all = vec![file.as_fd(); inventory.descriptors()];
        assert!(all.len() > io::DESCRIPTORS_MAX);
        let send = || inherited_resources::send(&own, &[FORGET, KEEP], &inventory, &all).unwrap();
        send();
        hear(&mut said);
        assert_eq!(said.kept.as_ref().map(|kept| kept.inventory.shards), Some(shards));
        // As far as one has come that is broken off.
        (&own).write_all(&[FORGET, KEEP, b'{', END_OF_LIST, FORGET, ENDS]).unwrap();
        hear(&mut said);
        assert!(said.kept.is_none() && said.ends, "words behind it are heard");
        send();
        hear(&mut said);
        assert!(said.kept.is_some());
    }
}
