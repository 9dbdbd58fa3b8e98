//! Ends the flows whose debt died with the process that owed it (H2).
//!
//! The server was told that bytes are delivered which the client will never get: neither end may go on waiting,
//! nor take the flow for finished. So both are reset. The numbers in the journal are stale, and a reset counts only
//! with the exact one (RFC 5961 §3); so each end is also asked, by a segment it must answer (RFC 9293 §3.10.7.4: an
//! acknowledgement outside its window), and whatever it sends tells the number by its ACK field:
//!
//! ```text
//!   journal ─▶ RST with the newest number known ─▶ end
//!              an old acknowledgement           ─▶ end ─▶ ACK n ─▶ RST with n ─▶ end (gone)
//!                                                  end ─▶ RST: it is gone
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use engine::JournalEntry;
use io::netlink::Netlink;
use io::{Clock, Interest, IoError, PacketSocket, RawSocket, Waiter};
use units::{Duration, Instant, SeqNum};
use wire::{TcpFlags, TcpHeaderSpec, Timestamps, Transport};

/// When the ends that have not answered are asked again: after this time, then after twice that, and so on. Longer
/// than the time in which Linux answers one connection's old segments at most once (`tcp_invalid_ratelimit`, 500 ms)
/// from the second time on.
const FIRST_PAUSE: Duration = Duration::from_millis(300);

/// An end that has said nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest part of a packet that is looked at: IPv6, TCP and options, and room for extension headers.
const HEADERS_LEN_MAX: usize = 256;

/// The window field of everything sent here, which no end looks at: the tap hears our own packets too.
const OWN_MARK: u16 = 0xce11;

/// What became of the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    /// Flows that were owed something.
    pub flows: usize,
    /// Ends of those, of two each, that said that they are reset.
    pub ends_reset: usize,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flows, ends_reset } = self;
        write!(f, "{flows} flows reset: {ends_reset} of {} ends are gone", 2 * flows)
    }
}

/// Resets both ends of every flow in `entries`; gives up after ten seconds.
///
/// Works in the calling thread's namespace; the flows' packets must be forwarded by the kernel again, and pass
/// `mobile` under their own addresses (NAT is on the wired side).
pub(crate) fn reset_ends(
    entries: &[JournalEntry],
    mobile: &str,
    netlink: &Netlink,
) -> Result<Outcome, IoError> {
    let mut recovery = Recovery::new(entries, mobile, netlink)?;
    let give_up = Clock::now() + PATIENCE;
    let mut pause = FIRST_PAUSE;
    while recovery.is_unfinished() && Clock::now() < give_up {
        recovery.ask();
        recovery.listen((Clock::now() + pause).min(give_up))?;
        pause = pause + pause;
    }
    let ends_reset = recovery.flows.values().flat_map(|flow| flow.ends).filter(|end| end.is_reset).count();
    Ok(Outcome { flows: recovery.flows.len(), ends_reset })
}

/// One end of a flow.
#[derive(Clone, Copy, Debug)]
struct End {
    address: SocketAddr,
    /// The number it expects next, as far as known.
    expects: SeqNum,
    /// What the other end of the flow has acknowledged of it, as far as known.
    acked: SeqNum,
    /// Newest TSval of the segments sent to it, and of its own.
    timestamps: Option<Timestamps>,
    is_reset: bool,
}

#[derive(Clone, Copy, Debug)]
struct DeadFlow {
    /// Client, server.
    ends: [End; 2],
}

impl From<&JournalEntry> for DeadFlow {
    fn from(entry: &JournalEntry) -> Self {
        let stamps = |value, echo| Timestamps { value, echo };
        let client = End {
            address: entry.client,
            expects: entry.delivered,
            acked: entry.server_ack,
            timestamps: entry.timestamps.map(|(client, server)| stamps(server, client)),
            is_reset: false,
        };
        let server = End {
            address: entry.server,
            expects: entry.server_ack,
            acked: entry.told,
            timestamps: entry.timestamps.map(|(client, server)| stamps(client, server)),
            is_reset: false,
        };
        Self { ends: [client, server] }
    }
}

