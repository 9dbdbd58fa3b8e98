//! Actions of the watchdog after a death: a successor, or everything undone and flows with debt reset.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use handover::Ownership;
use io::netlink::Netlink;
use io::{Clock, Instance, Interest, IoError, Lifeline, PidFd, RECORD, RECORD_OF_DEAD, RunningTime, Waiter};
use units::Duration;

use super::said::Said;
use super::{Watched, command_of};
use crate::handover::{Ledger, PendingHandovers};
use crate::inherited_resources::{InheritedResources, Inventory, TAKEN, is_last};
use crate::instances;
use crate::instances::KIND;
use crate::journal::Journals;
use crate::question::Question;
use crate::record::Record;
use crate::reset_orphans::{self, Haste};
use crate::service::Service;
use crate::{RunError, log, notrack};

/// Interval at which a process that is dead shows signs of life: far shorter than the shortest time after
/// which programs let packets pass.
const BEAT_EVERY: Duration = Duration::from_millis(20);

/// Reason why a missing successor does not go on.
const ENDED: &str = "its successor has ended";

/// Longest time that a process that hangs may take to die, in time in which it has a processor, and at most.
/// It is not waited for any longer: see [`fence`].
const DEATH_TIME_MAX: Duration = Duration::from_millis(100);
const DEATH_WAIT_MAX: Duration = Duration::from_secs(2);

/// Factor by which a successor without a processor may take longer than one that runs.
const STARVED_FACTOR: u64 = 10;

/// Longest time that a process that starts anew may take until it is ready, in time in which it has a
/// processor, and at most.
const START_TIME_MAX: Duration = Duration::from_secs(5);
const START_WAIT_MAX: Duration = Duration::from_secs(60);

/// Longest time that one that starts may take to answer before it is looked at again.
const ANSWER_TIME: std::time::Duration = std::time::Duration::from_secs(1);

/// Record of what a process has set up, and how its flows stand: as it is written down, or was given to the
/// watchdog, since others may have deleted its directory.
#[derive(Debug)]
pub(super) struct Remains {
    directory: PathBuf,
    pub record: Record,
    journals: Journals,
}

impl Remains {
    /// Those of a process that runs; none when another one has them.
    pub fn of_running(watched_record: &Path, said: &Said) -> Option<Self> {
        let record = read_record(watched_record);
        let record = record.or_else(|| left(watched_record, said).cloned())?;
        Some(Self::new(watched_record, said.kept.as_ref(), record))
    }

    /// Takes those of a process that has ended out of the reach of others; none when nothing was set up, all is undone,
    /// or another process has it.
    fn take(watched_record: &Path, said: &Said) -> Option<Self> {
        let record_path = watched_record.with_file_name(RECORD_OF_DEAD);
        let record = if fs::rename(watched_record, &record_path).is_ok() {
            read_record(&record_path).unwrap_or_default()
        } else {
            // Where it is, but cannot be renamed, nobody can.
            read_record(watched_record).or_else(|| left(watched_record, said).cloned())?
        };
        Some(Self::new(watched_record, said.kept.as_ref(), record))
    }

    fn new(watched_record: &Path, kept: Option<&InheritedResources>, record: Record) -> Self {
        let directory = watched_record.parent().unwrap_or(watched_record).to_owned();
        let journals = kept.map_or(&[][..], |kept| &kept.journals);
        let journals = journals.iter().map(OwnedFd::try_clone).collect::<std::io::Result<_>>();
        let journals = Journals::with(&directory, journals.unwrap_or_default());
        Self { directory, record, journals }
    }

    /// Directory of all instances.
    fn state(&self) -> &Path {
        self.directory.parent().unwrap_or(&self.directory)
    }

    fn pending_handovers(&self) -> PendingHandovers {
        PendingHandovers::read(self.state(), self.record.namespace, &self.record.name)
    }

    /// Has the next start find what stands: it is written down anew where others have deleted it.
    fn keep(&self) -> Result<(), IoError> {
        let path = self.directory.join(RECORD_OF_DEAD);
        if read_record(&path).is_some() {
            return Ok(());
        }
        let written = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        let written = written.and_then(|()| fs::write(&path, self.record.to_text()));
        written.map_err(|error| IoError::system(format!("write {}", path.display()), error))
    }

