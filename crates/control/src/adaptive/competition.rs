//! Somebody else fills the queue: a window that competes, and the way there and back.
//!
//! ```text
//!   x = RTT − τ, the wait; u the longest that is of this law's own doing; C the mean rate of the last 10 s alone
//!
//!   suspicion:  x > u without a break for 0.3 s (or a round trip), and r̃ < ¾·C
//!   look:       W ← W÷2 (W÷4 among others), until no more than that, k, is in flight;
//!               R₁ = RTT of what is sent at that moment, R₀ the one before
//!   others:     N = C′·R₁ − k,  C′ = (W − k) ÷ (R₀ − R₁);  where R₁ > ⅞·R₀ with C, and at least 7·W
//!               none: R₁ ≤ τ + u; alone also N ≤ W, or R₁ > 1.5·R₀; among others N ≤ W÷8 twice in a row
//!
//!            suspicion        found        again             W ← N, then as CUBIC
//!     alone ───────────▶ look ─────▶ look ─────▶ competing ──┐ look each 8 RTT: W ← √(W·N), 0.7·W to 2·W
//!       ▲                 │ none       │ none        │    ▲──┘
//!       └─────────────────┴────────────┴─────────────┘ none, or x ≤ δ at any time
//! ```
//!
//! The data in flight is the rate times the round trip (Little's law). Alone in the queue, half of the data in
//! flight is half of the round trip, at the same rate. Beside a queue of others it is half of the rate, and the round
//! trip stays. So the answer of the delay to the own window tells them apart, whatever the link does, and says how
//! much is others'. Copa (NSDI 2018 §2.2) takes every queue that does not empty within five round trips for others'.
//!
//! Who has as much in flight as all others has half of the link. From then on the window grows and falls as
//! CUBIC's, as that of most neighbours. Where they do not grow, as BBR, looks keep it at theirs.

use units::{Bytes, Duration, Instant, Rate};

use crate::{Ack, Controller, Cubic, CubicParams, Loss, LossKind, Sent};

/// t₀: so long the wait is long before it is suspicious, or a round trip, if that is more.
const SUSPICIOUS: Duration = Duration::from_millis(300);

/// A mean rate below so much of C, in per cent, goes with a suspicion.
const FALLEN_PERCENT: u64 = 75;

/// Round trips that a look takes in.
const SAMPLES: u32 = 2;

/// Looks in a row that have to find others.
const LOOKS: u32 = 2;

/// A look leaves one part of so many in flight: alone, where it costs a part of the link, and among others.
const KEPT: [u64; 2] = [2, 4];

/// A round trip that has grown to so much while less is in flight, in per cent, is an outage's.
const OUTAGE_PERCENT: u64 = 150;

/// A round trip that has become shorter by less than one part of so many has not answered.
const ANSWER_PARTS: u64 = 8;

/// Others with less than one part of so many of W are few.
const FEW_PARTS: u64 = 8;

/// Acknowledgements further apart than this and than the wait are an outage.
const GAP: Duration = Duration::from_millis(150);

/// How long no look follows one that found nobody; twice as long each time.
const REFUSED: Duration = Duration::from_millis(500);
const REFUSED_MAX: Duration = Duration::from_secs(4);

/// C is averaged over this time.
const MEMORY: Duration = Duration::from_secs(10);

/// A single acknowledgement counts for no more time than this.
const STEP: Duration = Duration::from_millis(200);

/// Round trips between looks among others, and the least time.
const ROUND_TRIPS: u64 = 8;
/// The same after one that found much more than W, or hardly anybody.
const ROUND_TRIPS_SOON: u64 = 3;
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    /// RTT.
    pub rtt: Option<Duration>,
    /// τ.
    pub floor: Duration,
    /// The longest wait that is the law's own doing.
    pub usual: Duration,
    /// So near τ a round trip met no queue.
    pub near: Duration,
    /// r̃.
    pub mean: Rate,
    /// W.
    pub window: Bytes,
    /// In flight.
    pub in_flight: Bytes,
    /// The least that is in flight.
    pub least: Bytes,
    /// The window is in use.
    pub is_limited: bool,
    pub now: Instant,
}

