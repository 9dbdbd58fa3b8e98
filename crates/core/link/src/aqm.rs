//! [`Aqm`]: active queue management, which marks or drops before the queue is full.
//!
//! ```text
//!              ┌─ C: Not-ECT, ECT(0) ─▶ PI², p_C = p'² ──────────────┐
//!   arrivals ──┤                         │ k·p'                      ├─▶ service
//!              └─ L: ECT(1), CE ──▶ mark: step, or k·p' if more ─────┘
//!                                              `codel`: one queue, RFC 8289
//! ```
//!
//! What waits here is decided on when its service begins, not on arrival: what is dropped takes no capacity. An
//! ECN-capable packet is marked where another one is dropped (RFC 3168 §5). The limit of the queue holds as well.

mod codel;
mod dual_pi2;

use std::collections::VecDeque;

use units::{Bytes, Duration, Instant};

use crate::LinkError;
use crate::random::Stream;
use codel::CoDel;
pub use codel::CoDelParams;
use dual_pi2::DualPi2;
pub use dual_pi2::DualPi2Params;

/// Management of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aqm {
    /// Controlled delay (RFC 8289), with marks.
    CoDel(CoDelParams),
    /// The coupled queues of RFC 9332. With classic packets alone it is the PI² of that document.
    DualPi2(DualPi2Params),
}

impl Aqm {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`LinkError::Setting`] names the field and what is allowed.
    pub(crate) fn check(&self) -> Result<(), LinkError> {
        let zero = match self {
            Self::CoDel(params) => {
                [("aqm.target", params.target), ("aqm.interval", params.interval)].to_vec()
            }
            Self::DualPi2(params) => vec![
                ("aqm.target", params.target),
                ("aqm.step", params.step),
                ("aqm.rtt_max", params.rtt_max),
                ("aqm.update", params.update),
            ],
        };
        match zero.into_iter().find(|(_, time)| time.is_zero()) {
            Some((name, _)) => Err(LinkError::setting(name, "must be above zero")),
            None => Ok(()),
        }
    }
}

/// The ECN field of a packet (RFC 3168 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ecn {
    /// It cannot be marked.
    #[default]
    NotEct,
    /// Packet of a scalable sender (RFC 9331 §2).
    Ect1,
    /// Packet of a classic sender.
    Ect0,
    /// It is marked.
    Ce,
}

impl Ecn {
    /// The two bits of the IP header; others are left out.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            1 => Self::Ect1,
            2 => Self::Ect0,
            3 => Self::Ce,
            _ => Self::NotEct,
        }
    }

    const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// Verdict on the packet whose service is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueVerdict {
    Leaves,
    Marked,
    Dropped,
}

/// A packet that waits.
#[derive(Clone, Debug)]
struct Waiting<P> {
    payload: P,
    size: Bytes,
    arrival: Instant,
    ecn: Ecn,
}

/// One of the queues, first in, first out.
#[derive(Clone, Debug)]
struct Fifo<P> {
    packets: VecDeque<(u64, Waiting<P>)>,
    bytes: Bytes,
}

impl<P> Fifo<P> {
    const fn new() -> Self {
        Self { packets: VecDeque::new(), bytes: Bytes::ZERO }
    }

    fn push(&mut self, id: u64, packet: Waiting<P>) {
        self.bytes += packet.size;
        self.packets.push_back((id, packet));
    }

    fn pop(&mut self) -> Option<(u64, Waiting<P>)> {
        let (id, packet) = self.packets.pop_front()?;
        self.bytes = self.bytes.saturating_sub(packet.size);
        Some((id, packet))
    }

    /// Arrival time of its first packet.
    fn arrival(&self) -> Option<Instant> {
        self.packets.front().map(|(_, packet)| packet.arrival)
    }

    /// Time that its first packet has waited.
    fn time(&self, now: Instant) -> Duration {
        self.arrival().map_or(Duration::ZERO, |arrival| now.saturating_since(arrival))
    }
}

/// A packet taken off the queue.
#[derive(Clone, Debug)]
pub(crate) struct Taken<P> {
    pub(crate) id: u64,
    pub(crate) payload: P,
    pub(crate) size: Bytes,
    pub(crate) arrival: Instant,
    pub(crate) is_marked: bool,
    pub(crate) is_dropped: bool,
}

#[derive(Clone, Debug)]
enum Law {
    CoDel(CoDel),
    DualPi2(DualPi2),
}

/// Packets that wait under a law.
#[derive(Clone, Debug)]
pub(crate) struct ManagedQueue<P> {
    law: Law,
    /// Scalable packets, in `dualpi2`.
    low: Fifo<P>,
    /// All others.
    classic: Fifo<P>,
}

impl<P> ManagedQueue<P> {
    pub(crate) fn new(aqm: Aqm, random: Stream, start: Instant) -> Self {
        let law = match aqm {
            Aqm::CoDel(params) => Law::CoDel(CoDel::new(params)),
            Aqm::DualPi2(params) => Law::DualPi2(DualPi2::new(params, random, start)),
        };
        Self { law, low: Fifo::new(), classic: Fifo::new() }
    }

    pub(crate) fn push(&mut self, id: u64, payload: P, size: Bytes, (arrival, ecn): (Instant, Ecn)) {
        let packet = Waiting { payload, size, arrival, ecn };
        let is_low = matches!(self.law, Law::DualPi2(_)) && matches!(ecn, Ecn::Ect1 | Ecn::Ce);
        if is_low { &mut self.low } else { &mut self.classic }.push(id, packet);
    }

    /// Arrival times of the first packet of each queue.
    pub(crate) fn arrivals(&self) -> [Option<Instant>; 2] {
        [self.low.arrival(), self.classic.arrival()]
    }

    /// Lets the law act on what waits up to `now`, before anything else that happens then.
    pub(crate) fn advance(&mut self, now: Instant) {
        let is_empty = self.arrivals() == [None; 2];
        if let Law::DualPi2(law) = &mut self.law {
            while law.next_update() <= now {
                let at = law.next_update();
                law.update(self.low.time(at).max(self.classic.time(at)));
                if is_empty && law.is_at_rest() {
                    law.skip_to(now);
                }
            }
        }
    }

    /// Takes the next packet, whose service may begin at `now`; `may` says which queues have one that may.
    pub(crate) fn pop(&mut self, now: Instant, may: [bool; 2]) -> Option<Taken<P>> {
        let lens = [
            if may[0] { self.low.packets.len() } else { 0 },
            if may[1] { self.classic.packets.len() } else { 0 },
        ];
        let (taken, fate) = match &mut self.law {
            Law::CoDel(law) => {
                let left = self.classic.bytes;
                let (id, packet) = self.classic.pop()?;
                let fate =
                    law.judge(now.saturating_since(packet.arrival), left, packet.ecn.is_capable(), now);
                ((id, packet), fate)
            }
            Law::DualPi2(law) => {
                let is_low = law.picks_low(lens)?;
                let queue = if is_low { &mut self.low } else { &mut self.classic };
                let len = queue.packets.len();
                let (id, packet) = queue.pop()?;
                law.spend(is_low, packet.size, lens);
                let sojourn = now.saturating_since(packet.arrival);
                let fate = if is_low {
                    law.judge_low(sojourn, len)
                } else {
                    law.judge_classic(packet.ecn.is_capable())
                };
                ((id, packet), fate)
            }
        };
        let (id, Waiting { payload, size, arrival, .. }) = taken;
        let (is_marked, is_dropped) = (fate == QueueVerdict::Marked, fate == QueueVerdict::Dropped);
        Some(Taken { id, payload, size, arrival, is_marked, is_dropped })
    }
}
