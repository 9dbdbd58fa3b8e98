//! [`Engine`]: both directions of the accelerator behind one face.
//!
//! Each direction is accelerated by a [`Half`] of its own. Both are transparent, so they stand in
//! line, as two boxes on the same wire would:
//!
//! ```text
//!   server ── wired ──▶ uplink half ──▶ downlink half ──▶ mobile ── client
//!          ◀──────────             ◀──               ◀──────────
//! ```
//!
//! The downlink half takes the server's data and makes acknowledgements in the client's name; the uplink half
//! takes the client's data and makes acknowledgements in the server's name. What one half makes for
//! the side the other one stands on goes through the other one as any packet would. So neither has
//! to know of the other, and every rule of one direction (`docs/engine.md`) holds for both.

use std::net::IpAddr;
use std::sync::Arc;

use control::Feedback;
use tcp::{Ring, RingProvider};
use units::{Bytes, Instant};
use wire::{TcpHeaderSpec, VirtioNetHeader};

use crate::boundary::{Middlebox, Port, Transmit, Verdict};
use crate::config::{ConfigError, EngineConfig};
use crate::direction::{Direction, End};
use crate::half::recover::RecoverError;
use crate::half::{Half, Made};
use crate::journal::{Journal, JournalEntry};
use crate::memory::ahead::AHEAD_MAX;
use crate::memory::slab::MemoryAdvice;
use crate::meters::Meters;
use crate::notice::{Notice, Wants};
use crate::relay::emit::HeaderBuffer;
use crate::report::{FlowReport, Page, PassedFlow, SubscriberReport, UnknownFlow};
use crate::stats::Stats;
use crate::trial::{ControlGroup, MeasuredFlow};

mod handover;
mod image;

/// The accelerator.
#[derive(Debug)]
pub struct Engine {
    down: Half,
    up: Option<Box<Half>>,
    memory_advice: Option<MemoryAdvice>,
    /// Longest packet to the servers.
    wired_mtu: u32,
    /// The packet handed out last passes.
    hands_on: bool,
    /// A packet that one half made and the other one has edited.
    passing: HeaderBuffer,
}

/// Places of flows in the uplink half have this bit, in what is told outside.
const UPLINK_PLACES: u64 = 1 << 32;

/// Place of the packet to be handed out.
enum Outgoing {
    Down(Made),
    Up(Made),
    Passing(Made, Port),
}

impl Engine {
    /// Packets that [`Engine::look_ahead`] looks at.
    pub const LOOK_AHEAD_MAX: usize = AHEAD_MAX;

    /// An engine without flows.
    ///
    /// # Errors
    /// A setting that makes no sense.
    pub fn new(config: EngineConfig) -> Result<Self, ConfigError> {
        let uplink = config.for_uplink();
        let up = uplink.map(|config| Half::new(Direction::Uplink, config)).transpose()?.map(Box::new);
        Ok(Self {
            down: Half::new(Direction::Downlink, config)?,
            up,
            memory_advice: None,
            wired_mtu: u32::MAX,
            hands_on: false,
            passing: [0; TcpHeaderSpec::MAX_LEN],
        })
    }

