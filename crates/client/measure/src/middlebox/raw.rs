//! Connections over raw sockets: [`SmallTcp`] on the wire.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use io::{Clock, Interest, IoError, PacketSocket, RawSocket, Segments, SilentPort, Waiter};
use probe::{SmallTcp, SmallTcpEnd, SmallTcpLog, SmallTcpSpec, TcpOption, option_kind, options_bytes};
use units::{Duration, Instant, SeqNum};
use wire::TcpFlags;

use super::random;

/// A super-packet, as the receiving side of the kernel makes them.
const PACKET_MAX: usize = 70_000;
/// A connection that asks for a text is given up after this.
const PATIENCE: Duration = Duration::from_secs(25);
const TURN: Duration = Duration::from_millis(100);
/// Bytes kept of an answer: all of a known one.
const KEEP: usize = 16 << 10;
const WINDOW_SHIFT: u8 = 7;
/// Identifies an experiment (RFC 6994).
const EXPERIMENT: [u8; 4] = [0xce, 0x12, 0xce, 0x13];
/// `ECT(0)` (RFC 3168).
const ECN_CAPABLE: u8 = 2;

/// Difference in the SYN of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// Nothing; its acknowledgements are delayed.
    Split,
    /// Nothing: MSS, window scale, SACK, timestamps.
    Plain,
    MpCapable,
    MpJoin,
    FastOpen,
    Unknown,
    Experiment1,
    Experiment2,
    Ecn,
    AccEcn,
}

impl Kind {
    /// Those whose SYN is what is tested.
    pub(super) const OPTIONS: [Self; 9] = [
        Self::Plain,
        Self::MpCapable,
        Self::MpJoin,
        Self::FastOpen,
        Self::Unknown,
        Self::Experiment1,
        Self::Experiment2,
        Self::Ecn,
        Self::AccEcn,
    ];

    /// Its name in documents.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Plain => "plain",
            Self::MpCapable => "mp-capable",
            Self::MpJoin => "mp-join",
            Self::FastOpen => "fast-open",
            Self::Unknown => "unknown-option",
            Self::Experiment1 => "experiment-253",
            Self::Experiment2 => "experiment-254",
            Self::Ecn => "ecn",
            Self::AccEcn => "accecn",
        }
    }

    /// The kind of the option that it adds; none where it is about flags, or adds none.
    pub(super) const fn option(self) -> Option<u8> {
        match self {
            Self::MpCapable | Self::MpJoin => Some(option_kind::MPTCP),
            Self::FastOpen => Some(option_kind::FAST_OPEN),
            Self::Unknown => Some(option_kind::UNKNOWN),
            Self::Experiment1 => Some(option_kind::EXPERIMENT_1),
            Self::Experiment2 => Some(option_kind::EXPERIMENT_2),
            Self::Split | Self::Plain | Self::Ecn | Self::AccEcn => None,
        }
    }

    fn body(self) -> Vec<u8> {
        let token = random().to_be_bytes();
        match self {
            // Version 1, HMAC-SHA-256 (RFC 8684 §3.1).
            Self::MpCapable => vec![0x01, 0x01],
            // Address 1, token and random number of a connection that nobody knows (RFC 8684 §3.2).
            Self::MpJoin => [&[0x10, 0x01][..], &token].concat(),
            Self::Unknown | Self::Experiment1 | Self::Experiment2 => EXPERIMENT.to_vec(),
            // A cookie is asked for (RFC 7413 §4.1.1).
            _ => Vec::new(),
        }
    }

    /// Flags of the SYN beside SYN.
    pub(super) const fn flags(self) -> TcpFlags {
        match self {
            Self::Ecn => TcpFlags::ECE.with(TcpFlags::CWR),
            Self::AccEcn => TcpFlags::ECE.with(TcpFlags::CWR).with(TcpFlags::AE),
            _ => TcpFlags::NONE,
        }
    }
}

/// A connection that is wanted.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) port: u16,
    pub(super) run: u32,
    pub(super) kind: Kind,
    pub(super) request: Vec<u8>,
}

/// Result of a connection.
#[derive(Clone, Debug)]
pub(super) struct RawFlow {
    pub(super) port: u16,
    pub(super) run: u32,
    pub(super) kind: Kind,
    pub(super) request: Vec<u8>,
    pub(super) local: SocketAddr,
    /// None where it was stopped before it could end.
    pub(super) end: Option<SmallTcpEnd>,
    pub(super) log: SmallTcpLog,
}

/// Settings that all connections have in common.
#[derive(Clone, Debug)]
pub(super) struct RawPlan {
    pub(super) to: IpAddr,
    /// Rows of connections: one after the other in each, the rows at the same time.
    pub(super) rows: Vec<Vec<Wanted>>,
    pub(super) mss: u16,
    pub(super) delay: Duration,
    /// The largest round trip that was seen.
    pub(super) rtt: Duration,
}

