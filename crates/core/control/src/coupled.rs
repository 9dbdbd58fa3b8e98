//! Coupled congestion control: the subflows of a multi-path connection take together what one connection may.
//!
//! ```text
//!   scheme             growth per segment acknowledged on r      window lost at a loss on r    source
//!   lia                min(α/w, 1/w_r)                           w_r/2                         RFC 6356, [MP]'s default
//!   coupled-increase   1/w                                       w_r/2                         [MP] §II-B
//!   fully-coupled      1/w                                       w/2                           [MP] §II-B
//!   coupled-decrease   1/w_r                                     w/2                           [MP] §II-B
//!   balia              x_r/(rtt_r·x²) · (1+a)/2 · (4+a)/5        w_r/2 · min(a, 3/2)           draft-walid-mptcp-congestion-control-04
//!
//!   w_r, rtt_r   window in segments and smoothed round trip of subflow r;  w = Σ w_i
//!   x_r          w_r/rtt_r;  x = Σ x_i;  a = max x_i / x_r
//!   α            w · max(w_i/rtt_i²) / x²
//! ```
//!
//! With one subflow each of them is Reno. Slow start is that of each subflow alone. What grows by `1/p` per
//! segment has the *price* `p`: segments acknowledged for one of growth.
//!
//! `crates/linux/coupled/bpf/coupled.bpf.c` is the same for the kernel's MPTCP; both count in the same integers, and
//! `crates/linux/coupled/tests` compares every window.
//!
//! DEVIATION: \[MP\] lets `max(w_r − w/2, 0)` be zero. At least two segments are kept (RFC 5681 eq. (4)): without an
//! acknowledgement nothing would ever grow again. Shown by `tests::a_small_subflow_keeps_two_segments`.

mod controller;

pub use controller::{CoupledControl, CoupledGroup, CoupledParams};

/// Subflows of a connection that are coupled at most: Linux has eight beside the first, and those that are closing.
pub const SUBFLOWS_MAX: usize = 16;

/// Most segments as which a window counts in sums: 95 MB. So squares of sums fit 64 bits.
pub const WINDOW_MAX: u64 = (1 << 16) - 1;

/// Windows do not shrink below this, segments (RFC 5681 eq. (4)).
pub const WINDOW_MIN: u64 = 2;

/// Fractional bits of a ratio of round trips, and of a ratio of rates.
const ROUND_TRIP_BITS: u32 = 12;
const RATE_BITS: u32 = 14;

/// Scheme by which subflows are coupled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// Linked increases (RFC 6356): as much as one TCP on the best path.
    Lia,
    /// \[MP\]'s coupled increase: grows as one TCP over all windows.
    CoupledIncrease,
    /// \[MP\]'s fully coupled: grows and shrinks as one TCP over all windows.
    FullyCoupled,
    /// \[MP\]'s coupled decrease: grows as TCP, shrinks by half of all windows.
    CoupledDecrease,
    /// Balanced linked adaptation (draft-walid-mptcp-congestion-control-04).
    Balia,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Lia, Self::CoupledIncrease, Self::FullyCoupled, Self::CoupledDecrease, Self::Balia];

    /// Its name on the command line and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lia => "lia",
            Self::CoupledIncrease => "coupled-increase",
            Self::FullyCoupled => "fully-coupled",
            Self::CoupledDecrease => "coupled-decrease",
            Self::Balia => "balia",
        }
    }

    /// The scheme of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name)
    }

    /// Its number in the kernel's program.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Lia => 0,
            Self::CoupledIncrease => 1,
            Self::FullyCoupled => 2,
            Self::CoupledDecrease => 3,
            Self::Balia => 4,
        }
    }
}

/// A subflow of a [`Coupled`] connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SubflowId(usize);

impl SubflowId {
    /// Its place, below [`SUBFLOWS_MAX`].
    #[must_use]
    pub const fn place(self) -> usize {
        self.0
    }
}

