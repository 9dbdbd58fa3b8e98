//! [`Engine`]: packets in, packets out.

use std::collections::VecDeque;
use std::net::IpAddr;

use control::{Controller, LossKind};
use foldhash::fast::FixedState;
use slab::Slab;
use tcp::{SendLimits, Transmission};
use units::{Bytes, Duration, Instant};
use wire::{
    ChecksumState, EmittedHeader, IpVersion, Packet, Tcp, TcpFlags, TcpHeaderSpec, VirtioNetHeader,
    tcp_checksum_is_valid,
};

use crate::accelerated::Accelerated;
use crate::downlink::Effect;
use crate::emit::{self, HeaderBuffer};
use crate::flow::{Flow, State};
use crate::handshake::{Agreement, Handshake, Step};
use crate::inspect::PassedRecently;
use crate::journal::{self, Journal};
use crate::subscriber::Subscriber;
use crate::table::{FlowKey, Index, subscriber_key};
use crate::timer::{TimerKey, Timers};
use crate::{ConfigError, EngineConfig, PassReason, Stats, downlink, uplink};

/// How long an empty stream buffer keeps its memory, unless memory is short.
///
/// A fast flow's buffer is empty after every other acknowledgement; memory that comes and goes that often costs page
/// faults, a quarter of all processor time when measured.
const BUFFER_REST: Duration = Duration::from_millis(500);

/// A side of the accelerator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Port {
    /// Towards the servers.
    Wired,
    /// Towards the clients.
    Mobile,
}

impl Port {
    /// The other side.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Wired => Self::Mobile,
            Self::Mobile => Self::Wired,
        }
    }
}

/// What to do with a packet that was handed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Send it, as it is in its buffer now, out of the other port.
    Forward,
    /// The engine has taken what it needs: drop it.
    Consumed,
}

/// A packet of the engine's own making.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// Where it goes out.
    pub to: Port,
    /// Its checksum is partial; longer than the MSS, it is to be cut into segments.
    pub virtio: VirtioNetHeader,
    /// IP and TCP headers.
    pub header: &'a [u8],
    /// Payload, in two pieces where the buffer wraps.
    pub payload: (&'a [u8], &'a [u8]),
}

/// The accelerator.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) flows: Slab<Flow>,
    flow_index: Index<FlowKey>,
    pub(crate) subscribers: Slab<Subscriber>,
    subscriber_index: Index<IpAddr>,
    timers: Timers,
    /// Flows with control packets to make.
    outbox: VecDeque<u32>,
    /// Of those, flows whose packet is for the client and may ride on data that is about to go.
    after_data: VecDeque<u32>,
    /// Subscribers that may have something to send.
    ready: VecDeque<u32>,
    header: HeaderBuffer,
    stats: Stats,
    pub(crate) passed_recently: PassedRecently,
    pub(crate) journal: Option<Box<dyn Journal>>,
    is_draining: bool,
}

