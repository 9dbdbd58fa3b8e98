//! The data of a connection above its subflows: [`Connection`], both of its ends.

use std::collections::BTreeMap;

use control::coupled::{CoupledGroup, CoupledParams};
use control::{Controller, ControllerConfig};
use units::{Bytes, Duration, Instant, SeqNum};
use wire::SackBlocks;

use super::subflow::{SubflowReceiver, SubflowSender};
use super::{CaseControl, STALL_MIN};
use crate::Pattern;

/// Window of the data, as Linux's `tcp_rmem` allows.
const WINDOW: u64 = 6 << 20;

/// First retransmission of a SYN (RFC 6298 §2); each further one comes after twice as long.
const SYN_TIMEOUT: Duration = Duration::from_secs(1);

/// Contents of a packet that crosses a radio.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// SYN.
    Open,
    /// SYN-ACK.
    Opened,
    /// The end of the handshake, with the request.
    Ready,
    Data {
        seq: SeqNum,
        data_seq: u64,
        payload: Vec<u8>,
    },
    Ack {
        ack: SeqNum,
        sack: SackBlocks,
        data_ack: u64,
    },
}

/// A subflow: where it goes, and its ends.
#[derive(Debug)]
pub(super) struct Subflow {
    pub radio: usize,
    /// Number of the server's address, from 0.
    pub address: u32,
    client: ClientEnd,
    server: Option<SubflowSender>,
    /// Time at which the server last answered a SYN, and when and after how long it does so again.
    answered_at: Instant,
    answers_again: Option<(Instant, Duration)>,
    /// Parts of the handshake that are to be sent: towards the client, and from it.
    handshake: [Option<Body>; 2],
}

impl Subflow {
    /// A SYN-ACK, again after `wait` unless the handshake has ended by then.
    fn answer(&mut self, wait: Duration, now: Instant) {
        (self.answered_at, self.answers_again) = (now, Some((now + wait, wait * 2)));
        self.handshake[0] = Some(Body::Opened);
    }
}

#[derive(Debug)]
enum ClientEnd {
    /// Its SYN is not sent yet.
    Waits,
    /// The SYN goes again at this time.
    Opens(Instant, Duration),
    Open(SubflowReceiver),
}

/// Data that the client's program has read.
#[derive(Clone, Debug)]
pub(super) struct Readout {
    pub connected_at: Option<Instant>,
    pub ended_at: Option<Instant>,
    pub last_at: Option<Instant>,
    pub bytes: u64,
    pub is_intact: bool,
    pub stalls: Vec<(Instant, Duration)>,
}

/// A connection that downloads.
#[derive(Debug)]
pub(super) struct Connection {
    pub subflows: Vec<Subflow>,
    control: CaseControl,
    group: Option<CoupledGroup>,
    mss: u32,
    content: Pattern,
    size: u64,
    /// The server's next data, and the end of what the client's window allows.
    data_next: u64,
    edge: u64,
    /// Data behind a hole of the data.
    waiting: BTreeMap<u64, Vec<u8>>,
    reading: Readout,
}

impl Connection {
    /// A connection over these radios and addresses, the first of which opens at `now`; `mss` bytes of payload fit a
    /// segment.
    pub(super) fn new(
        routes: &[(usize, u32)],
        control: CaseControl,
        mss: u32,
        (seed, size): (u64, u64),
        now: Instant,
    ) -> Self {
        let group = match control {
            CaseControl::Coupled(scheme) => Some(CoupledGroup::new(scheme)),
            CaseControl::Uncoupled(_) => None,
        };
        let subflow = |(i, &(radio, address)): (usize, &(usize, u32))| Subflow {
            radio,
            address,
            client: if i == 0 { ClientEnd::Opens(now, SYN_TIMEOUT) } else { ClientEnd::Waits },
            server: None,
            answered_at: now,
            answers_again: None,
            handshake: [None, None],
        };
        Self {
            subflows: routes.iter().enumerate().map(subflow).collect(),
            control,
            group,
            mss,
            content: Pattern::new(seed),
            size,
            data_next: 0,
            edge: WINDOW,
            waiting: BTreeMap::new(),
            reading: Readout {
                connected_at: None,
                ended_at: None,
                last_at: None,
                bytes: 0,
                is_intact: true,
                stalls: Vec::new(),
            },
        }
    }

    pub(super) fn reading(&self) -> &Readout {
        &self.reading
    }

    fn controller(&self) -> Option<Box<dyn Controller>> {
        let mss = Bytes::from(self.mss);
        if let Some(group) = &self.group {
            return group
                .subflow(CoupledParams { mss, ..CoupledParams::default() })
                .map(|one| Box::new(one) as _);
        }
        let CaseControl::Uncoupled(control) = self.control else { return None };
        let config: ControllerConfig = control.config();
        Some(Box::new(config.with_mss(mss).build()))
    }

    /// A packet that arrives over subflow `at`.
    pub(super) fn on_packet(&mut self, at: usize, body: Body, now: Instant) {
        match body {
            Body::Open => {
                let Some(subflow) = self.subflows.get_mut(at) else { return };
                if subflow.server.is_none() {
                    subflow.answer(SYN_TIMEOUT, now);
                }
            }
            Body::Opened => self.on_opened(at, now),
            Body::Ready => self.on_ready(at, now),
            Body::Data { seq, data_seq, payload } => self.on_data(at, (seq, data_seq), &payload, now),
            Body::Ack { ack, sack, data_ack } => {
                self.edge = self.edge.max(data_ack + WINDOW);
                if let Some(server) = self.subflows.get_mut(at).and_then(|one| one.server.as_mut()) {
                    server.on_ack(ack, &sack, now);
                }
            }
        }
    }

