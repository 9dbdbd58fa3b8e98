//! [`Server`]: when each packet's first and last byte is served.
//!
//! Service is first in, first out, and what a link offers does not depend on who comes later. So a
//! packet's times are known as soon as it is accepted, and nothing depends on how often the model
//! is asked.

use std::sync::Arc;

use units::{Bytes, Duration, Rate};

use crate::capacity::{units_in, units_of};
use crate::outage::Outages;
use crate::trace::SlotCursor;
use crate::{Capacity, RateSteps, Trace};

/// A packet that would wait longer than this for its next byte never leaves.
///
/// It ends the search when outages hide every opportunity of a trace for ever.
const HORIZON: Duration = Duration::from_secs(24 * 3600);

/// Times of one packet's first and last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) start: Duration,
    pub(crate) end: Duration,
}

const NEVER: Served = Served { start: Duration::MAX, end: Duration::MAX };

/// Serves packets in order from a [`Capacity`] with outages. Times count from the link's start.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    kind: Kind,
    outages: Outages,
}

#[derive(Clone, Debug)]
enum Kind {
    Unlimited { free_at: Duration },
    Fluid(Fluid),
    Slotted(Slotted),
}

impl Server {
    pub(crate) fn new(capacity: &Capacity, outages: Outages) -> Self {
        let kind = match capacity {
            Capacity::Unlimited => Kind::Unlimited { free_at: Duration::ZERO },
            Capacity::Constant(rate) => Kind::Fluid(Fluid::new(Rates::Constant(*rate))),
            Capacity::Steps(steps) => Kind::Fluid(Fluid::new(Rates::Steps(steps.clone()))),
            Capacity::Trace(trace) => Kind::Slotted(Slotted::new(Arc::clone(trace))),
        };
        Self { kind, outages }
    }

    /// Time at which the service of a packet that arrived at `arrival` would begin; none if it never would.
    pub(crate) fn next_start(&self, arrival: Duration) -> Option<Duration> {
        let start = self.clone().serve(arrival, Bytes::new(1)).start;
        (start != Duration::MAX).then_some(start)
    }

    /// Serves the next packet, which arrived at `arrival`, not before the previous one did.
    pub(crate) fn serve(&mut self, arrival: Duration, size: Bytes) -> Served {
        match &mut self.kind {
            Kind::Unlimited { free_at } => {
                let at = arrival.max(*free_at);
                let at = self.outages.end_of_outage_at(at).unwrap_or(at);
                *free_at = at;
                Served { start: at, end: at }
            }
            Kind::Fluid(fluid) => fluid.serve(arrival, size, &mut self.outages),
            Kind::Slotted(slotted) => slotted.serve(arrival, size, &mut self.outages),
        }
    }
}

#[derive(Clone, Debug)]
enum Rates {
    Constant(Rate),
    Steps(RateSteps),
}

impl Rates {
    fn at(&self, t: Duration) -> (Rate, Duration) {
        match self {
            Self::Constant(rate) => (*rate, Duration::MAX),
            Self::Steps(steps) => steps.for_packet_at(t),
        }
    }
}

/// Service at a rate, bit by bit.
///
/// Amounts are in bits times 10^9, of which a rate gives a whole number each nanosecond. A packet
/// leaves at the nanosecond in which its last bit is through; what that nanosecond had left goes
/// to the next packet if it is waiting, so that rounding never adds up.
#[derive(Clone, Debug)]
struct Fluid {
    rates: Rates,
    free_at: Duration,
    carry: u128,
}

impl Fluid {
    fn new(rates: Rates) -> Self {
        let is_dead = match &rates {
            Rates::Constant(rate) => rate.is_zero(),
            Rates::Steps(steps) => steps.is_dead(),
        };
        Self { rates, free_at: if is_dead { Duration::MAX } else { Duration::ZERO }, carry: 0 }
    }

