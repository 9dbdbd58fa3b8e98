//! [`RadioSettings`]: what the radio link does to packets, besides carrying what its trace says.

use core::fmt;

use link::{DelayModel, Fades, Grants, Harq, LinkConfig, LinkError, LossModel, Tdd};
use scenario::{Probability, Quantity};
use units::Duration;

use crate::ContestError;

/// Losses of the radio link towards clients behind its queue. Nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RadioSettings {
    /// Packets lost at random, or in bursts.
    pub loss: LossModel,
    /// Times in which everything is lost: from begin to begin, and how long, both in the mean.
    pub fades: Option<(Duration, Duration)>,
    /// Transmissions inside the milliseconds of a trace.
    pub air: Air,
}

/// Transmissions inside the bins of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Air {
    /// Capacity by the trace, and 10 ms of delay each way.
    #[default]
    Flat,
    /// A 5G frame of 0.5 ms slots, block errors with their repair, and uplink grants; less delay besides, so
    /// that an idle ping takes as long.
    Slots,
}

impl core::str::FromStr for Air {
    type Err = ContestError;

    fn from_str(text: &str) -> Result<Self, ContestError> {
        match text {
            "flat" => Ok(Self::Flat),
            "slots" => Ok(Self::Slots),
            _ => Err(ContestError::setting("radio", format!("`{text}` is none; there are flat, slots"))),
        }
    }
}

/// A frame of 5 ms at a subcarrier spacing of 30 kHz, common for 5G below 6 GHz: four fifths towards the
/// client.
const SLOT: Duration = Duration::from_micros(500);
const PATTERN: &str = "DDDDDDDSUU";
/// 9 % of transport blocks fail first, and are repaired 6 ms later: link adaptation aims at 10 %; the answer
/// waits for an uplink slot.
const HARQ: Harq =
    Harq { block_error_ppm: 90_000, retry_time: Duration::from_millis(6), tries_max: 5, per_slot: true };
/// A turn to ask every 5 ms, 4 ms to the grant (3GPP TR 38.825: 1 to 2 slots to read, 1 to 4 to prepare, and
/// the frame).
const GRANTS: Grants = Grants {
    request_every: Duration::from_millis(5),
    grant_after: Duration::from_millis(4),
    hold: Duration::from_millis(10),
};
/// Remainder of 10 ms each way: waiting for slots and repairs takes 1 to 2 ms down, asking and waiting 5 to
/// 10 up, 2 for one that sends.
const DELAYS: [Duration; 2] = [Duration::from_millis(8), Duration::from_millis(6)];

impl RadioSettings {
    /// Each packet is lost with this probability.
    #[must_use]
    pub fn losing(loss: Probability) -> LossModel {
        LossModel::Bernoulli { ppm: loss.ppm() }
    }

    /// Bursts of losses (Gilbert's model) from `ENTER,LEAVE`: the chance of a packet to begin one, and to end
    /// one.
    ///
    /// # Errors
    /// It is something else.
    pub fn bursts(text: &str) -> Result<LossModel, ContestError> {
        let [enter, leave] = pair::<Probability>(text).ok_or_else(|| {
            ContestError::setting("bursts", format!(
                "`{text}` is none; write ENTER,LEAVE, as in 0.1%,25%: 1 of 1000 packets begins a burst of 4 \
                 in the mean"
            ))
        })?;
        Ok(LossModel::GilbertElliott {
            to_bad_ppm: enter.ppm(),
            to_good_ppm: leave.ppm(),
            good_loss_ppm: 0,
            bad_loss_ppm: link::PPM,
        })
    }

    /// Fades from `EVERY,FOR`: from the begin of one to the begin of the next, and how long one lasts, in the
    /// mean.
    ///
    /// # Errors
    /// It is something else, or they would last for ever.
    pub fn fades(text: &str) -> Result<(Duration, Duration), ContestError> {
        let times = pair::<Duration>(text).filter(|[every, lasting]| !lasting.is_zero() && lasting < every);
        times.map(|[every, lasting]| (every, lasting)).ok_or_else(|| {
            let problem = "is none; write EVERY,FOR, as in 500ms,20ms, the first longer than the second";
            ContestError::setting("fades", format!("`{text}` {problem}"))
        })
    }

    /// Makes a link what the air is like, towards the client and from it.
    pub(crate) fn set_air(&self, down: &mut LinkConfig, up: &mut LinkConfig) -> Result<(), LinkError> {
        if self.air == Air::Flat {
            return Ok(());
        }
        (down.tdd, up.tdd) = (Some(Tdd::new(SLOT, PATTERN, "DS")?), Some(Tdd::new(SLOT, PATTERN, "U")?));
        (down.harq, up.harq, up.grants) = (Some(HARQ), Some(HARQ), Some(GRANTS));
        [down.delay, up.delay] = DELAYS.map(DelayModel::Fixed);
        Ok(())
    }

    /// The fades as the link model has them.
    pub(crate) fn link_fades(&self) -> Option<Fades> {
        self.fades.map(|(every, lasting)| Fades::random(every, lasting, link::PPM))
    }
}

fn pair<T: scenario::QuantityKind>(text: &str) -> Option<[T; 2]> {
    let (a, b) = text.split_once(',')?;
    let one = |text: &str| text.trim().parse::<Quantity<T>>().ok().map(|q| q.0);
    Some([one(a)?, one(b)?])
}

impl fmt::Display for RadioSettings {
    /// `no loss`, or what is lost.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |ppm: u32| f64::from(ppm) / 1e4;
        match self.loss {
            LossModel::None if self.fades.is_none() => write!(f, "no loss")?,
            LossModel::None => {}
            LossModel::Bernoulli { ppm } => write!(f, "{} % of packets lost", percent(ppm))?,
            LossModel::GilbertElliott { to_bad_ppm, to_good_ppm, .. } => {
                write!(f, "bursts of losses {} %, {} %", percent(to_bad_ppm), percent(to_good_ppm))?;
            }
        }
        if let Some((every, lasting)) = self.fades {
            let and = if self.loss == LossModel::None { "" } else { ", " };
            write!(f, "{and}fades every {} for {}", Quantity(every), Quantity(lasting))?;
        }
        if self.air == Air::Slots {
            write!(f, "; slots of 0.5 ms ({PATTERN}), 9 % of blocks repaired after 6 ms, uplink grants")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_read_and_told() {
        assert_eq!(RadioSettings::default().to_string(), "no loss");
        let fades = Some(RadioSettings::fades("500ms, 20 ms").unwrap());
        let loss = RadioSettings::bursts("0.1%,25%").unwrap();
        let both = RadioSettings { loss, fades, air: Air::Flat };
        assert_eq!(both.to_string(), "bursts of losses 0.1 %, 25 %, fades every 500 ms for 20 ms");
        let LossModel::GilbertElliott { to_bad_ppm, to_good_ppm, .. } = loss else { unreachable!() };
        assert_eq!((to_bad_ppm, to_good_ppm), (1_000, 250_000));
        for wrong in ["", "1%", "20ms,500ms", "0ms,0ms", "a,b"] {
            assert!(RadioSettings::fades(wrong).unwrap_err().to_string().starts_with("fades: "), "{wrong}");
            assert!(RadioSettings::bursts(wrong).unwrap_err().to_string().starts_with("bursts: "), "{wrong}");
        }
    }
}
