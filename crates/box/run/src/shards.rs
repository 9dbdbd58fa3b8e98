//! [`Shards`]: packet loops beside the first one, each with a thread, a queue of either device and
//! a processor of its own, for some of the subscribers.
//!
//! ```text
//!              ┌ shard 0: the supervisor's own thread, which also does all that is done once
//!   subscriber ┼ shard 1 ◀── Command ── supervisor
//!              └ shard 2 ──── Beacon ─▶
//! ```
//!
//! No shard waits for another one, and none shares anything that a packet needs.

mod queue_choice;
mod worker;

use std::io::{Read, Write};
use std::net::IpAddr;
use std::num::NonZero;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration as StdDuration;

use control::Feedback;
use engine::{ControlGroup, Journal, Port};
use io::{Clock, IoError, Waiter};
use units::{Duration, Instant};

pub(crate) use queue_choice::{install, is_possible, shard_of};

use crate::ab::SharedTally;
use crate::handover::{Hand, Job};
use crate::packet_loop::PacketLoop;
use crate::packet_path::PacketPath;
use crate::snapshot::ShardMeters;
use crate::status::Report;
use crate::steering::bypass::Bypass;
use crate::{Counters, FlowList, FlowState, Processor, SubscriberList, SubscriberView};
use worker::Worker;

/// Longest time that a shard may take to answer.
const PATIENCE: StdDuration = StdDuration::from_secs(2);

/// Longest time that all together may take to end once they are told to.
const END_TIME_MAX: Duration = Duration::from_secs(2);

/// Interval of the checks whether they have.
const END_LOOK: Duration = Duration::from_millis(1);

/// More shards than this are made on request only.
const SHARDS_MAX: usize = 8;

/// As many as suit this machine: one per processor. Threads that never sleep leave one to the
/// kernel, which would otherwise starve: on two processors two of them do.
pub(crate) fn suitable(busy_poll: bool) -> usize {
    suits(thread::available_parallelism().map_or(1, NonZero::get), busy_poll)
}

fn suits(processors: usize, busy_poll: bool) -> usize {
    processors.saturating_sub(usize::from(busy_poll)).clamp(1, SHARDS_MAX)
}

/// Command of the supervisor to a shard.
#[derive(Debug)]
pub(crate) enum Command<S> {
    /// Say what was counted.
    Report { answer: mpsc::Sender<Report> },
    /// Give what is shown as metrics.
    Meter { answer: mpsc::Sender<ShardMeters> },
    /// Begin an A/B phase with that control group, or end it.
    SetControlGroup(Option<ControlGroup>),
    /// Give what was measured in it.
    Measured { answer: mpsc::Sender<SharedTally> },
    /// List flows; the answer comes with the number of all there are.
    Flows { skip: usize, count: usize, answer: mpsc::Sender<(FlowList, usize)> },
    /// List subscribers from a place on.
    Subscribers { from: u64, answer: mpsc::Sender<SubscriberList> },
    /// Show a subscriber, with flows from a place on.
    Subscriber { client: IpAddr, from: u64, answer: mpsc::Sender<SubscriberView> },
    /// A base station's report about one of its subscribers.
    Feedback { client: IpAddr, feedback: Feedback },
    /// Sets the longest packets to a side from here on.
    SetMtu { to: Port, mtu: u32 },
    /// Put settings in force that shard 0 has accepted.
    Apply(S),
    /// Go on with other journals, for the downlink and the uplink; say so then.
    ChangeJournals { journals: [Box<dyn Journal>; 2], answer: mpsc::Sender<()> },
    /// Packets may have gone past for a while.
    Resynchronise,
    /// The state of all flows will be asked for soon; the sender goes when the shard is ready for it.
    PrepareToStore(mpsc::Sender<()>),
    /// Give the state of all flows, and do nothing until it is said whether they are another process's now.
    Freeze { answer: mpsc::Sender<Result<FlowState, String>>, are_gone: mpsc::Receiver<FreezeEnd> },
    /// Move a subscriber's flows, or take in a packet of another box.
    Work(Job),
    /// Take nothing new over and deliver what is owed.
    Drain,
    /// Nothing is steered here any more: pass on what is left, and end.
    Finish,
}

