//! [`bound`]: how soon a short download can be over on this path, computed.
//!
//! ```text
//!   client  SYN ──▶ request ──▶                                  ▶ last byte
//!   server      ◀── SYN-ACK    10, 20, 40 … segments, a wired round trip apart
//!   radio   each packet leaves when the trace has room for it, behind those before it
//! ```
//!
//! The server knows nothing of the path: it begins with an initial window of 10 segments (RFC 6928) and
//! doubles it with each round trip. An accelerator can do no better than to answer it after the wired one and
//! to have all that arrives go over the radio at once. So this bounds every scheme here, direct ones too,
//! whose round trips are longer. The queue is empty and nothing is lost.

use link::{Link, LinkConfig, QueueLimit};
use units::{Bytes, Duration, Instant};

use crate::line_up::LineUp;

/// Initial window in segments (RFC 6928).
const INITIAL_WINDOW: u64 = 10;
/// Payload of a full segment with timestamps, and what stands before it.
const PAYLOAD: u64 = 1_448;
const HEADERS: u64 = 52;
/// A SYN with its options, and a request.
const SYN: Bytes = Bytes::new(60);
const REQUEST: Bytes = Bytes::new(100 + HEADERS);

/// Time from the SYN of a client that begins at `begins` to the last of `size` bytes; none when the link
/// never carries them.
pub(crate) fn bound(line_up: &LineUp<'_>, begins: Instant, size: Bytes) -> Option<Duration> {
    let network = line_up.network(&[]);
    let radio = network.radios.first()?;
    let free = |config: &LinkConfig| LinkConfig {
        queue: QueueLimit::Unlimited,
        loss_after: link::LossModel::None,
        fades: None,
        ..config.clone()
    };
    let (up, down) = (free(&radio.up.link), free(&radio.down.link));
    let wired = line_up.path.wan_rtt;
    let asked = carry(&up, &[(begins, SYN)])? + wired;
    let answered = carry(&down, &[(asked, SYN)])?;
    let served = carry(&up, &[(answered, REQUEST)])? + wired.mul_ratio(1, 2);
    let last = carry(&down, &arrivals(served + wired.mul_ratio(1, 2), wired, size))?;
    Some(last.saturating_since(begins))
}

/// Times at which the segments of `size` bytes reach the radio link, the first of them at `first`, and their sizes.
fn arrivals(first: Instant, wired: Duration, size: Bytes) -> Vec<(Instant, Bytes)> {
    let mut left = size.get();
    let (mut window, mut at) = (INITIAL_WINDOW, first);
    let mut packets = Vec::new();
    while left > 0 {
        for _ in 0..window {
            let payload = left.min(PAYLOAD);
            if payload > 0 {
                packets.push((at, Bytes::new(payload + HEADERS)));
            }
            left -= payload;
        }
        (window, at) = (window * 2, at + wired);
    }
    packets
}

/// Time at which the last of these packets has passed the link, which has nothing else to do.
fn carry(config: &LinkConfig, packets: &[(Instant, Bytes)]) -> Option<Instant> {
    let mut link = Link::new(config, Instant::ZERO).ok()?;
    for &(at, size) in packets {
        link.enqueue((), size, at).ok()?;
    }
    let mut last = None;
    while let Some(delivery) = link.next_deadline().and_then(|at| link.poll(at)) {
        last = Some(delivery.planned);
    }
    last
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use link::Trace;

    use super::*;
    use crate::{PathSettings, TraceSource};

    /// Each part by hand: 12 Mbit/s are a full packet each millisecond.
    #[test]
    fn handshake_slow_start_and_radio_add_up() {
        let down = Arc::new(Trace::from_opportunities_ms([1]).unwrap());
        let trace = TraceSource { name: "steady".to_owned(), down, up: None, is_drawn: false };
        let scheme = "direct:cubic".parse().unwrap();
        let bound = |wan_rtt: u64, size: u64| {
            let path = PathSettings { wan_rtt: Duration::from_millis(wan_rtt), ..PathSettings::default() };
            let is_over = &AtomicBool::new(false);
            let queue = Bytes::new(4_000_000);
            let line_up = LineUp { trace: &trace, queue, scheme: &scheme, path: &path, seed: 1, is_over };
            super::bound(&line_up, Instant::from_millis(500), Bytes::new(size)).unwrap().as_millis_f64()
        };
        // One segment: two round trips, and a millisecond or so for each packet that waits for its
        // opportunity.
        assert!((80.0..82.5).contains(&bound(20, 1_000)), "{}", bound(20, 1_000));
        // A hundred segments: the radio is the slower one once it is busy, 100 ms of it.
        let hundred = 100 * PAYLOAD;
        assert!((bound(20, hundred) - bound(20, 1_000) - 99.0 - 10.0).abs() < 3.0, "{}", bound(20, hundred));
        // With a wired round trip of 200 ms, windows of 10, 20, 40 and 80 arrive: three more round trips,
        // then 30 segments.
        let wide = bound(200, hundred) - bound(200, 1_000);
        assert!((wide - 600.0 - 29.0).abs() < 3.0, "{wide}");
    }
}
