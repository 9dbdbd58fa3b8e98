//! [`Accelerator`]: the engine as the packet loop's processor.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, mpsc};

use ::handover::{Admission, ForwardingTable, NextHop, Note, Peer};
use control::Feedback;
use engine::{
    ConfigError, ControlGroup, Engine, EngineConfig, Journal, JournalEntry, MemoryAdvice, Middlebox, Notice,
    PassReason, Port, Stats, Transmit, UnknownFlow, Verdict, Wants,
};
use io::{IoError, MappedState, RingArena, StateFile};
use units::{Bytes, Duration, Instant};
use wire::VirtioNetHeader;

use crate::ab::SharedTally;
use crate::{
    EngineMeters, FlowList, FlowState, FlowTransfer, Frame, HandoverRequest, Inspection, Ledger, Outlets,
    Processor, ProcessorStatus, Relayed, SubscriberHandover, SubscriberList, SubscriberView, status,
    subscribers,
};

mod handover;
mod prepared_state;

use self::handover::Early;
use self::prepared_state::PreparedState;

/// State of a flow that goes to another process, bytes: what it takes with 100,000 flows that hold data is 595.
const FLOW_STATE_LEN: usize = 640;

/// Smallest and largest room for held data, in bytes: only addresses, until it is used.
const ARENA_MIN: u64 = 64 << 20;
const ARENA_MAX: usize = 1 << 40;

/// Settings as they are read anew.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reread {
    /// The engine's: they hold for new flows.
    pub engine: EngineConfig,
    /// Changed ones that cannot hold before the next start, as `mobile = eth2`.
    pub at_next_start: Vec<String>,
}

/// Reads the settings anew; an error is one line.
pub type ReadSettings = Box<dyn FnMut() -> Result<Reread, String> + Send>;

/// The engine, and where its settings come from.
pub struct Accelerator {
    engine: Engine,
    /// The settings of all shards together, and how many there are: the engine has its share.
    whole: EngineConfig,
    shards: usize,
    read_settings: Option<ReadSettings>,
    /// Settings read last that have to wait for a start.
    at_next_start: Vec<String>,
    /// Waits until the uplink is accelerated.
    uplink_journal: Option<Box<dyn Journal>>,
    /// Memory of held data: another process can go on with it. None where the machine has no such memory.
    arena: Option<Arc<RingArena>>,
    /// Longest packets to either side, as told.
    mtus: [u32; 2],
    /// Counts at the time when the flows went to another process.
    given_up: Option<ProcessorStatus>,
    /// Memory for the state of its flows, for another process.
    prepared: PreparedState,
    /// Engine that is ready for flows of another process.
    expecting: Option<Arriving>,
    /// Flows of another process that are not ours yet.
    arriving: Option<Arriving>,
    /// Measurements of an A/B phase.
    measured: SharedTally,
    /// Subscribers that other boxes have, and the ways there.
    forwarding: ForwardingTable,
    /// Packets of subscribers that are being taken: the box that had them has sent them on.
    early: Early,
    outlets: Outlets,
    /// Record of them on disk.
    ledger: Option<Ledger>,
}

/// An engine with flows of another process, and the memory that their held data lies in.
struct Arriving {
    engine: Engine,
    arena: Option<Arc<RingArena>>,
}

impl Arriving {
    /// True when its held data is in `memory`.
    fn is_in(&self, memory: Option<&OwnedFd>) -> bool {
        let (Some(arena), Some(memory)) = (&self.arena, memory) else { return false };
        arena.is_of(memory).unwrap_or(false)
    }

    /// Forgets them: their held data is another process's, and nothing may be given back.
    fn forget(self) {
        std::mem::forget(self.engine);
    }
}