    /// Undoes everything, with the hosts of the flows and the bridge that might stand in for the process gone.
    fn abandon(&self, netlink: &Netlink) -> Result<Watched, RunError> {
        let undone = instances::undo_all(&self.record, netlink, &self.directory);
        Ledger::forget(self.state(), self.record.namespace, &self.record.name);
        self.forget();
        undone?;
        Ok(Watched::Well)
    }

    fn forget(&self) {
        // Already gone after an end in good order, and if the next start has found it.
        drop(fs::remove_dir_all(&self.directory));
    }
}

/// Copy in the watchdog of a record that is not where it was: others have deleted it. None if the process has
/// given it away, or has undone all of it.
fn left<'a>(watched_record: &Path, said: &'a Said) -> Option<&'a Record> {
    let record = said.kept.as_ref()?.inventory.record.as_ref()?;
    let directory = watched_record.parent()?;
    let is_another_watchdogs = watched_record.with_file_name(RECORD_OF_DEAD).exists();
    let is_left = !said.ends && !said.is_given && !is_another_watchdogs;
    (is_left && !is_anothers(record, directory)).then_some(record)
}

/// True when a process that lives, and whose instance is not the one with this directory, has written down the same
/// devices. What another dead one has left there says nothing: it may wait for its flows to be reset.
fn is_anothers(record: &Record, directory: &Path) -> bool {
    let running = directory.parent().and_then(|state| Instance::running(state, KIND).ok());
    let others = running.into_iter().flatten().filter(|one| one.path != directory);
    let records = others
        .flat_map(|one| [RECORD, RECORD_OF_DEAD].map(|name| one.path.join(name)))
        .filter_map(|path| read_record(&path));
    records.into_iter().any(|other| other.is_of_same_devices(record))
}

/// Sees to what a process has left that has ended: `said` is what it has told.
///
/// # Errors
/// When something could not be undone; everything else was.
pub(super) fn see_to(
    watched_record: &Path,
    mut said: Said,
    lifeline: Option<&Lifeline>,
    netlink: &Netlink,
) -> Result<Watched, RunError> {
    let Some(remains) = Remains::take(watched_record, &said) else {
        watched_record.parent().into_iter().for_each(|directory| drop(fs::remove_dir_all(directory)));
        return Ok(Watched::Well);
    };
    let Remains { directory, record, .. } = &remains;
    let is_abandoned = || lifeline.is_some_and(Lifeline::is_cut);
    if is_abandoned() {
        return remains.abandon(netlink);
    }
    let is_wanted = said.may_be_succeeded() && !said.ends && Need::of(&remains).is_some();
    let mut kept = said.kept.take();
    kept.iter_mut().for_each(|kept| kept.inventory.has_hung = said.has_hung);
    let table_owner = kept.as_ref().and_then(|kept| kept.table_owner.as_ref());
    let table = table_owner.and_then(|owner| record.owned_table(owner));
    let table = table.filter(|_| !is_anothers(record, directory));
    if !is_wanted {
        // Before the devices go: the table alone would keep addresses from being translated.
        drop(table.as_ref().map(notrack::close));
    }
    let mut anew = Vec::new();
    if let Some(kept) = kept.filter(|_| is_wanted) {
        // Whose successor fails starts anew, but not after too many deaths, and not if it was to end.
        let Inventory { deaths_ms, deaths_max, ends_within_ms, .. } = &kept.inventory;
        if ends_within_ms.is_none() && !is_last(deaths_ms, *deaths_max) {
            anew.clone_from(&kept.inventory.successor);
        }
        match start_successor(kept, &directory.join(RECORD_OF_DEAD)) {
            Ok(process) => {
                let text = format!("process {process} goes on with the flows of the one that died");
                log::warn(&text);
                remains.forget();
                return Ok(Watched::Well);
            }
            // The successor has found that nobody needs it.
            Err(_) if is_abandoned() => return remains.abandon(netlink),
            Err(why) => {
                let text = format!("nobody goes on with the flows of the process that died: {why}");
                log::warn(&text);
            }
        }
    }
    // Nobody goes on with what it keeps.
    drop(table.as_ref().map(notrack::close));
    Service::find().forget(directory);
    if record.is_inline {
        end_inline(&remains, netlink)?;
        if is_abandoned() {
            return remains.abandon(netlink);
        }
    } else {
        let undone = instances::undo_all(record, netlink, directory);
        drop(table.map(|table| table.delete()));
        undone?;
        settle(&remains, netlink);
        remains.forget();
    }
    let watched = if said.ends { Watched::Well } else { Watched::Died };
    Ok(if anew.is_empty() || is_abandoned() { watched } else { go_on_from_nothing(&anew, remains.state()) })
}

