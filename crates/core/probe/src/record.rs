//! [`Recording`]: a path as a link trace, from runs that saturate it and runs that hardly load it.
//!
//! A packet *leaves* the link's queue when it arrives, less the least delay of the path. So all times
//! are those of the queue, by the client's clock, and no clock needs to be right. Of a packet that was
//! lost it is known when it came to the queue, and so how much waited there: where that is the same
//! amount again and again, it is the size of the queue (drop-tail), and a packet that was lost before a
//! shorter queue was lost at random.

use std::collections::BTreeSet;

use figures::stats::percentile;
use serde::Serialize;
use units::{Duration, Instant};

use crate::clock::ClockEstimate;
use crate::figures_of::{DelayFigures, delay_figures};
use crate::log::{EchoSample, RunLog};
use crate::message::{Direction, Pattern, TRAIN};

/// Bytes of a delivery opportunity in Mahimahi's format.
const OPPORTUNITY: f64 = 1_500.0;
/// Packets that wait when the link first counts as saturated, or half of the most.
const WAITS: u64 = 20;
/// Least wait in 100 ms below which the link may have run empty.
const EMPTY_NS: i64 = 3_000_000;
const BIN_NS: i64 = 100_000_000;
/// The grid of a trace.
const MS_NS: i64 = 1_000_000;
/// Amounts that are tried for what an opportunity before the recording has left over: all that packets of 1400
/// bytes can leave.
const LEFT_OVERS: u32 = 14;
/// Packets leave a link at whole milliseconds of its own where their places within one are at least so close
/// together: length of the mean of their directions, 0 to 1.
const GRID: f64 = 0.5;
/// A loss before a queue of less than this share of a full one was at random. A link that is late for once
/// makes a full queue look shorter than it was, but not so much.
const FREE_SHARE: f64 = 0.5;
/// Losses at random at fewer moments tell nothing: what holds up a machine for once loses packets too.
const MOMENTS_MIN: u64 = 3;
/// Losses that are needed to tell the size of a queue.
const DROPS_MIN: usize = 10;
/// A loss before a queue of at least this share of what the longest ones had was for want of room.
const FULL_SHARE: f64 = 0.8;
/// Per mille: more than this waited only for once.
const USUAL: u32 = 980;
/// The amounts that waited at losses lie this close together where the queue is drop-tail: of their median,
/// and in packets.
const PLATEAU_SHARE: f64 = 0.2;
const PLATEAU_PACKETS: u64 = 4;

/// Lost of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// Packets lost.
    pub lost: u64,
    /// Packets sent.
    pub of: u64,
    /// Stretches of 100 ms, or trains, in which some were lost.
    pub moments: u64,
}

impl Share {
    /// Lost over sent; zero where they were lost at so few moments that they tell nothing.
    #[must_use]
    pub fn value(self) -> f64 {
        if self.moments < MOMENTS_MIN { 0.0 } else { self.lost as f64 / self.of as f64 }
    }

    fn plus(self, other: Self) -> Self {
        Self { lost: self.lost + other.lost, of: self.of + other.of, moments: self.moments + other.moments }
    }
}

/// Kind of evidence for a queue's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BufferKind {
    /// Packets were lost whenever the same amount waited: a queue that drops what does not fit.
    Plateau,
    /// Packets were lost at quite different amounts: something else decides.
    Spread,
    /// It never overflowed.
    Unfilled,
}

/// The size of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Buffer {
    /// Way in which it was seen.
    pub kind: BufferKind,
    /// The best estimate; of one that never overflowed the most that waited.
    pub bytes: u64,
    /// It is at least this: 5th percentile of what waited at losses, less the packet that is being served.
    pub low_bytes: u64,
    /// And at most this: 95th percentile, and a packet; none where it never overflowed.
    pub high_bytes: Option<u64>,
    /// Losses that say so.
    pub drops: u64,
}

