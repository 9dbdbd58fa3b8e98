//! [`AccurateEcn`]: what the hosts of a flow tell each other of marks (RFC 9768), where some of their packets are
//! taken here.
//!
//! A host counts the marks on what has reached it, and tells the numbers with each packet: CE packets modulo 8 in the
//! ACE field, bytes in an option. What is taken here does not reach it, and we stand for it. So the numbers that go on
//! are its own and, added to them, ours:
//!
//! ```text
//!   source ── CE ──▶ taken here             sink: counts what reaches it
//!   source ◀── its ACE + taken ──────────── sink
//! ```
//!
//! With no mark taken every number goes on as it is. Each mark that was taken is passed on, too: in an acknowledgement
//! to the sink that is marked CE, which counts as any packet does (§3.2.2). Once the sink counts it, we do not any
//! more. So a flow that leaves, or whose box dies, leaves to its hosts numbers that fit each other, but for the marks of
//! about the last round trip.
//!
//! Where our data is ECN-capable on its way to the sink ([`super::sink_marks`]) the sink counts marks and bytes of it.
//! They are of a loop that is not the source's: what goes on to it is less by them.

use units::SeqNum;
use wire::{EcnByteCounters, Tcp, TcpEditor, TcpFlags, TcpHeaderSpec};

use crate::direction::End;

/// Start value of counters of CE packets (§3.2.1).
const CE_PACKETS_AT_START: u8 = 5;

/// Start values of the counters of bytes marked ECT(0), CE and ECT(1) (§3.2.1).
const BYTES_AT_START: [u32; 3] = [1, 0, 1];

/// ACE field by which the packet that completes a handshake says that the SYN-ACK was marked CE (§3.2.2.1).
const SYN_ACK_WAS_MARKED: u8 = 6;

/// CE packets, and segments where bytes are not counted, that one acknowledgement tells of at most. Of more than six a
/// sender cannot tell how many there are, and takes it for the worst (§3.2.2.5.1). Of six nobody can tell whether they
/// are news, or of a packet that was overtaken, where they come with nothing new ([`is_ahead`]): our other half reads
/// them, too.
const PER_ACK_MAX: u32 = 5;

/// Times that passing marks on is tried in vain: this host does not count them.
const FAILURES_MAX: u8 = 3;

/// Counters by which one host is told of the marks on its packets.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(super) struct Counters {
    /// The newest ACE field of the other host.
    ace: u8,
    /// Its newest byte counters: none until it has sent some.
    bytes: Option<[u32; 3]>,
    /// CE packets taken here that the other host has not counted, and how many of them were told. Below zero where it
    /// has counted some twice.
    taken: i32,
    told: i32,
    /// Bytes taken here, by mark.
    taken_bytes: [u32; 3],
    /// The ACE field told last.
    shown: u8,
    /// Segments taken since the last acknowledgement, and the payload of one of them.
    segments: u32,
    segment_len: u32,
}

/// An ECN field (RFC 3168 §5) as a place among the byte counters; none for Not-ECT.
const fn place_of(ecn: u8) -> Option<usize> {
    match ecn & 3 {
        2 => Some(0),
        3 => Some(1),
        1 => Some(2),
        _ => None,
    }
}

/// Age of a segment beside what has come of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Age {
    /// It says what none has said before.
    Newest,
    /// None that has come is surely later, and it says nothing new.
    AsNew,
    Older,
}

impl Age {
    pub(super) const fn of(is_overtaken: bool, brings_more: bool) -> Self {
        match (is_overtaken, brings_more) {
            (true, _) => Self::Older,
            (false, true) => Self::Newest,
            (false, false) => Self::AsNew,
        }
    }
}

/// True when an ACE field has gone on from `before` to `ace`, as far as three bits can tell.
const fn is_ahead(ace: u8, before: u8) -> bool {
    matches!((ace.wrapping_sub(before) & 7) as u32, 1..=PER_ACK_MAX)
}

impl Counters {
    /// Counters of a host that has counted none yet.
    const fn new(ace: u8) -> Self {
        Self {
            ace,
            bytes: None,
            taken: 0,
            told: 0,
            taken_bytes: [0; 3],
            shown: ace,
            segments: 0,
            segment_len: 0,
        }
    }

    fn take(&mut self, ecn: u8, segments: u32, payload: u32) {
        let Some(place) = place_of(ecn) else { return };
        if ecn & 3 == 3 {
            self.taken = self.taken.saturating_add_unsigned(segments);
        }
        self.taken_bytes[place] = self.taken_bytes[place].wrapping_add(payload);
    }

    /// The ACE field of the next packet to the host. Where bytes are counted a number only changes in a packet that has
    /// both: with CE bytes of which no packet was told, or the reverse, Linux takes seven more for marked
    /// (`__tcp_accecn_process`).
    fn tell(&mut self, has_bytes: bool) -> u8 {
        if self.bytes.is_none() || has_bytes {
            self.shown = self.next_ace();
            self.told = self.next_told();
        }
        self.shown
    }