/// Less in flight, to see what is left of the queue.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// W before.
    window: Bytes,
    /// R₀.
    before: Duration,
    /// When so little was in flight, and how much.
    marked: Option<(Instant, Bytes)>,
    smallest: Duration,
    samples: u32,
}
stored::fields!(Look { window, before, marked, smallest, samples });

/// Whether the queue is others' too.
#[derive(Clone, Debug)]
pub(super) struct Competition {
    look: Option<Look>,
    /// The window among others.
    competing: Option<Box<Cubic>>,
    /// When it looks again.
    look_at: Instant,
    /// Looks in a row that found others; and among others that found hardly anybody.
    found: u32,
    missed: u32,
    /// Since when no wait was short.
    since: Option<Instant>,
    last: Instant,
    /// C, in kbit/s, of so much time.
    usual_kbps: u64,
    known_for: Duration,
    averaged_at: Instant,
    refused_until: Instant,
    refused_for: Duration,
}
stored::fields!(Competition {
    look,
    competing,
    look_at,
    found,
    missed,
    since,
    last,
    usual_kbps,
    known_for,
    averaged_at,
    refused_until,
    refused_for,
});

impl Competition {
    pub(super) fn new() -> Self {
        Self {
            look: None,
            competing: None,
            look_at: Instant::ZERO,
            found: 0,
            missed: 0,
            since: None,
            last: Instant::ZERO,
            usual_kbps: 0,
            known_for: Duration::ZERO,
            averaged_at: Instant::ZERO,
            refused_until: Instant::ZERO,
            refused_for: REFUSED,
        }
    }

    /// What may be in flight where the rest of the law says `window`, at least `least`.
    pub(super) fn window(&self, window: Bytes, least: Bytes) -> Bytes {
        match (&self.look, &self.competing) {
            (Some(look), _) if look.marked.is_none() => self.kept(look, least),
            (_, Some(cubic)) => cubic.control().window.max(least),
            (_, None) => window,
        }
    }

    /// True while the queue is others' too.
    pub(super) fn is_competing(&self) -> bool {
        self.competing.is_some()
    }

