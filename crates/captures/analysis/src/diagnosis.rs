//! Diagnoses of a slow flow: each [`Diagnosis`] in one line with its evidence.

use crate::budget::TimeBudget;
use crate::direction::Direction;
use crate::report::{Diagnosis, DiagnosisKind, DirectionReport, FlowReport};

/// Share of the active time from which a limit is called the limit.
const MOST: f64 = 0.5;
/// Data below this says nothing about what limits a flow.
const LITTLE_BYTES: u64 = 100_000;

/// The findings of a flow, the weightiest first.
pub(crate) fn diagnose(flow: &FlowReport) -> Vec<Diagnosis> {
    let mut found = Vec::new();
    if let Some((kind, evidence)) = opening(flow) {
        found.push(Diagnosis { kind, direction: flow.client.unwrap_or(Direction::FromFirst), evidence });
    }
    let main = flow.main_direction();
    for direction in [main, main.reverse()] {
        let (data, receiver) = (&flow.directions[direction], &flow.directions[direction.reverse()]);
        let mut add = |finding: Option<(DiagnosisKind, String)>| {
            found.extend(finding.map(|(kind, evidence)| Diagnosis { kind, direction, evidence }));
        };
        if let Some(evidence) = both_sides(data) {
            add(Some((DiagnosisKind::BothSides, evidence)));
            continue;
        }
        add(zero_window(receiver));
        add(window_limited(flow, data, receiver));
        add(bufferbloat(flow, data));
        add(application_limited(flow, data));
        add(time_outs(flow, data));
        add(needless(data));
        add(loss(data));
        add(loss_without_rate_change(data));
        add(split(flow, data, direction));
        add(reordering(data));
        add(gaps(data));
    }
    if has_both_sides(flow) {
        // What the other side repeats is a copy, in the direction with little data too.
        use DiagnosisKind::{
            Loss, LossWithoutRateChange, NeedlessRetransmissions, SplitConnection, TimeOuts,
        };
        let of_copies = [Loss, LossWithoutRateChange, NeedlessRetransmissions, SplitConnection, TimeOuts];
        found.retain(|finding| !of_copies.contains(&finding.kind));
    }
    found
}

/// Copies of data below this may be chance.
const COPIES_MIN: u64 = 10;
/// Copies to data packets from which everything is there twice; what is lost behind the box may be missing
/// among them.
const COPIES_SHARE: f64 = 0.8;

/// True when what looks like retransmissions are the copies that a box sends on after it has acknowledged
/// them itself.
pub(crate) fn has_both_sides(flow: &FlowReport) -> bool {
    flow.directions.iter().any(|data| both_sides(data).is_some())
}

/// A sender repeats nothing that was acknowledged, but for single segments; a box that acknowledges by
/// itself, and whose two sides are in one capture, does so with all.
fn both_sides(data: &DirectionReport) -> Option<String> {
    let copies = data.retransmissions.spurious_acknowledged;
    let first = data.volume.data_packets.saturating_sub(data.retransmissions.data_packets);
    (copies >= COPIES_MIN && copies as f64 >= COPIES_SHARE * first as f64).then(|| {
        format!(
            "{copies} of {first} data packets come again after their acknowledgement: this capture has both \
             sides of a box that acknowledges by itself; give each side as a file of its own, and losses \
             can be told"
        )
    })
}

fn opening(flow: &FlowReport) -> Option<(DiagnosisKind, String)> {
    let client = flow.client?;
    let server = &flow.directions[client.reverse()];
    if flow.handshake.syn_acks == 0 && server.flags.rst > 0 {
        return Some((DiagnosisKind::Refused, format!("{} SYN, answered by a reset", flow.handshake.syns)));
    }
    let is_silent = server.volume.packets == 0 && flow.directions[client].volume.data_packets == 0;
    is_silent.then(|| (DiagnosisKind::NoAnswer, format!("{} SYN, no answer seen", flow.handshake.syns)))
}

fn zero_window(receiver: &DirectionReport) -> Option<(DiagnosisKind, String)> {
    let window = &receiver.window;
    (window.zero > 0).then(|| {
        let evidence = format!("window zero for {:.0} ms ({} packets)", window.zero_ms, window.zero);
        (DiagnosisKind::ZeroWindow, evidence)
    })
}

