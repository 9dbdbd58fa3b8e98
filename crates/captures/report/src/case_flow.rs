//! [`CaseFlow`]: the largest flow of a case's capture, as charts of the lab's report.

use std::collections::BTreeMap;

use analysis::{Cause, Direction, Event, EventKind, FlowReport, PacketKind, PacketView, PerDirection, Sink};
use figures::chart::{Axis, Chart, Ink, Mark, Point, Range, Series, class, key};
use maud::{Markup, html};
use wire::TcpFlags;

/// From here on, times the shortest, round-trip times are spread by their ratios.
const WIDE_RATIO: f64 = 30.0;
/// Columns that round-trip times are gathered in.
const COLUMNS: f64 = 500.0;
/// Columns without any after which the line is broken.
const GAP: u64 = 12;

/// One packet of data.
#[derive(Clone, Copy, Debug)]
struct DataPacket {
    time_ns: u64,
    position: u64,
    len: u64,
    kind: PacketKind,
    is_spurious: bool,
}

/// A flow while it goes on.
#[derive(Debug, Default)]
struct Course {
    sent: PerDirection<Vec<DataPacket>>,
    /// Time, and bytes acknowledged, by the direction of the data.
    acks: PerDirection<Vec<(u64, u64)>>,
    /// Time, and round trip, in milliseconds, by the direction of the data.
    rtt: PerDirection<Vec<(u64, f64)>>,
}

/// Collects the flow with most data of one capture.
#[derive(Debug, Default)]
pub struct CaseFlow {
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the case.
    pub case: String,
    active: BTreeMap<u64, Course>,
    best: Option<(FlowReport, Course)>,
}

impl CaseFlow {
    /// For the capture of a case, made beside the server.
    #[must_use]
    pub fn new(scenario: &str, case: &str) -> Self {
        Self { scenario: scenario.to_owned(), case: case.to_owned(), ..Self::default() }
    }

    /// The direction with most data, and its course.
    fn main(&self) -> Option<(&FlowReport, &Course, Direction)> {
        let (report, course) = self.best.as_ref()?;
        Some((report, course, report.main_direction()))
    }

    /// Findings, in sentences.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let Some((report, ..)) = self.main() else { return Vec::new() };
        report
            .diagnoses
            .iter()
            .map(|found| format!("{}: {}", found.kind.name().replace('_', " "), found.evidence))
            .collect()
    }

    /// Data sent again, in words.
    #[must_use]
    pub fn resent(&self) -> String {
        let Some((report, _, way)) = self.main() else { return "nothing captured".to_owned() };
        let direction = &report.directions[way];
        let r = &direction.retransmissions;
        let kinds =
            [(r.fast, "fast"), (r.rto, "time-out"), (r.rto_recovery, "after time-out"), (r.tlp, "probe")];
        let kinds: Vec<String> = kinds
            .into_iter()
            .filter_map(|(count, name)| {
                count.filter(|count| *count > 0).map(|count| format!("{count} {name}"))
            })
            .collect();
        let spurious = if r.spurious > 0 { format!(", {} not needed", r.spurious) } else { String::new() };
        match r.data_packets {
            0 => "nothing sent again".to_owned(),
            count => format!("{count} packets sent again ({}{spurious})", kinds.join(", ")),
        }
    }

    /// Round-trip times in words.
    #[must_use]
    pub fn round_trips(&self) -> String {
        let karn = self.main().and_then(|(report, _, way)| report.directions[way].rtt.karn);
        karn.map_or_else(
            || "no round-trip times".to_owned(),
            |rtt| format!("round trip median {:.1} ms, 95 % below {:.1} ms", rtt.p50_ms, rtt.p95_ms),
        )
    }
}

impl Sink for CaseFlow {
    fn on_flow(&mut self, flow: &FlowReport) {
        let course = self.active.remove(&flow.id).unwrap_or_default();
        let data =
            |flow: &FlowReport| -> u64 { flow.directions.iter().map(|way| way.volume.unique_bytes).sum() };
        if self.best.as_ref().is_none_or(|(best, _)| data(flow) > data(best)) {
            self.best = Some((flow.clone(), course));
        }
    }

