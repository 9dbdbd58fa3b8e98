//! A download that is accelerated beside others of the same client that pass, or these alone, and a ping.

use core::fmt;
use core::str::FromStr;
use std::sync::atomic::AtomicBool;

use control::{
    AdaptiveServerParams, Bbr3Params, BbrParams, ControllerConfig, CubicParams, FixedParams, NewRenoParams,
};
use engine::{Action, Engine, PassThrough, Rule};
use link::Percentiles;
use sim::{NetworkConfig, SimError};
use units::{Bytes, Duration, Instant, Rate};

use crate::ContestError;
use crate::bulk::{Observed, PING, SURPLUS, Watched, pings};
use crate::line_up::{FlowPlan, LineUp};
use crate::results::BesideRun;

/// Port of the servers whose flows pass.
pub(crate) const PASSED_PORT: u16 = 443;

/// Delay of the neighbours' beginning: the download has filled the link by then.
const LATER: Duration = Duration::from_secs(2);

/// QUIC implementations begin with more segments than TCP's ten (quic-go: 32).
const QUIC_SEGMENTS: u64 = 32;

const OWN: usize = 1;

/// Kind and number of the downloads beside the accelerated flow: the name of a [`BesideKind`], with a count
/// as in `cubic:2`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beside {
    /// The congestion control of their servers.
    pub kind: BesideKind,
    /// Number of downloads: 1 to 16.
    pub count: u16,
    /// Nothing is accelerated beside them; the ping passes, too.
    pub is_alone: bool,
}

impl Beside {
    /// The same without anything that is accelerated.
    #[must_use]
    pub const fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }
}

/// The congestion control of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BesideKind {
    /// TCP with CUBIC.
    Cubic,
    /// TCP with NewReno.
    Reno,
    /// TCP with BBR.
    Bbr,
    /// TCP with BBRv3.
    Bbr3,
    /// TCP that sends at half of the link's mean rate, all of them together, whatever happens: as tcp-brutal.
    Fixed,
    /// TCP with `adaptive` in the server's kernel.
    Adaptive,
    /// QUIC with CUBIC.
    Quic,
    /// QUIC with BBR.
    QuicBbr,
}

impl BesideKind {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Cubic, "cubic"),
        (Self::Reno, "reno"),
        (Self::Bbr, "bbr"),
        (Self::Bbr3, "bbr3"),
        (Self::Fixed, "fixed"),
        (Self::Adaptive, "adaptive"),
        (Self::Quic, "quic"),
        (Self::QuicBbr, "quic-bbr"),
    ];

    /// Its names, as they are written.
    pub(crate) const NAMES: &'static str = "cubic, reno, bbr, bbr3, fixed, adaptive, quic or quic-bbr";

    fn controller(self, rate: Rate) -> ControllerConfig {
        match self {
            Self::Cubic => ControllerConfig::Cubic(CubicParams::default()),
            Self::Reno => ControllerConfig::NewReno(NewRenoParams::default()),
            Self::Bbr | Self::QuicBbr => ControllerConfig::Bbr(BbrParams::default()),
            Self::Bbr3 => ControllerConfig::Bbr3(Bbr3Params::default()),
            Self::Fixed => ControllerConfig::Fixed(FixedParams { rate, ..FixedParams::default() }),
            Self::Adaptive => ControllerConfig::AdaptiveServer(AdaptiveServerParams::default()),
            Self::Quic => ControllerConfig::Cubic(CubicParams {
                initial_window_segments: QUIC_SEGMENTS,
                ..CubicParams::default()
            }),
        }
    }

    const fn is_quic(self) -> bool {
        matches!(self, Self::Quic | Self::QuicBbr)
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = BesideKind::ALL.iter().find(|(kind, _)| *kind == self.kind).map_or("", |(_, name)| name);
        let alone = if self.is_alone { "alone " } else { "" };
        if self.count == 1 { write!(f, "{alone}{name}") } else { write!(f, "{alone}{name}:{}", self.count) }
    }
}

impl FromStr for Beside {
    type Err = ContestError;