fn go_on_from_nothing(successor: &[String], state: &Path) -> Watched {
    // Standard output carries the lock of the one that died: what is left of it is the next start's from here on.
    drop(io::unlock(&std::io::stdout()));
    let (watched, text) = match start_anew(successor, state) {
        Ok(process) => (Watched::Well, format!("process {process} has started anew in its place")),
        Err(why) => (Watched::Died, format!("nobody has started anew in its place: {why}")),
    };
    log::warn(&text);
    watched
}

/// Reason why somebody must go on in the place of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Flows are owed data that nobody else has.
    Debt,
    /// Other boxes may ask for subscribers, or have them: their packets go there.
    Handovers,
    /// Without it no packet passes.
    CutWire,
}

impl Need {
    /// Need of a successor for the process that has left `remains`; none when packets can take the plain way.
    fn of(remains: &Remains) -> Option<Self> {
        if !remains.journals.read_owed().is_empty() {
            return Some(Self::Debt);
        }
        if remains.pending_handovers().are_awaited() {
            return Some(Self::Handovers);
        }
        (remains.record.is_inline && remains.record.bridge.is_none()).then_some(Self::CutWire)
    }
}

/// Makes a death of a hang, if somebody must go on in the process's place; true then. It must not wake up and
/// send anything once another one has its flows.
///
/// Nothing is taken away from it, and it need not have ended: once a process has got SIGKILL it executes nothing of
/// its own any more, also one that is frozen, or waits in the kernel. The system call in which it hangs takes or sends
/// one packet at most, which is a loss or a late packet to TCP.
pub(super) fn fence(kept: &InheritedResources, remains: &Remains, socket: &UnixStream) -> bool {
    let why = match Need::of(remains) {
        Some(Need::Debt) => "owes flows data",
        Some(Need::Handovers) => "has subscribers on their way between boxes",
        Some(Need::CutWire) => "the wire is cut without it",
        None => return false,
    };
    kept.beat();
    let text = format!("process {} hangs and {why}: it is killed", kept.inventory.process);
    log::warn(&text);
    // One that is not there any more has ended.
    drop(kill_and_wait(kept));
    drop(socket.shutdown(std::net::Shutdown::Both));
    true
}

/// Kills the process, and waits for its end for a moment.
fn kill_and_wait(kept: &InheritedResources) -> Result<(), IoError> {
    const SIGKILL: i32 = 9;
    let process = PidFd::open(kept.inventory.process)?;
    process.send_signal(SIGKILL)?;
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(&process, Interest::Read, 0)?;
    let began = Clock::now();
    let mut time = RunningTime::of(kept.inventory.process, began);
    while waiter.wait(Some(Clock::now() + BEAT_EVERY))?.is_empty() {
        kept.beat();
        let now = Clock::now();
        if time.passed(now) >= DEATH_TIME_MAX || now >= began + DEATH_WAIT_MAX {
            break;
        }
    }
    Ok(())
}