struct Recovery {
    /// By client and server.
    flows: BTreeMap<(SocketAddr, SocketAddr), DeadFlow>,
    tap: PacketSocket,
    sender: RawSocket,
    waiter: Waiter,
}

impl Recovery {
    fn new(entries: &[JournalEntry], mobile: &str, netlink: &Netlink) -> Result<Self, IoError> {
        let flows = entries.iter().map(|e| ((e.client, e.server), DeadFlow::from(e))).collect();
        let tap = PacketSocket::open(netlink.index_of(mobile)?)?;
        let waiter = Waiter::new(Duration::ZERO)?;
        waiter.add(&tap, Interest::Read, 0)?;
        Ok(Self { flows, tap, sender: RawSocket::open()?, waiter })
    }

    fn is_unfinished(&self) -> bool {
        self.flows.values().flat_map(|flow| flow.ends).any(|end| !end.is_reset)
    }

    /// Sends a reset by the newest knowledge, and an old acknowledgement, to every end that is not reset.
    fn ask(&mut self) {
        for flow in self.flows.values() {
            for (to, from) in [(flow.ends[0], flow.ends[1]), (flow.ends[1], flow.ends[0])] {
                if !to.is_reset {
                    reset(&self.sender, from, to);
                    let old =
                        TcpHeaderSpec::new(from.address, to.address, to.expects - 1, to.acked, TcpFlags::ACK);
                    send(&self.sender, &TcpHeaderSpec { timestamps: to.timestamps, ..old });
                }
            }
        }
    }

    /// Answers what the ends say, until `until` or until all are reset.
    fn listen(&mut self, until: Instant) -> Result<(), IoError> {
        let mut buffer = [0; HEADERS_LEN_MAX];
        while self.is_unfinished() && Clock::now() < until {
            match self.tap.recv(&mut buffer)? {
                Some(received) => self.hear(&buffer[..received.len]),
                None => drop(self.waiter.wait(Some(until))?),
            }
        }
        Ok(())
    }

    fn hear(&mut self, packet: &[u8]) {
        let Ok(parsed) = wire::parse_prefix(packet) else { return };
        let Transport::Tcp(tcp) = parsed.transport else { return };
        if tcp.window == OWN_MARK {
            return;
        }
        let source = SocketAddr::new(parsed.ip.src, tcp.src_port);
        let destination = SocketAddr::new(parsed.ip.dst, tcp.dst_port);
        let (flow, speaker) = if let Some(flow) = self.flows.get_mut(&(source, destination)) {
            (flow, 0)
        } else if let Some(flow) = self.flows.get_mut(&(destination, source)) {
            (flow, 1)
        } else {
            return;
        };
        let listener = flow.ends[1 - speaker];
        let end = &mut flow.ends[speaker];
        // With a SYN the ports are in use for a new connection: the old one is gone.
        if tcp.flags.intersects(TcpFlags::RST.with(TcpFlags::SYN)) {
            end.is_reset = true;
        } else if tcp.flags.contains(TcpFlags::ACK) && !end.is_reset {
            end.expects = tcp.ack;
            reset(&self.sender, listener, *end);
        }
    }
}

/// Sends a reset with the number that `to` is believed to expect.
fn reset(sender: &RawSocket, from: End, to: End) {
    let flags = TcpFlags::RST.with(TcpFlags::ACK);
    send(sender, &TcpHeaderSpec::new(from.address, to.address, to.expects, to.acked, flags));
}

fn send(sender: &RawSocket, spec: &TcpHeaderSpec) {
    let mut packet = [0; TcpHeaderSpec::MAX_LEN];
    let spec = TcpHeaderSpec { window: OWN_MARK, ..*spec };
    if let Ok(header) = spec.emit(&mut packet, &[]) {
        // What does not go out is sent again with the next question.
        let _is_sent = sender.send(&packet[..header.len], spec.dst.ip());
    }
}