    /// What a look leaves in flight.
    fn kept(&self, look: &Look, least: Bytes) -> Bytes {
        Bytes::new(look.window.get() / KEPT[usize::from(self.is_competing())]).max(least)
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

    pub(super) fn on_sent(&mut self, sent: &Sent) {
        if let Some(cubic) = &mut self.competing {
            cubic.on_send(sent);
        }
    }

    pub(super) fn on_loss(&mut self, loss: &Loss) {
        // Round trips of others' queues exceed the longest time-out: it tells nothing of a loss.
        if let Some(cubic) = self.competing.as_mut().filter(|_| loss.kind == LossKind::Fast) {
            cubic.on_loss(loss);
        }
    }

    /// Takes in an acknowledgement. Gives the round trip that a look has seen, if it ends with others there.
    pub(super) fn on_ack(&mut self, ack: &Ack, seen: &Observation) -> Option<Duration> {
        let gap = seen.now.saturating_since(self.last);
        self.last = seen.now;
        if self.competing.is_none() && self.look.is_none() && self.since.is_none() && self.found == 0 {
            self.remember(seen.mean, seen.now);
        } else {
            self.averaged_at = seen.now;
        }
        let rtt = seen.rtt?;
        let waited = rtt.saturating_sub(seen.floor);
        if waited <= seen.near {
            // The queue has emptied by itself.
            (self.look, self.competing, self.since, self.found) = (None, None, None, 0);
        } else if self.look.is_some() {
            return self.follow_look(rtt, seen);
        } else if let Some(cubic) = &mut self.competing {
            cubic.on_ack(ack);
            if seen.now >= self.look_at {
                self.begin_look(rtt, seen);
            }
        } else if waited <= seen.usual {
            (self.since, self.found) = (None, 0);
        } else if !seen.is_limited || gap > waited.max(GAP) {
            self.since = None;
        } else if self.is_suspicious(rtt, seen) {
            self.begin_look(rtt, seen);
        }
        None
    }

    /// A wait that is too long lasts.
    fn is_suspicious(&mut self, rtt: Duration, seen: &Observation) -> bool {
        let since = *self.since.get_or_insert(seen.now);
        let has_fallen = seen.mean < self.capacity().mul_ratio(FALLEN_PERCENT, 100);
        let has_lasted = seen.now.saturating_since(since) >= SUSPICIOUS.max(rtt);
        (self.found > 0 && seen.now >= self.look_at)
            || (has_lasted && has_fallen && seen.now >= self.refused_until)
    }

    fn begin_look(&mut self, rtt: Duration, seen: &Observation) {
        self.since = None;
        self.look = Some(Look {
            window: seen.window,
            before: rtt,
            marked: None,
            smallest: Duration::MAX,
            samples: 0,
        });
    }

    /// Waits until less is in flight, and then for what was sent at that moment.
    fn follow_look(&mut self, rtt: Duration, seen: &Observation) -> Option<Duration> {
        let mut look = self.look?;
        match look.marked {
            None if seen.in_flight <= self.kept(&look, seen.least) => {
                look.marked = Some((seen.now, seen.in_flight));
            }
            Some((at, _)) if seen.now >= at + rtt => {
                look.smallest = look.smallest.min(rtt);
                look.samples += 1;
            }
            _ => {}
        }
        let is_empty = look.smallest.saturating_sub(seen.floor) <= seen.usual;
        if !is_empty && look.samples < SAMPLES {
            self.look = Some(look);
            return None;
        }
        self.look = None;
        match self.others(&look, seen.least).filter(|_| !is_empty) {
            Some(others) => self.on_found(others, &look, rtt, seen),
            None => {
                (self.competing, self.found, self.missed) = (None, 0, 0);
                self.refused_until = seen.now + self.refused_for;
                self.refused_for = (self.refused_for * 2).min(REFUSED_MAX);
            }
        }
        self.is_competing().then_some(look.smallest)
    }

    /// N, in bytes; none if it is next to nothing.
    fn others(&self, look: &Look, least: Bytes) -> Option<u64> {
        let (before, after) = (look.before, look.smallest);
        let is_outage = after > before.mul_ratio(OUTAGE_PERCENT, 100);
        let answered = before.saturating_sub(after);
        let kept = look.marked.map_or(Bytes::ZERO, |(_, kept)| kept).max(least);
        let others = if answered > before / ANSWER_PARTS {
            Rate::from_transfer(look.window.saturating_sub(kept), answered)
                .bytes_in(after)
                .saturating_sub(kept)
        } else {
            let most_is_theirs = Bytes::new(look.window.get().saturating_mul(ANSWER_PARTS - 1));
            self.capacity().bytes_in(after).saturating_sub(kept).max(most_is_theirs)
        };
        let is_known = if self.is_competing() {
            // They may fill the queue quickly, or the link may have become faster: once is no proof.
            self.missed + 1 < LOOKS || others.get() > look.window.get() / FEW_PARTS
        } else {
            !is_outage && others > least.max(look.window)
        };
        is_known.then_some(others.get())
    }

    /// A look has found that others have `others` bytes in flight.
    fn on_found(&mut self, others: u64, look: &Look, rtt: Duration, seen: &Observation) {
        self.found = self.found.saturating_add(1);
        if self.found < LOOKS {
            self.look_at = seen.now + rtt;
            self.refused_until = self.look_at;
            return;
        }
        let own = look.window.get();
        let are_few = others <= own / FEW_PARTS;
        self.missed = if are_few { self.missed + 1 } else { 0 };
        let window = if self.is_competing() {
            // The link varies while it is looked at: half of the way.
            let between = (u128::from(others) * u128::from(own)).isqrt();
            u64::try_from(between).unwrap_or(u64::MAX).clamp(own * 7 / 10, own * 2)
        } else {
            others
        };
        let window = window.max(seen.least.get());
        self.competing = Some(Box::new(Cubic::at(CubicParams::default(), Bytes::new(window))));
        let is_news = are_few || others >= own.saturating_mul(2);
        self.look_at = seen.now
            + if is_news {
                look.smallest * ROUND_TRIPS_SOON
            } else {
                (look.smallest * ROUND_TRIPS).max(LOOK_EVERY)
            };
        self.refused_for = REFUSED;
    }
}
