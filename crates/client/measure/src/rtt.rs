//! [`rtt`]: round trips at an even pace, idle and while the path is loaded (bufferbloat).

use io::IoError;
use probe::{
    ClockEstimate, DelayFigures, Direction, EchoSample, Outage, Pattern, RunFigures, RunLog, delay_figures,
    outages,
};
use serde::Serialize;
use units::{Duration, Rate};

use crate::document::{Document, Measured as Outcome};
use crate::error::MeasureError;
use crate::local::{LocalFigures, LocalLog, LocalPeer};
use crate::longest_packet::is_blocked;
use crate::maker::{Maker, Peer};
use crate::session::{Session, Watcher};
use crate::verdict::{moved, time};

/// Name and version of the document; its schema is `schemas/probe-rtt.schema.json`.
pub const SCHEMA: &str = "cellerator/probe-rtt/1";

/// Width of a bin of the series.
const BIN: Duration = Duration::from_millis(200);
/// A load is this much above the capacity found, per cent: the queue fills.
const OVERLOAD: u64 = 115;
/// A load of which less arrives than this is more than the path carries.
const FILLED_SHARE: f64 = 0.98;
/// Rest between two phases.
const PAUSE: Duration = Duration::from_secs(1);

/// Plan of the measurement.
#[derive(Clone, Debug)]
pub struct RttPlan {
    /// Between two packets.
    pub every: Duration,
    /// Length of each phase.
    pub length: Duration,
    /// Ways to load; none for idle only.
    pub loads: Vec<Direction>,
    /// Rate of the load; none to search for the capacity and go above it.
    pub load_rate: Option<Rate>,
    /// Length of a search.
    pub search_length: Duration,
    /// A search goes no higher.
    pub rate_max: Rate,
    /// Bytes of each IP packet of the load.
    pub packet: u16,
}

/// One way's delay less its least.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Way {
    /// Up: from the client to the server.
    pub up: Option<DelayFigures>,
    /// Down.
    pub down: Option<DelayFigures>,
}

/// Round trips under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Phase {
    /// `idle`, `down` or `up`.
    pub load: &'static str,
    /// Rate of the load, IP packets; none of idle.
    pub load_mbps: Option<f64>,
    /// Rate of the load that arrived, Mbit/s.
    pub load_received_mbps: Option<f64>,
    /// Packets sent.
    pub sent: u32,
    /// Packets that came back, each once.
    pub returned: u32,
    /// Answers that came again.
    pub repeated: u32,
    /// Those that did not, per cent.
    pub loss_percent: Option<f64>,
    /// Round trips.
    pub rtt: Option<DelayFigures>,
    /// 60 s over the mean round trip.
    pub round_trips_per_minute: Option<f64>,
    /// One-way delay variation, without the clocks' drift.
    pub variation: Way,
    /// Pauses of 200 ms and more in which nothing came back.
    pub outages: Vec<Outage>,
    /// Width of the bins of `median_ms`.
    pub bin_ms: u64,
    /// Median round trip over time, by departure.
    pub median_ms: Vec<Option<f64>>,
    /// All round trips in the order of departure: s after the first, ms.
    pub samples: Vec<(f64, f64)>,
    /// Round trips to the local peer in the same time; none without one.
    pub local: Option<LocalFigures>,
    /// Times the client's address changed before the end of the phase.
    pub address_moves: u16,
    /// Reasons why the result is not what it seems.
    pub doubts: Vec<String>,
}

impl Phase {
    /// True where less of the load came than was sent: it was more than the path carries, and filled its queue.
    pub(crate) fn is_filled(&self) -> bool {
        self.load_mbps.zip(self.load_received_mbps).is_some_and(|(sent, came)| came < sent * FILLED_SHARE)
    }
}

/// Result of `rtt`.
pub type RttDocument = Document<RttFigures>;

