//! [`LinkPlan`]: the link models that a case asks for.

use std::sync::Arc;

use link::{
    BaseStationConfig, Capacity, DelayModel, LinkConfig, LossModel, OutageModel, RateSteps, SlotConfig, Tdd,
    Trace,
};
use units::Duration;

use crate::error::Error;
use crate::quantity::QueueLimit;
use crate::radio::{Management, RadioDirection};
use crate::{Case, Wan};

/// Reads the text of a trace file named in a scenario, or says why it cannot.
pub type ReadTrace<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

/// Both links in both directions, ready to be made.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// Server to accelerator.
    pub wan_down: LinkConfig,
    /// Accelerator to server.
    pub wan_up: LinkConfig,
    /// Accelerator to client.
    pub radio_down: LinkConfig,
    /// Client to accelerator.
    pub radio_up: LinkConfig,
    /// Settings of the base stations' reports to the accelerator.
    pub feedback: Option<BaseStationConfig>,
}

/// A queue that nobody chose: what a Linux interface holds.
const QUEUE_PACKETS: u64 = 1_000;

/// Length of a synthetic trace unless given; it repeats after that.
const TRACE_LENGTH: Duration = Duration::from_secs(60);

impl Case {
    /// The link models of this (resolved) case. `seed` decides every random draw; the same seed gives
    /// every case the same synthetic trace.
    ///
    /// # Errors
    /// When a trace cannot be read or built, or a setting is out of range.
    pub fn links(&self, seed: u64, read: ReadTrace<'_>) -> Result<LinkPlan, Error> {
        let seed_of = |link: u64| seed.wrapping_mul(4).wrapping_add(link);
        let nothing = RadioDirection::default();
        let down = self.radio.down.as_ref().unwrap_or(&nothing);
        let up = self.radio.up.as_ref().unwrap_or(&nothing);
        let plan = LinkPlan {
            wan_down: wan(&self.wan, seed_of(0)),
            wan_up: wan(&self.wan, seed_of(1)),
            radio_down: radio(down, link::LinkDirection::Down, (seed, seed_of(2)), read)?,
            radio_up: radio(up, link::LinkDirection::Up, (seed, seed_of(3)), read)?,
            feedback: self.feedback.base_station(),
        };
        plan.named().into_iter().try_for_each(|(name, config)| checked(name, config))?;
        if let Some(Err(e)) = plan.feedback.map(|config| config.check()) {
            return Err(Error::Link { name: "feedback".to_owned(), message: e.to_string() });
        }
        Ok(plan)
    }
}