    /// True when the host has not been told all.
    fn is_behind(&self) -> bool {
        self.next_ace() != self.shown
    }

    fn next_told(&self) -> i32 {
        self.taken.min(self.told.saturating_add_unsigned(PER_ACK_MAX))
    }

    fn next_ace(&self) -> u8 {
        self.ace.wrapping_add(self.next_told() as u8) & 7
    }

    /// Bytes that the next acknowledgement may newly cover: fewer than all where the sender could not tell how many
    /// packets were marked, because it does not hear of the bytes or the marks are many.
    pub(super) fn covers(&self) -> Option<u32> {
        let is_split = self.taken > self.next_told() || self.bytes.is_none() && self.segments > PER_ACK_MAX;
        (is_split && self.segment_len > 0).then(|| PER_ACK_MAX * self.segment_len)
    }

    /// An acknowledgement is about to leave, that covers everything or not.
    pub(super) fn acknowledge(&mut self, covers_all: bool) {
        self.segments = if covers_all { 0 } else { self.segments.saturating_sub(PER_ACK_MAX) };
    }

    /// Byte counters for the host; none where the other one sends none.
    fn bytes(&self) -> Option<[u32; 3]> {
        let own = self.bytes?;
        let sum = |place: usize| own[place].wrapping_add(self.taken_bytes[place]) & EcnByteCounters::MAX;
        Some([sum(0), sum(1), sum(2)])
    }

    /// True when an acknowledgement has to have room for byte counters, whatever else has none then.
    fn needs_bytes(&self) -> bool {
        self.segments > PER_ACK_MAX || self.is_behind()
    }
}

/// Marks that are being passed on to the sink, in acknowledgements of our own.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct PassedOn {
    /// Marks that have been sent and not been counted by the sink.
    under_way: u32,
    /// The same, of which it has acknowledged what was sent later: they are lost, or late.
    overdue: u32,
    /// End of what was sent up to then: the sink has got them when it acknowledges more.
    until: SeqNum,
    failures: u8,
    /// Packets of the source went on that may have been marked behind us: not all that the sink counts is ours.
    has_others: bool,
    /// Packets marked before us that the sink may count.
    #[stored(since(8, 0))]
    others: u32,
}

impl PassedOn {
    const fn new(nxt: SeqNum) -> Self {
        Self { under_way: 0, overdue: 0, until: nxt, failures: 0, has_others: false, others: 0 }
    }

    /// Number of the `more` marks counted by the sink that were passed on, or are copies of them.
    fn count(&mut self, more: u32) -> u32 {
        let own = self.count_own(more);
        if self.has_others { own } else { more }
    }

    /// The same where data is ECN-capable on its way to the sink: how many are not the source's, and how many of those
    /// are new ones, of that way.
    fn count_ect(&mut self, more: u32) -> (u32, u32) {
        let own = self.count_own(more);
        let others = (more - own).min(self.others);
        self.others -= others;
        (more - others, more - own - others)
    }

    fn count_own(&mut self, more: u32) -> u32 {
        let under_way = more.min(self.under_way);
        let overdue = (more - under_way).min(self.overdue);
        self.under_way -= under_way;
        self.overdue -= overdue;
        self.failures = 0;
        under_way + overdue
    }
}

/// Marks that the hosts of a flow tell each other of.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct AccurateEcn {
    initiator: End,
    /// ACE field of the packet that completed the handshake: how the SYN-ACK had arrived (§3.2.2.1).
    of_handshake: u8,
    /// The other host has answered that packet.
    is_answered: bool,
    /// It has sent its SYN-ACK again, which waits for an answer.
    repeats_syn_ack: bool,
    /// Byte counters do not go on: those that were taken are not known.
    is_without_bytes: bool,
    to_source: Counters,
    to_sink: Counters,
    passed_on: PassedOn,
    /// Our data to the sink is ECN-capable.
    #[stored(since(8, false))]
    pub(super) is_sink_ect: bool,
    /// Marks on it that the sink has told of since this was asked last.
    #[stored(since(8, 0))]
    sink_marks: u32,
}

