//! Packets of a script: made from a line, compared with one, shown as one.

use core::fmt::Write as _;
use core::net::SocketAddr;
use std::collections::VecDeque;

use engine::Port;
use units::{Instant, SeqNum, WindowScale};
use wire::{SackBlock, Tcp, TcpFlags, TcpHeaderSpec, Timestamps, VirtioNetHeader};

use crate::Pattern;
use crate::build::{build_packet, refresh_lengths_and_checksums};
use crate::ip_header::is_intact;

/// A number that may be any.
pub(super) type Wanted = Option<u32>;

/// A bound on the window field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Any,
    Is(u16),
    AtLeast(u16),
    AtMost(u16),
}

/// The options a line names.
#[derive(Clone, Debug, Default)]
pub(super) struct OptionsLine {
    pub mss: Option<u16>,
    pub scale: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: Option<(Wanted, Wanted)>,
    pub sack: Vec<(u32, u32)>,
    /// Byte counters of accurate ECN: ECT(0), CE, ECT(1).
    pub counters: Option<[u32; 3]>,
    pub raw: Vec<u8>,
}

/// A packet as a line says it.
#[derive(Clone, Debug)]
pub(super) struct PacketLine {
    pub flags: TcpFlags,
    pub seq: Wanted,
    pub len: u32,
    pub ack: Wanted,
    pub window: Window,
    pub urgent: u16,
    pub options: Option<OptionsLine>,
    pub is_bad: bool,
    pub is_fragment: bool,
    /// ECN field of the IP header; zero, and not compared, where it is not written.
    pub ecn: Option<u8>,
    pub fill: Option<u8>,
    pub gso: Option<u16>,
}

/// Addresses and initial numbers of a script's two hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    client: SocketAddr,
    server: SocketAddr,
    client_isn: SeqNum,
    server_isn: SeqNum,
}

impl Stage {
    pub(super) fn new(is_v6: bool) -> Self {
        let (client, server): ([u16; 8], [u16; 8]) =
            ([0xfd00, 0, 0, 0, 0, 0, 0, 2], [0xfd00, 9, 0, 0, 0, 0, 0, 1]);
        Self {
            client: if is_v6 { (client, 4_000).into() } else { ([10, 0, 0, 2], 4_000).into() },
            server: if is_v6 { (server, 80).into() } else { ([10, 9, 0, 1], 80).into() },
            // Both wrap within the first few segments.
            client_isn: SeqNum::new(0xffff_fe00),
            server_isn: SeqNum::new(0xffff_f000),
        }
    }

    /// Origins of the sequence and acknowledgement numbers of packets that go to `to`.
    fn origins(&self, to: Port) -> (SeqNum, SeqNum) {
        match to {
            Port::Wired => (self.client_isn, self.server_isn),
            Port::Mobile => (self.server_isn, self.client_isn),
        }
    }

