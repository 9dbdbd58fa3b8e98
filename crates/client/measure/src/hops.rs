//! [`hops`]: round trips to each router on the way, idle and under load ([DR]'s traceroute experiment).
//!
//! Pings that live for 1, 2, 3 … hops: the router at which one runs out says so by ICMP. The delay that
//! load adds is small up to the queue that fills, and large from there on. A router may be slow to
//! answer and still fast to forward, so only a delay that all later hops have too counts.

use std::net::IpAddr;

use io::IoError;
use probe::{DelayFigures, Direction, Pattern, RunFigures, RunLog};
use serde::Serialize;
use units::{Duration, Instant, Rate};

use crate::document::{Document, Measured};
use crate::error::MeasureError;
use crate::maker::Maker;
use crate::pinger::{Pinger, Row, RowLog};
use crate::rtt::{RttPlan, load_rate};
use crate::session::{Beside, Session, Watcher};
use crate::verdict::{time, told};

/// Name and version of the document; its schema is `schemas/probe-hops.schema.json`.
pub const SCHEMA: &str = "cellerator/probe-hops/1";

/// Pings for each hop while the way is looked for, and how far apart.
const SEARCH_PINGS: usize = 3;
const SEARCH_EVERY: Duration = Duration::from_millis(400);
/// Time to wait for their answers.
const SEARCH_LENGTH: Duration = Duration::from_millis(2_500);
/// Between two packets that measure the whole way.
const ECHO_EVERY: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_secs(1);
/// Number of parts of a loaded phase, of which the first does not count.
const FILLS: u64 = 3;
/// Less than this is no queue, ms.
const GROWTH_MIN_MS: f64 = 5.0;
/// The queue is where this share of the whole growth has come.
const GROWTH_SHARE: f64 = 0.5;

/// Plan of the measurement.
#[derive(Clone, Debug)]
pub struct HopsPlan {
    /// Length and load of each phase, as `rtt` has them; `every` is that of the pings of one hop.
    pub rtt: RttPlan,
    /// Longest way that is looked for.
    pub hops_max: u8,
}

/// One hop under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HopPhase {
    /// 1 is the first router.
    pub hop: u8,
    /// Pings sent.
    pub sent: usize,
    /// Answered.
    pub answered: usize,
    /// Round trips; none where nothing was answered.
    pub rtt: Option<DelayFigures>,
}

/// Place at which the queue grows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Growth {
    /// The last hop before it that answers; 0 is this machine.
    pub after_hop: u8,
    /// The first hop behind it.
    pub hop: u8,
    /// Its address; none of the server, which is the last hop.
    pub address: Option<String>,
    /// Round-trip time that the load adds there: difference of the medians, ms.
    pub ms: f64,
    /// The same of the whole way.
    pub whole_ms: f64,
}

/// All hops under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HopsPhase {
    /// `idle`, `down` or `up`.
    pub load: &'static str,
    /// Rate of the load, IP packets; none of idle.
    pub load_mbps: Option<f64>,
    /// Rate of the load that arrived, Mbit/s.
    pub load_received_mbps: Option<f64>,
    /// Each hop; the last one is the server.
    pub hops: Vec<HopPhase>,
    /// Place at which the queue grows; none where it does not.
    pub growth: Option<Growth>,
    /// Reasons why the result is not what it seems.
    pub doubts: Vec<String>,
}

/// A router on the way.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hop {
    /// 1 is the first.
    pub hop: u8,
    /// Addresses that answered; none where nobody did, several where the way divides.
    pub addresses: Vec<String>,
    /// True of the server.
    pub is_server: bool,
}

/// Result of the measurement.
pub type HopsDocument = Document<HopsFigures>;

/// Figures of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HopsFigures {
    /// True where no router answers: ICMP is filtered on the way.
    pub is_filtered: bool,
    /// The way.
    pub hops: Vec<Hop>,
    /// Idle first.
    pub phases: Vec<HopsPhase>,
}

/// Rows of pings while a session's runs go.
struct Task<'a> {
    session: &'a (std::net::SocketAddr, probe::SessionId),
    rows: Vec<Row>,
    pinger: Option<Result<Pinger, IoError>>,
}

impl Beside for Task<'_> {
    fn begin(&mut self) {
        let (to, id) = *self.session;
        self.pinger = Some(Pinger::start(to, id, &self.rows));
    }

    fn is_over(&self) -> bool {
        false
    }
}