/// Starts a successor, and lets it go on with the flows; gives its number.
///
/// # Errors
/// Reason why it does not: then it is not there any more, and nothing is kept.
fn start_successor(mut kept: InheritedResources, record_path: &Path) -> Result<u32, String> {
    const EPIPE: i32 = 32;
    kept.beat();
    if !kept.inventory.note_death() {
        return Err(format!("that was death {} within a minute", kept.inventory.deaths_max));
    }
    let (own, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
    let recover = ["--recover".as_ref(), record_path.as_os_str()];
    let mut child = start(&kept.inventory.successor, &recover, Stdio::from(OwnedFd::from(theirs)))?;
    let answer = match kept.send(&own) {
        Ok(()) => await_successor(&own, &kept, child.id()),
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

/// Starts another process by the words of `successor`, and further ones.
fn start(successor: &[String], further: &[&OsStr], input: Stdio) -> Result<Child, String> {
    let (program, arguments) = successor.split_first().ok_or("no successor is configured")?;
    let output = std::io::stderr().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let mut command = command_of(program);
    Lifeline::pass_on(&mut command);
    // With its copy of the other end of `input`: that is closed then when the successor ends.
    let command = command.args(arguments).args(further).process_group(0).stdin(input);
    command.stdout(Stdio::from(output)).spawn().map_err(|error| format!("{program}: {error}"))
}

/// Waits until the successor, `process`, has the flows. Its time is that in which it has a processor.
fn await_successor(mut stream: &UnixStream, kept: &InheritedResources, process: u32) -> Result<(), String> {
    let mut waiter = Waiter::new(Duration::ZERO).map_err(|error| error.to_string())?;
    waiter.add(stream, Interest::Read, 0).map_err(|error| error.to_string())?;
    let within = Duration::from_millis(kept.inventory.within_ms);
    let began = Clock::now();
    let mut time = RunningTime::of(process, began);
    let mut word = [0];
    loop {
        kept.beat();
        let now = Clock::now();
        if time.passed(now) >= within || now >= began + within * STARVED_FACTOR {
            return Err(format!("its successor has taken longer than {} ms", kept.inventory.within_ms));
        }
        if waiter.wait(Some(now + BEAT_EVERY)).map_err(|error| error.to_string())?.is_empty() {
            continue;
        }
        return match stream.read(&mut word) {
            Ok(1) if word[0] == TAKEN => Ok(()),
            _ => Err(ENDED.to_owned()),
        };
    }
}

/// Starts the accelerator as from nothing, once all of the one that died is undone, and waits until it is ready.
///
/// # Errors
/// Reason why it is not: then it is not there any more.
fn start_anew(successor: &[String], state: &Path) -> Result<u32, String> {
    let mut child = start(successor, &[], Stdio::null())?;
    let began = Clock::now();
    let mut time = RunningTime::of(child.id(), began);
    let mut waiter = Waiter::new(Duration::ZERO).map_err(|error| error.to_string())?;
    loop {
        let all = instances::find(state).unwrap_or_default();
        // It answers when all is set up.
        let found = all.iter().find(|found| found.process == child.id());
        if found.is_some_and(|found| found.ask_within(&Question::Status, ANSWER_TIME).is_ok()) {
            return Ok(child.id());
        }
        let has_ended = !matches!(child.try_wait(), Ok(None));
        let now = Clock::now();
        if has_ended || time.passed(now) >= START_TIME_MAX || now >= began + START_WAIT_MAX {
            drop(child.kill());
            drop(child.wait());
            let why = if has_ended { "it has ended" } else { "it is not ready after all that time" };
            return Err(why.to_owned());
        }
        waiter.wait(Some(now + BEAT_EVERY)).map_err(|error| error.to_string())?;
    }
}

/// Ends the flows of a bridge that died. A kernel bridge that has taken over stays, and with it
/// what is written down, until the next start takes its place; one that has done so meanwhile has
/// left that bridge without ports.
fn end_inline(remains: &Remains, netlink: &Netlink) -> Result<(), IoError> {
    let Remains { directory, record, .. } = remains;
    settle(remains, netlink);
    remains.journals.discard();
    if record.is_bridging(netlink)? {
        return remains.keep();
    }
    instances::undo_all(record, netlink, directory)?;
    remains.forget();
    Ok(())
}

/// Ends the flows that the process owed something when it died; the packets of all take the plain
/// way already.
fn settle(remains: &Remains, netlink: &Netlink) {
    let mut owed = remains.journals.read_owed();
    // Another box may have them: the next start asks.
    let pending_handovers = remains.pending_handovers();
    owed.retain(|left| pending_handovers.of(left) != Ownership::Leave);
    if owed.is_empty() {
        return;
    }
    let count = owed.len();
    let text = format!("the accelerator died and owed {count} flows data: resetting their ends");
    log::warn(&text);
    match reset_orphans::reset_ends(
        &owed,
        reset_orphans::Passage::of_record(&remains.record),
        netlink,
        &Haste::until_abandoned(),
    ) {
        Ok(outcome) => log::warn(&outcome.to_string()),
        Err(error) => {
            let text = format!("cannot reset {count} flows that will stall: {error}");
            log::warn(&text);
        }
    }
}

/// Record of what is set up by this time; none when it is not written there.
fn read_record(path: &Path) -> Option<Record> {
    fs::read_to_string(path).ok().and_then(|text| Record::parse(&text))
}
