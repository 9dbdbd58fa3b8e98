//! [`BaseStation`]: measures a link as its scheduler would, and reports. \[WA\] §IV-A.
//!
//! Every `period` it notes how much the link could have carried since the last time, divided by
//! that time (b̂), and how much waits (q̂); noise is added, some reports are lost, the others
//! arrive `delay` later.
//!
//! ```text
//!   measured ──▶ noise ──▶ lost? ──▶ delay ──▶ poll
//!   every period   γ, η      loss
//! ```

use std::collections::VecDeque;

use units::{Bytes, Duration, Instant, Rate};

use crate::error::check_ppm;
use crate::random::{Stage, Stream};
use crate::{Link, LinkError, PPM};

/// Settings of a base station's reports; the default is \[WA\]'s, without delay, loss or noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseStationConfig {
    /// τ: from report to report, above zero. 10 ms.
    pub period: Duration,
    /// Time from the measurement to the arrival. Zero.
    pub delay: Duration,
    /// Reports that are lost, in parts per million. None.
    pub loss_ppm: u32,
    /// Standard deviation of γ in (3), in parts per million of the bandwidth. None.
    pub bandwidth_noise_ppm: u32,
    /// Standard deviation of η in (4). None.
    pub queue_noise: Bytes,
    /// Time for which a report says that it is valid; zero for what its receiver thinks fit.
    pub validity: Duration,
}

impl Default for BaseStationConfig {
    fn default() -> Self {
        Self {
            period: Duration::from_millis(10),
            delay: Duration::ZERO,
            loss_ppm: 0,
            bandwidth_noise_ppm: 0,
            queue_noise: Bytes::ZERO,
            validity: Duration::ZERO,
        }
    }
}

impl BaseStationConfig {
    /// Checks every setting; [`BaseStation::new`] does so too.
    ///
    /// # Errors
    /// [`LinkError::Setting`] names the field and what is allowed.
    pub fn check(&self) -> Result<(), LinkError> {
        if self.period.is_zero() {
            return Err(LinkError::setting("feedback.period", "must be above zero"));
        }
        check_ppm("feedback.loss", self.loss_ppm)?;
        check_ppm("feedback.bandwidth_noise", self.bandwidth_noise_ppm)
    }
}

/// A report on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationReport {
    /// Counts all reports from 0, the lost ones too.
    pub sequence: u64,
    /// Time at which the link was measured.
    pub measured_at: Instant,
    /// Time at which it arrives.
    pub arrives_at: Instant,
    /// b̂: what the link could have carried since the last measurement, with noise; [`Rate::MAX`]
    /// when unlimited.
    pub bandwidth: Rate,
    /// q̂: what waited, IP packet lengths, with noise.
    pub queue: Bytes,
    /// Time after the measurement for which it may be used; zero for what its receiver thinks fit.
    pub validity: Duration,
}

/// Measures one link and reports.
#[derive(Clone, Debug)]
pub struct BaseStation {
    config: BaseStationConfig,
    random: Stream,
    measured_at: Instant,
    next: Instant,
    sequence: u64,
    on_the_way: VecDeque<StationReport>,
}

impl BaseStation {
    /// A base station whose first report is about the first `period` after `start`.
    ///
    /// # Errors
    /// As [`BaseStationConfig::check`].
    pub fn new(config: BaseStationConfig, seed: u64, start: Instant) -> Result<Self, LinkError> {
        config.check()?;
        Ok(Self {
            config,
            random: Stream::new(seed, Stage::Feedback),
            measured_at: start,
            next: start + config.period,
            sequence: 0,
            on_the_way: VecDeque::new(),
        })
    }

    /// Time at which [`BaseStation::measure`] or [`BaseStation::poll`] next has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        self.on_the_way.front().map_or(self.next, |report| report.arrives_at.min(self.next))
    }

    /// Measures `link` if it is time to; who comes late gets one report about all the time that has passed.
    pub fn measure<P>(&mut self, link: &mut Link<P>, now: Instant) {
        if now < self.next {
            return;
        }
        let (from, config) = (self.measured_at, self.config);
        let offered = link.offered_bytes(from, now);
        let queue = link.queue_bytes(now);
        self.measured_at = now;
        while self.next <= now {
            self.next += config.period;
        }
        let sequence = self.sequence;
        self.sequence += 1;
        // All are drawn for every report, so that one setting does not change what another one decides.
        let (noise, queue_noise) = (self.random.gaussian_ppm(), self.random.gaussian_ppm());
        if self.random.is_hit(config.loss_ppm) {
            return;
        }
        let bandwidth = if offered == Bytes::MAX {
            Rate::MAX
        } else {
            let exact = Rate::from_transfer(offered, now.saturating_since(from)).as_bps();
            Rate::from_bps(deviate(exact, scale(exact, config.bandwidth_noise_ppm), noise))
        };
        self.on_the_way.push_back(StationReport {
            sequence,
            measured_at: now,
            arrives_at: now + config.delay,
            bandwidth,
            queue: Bytes::new(deviate(queue.get(), config.queue_noise.get(), queue_noise)),
            validity: config.validity,
        });
    }

    /// The next report that has arrived by `now`; call until `None`.
    pub fn poll(&mut self, now: Instant) -> Option<StationReport> {
        let has_arrived = self.on_the_way.front().is_some_and(|report| report.arrives_at <= now);
        if has_arrived { self.on_the_way.pop_front() } else { None }
    }
}

