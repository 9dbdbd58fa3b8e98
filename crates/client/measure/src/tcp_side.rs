//! [`TcpSide`]: what one end of a TCP connection sees while data goes.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use io::{Clock, Interest, IoError, TcpInfo, Waiter};
use serde::{Deserialize, Serialize};
use units::{Duration, Instant};

/// Between two samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Samples kept: ten minutes.
const SAMPLES_MAX: usize = 6_000;
const CHUNK: usize = 64 << 10;

/// The sender's `TCP_INFO` at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpSample {
    /// Seconds since the transfer began.
    pub at_s: f64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments.
    pub ssthresh: u32,
    /// Segments that are not acknowledged.
    pub unacked: u32,
    /// The peer's window, bytes.
    pub rwnd_bytes: u32,
    /// Smoothed round trip.
    pub srtt_ms: f64,
    /// Segments sent again so far.
    pub retransmitted: u32,
    /// Data segments sent so far.
    pub segments: u32,
    /// Pacing rate; none where the kernel has no limit.
    pub pacing_mbps: Option<f64>,
    /// Latest delivery rate.
    pub delivery_mbps: f64,
    /// Bytes acknowledged so far.
    pub acked_bytes: u64,
    /// Time with something to send so far.
    pub busy_s: f64,
    /// Of that limited by the peer's window.
    pub rwnd_limited_s: f64,
    /// Of that limited by the send buffer.
    pub sndbuf_limited_s: f64,
}

/// View of one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSide {
    /// Round trip of the handshake as the kernel of this end measured it; none where it did not.
    pub handshake_ms: Option<f64>,
    /// Segment size.
    pub mss: u32,
    /// Seconds from the first byte to the end, at most the length asked for.
    pub seconds: f64,
    /// Bytes received in each 100 ms; of a sender none.
    pub received_bytes: Vec<u64>,
    /// Of a sender; of a receiver none.
    pub samples: Vec<TcpSample>,
}

impl TcpSide {
    /// Bytes of data that the peer has acknowledged to this sender.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.samples.last().map_or(0, |sample| sample.acked_data())
    }

    /// View of the receiver of this sender, as far as its acknowledgements tell: half a round trip late, and
    /// without what was under way at the end.
    pub(crate) fn receiver_as_acknowledged(&self) -> Self {
        let (mut received_bytes, mut seconds, mut before) = (Vec::new(), 0.0, 0);
        for sample in &self.samples {
            let more = sample.acked_data().saturating_sub(before);
            if more == 0 {
                continue;
            }
            // A sample tells of the time before it.
            let bin = (sample.at_s / SAMPLE_EVERY.as_secs_f64()).ceil() as usize;
            let bin = bin.saturating_sub(1).min(SAMPLES_MAX);
            received_bytes.resize(bin.max(received_bytes.len().saturating_sub(1)) + 1, 0);
            if let Some(bytes) = received_bytes.last_mut() {
                *bytes += more;
            }
            (seconds, before) = (sample.at_s, sample.acked_data());
        }
        Self { received_bytes, seconds, ..Self::default() }
    }
}

impl TcpSample {
    /// The kernel counts the SYN.
    fn acked_data(&self) -> u64 {
        self.acked_bytes.saturating_sub(1)
    }
}

fn sample(info: &TcpInfo, begin: Instant) -> TcpSample {
    let is_paced = info.pacing_rate.as_bps() < u64::MAX / 2;
    TcpSample {
        at_s: Clock::now().saturating_since(begin).as_secs_f64(),
        cwnd: info.cwnd,
        ssthresh: info.ssthresh,
        unacked: info.unacked,
        rwnd_bytes: info.peer_window,
        srtt_ms: info.srtt.as_millis_f64(),
        retransmitted: info.retransmitted,
        segments: info.data_segments_sent,
        pacing_mbps: is_paced.then(|| info.pacing_rate.as_mbps_f64()),
        delivery_mbps: info.delivery_rate.as_mbps_f64(),
        acked_bytes: info.bytes_acked,
        busy_s: info.busy.as_secs_f64(),
        rwnd_limited_s: info.rwnd_limited.as_secs_f64(),
        sndbuf_limited_s: info.sndbuf_limited.as_secs_f64(),
    }
}