impl AccurateEcn {
    /// State of a flow whose handshake is complete with `third`, a packet of `initiator`; data to the sink
    /// begins at `start`. `with_bytes` where the other host's SYN-ACK had byte counters.
    pub(super) fn new(initiator: End, third: &Tcp, start: SeqNum, with_bytes: bool) -> Self {
        let of_handshake = third.flags.ace();
        let own = if of_handshake == SYN_ACK_WAS_MARKED { of_handshake } else { CE_PACKETS_AT_START };
        let [of_source, of_sink] = match initiator {
            End::Source => [own, CE_PACKETS_AT_START],
            End::Sink => [CE_PACKETS_AT_START, own],
        };
        let mut new = Self {
            initiator,
            of_handshake,
            is_answered: false,
            repeats_syn_ack: false,
            is_without_bytes: false,
            to_source: Counters::new(of_sink),
            to_sink: Counters::new(of_source),
            passed_on: PassedOn::new(start),
            is_sink_ect: false,
            sink_marks: 0,
        };
        new.to(initiator).bytes = with_bytes.then_some(BYTES_AT_START);
        new
    }

    /// Counters that a host is told.
    pub(super) fn to(&mut self, host: End) -> &mut Counters {
        match host {
            End::Source => &mut self.to_source,
            End::Sink => &mut self.to_sink,
        }
    }

    /// True for a packet of `from` whose ACE field tells of the SYN-ACK: it goes on as it is.
    fn is_of_handshake(&self, from: End, tcp: &Tcp) -> bool {
        from == self.initiator && !self.is_answered && tcp.segment_len() == 0
    }

    /// Follows an acceptable segment of `from`. True when it tells of marks that were not known.
    pub(super) fn note(&mut self, from: End, tcp: &Tcp, bytes: Option<EcnByteCounters>, age: Age) -> bool {
        self.is_answered |= from != self.initiator;
        let (is_of_handshake, is_without_bytes) = (self.is_of_handshake(from, tcp), self.is_without_bytes);
        let is_sink_ect = self.is_sink_ect && from == End::Sink;
        let counts = match age {
            Age::Newest => true,
            Age::AsNew => is_ahead(tcp.flags.ace(), self.to(from.opposite()).ace),
            Age::Older => false,
        };
        if !counts && !is_of_handshake {
            return false;
        }
        let to = self.to(from.opposite());
        if let Some(bytes) = bytes.filter(|_| !is_without_bytes) {
            if to.bytes.is_none() {
                // What was told without bytes is told: with them it would be told once more.
                to.taken_bytes = [0; 3];
            }
            let before = to.bytes.unwrap_or(BYTES_AT_START);
            let [ect0, ce, ect1] = before;
            let after = [bytes.ect0.unwrap_or(ect0), bytes.ce.unwrap_or(ce), bytes.ect1.unwrap_or(ect1)];
            to.bytes = Some(after);
            if is_sink_ect {
                // All data that reaches the sink is sent here.
                for (place, taken) in to.taken_bytes.iter_mut().enumerate() {
                    *taken = taken.wrapping_sub(after[place].wrapping_sub(before[place]));
                }
            }
        }
        if is_of_handshake {
            return false;
        }
        let ace = tcp.flags.ace();
        let more = u32::from(ace.wrapping_sub(std::mem::replace(&mut to.ace, ace)) & 7);
        if from == End::Sink && more > 0 {
            // As far as they are ones that we have passed on, they are not ours any more.
            let ours = if is_sink_ect {
                let (ours, new) = self.passed_on.count_ect(more);
                self.sink_marks += new;
                ours
            } else {
                self.passed_on.count(more)
            };
            self.to_source.taken = self.to_source.taken.saturating_sub_unsigned(ours);
            self.to_source.told = self.to_source.told.saturating_sub_unsigned(ours);
        }
        more > 0
    }

    /// The sink has acknowledged all up to `una`. What was passed on before that has arrived, or is lost.
    pub(super) fn on_progress(&mut self, una: SeqNum) {
        let passed_on = &mut self.passed_on;
        if passed_on.under_way > 0 && una.is_after(passed_on.until) {
            passed_on.overdue += std::mem::take(&mut passed_on.under_way);
            passed_on.failures += 1;
        }
    }

    /// True when a mark that was taken and told is to be passed on: of the ACE field's eight, seven at most.
    pub(crate) fn has_mark_for_sink(&self) -> bool {
        // Eight are as good as none.
        let left = u32::try_from(self.to_source.told).map_or(0, |told| told % 8);
        self.passed_on.failures < FAILURES_MAX && left > self.passed_on.under_way
    }

    /// A mark leaves to the sink, behind all up to `nxt`.
    pub(super) fn pass_mark_on(&mut self, nxt: SeqNum) {
        self.passed_on.under_way += 1;
        self.passed_on.until = nxt;
    }

    /// A packet of the source with this ECN field goes on, that may be marked on its way.
    pub(super) fn note_other(&mut self, ecn: u8) {
        self.passed_on.has_others = true;
        self.passed_on.others += u32::from(ecn & 3 == 3);
    }

    /// Marks on ECN-capable data of ours that the sink has told of since this was asked last.
    pub(super) fn take_sink_marks(&mut self) -> u32 {
        std::mem::take(&mut self.sink_marks)
    }

