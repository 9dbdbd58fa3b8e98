//! [`OneWay`]: the acceleration of one direction: packets in, packets out.
//!
//! The host that sends the data is called the server here and the one that receives it the client, as it is for
//! downloads. For the uplink [`crate::Engine`] uses a second one with its ports exchanged.

use std::collections::VecDeque;

use control::Controller;
use tcp::{Ring, StreamBuffer};
use units::{Bytes, Duration, Instant, SeqNum};
use wire::{
    ChecksumState, Packet, Tcp, TcpFlags, TcpHeaderSpec, VirtioNetHeader, ipv4_checksum_is_valid,
    tcp_checksum_is_valid,
};

use crate::accelerated::{Accelerated, TIMESTAMPS_HOLD, has_tiny_segments};
use crate::config::Direction;
use crate::downlink::Effect;
use crate::emit::HeaderBuffer;
use crate::flow::{Flow, State};
use crate::hand_back::HandBack;
use crate::handshake::{Agreement, Handshake, Step};
use crate::inspect::PassedRecently;
use crate::journal::{self, Journal};
use crate::path::Path;
use crate::slab::Slab;
use crate::spare::Spare;
use crate::subscriber::Subscriber;
use crate::table::{FlowKey, Index, SharingKey, subscriber_key};
use crate::timer::{Moment, TimerKey, Timers};
use crate::turns::Link;
use crate::{ConfigError, EngineConfig, PassReason, Port, Sharing, Stats, Verdict, downlink, uplink};

mod ahead;
mod deadlines;
mod feedback;
mod output;
mod path_mtu;

pub(crate) use ahead::AHEAD_MAX;
use ahead::Ahead;
use output::join_credit;

/// Memory that no flow is refused, in bytes.
const FLOW_MEMORY_MIN: u64 = 16 * 1024;

/// A packet of the engine's own making, before its bytes are borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) to: Port,
    pub(crate) virtio: VirtioNetHeader,
    pub(crate) header_len: usize,
    /// Flow, first byte and length of its payload.
    pub(crate) payload: Option<(u32, SeqNum, u32)>,
}

/// The accelerator of one direction.
#[derive(Debug)]
pub(crate) struct OneWay {
    pub(crate) direction: Direction,
    pub(crate) config: EngineConfig,
    pub(crate) flows: Slab<Flow>,
    flow_index: Index,
    pub(crate) subscribers: Slab<Subscriber>,
    subscriber_index: Index,
    /// Of subscribers with data.
    pub(crate) paths: Slab<Path>,
    /// In the place of the path of a subscriber without data: nothing happens on it.
    no_path: Path,
    spare: Spare,
    ahead: Ahead,
    timers: Timers,
    /// Flows with control packets to make.
    outbox: VecDeque<u32>,
    /// Of those, flows whose packet is for the client and may ride on data that is about to go.
    after_data: VecDeque<u32>,
    /// Subscribers that may have something to send.
    ready: VecDeque<u32>,
    header: HeaderBuffer,
    pub(crate) stats: Stats,
    pub(crate) passed_recently: PassedRecently,
    pub(crate) journal: Option<Box<dyn Journal>>,
    /// The flow of the packet handled last, if it carries data and is not in the table.
    pub(crate) stranger: Option<FlowKey>,
    is_draining: bool,
    /// Longest packet to a client, as far as the interface says that it leaves through.
    mtu: u32,
}

