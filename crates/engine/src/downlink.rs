//! Packets of the server on an accelerated flow.
//!
//! Data is taken, kept and acknowledged; a packet without data goes on to the client, told from where the
//! client is: SEQ is our own next number, because the server's lies beyond the client's window while there
//! is debt.

use tcp::{Arrival, SegmentIn};
use units::{Bytes, Instant};
use wire::{ChecksumState, Packet, Tcp, TcpEditor, TcpFlags};

use crate::Verdict;
use crate::accelerated::Accelerated;
use crate::{PassReason, Stats};

/// ECN-capable transport (1): L4S (RFC 9331 §2).
const ECT_1: u8 = 1;

/// What a packet means for the flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Effect {
    pub(crate) verdict: Verdict,
    /// The flow leaves the table.
    pub(crate) end: Option<PassReason>,
}

impl Effect {
    pub(crate) const CONSUMED: Self = Self { verdict: Verdict::Consumed, end: None };
    pub(crate) const FORWARD: Self = Self { verdict: Verdict::Forward, end: None };
}

/// Takes in a packet that came from the server.
pub(crate) fn on_packet(
    flow: &mut Accelerated,
    memory_limit: Bytes,
    (parsed, tcp): (&Packet, &Tcp),
    (packet, state): (&mut [u8], ChecksumState),
    stats: &mut Stats,
    now: Instant,
) -> Effect {
    if tcp.flags.contains(TcpFlags::RST) {
        return on_reset(flow, tcp, (packet, state), stats);
    }
    if tcp.flags.contains(TcpFlags::SYN) {
        // Its SYN-ACK again: the third packet was lost behind us.
        flow.outbox.ack_server = true;
        return Effect::CONSUMED;
    }
    if flow.server_reset {
        return Effect::CONSUMED;
    }
    if parsed.ip.ecn() == ECT_1 && tcp.payload_len > 0 {
        // A scalable sender (RFC 9330) needs the marks of the whole path: we would answer in its receiver's place.
        if flow.is_even() && flow.sender.is_idle() && !flow.receiver.has_holes() {
            return Effect { verdict: Verdict::Forward, end: Some(PassReason::AccurateEcn) };
        }
        flow.give_up(PassReason::AccurateEcn);
    }
    let was_idle = flow.is_even() && flow.sender.is_idle();
    let is_acceptable = is_acceptable(flow, tcp);
    if is_acceptable {
        flow.renew_server_timestamp(tcp);
    }
    let is_overtaken = flow.is_overtaken(tcp);
    let news = is_acceptable && flow.note_server(&parsed.ip, tcp);
    if is_acceptable {
        note_congestion(flow, parsed, tcp);
    }
    let arrival = receive(flow, tcp, tcp.payload(packet), memory_limit, stats);
    if flow.is_draining && is_acceptable {
        flow.hand_back.note(tcp, flow.receiver.next(), now);
    }
    if tcp.payload_len > 0 {
        flow.judge_hole(matches!(arrival, Arrival::InOrder { .. }), now);
    }
    if was_idle {
        // Nothing was owed: what is from here on, be it only a FIN, is owed since now.
        flow.last_progress = now;
    }
    match arrival {
        Arrival::Empty if is_overtaken => Effect::CONSUMED,
        Arrival::Empty if is_acceptable => forward_bare(flow, tcp, (packet, state)),
        Arrival::Duplicate if is_keep_alive(flow, tcp) && flow.is_even() => {
            forward_bare(flow, tcp, (packet, state))
        }
        Arrival::Empty if !flow.may_challenge(now) => Effect::CONSUMED,
        _ => {
            flow.outbox.ack_server = true;
            flow.outbox.ack_client |= news;
            Effect::CONSUMED
        }
    }
}

fn receive(
    flow: &mut Accelerated,
    tcp: &Tcp,
    payload: &[u8],
    memory_limit: Bytes,
    stats: &mut Stats,
) -> Arrival {
    let is_new = tcp.seq_end().is_after(flow.acked_to_server);
    let has_content = !payload.is_empty() || tcp.flags.contains(TcpFlags::FIN);
    if flow.is_draining && is_new && has_content && !flow.takes_allowed() {
        return Arrival::OutOfWindow; // the server will send it again, past us
    }
    // What there is no memory for is left to the server to send again (H20).
    let room = room_for(flow, tcp, payload.len(), memory_limit);
    if room < payload.len() {
        stats.memory_refused += 1;
        if room == 0 {
            return Arrival::OutOfWindow;
        }
    }
    let (payload, fin) = (&payload[..room], tcp.flags.contains(TcpFlags::FIN) && room == payload.len());
    let arrival = flow.receiver.on_segment(
        &SegmentIn { seq: tcp.seq, payload, fin, timestamp: tcp.options.timestamps.map(|t| t.value) },
        &mut flow.buffer,
    );
    match arrival {
        Arrival::InOrder { advanced } => {
            stats.bytes_received += u64::from(advanced);
            flow.sender.set_available(flow.receiver.next(), flow.receiver.is_finished());
        }
        Arrival::TooOld => stats.paws_rejected += 1,
        Arrival::OutOfWindow => stats.out_of_window += 1,
        Arrival::NoMemory => stats.memory_refused += 1,
        Arrival::OutOfOrder | Arrival::Duplicate | Arrival::Empty => {}
    }
    if matches!(arrival, Arrival::InOrder { .. } | Arrival::OutOfOrder) {
        if tcp.flags.contains(TcpFlags::PSH) {
            flow.server.push_end = flow.server.push_end.later_of(tcp.seq + payload.len() as u32);
        }
        if tcp.flags.contains(TcpFlags::URG) {
            flow.server.urgent_end = Some(tcp.seq + u32::from(tcp.urgent));
        }
    }
    arrival
}