impl LinkPlan {
    /// The four links with their names.
    #[must_use]
    pub fn named(&self) -> [(&'static str, &LinkConfig); 4] {
        [
            ("wan down", &self.wan_down),
            ("wan up", &self.wan_up),
            ("radio down", &self.radio_down),
            ("radio up", &self.radio_up),
        ]
    }
}

fn wan(wan: &Wan, seed: u64) -> LinkConfig {
    LinkConfig {
        capacity: wan.rate.map_or(Capacity::Unlimited, |rate| Capacity::Constant(rate.0)),
        queue: queue(wan.queue),
        delay: DelayModel::Fixed(wan.delay.map_or(Duration::ZERO, |q| q.0)),
        loss_after: wan.loss.map_or(LossModel::None, |p| LossModel::Bernoulli { ppm: p.0.ppm() }),
        seed,
        ..LinkConfig::default()
    }
}

fn queue(limit: Option<QueueLimit>) -> link::QueueLimit {
    match limit {
        None => link::QueueLimit::Packets(QUEUE_PACKETS),
        Some(QueueLimit::Packets(n)) => link::QueueLimit::Packets(u64::from(n)),
        Some(QueueLimit::Bytes(bytes)) => link::QueueLimit::Bytes(bytes),
    }
}

/// Both directions of the radio called `name`, checked; each has its seed.
pub(crate) fn both(
    name: &str,
    (down, up): (&RadioDirection, &RadioDirection),
    [of_down, of_up]: [u64; 2],
    read: ReadTrace<'_>,
) -> Result<[LinkConfig; 2], Error> {
    let made = [
        radio(down, link::LinkDirection::Down, (of_down, of_down), read)?,
        radio(up, link::LinkDirection::Up, (of_up, of_up), read)?,
    ];
    made.iter().try_for_each(|config| checked(name, config))?;
    Ok(made)
}

fn checked(name: &str, config: &LinkConfig) -> Result<(), Error> {
    config.check().map_err(|e| Error::Link { name: name.to_owned(), message: e.to_string() })
}

fn radio(
    d: &RadioDirection,
    towards: link::LinkDirection,
    (trace_seed, seed): (u64, u64),
    read: ReadTrace<'_>,
) -> Result<LinkConfig, Error> {
    let fixed = d.delay.map_or(Duration::ZERO, |q| q.0);
    let delay = d
        .jitter
        .map_or(DelayModel::Fixed(fixed), |jitter| DelayModel::Normal { mean: fixed, deviation: jitter.0 });
    Ok(LinkConfig {
        capacity: capacity(d, towards, trace_seed, read)?,
        queue: queue(d.queue),
        aqm: d.aqm.as_ref().map(Management::aqm),
        policer: d.policer.map(|policer| link::Policer { rate: policer.rate.0, burst: policer.burst.0 }),
        delay,
        loss_after: loss(d),
        fades: d.fades.map(|fades| fades.process()),
        outages: outages(d),
        harq: d.harq.map(|h| link::Harq {
            block_error_ppm: h.block_error.0.ppm(),
            retry_time: h.retry.0,
            tries_max: h.tries,
            per_slot: h.per_slot,
        }),
        uplink_slots: d.slots.map(|period| SlotConfig { period: period.0, offset: Duration::ZERO }),
        tdd: tdd(d, towards)?,
        grants: d.grants.map(|g| link::Grants {
            request_every: g.request.0,
            grant_after: g.after.0,
            hold: g.hold.0,
        }),
        seed,
        ..LinkConfig::default()
    })
}

fn tdd(d: &RadioDirection, towards: link::LinkDirection) -> Result<Option<Tdd>, Error> {
    let Some(frame) = &d.tdd else { return Ok(None) };
    let (name, letters) = match towards {
        link::LinkDirection::Down => ("radio down", "DS"),
        link::LinkDirection::Up => ("radio up", "U"),
    };
    let made = Tdd::new(frame.slot.0, &frame.pattern, letters);
    made.map(Some).map_err(|e| Error::Link { name: name.to_owned(), message: e.to_string() })
}

fn capacity(
    d: &RadioDirection,
    towards: link::LinkDirection,
    seed: u64,
    read: ReadTrace<'_>,
) -> Result<Capacity, Error> {
    let failed = |name: &str, message: String| Error::Trace { name: name.to_owned(), message };
    if let Some(rate) = d.rate {
        return Ok(Capacity::Constant(rate.0));
    }
    if let Some(preset) = d.preset {
        let seed = d.trace_seed.unwrap_or(seed);
        let length = d.trace_length.map_or(TRACE_LENGTH, |q| q.0);
        let trace = preset.0.generate(towards, length, seed);
        let trace = trace.map_err(|e| failed(preset.as_str(), e.to_string()))?;
        return Ok(Capacity::Trace(Arc::new(trace)));
    }
    if let Some(file) = &d.trace {
        let text = read(file).map_err(|message| failed(file, message))?;
        let trace = Trace::parse(&text, file).map_err(|e| failed(file, e.to_string()))?;
        return Ok(Capacity::Trace(Arc::new(trace)));
    }
    if let Some(steps) = &d.steps {
        let steps: Vec<_> = steps.iter().map(|s| (s.lasting.0, s.rate.0)).collect();
        let steps = RateSteps::new(&steps, true).map_err(|e| failed("steps", e.to_string()))?;
        return Ok(Capacity::Steps(held(d, steps)));
    }
    let process = d.redraw.map(|r| ("redraw", r.process()));
    let process = process.or_else(|| d.arma.as_ref().map(|a| ("arma", a.process())));
    if let Some((name, process)) = process {
        let length = d.trace_length.map_or(TRACE_LENGTH, |q| q.0);
        let steps = process.steps(length, d.trace_seed.unwrap_or(seed));
        return Ok(Capacity::Steps(held(d, steps.map_err(|e| failed(name, e.to_string()))?)));
    }
    Ok(Capacity::Unlimited)
}

fn held(d: &RadioDirection, steps: RateSteps) -> RateSteps {
    if d.holds_rate == Some(true) { steps.holding_rates() } else { steps }
}

fn loss(d: &RadioDirection) -> LossModel {
    match (d.burst_loss, d.loss) {
        (Some(burst), _) => LossModel::GilbertElliott {
            to_bad_ppm: burst.enter.0.ppm(),
            to_good_ppm: burst.leave.0.ppm(),
            good_loss_ppm: 0,
            bad_loss_ppm: burst.loss.0.ppm(),
        },
        (None, Some(p)) => LossModel::Bernoulli { ppm: p.0.ppm() },
        (None, None) => LossModel::None,
    }
}

fn outages(d: &RadioDirection) -> OutageModel {
    match &d.outages {
        None => OutageModel::None,
        Some(list) => OutageModel::Scheduled(list.iter().map(|o| (o.at.0, o.lasting.0)).collect()),
    }
}

#[cfg(test)]
mod tests;
