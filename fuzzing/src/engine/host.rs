//! The two hosts of a fuzzed flow: they know what they have sent and seen, so that what they say
//! next can be sensible, or wrong by a little.

use core::net::SocketAddr;

use engine::Port;
use units::SeqNum;
use wire::{SackBlock, SackBlocks, Tcp, TcpFlags, TcpHeaderSpec, Timestamps};

/// One end of a flow.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) address: SocketAddr,
    pub(super) isn: SeqNum,
    /// The next number it sends.
    pub(super) next: SeqNum,
    /// The next number it expects of the other host.
    pub(super) expects: SeqNum,
    /// Data received beyond a hole, oldest first.
    pub(super) islands: Vec<SackBlock>,
    /// The highest number it has ever acknowledged in a packet that was whole.
    pub(super) acked: SeqNum,
    /// Its FIN's number, once sent.
    pub(super) fin: Option<SeqNum>,
    pub(super) window: u16,
    /// Newest TSval of the other host.
    pub(super) echo: u32,
    /// It has heard the other host's SYN.
    pub(super) is_open: bool,
}

/// A flow's hosts and what they agreed on.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) client: Host,
    pub(super) server: Host,
    pub(super) sack: bool,
    pub(super) stamps: bool,
    pub(super) scale: Option<u8>,
    pub(super) mss: u16,
    /// Something nobody sane sends was in this flow: what hosts believe no longer says what is right.
    pub(super) is_wild: bool,
    /// The radio loses this many packets towards the client.
    pub(super) lost_next: u8,
}

/// Byte `number` (relative to the ISN) of the stream that the host behind `port` writes.
pub(super) fn stream_byte(port: Port, number: u32) -> u8 {
    let salt = if port == Port::Wired { 0x3b } else { 0xc5 };
    (number.wrapping_mul(0x9e37_79b1) >> 21) as u8 ^ salt
}

impl Host {
    pub(super) fn new(address: SocketAddr, isn: u32, window: u16) -> Self {
        let (isn, zero) = (SeqNum::new(isn), SeqNum::new(0));
        Self {
            address,
            isn,
            next: isn,
            expects: zero,
            islands: Vec::new(),
            acked: zero,
            fin: None,
            window,
            echo: 0,
            is_open: false,
        }
    }

    /// Takes in what reached it.
    pub(super) fn hear(&mut self, tcp: &Tcp) {
        if let Some(stamps) = tcp.options.timestamps {
            self.echo = stamps.value;
        }
        if tcp.flags.contains(TcpFlags::SYN) && !self.is_open {
            self.is_open = true;
            self.expects = tcp.seq + 1;
            self.acked = self.expects;
            return;
        }
        if tcp.flags.contains(TcpFlags::RST) || tcp.segment_len() == 0 || !self.is_open {
            return;
        }
        self.islands.push(SackBlock { start: tcp.seq, end: tcp.seq_end() });
        while let Some(at) = self.islands.iter().position(|i| i.start.is_at_or_before(self.expects)) {
            let island = self.islands.remove(at);
            self.expects = self.expects.later_of(island.end);
        }
        // As many as a real receiver would remember to report.
        if self.islands.len() > 8 {
            self.islands.remove(0);
        }
    }
}

impl Pair {
    pub(super) fn host(&self, side: Port) -> &Host {
        if side == Port::Wired { &self.server } else { &self.client }
    }
    pub(super) fn host_mut(&mut self, side: Port) -> &mut Host {
        if side == Port::Wired { &mut self.server } else { &mut self.client }
    }

    /// A header the host behind `from` could write now, `seq` its number.
    pub(super) fn header(&self, from: Port, seq: SeqNum, flags: TcpFlags, clock: u32) -> TcpHeaderSpec {
        let (host, peer) = (self.host(from), self.host(from.opposite()));
        let ack = if flags.contains(TcpFlags::ACK) { host.expects } else { SeqNum::new(0) };
        let mut spec = TcpHeaderSpec::new(host.address, peer.address, seq, ack, flags);
        spec.window = host.window;
        spec.timestamps = self.stamps.then_some(Timestamps { value: clock, echo: host.echo });
        if flags.contains(TcpFlags::SYN) {
            spec.mss = Some(self.mss);
            spec.sack_permitted = self.sack;
            spec.window_scale = self.scale.map(units::WindowScale::new);
        } else if self.sack {
            spec.sack = host.islands.iter().rev().take(3).copied().collect::<SackBlocks>();
        }
        spec
    }

    /// `len` bytes of the stream of the host behind `from`, starting at `seq`.
    pub(super) fn data(&self, from: Port, seq: SeqNum, len: usize) -> Vec<u8> {
        let start = seq.since(self.host(from).isn);
        (0..len as u32).map(|i| stream_byte(from, start.wrapping_add(i))).collect()
    }
}
