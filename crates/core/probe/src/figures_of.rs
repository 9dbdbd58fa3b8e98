//! [`RunFigures`]: what the log of a run says.

use std::collections::BTreeMap;

use figures::stats::{Moments, mean, percentile};
use serde::Serialize;
use units::{Duration, Instant};

use crate::clock::ClockEstimate;
use crate::log::{EchoSample, Ending, RunLog};
use crate::message::{Arrival, Direction, Pattern, TimerFigures};

/// Bins in which [MA] Figs 3 and 4 show goodput.
const BIN: Duration = Duration::from_millis(500);
/// RFC 9097 §5: the capacity is the best of such stretches.
const STRETCH: Duration = Duration::from_secs(1);
/// A sender's 99th percentile of lateness that makes a result doubtful.
const LATE_MAX: Duration = Duration::from_millis(1);
/// A sender that misses its rate by more than this has not made the measurement that was asked for.
const RATE_ERROR_MAX: f64 = 0.01;
/// Arrivals faster than the sender's rate by more than this cannot be.
const TOO_FAST: f64 = 1.5;
/// A pause between answers that counts as an outage.
const OUTAGE_MIN: Duration = Duration::from_millis(200);

/// Percentiles of delays, ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayFigures {
    /// Samples.
    pub count: usize,
    /// Least.
    pub min_ms: f64,
    /// Mean.
    pub mean_ms: f64,
    /// Standard deviation of a sample; none of one value.
    pub deviation_ms: Option<f64>,
    /// Median.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Largest.
    pub max_ms: f64,
}

/// Figures of delays in any order; none of none.
#[must_use]
pub fn delay_figures(mut delays_ms: Vec<f64>) -> Option<DelayFigures> {
    delays_ms.sort_unstable_by(f64::total_cmp);
    let moments = Moments::of(delays_ms.iter().copied())?;
    let at = |per_mille| percentile(&delays_ms, per_mille);
    Some(DelayFigures {
        count: delays_ms.len(),
        min_ms: at(0)?,
        mean_ms: moments.mean,
        deviation_ms: moments.deviation(),
        p50_ms: at(500)?,
        p90_ms: at(900)?,
        p95_ms: at(950)?,
        p99_ms: at(990)?,
        max_ms: at(1_000)?,
    })
}

/// Packets lost in a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Burst {
    /// Number of the first.
    pub first: u32,
    /// Number of packets.
    pub packets: u32,
    /// Arrival time of the next packet that was not lost, s after the first arrival; that of the last arrival where
    /// none came.
    pub at_s: f64,
}

/// Goodput around a burst of losses ([MA] Fig 3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LossEvent {
    /// The 500 ms, counted from 0.
    pub bin: usize,
    /// Packets lost in it.
    pub packets: u32,
    /// Goodput of the 500 ms before, Mbit/s.
    pub before_mbps: f64,
    /// Goodput of these 500 ms, Mbit/s.
    pub during_mbps: f64,
    /// [MA] eq. (1): the part of the goodput that is gone; negative where it rose.
    pub drop: f64,
}

/// A run in bins of 500 ms from its first arrival.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BinnedSeries {
    /// Width of a bin.
    pub bin_ms: u64,
    /// Payload that came.
    pub goodput_mbps: Vec<f64>,
    /// Mean round trip of the small packets that came to the receiver in it, up as questions, down as answers.
    pub rtt_ms: Vec<Option<f64>>,
    /// Packets found lost in it.
    pub lost: Vec<u32>,
}

/// Correlation of goodput and round-trip time ([MA] Fig 4).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Correlation {
    /// Pearson's coefficient over bins of 500 ms.
    pub coefficient: f64,
    /// Bins.
    pub bins: usize,
}

