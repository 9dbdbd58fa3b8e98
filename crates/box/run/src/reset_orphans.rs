//! Ends the flows whose debt died with the process that owed it (H2).
//!
//! The server was told that bytes are delivered which the client will never get: neither end may go
//! on waiting, nor take the flow for finished. So both are reset. The numbers in the journal are
//! stale, and a reset counts only with the exact one (RFC 5961 §3); so each end is also asked, by a
//! segment it must answer (RFC 9293 §3.10.7.4: an acknowledgement outside its window), and whatever
//! it sends tells the number by its ACK field:
//!
//! But first the receiving hosts are heard: whoever has all that was told to be delivered was owed
//! nothing but an acknowledgement that was under way, and its flow goes on untouched.
//!
//! An end is believed where it is: what comes in through the interface on its side. What goes out on the other side
//! under its name may be an early acknowledgement of the dead process's that has waited in that interface's queue
//! since. On the wired side addresses may be translated; a question that goes out there shows to what.
//!
//! ```text
//!   journal ─▶ an old acknowledgement           ─▶ receiving host ─▶ ACK n, all of it: the flow is left
//!   else    ─▶ RST with the newest number known ─▶ end
//!              an old acknowledgement           ─▶ end ─▶ ACK n ─▶ RST with n ─▶ end (gone)
//!                                                  end ─▶ RST: it is gone
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::Port;
use io::netlink::Netlink;
use io::{Clock, Interest, IoError, Lifeline, Waiter};
use units::{Duration, Instant, SeqNum};
use wire::{TcpFlags, TcpHeaderSpec, Timestamps, Transport};

use crate::event::FlowTotals;
use crate::inline::link_headers::LinkHeader;
use crate::journal::Left;

mod medium;

/// Token of a waiter for the lifeline, beside those for packets.
const LIFELINE: u64 = 1;

pub(crate) use medium::Passage;
use medium::{Heard, Medium};

/// Time until the ends that have not answered are asked again: after this time, then after twice that, and so
/// on. Longer than the time in which Linux answers one connection's old segments at most once
/// (`tcp_invalid_ratelimit`, 500 ms) from the second time on.
const FIRST_PAUSE: Duration = Duration::from_millis(300);

/// Time that the receiving hosts have to say what they have: data and acknowledgements that were under way
/// arrive.
const HEARING: Duration = Duration::from_millis(500);

/// Flows that are asked before answers are taken in, and packets that are taken in then: of many flows the answers would
/// not fit into the socket's buffer. The tap hears all that passes, which may be more than answers.
const ASKED_AT_ONCE: usize = 128;
const HEARD_AT_ONCE: usize = 8 * ASKED_AT_ONCE;

/// Silence after which an end is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest time that an interface may be away; then those behind it are given up. Time without it does not
/// count as silence.
const ABSENCE_MAX: Duration = Duration::from_secs(60);

/// Interval of the checks whether it is back.
const ABSENCE_LOOK: Duration = Duration::from_millis(100);

/// Ticks of a timestamp clock that a dead process's flow cannot have gone on for: half of what PAWS takes for the future
/// (RFC 7323 §5.2).
const TSVAL_AHEAD: u32 = 1 << 30;

/// The window field of everything sent here, which no end looks at: the taps hear our own packets too.
const OWN_MARK: u16 = 0xce11;

/// Tells those who reset flows that somebody waits for them: an interface that is away is not waited for any more, and
/// somebody else is to try later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Haste {
    is_pressing: Arc<AtomicBool>,
    /// Once it is cut, nobody is there any more whose flows they were.
    lifeline: Option<Arc<Lifeline>>,
}

impl Haste {
    /// No haste while the line that this process was started on is not cut, if there is one.
    pub fn until_abandoned() -> Self {
        Self { lifeline: Lifeline::inherited().map(Arc::new), ..Self::default() }
    }

    /// Somebody waits from here on.
    pub fn press(&self) {
        self.is_pressing.store(true, Ordering::Relaxed);
    }

    pub fn is_pressing(&self) -> bool {
        self.is_pressing.load(Ordering::Relaxed)
    }

    fn is_pointless(&self) -> bool {
        self.lifeline.as_ref().is_some_and(|line| line.is_cut())
    }
}