impl fmt::Debug for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accelerator").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Accelerator {
    /// One for each of `shards` shards, which together keep to the limits of `config`; the first
    /// one reads the settings anew, if anyone is to.
    ///
    /// # Errors
    /// A setting that makes no sense.
    pub fn for_shards(
        config: &EngineConfig,
        shards: usize,
        read: Option<ReadSettings>,
    ) -> Result<Vec<Self>, ConfigError> {
        config.validate()?;
        let mut read = read;
        let make = |_| {
            let share = share_of(config, shards);
            // Where there is no such memory, the heap does, and flows cannot go to another process.
            let arena = RingArena::new(arena_len(&share)).ok();
            let engine = engine_with(share, arena.as_ref())?;
            Ok(Self {
                engine,
                whole: config.clone(),
                shards,
                read_settings: read.take(),
                at_next_start: Vec::new(),
                uplink_journal: None,
                arena,
                mtus: [u32::MAX; 2],
                given_up: None,
                prepared: PreparedState::default(),
                expecting: None,
                arriving: None,
                measured: SharedTally::default(),
                forwarding: ForwardingTable::new(config.ipv6_prefix_len),
                early: Early::default(),
                outlets: Outlets::new(),
                ledger: None,
            })
        };
        (0..shards).map(make).collect()
    }

    /// Puts `engine` in the place of the one it has, which is given back; the journals stay.
    fn exchange(&mut self, mut engine: Engine) -> Engine {
        let [down, up] = self.engine.take_journals();
        if let Some(down) = down {
            engine.set_journal(down);
        }
        self.uplink_journal = up.or(self.uplink_journal.take());
        let before = std::mem::replace(&mut self.engine, engine);
        self.start_uplink_journal();
        before
    }

    /// An engine for flows of another process, whose held data is in `memory` or comes with their state.
    fn arriving_in(&self, memory: Option<OwnedFd>) -> Result<Arriving, String> {
        let arena = memory.map(RingArena::open).transpose().map_err(|error| error.to_string())?;
        let arena = arena.or_else(|| self.arena.clone());
        let share = share_of(&self.whole, self.shards);
        let engine = engine_with(share, arena.as_ref()).map_err(|error| error.to_string())?;
        Ok(Arriving { engine, arena })
    }

    /// Decides the next hop of a packet that came from a side.
    fn next_hop(&mut self, packet: &[u8], from: Port) -> NextHop {
        if self.forwarding.is_empty() {
            return NextHop::Here;
        }
        let Some(ends) = ends_of(packet, from) else { return NextHop::Here };
        self.forwarding.note_packet(ends, from, false);
        self.forwarding.next_hop(ends)
    }

    fn start_uplink_journal(&mut self) {
        if self.engine.uplink_stats().is_some()
            && let Some(journal) = self.uplink_journal.take()
        {
            self.engine.set_uplink_journal(journal);
        }
    }
}

/// Client and server of a TCP packet that came from a side.
fn ends_of(packet: &[u8], from: Port) -> Option<(SocketAddr, SocketAddr)> {
    let parsed = wire::parse(packet).ok()?;
    let tcp = parsed.tcp()?;
    let sender = SocketAddr::new(parsed.ip.src, tcp.src_port);
    let receiver = SocketAddr::new(parsed.ip.dst, tcp.dst_port);
    Some(if from == Port::Mobile { (sender, receiver) } else { (receiver, sender) })
}

/// An engine whose held data lies in `arena`, or on the heap.
fn engine_with(config: EngineConfig, arena: Option<&Arc<RingArena>>) -> Result<Engine, ConfigError> {
    let mut engine = Engine::new(config)?;
    engine.set_memory_advice(memory_advice());
    if let Some(arena) = arena {
        let arena: Arc<RingArena> = Arc::clone(arena);
        engine.set_ring_provider(arena);
    }
    Ok(engine)
}

/// Memory advice that the kernel and the processor can follow for an engine.
fn memory_advice() -> MemoryAdvice {
    MemoryAdvice { on_piece: io::prefer_huge_pages, populate: io::populate, prefetch: io::prefetch }
}

