//! Handshakes under way: nothing in them is changed or answered. Each is a small record until the packet that
//! completes it makes a flow (H20).
//!
//! ```text
//!   SYN ─▶ observe ─▶ watch ─▶ HalfOpen ─▶ on_handshake ─▶ establish ─▶ Accelerated, Windowed, Watched
//!                                             └─▶ end_handshake
//! ```

use std::net::IpAddr;

use units::Instant;

use super::Half;
use crate::boundary::{Port, Verdict};
use crate::direction::{Direction, End};
use crate::flow::Flow;
use crate::handshake::{Agreement, Handshake, RoundTrips, Step};
use crate::key::{FlowKey, subscriber_key};
use crate::memory::half_open::{HalfOpen, Record};
use crate::meters::Level;
use crate::notice::Traffic;
use crate::pass::PassReason;
use crate::phase::Phase;
use crate::phase::accelerated::Accelerated;
use crate::phase::watched::Watched;
use crate::phase::windowed::Windowed;
use crate::relay::{Completion, Relay};
use crate::report::FlowState;
use crate::segment::Segment;

/// Part of a handshake in the levels of its half.
pub(super) const OBSERVING: Level = Level { state: FlowState::Observing, debt: 0 };

/// State of a flow whose handshake is under way.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct Opening {
    handshake: Handshake,
    /// Packets and bytes that came from the source, and from the sink, behind the first SYN.
    packets: [u16; 2],
    bytes: [u32; 2],
}

impl Opening {
    pub(super) const fn new(handshake: Handshake) -> Self {
        Self { handshake, packets: [0; 2], bytes: [0; 2] }
    }

    fn count(&mut self, segment: &Segment<'_>) {
        let side = usize::from(segment.from == End::Sink);
        self.packets[side] = self.packets[side].saturating_add(1);
        self.bytes[side] = self.bytes[side].saturating_add(segment.len() as u32);
    }

    /// Traffic from the source, and from the sink.
    fn traffic(&self) -> [Traffic; 2] {
        [0, 1].map(|side| Traffic { packets: self.packets[side].into(), bytes: self.bytes[side].into() })
    }
}

/// Result of a handshake.
struct Established {
    agreement: Agreement,
    round_trips: RoundTrips,
}

impl Established {
    /// The round trips, if it is known which packet each answers.
    fn known(&self) -> Option<RoundTrips> {
        Some(self.round_trips).filter(|round_trips| !round_trips.is_doubtful)
    }
}

impl Half {
    /// Begins to watch a handshake, if there is room for it and no reason against it.
    pub(super) fn observe(&mut self, key: FlowKey, syn: &Segment<'_>, now: Instant) {
        match self.port_to(syn.from) {
            Port::Wired => self.stats.opened_by_servers += 1,
            Port::Mobile => self.stats.opened_by_clients += 1,
        }
        let refused = self.reason_to_pass(&key);
        match refused.map_or_else(|| Handshake::begin(syn.tcp, syn.from, now), Err) {
            Ok(handshake) => self.watch(key, Opening::new(handshake), now),
            Err(reason) => self.pass(key, reason),
        }
    }

    /// Watches a handshake from here on, unless its subscriber has as many flows as one may have.
    pub(super) fn watch(&mut self, key: FlowKey, opening: Opening, now: Instant) {
        if self.is_subscriber_full(&key) {
            return self.pass(key, PassReason::SubscriberFull);
        }
        let client = self.client_of(&key);
        self.make_room_for_handshake(client);
        self.half_open.add(key, client, now, opening);
        self.meters.add(OBSERVING);
        self.meters.flows_opened += 1;
        self.stats.flows_now += 1;
        self.stats.half_open_now += 1;
        self.last.is_news = true;
    }

    /// A segment of a flow whose handshake is under way: it goes on, or is the first of the flow.
    pub(super) fn on_handshake(&mut self, place: u32, segment: &mut Segment<'_>, now: Instant) -> Verdict {
        let Some(record) = self.half_open.get_mut(place) else { return Verdict::Forward };
        record.known.count(segment);
        // What its host will drop must not be believed (H7).
        if !segment.is_intact() {
            return Verdict::Forward;
        }
        let key = record.key;
        let handshake = &mut record.known.handshake;
        let before = *handshake;
        let step = handshake.on_packet(segment.tcp, segment.from, now);
        self.last.is_news = !handshake.says_as_much_as(&before);
        match step {
            Step::Continue => {}
            Step::Pass(reason) => self.end_handshake(place, Some(reason)),
            Step::Established(agreement, round_trips) => {
                let established = Established { agreement, round_trips };
                match self.reason_to_pass_established(&key, &established) {
                    Some(reason) => self.end_handshake(place, Some(reason)),
                    None => return self.establish(place, &established, segment, now),
                }
            }
        }
        Verdict::Forward
    }

    fn reason_to_pass_established(&self, key: &FlowKey, established: &Established) -> Option<PassReason> {
        if established.round_trips.to_sink < self.config.rtt_min {
            return Some(PassReason::NoGain);
        }
        established.agreement.has_tiny_segments(key.is_ipv4()).then_some(PassReason::TinySegments)
    }

