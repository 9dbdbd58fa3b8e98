//! [`TwoBoxes`]: two engines beside each other, and clients that move from one to the other.
//!
//! ```text
//!                  ┌ box 0 ┐
//!   servers ── routing   ▲ │ messages, packets: lost, late, twice, out of order
//!                  └ box 1 ┘
//! ```
//!
//! Packets go to the box that routing leads them to; what that box has not got, and knows who has, it sends on to
//! the other one.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, VecDeque};

use engine::{ConfigError, EngineConfig, Middlebox, Port, Transmit, Verdict};
use handover::{Admission, Counters, Ended, Handover, HandoverOutcome, Message, NextHop, Peer};
use units::{Bytes, Duration, Instant};
use wire::{GsoType, VirtioNetHeader};

use crate::ip_header::{ends, is_intact};
use crate::restart::has_handed_back;
use crate::{MiddleboxUnderTest, Random};

mod place;

use place::Place;

/// The wire between the boxes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Between {
    /// One way, without what is added by chance.
    pub delay: Duration,
    /// Longest delay added by chance: things overtake each other.
    pub jitter: Duration,
    /// Lost, in parts of a million.
    pub loss_ppm: u32,
    /// Coming twice, in parts of a million.
    pub twice_ppm: u32,
    /// Nothing comes through from one moment to another.
    pub cut: Option<(Instant, Instant)>,
}

/// A client goes to the other side.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// Time at which the box that has it is told.
    pub at: Instant,
    /// Time at which routing leads its packets to the other box: before or after that.
    pub routed_at: Instant,
    /// Client that moves.
    pub client: IpAddr,
    /// Number of the box that it goes to: 0 or 1.
    pub to: usize,
}

/// A box ends, and nobody comes in its place: packets that come to it pass from then on.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Time from which on it is to end: it waits until nothing is owed to anybody.
    pub at: Instant,
    /// Number of the box: 0 or 1.
    pub which: usize,
    /// True if it says so before; else the other box notices some time after.
    pub is_announced: bool,
}

/// A box dies, in its first step from this number on. A step is something that a box is told, asked, or has waited
/// for; what it would have said is lost.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// Steps of both boxes by then.
    pub step: u64,
    /// Number of the box: 0 or 1.
    pub which: usize,
    /// Replacement that comes then.
    pub replacement: Replacement,
}

/// Replacement of a box that has died.
#[derive(Clone, Copy, Debug)]
pub enum Replacement {
    /// Process that comes at once and knows nothing.
    Stranger,
    /// A process that goes on with what was written down.
    Successor {
        /// Records that the step still writes before death: those of flows, and notes of the protocol.
        writes: u64,
        /// Time for which nobody is there: packets wait, what the other box sends is lost.
        absent: Duration,
    },
}

/// Cargo under way between the boxes.
#[derive(Clone, Debug)]
enum Cargo {
    Message(Vec<u8>),
    Packet(Port, VirtioNetHeader, Vec<u8>),
}

/// Client and server.
type Ends = (SocketAddr, SocketAddr);

#[derive(Debug)]
struct Station {
    place: Place,
    protocol: Handover,
    /// Its process has died, and nobody is there until then.
    back_at: Option<Instant>,
    /// Packets that wait meanwhile.
    waiting: Vec<(Port, VirtioNetHeader, Vec<u8>)>,
    /// It takes nothing new.
    is_ending: bool,
    /// It has ended: packets pass.
    is_gone: bool,
}

/// Two boxes, of which the clients begin at the first.
#[derive(Debug)]
pub struct TwoBoxes {
    config: EngineConfig,
    protocol: handover::Config,
    between: Between,
    boxes: [Station; 2],
    /// Boxes that clients have moved to.
    routed: BTreeMap<IpAddr, usize>,
    moves: Vec<Move>,
    routings: Vec<Move>,
    deaths: Vec<Death>,
    end: Option<End>,
    /// Time at which a box notices that the other one has gone.
    noticed_at: Option<Instant>,
    /// Flows that went on in a successor.
    recovered: u64,
    /// Cargo by the time of its arrival, in the order of sending.
    cargo: BTreeMap<(Instant, u64), (usize, Cargo)>,
    sent: u64,
    steps: u64,
    random: Random,
    /// Packets that came from the other box and go out.
    outgoing: VecDeque<(Port, VirtioNetHeader, Vec<u8>)>,
    leaving: (VirtioNetHeader, Vec<u8>),
    has_forwarded: bool,
    has_passed: bool,
    has_died: bool,
    /// Flows were lost with a box, or given up: their hosts go on by themselves.
    has_left: bool,
    /// A flow that was in both engines.
    twice: Option<Ends>,
    ended: Vec<Ended>,
    counters: [Counters; 2],
}