/// A train of packets that left at once over an idle path.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Train {
    /// Departure time, s after the first train.
    pub at_s: f64,
    /// Delay of its first packet beyond the path's least delay, ms; none where it was lost.
    pub wait_ms: Option<f64>,
    /// Arrival time of each packet, ms after the first that came; none of a lost one.
    pub after_ms: Vec<Option<f64>>,
}

/// Results of the trains in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Light {
    /// Packets of a train.
    pub train_packets: u32,
    /// Bytes of each.
    pub packet_bytes: u64,
    /// Lost of all.
    pub loss: Share,
    /// Time that packets waited in the queue.
    pub wait: Option<DelayFigures>,
    /// Time from the first to the last packet of each whole train.
    pub spread: Option<DelayFigures>,
    /// Each train.
    pub trains: Vec<Train>,
}

/// One way of a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WayRecord {
    /// `up` or `down`.
    pub direction: &'static str,
    /// Length of the trace.
    pub seconds: f64,
    /// Rate that arrived, less headers of the link, Mbit/s: mean of the trace.
    pub mean_mbps: f64,
    /// Rates in each 100 ms.
    pub rates_100ms_mbps: Vec<f64>,
    /// Share of the time in which the link may have carried more than came, because its queue ran empty.
    pub unsaturated_share: f64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that came.
    pub received: u64,
    /// The queue; none where too little came.
    pub buffer: Option<Buffer>,
    /// Lost at random, of all that met no full queue.
    pub loss: Share,
    /// Time that packets waited in the queue.
    pub wait: Option<DelayFigures>,
    /// The same over a path that was hardly loaded.
    pub light: Option<Light>,
    /// Mahimahi's trace: the millisecond of each opportunity; in the file beside the document.
    #[serde(skip)]
    pub opportunities_ms: Vec<u64>,
}

/// Logs that a path was recorded from.
#[derive(Debug)]
pub struct Recording {
    base: Base,
    ways: Vec<(WayLog, Option<Light>)>,
}

/// The least delays, and what the clocks say of each other.
#[derive(Clone, Copy, Debug)]
struct Base {
    /// Receiver's clock less sender's, each way, at the reference.
    up_ns: i64,
    down_ns: i64,
    /// Time by the server's clock.
    reference_ns: i64,
    drift: f64,
}

fn ns(at: Instant) -> i64 {
    at.as_nanos().cast_signed()
}

impl Base {
    /// The least of each way, of packets that need not be the same: a link that serves at whole milliseconds
    /// has an answer wait for as long as any other, because it comes when the question has been served.
    fn of(echoes: &[EchoSample], idle: &[&RunLog]) -> Option<Self> {
        let drift = ClockEstimate::of(echoes).map_or(0.0, |clock| clock.drift_ppm / 1e6);
        let reference_ns = ns(echoes.first()?.received);
        let base = Self { up_ns: 0, down_ns: 0, reference_ns, drift };
        let lag = |from: Instant, to: Instant, is_up| base.lag(ns(from), ns(to), is_up);
        let alone = |direction: Direction| {
            idle.iter().filter(move |log| log.spec.direction == direction).flat_map(move |log| {
                log.arrivals.iter().filter_map(move |arrival| {
                    let sent = log.departures.get(arrival.number as usize).copied().flatten()?;
                    Some(lag(sent, arrival.at, direction == Direction::Up))
                })
            })
        };
        let up = echoes.iter().map(|echo| lag(echo.sent, echo.received, true));
        let down = echoes.iter().map(|echo| lag(echo.echoed, echo.returned, false));
        let up_ns = up.chain(alone(Direction::Up)).min()?;
        let down_ns = down.chain(alone(Direction::Down)).min()?;
        Some(Self { up_ns, down_ns, ..base })
    }

    /// The least round trip: what the clocks differ by is in both, and adds up to nothing.
    fn round_trip_ns(&self) -> i64 {
        self.up_ns.wrapping_add(self.down_ns).max(0)
    }

    /// Time that the server's clock has gained since the reference.
    fn gained(&self, server_ns: i64) -> i64 {
        (self.drift * server_ns.wrapping_sub(self.reference_ns) as f64) as i64
    }