/// State of a subflow. Windows in segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subflow {
    /// Its congestion window; in recovery the one to which it shrinks.
    pub window: u64,
    /// Slow start ends here.
    pub ssthresh: u64,
    /// Segments acknowledged towards the next segment of growth.
    pub credit: u64,
    /// Smoothed round trip, µs; zero before the first.
    pub srtt_us: u64,
    /// The window before the last loss, should it have been none.
    before_loss: u64,
}

/// The subflows of a connection, and the windows that a scheme gives them.
///
/// It is fed with events, and counts as Linux does (`tcp_slow_start`, `tcp_cong_avoid_ai`). What detects losses,
/// smooths round trips and repairs stands outside.
#[derive(Clone, Debug)]
pub struct Coupled {
    scheme: Scheme,
    subflows: [Option<Subflow>; SUBFLOWS_MAX],
}

impl Coupled {
    /// A connection without subflows.
    #[must_use]
    pub const fn new(scheme: Scheme) -> Self {
        Self { scheme, subflows: [None; SUBFLOWS_MAX] }
    }

    /// Its scheme.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// A subflow with this window and slow-start threshold, segments; none when there are [`SUBFLOWS_MAX`].
    pub fn add(&mut self, window: u64, ssthresh: u64) -> Option<SubflowId> {
        let place = self.subflows.iter().position(Option::is_none)?;
        self.subflows[place] = Some(Subflow { window, ssthresh, credit: 0, srtt_us: 0, before_loss: 0 });
        Some(SubflowId(place))
    }

    /// The subflow is gone.
    pub fn remove(&mut self, id: SubflowId) {
        self.subflows[id.0] = None;
    }

    /// State of a subflow; none when it is gone.
    #[must_use]
    pub fn subflow(&self, id: SubflowId) -> Option<&Subflow> {
        self.subflows[id.0].as_ref()
    }

    /// The smoothed round trip of a subflow, µs (RFC 6298 §2).
    pub fn on_round_trip(&mut self, id: SubflowId, srtt_us: u64) {
        if let Some(own) = &mut self.subflows[id.0] {
            own.srtt_us = srtt_us;
        }
    }

    /// Takes in segments acknowledged outside of a recovery. A window that does not limit the sender does not
    /// grow.
    pub fn on_ack(&mut self, id: SubflowId, mut acked: u64, is_window_limited: bool) {
        let Some(mut own) = self.subflows[id.0] else { return };
        if !is_window_limited {
            return;
        }
        if own.window < own.ssthresh {
            let grown = (own.window + acked).min(own.ssthresh);
            acked -= grown - own.window;
            own.window = grown;
            self.subflows[id.0] = Some(own);
        }
        if acked > 0 {
            let price = self.price(id);
            if own.credit >= price {
                // The price has fallen since: one segment, and the rest does not count at the new one.
                own.credit = 0;
                own.window += 1;
            }
            own.credit += acked;
            own.window += own.credit / price;
            own.credit %= price;
        }
        self.subflows[id.0] = Some(own);
    }

    /// A loss begins a recovery: the window is that to which it shrinks.
    pub fn on_loss(&mut self, id: SubflowId) {
        let threshold = self.threshold(id);
        if let Some(own) = &mut self.subflows[id.0] {
            own.before_loss = own.window;
            (own.window, own.ssthresh, own.credit) = (threshold, threshold, 0);
        }
    }

    /// The retransmission timer ran out: after [`Coupled::on_loss`], slow start from this window.
    pub fn on_timeout(&mut self, id: SubflowId, window: u64) {
        if let Some(own) = &mut self.subflows[id.0] {
            (own.window, own.credit) = (window, 0);
        }
    }

    /// The last loss was none: the window is what it was.
    pub fn on_undo(&mut self, id: SubflowId) {
        if let Some(own) = &mut self.subflows[id.0] {
            own.window = own.window.max(own.before_loss);
        }
    }

    /// The sender has set a window by itself: at the end of a recovery, or after a pause.
    pub fn resume(&mut self, id: SubflowId, window: u64, ssthresh: u64, credit: u64) {
        if let Some(own) = &mut self.subflows[id.0] {
            (own.window, own.ssthresh, own.credit) = (window, ssthresh, credit);
        }
    }