impl Engine {
    /// An engine without flows.
    ///
    /// # Errors
    /// A setting that makes no sense.
    pub fn new(config: EngineConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let hasher = FixedState::with_seed(config.hash_seed);
        Ok(Self {
            flows: Slab::new(),
            flow_index: Index::with_hasher(hasher.clone()),
            subscribers: Slab::new(),
            subscriber_index: Index::with_hasher(hasher),
            timers: Timers::default(),
            outbox: VecDeque::new(),
            after_data: VecDeque::new(),
            ready: VecDeque::new(),
            header: [0; TcpHeaderSpec::MAX_LEN],
            stats: Stats::default(),
            passed_recently: PassedRecently::default(),
            journal: None,
            is_draining: false,
            config,
        })
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Bytes acknowledged to servers that clients have not acknowledged, over all flows.
    #[must_use]
    pub fn debt(&self) -> Bytes {
        let debts = self.flows.iter().filter_map(|(_, flow)| match &flow.state {
            State::Accelerated(a) => Some(u64::from(a.debt())),
            State::Observing(_) => None,
        });
        Bytes::new(debts.sum())
    }

    /// Takes in a packet that arrived at `from` with its virtio header.
    ///
    /// [`Verdict::Forward`] asks for the packet, as edited in place, to be sent out of the other port with
    /// the same virtio header. After this, [`Engine::poll_transmit`] may have packets to send.
    pub fn handle_packet(
        &mut self,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        self.stats.packets_in += 1;
        let verdict = match wire::parse(packet) {
            Ok(parsed) => match parsed.transport {
                wire::Transport::Tcp(tcp) => self.handle_segment(from, (&parsed, &tcp), virtio, packet, now),
                _ => Verdict::Forward,
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
        let is_opening = tcp.flags.contains(TcpFlags::SYN) && !tcp.flags.contains(TcpFlags::ACK);
        let Some(&id) = self.flow_index.get(&key) else {
            if is_opening && is_intact(packet, parsed, virtio) {
                self.observe(key, tcp, from, now);
            }
            return Verdict::Forward;
        };
        let Some(flow) = self.flows.get_mut(id as usize) else { return Verdict::Forward };
        // A handshake has its time from the first SYN on: packets do not prolong it.
        if matches!(flow.state, State::Accelerated(_)) {
            flow.last_activity = now;
        }
        if let State::Observing(handshake) = &mut flow.state {
            // What its host will drop must not be believed (H7).
            if !is_intact(packet, parsed, virtio) {
                return Verdict::Forward;
            }
            match handshake.on_packet(tcp, from) {
                Step::Continue => return Verdict::Forward,
                Step::Pass(reason) => {
                    self.remove(id, Some(reason));
                    return Verdict::Forward;
                }
                Step::Established(agreement) => self.accelerate(id, &agreement, (parsed, tcp), from, now),
            }
        } else if is_opening
            && flow.accelerated().is_some_and(|a| a.gives_way_to(tcp, from))
            && is_intact(packet, parsed, virtio)
        {
            self.remove(id, None);
            self.observe(key, tcp, from, now);
            return Verdict::Forward;
        }
        if !is_intact(packet, parsed, virtio) {
            self.stats.bad_checksums += 1;
            return Verdict::Consumed;
        }
        self.handle_accelerated(id, from, (parsed, tcp), (packet, virtio.checksum_state()), now)
    }

    /// Begins to watch a handshake, if there is room for it and no reason against it.
    fn observe(&mut self, key: FlowKey, tcp: &Tcp, from: Port, now: Instant) {
        let refused = if !self.config.accelerate {
            Some(PassReason::Disabled)
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
        let handshake = match refused.map_or_else(|| Handshake::begin(tcp, from), Err) {
            Ok(handshake) => handshake,
            Err(reason) => return self.count_pass(key, reason),
        };
        let subscriber = self.subscriber_for(key.client.ip(), now);
        let id = self.flows.insert(Flow {
            key,
            subscriber,
            state: State::Observing(handshake),
            last_activity: now,
            armed: None,
            in_outbox: false,
            is_journaled: false,
        }) as u32;
        self.flow_index.insert(key, id);
        self.stats.flows_now += 1;
        self.stats.half_open_now += 1;
        self.arm_flow(id, now);
    }

    fn subscriber_for(&mut self, client: IpAddr, now: Instant) -> u32 {
        let key = subscriber_key(client, self.config.ipv6_prefix_len);
        let id = match self.subscriber_index.get(&key) {
            Some(&id) => id,
            None => {
                let subscriber = Subscriber::new(key, self.config.controller.build(), now);
                let id = self.subscribers.insert(subscriber) as u32;
                self.subscriber_index.insert(key, id);
                id
            }
        };
        if let Some(subscriber) = self.subscribers.get_mut(id as usize) {
            subscriber.flows += 1;
            subscriber.last_used = now;
            if std::mem::take(&mut subscriber.is_outdated) {
                subscriber.controller = self.config.controller.build();
            }
        }
        id
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
        let Some(flow) = self.flows.get_mut(id as usize) else { return };
        let by_client = from == Port::Mobile;
        let accelerated = Accelerated::new(agreement, &self.config, (&parsed.ip, tcp), by_client, now);
        flow.state = State::Accelerated(Box::new(accelerated));
        self.stats.half_open_now -= 1;
        self.stats.flows_accelerated += 1;
    }

    fn handle_accelerated(
        &mut self,
        id: u32,
        from: Port,
        (parsed, tcp): (&Packet, &Tcp),
        (packet, state): (&mut [u8], ChecksumState),
        now: Instant,
    ) -> Verdict {
        let Some(flow) = self.flows.get_mut(id as usize) else { return Verdict::Forward };
        let subscriber_id = flow.subscriber;
        let State::Accelerated(accelerated) = &mut flow.state else { return Verdict::Forward };
        let Some(subscriber) = self.subscribers.get_mut(subscriber_id as usize) else {
            return Verdict::Forward;
        };
        let memory = accelerated.buffer.capacity();
        let Effect { verdict, end } = match from {
            Port::Wired => {
                downlink::on_packet(accelerated, parsed, tcp, (packet, state), &mut self.stats, now)
            }
            Port::Mobile => uplink::on_packet(
                accelerated,
                subscriber,
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
        self.stats.buffer_bytes_now = (self.stats.buffer_bytes_now + accelerated.buffer.capacity() as u64)
            .saturating_sub(memory as u64);
        if end.is_some() {
            self.remove(id, end);
            return verdict;
        }
        self.follow_up(id, now);
        verdict
    }

    /// After anything changed in an accelerated flow: life cycle, outbox, turn to send, deadline.
    fn follow_up(&mut self, id: u32, now: Instant) {
        let Some(flow) = self.flows.get_mut(id as usize) else { return };
        let subscriber_id = flow.subscriber;
        if let Some(journal) = self.journal.as_deref_mut() {
            journal::follow(journal, id, flow);
        }
        let State::Accelerated(accelerated) = &mut flow.state else { return };
        accelerated.is_closed |= accelerated.has_ended();
        if accelerated.is_draining
            && accelerated.is_even()
            && accelerated.sender.is_idle()
            && accelerated.outbox.is_empty()
        {
            let reason = if accelerated.is_closed { PassReason::Closed } else { PassReason::Draining };
            return self.remove(id, Some(reason));
        }
        accelerated.sender.refresh_timers(now);
        let wants_turn = accelerated.sender.wants_to_send();
        let joins = wants_turn && !accelerated.in_round;
        accelerated.in_round |= wants_turn;
        if !accelerated.outbox.is_empty() && !flow.in_outbox {
            flow.in_outbox = true;
            self.outbox.push_back(id);
        }
        if let Some(subscriber) = self.subscribers.get_mut(subscriber_id as usize) {
            if joins {
                subscriber.round.push_back(id);
            }
            // An acknowledgement may have opened the window for other flows of the subscriber too.
            if !subscriber.round.is_empty() && !subscriber.is_ready {
                subscriber.is_ready = true;
                self.ready.push_back(subscriber_id);
            }
        }
        self.arm_flow(id, now);
    }

    /// Takes a flow out of the table; its packets are forwarded untouched from here on.
    fn remove(&mut self, id: u32, reason: Option<PassReason>) {
        let Some(flow) = self.flows.try_remove(id as usize) else { return };
        self.flow_index.remove(&flow.key);
        self.stats.flows_now -= 1;
        let mut armed = flow.armed;
        self.timers.cancel(TimerKey::Flow(id), &mut armed);
        if let Some(reason) = reason {
            self.count_pass(flow.key, reason);
        }
        if let Some(journal) = self.journal.as_deref_mut().filter(|_| flow.is_journaled) {
            journal.settle(id);
        }
        let subscriber = self.subscribers.get_mut(flow.subscriber as usize);
        match (flow.state, subscriber) {
            (State::Accelerated(accelerated), Some(subscriber)) => {
                subscriber.adjust_in_flight(accelerated.sender.in_flight(), 0);
                subscriber.round.retain(|&other| other != id);
                // Its bytes in flight no longer count: others may have waited for just that room, without a timer.
                if !subscriber.round.is_empty() && !subscriber.is_ready {
                    subscriber.is_ready = true;
                    self.ready.push_back(flow.subscriber);
                }
                self.stats.bytes_retransmitted += accelerated.sender.retransmitted_bytes();
                self.stats.buffer_bytes_now =
                    self.stats.buffer_bytes_now.saturating_sub(accelerated.buffer.capacity() as u64);
            }
            (State::Observing(_), _) => self.stats.half_open_now -= 1,
            (State::Accelerated(_), None) => {}
        }
        if let Some(subscriber) = self.subscribers.get_mut(flow.subscriber as usize) {
            subscriber.flows -= 1;
            if subscriber.flows == 0 {
                let at = subscriber.forgotten_at(self.config.subscriber_memory);
                self.timers.arm(TimerKey::Subscriber(flow.subscriber), &mut subscriber.armed, at);
            }
        }
    }

    fn count_pass(&mut self, key: FlowKey, reason: PassReason) {
        self.stats.count_pass(reason);
        self.passed_recently.note(key, reason);
    }

    /// Arms the flow's timer for the earliest thing that can happen to it without a packet.
    fn arm_flow(&mut self, id: u32, now: Instant) {
        let Some(flow) = self.flows.get_mut(id as usize) else { return };
        let wanted = match &flow.state {
            State::Observing(_) => flow.last_activity + self.config.handshake_timeout,
            State::Accelerated(a) if a.is_closed => {
                release_time(a, flow.last_activity).min(flow.last_activity + self.config.linger)
            }
            // It leaves the table with that packet; a debt that is overdue must not come due again until then.
            State::Accelerated(a) if a.outbox.reset_client => Instant::FAR_FUTURE,
            State::Accelerated(a) => {
                let idle = flow.last_activity + self.config.idle_timeout;
                let debt = if a.is_even() && a.sender.is_idle() {
                    Instant::FAR_FUTURE
                } else {
                    a.last_progress + self.config.debt_timeout
                };
                a.sender
                    .next_deadline()
                    .unwrap_or(Instant::FAR_FUTURE)
                    .min(idle)
                    .min(debt)
                    .min(release_time(a, flow.last_activity))
            }
        };
        self.timers.arm(TimerKey::Flow(id), &mut flow.armed, wanted.max(now));
    }

    /// When [`Engine::handle_timeout`] or [`Engine::poll_transmit`] wants to be called again.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        if !(self.outbox.is_empty() && self.after_data.is_empty() && self.ready.is_empty()) {
            return Some(Instant::ZERO);
        }
        self.timers.next()
    }

    /// Acts on every deadline up to `now`; calling it early does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(key) = self.timers.pop_due(now) {
            match key {
                TimerKey::Flow(id) => self.on_flow_timer(id, now),
                TimerKey::Subscriber(id) => self.on_subscriber_timer(id, now),
            }
        }
    }

    fn on_subscriber_timer(&mut self, id: u32, now: Instant) {
        let Some(subscriber) = self.subscribers.get_mut(id as usize) else { return };
        subscriber.armed = None;
        if subscriber.flows == 0 {
            let forgotten = subscriber.forgotten_at(self.config.subscriber_memory);
            if now >= forgotten {
                let key = subscriber.key;
                self.subscriber_index.remove(&key);
                self.subscribers.remove(id as usize);
            } else {
                self.timers.arm(TimerKey::Subscriber(id), &mut subscriber.armed, forgotten);
            }
        } else if !subscriber.is_ready && !subscriber.round.is_empty() {
            subscriber.is_ready = true;
            self.ready.push_back(id);
        }
    }

    fn on_flow_timer(&mut self, id: u32, now: Instant) {
        let Some(flow) = self.flows.get_mut(id as usize) else { return };
        flow.armed = None;
        let silent = now.saturating_since(flow.last_activity);
        let subscriber_id = flow.subscriber;
        let accelerated = match &mut flow.state {
            State::Observing(_) => {
                if silent >= self.config.handshake_timeout {
                    self.remove(id, Some(PassReason::HandshakeTimeout));
                } else {
                    self.arm_flow(id, now);
                }
                return;
            }
            State::Accelerated(accelerated) => accelerated,
        };
        if now >= release_time(accelerated, flow.last_activity) {
            let memory = accelerated.buffer.capacity() as u64;
            accelerated.buffer.release_if_empty();
            self.stats.buffer_bytes_now = self.stats.buffer_bytes_now.saturating_sub(memory);
        }
        if accelerated.is_closed && silent >= self.config.linger {
            return self.remove(id, Some(PassReason::Closed));
        }
        if silent >= self.config.idle_timeout {
            return self.remove(id, Some(PassReason::Idle));
        }
        let owes = !(accelerated.is_even() && accelerated.sender.is_idle());
        let stalled = now.saturating_since(accelerated.last_progress);
        if owes && !accelerated.is_closed && stalled >= self.config.debt_timeout {
            // The client is gone: neither side may believe in a short, clean end (H1, H2).
            accelerated.outbox.reset_server = !accelerated.server_reset;
            accelerated.outbox.reset_client = true;
        } else if accelerated.sender.next_deadline().is_some_and(|at| at <= now) {
            let before = accelerated.sender.in_flight();
            let out = accelerated.sender.on_timeout(now);
            let after = accelerated.sender.in_flight();
            self.stats.timeouts += u64::from(out.is_timeout);
            if let Some(subscriber) = self.subscribers.get_mut(subscriber_id as usize) {
                subscriber.adjust_in_flight(before, after);
                if out.lost > 0 {
                    let kind = out.kind.unwrap_or(LossKind::Fast);
                    subscriber.on_loss(out.lost, kind, out.is_new_loss, now);
                }
            }
        }
        self.follow_up(id, now);
    }

    /// Stops taking on anything new, so that the engine can be stopped without breaking a flow.
    ///
    /// What was acknowledged to servers is delivered; then each flow is handed back to plain forwarding. Done
    /// when [`Engine::debt`] is zero and [`Stats::flows_now`] is zero.
    pub fn drain(&mut self, now: Instant) {
        self.is_draining = true;
        for id in 0..self.flows.capacity() as u32 {
            match self.flows.get_mut(id as usize).map(|flow| &mut flow.state) {
                Some(State::Accelerated(accelerated)) => {
                    accelerated.is_draining = true;
                    self.follow_up(id, now);
                }
                Some(State::Observing(_)) => self.remove(id, Some(PassReason::Draining)),
                None => {}
            }
        }
    }

    /// The next packet to send at `now`; call it until there is none.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        loop {
            if let Some(id) = self.next_in_outbox() {
                if let Some((to, header)) = self.control_packet(id, now) {
                    self.stats.packets_made += 1;
                    return Some(Transmit {
                        to,
                        virtio: VirtioNetHeader::for_partial_checksum(header.transport_offset),
                        header: &self.header[..header.len],
                        payload: (&[], &[]),
                    });
                }
                continue;
            }
            let subscriber_id = *self.ready.front()?;
            let Some((id, transmission)) = self.next_transmission(subscriber_id, now) else {
                self.ready.pop_front();
                if let Some(subscriber) = self.subscribers.get_mut(subscriber_id as usize) {
                    subscriber.is_ready = false;
                }
                continue;
            };
            self.ready.pop_front();
            self.ready.push_back(subscriber_id);
            self.arm_flow(id, now);
            let Some((virtio, header)) = self.data_packet(id, &transmission) else { continue };
            self.stats.packets_made += 1;
            // Borrowed again, immutably, so that header and payload can be handed out together.
            let payload = match self.flows.get(id as usize).map(|flow| &flow.state) {
                Some(State::Accelerated(a)) => a.buffer.slices(transmission.seq, transmission.len as usize),
                _ => (&[][..], &[][..]),
            };
            return Some(Transmit { to: Port::Mobile, virtio, header: &self.header[..header.len], payload });
        }
    }

