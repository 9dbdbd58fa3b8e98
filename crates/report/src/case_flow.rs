//! [`CaseFlow`]: the largest flow of a case's capture, as charts of the lab's report.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use analysis::{Cause, Event, EventKind, FlowReport, PacketKind, PacketView, Sink};
use wire::TcpFlags;

use crate::axis::Axis;
use crate::chart::{LEFT, RIGHT, TOP, WIDTH, frame, open, plot_bottom};
use crate::html::escape;

/// One packet of data.
#[derive(Clone, Copy, Debug)]
struct Sent {
    time_ns: u64,
    position: u64,
    len: u64,
    kind: PacketKind,
    is_needless: bool,
}

/// A flow while it goes on.
#[derive(Debug, Default)]
struct Course {
    sent: [Vec<Sent>; 2],
    /// When, and what was acknowledged, by the direction of the data.
    acks: [Vec<(u64, u64)>; 2],
    /// When, and how long, in milliseconds, by the direction of the data.
    rtt: [Vec<(u64, f64)>; 2],
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
    fn main(&self) -> Option<(&FlowReport, &Course, usize)> {
        let (report, course) = self.best.as_ref()?;
        let way = usize::from(report.directions[1].unique_bytes > report.directions[0].unique_bytes);
        Some((report, course, way))
    }

    /// What was found, in sentences.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let Some((report, ..)) = self.main() else { return Vec::new() };
        report
            .diagnoses
            .iter()
            .map(|found| format!("{}: {}", found.kind.name().replace('_', " "), found.evidence))
            .collect()
    }

    /// What was sent again, in words.
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
        let data = |flow: &FlowReport| -> u64 { flow.directions.iter().map(|way| way.unique_bytes).sum() };
        if self.best.as_ref().is_none_or(|(best, _)| data(flow) > data(best)) {
            self.best = Some((flow.clone(), course));
        }
    }

    fn on_event(&mut self, event: &Event) {
        if let EventKind::Spurious { sent_ns, .. } = event.kind
            && let Some(course) = self.active.get_mut(&event.flow)
        {
            let sent = course.sent[usize::from(event.direction)].iter_mut().rev();
            sent.filter(|sent| sent.time_ns == sent_ns).for_each(|sent| sent.is_needless = true);
        }
    }

    fn wants_packets(&self) -> bool {
        true
    }

    fn on_packet(&mut self, packet: &PacketView<'_>) {
        let course = self.active.entry(packet.flow).or_default();
        let (way, time_ns) = (usize::from(packet.direction), packet.time.as_nanos());
        if packet.len > 0 && !packet.flags.contains(TcpFlags::RST) {
            let is_needless = matches!(packet.kind, PacketKind::Retransmission { is_needless: true, .. });
            let (position, len, kind) = (packet.position, packet.len, packet.kind);
            course.sent[way].push(Sent { time_ns, position, len, kind, is_needless });
        }
        if let Some(ack) = packet.ack {
            course.acks[1 - way].push((time_ns, ack));
        }
        if let Some(rtt) = packet.rtt_karn {
            course.rtt[1 - way].push((time_ns, rtt.as_millis_f64()));
        }
    }
}

/// The scales that all cases of a scenario share.
pub(crate) struct FlowScales {
    seconds: f64,
    megabytes: f64,
    /// Least and largest round-trip time.
    rtt_ms: (f64, f64),
}