/// Resets both ends of every flow in `owed`; gives up after ten seconds in which an interface was there.
///
/// Works in the calling thread's namespace; the flows' packets must take `passage` again without
/// this program's help.
pub(crate) fn reset_ends(
    owed: &[Left],
    passage: Passage<'_>,
    netlink: &Netlink,
    haste: &Haste,
) -> Result<FlowTotals, IoError> {
    let mut recovery = Recovery::new(owed, passage, netlink, haste)?;
    let last = Clock::now() + ABSENCE_MAX;
    loop {
        recovery.ask_receivers()?;
        recovery.listen(Clock::now() + HEARING)?;
        recovery.stay()?;
        if !recovery.take_absence() || Clock::now() >= last {
            break;
        }
    }
    recovery.flows.retain(|_, flow| !flow.is_whole());
    recovery.is_resetting = true;
    let whole = owed.len().saturating_sub(recovery.flows.len());
    let mut give_up = Clock::now() + PATIENCE;
    let mut pause = FIRST_PAUSE;
    while recovery.is_unfinished() && Clock::now() < give_up {
        recovery.ask()?;
        recovery.listen((Clock::now() + pause).min(give_up))?;
        recovery.stay()?;
        pause = pause + pause;
        if recovery.take_absence() {
            (give_up, pause) = ((Clock::now() + PATIENCE).min(last + PATIENCE), FIRST_PAUSE);
        }
    }
    let ends_reset = recovery.flows.values().flat_map(|flow| flow.ends).filter(|end| end.is_reset).count();
    Ok(FlowTotals { whole, flows: recovery.flows.len(), ends_reset })
}

/// One end of a flow.
#[derive(Clone, Copy, Debug)]
struct End {
    address: SocketAddr,
    /// The number it expects next, as far as known.
    expects: SeqNum,
    /// Number up to which the other end of the flow has acknowledged of it, as far as known.
    acked: SeqNum,
    /// Newest TSval of the segments sent to it, and of its own.
    timestamps: Option<Timestamps>,
    is_reset: bool,
    /// Side of this end.
    side: Port,
    /// Header in front of packets to it, where frames are bridged.
    link: Option<LinkHeader>,
}

#[derive(Clone, Copy, Debug)]
struct DeadFlow {
    /// Receiving host, sending host: client and server, but for an uplink's debt.
    ends: [End; 2],
    /// Number up to which the sending host was told that the receiving one has data.
    told: SeqNum,
    /// A question to the end on the wired side was seen to leave there: its packets come in with those addresses.
    is_way_known: bool,
}

impl DeadFlow {
    fn is_whole(&self) -> bool {
        !self.ends[0].is_reset && self.ends[0].expects.is_at_or_after(self.told)
    }
}

impl From<&Left> for DeadFlow {
    fn from(owed: &Left) -> Self {
        let Left { entry, receiver, links } = owed;
        let sender = receiver.opposite();
        let stamps = |value, echo| Timestamps { value, echo };
        let client = End {
            address: entry.sink,
            expects: entry.delivered,
            acked: entry.source_ack,
            timestamps: entry.timestamps.map(|(client, server)| stamps(server, client)),
            is_reset: false,
            side: *receiver,
            link: links[receiver.index()],
        };
        let server = End {
            address: entry.source,
            expects: entry.source_ack,
            acked: entry.told,
            timestamps: entry.timestamps.map(|(client, server)| stamps(client, server)),
            is_reset: false,
            side: sender,
            link: links[sender.index()],
        };
        Self { ends: [client, server], told: entry.told, is_way_known: false }
    }
}

/// A packet's source and destination.
type Way = (SocketAddr, SocketAddr);

/// Questions, by their sequence and acknowledgement numbers.
type Asked = BTreeMap<(u32, u32), Way>;

struct Recovery<'a> {
    /// By receiving host and sending host.
    flows: BTreeMap<Way, DeadFlow>,
    /// Those to hosts on the wired side: as it leaves there, a question shows what its addresses are translated to.
    asked: Asked,
    /// Packets that come in there, and whose they are.
    wired_ways: BTreeMap<Way, Way>,
    passage: Passage<'a>,
    netlink: &'a Netlink,
    /// None while an interface is gone or down.
    medium: Option<Medium>,
    /// One was, since this was asked last.
    was_absent: bool,
    waiter: Waiter,
    /// The receiving hosts were heard: what is left is to be reset.
    is_resetting: bool,
    haste: &'a Haste,
}

