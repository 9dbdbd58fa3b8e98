//! [`Half`]: the acceleration of one direction: packets in, packets out.
//!
//! A half knows a source, the host that sends the data, and a sink, the host that takes it. For the
//! downlink these are the server and the client, for the uplink the reverse; [`crate::Engine`]
//! stands one behind the other.
//!
//! ```text
//!   handle_packet ─▶ on_known ─▶ show ─▶ Phase::on_segment ─▶ Next ─▶ transitions ─▶ settle
//!   poll          ─▶ control packets, then turns (schedule)
//! ```

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use control::Controller;
use tcp::Ring;
use units::{Bytes, Instant, SeqNum};
use wire::{TcpHeaderSpec, Transport, VirtioNetHeader};

use crate::boundary::{Port, Verdict};
use crate::config::{ConfigError, EngineConfig};
use crate::direction::{Direction, End};
use crate::flow::Flow;
use crate::journal::Journal;
use crate::key::FlowKey;
use crate::memory::ahead::Ahead;
use crate::memory::buffer_pool::BufferPool;
use crate::memory::half_open::HalfOpen;
use crate::memory::index::Index;
use crate::memory::slab::Slab;
use crate::memory::timer::Timers;
use crate::meters::{Level, Meters};
use crate::notice::Notices;
use crate::opaque::markers::Marker;
use crate::opaque::queues::Waiting;
use crate::opaque::trickle::Trickles;
use crate::pass::PassReason;
use crate::path::Path;
use crate::path::family::Families;
use crate::path::ready_list::ReadyList;
use crate::path::subscriber::Subscriber;
use crate::phase::next::Next;
use crate::relay::Relay;
use crate::relay::emit::HeaderBuffer;
use crate::report::{FlowState, PassedRecently};
use crate::segment::{Budget, Context, Segment};
use crate::stats::Stats;
use crate::timestamp::COMPARABLE_FOR;
use crate::trial::Trial;

pub(crate) mod broken;
mod deadlines;
pub(crate) mod disputes;
mod feedback;
pub(crate) mod handover;
mod handshakes;
mod image;
mod look_ahead;
mod notices;
mod opaque;
mod output;
mod path_mtu;
pub(crate) mod recover;
mod reopening;
mod reports;
mod room;
mod schedule;
mod transitions;
mod trial;

/// Memory that no flow is refused, in bytes; and the same where that for each flow is more than half of
/// all there is.
const FLOW_MEMORY_MIN: u64 = 16 * 1024;
const FLOW_MEMORY_MIN_OF_MANY: u64 = 4 * 1024;

/// A packet of the half's own making, before its bytes are borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) to: End,
    pub(crate) virtio: VirtioNetHeader,
    pub(crate) header_len: usize,
    payload: Payload,
}

impl Made {
    /// It is for its host as it is, whatever the half of the other direction knows.
    pub(crate) fn is_direct(&self) -> bool {
        self.to == End::Sink || matches!(self.payload, Payload::Direct)
    }

    /// It was not made here, and passes.
    pub(crate) fn passes(&self) -> bool {
        matches!(self.payload, Payload::Opaque)
    }
}

/// Payload behind the header.
#[derive(Clone, Copy, Debug)]
enum Payload {
    None,
    /// Flow, first byte and length of what is held for it.
    Held(u32, SeqNum, u32),
    /// The packet is one that passes, as it came.
    Opaque,
    /// None: it is for its host as it is, whatever the other half knows.
    Direct,
}

/// The accelerator of one direction.
#[derive(Debug)]
pub(crate) struct Half {
    direction: Direction,
    config: EngineConfig,
    flows: Slab<Flow>,
    flow_index: Index,
    half_open: HalfOpen<handshakes::Opening>,
    unused: room::Unused,
    conflicts: Conflicts,
    last: LastPacket,
    clients: Clients,
    subscribers: Slab<Subscriber>,
    /// Paths of subscribers with data.
    paths: Slab<Path>,
    memory: Memory,
    timers: Timers,
    outgoing: Outgoing,
    stats: Stats,
    meters: Meters,
    observed: Observed,
    is_draining: bool,
    /// Longest packet to a sink, as far as the interface says that it leaves through.
    mtu: u32,
}

/// Packets that did not fit, and flows whose hosts disagree.
#[derive(Debug, Default)]
struct Conflicts {
    reopenings: reopening::Reopenings,
    disputes: disputes::Disputes,
    broken: broken::Broken,
}