    fn on_opened(&mut self, at: usize, now: Instant) {
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        subflow.handshake[1] = Some(Body::Ready);
        if matches!(subflow.client, ClientEnd::Open(_)) {
            return;
        }
        subflow.client = ClientEnd::Open(SubflowReceiver::new());
        self.reading.connected_at.get_or_insert(now);
        for other in self.subflows.iter_mut().filter(|one| matches!(one.client, ClientEnd::Waits)) {
            other.client = ClientEnd::Opens(now, SYN_TIMEOUT);
        }
    }

    fn on_ready(&mut self, at: usize, now: Instant) {
        if self.subflows.get(at).is_none_or(|one| one.server.is_some()) {
            return;
        }
        let Some(controller) = self.controller() else { return };
        let mss = self.mss;
        let subflow = &mut self.subflows[at];
        subflow.answers_again = None;
        let handshake = now.saturating_since(subflow.answered_at);
        subflow.server = Some(SubflowSender::new(controller, mss, handshake, now));
    }

    fn on_data(&mut self, at: usize, place: (SeqNum, u64), payload: &[u8], now: Instant) {
        let Self { subflows, waiting, .. } = self;
        let Some(subflow) = subflows.get_mut(at) else { return };
        // The server sends as soon as the handshake's end has come, which may be a repeated one.
        let ClientEnd::Open(receiver) = &mut subflow.client else { return };
        receiver.on_segment(place, payload, now, &mut |data_seq, bytes| {
            waiting.insert(data_seq, bytes);
        });
        self.read(now);
    }

    /// The client's program reads what is in order.
    fn read(&mut self, now: Instant) {
        let before = self.reading.bytes;
        while let Some(first) = self.waiting.first_entry().filter(|one| *one.key() <= self.reading.bytes) {
            let (data_seq, bytes) = first.remove_entry();
            let is_right =
                data_seq == self.reading.bytes && self.content.first_mismatch(data_seq, &bytes).is_none();
            self.reading.is_intact &= is_right;
            self.reading.bytes = data_seq + bytes.len() as u64;
        }
        if self.reading.bytes == before {
            return;
        }
        if let Some(last) = self.reading.last_at.replace(now) {
            let silence = now.saturating_since(last);
            if silence >= STALL_MIN {
                self.reading.stalls.push((last, silence));
            }
        }
        if self.reading.bytes >= self.size {
            self.reading.ended_at.get_or_insert(now);
        }
    }

    /// The next packet towards the client, and its subflow.
    pub(super) fn poll_server(&mut self, now: Instant) -> Option<(usize, Body)> {
        for (at, subflow) in self.subflows.iter_mut().enumerate() {
            if let Some(body) = subflow.handshake[0].take() {
                return Some((at, body));
            }
        }
        // The shortest round trip first; of equal ones the one that was there first.
        let mut order: Vec<usize> = (0..self.subflows.len()).collect();
        order.sort_by_key(|at| self.subflows[*at].server.as_ref().map(SubflowSender::round_trip));
        for at in order {
            let left = self.size.min(self.edge).saturating_sub(self.data_next);
            let Some(server) = self.subflows[at].server.as_mut() else { continue };
            let mut sent = server.poll(now);
            if sent.is_none() && server.has_room(now) {
                // Whole segments, but for the end of the data.
                let is_end = self.size - self.data_next <= u64::from(server.mss());
                if left >= u64::from(server.mss()) || (is_end && left > 0) {
                    let len = u64::from(server.mss()).min(left) as u32;
                    server.give(self.data_next, len);
                    self.data_next += u64::from(len);
                    sent = server.poll(now);
                } else {
                    server.lacks_data();
                }
            }
            if let Some(sent) = sent {
                let mut payload = vec![0; sent.len as usize];
                self.content.fill(sent.data_seq, &mut payload);
                return Some((at, Body::Data { seq: sent.seq, data_seq: sent.data_seq, payload }));
            }
        }
        None
    }

    /// The next packet from the client, and its subflow.
    pub(super) fn poll_client(&mut self, now: Instant) -> Option<(usize, Body)> {
        let data_ack = self.reading.bytes;
        for (at, subflow) in self.subflows.iter_mut().enumerate() {
            if let Some(body) = subflow.handshake[1].take() {
                return Some((at, body));
            }
            match &mut subflow.client {
                ClientEnd::Opens(due, wait) if *due <= now => {
                    (*due, *wait) = (now + *wait, *wait * 2);
                    return Some((at, Body::Open));
                }
                ClientEnd::Open(receiver) => {
                    if let Some((ack, sack)) = receiver.poll(now) {
                        return Some((at, Body::Ack { ack, sack, data_ack }));
                    }
                }
                ClientEnd::Waits | ClientEnd::Opens(..) => {}
            }
        }
        None
    }

    /// Acts on timers of the server that are due.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        for subflow in &mut self.subflows {
            if let Some((_, wait)) = subflow.answers_again.filter(|(at, _)| *at <= now) {
                subflow.answer(wait, now);
            }
            if let Some(server) = &mut subflow.server {
                server.on_timeout(now);
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let of = |one: &Subflow| {
            let client = match &one.client {
                ClientEnd::Waits => None,
                ClientEnd::Opens(at, _) => Some(*at),
                ClientEnd::Open(receiver) => receiver.next_deadline(),
            };
            let server = one.server.as_ref().and_then(SubflowSender::next_deadline);
            let answer = one.answers_again.map(|(at, _)| at);
            client.into_iter().chain(server).chain(answer).min()
        };
        self.subflows.iter().filter_map(of).min()
    }
}
