//! Somebody else fills the queue: a window that competes, and the way there and back.
//!
//! ```text
//!   x = RTT − τ, the wait; u the longest that is of this law's own doing; C the mean rate of the last 10 s alone
//!
//!   suspicion:  x > u without a break for 0.3 s (or a round trip), and the rate of a round trip < ¾·C
//!   look:       W ← W÷2 until no more than that, k, is in flight; then W again, so that W − k leaves at once
//!               R₀ = RTT before, R₁ of the first of them; C′ = how fast ¾ of the rest of them is acknowledged,
//!               alone at most C
//!   others:     N = C′·R₁ − k;  none: N·x₁÷R₁ ≤ W÷4, or R₁ > 1.5·R₀;  among others: few: ≤ W÷8
//!
//!            suspicion        found        again             W ← N̄, then as CUBIC
//!     alone ───────────▶ look ─────▶ look ─────▶ competing ──┐ look each 4 RTT (2 s), at once where N > 2·W:
//!       ▲                 │ none       │ none        │    ▲──┘ W ← N̄ where that is more, k where N̄ ≤ W÷2
//!       └─────────────────┴────────────┴─────────────┘ few twice in a row, or x ≤ δ at ¾·C
//!
//!   N̄: the mean of the last two looks' N. Where N is half as much again as before, W grows as in slow start.
//! ```
//!
//! The data in flight is the rate times the round trip (Little's law). What leaves at once lies together in the
//! queue, so it comes through at the rate of the whole link, whatever others have. What is in flight at that rate
//! and is not of this law is theirs. A link that has become slower is slow for what leaves at once, too. Copa
//! (NSDI 2018 §2.2) takes every queue that does not empty within five round trips for others'.
//!
//! Who has as much in flight as all others has half of the link. From then on the window grows and falls as
//! CUBIC's, as that of most neighbours. Looks raise it, and halve it where others have less than half of it: a call
//! does not answer to the queue. Otherwise what is lost lowers it, as theirs. A look after which data was lost says
//! nothing: what is missing did not come through at the link's rate.

use std::mem::offset_of;

use units::{Bytes, Duration, Instant, Rate};

use crate::{Ack, Controller, Cubic, CubicParams, Loss, LossKind, Sent};

/// t₀: time for which a wait is long before it is suspicious, or a round trip, if that is more.
const SUSPICIOUS: Duration = Duration::from_millis(300);

/// Share of C, in per cent, below which a rate goes with a suspicion.
const FALLEN_PERCENT: u64 = 75;

/// Looks in a row that have to find others, and among others hardly anybody.
const LOOKS: u32 = 2;

/// Part of the window, as a divisor, that a look leaves in flight.
const KEPT_PARTS: u64 = 2;

/// Growth of a round trip while less is in flight, in per cent, that is an outage's.
const OUTAGE_PERCENT: u64 = 150;

/// Part of W, as a divisor: others with less in the queue are none,
const NONE_PARTS: u64 = 4;

/// and are few, among others.
const FEW_PARTS: u64 = 8;

/// Part of W, as a divisor: others with no more have less than they are due.
const LESS_PARTS: u64 = 2;

/// Multiple of W: others with as much are much more, and it is looked again at once.
const MUCH_MORE: u64 = 2;

/// Growth of others between two looks, in per cent, that is slow start.
const GROWN_PERCENT: u64 = 150;

/// Round trips of a look after which it says nothing.
const LOOK_ROUND_TRIPS: u64 = 2;

/// Acknowledgements further apart than this and than the wait are an outage.
const GAP: Duration = Duration::from_millis(150);

/// Time without a look after one that found nobody; doubled each time.
const REFUSED: Duration = Duration::from_millis(500);
const REFUSED_MAX: Duration = Duration::from_secs(4);

/// C is averaged over this time.
const MEMORY: Duration = Duration::from_secs(10);

/// A single acknowledgement counts for no more time than this.
const STEP: Duration = Duration::from_millis(200);

/// Round trips between looks among others, and the least time.
const ROUND_TRIPS: u64 = 4;
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Signs that an acknowledgement gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    /// RTT.
    pub rtt: Option<Duration>,
    /// τ.
    pub floor: Duration,
    /// The longest wait that is the law's own doing.
    pub usual: Duration,
    /// Distance from τ within which a round trip met no queue.
    pub near: Duration,
    /// r̃.
    pub mean: Rate,
    /// W.
    pub window: Bytes,
    /// Bytes in flight.
    pub in_flight: Bytes,
    /// The least that is in flight.
    pub least: Bytes,
    /// The window is in use.
    pub is_limited: bool,
    pub now: Instant,
    /// Time at which it would have come had it not waited on its way.
    pub left: Instant,
}

