//! The captures written again as pcapng, with what was found as comments of packets.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufWriter};

use analysis::{Cause, Direction, Event, EventKind, FlowReport, PacketKind, PacketView, Sink, SpuriousBy};
use capture::{Merged, PcapngWriter, Reassembly};

use super::inputs::Input;

/// Collects what is to be said of packets, by their number among all segments.
#[derive(Default)]
pub(super) struct Verdicts {
    /// As of the first reading.
    one_point: bool,
    comments: BTreeMap<u64, String>,
    /// Retransmissions by flow, direction and time, to find them when they turn out not to have been needed.
    repeats: HashMap<(u64, Direction, u64), u64>,
}

impl Verdicts {
    /// Nothing collected; `one_point` if all files were captured at one place.
    pub(super) fn new(one_point: bool) -> Self {
        Self { one_point, ..Self::default() }
    }
}

impl Sink for Verdicts {
    fn on_flow(&mut self, _flow: &FlowReport) {}

    fn on_event(&mut self, event: &Event) {
        if let EventKind::Spurious { by, sent_ns, .. } = event.kind {
            let number = self.repeats.get(&(event.flow, event.direction, sent_ns));
            if let Some(comment) = number.and_then(|number| self.comments.get_mut(number)) {
                comment.push_str(match by {
                    SpuriousBy::Dsack => "; not needed: the receiver reported a duplicate (D-SACK)",
                    SpuriousBy::Timestamp => "; not needed: the answer echoes an older timestamp (Eifel)",
                    SpuriousBy::Acknowledged => "; not needed: acknowledged before",
                });
            }
        }
    }

    fn wants_packets(&self) -> bool {
        true
    }

    fn on_packet(&mut self, packet: &PacketView<'_>) {
        let comment = comment(packet);
        if comment.is_empty() {
            return;
        }
        if matches!(packet.kind, PacketKind::Retransmission { .. }) {
            self.repeats.insert((packet.flow, packet.direction, packet.time.as_nanos()), packet.number);
        }
        self.comments.insert(packet.number, format!("cellerator: flow {}: {comment}", packet.flow));
    }
}

fn comment(packet: &PacketView<'_>) -> String {
    let mut said: Vec<&str> = Vec::new();
    match packet.kind {
        PacketKind::Usual => {}
        PacketKind::Retransmission { cause, was_acknowledged } => {
            said.push(match cause {
                Cause::Syn => "SYN again",
                Cause::Rto => "retransmission: time-out",
                Cause::RtoRecovery => "retransmission: after a time-out",
                Cause::Fast => "retransmission: fast",
                Cause::Tlp => "retransmission: tail loss probe",
                Cause::Unclear => "retransmission",
            });
            if was_acknowledged {
                said.push("not needed: acknowledged before");
            }
        }
        PacketKind::WindowProbe => said.push("probe of a zero window"),
        PacketKind::KeepAlive => said.push("keep-alive"),
        PacketKind::Repaired => said.push("repairs a loss before the capture point"),
        PacketKind::Reordered => said.push("late: overtaken by later data"),
    }
    if packet.is_duplicate_ack {
        said.push("duplicate acknowledgement");
    }
    if packet.window == Some(0) {
        said.push("window of zero");
    }
    said.join("; ")
}

impl Verdicts {
    /// Reads the captures again and writes them with comments, in the order of time.
    ///
    /// # Errors
    /// Writing failed. What cannot be read was said before.
    pub(super) fn write(&self, out: BufWriter<File>, inputs: Vec<Input>) -> io::Result<()> {
        let mut writer = PcapngWriter::new(out)?;
        let mut merged = Merged::new(inputs);
        let mut fragments = Reassembly::default();
        let mut number = 0;
        while merged.advance() {
            let Some((source, record)) = merged.current() else { break };
            let point = if self.one_point { 0 } else { merged.point(source) };
            // Numbers are right only if this finds the segments that the first reading found.
            let found = fragments.decode(point, record.link, record.bytes, record.wire_len, record.time);
            let is_segment = found.is_ok();
            let comment = if is_segment { self.comments.get(&number).map_or("", String::as_str) } else { "" };
            writer.packet(&record, comment)?;
            number += u64::from(is_segment);
        }
        writer.finish()
    }
}
