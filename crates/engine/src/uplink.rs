//! Packets of the client on an accelerated flow.
//!
//! What a packet acknowledges is for us; what it carries is for the server, and goes on with our own
//! acknowledgement, window and timestamp echo in place of the client's.

use tcp::AckIn;
use units::Instant;
use wire::{ChecksumState, Packet, Tcp, TcpEditor, TcpFlags};

use crate::Verdict;
use crate::accelerated::Accelerated;
use crate::downlink::Effect;
use crate::path::Path;
use crate::{EngineConfig, PassReason, Stats};

/// Acknowledgements in a row of what was never sent that are believed.
const DESYNCHRONISED_AFTER: u8 = 3;

/// Takes in a packet that came from the client.
pub(crate) fn on_packet(
    flow: &mut Accelerated,
    path: &mut Path,
    config: &EngineConfig,
    (parsed, tcp): (&Packet, &Tcp),
    (packet, state): (&mut [u8], ChecksumState),
    stats: &mut Stats,
    now: Instant,
) -> Effect {
    if tcp.flags.contains(TcpFlags::RST) {
        return on_reset(flow, path, config, tcp, (packet, state), stats);
    }
    if tcp.flags.contains(TcpFlags::SYN | TcpFlags::ACK) {
        // Its SYN-ACK again: the third packet was lost behind us.
        flow.outbox.ack_client = true;
        return Effect::CONSUMED;
    }
    if tcp.flags.contains(TcpFlags::SYN) {
        return Effect::FORWARD;
    }
    let is_keep_alive = tcp.seq + 1 == flow.client.nxt && tcp.payload_len <= 1;
    // A number from nowhere may come with a time from nowhere, which all that we send for the client would carry.
    let is_number = flow.is_client_number(tcp.seq);
    if is_number {
        flow.note_client(&parsed.ip, tcp);
    }
    // After both ends the server has no use for a bare acknowledgement: if it has closed it would answer with a reset.
    let had_nothing_out = flow.sender.is_idle() && !flow.has_ended();
    let mut is_desynchronised = false;
    if tcp.flags.contains(TcpFlags::ACK) && is_number {
        is_desynchronised = !on_ack(flow, path, tcp, stats, now);
        if flow.wants_window_update(config, path) {
            flow.outbox.ack_server = true;
        }
    }
    if is_desynchronised
        && tcp.ack.is_at_or_after(flow.receiver.next())
        && (flow.nonsense >= DESYNCHRONISED_AFTER || flow.is_doubtful)
    {
        // It has everything we hold, and more, from elsewhere: we are not needed (H11). Said once, it may be forged or
        // damaged, and what is owed would be lost; unless packets went past us.
        return Effect { verdict: Verdict::Forward, end: Some(PassReason::Desynchronised) };
    }
    let is_for_server = tcp.payload_len > 0
        || tcp.flags.intersects(TcpFlags::FIN.with(TcpFlags::URG))
        || is_keep_alive
        || had_nothing_out;
    if !is_for_server {
        stats.acks_consumed += 1;
        return Effect::CONSUMED;
    }
    rewrite(flow, path, config, tcp, (packet, state));
    Effect::FORWARD
}

