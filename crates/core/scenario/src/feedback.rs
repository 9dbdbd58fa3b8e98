//! The feedback section: what the base station reports to the accelerator.

use link::BaseStationConfig;
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration};

use crate::merge::layered;
use crate::quantity::{Probability, Quantity};

layered! {
    /// Reports of the base station about the downlink of each client.
    pub struct Feedback {
        /// Whether there are any. Default: no.
        pub enabled: bool,
        /// Time from report to report. Default: 10 ms.
        pub period: Quantity<Duration>,
        /// Time from the measurement to the arrival at the accelerator. Default: none.
        pub delay: Quantity<Duration>,
        /// Reports lost at random. Default: none.
        pub loss: Quantity<Probability>,
        /// Standard deviation of the reported bandwidth, in percent of it. Default: none.
        pub noise: Quantity<Probability>,
        /// Standard deviation of the reported queue. Default: none.
        pub queue_noise: Quantity<Bytes>,
        /// Time after the measurement for which a report says that it is valid. Default: it does not say.
        pub validity: Quantity<Duration>,
    }
}

impl Feedback {
    /// Settings of the base stations' reports in the link model; none unless enabled.
    #[must_use]
    pub fn base_station(&self) -> Option<BaseStationConfig> {
        let default = BaseStationConfig::default();
        let ppm = |share: Option<Quantity<Probability>>| share.map_or(0, |share| share.0.ppm());
        self.enabled.unwrap_or(false).then(|| BaseStationConfig {
            period: self.period.map_or(default.period, |time| time.0),
            delay: self.delay.map_or(default.delay, |time| time.0),
            loss_ppm: ppm(self.loss),
            bandwidth_noise_ppm: ppm(self.noise),
            queue_noise: self.queue_noise.map_or(default.queue_noise, |size| size.0),
            validity: self.validity.map_or(default.validity, |time| time.0),
        })
    }
}
