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
    /// 5G standalone below 6 GHz in a moving car, fitted to drives of 2025.
    SaDrive5g,
    /// 5G with LTE (non-standalone) in a moving car, fitted to drives of 2025.
    NsaDrive5g,
    /// 5G at millimetre waves on foot, with parameters from the literature; fitted to no traces.
    MmWave5g,
}

/// Direction of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LinkDirection {
    /// Base station to client.
    #[default]
    Down,
    /// Client to base station.
    Up,
}

/// A figure of a trace beside the range in which a preset keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct PresetFit {
    /// Name of the figure, with its unit.
    pub name: &'static str,
    /// Smallest and largest value wanted.
    pub target: RangeInclusive<f64>,
    /// The trace's value; none when the trace has too few outages to tell.
    pub value: Option<f64>,
}

impl PresetFit {
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
    variation_1s: RangeInclusive<f64>,
    /// Autocorrelations at 0.1, 1 and 5 s.
    autocorrelations: [RangeInclusive<f64>; 3],
}

/// Downlink of [`Preset::Hspa3g`].
const HSPA_3G: Model = Model {
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
};

/// Downlink of [`Preset::Evdo3g`].
const EVDO_3G: Model = Model {
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
};

/// Downlink of [`Preset::Lte4g`].
const LTE_4G: Model = Model {
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
};

/// Downlink of [`Preset::LteDrive4g`].
const LTE_DRIVE_4G: Model = Model {
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
};

/// Downlink of [`Preset::Nr5g`].
const NR_5G: Model = Model {
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
};

/// Downlink of [`Preset::SaDrive5g`].
const SA_DRIVE_5G: Model = Model {
    mean_mbps: 190.0,
    peak_mbps: 385.0,
    slow_deviation: 0.50,
    slow_s: 13.0,
    fast_deviation: 0.36,
    fast_s: 0.07,
    outages_per_min: 0.0,
    outage_s_p50: 0.3,
    outage_s_p95: 0.5,
    grant_ms: 1.1,
    turn_ms: 120.0,
    pause_ms: 14.0,
};

/// Downlink of [`Preset::NsaDrive5g`].
const NSA_DRIVE_5G: Model = Model {
    mean_mbps: 140.0,
    peak_mbps: 300.0,
    slow_deviation: 0.26,
    slow_s: 2.3,
    fast_deviation: 0.45,
    fast_s: 0.02,
    outages_per_min: 0.0,
    outage_s_p50: 0.3,
    outage_s_p95: 0.5,
    grant_ms: 1.1,
    turn_ms: 85.0,
    pause_ms: 22.0,
};

/// Downlink of [`Preset::MmWave5g`].
const MM_WAVE_5G: Model = Model {
    mean_mbps: 800.0,
    peak_mbps: 2_000.0,
    slow_deviation: 0.7,
    slow_s: 4.0,
    fast_deviation: 0.3,
    fast_s: 0.2,
    outages_per_min: 8.0,
    outage_s_p50: 0.35,
    outage_s_p95: 1.0,
    grant_ms: 1.1,
    turn_ms: 60.0,
    pause_ms: 3.0,
};

impl Preset {
    /// All presets.
    pub const ALL: [Self; 8] = [
        Self::Hspa3g,
        Self::Evdo3g,
        Self::Lte4g,
        Self::LteDrive4g,
        Self::Nr5g,
        Self::SaDrive5g,
        Self::NsaDrive5g,
        Self::MmWave5g,
    ];

    /// The name used on the command line and in scenario files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hspa3g => "3g-hspa",
            Self::Evdo3g => "3g-evdo",
            Self::Lte4g => "4g-lte",
            Self::LteDrive4g => "4g-lte-drive",
            Self::Nr5g => "5g-nr",
            Self::SaDrive5g => "5g-sa-drive",
            Self::NsaDrive5g => "5g-nsa-drive",
            Self::MmWave5g => "5g-mmwave",
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
    pub fn generate(self, direction: LinkDirection, length: Duration, seed: u64) -> Result<Trace, LinkError> {
        self.model(direction).generate(length, seed)
    }

