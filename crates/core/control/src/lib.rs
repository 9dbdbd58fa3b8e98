//! Rate and window controllers, and the samplers they share.
//!
//! A controller takes measurements in and gives limits out. It never sees a packet: who sends
//! asks it for a [`Control`] and obeys. Loss detection, round-trip times and delivery rates are
//! measured outside and handed in, so that all algorithms judge by the same figures.
//!
//! ```text
//!   scoreboard ──▶ RateSampler ──▶ Ack { delivered, rtt, rate } ──▶ Controller ──▶ Control
//!                                  Loss { lost, kind }          ──▶            { window,
//!   base station ─────────────────▶ Feedback { bandwidth, queue } ──▶              pacing_rate,
//!                                                                                send_quantum }
//! ```
//!
//! | file | algorithm | source |
//! |---|---|---|
//! | `adaptive.rs` | forecast of the link, headroom by its effect | docs/algorithms/adaptive.md |
//! | `server.rs` | the law of `adaptive` for one connection of a server's kernel | docs/congestion.md |
//! | `fixed.rs` | a constant rate | \[MA\] Fig 2 |
//! | `rate.rs` | bandwidth estimate, two RTT thresholds | \[MA\] equations (3)–(5), Table 2 |
//! | `new_reno.rs` | window halving | RFC 5681, RFC 6582 |
//! | `cubic.rs` | a window that follows a cubic function of time | RFC 9438, HyStart |
//! | `baselines/westwood.rs` | threshold from the bandwidth at a loss, 2001 and Westwood+ | MobiCom 2001, CCR 34(2) |
//! | `baselines/veno.rs` | a loss with a short queue costs a fifth | JSAC 21(2) |
//! | `baselines/vegas.rs` | two to four segments of queue | SIGCOMM 1994, JSAC 13(8) |
//! | `baselines/htcp.rs` | growth by the time since the last loss | draft-leith-tcp-htcp-06 |
//! | `baselines/highspeed.rs` | steps that grow with the window | RFC 3649 |
//! | `baselines/bic.rs` | binary search for the window of the last loss | INFOCOM 2004 |
//! | `bbr.rs` | a model of bandwidth and round trip, paced | draft-cardwell-iccrg-bbr-congestion-control-00 |
//! | `window_adaptation.rs` | a window by the base station's reports | \[WA\] equations (1)–(8), (18) |
//! | `bbr3.rs` | the same with bounds by loss, probing every few seconds | draft-ietf-ccwg-bbr-02 |
//! | `baselines/c2tcp.rs` | CUBIC that starts again when an interval has no short round trip | \[C2\] |
//! | `baselines/copa.rs` | 1 ÷ δ segments of queue, steps that double | \[CO\] |
//! | `coupled.rs` | windows of the subflows of a multi-path connection | RFC 6356, \[MP\] §II-B, draft-walid-mptcp-congestion-control-04 |
//! | `baselines/sprout.rs` | what the link will deliver in 100 ms with 95 % probability | \[SP\] |
//! | `baselines/verus.rs` | a window from a learned curve of delay over window | \[VE\] |
//! | `drwa.rs` | a receive window, not a sender's: what the path delivers in a round trip | \[DR\] |
//! | `drwa/receiver.rs` | the same at a receiver that sees only segments, with remedies for unequal shares | \[DR\] |
//!
//! What all window controllers share (slow start, proportional rate reduction, undoing a needless time-out)
//! is `window.rs`; an algorithm adds how the window grows and how far it shrinks.

#![deny(clippy::float_arithmetic)]

mod adaptive;
mod any;
mod baselines;
mod bbr;
mod bbr3;
#[cfg(test)]
mod bottleneck;
pub mod coupled;
mod cubic;
mod drwa;
mod feedback;
mod filter;
mod fixed;
mod fixed_point;
mod hystart;
mod new_reno;
mod parameters;
#[cfg(test)]
mod path;
#[cfg(test)]
mod properties;
mod rate;
mod round;
mod sampler;
pub mod server;
#[cfg(test)]
mod shared_link;
mod window;
mod window_adaptation;