    /// Makes a flow of a handshake that is complete with `segment`, and handles that as the first of it. Where
    /// there is no room for one more flow, it passes instead.
    fn establish(
        &mut self,
        place: u32,
        established: &Established,
        segment: &mut Segment<'_>,
        now: Instant,
    ) -> Verdict {
        self.last.is_news = true;
        let Some(record) = self.half_open.get(place) else { return Verdict::Forward };
        let key = record.key;
        let is_full = self.is_subscriber_full(&key).then_some(PassReason::SubscriberFull);
        if let Some(reason) = is_full.or_else(|| self.make_room_for_flow(now)) {
            self.end_handshake(place, Some(reason));
            return Verdict::Forward;
        }
        let Some(record) = self.forget_handshake(place) else { return Verdict::Forward };
        let subscriber = self.subscriber_for(&key, now);
        let phase = self.first_phase(&key, established, segment, now);
        let id = self.add(Flow::in_phase(key, subscriber, phase, now));
        self.note_opened(id, record.began, record.known.traffic());
        self.begin(id, established, now);
        self.note_begin(id);
        if let Some((verdict, next)) = self.show(id, segment, now) {
            self.apply(id, next, now);
            self.note_end();
            return verdict;
        }
        self.note_end();
        Verdict::Forward
    }

    /// First phase of a flow whose handshake is complete with `segment`.
    fn first_phase(
        &self,
        key: &FlowKey,
        established: &Established,
        segment: &Segment<'_>,
        now: Instant,
    ) -> Phase {
        let Established { agreement, round_trips } = established;
        if self.config.lowers_window(self.direction, key) {
            let (params, is_v4) = (self.config.drwa, key.is_ipv4());
            return Phase::Windowed(Box::new(Windowed::new(agreement, params, is_v4, *round_trips, now)));
        }
        if self.is_control(key) {
            return Phase::Watched(Box::new(Watched::new(agreement)));
        }
        let is_both_ways = self.config.accelerates_both(self.direction, key);
        let completion = Completion {
            ip: segment.ip(),
            tcp: segment.tcp,
            by_sink: segment.from == End::Sink,
            is_uplink_of_both: is_both_ways && self.direction == Direction::Uplink,
            source_rtt: established.known().map(|round_trips| round_trips.to_source),
            ring: self.memory.pool.no_memory(),
        };
        let relay = Relay::new(agreement, completion, &self.config, now);
        Phase::Accelerated(Accelerated { relay })
    }

    /// Counts and tells that a flow has begun, and keeps what its handshake says of the path.
    fn begin(&mut self, id: u32, established: &Established, now: Instant) {
        let Some(flow) = self.flows.get(id) else { return };
        let to_sink = established.known().map(|round_trips| round_trips.to_sink);
        if flow.phase.windowed().is_some() {
            self.stats.flows_windowed += 1;
            return self.note_accelerated(id);
        }
        let Some(mss) = flow.phase.relay().map(Relay::mss) else {
            return self.open_measured(id, to_sink);
        };
        if let Some(subscriber) = self.subscribers.get_mut(flow.subscriber) {
            subscriber.note_mss(mss);
        }
        self.stats.flows_accelerated += 1;
        let is_accurate = flow.phase.relay().is_some_and(Relay::has_accurate_ecn);
        self.stats.flows_accurate_ecn += u64::from(is_accurate);
        self.open_measured(id, to_sink);
        self.note_accelerated(id);
        self.narrow(id, self.mtu, now);
        if let Some(round_trip) = to_sink {
            self.on_round_trip(id, round_trip, now);
        }
    }

    /// Takes a handshake out of the records.
    fn forget_handshake(&mut self, place: u32) -> Option<Record<Opening>> {
        let record = self.half_open.remove(place)?;
        self.meters.remove(OBSERVING);
        self.stats.flows_now -= 1;
        self.stats.half_open_now -= 1;
        Some(record)
    }

    /// Ends the watch over a handshake: its packets pass.
    pub(super) fn end_handshake(&mut self, place: u32, reason: Option<PassReason>) {
        let Some(record) = self.forget_handshake(place) else { return };
        self.meters.flows_ended += 1;
        if let Some(reason) = reason {
            self.pass(record.key, reason);
        }
    }

    /// Ends the watch over all handshakes.
    pub(super) fn end_handshakes(&mut self, reason: PassReason) {
        while let Some(oldest) = self.half_open.oldest() {
            self.end_handshake(oldest, Some(reason));
        }
    }

    /// Ends the watch over those of a client, without a word.
    pub(super) fn end_handshakes_of(&mut self, client: IpAddr) {
        let client = subscriber_key(client, self.config.ipv6_prefix_len);
        let is_its = |&place: &u32| {
            self.half_open.get(place).is_some_and(|record| self.client_of(&record.key) == client)
        };
        let places: Vec<u32> = self.half_open.places_of(client).filter(is_its).collect();
        places.into_iter().for_each(|place| self.end_handshake(place, None));
    }

    /// Time at which the oldest handshake has had its time, which runs from the first SYN on.
    pub(super) fn handshake_due(&self) -> Option<Instant> {
        let oldest = self.half_open.get(self.half_open.oldest()?)?;
        Some(oldest.began + self.config.handshake_timeout)
    }

    /// Ends those that have had their time.
    pub(super) fn end_old_handshakes(&mut self, now: Instant) {
        while self.handshake_due().is_some_and(|due| due <= now)
            && let Some(oldest) = self.half_open.oldest()
        {
            self.end_handshake(oldest, Some(PassReason::HandshakeTimeout));
        }
    }

    /// Groups all handshakes by their clients anew.
    pub(super) fn regroup_handshakes(&mut self) {
        let before = std::mem::replace(&mut self.half_open, HalfOpen::new(self.config.hash_seed));
        for record in before.iter() {
            self.half_open.add(record.key, self.client_of(&record.key), record.began, record.known);
        }
    }
}
