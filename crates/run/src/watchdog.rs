//! The watchdog: a second, tiny process that takes the steering away when the first one hangs or dies.
//!
//! A hung process is a black hole (H37): the rules stand and lead into devices nobody reads. So the
//! packet loop sends a heartbeat through a socket. When it stays away, the watchdog deletes the rules and
//! ends the holder of the nft table, and TCP is plainly forwarded. When the loop goes on, it is told and
//! installs the steering again. When the socket closes, the process is gone, and the watchdog undoes
//! whatever is left and ends. It runs no code of the accelerator's, allocates nothing while it waits, and
//! is not stopped by what stops a terminal's programs.
//!
//! Where it keeps what a successor needs ([`crate::keepsakes`]), a death with debt does not open the way for
//! packets at once: they wait, a successor is started, and goes on with the flows. It has a certain time for
//! that; then the way is opened and the flows are reset. A hang with debt is made a death first. The same is
//! done without debt where packets have no other way (of a bridge beside which no bridge of the kernel's stands
//! by), and where subscribers are on their way to or from other boxes.
//!
//! Where the process was started on a lifeline ([`io::Tethered`]) and that is cut, nobody is to go on, and there are
//! no ends to reset: the process ends by itself, or is killed, and everything is undone.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use handover::Fate;
use io::netlink::Netlink;
use io::{
    Clock, Instance, Interest, IoError, Lifeline, OWNER, PidFd, ProcessId, RECORD, RECORD_OF_DEAD, Waiter,
    ignore_signals,
};
use units::{Duration, Instant};

use crate::keepsakes::{self, Inventory, Keepsakes, TAKEN};
use crate::record::Record;
use crate::recovery::Haste;
use crate::roaming::{Fates, Ledger};
use crate::service::Service;
use crate::{Config, RunError, journal, log, record, recovery};

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
/// Sent by the process: keep nothing any more.
const FORGET: u8 = b'n';
/// Sent by the watchdog: the steering was taken away.
const REMOVED: u8 = b'h';

/// SIGHUP, SIGINT, SIGQUIT, SIGTERM: the watchdog ends by itself, after the process it watches.
const IGNORED: [i32; 4] = [1, 2, 3, 15];

