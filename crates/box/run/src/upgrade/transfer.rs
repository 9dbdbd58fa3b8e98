//! The flows of a running instance go over to the one that takes its place ([`crate::upgrade::predecessor`]).
//!
//! ```text
//!   old                                             new
//!    │◀────────────── Question::Share ────────────────│
//!    │── queues, links, maps, nft table, held data ──▶│  fits? no: it makes devices of its own (below)
//!  fetches memory for the state, then answers         │
//!    │                                                │  maps them, starts its watchdog
//!    │◀──────────── Question::Upgrade ───────────────│
//!  freeze: every shard stops after a turn             │
//!    │── a line of JSON, and the state of each shard ▶│  makes flows of it, notes them in its journal
//!    │                                                │  takes the old one's record: rename(2)
//!    │◀───────────────── COMMIT ──────────────────────│  the flows are its own, and so is all the rest
//!  ends, and undoes nothing                           │
//! ```
//!
//! Packets that come meanwhile wait in the queues of the devices, which are the same before and after.
//!
//! INVARIANT: flows, devices and steering have one owner at any time: the one in whose directory the record
//! is. Whoever finds it gone touches nothing. That holds for the old one, which looks before it goes on (once
//! the new one has ended, by itself or by force), and for the watchdog of an old one that has died, which takes
//! the record out of the way before anything else.
//!
//! Where the new one cannot go on with the old one's devices (another number of shards, other super-packets or
//! steering), its own stand behind those. What the old one has sent waits in them, and passes as it is. The
//! packets that come meanwhile wait in the old one's. Afterwards it hands them on like those of any flow that
//! it does not know. So they reach the new one in their order. The owner is then the old one until COMMIT is in
//! its socket: it gives the socket up before it goes on with its flows, so that a COMMIT which comes too late
//! fails, and the new one drops what it has made.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

use engine::{IMAGE_VERSION, IMAGE_VERSION_OLDEST};
use io::{Clock, Instance, Interest, IoError, PidFd, Waiter};
use serde::{Deserialize, Serialize};
use units::{Duration, Instant};

use crate::inherited_resources::{self, InheritedResources, Inventory};
use crate::processor::{FlowState, Processor};

/// Name of the socket in the new instance's directory.
const SOCKET: &str = "transfer";

/// The new one says that it has the flows.
const COMMIT: u8 = b'c';

/// Longest time that the packets may wait for it.
const FREEZE_MAX: Duration = Duration::from_secs(2);

/// While another process is awaited, signs of life are given this often.
const LOOK: Duration = Duration::from_millis(20);

/// Longest time that the new one waits for the old one's flows once it has said that they come.
const ARRIVAL_MAX: Duration = Duration::from_secs(5);

/// Longest line beside the descriptors.
const LINE_LEN_MAX: usize = 16 * 1024;

/// Offer of the new instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Path of the socket on which it waits.
    pub socket: PathBuf,
    /// Its shards: a subscriber is in the same one of as many.
    pub shards: usize,
    /// IPv6 prefix length that makes a subscriber, as above.
    pub ipv6_prefix_len: u8,
    /// The versions of state that it reads: oldest, newest.
    pub versions: [u16; 2],
    /// Memory that it may hold data in, bytes.
    pub memory: u64,
    /// It goes on with what was shared.
    #[serde(default)]
    pub adopts: bool,
    /// Its process.
    #[serde(default)]
    pub process: u32,
}

/// Message of the old one that goes with the descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Delivery {
    /// For each shard: whether a second descriptor, of its held data, follows the one of its state.
    has_memory: Vec<bool>,
}

/// State of the instance that has the flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub shards: usize,
    pub ipv6_prefix_len: u8,
    /// Bytes it holds.
    pub held: u64,
    pub is_ending: bool,
    /// It is not known whether this box or another one has a subscriber.
    pub is_undecided: bool,
    pub is_passed: bool,
    /// Tells whether the resources that lead packets here are as they were when they were shared.
    pub is_shared: bool,
}

