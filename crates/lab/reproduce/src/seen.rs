//! [`Seen`]: what captures at the hosts and looks at senders and queue would have shown of a run.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use analysis::{Analyzer, FlowReport, PacketView, Sink};
use capture::{LinkType, PcapngWriter, Reader, Record, Segment};
use sim::{LoggedPacket, Sample, Watcher};
use units::{Duration, Instant};

use crate::ReproduceError;

/// Observations to make beyond a run's figures. Samples of senders and queue are the simulator's alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looking {
    /// Senders and queue are looked at this often.
    pub every: Option<Duration>,
    /// Flows are drawn up from captures at both hosts.
    pub flows: bool,
    /// Single packets at a host are kept.
    pub packets_of: Option<Host>,
    /// Number of packets after which captures end.
    pub packets_max: Option<u64>,
    /// True if the content of the radio link's packet log is kept.
    pub radio: bool,
}

/// Host where a capture is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Host {
    /// At the server's interface.
    Server,
    /// At the client's interface.
    Client,
}

/// A packet in a capture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SeenPacket {
    /// Seconds since the start of the run.
    pub at_s: f64,
    /// It comes from the server.
    pub is_down: bool,
    /// Position at which its data begins in the stream of its direction, bytes.
    pub position: u64,
    /// Bytes of data.
    pub payload: u64,
    /// Acknowledgement: a place in the other direction's stream, bytes.
    pub ack: Option<u64>,
    /// The round trip it gives by Karn's rule, ms.
    pub rtt_ms: Option<f64>,
    /// The round trip that its timestamps give, from the capture to the other end and back, ms.
    pub rtt_by_timestamps_ms: Option<f64>,
    /// It carries data sent before.
    pub is_retransmission: bool,
}

/// Observations of a run.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Senders and queue.
    pub samples: Vec<Sample>,
    /// Flows in a capture at the server's interface, in the order of their first packets.
    pub at_server: Vec<FlowReport>,
    /// The same at the client's.
    pub at_client: Vec<FlowReport>,
    /// Single packets.
    pub packets: Vec<SeenPacket>,
}

/// Collects what an analysis finds.
#[derive(Default)]
struct Found {
    flows: Vec<FlowReport>,
    packets: Option<Vec<SeenPacket>>,
}

impl Sink for Found {
    fn on_flow(&mut self, flow: &FlowReport) {
        self.flows.push(flow.clone());
    }
    fn wants_packets(&self) -> bool {
        self.packets.is_some()
    }
    fn on_packet(&mut self, packet: &PacketView<'_>) {
        let Some(packets) = &mut self.packets else { return };
        packets.push(SeenPacket {
            at_s: packet.time.saturating_since(Instant::ZERO).as_secs_f64(),
            // The client opens the connection: it is the first end.
            is_down: packet.direction == analysis::Direction::FromSecond,
            position: packet.position,
            payload: packet.len,
            ack: packet.ack,
            rtt_ms: packet.rtt_karn.map(Duration::as_millis_f64),
            rtt_by_timestamps_ms: packet.rtt_timestamps.map(Duration::as_millis_f64),
            is_retransmission: matches!(packet.kind, analysis::PacketKind::Retransmission { .. }),
        });
    }
}

/// Looks on and takes notes.
pub(crate) struct Eyes<'a> {
    is_over: Option<&'a AtomicBool>,
    looking: Looking,
    samples: Vec<Sample>,
    server: Analyzer<Found>,
    client: Analyzer<Found>,
    /// Packets captured at the server and at the client.
    captured: [u64; 2],
    /// Files to which captured packets are written too, at the server and at the client.
    files: [Option<PcapngWriter<BufWriter<File>>>; 2],
    /// Reason why a file could not be written.
    failed: Option<ReproduceError>,
}

impl<'a> Eyes<'a> {
    pub(crate) fn new(looking: Looking) -> Self {
        let analyzer = |host: Host| {
            let packets = (looking.packets_of == Some(host)).then(Vec::new);
            Analyzer::new(analysis::Config::default(), Found { packets, ..Found::default() })
        };
        let (server, client) = (analyzer(Host::Server), analyzer(Host::Client));
        let files = [None, None];
        Self {
            is_over: None,
            looking,
            samples: Vec::new(),
            server,
            client,
            captured: [0; 2],
            files,
            failed: None,
        }
    }

