//! Rate and window controllers, and the samplers they share.
//!
//! A controller takes measurements in and gives limits out. It never sees a packet: who sends
//! asks it for a [`Control`] and obeys. Loss detection, round-trip times and delivery rates are
//! measured outside and handed in, so that all algorithms judge by the same figures.
//!
//! ```text
//!   scoreboard ──▶ RateSampler ──▶ Ack { delivered, rtt, rate } ──▶ Controller ──▶ Control
//!                                  Loss { lost, kind }          ──▶            { window,
//!                                                                                pacing_rate,
//!                                                                                send_quantum }
//! ```
//!
//! | file | algorithm | source |
//! |---|---|---|
//! | `fixed.rs` | a constant rate | \[MA\] Fig 2 |
//! | `rate.rs` | bandwidth estimate, two RTT thresholds | \[MA\] equations (3)–(5), Table 2 |
//! | `new_reno.rs` | window halving, the simulator's baseline sender | RFC 5681, RFC 6582 |

#![deny(clippy::float_arithmetic)]

mod filter;
mod fixed;
mod new_reno;
mod rate;
mod sampler;

pub use filter::{WindowedMax, WindowedMin};
pub use fixed::{Fixed, FixedParams};
pub use new_reno::{NewReno, NewRenoParams};
pub use rate::{RateControl, RateParams};
pub use sampler::{RateSample, RateSampler, SendStamp};

use units::{Bytes, Duration, Instant, Rate};

/// What an acknowledgement told the sender.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived.
    pub now: Instant,
    /// Bytes it newly reported as delivered, cumulatively or selectively.
    pub delivered: Bytes,
    /// All bytes delivered since the start, this acknowledgement included.
    pub delivered_total: Bytes,
    /// Round-trip time of the newest segment it covers, never of a retransmitted one.
    pub rtt: Option<Duration>,
    /// Smallest round-trip time in the filter's memory.
    pub min_rtt: Option<Duration>,
    /// Delivery rate over the flight it ends, when one could be measured.
    pub rate: Option<RateSample>,
    /// Bytes believed to be in the network after it.
    pub in_flight: Bytes,
}

/// How a loss was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossKind {
    /// By later deliveries: duplicate acknowledgements, SACK or RACK.
    Fast,
    /// By the retransmission timer.
    Timeout,
}

/// A loss the scoreboard reports.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// When it was found.
    pub now: Instant,
    /// Bytes marked lost.
    pub lost: Bytes,
    /// How it was found.
    pub kind: LossKind,
    /// True for the first loss of a recovery episode: at most once a round trip.
    pub is_new_event: bool,
    /// Bytes believed to be in the network after it.
    pub in_flight: Bytes,
}

/// What a sender may do until the next event.
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
    /// The limits in force.
    fn control(&self) -> Control;
}

/// The share of a rate that may leave in one piece: 1 ms of it, at least one segment.
///
/// Longer pieces would build a queue of their own in front of the radio link (`design.md`: super-packets
/// are cut to at most max(1 MSS, 1 ms at the subscriber's rate)); shorter ones cost a system call each.
#[must_use]
pub fn quantum_for(rate: Rate, mss: Bytes) -> Bytes {
    rate.bytes_in(Duration::from_millis(1)).min(Bytes::new(64 * 1024)).max(mss)
}

/// One of the controllers, chosen at run time without an allocation.
#[derive(Clone, Debug)]
pub enum AnyController {
    /// A constant rate.
    Fixed(Fixed),
    /// \[MA\]'s rate control.
    Rate(RateControl),
    /// NewReno's window.
    NewReno(NewReno),
}

impl Controller for AnyController {
    fn name(&self) -> &'static str {
        match self {
            Self::Fixed(c) => c.name(),
            Self::Rate(c) => c.name(),
            Self::NewReno(c) => c.name(),
        }
    }
    fn on_ack(&mut self, ack: &Ack) {
        match self {
            Self::Fixed(c) => c.on_ack(ack),
            Self::Rate(c) => c.on_ack(ack),
            Self::NewReno(c) => c.on_ack(ack),
        }
    }
    fn on_loss(&mut self, loss: &Loss) {
        match self {
            Self::Fixed(c) => c.on_loss(loss),
            Self::Rate(c) => c.on_loss(loss),
            Self::NewReno(c) => c.on_loss(loss),
        }
    }
    fn control(&self) -> Control {
        match self {
            Self::Fixed(c) => c.control(),
            Self::Rate(c) => c.control(),
            Self::NewReno(c) => c.control(),
        }
    }
}

/// Which controller to make, with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerConfig {
    /// A constant rate.
    Fixed(FixedParams),
    /// \[MA\]'s rate control.
    Rate(RateParams),
    /// NewReno's window.
    NewReno(NewRenoParams),
}

impl ControllerConfig {
    /// Makes the controller.
    #[must_use]
    pub fn build(&self) -> AnyController {
        match *self {
            Self::Fixed(p) => AnyController::Fixed(Fixed::new(p)),
            Self::Rate(p) => AnyController::Rate(RateControl::new(p)),
            Self::NewReno(p) => AnyController::NewReno(NewReno::new(p)),
        }
    }
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