impl<S> Command<S> {
    /// It wants to know something, and changes nothing.
    pub const fn is_question(&self) -> bool {
        matches!(
            self,
            Self::Report { .. }
                | Self::Meter { .. }
                | Self::Measured { .. }
                | Self::Flows { .. }
                | Self::Subscribers { .. }
                | Self::Subscriber { .. }
        )
    }
}

/// End of a freeze of the shards for an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreezeEnd {
    /// They go on with their flows.
    Stay,
    /// Their flows are another process's, and they hand packets on.
    Gone,
    /// Their queues too: they end without another turn.
    Succeeded,
}

/// State that a shard shows without being asked.
#[derive(Debug, Default)]
pub(crate) struct Beacon {
    /// Counts up with each heartbeat.
    beats: AtomicU64,
    is_drained: AtomicBool,
    /// A command waits.
    is_told: AtomicBool,
    feedback_accepted: AtomicU64,
    feedback_unknown: AtomicU64,
    refusals: AtomicU64,
}

/// Settings that all shards need to know.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// Interval at which a shard shows that it is alive.
    pub heartbeat: Duration,
    /// Silence of a shard after which packets may go past all of them.
    pub hang_after: Duration,
    /// Bypass of packets while all shards are silent, where that can be seen.
    pub bypass: Option<Arc<Bypass>>,
    pub spin_margin: Duration,
}

/// The supervisor's end of a shard.
#[derive(Debug)]
struct Shard<P: Processor> {
    commands: mpsc::Sender<Command<P::Settings>>,
    wake: Arc<UnixStream>,
    beacon: Arc<Beacon>,
    /// Heartbeats when they were looked at last.
    beats_seen: u64,
    thread: JoinHandle<Outcome<P>>,
}

/// Channel on which the state of a shard comes, or why it has none to give.
type Stored = mpsc::Receiver<Result<FlowState, String>>;

/// Shards that were told to stop. Dropped, they go on with their flows.
#[derive(Debug)]
pub(crate) struct Freezing {
    /// Of each, in their order: what it knows, and its end.
    asked: Vec<(Stored, mpsc::Sender<FreezeEnd>)>,
}

impl Freezing {
    /// Waits until all have stopped and said what they know.
    ///
    /// # Errors
    /// Reason why one has no state to give, or does not stop; all go on then.
    pub fn frozen(self) -> Result<Frozen, String> {
        let mut frozen = Frozen { states: Vec::new(), thaws: Vec::new() };
        for (answered, thaw) in self.asked {
            let state = answered.recv_timeout(PATIENCE).map_err(|_| "a shard does not answer".to_owned())?;
            frozen.states.push(state?);
            frozen.thaws.push(thaw);
        }
        Ok(frozen)
    }
}

/// Shards that do nothing. Dropped, they go on with their flows.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// Of each, in their order.
    pub states: Vec<FlowState>,
    thaws: Vec<mpsc::Sender<FreezeEnd>>,
}

impl Frozen {
    /// They go on, or end.
    pub fn thaw(self, end: FreezeEnd) {
        // One that has ended hears nothing.
        self.thaws.iter().for_each(|thaw| _ = thaw.send(end));
    }
}

/// Outcome of a shard.
#[derive(Debug)]
struct Outcome<P> {
    processor: P,
    counters: Counters,
    result: Result<(), IoError>,
}

/// All shards but the first.
#[derive(Debug)]
pub(crate) struct Shards<P: Processor> {
    all: Vec<Shard<P>>,
    ipv6_prefix_len: u8,
    /// Readable when a shard has news; the shards write to the other end.
    news: UnixStream,
    newsboy: UnixStream,
}

