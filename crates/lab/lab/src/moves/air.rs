//! [`Air`]: two base stations, the segment to the servers, and the wire between the boxes, in one thread.
//!
//! ```text
//!   server ── wan ── router      station A ─┐                        box A ── wire ── box B
//!                                           ├─ a subscriber's links ── client
//!                                station B ─┘
//! ```
//!
//! A subscriber has a link of its own, in both directions, at each base station: base stations keep a queue per
//! subscriber. It is at one of them, or on its way to one ([`super::place`]). On its way nothing is delivered: it has
//! left when the last packet is delivered, and the first one of the new station can be delivered after the gap. The
//! thread never spins: packets are late by what the kernel takes to wake it, which every run states.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use io::{Clock, Tun};
use link::{DelayModel, Link, LinkConfig};
use scenario::results::Timing;
use units::{Bytes, Duration, Instant, SeqNum};
use wire::TcpFlags;

use super::place::{Delivery, Subscriber, UP};
use super::streams::{Piece, Stream};
use crate::LabError;
use crate::air_thread::{AirThread, BATCH, STOP, fetch, missed, waiter};
use crate::lateness::Lateness;

/// Numbers of the devices.
const SERVER: usize = 0;
const ROUTER: usize = 1;
const STATIONS: [usize; 2] = [2, 3];
const CLIENT: usize = 4;
const WIRES: [usize; 2] = [5, 6];

/// The devices whose other ends the thread holds.
pub(crate) struct Devices {
    pub server: Tun,
    pub router: Tun,
    pub stations: [Tun; 2],
    pub client: Tun,
    pub wires: [Tun; 2],
}

/// Plan of the air.
pub(crate) struct Plan {
    /// One-way delay to the servers.
    pub wan: Duration,
    /// One-way delay between the boxes.
    pub wire: Duration,
    /// One-way delay between the base stations, over which they forward to each other; none: they do not.
    pub forwarding: Option<Duration>,
    /// Each subscriber's address, and its links at either station, towards it and from it.
    pub subscribers: Vec<(IpAddr, [[LinkConfig; 2]; 2])>,
}

/// A flow's direction: where its data comes from, and where it goes.
pub(crate) type Way = (SocketAddr, SocketAddr);

/// Observations of the run.
pub(crate) struct Seen {
    pub streams: BTreeMap<Way, Stream>,
    /// Bytes of packets on the wire between the boxes, from A and from B.
    pub wire_bytes: [u64; 2],
    /// Times at which resets went over the radio, by subscriber.
    pub resets: Vec<Vec<Instant>>,
    /// Packets that were lost because a subscriber had left: they came to a station where it was not, or were in the air
    /// when it left.
    pub stranded: Vec<u64>,
    pub timing: Timing,
}

/// Step of a subscriber.
enum Step {
    /// The other station is told that it may come.
    Prepares { to: usize },
    /// It does not.
    Stays,
    /// It leaves its station for another, and is there after `gap`.
    Leaves { to: usize, gap: Duration },
}

/// An order, and who waits for its being done.
struct Order {
    subscriber: usize,
    step: Step,
    done: mpsc::Sender<Instant>,
}

/// A running emulator; dropping it stops it.
pub(crate) struct Air {
    orders: mpsc::Sender<Order>,
    thread: AirThread<Seen>,
    started: Instant,
}