    fn serve(&mut self, arrival: Duration, size: Bytes, outages: &mut Outages) -> Served {
        if self.free_at == Duration::MAX {
            return NEVER;
        }
        let was_waiting = arrival < self.free_at;
        let mut t = arrival.max(self.free_at);
        let mut need = units_of(size).saturating_sub(if was_waiting { self.carry } else { 0 });
        let mut start = None;
        let mut last_progress = t;
        while t != Duration::MAX && t - last_progress <= HORIZON {
            if let Some(end) = outages.end_of_outage_at(t) {
                t = end;
                continue;
            }
            let (rate, step_end) = self.rates.at(t);
            let until = step_end.min(outages.next_begin(t));
            if rate.is_zero() {
                t = step_end;
                continue;
            }
            let first_byte = *start.get_or_insert(t);
            let available = units_in(rate, until - t);
            if need <= available {
                let per_ns = u128::from(rate.as_bps());
                let ns = need.div_ceil(per_ns);
                self.carry = ns * per_ns - need;
                self.free_at = t + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
                return Served { start: first_byte, end: self.free_at };
            }
            need -= available;
            t = until;
            last_progress = t;
        }
        self.free_at = Duration::MAX;
        Served { start: start.unwrap_or(Duration::MAX), end: Duration::MAX }
    }
}

/// Service by delivery opportunities, as Mahimahi's `LinkQueue` does it.
///
/// Mahimahi, before it takes in a packet and before it waits, runs all opportunities up to the
/// present. Each offers one packet's worth of bytes. It is given to the packet in transit, then to
/// the packets waiting, until it is used up; a packet leaves when its last byte is served, and may
/// need the rest from the next opportunity. With no packet left the remainder is lost. So a packet
/// can use the opportunities strictly after its arrival, and neighbours share one that is not
/// exhausted. All opportunities of one millisecond together act as one larger one.
#[derive(Clone, Debug)]
struct Slotted {
    trace: Arc<Trace>,
    /// The slot served last, if any.
    cursor: Option<SlotCursor>,
    time: Duration,
    /// Bytes of that slot not yet used.
    left: u64,
}

impl Slotted {
    fn new(trace: Arc<Trace>) -> Self {
        Self { trace, cursor: None, time: Duration::ZERO, left: 0 }
    }

    fn serve(&mut self, arrival: Duration, size: Bytes, outages: &mut Outages) -> Served {
        if self.time == Duration::MAX {
            return NEVER;
        }
        if self.cursor.is_none() || self.time <= arrival {
            self.left = 0;
        }
        let mut need = size.get();
        let mut start = None;
        loop {
            if self.left == 0 && !self.next_slot(arrival, outages) {
                self.time = Duration::MAX;
                return Served { start: start.unwrap_or(Duration::MAX), end: Duration::MAX };
            }
            let first_byte = *start.get_or_insert(self.time);
            let part = need.min(self.left);
            need -= part;
            self.left -= part;
            if need == 0 {
                return Served { start: first_byte, end: self.time };
            }
        }
    }

    /// Moves to the next slot after `arrival` that is not in an outage; false when there is none.
    fn next_slot(&mut self, arrival: Duration, outages: &mut Outages) -> bool {
        let from = self.time.max(arrival);
        let mut cursor = match self.cursor {
            Some(cursor) if self.time > arrival => self.trace.slot_after(cursor),
            Some(cursor) => {
                let next = self.trace.slot_after(cursor);
                if self.trace.slot(next).0 > arrival { next } else { self.trace.first_slot_after(arrival) }
            }
            None => self.trace.first_slot_after(arrival),
        };
        loop {
            let (time, bytes) = self.trace.slot(cursor);
            if time - from > HORIZON.max(self.trace.period() * 2) {
                return false;
            }
            let Some(end) = outages.end_of_outage_at(time) else {
                (self.cursor, self.time, self.left) = (Some(cursor), time, bytes);
                return true;
            };
            cursor = self.trace.first_slot_at_or_after(end);
        }
    }
}