    fn on_event(&mut self, event: &Event) {
        if let EventKind::Spurious { sent_ns, .. } = event.kind
            && let Some(course) = self.active.get_mut(&event.flow)
        {
            let sent = course.sent[event.direction].iter_mut().rev();
            sent.filter(|sent| sent.time_ns == sent_ns).for_each(|sent| sent.is_spurious = true);
        }
    }

    fn wants_packets(&self) -> bool {
        true
    }

    fn on_packet(&mut self, packet: &PacketView<'_>) {
        let course = self.active.entry(packet.flow).or_default();
        let (way, time_ns) = (packet.direction, packet.time.as_nanos());
        if packet.len > 0 && !packet.flags.contains(TcpFlags::RST) {
            let is_spurious =
                matches!(packet.kind, PacketKind::Retransmission { was_acknowledged: true, .. });
            let (position, len, kind) = (packet.position, packet.len, packet.kind);
            course.sent[way].push(DataPacket { time_ns, position, len, kind, is_spurious });
        }
        if let Some(ack) = packet.ack {
            course.acks[way.reverse()].push((time_ns, ack));
        }
        if let Some(rtt) = packet.rtt_karn {
            course.rtt[way.reverse()].push((time_ns, rtt.as_millis_f64()));
        }
    }
}

/// The axes that all cases of a scenario share.
struct FlowAxes {
    time: Axis,
    data: Axis,
    /// Logarithmic where round-trip times spread widely.
    rtt: Axis,
    seconds: f64,
}

impl FlowAxes {
    fn of<'a>(flows: impl Iterator<Item = &'a CaseFlow>) -> Self {
        let (mut seconds, mut megabytes, mut rtt) = (0.0f64, 0.0f64, (f64::INFINITY, 0.0f64));
        for (report, course, way) in flows.filter_map(CaseFlow::main) {
            seconds = seconds.max(report.duration_s);
            megabytes = megabytes.max(report.directions[way].volume.unique_bytes as f64 / 1e6);
            rtt = course.rtt[way].iter().fold(rtt, |(low, high), (_, ms)| (low.min(*ms), high.max(*ms)));
        }
        let name = "Round-trip time, ms";
        Self {
            time: Axis::exact("time, s").over(Range::Between(0.0, seconds)),
            data: Axis::linear("Position in the data, MB").over(Range::Between(0.0, megabytes)),
            rtt: match rtt.1 > WIDE_RATIO * rtt.0 {
                true => Axis::log(name).over(Range::Between(rtt.0, rtt.1)),
                false => Axis::linear(name).over(Range::Between(0.0, rtt.1)),
            },
            seconds,
        }
    }
}

/// Parts of the drawing of a flow: name, ink and mark. What was sent again follows from the third on.
const KEY: [(&str, Ink, Mark); 7] = [
    ("sent", Ink::Plain, Mark::Stems),
    ("acknowledged", Ink::Colour(2), Mark::Steps),
    ("sent again: fast", Ink::Colour(1), Mark::Ticks),
    ("time-out", Ink::Bad, Mark::Ticks),
    ("tail loss probe", Ink::Colour(0), Mark::Ticks),
    ("not needed", Ink::Colour(3), Mark::Ticks),
    ("late", Ink::Limit, Mark::Ticks),
];

/// The place in [`KEY`] of what was sent.
fn kind(sent: &DataPacket) -> usize {
    match sent.kind {
        PacketKind::Usual => 0,
        _ if sent.is_spurious => 5,
        PacketKind::Retransmission { cause: Cause::Fast, .. } => 2,
        PacketKind::Retransmission { cause: Cause::Tlp, .. } => 4,
        PacketKind::Retransmission { .. } => 3,
        _ => 6,
    }
}