    /// Receiver's clock less sender's, as at the reference.
    fn lag(&self, sent: i64, arrived: i64, is_up: bool) -> i64 {
        let clocks = arrived.wrapping_sub(sent);
        if is_up { clocks - self.gained(arrived) } else { clocks + self.gained(sent) }
    }

    fn least(&self, is_up: bool) -> i64 {
        if is_up { self.up_ns } else { self.down_ns }
    }

    /// Time at which a packet was sent, by the client's clock; the two ways are taken to be alike.
    fn sent(&self, sent: i64, is_up: bool) -> i64 {
        let ahead = (self.up_ns - self.down_ns) / 2;
        if is_up { sent } else { sent.wrapping_sub(ahead + self.gained(sent)) }
    }
}

/// A run by the times of the queue.
#[derive(Debug)]
struct WayLog {
    direction: Direction,
    packet: u64,
    /// Number, when it came to the queue, when it left; in the order of leaving.
    passed: Vec<(u32, i64, i64)>,
    /// Number, when it came to the queue.
    lost: Vec<(u32, i64)>,
    sent: u64,
    end: i64,
}

impl WayLog {
    fn of(log: &RunLog, base: &Base) -> Option<Self> {
        let is_up = log.spec.direction == Direction::Up;
        let departure = |number: u32| log.departures.get(number as usize).copied().flatten().map(ns);
        let mut seen = vec![false; log.departures.len()];
        let mut passed = Vec::new();
        for arrival in &log.arrivals {
            let Some(sent) = departure(arrival.number) else { continue };
            let Some(seen) = seen.get_mut(arrival.number as usize) else { continue };
            if std::mem::replace(seen, true) {
                continue;
            }
            let came = base.sent(sent, is_up);
            let wait = base.lag(sent, ns(arrival.at), is_up) - base.least(is_up);
            passed.push((arrival.number, came, came + wait.max(0)));
        }
        passed.sort_unstable_by_key(|(number, _, left)| (*left, *number));
        let mut known: Vec<(u32, i64)> = match log.spec.direction {
            Direction::Up => {
                (0..).zip(&log.departures).filter_map(|(n, at)| at.map(|at| (n, ns(at)))).collect()
            }
            Direction::Down => passed.iter().map(|(number, came, _)| (*number, *came)).collect(),
        };
        known.sort_unstable();
        let end = known.last()?.1;
        let lost = lost(&known, &seen);
        let sent = u64::from(log.summary.sent).max(passed.len() as u64 + lost.len() as u64);
        Some(Self { direction: log.spec.direction, packet: log.spec.packet().get(), passed, lost, sent, end })
    }

    /// Time at which the link was first saturated: as many packets wait as make a queue.
    fn full_since(&self) -> Option<i64> {
        let queue = self.queue();
        let most = queue.iter().map(|(_, waits, _)| *waits).max()?;
        let wanted = (most / 2).min(WAITS);
        queue.iter().find(|(_, waits, _)| *waits >= wanted).map(|(came, _, _)| *came)
    }

    /// State of the queue by the packet's number: when it came, what waited then, and whether it passed.
    fn queue(&self) -> Vec<(i64, u64, bool)> {
        let mut all: Vec<(u32, i64, bool)> =
            self.passed.iter().map(|(n, came, _)| (*n, *came, true)).collect();
        all.extend(self.lost.iter().map(|(number, came)| (*number, *came, false)));
        all.sort_unstable();
        let mut gone = self.passed.iter().map(|(_, _, left)| *left).peekable();
        let (mut came_in, mut left) = (0_u64, 0_u64);
        let mut queue = Vec::with_capacity(all.len());
        for (_, came, is_passed) in all {
            while gone.next_if(|at| *at <= came).is_some() {
                left += 1;
            }
            queue.push((came, came_in.saturating_sub(left), is_passed));
            came_in += u64::from(is_passed);
        }
        queue
    }