    /// Counts a packet of `from` that is taken here: its ECN field, its segments, and bytes of payload.
    pub(super) fn take(&mut self, from: End, ecn: u8, segments: u32, payload: u32) {
        self.to(from).take(ecn, segments, payload);
    }

    /// Notes data of the source that is to be acknowledged to it: `segments` segments, `len` bytes in all.
    pub(super) fn note_data(&mut self, segments: u32, len: u32) {
        self.to_source.segments = self.to_source.segments.saturating_add(segments);
        self.to_source.segment_len = self.to_source.segment_len.max(len.div_ceil(segments.max(1)));
    }

    /// True when segments to the sink may leave as one packet, for others to cut: that keeps CWR on the first one only
    /// (RFC 3168 §6.1.2, Linux `tcp_gso_segment`), and here it is a bit of a number.
    pub(super) fn may_merge(&self) -> bool {
        let counters = &self.to_sink;
        let ace = if counters.bytes.is_some() { counters.shown } else { counters.next_ace() };
        !TcpFlags::NONE.with_ace(ace).contains(TcpFlags::CWR)
    }

    /// A host has sent its SYN-ACK again: the packet that completed the handshake was lost. The next one without data
    /// says what that said.
    pub(super) fn on_syn_ack(&mut self) {
        self.repeats_syn_ack = !self.is_answered;
    }

    /// Puts the ACE field for `host` into the flags of a packet of our own; `is_bare` without data.
    pub(super) fn tell(&mut self, host: End, spec: &mut TcpHeaderSpec, is_bare: bool) {
        let answers_syn_ack = is_bare
            && host != self.initiator
            && std::mem::take(&mut self.repeats_syn_ack)
            && !self.is_answered;
        let has_bytes = spec.ecn_byte_counters.is_some();
        let ace = if answers_syn_ack { self.of_handshake } else { self.to(host).tell(has_bytes) };
        spec.flags = spec.flags.with_ace(ace);
    }

    /// Byte counters for an acknowledgement to the sink.
    pub(super) fn bytes_for_sink(&self) -> Option<[u32; 3]> {
        self.to_sink.bytes()
    }

    /// True when `host` has not been told all: what has byte counters is told in packets that have room for them.
    pub(super) fn is_behind(&mut self, host: End) -> bool {
        self.to(host).is_behind()
    }

    /// Puts what the other host is to be told into a packet of `from` that goes on: the newest that `from` has told,
    /// and what is ours.
    pub(super) fn rewrite(&mut self, from: End, tcp: &Tcp, edit: &mut TcpEditor<'_>) {
        if self.is_of_handshake(from, tcp) {
            return;
        }
        let to = self.to(from.opposite());
        // As in `Counters::tell`, but what the host itself has told goes on as it does.
        if to.bytes.is_none() || tcp.options.accecn {
            to.told = to.next_told();
        }
        to.shown = to.ace.wrapping_add(to.told as u8) & 7;
        edit.set_flags(tcp.flags.with_ace(to.shown));
        match to.bytes() {
            Some(bytes) => edit.set_ecn_byte_counters(bytes),
            None => edit.clear_ecn_byte_counters(),
        };
    }

    /// Byte counters for an acknowledgement to the source; none where SACK blocks need their room more.
    pub(super) fn bytes_beside(&self, has_blocks: bool) -> Option<[u32; 3]> {
        let counters = &self.to_source;
        counters.bytes().filter(|_| !has_blocks || counters.needs_bytes())
    }

    /// Word of four numbers of three bits: what the source was told last, what of it is ours, and both of
    /// the sink.
    pub(super) fn word(&self) -> u32 {
        let three = |value: u32, place: u32| (value & 7) << (3 * place);
        let of = |counters: &Counters, place: u32| {
            three(u32::from(counters.ace), place) | three(counters.told as u32, place + 1)
        };
        of(&self.to_source, 0) | of(&self.to_sink, 2)
    }

    /// State from such a word: what is known after the death of a process. Marks that were passed on and not
    /// counted are ours still, and are passed on once more.
    pub(super) fn of_word(word: u32, nxt: SeqNum) -> Self {
        let three = |place: u32| word >> (3 * place) & 7;
        let counters = |place: u32| Counters {
            taken: three(place + 1) as i32,
            told: three(place + 1) as i32,
            shown: (three(place) + three(place + 1)) as u8 & 7,
            ..Counters::new(three(place) as u8)
        };
        Self {
            initiator: End::Sink,
            of_handshake: 0,
            is_answered: true,
            repeats_syn_ack: false,
            is_without_bytes: true,
            to_source: counters(0),
            to_sink: counters(2),
            passed_on: PassedOn::new(nxt),
            is_sink_ect: false,
            sink_marks: 0,
        }
    }
}

#[cfg(test)]
#[path = "accurate_ecn/tests.rs"]
mod tests;