/// A dead watchdog is replaced after this time at the earliest.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// Longest step of undoing everything. The state of many flows is given back in one step: seconds of silence are no
/// hang then. Packets do not come to the process any more.
const CLOSING_TIME_MAX: Duration = Duration::from_secs(30);

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
            record: instance.path().join(RECORD),
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
        let mut command = Command::new(program);
        Lifeline::pass_on(&mut command);
        let child = command
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

    /// The watchdog's process, while it runs.
    pub fn process(&self) -> Option<u32> {
        self.running.as_ref().map(|(child, _)| child.id())
    }

    /// What to watch for news.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|(_, socket)| socket.as_fd())
    }

    /// Has it keep what a successor needs, in place of what it kept before.
    ///
    /// # Errors
    /// When it cannot be sent: then nothing is kept.
    pub fn keep(&mut self, inventory: &Inventory, descriptors: &[BorrowedFd<'_>]) -> Result<(), IoError> {
        let Some((_, socket)) = self.running.as_ref() else { return Ok(()) };
        let sent = keepsakes::send(socket, &[FORGET, KEEP], inventory, descriptors);
        if sent.is_err() {
            // What it has of it is not whole: without the rest it is worth nothing.
            drop(socket.shutdown(std::net::Shutdown::Write));
        }
        sent
    }

    /// Has it keep nothing any more: if this process dies from here on, nobody goes on with its flows.
    pub fn forget(&mut self) {
        self.tell(FORGET);
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

/// What the process has said, byte by byte, and what it has given.
#[derive(Debug, Default)]
struct Said {
    /// A list that is coming in.
    text: Option<Vec<u8>>,
    /// Descriptors that came with it.
    descriptors: Vec<OwnedFd>,
    kept: Option<Keepsakes>,
    has_resumed: bool,
    is_closing: bool,
    ends: bool,
}

impl Said {
    /// Silence after which something is done.
    fn patience(&self, hang_after: Duration) -> Duration {
        if self.is_closing {
            return hang_after.max(CLOSING_TIME_MAX);
        }
        // Programs let packets pass after `hang_after`: before that it is too late for a successor.
        if self.kept.is_some() { hang_after * 3 / 4 } else { hang_after }
    }

    fn hear(&mut self, bytes: &[u8], descriptors: Vec<OwnedFd>) {
        self.descriptors.extend(descriptors);
        for &byte in bytes {
            match (self.text.as_mut(), byte) {
                (Some(_), b'\n') => {
                    let text = self.text.take().unwrap_or_default();
                    let kept = Keepsakes::parse(&text, std::mem::take(&mut self.descriptors));
                    self.kept = kept
                        .inspect_err(|error| {
                            let text = format!("no successor can go on: {error}");
                            log::warn(&text);
                        })
                        .ok();
                }
                (Some(text), byte) => text.push(byte),
                (None, KEEP) => self.text = Some(Vec::new()),
                (None, FORGET) => self.kept = None,
                (None, RESUMED) => self.has_resumed = true,
                (None, CLOSING) => self.is_closing = true,
                (None, ENDS) => self.ends = true,
                (None, _) => {}
            }
        }
    }
}

/// How often a process that is dead shows signs of life: far shorter than the shortest time after which
/// programs let packets pass.
const BEAT_EVERY: Duration = Duration::from_millis(20);

/// Why a successor does not go on that is not there.
const ENDED: &str = "its successor has ended";

/// How long a process that hangs may take to die.
const DEATH_TIME_MAX: Duration = Duration::from_millis(100);

/// How long a process may take to end by itself that nobody needs any more.
const ABANDONED_TIME_MAX: Duration = Duration::from_secs(1);

/// What [`watch`] waits for.
const HEARTBEAT: u64 = 0;
const LIFELINE: u64 = 1;

/// How it went with a process that was watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// It has ended in good order, or another one goes on.
    Well,
    /// It has died, and nobody goes on.
    Died,
}

/// The watchdog itself: watches the process at the other end of standard input over the instance whose
/// record is at `watched_record`, until that process has ended.
///
/// # Errors
/// When something could not be undone; everything else was.
pub fn watch(watched_record: &Path, hang_after: Duration) -> Result<Watched, RunError> {
    ignore_signals(&IGNORED);
    let failed = |error| RunError::Watchdog(IoError::system("open the heartbeat's socket", error));
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let netlink = Netlink::open()?;
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(&socket, Interest::Read, HEARTBEAT)?;
    let lifeline = Lifeline::inherited();
    if let Some(line) = &lifeline {
        waiter.add(line, Interest::Read, LIFELINE)?;
    }
    let mut kill_at = None;
    let mut bytes = [0; 4_096];
    let mut said = Said::default();
    // `None` while the steering is away.
    let mut last_beat = Some(Clock::now());
    loop {
        let patience = said.patience(hang_after);
        let due = kill_at.or_else(|| last_beat.map(|at| at + patience));
        let ready = waiter.wait(due)?;
        let is_silent = ready.is_empty();
        if let Some(line) = lifeline.as_ref().filter(|_| ready.iter().any(|ready| ready.token == LIFELINE)) {
            kill_at = Some(Clock::now() + ABANDONED_TIME_MAX);
            waiter.remove(line)?;
            continue;
        }
        if is_silent && kill_at.is_some() {
            let owner = watched_record.with_file_name(OWNER);
            let owner = fs::read_to_string(owner).ok().and_then(|text| text.parse::<ProcessId>().ok());
            drop(owner.map(record::kill));
            break;
        }
        let is_late = due.is_some_and(|due| Clock::now() > due + hang_after / 4);
        if is_silent && is_late {
            // This process has not run either: the machine stood still, and the silence says nothing.
            last_beat = Some(Clock::now());
            continue;
        }
        if is_silent && !watched_record.exists() {
            // It has given everything away, and has yet to end.
            last_beat = Some(Clock::now());
            continue;
        }
        if is_silent && said.kept.as_ref().is_some_and(|kept| fence(kept, watched_record, &socket, &netlink))
        {
            break;
        }
        if is_silent {
            last_beat = None;
            let record = read_record(watched_record);
            let result = record.undo_steering(&netlink);
            drop(socket.write(&[REMOVED]));
            let instead = match (record.is_inline, &record.bridge) {
                (false, _) => "TCP is forwarded without acceleration",
                (true, Some(_)) => "the kernel bridges",
                (true, None) => "the wire is cut",
            };
            let text = format!("no sign of life for {hang_after}: {instead}");
            log::warn(&text);
            result?;
            continue;
        }
        match io::receive_with_descriptors(&socket, &mut bytes) {
            Ok((0, _)) => break,
            Ok((len, descriptors)) => {
                said.hear(&bytes[..len], descriptors);
                if last_beat.is_some() || std::mem::take(&mut said.has_resumed) {
                    last_beat = Some(Clock::now());
                }
            }
            Err(error) if error.is_transient() => {}
            Err(_) => break,
        }
    }
    let record_path = &watched_record.with_file_name(RECORD_OF_DEAD);
    if fs::rename(watched_record, record_path).is_err() {
        // Nothing was set up, or all is undone, or another process has it, and the flows.
        if let Some(directory) = record_path.parent() {
            drop(fs::remove_dir_all(directory));
        }
        return Ok(Watched::Well);
    }
    let record = read_record(record_path);
    if lifeline.as_ref().is_some_and(Lifeline::is_cut) {
        // With the hosts of its flows and the bridge that might stand in for it.
        let directory = record_path.parent().unwrap_or(record_path);
        let undone = record.undo_all(&netlink, directory);
        let state = directory.parent().unwrap_or(directory);
        Ledger::forget(state, record.namespace, &record.name);
        drop(fs::remove_dir_all(directory));
        undone?;
        return Ok(Watched::Well);
    }
    let kept = said.kept.take().filter(|_| !said.ends);
    if let Some(kept) = kept
        && let Some(directory) = record_path.parent()
        && Need::of(directory, &record).is_some()
    {
        match succeed(kept, record_path) {
            Ok(process) => {
                let text = format!("process {process} goes on with the flows of the one that died");
                log::warn(&text);
                drop(fs::remove_dir_all(directory));
                return Ok(Watched::Well);
            }
            Err(why) => {
                let text = format!("nobody goes on with the flows of the process that died: {why}");
                log::warn(&text);
            }
        }
    }
    // Nobody goes on with what it keeps.
    record_path.parent().into_iter().for_each(|directory| Service::find().forget(directory));
    let watched = if said.ends { Watched::Well } else { Watched::Died };
    if record.is_inline {
        end_inline(record_path, &record, &netlink)?;
        return Ok(watched);
    }
    let result = record.undo_all(&netlink, record_path.parent().unwrap_or(record_path));
    if let (Ok(()), Some(directory)) = (&result, record_path.parent()) {
        settle(directory, &record, &netlink);
        // Already gone after an end in good order.
        drop(fs::remove_dir_all(directory));
    }
    result?;
    Ok(watched)
}

/// Why somebody must go on in the place of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Flows are owed data that nobody else has.
    Debt,
    /// Other boxes may ask for subscribers, or have them: their packets go there.
    Roaming,
    /// Without it no packet passes.
    CutWire,
}

