//! [`Sender`]: when each packet of a run leaves.
//!
//! Each packet has its own time: `begin + n · packet ÷ rate`, so that rounding never adds up. What is
//! late is not sent in a burst: the gap to the packet before is at least three quarters of the planned one. What a pause of
//! more than 250 ms kept from leaving is not sent at all. Trains are bursts on purpose: their packets have one
//! time.

use figures::stats::percentile;
use units::{Bytes, Duration, Instant, Rate};

use crate::message::{Pattern, RunSpec, RunSummary, StatusReport, TRAIN, TimerFigures};
use crate::saturation::Saturation;
use crate::search::Search;

/// A sender that is later than this has not run, or was told to be silent: what it missed is not sent.
const PAUSE: Duration = Duration::from_millis(250);

/// Departures of which the lateness is kept, and changes of the rate: about those of a minute at 1 Gbit/s in
/// packets of 1,400 bytes, and of a search of several hours.
const LATE_MAX: usize = 6_000_000;
const RATES_MAX: usize = 500_000;

/// Departures against their plan, the first [`LATE_MAX`].
#[derive(Clone, Debug, Default)]
pub struct LateLog {
    late_ns: Vec<u32>,
}

impl LateLog {
    fn note(&mut self, late: Duration) {
        if self.late_ns.len() < LATE_MAX {
            self.late_ns.push(u32::try_from(late.as_nanos()).unwrap_or(u32::MAX));
        }
    }

    /// Fills the sender's part of a summary.
    pub(crate) fn summarise(&self, summary: &mut RunSummary) {
        let micros = |ns: Option<u32>| ns.unwrap_or(0).div_ceil(1_000);
        let mut gaps: Vec<u32> =
            self.late_ns.windows(2).map(|pair| if let [a, b] = pair { a.abs_diff(*b) } else { 0 }).collect();
        gaps.sort_unstable();
        let mut late = self.late_ns.clone();
        late.sort_unstable();
        summary.timer = TimerFigures {
            late_p50_us: micros(percentile(&late, 500)),
            late_p99_us: micros(percentile(&late, 990)),
            late_max_us: micros(percentile(&late, 1_000)),
            gap_error_p99_us: micros(percentile(&gaps, 990)),
        };
    }
}

/// Rule that makes a rate of the receiver's reports.
#[derive(Clone, Debug)]
enum Adaptation {
    None,
    Search(Search),
    Saturation(Saturation),
}

impl Adaptation {
    fn new(spec: &RunSpec) -> Self {
        match spec.pattern {
            Pattern::Steady | Pattern::Trains => Self::None,
            Pattern::Search => Self::Search(Search::new(spec.rate)),
            Pattern::Saturate => Self::Saturation(Saturation::new(spec.rate, spec.packet())),
        }
    }

    fn rate(&self) -> Option<Rate> {
        match self {
            Self::None => None,
            Self::Search(search) => Some(search.rate()),
            Self::Saturation(saturation) => Some(saturation.rate()),
        }
    }

    fn on_status(&mut self, report: &StatusReport, now: Instant) -> Option<Rate> {
        match self {
            Self::None => None,
            Self::Search(search) => Some(search.on_status(report)),
            Self::Saturation(saturation) => Some(saturation.on_status(report, now)),
        }
    }
}

/// Sends the packets of one run.
#[derive(Clone, Debug)]
pub struct Sender {
    packet: Bytes,
    end: Instant,
    count_max: u32,
    rate: Rate,
    /// The number and the planned time from which the present rate counts.
    anchor: (u32, Instant),
    next: u32,
    last: Option<Instant>,
    adaptation: Adaptation,
    /// Packets that leave at one time.
    train: u32,
    late: LateLog,
    refused: u32,
    rates: Vec<(Instant, Rate)>,
}

impl Sender {
    /// A sender whose first packet leaves at `now`.
    #[must_use]
    pub fn new(spec: &RunSpec, now: Instant) -> Self {
        let adaptation = Adaptation::new(spec);
        let rate = adaptation.rate().unwrap_or(spec.rate);
        let count_max = match spec.pattern {
            Pattern::Steady | Pattern::Trains => u32::try_from(spec.packets()).unwrap_or(u32::MAX),
            Pattern::Search | Pattern::Saturate => u32::MAX,
        };
        Self {
            packet: spec.packet(),
            end: now + spec.length,
            count_max,
            rate,
            anchor: (0, now),
            next: 0,
            last: None,
            adaptation,
            train: if spec.pattern == Pattern::Trains { TRAIN } else { 1 },
            late: LateLog::default(),
            refused: 0,
            rates: vec![(now, rate)],
        }
    }

    fn planned(&self) -> Instant {
        let (number, at) = self.anchor;
        let ahead = u64::from(self.next - number);
        let ahead = ahead - ahead % u64::from(self.train);
        at + self.rate.time_for(Bytes::new(self.packet.get().saturating_mul(ahead)))
    }

    /// Time at which the next packet leaves; none when all have, or the time is over.
    #[must_use]
    pub fn next_departure(&self) -> Option<Instant> {
        let planned = self.planned();
        if self.next >= self.count_max || planned >= self.end {
            return None;
        }
        let is_single = self.train == 1;
        let gap = if is_single { self.rate.time_for(self.packet) } else { Duration::ZERO };
        Some(self.last.map_or(planned, |last| planned.max(last + gap * 3 / 4)))
    }