/// Reason why a result is not what it seems.
#[derive(Clone, Debug, PartialEq)]
pub enum Doubt {
    /// The sender was late by its own timer.
    Late(Duration),
    /// The sender missed its rate, Mbit/s: asked, sent.
    Rate(f64, f64),
    /// The sender's system did not take packets.
    Refused(u32),
    /// The receiver's system dropped packets for want of room.
    Overflowed(u32),
    /// Packets came faster than they were sent, Mbit/s: received, sent.
    TooFast(f64, f64),
    /// Packets came that were not sent.
    Invented(u32),
    /// The run did not end as planned.
    Ended(Ending),
    /// The arrivals are with the server, and could not be fetched.
    NoArrivals,
}

impl Doubt {
    /// True of what the sender's or the receiver's own system did: another run may be without it.
    #[must_use]
    pub const fn is_of_the_ends(&self) -> bool {
        matches!(self, Self::Late(_) | Self::Rate(..) | Self::Refused(_) | Self::Overflowed(_))
    }
}

impl core::fmt::Display for Doubt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Late(late) => write!(f, "the sender was late: 1 % of the packets by {late} or more"),
            Self::Rate(asked, sent) => {
                write!(f, "the sender made {sent:.2} instead of {asked:.2} Mbit/s: this machine is too busy")
            }
            Self::Refused(n) => write!(f, "the sender's system did not take {n} packets"),
            Self::Overflowed(n) => {
                write!(
                    f,
                    "the receiver's system dropped {n} packets itself, for want of room: not the path's loss"
                )
            }
            Self::TooFast(came, sent) => {
                write!(
                    f,
                    "packets came at {came:.2} Mbit/s, sent at {sent:.2}: something held them, or they are not ours"
                )
            }
            Self::Invented(n) => write!(f, "{n} packets came that were not sent"),
            Self::Ended(Ending::Stopped) => f.write_str("stopped before its end"),
            Self::Ended(Ending::ServerGone) => f.write_str("the server fell silent before the end"),
            Self::Ended(Ending::Whole) => f.write_str("ended"),
            Self::NoArrivals => f.write_str("what arrived is known to the server only, which did not tell"),
        }
    }
}