impl OneWay {
    /// An engine without flows.
    ///
    /// # Errors
    /// A setting that makes no sense.
    pub(crate) fn new(direction: Direction, config: EngineConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            direction,
            flows: Slab::default(),
            flow_index: Index::new(config.hash_seed),
            subscribers: Slab::default(),
            subscriber_index: Index::new(config.hash_seed),
            paths: Slab::default(),
            no_path: Path::new(config.controller.build(), Instant::ZERO),
            spare: Spare::default(),
            ahead: Ahead::new(),
            timers: Timers::default(),
            outbox: VecDeque::new(),
            after_data: VecDeque::new(),
            ready: VecDeque::new(),
            header: [0; TcpHeaderSpec::MAX_LEN],
            stats: Stats::default(),
            passed_recently: PassedRecently::default(),
            journal: None,
            stranger: None,
            is_draining: false,
            mtu: u32::MAX,
            config,
        })
    }

    /// Has the data of flows that begin held where `origin` comes from.
    pub(crate) fn set_ring_origin(&mut self, origin: Ring) {
        self.spare.set_origin(origin);
    }

    /// Counters.
    #[must_use]
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The settings in force.
    #[must_use]
    pub(crate) fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Bytes acknowledged to servers that clients have not acknowledged, over all flows.
    #[must_use]
    pub(crate) fn debt(&self) -> Bytes {
        let debts = self.flows.iter().filter_map(|(_, flow)| match &flow.state {
            State::Accelerated(a) => Some(u64::from(a.debt())),
            State::Observing(_) | State::Windowed(_) => None,
        });
        Bytes::new(debts.sum())
    }

    /// Takes in a packet that arrived at `from` with its virtio header.
    ///
    /// [`Verdict::Forward`] asks for the packet, as edited in place, to be sent out of the other port with
    /// the same virtio header. After this, [`OneWay::poll_transmit`] may have packets to send.
    pub(crate) fn handle_packet(
        &mut self,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        self.step_ahead();
        self.stats.packets_in += 1;
        self.stranger = None;
        let verdict = match wire::parse(packet) {
            Ok(parsed) => match parsed.transport {
                wire::Transport::Tcp(tcp) => self.handle_segment(from, (&parsed, &tcp), virtio, packet, now),
                wire::Transport::Icmp(icmp) if from == Port::Mobile => {
                    self.handle_icmp(&icmp, &parsed, packet, now);
                    Verdict::Forward
                }
                wire::Transport::Fragment => {
                    self.stats.fragments += 1;
                    Verdict::Forward
                }
                wire::Transport::Truncated => {
                    self.stats.truncated += 1;
                    Verdict::Forward
                }
                _ => {
                    self.stats.not_tcp += 1;
                    Verdict::Forward
                }
            },
            Err(_) => {
                self.stats.unparsable += 1;
                Verdict::Forward
            }
        };
        self.stats.packets_forwarded += u64::from(verdict == Verdict::Forward);
        verdict
    }

    fn handle_segment(
        &mut self,
        from: Port,
        (parsed, tcp): (&Packet, &Tcp),
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        let key = FlowKey::of(parsed, tcp, from);
        let is_opening =
            tcp.flags.contains(TcpFlags::SYN) && !tcp.flags.intersects(TcpFlags::ACK.with(TcpFlags::RST));
        let Some(id) = self.flow_index.get(&key, &self.flows) else {
            if is_opening && is_intact(packet, parsed, virtio) {
                self.observe(key, tcp, from, now);
            } else if !is_opening {
                self.stats.unknown_flow += 1;
                let ends = tcp.flags.contains(TcpFlags::FIN) || tcp.flags.contains(TcpFlags::RST);
                if tcp.payload_len > 0 && !ends && !tcp.flags.contains(TcpFlags::SYN) {
                    self.stranger = Some(key);
                }
            }
            return Verdict::Forward;
        };
        let Some(flow) = self.flows.get_mut(id) else { return Verdict::Forward };
        // A handshake has its time from the first SYN on: packets do not prolong it.
        if !matches!(flow.state, State::Observing(_)) {
            let silent = now.saturating_since(flow.last_activity);
            flow.last_activity = now;
            if silent >= TIMESTAMPS_HOLD
                && let Some(accelerated) = flow.accelerated()
            {
                accelerated.outdate_timestamps();
            }
        }
        if let State::Observing(handshake) = &mut flow.state {
            // What its host will drop must not be believed (H7).
            if !is_intact(packet, parsed, virtio) {
                return Verdict::Forward;
            }
            match handshake.on_packet(tcp, from, now) {
                Step::Continue => return Verdict::Forward,
                Step::Pass(reason) => {
                    self.remove(id, Some(reason));
                    return Verdict::Forward;
                }
                Step::Established(_, rtts) if rtts.mobile < self.config.rtt_min => {
                    self.remove(id, Some(PassReason::NoGain));
                    return Verdict::Forward;
                }
                Step::Established(agreement, _) if has_tiny_segments(&agreement, key.is_ipv4()) => {
                    self.remove(id, Some(PassReason::TinySegments));
                    return Verdict::Forward;
                }
                Step::Established(agreement, rtts) if self.config.lowers_window(self.direction, &key) => {
                    self.begin_window(id, &agreement, rtts, now);
                }
                Step::Established(agreement, rtts) => {
                    self.accelerate(id, &agreement, (parsed, tcp), from, now);
                    if !rtts.is_doubtful {
                        if let Some(flow) = self.flows.get_mut(id).and_then(Flow::accelerated) {
                            flow.set_wired_rtt(rtts.wired);
                        }
                        self.on_round_trip(id, rtts.mobile, now);
                    }
                }
            }
        } else if is_opening && flow.gives_way_to(tcp, from) && is_intact(packet, parsed, virtio) {
            self.remove(id, None);
            self.observe(key, tcp, from, now);
            return Verdict::Forward;
        }
        if !is_intact(packet, parsed, virtio) {
            return self.on_damaged(id);
        }
        self.handle_accelerated(id, from, (parsed, tcp), (packet, virtio.checksum_state()), now)
    }

    /// The path to a subscriber, if there was data for it.
    pub(crate) fn path_of(&self, subscriber_id: u32) -> Option<&Path> {
        self.paths.get(self.subscribers.get(subscriber_id)?.path()?)
    }

    /// The same, to be changed.
    fn path_of_mut(&mut self, subscriber_id: u32) -> Option<&mut Path> {
        self.paths.get_mut(self.subscribers.get(subscriber_id)?.path()?)
    }

    /// Makes the path to a subscriber, if there is none yet.
    fn open_path(&mut self, subscriber_id: u32) {
        let Some(subscriber) = self.subscribers.get_mut(subscriber_id) else { return };
        if subscriber.path().is_some() {
            return;
        }
        subscriber.is_outdated = false;
        let mut controller = self.config.controller.build();
        if let Some((rtt, at)) = subscriber.round_trip() {
            controller.on_round_trip(rtt, at);
        }
        subscriber.set_path(self.paths.insert(Path::new(controller, subscriber.last_used)));
    }

    /// Begins to watch a handshake, if there is room for it and no reason against it.
    fn observe(&mut self, key: FlowKey, tcp: &Tcp, from: Port, now: Instant) {
        let refused = if !self.config.accelerate {
            Some(PassReason::Disabled)
        } else if !self.config.accelerates(self.direction, &key)
            && !self.config.lowers_window(self.direction, &key)
        {
            Some(PassReason::Policy)
        } else if self.is_draining {
            Some(PassReason::Draining)
        } else if self.flows.len() >= self.config.flows_max {
            Some(PassReason::TableFull)
        } else if self.stats.half_open_now >= self.config.half_open_max as u64 {
            Some(PassReason::HalfOpenFull)
        } else if self.stats.buffer_bytes_now >= self.config.buffer_max.get() {
            Some(PassReason::MemoryFull)
        } else {
            None
        };
        let handshake = match refused.map_or_else(|| Handshake::begin(tcp, from, now), Err) {
            Ok(handshake) => handshake,
            Err(reason) => return self.count_pass(key, reason),
        };
        let Some(subscriber) = self.subscriber_for(&key, now) else {
            return self.count_pass(key, PassReason::SubscriberFull);
        };
        let id = self.flows.insert(Flow {
            key,
            in_outbox: false,
            is_urgent: false,
            is_journaled: false,
            subscriber,
            armed: Moment::NEVER,
            due: Instant::FAR_FUTURE,
            last_activity: now,
            turn: Link::default(),
            state: State::Observing(handshake),
        });
        self.flow_index.insert(&key, id);
        self.stats.flows_now += 1;
        self.stats.half_open_now += 1;
        self.arm_flow(id, now);
    }

    /// The subscriber a new flow belongs to, unless it has as many flows as one may have (H20).
    fn subscriber_for(&mut self, flow: &FlowKey, now: Instant) -> Option<u32> {
        let key = match self.config.sharing {
            Sharing::Subscriber => {
                SharingKey::Address(subscriber_key(flow.client().ip(), self.config.ipv6_prefix_len))
            }
            Sharing::Flow => SharingKey::Flow(*flow),
        };
        let id = match self.subscriber_index.get(&key, &self.subscribers) {
            Some(id) => id,
            None => {
                let id = self.subscribers.insert(Subscriber::new(key, now));
                self.subscriber_index.insert(&key, id);
                id
            }
        };
        let subscriber = self.subscribers.get_mut(id)?;
        if subscriber.flows >= self.config.subscriber_flows_max {
            return None;
        }
        subscriber.flows += 1;
        subscriber.last_used = now;
        if std::mem::take(&mut subscriber.is_outdated)
            && let Some(path) = subscriber.path().and_then(|path| self.paths.get_mut(path))
        {
            path.controller = self.config.controller.build();
        }
        Some(id)
    }

    /// Takes over a flow whose handshake is complete with this packet; the packet itself is handled next.
    fn accelerate(
        &mut self,
        id: u32,
        agreement: &Agreement,
        (parsed, tcp): (&Packet, &Tcp),
        from: Port,
        now: Instant,
    ) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        let by_client = from == Port::Mobile;
        let mut accelerated = Accelerated::new(agreement, &self.config, (&parsed.ip, tcp), by_client, now);
        let is_both_ways = self.config.accelerates_both(self.direction, &flow.key);
        accelerated.buffer = StreamBuffer::with_ring(accelerated.buffer.start(), self.spare.no_memory());
        accelerated.hand_back = HandBack::new(is_both_ways && self.direction == Direction::Uplink);
        flow.state = State::Accelerated(accelerated);
        self.stats.half_open_now -= 1;
        self.stats.flows_accelerated += 1;
        self.narrow(id, self.mtu, now);
    }

    /// Tells a flow's subscriber of a round trip of the path.
    fn on_round_trip(&mut self, id: u32, rtt: Duration, now: Instant) {
        let subscriber = self.flows.get(id).map(|flow| flow.subscriber);
        let Some(subscriber) = subscriber.and_then(|id| self.subscribers.get_mut(id)) else { return };
        match subscriber.path().and_then(|path| self.paths.get_mut(path)) {
            Some(path) => path.controller.on_round_trip(rtt, now),
            None => subscriber.note_round_trip(rtt, now),
        }
    }

    /// A segment that its host will drop: what is ours is dropped here, what only passes goes on.
    fn on_damaged(&mut self, id: u32) -> Verdict {
        let is_ours = self.flows.get_mut(id).is_some_and(|flow| flow.accelerated().is_some());
        self.stats.bad_checksums += 1;
        if is_ours { Verdict::Consumed } else { Verdict::Forward }
    }

    fn handle_accelerated(
        &mut self,
        id: u32,
        from: Port,
        (parsed, tcp): (&Packet, &Tcp),
        (packet, state): (&mut [u8], ChecksumState),
        now: Instant,
    ) -> Verdict {
        let Some(flow) = self.flows.get(id) else { return Verdict::Forward };
        let subscriber_id = flow.subscriber;
        let has_content = tcp.payload_len > 0 || tcp.flags.contains(TcpFlags::FIN);
        if from == Port::Wired && has_content {
            self.open_path(subscriber_id);
        }
        let Some(flow) = self.flows.get_mut(id) else { return Verdict::Forward };
        let accelerated = match &mut flow.state {
            State::Accelerated(accelerated) => accelerated,
            State::Windowed(windowed) => {
                let end = windowed.on_packet(from, tcp, (packet, state), &mut self.stats, now);
                return self.after_windowed(id, end, now);
            }
            State::Observing(_) => return Verdict::Forward,
        };
        let Some(subscriber) = self.subscribers.get(subscriber_id) else { return Verdict::Forward };
        let path = subscriber.path().and_then(|path| self.paths.get_mut(path));
        let path = path.unwrap_or(&mut self.no_path);
        path.flows = subscriber.flows;
        path.memory_limit = memory_limit(&self.config, &self.stats, path, accelerated);
        accelerated.judge_doubt(tcp, from);
        let memory = accelerated.buffer.capacity();
        let Effect { verdict, end } = match from {
            Port::Wired => {
                let limit = path.memory_limit;
                self.spare.lend(tcp.payload_len, accelerated.ring, &mut accelerated.buffer);
                downlink::on_packet(accelerated, limit, (parsed, tcp), (packet, state), &mut self.stats, now)
            }
            Port::Mobile => uplink::on_packet(
                accelerated,
                path,
                &self.config,
                (parsed, tcp),
                (packet, state),
                &mut self.stats,
                now,
            ),
        };
        if self.stats.buffer_bytes_now > self.config.buffer_max.get() / 2 {
            accelerated.buffer.release_if_empty();
        }
        accelerated.trim(now);
        self.spare.take_back(&mut accelerated.ring, &mut accelerated.buffer);
        self.spare.take_entries(&mut accelerated.sender);
        note_memory(&mut self.stats, path, memory, accelerated.buffer.capacity());
        if end.is_some() {
            self.remove(id, end);
            return verdict;
        }
        self.follow_up(id, now);
        verdict
    }

    /// After anything changed in an accelerated flow: life cycle, outbox, turn to send, deadline.
    fn follow_up(&mut self, id: u32, now: Instant) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        let subscriber_id = flow.subscriber;
        if let Some(journal) = self.journal.as_deref_mut() {
            journal::follow(journal, id, flow);
        }
        let State::Accelerated(accelerated) = &mut flow.state else { return };
        accelerated.is_closed |= accelerated.has_ended();
        if accelerated.may_leave(flow.last_activity, now) {
            let why = accelerated.leaves_for.unwrap_or(PassReason::Draining);
            let reason = if accelerated.is_closed { PassReason::Closed } else { why };
            return self.remove(id, Some(reason));
        }
        accelerated.sender.refresh_timers(now);
        let wants_turn = accelerated.sender.wants_to_send();
        let joins = wants_turn && !accelerated.in_round;
        accelerated.in_round |= wants_turn;
        let is_urgent = accelerated.sender.is_urgent() && !flow.is_urgent;
        flow.is_urgent |= is_urgent;
        if !accelerated.outbox.is_empty() && !flow.in_outbox {
            flow.in_outbox = true;
            self.outbox.push_back(id);
        }
        if joins {
            self.open_path(subscriber_id);
        }
        let path = self.subscribers.get(subscriber_id).and_then(Subscriber::path);
        if let Some(path) = path.and_then(|path| self.paths.get_mut(path)) {
            if is_urgent {
                path.urgent.push_back(id);
            }
            if joins {
                if let Some(accelerated) = self.flows.get_mut(id).and_then(Flow::accelerated) {
                    accelerated.deficit = join_credit(accelerated, path, now);
                }
                path.turns.push_fresh(id, &mut self.flows);
            }
            // An acknowledgement may have opened the window for other flows of the subscriber too.
            if path.has_work() && !path.is_ready {
                path.is_ready = true;
                self.ready.push_back(subscriber_id);
            }
        }
        self.arm_flow(id, now);
    }

    /// Takes a flow out of the table; its packets are forwarded untouched from here on.
    pub(crate) fn remove(&mut self, id: u32, reason: Option<PassReason>) {
        let Some(flow) = self.flows.get(id) else { return };
        let path = self.subscribers.get(flow.subscriber).and_then(Subscriber::path);
        if let Some(path) = path.and_then(|path| self.paths.get_mut(path)) {
            path.turns.remove(id, &mut self.flows);
        }
        let Some(flow) = self.flows.remove(id) else { return };
        self.flow_index.remove(&flow.key, id);
        self.stats.flows_now -= 1;
        if let Some(reason) = reason {
            self.count_pass(flow.key, reason);
        }
        if let Some(journal) = self.journal.as_deref_mut().filter(|_| flow.is_journaled) {
            journal.settle(id);
        }
        match (flow.state, path.and_then(|path| self.paths.get_mut(path))) {
            (State::Accelerated(accelerated), Some(path)) => {
                path.adjust_in_flight(accelerated.sender.in_flight(), 0);
                // Its bytes in flight no longer count: others may have waited for just that room, without a timer.
                if path.has_work() && !path.is_ready {
                    path.is_ready = true;
                    self.ready.push_back(flow.subscriber);
                }
                self.stats.bytes_retransmitted += accelerated.sender.retransmitted_bytes();
                note_memory(&mut self.stats, path, accelerated.buffer.capacity(), 0);
            }
            (State::Observing(_), _) => self.stats.half_open_now -= 1,
            (State::Accelerated(_), None) | (State::Windowed(_), _) => {}
        }
        let forgotten = self.forgotten_at(flow.subscriber);
        if let Some(subscriber) = self.subscribers.get_mut(flow.subscriber) {
            subscriber.flows -= 1;
            if subscriber.flows == 0 {
                self.timers.arm(TimerKey::Subscriber(flow.subscriber), &mut subscriber.armed, forgotten);
            }
        }
    }

    /// When a subscriber may be forgotten, once without flows: at once if nothing was delivered and so nothing learnt, or
    /// a scan of addresses would fill the memory (H20).
    fn forgotten_at(&self, subscriber_id: u32) -> Instant {
        let opened = self.subscribers.get(subscriber_id).map_or(Instant::ZERO, |s| s.last_used);
        let Some(path) = self.path_of(subscriber_id) else { return opened };
        let last_used = path.last_used.max(opened);
        if path.sampler.delivered() == Bytes::ZERO {
            last_used
        } else {
            last_used + self.config.subscriber_memory
        }
    }

    fn count_pass(&mut self, key: FlowKey, reason: PassReason) {
        self.stats.count_pass(reason);
        self.passed_recently.note(key, reason);
    }

    /// Begins beside `other`, which has worked for a while: what that was told to do holds for both.
    pub(crate) fn take_place_beside(&mut self, other: &Self, mtu: u32) {
        (self.is_draining, self.mtu) = (other.is_draining, mtu);
        self.spare.set_origin(other.spare.no_memory());
    }

    /// Stops taking on anything new, so that the engine can be stopped without breaking a flow.
    ///
    /// What was acknowledged to servers is delivered; then each flow is handed back to plain forwarding. Done
    /// when [`OneWay::debt`] is zero and [`Stats::flows_now`] is zero.
    pub(crate) fn drain(&mut self, now: Instant) {
        self.is_draining = true;
        for id in 0..self.flows.places() {
            match self.flows.get_mut(id).map(|flow| &mut flow.state) {
                Some(State::Accelerated(accelerated)) => {
                    accelerated.is_draining = true;
                    self.follow_up(id, now);
                }
                Some(State::Observing(_) | State::Windowed(_)) => self.remove(id, Some(PassReason::Draining)),
                None => {}
            }
        }
    }

    /// Packets may have gone past for a while: of no flow in the table it is known any more where it stands.
    ///
    /// Each is handed back as soon as nothing is owed to it, most at once; flows that begin from here on are taken over.
    pub(crate) fn resynchronise(&mut self, now: Instant) {
        for id in 0..self.flows.places() {
            match self.flows.get_mut(id).map(|flow| &mut flow.state) {
                Some(State::Accelerated(accelerated)) => {
                    accelerated.doubt();
                    self.follow_up(id, now);
                }
                Some(State::Observing(_) | State::Windowed(_)) => {
                    self.remove(id, Some(PassReason::Desynchronised));
                }
                None => {}
            }
        }
    }
}