    fn record(&self, begin: i64, end: i64, light: Option<Light>) -> WayRecord {
        let queue: Vec<(i64, u64, bool)> =
            self.queue().into_iter().filter(|(came, _, _)| (begin..end).contains(came)).collect();
        let buffer = Buffer::of(&queue, self.packet);
        let full = buffer
            .filter(|buffer| buffer.kind != BufferKind::Unfilled)
            .map_or(u64::MAX, |buffer| (buffer.low_bytes as f64 / self.packet as f64 * FREE_SHARE) as u64);
        let free: Vec<&(i64, u64, bool)> = queue.iter().filter(|(_, waits, _)| *waits < full).collect();
        let lost: Vec<i64> =
            free.iter().filter(|(_, _, is_passed)| !is_passed).map(|(came, _, _)| came / BIN_NS).collect();
        let moments = BTreeSet::from_iter(&lost).len() as u64;
        let own = Share { lost: lost.len() as u64, of: free.len() as u64, moments };
        let loss = light.as_ref().map_or(own, |light| light.loss.plus(own));
        let inside: Vec<(i64, i64)> = self
            .passed
            .iter()
            .filter(|(_, _, left)| (begin..end).contains(left))
            .map(|(_, came, left)| (left - begin, left - came))
            .collect();
        let length = (end - begin).max(1);
        let grid = grid(&inside);
        let opportunities_ms = opportunities(&inside, grid, (self.packet, loss.value()), length);
        let bins = usize::try_from(length / BIN_NS).unwrap_or(0);
        let (mut bytes, mut least) = (vec![0_u64; bins], vec![i64::MAX; bins]);
        for (at, wait) in &inside {
            let bin = usize::try_from(at / BIN_NS).unwrap_or(usize::MAX);
            if let (Some(bytes), Some(least)) = (bytes.get_mut(bin), least.get_mut(bin)) {
                *bytes += self.packet;
                *least = (*least).min(*wait);
            }
        }
        let empty = least.iter().filter(|wait| **wait < EMPTY_NS).count();
        let seconds = length as f64 / 1e9;
        WayRecord {
            direction: self.direction.name(),
            seconds,
            mean_mbps: opportunities_ms.len() as f64 * OPPORTUNITY * 8.0 / 1e6 / seconds,
            rates_100ms_mbps: bytes.iter().map(|bytes| *bytes as f64 * 8.0 / 1e5).collect(),
            unsaturated_share: if bins == 0 { 1.0 } else { empty as f64 / bins as f64 },
            sent: self.sent,
            received: self.passed.len() as u64,
            buffer,
            loss,
            wait: delay_figures(inside.iter().map(|(_, wait)| *wait as f64 / 1e6).collect()),
            light,
            opportunities_ms,
        }
    }
}

/// Numbers between those that are `known` and were not `seen`, with their times: in even steps.
fn lost(known: &[(u32, i64)], seen: &[bool]) -> Vec<(u32, i64)> {
    let mut lost = Vec::new();
    let is_seen = |number: u32| seen.get(number as usize).copied().unwrap_or(false);
    for pair in known.windows(2) {
        let [(first, from), (next, to)] = pair else { continue };
        if !is_seen(*first) {
            lost.push((*first, *from));
        }
        let step = (to - from) / i64::from(next - first).max(1);
        lost.extend((first + 1..*next).map(|number| (number, from + step * i64::from(number - first))));
    }
    // What comes after the last that arrived may still be in the queue.
    let last = seen.iter().rposition(|is_seen| *is_seen).unwrap_or(0);
    lost.retain(|(number, _)| (*number as usize) < last);
    lost
}

/// Time by which to shift times so that those of a link that serves at whole milliseconds of its own lie in
/// the middle of ours: at an edge each of them would fall to one side or the other.
fn grid(passed: &[(i64, i64)]) -> i64 {
    let turn = core::f64::consts::TAU / MS_NS as f64;
    let angles = passed.iter().map(|(at, _)| at.rem_euclid(MS_NS) as f64 * turn);
    let (x, y) = angles.fold((0.0, 0.0), |(x, y), angle: f64| (x + angle.cos(), y + angle.sin()));
    if f64::hypot(x, y) < GRID * passed.len().max(1) as f64 {
        return 0;
    }
    MS_NS / 2 - (f64::atan2(y, x) / turn) as i64
}