/// The time-sequence graph of a case: what was sent as bars, what was acknowledged as a line, what was sent
/// again in colours.
fn sequence(flow: &CaseFlow, axes: &FlowAxes) -> Option<Chart> {
    let (report, course, way) = flow.main()?;
    let base = course.sent[way].iter().map(|sent| sent.position).min()?;
    let seconds = |ns: u64| ns.saturating_sub(report.start_ns) as f64 / 1e9;
    let megabytes = |position: u64| position.saturating_sub(base) as f64 / 1e6;
    let point = |sent: &DataPacket| {
        let (from, to) = (megabytes(sent.position), megabytes(sent.position + sent.len));
        Point::within(seconds(sent.time_ns), from, from, to)
    };
    let acked = || course.acks[way].iter().map(|(ns, ack)| Point::new(seconds(*ns), megabytes(*ack)));
    let series = KEY.iter().enumerate().map(|(number, (_, ink, mark))| match mark {
        Mark::Steps => Series::new("", *ink, *mark, acked()),
        _ => Series::new(
            "",
            *ink,
            *mark,
            course.sent[way].iter().filter(|sent| kind(sent) == number).map(point),
        ),
    });
    let title = format!("Data sent and acknowledged in {}", flow.case);
    Some(Chart::new(&title, axes.time.clone()).panel(axes.data.clone(), series.collect()))
}

/// Round-trip times of a case: in each column from the least to the most, and the mean as a line.
fn round_trips(flow: &CaseFlow, axes: &FlowAxes, colour: usize) -> Option<Chart> {
    let (report, course, way) = flow.main()?;
    let width = (axes.seconds / COLUMNS).max(1e-9);
    let mut columns: BTreeMap<u64, (f64, f64, f64, u32)> = BTreeMap::new();
    for (ns, ms) in &course.rtt[way] {
        let number = (ns.saturating_sub(report.start_ns) as f64 / 1e9 / width) as u64;
        let column = columns.entry(number).or_insert((*ms, *ms, 0.0, 0));
        *column = (column.0.min(*ms), column.1.max(*ms), column.2 + ms, column.3 + 1);
    }
    let (mut points, mut next) = (Vec::new(), None);
    for (number, (low, high, sum, count)) in columns {
        let x = (number as f64 + 0.5) * width;
        if next.is_some_and(|next| number > next + GAP) {
            points.push(Point::new(x, f64::NAN));
        }
        points.push(Point::within(x, sum / f64::from(count), low, high));
        next = Some(number);
    }
    let ink = Ink::Colour(colour);
    let mean = points.iter().map(|point| Point::new(point.x, point.y)).collect::<Vec<_>>();
    let series = vec![Series::new("", ink, Mark::Band, points), Series::new("", ink, Mark::Line, mean)];
    Some(
        Chart::new(&format!("Round-trip times in {}", flow.case), axes.time.clone())
            .panel(axes.rtt.clone(), series),
    )
}

/// The charts of a scenario's captured cases; `colours` gives a case's colour.
pub(crate) fn panels(flows: &[&CaseFlow], colour: &dyn Fn(&str) -> usize) -> Markup {
    if flows.iter().all(|flow| flow.main().is_none()) {
        return html! {};
    }
    let axes = FlowAxes::of(flows.iter().copied());
    let drawn = flows.iter().filter_map(|flow| {
        let colour = colour(&flow.case);
        Some((flow, colour, sequence(flow, &axes)?, round_trips(flow, &axes, colour)?))
    });
    let found = |flow: &CaseFlow| match flow.findings() {
        none if none.is_empty() => "nothing that held it back was found".to_owned(),
        findings => findings.join("; "),
    };
    html! {
        p class="facts" {
            b { "Captured beside the server" } ", read by " code { "cellerator analyze" } ": " (key(KEY))
        }
        div class="panels" {
            div class="heading" { "Time-sequence graph" }
            div class="heading" { "Round-trip time to the client, as the server sees it" }
            @for (flow, colour, sequence, round_trips) in drawn {
                (of_case(colour, &flow.case, &flow.resent(), &sequence))
                (of_case(colour, &flow.case, &flow.round_trips(), &round_trips))
            }
        }
        ul class="diagnoses" {
            @for flow in flows {
                li class=(class(Ink::Colour(colour(&flow.case)))) {
                    span class="swatch" {} b { (flow.case) } ": " (found(flow))
                }
            }
        }
    }
}

/// A chart of a case with its name and what is told of it.
pub(crate) fn of_case(colour: usize, case: &str, told: &str, chart: &Chart) -> Markup {
    html! {
        figure class=(class(Ink::Colour(colour))) {
            figcaption { span class="swatch" {} b { (case) } ": " (told) }
            (chart.half())
        }
    }
}