/// Follows a change of one flow's memory.
fn note_memory(stats: &mut Stats, path: &mut Path, before: usize, after: usize) {
    let (before, after) = (before as u64, after as u64);
    stats.buffer_bytes_now = (stats.buffer_bytes_now + after).saturating_sub(before);
    path.buffered = (path.buffered + after).saturating_sub(before);
}

/// Memory a flow may take: as much as is left of its subscriber's, which may take as much as is left of all (dynamic
/// thresholds, Choudhury and Hahne 1998). So whoever takes much leaves as much to the next one, and n that are as greedy come
/// out equal, however many flows each has. A flow whose client has shut its window shares in one half of it only, and has
/// what every flow may have where that is used up: more data for it would wait there, and starve those whose clients read (H20).
///
/// A power of two, as rings are.
fn memory_limit(config: &EngineConfig, stats: &Stats, path: &Path, flow: &Accelerated) -> Bytes {
    let part = |max: Bytes| max.get() / if flow.sender.window() == 0 { 2 } else { 1 };
    let left_of_all = part(config.buffer_max).saturating_sub(stats.buffer_bytes_now);
    let left_of_its = part(config.subscriber_buffer_max).min(left_of_all).saturating_sub(path.buffered);
    let limit = left_of_its.min(config.flow_buffer_max.get()).max(FLOW_MEMORY_MIN);
    Bytes::new(1 << limit.ilog2())
}

/// True when the checksums are right, or the kernel vouches for them (H7).
///
/// The IPv4 header has one of its own: its receiver drops what does not fit it, whatever the segment's says.
fn is_intact(packet: &[u8], parsed: &Packet, virtio: &VirtioNetHeader) -> bool {
    virtio.checksum_state() == ChecksumState::Partial
        || virtio.flags & VirtioNetHeader::DATA_VALID != 0
        || (ipv4_checksum_is_valid(packet) && tcp_checksum_is_valid(packet, parsed))
}

#[cfg(test)]
mod tests;
