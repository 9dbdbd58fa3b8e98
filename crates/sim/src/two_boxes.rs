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

use engine::{ConfigError, Engine, EngineConfig, FlowEnds, HeldPiece, Middlebox, Port, Transmit, Verdict};
use handover::{Counters, Elsewhere, Ended, Flows, Handover, Loaded, Message, Outcome, Peer, Way};
use units::{Bytes, Duration, Instant, SeqNum};
use wire::{GsoType, Packet, VirtioNetHeader};

use crate::restart::has_handed_back;
use crate::{MiddleboxUnderTest, Random};

/// The wire between the boxes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Between {
    /// One way, without what is added by chance.
    pub delay: Duration,
    /// Added by chance, up to so much: things overtake each other.
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
    /// When the box that has it is told.
    pub at: Instant,
    /// When routing leads its packets to the other box: before or after that.
    pub routed_at: Instant,
    /// Who.
    pub client: IpAddr,
    /// To which box: 0 or 1.
    pub to: usize,
}

/// A box dies, and begins anew without anything, in the step of this number.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// Messages and packets that the boxes have taken from each other by then.
    pub step: u64,
    /// Which.
    pub which: usize,
}

/// What is under way between the boxes.
#[derive(Clone, Debug)]
enum Cargo {
    Message(Vec<u8>),
    Packet(Port, VirtioNetHeader, Vec<u8>),
}

/// Client and server.
type Ends = (SocketAddr, SocketAddr);

/// A box without the protocol: what the protocol moves.
#[derive(Debug)]
struct Place {
    engine: Engine,
    elsewhere: Elsewhere,
}

impl Flows for Place {
    fn delivering(&mut self, subscriber: IpAddr) -> Vec<FlowEnds> {
        self.engine.delivering(subscriber)
    }

    fn held(&mut self, flow: &FlowEnds, from: Option<SeqNum>, len_max: usize) -> Option<HeldPiece> {
        self.engine.held(flow, from, len_max)
    }

    fn give_away(&mut self, subscriber: IpAddr, to: Peer, now: Instant) -> Vec<Loaded> {
        let loaded = self.engine.give_away(subscriber, now);
        self.elsewhere.give_away(subscriber, loaded.iter().map(|(flow, _)| flow.ends), to);
        loaded
    }

    fn take_in(&mut self, subscriber: IpAddr, flows: &[Loaded], now: Instant) -> bool {
        let is_whole = self.engine.take_in_all(flows, now);
        if is_whole {
            self.elsewhere.take_in(subscriber);
        }
        is_whole
    }

    fn lead(&mut self, subscriber: IpAddr, to: Option<Peer>) {
        self.elsewhere.lead(subscriber, to);
    }

    fn forget(&mut self, subscriber: IpAddr) {
        self.elsewhere.forget(subscriber);
    }

    fn break_off(&mut self, flows: &[FlowEnds], now: Instant) {
        flows.iter().for_each(|flow| self.engine.break_off(flow, now));
    }
}

#[derive(Debug)]
struct Station {
    place: Place,
    protocol: Handover,
}

/// Two boxes, of which the clients begin at the first.
#[derive(Debug)]
pub struct TwoBoxes {
    config: EngineConfig,
    protocol: handover::Config,
    between: Between,
    boxes: [Station; 2],
    /// Where clients are that have moved.
    routed: BTreeMap<IpAddr, usize>,
    moves: Vec<Move>,
    routings: Vec<Move>,
    deaths: VecDeque<Death>,
    /// By when they come, in the order of sending.
    cargo: BTreeMap<(Instant, u64), (usize, Cargo)>,
    sent: u64,
    steps: u64,
    random: Random,
    /// Packets that came from the other box and go out.
    outgoing: VecDeque<(Port, VirtioNetHeader, Vec<u8>)>,
    leaving: (VirtioNetHeader, Vec<u8>),
    has_forwarded: bool,
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
            deaths: deaths.into(),
            cargo: BTreeMap::new(),
            sent: 0,
            steps: 0,
            random,
            outgoing: VecDeque::new(),
            leaving: (VirtioNetHeader::default(), Vec::new()),
            has_forwarded: false,
            has_died: false,
            has_left: false,
            twice: None,
            ended: Vec::new(),
            counters: [Counters::default(); 2],
        })
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

    /// Messages and packets that the boxes have taken from each other.
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

    /// What the protocol of a box has to say, and what has ended.
    fn hear(&mut self, which: usize, now: Instant) {
        while let Some((to, message)) = self.boxes[which].protocol.poll() {
            self.ship(usize::from(to), &Cargo::Message(message.encode()), now);
        }
        while let Some(ended) = self.boxes[which].protocol.take_ended() {
            self.has_left |= ended.outcome == Outcome::Broken;
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

    /// A box dies if its time has come.
    fn perish(&mut self) {
        while let Some(death) = self.deaths.front().copied().filter(|death| death.step <= self.steps) {
            self.deaths.pop_front();
            // The settings were good before.
            let Ok(next) = station(&self.config, self.protocol, &mut self.random) else { return };
            let counters = self.boxes[death.which].protocol.counters();
            add(&mut self.counters[death.which], counters);
            self.boxes[death.which] = next;
            (self.has_died, self.has_left) = (true, true);
        }
    }

    /// Takes what comes from the other box.
    fn unload(&mut self, now: Instant) {
        while let Some(entry) = self.cargo.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to, cargo) = entry.remove();
            self.steps += 1;
            self.perish();
            match cargo {
                Cargo::Message(bytes) => {
                    let Ok(message) = Message::decode(&bytes) else { continue };
                    let Station { place, protocol } = &mut self.boxes[to];
                    protocol.on_message(1 - to as Peer, message, place, now);
                    self.hear(to, now);
                }
                Cargo::Packet(from, virtio, mut packet) => {
                    let place = &mut self.boxes[to].place;
                    let way = ends_of(&packet, from).map_or(Way::Here, |ends| place.elsewhere.way_of(ends));
                    let verdict = match way {
                        // What went round once is not sent on again.
                        Way::To(_) => Verdict::Consumed,
                        Way::Past => Verdict::Forward,
                        Way::Here => place.engine.handle_packet(from, &virtio, &mut packet, now),
                    };
                    // What is broken is dropped by the host that it is for.
                    let is_intact = wire::ipv4_checksum_is_valid(&packet)
                        && wire::parse(&packet)
                            .is_ok_and(|parsed| wire::tcp_checksum_is_valid(&packet, &parsed));
                    let is_whole = virtio.gso_type == GsoType::None;
                    if verdict == Verdict::Forward && (is_intact || !is_whole) {
                        self.outgoing.push_back((from.opposite(), virtio, packet));
                    }
                }
            }
        }
    }

    /// True when the box that a client moves to knows its flows, or there are none: routing does not go ahead of
    /// that. Flows that a box was never told of pass.
    fn is_expected(&self, one: &Move) -> bool {
        let place = &self.boxes[one.to].place;
        let is_told = place.elsewhere.is_led(one.client);
        let [own, other] = [one.to, 1 - one.to].map(|which| &self.boxes[which].place.engine);
        let is_there = !own.delivering(one.client).is_empty();
        is_told || is_there || !other.flow_reports(0).any(|flow| flow.client.ip() == one.client)
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
            let Station { place, protocol } = &mut self.boxes[from];
            // One that is not here, or is under way already, is not begun.
            let _ = protocol.begin(one.client, one.to as Peer, place, now);
            self.hear(from, now);
        }
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
    let place =
        Place { engine: Engine::new(config.clone())?, elsewhere: Elsewhere::new(config.ipv6_prefix_len) };
    Ok(Station { place, protocol: Handover::new(protocol, random.word(), 0) })
}