/// The acknowledgement part; false when it acknowledges what was never sent.
fn on_ack(flow: &mut Accelerated, path: &mut Path, tcp: &Tcp, stats: &mut Stats, now: Instant) -> bool {
    let before = flow.sender.in_flight();
    // What it has of the data that waits here came past us: as if it had been sent.
    let from_elsewhere = (flow.is_doubtful && tcp.ack.is_after(flow.sender.nxt()))
        .then_some(tcp.ack)
        .filter(|ack| ack.is_at_or_before(flow.receiver.next()));
    let out = flow.sender.on_ack(
        &AckIn {
            ack: from_elsewhere.map_or(tcp.ack, |_| flow.sender.nxt()),
            window: flow.client_scale.window(tcp.window),
            sack: &tcp.options.sack,
            has_payload: tcp.payload_len > 0,
        },
        now,
    );
    if let Some(ack) = from_elsewhere {
        flow.sender.skip_to(ack);
    }
    if out.is_unacceptable {
        stats.unacceptable_acks += 1;
        flow.judge_sense(Some(PassReason::NotTcpLike));
        return false;
    }
    let in_flight_before = path.in_flight;
    let is_nonsense = out.invalid_sack_blocks > 0;
    if is_nonsense || out.delivered > 0 {
        flow.judge_sense(is_nonsense.then_some(PassReason::NonsensicalSack));
    }
    path.adjust_in_flight(before, flow.sender.in_flight());
    path.on_ack(&out, flow.sender.rtt().min(), in_flight_before, now);
    stats.invalid_sack_blocks += u64::from(out.invalid_sack_blocks);
    stats.timeouts_undone += u64::from(out.undid_timeout);
    stats.fell_back_to_honour += u64::from(out.fell_back);
    if out.acked > 0 || from_elsewhere.is_some() {
        flow.last_progress = now;
        let held = flow.buffer.len() as u32;
        flow.buffer.advance_to(flow.sender.una());
        // Its number would lie ahead again half a circle later.
        flow.server.urgent_end = flow.server.urgent_end.filter(|end| flow.sender.una().is_before(*end));
        stats.bytes_delivered += u64::from(held - flow.buffer.len() as u32);
    } else if flow.sender.window() == 0 && tcp.ack == flow.sender.una() {
        // It answers, it only has no room: alive. An older number says nothing about the window.
        flow.last_progress = now;
    }
    if flow.sender.is_fin_acked() && !flow.receiver.acks_fin() {
        flow.receiver.allow_fin_ack();
        flow.outbox.ack_server = true;
    }
    if flow.server_reset && flow.sender.is_data_acked() {
        flow.outbox.reset_client = true;
    }
    true
}

/// Puts our view of the server's direction in place of the client's.
fn rewrite(
    flow: &mut Accelerated,
    path: &Path,
    config: &EngineConfig,
    tcp: &Tcp,
    (packet, state): (&mut [u8], ChecksumState),
) {
    let window = flow.offer_window(config, path);
    let ack = flow.acknowledge();
    let mut edit = TcpEditor::new(packet, tcp, state);
    edit.set_ack(ack);
    edit.set_window(window);
    edit.clear_sack();
    if flow.has_timestamps
        && let Some(echo) = flow.receiver.ts_recent()
    {
        edit.set_timestamps(flow.client.tsval, echo);
    }
    if flow.has_ecn {
        let flags = tcp.flags.without(TcpFlags::ECE);
        edit.set_flags(if flow.echo_congestion { flags.with(TcpFlags::ECE) } else { flags });
    }
    // Blocks have no room here: they follow in a packet of our own.
    flow.outbox.ack_server = flow.receiver.has_holes() || flow.receiver.has_d_sack();
}

/// A reset by the client passes; if it is the right one, what is held for it is dropped.
fn on_reset(
    flow: &mut Accelerated,
    path: &Path,
    config: &EngineConfig,
    tcp: &Tcp,
    (packet, state): (&mut [u8], ChecksumState),
    stats: &mut Stats,
) -> Effect {
    let is_exact = tcp.seq == flow.client.nxt || tcp.seq == flow.server.ack;
    let has_ack = tcp.flags.contains(TcpFlags::ACK);
    if !is_exact {
        stats.inexact_resets += 1;
    }
    if has_ack {
        let window = flow.offer_window(config, path);
        let ack = flow.acknowledge();
        let mut edit = TcpEditor::new(packet, tcp, state);
        edit.set_ack(ack);
        edit.set_window(window);
    }
    if !is_exact {
        return Effect::FORWARD;
    }
    stats.bytes_acked_but_lost += u64::from(flow.debt());
    Effect { verdict: Verdict::Forward, end: Some(PassReason::Reset) }
}