/// The budget of the flow's time, if it is about this direction.
fn of_main<'a>(flow: &'a FlowReport, data: &DirectionReport) -> Option<&'a TimeBudget> {
    std::ptr::eq(data, &raw const flow.directions[flow.budget.direction]).then_some(&flow.budget)
}

/// A part in words, of the same whole as the sentence of the budget.
fn share_of_flow(part_ns: u64, budget: &TimeBudget) -> String {
    let share = 100.0 * part_ns as f64 / budget.total_ns.max(1) as f64;
    format!("{share:.0} % of the flow's time")
}

fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn active_ms(data: &DirectionReport) -> Option<f64> {
    let rate = data.throughput.active_bps?;
    Some(data.volume.unique_bytes as f64 * 8_000.0 / rate)
}

fn window_limited(
    flow: &FlowReport,
    data: &DirectionReport,
    receiver: &DirectionReport,
) -> Option<(DiagnosisKind, String)> {
    let active = active_ms(data)?;
    // Beside the receiver nothing is outstanding for long: there the budget of the time knows.
    let by_budget = of_main(flow, data).map(|budget| milliseconds(budget.receive_window_ns));
    let limited = data.sender.window_limited_ms.or(by_budget)?;
    if data.volume.unique_bytes < LITTLE_BYTES || limited < active * MOST {
        return None;
    }
    let window = receiver.window.max?;
    let of_data = data.rtt.karn.filter(|_| data.sender.window_limited_ms.is_some());
    let rtt = of_data.map(|rtt| rtt.p50_ms).or(flow.handshake.total_ms)?;
    let whole = flow.handshake.total_ms.map_or(rtt, |total| total.max(rtt));
    if whole <= 0.0 {
        return None;
    }
    let mbps = window as f64 * 8.0 / whole / 1_000.0;
    // The share is that of the budget, where there is one.
    let share = of_main(flow, data).map(|budget| share_of_flow(budget.receive_window_ns, budget));
    let share = share.unwrap_or_else(|| {
        format!("{:.0} % of the time between first and last data", 100.0 * (limited / active).min(1.0))
    });
    let evidence = format!("{window} B / {whole:.1} ms = {mbps:.2} Mbit/s; window full {share}");
    Some((DiagnosisKind::ReceiveWindowLimited, evidence))
}

fn bufferbloat(flow: &FlowReport, data: &DirectionReport) -> Option<(DiagnosisKind, String)> {
    let is_beside_receiver = data.sender.in_flight_max.is_none();
    // There, what the receiver's timestamps took to come back is the whole path.
    let by_receiver = of_main(flow, data).and(flow.receiver_rtt);
    let rtt = if is_beside_receiver { by_receiver } else { data.rtt.karn };
    let rtt = rtt.filter(|rtt| rtt.n >= 20)?;
    let is_usual = rtt.p50_ms >= 1.5 * rtt.min_ms;
    let stall = of_main(flow, data).map_or(0.0, |budget| milliseconds(budget.longest_stall_ns));
    // What was under way at a stall came late by it, and that is no queue: then what is usual tells.
    let is_by_stall = 2.0 * stall >= rtt.p95_ms - rtt.min_ms;
    if !is_usual && is_by_stall {
        return None;
    }
    let is_far_off = rtt.p95_ms >= 2.0 * rtt.p50_ms;
    let (high, percent) = if is_by_stall && is_far_off { (rtt.p50_ms, 50) } else { (rtt.p95_ms, 95) };
    // A queue is a multiple of the path, and long enough to feel.
    let is_long = high >= 2.0 * rtt.min_ms && high >= rtt.min_ms + 50.0;
    (data.volume.unique_bytes >= LITTLE_BYTES && is_long).then(|| {
        let rate = data.throughput.active_bps.unwrap_or(0.0) / 1e6;
        let evidence = format!("RTT {:.0} -> {high:.0} ms ({percent} %) at {rate:.2} Mbit/s", rtt.min_ms);
        (DiagnosisKind::Bufferbloat, evidence)
    })
}

fn application_limited(flow: &FlowReport, data: &DirectionReport) -> Option<(DiagnosisKind, String)> {
    let budget = of_main(flow, data)?;
    // A pause before the end is none for want of data, nor is one at a shut window.
    let (idle, whole) = (budget.application_ns, budget.total_ns.saturating_sub(budget.closing_ns));
    (data.volume.unique_bytes >= LITTLE_BYTES && idle as f64 > whole as f64 * MOST).then(|| {
        let share = share_of_flow(idle, budget);
        let evidence = format!("nothing outstanding {share}, and more data came later");
        (DiagnosisKind::ApplicationLimited, evidence)
    })
}