impl TwoBoxes {
    /// Two boxes with engines of `config`.
    ///
    /// # Errors
    /// A setting of the engine makes no sense.
    pub fn new(
        config: &EngineConfig,
        protocol: handover::Config,
        between: Between,
        moves: &[Move],
        deaths: Vec<Death>,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        let mut random = Random::new(seed);
        let boxes = [station(config, protocol, &mut random)?, station(config, protocol, &mut random)?];
        let (mut by_time, mut routings) = (moves.to_vec(), moves.to_vec());
        by_time.sort_by_key(|one| std::cmp::Reverse(one.at));
        routings.sort_by_key(|one| std::cmp::Reverse(one.routed_at));
        Ok(Self {
            config: config.clone(),
            protocol,
            between,
            boxes,
            routed: BTreeMap::new(),
            moves: by_time,
            routings,
            deaths,
            end: None,
            noticed_at: None,
            recovered: 0,
            cargo: BTreeMap::new(),
            sent: 0,
            steps: 0,
            random,
            outgoing: VecDeque::new(),
            leaving: (VirtioNetHeader::default(), Vec::new()),
            has_forwarded: false,
            has_passed: false,
            has_died: false,
            has_left: false,
            twice: None,
            ended: Vec::new(),
            counters: [Counters::default(); 2],
        })
    }

    /// The devices of a box take packets of `mtu` bytes at most, from the start.
    pub fn set_mtu(&mut self, which: usize, mtu: u32) {
        if let Some(station) = self.boxes.get_mut(which) {
            station.place.mtu = Some(mtu);
            Port::BOTH.into_iter().for_each(|port| station.place.engine.set_mtu(port, mtu, Instant::ZERO));
        }
    }

    /// Has a box end.
    pub fn set_end(&mut self, end: End) {
        self.end = Some(end);
    }