/// How much of a segment's `len` bytes may be kept while the flow's memory is limited: what it holds already costs
/// nothing more.
fn room_for(flow: &Accelerated, tcp: &Tcp, len: usize, memory_limit: Bytes) -> usize {
    let held = flow.buffer.capacity();
    let limit = usize::try_from(memory_limit.get()).unwrap_or(usize::MAX).max(held);
    let ahead = tcp.seq.distance_from(flow.buffer.start()).max(0).unsigned_abs() as usize;
    limit.saturating_sub(ahead).min(len)
}

/// RFC 3168 §6.1.3: a CE mark is echoed until the server says that it has slowed down (H25).
fn note_congestion(flow: &mut Accelerated, parsed: &Packet, tcp: &Tcp) {
    if !flow.has_ecn || tcp.payload_len == 0 {
        return;
    }
    if tcp.flags.contains(TcpFlags::CWR) {
        flow.echo_congestion = false;
    }
    if parsed.ip.is_congestion_experienced() {
        flow.echo_congestion = true;
    }
}

/// RFC 9293 §3.10.7.4: what lies outside the window is answered, and nothing in it believed.
///
/// We rewrite SEQ, so the client cannot check it any more. A packet that is older than what was acknowledged tells
/// nothing new: what was sent after it has arrived.
fn is_acceptable(flow: &Accelerated, tcp: &Tcp) -> bool {
    let is_within = tcp.seq_end().is_at_or_after(flow.acked_to_server)
        && tcp.seq.is_at_or_before(flow.receiver.right_edge() + 1);
    is_within || is_keep_alive(flow, tcp)
}

/// RFC 9293 §3.8.4: a segment just below the left edge, empty or with one byte of garbage.
fn is_keep_alive(flow: &Accelerated, tcp: &Tcp) -> bool {
    tcp.seq + 1 == flow.receiver.next() && tcp.payload_len <= 1 && !tcp.flags.contains(TcpFlags::FIN)
}

/// A packet without new data: an acknowledgement, a window, a keep-alive.
fn forward_bare(flow: &mut Accelerated, tcp: &Tcp, (packet, state): (&mut [u8], ChecksumState)) -> Effect {
    let keep_alive = is_keep_alive(flow, tcp);
    if keep_alive && !flow.is_even() {
        // The client is known to be busy with our debt; the server needs our answer, not its.
        flow.outbox.ack_server = true;
        return Effect::CONSUMED;
    }
    let (tsval, ack, window) = (flow.server.tsval, flow.server.ack, flow.server.window);
    let mut edit = TcpEditor::new(packet, tcp, state);
    edit.set_seq(if keep_alive { flow.sender.nxt() - 1 } else { flow.sender.nxt() });
    if tcp.flags.contains(TcpFlags::ACK) && ack.is_after(tcp.ack) {
        edit.set_ack(ack);
        edit.set_window(window);
    }
    if flow.has_timestamps {
        edit.set_timestamp_value(tsval);
    }
    flow.outbox.ack_client = false;
    Effect::FORWARD
}

/// RFC 5961 §3: only the exact number resets; another one in the window earns an acknowledgement.
fn on_reset(
    flow: &mut Accelerated,
    tcp: &Tcp,
    (packet, state): (&mut [u8], ChecksumState),
    stats: &mut Stats,
) -> Effect {
    // Behind its FIN the server counts one more than we have acknowledged.
    let next = flow.receiver.next();
    let is_exact = tcp.seq == next || (flow.receiver.is_finished() && tcp.seq == next + 1);
    if !is_exact {
        stats.inexact_resets += 1;
        let is_in_window =
            tcp.seq.is_at_or_after(flow.receiver.next()) && tcp.seq.is_before(flow.receiver.right_edge());
        flow.outbox.ack_server |= is_in_window;
        return Effect::CONSUMED;
    }
    if flow.sender.is_idle() && flow.is_even() {
        let mut edit = TcpEditor::new(packet, tcp, state);
        edit.set_seq(flow.sender.una());
        return Effect { verdict: Verdict::Forward, end: Some(PassReason::Reset) };
    }
    // It waits behind the debt (H4).
    flow.server_reset = true;
    flow.outbox.ack_server = false;
    Effect::CONSUMED
}
