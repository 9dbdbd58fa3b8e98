//! Configuration of an [`crate::Endpoint`] and its application.

use core::net::SocketAddr;

use control::{ControllerConfig, DrwaParams, NewRenoParams};
use units::{Bytes, Duration, Instant, Rate, SeqNum, WindowScale};

use super::mark_response::MarkResponse;
use crate::Pattern;

/// Role in which an endpoint comes to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It sends the SYN at this time.
    Connects(Instant),
    /// It answers a SYN.
    Listens,
    /// Its port is closed: everything is answered by RST.
    Refuses,
}

/// The receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWindow {
    /// A size that never changes.
    Fixed(Bytes),
    /// Twice what was read in a round trip, and more while that grows, up to a limit: Linux's auto-tuning.
    Growing {
        /// Size at the start. Linux: 64 KB.
        initial: Bytes,
        /// Largest size. Linux: 6 MB.
        max: Bytes,
    },
    /// \[DR\]'s: the buffer is as large as it may be, and the window follows what the path delivers.
    Dynamic {
        /// The buffer.
        max: Bytes,
        /// Parameters of the window.
        params: DrwaParams,
    },
}

impl ReceiveWindow {
    /// Bytes at the start.
    #[must_use]
    pub const fn initial(self) -> u32 {
        match self {
            Self::Fixed(size) | Self::Growing { initial: size, .. } | Self::Dynamic { max: size, .. } => {
                size.get() as u32
            }
        }
    }
    /// Bytes at most.
    #[must_use]
    pub const fn max(self) -> u32 {
        match self {
            Self::Fixed(size) | Self::Growing { max: size, .. } | Self::Dynamic { max: size, .. } => {
                size.get() as u32
            }
        }
    }
}

/// An amount to write once enough has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedWrite {
    /// Begins when this many bytes have been read since the start.
    pub after_reading: u64,
    /// Time after that at which it begins.
    pub pause: Duration,
    /// Bytes to write.
    pub send: u64,
}

/// Way in which the application reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reading {
    /// Everything as it comes.
    #[default]
    AtOnce,
    /// Reads at most `bytes` every `every`.
    Slowly {
        /// Bytes at a time.
        bytes: u64,
        /// Time between two reads.
        every: Duration,
    },
}

/// Treatment by a host of a segment that begins in its window and ends beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BeyondWindow {
    /// Takes it while nothing waits to be read, and discards it otherwise: Linux from 6.17 on
    /// (`tcp_sequence`).
    #[default]
    WhenEmpty,
    /// Takes it: Linux before.
    Always,
}

/// Protocol of a host's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// TCP, with acknowledgements as Linux delays them.
    #[default]
    Tcp,
    /// UDP datagrams with the segments inside, which nobody in between can read: a QUIC connection, as far as the
    /// network can tell. Every second packet is acknowledged, and after 25 ms at the latest (RFC 9000 §13.2).
    Quic,
}

/// Time at which the application closes its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Closing {
    /// Close when it has written everything: a half-close while the peer still sends.
    AfterWriting,
    /// Close when it has written everything and read the peer's end of stream.
    #[default]
    AfterPeer,
}

/// Bytes.
const UDP_HEADER: u16 = 8;

/// Interval at which a program with a rate of its own acts.
const WRITE_EVERY: Duration = Duration::from_millis(20);

/// Program on an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Application {
    /// Bytes that it writes and when, in order.
    pub writes: Vec<PlannedWrite>,
    /// Way in which it reads.
    pub reading: Reading,
    /// Time at which it closes.
    pub closing: Closing,
    /// It aborts (RST) when it has read this many bytes.
    pub abort_after_reading: Option<u64>,
    /// Bytes of its own whose acknowledgement makes it abort, too.
    pub abort_after_sending: Option<u64>,
    /// Time at which it aborts, too.
    pub abort_at: Option<Instant>,
    /// Every write asks for this many bytes: the time until they are read is noted.
    pub response_len: Option<u64>,
}

