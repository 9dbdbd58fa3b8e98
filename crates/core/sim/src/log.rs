//! [`PacketLog`]: what passed where, as text in the manner of tcpdump and as one number.

use core::fmt;
use core::fmt::Write as _;

use units::Instant;

/// A place where packets are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TapPoint {
    /// Leaves the server for the WAN.
    ServerOut,
    /// Reaches the server.
    ServerIn,
    /// Reaches the middlebox from the WAN.
    WiredIn,
    /// Leaves the middlebox for the WAN.
    WiredOut,
    /// Reaches the middlebox from the radio link.
    MobileIn,
    /// Leaves the middlebox for the radio link.
    MobileOut,
    /// Leaves the client for the radio link.
    ClientOut,
    /// Reaches the client.
    ClientIn,
}

impl TapPoint {
    /// True at a host's own interface.
    const fn is_at_host(self) -> bool {
        matches!(self, Self::ServerOut | Self::ServerIn | Self::ClientOut | Self::ClientIn)
    }

    /// True at the client's interface.
    #[must_use]
    pub const fn is_at_client(self) -> bool {
        matches!(self, Self::ClientOut | Self::ClientIn)
    }
}

impl fmt::Display for TapPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ServerOut => "server>",
            Self::ServerIn => ">server",
            Self::WiredIn => ">box   ",
            Self::WiredOut => "  <box ",
            Self::MobileIn => "  box< ",
            Self::MobileOut => "   box>",
            Self::ClientOut => "client>",
            Self::ClientIn => ">client",
        })
    }
}

/// Form in which the log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogMode {
    /// Only the number.
    #[default]
    Hash,
    /// The text too.
    Text,
}

/// The part of a packet that goes into the number: every header with its checksum.
pub(crate) const HEADERS: usize = 128;

/// Log of the packets that passed each point.
#[derive(Clone, Debug)]
pub struct PacketLog {
    mode: LogMode,
    text: String,
    hash: u64,
    packets: u64,
    /// Packets at the hosts, where they are kept.
    kept: Option<Vec<LoggedPacket>>,
    /// Bytes of each that are.
    kept_len: usize,
}

/// A packet as a capture on a host would show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedPacket {
    /// Time at which it passed.
    pub at: Instant,
    /// Host that it passed at, and its direction.
    pub point: TapPoint,
    /// Its first bytes, as many as were asked for.
    pub bytes: Vec<u8>,
    /// Its whole length.
    pub wire_len: u32,
}

impl PacketLog {
    pub(crate) fn new(mode: LogMode, keeps_packets: Option<usize>) -> Self {
        let kept = keeps_packets.map(|_| Vec::new());
        let kept_len = keeps_packets.unwrap_or_default();
        Self { mode, text: String::new(), hash: 0xcbf2_9ce4_8422_2325, packets: 0, kept, kept_len }
    }