    /// Counters of the downlink, and of all flows where only it is accelerated.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        self.down.stats()
    }

    /// Counters of the uplink, where it is accelerated: its sources are the clients, its sinks the servers.
    #[must_use]
    pub fn uplink_stats(&self) -> Option<&Stats> {
        self.up.as_ref().map(|up| up.stats())
    }

    /// Levels and distributions of the downlink, and of all flows where only it is accelerated.
    #[must_use]
    pub fn meters(&self) -> &Meters {
        self.down.meters()
    }

    /// The same of the uplink, where it is accelerated.
    #[must_use]
    pub fn uplink_meters(&self) -> Option<&Meters> {
        self.up.as_ref().map(|up| up.meters())
    }

    /// Subscribers that the downlink knows: those with flows, and those that are remembered.
    #[must_use]
    pub fn subscriber_count(&self) -> usize {
        self.down.subscriber_count()
    }

    /// True when debt and flows by state, which are running sums, are what the flows add up to. Looks at all of
    /// them: for tests.
    #[must_use]
    pub fn levels_add_up(&self) -> bool {
        self.down.levels_add_up() && self.up.as_ref().is_none_or(|up| up.levels_add_up())
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> &EngineConfig {
        self.down.config()
    }

    /// Bytes acknowledged in a host's name that it has not acknowledged itself, over all flows and
    /// directions.
    #[must_use]
    pub fn debt(&self) -> Bytes {
        self.down.debt() + self.up.as_ref().map_or(Bytes::ZERO, |up| up.debt())
    }

    /// True when no flow is in the table: nothing would be missed if the engine were taken away.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.down.stats().flows_now == 0 && self.uplink_stats().is_none_or(|stats| stats.flows_now == 0)
    }

    /// Puts `config` in force.
    ///
    /// What a flow agreed on when it was taken over (window policy, longest retransmission
    /// time-out) stays with it; limits and time-outs hold for all from here on, and a lower limit
    /// ends no flow. A subscriber gets the new controller with its next new flow: its flows share
    /// one radio queue, so there is one controller for all of them. The seed of the hash stays,
    /// because the table is built with it.
    ///
    /// # Errors
    /// A setting that makes no sense; then everything stays as it was.
    pub fn reconfigure(&mut self, config: &EngineConfig) -> Result<(), ConfigError> {
        config.validate()?;
        let config = EngineConfig { hash_seed: self.config().hash_seed, ..config.clone() };
        match (self.up.as_mut(), config.for_uplink()) {
            (Some(up), Some(uplink)) => up.reconfigure(uplink),
            (None, Some(uplink)) => {
                let mut up = Half::new(Direction::Uplink, uplink)?;
                up.take_place_beside(&self.down, self.wired_mtu);
                if let Some(advice) = self.memory_advice {
                    up.set_memory_advice(advice);
                }
                self.up = Some(Box::new(up));
            }
            // Flows under way go on; the policy takes on no new ones.
            (Some(up), None) => {
                up.reconfigure(EngineConfig { policy: config.policy.clone(), ..up.config().clone() });
            }
            (None, None) => {}
        }
        self.down.reconfigure(config);
        Ok(())
    }

    /// Has the engine's caller do what it can for its memory, from here on.
    pub fn set_memory_advice(&mut self, advice: MemoryAdvice) {
        self.memory_advice = Some(advice);
        self.down.set_memory_advice(advice);
        if let Some(up) = self.up.as_mut() {
            up.set_memory_advice(advice);
        }
    }

    /// Has the data of flows that begin from here on held in memory of `provider` instead of the heap.
    ///
    /// What it has no memory for is left to the sender to send again, and counted (`memory_refused`).
    pub fn set_ring_provider(&mut self, provider: Arc<dyn RingProvider>) {
        let origin = Ring::of_provider(provider);
        if let Some(up) = self.up.as_mut() {
            up.set_ring_origin(origin.without_memory());
        }
        self.down.set_ring_origin(origin);
    }

    /// Packets that leave through `port` may be `mtu` bytes long from here on, IP headers included:
    /// so its interface says.
    ///
    /// New flows are cut accordingly. Those under way are when it becomes less, and what was too
    /// long goes out again; when it becomes more they stay as they are.
    pub fn set_mtu(&mut self, port: Port, mtu: u32, now: Instant) {
        match port {
            Port::Mobile => self.down.set_mtu(mtu, now),
            Port::Wired => {
                self.wired_mtu = mtu;
                if let Some(up) = self.up.as_mut() {
                    up.set_mtu(mtu, now);
                }
            }
        }
    }

    /// Has every flow to clients noted in `journal` from here on.
    pub fn set_journal(&mut self, journal: Box<dyn Journal>) {
        self.down.set_journal(journal);
    }

    /// Has every flow to servers noted in `journal` from here on: the sink in its entries is the
    /// server. Not before the settings accelerate some uplink: false then, and nothing is noted.
    pub fn set_uplink_journal(&mut self, journal: Box<dyn Journal>) -> bool {
        self.up.as_mut().map(|up| up.set_journal(journal)).is_some()
    }

    /// The flows in the table in the order of their slots, those of the uplink last, from the `skip`th on.
    pub fn flow_reports(&self, skip: usize) -> impl Iterator<Item = FlowReport> {
        let up = self.up.as_deref().into_iter().flat_map(Half::flow_reports);
        self.down.flow_reports().chain(up).skip(skip)
    }

    /// Flows of a client, or of all, at `looks` places of the table from `from` on: 0, or where the page before it
    /// says. The time for it does not depend on the number of flows.
    #[must_use]
    pub fn flow_page(&self, client: Option<IpAddr>, from: u64, looks: u32) -> Page<FlowReport> {
        let place = from as u32;
        if from & UPLINK_PLACES == 0 {
            let mut page = self.down.flow_page(client, place, looks);
            page.next = page.next.or(self.up.is_some().then_some(UPLINK_PLACES));
            return page;
        }
        let page = self.up.as_ref().map(|up| up.flow_page(client, place, looks)).unwrap_or_default();
        Page { next: page.next.map(|next| next | UPLINK_PLACES), ..page }
    }

    /// Subscribers that the downlink knows, at `looks` places of the table from `from` on: 0, or where the page
    /// before it says.
    #[must_use]
    pub fn subscriber_page(&self, from: u64, looks: u32) -> Page<SubscriberReport> {
        self.down.subscriber_page(u32::try_from(from).unwrap_or(u32::MAX), looks)
    }

    /// The subscriber that an address belongs to, if the downlink knows it.
    #[must_use]
    pub fn subscriber_report(&self, client: IpAddr) -> Option<SubscriberReport> {
        self.down.subscriber_report(client)
    }

    /// The flows passed or ended last in the downlink half, newest first, at most 256.
    pub fn passed_recently(&self) -> impl Iterator<Item = PassedFlow> {
        self.down.passed_recently()
    }

    /// Has this noted from here on, and nothing else.
    pub fn set_wants(&mut self, wants: Wants) {
        self.down.set_wants(wants);
        if let Some(up) = self.up.as_mut() {
            up.set_wants(wants);
        }
    }

    /// Oldest notice not taken yet; of each direction the oldest first.
    pub fn take_notice(&mut self) -> Option<Notice> {
        self.down.take_notice().or_else(|| self.up.as_mut()?.take_notice())
    }

    /// Notices that had no room since this was asked last.
    pub fn take_lost_notices(&mut self) -> u64 {
        self.down.take_lost_notices() + self.up.as_mut().map_or(0, |up| up.take_lost_notices())
    }

    /// Begins a trial, in place of one under way: flows that begin from here on are measured, and those of
    /// subscribers in `group` pass bit for bit. Or ends it: flows of the group are let go, and pass on.
    ///
    /// Flows with a lowered window (`drwa`) are in no group.
    pub fn set_control_group(&mut self, group: Option<ControlGroup>) {
        for half in [Some(&mut self.down), self.up.as_deref_mut()].into_iter().flatten() {
            match group {
                Some(group) => half.begin_trial(group),
                None => half.end_trial(),
            }
        }
    }

    /// A flow that was measured in a trial, and has ended or was under way at the trial's end.
    pub fn take_measured(&mut self) -> Option<MeasuredFlow> {
        self.down.take_measured().or_else(|| self.up.as_mut()?.take_measured())
    }

    /// Measured flows that had no room since this was asked last.
    pub fn take_lost_measured(&mut self) -> u64 {
        self.down.take_lost_measured() + self.up.as_mut().map_or(0, |up| up.take_lost_measured())
    }

    /// Is shown packets, each with the port it arrived at, that are about to be handled in this
    /// order: worth it as soon as two wait. [`Engine::LOOK_AHEAD_MAX`] of them are looked at.
    ///
    /// With many flows the state of each has to be fetched from memory, which takes longer than all
    /// else; asked for ahead, by [`MemoryAdvice::prefetch`], it comes while other packets are
    /// handled. Nothing else changes.
    pub fn look_ahead<'a>(&mut self, packets: impl Iterator<Item = (Port, &'a [u8])> + Clone) {
        if let Some(up) = self.up.as_deref_mut() {
            let direction = up.direction();
            up.look_ahead(packets.clone().map(|(from, packet)| (direction.end_behind(from), packet)));
        }
        let direction = self.down.direction();
        self.down.look_ahead(packets.map(|(from, packet)| (direction.end_behind(from), packet)));
    }

    /// The flow that the packet handled last belongs to, if neither half knows it and none of its packets will matter
    /// before its ports are opened anew: who steers packets here may leave it out until then.
    ///
    /// Asked after [`Verdict::Forward`]. Told by data only: who acknowledges a connection's end
    /// begins nothing.
    pub fn take_unknown_flow(&mut self) -> Option<UnknownFlow> {
        let unknown = self.down.take_unknown();
        if let Some(up) = self.up.as_mut() {
            up.take_unknown()?;
        }
        let (client, server) = unknown?.client_and_server(self.down.direction());
        let mut halves = [Some(&self.down), self.up.as_deref()].into_iter().flatten();
        let reason = halves.find_map(|half| half.reason_of_passing(client, server));
        Some(UnknownFlow { client, server, reason })
    }

    /// A subscriber, by its address or the first of its prefix, all of whose traffic is to come here from now
    /// on (true) or no longer, so that what passes is in one schedule with accelerated flows. The caller that
    /// steers packets asks after each turn; where all traffic comes here anyway nobody needs to.
    pub fn take_wanted_subscriber(&mut self) -> Option<(IpAddr, bool)> {
        self.down.take_wanted()
    }

    /// True when the packet handed out last is one that passes, and was not made here.
    #[must_use]
    pub fn hands_on(&self) -> bool {
        self.hands_on
    }

    /// True when the packet handled last is surely of the host that it names: a segment of a flow in the
    /// table that is acceptable, and says what none has said before, as a number, an acknowledgement or a
    /// time. So what is in front of it tells how that host is reached. Told once.
    pub fn take_news(&mut self) -> bool {
        let is_news = self.up.as_mut().is_some_and(|up| up.take_news());
        self.down.take_news() | is_news
    }

    /// Stops taking on anything new, so that the engine can be stopped without breaking a flow.
    ///
    /// What was acknowledged is delivered; then each flow is handed back to plain forwarding. Done when
    /// [`Engine::is_empty`].
    pub fn drain(&mut self, now: Instant) {
        self.down.drain(now);
        if let Some(up) = self.up.as_mut() {
            up.drain(now);
        }
    }

    /// Says that packets of its flows may have gone past the engine for a while, as when its
    /// process was stopped.
    ///
    /// A flow whose numbers have moved on without the engine would wait for what never comes. So
    /// each is handed back to plain forwarding as soon as nothing is owed to it, most at once; what
    /// its hosts say of what went past is believed until then. New flows are taken over as ever.
    pub fn resynchronise(&mut self, now: Instant) {
        self.down.resynchronise(now);
        if let Some(up) = self.up.as_mut() {
            up.resynchronise(now);
        }
    }

    /// Gives its flows up to another engine that goes on with them: nothing is noted as owed here any more.
    ///
    /// What it holds stays as it is: held data may lie in memory that the other one uses. The caller has to
    /// keep the engine from being dropped.
    pub fn give_up_flows(&mut self) {
        self.down.settle_all();
        if let Some(up) = self.up.as_mut() {
            up.settle_all();
        }
    }

    /// The journals, for another engine in the place of this one: downlink, uplink.
    pub fn take_journals(&mut self) -> [Option<Box<dyn Journal>>; 2] {
        [self.down.take_journal(), self.up.as_mut().and_then(|up| up.take_journal())]
    }

    /// Enters every flow into the journals before any packet tells of it, but for a journal that
    /// [continues](Journal::continues).
    pub fn note_flows(&mut self) {
        self.down.note_flows();
        if let Some(up) = self.up.as_mut() {
            up.note_flows();
        }
    }

    /// Goes on with a flow of another engine, whose process has died: what its journal said of it last.
    /// `receiver` is where its sink is: clients for the downlink, servers for the uplink.
    ///
    /// The held data must be found in the provider of rings, which has to be set before. The sink is sent the
    /// oldest segment that it may not have, and says what it has; controllers begin anew.
    ///
    /// # Errors
    /// Why the flow cannot go on; then this engine knows nothing of it.
    pub fn recover(
        &mut self,
        receiver: Port,
        entry: &JournalEntry,
        now: Instant,
    ) -> Result<(), RecoverError> {
        if receiver == Port::Mobile {
            return self.down.recover(entry, now);
        }
        self.uplink().ok_or(RecoverError::Senseless)?.recover(entry, now)
    }

    /// The uplink half, made if there was none yet; none if the settings make no sense.
    fn uplink(&mut self) -> Option<&mut Half> {
        if self.up.is_none() {
            let mut up = Half::new(Direction::Uplink, self.config().of_uplink()).ok()?;
            up.take_place_beside(&self.down, self.wired_mtu);
            if let Some(advice) = self.memory_advice {
                up.set_memory_advice(advice);
            }
            self.up = Some(Box::new(up));
        }
        self.up.as_deref_mut()
    }

    fn next_made(&mut self, now: Instant) -> Option<Outgoing> {
        let Some(up) = self.up.as_deref_mut() else { return self.down.poll(now).map(Outgoing::Down) };
        loop {
            let (made, is_down) = match self.down.poll(now) {
                Some(made) => (made, true),
                None => (up.poll(now)?, false),
            };
            if made.is_direct() {
                return Some(if is_down { Outgoing::Down(made) } else { Outgoing::Up(made) });
            }
            // Made for its source, it goes through the other half, to which it comes from that
            // one's source: the host that takes this half's data sends the other's.
            let (from, through) =
                if is_down { (&mut self.down, &mut *up) } else { (&mut *up, &mut self.down) };
            let header = from.made_header(&made);
            let packet = &mut self.passing[..header.len()];
            packet.copy_from_slice(header);
            let to = from.port_to(made.to);
            let verdict = through.handle_packet(End::Source, &made.virtio, packet, now);
            if verdict == Verdict::Forward {
                return Some(Outgoing::Passing(made, to));
            }
        }
    }
}

