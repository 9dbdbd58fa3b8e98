//! [`EventBroadcaster`]: tells those who listen at the control socket what happens, and keeps nobody else waiting.
//!
//! ```text
//!   supervisor ── Event ──┐                                 ┌─ bounded queue ─ thread ─▶ a listener
//!   packet loop ─ Notice ─┴─ bounded queue ─ broadcaster, a line ┴─ bounded queue ─ thread ─▶ another one
//! ```
//!
//! Whoever has no room is passed over, and what it lost is counted and told to it. Packet loops note nothing while
//! nobody listens ([`engine::Wants`]).

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use engine::{EndedFlow, FlowName, Notice, Wants};
use io::{Clock, IoError};
use serde::{Deserialize, Serialize};
use units::Instant;

use crate::{Event, EventSink, Processor};

/// Most items that may wait to be told, of all packet loops together.
const ITEMS_MAX: usize = 2_048;

/// Lines that may wait for one listener.
const LINES_MAX: usize = 1_024;

/// Most listeners at a time.
const LISTENERS_MAX: usize = 8;

/// Interval of the checks whether a listener to whom nothing is said is still there.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Time in which listeners may take in what is left when all ends.
const PARTING: Duration = Duration::from_millis(100);

/// Time after a death within which new listeners are told of it: as long as others look for the successor.
const DEATH_IS_RECENT: units::Duration = units::Duration::from_secs(10);

const EVENTS: u8 = 1;
const ENDED: u8 = 2;

/// Kinds of events that a listener wants to hear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wishes {
    /// Events of the instance.
    pub events: bool,
    /// Events of its flows and subscribers.
    pub flows: bool,
    /// A record of each flow that has ended.
    pub ended: bool,
}

/// Subject of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Topic {
    Instance,
    Flows,
    Ended,
}

impl Wishes {
    const fn include(&self, topic: Topic) -> bool {
        match topic {
            Topic::Instance => self.events,
            Topic::Flows => self.flows,
            Topic::Ended => self.ended,
        }
    }
}

/// A line of the stream: `schemas/event.schema.json`. Those of the instance itself are [`crate::EventWithText`]s.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum FlowEvent {
    /// A flow is accelerated, or its window lowered (drwa), from here on.
    FlowAccelerated(FlowOf),
    /// A flow is not.
    FlowPassed {
        /// Flow in question.
        #[serde(flatten)]
        flow: FlowOf,
        /// Reason, as in the counters.
        reason: String,
    },
    /// A retransmission time-out was found needless and taken back.
    TimeoutUndone(FlowOf),
    /// A subscriber has acknowledged nothing over two time-outs.
    OutageBegan {
        /// Its address, or the first one of its prefix.
        subscriber: IpAddr,
        /// Time since the first time-out, ms.
        since_ms: u64,
    },
    /// It acknowledges again.
    OutageEnded {
        /// Its address, or the first one of its prefix.
        subscriber: IpAddr,
        /// Time since the first time-out, ms.
        lasted_ms: u64,
    },
    /// A flow that was accelerated has ended, in one direction.
    FlowEnded(FlowRecord),
    /// Lines are missing from this stream, because its listener was too slow.
    Lost {
        /// Lines that are not in the stream.
        lines: u64,
    },
}

/// A flow, as it is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowOf {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server's address and port.
    pub server: SocketAddr,
    /// The direction that is accelerated.
    pub direction: EventDirection,
}

/// A direction of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EventDirection {
    /// To the client.
    Downlink,
    /// From the client.
    Uplink,
}

