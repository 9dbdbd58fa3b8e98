//! Options about what is around the radio link of a contest.

use ::contest::{Air, ContestError, PathSettings, RadioSettings};
use anyhow::{Result, anyhow};
use link::LossModel;
use scenario::{Probability, Quantity};
use units::{Bytes, Duration, Rate, WindowScale};

/// Wired segment, hosts, and the accelerator's window.
#[derive(clap::Args)]
pub struct PathArgs {
    /// Round trip of the wired segment; the radio link has another 20 ms
    #[arg(long, default_value = "20 ms", value_name = "TIME")]
    wan_rtt: Quantity<Duration>,
    /// Rate of the wired segment
    #[arg(long, default_value = "10 Gbit/s", value_name = "RATE")]
    wan_rate: Quantity<Rate>,
    /// Largest window that the accelerator offers to servers [default: the accelerator's own]
    #[arg(long, value_name = "SIZE")]
    window_max: Option<Quantity<Bytes>>,
    /// Receive buffer of clients, and send buffer of servers
    #[arg(long, default_value = "128 MiB", value_name = "SIZE")]
    host_buffer: Quantity<Bytes>,
    /// Window scale of clients, 0 to 14
    #[arg(long, default_value_t = 14, value_parser = clap::value_parser!(u8).range(0..=14), value_name = "N")]
    window_scale: u8,
    /// Share of packets that the radio loses at random on the way to the client
    #[arg(long, value_name = "P", conflicts_with = "bursts")]
    loss: Option<Quantity<Probability>>,
    /// Bursts of losses: the chance that a packet begins one, and that it ends one, such as 0.1%,25%
    #[arg(long, value_name = "ENTER,LEAVE")]
    bursts: Option<String>,
    /// Fades, in which every packet is lost: mean distance from begin to begin, and mean length, such as
    /// 500ms,20ms
    #[arg(long, value_name = "EVERY,FOR")]
    fades: Option<String>,
    /// Structure inside the bins of the traces: flat, or slots (5G: 0.5 ms slots, block errors and
    /// repairs, uplink grants)
    #[arg(long, default_value = "flat", value_name = "KIND")]
    radio: Air,
}

impl PathArgs {
    /// The settings.
    ///
    /// # Errors
    /// One that is out of range, as one line.
    pub fn settings(&self) -> Result<PathSettings> {
        let path = PathSettings {
            wan_rtt: self.wan_rtt.0,
            wan_rate: self.wan_rate.0,
            window_max: self.window_max.map(|q| q.0),
            host_buffer: self.host_buffer.0,
            window_scale: WindowScale::new(self.window_scale),
            radio: self.radio().map_err(|e| anyhow!("--{e}"))?,
        };
        path.check().map(|()| path).map_err(|e| anyhow!("--{e}"))
    }

    fn radio(&self) -> Result<RadioSettings, ContestError> {
        let random = self.loss.map_or(LossModel::None, |loss| RadioSettings::losing(loss.0));
        let loss = self.bursts.as_deref().map_or(Ok(random), RadioSettings::bursts)?;
        let fades = self.fades.as_deref().map(RadioSettings::fades).transpose()?;
        Ok(RadioSettings { loss, fades, air: self.radio })
    }
}
