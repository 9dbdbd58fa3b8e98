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

/// A figure of [`TraceStats`] and the range in which a preset's traces keep it.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// What the figure is, with its unit.
    pub name: &'static str,
    /// Smallest and largest value.
    pub range: RangeInclusive<f64>,
    /// Reads the figure; none when the trace is too short to tell.
    pub read: fn(&TraceStats) -> Option<f64>,
}

/// Fewer outages than this say nothing about the tail of their lengths.
const OUTAGES_TO_TELL: u64 = 20;

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
                slow_deviation: 0.55,
                slow_s: 6.0,
                fast_deviation: 0.35,
                fast_s: 0.6,
                outages_per_min: 4.0,
                outage_s_p50: 0.34,
                outage_s_p95: 1.3,
                grant_ms: 2.5,
                turn_ms: 16.0,
                pause_ms: 12.0,
            },
            Self::Evdo3g => Model {
                mean_mbps: 1.0,
                peak_mbps: 3.1,
                slow_deviation: 0.5,
                slow_s: 6.0,
                fast_deviation: 0.3,
                fast_s: 0.8,
                outages_per_min: 12.0,
                outage_s_p50: 0.34,
                outage_s_p95: 1.0,
                grant_ms: 8.0,
                turn_ms: 150.0,
                pause_ms: 60.0,
            },
            Self::Lte4g => Model {
                mean_mbps: 15.0,
                peak_mbps: 75.0,
                slow_deviation: 0.5,
                slow_s: 8.0,
                fast_deviation: 0.25,
                fast_s: 0.5,
                outages_per_min: 1.5,
                outage_s_p50: 0.32,
                outage_s_p95: 0.9,
                grant_ms: 1.8,
                turn_ms: 25.0,
                pause_ms: 7.0,
            },
            Self::LteDrive4g => Model {
                mean_mbps: 9.0,
                peak_mbps: 75.0,
                slow_deviation: 0.7,
                slow_s: 5.0,
                fast_deviation: 0.35,
                fast_s: 0.5,
                outages_per_min: 6.0,
                outage_s_p50: 0.38,
                outage_s_p95: 1.5,
                grant_ms: 2.0,
                turn_ms: 22.0,
                pause_ms: 9.0,
            },
            Self::Nr5g => Model {
                mean_mbps: 120.0,
                peak_mbps: 600.0,
                slow_deviation: 0.5,
                slow_s: 5.0,
                fast_deviation: 0.25,
                fast_s: 0.4,
                outages_per_min: 1.5,
                outage_s_p50: 0.32,
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
            Self::Hspa3g => Model { mean_mbps: 1.2, peak_mbps: 5.7, grant_ms: 8.0, turn_ms: 60.0, ..down },
            Self::Evdo3g => Model { mean_mbps: 0.5, peak_mbps: 1.8, grant_ms: 12.0, ..down },
            Self::Lte4g => Model { mean_mbps: 6.0, peak_mbps: 25.0, grant_ms: 5.0, turn_ms: 60.0, ..down },
            Self::LteDrive4g => {
                Model { mean_mbps: 3.5, peak_mbps: 25.0, grant_ms: 6.0, turn_ms: 60.0, ..down }
            }
            Self::Nr5g => Model { mean_mbps: 30.0, peak_mbps: 100.0, grant_ms: 3.0, turn_ms: 60.0, ..down },
        }
    }
}
