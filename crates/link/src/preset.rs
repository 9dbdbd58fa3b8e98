//! [`Preset`]: named kinds of cellular links for the generator.

use core::ops::RangeInclusive;

use units::Duration;

use crate::generate::Model;
use crate::{LinkError, Trace, TraceStats};

/// A named kind of cellular link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preset {
    /// UMTS with HSPA.
    Hspa3g,
    /// CDMA2000 1xEV-DO.
    Evdo3g,
    /// LTE, used at rest or on foot.
    Lte4g,
    /// LTE in a moving car.
    LteDrive4g,
    /// 5G New Radio below 6 GHz.
    Nr5g,
}

/// Which way data flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// Base station to client.
    #[default]
    Down,
    /// Client to base station.
    Up,
}

/// A figure of a trace beside the range in which a preset keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What the figure is, with its unit.
    pub name: &'static str,
    /// Smallest and largest value wanted.
    pub target: RangeInclusive<f64>,
    /// The trace's value; none when the trace has too few outages to tell.
    pub value: Option<f64>,
}

impl Comparison {
    /// True when the value lies in the range or cannot be told.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.value.is_none_or(|value| self.target.contains(&value))
    }
}

/// Fewer outages than this say nothing about the tail of their lengths.
const OUTAGES_TO_TELL_TAIL: u64 = 60;
/// Fewer outages than this say nothing about their median.
const OUTAGES_TO_TELL_MEDIAN: u64 = 5;