    fn from_str(text: &str) -> Result<Self, ContestError> {
        let (name, count) = text.split_once(':').unwrap_or((text, "1"));
        let kind = BesideKind::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind);
        let count = count.parse().ok().filter(|count| (1..=16).contains(count));
        kind.zip(count).map(|(kind, count)| Self { kind, count, is_alone: false }).ok_or_else(|| {
            let known = BesideKind::NAMES;
            let write = format!("write beside={known}, with a count from 1 to 16 as in beside=cubic:2");
            ContestError::setting("part", format!("`beside={text}` is none; {write}"))
        })
    }
}

/// Runs them for `length`; shares are of the time from a quarter of it on.
pub(crate) fn beside(
    line_up: &LineUp<'_>,
    length: Duration,
    beside: Beside,
    run: BesideRun,
) -> Result<BesideRun, SimError> {
    let all = (line_up.trace.down.offered_bytes(Duration::ZERO, length * 2) + SURPLUS).get();
    let others = OWN + usize::from(!beside.is_alone);
    let offered = line_up.trace.down.offered_bytes(Duration::ZERO, length).get();
    let fixed = Rate::from_transfer(Bytes::new(offered / 2 / u64::from(beside.count)), length);
    let mut flows = vec![pings(length)];
    if !beside.is_alone {
        flows.push(FlowPlan::download(all, Instant::ZERO));
    }
    flows.extend((0..beside.count).map(|_| FlowPlan::download(all, Instant::ZERO + LATER)));
    let mut network = line_up.network(&flows);
    for (number, flow) in network.flows.iter_mut().enumerate() {
        if number < others && !beside.is_alone {
            continue;
        }
        flow.server.local.set_port(PASSED_PORT);
        flow.client.remote.set_port(PASSED_PORT);
        if number < others {
            continue;
        }
        flow.server.controller = beside.kind.controller(fixed);
        if beside.kind.is_quic() {
            flow.server = flow.server.clone().over_quic();
            flow.client = flow.client.clone().over_quic();
        }
    }
    match line_up.engine() {
        None => through(PassThrough, (&network, line_up.is_over), (length, others), run),
        Some(mut config) => {
            let port = Some(PASSED_PORT..=PASSED_PORT);
            config.policy.rules.push(Rule { action: Action::Pass, client: None, server: None, port });
            through(Engine::new(config)?, (&network, line_up.is_over), (length, others), run)
        }
    }
}

fn through<M: Observed>(
    middlebox: M,
    (network, is_over): (&NetworkConfig, &AtomicBool),
    (length, others): (Duration, usize),
    mut run: BesideRun,
) -> Result<BesideRun, SimError> {
    let mut watched = Watched::new(middlebox, network, is_over)?;
    watched.run(length);
    let (from, end) = (Instant::ZERO + length.mul_ratio(1, 4), Instant::ZERO + length);
    let seconds = end.saturating_since(from).as_secs_f64();
    let rate =
        |flow: usize| (watched.read_by(flow, end) - watched.read_by(flow, from)) as f64 * 8e-6 / seconds;
    run.own_mbps = if others > OWN { rate(OWN) } else { 0.0 };
    run.beside_mbps = (others..network.flows.len()).map(rate).collect();
    let radio = watched.radio(length);
    let arrived = radio.delivered_packets + radio.queue_full;
    run.utilisation = radio.utilisation;
    run.queue_ms = radio.queueing_delay.into();
    run.loss = radio.queue_full as f64 / arrived.max(1) as f64;
    run.ping_ms = Percentiles::of(watched.response_times(PING).to_vec()).into();
    run.problems = watched.problems;
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_as_they_are_written() {
        for text in ["cubic", "reno:2", "bbr", "bbr3", "fixed:2", "quic:16", "quic-bbr:2"] {
            assert_eq!(text.parse::<Beside>().unwrap().to_string(), text);
        }
        for wrong in ["", "vegas", "cubic:0", "cubic:17", "cubic:x"] {
            assert!(wrong.parse::<Beside>().is_err(), "{wrong}");
        }
        let names = BesideKind::ALL.map(|(_, name)| name);
        assert_eq!(BesideKind::NAMES.replace(" or ", ", ").split(", ").collect::<Vec<_>>(), names);
    }
}
