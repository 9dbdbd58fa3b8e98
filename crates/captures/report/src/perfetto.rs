//! [`PerfettoTrace`]: flows as a trace that ui.perfetto.dev and chrome://tracing open.
//!
//! The JSON trace format: one process per flow, one track per direction with what was sent again, counters
//! for what is in flight, the window and round-trip times.

use std::collections::BTreeMap;
use std::io::{self, Write};

use analysis::{Direction, Event, EventKind, FlowReport, PacketView, PerDirection};
use serde::Serialize;
use serde_json::{Value, json};
use units::Instant;
use wire::TcpFlags;

use crate::variant_name::name_of;

/// Writes a trace while packets come.
#[derive(Debug)]
pub struct PerfettoTrace<W> {
    out: W,
    /// First time of all, which becomes zero: the format's times are floating-point microseconds.
    origin: Option<Instant>,
    /// Edge and acknowledged position of each direction.
    progress: BTreeMap<u64, PerDirection<(u64, u64)>>,
    has_written: bool,
    failed: Option<io::Error>,
}

impl<W: Write> PerfettoTrace<W> {
    /// Starts the trace.
    pub fn new(out: W) -> Self {
        let mut trace =
            Self { out, origin: None, progress: BTreeMap::new(), has_written: false, failed: None };
        trace.attempt(|out| write!(out, "{{\"displayTimeUnit\": \"ms\", \"traceEvents\": ["));
        trace
    }

    fn attempt(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = write(&mut self.out).err();
        }
    }

    fn event(&mut self, event: &Value) {
        let separator = if self.has_written { ",\n" } else { "\n" };
        self.has_written = true;
        self.attempt(|out| write!(out, "{separator}{event}"));
    }

    fn micros(&mut self, time: Instant) -> f64 {
        let origin = *self.origin.get_or_insert(time);
        time.saturating_since(origin).as_nanos() as f64 / 1_000.0
    }

    fn counter(&mut self, flow: u64, name: &str, at: f64, value: f64) {
        self.event(&json!({ "ph": "C", "pid": flow, "name": name, "ts": at, "args": { "value": value } }));
    }

    /// Adds what a packet changes.
    pub fn push(&mut self, packet: &PacketView<'_>) {
        let at = self.micros(packet.time);
        if packet.flags.contains(TcpFlags::RST) {
            return;
        }
        let (own, other) = (packet.direction, packet.direction.reverse());
        let progress = self.progress.entry(packet.flow).or_default();
        let before = *progress;
        let extra = u64::from(packet.flags.intersects(TcpFlags::SYN | TcpFlags::FIN));
        progress[own].0 = progress[own].0.max(packet.position + packet.len + extra);
        if let Some(ack) = packet.ack {
            progress[other].1 = progress[other].1.max(ack);
        }
        let after = *progress;
        for direction in [own, other] {
            let out = |(edge, acked): (u64, u64)| if acked == 0 { 0 } else { edge.saturating_sub(acked) };
            if out(before[direction]) != out(after[direction]) {
                let name = format!("in flight {}", way(direction));
                self.counter(packet.flow, &name, at, out(after[direction]) as f64);
            }
        }
        if let Some(rtt) = packet.rtt_karn {
            self.counter(packet.flow, &format!("RTT ms {}", way(other)), at, rtt.as_millis_f64());
        }
        if let Some(window) = packet.window {
            self.counter(packet.flow, &format!("window of {}", track(own)), at, window as f64);
        }
    }

    /// Adds an event as an instant on its direction's track.
    pub fn on_event(&mut self, event: &Event) {
        let at = self.micros(Instant::from_nanos(event.time_ns));
        let name = match event.kind {
            EventKind::Retransmission { cause } => format!("retransmission: {}", words(&cause)),
            EventKind::Spurious { cause, by, .. } => {
                format!("not needed ({}): known by {}", words(&cause), words(&by))
            }
            kind => words(&kind),
        };
        let args = json!({ "offset": event.offset, "bytes": event.len });
        let track = track(event.direction);
        self.event(&json!({ "ph": "i", "s": "t", "pid": event.flow, "tid": track, "name": name, "ts": at, "args": args }));
    }

    /// Names an ended flow's tracks, and its span.
    pub fn on_flow(&mut self, flow: &FlowReport) {
        self.progress.remove(&flow.id);
        let name = format!("{} - {}", flow.first, flow.second);
        self.event(&json!({ "ph": "M", "pid": flow.id, "name": "process_name", "args": { "name": name } }));
        for direction in Direction::BOTH {
            let args = json!({ "name": way(direction) });
            self.event(&json!({ "ph": "M", "pid": flow.id, "tid": track(direction), "name": "thread_name", "args": args }));
        }
        let from = self.micros(Instant::from_nanos(flow.start_ns));
        let found: Vec<&str> = flow.diagnoses.iter().map(|found| found.evidence.as_str()).collect();
        self.event(&json!({ "ph": "X", "pid": flow.id, "tid": 1, "name": "flow", "ts": from, "dur": flow.duration_s * 1e6, "args": { "found": found } }));
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// Writing failed, now or before.
    pub fn finish(mut self) -> io::Result<()> {
        self.attempt(|out| writeln!(out, "\n]}}"));
        self.failed.map_or_else(|| self.out.flush(), Err)
    }
}

/// The number of a direction's track, and of its sender.
fn track(direction: Direction) -> u8 {
    u8::from(direction) + 1
}

fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::FromFirst => "1>2",
        Direction::FromSecond => "2>1",
    }
}

/// The name that the JSON gives a kind, in words.
fn words(kind: &impl Serialize) -> String {
    name_of(kind).unwrap_or_default().replace('_', " ")
}