impl<P: Processor + Send + 'static> Shards<P> {
    /// No shards yet.
    pub fn new(ipv6_prefix_len: u8) -> Result<Self, IoError> {
        let (news, newsboy) = wake_pair()?;
        Ok(Self { all: Vec::new(), ipv6_prefix_len, news, newsboy })
    }

    /// Starts one more.
    pub fn start(
        &mut self,
        packet_loop: PacketLoop<impl PacketPath + 'static>,
        processor: P,
        terms: Terms,
    ) -> Result<(), IoError> {
        let number = self.all.len() + 1;
        let failed = |error| IoError::system(format!("start shard {number}"), error);
        let (wake, woken) = wake_pair()?;
        let (commands, inbox) = mpsc::channel();
        let beacon = Arc::new(Beacon::default());
        let news = self.newsboy.try_clone().map_err(failed)?;
        let worker =
            Worker::new(packet_loop, processor, worker::Ends { inbox, woken, news }, Arc::clone(&beacon));
        let thread = thread::Builder::new()
            .name(format!("shard-{number}"))
            .spawn(move || worker.run(&terms))
            .map_err(failed)?;
        self.all.push(Shard { commands, wake: Arc::new(wake), beacon, beats_seen: 0, thread });
        Ok(())
    }

    /// Watch this for news: a shard is drained, or has ended.
    pub fn news(&self) -> &UnixStream {
        &self.news
    }

    /// Takes the news out, which are seen by asking.
    pub fn hear(&mut self) {
        let mut sink = [0; 16];
        while matches!(self.news.read(&mut sink), Ok(len) if len > 0) {}
    }

    /// True when each has shown a sign of life since this was asked last.
    pub fn are_alive(&mut self) -> bool {
        let mut are_alive = true;
        for shard in &mut self.all {
            let beats = shard.beacon.beats.load(Ordering::Relaxed);
            are_alive &= beats != shard.beats_seen;
            shard.beats_seen = beats;
        }
        are_alive
    }

    /// True when one has ended, which none does unless told to.
    pub fn has_failed(&self) -> bool {
        self.all.iter().any(|shard| shard.thread.is_finished())
    }

    /// True when none owes anything any more.
    pub fn are_drained(&self) -> bool {
        self.all.iter().all(|shard| shard.beacon.is_drained.load(Ordering::Acquire))
    }

    /// Tells all of them the same.
    pub fn tell_all(&self, command: impl Fn() -> Command<P::Settings>) {
        self.all.iter().for_each(|shard| shard.address().tell(command()));
    }

    /// Tells each of them a command with one of `things`; gives where the answers come.
    pub fn tell_each<T>(
        &self,
        things: impl Iterator<Item = T>,
        command: impl Fn(T, mpsc::Sender<()>) -> Command<P::Settings>,
    ) -> Vec<mpsc::Receiver<()>> {
        let tell = |(shard, thing): (&Shard<P>, T)| {
            let (answer, answered) = mpsc::channel();
            shard.address().tell(command(thing, answer));
            answered
        };
        self.all.iter().zip(things).map(tell).collect()
    }

    /// Number of shards, with shard 0.
    pub fn count(&self) -> usize {
        self.all.len() + 1
    }

    /// The shard that `client` is in.
    pub fn number_of(&self, client: IpAddr) -> usize {
        shard_of(client, self.ipv6_prefix_len, self.count())
    }

    /// Gives a report about `client` to the shard it is in; false when that is shard 0.
    pub fn hand_on(&self, client: IpAddr, feedback: &Feedback) -> bool {
        let shard = self.number_of(client).checked_sub(1).and_then(|index| self.all.get(index));
        let Some(shard) = shard else { return false };
        shard.address().tell(Command::Feedback { client, feedback: *feedback });
        true
    }

    /// Stops all of them after a turn, until [`Frozen::thaw`].
    pub fn freeze(&self) -> Freezing {
        let asked = self
            .all
            .iter()
            .map(|shard| {
                let ((answer, answered), (thaw, are_gone)) = (mpsc::channel(), mpsc::channel());
                shard.address().tell(Command::Freeze { answer, are_gone });
                (answered, thaw)
            })
            .collect();
        Freezing { asked }
    }

    /// Reports about subscribers of these shards: those that were taken in, and those about nobody.
    pub fn feedback(&self) -> (u64, u64) {
        let sum = |number: fn(&Beacon) -> &AtomicU64| {
            self.all.iter().map(|shard| number(&shard.beacon).load(Ordering::Relaxed)).sum()
        };
        (sum(|beacon| &beacon.feedback_accepted), sum(|beacon| &beacon.feedback_unknown))
    }

    /// Number of refusals by their processors because a table or memory was full.
    pub fn refusals(&self) -> u64 {
        self.all.iter().map(|shard| shard.beacon.refusals.load(Ordering::Relaxed)).sum()
    }

    /// Ways to give the shards work, each its own.
    pub fn hands(&self) -> Vec<Hand>
    where
        P::Settings: 'static,
    {
        let hand = |shard: &Shard<P>| -> Hand {
            let address = shard.address();
            Box::new(move |job| address.tell(Command::Work(job)))
        };
        self.all.iter().map(hand).collect()
    }

    /// Handle by which any thread may ask the shards.
    pub fn asker(&self) -> Asker<P::Settings> {
        Asker { all: self.all.iter().map(Shard::address).collect() }
    }

    /// Has all of them end; gives their processors and what passed through them.
    ///
    /// # Errors
    /// Reason why the first one ended that was not told to.
    pub fn finish(mut self) -> (Vec<P>, Counters, Result<(), IoError>) {
        self.tell_all(|| Command::Finish);
        let (mut processors, mut counters, mut result) = (Vec::new(), Counters::default(), Ok(()));
        let give_up = Clock::now() + END_TIME_MAX;
        for shard in std::mem::take(&mut self.all) {
            if !shard.has_ended_by(give_up) {
                // It goes with the process; what it owed is in its journal.
                let why = std::io::Error::other("it hangs");
                result = result.and(Err(IoError::system("end a shard", why)));
                continue;
            }
            match shard.thread.join() {
                Ok(outcome) => {
                    processors.push(outcome.processor);
                    counters.add(&outcome.counters);
                    result = result.and(outcome.result);
                }
                Err(_) => {
                    let why = std::io::Error::other("it has panicked");
                    result = result.and(Err(IoError::system("run a shard", why)));
                }
            }
        }
        (processors, counters, result)
    }
}