impl Holder {
    /// Reason why the flows cannot go to the maker of `offer`, if there is one.
    pub fn objection(&self, offer: &Offer) -> Option<String> {
        let [oldest, newest] = offer.versions;
        if self.is_ending {
            return Some("it is ending already".to_owned());
        }
        if self.is_undecided {
            return Some("a subscriber is on its way to or from another box: try again".to_owned());
        }
        if self.is_passed {
            return Some("packets go past it at the moment: try again".to_owned());
        }
        if offer.adopts && !self.is_shared {
            return Some("what leads packets to it has changed meanwhile: try again".to_owned());
        }
        if self.shards != offer.shards {
            return Some(format!("it has {} shards, the new one {}", self.shards, offer.shards));
        }
        if self.shards > 1 && self.ipv6_prefix_len != offer.ipv6_prefix_len {
            let (own, other) = (self.ipv6_prefix_len, offer.ipv6_prefix_len);
            return Some(format!(
                "its subscribers are IPv6 prefixes of {own} bits, the new one's of {other}"
            ));
        }
        if !(oldest..=newest).contains(&IMAGE_VERSION) {
            return Some(format!(
                "it writes version {IMAGE_VERSION} of the state, the new one reads {oldest} to {newest}"
            ));
        }
        (self.held > offer.memory)
            .then(|| format!("it holds {} bytes, the new one may hold {}", self.held, offer.memory))
    }
}

/// Sends what leads packets here to who makes `offer`.
///
/// # Errors
/// When nobody is there.
pub(crate) fn share(
    offer: &Offer,
    inventory: &Inventory,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), String> {
    let stream = connect(&offer.socket)?;
    inherited_resources::send(&stream, &[], inventory, descriptors).map_err(|error| error.to_string())
}

fn connect(socket: &Path) -> Result<UnixStream, String> {
    UnixStream::connect(socket).map_err(|error| format!("{}: {error}", socket.display()))
}

/// Sends the flows to who makes `offer`, and waits until that one has them; `beat` is called meanwhile, to show
/// that this process is alive. `record` is what this process has written down.
///
/// # Errors
/// Reason why the other one has not taken them, in one line: they are still ours.
pub(crate) fn send(
    offer: &Offer,
    states: &[FlowState],
    record: &Path,
    mut beat: impl FnMut(),
) -> Result<(), String> {
    let text = |error: IoError| error.to_string();
    let descriptors: Vec<_> = states
        .iter()
        .flat_map(|shard| [Some(shard.state.as_fd()), shard.memory.as_ref().map(AsFd::as_fd)])
        .flatten()
        .collect();
    let delivery = Delivery { has_memory: states.iter().map(|shard| shard.memory.is_some()).collect() };
    let mut line = serde_json::to_vec(&delivery).map_err(|error| error.to_string())?;
    line.push(b'\n');
    let stream = connect(&offer.socket)?;
    io::send_with_descriptors(&stream, &line, &descriptors).map_err(text)?;
    drop(descriptors);
    let is_told = await_commit(&stream, &mut beat);
    let is_committed = if offer.adopts { has_gone(record, is_told, offer, beat) } else { is_told };
    is_committed.then_some(()).ok_or_else(|| "the new one has not taken them".to_owned())
}

/// True when who makes `offer` has taken our record. What it has not told it cannot do any more afterwards.
fn has_gone(record: &Path, is_told: bool, offer: &Offer, mut beat: impl FnMut()) -> bool {
    const SIGKILL: i32 = 9;
    if !is_told && let Ok(process) = PidFd::open(offer.process) {
        // It hangs, or has ended: then the signal does nothing.
        drop(process.send_signal(SIGKILL));
        let give_up = Clock::now() + FREEZE_MAX;
        while let Ok(mut waiter) = Waiter::new(Duration::ZERO)
            && waiter.add(&process, Interest::Read, 0).is_ok()
            && matches!(waiter.wait(Some(Clock::now() + LOOK)), Ok(ready) if ready.is_empty())
            && Clock::now() < give_up
        {
            beat();
        }
    }
    !record.exists()
}