    /// The next flow with a control packet to make now. An acknowledgement for the client waits until it is
    /// clear that no data goes out in its place.
    fn next_in_outbox(&mut self) -> Option<u32> {
        while let Some(id) = self.outbox.pop_front() {
            let accelerated = self.flows.get_mut(id as usize).and_then(Flow::accelerated);
            if accelerated.is_some_and(|a| a.outbox.is_only_for_client() && a.sender.wants_to_send()) {
                self.after_data.push_back(id);
            } else {
                return Some(id);
            }
        }
        if self.ready.is_empty() { self.after_data.pop_front() } else { None }
    }

    /// Makes one of the control packets a flow waits to have made.
    fn control_packet(&mut self, id: u32, now: Instant) -> Option<(Port, EmittedHeader)> {
        let flow = self.flows.get_mut(id as usize)?;
        flow.in_outbox = false;
        let key = flow.key;
        let subscriber = self.subscribers.get(flow.subscriber as usize)?;
        let State::Accelerated(accelerated) = &mut flow.state else { return None };
        let pending = accelerated.outbox;
        let buf = &mut self.header;
        let (to, made, end) = if pending.reset_server {
            accelerated.outbox.reset_server = false;
            (Port::Wired, emit::reset_for_server(&key, accelerated, buf), None)
        } else if pending.reset_client {
            self.stats.bytes_acked_but_lost += u64::from(accelerated.debt());
            let reason = if accelerated.server_reset { PassReason::Reset } else { PassReason::ClientGone };
            (Port::Mobile, emit::reset_for_client(&key, accelerated, buf), Some(reason))
        } else if pending.ack_server {
            accelerated.outbox.ack_server = false;
            self.stats.acks_made += 1;
            let made = emit::ack_for_server(&key, accelerated, subscriber, &self.config, buf);
            (Port::Wired, made, None)
        } else if pending.ack_client {
            accelerated.outbox.ack_client = false;
            (Port::Mobile, emit::ack_for_client(&key, accelerated, buf), None)
        } else {
            return None;
        };
        match end {
            Some(_) => self.remove(id, end),
            None => self.follow_up(id, now),
        }
        made.ok().map(|header| (to, header))
    }