impl Need {
    /// Why, of the process with its journals in `directory`; none when packets can take the plain way.
    fn of(directory: &Path, record: &Record) -> Option<Self> {
        if !journal::read_owed(directory).is_empty() {
            return Some(Self::Debt);
        }
        let state = directory.parent().unwrap_or(directory);
        if Fates::read(state, record.namespace, &record.name).are_awaited() {
            return Some(Self::Roaming);
        }
        (record.is_inline && record.bridge.is_none()).then_some(Self::CutWire)
    }
}

/// Makes a death of a hang, if somebody must go on in the process's place; true then. It must not wake up and
/// send anything once another one has its flows.
///
/// The sockets of a bridge cannot be deleted as devices can. They need not be: once a process has got SIGKILL it
/// executes nothing of its own any more, and the system call in which it hangs reads or sends one frame at most.
fn fence(kept: &Keepsakes, record_path: &Path, socket: &UnixStream, netlink: &Netlink) -> bool {
    const SIGKILL: i32 = 9;
    let record = read_record(record_path);
    let need = record_path.parent().and_then(|directory| Need::of(directory, &record));
    let why = match need {
        Some(Need::Debt) => "owes flows data",
        Some(Need::Roaming) => "has subscribers on their way between boxes",
        Some(Need::CutWire) => "the wire is cut without it",
        None => return false,
    };
    kept.beat();
    let text = format!("process {} hangs and {why}: it is killed", kept.inventory.process);
    log::warn(&text);
    let killed = PidFd::open(kept.inventory.process).and_then(|process| {
        process.send_signal(SIGKILL)?;
        let mut waiter = Waiter::new(Duration::ZERO)?;
        waiter.add(&process, Interest::Read, 0)?;
        Ok(!waiter.wait(Some(Clock::now() + DEATH_TIME_MAX))?.is_empty())
    });
    if !matches!(killed, Ok(true)) && !kept.inventory.is_bridge {
        // It cannot send anything without its devices.
        for tun in &kept.inventory.tuns {
            drop(netlink.index_of(tun).and_then(|index| netlink.delete_link(index)));
        }
    }
    drop(socket.shutdown(std::net::Shutdown::Both));
    true
}