/// True when the other one has committed itself; false when it cannot any more.
fn await_commit(mut stream: &UnixStream, beat: &mut impl FnMut()) -> bool {
    let give_up = Clock::now() + FREEZE_MAX;
    // Far shorter than the shortest time after which a process counts as hung.
    let may_wait = stream.set_read_timeout(Some(std::time::Duration::from_millis(20))).is_ok();
    let mut word = [0];
    while may_wait && Clock::now() < give_up {
        beat();
        match stream.read(&mut word) {
            Ok(len) => return len == 1 && word[0] == COMMIT,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => break,
        }
    }
    // From here on nothing can be said to us, whether or not the other end is there; what was said before can
    // still be read.
    drop(stream.shutdown(Shutdown::Both));
    matches!(stream.read(&mut word), Ok(1)) && word[0] == COMMIT
}

/// Receiver by which the new instance takes flows in.
#[derive(Debug)]
pub(crate) struct StateReceiver {
    listener: UnixListener,
    path: PathBuf,
}

impl StateReceiver {
    /// Opens it in the instance's directory.
    ///
    /// # Errors
    /// When the socket cannot be made there.
    pub fn open(directory: &Path) -> Result<Self, IoError> {
        let path = directory.join(SOCKET);
        let failed = |error| IoError::system(format!("open the socket {}", path.display()), error);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener, path })
    }

    /// Offer of the new instance.
    pub fn offer(&self, shards: usize, ipv6_prefix_len: u8, memory: u64, adopts: bool) -> Offer {
        let versions = [IMAGE_VERSION_OLDEST, IMAGE_VERSION];
        let process = std::process::id();
        Offer { socket: self.path.clone(), shards, ipv6_prefix_len, versions, memory, adopts, process }
    }

    /// Takes in what leads packets to the other one ([`share`]).
    ///
    /// # Errors
    /// When it does not come whole.
    pub fn take_kept(&self) -> Result<InheritedResources, IoError> {
        InheritedResources::receive(&self.accept()?)
    }

    /// Takes the flows in, for each processor those of its shard: they are the other one's still.
    ///
    /// `hand_on` is called once the other one has stopped: what it has sent waits in the devices of this one,
    /// and must not meet the flows that have sent it.
    ///
    /// # Errors
    /// Reason of the failure, in one line: the processors have none then.
    pub fn take_in<P: Processor + Send>(
        self,
        processors: &mut [&mut P],
        hand_on: impl FnOnce(),
    ) -> Result<Arrived, String> {
        let text = |error: IoError| error.to_string();
        let stream = self.accept().map_err(text)?;
        let mut arrived = receive(&stream).map_err(text)?;
        hand_on();
        if arrived.len() != processors.len() {
            return Err(format!("flows of {} shards came for {}", arrived.len(), processors.len()));
        }
        let pairs = processors.iter_mut().zip(arrived.drain(..));
        let resumed = for_each_shard(pairs, |(processor, flows)| processor.resume(flows, Clock::now()));
        if let Err(why) = resumed {
            processors.iter_mut().for_each(|processor| processor.disown());
            return Err(why);
        }
        Ok(Arrived { stream })
    }

    fn accept(&self) -> Result<UnixStream, IoError> {
        let failed = |error| IoError::system("take in flows", error);
        let mut waiter = Waiter::new(Duration::ZERO)?;
        waiter.add(&self.listener, Interest::Read, 0)?;
        let give_up: Instant = Clock::now() + ARRIVAL_MAX;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).map_err(failed)?;
                    stream.set_read_timeout(Some(std::time::Duration::from_secs(1))).map_err(failed)?;
                    return Ok(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock && Clock::now() < give_up => {
                    waiter.wait(Some(give_up))?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// Flows that have arrived, and are the other one's still.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// To that one.
    stream: UnixStream,
}

impl Arrived {
    /// Says that they are ours, and they are.
    ///
    /// # Errors
    /// When the other one does not wait any more: then they are not, and the processors have none.
    pub fn commit<P: Processor>(mut self, processors: &mut [&mut P]) -> Result<(), String> {
        // Once this is written, they are ours.
        if self.stream.write_all(&[COMMIT]).is_err() {
            processors.iter_mut().for_each(|processor| processor.disown());
            return Err("it did not wait so long".to_owned());
        }
        processors.iter_mut().for_each(|processor| processor.own());
        Ok(())
    }

    /// Takes `record` for `instance`, and with it the flows and all that leads to them; then says so.
    /// `has_journal`: the processors go on with the journal of the other one, to which nothing is written before
    /// it is theirs.
    ///
    /// # Errors
    /// When the other one has changed its mind: then they are not ours, and the processors have none.
    pub fn commit_by_record<P: Processor + Send>(
        mut self,
        processors: &mut [&mut P],
        record: &Path,
        instance: &Instance,
        has_journal: bool,
    ) -> Result<(), String> {
        let own = |processors: &mut [&mut P]| {
            for_each_shard(processors.iter_mut(), |processor| {
                processor.own();
                Ok(())
            })
        };
        // They are in our journal first: at any time somebody knows of them.
        if !has_journal {
            own(processors)?;
        }
        if let Err(error) = instance.take_record(record) {
            let refuse = if has_journal { P::disown } else { P::abandon };
            processors.iter_mut().for_each(|processor| refuse(processor));
            return Err(format!("it did not wait so long: {error}"));
        }
        if has_journal {
            own(processors)?;
        }
        // The other one looks for itself where it does not hear it.
        drop(self.stream.write_all(&[COMMIT]));
        Ok(())
    }
}

impl Drop for StateReceiver {
    fn drop(&mut self) {
        // It goes with the directory otherwise.
        drop(std::fs::remove_file(&self.path));
    }
}

/// Does `what` with each of `all` at the same time, the first of them in this thread.
///
/// # Errors
/// Of the first one that fails.
fn for_each_shard<T: Send>(
    mut all: impl Iterator<Item = T>,
    what: impl Fn(T) -> Result<(), String> + Sync,
) -> Result<(), String> {
    thread::scope(|scope| {
        let (first, what) = (all.next(), &what);
        let others: Vec<_> = all.map(|one| scope.spawn(move || what(one))).collect();
        let done = first.map_or(Ok(()), what);
        others.into_iter().fold(done, |done, other| {
            let other = other.join().unwrap_or_else(|_| Err("a shard has panicked".to_owned()));
            done.and(other)
        })
    })
}

/// The states of all shards, in their order.
fn receive(stream: &UnixStream) -> Result<Vec<FlowState>, IoError> {
    let senseless =
        |why: &str| IoError::system("take in flows", std::io::Error::new(ErrorKind::InvalidData, why));
    let mut line = vec![0; LINE_LEN_MAX];
    let (mut len, mut descriptors) = io::receive_with_descriptors(stream, &mut line)?;
    while len > 0 && len < line.len() && line[len - 1] != b'\n' {
        let (more, further) = io::receive_with_descriptors(stream, &mut line[len..])?;
        descriptors.extend(further);
        if more == 0 {
            break;
        }
        len += more;
    }
    let delivery: Delivery =
        serde_json::from_slice(&line[..len]).map_err(|error| senseless(&error.to_string()))?;
    let mut descriptors = descriptors.into_iter();
    let mut next = || descriptors.next().ok_or_else(|| senseless("too few descriptors came"));
    let states = delivery.has_memory.iter().map(|&has_memory| {
        let state = next()?;
        let memory = if has_memory { Some(next()?) } else { None };
        Ok(FlowState { state, memory })
    });
    states.collect()
}

#[cfg(test)]
mod tests;
