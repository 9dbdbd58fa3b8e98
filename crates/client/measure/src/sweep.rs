//! [`sweep`]: what a path does to UDP at several rates, up and down ([MA] Tables 1 and 4).
//!
//! Beside each run small packets go up and come back, which measure the round trip under that load.

use io::IoError;
use probe::{ClockEstimate, Direction, Doubt, EchoSample, Pattern, RunFigures, RunLog, RunSpec};
use serde::Serialize;
use units::{Duration, Rate};

use crate::document::{Document, Measured as Outcome};
use crate::error::MeasureError;
use crate::longest_packet::{self, longest_packet};
use crate::maker::Maker;
use crate::overload::{KNEE_DELAY_MS, Overload};
use crate::session::{Session, Watcher};
use crate::verdict::{digits, moved, time, told, way};

/// Name and version of the document; its schema is `schemas/probe-sweep.schema.json`.
pub const SCHEMA: &str = "cellerator/probe-sweep/1";

/// Between two of the small packets.
const ECHO_EVERY: Duration = Duration::from_millis(20);
/// Rates of a sweep that was given none, per cent of the capacity found.
const SHARES: [u64; 8] = [20, 40, 60, 80, 90, 100, 120, 150];
/// Let the queue of one run be empty before the next.
const PAUSE: Duration = Duration::from_millis(300);
/// Most repetitions of a run that the ends themselves spoiled.
const AGAIN_MAX: u8 = 2;
/// Losses below this are not spoken of, per cent.
const LOSS_TOLD: f64 = 0.1;

/// Plan of the measurement.
#[derive(Clone, Debug)]
pub struct SweepPlan {
    /// Directions, in this order.
    pub directions: Vec<Direction>,
    /// Rates of IP packets; none to search for the capacity and go through shares of it.
    pub rates: Vec<Rate>,
    /// Length of each run.
    pub length: Duration,
    /// Length of a search.
    pub search_length: Duration,
    /// A search goes no higher.
    pub rate_max: Rate,
    /// Bytes of each IP packet.
    pub packet: u16,
}

/// A run of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepStep {
    /// Figures of the run.
    #[serde(flatten)]
    pub figures: RunFigures,
    /// Small packets that measured the round trip: sent.
    pub echoes_sent: u32,
    /// The same: came back.
    pub echoes_returned: u32,
}

/// The most that the path carried.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capacity {
    /// RFC 9097: the best whole second of all valid runs, IP packets.
    pub mbps: f64,
    /// True when it was a search that found it.
    pub is_search: bool,
    /// True when the path carried all that was sent, but for what it loses at every rate: it may carry more.
    pub is_least: bool,
    /// Lost in that run.
    pub loss_percent: Option<f64>,
    /// 95th percentile of the one-way delay variation in that run.
    pub delay_variation_p95_ms: Option<f64>,
}

/// One way.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectionFigures {
    /// `up` or `down`.
    pub direction: &'static str,
    /// The most it carried; none without a valid run of a second.
    pub capacity: Option<Capacity>,
    /// The largest rate with little delay, and with little loss besides `random_loss_percent`; none when there was
    /// none.
    pub knee_mbps: Option<f64>,
    /// Packets that are lost at every rate while nothing waits, per cent; zero of a path that loses none so.
    pub random_loss_percent: f64,
    /// Longest IP packet that came through, bytes, where those of the runs did not; none where they did.
    pub longest_packet_bytes: Option<u16>,
    /// The search, if there was one.
    pub search: Option<SweepStep>,
    /// By rising rate.
    pub steps: Vec<SweepStep>,
    /// Runs that the ends themselves spoiled, and that were made again: a sender that was kept from its processor, a
    /// receiver without room. By rising rate.
    pub spoiled: Vec<SweepStep>,
}

/// Result of a sweep.
pub type SweepDocument = Document<SweepFigures>;

/// Figures of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepFigures {
    /// The server's clock against the client's; none without round trips.
    pub clock: Option<ClockEstimate>,
    /// The ways that were measured.
    pub directions: Vec<DirectionFigures>,
}

/// A run with the round trips beside it.
#[derive(Debug)]
struct Measured {
    log: RunLog,
    beside: Option<RunLog>,
}

impl Measured {
    fn echoes(&self) -> &[EchoSample] {
        self.beside.as_ref().map_or(&[], |log| &log.echoes)
    }

    fn step(&self, clock: Option<&ClockEstimate>) -> SweepStep {
        let sent = self.beside.as_ref().map_or(0, |log| log.departures.len() as u32);
        SweepStep {
            figures: RunFigures::of(&self.log, self.echoes(), clock),
            echoes_sent: sent,
            echoes_returned: self.echoes().len() as u32,
        }
    }
}

/// Results of one direction.
#[derive(Debug)]
struct MeasuredWay {
    direction: Direction,
    search: Option<Measured>,
    steps: Vec<Measured>,
    spoiled: Vec<Measured>,
    longest_packet: Option<u16>,
}

