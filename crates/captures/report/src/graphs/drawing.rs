//! [`Drawing`]: the graphs of one direction, mark by mark. The glyphs are those of tcptrace's graphs.

use analysis::{Cause, PacketKind, PacketView};
use units::Instant;
use wire::TcpFlags;

use super::{Mark, Pen, Wanted};

const fn pen(name: &'static str, colour: &'static str) -> Pen {
    Pen { name, colour }
}

const DATA: Pen = pen("data", "white");
const RESENT: Pen = pen("resent", "red");
const LATE: Pen = pen("late", "pink");
const CONTROL: Pen = pen("control", "orange");
const ACKED: Pen = pen("ack", "green");
const WINDOW: Pen = pen("window", "yellow");
const SACKED: Pen = pen("sack", "purple");
const RESET: Pen = pen("reset", "magenta");
const NOW: Pen = pen("instantaneous", "yellow");
const RECENT: Pen = pen("average", "red");
const SINCE_START: Pen = pen("since_start", "blue");

/// Segments that the running average of throughput takes in, as tcptrace's `-A 10`.
const AVERAGED: usize = 10;

/// Receiver of marks: graph, pen, mark.
type Draw<'a> = dyn FnMut(&'static str, Pen, Mark) + 'a;

/// One direction's graphs in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct Drawing {
    wanted: Wanted,
    first: Option<Instant>,
    bytes: u64,
    recent: Vec<(Instant, u64)>,
    edge: u64,
    acked: Option<(Instant, u64)>,
    window: Option<(Instant, u64)>,
    last_rtt: Option<(Instant, f64)>,
    last_out: Option<(Instant, u64)>,
    last_size: Option<(Instant, u64)>,
    duplicates: u32,
}

impl Drawing {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// A packet of this direction.
    pub(super) fn on_data(&mut self, packet: &PacketView<'_>, draw: &mut Draw<'_>) {
        self.first.get_or_insert(packet.time);
        if self.wanted.sequence {
            sequence(packet, draw);
        }
        if packet.flags.contains(TcpFlags::RST) {
            return;
        }
        let control = TcpFlags::SYN | TcpFlags::FIN;
        let extra = u64::from(packet.flags.intersects(control));
        self.edge = self.edge.max(packet.position + packet.len + extra);
        if packet.len == 0 {
            return;
        }
        self.bytes += packet.len;
        self.throughput(packet, draw);
        if self.wanted.segment_size {
            join(&mut self.last_size, packet.time, packet.len, "ssize", NOW, draw);
        }
        self.outstanding(packet.time, draw);
    }

    fn throughput(&mut self, packet: &PacketView<'_>, draw: &mut Draw<'_>) {
        if !self.wanted.throughput {
            return;
        }
        let now = packet.time;
        let rate = |bytes: u64, from: Instant| {
            let seconds = now.saturating_since(from).as_secs_f64();
            (seconds > 0.0).then(|| bytes as f64 / seconds)
        };
        if let Some(instantaneous) = self.recent.last().and_then(|last| rate(packet.len, last.0)) {
            draw("tput", NOW, Mark::Shape("dot", now.as_nanos(), instantaneous));
        }
        self.recent.push((now, packet.len));
        if let Some(average) = self.first.and_then(|first| rate(self.bytes, first)) {
            draw("tput", SINCE_START, Mark::Shape("dot", now.as_nanos(), average));
        }
        if self.recent.len() > AVERAGED {
            let bytes = self.recent.iter().skip(1).map(|one| one.1).sum();
            if let Some(average) = rate(bytes, self.recent[0].0) {
                draw("tput", RECENT, Mark::Shape("dot", now.as_nanos(), average));
            }
            self.recent.clear();
            self.recent.push((now, packet.len));
        }
    }

    /// A packet of the other direction.
    pub(super) fn on_answer(&mut self, packet: &PacketView<'_>, draw: &mut Draw<'_>) {
        let Some(ack) = packet.ack else { return };
        let now = packet.time;
        if let (true, Some(rtt)) = (self.wanted.rtt, packet.rtt_karn) {
            let rtt = rtt.as_millis_f64();
            let at = now.as_nanos();
            draw("rtt", RECENT, Mark::Shape("dot", at, rtt));
            if let Some((before, old)) = self.last_rtt.replace((now, rtt)) {
                draw("rtt", RECENT, Mark::Line(before.as_nanos(), old, at, rtt));
            }
        }
        if self.wanted.sequence {
            self.acknowledge(packet, ack, draw);
        } else {
            self.acked = Some((now, ack));
        }
        self.outstanding(now, draw);
    }

    fn outstanding(&mut self, now: Instant, draw: &mut Draw<'_>) {
        if let (true, Some((_, acked))) = (self.wanted.outstanding, self.acked) {
            let bytes = self.edge.saturating_sub(acked);
            join(&mut self.last_out, now, bytes, "owin", RECENT, draw);
        }
    }

