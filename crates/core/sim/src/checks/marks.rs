//! Marks by accurate ECN (RFC 9768): no host is told of more than its packets have met, and none of fewer.

use engine::Port;
use units::SeqNum;
use wire::{Tcp, TcpFlags};

use super::FlowChecks;

const MARK_INVENTED: &str = "it tells of a CE mark that never arrived";

/// Marks on what one host sends, where it agreed on accurate ECN, and what it was told of them.
#[derive(Clone, Debug, Default)]
pub(super) struct MarksTold {
    /// It said in its SYN or SYN-ACK what it must.
    agrees: bool,
    /// Packets that reached the middlebox marked CE, and those of them that had to be taken in.
    arrived: u64,
    acceptable: u64,
    /// Newest time of them.
    newest: Option<u32>,
    /// The end of what was selectively acknowledged to it.
    sacked: Option<SeqNum>,
    /// The counter that it was told last, and how far it has grown: in what is news, and in all.
    believed: Growth,
    told: Growth,
    /// Some were counted by the other host, before the middlebox took what this one sends.
    is_passed: bool,
    /// The middlebox has handed the flow back, or forgotten it, in between.
    is_broken: bool,
}

/// Growth of a counter of three bits, from 5 on (RFC 9768 §3.2.1).
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    last: Option<u8>,
    by: u64,
}

impl Growth {
    fn follow(&mut self, ace: u8) {
        let last = self.last.replace(ace).unwrap_or(5);
        self.by += u64::from(ace.wrapping_sub(last) & 7);
    }
}

impl MarksTold {
    /// Begins for a host that sends this SYN or SYN-ACK.
    pub(super) fn begin(tcp: &Tcp) -> Self {
        let agrees = if tcp.flags.contains(TcpFlags::ACK) {
            matches!(tcp.flags.ace(), 2..=4 | 6)
        } else {
            tcp.flags.ace() == 7
        };
        Self { agrees, ..Self::default() }
    }

    /// A packet of the host has reached the middlebox; `is_new` where it carries what is taken in and had not come.
    pub(super) fn arrive(&mut self, is_marked: bool, tcp: &Tcp, is_new: bool) {
        let tsval = tcp.options.timestamps.map(|times| times.value);
        let age = self.newest.zip(tsval).map(|(last, value)| value.wrapping_sub(last) as i32);
        if is_marked && !tcp.flags.intersects(TcpFlags::SYN | TcpFlags::RST) {
            // Of what has come before a host may think that it is old.
            let is_old = age.is_some_and(|age| age < 0);
            self.arrived += 1;
            self.acceptable += u64::from(is_new && !is_old && tcp.payload_len > 0);
        }
        if age.is_none_or(|age| age > 0) {
            self.newest = tsval.or(self.newest);
        }
    }

    /// Number of marks that the host was told of, where they are too few; asked at the end of its flow.
    pub(super) fn lost(&self) -> Option<String> {
        let (told, acceptable, arrived) = (self.told.by, self.acceptable, self.arrived);
        let is_lost = !self.is_broken && !self.is_passed && told < acceptable;
        is_lost.then(|| format!("{told} of {acceptable} to {arrived} CE marks"))
    }

    /// The host is told `ace`, in a packet that is news or may be old; false when that is too much.
    fn tell(&mut self, ace: u8, is_news: bool) -> bool {
        self.told.follow(ace);
        if is_news {
            self.believed.follow(ace);
        }
        self.believed.by <= self.arrived || self.is_passed
    }

    /// Hosts speak for themselves from here on, or another middlebox does that knows less.
    pub(super) fn break_off(&mut self) {
        self.is_broken = true;
    }
}

impl FlowChecks {
    pub(super) fn agrees_on_accurate_ecn(&self) -> bool {
        self.down.marks.agrees && self.up.marks.agrees
    }

    /// RFC 9768 §3.2.2: a host hears of no more CE marks than its packets have met.
    pub(super) fn broken_mark_rule(&mut self, tcp: &Tcp, to: Port) -> Option<&'static str> {
        let is_counter = !tcp.flags.intersects(TcpFlags::SYN | TcpFlags::RST);
        if !self.agrees_on_accurate_ecn() || !is_counter || self.is_reset {
            return None;
        }
        let (own, peer) = self.streams(to);
        // What a host hears once its stream has ended, and is acknowledged, slows nothing down. A flow that was to be
        // handed back ends so: its hosts' own numbers go on at once, while its other direction is still taken.
        if own.fin_end.is_some_and(|end| own.acked_to_host.is_at_or_after(end)) {
            return None;
        }
        // Before anything is acknowledged it may tell how the SYN-ACK has arrived.
        let is_of_handshake = own.isn.is_none_or(|isn| tcp.ack == isn + 1) && tcp.segment_len() == 0;
        // What the middlebox does not take may be doubled behind it, or lost.
        if is_of_handshake || own.marks.is_broken || !own.is_accelerated {
            own.marks.is_passed |= own.marks.arrived > 0;
            return None;
        }
        // A host believes what comes with an acknowledgement or a time that is news (Linux `tcp_accecn_process`).
        let times = tcp.options.timestamps.zip(peer.tsval_sent_on);
        let has_later_time = times.is_some_and(|(ts, last)| (ts.value.wrapping_sub(last) as i32) > 0);
        let sacked = tcp.options.sack.iter().map(|block| block.end).reduce(SeqNum::later_of);
        let sacks_more = sacked.is_some_and(|end| own.marks.sacked.is_none_or(|last| end.is_after(last)));
        if sacks_more {
            own.marks.sacked = sacked;
        }
        let is_news = tcp.ack.is_after(own.acked_to_host)
            || (tcp.ack == own.acked_to_host && (has_later_time || sacks_more));
        (!own.marks.tell(tcp.flags.ace(), is_news)).then_some(MARK_INVENTED)
    }
}