impl Application {
    /// Reads everything, writes nothing, closes after the peer.
    #[must_use]
    pub fn sink() -> Self {
        Self::default()
    }
    /// Writes `bytes` at once and closes.
    #[must_use]
    pub fn bulk(bytes: u64) -> Self {
        let writes = vec![PlannedWrite { after_reading: 0, pause: Duration::ZERO, send: bytes }];
        Self { writes, closing: Closing::AfterWriting, ..Self::sink() }
    }
    /// Writes a request of `request` bytes at once, reads the answer, closes after the peer.
    #[must_use]
    pub fn client(request: u64) -> Self {
        Self { closing: Closing::AfterPeer, ..Self::bulk(request) }
    }
    /// Reads `request` bytes, answers with `response` bytes and closes.
    #[must_use]
    pub fn server(request: u64, response: u64) -> Self {
        let writes = vec![PlannedWrite { after_reading: request, pause: Duration::ZERO, send: response }];
        Self { writes, closing: Closing::AfterWriting, ..Self::sink() }
    }
    /// Writes `count` requests of `request` bytes, each `pause` after it has read the `response`
    /// bytes to the one before.
    #[must_use]
    pub fn requests(count: u32, request: u64, response: u64, pause: Duration) -> Self {
        let write = |i: u32| PlannedWrite {
            after_reading: u64::from(i) * response,
            pause: if i == 0 { Duration::ZERO } else { pause },
            send: request,
        };
        Self { writes: (0..count).map(write).collect(), response_len: Some(response), ..Self::sink() }
    }
    /// Writes `count` requests of `request` bytes, one per `every` whether or not the one before
    /// was answered, for responses of `response` bytes.
    #[must_use]
    pub fn requests_every(every: Duration, count: u32, request: u64, response: u64) -> Self {
        let write = |i: u32| PlannedWrite {
            after_reading: 0,
            pause: if i == 0 { Duration::ZERO } else { every },
            send: request,
        };
        Self { writes: (0..count).map(write).collect(), response_len: Some(response), ..Self::sink() }
    }
    /// Answers `count` requests of `request` bytes with `response` bytes each and closes.
    #[must_use]
    pub fn responses(count: u32, request: u64, response: u64) -> Self {
        let write = |i: u32| PlannedWrite {
            after_reading: u64::from(i) * request,
            pause: Duration::ZERO,
            send: response,
        };
        Self { writes: (1..=count).map(write).collect(), closing: Closing::AfterWriting, ..Self::sink() }
    }
    /// The same, writing what it has no faster than `rate`: a piece every 20 ms.
    #[must_use]
    pub fn writing_at(mut self, rate: Rate) -> Self {
        let piece = rate.bytes_in(WRITE_EVERY).get().max(1);
        let writes = core::mem::take(&mut self.writes);
        for write in writes {
            let mut left = write.send;
            let mut pause = write.pause;
            while left > 0 {
                let send = left.min(piece);
                self.writes.push(PlannedWrite { pause, send, ..write });
                left -= send;
                pause = WRITE_EVERY;
            }
        }
        self
    }
    /// The same, reading no faster than `rate`: at most 20 ms of it every 20 ms.
    #[must_use]
    pub fn reading_at(self, rate: Rate) -> Self {
        self.reading_slowly(rate.bytes_in(WRITE_EVERY).get().max(1), WRITE_EVERY)
    }
    /// The same, reading all that is there `delay` after the first of it: as long as a program
    /// takes to wake up.
    #[must_use]
    pub fn reading_after(self, delay: Duration) -> Self {
        self.reading_slowly(u64::MAX, delay)
    }
    /// The same, reading slowly.
    #[must_use]
    pub fn reading_slowly(self, bytes: u64, every: Duration) -> Self {
        Self { reading: Reading::Slowly { bytes, every }, ..self }
    }
    /// The same, closing its direction as soon as it has written everything.
    #[must_use]
    pub fn half_closing(self) -> Self {
        Self { closing: Closing::AfterWriting, ..self }
    }
    /// The same, aborting after `bytes` have been read.
    #[must_use]
    pub fn aborting_after(self, bytes: u64) -> Self {
        Self { abort_after_reading: Some(bytes), ..self }
    }
    /// The same, aborting after `bytes` of its own have been acknowledged.
    #[must_use]
    pub fn aborting_after_sending(self, bytes: u64) -> Self {
        Self { abort_after_sending: Some(bytes), ..self }
    }
    /// The same, aborting at this time.
    #[must_use]
    pub fn aborting_at(self, at: Instant) -> Self {
        Self { abort_at: Some(at), ..self }
    }
    /// It may abort.
    #[must_use]
    pub fn aborts(&self) -> bool {
        self.abort_after_reading.is_some() || self.abort_after_sending.is_some() || self.abort_at.is_some()
    }
    /// Bytes it writes in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.writes.iter().map(|write| write.send).sum()
    }
}

