//! [`Replay`]: how exactly a saturated link follows its trace.

use std::sync::Arc;

use units::{Bytes, Duration, Instant};

use crate::{Capacity, Link, LinkConfig, LinkError, OPPORTUNITY, Trace};

/// Width of the bins that are compared.
const BIN: Duration = Duration::from_millis(100);
/// Packets kept waiting. More than any millisecond of a trace offers, or the link would run dry.
const BACKLOG_MIN: u64 = 1_000;

/// Result of replaying one period of a trace with full-size packets always waiting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replay {
    /// Bytes the trace offers in one period.
    pub offered: Bytes,
    /// Bytes delivered in it.
    pub delivered: Bytes,
    /// Sum over 100 ms bins of |delivered − offered|.
    pub deviation: Bytes,
}

impl Replay {
    /// Replays `trace` in virtual time through a [`Link`] without delay and with endless demand.
    ///
    /// # Errors
    ///
    /// None for a valid trace; those of [`Link::new`].
    pub fn run(trace: &Arc<Trace>) -> Result<Self, LinkError> {
        let config = LinkConfig {
            capacity: Capacity::Trace(Arc::clone(trace)),
            keeps_log: false,
            ..LinkConfig::default()
        };
        let start = Instant::ZERO;
        // Opportunities at the end of the period belong to the next one.
        let end = start + trace.period();
        let mut link = Link::new(&config, start)?;
        let backlog = trace.busy_ms().map(|(_, count)| count).max().unwrap_or(0).max(BACKLOG_MIN);
        for _ in 0..backlog * 2 {
            let _ = link.enqueue((), OPPORTUNITY, start);
        }
        let bins = usize::try_from(trace.period().as_nanos().div_ceil(BIN.as_nanos())).unwrap_or(usize::MAX);
        let mut delivered = vec![0u64; bins];
        while let Some(now) = link.next_deadline().filter(|deadline| *deadline < end) {
            let mut count = 0;
            while let Some(delivery) = link.poll(now) {
                delivered[bin_of(delivery.planned.saturating_since(start), bins)] += delivery.size.get();
                count += 1;
            }
            for _ in 0..count {
                let _ = link.enqueue((), OPPORTUNITY, now);
            }
        }
        let offered: Vec<u64> = (0..bins as u64)
            .map(|bin| {
                let from = start + BIN * bin;
                link.offered_bytes(from, (from + BIN).min(end)).get()
            })
            .collect();
        Ok(Self {
            offered: Bytes::new(offered.iter().sum()),
            delivered: Bytes::new(delivered.iter().sum()),
            deviation: Bytes::new(delivered.iter().zip(&offered).map(|(a, b)| a.abs_diff(*b)).sum()),
        })
    }

    /// `Σ |delivered − offered| ÷ Σ offered`.
    #[must_use]
    pub fn error_share(&self) -> f64 {
        self.deviation.get() as f64 / self.offered.get().max(1) as f64
    }
}

fn bin_of(at: Duration, bins: usize) -> usize {
    usize::try_from(at.as_nanos() / BIN.as_nanos()).unwrap_or(usize::MAX).min(bins - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkDirection, Preset};

    #[test]
    fn a_generated_trace_is_followed_exactly() -> Result<(), LinkError> {
        for preset in Preset::ALL {
            let trace = Arc::new(preset.generate(LinkDirection::Down, Duration::from_secs(30), 1)?);
            let replay = Replay::run(&trace)?;
            assert_eq!(replay.deviation, Bytes::ZERO, "{}", preset.name());
            assert_eq!(replay.delivered, trace.offered_bytes(Duration::ZERO, trace.period()));
        }
        Ok(())
    }

    /// An opportunity at time 0 has gone before a packet can arrive, and is counted as missing.
    #[test]
    fn an_opportunity_at_the_very_start_is_missed() -> Result<(), LinkError> {
        let replay = Replay::run(&Arc::new(Trace::from_opportunities_ms([0, 50, 150, 250])?))?;
        assert_eq!((replay.delivered, replay.deviation), (Bytes::new(3000), Bytes::new(1500)));
        assert!((replay.error_share() - 1.0 / 3.0).abs() < 1e-12);
        Ok(())
    }
}