/// Less in flight, to see what is left of the queue; then as much as before at once, to see how fast the link is.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// W before.
    window: Bytes,
    /// R₀.
    before: Duration,
    /// Time at which the data in flight had fallen, and to how many bytes: k.
    marked: Option<(Instant, Bytes)>,
    /// Time at which R₁ was seen, and its length.
    after: Option<(Instant, Duration)>,
    /// Acknowledged since.
    train: Bytes,
}

impl stored::Stored for Look {
    fn store(&self, out: &mut stored::Writer) {
        let Self { window, before, marked, after, train } = self;
        ((*window, *before), *marked).store(out);
        (*after, *train).store(out);
    }

    fn restore(from: &mut stored::Reader<'_>) -> Result<Self, stored::StoredError> {
        let ((window, before), marked) = from.value()?;
        // Before version 4: the shortest round trip seen, and how many were.
        let (after, train) = if from.version() < 4 {
            from.value::<(Duration, u32)>()?;
            (None, Bytes::ZERO)
        } else {
            from.value()?
        };
        Ok(Self { window, before, marked, after, train })
    }
}

impl Look {
    /// Bytes that it leaves in flight.
    fn kept(&self, least: Bytes) -> Bytes {
        Bytes::new(self.window.get() / KEPT_PARTS).max(least)
    }
}

/// Result of a look.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    /// W before.
    window: Bytes,
    /// k.
    kept: Bytes,
    /// R₁.
    after: Duration,
    /// C′.
    rate: Rate,
    /// N.
    others: u64,
    /// The part of it that waits.
    queued: u64,
    is_outage: bool,
}

/// Search for other flows that fill the same queue, and the window among them.
#[derive(Clone, Debug, stored::Stored)]
#[repr(C)]
#[stored(order(
    look,
    competing,
    look_at,
    found,
    missed,
    others,
    expected,
    has_lost,
    since,
    last,
    usual_kbps,
    known_for,
    averaged_at,
    refused_until,
    refused_for
))]
pub(super) struct Competition {
    refused_until: Instant,
    refused_for: Duration,
    known_for: Duration,
    averaged_at: Instant,
    /// C, in kbit/s, of that much time.
    usual_kbps: u64,
    /// N of the last look.
    others: u64,
    /// Looks in a row that found others; and among others that found hardly anybody.
    found: u32,
    missed: u32,
    /// Time of the next look.
    look_at: Instant,
    /// A round trip of less than half of this is news.
    expected: Duration,
    last: Instant,
    /// A full queue has lost data since the last acknowledgement.
    has_lost: bool,
    /// Time since which no wait was short.
    since: Option<Instant>,
    look: Option<Look>,
    /// The window among others.
    competing: Option<Box<Cubic>>,
}

impl Competition {
    /// Offset from which on each acknowledgement needs it, and from which on all packets do.
    pub(super) const TOUCHED_BY_ACKS_FROM: usize = offset_of!(Self, since);
    pub(super) const ALWAYS_TOUCHED_FROM: usize = offset_of!(Self, competing);

    pub(super) fn new() -> Self {
        Self {
            look: None,
            competing: None,
            look_at: Instant::ZERO,
            found: 0,
            missed: 0,
            others: 0,
            expected: Duration::ZERO,
            has_lost: false,
            since: None,
            last: Instant::ZERO,
            usual_kbps: 0,
            known_for: Duration::ZERO,
            averaged_at: Instant::ZERO,
            refused_until: Instant::ZERO,
            refused_for: REFUSED,
        }
    }

    /// Bytes that may be in flight where the rest of the law says `window`, at least `least`.
    pub(super) fn window(&self, window: Bytes, least: Bytes) -> Bytes {
        match (&self.look, &self.competing) {
            (Some(look), _) if look.marked.is_none() => look.kept(least),
            (_, Some(cubic)) => cubic.control().window.max(least),
            (Some(look), None) => look.window,
            (None, None) => window,
        }
    }

    /// True while the queue is others' too.
    pub(super) fn is_competing(&self) -> bool {
        self.competing.is_some()
    }