impl Air {
    /// Starts at once.
    pub fn start(devices: Devices, plan: &Plan) -> Result<Self, LabError> {
        let now = Clock::now();
        let Devices { server, router, stations: [a, b], client, wires: [wire_a, wire_b] } = devices;
        let delay = |time: Duration, to: usize| {
            let config =
                LinkConfig { delay: DelayModel::Fixed(time), keeps_log: false, ..LinkConfig::default() };
            Line::new(config, to, now)
        };
        let mut lines = vec![
            delay(plan.wan, ROUTER)?,
            delay(plan.wan, SERVER)?,
            delay(plan.wire, WIRES[1])?,
            delay(plan.wire, WIRES[0])?,
        ];
        let mut subscribers = Vec::new();
        for (address, links) in &plan.subscribers {
            for (station, [down, up]) in links.iter().enumerate() {
                lines.push(Line::new(down.clone(), CLIENT, now)?);
                lines.push(Line::new(up.clone(), STATIONS[station], now)?);
            }
            subscribers.push(Subscriber::new(*address, plan.forwarding));
        }
        let (orders, ordered) = mpsc::channel();
        let count = subscribers.len();
        let mover = Mover {
            devices: [server, router, a, b, client, wire_a, wire_b],
            lines,
            subscribers,
            ordered,
            lateness: Lateness::default(),
            streams: BTreeMap::new(),
            wire_bytes: [0; 2],
            resets: vec![Vec::new(); count],
            stranded: vec![0; count],
            began: now,
        };
        let thread = AirThread::start("air", move |stopped, _| mover.run(stopped))?;
        Ok(Self { orders, thread, started: now })
    }

    /// Start of its time: bins of delivered data count from then.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// A subscriber leaves its station for station `to`, and is there after `gap`. Gives when it left; none when the
    /// emulator has ended.
    pub fn move_to(&self, subscriber: usize, to: usize, gap: Duration) -> Option<Instant> {
        self.order(subscriber, Step::Leaves { to, gap })
    }

    /// Station `to` is told that a subscriber may come. None when the emulator has ended.
    pub fn prepare(&self, subscriber: usize, to: usize) -> Option<Instant> {
        self.order(subscriber, Step::Prepares { to })
    }

    /// It does not come. None when the emulator has ended.
    pub fn stay(&self, subscriber: usize) -> Option<Instant> {
        self.order(subscriber, Step::Stays)
    }

    fn order(&self, subscriber: usize, step: Step) -> Option<Instant> {
        let (done, when) = mpsc::channel();
        self.orders.send(Order { subscriber, step, done }).ok()?;
        self.thread.wake()?;
        when.recv().ok()
    }

    /// True when the thread has ended by itself, which is an error.
    pub fn has_failed(&self) -> bool {
        self.thread.has_failed()
    }

    /// Stops and hands over what was seen.
    pub fn finish(self) -> Result<Seen, LabError> {
        self.thread.finish()
    }
}

/// A packet, and the data in it.
struct Carried {
    bytes: Vec<u8>,
    data: Option<(Way, Piece)>,
}

/// A link, and the device at its end.
struct Line {
    link: Link<Carried>,
    config: LinkConfig,
    to: usize,
    began: Instant,
}

impl Line {
    fn new(config: LinkConfig, to: usize, now: Instant) -> Result<Self, LabError> {
        Ok(Self { link: Link::new(&config, now)?, config, to, began: now })
    }

    /// Takes all out of it that is inside, in order.
    fn empty(&mut self) -> Result<Vec<Carried>, LabError> {
        let fresh = Link::new(&self.config, self.began)?;
        let mut held = std::mem::replace(&mut self.link, fresh);
        let last = Instant::FAR_FUTURE - Duration::from_nanos(1);
        Ok(std::iter::from_fn(|| held.poll(last)).map(|delivery| delivery.payload).collect())
    }

    /// The least time from its beginning to its end.
    fn least_delay(&self) -> Duration {
        match self.config.delay {
            DelayModel::Fixed(delay) => delay,
            _ => Duration::ZERO,
        }
    }
}

/// The line of a subscriber at a station, towards it or from it.
const fn line_of(subscriber: usize, station: usize, is_up: bool) -> usize {
    4 + subscriber * 4 + station * 2 + is_up as usize
}

/// True when a line is a subscriber's.
const fn is_radio(line: usize) -> bool {
    line >= 4
}

struct Mover {
    devices: [Tun; 7],
    lines: Vec<Line>,
    subscribers: Vec<Subscriber<Carried>>,
    ordered: mpsc::Receiver<Order>,
    lateness: Lateness,
    streams: BTreeMap<Way, Stream>,
    wire_bytes: [u64; 2],
    resets: Vec<Vec<Instant>>,
    stranded: Vec<u64>,
    began: Instant,
}