    /// The green stairs of acknowledgements, the yellow ones of the window, and SACK.
    fn acknowledge(&mut self, packet: &PacketView<'_>, ack: u64, draw: &mut Draw<'_>) {
        let now = packet.time;
        self.duplicates = if packet.is_duplicate_ack { self.duplicates + 1 } else { 0 };
        let is_same = self.acked.is_some_and(|(_, old)| old == ack);
        stairs(&mut self.acked, now, ack, ACKED, draw);
        if is_same {
            draw("tsg", ACKED, Mark::Shape("dtick", now.as_nanos(), ack as f64));
        }
        if self.duplicates == 3 {
            draw("tsg", ACKED, Mark::Text("3", now.as_nanos(), ack as f64));
        }
        if let Some(window) = packet.window {
            let is_same = self.window.is_some_and(|(_, old)| old == ack + window);
            stairs(&mut self.window, now, ack + window, WINDOW, draw);
            if is_same {
                draw("tsg", WINDOW, Mark::Shape("utick", now.as_nanos(), (ack + window) as f64));
            }
            if window == 0 && !packet.flags.intersects(TcpFlags::SYN | TcpFlags::RST) {
                draw("tsg", RESET, Mark::Text("Z", now.as_nanos(), ack as f64));
            }
        }
        let mut highest = None;
        for (start, end) in packet.sacked() {
            let (at, start, end) = (now.as_nanos(), start as f64, end as f64);
            draw("tsg", SACKED, Mark::Line(at, start, at, end));
            draw("tsg", SACKED, Mark::Shape("htick", at, start));
            draw("tsg", SACKED, Mark::Shape("htick", at, end));
            highest = Some(highest.map_or(end, |old: f64| old.max(end)));
        }
        if let Some(highest) = highest {
            draw("tsg", SACKED, Mark::Text("S", now.as_nanos(), highest));
        }
    }
}

/// A step from the last value to this.
fn stairs(last: &mut Option<(Instant, u64)>, now: Instant, value: u64, pen: Pen, draw: &mut Draw<'_>) {
    let at = now.as_nanos();
    if let Some((before, old)) = last.replace((now, value)) {
        let is_step = old != value;
        let (old, new) = (old as f64, value as f64);
        draw("tsg", pen, Mark::Line(before.as_nanos(), old, at, old));
        if is_step {
            draw("tsg", pen, Mark::Line(at, old, at, new));
        }
    }
}

/// A line from the last value to this.
fn join(
    last: &mut Option<(Instant, u64)>,
    now: Instant,
    value: u64,
    graph: &'static str,
    pen: Pen,
    draw: &mut Draw<'_>,
) {
    let at = now.as_nanos();
    match last.replace((now, value)) {
        Some((before, old)) => draw(graph, pen, Mark::Line(before.as_nanos(), old as f64, at, value as f64)),
        None => draw(graph, pen, Mark::Shape("dot", at, value as f64)),
    }
}

/// A segment: a line with arrows at its ends, and what it is in letters.
fn sequence(packet: &PacketView<'_>, draw: &mut Draw<'_>) {
    let at = packet.time.as_nanos();
    let (start, end) = (packet.position as f64, (packet.position + packet.len) as f64);
    if packet.flags.contains(TcpFlags::RST) {
        draw("tsg", RESET, Mark::Text("RST_OUT", at, start));
        return;
    }
    let has = |flag| packet.flags.contains(flag);
    if has(TcpFlags::SYN) {
        draw("tsg", CONTROL, Mark::Shape("diamond", at, start));
        draw("tsg", CONTROL, Mark::Text(if is_again(packet) { "R SYN" } else { "SYN" }, at, start));
    }
    if has(TcpFlags::FIN) {
        draw("tsg", CONTROL, Mark::Shape("box", at, end));
        draw("tsg", CONTROL, Mark::Text(if is_again(packet) { "R FIN" } else { "FIN" }, at, end));
    }
    if packet.len == 0 && !packet.flags.intersects(TcpFlags::SYN | TcpFlags::FIN) {
        if packet.kind == PacketKind::KeepAlive || packet.kind == PacketKind::WindowProbe {
            draw("tsg", CONTROL, Mark::TextBelow("P", at, start));
        }
        return;
    }
    if packet.len == 0 {
        return;
    }
    let (pen, letter) = look(packet);
    draw("tsg", pen, Mark::Shape("darrow", at, start));
    draw("tsg", pen, Mark::Line(at, start, at, end));
    draw("tsg", pen, Mark::Shape(if has(TcpFlags::PSH) { "diamond" } else { "uarrow" }, at, end));
    if has(TcpFlags::URG) {
        draw("tsg", RESENT, Mark::Text("U", at, end));
    }
    match letter {
        "" => {}
        "P" => draw("tsg", CONTROL, Mark::TextBelow("P", at, start)),
        letter => draw("tsg", pen, Mark::Text(letter, at, end)),
    }
}

fn is_again(packet: &PacketView<'_>) -> bool {
    matches!(packet.kind, PacketKind::Retransmission { .. })
}

/// Pen and letter. tcptrace knows `R` and `O`; the causes are told apart by what follows the `R`.
fn look(packet: &PacketView<'_>) -> (Pen, &'static str) {
    match packet.kind {
        PacketKind::Usual => (DATA, ""),
        PacketKind::Retransmission { cause, .. } => (
            RESENT,
            match cause {
                Cause::Fast => "R fast",
                Cause::Rto | Cause::RtoRecovery => "R RTO",
                Cause::Tlp => "R TLP",
                Cause::Syn | Cause::Unclear => "R",
            },
        ),
        PacketKind::WindowProbe | PacketKind::KeepAlive => (DATA, "P"),
        PacketKind::Repaired | PacketKind::Reordered => (LATE, "O"),
    }
}