/// A TCP host with one connection.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Its address and port.
    pub local: SocketAddr,
    /// Its peer's.
    pub remote: SocketAddr,
    /// Role in which the connection begins.
    pub role: Role,
    /// Initial sequence number.
    pub isn: SeqNum,
    /// Protocol of its packets: the same at both hosts.
    pub protocol: Protocol,
    /// MSS option: MTU less 40 (IPv6: 60).
    pub mss: u16,
    /// Window scale option.
    pub window_scale: Option<WindowScale>,
    /// SACK-permitted option.
    pub sack: bool,
    /// Timestamps option; the clock in milliseconds starts at this value.
    pub timestamps: Option<u32>,
    /// Offers and accepts accurate ECN (RFC 9768), and then sends data as ECT(0): whether it counts bytes, too.
    pub accurate_ecn: Option<bool>,
    /// Offers and accepts classic ECN (RFC 3168) where accurate ECN is not agreed on, and then sends new data as ECT(0).
    pub classic_ecn: bool,
    /// Response to marks on its data.
    pub mark_response: MarkResponse,
    /// Further option bytes for its SYN or SYN-ACK.
    pub syn_options: Vec<u8>,
    /// The receive buffer.
    pub window: ReceiveWindow,
    /// Treatment of segments that end beyond its window.
    pub beyond_window: BeyondWindow,
    /// Unacknowledged and unsent bytes kept at most.
    pub send_buffer: u32,
    /// An unanswered connection is given up after this long. Linux: 924.6 s (`tcp_retries2`).
    pub give_up: Duration,
    /// Congestion control.
    pub controller: ControllerConfig,
    /// The program on it.
    pub app: Application,
    /// Pattern of the bytes that it writes.
    pub writes: Pattern,
    /// Pattern of the bytes that it expects to read.
    pub expects: Pattern,
}

impl EndpointConfig {
    /// A host with today's usual options, a growing window and NewReno.
    #[must_use]
    pub fn new(local: SocketAddr, remote: SocketAddr, role: Role, app: Application) -> Self {
        Self {
            local,
            remote,
            role,
            isn: SeqNum::new(1_000),
            protocol: Protocol::Tcp,
            mss: if local.is_ipv4() { 1_460 } else { 1_440 },
            window_scale: Some(WindowScale::new(7)),
            sack: true,
            timestamps: Some(1_000),
            accurate_ecn: None,
            classic_ecn: false,
            mark_response: MarkResponse::default(),
            syn_options: Vec::new(),
            window: ReceiveWindow::Growing { initial: Bytes::from_kib(64), max: Bytes::from_mib(6) },
            beyond_window: BeyondWindow::default(),
            send_buffer: 4 * 1024 * 1024,
            give_up: Duration::from_millis(924_600),
            controller: ControllerConfig::NewReno(NewRenoParams::default()),
            app,
            writes: Pattern::new(1),
            expects: Pattern::new(2),
        }
    }
    /// The same, with its segments in UDP datagrams, which are no longer than TCP's packets.
    #[must_use]
    pub fn over_quic(self) -> Self {
        Self { protocol: Protocol::Quic, mss: self.mss - UDP_HEADER, ..self }
    }
}