/// Room for held data: twice what may be held, since blocks of memory that are given back are joined with their
/// neighbours only, and both directions may hold as much. Memory is taken as it is first used.
fn arena_len(config: &EngineConfig) -> usize {
    let directions = if config.policy.includes_uplink() { 2 } else { 1 };
    let len = config.buffer_max.get().saturating_mul(2 * directions).max(ARENA_MIN);
    usize::try_from(len).unwrap_or(usize::MAX).min(ARENA_MAX)
}

/// Share of one of `shards` shards in the limits of the whole. Limits of a subscriber are its own: it is in
/// one shard.
fn share_of(config: &EngineConfig, shards: usize) -> EngineConfig {
    let shards = shards.max(1);
    EngineConfig {
        flows_max: config.flows_max.div_ceil(shards),
        half_open_max: config.half_open_max.div_ceil(shards),
        buffer_max: Bytes::new(config.buffer_max.get().div_ceil(shards as u64)),
        ..config.clone()
    }
}

impl Middlebox for Accelerator {
    fn handle_packet(
        &mut self,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        match self.next_hop(packet, from) {
            NextHop::Here => self.engine.handle_packet(from, virtio, packet, now),
            NextHop::Past => Verdict::Forward,
            NextHop::To(peer) => {
                if let Some(outlet) = self.outlets.get(usize::from(peer)) {
                    let relayed = Relayed { from, virtio: *virtio, packet: packet.to_vec() };
                    // What has no room is lost, as on any link.
                    drop(outlet.try_send(Frame::Packet(relayed)));
                }
                Verdict::Consumed
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.engine.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        self.engine.poll_transmit(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.engine.next_deadline()
    }

    fn handle_feedback(&mut self, client: IpAddr, feedback: &Feedback) -> bool {
        self.engine.handle_feedback(client, feedback)
    }
}

impl Processor for Accelerator {
    type Settings = EngineConfig;

    fn look_ahead<'a>(&mut self, from: Port, packets: impl Iterator<Item = &'a [u8]> + Clone) {
        self.engine.look_ahead(packets.map(|packet| (from, packet)));
    }

    fn take_unknown_flow(&mut self) -> Option<UnknownFlow> {
        self.engine.take_unknown_flow()
    }

    fn take_news(&mut self) -> bool {
        self.engine.take_news()
    }

    fn take_wanted_subscriber(&mut self) -> Option<(IpAddr, bool)> {
        self.engine.take_wanted_subscriber()
    }

    fn set_mtu(&mut self, to: Port, mtu: u32, now: Instant) {
        self.mtus[to.index()] = mtu;
        self.engine.set_mtu(to, mtu, now);
    }

    fn refuse_super_packets(&mut self) {
        self.whole.super_packets = false;
        // Nothing that was valid stops being so.
        drop(self.engine.reconfigure(&share_of(&self.whole, self.shards)));
    }

    fn refuse_to_schedule(&mut self) {
        self.whole.schedule_passed = false;
        drop(self.engine.reconfigure(&share_of(&self.whole, self.shards)));
    }

    fn read_settings(&mut self) -> Result<EngineConfig, String> {
        let read = self.read_settings.as_mut().ok_or("it was started without a settings file")?()?;
        self.at_next_start = read.at_next_start;
        Ok(read.engine)
    }

    fn apply(&mut self, settings: &EngineConfig) -> Result<String, String> {
        let unseeded = |config: &EngineConfig| EngineConfig { hash_seed: 0, ..config.clone() };
        // That concerns the devices, which stay as they are.
        let EngineConfig { super_packets, schedule_passed, .. } = self.whole;
        let settings = &EngineConfig { super_packets, schedule_passed, ..settings.clone() };
        let is_same = unseeded(settings) == unseeded(&self.whole);
        settings.validate().map_err(|error| error.to_string())?;
        let share = share_of(settings, self.shards);
        self.engine.reconfigure(&share).map_err(|error| error.to_string())?;
        self.whole = settings.clone();
        self.start_uplink_journal();
        let waiting = std::mem::take(&mut self.at_next_start).join(", ");
        Ok(match (is_same, waiting.is_empty()) {
            (true, true) => "no setting has changed".to_owned(),
            (false, true) => "new settings hold for new flows".to_owned(),
            (true, false) => format!("{waiting}: at the next start, not before"),
            (false, false) => {
                format!("new settings hold for new flows; {waiting}: at the next start, not before")
            }
        })
    }

    fn begin_drain(&mut self, now: Instant) {
        self.engine.drain(now);
    }

    fn is_drained(&self) -> bool {
        self.engine.is_empty()
    }
}

impl Inspection for Accelerator {
    fn openings(&self) -> [u64; 2] {
        let stats = self.engine.stats();
        [stats.opened_by_servers, stats.opened_by_clients]
    }

    fn status(&self) -> ProcessorStatus {
        self.given_up.clone().unwrap_or_else(|| status::of_engine(&self.engine))
    }

    fn set_wants(&mut self, wants: Wants) {
        self.engine.set_wants(wants);
    }

    fn set_control_group(&mut self, group: Option<ControlGroup>) {
        self.engine.set_control_group(group);
        if group.is_some() {
            self.measured = SharedTally::default();
        }
    }

    fn gather_measured(&mut self) {
        let engine = &mut self.engine;
        self.measured.try_fill(|tally| {
            while let Some(flow) = engine.take_measured() {
                tally.add(&flow);
            }
            tally.lost += engine.take_lost_measured();
        });
    }

    fn release_idle_memory(&mut self) {
        if let Some(arena) = &self.arena {
            arena.release_idle();
        }
    }

    fn measured(&mut self) -> SharedTally {
        self.gather_measured();
        self.measured.clone()
    }

    fn take_notice(&mut self) -> Option<Notice> {
        self.engine.take_notice()
    }

    fn take_lost_notices(&mut self) -> u64 {
        self.engine.take_lost_notices()
    }

    fn refusals(&self) -> u64 {
        use PassReason::{HalfOpenFull, MemoryFull, TableFull};
        let of = |stats: &Stats| {
            let passed: u64 =
                [TableFull, HalfOpenFull, MemoryFull].map(|why| stats.passed_for(why)).iter().sum();
            passed + stats.memory_refused
        };
        [Some(self.engine.stats()), self.engine.uplink_stats()].into_iter().flatten().map(of).sum()
    }

    fn meters(&self) -> EngineMeters {
        EngineMeters::of(&self.engine)
    }

    fn debt_timeout(&self) -> Duration {
        self.engine.config().debt_timeout
    }

    fn memory(&self) -> (u64, u64) {
        let held = [Some(self.engine.stats()), self.engine.uplink_stats()];
        let held = held.into_iter().flatten().map(|stats| stats.buffer_bytes_now).sum();
        (self.engine.config().buffer_max.get(), held)
    }

    fn flows(&self, skip: usize, count: usize, now: Instant) -> FlowList {
        status::flows_of_engine(&self.engine, skip, count, now)
    }

    fn subscribers(&self, from: u64, now: Instant) -> SubscriberList {
        subscribers::list_of_engine(&self.engine, from, now)
    }

    fn subscriber(&self, client: IpAddr, from: u64, now: Instant) -> SubscriberView {
        subscribers::view_of_engine(&self.engine, client, from, now)
    }

    fn flow_count(&self) -> usize {
        let stats = [Some(self.engine.stats()), self.engine.uplink_stats()];
        stats.into_iter().flatten().map(|stats| stats.flows_now as usize).sum()
    }
}

impl FlowTransfer for Accelerator {
    fn keep_journals(&mut self, downlink: Box<dyn Journal>, uplink: Box<dyn Journal>) {
        self.engine.set_journal(downlink);
        self.uplink_journal = Some(uplink);
        self.start_uplink_journal();
    }

    fn change_journals(&mut self, downlink: Box<dyn Journal>, uplink: Box<dyn Journal>) {
        let [down, up] = self.engine.take_journals();
        let before = [down, up, self.uplink_journal.take()];
        self.keep_journals(downlink, uplink);
        self.engine.note_flows();
        before.into_iter().flatten().for_each(|mut journal| journal.retire());
    }

    fn prepare_to_store(&mut self, done: mpsc::Sender<()>) {
        self.prepared = PreparedState::begin(self.flow_count() * FLOW_STATE_LEN, done);
    }

    fn store(&self) -> Result<FlowState, String> {
        let memory = self.arena.as_ref().map(|arena| arena.as_fd().try_clone_to_owned()).transpose();
        let memory = memory.map_err(|error| format!("its held data cannot be shared: {error}"))?;
        let text = |error: IoError| error.to_string();
        let mut state = self.prepared.take().map_or_else(StateFile::create, Ok).map_err(text)?;
        let mut written = Ok(());
        self.engine.store_to(&mut |piece| {
            if written.is_ok() {
                written = state.append(piece);
            }
        });
        let state = written.and_then(|()| state.finish()).map_err(text)?;
        Ok(FlowState { state, memory })
    }

    fn expect_flows(&mut self, flows: usize, memory: Option<BorrowedFd<'_>>) {
        let memory = memory.map(|memory| memory.try_clone_to_owned()).transpose();
        // Where it fails, it is said when they come.
        let expecting = memory.ok().and_then(|memory| self.arriving_in(memory).ok());
        self.expecting = expecting.map(|mut arriving| {
            let halves = if arriving.engine.uplink_stats().is_some() { 2 } else { 1 };
            arriving.engine.prepare_for(flows / halves);
            arriving
        });
    }

    fn resume(&mut self, flows: FlowState, now: Instant) -> Result<(), String> {
        let text = |error: IoError| error.to_string();
        let state = MappedState::open(flows.state.as_fd()).map_err(text)?;
        let expecting = self.expecting.take().filter(|expecting| expecting.is_in(flows.memory.as_ref()));
        let Arriving { mut engine, arena } = match expecting {
            Some(expecting) => expecting,
            None => self.arriving_in(flows.memory)?,
        };
        let resumed = engine.resume(&state);
        for port in Port::BOTH {
            engine.set_mtu(port, self.mtus[port.index()], now);
        }
        let arriving = Arriving { engine, arena };
        match resumed {
            Ok(()) => self.arriving = Some(arriving),
            Err(_) => arriving.forget(),
        }
        resumed.map_err(|error| error.to_string())
    }

    fn held_data(&self) -> Option<OwnedFd> {
        self.arena.as_ref().and_then(|arena| arena.as_fd().try_clone_to_owned().ok())
    }

    fn recover(
        &mut self,
        left: &[(Port, JournalEntry)],
        memory: Option<OwnedFd>,
        now: Instant,
    ) -> Result<Vec<usize>, String> {
        let Arriving { mut engine, arena } = self.arriving_in(memory)?;
        for port in Port::BOTH {
            engine.set_mtu(port, self.mtus[port.index()], now);
        }
        let is_lost = |at: &usize| {
            let entry = left.get(*at);
            entry.is_some_and(|(receiver, entry)| engine.recover(*receiver, entry, now).is_err())
        };
        let lost = (0..left.len()).filter(is_lost).collect();
        self.arriving = Some(Arriving { engine, arena });
        Ok(lost)
    }

    fn own(&mut self) {
        let Some(Arriving { engine, arena }) = self.arriving.take() else { return };
        if let Some(arena) = &arena {
            arena.own();
        }
        drop(self.exchange(engine));
        self.arena = arena;
        self.engine.note_flows();
    }

    fn disown(&mut self) {
        if let Some(arriving) = self.arriving.take() {
            arriving.forget();
        }
    }

    fn abandon(&mut self) {
        self.engine.give_up_flows();
        self.given_up = Some(status::without_levels(status::of_engine(&self.engine)));
        let passing = EngineConfig { accelerate: false, ..share_of(&self.whole, self.shards) };
        // The settings were good before.
        if let Ok(engine) = engine_with(passing, None) {
            // Its held data is the other process's: nothing may be given back.
            std::mem::forget(self.exchange(engine));
        }
    }

    fn part(&mut self) {
        // Whatever they say is the other process's.
        drop((self.engine.take_journals(), self.uplink_journal.take()));
        self.abandon();
    }

    fn resynchronise(&mut self, now: Instant) {
        self.engine.resynchronise(now);
    }
}

impl SubscriberHandover for Accelerator {
    fn set_outlets(&mut self, outlets: Outlets, ipv6_prefix_len: u8, ledger: Ledger) {
        (self.outlets, self.forwarding) = (outlets, ForwardingTable::new(ipv6_prefix_len));
        self.ledger = Some(ledger);
    }

    fn remember(&mut self, notes: &[Note]) {
        notes.iter().for_each(|note| note.lead(&mut self.forwarding));
    }

    fn handle_handover_request(&mut self, request: HandoverRequest, now: Instant) {
        self.do_handover_request(request, now);
    }

    fn handle_relayed(
        &mut self,
        by: Peer,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        let Some(ends) = ends_of(packet, from) else { return Verdict::Consumed };
        let admission = self.forwarding.admission_of(by, ends);
        self.forwarding.note_packet(ends, from, true);
        match admission {
            Admission::Here => return self.engine.handle_packet(from, virtio, packet, now),
            Admission::Past => return Verdict::Forward,
            Admission::Early => self.wait_for_flows(ends.0.ip(), by, from, virtio, packet),
            Admission::Astray => {}
            Admission::Refused => self.ledger.iter().for_each(Ledger::note_refused),
        }
        Verdict::Consumed
    }

    fn take_early(&mut self) -> Option<(Peer, Relayed)> {
        self.early.take(&self.forwarding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_keep_to_the_limits_together() {
        let config = EngineConfig { flows_max: 101, ..EngineConfig::default() };
        let shares: Vec<EngineConfig> = Accelerator::for_shards(&config, 4, None)
            .unwrap()
            .iter()
            .map(|shard| shard.engine.config().clone())
            .collect();
        assert_eq!(shares.len(), 4);
        for share in shares {
            assert_eq!((share.flows_max, share.half_open_max), (26, 16_384));
            assert_eq!(share.buffer_max, Bytes::from_mib(256));
            assert_eq!(share.subscriber_buffer_max, config.subscriber_buffer_max);
        }
        let none = EngineConfig { flows_max: 0, ..config };
        assert!(Accelerator::for_shards(&none, 4, None).is_err());
    }

    #[test]
    fn settings_are_divided_too_when_they_change() {
        let config = EngineConfig { flows_max: 100, ..EngineConfig::default() };
        let mut shards = Accelerator::for_shards(&config, 2, None).unwrap();
        let shard = &mut shards[1];
        assert_eq!(shard.apply(&config).unwrap(), "no setting has changed");
        let more = EngineConfig { flows_max: 300, ..config };
        assert!(shard.apply(&more).unwrap().contains("new settings"));
        assert_eq!(shard.engine.config().flows_max, 150);
        shard.refuse_super_packets();
        assert!(!shard.engine.config().super_packets);
        assert_eq!(shard.apply(&more).unwrap(), "no setting has changed", "the devices are the same");
        assert!(!shard.engine.config().super_packets);
        assert!(shard.apply(&EngineConfig { flows_max: 0, ..more }).is_err());
        assert!(shard.read_settings().unwrap_err().contains("without a settings file"));
    }

    #[test]
    fn what_has_to_wait_for_the_next_start_is_said() {
        let engine = EngineConfig::default();
        let reread = Reread { engine: engine.clone(), at_next_start: vec!["mobile = eth9".to_owned()] };
        let mut shards =
            Accelerator::for_shards(&engine, 1, Some(Box::new(move || Ok(reread.clone())))).unwrap();
        let settings = shards[0].read_settings().unwrap();
        assert_eq!(shards[0].apply(&settings).unwrap(), "mobile = eth9: at the next start, not before");
        assert_eq!(shards[0].apply(&settings).unwrap(), "no setting has changed", "said once");
    }
}