impl<P: Processor> Drop for Shards<P> {
    fn drop(&mut self) {
        // Those that are left after a start that failed: nobody waits for them.
        self.all.iter().for_each(|shard| shard.address().tell(Command::Finish));
    }
}

/// Channel for commands to a shard.
#[derive(Clone, Debug)]
struct Address<S> {
    commands: mpsc::Sender<Command<S>>,
    wake: Arc<UnixStream>,
    beacon: Arc<Beacon>,
}

impl<P: Processor> Shard<P> {
    /// Waits for its end; false when it has not come by then.
    fn has_ended_by(&self, give_up: Instant) -> bool {
        let Ok(mut waiter) = Waiter::new(Duration::ZERO) else { return self.thread.is_finished() };
        while !self.thread.is_finished() && Clock::now() < give_up {
            // Without waiting it is looked at more often.
            drop(waiter.wait(Some(Clock::now() + END_LOOK)));
        }
        self.thread.is_finished()
    }

    fn address(&self) -> Address<P::Settings> {
        let (commands, wake) = (self.commands.clone(), Arc::clone(&self.wake));
        Address { commands, wake, beacon: Arc::clone(&self.beacon) }
    }
}

impl<S> Address<S> {
    /// One that has ended hears nothing; the supervisor notices that by itself.
    fn tell(&self, command: Command<S>) {
        drop(self.commands.send(command));
        self.beacon.is_told.store(true, Ordering::Release);
        // A full pipe wakes as well.
        drop((&*self.wake).write(&[0]));
    }
}