impl Serialize for Doubt {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The figures of one run. Rates with "goodput" count UDP payload, all others IP packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunFigures {
    /// `up` or `down`.
    pub direction: &'static str,
    /// True for a search, whose rate follows the receiver's reports.
    pub is_search: bool,
    /// Rate asked for, Mbit/s; of a search the largest.
    pub rate_mbps: f64,
    /// Bytes of each IP packet.
    pub packet_bytes: u64,
    /// Rate of the departures, Mbit/s.
    pub offered_mbps: Option<f64>,
    /// Rate of the arrivals, Mbit/s.
    pub received_mbps: Option<f64>,
    /// Payload of the arrivals over time, Mbit/s.
    pub goodput_mbps: Option<f64>,
    /// RFC 9097: the best whole second, Mbit/s; none of a run without one.
    pub best_second_mbps: Option<f64>,
    /// Packets sent.
    pub sent: u32,
    /// Packets that came, each once; none where that is not known.
    pub received: Option<u32>,
    /// Packets that did not come.
    pub lost: Option<u32>,
    /// The same of those sent, per cent.
    pub loss_percent: Option<f64>,
    /// Packets that came again.
    pub repeated: u32,
    /// Packets that came after a later one (RFC 4737 §3.3).
    pub reordered: u32,
    /// By how many packets at most (RFC 4737 §4.2.1).
    pub reordering_extent_max: u32,
    /// Losses in a row.
    pub bursts: Vec<Burst>,
    /// Bursts by their length.
    pub burst_lengths: BTreeMap<u32, u32>,
    /// Round trips while it ran.
    pub rtt: Option<DelayFigures>,
    /// One-way delay less its least, without the clocks' drift.
    pub delay_variation: Option<DelayFigures>,
    /// Over time.
    pub series: BinnedSeries,
    /// Bursts with the goodput around them.
    pub loss_events: Vec<LossEvent>,
    /// Mean of their `drop` ([MA] eq. (2)).
    pub mean_drop: Option<f64>,
    /// Goodput with round trip.
    pub correlation: Option<Correlation>,
    /// The sender's own error.
    pub timer: TimerFigures,
    /// Times the client's address changed before the end of the run.
    pub address_moves: u16,
    /// True when there is no doubt.
    pub is_valid: bool,
    /// Reasons why the result is not what it seems.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub doubts: Vec<Doubt>,
}

impl RunFigures {
    /// Figures of a run, with round trips that were measured beside it and what is known of the clocks.
    #[must_use]
    pub fn of(log: &RunLog, echoes: &[EchoSample], clock: Option<&ClockEstimate>) -> Self {
        let counted = Counted::of(log);
        let times: Vec<Instant> = counted.first.iter().map(|arrival| arrival.at).collect();
        let (begin, end) = (times.iter().min().copied(), times.iter().max().copied());
        let packet_bits = log.spec.packet().get() as f64 * 8.0;
        let payload_share = f64::from(log.spec.payload) / log.spec.packet().get() as f64;
        let received_mbps = over(counted.first.len(), begin, end).map(|per_s| per_s * packet_bits / 1e6);
        let offered_mbps = offered(log).map(|per_s| per_s * packet_bits / 1e6);
        let has_arrivals = log.has_arrivals && !(log.arrivals.is_empty() && log.ending != Ending::Whole);
        let received = has_arrivals.then(|| u32::try_from(counted.first.len()).unwrap_or(u32::MAX));
        let sent = log.summary.sent.max(known_sent(log));
        let lost = received.map(|received| sent.saturating_sub(received));
        let bursts = if has_arrivals { bursts(&counted.first, sent, begin) } else { Vec::new() };
        let beside = beside(log, echoes, begin, end);
        let series = series(&counted.first, &beside, &bursts, begin, payload_share * packet_bits, log);
        let loss_events = loss_events(&series);
        let mut figures = Self {
            direction: log.spec.direction.name(),
            is_search: log.spec.pattern == Pattern::Search,
            rate_mbps: log.spec.rate.as_mbps_f64(),
            packet_bytes: log.spec.packet().get(),
            offered_mbps,
            received_mbps,
            goodput_mbps: received_mbps.map(|rate| rate * payload_share),
            best_second_mbps: best_second(&times, begin)
                .map(|packets| f64::from(packets) * packet_bits / 1e6),
            sent,
            received,
            lost,
            loss_percent: lost.filter(|_| sent > 0).map(|lost| f64::from(lost) * 100.0 / f64::from(sent)),
            repeated: counted.repeated,
            reordered: counted.reordered,
            reordering_extent_max: counted.extent_max,
            burst_lengths: bursts.iter().fold(BTreeMap::new(), |mut lengths, burst| {
                *lengths.entry(burst.packets).or_insert(0) += 1;
                lengths
            }),
            bursts,
            rtt: delay_figures(beside.iter().map(|echo| echo.round_trip().as_millis_f64()).collect()),
            delay_variation: delay_variation(log, &counted.first, clock),
            mean_drop: mean(loss_events.iter().map(|event| event.drop)),
            correlation: correlation(&series),
            loss_events,
            series,
            timer: log.summary.timer,
            address_moves: log.summary.moves,
            is_valid: true,
            doubts: Vec::new(),
        };
        figures.doubts = doubts(&figures, log);
        figures.is_valid = figures.doubts.is_empty();
        figures
    }
}

/// Arrivals told apart.
struct Counted {
    /// Arrivals that came for the first time, in their order.
    first: Vec<Arrival>,
    repeated: u32,
    reordered: u32,
    extent_max: u32,
}

impl Counted {
    fn of(log: &RunLog) -> Self {
        let mut seen = vec![false; log.arrivals.iter().map(|a| a.number as usize + 1).max().unwrap_or(0)];
        let mut counted = Self { first: Vec::new(), repeated: 0, reordered: 0, extent_max: 0 };
        let mut next = 0;
        // The arrivals whose number is larger than all before, for the extent of what comes late.
        let mut leaders: Vec<(u32, u32)> = Vec::new();
        for arrival in &log.arrivals {
            let Some(seen) = seen.get_mut(arrival.number as usize) else { continue };
            if std::mem::replace(seen, true) {
                counted.repeated += 1;
                continue;
            }
            let place = counted.first.len() as u32;
            if arrival.number < next {
                counted.reordered += 1;
                let earliest = leaders.partition_point(|(number, _)| *number < arrival.number);
                let since = leaders.get(earliest).map_or(0, |(_, since)| place - since);
                counted.extent_max = counted.extent_max.max(since);
            } else {
                next = arrival.number + 1;
                leaders.push((arrival.number, place));
            }
            counted.first.push(*arrival);
        }
        counted
    }
}

/// Events per second between the first and the last.
fn over(count: usize, begin: Option<Instant>, end: Option<Instant>) -> Option<f64> {
    let time = end?.saturating_since(begin?);
    (count > 1 && !time.is_zero()).then(|| (count - 1) as f64 / time.as_secs_f64())
}

/// Departures that are known of, one more than the largest number.
fn known_sent(log: &RunLog) -> u32 {
    u32::try_from(log.departures.len()).unwrap_or(u32::MAX)
}

/// Departures per second, by the first and the last that are known.
fn offered(log: &RunLog) -> Option<f64> {
    let mut known = (0_u32..).zip(&log.departures).filter_map(|(number, at)| at.map(|at| (number, at)));
    let (first, begin) = known.next()?;
    let (last, end) = known.last()?;
    over((last - first) as usize + 1, Some(begin), Some(end))
}

fn bursts(first: &[Arrival], sent: u32, begin: Option<Instant>) -> Vec<Burst> {
    let mut came: Vec<(u32, Instant)> = first.iter().map(|arrival| (arrival.number, arrival.at)).collect();
    came.sort_unstable();
    let since = |at: Instant| begin.map_or(0.0, |begin| at.saturating_since(begin).as_secs_f64());
    let last_at = came.last().map_or(0.0, |(_, at)| since(*at));
    let mut found = Vec::new();
    let mut next = 0;
    for (number, at) in came.into_iter().map(|(number, at)| (number, since(at))).chain([(sent, last_at)]) {
        if number > next {
            found.push(Burst { first: next, packets: number - next, at_s: at });
        }
        next = next.max(number.saturating_add(1));
    }
    found
}

/// The round trips whose packets left while the run's did, by the client's clock.
fn beside(
    log: &RunLog,
    echoes: &[EchoSample],
    begin: Option<Instant>,
    end: Option<Instant>,
) -> Vec<EchoSample> {
    let span = match log.spec.direction {
        Direction::Up => {
            let mut known = log.departures.iter().flatten().copied();
            let first = known.next();
            (first, known.last().or(first))
        }
        Direction::Down => (begin, end),
    };
    let (Some(begin), Some(end)) = span else { return Vec::new() };
    if log.spec.is_echoed && echoes.is_empty() {
        return log.echoes.clone();
    }
    echoes.iter().filter(|echo| begin <= echo.sent && echo.sent <= end).copied().collect()
}

fn best_second(times: &[Instant], begin: Option<Instant>) -> Option<u32> {
    let begin = begin?;
    let mut bins: Vec<u32> = Vec::new();
    for at in times {
        let bin = (at.saturating_since(begin).as_nanos() / STRETCH.as_nanos()) as usize;
        if bins.len() <= bin {
            bins.resize(bin + 1, 0);
        }
        if let Some(count) = bins.get_mut(bin) {
            *count += 1;
        }
    }
    // The last one is not whole.
    bins.pop();
    bins.into_iter().max()
}

fn delay_variation(log: &RunLog, first: &[Arrival], clock: Option<&ClockEstimate>) -> Option<DelayFigures> {
    let begin = first.first()?.at;
    // The server's clock is the receiver's of a run up, and the sender's of a run down.
    let drift = clock.map_or(0.0, |clock| clock.drift_ppm / 1e6);
    let drift = if log.spec.direction == Direction::Up { drift } else { -drift };
    let delays: Vec<f64> = first
        .iter()
        .filter_map(|arrival| {
            let sent = log.departures.get(arrival.number as usize).copied().flatten()?;
            let clocks = arrival.at.as_nanos().cast_signed().wrapping_sub(sent.as_nanos().cast_signed());
            let base = begin.as_nanos().cast_signed().wrapping_sub(first_sent(log)?.as_nanos().cast_signed());
            let since = arrival.at.as_nanos().cast_signed().wrapping_sub(begin.as_nanos().cast_signed());
            Some(((clocks.wrapping_sub(base)) as f64 - drift * since as f64) / 1e6)
        })
        .collect();
    let least = delays.iter().copied().fold(f64::INFINITY, f64::min);
    delay_figures(delays.into_iter().map(|delay| delay - least).collect())
}

fn first_sent(log: &RunLog) -> Option<Instant> {
    log.departures.iter().flatten().next().copied()
}

fn series(
    first: &[Arrival],
    echoes: &[EchoSample],
    bursts: &[Burst],
    begin: Option<Instant>,
    payload_bits: f64,
    log: &RunLog,
) -> BinnedSeries {
    let mut series = BinnedSeries {
        bin_ms: BIN.as_millis(),
        goodput_mbps: Vec::new(),
        rtt_ms: Vec::new(),
        lost: Vec::new(),
    };
    let Some(begin) = begin else { return series };
    let place = |since: Duration| (since.as_nanos() / BIN.as_nanos()) as usize;
    let last = first.iter().map(|arrival| place(arrival.at.saturating_since(begin))).max().unwrap_or(0);
    let (mut packets, mut trips) = (vec![0_u32; last + 1], vec![Vec::new(); last + 1]);
    series.lost = vec![0; last + 1];
    for arrival in first {
        if let Some(count) = packets.get_mut(place(arrival.at.saturating_since(begin))) {
            *count += 1;
        }
    }
    for echo in echoes {
        // By the receiver's clock, as the arrivals are.
        let came = match log.spec.direction {
            Direction::Up => echo.received,
            Direction::Down => echo.returned,
        };
        if let Some(bin) = trips.get_mut(place(came.saturating_since(begin))) {
            bin.push(echo.round_trip().as_millis_f64());
        }
    }
    for burst in bursts {
        let bin = (burst.at_s / BIN.as_secs_f64()) as usize;
        if let Some(lost) = series.lost.get_mut(bin.min(last)) {
            *lost += burst.packets;
        }
    }
    let bins = packets.into_iter();
    series.goodput_mbps = bins.map(|n| f64::from(n) * payload_bits / BIN.as_secs_f64() / 1e6).collect();
    series.rtt_ms = trips.into_iter().map(mean).collect();
    series
}

/// Bins with losses, whole ones with a whole one before.
fn loss_events(series: &BinnedSeries) -> Vec<LossEvent> {
    let goodput = &series.goodput_mbps;
    let whole = goodput.len().saturating_sub(1);
    let events = (1..whole).filter_map(|bin| {
        let (before, during) = (*goodput.get(bin - 1)?, *goodput.get(bin)?);
        let packets = *series.lost.get(bin)?;
        (packets > 0 && before > 0.0).then(|| LossEvent {
            bin,
            packets,
            before_mbps: before,
            during_mbps: during,
            drop: (before - during) / before,
        })
    });
    events.collect()
}

fn correlation(series: &BinnedSeries) -> Option<Correlation> {
    let whole = series.goodput_mbps.len().saturating_sub(1);
    let pairs: Vec<(f64, f64)> = series
        .goodput_mbps
        .iter()
        .zip(&series.rtt_ms)
        .take(whole)
        .filter_map(|(goodput, rtt)| rtt.map(|rtt| (*goodput, rtt)))
        .collect();
    let (a, b) = (mean(pairs.iter().map(|p| p.0))?, mean(pairs.iter().map(|p| p.1))?);
    let sum = |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|(x, y)| of(x - a, y - b)).sum::<f64>();
    let (xy, xx, yy) = (sum(&|x, y| x * y), sum(&|x, _| x * x), sum(&|_, y| y * y));
    (pairs.len() > 2 && xx > 0.0 && yy > 0.0)
        .then(|| Correlation { coefficient: xy / (xx * yy).sqrt(), bins: pairs.len() })
}