/// A flow that has ended, in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowRecord {
    /// Flow in question.
    #[serde(flatten)]
    pub flow: FlowOf,
    /// The other direction was accelerated, too, and has a record of its own with the same packets.
    pub is_both: bool,
    /// Reason of its end, as in the counters of the status; none when its ports were opened anew.
    pub reason: Option<String>,
    /// Time of its first packet, ms since 1970; none when that was before anybody listened for records.
    pub began_ms: Option<u64>,
    /// Arrival time of its last packet, ms since 1970.
    pub ended_ms: u64,
    /// Packets from the client, without its SYN; a super-packet is one.
    pub client_packets: u64,
    /// Bytes of those, IP headers included.
    pub client_bytes: u64,
    /// Packets from the server.
    pub server_packets: u64,
    /// Bytes of those.
    pub server_bytes: u64,
    /// Payload taken from the sending host, bytes.
    pub taken_bytes: u64,
    /// Payload acknowledged by the receiving host, bytes.
    pub delivered_bytes: u64,
    /// Payload sent to it more than once, bytes.
    pub retransmitted_bytes: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Smallest round trip to the receiving host, µs.
    pub rtt_min_us: Option<u64>,
    /// Smoothed round trip to it, last, µs.
    pub srtt_us: Option<u64>,
}

impl From<FlowName> for FlowOf {
    fn from(FlowName { client, server, direction }: FlowName) -> Self {
        let direction = match direction {
            engine::Direction::Downlink => EventDirection::Downlink,
            engine::Direction::Uplink => EventDirection::Uplink,
        };
        Self { client, server, direction }
    }
}

/// ms since 1970 of a reading of the monotonic clock.
pub(crate) fn wall_ms(at: Instant) -> u64 {
    let age = Clock::now().saturating_since(at).as_millis();
    (Clock::wall_nanos() / 1_000_000).saturating_sub(age)
}

impl From<EndedFlow> for FlowRecord {
    fn from(ended: EndedFlow) -> Self {
        let [client, server] = ended.sides;
        Self {
            flow: ended.flow.into(),
            is_both: ended.is_both,
            reason: ended.reason.map(|reason| reason.name().to_owned()),
            began_ms: ended.began.map(wall_ms),
            ended_ms: wall_ms(ended.ended),
            client_packets: client.packets,
            client_bytes: client.bytes,
            server_packets: server.packets,
            server_bytes: server.bytes,
            taken_bytes: ended.taken_bytes,
            delivered_bytes: ended.delivered_bytes,
            retransmitted_bytes: ended.retransmitted_bytes,
            timeouts: ended.timeouts,
            rtt_min_us: ended.rtt_min.map(|rtt| rtt.as_micros()),
            srtt_us: ended.srtt.map(|rtt| rtt.as_micros()),
        }
    }
}

impl From<Notice> for FlowEvent {
    fn from(notice: Notice) -> Self {
        match notice {
            Notice::Accelerated(flow) => Self::FlowAccelerated(flow.into()),
            Notice::Passed(flow, reason) => {
                Self::FlowPassed { flow: flow.into(), reason: reason.name().to_owned() }
            }
            Notice::TimeoutUndone(flow) => Self::TimeoutUndone(flow.into()),
            Notice::OutageBegan { subscriber, since } => {
                Self::OutageBegan { subscriber, since_ms: Clock::now().saturating_since(since).as_millis() }
            }
            Notice::OutageEnded { subscriber, lasted } => {
                Self::OutageEnded { subscriber, lasted_ms: lasted.as_millis() }
            }
            Notice::Ended(ended) => Self::FlowEnded(ended.into()),
        }
    }
}

/// Item that waits to be told.
enum Item {
    /// Of the instance, as a line.
    Event(String),
    Notice(Notice),
    /// Nothing comes any more.
    End,
}