    /// The packet that a line puts in.
    pub(super) fn build(&self, from: Port, line: &PacketLine) -> Result<(VirtioNetHeader, Vec<u8>), String> {
        let (seq_origin, ack_origin) = self.origins(from.opposite());
        let (src, dst) =
            if from == Port::Mobile { (self.client, self.server) } else { (self.server, self.client) };
        let relative = line.seq.ok_or("a packet that comes in needs a sequence number")?;
        let ack = if line.flags.contains(TcpFlags::ACK) {
            ack_origin + line.ack.unwrap_or(0)
        } else {
            SeqNum::new(0)
        };
        let mut spec = TcpHeaderSpec::new(src, dst, seq_origin + relative, ack, line.flags);
        // The server's is that of its SYN-ACK, so that it is no news.
        let default = if from == Port::Mobile { 500 } else { 65_535 };
        spec.window = if let Window::Is(window) = line.window { window } else { default };
        spec.urgent = line.urgent;
        spec.traffic_class = line.ecn.unwrap_or(0);
        let options = line.options.clone().unwrap_or_default();
        spec.mss = options.mss;
        spec.window_scale = options.scale.map(WindowScale::new);
        spec.sack_permitted = options.sack_permitted;
        spec.timestamps = options
            .timestamps
            .map(|(value, echo)| Timestamps { value: value.unwrap_or(0), echo: echo.unwrap_or(0) });
        spec.ecn_byte_counters = options.counters;
        spec.sack = options
            .sack
            .iter()
            .map(|&(start, end)| SackBlock { start: ack_origin + start, end: ack_origin + end })
            .collect();
        let mut payload = vec![line.fill.unwrap_or(0); line.len as usize];
        if line.fill.is_none() {
            pattern(from).fill(u64::from(relative), &mut payload);
        }
        let mut packet = build_packet(&spec, &options.raw, &[&payload]).map_err(|e| e.to_string())?;
        if line.is_fragment && packet[0] >> 4 == 4 {
            packet[6] |= 0x20;
            refresh_lengths_and_checksums(&mut packet);
            packet[10..12].fill(0);
            let checksum = !wire::checksum::sum(&packet[..20]);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        if line.is_bad {
            let last = packet.len() - 1;
            packet[last] ^= 0x40;
        }
        Ok((self.virtio(line, &packet), packet))
    }

    fn virtio(&self, line: &PacketLine, packet: &[u8]) -> VirtioNetHeader {
        let parsed = wire::parse(packet).ok();
        let gso = line.gso.zip(parsed.as_ref().and_then(|p| p.tcp().map(|tcp| (p.ip.version, *tcp))));
        gso.map_or_else(VirtioNetHeader::default, |(size, (version, tcp))| {
            let mut header = VirtioNetHeader::for_tcp_gso(version, tcp.offset, tcp.payload_offset, size);
            header.flags = VirtioNetHeader::DATA_VALID;
            header
        })
    }

    /// Reason why `packet`, which goes to `to`, is not what the line says.
    pub(super) fn difference(&self, to: Port, line: &PacketLine, packet: &[u8]) -> Option<String> {
        let Ok(parsed) = wire::parse(packet) else { return Some("it is no IP packet".to_owned()) };
        let Some(tcp) = parsed.tcp() else { return Some("it is not TCP".to_owned()) };
        if !(is_intact(packet, &parsed) || line.is_bad) {
            return Some("its checksum is wrong".to_owned());
        }
        let (seq_origin, ack_origin) = self.origins(to);
        let (seq, ack) = (tcp.seq.since(seq_origin), tcp.ack.since(ack_origin));
        if tcp.flags.without(TcpFlags::PSH) != line.flags.without(TcpFlags::PSH) {
            return Some(format!("flags are {}", tcp.flags));
        }
        if line.seq.is_some_and(|wanted| wanted != seq) {
            return Some(format!("seq is {seq}"));
        }
        if tcp.payload_len as u32 != line.len {
            return Some(format!("length is {}", tcp.payload_len));
        }
        if line.ack.is_some_and(|wanted| wanted != ack) {
            return Some(format!("ack is {ack}"));
        }
        if tcp.flags.contains(TcpFlags::URG) && tcp.urgent != line.urgent {
            return Some(format!("urg is {}", tcp.urgent));
        }
        let is_window_right = match line.window {
            Window::Any => true,
            Window::Is(wanted) => tcp.window == wanted,
            Window::AtLeast(least) => tcp.window >= least,
            Window::AtMost(most) => tcp.window <= most,
        };
        if !is_window_right {
            return Some(format!("win is {}", tcp.window));
        }
        if line.ecn.is_some_and(|ecn| ecn != parsed.ip.ecn()) {
            return Some(format!("its ECN field is {}", parsed.ip.ecn()));
        }
        if let Some(options) = &line.options {
            if let Some(difference) = self.option_difference(to, options, tcp) {
                return Some(difference);
            }
            let counters = tcp.ecn_byte_counters(packet);
            if counters.map(|all| [all.ect0, all.ce, all.ect1]) != options.counters.map(|all| all.map(Some)) {
                return Some(format!("its byte counters are {counters:?}"));
            }
        }
        let payload = tcp.payload(packet);
        let is_payload_right = match line.fill {
            Some(byte) => payload.iter().all(|b| *b == byte),
            None => pattern(to.opposite()).first_mismatch(u64::from(seq), payload).is_none(),
        };
        (!is_payload_right).then(|| "its payload is not the stream's".to_owned())
    }

    fn option_difference(&self, to: Port, wanted: &OptionsLine, tcp: &Tcp) -> Option<String> {
        let options = &tcp.options;
        match (wanted.timestamps, options.timestamps) {
            (None, None) => {}
            (Some((value, echo)), Some(ts)) => {
                if value.is_some_and(|v| v != ts.value) || echo.is_some_and(|e| e != ts.echo) {
                    return Some(format!("timestamps are val {} ecr {}", ts.value, ts.echo));
                }
            }
            (None, Some(_)) => return Some("it has timestamps".to_owned()),
            (Some(_), None) => return Some("it has no timestamps".to_owned()),
        }
        let (_, origin) = self.origins(to);
        let blocks: Vec<(u32, u32)> =
            options.sack.iter().map(|b| (b.start.since(origin), b.end.since(origin))).collect();
        if blocks != wanted.sack {
            return Some(format!("SACK blocks are {blocks:?}"));
        }
        let others = (options.mss, options.window_scale.map(WindowScale::shift), options.sack_permitted);
        if others != (wanted.mss, wanted.scale, wanted.sack_permitted) {
            return Some(format!("MSS, scale and SACK permitted are {others:?}"));
        }
        None
    }

    /// A packet in the words of a script.
    pub(super) fn show(&self, to: Port, packet: &[u8]) -> String {
        let Ok(parsed) = wire::parse(packet) else { return "no IP packet".to_owned() };
        let Some(tcp) = parsed.tcp() else { return parsed.to_string() };
        let (seq_origin, ack_origin) = self.origins(to);
        let seq = tcp.seq.since(seq_origin);
        let mut text = format!("{} {seq}", tcp.flags);
        if tcp.payload_len > 0 {
            let _ = write!(text, ":{}({})", seq.wrapping_add(tcp.payload_len as u32), tcp.payload_len);
        }
        if tcp.flags.contains(TcpFlags::ACK) {
            let _ = write!(text, " ack {}", tcp.ack.since(ack_origin));
        }
        let _ = write!(text, " win {}", tcp.window);
        let options = &tcp.options;
        let mut parts = Vec::new();
        parts.extend(options.mss.map(|mss| format!("mss {mss}")));
        parts.extend(options.sack_permitted.then(|| "sackOK".to_owned()));
        parts.extend(options.timestamps.map(|ts| format!("TS val {} ecr {}", ts.value, ts.echo)));
        parts.extend(options.window_scale.map(|scale| format!("wscale {}", scale.shift())));
        if !options.sack.is_empty() {
            let blocks = options.sack.iter();
            let blocks: Vec<String> = blocks
                .map(|b| format!("{}:{}", b.start.since(ack_origin), b.end.since(ack_origin)))
                .collect();
            parts.push(format!("sack {}", blocks.join(" ")));
        }
        if let Some(all) = tcp.ecn_byte_counters(packet) {
            let [ect0, ce, ect1] = [all.ect0, all.ce, all.ect1].map(Option::unwrap_or_default);
            parts.push(format!("acc {ect0} {ce} {ect1}"));
        }
        let _ = write!(
            text,
            " <{}>{}",
            parts.join(","),
            ["", " ect1", " ect0", " ce"][usize::from(parsed.ip.ecn())]
        );
        text
    }

    /// All packets that wait, one a line.
    pub(super) fn list(&self, to: Port, queue: &VecDeque<(Instant, Vec<u8>)>) -> String {
        let name = if to == Port::Mobile { ">client" } else { ">server" };
        let lines = queue.iter().map(|(at, packet)| format!("    {at} {name} {}", self.show(to, packet)));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Pattern that the host on `side` writes, by relative sequence number.
fn pattern(side: Port) -> Pattern {
    Pattern::new(if side == Port::Wired { 1 } else { 2 })
}
