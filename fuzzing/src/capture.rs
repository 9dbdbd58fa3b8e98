//! Readers of captures, and the analysis behind them.

use std::io::Read;
use std::sync::Mutex;

use analysis::{
    Analyzer, Config, DocumentWriter, Event, FindingMerger, FlowReport, MadeBy, Part, QuicAnalyzer,
    SegmentRecord, Sink, part_of,
};
use capture::{Format, Health, Merged, Ordered, Reader, Reassembly, Record, Segment, datagram, decode};
use units::{Duration, Instant};

/// Longest content of a packed file, bytes: enough for any seed, too little to wait for.
const UNPACKED_MAX: u64 = 1 << 18;

/// Gives its bytes in pieces of one to 61 bytes, as a pipe may.
struct Trickle<'a> {
    left: &'a [u8],
    step: usize,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.step = self.step * 7 % 61 + 1;
        let (now, later) = self.left.split_at(self.step.min(self.left.len()).min(buffer.len()));
        buffer[..now.len()].copy_from_slice(now);
        self.left = later;
        Ok(now.len())
    }
}

/// One frame, with everything a reader says about it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Frame {
    time: Instant,
    interface: u32,
    link: u16,
    wire_len: u32,
    bytes: Vec<u8>,
}

impl Frame {
    fn of(record: &Record<'_>) -> Self {
        Self {
            time: record.time,
            interface: record.interface,
            link: record.link.0,
            wire_len: record.wire_len,
            bytes: record.bytes.to_vec(),
        }
    }
}

/// All frames of a capture, and how it ended.
#[derive(PartialEq, Eq, Debug)]
struct Reading {
    frames: Vec<Frame>,
    health: Health,
    problem: Option<String>,
}

/// Reads to the end. None when `source` does not start like a capture of this format.
fn read(source: impl Read, wanted: Option<Format>) -> Option<Reading> {
    let mut reader = Reader::new(source).ok()?;
    if wanted.is_some_and(|format| format != reader.format()) {
        return None;
    }
    let mut frames = Vec::new();
    let mut position = 0;
    let problem = loop {
        match reader.advance() {
            Ok(true) => {}
            Ok(false) => break None,
            Err(error) => break Some(error.to_string()),
        }
        assert!(reader.position() >= position, "the position went back");
        position = reader.position();
        let record = reader.current().expect("advance() said there is a frame");
        frames.push(Frame::of(&record));
    };
    assert!(reader.current().is_none(), "a frame after the end");
    assert!(problem.is_some() || matches!(reader.advance(), Ok(false)), "the end does not stay the end");
    Some(Reading { frames, health: *reader.health(), problem })
}