/// Somebody who listens.
#[derive(Debug)]
struct Listener {
    wishes: Wishes,
    lines: SyncSender<Arc<str>>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Shared {
    /// Kinds of events that packet loops are to note.
    wants: AtomicU8,
    items: SyncSender<Item>,
    /// Notices that had no room.
    lost: AtomicU64,
    listeners: Mutex<Vec<Listener>>,
    /// Threads that bring lines to listeners have a copy each.
    bringing: Arc<()>,
    /// That this process goes on for one that has died, and when it was told: nobody could listen yet.
    death: Mutex<Option<(Instant, Arc<str>)>>,
}

/// Sender of events to the broadcasting thread, which ends with the last copy of it.
#[derive(Clone, Debug)]
pub(crate) struct EventBroadcaster(Arc<Shared>);

impl EventBroadcaster {
    /// One to whom nobody listens yet.
    pub fn start() -> Result<Self, IoError> {
        let (items, take) = mpsc::sync_channel(ITEMS_MAX);
        let (wants, lost, listeners) = (AtomicU8::new(0), AtomicU64::new(0), Mutex::default());
        let (bringing, death) = (Arc::default(), Mutex::default());
        let shared = Arc::new(Shared { wants, items, lost, listeners, bringing, death });
        let weak = Arc::downgrade(&shared);
        let tell = move || {
            while let Ok(item) = take.recv() {
                let Some(shared) = weak.upgrade() else { return };
                shared.tell(item);
            }
        };
        let failed = |error| IoError::system("start the thread that tells what happens", error);
        thread::Builder::new().name("broadcaster".to_owned()).spawn(tell).map_err(failed)?;
        Ok(Self(shared))
    }

    /// True when another one may listen.
    pub fn has_room(&self) -> bool {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner).len() < LISTENERS_MAX
    }

    /// Has those who listen hear what was told, for a moment, and nothing after that.
    pub fn part(&self) {
        self.0.hand_in(Item::End);
        let give_up = Clock::now() + units::Duration::from_millis(PARTING.as_millis() as u64);
        while !self.has_told_all() && Clock::now() < give_up {
            thread::park_timeout(Duration::from_millis(1));
        }
    }

    fn has_told_all(&self) -> bool {
        let listeners = self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.is_empty() && Arc::strong_count(&self.0.bringing) == 1
    }

    /// Tells somebody what it wishes from here on; false when too many listen already.
    pub fn add(&self, stream: UnixStream, wishes: Wishes) -> bool {
        let mut listeners = self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if listeners.len() >= LISTENERS_MAX {
            return false;
        }
        let (lines, queue) = mpsc::sync_channel(LINES_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let own = Arc::clone(&lost);
        let shared = Arc::downgrade(&self.0);
        let bringing = Arc::clone(&self.0.bringing);
        let write = move || {
            // Who has gone, or takes nothing in any more, has lost nothing but the rest.
            drop(bring(stream, &queue, &own));
            drop((queue, bringing));
            if let Some(shared) = shared.upgrade() {
                shared.forget_gone(&own);
            }
        };
        if thread::Builder::new().name("listener".to_owned()).spawn(write).is_err() {
            return false;
        }
        let listener = Listener { wishes, lines, lost };
        if listener.wishes.events {
            self.0.tell_death(&listener);
        }
        listeners.push(listener);
        self.0.set_wants(&listeners);
        true
    }

    /// Tells of an event of the instance.
    fn event(&self, event: &Event) {
        if matches!(event, Event::FlowsRecovered { .. })
            && let Ok(json) = serde_json::to_string(&event.with_text())
        {
            let line = (Clock::now(), stamped(&json).into());
            *self.0.death.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
        }
        let is_heard = !self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if is_heard && let Ok(json) = serde_json::to_string(&event.with_text()) {
            self.0.hand_in(Item::Event(json));
        }
    }
}

impl Shared {
    /// Tells somebody of the death that had just happened when this process began: who has listened to the one that
    /// died comes after that.
    fn tell_death(&self, listener: &Listener) {
        let death = self.death.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = death.as_ref().filter(|(at, _)| Clock::now().saturating_since(*at) < DEATH_IS_RECENT);
        // There is room in a queue that nothing is in.
        recent.iter().for_each(|(_, line)| drop(listener.lines.try_send(Arc::clone(line))));
    }