pub use adaptive::{Adaptive, AdaptiveParams, Term, Terms};
pub use any::{AnyController, ControllerConfig, ControllerKind, Listed, ServerControl};
pub use baselines::bic::{Bic, BicParams};
pub use baselines::c2tcp::{C2tcp, C2tcpParams};
pub use baselines::copa::{Copa, CopaParams};
pub use baselines::highspeed::{HighSpeed, HighSpeedParams};
pub use baselines::htcp::{HTcp, HTcpParams};
pub use baselines::sprout::{Sprout, SproutParams};
pub use baselines::vegas::{Vegas, VegasParams};
pub use baselines::veno::{Veno, VenoParams};
pub use baselines::verus::{Verus, VerusParams};
pub use baselines::westwood::{Westwood, WestwoodParams, WestwoodPlus, WestwoodPlusParams};
pub use bbr::{Bbr, BbrParams};
pub use bbr3::{Bbr3, Bbr3Params};
pub use cubic::{Cubic, CubicParams};
pub use drwa::receiver;
pub use drwa::{Drwa, DrwaParams, WindowField};
pub use feedback::Feedback;
pub use filter::{Larger, Order, Recent, RecentMax, RecentMin, Smaller, Windowed, WindowedMax, WindowedMin};
pub use fixed::{Fixed, FixedParams};
pub use new_reno::{NewReno, NewRenoParams};
pub use parameters::{ParameterError, ParameterValue};
pub use rate::{R_CAP_START, RateControl, RateParams};
pub use sampler::{RateSample, RateSampler, SendStamp};
pub use server::{AdaptiveServer, AdaptiveServerParams};
pub use window_adaptation::{Law, WindowAdaptation, WindowAdaptationParams};

use units::{Bytes, Duration, Instant, Rate};

/// Facts that an acknowledgement told the sender.
///
/// The losses it showed are reported before it, so that a reduction and the first step of its recovery are
/// one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ack {
    /// Time of its arrival.
    pub now: Instant,
    /// Bytes it newly reported as delivered, cumulatively or selectively.
    pub delivered: Bytes,
    /// Bytes of those that the peer threw away: sent beyond its window while something was missing (H18).
    pub discarded: Bytes,
    /// The window of the peer that sent it.
    pub peer_window: Bytes,
    /// All bytes delivered since the start, this acknowledgement included.
    pub delivered_total: Bytes,
    /// Round-trip time of the newest segment it covers, never of a retransmitted one.
    pub rtt: Option<Duration>,
    /// Part of the round trip that was a wait of this acknowledgement on its way back; zero if not known.
    pub return_wait: Duration,
    /// The least of such waits of late: what the way back holds all the time.
    pub lasting_return_wait: Duration,
    /// Smallest round-trip time in the filter's memory.
    pub min_rtt: Option<Duration>,
    /// Delivery rate over the flight it ends, when one could be measured.
    pub rate: Option<RateSample>,
    /// Bytes believed to be in the network after it.
    pub in_flight: Bytes,
    /// Bytes believed to be in the network when it arrived.
    pub in_flight_before: Bytes,
    /// Bytes in the network after it that are of others in one schedule with what the controller is for: their senders
    /// slow down when they are lost.
    pub others: Bytes,
    /// Bytes it showed to be lost.
    pub lost: Bytes,
    /// A loss is still being repaired: not all that was sent when it was found has been acknowledged.
    pub is_recovering: bool,
    /// The window, not the data or the peer, limits what is sent.
    pub is_window_limited: bool,
    /// A queue has marked what was sent after the last mark was told of: at most once a round trip, and only with
    /// something delivered. None where nothing that was sent could be marked. Controllers without a multiplicative
    /// decrease take no notice: `fixed`, `rate`, `window-adaptation`, `bbr`, `bbr3`, `copa`, `sprout`, `verus`.
    pub mark: Option<Mark>,
}

/// Response that a mark asks of a sender: congestion, for which no packet was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Response as to a loss (RFC 3168 §6.1.2), or less than to one (RFC 8511).
    Classic,
    /// Response in proportion to α, the share of late of packets that were marked (RFC 9332 §1.2, RFC 8257
    /// §3.3): the window becomes `1 − α ÷ 2` of itself.
    Scalable {
        /// α.
        share_ppm: u32,
    },
}