/// Goes through `plan`. What was measured is in the document, whatever happens.
///
/// # Errors
/// Of the system only.
pub fn sweep(
    session: &mut Session<'_>,
    plan: &SweepPlan,
    made_by: Maker,
    watcher: &mut dyn Watcher,
) -> Result<Outcome<SweepFigures>, IoError> {
    let mut ways: Vec<MeasuredWay> = Vec::new();
    let mut failure = None;
    let rate_max = session.limits().map_or(plan.rate_max, |limits| plan.rate_max.min(limits.rate_max));
    for direction in &plan.directions {
        let (mut search, mut steps, mut spoiled) = (None, Vec::new(), Vec::new());
        let mut rates = plan.rates.clone();
        if rates.is_empty() {
            watcher.say(&format!("{}: looking for the capacity", direction.name()));
            let spec =
                session.load_spec(*direction, Pattern::Search, rate_max, plan.packet, plan.search_length);
            let (measured, failed) = one(session, spec, watcher)?;
            failure = failed;
            let best = measured.as_ref().and_then(|m| RunFigures::of(&m.log, &[], None).best_second_mbps);
            if let Some(best) = best {
                watcher.say(&format!("{}: about {best:.1} Mbit/s", direction.name()));
                let bps = (best * 1e6) as u64;
                rates = SHARES.iter().map(|share| Rate::from_bps(bps * share / 100).min(rate_max)).collect();
                rates.dedup();
            }
            search = measured;
        }
        rates.sort_unstable();
        for rate in rates {
            if failure.is_some() {
                break;
            }
            watcher.say(&format!("{} at {rate}", direction.name()));
            let spec = session.load_spec(*direction, Pattern::Steady, rate, plan.packet, plan.length);
            let (measured, failed) = unspoiled(session, spec, &mut spoiled, watcher)?;
            failure = failed;
            steps.extend(measured);
        }
        let mut longest = None;
        // Small packets came through all the while.
        let is_blocked =
            |measured: &Measured| !measured.echoes().is_empty() && longest_packet::is_blocked(&measured.log);
        let has_runs = search.is_some() || !steps.is_empty();
        if failure.is_none() && has_runs && search.iter().chain(&steps).all(is_blocked) {
            (longest, failure) = longest_packet(session, *direction, plan.packet, watcher)?;
        }
        ways.push(MeasuredWay { direction: *direction, search, steps, spoiled, longest_packet: longest });
        if failure.is_some() {
            break;
        }
    }
    Ok(Document::of(made_by, session.peer(), figures(&ways), failure))
}

/// One run, and again where the ends themselves spoiled it: those are `spoiled`.
fn unspoiled(
    session: &mut Session<'_>,
    spec: RunSpec,
    spoiled: &mut Vec<Measured>,
    watcher: &mut dyn Watcher,
) -> Result<(Option<Measured>, Option<MeasureError>), IoError> {
    for _ in 0..AGAIN_MAX {
        let (measured, failure) = one(session, spec, watcher)?;
        session.rest(PAUSE)?;
        let figures = measured.as_ref().map(|measured| RunFigures::of(&measured.log, &[], None));
        let why = figures.and_then(|figures| figures.doubts.into_iter().find(Doubt::is_of_the_ends));
        let (Some(why), None) = (why, &failure) else { return Ok((measured, failure)) };
        watcher.say(&format!("again, because {why}"));
        spoiled.extend(measured);
    }
    let last = one(session, spec, watcher)?;
    session.rest(PAUSE)?;
    Ok(last)
}

/// One run with its round trips.
fn one(
    session: &mut Session<'_>,
    spec: RunSpec,
    watcher: &mut dyn Watcher,
) -> Result<(Option<Measured>, Option<MeasureError>), IoError> {
    let echo = session.echo_spec(ECHO_EVERY, spec.length);
    let (logs, failure) = session.run(&[spec, echo], watcher)?;
    let mut logs = logs.into_iter();
    let log = logs.next().flatten();
    let beside = logs.next().flatten();
    // Of a run that never began there is nothing to tell.
    let log =
        log.filter(|log| !log.departures.is_empty() || !log.arrivals.is_empty() || log.summary.sent > 0);
    Ok((log.map(|log| Measured { log, beside }), failure))
}

fn figures(ways: &[MeasuredWay]) -> SweepFigures {
    let all = ways.iter().flat_map(|way| way.search.iter().chain(&way.steps));
    let echoes: Vec<EchoSample> = all.flat_map(|measured| measured.echoes().iter().copied()).collect();
    let clock = ClockEstimate::of(&echoes);
    let directions = ways
        .iter()
        .map(|MeasuredWay { direction, search, steps, spoiled, longest_packet }| {
            let search = search.as_ref().map(|measured| measured.step(clock.as_ref()));
            let steps: Vec<SweepStep> = steps.iter().map(|measured| measured.step(clock.as_ref())).collect();
            let valid = steps.iter().filter(|step| step.figures.is_valid);
            let overload = Overload::of(valid.map(|step| &step.figures));
            DirectionFigures {
                direction: direction.name(),
                capacity: capacity(search.iter().chain(&steps), steps.last(), overload),
                knee_mbps: knee(&steps, overload),
                random_loss_percent: overload.random_percent,
                longest_packet_bytes: *longest_packet,
                search,
                steps,
                spoiled: spoiled.iter().map(|measured| measured.step(clock.as_ref())).collect(),
            }
        })
        .collect();
    SweepFigures { clock, directions }
}