    fn hand_in(&self, item: Item) {
        if self.items.try_send(item).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn set_wants(&self, listeners: &[Listener]) {
        let is_wished = |topic| listeners.iter().any(|listener| listener.wishes.include(topic));
        let events = if is_wished(Topic::Flows) { EVENTS } else { 0 };
        let wants = events | if is_wished(Topic::Ended) { ENDED } else { 0 };
        self.wants.store(wants, Ordering::Relaxed);
    }

    /// A listener's thread has ended.
    fn forget_gone(&self, lost: &Arc<AtomicU64>) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| !Arc::ptr_eq(&listener.lost, lost));
        self.set_wants(&listeners);
    }

    /// Makes a line, and gives it to all who wish it.
    fn tell(&self, item: Item) {
        let (json, topic) = match item {
            Item::End => {
                self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clear();
                return;
            }
            Item::Event(json) => (json, Topic::Instance),
            Item::Notice(notice) => {
                let topic = if matches!(notice, Notice::Ended(_)) { Topic::Ended } else { Topic::Flows };
                let Ok(json) = serde_json::to_string(&FlowEvent::from(notice)) else { return };
                (json, topic)
            }
        };
        let line: Arc<str> = stamped(&json).into();
        let lost = self.lost.swap(0, Ordering::Relaxed);
        for listener in self.listeners.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            listener.lost.fetch_add(lost, Ordering::Relaxed);
            if listener.wishes.include(topic)
                && let Err(TrySendError::Full(_)) = listener.lines.try_send(Arc::clone(&line))
            {
                listener.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// A JSON object with the time in front, and the end of the line behind.
fn stamped(object: &str) -> String {
    let at_ms = Clock::wall_nanos() / 1_000_000;
    format!("{{\"at_ms\":{at_ms},{}\n", object.trim_start_matches('{'))
}

/// Writes what comes to a listener until it has gone, or nothing can come any more.
fn bring(mut stream: UnixStream, lines: &Receiver<Arc<str>>, lost: &AtomicU64) -> std::io::Result<()> {
    loop {
        match lines.recv_timeout(LOOK_EVERY) {
            Ok(line) => stream.write_all(line.as_bytes())?,
            Err(RecvTimeoutError::Timeout) if has_gone(&mut stream)? => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        let missed = lost.swap(0, Ordering::Relaxed);
        if missed > 0 {
            let lost = serde_json::to_string(&FlowEvent::Lost { lines: missed })?;
            stream.write_all(stamped(&lost).as_bytes())?;
        }
    }
}

fn has_gone(stream: &mut UnixStream) -> std::io::Result<bool> {
    stream.set_nonblocking(true)?;
    let read = stream.read(&mut [0; 64]);
    stream.set_nonblocking(false)?;
    match read {
        Ok(len) => Ok(len == 0),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// The events of an instance, for whoever started it and for those who listen.
pub(crate) struct Announcer<'a> {
    pub inner: &'a mut dyn EventSink,
    pub broadcaster: EventBroadcaster,
}

impl EventSink for Announcer<'_> {
    fn on_event(&mut self, event: &Event) {
        self.broadcaster.event(event);
        self.inner.on_event(event);
    }
}

/// A packet loop's end.
#[derive(Debug)]
pub(crate) struct Reporter {
    broadcaster: EventBroadcaster,
    wants: u8,
}

impl Reporter {
    pub fn new(broadcaster: EventBroadcaster) -> Self {
        Self { broadcaster, wants: 0 }
    }

    /// Hands on what the processor has noted; one look at a number while nobody listens.
    #[inline]
    pub fn report(&mut self, processor: &mut impl Processor) {
        let shared = &self.broadcaster.0;
        let wants = shared.wants.load(Ordering::Relaxed);
        if wants | self.wants == 0 {
            return;
        }
        if wants != self.wants {
            self.wants = wants;
            processor.set_wants(Wants { events: wants & EVENTS != 0, ended: wants & ENDED != 0 });
        }
        while let Some(notice) = processor.take_notice() {
            shared.hand_in(Item::Notice(notice));
        }
        let lost = processor.take_lost_notices();
        if lost > 0 {
            shared.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