    /// The generator's parameters.
    #[must_use]
    pub const fn model(self, direction: LinkDirection) -> Model {
        match direction {
            LinkDirection::Down => self.model_down(),
            LinkDirection::Up => self.model_up(),
        }
    }

    const fn model_down(self) -> Model {
        match self {
            Self::Hspa3g => HSPA_3G,
            Self::Evdo3g => EVDO_3G,
            Self::Lte4g => LTE_4G,
            Self::LteDrive4g => LTE_DRIVE_4G,
            Self::Nr5g => NR_5G,
            Self::SaDrive5g => SA_DRIVE_5G,
            Self::NsaDrive5g => NSA_DRIVE_5G,
            Self::MmWave5g => MM_WAVE_5G,
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
            Self::SaDrive5g | Self::NsaDrive5g => {
                Model { mean_mbps: 25.0, peak_mbps: 100.0, grant_ms: 3.0, turn_ms: 60.0, ..down }
            }
            Self::MmWave5g => Model { mean_mbps: 60.0, peak_mbps: 200.0, grant_ms: 3.0, ..down },
        }
    }

    /// The figures of a trace of this kind beside the ranges the preset is made for.
    ///
    /// The ranges come from public traces and measurements of live networks; for 5G, whose millisecond traces
    /// are not public, busy share and opportunities follow from the rate. Those of `5g-mmwave` say what its
    /// parameters give, not what was measured.
    #[must_use]
    pub fn compare(self, direction: LinkDirection, stats: &TraceStats) -> Vec<PresetFit> {
        let targets = self.targets(direction);
        let [at_100ms, at_1s, at_5s] = targets.autocorrelations;
        let told = |enough: u64, value: f64| (stats.outages >= enough).then_some(value);
        let row = |name, target, value| PresetFit { name, target, value };
        vec![
            row("mean rate, Mbit/s", targets.mean_mbps, Some(stats.mean_mbps)),
            row("busy milliseconds, %", targets.busy_percent, Some(stats.busy_share * 100.0)),
            row("opportunities per busy ms", targets.per_busy_ms, Some(stats.per_busy_ms)),
            row("gap median, ms", targets.gap_ms_p50, Some(stats.gap_ms_p50 as f64)),
            row("gap p99, ms", targets.gap_ms_p99, Some(stats.gap_ms_p99 as f64)),
            row("outages per minute", targets.outages_per_min, Some(stats.outages_per_min)),
            row("outage median, s", 0.22..=0.72, told(OUTAGES_TO_TELL_MEDIAN, stats.outage_s_p50)),
            row("outage p95, s", self.outage_tail(), told(OUTAGES_TO_TELL_TAIL, stats.outage_s_p95)),
            row("variation over 1 s", targets.variation_1s, Some(stats.bins_1s.variation)),
            row("autocorrelation at 0.1 s", at_100ms, Some(stats.autocorrelation_100ms)),
            row("autocorrelation at 1 s", at_1s, Some(stats.autocorrelation_1s)),
            row("autocorrelation at 5 s", at_5s, Some(stats.autocorrelation_5s)),
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

    /// Targets between the smallest and the largest of the drives, a little wider for single traces of
    /// chance; means of many are held to the means of the drives by a test.
    fn drive_targets(self, gap_ms_p50: RangeInclusive<f64>, is_down: bool) -> Targets {
        let is_sa = self == Self::SaDrive5g;
        let down = if is_sa { 70.0..=365.0 } else { 30.0..=255.0 };
        Targets {
            mean_mbps: if is_down { down } else { 15.0..=40.0 },
            busy_percent: if is_down { 50.0..=95.0 } else { 15.0..=60.0 },
            per_busy_ms: if is_down { 8.0..=40.0 } else { 2.0..=12.0 },
            gap_ms_p50,
            gap_ms_p99: 1.0..=80.0,
            // A long pause of the scheduler now and then.
            outages_per_min: 0.0..=0.6,
            empty_percent: 0.0..=1.5,
            variation_1s: if is_sa { 0.27..=0.60 } else { 0.17..=0.34 },
            autocorrelations: if is_sa {
                [0.45..=0.85, 0.12..=0.9, 0.0..=0.7]
            } else {
                [0.15..=0.55, 0.1..=0.8, -0.2..=0.4]
            },
        }
    }

    fn targets(self, direction: LinkDirection) -> Targets {
        let is_down = direction == LinkDirection::Down;
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
            variation_1s: 0.49..=0.88,
            autocorrelations: [self.short_autocorrelation(), 0.4..=0.92, 0.1..=0.8],
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
            Self::SaDrive5g | Self::NsaDrive5g => {
                self.drive_targets(if is_down { 1.0..=3.0 } else { 1.0..=5.0 }, is_down)
            }
            Self::MmWave5g => Targets {
                mean_mbps: if is_down { 600.0..=1_000.0 } else { 45.0..=75.0 },
                busy_percent: 15.0..=95.0,
                per_busy_ms: 3.0..=120.0,
                gap_ms_p50: 1.0..=5.0,
                gap_ms_p99: 1.0..=60.0,
                outages_per_min: 4.0..=12.0,
                empty_percent: 1.0..=15.0,
                variation_1s: 0.3..=0.9,
                autocorrelations: [0.6..=0.98, 0.3..=0.92, 0.0..=0.8],
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use figures::stats;

    use super::*;

    /// Means over drives, of 100 ms bins without the first second: T-Mobile, Chicago and Boston, 2025, iperf3
    /// (CoNEXT 2025, study of 5G standalone networks); five drives of SA, three of NSA, 60 s each.
    struct Drives {
        variation_100ms: f64,
        variation_1s: f64,
        /// Autocorrelations at 0.1, 1 and 5 s.
        autocorrelations: [f64; 3],
        /// 5th, 25th, 50th, 75th and 95th percentile over the mean.
        percentiles: [f64; 5],
    }

    const SA: Drives = Drives {
        variation_100ms: 0.475,
        variation_1s: 0.379,
        autocorrelations: [0.68, 0.468, 0.249],
        percentiles: [0.337, 0.693, 0.92, 1.269, 1.884],
    };
    const NSA: Drives = Drives {
        variation_100ms: 0.415,
        variation_1s: 0.233,
        autocorrelations: [0.292, 0.161, 0.006],
        percentiles: [0.32, 0.728, 1.001, 1.268, 1.678],
    };

    fn mean(values: &[f64]) -> f64 {
        stats::mean(values.iter().copied()).unwrap()
    }

    fn variation(values: &[f64]) -> f64 {
        let moments = stats::Moments::of(values.iter().copied()).unwrap();
        moments.population_deviation() / moments.mean
    }

    fn autocorrelation(bins: &[f64], lag: usize) -> f64 {
        let mean = mean(bins);
        let all: f64 = bins.iter().map(|v| (v - mean) * (v - mean)).sum();
        bins.iter().zip(&bins[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / all
    }

    /// The same figures of one minute of the generator.
    fn figures(preset: Preset, seed: u64) -> [f64; 10] {
        let trace = preset.generate(LinkDirection::Down, Duration::from_secs(60), seed).unwrap();
        let bins = crate::bin_rates_mbps(&trace, 100);
        let seconds: Vec<f64> = bins.chunks_exact(10).map(mean).collect();
        let mut sorted = bins.clone();
        sorted.sort_by(f64::total_cmp);
        // The rank that the drives' figures were made by: one above the nearest.
        let percentile = |share: f64| sorted[(share * sorted.len() as f64) as usize] / mean(&bins);
        let [a, b, c] = [1, 10, 50].map(|lag| autocorrelation(&bins, lag));
        let [p, q, r, s, t] = [0.05, 0.25, 0.5, 0.75, 0.95].map(percentile);
        [variation(&bins), variation(&seconds), a, b, c, p, q, r, s, t]
    }

    /// Forty minutes, each as long as a drive, in the mean: within 0.06 of the drives' means. Their own
    /// spread is larger: over the five of SA, the autocorrelation at 1 s goes from 0.12 to 0.71.
    #[test]
    fn drives_have_the_measured_statistics() {
        let mut missed = Vec::new();
        for (preset, drives) in [(Preset::SaDrive5g, SA), (Preset::NsaDrive5g, NSA)] {
            let minutes: Vec<[f64; 10]> = (1..=40).map(|seed| figures(preset, seed)).collect();
            let fitted: Vec<f64> =
                (0..10).map(|i| mean(&minutes.iter().map(|m| m[i]).collect::<Vec<_>>())).collect();
            let [a, b, c] = drives.autocorrelations;
            let [p, q, r, s, t] = drives.percentiles;
            let measured = [drives.variation_100ms, drives.variation_1s, a, b, c, p, q, r, s, t];
            let told = format!("{}: fitted {fitted:.3?}, measured {measured:.3?}", preset.name());
            println!("{told}");
            let off = fitted.iter().zip(measured).map(|(f, m)| (f - m).abs()).fold(0.0, f64::max);
            missed.extend((off > 0.06).then(|| format!("{told}: off by {off:.3}")));
        }
        assert!(missed.is_empty(), "{missed:#?}");
    }

    /// `5g-nr` was set before these drives were known: it varies more, and has outages that they have not.
    /// Its figures stand in docs/simulation.md beside theirs; this holds what is said there.
    #[test]
    fn the_older_5g_preset_varies_more_than_the_drives() {
        let minutes: Vec<[f64; 10]> = (1..=40).map(|seed| figures(Preset::Nr5g, seed)).collect();
        let figures: Vec<f64> =
            (0..10).map(|i| mean(&minutes.iter().map(|m| m[i]).collect::<Vec<_>>())).collect();
        println!("5g-nr: {figures:.3?}");
        assert!(figures[0] > SA.variation_100ms + 0.1 && figures[1] > SA.variation_1s + 0.1, "{figures:.3?}");
        assert!(figures[5] < NSA.percentiles[0], "{figures:.3?}");
    }

    /// Every preset and direction, several seeds, 300 s each.
    #[test]
    fn presets_keep_their_targets() {
        for preset in Preset::ALL {
            for direction in [LinkDirection::Down, LinkDirection::Up] {
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
            let trace = preset.generate(LinkDirection::Down, Duration::from_secs(3600), 1).unwrap();
            let rows = preset.compare(LinkDirection::Down, &TraceStats::of(&trace));
            let missed: Vec<_> = rows.iter().filter(|row| !row.is_met() || row.value.is_none()).collect();
            assert!(missed.is_empty(), "{}: {missed:#?}", preset.name());
        }
    }

    #[test]
    fn same_seed_same_trace_and_exact_length() {
        let make =
            |seed| Preset::Lte4g.generate(LinkDirection::Down, Duration::from_millis(20_500), seed).unwrap();
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
        let down = Preset::ALL.map(|preset| digest(preset, LinkDirection::Down));
        let expected = [
            0x98bc_dd53_ddfd_e135,
            0xfa25_8b50_4159_24bd,
            0x0f94_bebe_781b_1f75,
            0xcc11_ecf6_0a31_cd24,
            0x33ac_2dae_eb42_092a,
            0xcf09_b2a4_c823_05bb,
            0x8dc6_ddac_4d59_bb31,
            0x8e6a_684e_ef81_53f4,
        ];
        assert_eq!(down, expected, "{down:#x?}");
    }

    #[test]
    fn lengths_out_of_range_are_refused() {
        for length in [0, 999, 25 * 3_600_000] {
            assert!(Preset::Nr5g.generate(LinkDirection::Down, Duration::from_millis(length), 1).is_err());
        }
    }

    #[test]
    fn names_round_trip() {
        assert!(Preset::ALL.into_iter().all(|preset| Preset::from_name(preset.name()) == Some(preset)));
        assert_eq!(Preset::from_name("6g"), None);
    }
}