    /// C follows r̃.
    fn remember(&mut self, mean: Rate, now: Instant) {
        let elapsed = now.saturating_since(self.averaged_at).min(STEP);
        self.averaged_at = now;
        self.known_for = (self.known_for + elapsed).min(MEMORY);
        let (new, all) = (elapsed.as_nanos(), self.known_for.as_nanos().max(1));
        let kbps = mean.as_bps() / 1_000;
        let sum = u128::from(kbps) * u128::from(new) + u128::from(self.usual_kbps) * u128::from(all - new);
        self.usual_kbps = u64::try_from(sum / u128::from(all)).unwrap_or(u64::MAX);
    }

    fn capacity(&self) -> Rate {
        Rate::from_kbps(self.usual_kbps)
    }

    /// Less than this is much less than C.
    fn fallen(&self) -> Rate {
        self.capacity().mul_ratio(FALLEN_PERCENT, 100)
    }

    pub(super) fn on_sent(&mut self, sent: &Sent) {
        if let Some(cubic) = &mut self.competing {
            cubic.on_send(sent);
        }
    }

    /// Takes in a loss; `overflows` where data is lost because the queue is full.
    pub(super) fn on_loss(&mut self, loss: &Loss, overflows: bool) {
        // Round trips of others' queues exceed the longest time-out: it tells nothing of a loss.
        if loss.kind != LossKind::Fast {
            return;
        }
        self.has_lost |= overflows && loss.is_new_event;
        if let Some(cubic) = &mut self.competing {
            cubic.on_loss(loss);
        }
    }

    /// Takes in an acknowledgement.
    pub(super) fn on_ack(&mut self, ack: &Ack, seen: &Observation) {
        let gap = seen.now.saturating_since(self.last);
        self.last = seen.now;
        if self.competing.is_none() && self.look.is_none() && self.since.is_none() && self.found == 0 {
            self.remember(seen.mean, seen.now);
        } else {
            self.averaged_at = seen.now;
        }
        if let Some(cubic) = &mut self.competing {
            cubic.on_ack(ack);
        }
        let Some(rtt) = seen.rtt else { return };
        let has_lost = core::mem::take(&mut self.has_lost);
        if self.look.is_some() {
            self.follow_look(ack.delivered, rtt, has_lost, seen);
        } else if self.is_competing() {
            self.compete(rtt, seen);
        } else if self.found > 0 {
            if seen.now >= self.look_at {
                self.begin_look(rtt, seen);
            }
        } else {
            let waited = rtt.saturating_sub(seen.floor);
            if waited <= seen.usual || !seen.is_limited || gap > waited.max(GAP) {
                self.since = None;
            } else if self.is_suspicious(rtt, ack.rate.map_or(seen.mean, |sample| sample.rate), seen) {
                self.begin_look(rtt, seen);
            }
        }
    }

    /// A wait that is too long lasts, and `rate`, that of the last round trip, is far below C.
    fn is_suspicious(&mut self, rtt: Duration, rate: Rate, seen: &Observation) -> bool {
        let since = *self.since.get_or_insert(seen.now);
        let has_fallen = rate < self.fallen();
        let has_lasted = seen.now.saturating_since(since) >= SUSPICIOUS.max(rtt);
        has_lasted && has_fallen && seen.now >= self.refused_until
    }

    /// Among others: until the queue empties by itself, or a look finds nobody.
    fn compete(&mut self, rtt: Duration, seen: &Observation) {
        if rtt.saturating_sub(seen.floor) <= seen.near && seen.mean >= self.fallen() {
            self.leave();
        } else if seen.now >= self.look_at || rtt * 2 < self.expected {
            self.begin_look(rtt, seen);
        }
    }

    fn leave(&mut self) {
        (self.competing, self.found, self.missed) = (None, 0, 0);
    }

    /// Ends a look, and what led to it: the wait was the law's own doing.
    pub(super) fn forget_suspicion(&mut self) {
        (self.look, self.since, self.found) = (None, None, 0);
    }

    fn begin_look(&mut self, rtt: Duration, seen: &Observation) {
        self.since = None;
        self.look =
            Some(Look { window: seen.window, before: rtt, marked: None, after: None, train: Bytes::ZERO });
    }