fn doubts(figures: &RunFigures, log: &RunLog) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    if log.ending != Ending::Whole {
        doubts.push(Doubt::Ended(log.ending));
    }
    if !log.has_arrivals && figures.sent > 0 {
        doubts.push(Doubt::NoArrivals);
    }
    let late = Duration::from_micros(log.summary.timer.late_p99_us.into());
    if late > LATE_MAX {
        doubts.push(Doubt::Late(late));
    }
    let is_steady = log.spec.pattern == Pattern::Steady;
    if let Some(offered) = figures.offered_mbps.filter(|_| is_steady && figures.sent > 100)
        && (offered / figures.rate_mbps - 1.0).abs() > RATE_ERROR_MAX
    {
        doubts.push(Doubt::Rate(figures.rate_mbps, offered));
    }
    if log.summary.refused > 0 {
        doubts.push(Doubt::Refused(log.summary.refused));
    }
    if log.summary.overflowed > 0 {
        doubts.push(Doubt::Overflowed(log.summary.overflowed));
    }
    if let (Some(received), Some(offered)) = (figures.received_mbps, figures.offered_mbps)
        && is_steady
        && figures.received.is_some_and(|received| received > 100)
        && received > offered * TOO_FAST
    {
        doubts.push(Doubt::TooFast(received, offered));
    }
    let invented = figures.received.unwrap_or(0).saturating_sub(figures.sent);
    if invented > 0 {
        doubts.push(Doubt::Invented(invented));
    }
    doubts
}