/// Starts a successor, and lets it go on with the flows; gives its number.
///
/// # Errors
/// Why it does not: then it is not there any more, and nothing is kept.
fn succeed(mut kept: Keepsakes, record_path: &Path) -> Result<u32, String> {
    const EPIPE: i32 = 32;
    let give_up = Clock::now() + Duration::from_millis(kept.inventory.within_ms);
    kept.beat();
    if !kept.inventory.note_death() {
        return Err(format!("that was death {} within a minute", kept.inventory.deaths_max));
    }
    let (own, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
    let (program, arguments) = kept.inventory.successor.split_first().ok_or("no successor is configured")?;
    let output = std::io::stderr().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    Lifeline::pass_on(&mut command);
    let mut child = command
        .args(arguments)
        .arg("--recover")
        .arg(record_path)
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(output))
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    // With its copy of the other end: that is closed then when the successor ends.
    drop(command);
    let answer = match kept.send(&own) {
        Ok(()) => await_successor(&own, &kept, give_up),
        // Before it has heard anything.
        Err(error) if error.raw_os_error() == Some(EPIPE) => Err(ENDED.to_owned()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(why) = answer {
        drop(child.kill());
        drop(child.wait());
        return Err(why);
    }
    Ok(child.id())
}

/// Waits until the successor has the flows.
fn await_successor(mut stream: &UnixStream, kept: &Keepsakes, give_up: units::Instant) -> Result<(), String> {
    let mut waiter = Waiter::new(Duration::ZERO).map_err(|error| error.to_string())?;
    waiter.add(stream, Interest::Read, 0).map_err(|error| error.to_string())?;
    let mut word = [0];
    loop {
        kept.beat();
        let now = Clock::now();
        if now >= give_up {
            return Err(format!("its successor has taken longer than {} ms", kept.inventory.within_ms));
        }
        let until = give_up.min(now + BEAT_EVERY);
        if waiter.wait(Some(until)).map_err(|error| error.to_string())?.is_empty() {
            continue;
        }
        return match stream.read(&mut word) {
            Ok(1) if word[0] == TAKEN => Ok(()),
            _ => Err(ENDED.to_owned()),
        };
    }
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
    record.undo_all(netlink, directory)?;
    // Already gone if the next start has found it.
    drop(fs::remove_dir_all(directory));
    Ok(())
}

/// Ends the flows that the process owed something when it died; the packets of all take the plain
/// way already.
fn settle(directory: &Path, record: &Record, netlink: &Netlink) {
    let mut owed = journal::read_owed(directory);
    // Another box may have them: the next start asks.
    let fates = Fates::read(directory.parent().unwrap_or(directory), record.namespace, &record.name);
    owed.retain(|left| fates.of(left) != Fate::Leave);
    if owed.is_empty() {
        return;
    }
    let count = owed.len();
    let text = format!("the accelerator died and owed {count} flows data: resetting their ends");
    log::warn(&text);
    match recovery::reset_ends(&owed, record.passage(), netlink, &Haste::default()) {
        Ok(outcome) => log::warn(&outcome.to_string()),
        Err(error) => {
            let text = format!("cannot reset {count} flows that will stall: {error}");
            log::warn(&text);
        }
    }
}

/// What is set up now; nothing when the instance has ended in good order.
fn read_record(path: &Path) -> Record {
    fs::read_to_string(path).ok().and_then(|text| Record::parse(&text)).unwrap_or_default()
}