    /// The same, until the flag is up.
    pub(crate) fn until(self, is_over: Option<&'a AtomicBool>) -> Self {
        Self { is_over, ..self }
    }

    /// The same, and captures are written: those of the client to `run.client.pcapng` in `folder`,
    /// those of the server beside them.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn writing(mut self, folder: &Path, run: &str) -> Result<Self, ReproduceError> {
        if !self.wants_packets() {
            return Ok(self);
        }
        for (file, host) in self.files.iter_mut().zip(["server", "client"]) {
            let path = folder.join(format!("{run}.{host}.pcapng"));
            let failed = |error| ReproduceError::file(&path, error);
            let writer = BufWriter::new(File::create(&path).map_err(failed)?);
            *file = Some(PcapngWriter::new(writer).map_err(failed)?);
        }
        Ok(self)
    }

    /// Ends the files.
    ///
    /// # Errors
    /// One of them could not be written.
    pub(crate) fn end_files(&mut self) -> Result<(), ReproduceError> {
        for file in self.files.iter_mut().filter_map(Option::take) {
            file.finish().map_err(|error| ReproduceError::file(Path::new("captures"), error))?;
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Writes a packet that was captured.
    fn write(&mut self, packet: &LoggedPacket, is_at_client: bool) {
        let Some(file) = &mut self.files[usize::from(is_at_client)] else { return };
        let record = Record {
            time: packet.at,
            interface: 0,
            link: LinkType::RAW,
            wire_len: packet.wire_len,
            bytes: &packet.bytes,
        };
        if let Err(error) = file.packet(&record, "") {
            self.failed.get_or_insert(ReproduceError::file(Path::new("captures"), error));
        }
    }

    pub(crate) fn seen(self) -> Seen {
        let (server, client) = (self.server.finish(), self.client.finish());
        let packets = server.packets.or(client.packets).unwrap_or_default();
        Seen { samples: self.samples, at_server: server.flows, at_client: client.flows, packets }
    }
}

impl Eyes<'_> {
    /// Takes the packets of a capture that was made at a host's interface; their times count from the first.
    pub(crate) fn read(&mut self, path: &Path, is_at_client: bool) -> Result<(), ReproduceError> {
        let failed = |error: &dyn core::fmt::Display| ReproduceError::file(path, error);
        let file = File::open(path).map_err(|error| failed(&error))?;
        let mut reader = Reader::new(BufReader::new(file)).map_err(|error| failed(&error))?;
        let mut first = None;
        while reader.advance().map_err(|error| failed(&error))? {
            let Some(record) = reader.current() else { break };
            let start = *first.get_or_insert(record.time);
            let Ok(segment) = capture::decode(record.link, record.bytes, record.wire_len) else { continue };
            self.take(&segment, is_at_client, Instant::ZERO + record.time.saturating_since(start));
        }
        Ok(())
    }

    /// False when the capture has ended.
    fn take(&mut self, segment: &Segment, is_at_client: bool, at: Instant) -> bool {
        let captured = &mut self.captured[usize::from(is_at_client)];
        if self.looking.packets_max.is_some_and(|most| *captured >= most) {
            return false;
        }
        *captured += 1;
        let analyzer = if is_at_client { &mut self.client } else { &mut self.server };
        analyzer.handle_segment(0, segment, at);
        true
    }
}

impl Watcher for Eyes<'_> {
    fn is_over(&self) -> bool {
        self.is_over.is_some_and(|is_over| is_over.load(Ordering::Relaxed))
    }
    fn wants_packets(&self) -> bool {
        self.looking.flows || self.looking.packets_of.is_some()
    }
    fn on_packet(&mut self, packet: &LoggedPacket) {
        let Ok(segment) = capture::decode(LinkType::RAW, &packet.bytes, packet.wire_len) else { return };
        let is_at_client = packet.point.is_at_client();
        if self.take(&segment, is_at_client, packet.at) {
            self.write(packet, is_at_client);
        }
    }
    fn every(&self) -> Option<Duration> {
        self.looking.every
    }
    fn on_sample(&mut self, sample: &Sample) {
        self.samples.push(*sample);
    }
}