/// Goes through `plan`. What was measured is in the document, whatever happens.
///
/// # Errors
/// Of the system only.
pub fn hops(
    session: &mut Session<'_>,
    plan: &HopsPlan,
    made_by: Maker,
    watcher: &mut dyn Watcher,
) -> Result<Measured<HopsFigures>, IoError> {
    let mut figures = HopsFigures::default();
    watcher.say("looking for the routers on the way");
    let mut failure = None;
    if let Some(id) = session.id() {
        figures.hops = way(session, id, plan.hops_max)?;
    }
    let mut routers = figures.hops.iter().filter(|hop| !hop.is_server);
    figures.is_filtered = figures.hops.len() > 1 && routers.all(|hop| hop.addresses.is_empty());
    if session.is_stopped() {
        failure = Some(MeasureError::Interrupted);
    } else if figures.hops.is_empty() {
        let why = format!(
            "its pings come back from no hop up to {}: the path drops what is few hops long, or the way is longer",
            plan.hops_max
        );
        failure = Some(MeasureError::Refused { server: session.name(), why });
    }
    for load in [None].into_iter().chain(plan.rtt.loads.iter().copied().map(Some)) {
        if failure.is_some() {
            break;
        }
        failure = phase(session, plan, load, &mut figures, watcher)?;
    }
    Ok(Document::of(made_by, session.peer(), figures, failure))
}

/// The way to the server, hop by hop; empty where the server was not reached.
fn way(session: &mut Session<'_>, id: probe::SessionId, hops_max: u8) -> Result<Vec<Hop>, IoError> {
    let row = |hops: u8| Row {
        hops,
        every: SEARCH_EVERY,
        // Not all at once: routers limit their answers per second.
        first: Duration::from_millis(10) * u64::from(hops),
        count: Some(SEARCH_PINGS),
    };
    let rows: Vec<Row> = (1..=hops_max).map(row).collect();
    let pinger = Pinger::start(session.server(), id, &rows)?;
    session.rest(SEARCH_LENGTH)?;
    let logs = pinger.end();
    let Some(last) = logs.iter().position(|log| log.reached > 0) else { return Ok(Vec::new()) };
    let hop = |(hop, log): (u8, &RowLog)| Hop {
        hop,
        addresses: log.routers.keys().map(IpAddr::to_string).collect(),
        is_server: usize::from(hop) == last + 1,
    };
    Ok((1..).zip(&logs).take(last + 1).map(hop).collect())
}

fn phase(
    session: &mut Session<'_>,
    plan: &HopsPlan,
    load: Option<Direction>,
    figures: &mut HopsFigures,
    watcher: &mut dyn Watcher,
) -> Result<Option<MeasureError>, IoError> {
    let rate = match load {
        None => None,
        Some(direction) => {
            let (rate, failure) = load_rate(session, direction, &plan.rtt, watcher)?;
            if failure.is_some() || rate.is_none() {
                return Ok(failure);
            }
            session.rest(PAUSE)?;
            rate
        }
    };
    let name = load.map_or("idle", Direction::name);
    watcher.say(&match rate {
        Some(rate) => format!("{} hops, loaded {name} with {rate}", figures.hops.len()),
        None => format!("{} hops, idle", figures.hops.len()),
    });
    let count = figures.hops.len().max(1) as u64;
    let rows = figures.hops.iter().zip(0_u64..).map(|(hop, place)| Row {
        hops: hop.hop,
        every: plan.rtt.every,
        first: plan.rtt.every * place / count,
        count: None,
    });
    let Some(id) = session.id() else { return Ok(None) };
    let target = (session.server(), id);
    let mut task = Task { session: &target, rows: rows.collect(), pinger: None };
    let echo = session.echo_spec(ECHO_EVERY, plan.rtt.length);
    let specs: Vec<_> = load
        .zip(rate)
        .map(|(way, rate)| session.load_spec(way, Pattern::Steady, rate, plan.rtt.packet, plan.rtt.length))
        .into_iter()
        .chain([echo])
        .collect();
    let (logs, failure) = session.run_beside(&specs, watcher, &mut task)?;
    let rows = task.pinger.transpose()?.map(Pinger::end).unwrap_or_default();
    let times: Vec<Instant> = logs
        .last()
        .and_then(Option::as_ref)
        .into_iter()
        .flat_map(|log| &log.departures)
        .flatten()
        .copied()
        .collect();
    let load_log = logs.into_iter().next().flatten().filter(|_| load.is_some());
    add_addresses(figures, &rows);
    // A queue takes a while to fill.
    let fills = if load.is_some() { plan.rtt.length / FILLS } else { Duration::ZERO };
    let span = times.first().zip(times.last()).map(|(begin, end)| (*begin + fills, *end));
    let measured = span.and_then(|span| measured(figures, (name, rate), load_log.as_ref(), &rows, span));
    figures.phases.extend(measured);
    session.rest(PAUSE)?;
    Ok(failure)
}