    /// True when a box has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.boxes.iter().any(|one| one.is_gone)
    }

    /// Hand-overs that have ended, in either box.
    #[must_use]
    pub fn ended(&self) -> &[Ended] {
        &self.ended
    }

    /// A flow that two engines had at a time, if there ever was one.
    #[must_use]
    pub fn twice(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.twice
    }

    /// Bytes that the engines have acknowledged to one host and the other has not.
    #[must_use]
    pub fn debt(&self) -> Bytes {
        self.boxes.iter().fold(Bytes::ZERO, |sum, one| sum + one.place.engine.debt())
    }

    /// Flows that were in the engine of a process when it went on in the place of one that had died.
    #[must_use]
    pub fn recovered(&self) -> u64 {
        self.recovered
    }

    /// True while a box has yet to die.
    #[must_use]
    pub fn has_deaths(&self) -> bool {
        !self.deaths.is_empty()
    }

    /// Steps that the boxes have made: see [`Death`].
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// True while it is not known who has a client.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        self.boxes.iter().any(|one| one.protocol.is_undecided())
    }

    /// Sends to the other box what the wire lets through.
    fn ship(&mut self, to: usize, cargo: &Cargo, now: Instant) {
        let Between { delay, jitter, loss_ppm, twice_ppm, cut } = self.between;
        let copies = 1 + usize::from(self.random.is_hit(twice_ppm));
        for _ in 0..copies {
            let is_lost = self.random.is_hit(loss_ppm);
            let is_cut = cut.is_some_and(|(from, until)| from <= now && now < until);
            let late = Duration::from_nanos(self.random.below(jitter.as_nanos() + 1));
            if !is_lost && !is_cut {
                self.sent += 1;
                self.cargo.insert((now + delay + late, self.sent), (to, cargo.clone()));
            }
        }
    }

    /// Sends the messages that the protocol of a box has, and notes the moves that have ended.
    fn hear(&mut self, which: usize, now: Instant) {
        while let Some((to, message, _)) = self.boxes[which].protocol.poll() {
            self.ship(usize::from(to), &Cargo::Message(message.encode()), now);
        }
        while let Some(ended) = self.boxes[which].protocol.take_ended() {
            self.has_left |= ended.outcome == HandoverOutcome::Broken;
            self.ended.push(ended);
        }
        self.look_for_two_owners();
    }

    fn look_for_two_owners(&mut self) {
        let [a, b] = &self.boxes;
        let both = a.place.engine.flow_reports(0).find(|flow| {
            b.place.engine.has_flow(flow.client, flow.server)
                && [a, b].iter().all(|one| {
                    let flows = one.place.engine.delivering(flow.client.ip());
                    flows.iter().any(|ends| ends.client_and_server() == (flow.client, flow.server))
                })
        });
        self.twice = self.twice.or(both.map(|flow| (flow.client, flow.server)));
    }

    /// Begins a step of a box; it may be its last.
    fn begin_step(&mut self, which: usize) -> Option<Death> {
        self.steps += 1;
        let is_due = |death: &&Death| death.step < self.steps && death.which == which;
        let death = *self.deaths.iter().find(is_due)?;
        self.deaths.retain(|other| other.step != death.step || other.which != death.which);
        if let Replacement::Successor { writes, .. } = death.replacement {
            self.boxes[which].place.vault.die_after(writes);
        }
        Some(death)
    }

    /// Ends it: what it has to say is sent, unless it has died.
    fn end_step(&mut self, which: usize, death: Option<Death>, now: Instant) {
        let Some(death) = death else { return self.hear(which, now) };
        let counters = self.boxes[which].protocol.counters();
        add(&mut self.counters[which], counters);
        // The settings were good before.
        let Ok(next) = station(&self.config, self.protocol, &mut self.random) else { return };
        let before = std::mem::replace(&mut self.boxes[which], next);
        match death.replacement {
            Replacement::Stranger => {
                (self.has_died, self.has_left) = (true, true);
            }
            Replacement::Successor { absent, .. } => {
                let (vault, line) = (before.place.vault.clone(), before.protocol.line());
                vault.die();
                drop(before);
                let next = &mut self.boxes[which];
                (next.place.vault, next.back_at) = (vault, Some(now + absent));
                next.protocol.remember_all(line, Vec::new(), now);
            }
        }
    }

    /// A process goes on with what the one before has written down.
    fn succeed(&mut self, which: usize, now: Instant) {
        let next = &mut self.boxes[which];
        next.back_at = None;
        let notes = next.place.recover(now);
        self.recovered += next.place.engine.flow_reports(0).count() as u64;
        let line = next.protocol.line();
        next.protocol.remember_all(line, notes, now);
        for (from, virtio, packet) in std::mem::take(&mut self.boxes[which].waiting) {
            self.take_packet(which, from, virtio, packet, now);
        }
        self.look_for_two_owners();
    }

    /// A packet comes to a box from outside, late.
    fn take_packet(
        &mut self,
        which: usize,
        from: Port,
        virtio: VirtioNetHeader,
        mut packet: Vec<u8>,
        now: Instant,
    ) {
        let place = &mut self.boxes[which].place;
        let way = ends_of(&packet, from).map_or(NextHop::Here, |ends| place.forwarding.next_hop(ends));
        ends_of(&packet, from).into_iter().for_each(|ends| place.forwarding.note_packet(ends, from, false));
        let verdict = match way {
            NextHop::To(to) => {
                self.ship(usize::from(to), &Cargo::Packet(from, virtio, packet), now);
                return;
            }
            NextHop::Past => Verdict::Forward,
            NextHop::Here => place.engine.handle_packet(from, &virtio, &mut packet, now),
        };
        if verdict == Verdict::Forward {
            self.forward(from, virtio, packet);
        }
    }

    /// Has a packet go out, unless the host that it is for would drop it.
    fn forward(&mut self, from: Port, virtio: VirtioNetHeader, packet: Vec<u8>) {
        let is_whole = wire::parse(&packet).is_ok_and(|parsed| is_intact(&packet, &parsed));
        if is_whole || virtio.gso_type != GsoType::None {
            self.outgoing.push_back((from.opposite(), virtio, packet));
        }
    }

    /// Takes what comes from the other box.
    fn unload(&mut self, now: Instant) {
        while let Some(entry) = self.cargo.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to, cargo) = entry.remove();
            if self.boxes[to].back_at.is_some() || self.boxes[to].is_gone {
                continue;
            }
            let death = self.begin_step(to);
            match cargo {
                Cargo::Message(bytes) => {
                    let Station { place, protocol, .. } = &mut self.boxes[to];
                    if let Ok(message) = Message::decode(&bytes) {
                        protocol.on_message(1 - to as Peer, message, place, now);
                    }
                }
                Cargo::Packet(from, virtio, mut packet) => {
                    let place = &mut self.boxes[to].place;
                    let ends = ends_of(&packet, from);
                    let by = 1 - to as Peer;
                    let admission =
                        ends.map_or(Admission::Refused, |ends| place.forwarding.admission_of(by, ends));
                    ends.into_iter().for_each(|ends| place.forwarding.note_packet(ends, from, true));
                    let verdict = match admission {
                        // What went round once is not sent on again, and here nothing waits.
                        Admission::Early | Admission::Astray | Admission::Refused => Verdict::Consumed,
                        Admission::Past => Verdict::Forward,
                        Admission::Here => place.engine.handle_packet(from, &virtio, &mut packet, now),
                    };
                    let is_lost =
                        death.is_some_and(|death| matches!(death.replacement, Replacement::Successor { .. }));
                    if verdict == Verdict::Forward && !is_lost {
                        self.forward(from, virtio, packet);
                    }
                }
            }
            self.end_step(to, death, now);
        }
    }

    /// True when the box that a client moves to knows its flows, or there are none: routing does not go ahead of
    /// that. Flows that a box was never told of pass.
    fn is_expected(&self, one: &Move) -> bool {
        if self.boxes.iter().any(|one| one.back_at.is_some()) {
            // Who has died may have flows.
            return false;
        }
        let [own, other] = [one.to, 1 - one.to].map(|which| &self.boxes[which].place);
        if self.boxes[1 - one.to].is_gone {
            return true;
        }
        let mut theirs = other.engine.flow_reports(0).filter(|flow| flow.client.ip() == one.client);
        // It is told of them: they are to come, or stay where they are.
        theirs.all(|flow| matches!(own.forwarding.next_hop((flow.client, flow.server)), NextHop::To(_)))
    }

    fn act_on_plan(&mut self, now: Instant) {
        while let Some(one) = self.routings.last().copied().filter(|one| one.routed_at <= now) {
            if !self.is_expected(&one) {
                break;
            }
            self.routings.pop();
            self.routed.insert(one.client, one.to);
        }
        while let Some(one) = self.moves.pop_if(|one| one.at <= now) {
            let from = 1 - one.to;
            if self.boxes[from].back_at.is_some() || self.boxes[from].is_gone {
                continue;
            }
            let death = self.begin_step(from);
            let Station { place, protocol, .. } = &mut self.boxes[from];
            // One that is not here, or is under way already, is not begun.
            let _ = protocol.begin(one.client, one.to as Peer, place, now);
            self.end_step(from, death, now);
        }
    }
}