impl Mover {
    fn run(mut self, stopped: &UnixStream) -> Result<Seen, LabError> {
        let mut waiter = waiter(Duration::ZERO, &self.devices, stopped)?;
        loop {
            let coming = self.subscribers.iter().filter_map(Subscriber::next_deadline);
            let deadline = self.lines.iter().filter_map(|line| line.link.next_deadline()).chain(coming).min();
            let mut arrived = Vec::new();
            for ready in waiter.wait(deadline)? {
                if ready.token == STOP {
                    let mut sink = [0; 64];
                    if matches!((&*stopped).read(&mut sink), Ok(0)) {
                        return self.finish();
                    }
                }
                arrived.extend(usize::try_from(ready.token).ok().filter(|at| *at < self.devices.len()));
            }
            self.arrive();
            self.obey()?;
            self.deliver();
            for device in arrived {
                self.fetch(device)?;
            }
        }
    }

    /// Subscribers do as they are told.
    fn obey(&mut self) -> Result<(), LabError> {
        while let Ok(Order { subscriber: number, step, done }) = self.ordered.try_recv() {
            let now = Clock::now();
            if number < self.subscribers.len() {
                match step {
                    Step::Prepares { to } => self.subscribers[number].expect_at(to),
                    Step::Stays => {
                        let waited: Vec<Carried> = self.subscribers[number].stays().collect();
                        waited.iter().for_each(|carried| self.strand(number, carried));
                    }
                    Step::Leaves { to, gap } => self.leave(number, to, now + gap, now)?,
                }
            }
            // Nobody listens any more: fine.
            let _ = done.send(now);
        }
        Ok(())
    }

    /// A subscriber leaves for a station, whose first delivery to it, or from it, comes at `there` at the earliest.
    fn leave(&mut self, number: usize, to: usize, there: Instant, now: Instant) -> Result<(), LabError> {
        let [down, up] = [false, true].map(|is_up| line_of(number, 1 - to, is_up));
        let held = [self.lines[down].empty()?, self.lines[up].empty()?];
        let opens = [false, true].map(|is_up| there - self.lines[line_of(number, to, is_up)].least_delay());
        let lost = self.subscribers[number].leave(to, opens, held, now);
        lost.iter().for_each(|carried| self.strand(number, carried));
        Ok(())
    }

    /// Lets packets that waited go on their way.
    fn arrive(&mut self) {
        let now = Clock::now();
        for number in 0..self.subscribers.len() {
            while let Some((station, way, carried)) = self.subscribers[number].take_due(now) {
                self.put(line_of(number, station, way == UP), carried, now);
            }
        }
    }

    /// Gives a packet to a line; what has no room is lost.
    fn put(&mut self, line: usize, carried: Carried, now: Instant) {
        let size = Bytes::from(carried.bytes.len());
        if let Err(rejected) = self.lines[line].link.enqueue(carried, size, now)
            && is_radio(line)
        {
            self.lose(&rejected.payload);
        }
    }

    fn lose(&mut self, carried: &Carried) {
        if let Some((way, piece)) = carried.data
            && let Some(stream) = self.streams.get_mut(&way)
        {
            stream.on_lost(piece);
        }
    }

    /// Hands over what is due.
    fn deliver(&mut self) {
        for line in 0..self.lines.len() {
            let now = Clock::now();
            if self.lines[line].link.next_deadline().is_none_or(|at| at > now) {
                continue;
            }
            while let Some(delivery) = self.lines[line].link.poll(now) {
                self.lateness.record(now.saturating_since(delivery.planned));
                let carried = delivery.payload;
                let to = self.lines[line].to;
                if to == CLIENT || to == SERVER {
                    self.come(&carried, now);
                }
                // A device that is down or gone loses packets like a real one.
                let _ = self.devices[to].send(&carried.bytes);
            }
        }
    }