impl FlowScales {
    pub(crate) fn of<'a>(flows: impl Iterator<Item = &'a CaseFlow>) -> Self {
        let mut scales = Self { seconds: 0.0, megabytes: 0.0, rtt_ms: (f64::INFINITY, 0.0) };
        for (report, course, way) in flows.filter_map(CaseFlow::main) {
            scales.seconds = scales.seconds.max(report.duration_s);
            scales.megabytes = scales.megabytes.max(report.directions[way].unique_bytes as f64 / 1e6);
            let both = |(low, high): (f64, f64), (_, ms): &(u64, f64)| (low.min(*ms), high.max(*ms));
            scales.rtt_ms = course.rtt[way].iter().fold(scales.rtt_ms, both);
        }
        scales
    }

    fn time(&self) -> Axis {
        Axis::linear_to(self.seconds, 8, (LEFT, WIDTH - RIGHT))
    }

    /// Logarithmic where round-trip times spread widely.
    fn rtt(&self) -> Axis {
        let ((low, high), pixels) = (self.rtt_ms, (plot_bottom(), TOP));
        if high > 30.0 * low { Axis::log(low, high, pixels) } else { Axis::linear(high, 4, pixels) }
    }
}

/// Colour classes of what was sent again.
fn class(sent: &Sent) -> &'static str {
    match sent.kind {
        _ if sent.is_needless => "needless",
        PacketKind::Retransmission { cause: Cause::Fast, .. } => "fast",
        PacketKind::Retransmission { cause: Cause::Tlp, .. } => "tlp",
        PacketKind::Retransmission { .. } => "rto",
        _ => "late",
    }
}