/// Figures of `rtt`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RttFigures {
    /// A server on the local network that was pinged beside; none without one.
    pub local_peer: Option<Peer>,
    /// Between two packets.
    pub every_ms: f64,
    /// The server's clock against the client's; none without round trips.
    pub clock: Option<ClockEstimate>,
    /// Idle first.
    pub phases: Vec<Phase>,
}

struct Measured {
    load: &'static str,
    load_rate: Option<Rate>,
    load_log: Option<RunLog>,
    log: RunLog,
}

/// Goes through `plan`. What was measured is in the document, whatever happens.
///
/// # Errors
/// Of the system only.
pub fn rtt(
    session: &mut Session<'_>,
    plan: &RttPlan,
    made_by: Maker,
    watcher: &mut dyn Watcher,
) -> Result<Outcome<RttFigures>, IoError> {
    rtt_beside(session, plan, None, made_by, watcher)
}

/// The same, with a server on the local network that is pinged all the time.
///
/// # Errors
/// Of the system only.
pub fn rtt_beside(
    session: &mut Session<'_>,
    plan: &RttPlan,
    local: Option<LocalPeer<'_>>,
    made_by: Maker,
    watcher: &mut dyn Watcher,
) -> Result<Outcome<RttFigures>, IoError> {
    let mut measured = Vec::new();
    watcher.say("idle");
    let (mut logs, mut failure) = session.run(&[session.echo_spec(plan.every, plan.length)], watcher)?;
    if let Some(log) = logs.pop().flatten() {
        measured.push(Measured { load: "idle", load_rate: None, load_log: None, log });
    }
    for direction in &plan.loads {
        if failure.is_some() {
            break;
        }
        let (rate, failed) = load_rate(session, *direction, plan, watcher)?;
        failure = failed;
        let Some(rate) = rate.filter(|_| failure.is_none()) else { continue };
        session.rest(PAUSE)?;
        watcher.say(&format!("loaded {} with {rate}", direction.name()));
        let load = session.load_spec(*direction, Pattern::Steady, rate, plan.packet, plan.length);
        let (logs, failed) = session.run(&[load, session.echo_spec(plan.every, plan.length)], watcher)?;
        failure = failed;
        let mut logs = logs.into_iter();
        let load_log = logs.next().flatten();
        if let Some(log) = logs.next().flatten() {
            measured.push(Measured { load: direction.name(), load_rate: Some(rate), load_log, log });
        }
        session.rest(PAUSE)?;
    }
    let echoes: Vec<EchoSample> = measured.iter().flat_map(|m| m.log.echoes.iter().copied()).collect();
    let clock = ClockEstimate::of(&echoes);
    let local = local.map(LocalPeer::end);
    let figures = RttFigures {
        local_peer: local.as_ref().map(|local| local.peer.clone()),
        every_ms: plan.every.as_millis_f64(),
        clock,
        phases: measured.iter().map(|m| phase(m, clock.as_ref(), local.as_ref())).collect(),
    };
    Ok(Document::of(made_by, session.peer(), figures, failure))
}

/// The rate that fills the queue of one way.
pub(crate) fn load_rate(
    session: &mut Session<'_>,
    direction: Direction,
    plan: &RttPlan,
    watcher: &mut dyn Watcher,
) -> Result<(Option<Rate>, Option<MeasureError>), IoError> {
    if plan.load_rate.is_some() {
        return Ok((plan.load_rate, None));
    }
    watcher.say(&format!("{}: looking for the capacity", direction.name()));
    let rate_max = session.limits().map_or(plan.rate_max, |limits| plan.rate_max.min(limits.rate_max));
    let spec = session.load_spec(direction, Pattern::Search, rate_max, plan.packet, plan.search_length);
    let (mut logs, mut failure) = session.run(&[spec], watcher)?;
    let log = logs.pop().flatten();
    if failure.is_none() && log.as_ref().is_some_and(is_blocked) {
        failure = Some(MeasureError::LongPackets { packet: plan.packet });
    }
    let best = log.and_then(|log| RunFigures::of(&log, &[], None).best_second_mbps);
    let rate = best.map(|best| Rate::from_bps((best * 1e6) as u64 * OVERLOAD / 100).min(rate_max));
    Ok((rate, failure))
}

