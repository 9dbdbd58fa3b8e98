//! [`Feed`]: from captures to segments.

use analysis::{
    CaptureFile, InterfaceCount, MptcpAnalyzer, MptcpReport, QuicAnalyzer, SegmentRecord, UdpReport,
};
use capture::{Merged, Reassembly, Skip, datagram, mptcp_options};
use units::Duration;

use super::inputs::Input;

/// Choice of capture points.
#[derive(Clone, Debug)]
pub(super) enum Points {
    /// Everything is one.
    One,
    /// Files that overlap in time.
    Files,
    /// As files, and each interface by itself: the numbers of those seen, by file's point and interface.
    Interfaces(Vec<(u16, u32)>),
}

impl Points {
    /// The point of a packet of a file at `of_file`.
    #[inline]
    fn of(&mut self, of_file: u16, interface: u32) -> u16 {
        match self {
            Self::One => 0,
            Self::Files => of_file,
            Self::Interfaces(seen) => {
                let is_it = |known: &(u16, u32)| *known == (of_file, interface);
                let place = seen.iter().position(is_it).unwrap_or_else(|| {
                    seen.push((of_file, interface));
                    seen.len() - 1
                });
                u16::try_from(place).unwrap_or(u16::MAX)
            }
        }
    }
}

/// Reads captures and gives their TCP segments in the order of time.
pub(super) struct Feed {
    merged: Merged<Input>,
    fragments: Reassembly,
    captures: Vec<CaptureFile>,
    mptcp: MptcpAnalyzer,
    quic: QuicAnalyzer,
    points: Points,
    /// Segments given.
    segments: u64,
}

impl Feed {
    /// With `keeps_mappings`, what packets of Multipath TCP carry is kept for graphs. A QUIC flow that is silent for
    /// `idle` has ended.
    pub(super) fn new(inputs: Vec<Input>, points: Points, keeps_mappings: bool, idle: Duration) -> Self {
        let captures = inputs.iter().map(Input::as_capture).collect();
        let (merged, mptcp) = (Merged::new(inputs), MptcpAnalyzer::default());
        Self {
            merged,
            fragments: Reassembly::default(),
            captures,
            mptcp: if keeps_mappings { mptcp.keeping_mappings() } else { mptcp },
            quic: QuicAnalyzer::new(idle),
            points,
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
            let point = self.points.of(self.merged.point(source), record.interface);
            if let Points::Interfaces(_) = self.points {
                count_of(&mut self.captures[source].interfaces, record.interface).packets += 1;
            }
            let whole = self.fragments.decode(point, record.link, record.bytes, record.wire_len, record.time);
            // By reference: it is large.
            let segment = match &whole {
                Ok(segment) => segment,
                Err(skip) => {
                    self.captures[source].skipped.count(*skip);
                    if *skip == Skip::NotTcp
                        && let Ok(found) = datagram(record.link, record.bytes, record.wire_len)
                    {
                        self.captures[source].datagrams += 1;
                        self.quic.handle(point, source as u16, &found, record.bytes, record.time);
                    }
                    continue;
                }
            };
            self.captures[source].segments += 1;
            if let Points::Interfaces(_) = self.points {
                count_of(&mut self.captures[source].interfaces, record.interface).segments += 1;
            }
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

    /// The captures' health, what their Multipath TCP options tell, and their UDP.
    pub(super) fn finish(mut self) -> (Vec<CaptureFile>, Vec<MptcpReport>, UdpReport) {
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
        (self.captures, self.mptcp.finish(), self.quic.finish())
    }
}

/// Counts of an interface.
fn count_of(counts: &mut Vec<InterfaceCount>, interface: u32) -> &mut InterfaceCount {
    let place = counts.binary_search_by_key(&interface, |count| count.interface).unwrap_or_else(|place| {
        counts.insert(place, InterfaceCount { interface, packets: 0, segments: 0 });
        place
    });
    &mut counts[place]
}