/// The time-sequence graph of a case: what was sent as bars, what was acknowledged as a line, what was sent again in colours.
pub(crate) fn sequence(flow: &CaseFlow, scales: &FlowScales) -> Option<String> {
    let (report, course, way) = flow.main()?;
    let (x, y) = (scales.time(), Axis::linear(scales.megabytes, 4, (plot_bottom(), TOP)));
    let base = course.sent[way].iter().map(|sent| sent.position).min()?;
    let seconds = |ns: u64| (ns.saturating_sub(report.start_ns)) as f64 / 1e9;
    let megabytes = |position: u64| position.saturating_sub(base) as f64 / 1e6;
    let mut svg = open(&format!("Data sent and acknowledged in {}, in megabytes against seconds", flow.case));
    frame(&mut svg, &x, &y, "MB");
    let acks = course.acks[way].iter().map(|(ns, ack)| (x.at(seconds(*ns)), y.at(megabytes(*ack))));
    let _ = write!(svg, r#"<path class="acked" d="{}"/>"#, thinned(acks));
    // All bars of a column of half a pixel are one.
    let mut columns: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for sent in course.sent[way].iter().filter(|sent| sent.kind == PacketKind::Usual) {
        let (top, bottom) = (y.at(megabytes(sent.position + sent.len)), y.at(megabytes(sent.position)));
        let column = columns.entry((x.at(seconds(sent.time_ns)) * 2.0) as i64).or_insert((top, bottom));
        *column = (column.0.min(top), column.1.max(bottom));
    }
    let mut bars = String::new();
    for (column, (top, bottom)) in columns {
        let _ = write!(bars, "M{:.1} {top:.1}V{:.1}", column as f64 / 2.0, bottom.max(top + 0.8));
    }
    let _ = write!(svg, r#"<path class="sent" d="{bars}"/>"#);
    let mut again: BTreeMap<&str, String> = BTreeMap::new();
    for sent in course.sent[way].iter().filter(|sent| sent.kind != PacketKind::Usual) {
        let (px, py) = (x.at(seconds(sent.time_ns)), y.at(megabytes(sent.position)));
        let _ = write!(again.entry(class(sent)).or_default(), "M{px:.1} {:.1}v7", py - 3.5);
    }
    for (class, path) in again {
        let _ = write!(svg, r#"<path class="again {class}" d="{path}"/>"#);
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// A line through points in the order of time, of which those that share a pixel's column become the last.
fn thinned(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    let mut last: Option<(f64, f64)> = None;
    for (px, py) in points {
        let Some((x, y)) = last else {
            let _ = write!(path, "M{px:.1} {py:.1}");
            last = Some((px, py));
            continue;
        };
        if px - x >= 0.5 {
            let _ = write!(path, "H{px:.1}V{py:.1}");
            last = Some((px, py));
        } else if py < y {
            let _ = write!(path, "V{py:.1}");
            last = Some((x, py));
        }
    }
    path
}

/// Round-trip times of a case: in each column from the least to the most, and the mean as a line.
pub(crate) fn round_trips(flow: &CaseFlow, scales: &FlowScales) -> Option<String> {
    let (report, course, way) = flow.main()?;
    let (x, y) = (scales.time(), scales.rtt());
    let mut svg = open(&format!("Round-trip times in {}, in milliseconds against seconds", flow.case));
    frame(&mut svg, &x, &y, "ms");
    let mut columns: BTreeMap<i64, (f64, f64, f64, u32)> = BTreeMap::new();
    for (ns, ms) in &course.rtt[way] {
        let px = x.at(ns.saturating_sub(report.start_ns) as f64 / 1e9) as i64;
        let column = columns.entry(px).or_insert((*ms, *ms, 0.0, 0));
        *column = (column.0.min(*ms), column.1.max(*ms), column.2 + ms, column.3 + 1);
    }
    let (mut spread, mut mean) = (String::new(), String::new());
    let mut before = None;
    for (px, (low, high, sum, count)) in columns {
        let _ = write!(spread, "M{px} {:.1}V{:.1}", y.at(high), y.at(low) + 0.8);
        let pen = if before.is_some_and(|before| px - before <= 12) { 'L' } else { 'M' };
        let _ = write!(mean, "{pen}{px} {:.1}h.6", y.at(sum / f64::from(count)));
        before = Some(px);
    }
    let _ = write!(svg, r#"<path class="spread" d="{spread}"/><path class="line" d="{mean}"/></svg>"#);
    Some(svg)
}

/// The panels of a scenario's captured cases; `colours` gives a case's class.
pub(crate) fn panels(html: &mut String, flows: &[&CaseFlow], colour: &dyn Fn(&str) -> usize) {
    if flows.iter().all(|flow| flow.main().is_none()) {
        return;
    }
    let scales = FlowScales::of(flows.iter().copied());
    html.push_str("<p class=\"facts\"><b>Captured beside the server</b>, read by <code>cellerator analyze</code>: <span class=\"key sent\"></span>sent <span class=\"key acked\"></span>acknowledged <span class=\"key fast\"></span>sent again: fast <span class=\"key rto\"></span>time-out <span class=\"key tlp\"></span>tail loss probe <span class=\"key needless\"></span>not needed</p>\n");
    html.push_str("<div class=\"panels\">\n<div class=\"heading\">Time-sequence graph</div><div class=\"heading\">Round-trip time to the client, as the server sees it</div>\n");
    for flow in flows {
        let (Some(sequence), Some(rtt)) = (sequence(flow, &scales), round_trips(flow, &scales)) else {
            continue;
        };
        let (class, name) = (colour(&flow.case), escape(&flow.case));
        let _ = writeln!(
            html,
            "<figure class=\"c{class}\"><figcaption><span class=\"swatch\"></span><b>{name}</b>: {}</figcaption>{sequence}</figure>",
            escape(&flow.resent())
        );
        let _ = writeln!(
            html,
            "<figure class=\"c{class}\"><figcaption><span class=\"swatch\"></span><b>{name}</b>: {}</figcaption>{rtt}</figure>",
            escape(&flow.round_trips())
        );
    }
    html.push_str("</div>\n<ul class=\"diagnoses\">\n");
    for flow in flows {
        let (class, name) = (colour(&flow.case), escape(&flow.case));
        let findings = flow.findings();
        let said = if findings.is_empty() {
            "nothing that held it back was found".to_owned()
        } else {
            findings.join("; ")
        };
        let _ = writeln!(
            html,
            "<li class=\"c{class}\"><span class=\"swatch\"></span><b>{name}</b>: {}</li>",
            escape(&said)
        );
    }
    html.push_str("</ul>\n");
}