fn phase(measured: &Measured, clock: Option<&ClockEstimate>, local: Option<&LocalLog>) -> Phase {
    let log = &measured.log;
    let figures = RunFigures::of(log, &[], clock);
    let load = measured.load_log.as_ref().map(|log| RunFigures::of(log, &[], clock));
    let (sent, returned) = (log.departures.len() as u32, log.echoes.len() as u32);
    let begin = log.departures.iter().flatten().next().copied();
    let end = log.departures.iter().flatten().last().copied();
    let samples: Vec<(f64, f64)> = log
        .echoes
        .iter()
        .filter_map(|echo| {
            let at = echo.sent.saturating_since(begin?).as_secs_f64();
            Some((at, echo.round_trip().as_millis_f64()))
        })
        .collect();
    let mut sorted = samples;
    sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let rtt = delay_figures(sorted.iter().map(|sample| sample.1).collect());
    let mut doubts: Vec<String> = figures.doubts.iter().map(ToString::to_string).collect();
    if let Some(load) = &load {
        doubts.extend(load.doubts.iter().map(|doubt| format!("load: {doubt}")));
    }
    Phase {
        load: measured.load,
        load_mbps: measured.load_rate.map(Rate::as_mbps_f64),
        load_received_mbps: load.as_ref().and_then(|load| load.received_mbps),
        sent,
        returned,
        repeated: log.repeated_echoes,
        loss_percent: (sent > 0).then(|| f64::from(sent.saturating_sub(returned)) * 100.0 / f64::from(sent)),
        rtt,
        round_trips_per_minute: rtt.filter(|rtt| rtt.mean_ms > 0.0).map(|rtt| 60_000.0 / rtt.mean_ms),
        variation: ways(&log.echoes, clock),
        outages: outages(log),
        bin_ms: BIN.as_millis(),
        median_ms: medians(&sorted),
        samples: sorted,
        local: local.zip(begin.zip(end)).and_then(|(local, (begin, end))| local.between(begin, end)),
        address_moves: figures.address_moves,
        doubts,
    }
}

/// Delay each way less its least; the drift of the server's clock is taken out of both.
fn ways(echoes: &[EchoSample], clock: Option<&ClockEstimate>) -> Way {
    let drift = clock.map_or(0.0, |clock| clock.drift_ppm / 1e6);
    let Some(first) = echoes.first() else { return Way { up: None, down: None } };
    let signed = |a: u64, b: u64| a.cast_signed().wrapping_sub(b.cast_signed());
    let base = signed(first.received.as_nanos(), first.sent.as_nanos());
    let of = |delay: &dyn Fn(&EchoSample) -> f64| {
        let delays: Vec<f64> = echoes.iter().map(delay).collect();
        let least = delays.iter().copied().fold(f64::INFINITY, f64::min);
        delay_figures(delays.into_iter().map(|delay| delay - least).collect())
    };
    let since = |echo: &EchoSample| signed(echo.sent.as_nanos(), first.sent.as_nanos()) as f64;
    let up = of(&|echo| {
        ((signed(echo.received.as_nanos(), echo.sent.as_nanos()) - base) as f64 - drift * since(echo)) / 1e6
    });
    let down = of(&|echo| {
        ((signed(echo.returned.as_nanos(), echo.echoed.as_nanos()) + base) as f64 + drift * since(echo)) / 1e6
    });
    Way { up, down }
}

fn medians(samples: &[(f64, f64)]) -> Vec<Option<f64>> {
    let mut bins: Vec<Vec<f64>> = Vec::new();
    for (at, rtt) in samples {
        let bin = (at / BIN.as_secs_f64()) as usize;
        if bins.len() <= bin {
            bins.resize(bin + 1, Vec::new());
        }
        if let Some(bin) = bins.get_mut(bin) {
            bin.push(*rtt);
        }
    }
    let median = |mut bin: Vec<f64>| {
        bin.sort_unstable_by(f64::total_cmp);
        figures::stats::median(&bin)
    };
    bins.into_iter().map(median).collect()
}