/// State in the kernel of a connection that has carried nothing yet.
pub(crate) fn fresh(stream: &TcpStream) -> Result<TcpSide, IoError> {
    let info = TcpInfo::of(stream)?;
    let handshake_ms = (!info.srtt.is_zero()).then(|| info.srtt.as_millis_f64());
    Ok(TcpSide { handshake_ms, mss: info.mss, ..TcpSide::default() })
}

/// Sends for `length`, or until the peer ends it or `is_stopped`, which hears how many bytes were
/// acknowledged.
pub(crate) fn send(
    mut stream: &TcpStream,
    mut side: TcpSide,
    length: Duration,
    is_stopped: &mut dyn FnMut(u64) -> bool,
) -> Result<TcpSide, IoError> {
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(stream, Interest::Write, 0)?;
    let chunk = vec![0x5a; CHUNK];
    let begin = Clock::now();
    let (end, mut next) = (begin + length, begin);
    let acked = |side: &TcpSide| side.samples.last().map_or(0, |sample| sample.acked_bytes);
    let mut is_open = true;
    while is_open && Clock::now() < end && !is_stopped(acked(&side)) {
        let is_ready = !waiter.wait(Some(end.min(next + SAMPLE_EVERY)))?.is_empty();
        if is_ready {
            match stream.write(&chunk) {
                Ok(0) => is_open = false,
                Err(e) if !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    is_open = false;
                }
                _ => {}
            }
        }
        if Clock::now() >= next && side.samples.len() < SAMPLES_MAX {
            side.samples.push(sample(&TcpInfo::of(&stream)?, begin));
            next += SAMPLE_EVERY;
        }
    }
    side.samples.push(sample(&TcpInfo::of(&stream)?, begin));
    is_stopped(acked(&side));
    side.seconds = Clock::now().saturating_since(begin).as_secs_f64();
    Ok(side)
}

/// Receives until the peer ends it, or `is_stopped`, which hears how many bytes came; what comes later than
/// `length` after the first byte does not count.
pub(crate) fn receive(
    mut stream: &TcpStream,
    mut side: TcpSide,
    length: Duration,
    patience: Duration,
    is_stopped: &mut dyn FnMut(u64) -> bool,
) -> Result<TcpSide, IoError> {
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(stream, Interest::Read, 0)?;
    let mut chunk = vec![0; CHUNK];
    let mut first: Option<Instant> = None;
    let (mut heard, mut came) = (Clock::now(), 0);
    while !is_stopped(came) && Clock::now() < heard + patience {
        let is_ready = !waiter.wait(Some(Clock::now() + SAMPLE_EVERY))?.is_empty();
        if !is_ready {
            continue;
        }
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => {
                came += count as u64;
                heard = Clock::now();
                let since = heard.saturating_since(*first.get_or_insert(heard));
                if since >= length {
                    break;
                }
                let bin = (since.as_nanos() / SAMPLE_EVERY.as_nanos()) as usize;
                if side.received_bytes.len() <= bin {
                    side.received_bytes.resize(bin + 1, 0);
                }
                if let Some(bytes) = side.received_bytes.get_mut(bin) {
                    *bytes += count as u64;
                }
                side.seconds = since.as_secs_f64();
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => break,
        }
    }
    Ok(side)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: f64, acked_bytes: u64) -> TcpSample {
        TcpSample {
            at_s,
            cwnd: 10,
            ssthresh: 0,
            unacked: 0,
            rwnd_bytes: 0,
            srtt_ms: 40.0,
            retransmitted: 0,
            segments: 0,
            pacing_mbps: None,
            delivery_mbps: 0.0,
            acked_bytes,
            busy_s: 0.0,
            rwnd_limited_s: 0.0,
            sndbuf_limited_s: 0.0,
        }
    }

    #[test]
    fn a_sender_knows_what_arrived() {
        let samples = vec![
            sample(0.0, 1),
            sample(0.1, 1_001),
            sample(0.2, 1_001),
            sample(0.35, 5_001),
            sample(0.38, 5_501),
        ];
        let side = TcpSide { samples, ..TcpSide::default() };
        assert_eq!(side.acknowledged(), 5_500);
        let receiver = side.receiver_as_acknowledged();
        assert_eq!(receiver.received_bytes, [1_000, 0, 0, 4_500]);
        assert_eq!(receiver.seconds.to_bits(), 0.38_f64.to_bits());
        assert_eq!(TcpSide::default().receiver_as_acknowledged(), TcpSide::default());
    }
}