/// The ranges of one preset and direction.
struct Targets {
    mean_mbps: RangeInclusive<f64>,
    busy_percent: RangeInclusive<f64>,
    per_busy_ms: RangeInclusive<f64>,
    gap_ms_p50: RangeInclusive<f64>,
    gap_ms_p99: RangeInclusive<f64>,
    outages_per_min: RangeInclusive<f64>,
    empty_percent: RangeInclusive<f64>,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 5] = [Self::Hspa3g, Self::Evdo3g, Self::Lte4g, Self::LteDrive4g, Self::Nr5g];

    /// The name used on the command line and in scenario files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hspa3g => "3g-hspa",
            Self::Evdo3g => "3g-evdo",
            Self::Lte4g => "4g-lte",
            Self::LteDrive4g => "4g-lte-drive",
            Self::Nr5g => "5g-nr",
        }
    }

    /// The preset of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Generates a trace of exactly `length`, the same for the same seed on every platform.
    ///
    /// # Errors
    ///
    /// [`LinkError::Setting`] when `length` is not between 1 s and 24 h.
    pub fn generate(self, direction: Direction, length: Duration, seed: u64) -> Result<Trace, LinkError> {
        self.model(direction).generate(length, seed)
    }

    /// The generator's parameters.
    #[must_use]
    pub const fn model(self, direction: Direction) -> Model {
        match direction {
            Direction::Down => self.model_down(),
            Direction::Up => self.model_up(),
        }
    }

    const fn model_down(self) -> Model {
        match self {
            Self::Hspa3g => Model {
                mean_mbps: 4.0,
                peak_mbps: 14.4,
                slow_deviation: 0.6,
                slow_s: 7.0,
                fast_deviation: 0.3,
                fast_s: 1.0,
                outages_per_min: 6.0,
                outage_s_p50: 0.42,
                outage_s_p95: 1.4,
                grant_ms: 2.5,
                turn_ms: 20.0,
                pause_ms: 7.0,
            },
            Self::Evdo3g => Model {
                mean_mbps: 1.0,
                peak_mbps: 3.1,
                slow_deviation: 0.5,
                slow_s: 6.0,
                fast_deviation: 0.3,
                fast_s: 0.8,
                outages_per_min: 7.0,
                outage_s_p50: 0.4,
                outage_s_p95: 1.2,
                grant_ms: 11.0,
                turn_ms: 170.0,
                pause_ms: 90.0,
            },
            Self::Lte4g => Model {
                mean_mbps: 15.0,
                peak_mbps: 75.0,
                slow_deviation: 0.55,
                slow_s: 8.0,
                fast_deviation: 0.25,
                fast_s: 0.5,
                outages_per_min: 3.0,
                outage_s_p50: 0.36,
                outage_s_p95: 1.0,
                grant_ms: 1.8,
                turn_ms: 25.0,
                pause_ms: 7.0,
            },
            Self::LteDrive4g => Model {
                mean_mbps: 9.0,
                peak_mbps: 75.0,
                slow_deviation: 0.62,
                slow_s: 6.0,
                fast_deviation: 0.3,
                fast_s: 0.5,
                outages_per_min: 6.5,
                outage_s_p50: 0.38,
                outage_s_p95: 1.4,
                grant_ms: 2.0,
                turn_ms: 22.0,
                pause_ms: 9.0,
            },
            Self::Nr5g => Model {
                mean_mbps: 120.0,
                peak_mbps: 600.0,
                slow_deviation: 0.55,
                slow_s: 5.0,
                fast_deviation: 0.25,
                fast_s: 0.4,
                outages_per_min: 2.5,
                outage_s_p50: 0.34,
                outage_s_p95: 0.9,
                grant_ms: 1.3,
                turn_ms: 30.0,
                pause_ms: 6.0,
            },
        }
    }

    const fn model_up(self) -> Model {
        let down = self.model_down();
        match self {
            Self::Hspa3g => Model { mean_mbps: 1.2, peak_mbps: 5.7, grant_ms: 5.5, turn_ms: 60.0, ..down },
            Self::Evdo3g => Model { mean_mbps: 0.5, peak_mbps: 1.8, grant_ms: 12.0, ..down },
            Self::Lte4g => Model { mean_mbps: 6.0, peak_mbps: 25.0, grant_ms: 5.0, turn_ms: 60.0, ..down },
            Self::LteDrive4g => {
                Model { mean_mbps: 3.5, peak_mbps: 25.0, grant_ms: 6.0, turn_ms: 60.0, ..down }
            }
            Self::Nr5g => Model { mean_mbps: 30.0, peak_mbps: 100.0, grant_ms: 3.0, turn_ms: 60.0, ..down },
        }
    }

    /// The figures of a trace of this kind beside the ranges the preset is made for.
    ///
    /// The ranges come from public traces and measurements of live networks; for 5G, whose
    /// millisecond traces are not public, busy share and opportunities follow from the rate.
    #[must_use]
    pub fn compare(self, direction: Direction, stats: &TraceStats) -> Vec<Comparison> {
        let targets = self.targets(direction);
        let told = |enough: u64, value: f64| (stats.outages >= enough).then_some(value);
        let row = |name, target, value| Comparison { name, target, value };
        vec![
            row("mean rate, Mbit/s", targets.mean_mbps, Some(stats.mean_mbps)),
            row("busy milliseconds, %", targets.busy_percent, Some(stats.busy_share * 100.0)),
            row("opportunities per busy ms", targets.per_busy_ms, Some(stats.per_busy_ms)),
            row("gap median, ms", targets.gap_ms_p50, Some(stats.gap_ms_p50 as f64)),
            row("gap p99, ms", targets.gap_ms_p99, Some(stats.gap_ms_p99 as f64)),
            row("outages per minute", targets.outages_per_min, Some(stats.outages_per_min)),
            row("outage median, s", 0.22..=0.72, told(OUTAGES_TO_TELL_MEDIAN, stats.outage_s_p50)),
            row("outage p95, s", self.outage_tail(), told(OUTAGES_TO_TELL_TAIL, stats.outage_s_p95)),
            row("variation over 1 s", 0.49..=0.88, Some(stats.bins_1s.variation)),
            row("autocorrelation at 0.1 s", self.short_autocorrelation(), Some(stats.autocorrelation_100ms)),
            row("autocorrelation at 1 s", 0.4..=0.92, Some(stats.autocorrelation_1s)),
            row("autocorrelation at 5 s", 0.1..=0.8, Some(stats.autocorrelation_5s)),
            row("empty 100 ms bins, %", targets.empty_percent, Some(stats.empty_100ms_share * 100.0)),
        ]
    }

    /// About 0.8; slow links have few opportunities per bin, whose chance lowers it.
    fn short_autocorrelation(self) -> RangeInclusive<f64> {
        if self == Self::Evdo3g { 0.4..=0.85 } else { 0.7..=0.92 }
    }

    /// The 95th percentile of outage lengths. On slow links many a long pause counts as an outage.
    fn outage_tail(self) -> RangeInclusive<f64> {
        if self == Self::Evdo3g { 0.5..=2.4 } else { 0.7..=2.4 }
    }

    fn targets(self, direction: Direction) -> Targets {
        let is_down = direction == Direction::Down;
        let (gap_ms_p50, gap_ms_p99) =
            if is_down { (1.0..=3.0, 12.0..=78.0) } else { (3.0..=11.0, 12.0..=78.0) };
        let lte = Targets {
            mean_mbps: if is_down { 10.0..=20.0 } else { 4.0..=8.0 },
            busy_percent: 3.0..=50.0,
            per_busy_ms: 1.1..=5.0,
            gap_ms_p50,
            gap_ms_p99,
            outages_per_min: 0.4..=11.0,
            empty_percent: 0.5..=15.0,
        };
        match self {
            Self::Lte4g => lte,
            Self::LteDrive4g => Targets { mean_mbps: if is_down { 5.0..=13.0 } else { 2.0..=6.0 }, ..lte },
            Self::Hspa3g => Targets { mean_mbps: if is_down { 3.0..=5.0 } else { 0.7..=1.5 }, ..lte },
            Self::Evdo3g => Targets {
                mean_mbps: if is_down { 0.8..=1.2 } else { 0.3..=0.6 },
                gap_ms_p50: if is_down { 12.0..=16.0 } else { 14.0..=30.0 },
                busy_percent: 2.0..=10.0,
                gap_ms_p99: if is_down { 220.0..=320.0 } else { 220.0..=380.0 },
                // Without many opportunities a pause of 200 ms is nothing special.
                outages_per_min: 5.0..=50.0,
                empty_percent: 18.0..=32.0,
                ..lte
            },
            Self::Nr5g => Targets {
                mean_mbps: if is_down { 100.0..=150.0 } else { 20.0..=40.0 },
                busy_percent: 25.0..=80.0,
                per_busy_ms: 5.0..=25.0,
                gap_ms_p50: 1.0..=3.0,
                gap_ms_p99: 5.0..=40.0,
                ..lte
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every preset and direction, several seeds, 300 s each.
    #[test]
    fn presets_keep_their_targets() {
        for preset in Preset::ALL {
            for direction in [Direction::Down, Direction::Up] {
                for seed in 1..=6 {
                    let trace = preset.generate(direction, Duration::from_secs(300), seed).unwrap();
                    let rows = preset.compare(direction, &TraceStats::of(&trace));
                    let missed: Vec<_> = rows.into_iter().filter(|row| !row.is_met()).collect();
                    assert!(missed.is_empty(), "{} {direction:?} seed {seed}: {missed:#?}", preset.name());
                }
            }
        }
    }

    /// An hour has enough outages to tell the tail of their lengths.
    #[test]
    fn an_hour_of_driving_keeps_its_targets() {
        for preset in [Preset::Hspa3g, Preset::LteDrive4g] {
            let trace = preset.generate(Direction::Down, Duration::from_secs(3600), 1).unwrap();
            let rows = preset.compare(Direction::Down, &TraceStats::of(&trace));
            let missed: Vec<_> = rows.iter().filter(|row| !row.is_met() || row.value.is_none()).collect();
            assert!(missed.is_empty(), "{}: {missed:#?}", preset.name());
        }
    }

    #[test]
    fn same_seed_same_trace_and_exact_length() {
        let make =
            |seed| Preset::Lte4g.generate(Direction::Down, Duration::from_millis(20_500), seed).unwrap();
        assert_eq!(make(3), make(3));
        assert_ne!(make(3), make(4));
        assert_eq!(make(3).period(), Duration::from_millis(20_500));
    }

    /// The very numbers, so that a change of the generator or of a library under it is seen.
    #[test]
    fn traces_are_the_same_on_every_platform() {
        let digest = |preset: Preset, direction| {
            let trace = preset.generate(direction, Duration::from_secs(60), 1).unwrap();
            // FNV-1a over times and counts.
            trace.busy_ms().fold(0xcbf2_9ce4_8422_2325_u64, |hash, (ms, count)| {
                [ms, count].into_iter().fold(hash, |hash, n| (hash ^ n).wrapping_mul(0x100_0000_01b3))
            })
        };
        let down = Preset::ALL.map(|preset| digest(preset, Direction::Down));
        let expected = [
            0x98bc_dd53_ddfd_e135,
            0xfa25_8b50_4159_24bd,
            0x0f94_bebe_781b_1f75,
            0xcc11_ecf6_0a31_cd24,
            0x33ac_2dae_eb42_092a,
        ];
        assert_eq!(down, expected, "{down:#x?}");
    }

    #[test]
    fn lengths_out_of_range_are_refused() {
        for length in [0, 999, 25 * 3_600_000] {
            assert!(Preset::Nr5g.generate(Direction::Down, Duration::from_millis(length), 1).is_err());
        }
    }

    #[test]
    fn names_round_trip() {
        assert!(Preset::ALL.into_iter().all(|preset| Preset::from_name(preset.name()) == Some(preset)));
        assert_eq!(Preset::from_name("6g"), None);
    }
}