/// Routers that had not answered when the way was looked for.
fn add_addresses(figures: &mut HopsFigures, rows: &[RowLog]) {
    for (hop, log) in figures.hops.iter_mut().zip(rows) {
        for router in log.routers.keys().map(IpAddr::to_string) {
            if !hop.addresses.contains(&router) {
                hop.addresses.push(router);
            }
        }
    }
}

fn measured(
    so_far: &HopsFigures,
    (load, rate): (&'static str, Option<Rate>),
    load_log: Option<&RunLog>,
    rows: &[RowLog],
    (begin, end): (Instant, Instant),
) -> Option<HopsPhase> {
    let hop = |(hop, log): (&Hop, &RowLog)| {
        let (sent, answered, rtt) = log.between(begin, end);
        HopPhase { hop: hop.hop, sent, answered, rtt }
    };
    let hops: Vec<HopPhase> = so_far.hops.iter().zip(rows).map(hop).collect();
    if hops.is_empty() {
        return None;
    }
    let figures = load_log.map(|log| RunFigures::of(log, &[], None));
    let growth = so_far
        .phases
        .iter()
        .find(|phase| phase.load == "idle")
        .and_then(|idle| growth(&so_far.hops, &idle.hops, &hops));
    Some(HopsPhase {
        load,
        load_mbps: rate.map(Rate::as_mbps_f64),
        load_received_mbps: figures.as_ref().and_then(|figures| figures.received_mbps),
        hops,
        growth,
        doubts: figures
            .iter()
            .flat_map(|figures| &figures.doubts)
            .map(|doubt| format!("load: {doubt}"))
            .collect(),
    })
}

/// The first hop from which on all hops have most of what the load adds to the whole way.
fn growth(way: &[Hop], idle: &[HopPhase], loaded: &[HopPhase]) -> Option<Growth> {
    let added = |(idle, loaded): (&HopPhase, &HopPhase)| Some(loaded.rtt?.p50_ms - idle.rtt?.p50_ms);
    let added: Vec<Option<f64>> = idle.iter().zip(loaded).map(added).collect();
    let whole_ms = added.last().copied().flatten().filter(|ms| *ms >= GROWTH_MIN_MS)?;
    // From the last hop back: what all hops from here on have at least.
    let mut least = whole_ms;
    let mut found = added.len().checked_sub(1)?;
    for (at, ms) in added.iter().enumerate().rev().filter_map(|(at, ms)| Some((at, (*ms)?))) {
        least = least.min(ms);
        if least < whole_ms * GROWTH_SHARE {
            break;
        }
        found = at;
    }
    let hop = way.get(found)?;
    let before = added.iter().take(found).rposition(Option::is_some);
    Some(Growth {
        after_hop: before.and_then(|at| way.get(at)).map_or(0, |hop| hop.hop),
        hop: hop.hop,
        address: hop.addresses.first().cloned(),
        ms: added.get(found).copied().flatten()?,
        whole_ms,
    })
}

pub(crate) fn verdict(document: &HopsDocument) -> String {
    let mut text = match document.hops.len() {
        0 => String::new(),
        1 => "The server is the next hop. ".to_owned(),
        count => format!("The server is {count} hops away. "),
    };
    if document.is_filtered {
        text += "No router on the way answers: ICMP is filtered, so the place of the queue cannot be told. ";
    }
    for phase in document.phases.iter().filter(|phase| phase.load != "idle") {
        let doing = if phase.load == "up" { "uploading" } else { "downloading" };
        text += &match &phase.growth {
            Some(growth) => format!("While {doing}, {} ", of_growth(growth, phase.load)),
            None if is_known(document, phase) => format!("While {doing}, no queue grows. "),
            None => format!(
                "While {doing}, too few packets came back from the server to tell where they wait: try more --time. "
            ),
        };
    }
    told(&text, document.incomplete.as_deref(), ["Nothing was measured", ""])
}

/// True where the server answered without load and under this one.
fn is_known(document: &HopsDocument, phase: &HopsPhase) -> bool {
    let has_answers = |phase: &HopsPhase| phase.hops.last().is_some_and(|hop| hop.rtt.is_some());
    document.phases.iter().any(|phase| phase.load == "idle" && has_answers(phase)) && has_answers(phase)
}

/// The queue is in front of the slow link: on the way down in the router behind it.
fn of_growth(growth: &Growth, load: &str) -> String {
    let behind = match &growth.address {
        Some(address) => format!("hop {} ({address})", growth.hop),
        None => format!("hop {} (the server)", growth.hop),
    };
    let before = match growth.after_hop {
        0 => "this machine".to_owned(),
        hop => format!("hop {hop}"),
    };
    let is_next = growth.after_hop + 1 == growth.hop;
    let place = match (is_next, load) {
        (true, "up") => format!(": {before} has the queue"),
        (true, _) => format!(": {behind} has the queue"),
        (false, _) => " (the hops between do not answer)".to_owned(),
    };
    format!("packets wait {} more between {before} and {behind}{place}.", time(growth.ms))
}

#[cfg(test)]
mod tests {
    use probe::delay_figures;

    use super::*;

    fn phase(medians: &[Option<f64>]) -> Vec<HopPhase> {
        let of = |(hop, ms): (u8, &Option<f64>)| HopPhase {
            hop,
            sent: 10,
            answered: 10,
            rtt: ms.and_then(|ms| delay_figures(vec![ms])),
        };
        (1..).zip(medians).map(of).collect()
    }

    fn grown(idle: &[Option<f64>], loaded: &[Option<f64>]) -> Option<(u8, u8, f64)> {
        let count = idle.len() as u8;
        let way: Vec<Hop> = (1..=count)
            .map(|hop| Hop { hop, addresses: vec![format!("192.0.2.{hop}")], is_server: hop == count })
            .collect();
        let found = growth(&way, &phase(idle), &phase(loaded))?;
        assert_eq!(found.address.unwrap(), format!("192.0.2.{}", found.hop));
        Some((found.after_hop, found.hop, found.ms))
    }

    #[test]
    fn the_queue_is_where_the_delay_comes_that_all_later_hops_have() {
        let idle = [1.0, 2.0, 3.0, 4.0].map(Some);
        assert_eq!(grown(&idle, &[1.0, 2.5, 103.0, 104.0].map(Some)), Some((2, 3, 100.0)));
        assert_eq!(grown(&idle, &[101.0, 102.0, 103.0, 104.0].map(Some)), Some((0, 1, 100.0)));
        assert_eq!(grown(&idle, &[1.0, 2.0, 3.0, 104.0].map(Some)), Some((3, 4, 100.0)));
        // The second router is slow to answer under load, and what it forwards is not late.
        assert_eq!(grown(&idle, &[1.0, 90.0, 3.0, 104.0].map(Some)), Some((3, 4, 100.0)));
        assert_eq!(grown(&idle, &[1.0, 2.0, 5.0, 6.0].map(Some)), None, "no queue");
    }

    #[test]
    fn hops_that_do_not_answer_widen_the_place() {
        let idle = [Some(1.0), None, Some(3.0), Some(4.0)];
        let loaded = [Some(1.0), Some(60.0), Some(103.0), Some(104.0)];
        assert_eq!(grown(&idle, &loaded), Some((1, 3, 100.0)), "of the second the idle one is not known");
        let silent = [None, None, None, Some(4.0)];
        assert_eq!(grown(&silent, &[None, None, None, Some(104.0)]), Some((0, 4, 100.0)));
    }

    #[test]
    fn a_server_that_does_not_answer_under_load_is_no_sign_of_an_empty_queue() {
        let of = |load, medians: &[Option<f64>]| HopsPhase {
            load,
            load_mbps: None,
            load_received_mbps: None,
            hops: phase(medians),
            growth: None,
            doubts: Vec::new(),
        };
        let told = |loaded: &[Option<f64>]| {
            let phases = vec![of("idle", &[Some(1.0), Some(2.0)]), of("down", loaded)];
            verdict(&Document::made_up(HopsFigures { phases, ..HopsFigures::default() }))
        };
        assert_eq!(told(&[Some(1.0), Some(2.0)]), "While downloading, no queue grows.");
        let unknown = told(&[Some(4_000.0), None]);
        assert!(unknown.starts_with("While downloading, too few packets came back"), "{unknown}");
    }
}