    fn come(&mut self, carried: &Carried, now: Instant) {
        if let Some((way, piece)) = carried.data
            && let Some(stream) = self.streams.get_mut(&way)
        {
            stream.on_come(piece, now);
        }
    }

    fn fetch(&mut self, device: usize) -> Result<(), LabError> {
        for _ in 0..BATCH {
            let Some(bytes) = fetch(&self.devices[device])? else { break };
            let now = Clock::now();
            match device {
                SERVER => self.put(0, Carried { bytes, data: None }, now),
                ROUTER => {
                    let carried = self.look(bytes, None, now);
                    self.put(1, carried, now);
                }
                CLIENT => self.on_client(bytes, now),
                _ => {
                    if let Some(station) = STATIONS.iter().position(|at| *at == device) {
                        self.on_station(station, bytes, now);
                    } else {
                        let from = device - WIRES[0];
                        self.wire_bytes[from] += bytes.len() as u64;
                        self.put(2 + from, Carried { bytes, data: None }, now);
                    }
                }
            }
        }
        Ok(())
    }

    /// Finds the data in a packet. `sender`: the subscriber over whose radio it goes.
    fn look(&mut self, bytes: Vec<u8>, sender: Option<usize>, now: Instant) -> Carried {
        let Ok(parsed) = wire::parse(&bytes) else { return Carried { bytes, data: None } };
        let Some(tcp) = parsed.tcp() else { return Carried { bytes, data: None } };
        let way =
            (SocketAddr::new(parsed.ip.src, tcp.src_port), SocketAddr::new(parsed.ip.dst, tcp.dst_port));
        if tcp.flags.contains(TcpFlags::RST)
            && let Some(number) = sender
        {
            self.resets[number].push(now);
        }
        let data = (tcp.payload_len > 0).then(|| self.place(way, tcp.seq, tcp.payload_len)).map(|piece| {
            if sender.is_some()
                && let Some(stream) = self.streams.get_mut(&way)
            {
                stream.on_sent(piece, now);
            }
            (way, piece)
        });
        Carried { bytes, data }
    }

    fn place(&mut self, way: Way, seq: SeqNum, len: usize) -> Piece {
        let began = self.began;
        self.streams.entry(way).or_insert_with(|| Stream::new(began)).place(seq, len)
    }

    fn subscriber_of(&self, address: Option<IpAddr>) -> Option<usize> {
        let address = address?;
        self.subscribers.iter().position(|one| one.address == address)
    }

    fn on_client(&mut self, bytes: Vec<u8>, now: Instant) {
        let address = wire::parse(&bytes).ok().map(|parsed| parsed.ip.src);
        let Some(number) = self.subscriber_of(address) else { return };
        let carried = self.look(bytes, Some(number), now);
        let delivery = self.subscribers[number].on_sent(carried, now);
        self.meet(number, true, delivery, now);
    }

    fn on_station(&mut self, station: usize, bytes: Vec<u8>, now: Instant) {
        let address = wire::parse(&bytes).ok().map(|parsed| parsed.ip.dst);
        let Some(number) = self.subscriber_of(address) else { return };
        let carried = self.look(bytes, Some(number), now);
        let delivery = self.subscribers[number].on_station(station, carried, now);
        self.meet(number, false, delivery, now);
    }

    fn meet(&mut self, number: usize, is_up: bool, delivery: Delivery<Carried>, now: Instant) {
        match delivery {
            Delivery::Link(station, carried) => self.put(line_of(number, station, is_up), carried, now),
            Delivery::Waits => {}
            Delivery::Lost(carried) => self.strand(number, &carried),
        }
    }

    /// A packet is lost because its subscriber is not there.
    fn strand(&mut self, number: usize, carried: &Carried) {
        self.stranded[number] += 1;
        self.lose(carried);
    }

    fn finish(self) -> Result<Seen, LabError> {
        let missed = missed(&self.devices)?;
        Ok(Seen {
            streams: self.streams,
            wire_bytes: self.wire_bytes,
            resets: self.resets,
            stranded: self.stranded,
            timing: self.lateness.report(missed),
        })
    }
}