/// The millisecond of each opportunity for 1500 bytes: one for each 1500 bytes that came, and that are taken
/// to have been lost behind the queue. A link of such opportunities begins a packet with what the one before
/// it has left over. How much that was at the begin is what fits best, so that the trace of such a link comes
/// out as it is.
fn opportunities(passed: &[(i64, i64)], shift: i64, (packet, loss): (u64, f64), length: i64) -> Vec<u64> {
    let mut came: Vec<(u64, f64)> = Vec::new();
    for (at, _) in passed {
        let ms = ((at + shift).max(0).unsigned_abs() / MS_NS.unsigned_abs()).max(1);
        match came.last_mut() {
            Some((last, packets)) if *last == ms => *packets += 1.0,
            _ => came.push((ms, 1.0)),
        }
    }
    let each = packet as f64 / (1.0 - loss.min(0.5));
    let begins = (0..LEFT_OVERS).map(|part| each * f64::from(part) / f64::from(LEFT_OVERS));
    let fits = begins.map(|left_over| fitted(&came, each, left_over)).min_by_key(|(misfits, _)| *misfits);
    let mut times = fits.map(|(_, times)| times).unwrap_or_default();
    // The trace is as long as the recording, even where its end is silent.
    let end = length.unsigned_abs() / MS_NS.unsigned_abs();
    if times.last().is_none_or(|last| *last < end) {
        times.push(end.max(1));
    }
    times
}

/// Opportunities for packets of `each` bytes that came in milliseconds, where `left_over` was left over before the
/// first; and how often enough was left over for one more packet.
fn fitted(came: &[(u64, f64)], each: f64, mut left_over: f64) -> (usize, Vec<u64>) {
    let (mut misfits, mut times) = (0, Vec::new());
    for (ms, packets) in came {
        let count = ((each * packets - left_over) / OPPORTUNITY).ceil().max(0.0);
        left_over += count * OPPORTUNITY - each * packets;
        misfits += usize::from(left_over >= each);
        times.extend(core::iter::repeat_n(*ms, count as usize));
    }
    (misfits, times)
}

impl Buffer {
    fn of(queue: &[(i64, u64, bool)], packet: u64) -> Option<Self> {
        let mut waits: Vec<u64> = queue.iter().map(|(_, waits, _)| *waits).collect();
        waits.sort_unstable();
        let most = *waits.last()?;
        // Where something holds up the link for once, even a full queue seems to be exceeded.
        let usual = percentile(&waits, USUAL)?;
        let mut at_losses: Vec<u64> =
            queue.iter().filter(|entry| !entry.2).map(|(_, waits, _)| *waits).collect();
        at_losses.sort_unstable();
        let top = percentile(&at_losses, 950).unwrap_or(0) as f64 * FULL_SHARE;
        let full = at_losses.get(at_losses.partition_point(|waits| (*waits as f64) < top)..).unwrap_or(&[]);
        let at = |per_mille| percentile(full, per_mille).unwrap_or(0);
        let (low, median, high) = (at(50), at(500), at(950));
        // Losses at random hit queues of any length, and so hardly ever the longest.
        if full.len() < DROPS_MIN || (median as f64) < usual as f64 * 0.5 {
            let bytes = most * packet;
            return Some(Self {
                kind: BufferKind::Unfilled,
                bytes,
                low_bytes: bytes,
                high_bytes: None,
                drops: 0,
            });
        }
        let close = ((median as f64 * PLATEAU_SHARE) as u64).max(PLATEAU_PACKETS);
        Some(Self {
            kind: if high - low <= close { BufferKind::Plateau } else { BufferKind::Spread },
            // One of them is being served and no longer in the queue; one more had no room.
            bytes: median.saturating_sub(1) * packet + packet / 2,
            low_bytes: low.saturating_sub(1) * packet,
            high_bytes: Some((high + 1) * packet),
            drops: full.len() as u64,
        })
    }
}

