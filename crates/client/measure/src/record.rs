//! [`record`]: a path as a link trace for `lab` and `sim`.
//!
//! First trains of packets over the idle path, both ways, and small packets that come back; then the path
//! is saturated, the ways that are wanted at the same time; then small packets come back again. Those before and
//! after have the saturated time between them: how fast the clocks drift is measured over it, not extended to it.

use io::IoError;
use probe::{
    BufferKind, ClockEstimate, Direction, EchoSample, Pattern, Recording, RunFigures, RunLog, RunSpec, TRAIN,
    WayRecord,
};
use serde::Serialize;
use units::{Bytes, Duration, Rate};

use crate::document::{Document, Measured};
use crate::maker::Maker;
use crate::session::{Session, Watcher};
use crate::verdict::{digits, time, told, way};

/// Name and version of the document; its schema is `schemas/probe-record.schema.json`.
pub const SCHEMA: &str = "cellerator/probe-record/1";

/// Between two of the small packets over the idle path, of those that come back and of those that the server
/// sends by itself. No whole milliseconds: where a link serves at those, one of them has to wait for nothing.
const ECHO_EVERY: Duration = Duration::from_micros(19_870);
const SMALL_EVERY: Duration = Duration::from_micros(20_110);
/// Bytes of the IP packets of the latter.
const SMALL: u16 = 100;
/// Between two trains.
const TRAIN_EVERY: Duration = Duration::from_millis(200);
/// Let the queue be empty before the path is saturated, and after it.
const PAUSE: Duration = Duration::from_secs(1);
/// At most this part of what a client may transfer in an hour is asked for.
const VOLUME_SHARE: u64 = 2;
/// A trace with more of its time than this not saturated is doubtful.
const UNSATURATED_MAX: f64 = 0.05;
/// A recording of less is none.
const SECONDS_MIN: f64 = 1.0;

/// Plan of a recording.
#[derive(Clone, Debug)]
pub struct RecordPlan {
    /// Directions, at the same time.
    pub directions: Vec<Direction>,
    /// For how long the path is saturated.
    pub length: Duration,
    /// For how long trains are sent before.
    pub light_length: Duration,
    /// The path is sent no more than this.
    pub rate_max: Rate,
    /// Bytes of each IP packet.
    pub packet: u16,
}

/// One way.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordedWay {
    /// Record of one direction.
    #[serde(flatten)]
    pub record: WayRecord,
    /// Name of the trace in Mahimahi's format, beside this document.
    pub trace: String,
    /// Reasons why the result is not what it seems.
    pub doubts: Vec<String>,
}

/// Result of a recording.
pub type RecordDocument = Document<RecordFigures>;

/// Figures of a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordFigures {
    /// Bytes of each IP packet.
    pub packet_bytes: u16,
    /// The least delay up and the least delay down over the idle path; none where nothing came back.
    pub round_trip_ms: Option<f64>,
    /// The server's clock against the client's; none without round trips.
    pub clock: Option<ClockEstimate>,
    /// The ways that were recorded.
    pub ways: Vec<RecordedWay>,
}

/// Records the path. What was recorded is in the document, whatever happens.
///
/// # Errors
/// Of the system only.
pub fn record(
    session: &mut Session<'_>,
    plan: &RecordPlan,
    made_by: Maker,
    watcher: &mut dyn Watcher,
) -> Result<Measured<RecordFigures>, IoError> {
    watcher.say("trains over the idle path");
    let train = Bytes::new(u64::from(plan.packet) * u64::from(TRAIN));
    let rate = Rate::from_transfer(train, TRAIN_EVERY);
    let trains =
        |direction| session.load_spec(direction, Pattern::Trains, rate, plan.packet, plan.light_length);
    let small = Rate::from_transfer(Bytes::new(SMALL.into()), SMALL_EVERY);
    let specs = [
        trains(Direction::Down),
        trains(Direction::Up),
        session.load_spec(Direction::Down, Pattern::Steady, small, SMALL, plan.light_length),
        session.echo_spec(ECHO_EVERY, plan.light_length),
    ];
    let (mut light, mut failure) = session.run(&specs, watcher)?;
    let mut echoes = light.pop().flatten().map(|log| log.echoes).unwrap_or_default();
    let light: Vec<RunLog> = light.into_iter().flatten().collect();
    let mut full = Vec::new();
    if failure.is_none() {
        session.rest(PAUSE)?;
        let names: Vec<&str> = plan.directions.iter().map(|direction| direction.name()).collect();
        watcher.say(&format!("saturated {}", names.join(" and ")));
        let specs = saturating(session, plan);
        let (logs, failed) = session.run(&specs, watcher)?;
        failure = failed;
        full = logs.into_iter().flatten().collect();
    }
    if failure.is_none() {
        session.rest(PAUSE)?;
        watcher.say("the clocks, once more over the idle path");
        let specs = [session.echo_spec(ECHO_EVERY, plan.light_length)];
        let (mut logs, failed) = session.run(&specs, watcher)?;
        failure = failed;
        echoes.extend(logs.pop().flatten().map(|log| log.echoes).unwrap_or_default());
    }
    let mut figures = RecordFigures {
        packet_bytes: plan.packet,
        round_trip_ms: None,
        clock: ClockEstimate::of(&echoes),
        ways: Vec::new(),
    };
    let rate_max = saturating(session, plan).first().map_or(plan.rate_max, |spec| spec.rate);
    fill(&mut figures, &full, &light, &echoes, rate_max);
    Ok(Document::of(made_by, session.peer(), figures, failure))
}

