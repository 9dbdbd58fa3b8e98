//! The radio and WAN sections: what a link can carry, how long it takes, what it loses.

use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Rate};

use crate::merge::{checked, layered};
use crate::quantity::{Probability, Quantity, QueueLimit};

layered! {
    /// The wired segment between server and accelerator, the same in both directions.
    pub struct Wan {
        /// One-way delay. Default: none.
        pub delay: Quantity<Duration>,
        /// Capacity. Default: unlimited.
        pub rate: Quantity<Rate>,
        /// Queue in front of the capacity. Default: 1000 packets.
        pub queue: QueueLimit,
        /// Packets lost at random, per direction. Default: none.
        pub loss: Quantity<Probability>,
    }
}

/// Both directions of the radio link; a direction left out carries everything at once.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Radio {
    /// Direction towards the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<RadioDirection>,
    /// Direction from the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<RadioDirection>,
}

impl Radio {
    /// This section where it says something, `base` elsewhere, direction by direction.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let layer = |own: &Option<RadioDirection>, base: &Option<RadioDirection>| match (own, base) {
            (Some(own), Some(base)) => Some(own.over(base)),
            (own, base) => own.clone().or_else(|| base.clone()),
        };
        Self { down: layer(&self.down, &base.down), up: layer(&self.up, &base.up) }
    }
}

layered! {
    /// One direction of the radio link.
    checked pub struct RadioDirection {
        /// Capacity: a constant rate.
        pub rate: Quantity<Rate>,
        /// Capacity: a synthetic trace of this kind.
        pub preset: PresetName,
        /// Capacity: a trace file in Mahimahi's format or with lines of `seconds Mbit/s`, relative
        /// to the scenario file.
        pub trace: String,
        /// Capacity: rates held for a time each, repeated from the start.
        pub steps: Vec<Step>,
        /// Capacity: a rate drawn anew from a distribution at intervals.
        pub redraw: Redraw,
        /// Capacity: an ARMA(p,q) process of rates.
        pub arma: Arma,
        /// A packet is sent to its end at the rate with which it began, as ns-2's links do; of
        /// `steps`, `redraw`, `arma`. Default: no.
        pub holds_rate: bool,
        /// Seed of the synthetic trace. Default: the scenario's seed.
        pub trace_seed: u64,
        /// Length of the synthetic trace before it repeats. Default: 60 s.
        pub trace_length: Quantity<Duration>,
        /// Time by which each further device begins later in the trace than the one before. Default: all
        /// alike.
        pub apart: Quantity<Duration>,
        /// The subscriber's queue, drop-tail. Default: 1000 packets.
        pub queue: QueueLimit,
        /// Management of the packets that wait in it; the simulator alone has that. Default: not at all.
        pub aqm: Management,
        /// A rate that is enforced ahead of the queue by dropping what exceeds it. Default: none.
        pub policer: Policer,
        /// One-way delay. Default: none.
        pub delay: Quantity<Duration>,
        /// Deviation of the delay from packet to packet, in order. Default: none.
        pub jitter: Quantity<Duration>,
        /// Packets lost at random behind the queue. Default: none.
        pub loss: Quantity<Probability>,
        /// Packets lost in bursts (Gilbert–Elliott).
        pub burst_loss: BurstLoss,
        /// Times in which what leaves the queue is lost. Default: none.
        pub fades: Fades,
        /// Times without any service.
        pub outages: Vec<Outage>,
        /// Block errors repaired by retransmission below IP, in order.
        pub harq: Harq,
        /// Departures only at the ends of slots of this length: bunches ACKs.
        pub slots: Quantity<Duration>,
        /// Departures only in this direction's slots of a radio frame.
        pub tdd: Frame,
        /// A client that was silent asks before it sends; of the direction from the client.
        pub grants: Grants,
    }
}

impl RadioDirection {
    /// The capacity keys, of which at most one may be given.
    const CAPACITY_KEYS: [&'static str; 6] = ["rate", "preset", "trace", "steps", "redraw", "arma"];

    fn capacity_keys(&self) -> Vec<&'static str> {
        let given = [
            self.rate.is_some(),
            self.preset.is_some(),
            self.trace.is_some(),
            self.steps.is_some(),
            self.redraw.is_some(),
            self.arma.is_some(),
        ];
        Self::CAPACITY_KEYS.into_iter().zip(given).filter_map(|(key, given)| given.then_some(key)).collect()
    }

    /// This direction where it says something, `base` elsewhere. A capacity replaces the base's,
    /// whatever its kind, and so does a loss (`loss`, `burst_loss`, `fades`).
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let mut base = base.clone();
        if !self.capacity_keys().is_empty() {
            (base.rate, base.preset, base.trace, base.steps) = (None, None, None, None);
            (base.redraw, base.arma) = (None, None);
        }
        if self.loss.is_some() || self.burst_loss.is_some() || self.fades.is_some() {
            (base.loss, base.burst_loss, base.fades) = (None, None, None);
        }
        self.layered_over(&base)
    }
}