/// The packet handled last.
#[derive(Debug, Default)]
struct LastPacket {
    /// It did not fit its flow; and whether that is settled.
    misfit: Option<(disputes::Misfit, bool)>,
    /// Its flow, if it carries data and the flow is not in the table.
    unknown: Option<FlowKey>,
    /// True when it is surely its host's.
    is_news: bool,
}

/// Clients, by address.
#[derive(Debug)]
struct Clients {
    /// Subscribers among them.
    index: Index,
    families: Families,
    /// Subscribers all of whose traffic is to come here, or no longer.
    wanted: VecDeque<(IpAddr, bool)>,
    /// Counts of what passes to those that are in no table.
    trickles: Trickles,
}

/// Memory for data, and what is fetched of it ahead.
#[derive(Debug)]
struct Memory {
    pool: BufferPool,
    ahead: Ahead,
}

/// Packets to make, and who has some.
#[derive(Debug)]
struct Outgoing {
    /// Flows with control packets to make.
    outbox: VecDeque<u32>,
    /// Flows of those whose packet is for the sink and may ride on data that is about to go.
    after_data: VecDeque<u32>,
    /// Subscribers that may have something to send.
    ready: ReadyList,
    /// Questions to hosts of flows of which something did not fit.
    questions: VecDeque<(End, TcpHeaderSpec)>,
    /// Echo requests to make, with their subscriber.
    markers: VecDeque<(u32, Marker)>,
    /// The opaque packet that leaves.
    opaque: Option<Waiting>,
    header: HeaderBuffer,
}

/// Accounts of flows for others, and the A/B phase.
#[derive(Debug, Default)]
struct Observed {
    notices: Notices,
    passed_recently: PassedRecently,
    trial: Trial,
    journal: Option<Box<dyn Journal>>,
}

/// Memory that a flow may borrow of its half while it is looked at.
struct Tools<'a> {
    pool: &'a mut BufferPool,
    header: &'a mut HeaderBuffer,
}