/// Client and server of a packet that came from a port.
fn ends_of(packet: &[u8], from: Port) -> Option<Ends> {
    let Packet { ip, transport, .. } = wire::parse(packet).ok()?;
    let wire::Transport::Tcp(tcp) = transport else { return None };
    let (source, destination) =
        (SocketAddr::new(ip.src, tcp.src_port), SocketAddr::new(ip.dst, tcp.dst_port));
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
        let place = &mut self.boxes[at].place;
        match ends.map_or(Way::Here, |ends| place.elsewhere.way_of(ends)) {
            Way::To(to) => {
                self.ship(usize::from(to), &Cargo::Packet(from, *virtio, packet.to_vec()), now);
                return Verdict::Consumed;
            }
            Way::Past => return Verdict::Forward,
            Way::Here => {}
        }
        let verdict = place.engine.handle_packet(from, virtio, packet, now);
        self.look_for_two_owners();
        verdict
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.act_on_plan(now);
        self.unload(now);
        for which in [0, 1] {
            let Station { place, protocol } = &mut self.boxes[which];
            place.engine.handle_timeout(now);
            if protocol.next_deadline().is_some_and(|at| at <= now) {
                protocol.on_timeout(place, now);
                self.hear(which, now);
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let forwarded = self.outgoing.pop_front();
        self.has_forwarded = forwarded.is_some();
        if let Some((to, virtio, packet)) = forwarded {
            self.leaving = (virtio, packet);
            return Some(Transmit { to, virtio, header: &self.leaving.1, payload: (&[], &[]) });
        }
        let made = |one: &mut Station| {
            let made = one.place.engine.poll_transmit(now)?;
            Some((made.to, made.virtio, made.to_vec()))
        };
        let (to, virtio, packet) = self.boxes.iter_mut().find_map(made)?;
        self.leaving = (virtio, packet);
        Some(Transmit { to, virtio, header: &self.leaving.1, payload: (&[], &[]) })
    }

    fn next_deadline(&self) -> Option<Instant> {
        let engines = self.boxes.iter().filter_map(|one| one.place.engine.next_deadline());
        let protocols = self.boxes.iter().filter_map(|one| one.protocol.next_deadline());
        let cargo = self.cargo.first_key_value().map(|((at, _), _)| *at);
        let plan = self.moves.last().map(|one| one.at).into_iter();
        let plan =
            plan.chain(self.routings.last().filter(|one| self.is_expected(one)).map(|one| one.routed_at));
        let outgoing = (!self.outgoing.is_empty()).then_some(Instant::ZERO);
        engines.chain(protocols).chain(cargo).chain(plan).chain(outgoing).min()
    }
}

impl MiddleboxUnderTest for TwoBoxes {
    fn has_flow(&self, client: SocketAddr, server: SocketAddr) -> bool {
        self.boxes.iter().any(|one| one.place.engine.has_flow(client, server))
    }

    fn is_leaving(&self) -> bool {
        self.has_left || self.boxes.iter().any(|one| has_handed_back(&one.place.engine))
    }

    fn has_forwarded(&self) -> bool {
        self.has_forwarded
    }

    fn take_crash(&mut self) -> bool {
        core::mem::take(&mut self.has_died)
    }
}