/// A law of queue management.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ManagementLaw {
    /// Controlled delay (RFC 8289).
    CoDel,
    /// The coupled queues of RFC 9332.
    DualPi2,
}

/// Management of a queue: what it marks, and drops where it cannot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Management {
    /// The law.
    pub law: ManagementLaw,
    /// The queueing time of classic packets. Default: 5 ms of `codel`, 15 ms of `dualpi2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Quantity<Duration>>,
    /// `codel`: a long usual round trip. Default: 100 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Quantity<Duration>>,
    /// `dualpi2`: wait after which a scalable packet is marked. Default: 1 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Quantity<Duration>>,
}

impl Management {
    /// The link's settings.
    #[must_use]
    pub fn aqm(&self) -> link::Aqm {
        let time = |given: Option<Quantity<Duration>>, default: Duration| given.map_or(default, |q| q.0);
        match self.law {
            ManagementLaw::CoDel => {
                let default = link::CoDelParams::default();
                link::Aqm::CoDel(link::CoDelParams {
                    target: time(self.target, default.target),
                    interval: time(self.interval, default.interval),
                })
            }
            ManagementLaw::DualPi2 => {
                let default = link::DualPi2Params::default();
                link::Aqm::DualPi2(link::DualPi2Params {
                    target: time(self.target, default.target),
                    step: time(self.step, default.step),
                    ..default
                })
            }
        }
    }

    /// A key that its law does not have.
    fn check(&self) -> Result<(), String> {
        let (key, is_given) = match self.law {
            ManagementLaw::CoDel => ("step", self.step.is_some()),
            ManagementLaw::DualPi2 => ("interval", self.interval.is_some()),
        };
        if is_given { Err(format!("this `law` of `aqm` has no `{key}`")) } else { Ok(()) }
    }
}

impl Radio {
    /// The first key that only the simulator has.
    #[must_use]
    pub fn simulated_only(&self) -> Option<&'static str> {
        [&self.down, &self.up].into_iter().flatten().any(|way| way.aqm.is_some()).then_some("aqm")
    }
}

impl RadioDirection {
    /// Checks what serde cannot see: keys that exclude each other, presets that exist.
    fn check(&self) -> Result<(), String> {
        let given = self.capacity_keys();
        if given.len() > 1 {
            return Err(format!("`{}` exclude each other: give one of them", given.join("` and `")));
        }
        if self.loss.is_some() && self.burst_loss.is_some() {
            return Err("`loss` and `burst_loss` exclude each other: give one of them".to_owned());
        }
        if self.redraw.is_some_and(|redraw| redraw.mean.is_some() && redraw.share.is_some()) {
            return Err("`mean` and `share` of `redraw` exclude each other: give one of them".to_owned());
        }
        self.aqm.as_ref().map_or(Ok(()), Management::check)?;
        if self.steps.as_ref().is_some_and(|steps| steps.iter().all(|s| s.lasting.0.is_zero())) {
            return Err("`steps` need at least one with a `for` above zero".to_owned());
        }
        Ok(())
    }
}

/// A rate that is enforced without a queue: a token bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policer {
    /// Rate above which no more is let through in the long run.
    pub rate: Quantity<Rate>,
    /// Bytes that may come at once.
    pub burst: Quantity<Bytes>,
}

/// A kind of synthetic trace, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PresetName(pub link::Preset);

impl PresetName {
    /// The name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0.name()
    }
}

impl TryFrom<String> for PresetName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        link::Preset::from_name(&name).map(Self).ok_or_else(|| {
            let known = link::Preset::ALL.map(link::Preset::name).join("`, `");
            format!("unknown preset `{name}`, expected one of `{known}`")
        })
    }
}

impl From<PresetName> for String {
    fn from(name: PresetName) -> Self {
        name.as_str().to_owned()
    }
}

/// A rate held for a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The rate; zero is an outage.
    pub rate: Quantity<Rate>,
    /// Time that the step holds.
    #[serde(rename = "for")]
    pub lasting: Quantity<Duration>,
}

/// A time without service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Time of its start, from the start of the case.
    pub at: Quantity<Duration>,
    /// Time that it lasts.
    #[serde(rename = "for")]
    pub lasting: Quantity<Duration>,
}

/// Gilbert–Elliott loss: a good state without loss and a bad state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstLoss {
    /// Chance per packet to go from good to bad.
    pub enter: Quantity<Probability>,
    /// Chance per packet to go from bad to good.
    pub leave: Quantity<Probability>,
    /// Chance to lose a packet in the bad state. Default: 100 %.
    #[serde(default = "certain")]
    pub loss: Quantity<Probability>,
}