struct Running {
    wanted: Wanted,
    /// Keeps the kernel silent.
    _port: SilentPort,
    tcp: SmallTcp,
    give_up: Instant,
}

/// Makes all connections of `plan`; those that were not reached when `is_stopped` became true are missing.
pub(super) fn connections(
    plan: &RawPlan,
    is_stopped: &AtomicBool,
    done: &AtomicUsize,
) -> Result<Vec<RawFlow>, IoError> {
    let packets = PacketSocket::of_segments(Segments::From(plan.to))?;
    let raw = RawSocket::open()?;
    let local = source_of(plan.to)?;
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(&packets, Interest::Read, 0)?;
    let mut rows: Vec<(std::vec::IntoIter<Wanted>, Option<Running>)> =
        plan.rows.iter().map(|row| (row.clone().into_iter(), None)).collect();
    let (mut flows, mut buffer, mut out) = (Vec::new(), vec![0; PACKET_MAX], Vec::new());
    loop {
        let stop = is_stopped.load(Ordering::SeqCst);
        for (rest, running) in &mut rows {
            if running.is_none()
                && !stop
                && let Some(wanted) = rest.next()
            {
                *running = Some(start(wanted, plan, local)?);
            }
        }
        while let Some(packet) = packets.recv(&mut buffer)? {
            if packet.is_outgoing {
                continue;
            }
            let bytes = buffer.get(..packet.len).unwrap_or_default();
            let now = Clock::now();
            for running in rows.iter_mut().filter_map(|(_, running)| running.as_mut()) {
                running.tcp.handle_packet(bytes, packet.at.min(now), now);
            }
        }
        for (_, slot) in &mut rows {
            let Some(running) = slot else { continue };
            let is_late = Clock::now() >= running.give_up;
            if stop || is_late {
                running.tcp.stop();
            }
            while running.tcp.poll_transmit(Clock::now(), &mut out) {
                // What the kernel does not take is lost, and sent again like what is lost elsewhere.
                let _ = raw.send(&out, plan.to);
            }
            if let Some(end) = running.tcp.end()
                && let Some(Running { wanted, tcp, .. }) = slot.take()
            {
                done.fetch_add(1, Ordering::SeqCst);
                let end = (end != SmallTcpEnd::Stopped || is_late).then_some(end);
                let Wanted { port, run, kind, request } = wanted;
                let local = tcp.local();
                flows.push(RawFlow { port, run, kind, request, local, end, log: tcp.into_log() });
            }
        }
        if rows.iter().all(|(rest, running)| running.is_none() && (stop || rest.len() == 0)) {
            return Ok(flows);
        }
        let next = rows.iter().filter_map(|(_, running)| running.as_ref()?.tcp.next_deadline()).min();
        let turn = Clock::now() + TURN;
        // A row whose connection has just ended goes on at once.
        let is_free = rows.iter().any(|(rest, running)| running.is_none() && rest.len() > 0);
        let until = if is_free { Instant::ZERO } else { next.map_or(turn, |next| next.min(turn)) };
        waiter.wait(Some(until))?;
    }
}

/// The address of this machine that packets to `to` leave with.
fn source_of(to: IpAddr) -> Result<IpAddr, IoError> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let find = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((to, 9))?;
        socket.local_addr()
    };
    find().map(|address| address.ip()).map_err(|error| IoError::system(format!("find a way to {to}"), error))
}

fn start(wanted: Wanted, plan: &RawPlan, local: IpAddr) -> Result<Running, IoError> {
    let port = SilentPort::take(local)?;
    let is_split = wanted.kind == Kind::Split;
    let option = |kind, body: &[u8]| TcpOption { kind, body: body.to_vec() };
    let mut options = vec![
        option(option_kind::MSS, &plan.mss.to_be_bytes()),
        option(option_kind::SACK_PERMITTED, &[]),
        option(option_kind::TIMESTAMPS, &[0; 8]),
        option(option_kind::WINDOW_SCALE, &[WINDOW_SHIFT]),
    ];
    options.extend(wanted.kind.option().map(|kind| option(kind, &wanted.kind.body())));
    let retry = Duration::from_secs(1).max(plan.rtt * 3 / 2);
    let now = Clock::now();
    let spec = SmallTcpSpec {
        local: port.address(),
        remote: SocketAddr::new(plan.to, wanted.port),
        isn: SeqNum::new(random() as u32),
        options: options_bytes(&options),
        timestamp: Some(random() as u32),
        flags: wanted.kind.flags(),
        ecn: if wanted.kind == Kind::Ecn { ECN_CAPABLE } else { 0 },
        request: wanted.request.clone(),
        ack_delay: if is_split { plan.delay } else { Duration::ZERO },
        retry,
        keep: KEEP,
        enough: u64::MAX,
    };
    let patience = if is_split { plan.delay * 3 + PATIENCE } else { PATIENCE };
    Ok(Running { wanted, _port: port, tcp: SmallTcp::new(spec, now), give_up: now + patience })
}