impl Middlebox for Engine {
    fn handle_packet(
        &mut self,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        let down = &mut self.down;
        let Some(up) = self.up.as_deref_mut() else {
            let verdict = down.handle_packet(down.direction().end_behind(from), virtio, packet, now);
            if verdict == Verdict::Consumed {
                settle_dispute(down, None, now);
            }
            return verdict;
        };
        // What comes from the clients meets the downlink half first, what comes from the servers
        // the uplink half.
        let (first, second) = if from == Port::Mobile { (down, up) } else { (up, down) };
        if first.handle_packet(first.direction().end_behind(from), virtio, packet, now) == Verdict::Consumed {
            settle_dispute(first, Some(second), now);
            return Verdict::Consumed;
        }
        let verdict = second.handle_packet(second.direction().end_behind(from), virtio, packet, now);
        if verdict == Verdict::Consumed {
            settle_dispute(second, Some(first), now);
        }
        verdict
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.down.handle_timeout(now);
        if let Some(up) = self.up.as_mut() {
            up.handle_timeout(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let next = self.next_made(now)?;
        self.hands_on = matches!(&next, Outgoing::Down(made) if made.passes());
        let (half, made) = match &next {
            Outgoing::Down(made) => (&self.down, made),
            Outgoing::Up(made) => (self.up.as_deref()?, made),
            Outgoing::Passing(made, to) => {
                let header = &self.passing[..made.header_len];
                return Some(Transmit { to: *to, virtio: made.virtio, header, payload: (&[], &[]) });
            }
        };
        Some(Transmit {
            to: half.port_to(made.to),
            virtio: made.virtio,
            header: half.made_header(made),
            payload: half.made_payload(made),
        })
    }

    fn next_deadline(&self) -> Option<Instant> {
        let up = self.up.as_ref().and_then(|up| up.next_deadline());
        match (self.down.next_deadline(), up) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// It reaches the subscriber's controller, or those of all its flows where each has its own;
    /// what it allows is sent at once.
    fn handle_feedback(&mut self, client: IpAddr, feedback: &Feedback) -> bool {
        self.down.handle_feedback(client, feedback)
    }
}

/// Settles a dispute where the packet that `met` has just consumed did not fit what is known of its flow:
/// `other` hears of it, and once neither knows anything against it, the flow's hosts are taken to be
/// elsewhere.
fn settle_dispute(met: &mut Half, mut other: Option<&mut Half>, now: Instant) {
    let Some((misfit, is_settled)) = met.take_misfit() else { return };
    let is_heard = other.as_mut().is_none_or(|other| other.hear_misfit(misfit.reversed(), now));
    if is_settled && is_heard {
        met.doubt_disputed(&misfit, now);
        if let Some(other) = other {
            other.doubt_disputed(&misfit.reversed(), now);
        }
    }
}