    /// Deficit round robin: the next transmission of a subscriber, if pacing and window allow one.
    fn next_transmission(&mut self, subscriber_id: u32, now: Instant) -> Option<(u32, Transmission)> {
        let subscriber = self.subscribers.get_mut(subscriber_id as usize)?;
        if subscriber.round.is_empty() {
            return None;
        }
        if now < subscriber.next_send {
            let at = subscriber.next_send;
            self.timers.arm(TimerKey::Subscriber(subscriber_id), &mut subscriber.armed, at);
            return None;
        }
        let control = subscriber.controller.control();
        let quantum = control.send_quantum.get().min(u64::from(u16::MAX) / 2 * 2 - 200) as u32;
        let mut is_short_of_data = false;
        let mut turns = 3 * subscriber.round.len();
        while turns > 0 {
            turns -= 1;
            let Some(&id) = subscriber.round.front() else { break };
            let accelerated = self.flows.get_mut(id as usize).and_then(Flow::accelerated);
            let Some(accelerated) = accelerated.filter(|a| a.sender.wants_to_send()) else {
                subscriber.round.pop_front();
                if let Some(a) = self.flows.get_mut(id as usize).and_then(Flow::accelerated) {
                    a.in_round = false;
                    a.deficit = 0;
                    is_short_of_data |= a.sender.unsent() == 0;
                }
                continue;
            };
            if accelerated.deficit <= 0 {
                // At least a segment, and what a larger turn of the past has left is forgiven: a turn that does not
                // suffice would be waited for without a timer.
                let turn = i64::from(quantum.max(accelerated.sender.mss()));
                accelerated.deficit = (accelerated.deficit + turn).max(1);
                subscriber.round.rotate_left(1);
                continue;
            }
            let room = control.window.get().saturating_sub(subscriber.in_flight).min(u64::from(u32::MAX));
            let limits = SendLimits { quantum, window_room: room as u32 };
            let before = accelerated.sender.in_flight();
            let is_idle = subscriber.in_flight == 0;
            let Some(made) = accelerated.sender.poll(limits, &mut subscriber.sampler, is_idle, now) else {
                subscriber.round.rotate_left(1);
                continue;
            };
            let in_flight_before = subscriber.in_flight;
            subscriber.adjust_in_flight(before, accelerated.sender.in_flight());
            subscriber.on_send(made.len, in_flight_before, now);
            subscriber.last_used = now;
            accelerated.deficit -= i64::from(made.len.max(1));
            let segments = made.len.div_ceil(accelerated.sender.mss().max(1)).max(1);
            subscriber.pace(made.len, segments, control.pacing_rate, now);
            return Some((id, made));
        }
        // Nobody has data although the window has room: what is delivered now says little about the link.
        let has_room = Bytes::new(subscriber.in_flight) < control.window;
        if is_short_of_data && has_room && subscriber.round.is_empty() {
            subscriber.sampler.mark_app_limited(Bytes::new(subscriber.in_flight));
        }
        None
    }