/// A run for each way, of a rate that the server allows for so long.
fn saturating(session: &Session<'_>, plan: &RecordPlan) -> Vec<RunSpec> {
    let limits = session.limits();
    let ways = plan.directions.len().max(1) as u64;
    let volume = limits.map_or(u64::MAX, |limits| limits.volume_max.get()) / VOLUME_SHARE / ways;
    let fair = Rate::from_transfer(Bytes::new(volume), plan.length);
    let most = limits.map_or(plan.rate_max, |limits| plan.rate_max.min(limits.rate_max)).min(fair);
    let spec = |way: &Direction| session.load_spec(*way, Pattern::Saturate, most, plan.packet, plan.length);
    plan.directions.iter().map(spec).collect()
}

fn fill(
    of_path: &mut RecordFigures,
    full: &[RunLog],
    light: &[RunLog],
    echoes: &[EchoSample],
    rate_max: Rate,
) {
    let (full_logs, light_logs): (Vec<&RunLog>, Vec<&RunLog>) =
        (full.iter().collect(), light.iter().collect());
    let Some(recording) = Recording::of(&full_logs, &light_logs, echoes) else { return };
    of_path.round_trip_ms = Some(recording.round_trip().as_millis_f64());
    for record in recording.ways() {
        if record.seconds < SECONDS_MIN {
            continue;
        }
        let log = full.iter().find(|log| log.spec.direction.name() == record.direction);
        let figures = log.map(|log| RunFigures::of(log, &[], None));
        let mut doubts: Vec<String> =
            figures.iter().flat_map(|figures| &figures.doubts).map(ToString::to_string).collect();
        if record.unsaturated_share > UNSATURATED_MAX {
            let share = record.unsaturated_share * 100.0;
            doubts.push(format!(
                "for {share:.0} % of the time the link ran empty, and may have carried more than {} Mbit/s sent: \
                 the rate is bounded by --rate-max at both ends, and by the server's --volume-max",
                digits(rate_max.as_mbps_f64())
            ));
        }
        if record.buffer.is_some_and(|buffer| buffer.kind == BufferKind::Spread) {
            doubts
                .push("packets were lost at different lengths of the queue: its size is a guess".to_owned());
        }
        of_path.ways.push(RecordedWay { trace: format!("{}.trace", record.direction), record, doubts });
    }
}

/// A number of milliseconds with as many digits as count.
fn ms(value: f64) -> String {
    format!("{value:.3} ms")
}

/// The link as a scenario for `lab` and `sim`, with the traces of [`traces`] beside it.
#[must_use]
pub fn scenario(document: &RecordDocument) -> String {
    let host = &document.server.host;
    let mut text = format!(
        "# Recorded with `{}`.\n# The cases are two downloads; change them to what is to be tried.\n\
         name = \"recorded\"\ntitle = \"The path to {host}, as recorded\"\n",
        document.made_by.command.replace(['\n', '\r'], " ")
    );
    let seconds = document.ways.iter().map(|way| way.record.seconds).fold(f64::INFINITY, f64::min);
    if seconds.is_finite() {
        text += &format!("time_limit = \"{:.0} ms\"\n", (seconds * 1e3).floor());
    }
    let delay = document.round_trip_ms.unwrap_or(0.0) / 2.0;
    for direction in ["down", "up"] {
        text += &format!("\n[radio.{direction}]\n");
        let way = document.ways.iter().find(|way| way.record.direction == direction);
        if let Some(way) = way {
            text += &format!("trace = \"{}\"\n", way.trace);
            if let Some(buffer) = way.record.buffer {
                let known = match (buffer.kind, buffer.high_bytes) {
                    (BufferKind::Plateau, Some(high)) => format!("between {} and {high} B", buffer.low_bytes),
                    (BufferKind::Spread, Some(high)) => {
                        format!("lost between {} and {high} B: no fixed size", buffer.low_bytes)
                    }
                    _ => "it never overflowed: at least this".to_owned(),
                };
                text += &format!("queue = \"{} B\"  # {known}\n", buffer.bytes);
            }
            let ppm = (way.record.loss.value() * 1e6).round();
            if ppm > 0.0 {
                let loss = way.record.loss;
                text += &format!("loss = \"{} %\"  # {} of {} packets\n", ppm / 1e4, loss.lost, loss.of);
            }
        } else {
            text += "# Not recorded: it carries everything at once.\n";
        }
        text += &format!("delay = \"{}\"  # half of the least round trip\n", ms(delay));
    }
    text += "\n[client]\ntcp_rmem = \"4096 131072 67108864\"\n\n[server]\ntcp_wmem = \"4096 131072 67108864\"\n\n\
             [workload]\nsize = \"10 GB\"\nends_at_limit = true\n";
    for (name, control) in [("CUBIC", "cubic"), ("BBR", "bbr")] {
        text += &format!("\n[[case]]\nname = \"{name}\"\nserver.congestion_control = \"{control}\"\n");
    }
    text
}