impl Light {
    fn of(log: &RunLog, base: &Base) -> Option<Self> {
        let is_up = log.spec.direction == Direction::Up;
        let count = (log.departures.len() as u32).max(log.summary.sent);
        let mut came: Vec<Option<(i64, i64)>> = vec![None; count as usize];
        let mut begin = i64::MAX;
        for arrival in &log.arrivals {
            let sent = log.departures.get(arrival.number as usize).copied().flatten().map(ns);
            if let (Some(sent), Some(slot)) = (sent, came.get_mut(arrival.number as usize)) {
                let wait = base.lag(sent, ns(arrival.at), is_up) - base.least(is_up);
                begin = begin.min(sent);
                *slot = Some((sent, wait));
            }
        }
        let received = came.iter().flatten().count();
        let ms = |ns: i64| ns as f64 / 1e6;
        let trains: Vec<Train> = came
            .chunks(TRAIN as usize)
            .filter_map(|train| {
                let at = train.iter().flatten().map(|(sent, _)| *sent).min()?;
                let left = |(sent, wait): &(i64, i64)| sent - at + wait;
                let first = train.iter().flatten().map(left).min()?;
                Some(Train {
                    at_s: (at - begin) as f64 / 1e9,
                    wait_ms: train.first().copied().flatten().map(|(_, wait)| ms(wait)),
                    after_ms: train.iter().map(|one| one.as_ref().map(|one| ms(left(one) - first))).collect(),
                })
            })
            .collect();
        let whole = trains.iter().filter(|train| train.after_ms.len() == TRAIN as usize);
        let spread = whole.filter_map(|train| *train.after_ms.last()?);
        Some(Self {
            train_packets: TRAIN,
            packet_bytes: log.spec.packet().get(),
            loss: Share {
                lost: u64::from(count) - received as u64,
                of: count.into(),
                moments: came.chunks(TRAIN as usize).filter(|train| train.contains(&None)).count() as u64,
            },
            wait: delay_figures(trains.iter().filter_map(|train| train.wait_ms).collect()),
            spread: delay_figures(spread.collect()),
            trains,
        })
    }
}

impl Recording {
    /// Recording of `saturated` runs, one for each way at the same time, with `echoes` and `idle` runs
    /// (trains, and single packets) over the idle path before; none where nothing came.
    #[must_use]
    pub fn of(saturated: &[&RunLog], idle: &[&RunLog], echoes: &[EchoSample]) -> Option<Self> {
        let base = Base::of(echoes, idle)?;
        let light = |direction: Direction| {
            let is_wanted =
                |log: &&&RunLog| log.spec.direction == direction && log.spec.pattern == Pattern::Trains;
            idle.iter().find(is_wanted).and_then(|log| Light::of(log, &base))
        };
        let ways = saturated.iter().filter_map(|log| WayLog::of(log, &base));
        Some(Self {
            base,
            ways: ways
                .map(|way| {
                    let light = light(way.direction);
                    (way, light)
                })
                .collect(),
        })
    }

    /// The least delay up and the least delay down.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.base.round_trip_ns().unsigned_abs())
    }

    /// Each way, over the time in which all of them were saturated.
    #[must_use]
    pub fn ways(self) -> Vec<WayRecord> {
        let begin = self.ways.iter().filter_map(|(way, _)| way.full_since()).max();
        let end = self.ways.iter().map(|(way, _)| way.end).min();
        let (Some(begin), Some(end)) = (begin, end.filter(|end| begin.is_some_and(|begin| begin < *end)))
        else {
            return Vec::new();
        };
        let record = |(way, light): (WayLog, Option<Light>)| way.record(begin, end, light);
        self.ways.into_iter().map(record).collect()
    }
}

#[cfg(test)]
mod tests;