    /// The number of the packet that leaves at `now`; none when none is due.
    pub fn poll(&mut self, now: Instant) -> Option<u32> {
        self.next_departure().filter(|at| *at <= now)?;
        let late = now.saturating_since(self.planned());
        self.late.note(late);
        if late > PAUSE {
            self.anchor = (self.next, now);
        }
        self.last = Some(now);
        self.next += 1;
        Some(self.next - 1)
    }

    /// The system did not take the last packet.
    pub fn on_refused(&mut self) {
        self.refused += 1;
    }

    /// The receiver has reported: a search may change the rate.
    pub fn on_status(&mut self, report: &StatusReport, now: Instant) {
        let Some(rate) = self.adaptation.on_status(report, now) else { return };
        if rate != self.rate {
            // The next packet keeps its place unless the new gap is shorter.
            let next = self.planned().min(now + rate.time_for(self.packet)).max(self.last.unwrap_or(now));
            (self.anchor, self.rate) = ((self.next, next), rate);
            if self.rates.len() < RATES_MAX {
                self.rates.push((now, rate));
            }
        }
    }

    /// True when nothing more will be sent.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.next_departure().is_none()
    }

    /// Packets sent.
    #[must_use]
    pub fn sent(&self) -> u32 {
        self.next
    }

    /// Rates, and when each was set.
    #[must_use]
    pub fn rates(&self) -> &[(Instant, Rate)] {
        &self.rates
    }

    /// Fills the sender's part of a summary.
    pub fn summarise(&self, summary: &mut RunSummary) {
        (summary.sent, summary.refused) = (self.next, self.refused);
        self.late.summarise(summary);
    }

    /// The run is over, and [summarised](Self::summarise): what is known of each packet goes.
    pub(crate) fn end(&mut self) {
        (self.late, self.rates) = (LateLog::default(), Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::Direction;

    fn spec(bps: u64, payload: u16, ms: u64) -> RunSpec {
        RunSpec {
            direction: Direction::Up,
            pattern: Pattern::Steady,
            rate: Rate::from_bps(bps),
            payload,
            overhead: 28,
            length: Duration::from_millis(ms),
            is_echoed: false,
        }
    }

    proptest! {
        /// Packets leave exactly where the rate says, as many as fit, none before its time.
        #[test]
        fn a_punctual_sender_keeps_the_rate_exactly(bps in 10_000u64..500_000_000, payload in 44u16..1_500) {
            let spec = spec(bps, payload, 200);
            let begin = Instant::from_millis(5);
            let mut sender = Sender::new(&spec, begin);
            let mut count = 0_u64;
            while let Some(at) = sender.next_departure() {
                prop_assert!(sender.poll(at - Duration::from_nanos(1)).is_none() || at == begin);
                if u64::from(sender.sent()) == count { prop_assert_eq!(u64::from(sender.poll(at).unwrap()), count); }
                prop_assert_eq!(at, begin + spec.rate.time_for(Bytes::new(spec.packet().get() * count)));
                count += 1;
            }
            prop_assert_eq!(count, spec.packets());
            let mut summary = RunSummary::default();
            sender.summarise(&mut summary);
            prop_assert_eq!((u64::from(summary.sent), summary.timer.late_max_us), (count, 0));
        }

        /// A sender that is woken late catches up without a burst.
        #[test]
        fn a_late_sender_never_bursts(pauses in prop::collection::vec(0u64..1_500, 1..200)) {
            let spec = spec(10_000_000, 1_222, 300);
            let gap = Duration::from_millis(1);
            let (mut sender, mut now) = (Sender::new(&spec, Instant::ZERO), Instant::ZERO);
            let (mut last, mut late_max): (Option<Instant>, Duration) = (None, Duration::ZERO);
            for pause in pauses.iter().cycle() {
                let Some(at) = sender.next_departure() else { break };
                let number = u64::from(sender.sent());
                now = now.max(at) + Duration::from_micros(*pause);
                prop_assert!(sender.poll(now).is_some());
                prop_assert!(last.is_none_or(|last| now.saturating_since(last) >= gap * 3 / 4));
                late_max = late_max.max(now.saturating_since(Instant::ZERO + gap * number));
                last = Some(now);
            }
            let mut summary = RunSummary::default();
            sender.summarise(&mut summary);
            // Of what is later the plan is given up.
            if late_max <= PAUSE {
                prop_assert_eq!(u64::from(summary.timer.late_max_us), late_max.as_nanos().div_ceil(1_000));
            }
        }
    }

    #[test]
    fn what_a_pause_kept_from_leaving_is_not_sent() {
        // A packet per millisecond for 2 s, with a second in which nothing ran.
        let spec = spec(10_000_000, 1_222, 2_000);
        let mut sender = Sender::new(&spec, Instant::ZERO);
        let mut now = Instant::ZERO;
        while let Some(at) = sender.next_departure() {
            let pause = if sender.sent() == 500 { Duration::from_secs(1) } else { Duration::ZERO };
            now = at + pause;
            sender.poll(now);
        }
        assert_eq!(sender.sent(), 1_000);
        assert!(now < Instant::from_millis(2_000));
    }

    #[test]
    fn gap_errors_are_told_from_lateness() {
        let mut late = LateLog::default();
        (0..200).for_each(|_| late.note(Duration::from_micros(40)));
        let mut summary = RunSummary::default();
        late.summarise(&mut summary);
        let timer = summary.timer;
        assert_eq!((timer.late_p50_us, timer.late_p99_us, timer.gap_error_p99_us), (40, 40, 0));
    }
}