fn time_outs(flow: &FlowReport, data: &DirectionReport) -> Option<(DiagnosisKind, String)> {
    let count = data.retransmissions.rto.filter(|count| *count > 0)?;
    let by_budget = of_main(flow, data).map(|budget| milliseconds(budget.longest_stall_ns));
    let stall = by_budget.unwrap_or(data.sender.pause_max_ms);
    let evidence = format!("{count} retransmission time-outs, {stall:.0} ms without progress at most");
    Some((DiagnosisKind::TimeOuts, evidence))
}

fn needless(data: &DirectionReport) -> Option<(DiagnosisKind, String)> {
    let r = &data.retransmissions;
    (r.spurious > 0).then(|| {
        let evidence = format!(
            "{} of {} retransmissions not needed ({} by D-SACK, {} by timestamps, {} acknowledged before)",
            r.spurious,
            r.data_packets + r.syn + r.fin,
            r.spurious_dsack,
            r.spurious_timestamp,
            r.spurious_acknowledged
        );
        (DiagnosisKind::NeedlessRetransmissions, evidence)
    })
}

fn loss(data: &DirectionReport) -> Option<(DiagnosisKind, String)> {
    let behind = data.retransmissions.data_packets.saturating_sub(data.retransmissions.spurious);
    let before = data.loss.before_capture;
    (behind + before > 0).then(|| {
        let rate = 100.0 * (behind + before) as f64 / (data.volume.data_packets + before).max(1) as f64;
        let evidence = format!("{rate:.2} % ({behind} behind the capture point, {before} before it)");
        (DiagnosisKind::Loss, evidence)
    })
}

/// [MA] §III-C: loss events of a radio link do not go with its rate; those of a full queue follow a peak.
fn loss_without_rate_change(data: &DirectionReport) -> Option<(DiagnosisKind, String)> {
    let reductions = data.sender.window_reductions?;
    let (events, loss) = (reductions.fast + reductions.time_outs, reductions.throughput_loss?);
    (events >= 5 && loss.abs() < 0.1).then(|| {
        let evidence = format!("{events} loss events, throughput changes by {:.1} % at them", -100.0 * loss);
        (DiagnosisKind::LossWithoutRateChange, evidence)
    })
}

/// A proxy that answers the handshake itself, or acknowledges data for the receiver: the round trip of data
/// is not that of the handshake, or the hop limits of SYN and data differ ([MP] §IV).
fn split(flow: &FlowReport, data: &DirectionReport, direction: Direction) -> Option<(DiagnosisKind, String)> {
    if let (Some(syn), Some(first)) = (data.hop_limits.syn, data.hop_limits.data)
        && syn != first
    {
        let evidence = format!("hop limit {syn} in the SYN, {first} in data: two machines send");
        return Some((DiagnosisKind::SplitConnection, evidence));
    }
    let towards_server = flow.client? == direction;
    let to_client = flow.handshake.to_client_ms.filter(|_| !flow.handshake.ack_has_data);
    let handshake = if towards_server { flow.handshake.to_server_ms } else { to_client }?;
    let rtt = data.rtt.karn.filter(|rtt| rtt.n >= 20)?;
    let (low, high) = (handshake.min(rtt.min_ms), handshake.max(rtt.min_ms));
    (high > 3.0 * low && high > low + 20.0).then(|| {
        let evidence = format!(
            "handshake answered in {handshake:.1} ms, data never in less than {:.1} ms: suspected",
            rtt.min_ms
        );
        (DiagnosisKind::SplitConnection, evidence)
    })
}

fn reordering(data: &DirectionReport) -> Option<(DiagnosisKind, String)> {
    let count = data.loss.reordered;
    (count > 0).then(|| {
        let share = 100.0 * count as f64 / data.volume.data_packets.max(1) as f64;
        (DiagnosisKind::Reordering, format!("{count} packets late, {share:.2} % of data packets"))
    })
}

fn gaps(data: &DirectionReport) -> Option<(DiagnosisKind, String)> {
    (data.not_captured_bytes > 0).then(|| {
        let evidence = format!("{} B acknowledged that the capture does not have", data.not_captured_bytes);
        (DiagnosisKind::CaptureGaps, evidence)
    })
}
