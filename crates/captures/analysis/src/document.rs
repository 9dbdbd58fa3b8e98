//! [`DocumentWriter`]: the whole result as JSON, written while it is found.

use std::io::{self, Write};

use serde::Serialize;

use crate::analyzer::Sink;
use crate::event::Event;
use crate::mptcp::MptcpReport;
use crate::pairs::Pair;
use crate::quic::UdpReport;
use crate::report::FlowReport;

/// Name and version of the JSON schema.
pub const SCHEMA: &str = "cellerator/analysis/1";

/// Writes everything one analysis finds as one JSON document, one line per flow and event.
///
/// Flows go out as they end, so that memory does not grow with the capture; events are kept until the end.
#[derive(Debug)]
pub struct DocumentWriter<W> {
    out: W,
    /// Flows written.
    flows: u64,
    events: Option<Vec<Event>>,
    /// The first failure; nothing is written after it.
    failed: Option<io::Error>,
}

impl<W: Write> DocumentWriter<W> {
    /// Starts the document; with events if `wants_events`.
    pub fn new(out: W, made_by: &MadeBy, wants_events: bool) -> Self {
        let mut writer = Self { out, flows: 0, events: wants_events.then(Vec::new), failed: None };
        writer.attempt(|out| {
            write!(out, "{{\"schema\": \"{SCHEMA}\",\n\"made_by\": ")?;
            serde_json::to_writer(&mut *out, made_by)?;
            write!(out, ",\n\"flows\": [")
        });
        writer
    }

    fn attempt(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = write(&mut self.out).err();
        }
    }

    /// Ends the document.
    ///
    /// # Errors
    /// Writing failed, now or before.
    pub fn finish(mut self, findings: &Findings) -> io::Result<W> {
        let events = self.events.take();
        self.attempt(|out| {
            writeln!(out, "],")?;
            if let Some(events) = events {
                write!(out, "\"events\": [")?;
                write_lines(out, &events)?;
                writeln!(out, "],")?;
            }
            write!(out, "\"mptcp\": [")?;
            write_lines(out, &findings.mptcp)?;
            write!(out, "],\n\"pairs\": [")?;
            write_lines(out, &findings.pairs)?;
            write!(out, "],\n\"captures\": [")?;
            write_lines(out, &findings.captures)?;
            write!(out, "],\n\"udp\": ")?;
            serde_json::to_writer(&mut *out, &findings.udp)?;
            write!(out, ",\n\"quic\": [")?;
            write_lines(out, &findings.udp.quic)?;
            writeln!(out, "]}}")?;
            out.flush()
        });
        self.failed.map_or(Ok(self.out), Err)
    }
}

fn write_lines<T: Serialize>(out: &mut impl Write, items: &[T]) -> io::Result<()> {
    for (index, item) in items.iter().enumerate() {
        write!(out, "{}", if index > 0 { ",\n" } else { "\n" })?;
        serde_json::to_writer(&mut *out, item)?;
    }
    Ok(())
}

impl<W: Write> Sink for DocumentWriter<W> {
    fn on_flow(&mut self, flow: &FlowReport) {
        let separator = if self.flows > 0 { ",\n" } else { "\n" };
        self.flows += 1;
        self.attempt(|out| {
            write!(out, "{separator}")?;
            Ok(serde_json::to_writer(&mut *out, flow)?)
        });
    }
    fn on_event(&mut self, event: &Event) {
        if let Some(events) = &mut self.events {
            events.push(*event);
        }
    }
}

/// Results known when all captures have been read, besides flows and events.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The captures, in the order given.
    pub captures: Vec<CaptureFile>,
    /// Connections of Multipath TCP.
    pub mptcp: Vec<MptcpReport>,
    /// Flows captured at both ends.
    pub pairs: Vec<Pair>,
    /// All UDP, and its QUIC flows.
    pub udp: UdpReport,
}

/// Maker of a result.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MadeBy {
    /// Version of the program.
    pub cellerator: String,
    /// The command.
    pub command: String,
}

/// One capture and its health.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaptureFile {
    /// Its name.
    pub file: String,
    /// Packets read.
    pub packets: u64,
    /// Packets kept in part.
    pub clipped: u64,
    /// Steps back in time.
    pub time_steps_back: u64,
    /// Packets that lie in the file behind later ones and were put in the order of time.
    pub sorted: u64,
    /// Packet blocks that could not be read: of unknown interfaces or with impossible lengths.
    pub bad_blocks: u64,
    /// Packets that the capturing machine says it lost; none if it does not say.
    pub dropped: Option<u64>,
    /// Error that kept it from being read to its end, with its position.
    pub problem: Option<String>,
    /// Packets that gave no TCP segment, by reason.
    pub skipped: Skipped,
    /// TCP segments.
    pub segments: u64,
    /// UDP datagrams; they count as packets without TCP (`skipped.not_tcp`), too.
    pub datagrams: u64,
    /// Packets and segments by interface, where each is a capture point of its own (`--by-interface`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceCount>,
}

/// Packets of one interface of a capture.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceCount {
    /// Its number in the file, over all sections.
    pub interface: u32,
    /// Packets read.
    pub packets: u64,
    /// TCP segments.
    pub segments: u64,
}

/// Packets without a TCP segment, by reason.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skipped {
    /// Unknown link type.
    pub unknown_link: u64,
    /// No IP.
    pub not_ip: u64,
    /// No TCP.
    pub not_tcp: u64,
    /// Fragments, but the one that completes a segment: that one counts as the segment.
    pub fragment: u64,
    /// Headers cut or wrong.
    pub cut: u64,
}

impl Skipped {
    /// Counts one.
    pub fn count(&mut self, skip: capture::Skip) {
        let place = match skip {
            capture::Skip::UnknownLink => &mut self.unknown_link,
            capture::Skip::NotIp => &mut self.not_ip,
            capture::Skip::NotTcp => &mut self.not_tcp,
            capture::Skip::Fragment => &mut self.fragment,
            capture::Skip::Cut => &mut self.cut,
        };
        *place += 1;
    }
}