/// The traces in Mahimahi's format, with the names of their files.
#[must_use]
pub fn traces(document: &RecordDocument) -> Vec<(String, String)> {
    let text = |way: &RecordedWay| {
        way.record.opportunities_ms.iter().fold(String::new(), |text, ms| text + &ms.to_string() + "\n")
    };
    document.ways.iter().map(|way| (way.trace.clone(), text(way))).collect()
}

pub(crate) fn verdict(document: &RecordDocument) -> String {
    let of_way = |recorded: &RecordedWay| {
        let record = &recorded.record;
        let queue = match record.buffer {
            Some(buffer) => match (buffer.kind, buffer.high_bytes) {
                (BufferKind::Plateau, Some(high)) => format!(
                    ", and its queue holds {} KB ({} to {})",
                    digits(buffer.bytes as f64 / 1e3),
                    digits(buffer.low_bytes as f64 / 1e3),
                    digits(high as f64 / 1e3)
                ),
                (BufferKind::Spread, Some(high)) => format!(
                    ", and drops packets when {} to {} KB wait",
                    digits(buffer.low_bytes as f64 / 1e3),
                    digits(high as f64 / 1e3)
                ),
                _ => format!(", and its queue holds more than {} KB", digits(buffer.bytes as f64 / 1e3)),
            },
            None => String::new(),
        };
        format!(
            "{}: {:.0} s recorded, in which the path carried {} Mbit/s on average{queue}. ",
            way(record.direction),
            record.seconds,
            digits(record.mean_mbps)
        )
    };
    let mut text: String = document.ways.iter().map(of_way).collect();
    let doubtful = document.ways.iter().filter(|way| !way.doubts.is_empty()).count();
    if doubtful > 0 {
        text += &format!("{doubtful} of {} ways cannot be trusted. ", document.ways.len());
    }
    if let Some(ms) = document.round_trip_ms {
        text += &format!("An answer takes at least {}. ", time(ms));
    }
    let nothing = ["Nothing was recorded", ": no packet came through"];
    told(&text, document.incomplete.as_deref(), nothing)
}

#[cfg(test)]
mod tests {
    use probe::{Buffer, Share};

    use super::*;

    fn document() -> RecordDocument {
        let record = WayRecord {
            direction: "down",
            seconds: 12.345,
            mean_mbps: 8.0,
            rates_100ms_mbps: vec![8.0, 12.0],
            unsaturated_share: 0.0,
            sent: 10,
            received: 9,
            buffer: Some(Buffer {
                kind: BufferKind::Plateau,
                bytes: 300_000,
                low_bytes: 298_000,
                high_bytes: Some(301_000),
                drops: 700,
            }),
            loss: Share { lost: 3, of: 1_000, moments: 3 },
            wait: None,
            light: None,
            opportunities_ms: vec![1, 1, 12_345],
        };
        Document::made_up(RecordFigures {
            packet_bytes: 1_400,
            round_trip_ms: Some(30.25),
            clock: None,
            ways: vec![RecordedWay { record, trace: "down.trace".to_owned(), doubts: Vec::new() }],
        })
    }

    #[test]
    fn the_scenario_has_trace_delay_queue_and_loss() {
        let text = scenario(&document());
        for line in [
            "time_limit = \"12345 ms\"",
            "trace = \"down.trace\"",
            "queue = \"300000 B\"  # between 298000 and 301000 B",
            "loss = \"0.3 %\"  # 3 of 1000 packets",
            "delay = \"15.125 ms\"  # half of the least round trip",
            "# Not recorded: it carries everything at once.",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
        assert_eq!(traces(&document()), [("down.trace".to_owned(), "1\n1\n12345\n".to_owned())]);
    }
}