/// Interval at which a box that is to end looks whether it may.
const LOOK: Duration = Duration::from_millis(10);

impl TwoBoxes {
    /// Ends the box that is to end, once it may, and has the other one notice.
    fn act_on_end(&mut self, now: Instant) {
        if let Some(end) = self.end.filter(|end| end.at <= now) {
            self.end_box(end, now);
        }
        let Some(end) = self.end.filter(|_| self.noticed_at.is_some_and(|at| at <= now)) else { return };
        (self.noticed_at, self.end) = (None, None);
        let Station { place, protocol, .. } = &mut self.boxes[1 - end.which];
        protocol.on_peer_lost(end.which as Peer, place, now);
        self.hear(1 - end.which, now);
    }

    fn end_box(&mut self, end: End, now: Instant) {
        let Station { place, protocol, is_ending, is_gone, .. } = &mut self.boxes[end.which];
        if *is_gone {
            // It is noticed by and by.
            self.end = Some(End { at: Instant::FAR_FUTURE, ..end });
            return;
        }
        if end.is_announced && !std::mem::replace(is_ending, true) {
            place.engine.drain(now);
            protocol.end(place, now);
        }
        let is_idle = end.is_announced || protocol.under_way() == 0;
        *is_gone = is_idle && !protocol.is_undecided() && place.engine.is_empty();
        if *is_gone {
            let late = Duration::from_nanos(self.random.below(LOOK.as_nanos() * 10));
            self.noticed_at = Some(now + self.between.delay + late);
        }
        self.end = Some(End { at: now + LOOK, ..end });
        self.hear(end.which, now);
    }
}

fn add(sum: &mut Counters, other: Counters) {
    sum.gone += other.gone;
    sum.come += other.come;
    sum.stayed += other.stayed;
    sum.broken += other.broken;
}

fn station(
    config: &EngineConfig,
    protocol: handover::Config,
    random: &mut Random,
) -> Result<Station, ConfigError> {
    let place = Place::new(config)?;
    let protocol = Handover::new(protocol, random.word(), 0);
    Ok(Station { place, protocol, back_at: None, waiting: Vec::new(), is_ending: false, is_gone: false })
}

/// Client and server of a packet that came from a port.
fn ends_of(packet: &[u8], from: Port) -> Option<Ends> {
    let parsed = wire::parse(packet).ok().filter(|parsed| parsed.tcp().is_some())?;
    let (source, destination) = ends(&parsed)?;
    Some(if from == Port::Mobile { (source, destination) } else { (destination, source) })
}