/// A time in which nothing came back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outage {
    /// Departure time of its first packet, s after the run's first.
    pub at_s: f64,
    /// From there to the departure of the next packet that came back, s; to the last departure where none
    /// did.
    pub seconds: f64,
    /// Packets that did not come back.
    pub packets: u32,
}

/// Outages of an echoed run: 200 ms and more of which no packet came back.
#[must_use]
pub fn outages(log: &RunLog) -> Vec<Outage> {
    let mut came = vec![false; log.departures.len()];
    for echo in &log.echoes {
        if let Some(came) = came.get_mut(echo.number as usize) {
            *came = true;
        }
    }
    let Some(begin) = first_sent(log) else { return Vec::new() };
    let mut found = Vec::new();
    let mut open: Option<(Instant, u32)> = None;
    let mut close = |open: &mut Option<(Instant, u32)>, at: Instant| {
        if let Some((since, packets)) = open.take()
            && at.saturating_since(since) >= OUTAGE_MIN
        {
            let at_s = since.saturating_since(begin).as_secs_f64();
            found.push(Outage { at_s, seconds: at.saturating_since(since).as_secs_f64(), packets });
        }
    };
    let mut last = begin;
    for (departure, came) in log.departures.iter().zip(came) {
        let Some(departure) = *departure else { continue };
        last = departure;
        if came {
            close(&mut open, departure);
        } else {
            let (_, packets) = open.get_or_insert((departure, 0));
            *packets += 1;
        }
    }
    close(&mut open, last);
    found
}

#[cfg(test)]
mod tests;