    /// Packets that passed at the hosts since the last call, if they are kept.
    pub fn take_kept(&mut self) -> Vec<LoggedPacket> {
        self.kept.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// One line per packet; empty when only the number is kept.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
    /// The last `count` lines.
    #[must_use]
    pub fn tail(&self, count: usize) -> &str {
        let start = self.text.rmatch_indices('\n').nth(count).map_or(0, |(at, _)| at + 1);
        &self.text[start..]
    }
    /// A number that every time, place and header went into. Headers hold a checksum of what is behind them.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }
    /// Packets seen at all points together.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    pub(crate) fn note(&mut self, at: Instant, point: TapPoint, packet: &[u8]) {
        self.packets += 1;
        self.mix(at.as_nanos());
        self.mix(point as u64 ^ (packet.len() as u64) << 8);
        let mut words = packet[..packet.len().min(HEADERS)].chunks_exact(8);
        for word in &mut words {
            self.mix(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        self.mix(u64::from_le_bytes(last));
        if let Some(kept) = self.kept.as_mut().filter(|_| point.is_at_host()) {
            let bytes = packet[..packet.len().min(self.kept_len)].to_vec();
            kept.push(LoggedPacket { at, point, bytes, wire_len: packet.len() as u32 });
        }
        if self.mode == LogMode::Text {
            let _ = match wire::parse(packet) {
                Ok(parsed) => writeln!(self.text, "{at} {point} {parsed}"),
                Err(error) => writeln!(self.text, "{at} {point} {error}"),
            };
        }
    }

    /// Writes what happened to a packet between two points.
    pub(crate) fn remark(&mut self, at: Instant, remark: Option<&'static str>) {
        let Some(remark) = remark else { return };
        self.mix(remark.len() as u64);
        if self.mode == LogMode::Text {
            let _ = writeln!(self.text, "{at}         {remark}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One packet with the log's number after it.
    fn number(at_ms: u64, point: TapPoint, packet: &[u8], remark: Option<&'static str>) -> u64 {
        let mut log = PacketLog::new(LogMode::Hash, None);
        log.note(Instant::from_millis(at_ms), point, packet);
        log.remark(Instant::from_millis(at_ms), remark);
        log.hash()
    }

    #[test]
    fn whatever_changes_about_a_packet_changes_the_number() {
        let packet: Vec<u8> = (0..100).collect();
        let base = number(5, TapPoint::WiredIn, &packet, None);
        assert_eq!(number(5, TapPoint::WiredIn, &packet, None), base);
        assert_ne!(number(6, TapPoint::WiredIn, &packet, None), base);
        assert_ne!(number(5, TapPoint::WiredOut, &packet, None), base);
        assert_ne!(number(5, TapPoint::WiredIn, &packet, Some("lost")), base);
        assert_ne!(
            number(5, TapPoint::WiredIn, &packet[..99], None),
            base,
            "the last bytes are no whole word"
        );
        for at in 0..packet.len() {
            let mut other = packet.clone();
            other[at] ^= 1;
            assert_ne!(number(5, TapPoint::WiredIn, &other, None), base, "byte {at}");
        }
    }

    #[test]
    fn a_length_beyond_the_headers_counts_and_a_byte_there_is_in_the_checksum() {
        let packet = vec![7; 1_500];
        let base = number(5, TapPoint::ClientIn, &packet, None);
        assert_ne!(number(5, TapPoint::ClientIn, &packet[..1_499], None), base);
        let mut other = packet.clone();
        other[HEADERS - 1] = 8;
        assert_ne!(number(5, TapPoint::ClientIn, &other, None), base);
    }

    #[test]
    fn the_order_of_packets_counts() {
        let both = |first: &[u8], second: &[u8]| {
            let mut log = PacketLog::new(LogMode::Hash, None);
            log.note(Instant::ZERO, TapPoint::ServerOut, first);
            log.note(Instant::ZERO, TapPoint::ServerOut, second);
            (log.hash(), log.packets())
        };
        assert_ne!(both(&[1], &[2]).0, both(&[2], &[1]).0);
        assert_eq!(both(&[1], &[2]).1, 2);
    }

    #[test]
    fn text_has_a_line_for_each_packet_and_remark_and_only_packets_at_hosts_are_kept() {
        let mut log = PacketLog::new(LogMode::Text, Some(HEADERS));
        for (ms, point) in [
            (1, TapPoint::ServerOut),
            (2, TapPoint::WiredIn),
            (3, TapPoint::MobileOut),
            (4, TapPoint::ClientIn),
        ] {
            log.note(Instant::from_millis(ms), point, &[0x45; 200]);
        }
        log.remark(Instant::from_millis(5), Some("dropped by plan"));
        log.remark(Instant::from_millis(5), None);
        assert_eq!(log.text().lines().count(), 5, "{}", log.text());
        assert!(log.text().lines().next().is_some_and(|line| line.contains("server>")), "{}", log.text());
        assert_eq!(log.tail(2).lines().count(), 2);
        assert!(log.tail(1).trim_end().ends_with("dropped by plan"), "{}", log.tail(1));
        assert_eq!(log.tail(100), log.text());

        let kept = log.take_kept();
        let seen: Vec<(u64, TapPoint)> =
            kept.iter().map(|packet| (packet.at.as_millis(), packet.point)).collect();
        assert_eq!(seen, [(1, TapPoint::ServerOut), (4, TapPoint::ClientIn)]);
        assert!(kept.iter().all(|packet| packet.bytes.len() == HEADERS && packet.wire_len == 200));
        assert!(log.take_kept().is_empty(), "told once");
    }
}