impl Middlebox for TwoBoxes {
    fn handle_packet(
        &mut self,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        let ends = ends_of(packet, from);
        let at = ends.and_then(|(client, _)| self.routed.get(&client.ip())).copied().unwrap_or(0);
        let Station { place, back_at, waiting, is_gone, .. } = &mut self.boxes[at];
        if *is_gone {
            return Verdict::Forward;
        }
        if back_at.is_some() {
            waiting.push((from, *virtio, packet.to_vec()));
            return Verdict::Consumed;
        }
        match ends.map_or(NextHop::Here, |ends| place.forwarding.next_hop(ends)) {
            NextHop::To(to) => {
                self.ship(usize::from(to), &Cargo::Packet(from, *virtio, packet.to_vec()), now);
                return Verdict::Consumed;
            }
            NextHop::Past => return Verdict::Forward,
            NextHop::Here => {}
        }
        ends.into_iter().for_each(|ends| place.forwarding.note_packet(ends, from, false));
        let verdict = place.engine.handle_packet(from, virtio, packet, now);
        self.look_for_two_owners();
        verdict
    }

    fn handle_timeout(&mut self, now: Instant) {
        for which in [0, 1] {
            if self.boxes[which].back_at.is_some_and(|at| at <= now) {
                self.succeed(which, now);
            }
        }
        self.act_on_plan(now);
        self.unload(now);
        self.act_on_end(now);
        for which in [0, 1] {
            let Station { place, protocol, back_at, is_gone, .. } = &mut self.boxes[which];
            if back_at.is_some() || *is_gone {
                continue;
            }
            place.engine.handle_timeout(now);
            if protocol.next_deadline().is_some_and(|at| at <= now) {
                let death = self.begin_step(which);
                let Station { place, protocol, .. } = &mut self.boxes[which];
                protocol.on_timeout(place, now);
                self.end_step(which, death, now);
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let forwarded = self.outgoing.pop_front();
        self.has_forwarded = forwarded.is_some();
        self.has_passed = false;
        if let Some((to, virtio, packet)) = forwarded {
            self.leaving = (virtio, packet);
            return Some(Transmit { to, virtio, header: &self.leaving.1, payload: (&[], &[]) });
        }
        let made = |one: &mut Station| {
            if one.is_gone {
                return None;
            }
            let made = one.place.engine.poll_transmit(now)?;
            let made = (made.to, made.virtio, made.to_vec());
            Some((made, one.place.engine.hands_on()))
        };
        let ((to, virtio, packet), has_passed) = self.boxes.iter_mut().find_map(made)?;
        self.has_passed = has_passed;
        self.leaving = (virtio, packet);
        Some(Transmit { to, virtio, header: &self.leaving.1, payload: (&[], &[]) })
    }

    fn next_deadline(&self) -> Option<Instant> {
        let there = self.boxes.iter().filter(|one| !one.is_gone);
        let engines = there.clone().filter_map(|one| one.place.engine.next_deadline());
        let alive = there.filter(|one| one.back_at.is_none());
        let protocols = alive.filter_map(|one| one.protocol.next_deadline());
        let protocols = protocols.chain(self.boxes.iter().filter_map(|one| one.back_at));
        let cargo = self.cargo.first_key_value().map(|((at, _), _)| *at);
        let plan = self.moves.last().map(|one| one.at).into_iter();
        let plan =
            plan.chain(self.routings.last().filter(|one| self.is_expected(one)).map(|one| one.routed_at));
        let end = self.end.map(|end| end.at).into_iter().chain(self.noticed_at);
        let outgoing = (!self.outgoing.is_empty()).then_some(Instant::ZERO);
        engines.chain(protocols).chain(cargo).chain(plan).chain(end).chain(outgoing).min()
    }
}

impl MiddleboxUnderTest for TwoBoxes {
    fn may_have_lost_packets(&self) -> bool {
        // Those that go on from one box to the other.
        true
    }

    fn has_flow(&self, client: SocketAddr, server: SocketAddr) -> bool {
        self.boxes.iter().any(|one| one.place.engine.has_flow(client, server))
    }

    fn is_leaving(&self) -> bool {
        let is_leaving = |one: &Station| one.is_ending || one.is_gone || has_handed_back(&one.place.engine);
        self.has_left || self.boxes.iter().any(is_leaving)
    }

    fn has_forwarded(&self) -> bool {
        self.has_forwarded
    }

    fn has_passed(&self) -> bool {
        self.has_passed
    }

    fn take_crash(&mut self) -> bool {
        core::mem::take(&mut self.has_died)
    }
}