    /// Waits until less is in flight, then for the first of what was sent at that moment, then for most of the rest.
    fn follow_look(&mut self, delivered: Bytes, rtt: Duration, has_lost: bool, seen: &Observation) {
        let Some(look) = &mut self.look else { return };
        match (look.marked, look.after) {
            (None, _) if seen.in_flight <= look.kept(seen.least) => {
                look.marked = Some((seen.now, seen.in_flight));
            }
            (Some((at, _)), None) if seen.left >= at + rtt => look.after = Some((seen.left, rtt)),
            (Some(_), Some(_)) => look.train += delivered,
            _ => {}
        }
        let (Some((_, kept)), Some((at, after))) = (look.marked, look.after) else { return };
        let look = *look;
        let elapsed = seen.left.saturating_since(at);
        let is_late = elapsed > after * LOOK_ROUND_TRIPS;
        let is_empty = after.saturating_sub(seen.floor) <= seen.near * 2;
        let is_through = look.train >= look.window.saturating_sub(kept).mul_ratio(3, 4);
        if has_lost || is_late {
            self.look = None;
            self.look_at = seen.now + rtt;
            self.refused_until = self.look_at;
        } else if is_empty || is_through {
            self.look = None;
            self.judge(&look, (kept, after, elapsed), seen);
        }
    }

    /// Ends a look that left `kept` in flight, saw R₁, and then how long the rest took.
    fn judge(
        &mut self,
        look: &Look,
        (kept, after, elapsed): (Bytes, Duration, Duration),
        seen: &Observation,
    ) {
        let rate = Rate::from_transfer(look.train, elapsed.max(Duration::from_nanos(1)));
        // What is small may pass in a good moment of the link.
        let rate = if self.is_competing() { rate } else { rate.min(self.capacity()) };
        let others = rate.bytes_in(after).saturating_sub(kept);
        let waited = after.saturating_sub(seen.floor);
        let verdict = Verdict {
            window: look.window,
            kept,
            after,
            rate,
            others: others.get(),
            queued: others.mul_ratio(waited.as_nanos(), after.as_nanos().max(1)).get(),
            is_outage: after > look.before.mul_ratio(OUTAGE_PERCENT, 100),
        };
        self.expected = look.before.max(after);
        let before = core::mem::replace(&mut self.others, verdict.others);
        if self.is_competing() {
            self.judge_among_others(&verdict, before, seen);
        } else if verdict.is_outage || verdict.queued <= verdict.window.get() / NONE_PARTS {
            self.found = 0;
            self.refused_until = seen.now + self.refused_for;
            self.refused_for = (self.refused_for * 2).min(REFUSED_MAX);
        } else {
            self.found = self.found.saturating_add(1);
            self.look_at = seen.now;
            if self.found >= LOOKS {
                self.take_rate(verdict.rate);
                self.raise_to(before, &verdict, seen.least);
                self.look_at = seen.now + after;
                self.refused_for = REFUSED;
            }
        }
    }

    /// The same where others were known: they are few, or the window follows what they have.
    fn judge_among_others(&mut self, verdict: &Verdict, before: u64, seen: &Observation) {
        let own = verdict.window.get();
        if verdict.queued <= own / FEW_PARTS {
            self.missed += 1;
            self.look_at = seen.now;
            if self.missed >= LOOKS || verdict.after.saturating_sub(seen.floor) <= seen.near * 2 {
                self.leave();
            } else if let Some(cubic) = &mut self.competing {
                cubic.end_slow_start();
            }
            return;
        }
        self.missed = 0;
        self.take_rate(verdict.rate);
        if u64::midpoint(before, verdict.others) <= own / LESS_PARTS {
            self.competing = Some(Box::new(Cubic::at(CubicParams::default(), verdict.kept.max(seen.least))));
            self.look_at = seen.now + verdict.after;
            return;
        }
        self.raise_to(before, verdict, seen.least);
        let is_much_more = verdict.others > own.saturating_mul(MUCH_MORE);
        let pause = (verdict.after * ROUND_TRIPS).max(LOOK_EVERY);
        self.look_at = seen.now + if is_much_more { Duration::ZERO } else { pause };
    }

    /// C follows C′.
    fn take_rate(&mut self, rate: Rate) {
        self.usual_kbps = u64::midpoint(self.usual_kbps, rate.as_bps() / 1_000);
    }

    /// W ← the mean of N `before` and N, where that is more; in slow start where others are.
    fn raise_to(&mut self, before: u64, verdict: &Verdict, least: Bytes) {
        let window = Bytes::new(u64::midpoint(before, verdict.others)).max(least);
        let has_grown = u128::from(verdict.others) * 100 > u128::from(before) * u128::from(GROWN_PERCENT);
        match &mut self.competing {
            Some(cubic) if window <= cubic.control().window => cubic.end_slow_start(),
            competing => {
                let params = CubicParams { hystart: false, ..CubicParams::default() };
                let cubic =
                    if has_grown { Cubic::starting_at(params, window) } else { Cubic::at(params, window) };
                *competing = Some(Box::new(cubic));
            }
        }
    }
}

#[cfg(test)]
#[path = "competition/tests.rs"]
mod tests;
