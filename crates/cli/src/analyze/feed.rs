//! [`Feed`]: from captures to segments.

use analysis::{CaptureFile, MptcpAnalyzer, MptcpReport, SegmentRecord};
use capture::{Merged, Reassembly, mptcp_options};

use super::inputs::Input;

/// Reads captures and gives their TCP segments in the order of time.
pub(super) struct Feed {
    merged: Merged<Input>,
    fragments: Reassembly,
    captures: Vec<CaptureFile>,
    mptcp: MptcpAnalyzer,
    one_point: bool,
    /// Segments given.
    segments: u64,
}

impl Feed {
    /// With `keeps_mappings`, what packets of Multipath TCP carry is kept for graphs.
    pub(super) fn new(inputs: Vec<Input>, one_point: bool, keeps_mappings: bool) -> Self {
        let captures = inputs.iter().map(Input::as_capture).collect();
        let (merged, mptcp) = (Merged::new(inputs), MptcpAnalyzer::default());
        Self {
            merged,
            fragments: Reassembly::default(),
            captures,
            mptcp: if keeps_mappings { mptcp.keeping_mappings() } else { mptcp },
            one_point,
            segments: 0,
        }
    }

    /// Gives the next `count` segments to `take`; false when there are no more.
    pub(super) fn read(&mut self, count: usize, mut take: impl FnMut(SegmentRecord)) -> bool {
        let mut left = count;
        while left > 0 {
            if !self.merged.advance() {
                return false;
            }
            let Some((source, record)) = self.merged.current() else { return false };
            let point = if self.one_point { 0 } else { self.merged.point(source) };
            let whole = self.fragments.decode(point, record.link, record.bytes, record.wire_len, record.time);
            // By reference: it is large.
            let segment = match &whole {
                Ok(segment) => segment,
                Err(skip) => {
                    self.captures[source].skipped.count(*skip);
                    continue;
                }
            };
            self.captures[source].segments += 1;
            if segment.tcp.options.mptcp
                && let Some(bytes) = record.bytes.get(segment.ip_at..)
                && let Some(options) = mptcp_options(bytes, &segment.tcp)
            {
                self.mptcp.handle(point, segment, &options, record.time);
            } else if segment.tcp.payload_len > 0 {
                self.mptcp.handle_plain(point, segment, record.time);
            }
            let interface = (source as u32) << 16 ^ record.interface;
            let taken = SegmentRecord::of(self.segments, point, segment, record.time);
            take(taken.seen_on(interface, record.link, record.bytes).read_from(source as u16));
            self.segments += 1;
            left -= 1;
        }
        true
    }

    /// The captures' health, and what their Multipath TCP options tell.
    pub(super) fn finish(mut self) -> (Vec<CaptureFile>, Vec<MptcpReport>) {
        for (capture, health) in self.captures.iter_mut().zip(self.merged.healths()) {
            capture.packets = health.packets;
            capture.clipped = health.clipped;
            capture.time_steps_back = health.time_steps_back;
            capture.bad_blocks = health.bad_blocks;
            capture.dropped = health.dropped;
        }
        for (capture, sorted) in self.captures.iter_mut().zip(self.merged.sorted()) {
            capture.sorted = *sorted;
        }
        for problem in self.merged.problems() {
            if let Some(capture) = self.captures.iter_mut().find(|capture| capture.file == problem.name) {
                capture.problem = Some(problem.error.to_string());
            }
        }
        (self.captures, self.mptcp.finish())
    }
}
