//! [`PathSettings`]: what all runs have around the radio link.

use core::fmt;

use engine::EngineConfig;
use scenario::Quantity;
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Rate, WindowScale};

use crate::{ContestError, RadioSettings, Scheme};

/// Round trip of the radio link behind its queue.
pub(crate) const RADIO_RTT: Duration = Duration::from_millis(20);
/// Largest window that a header can express: 65,535 units of the largest scale (RFC 7323 §2.3).
const WINDOW_MAX: Bytes = Bytes::new(65_535 << 14);
/// Smallest buffer of a host: what is there without window scaling.
const BUFFER_MIN: Bytes = Bytes::from_kib(64);
/// Longest wired round trip that makes sense: two satellites.
const RTT_MAX: Duration = Duration::from_secs(5);

/// The wired segment, the hosts, and the window that the accelerator offers to servers.
///
/// By default nothing of it limits a radio link of some Gbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSettings {
    /// Round trip of the wired segment, at most 5 s. 20 ms.
    pub wan_rtt: Duration,
    /// Its rate in each direction. 10 Gbit/s.
    pub wan_rate: Rate,
    /// Largest window offered to servers; the engine's own, which is none, unless given.
    pub window_max: Option<Bytes>,
    /// Receive buffer of clients and send buffer of servers, 64 KiB to 1 GiB. 128 MiB.
    pub host_buffer: Bytes,
    /// Window scale of clients, which bounds what of their buffer their headers can express. 14.
    pub window_scale: WindowScale,
    /// Losses of the radio link. None.
    pub radio: RadioSettings,
}

impl Default for PathSettings {
    fn default() -> Self {
        Self {
            wan_rtt: Duration::from_millis(20),
            wan_rate: Rate::from_mbps(10_000),
            window_max: None,
            host_buffer: Bytes::from_mib(128),
            window_scale: WindowScale::new(14),
            radio: RadioSettings::default(),
        }
    }
}

impl PathSettings {
    /// Checks that everything is in its range.
    ///
    /// # Errors
    /// The first setting that is not.
    pub fn check(&self) -> Result<(), ContestError> {
        let wrong = |what, problem: &str| Err(ContestError::setting(what, problem));
        if self.wan_rtt > RTT_MAX {
            return wrong("wan-rtt", "must be at most 5 s");
        }
        if self.wan_rate.is_zero() {
            return wrong("wan-rate", "must be above zero, like 2 Gbit/s");
        }
        if self.window_max.is_some_and(|max| max.get() == 0) {
            return wrong("window-max", "must be above zero, like 8 MB");
        }
        if self.host_buffer < BUFFER_MIN || self.host_buffer > WINDOW_MAX {
            return wrong("host-buffer", "must be from 64 KiB to 1073 MB, like 128 MiB");
        }
        Ok(())
    }

    /// Round trip of the empty path: wired and radio.
    #[must_use]
    pub fn base_rtt(&self) -> Duration {
        self.wan_rtt + RADIO_RTT
    }

    /// The accelerator's settings for `scheme`; none without an accelerator.
    pub(crate) fn engine(&self, scheme: &Scheme) -> Option<EngineConfig> {
        let config = scheme.engine()?;
        let Some(window_max) = self.window_max else { return Some(config) };
        Some(EngineConfig { window_max, window_floor: config.window_floor.min(window_max), ..config })
    }

    /// The same for the results.
    pub(crate) fn document(&self) -> PathDocument {
        PathDocument {
            wan_rtt_ms: self.wan_rtt.as_millis_f64(),
            wan_mbps: self.wan_rate.as_mbps_f64(),
            radio_rtt_ms: RADIO_RTT.as_millis_f64(),
            window_max_bytes: self.window_max.map(Bytes::get),
            host_buffer_bytes: self.host_buffer.get(),
            window_scale: self.window_scale.shift(),
            radio: self.radio.to_string(),
        }
    }
}

/// Settings of the path, as results hold them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathDocument {
    /// Round trip of the wired segment.
    pub wan_rtt_ms: f64,
    /// Its rate.
    pub wan_mbps: f64,
    /// Round trip of the radio link behind its queue.
    pub radio_rtt_ms: f64,
    /// Largest window offered to servers; none for the engine's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_max_bytes: Option<u64>,
    /// Receive buffer of clients and send buffer of servers.
    pub host_buffer_bytes: u64,
    /// Window scale of clients.
    pub window_scale: u8,
    /// Losses of the radio link, in words.
    pub radio: String,
}

impl fmt::Display for PathDocument {
    /// One line of prose: `wired 20 ms at 10 Gbit/s, radio 20 ms; …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = Quantity(Rate::from_kbps((self.wan_mbps * 1e3).round() as u64));
        write!(f, "wired {} ms at {rate}, radio {} ms; ", self.wan_rtt_ms, self.radio_rtt_ms)?;
        let (buffer, scale) = (size(self.host_buffer_bytes), self.window_scale);
        write!(f, "hosts' buffers {buffer}, window scale {scale}; ")?;
        match self.window_max_bytes {
            Some(bytes) => write!(f, "window-max {}", size(bytes)),
            None => write!(f, "no window-max"),
        }?;
        write!(f, "; {}", self.radio)
    }
}

/// In MiB where it is a whole number of them.
fn size(bytes: u64) -> String {
    let mib = 1 << 20;
    if bytes > 0 && bytes.is_multiple_of(mib) {
        format!("{} MiB", bytes / mib)
    } else {
        Quantity(Bytes::new(bytes)).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_reach_the_engine_and_are_told() {
        let scheme: Scheme = "accel:adaptive".parse().unwrap();
        let own = EngineConfig::default();
        assert_eq!(PathSettings::default().engine(&scheme).unwrap().window_max, own.window_max);
        let small = PathSettings { window_max: Some(Bytes::new(64_000)), ..PathSettings::default() };
        let engine = small.engine(&scheme).unwrap();
        assert_eq!((engine.window_max, engine.window_floor), (Bytes::new(64_000), Bytes::new(64_000)));
        engine.validate().unwrap();
        assert!(small.engine(&"direct:bbr".parse().unwrap()).is_none());
        assert_eq!(
            small.document().to_string(),
            "wired 20 ms at 10 Gbit/s, radio 20 ms; hosts' buffers 128 MiB, window scale 14; window-max 64 \
             KB; no loss"
        );
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let good = PathSettings::default();
        good.check().unwrap();
        let wrong = |settings: PathSettings| settings.check().unwrap_err().to_string();
        assert!(wrong(PathSettings { wan_rtt: Duration::from_secs(6), ..good }).starts_with("wan-rtt: "));
        assert!(wrong(PathSettings { wan_rate: Rate::ZERO, ..good }).starts_with("wan-rate: "));
        assert!(wrong(PathSettings { window_max: Some(Bytes::ZERO), ..good }).starts_with("window-max: "));
        for buffer in [Bytes::from_kib(63), Bytes::from_mib(1_024)] {
            assert!(wrong(PathSettings { host_buffer: buffer, ..good }).starts_with("host-buffer: "));
        }
    }
}