/// Asks the shards, from a thread that may wait for them.
#[derive(Debug)]
pub(crate) struct Asker<S> {
    all: Vec<Address<S>>,
}

impl<S> Asker<S> {
    /// Counts of each shard; nothing for one that does not answer.
    pub fn reports(&self) -> Vec<Report> {
        self.ask(|answer| Command::Report { answer })
    }

    /// Metrics of each shard; nothing for one that does not answer.
    pub fn meters(&self) -> Vec<ShardMeters> {
        self.ask(|answer| Command::Meter { answer })
    }

    /// Subscribers of a shard from a place on; none if it does not answer, or is none of these.
    pub fn subscribers(&self, shard: usize, from: u64) -> SubscriberList {
        self.ask_one(shard, |answer| Command::Subscribers { from, answer })
    }

    /// A subscriber of a shard, with flows from a place on; as if it were unknown if the shard does not answer.
    pub fn subscriber(&self, shard: usize, client: IpAddr, from: u64) -> SubscriberView {
        self.ask_one(shard, |answer| Command::Subscriber { client, from, answer })
    }

    /// Asks the shard of a number, which shard 0 is not among.
    fn ask_one<T: Default>(&self, shard: usize, question: impl FnOnce(mpsc::Sender<T>) -> Command<S>) -> T {
        let Some(shard) = shard.checked_sub(1).and_then(|index| self.all.get(index)) else {
            return T::default();
        };
        let (answer, answered) = mpsc::channel();
        shard.tell(question(answer));
        answered.recv_timeout(PATIENCE).unwrap_or_default()
    }

    /// Measurements of each shard in an A/B phase; nothing of one that does not answer.
    pub fn measured(&self) -> Vec<SharedTally> {
        self.ask(|answer| Command::Measured { answer })
    }

    /// Asks all of them at once.
    fn ask<T: Default>(&self, question: impl Fn(mpsc::Sender<T>) -> Command<S>) -> Vec<T> {
        let asked: Vec<_> = self
            .all
            .iter()
            .map(|shard| {
                let (answer, answered) = mpsc::channel();
                shard.tell(question(answer));
                answered
            })
            .collect();
        asked.iter().map(|answered| answered.recv_timeout(PATIENCE).unwrap_or_default()).collect()
    }

    /// Their flows from the `skip`th on behind those in `list`, which has room for `count_max`.
    pub fn flows(&self, mut list: FlowList, mut skip: usize, count_max: usize) -> FlowList {
        let is_first_part = skip == 0;
        for shard in &self.all {
            let count = count_max.saturating_sub(list.flows.len());
            if count == 0 && !is_first_part {
                break;
            }
            let (answer, answered) = mpsc::channel();
            shard.tell(Command::Flows { skip, count, answer });
            let (part, total) = answered.recv_timeout(PATIENCE).unwrap_or_default();
            skip = skip.saturating_sub(total);
            list.flows.extend(part.flows);
            if is_first_part {
                list.passed.extend(part.passed);
            }
        }
        list
    }
}

/// Two ends of a pipe for waking, neither of which ever waits.
fn wake_pair() -> Result<(UnixStream, UnixStream), IoError> {
    let failed = |error| IoError::system("make a pair of sockets", error);
    let (a, b) = UnixStream::pair().map_err(failed)?;
    a.set_nonblocking(true).map_err(failed)?;
    b.set_nonblocking(true).map_err(failed)?;
    Ok((a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_per_processor_and_no_more_than_eight() {
        assert_eq!([1, 2, 8, 64].map(|processors| suits(processors, false)), [1, 2, 8, 8]);
        assert_eq!([1, 2, 64].map(|processors| suits(processors, true)), [1, 1, 8]);
    }
}