/// Fades: a process in time, which loses whatever is put on the air while one lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fades {
    /// Mean time from the begin of one to the begin of the next; longer than `for`.
    pub every: Quantity<Duration>,
    /// Mean time that one lasts.
    #[serde(rename = "for")]
    pub lasting: Quantity<Duration>,
    /// Chance to lose a packet in one. Default: 100 %.
    #[serde(default = "certain")]
    pub loss: Quantity<Probability>,
    /// All of the same spacing and length, instead of exponentially distributed ones. Default: no.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub regular: bool,
}

impl Fades {
    /// The process of the link model.
    #[must_use]
    pub fn process(&self) -> link::Fades {
        let make = if self.regular { link::Fades::regular } else { link::Fades::random };
        make(self.every.0, self.lasting.0, self.loss.0.ppm())
    }
}

const fn certain() -> Quantity<Probability> {
    Quantity(Probability::from_ppm(1_000_000))
}

const fn five_tries() -> u8 {
    5
}

/// Block errors and their repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Harq {
    /// Chance that one try of a block fails.
    pub block_error: Quantity<Probability>,
    /// Time one more try takes.
    pub retry: Quantity<Duration>,
    /// Tries in all before the packet is lost. Default: 5.
    #[serde(default = "five_tries")]
    pub tries: u8,
    /// Makes one block of all packets that leave in one slot. Default: no, each packet is a block.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub per_slot: bool,
}

/// A radio frame of slots.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// Length of a slot.
    pub slot: Quantity<Duration>,
    /// Slots towards the client (D), special ones, mostly towards it too (S), and from it (U),
    /// repeated: `DDDDDDDSUU`.
    pub pattern: String,
}

/// Grants by which a client comes to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grants {
    /// Time from one time at which it may ask to the next.
    pub request: Quantity<Duration>,
    /// Time from asking to the grant.
    pub after: Quantity<Duration>,
    /// Time for which a client that has sent need not ask again.
    pub hold: Quantity<Duration>,
}

/// A rate drawn anew at intervals: evenly between `from` and `to`, normally around `mean`, or one of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redraw {
    /// Time from draw to draw.
    pub every: Quantity<Duration>,
    /// Lowest rate. Default: zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Quantity<Rate>>,
    /// Highest rate.
    pub to: Quantity<Rate>,
    /// Mean of a normal distribution, cut at `from` and `to`; without it every rate between them is
    /// equally likely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<Quantity<Rate>>,
    /// Its standard deviation. Default: a quarter of the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<Quantity<Rate>>,
    /// Either `to`, with this probability, or `from`, and nothing between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Quantity<Probability>>,
}

impl Redraw {
    /// The process of the link model.
    #[must_use]
    pub fn process(&self) -> link::RateProcess {
        let low = self.from.map_or(Rate::ZERO, |rate| rate.0);
        let from = match (self.mean, self.share) {
            (None, None) => link::Distribution::Uniform(low, self.to.0),
            (_, Some(share)) => link::Distribution::Either(self.to.0, low, share.0.ppm()),
            (Some(Quantity(mean)), None) => {
                let deviation = self.deviation.map_or(mean.mul_ratio(1, 4), |rate| rate.0);
                link::Distribution::Normal { mean, deviation, floor: low, peak: self.to.0 }
            }
        };
        link::RateProcess::Redraw { every: self.every.0, from }
    }
}

/// ARMA(p,q) of the rate, [WA] (2); coefficients in thousandths.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arma {
    /// Time from step to step.
    pub every: Quantity<Duration>,
    /// The nominal rate.
    pub mean: Quantity<Rate>,
    /// Standard deviation of the noise.
    pub deviation: Quantity<Rate>,
    /// α, in thousandths. Default: none.
    #[serde(default)]
    pub alpha_permille: Vec<i32>,
    /// β from β₁ on, in thousandths. Default: none.
    #[serde(default)]
    pub beta_permille: Vec<i32>,
    /// Highest rate; the lowest is zero.
    pub peak: Quantity<Rate>,
}

impl Arma {
    /// The process of the link model.
    #[must_use]
    pub fn process(&self) -> link::RateProcess {
        let ppm = |values: &[i32]| values.iter().map(|value| i64::from(*value) * 1_000).collect();
        link::RateProcess::Arma {
            every: self.every.0,
            mean: self.mean.0,
            deviation: self.deviation.0,
            alphas_ppm: ppm(&self.alpha_permille),
            betas_ppm: ppm(&self.beta_permille),
            peak: self.peak.0,
        }
    }
}