/// Put in the order of time, frames are the same, with no more steps back than before, and the file ends the
/// same way.
fn check_order(bytes: &[u8], whole: &Reading) {
    let mut ordered = Ordered::new(Reader::new(bytes).expect("it started well before"));
    let mut frames = Vec::new();
    let problem = loop {
        match ordered.advance() {
            Ok(true) => frames.push(Frame::of(&ordered.current().expect("advance() said there is a frame"))),
            Ok(false) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    assert_eq!((&whole.health, &whole.problem), (ordered.health(), &problem));
    let is_in_order = whole.frames.is_sorted_by_key(|frame| frame.time);
    assert!(!is_in_order || (frames == whole.frames && ordered.sorted() == 0), "it was in order");
    let all = |mut frames: Vec<Frame>| {
        frames.sort_by(|a, b| (a.time, a.interface, &a.bytes).cmp(&(b.time, b.interface, &b.bytes)));
        frames
    };
    assert_eq!(all(whole.frames.clone()), all(frames), "order changes what is read");
}

/// A reader's promises: frames lie in the file, how the bytes arrive does not matter, and a file that is cut
/// gives the frames before the cut.
fn check_reader(bytes: &[u8], format: Format) {
    let Some(whole) = read(bytes, Some(format)) else { return };
    let held: usize = whole.frames.iter().map(|frame| frame.bytes.len()).sum();
    assert!(held <= bytes.len(), "{held} bytes in frames of a file of {}", bytes.len());
    assert_eq!(whole.health.packets, whole.frames.len() as u64);
    for frame in &whole.frames {
        let _ = decode(capture::LinkType(frame.link), &frame.bytes, frame.wire_len);
    }
    check_order(bytes, &whole);
    let trickled = read(Trickle { left: bytes, step: bytes.len() }, None).expect("it started well before");
    assert_eq!(whole, trickled, "the result depends on how the bytes arrive");
    let cut = bytes.len() - bytes.len() / 4;
    if let Some(part) = read(&bytes[..cut], None) {
        let same = whole.frames.get(..part.frames.len());
        assert_eq!(same, Some(&part.frames[..]), "a file that is cut gives other frames");
    }
}

/// pcap, and snoop, which is as simple: see `check_reader`.
pub fn pcap(bytes: &[u8]) {
    check_reader(bytes, Format::Pcap);
    check_reader(bytes, Format::Snoop);
}

/// pcapng: see `check_reader`.
pub fn pcapng(bytes: &[u8]) {
    check_reader(bytes, Format::Pcapng);
}

/// Packed captures: unpacking ends, and gives the same bytes however they are asked for.
pub fn packed(bytes: &[u8]) {
    let unpack = || capture::decompressed(std::io::Cursor::new(bytes.to_vec()));
    let Ok(stream) = unpack() else { return };
    let mut all = Vec::new();
    let outcome = stream.take(UNPACKED_MAX).read_to_end(&mut all);
    let mut again = Vec::new();
    if let (Ok(_), Ok(mut stream)) = (outcome, unpack()) {
        let mut piece = [0; 777];
        while let Ok(count) = stream.read(&mut piece) {
            again.extend_from_slice(&piece[..count]);
            if count == 0 || again.len() >= all.len() {
                break;
            }
        }
        again.truncate(all.len());
        assert_eq!(all, again, "unpacking depends on how it is asked");
    }
    let _ = read(&all[..], None);
}

/// Results of the analysis: the document, and what is counted beside it.
struct Found {
    document: DocumentWriter<Vec<u8>>,
    flows: u64,
    packets: u64,
    /// Numbers of flows that events name are below this.
    flows_of_events: u64,
}

impl Sink for Found {
    fn on_flow(&mut self, flow: &FlowReport) {
        check_flow(flow);
        self.flows += 1;
        let seen = |volume: &analysis::Volume| volume.packets + volume.duplicates;
        self.packets += flow.directions.iter().map(|direction| seen(&direction.volume)).sum::<u64>();
        self.document.on_flow(flow);
    }
    fn on_event(&mut self, event: &Event) {
        self.flows_of_events = self.flows_of_events.max(event.flow + 1);
        self.document.on_event(event);
    }
}

/// Figures of one flow that must fit each other.
fn check_flow(flow: &FlowReport) {
    assert!(flow.duration_s >= 0.0 && flow.duration_s.is_finite());
    for direction in &flow.directions {
        assert!(
            direction.volume.unique_bytes <= direction.volume.payload_bytes,
            "more unique bytes than bytes: {direction:?}"
        );
        assert!(
            direction.volume.data_packets <= direction.volume.packets
                && direction.flags.pure_acks <= direction.volume.packets
        );
        assert!(
            direction.volume.wire_segments >= direction.volume.packets,
            "fewer segments than packets: {direction:?}"
        );
        let rates = [
            direction.throughput.elapsed_bps,
            direction.throughput.active_bps,
            direction.throughput.p50_bps,
            direction.throughput.p95_bps,
        ];
        assert!(rates.into_iter().flatten().all(|rate| rate >= 0.0 && rate.is_finite()), "{rates:?}");
    }
}

/// An analysis under way.
pub(crate) struct Study {
    analyzer: Analyzer<Found>,
    segments: u64,
}

impl Study {
    pub(crate) fn new() -> Self {
        Self { analyzer: Analyzer::new(Config::default(), Found::new()), segments: 0 }
    }

    pub(crate) fn take(&mut self, point: u16, segment: &Segment, time: Instant) {
        self.segments += 1;
        self.analyzer.handle_segment(point, segment, time);
    }

    /// Ends the analysis.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.analyzer.finish().finish(self.segments)
    }
}

impl Found {
    fn new() -> Self {
        let made_by = MadeBy { cellerator: "0".to_owned(), command: "fuzz".to_owned() };
        let document = DocumentWriter::new(Vec::new(), &made_by, true);
        Self { document, flows: 0, packets: 0, flows_of_events: 0 }
    }

    /// The document: it must be JSON that says what was counted.
    fn finish(self, segments: u64) -> Vec<u8> {
        assert_eq!(self.packets, segments, "packets in flows and duplicates of them, segments handed in");
        assert!(self.flows_of_events <= self.flows, "an event of a flow that never ended");
        let flows = self.flows;
        let text = self.document.finish(&analysis::Findings::default()).expect("a Vec takes everything");
        let value: serde_json::Value = serde_json::from_slice(&text).expect("the document is JSON");
        assert_eq!(value["flows"].as_array().map(|list| list.len() as u64), Some(flows));
        text
    }
}

/// The same segments in three parts, in rounds of seven.
fn in_parts(passages: &[SegmentRecord]) -> Vec<u8> {
    const PARTS: usize = 3;
    let mut parts: Vec<Part> = (0..PARTS).map(|_| Part::new(Config::default())).collect();
    let mut gather = FindingMerger::new(Config::default(), Found::new());
    let mut found = Vec::new();
    for round in passages.chunks(7) {
        for (index, part) in parts.iter_mut().enumerate() {
            let own: Vec<SegmentRecord> =
                round.iter().filter(|one| part_of(one, PARTS) == index).copied().collect();
            found.extend(part.handle(&own));
        }
        gather.take(&mut found);
    }
    found.extend(parts.into_iter().flat_map(Part::finish));
    gather.take(&mut found);
    gather.finish().finish(passages.len() as u64)
}

/// The whole of `analyze`: any bytes through a reader, the layers, reassembly and the analysis, to the
/// document; and the same through [`Merged`] and in parts, which must give the same.
pub fn analyzer(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(bytes).map(Ordered::new) else { return };
    let mut study = Study::new();
    let (mut quic, mut datagrams) = (QuicAnalyzer::new(Duration::from_secs(900)), 0);
    let mut fragments = Reassembly::default();
    while let Ok(true) = reader.advance() {
        let frame = reader.current().expect("advance() said there is a frame");
        // Frames without a segment are counted by the caller, and nothing else.
        if let Ok(segment) = fragments.decode(0, frame.link, frame.bytes, frame.wire_len, frame.time) {
            study.take(0, &segment, frame.time);
        } else if let Ok(found) = datagram(frame.link, frame.bytes, frame.wire_len) {
            datagrams += 1;
            quic.handle(0, 0, &found, frame.bytes, frame.time);
        }
    }
    let udp = quic.finish();
    let ways = udp.quic.iter().flat_map(|flow| flow.directions.as_array());
    let of_quic: u64 = ways.map(|way| way.datagrams + way.duplicates).sum();
    assert_eq!((udp.datagrams, of_quic + udp.other.datagrams), (datagrams, datagrams));
    let direct = study.finish();
    let mut merged = Merged::new(vec![Mutex::new(Some(std::io::Cursor::new(bytes.to_vec())))]);
    let mut fragments = Reassembly::default();
    let mut passages = Vec::new();
    while merged.advance() {
        let (_, frame) = merged.current().expect("advance() said there is a frame");
        if let Ok(segment) = fragments.decode(0, frame.link, frame.bytes, frame.wire_len, frame.time) {
            passages.push(SegmentRecord::of(passages.len() as u64, 0, &segment, frame.time));
        }
    }
    assert_eq!(direct, in_parts(&passages), "one capture alone, and merged and in parts, differ");
}