    /// Segments that must be acknowledged for one of growth, at least 1.
    #[must_use]
    pub fn price(&self, id: SubflowId) -> u64 {
        let Some(own) = self.subflows[id.0] else { return 1 };
        let price = match self.scheme {
            Scheme::CoupledDecrease => own.window,
            Scheme::CoupledIncrease | Scheme::FullyCoupled => self.total(),
            Scheme::Lia => self.linked(own),
            Scheme::Balia => self.balanced(own),
        };
        price.max(1)
    }

    /// The window after a loss, at least [`WINDOW_MIN`].
    #[must_use]
    pub fn threshold(&self, id: SubflowId) -> u64 {
        let Some(own) = self.subflows[id.0] else { return WINDOW_MIN };
        let window = own.window;
        let left = match self.scheme {
            Scheme::Lia | Scheme::CoupledIncrease => window / 2,
            Scheme::FullyCoupled | Scheme::CoupledDecrease => window.saturating_sub(self.total() / 2),
            Scheme::Balia => {
                let (rates, fastest, own_rate) = self.rates(own);
                let ratio = match rates {
                    0 => 1 << RATE_BITS,
                    // α, at most 3/2.
                    _ => ((fastest << RATE_BITS) / own_rate.max(1)).min(3 << (RATE_BITS - 1)),
                };
                window - (window.min(WINDOW_MAX) * ratio) / (2 << RATE_BITS)
            }
        };
        left.max(WINDOW_MIN)
    }

    /// The sum of all windows, segments.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.subflows.iter().flatten().map(|one| one.window.min(WINDOW_MAX)).sum()
    }

    /// Subflows of which a round trip is known, each with the shortest round trip of all divided by its own,
    /// in 2^-[`ROUND_TRIP_BITS`].
    fn measured(&self) -> impl Iterator<Item = (Subflow, u64)> {
        let known = self.subflows.iter().flatten().filter(|one| one.srtt_us > 0);
        let shortest = known.clone().map(|one| one.srtt_us).min().unwrap_or(1);
        known.map(move |one| (*one, (shortest << ROUND_TRIP_BITS) / one.srtt_us))
    }

    /// RFC 6356's price: x² ÷ max(w_i/rtt_i²), at least w_r.
    fn linked(&self, own: Subflow) -> u64 {
        if own.srtt_us == 0 {
            return own.window;
        }
        let (mut sum, mut best) = (0_u64, 0_u64);
        for (one, ratio) in self.measured() {
            let window = one.window.min(WINDOW_MAX);
            sum += window * ratio;
            best = best.max(window * ratio * ratio);
        }
        (sum * sum / best.max(1)).max(own.window)
    }

    /// Σ x_i, max x_i and x_r, where max x_i is 2^[`RATE_BITS`]; zeros before a round trip of r is known.
    fn rates(&self, own: Subflow) -> (u64, u64, u64) {
        if own.srtt_us == 0 {
            return (0, 0, 0);
        }
        let rate = |(one, ratio): (Subflow, u64)| one.window.min(WINDOW_MAX) * ratio;
        let fastest = self.measured().map(rate).max().unwrap_or(1).max(1);
        let shortest = self.measured().map(|(one, _)| one.srtt_us).min().unwrap_or(1);
        let scaled = |rate: u64| (rate << RATE_BITS) / fastest;
        let sum = self.measured().map(|one| scaled(rate(one))).sum();
        let own_rate = scaled(rate((own, (shortest << ROUND_TRIP_BITS) / own.srtt_us)));
        (sum, 1 << RATE_BITS, own_rate)
    }

    /// BALIA's price: 10 · x² · w_r ÷ ((x_r + max x)(4·x_r + max x)).
    fn balanced(&self, own: Subflow) -> u64 {
        let (sum, fastest, own_rate) = self.rates(own);
        if sum == 0 {
            return own.window;
        }
        10 * sum * sum * own.window.min(WINDOW_MAX) / ((own_rate + fastest) * (4 * own_rate + fastest))
    }
}

#[cfg(test)]
mod tests;