pub(crate) fn verdict(document: &RttDocument) -> String {
    let of = |load: &str| document.phases.iter().find(|phase| phase.load == load);
    let mut text = match of("idle").and_then(|idle| idle.rtt) {
        Some(rtt) => format!("Idle, an answer takes {}", time(rtt.p50_ms)),
        None if document.phases.is_empty() => "Nothing was measured".to_owned(),
        None => "Nothing came back".to_owned(),
    };
    for (load, doing) in [("down", "downloading"), ("up", "uploading")] {
        if let Some((rtt, phase)) = of(load).and_then(|phase| phase.rtt.map(|rtt| (rtt, phase))) {
            let per_minute = phase.round_trips_per_minute.unwrap_or(0.0);
            text += &format!("; while {doing}, {} ({per_minute:.0} round trips a minute)", time(rtt.p50_ms));
        }
    }
    let idle = of("idle").and_then(|idle| idle.rtt).map_or(0.0, |rtt| rtt.p50_ms);
    let loaded = || document.phases.iter().filter(|phase| phase.load != "idle");
    let is_filled = loaded().any(Phase::is_filled);
    if let Some(worst) = loaded().filter_map(|phase| phase.rtt).map(|rtt| rtt.p50_ms).max_by(f64::total_cmp) {
        text += match worst - idle {
            extra if extra < 30.0 && !is_filled => {
                ". The load was no more than the path carries, so what a full queue does was not seen"
            }
            extra if extra < 30.0 => ". Load does not disturb calls and games",
            extra if extra < 200.0 => ". Calls and games suffer somewhat under load",
            _ => ". Calls and games are unusable while the link is busy: its buffer is too deep",
        };
    }
    text += &of_local(&document.phases);
    text += &moved(document.phases.iter().map(|phase| phase.address_moves).max().unwrap_or(0));
    if let Some(text_of) = of_outages(&document.phases) {
        text += &text_of;
    }
    if let Some(why) = &document.incomplete {
        text += &format!(". Not complete: {why}");
    }
    text + "."
}

/// Conclusion from a local peer about the source of the delay.
fn of_local(phases: &[Phase]) -> String {
    /// Of what a load adds: from here on it is (nearly) all.
    const MOST: f64 = 0.7;
    let of = |phase: &Phase| Some((phase.rtt?.p50_ms, phase.local.as_ref()?.rtt?.p50_ms));
    let Some((idle, idle_local)) = phases.iter().find(|phase| phase.load == "idle").and_then(of) else {
        return String::new();
    };
    let mut text = format!(". Of the idle {}, {} are of the local network", time(idle), time(idle_local));
    let added = |phase: &Phase| of(phase).map(|(whole, local)| (whole - idle, local - idle_local));
    let worst = phases.iter().filter(|phase| phase.load != "idle").filter_map(added);
    if let Some((whole, local)) = worst.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(whole, _)| *whole >= 10.0)
    {
        let share = local / whole;
        text += &format!(", and of the {} that load adds, {}", time(whole), time(local.max(0.0)));
        text += match share {
            share if share >= MOST => ": packets wait in the local network (Wi-Fi), not at the operator",
            share if share <= 1.0 - MOST => ": packets wait beyond the local network, at the operator",
            _ => ": packets wait both in the local network and beyond it",
        };
    }
    text
}

fn of_outages(phases: &[Phase]) -> Option<String> {
    let idle = phases.iter().find(|phase| phase.load == "idle")?;
    let longest = idle.outages.iter().map(|outage| outage.seconds).max_by(f64::total_cmp)?;
    let count = idle.outages.len();
    Some(format!(". Idle, the path was interrupted {count} times, for up to {}", time(longest * 1e3)))
}