/// A transmission, new or repeated.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Time at which it left.
    pub now: Instant,
    /// Bytes of payload.
    pub bytes: Bytes,
    /// Bytes believed to be in the network before it.
    pub in_flight: Bytes,
    /// The sender had been short of data.
    pub is_app_limited: bool,
}

/// Way in which a loss was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossKind {
    /// Loss found by later deliveries: duplicate acknowledgements, SACK or RACK.
    Fast,
    /// Loss found by the retransmission timer.
    Timeout,
}

/// A loss the scoreboard reports.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Time at which it was found.
    pub now: Instant,
    /// Bytes marked lost.
    pub lost: Bytes,
    /// Way in which it was found.
    pub kind: LossKind,
    /// True for the first loss of a recovery episode: at most once a round trip.
    pub is_new_event: bool,
    /// Bytes believed to be in the network after it.
    pub in_flight: Bytes,
}

/// State that another controller has learnt of the way to the same subscriber, from another place.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Known {
    /// The round trip without a queue.
    pub round_trip: Option<Duration>,
    /// The largest rate of delivery of late, payload.
    pub rate: Option<Rate>,
}

/// Limits on a sender until the next event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// Bytes that may be in flight; [`Bytes::MAX`] for no limit.
    pub window: Bytes,
    /// Pace of sending; [`Rate::MAX`] for no pacing.
    pub pacing_rate: Rate,
    /// Bytes that may leave in one piece.
    pub send_quantum: Bytes,
}

/// A rate or window controller.
pub trait Controller {
    /// The algorithm's name as used on the command line and in results.
    fn name(&self) -> &'static str;
    /// Takes in an acknowledgement.
    fn on_ack(&mut self, ack: &Ack);
    /// Takes in a loss.
    fn on_loss(&mut self, loss: &Loss);
    /// Takes in a transmission.
    fn on_send(&mut self, _sent: &Sent) {}
    /// Takes in a report of the base station.
    fn on_feedback(&mut self, _feedback: &Feedback) {}
    /// A round trip measured without data: that of a handshake.
    fn on_round_trip(&mut self, _rtt: Duration, _now: Instant) {}
    /// Takes over what another controller knew, when its flows come to this one with what they have in
    /// flight. A guess: the way from here may be another one.
    fn on_known(&mut self, known: &Known, now: Instant) {
        if let Some(rtt) = known.round_trip {
            self.on_round_trip(rtt, now);
        }
    }
    /// The round trip of the path without a queue, where the algorithm keeps one.
    fn round_trip(&self) -> Option<Duration> {
        None
    }
    /// The time-out reported last was needless: what it took is to be given back.
    fn on_undo(&mut self, _now: Instant) {}
    /// The limits in force.
    fn control(&self) -> Control;
}

/// A full packet on the radio link: the MTU of Ethernet, and what \[WA\] §IV-A counts queues in.
pub const PACKET: Bytes = Bytes::new(1_500);

/// Headers of a segment: IPv4 (RFC 791 §3.1), TCP (RFC 9293 §3.1), and timestamps padded to 12 bytes
/// (RFC 7323 appendix A). Reports of a base station count them, windows and rates here do not.
pub const HEADERS: Bytes = Bytes::new(20 + 20 + 12);

/// The segment size of a controller that was told none: a full [`PACKET`]'s payload.
pub const MSS_DEFAULT: Bytes = Bytes::new(PACKET.get() - HEADERS.get());

/// The share of a rate that may leave in one piece: 1 ms of it, at least one segment.
///
/// Longer pieces would build a queue of their own in front of the radio link (`docs/engine.md`,
/// "Subscribers"). Shorter ones cost a system call each.
#[must_use]
pub fn quantum_for(rate: Rate, mss: Bytes) -> Bytes {
    rate.bytes_in(Duration::from_millis(1)).min(Bytes::new(64 * 1024)).max(mss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_holds_a_segment_whatever_its_size() {
        let jumbo = Bytes::new(100_000);
        assert_eq!(quantum_for(Rate::from_kbps(100), jumbo), jumbo);
        assert_eq!(quantum_for(Rate::MAX, Bytes::new(1_448)), Bytes::new(64 * 1024));
    }
}