impl<'a> Recovery<'a> {
    fn new(
        owed: &[Left],
        passage: Passage<'a>,
        netlink: &'a Netlink,
        haste: &'a Haste,
    ) -> Result<Self, IoError> {
        let flows = owed.iter().map(|o| ((o.entry.sink, o.entry.source), DeadFlow::from(o))).collect();
        let waiter = Waiter::new(Duration::ZERO)?;
        if let Some(lifeline) = &haste.lifeline {
            waiter.add(lifeline.as_ref(), Interest::Read, LIFELINE)?;
        }
        let (medium, was_absent, is_resetting) = (None, false, false);
        let (asked, wired_ways) = (BTreeMap::new(), BTreeMap::new());
        let mut recovery = Self {
            flows,
            asked,
            wired_ways,
            passage,
            netlink,
            medium,
            was_absent,
            waiter,
            is_resetting,
            haste,
        };
        recovery.open()?;
        Ok(recovery)
    }

    /// Opens the sockets, if the interfaces are there.
    fn open(&mut self) -> Result<(), IoError> {
        match Medium::open(self.passage, self.netlink) {
            Ok(medium) => {
                medium.watch(&self.waiter)?;
                self.medium = Some(medium);
                Ok(())
            }
            Err(error) if error.is_not_there() || error.is_device_gone() => {
                self.was_absent = true;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn take_absence(&mut self) -> bool {
        std::mem::take(&mut self.was_absent)
    }

    /// True when an interface is away and nobody waits for it, or nobody is there any more.
    fn is_given_up(&self) -> bool {
        self.medium.is_none() && self.haste.is_pressing() || self.haste.is_pointless()
    }

    /// Goes on unless that is so.
    fn stay(&self) -> Result<(), IoError> {
        if self.haste.is_pointless() {
            let why = "those whose flows they were have gone".to_owned();
            return Err(IoError::Invalid { what: "their ends".to_owned(), why });
        }
        if self.is_given_up() {
            let why = "it is away; the next start tries again".to_owned();
            return Err(IoError::Invalid { what: "their interface".to_owned(), why });
        }
        Ok(())
    }

    fn is_unfinished(&self) -> bool {
        self.flows.values().flat_map(|flow| flow.ends).any(|end| !end.is_reset)
    }

    /// Sends an old acknowledgement to every receiving host.
    fn ask_receivers(&mut self) -> Result<(), IoError> {
        self.ask_each(|medium, flow, asked| question(medium, flow.ends[1], flow.ends[0], false, asked))
    }

    /// Sends a reset by the newest knowledge, and an old acknowledgement, to every end that is not reset.
    fn ask(&mut self) -> Result<(), IoError> {
        self.ask_each(|medium, flow, asked| {
            for (to, from) in [(flow.ends[0], flow.ends[1]), (flow.ends[1], flow.ends[0])] {
                if !to.is_reset {
                    reset(medium, from, to);
                    question(medium, from, to, true, asked);
                }
            }
        })
    }

    /// Asks about every flow, and takes in meanwhile what is answered.
    fn ask_each(&mut self, ask: impl Fn(&Medium, &DeadFlow, &mut Asked)) -> Result<(), IoError> {
        let keys: Vec<_> = self.flows.keys().copied().collect();
        let mut buffer = medium::buffer();
        for keys in keys.chunks(ASKED_AT_ONCE) {
            let Some(medium) = &self.medium else { return Ok(()) };
            for flow in keys.iter().filter_map(|key| self.flows.get(key)) {
                ask(medium, flow, &mut self.asked);
            }
            for _ in 0..HEARD_AT_ONCE {
                if !self.hear_one(&mut buffer)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Answers what the ends say, until `until` or until all are reset.
    fn listen(&mut self, until: Instant) -> Result<(), IoError> {
        let mut buffer = medium::buffer();
        // Looking at all of them takes as long as hearing many.
        while self.is_unfinished() && Clock::now() < until && !self.is_given_up() {
            let mut is_more = true;
            for _ in 0..HEARD_AT_ONCE {
                is_more = self.hear_one(&mut buffer)?;
                if !is_more {
                    break;
                }
            }
            if self.medium.is_none() {
                self.waiter.wait(Some(until.min(Clock::now() + ABSENCE_LOOK)))?;
                self.open()?;
            } else if !is_more && self.is_unfinished() {
                self.waiter.wait(Some(until))?;
            }
        }
        Ok(())
    }

    /// Hears a packet, if there is one now.
    fn hear_one(&mut self, buffer: &mut medium::Buffer) -> Result<bool, IoError> {
        let Some(mut medium) = self.medium.take() else { return Ok(false) };
        match medium.hear(buffer) {
            Ok(Some(heard)) => self.hear(&medium, &heard),
            Ok(None) => {
                self.medium = Some(medium);
                return Ok(false);
            }
            Err(error) if error.is_device_gone() => {
                // Other sockets, when it is back: it may be another one then.
                self.was_absent = true;
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        self.medium = Some(medium);
        Ok(true)
    }

    /// Notes with which addresses a question leaves on the wired side.
    fn note_way(&mut self, outside: Way, numbers: (u32, u32)) {
        let Some(&(from, to)) = self.asked.get(&numbers) else { return };
        self.wired_ways.insert((outside.1, outside.0), (to, from));
        for key in [(from, to), (to, from)] {
            self.flows.get_mut(&key).into_iter().for_each(|flow| flow.is_way_known = true);
        }
    }

    fn hear(&mut self, medium: &Medium, heard: &Heard<'_>) {
        let Ok(parsed) = wire::parse_prefix(heard.packet) else { return };
        let Transport::Tcp(tcp) = parsed.transport else { return };
        let way =
            (SocketAddr::new(parsed.ip.src, tcp.src_port), SocketAddr::new(parsed.ip.dst, tcp.dst_port));
        if tcp.window == OWN_MARK {
            if heard.side == Port::Wired && heard.is_outgoing && !tcp.flags.contains(TcpFlags::RST) {
                self.note_way(way, (tcp.seq.get(), tcp.ack.get()));
            }
            return;
        }
        let translated = self.wired_ways.get(&way).filter(|_| heard.side == Port::Wired);
        let (source, destination) = translated.copied().unwrap_or(way);
        // A flow with debt both ways is there twice.
        for (key, speaker) in [((source, destination), 0), ((destination, source), 1)] {
            let Some(flow) = self.flows.get_mut(&key) else { continue };
            let is_there = heard.side == flow.ends[speaker].side && !heard.is_outgoing;
            // Where it is not known how its packets come in, better a doubtful number for a reset than none.
            let is_doubtful = self.is_resetting && !flow.is_way_known && heard.is_outgoing;
            if !is_there && !is_doubtful {
                continue;
            }
            // A router may have taken another one's place since the process died.
            flow.ends[1 - speaker].link = heard.link.or(flow.ends[1 - speaker].link);
            let listener = flow.ends[1 - speaker];
            let end = &mut flow.ends[speaker];
            // With a SYN the ports are in use for a new connection: the old one is gone.
            if tcp.flags.intersects(TcpFlags::RST.with(TcpFlags::SYN)) {
                end.is_reset = true;
            } else if tcp.flags.contains(TcpFlags::ACK) && !end.is_reset {
                end.expects = if self.is_resetting { tcp.ack } else { end.expects.later_of(tcp.ack) };
                if self.is_resetting {
                    reset(medium, listener, *end);
                }
            }
        }
    }
}

/// Sends a reset with the number that `to` is believed to expect.
fn reset(medium: &Medium, from: End, to: End) {
    let flags = TcpFlags::RST.with(TcpFlags::ACK);
    send(medium, &to, &TcpHeaderSpec::new(from.address, to.address, to.expects, to.acked, flags));
}

/// Sends a segment that `to` must answer with what it expects; notes it in `asked`.
///
/// The hosts may have gone on without the dead process: then its timestamps are too old, and Linux (since 6.14)
/// drops such an acknowledgement without an answer, as others always have. It answers one without timestamps, which
/// others drop (RFC 7323 §3.2). So both are sent. To an end that `is_to_be_reset` the timestamp is one of far ahead,
/// which all answer: it may spoil the flow.
fn question(medium: &Medium, from: End, to: End, is_to_be_reset: bool, asked: &mut Asked) {
    let old = TcpHeaderSpec::new(from.address, to.address, to.expects - 1, to.acked, TcpFlags::ACK);
    if to.side == Port::Wired {
        asked.insert((old.seq.get(), old.ack.get()), (from.address, to.address));
    }
    let ahead = if is_to_be_reset { TSVAL_AHEAD } else { 0 };
    if let Some(Timestamps { value, echo }) = to.timestamps {
        let timestamps = Some(Timestamps { value: value.wrapping_add(ahead), echo });
        send(medium, &to, &TcpHeaderSpec { timestamps, ..old });
    }
    send(medium, &to, &old);
}

fn send(medium: &Medium, to: &End, spec: &TcpHeaderSpec) {
    medium.send(to, &TcpHeaderSpec { window: OWN_MARK, ..*spec });
}
