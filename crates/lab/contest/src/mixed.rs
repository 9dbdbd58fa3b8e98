//! Four flows of one client: two bulk downloads, a video in pieces, and a ping; and a call, past the
//! accelerator's control.

use core::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;

use engine::{Engine, PassThrough};
use link::Percentiles;
use sim::{DatagramConfig, NetworkConfig, SimError};
use units::{Bytes, Duration, Instant, Rate};

use crate::bulk::{Observed, PING, SURPLUS, Watched, pings};
use crate::line_up::{FlowPlan, LineUp};
use crate::results::MixedRun;

/// A piece of video: 1 Mbit/s.
const PIECE: Bytes = Bytes::new(500_000);
const PIECE_EVERY: Duration = Duration::from_secs(4);

/// A video call each way: 50 frames a second of three packets of 1,250 bytes, evenly spaced.
const CALL: Rate = Rate::from_bps(1_500_000 * 1_222 / 1_250);
const CALL_PAYLOAD: Bytes = Bytes::new(1_222);

/// Before the end the call falls silent, so that what it sent can still arrive.
const SILENCE: Duration = Duration::from_secs(2);

/// The call; as many packets come back as arrive.
fn call(length: Duration) -> DatagramConfig {
    let length = length - SILENCE.min(length.mul_ratio(1, 4));
    DatagramConfig {
        server: (Ipv4Addr::new(10, 1, 0, 2), 5_004).into(),
        client: (Ipv4Addr::new(10, 2, 0, 2), 5_004).into(),
        begins: Duration::ZERO,
        rate: CALL,
        payload: CALL_PAYLOAD,
        count: CALL.bytes_in(length).get() / CALL_PAYLOAD.get(),
        answer: CALL_PAYLOAD,
    }
}

const VIDEO: usize = 1;
const FIRST: usize = 2;
const SECOND: usize = 3;

/// Runs them for `length`; the second download begins after a third of it.
pub(crate) fn mixed(line_up: &LineUp<'_>, length: Duration, run: MixedRun) -> Result<MixedRun, SimError> {
    let all = (line_up.trace.down.offered_bytes(Duration::ZERO, length * 2) + SURPLUS).get();
    let joins = Instant::ZERO + length.mul_ratio(1, 3);
    let pieces = u32::try_from(length.as_nanos() / PIECE_EVERY.as_nanos()).unwrap_or(u32::MAX).max(1);
    let flows = [
        pings(length),
        FlowPlan::requests(pieces, PIECE_EVERY, PIECE.get()),
        FlowPlan::download(all, Instant::ZERO),
        FlowPlan::download(all, joins),
    ];
    let network = NetworkConfig { datagrams: Some(call(length)), ..line_up.network(&flows) };
    match line_up.engine() {
        None => through(PassThrough, (&network, line_up.is_over), (joins, length), run),
        Some(config) => through(Engine::new(config)?, (&network, line_up.is_over), (joins, length), run),
    }
}

fn through<M: Observed>(
    middlebox: M,
    (network, is_over): (&NetworkConfig, &AtomicBool),
    (joins, length): (Instant, Duration),
    mut run: MixedRun,
) -> Result<MixedRun, SimError> {
    let mut watched = Watched::new(middlebox, network, is_over)?;
    watched.run(length);
    let end = Instant::ZERO + length;
    let radio = watched.radio(length);
    run.utilisation = radio.utilisation;
    run.queue_ms = radio.queueing_delay.into();
    run.ping_ms = Percentiles::of(watched.response_times(PING).to_vec()).into();
    run.piece_ms = Percentiles::of(watched.response_times(VIDEO).to_vec()).into();
    let seconds = end.saturating_since(joins).as_secs_f64();
    let rates =
        [FIRST, SECOND].map(|flow| (watched.read_by(flow, end) - watched.read_by(flow, joins)) as f64);
    run.bulk_mbps = rates.map(|bytes| bytes * 8e-6 / seconds);
    run.fairness = fairness(&rates);
    if let Some(call) = watched.datagrams() {
        let answered = call.answer_delays.len() as u64;
        run.call_ms = Percentiles::of(call.delays.clone()).into();
        run.call_up_ms = Percentiles::of(call.answer_delays.clone()).into();
        run.call_loss = 1.0 - call.received as f64 / call.sent.max(1) as f64;
        run.call_up_loss = 1.0 - answered as f64 / call.received.max(1) as f64;
    }
    run.problems = watched.problems;
    Ok(run)
}

/// Jain's index of n shares: 1 for equal ones, 1/n where one gets everything.
pub(crate) fn fairness(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum::<f64>() * shares.len() as f64;
    if squares > 0.0 { sum * sum / squares } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::fairness;

    #[test]
    fn jains_index() {
        assert_eq!((fairness(&[3.0, 3.0]), fairness(&[5.0, 0.0])), (1.0, 0.5));
        assert!((fairness(&[2.0, 1.0]) - 0.9).abs() < 1e-12);
    }
}