    fn data_packet(
        &mut self,
        id: u32,
        transmission: &Transmission,
    ) -> Option<(VirtioNetHeader, EmittedHeader)> {
        let flow = self.flows.get_mut(id as usize)?;
        let key = flow.key;
        let accelerated = flow.accelerated()?;
        let header = emit::transmission(&key, accelerated, transmission, &mut self.header).ok()?;
        accelerated.outbox.ack_client = false;
        let mss = accelerated.sender.mss();
        let virtio = if transmission.len > mss {
            let version = if key.client.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
            VirtioNetHeader::for_tcp_gso(version, header.transport_offset, header.len, mss as u16)
        } else {
            VirtioNetHeader::for_partial_checksum(header.transport_offset)
        };
        Some((virtio, header))
    }
}

/// When the memory of a flow that has delivered everything is given back.
fn release_time(flow: &Accelerated, last_activity: Instant) -> Instant {
    if flow.buffer.is_empty() && flow.buffer.capacity() > 0 {
        last_activity + BUFFER_REST
    } else {
        Instant::FAR_FUTURE
    }
}

/// True when the checksum is right, or the kernel vouches for it (H7).
fn is_intact(packet: &[u8], parsed: &Packet, virtio: &VirtioNetHeader) -> bool {
    virtio.checksum_state() == ChecksumState::Partial
        || virtio.flags & VirtioNetHeader::DATA_VALID != 0
        || tcp_checksum_is_valid(packet, parsed)
}

#[cfg(test)]
mod tests;