/// Of the best of `steps`; `top` is the one at the highest rate.
fn capacity<'a>(
    steps: impl Iterator<Item = &'a SweepStep>,
    top: Option<&SweepStep>,
    overload: Overload,
) -> Option<Capacity> {
    let valid = steps.map(|step| &step.figures).filter(|figures| figures.is_valid);
    let best = valid.max_by(|a, b| {
        let of = |figures: &RunFigures| figures.best_second_mbps.unwrap_or(0.0);
        of(a).total_cmp(&of(b))
    })?;
    Some(Capacity {
        mbps: best.best_second_mbps?,
        is_search: best.is_search,
        is_least: top.is_some_and(|top| !overload.is_in(&top.figures)),
        loss_percent: best.loss_percent,
        delay_variation_p95_ms: best.delay_variation.map(|delay| delay.p95_ms),
    })
}

/// The largest rate up to which every one had little delay and loss.
fn knee(steps: &[SweepStep], overload: Overload) -> Option<f64> {
    let is_good = |step: &&SweepStep| {
        let figures = &step.figures;
        let is_known = figures.delay_variation.is_some() && figures.loss_percent.is_some();
        is_known && !overload.is_in(figures)
    };
    steps.iter().take_while(is_good).last().and_then(|step| step.figures.offered_mbps)
}

pub(crate) fn verdict(document: &SweepDocument) -> String {
    let sentences: Vec<String> = document.directions.iter().map(of_direction).collect();
    told(&sentences.concat(), document.incomplete.as_deref(), ["Nothing was measured", ""])
}

fn of_direction(figures: &DirectionFigures) -> String {
    let way = way(figures.direction);
    if let Some(longest) = figures.longest_packet_bytes {
        let packet = figures.search.iter().chain(&figures.steps).map(|step| step.figures.packet_bytes).max();
        return format!(
            "{way}: packets of {} bytes do not come through, and those of up to {longest} do: that is the path's MTU \
             (try --packet {longest}). ",
            packet.unwrap_or(0)
        );
    }
    let Some(capacity) = &figures.capacity else {
        let doubted = figures.steps.iter().chain(&figures.search).any(|step| !step.figures.is_valid);
        let why = if doubted { "no run can be trusted" } else { "no run lasted a second" };
        return format!("{way}: {why}. ");
    };
    let least = if capacity.is_least { "at least " } else { "" };
    let mut text = format!("{way}: the path carries {least}{} Mbit/s", digits(capacity.mbps));
    let first = figures.steps.first().map(|step| &step.figures);
    let worst = figures.steps.last().map(|step| &step.figures).filter(|_| !capacity.is_least);
    match (figures.knee_mbps, worst, first) {
        (Some(knee), Some(worst), _) => text += &above(knee, worst, figures.random_loss_percent),
        (None, Some(_), Some(first)) => {
            text += &format!("; already at {} Mbit/s packets wait or are lost", digits(first.rate_mbps));
        }
        _ => {}
    }
    if figures.random_loss_percent >= LOSS_TOLD {
        let most = first.and_then(|first| first.burst_lengths.keys().last().copied()).unwrap_or(0);
        text += &format!(
            ". {} % of the packets are lost at random, at whatever rate, up to {most} in a row",
            digits(figures.random_loss_percent)
        );
    }
    let moves = figures.search.iter().chain(&figures.steps).map(|step| step.figures.address_moves).max();
    text += &moved(moves.unwrap_or(0));
    let doubtful = figures.steps.iter().filter(|step| !step.figures.is_valid).count();
    if doubtful > 0 {
        text += &format!(". {doubtful} of {} runs cannot be trusted", figures.steps.len());
    }
    text + ". "
}

/// Effect on packets at rates above the knee.
fn above(knee: f64, worst: &RunFigures, random_percent: f64) -> String {
    let mut text = format!("; above {} Mbit/s packets", digits(knee));
    let delay = worst.delay_variation.map_or(0.0, |delay| delay.p95_ms);
    let waits = format!(" wait, for {} at {} Mbit/s", time(delay), digits(worst.rate_mbps));
    let lost = (worst.loss_percent.unwrap_or(0.0) - random_percent).max(0.0);
    text += &match (delay >= KNEE_DELAY_MS, lost >= LOSS_TOLD) {
        (true, true) => format!("{waits}, and {} % of them are lost", digits(lost)),
        (true, false) => format!("{waits}, and none is lost"),
        (false, true) => format!(" are lost: {} % at {} Mbit/s", digits(lost), digits(worst.rate_mbps)),
        (false, false) => format!(
            " wait or are lost at some rates, and not at {} Mbit/s: what the path carries changes",
            digits(worst.rate_mbps)
        ),
    };
    text
}