/// `ppm` parts in a million of `value`.
fn scale(value: u64, ppm: u32) -> u64 {
    u64::try_from(u128::from(value) * u128::from(ppm) / u128::from(PPM)).unwrap_or(u64::MAX)
}

/// `value` with `noise_ppm` millionths of `deviation` added, at least zero.
fn deviate(value: u64, deviation: u64, noise_ppm: i64) -> u64 {
    let by = i128::from(deviation) * i128::from(noise_ppm) / i128::from(PPM);
    u64::try_from((i128::from(value) + by).max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capacity, LinkConfig};

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    fn reports(config: BaseStationConfig, until_ms: u64) -> Vec<StationReport> {
        let capacity = Capacity::Constant(Rate::from_mbps(12));
        let mut link: Link<()> = Link::new(&LinkConfig { capacity, ..LinkConfig::default() }, ms(0)).unwrap();
        let mut station = BaseStation::new(config, 1, ms(0)).unwrap();
        let mut out = Vec::new();
        for at in 0..=until_ms {
            // Twice what it carries: 1500 bytes a millisecond wait longer and longer.
            for _ in 0..2 {
                link.enqueue((), Bytes::new(1_500), ms(at)).unwrap();
            }
            station.measure(&mut link, ms(at));
            out.extend(core::iter::from_fn(|| station.poll(ms(at))));
        }
        out
    }

    #[test]
    fn figures_are_those_of_the_link_and_come_late() {
        let delay = Duration::from_millis(25);
        let out = reports(BaseStationConfig { delay, ..BaseStationConfig::default() }, 100);
        assert_eq!(out.len(), 7);
        for (i, report) in out.iter().enumerate() {
            assert_eq!(report.measured_at, ms(10 * (i as u64 + 1)));
            assert_eq!(report.arrives_at, report.measured_at + delay);
            assert_eq!(report.bandwidth, Rate::from_mbps(12));
            // 2 a millisecond in, 1 out, and the one in service does not wait.
            let n = report.measured_at.as_millis();
            assert!(report.queue.get().abs_diff(1_500 * n) <= 3_000, "{:?}", report.queue);
        }
    }

    #[test]
    fn a_late_measurement_is_about_all_the_time() {
        let capacity = Capacity::Constant(Rate::from_mbps(12));
        let mut link: Link<()> = Link::new(&LinkConfig { capacity, ..LinkConfig::default() }, ms(0)).unwrap();
        let mut station = BaseStation::new(BaseStationConfig::default(), 1, ms(0)).unwrap();
        station.measure(&mut link, ms(47));
        assert_eq!(station.poll(ms(47)).unwrap().bandwidth, Rate::from_mbps(12));
        assert_eq!((station.poll(ms(47)), station.next_deadline()), (None, ms(50)));
    }

    #[test]
    fn noise_has_its_deviation_and_loss_its_share() {
        let config = BaseStationConfig {
            loss_ppm: 300_000,
            bandwidth_noise_ppm: 200_000,
            queue_noise: Bytes::new(3_000),
            ..BaseStationConfig::default()
        };
        let out = reports(config, 20_000);
        let share = out.len() as f64 / 2_000.0;
        assert!((0.66..0.74).contains(&share), "{share}");
        let errors: Vec<f64> = out.iter().map(|r| r.bandwidth.as_mbps_f64() / 12.0 - 1.0).collect();
        let n = errors.len() as f64;
        let mean = errors.iter().sum::<f64>() / n;
        let deviation = (errors.iter().map(|e| e * e).sum::<f64>() / n).sqrt();
        assert!(mean.abs() < 0.02 && (0.18..0.22).contains(&deviation), "{mean} {deviation}");
        // The ones that come are numbered as they were sent.
        assert!(out.windows(2).all(|w| w[0].sequence < w[1].sequence));
        assert!(out.last().unwrap().sequence > out.len() as u64);
    }

    #[test]
    fn nonsense_is_named() {
        let period = BaseStationConfig { period: Duration::ZERO, ..BaseStationConfig::default() };
        assert!(period.check().unwrap_err().to_string().contains("feedback.period"));
        let loss = BaseStationConfig { loss_ppm: 2_000_000, ..BaseStationConfig::default() };
        assert!(loss.check().unwrap_err().to_string().contains("feedback.loss"));
    }
}
