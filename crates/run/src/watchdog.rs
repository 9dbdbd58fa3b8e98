//! The watchdog: a second, tiny process that takes the steering away when the first one hangs or dies.
//!
//! A hung process is a black hole (H37): the rules stand and lead into devices nobody reads. So the
//! packet loop sends a heartbeat through a socket. When it stays away, the watchdog deletes the rules and
//! ends the holder of the nft table, and TCP is plainly forwarded. When the loop goes on, it is told and
//! installs the steering again. When the socket closes, the process is gone, and the watchdog undoes
//! whatever is left and ends. It runs no code of the accelerator's, allocates nothing while it waits, and
//! is not stopped by what stops a terminal's programs.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use io::netlink::Netlink;
use io::{Clock, Instance, Interest, IoError, Waiter, ignore_signals};
use units::{Duration, Instant};

use crate::record::Record;
use crate::{Config, RunError, journal, recovery};

/// Sent by the loop: all is well.
const BEAT: u8 = b'.';
/// Sent by the loop: the steering is installed again.
const RESUMED: u8 = b'r';
/// Sent by the watchdog: the steering was taken away.
const REMOVED: u8 = b'h';

/// SIGHUP, SIGINT, SIGQUIT, SIGTERM: the watchdog ends by itself, after the process it watches.
const IGNORED: [i32; 4] = [1, 2, 3, 15];

/// A dead watchdog is replaced after this time at the earliest.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// How long a watchdog may take to end once it is not needed.
const END_TIME_MAX: Duration = Duration::from_secs(3);

/// What the watchdog did, as the packet loop hears of it.
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
    started_at: Instant,
}

impl Guardian {
    /// Starts the watchdog over `instance`, whose lock it shares.
    pub fn start(config: &Config, instance: &Instance) -> Result<Self, RunError> {
        let mut guardian = Self {
            command: config.watchdog.command.clone(),
            record: instance.path().join("record"),
            hang_after: config.hang_after(),
            running: None,
            started_at: Instant::ZERO,
        };
        guardian.launch(instance)?;
        Ok(guardian)
    }

    /// Starts it anew if it is not running and the last start was long enough ago; true if it did.
    pub fn revive(&mut self, instance: &Instance) -> Result<bool, RunError> {
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
        let child = Command::new(program)
            .args(arguments)
            .arg(&self.record)
            .arg(self.hang_after.as_millis().to_string())
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // Never written to: it carries the instance's lock.
            .stdout(Stdio::from(instance.share_lock()?))
            .spawn()
            .map_err(failed)?;
        self.started_at = Clock::now();
        self.running = Some((child, own));
        Ok(())
    }

    /// What to watch for news.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|(_, socket)| socket.as_fd())
    }

    /// Tells that the loop is alive.
    pub fn beat(&mut self) {
        self.tell(BEAT);
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

    /// What has happened, if anything.
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

/// The watchdog itself: watches the process at the other end of standard input over the instance whose
/// record is at `record_path`, until that process has ended.
///
/// # Errors
/// When something could not be undone; everything else was.
pub fn watch(record_path: &Path, hang_after: Duration) -> Result<(), RunError> {
    ignore_signals(&IGNORED);
    let failed = |error| RunError::Watchdog(IoError::system("open the heartbeat's socket", error));
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let netlink = Netlink::open()?;
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(&socket, Interest::Read, 0)?;
    let mut words = [0; 256];
    // `None` while the steering is away.
    let mut last_beat = Some(Clock::now());
    loop {
        let is_silent = waiter.wait(last_beat.map(|at| at + hang_after))?.is_empty();
        if is_silent {
            last_beat = None;
            let record = read_record(record_path);
            let result = record.undo_steering(&netlink);
            drop(socket.write(&[REMOVED]));
            let instead = match (record.is_inline, &record.bridge) {
                (false, _) => "TCP is forwarded without acceleration",
                (true, Some(_)) => "the kernel bridges",
                (true, None) => "the wire is cut",
            };
            eprintln!("cellerator: no sign of life for {hang_after}: {instead}");
            result?;
            continue;
        }
        match socket.read(&mut words) {
            Ok(0) => break,
            Ok(len) => {
                let words = &words[..len];
                if last_beat.is_some() || words.contains(&RESUMED) {
                    last_beat = Some(Clock::now());
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => break,
        }
    }
    let record = read_record(record_path);
    if record.is_inline {
        return Ok(end_inline(record_path, &record, &netlink)?);
    }
    let result = record.undo_all(&netlink);
    if let (Ok(()), Some(directory)) = (&result, record_path.parent()) {
        settle(directory, &record, &netlink);
        // Already gone after an end in good order.
        drop(fs::remove_dir_all(directory));
    }
    Ok(result?)
}

/// Ends the flows of a bridge that died. A kernel bridge that has taken over stays, and with it
/// what is written down, until the next start takes its place; one that has done so meanwhile has
/// left that bridge without ports.
fn end_inline(record_path: &Path, record: &Record, netlink: &Netlink) -> Result<(), IoError> {
    let Some(directory) = record_path.parent() else { return Ok(()) };
    settle(directory, record, netlink);
    journal::discard(directory);
    if record.is_bridging(netlink)? {
        return Ok(());
    }
    record.undo_all(netlink)?;
    // Already gone if the next start has found it.
    drop(fs::remove_dir_all(directory));
    Ok(())
}

/// Ends the flows that the process owed something when it died; the packets of all take the plain
/// way already.
fn settle(directory: &Path, record: &Record, netlink: &Netlink) {
    let owed = journal::read(directory);
    if owed.is_empty() {
        return;
    }
    let count = owed.len();
    eprintln!("cellerator: the accelerator died and owed {count} flows data: resetting their ends");
    match recovery::reset_ends(&owed, record.passage(), netlink) {
        Ok(outcome) => eprintln!("cellerator: {outcome}"),
        Err(error) => eprintln!("cellerator: cannot reset {count} flows that will stall: {error}"),
    }
}

/// What is set up now; nothing when the instance has ended in good order.
fn read_record(path: &Path) -> Record {
    fs::read_to_string(path).ok().and_then(|text| Record::parse(&text)).unwrap_or_default()
}