impl Half {
    /// One without flows.
    ///
    /// # Errors
    /// A setting that makes no sense.
    pub(crate) fn new(direction: Direction, config: EngineConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            direction,
            flows: Slab::default(),
            flow_index: Index::new(config.hash_seed),
            half_open: HalfOpen::new(config.hash_seed),
            unused: room::Unused::default(),
            conflicts: Conflicts::default(),
            last: LastPacket::default(),
            clients: Clients {
                index: Index::new(config.hash_seed),
                families: Families::new(config.hash_seed),
                wanted: VecDeque::new(),
                trickles: Trickles::default(),
            },
            subscribers: Slab::default(),
            paths: Slab::default(),
            memory: Memory { pool: BufferPool::default(), ahead: Ahead::new() },
            timers: Timers::default(),
            outgoing: Outgoing {
                outbox: VecDeque::new(),
                after_data: VecDeque::new(),
                ready: ReadyList::default(),
                questions: VecDeque::new(),
                markers: VecDeque::new(),
                opaque: None,
                header: [0; TcpHeaderSpec::MAX_LEN],
            },
            stats: Stats::default(),
            meters: Meters::default(),
            observed: Observed::default(),
            is_draining: false,
            mtu: u32::MAX,
            config,
        })
    }

    /// Direction of its data.
    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// Counters.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Levels and distributions.
    pub(crate) fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Subscribers that are known: those with flows, and those that are remembered.
    pub(crate) fn subscriber_count(&self) -> usize {
        self.subscribers.len()
    }

    /// The settings in force.
    pub(crate) fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Puts `config`, which must be valid, in force.
    pub(crate) fn reconfigure(&mut self, config: EngineConfig) {
        if config.controller != self.config.controller {
            self.outdate_controllers();
        }
        let is_regrouped = config.ipv6_prefix_len != self.config.ipv6_prefix_len;
        self.config = EngineConfig { hash_seed: self.config.hash_seed, ..config };
        if is_regrouped {
            self.find_families();
            self.regroup_handshakes();
        }
    }

    /// Every subscriber gets a controller of the settings with its next new flow.
    fn outdate_controllers(&mut self) {
        for (_, subscriber) in self.subscribers.iter_mut() {
            subscriber.is_outdated = true;
        }
    }

    /// Has every flow noted in `journal` from here on.
    pub(crate) fn set_journal(&mut self, journal: Box<dyn Journal>) {
        self.observed.journal = Some(journal);
    }

    /// The journal, for another half.
    pub(crate) fn take_journal(&mut self) -> Option<Box<dyn Journal>> {
        self.observed.journal.take()
    }

    /// Begins beside `other`, which has worked for a while: what that was told to do holds for both.
    pub(crate) fn take_place_beside(&mut self, other: &Self, mtu: u32) {
        (self.is_draining, self.mtu) = (other.is_draining, mtu);
        self.memory.pool.set_origin(other.memory.pool.no_memory());
        self.observed.notices.set_wants(other.observed.notices.wants());
        other.control_group().into_iter().for_each(|group| self.begin_trial(group));
    }

    /// Has the data of flows that begin held where `origin` comes from.
    pub(crate) fn set_ring_origin(&mut self, origin: Ring) {
        self.memory.pool.set_origin(origin);
    }

    /// No memory, from where held data lies.
    pub(crate) fn ring_origin(&self) -> Ring {
        self.memory.pool.no_memory()
    }

    /// Bytes acknowledged to sources that sinks have not acknowledged, over all flows.
    pub(crate) fn debt(&self) -> Bytes {
        self.meters.debt()
    }

    /// True when the running sums are what the flows add up to: looks at all of them.
    pub(crate) fn levels_add_up(&self) -> bool {
        let mut reckoned = Meters::default();
        reckoned.reckon(self.levels());
        let is_same = |state: FlowState| reckoned.flows(state) == self.meters.flows(state);
        reckoned.debt() == self.meters.debt() && FlowState::ALL.into_iter().all(is_same)
    }

    /// Parts of each flow and of each handshake under way in the levels.
    fn levels(&self) -> impl Iterator<Item = Level> {
        let handshakes = std::iter::repeat_n(handshakes::OBSERVING, self.half_open.len());
        self.flows.iter().map(|(_, flow)| flow.level()).chain(handshakes)
    }

    /// The flow of the packet handled last, if it carries data and is not in the table; told once.
    pub(crate) fn take_unknown(&mut self) -> Option<FlowKey> {
        self.last.unknown.take()
    }

    /// Reason why a flow passes, if it is among those passed last.
    pub(crate) fn reason_of_passing(&self, client: SocketAddr, server: SocketAddr) -> Option<PassReason> {
        self.observed.passed_recently.reason_of(client, server)
    }

    /// True when the packet handled last is surely its host's; told once.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.last.is_news)
    }

    /// Takes in a packet that came from `from`, with its virtio header.
    ///
    /// [`Verdict::Forward`] asks for the packet, as edited in place, to go on to the other end with
    /// the same virtio header. After this, [`Half::poll`] may have packets to send.
    pub(crate) fn handle_packet(
        &mut self,
        from: End,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        self.step_ahead();
        self.stats.packets_in += 1;
        self.last.unknown = None;
        self.last.is_news = false;
        let verdict = match wire::parse(packet) {
            Ok(parsed) => match parsed.transport {
                Transport::Tcp(tcp) => {
                    let is_known =
                        self.handle_segment(&mut Segment::new(from, &parsed, &tcp, virtio, packet), now);
                    match is_known {
                        Some(verdict) => verdict,
                        None if from == End::Source => self.on_opaque(&parsed, virtio, packet, now),
                        None => {
                            self.on_passed_reply(&parsed, &tcp, now);
                            Verdict::Forward
                        }
                    }
                }
                Transport::Icmp(icmp)
                    if from == End::Sink && self.on_echo_reply(&icmp, &parsed, packet, now) =>
                {
                    Verdict::Consumed
                }
                Transport::Icmp(icmp) if from == End::Sink => {
                    self.handle_icmp(&icmp, &parsed, packet, now);
                    Verdict::Forward
                }
                transport => {
                    match transport {
                        Transport::Fragment => self.stats.fragments += 1,
                        Transport::Truncated => self.stats.truncated += 1,
                        _ => self.stats.not_tcp += 1,
                    }
                    match (from, transport) {
                        (End::Source, _) => self.on_opaque(&parsed, virtio, packet, now),
                        (End::Sink, Transport::Udp(udp)) => {
                            self.on_passed_datagram(&parsed, &udp, packet, now);
                            Verdict::Forward
                        }
                        (End::Sink, _) => Verdict::Forward,
                    }
                }
            },
            Err(_) => count_and_pass(&mut self.stats.unparsable),
        };
        self.stats.packets_forwarded += u64::from(verdict == Verdict::Forward);
        verdict
    }

    /// Verdict on a segment; none if it is of no flow in the table and opens none: it passes.
    fn handle_segment(&mut self, segment: &mut Segment<'_>, now: Instant) -> Option<Verdict> {
        let key = FlowKey::of(segment.ip(), segment.tcp, segment.from);
        match self.flow_index.get(&key, &self.flows) {
            Some(id) => {
                self.note_begin(id);
                let verdict = self.on_known(id, segment, now);
                self.note_end();
                Some(verdict)
            }
            None => self.on_unknown(key, segment, now),
        }
    }

    /// A segment of no flow in the table: it passes, and may open one, or belong to a handshake under way.
    fn on_unknown(&mut self, key: FlowKey, segment: &mut Segment<'_>, now: Instant) -> Option<Verdict> {
        if let Some(place) = self.half_open.find(&key) {
            return Some(self.on_handshake(place, segment, now));
        }
        if segment.opens() {
            if segment.is_intact() {
                self.observe(key, segment, now);
            }
            return Some(Verdict::Forward);
        }
        if self.hear_broken(key, segment) {
            return Some(Verdict::Consumed);
        }
        self.stats.unknown_flow += 1;
        let is_data = segment.tcp.payload_len > 0;
        if is_data && !segment.opens_or_ends() {
            self.last.unknown = Some(key);
        }
        None
    }

    /// A segment of a flow in the table.
    fn on_known(&mut self, id: u32, segment: &mut Segment<'_>, now: Instant) -> Verdict {
        // What its host will drop must not be believed (H7).
        let is_intact = segment.is_intact();
        if is_intact
            && !self.conflicts.reopenings.is_empty()
            && let Some(key) = self.answer_reopening(id, segment, now)
        {
            return self.on_unknown(key, segment, now).unwrap_or(Verdict::Forward);
        }
        let Some(flow) = self.flows.get_mut(id) else { return Verdict::Forward };
        if now.saturating_since(flow.last_activity) >= COMPARABLE_FOR
            && let Some(relay) = flow.phase.relay_mut()
        {
            relay.outdate_timestamps();
        }
        if segment.opens() && is_intact && flow.phase.gives_way_to(segment) {
            self.reopen(id, segment, now);
            return Verdict::Forward;
        }
        // From here on the segment is this flow's, and not the first of one on the same ports.
        flow.last_activity = now;
        self.note_packet(id, segment);
        if !is_intact {
            // What is ours is dropped here, what only passes goes on.
            let is_ours = self.flows.get(id).is_some_and(|flow| flow.phase.relay().is_some());
            self.stats.bad_checksums += 1;
            return if is_ours { Verdict::Consumed } else { Verdict::Forward };
        }
        match self.show(id, segment, now) {
            Some((verdict, Next::Dispute(answer))) => self.dispute(id, segment, (verdict, answer), now),
            Some((verdict, next)) => {
                self.apply(id, next, now);
                verdict
            }
            None => Verdict::Forward,
        }
    }

    /// Shows a segment to its flow's phase; memory comes and goes with it.
    fn show(&mut self, id: u32, segment: &mut Segment<'_>, now: Instant) -> Option<(Verdict, Next)> {
        if segment.from == End::Source && segment.has_content() {
            self.open_path(self.flows.get(id)?.subscriber);
        }
        let (counted, stand) = (self.before(), self.stand());
        let shown = self.look_at(id, now, |flow, cx, tools| {
            let before = flow.phase.relay().map_or(0, Relay::memory);
            if let Some(relay) = flow.phase.relay_mut().filter(|_| segment.from == End::Source) {
                relay.lend(tools.pool, segment.tcp.payload_len);
            }
            let shown = flow.phase.on_segment(segment, cx);
            if let Some(relay) = flow.phase.relay_mut() {
                let is_short = cx.stats.buffer_bytes_now > cx.config.buffer_max.get() / 2;
                relay.give_back(tools.pool, is_short, now);
                cx.note_memory(before, relay.memory());
            }
            shown
        });
        if let Some(counted) = counted {
            self.note_changes(id, counted, now);
        }
        if let Some(stand) = stand {
            self.measure(id, stand, segment.from == End::Source && segment.has_content(), now);
        }
        shown
    }

    /// Lets `act` handle a flow, with what it may use.
    fn look_at<R>(
        &mut self,
        id: u32,
        now: Instant,
        act: impl FnOnce(&mut Flow, &mut Context<'_>, Tools<'_>) -> R,
    ) -> Option<R> {
        let flow = self.flows.get_mut(id)?;
        let subscriber = self.subscribers.get(flow.subscriber)?;
        let path = subscriber.path().and_then(|path| self.paths.get_mut(path));
        let memory = flow.phase.relay().map_or(Bytes::ZERO, |relay| {
            let buffered = path.as_deref().map_or(0, |path| path.buffered);
            memory_limit(&self.config, &self.stats, buffered, relay)
        });
        let budget = Budget { memory, flows: subscriber.flows };
        let before = flow.level();
        let (stats, meters) = (&mut self.stats, &mut self.meters);
        let mut cx = Context { config: &self.config, path, budget, stats, meters, is_news: false, now };
        let result =
            act(flow, &mut cx, Tools { pool: &mut self.memory.pool, header: &mut self.outgoing.header });
        self.last.is_news |= cx.is_news;
        self.meters.follow(before, flow.level());
        Some(result)
    }

    /// The path to a subscriber, if there was data for it.
    fn path_of(&self, subscriber_id: u32) -> Option<&Path> {
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
        let mut controller = subscriber.controller(&self.config.controller);
        if let Some((rtt, at)) = subscriber.round_trip() {
            controller.on_round_trip(rtt, at);
        }
        subscriber.set_path(self.paths.insert(Path::new(controller, subscriber.last_used)));
    }

    /// Puts a subscriber in line if its flows may have something to send.
    fn wake(&mut self, subscriber_id: u32) {
        let path = self.subscribers.get(subscriber_id).and_then(Subscriber::path);
        if let Some(path) = path.and_then(|path| self.paths.get_mut(path)) {
            self.outgoing.ready.wake(subscriber_id, path);
        }
    }

    /// The port that leads to `end`.
    pub(crate) fn port_to(&self, end: End) -> Port {
        self.direction.port_to(end)
    }

    fn count_pass(&mut self, key: FlowKey, reason: PassReason) {
        self.stats.count_pass(reason);
        self.observed.passed_recently.note(&key, self.direction, reason);
    }
}

fn count_and_pass(counter: &mut u64) -> Verdict {
    *counter += 1;
    Verdict::Forward
}

/// Memory a flow may take: as much as is left of its subscriber's, which may take as much as is left of all
/// (dynamic thresholds, Choudhury and Hahne 1998). So a subscriber that takes much leaves as much to the next
/// one, and n that are as greedy come out equal, however many flows each has. A flow whose sink has shut its
/// window shares in one half of it only, and has what every flow may have where that is used up: more data
/// for it would wait there, and starve those whose sinks read (H20).
///
/// A power of two, as rings are. `buffered` is what its subscriber takes already, in bytes.
fn memory_limit(config: &EngineConfig, stats: &Stats, buffered: u64, relay: &Relay) -> Bytes {
    let least = least_for_each(config, stats);
    let part = |max: Bytes| max.get() / if relay.is_sink_window_shut() { 2 } else { 1 };
    let left_of_all = part(least.left).saturating_sub(stats.buffer_bytes_now);
    let left_of_its = part(config.subscriber_buffer_max).min(left_of_all).saturating_sub(buffered);
    let limit = left_of_its.min(config.flow_buffer_max.get()).max(least.per_flow);
    Bytes::new(1 << limit.ilog2())
}

/// Bytes that every flow may have, and bytes that this leaves to all.
struct Least {
    per_flow: u64,
    left: Bytes,
}

/// Room for the least of each other flow is kept free, up to three quarters of all memory, so that many flows
/// whose sinks read slowly stay within it: the first of them do not take what the last ones cannot be
/// refused.
fn least_for_each(config: &EngineConfig, stats: &Stats) -> Least {
    let all = config.buffer_max.get();
    let others = (stats.flows_now - stats.half_open_now).saturating_sub(1);
    let for_the_others = |each: u64| others.saturating_mul(each);
    let is_many = for_the_others(FLOW_MEMORY_MIN) > all / 2;
    let per_flow = if is_many { FLOW_MEMORY_MIN_OF_MANY } else { FLOW_MEMORY_MIN };
    Least { per_flow, left: Bytes::new(all - for_the_others(per_flow).min(all / 4 * 3)) }
}

#[cfg(test)]
mod tests;
