//! The handshake, observed: nothing in it is changed or answered.

use units::{Duration, Instant, SeqNum, WindowScale};
use wire::{Tcp, TcpFlags, TcpOptions};

use crate::direction::End;
use crate::pass::PassReason;
use crate::timestamp::later_of;

/// MSS when the peer states none (RFC 9293 §3.7.1).
const MSS_DEFAULT_V4: u16 = 536;
const MSS_DEFAULT_V6: u16 = 1_220;

/// Least MSS of either side of a flow that is taken over, that of Linux (`TCP_MIN_MSS`): who says
/// less would be sent more than that, or more headers than data.
const MSS_MIN: u16 = 88;

/// Most payload of one segment, whatever the sink says: with the longest headers it fits into a packet.
const MSS_MAX: u32 = 65_535 - 40 - 60;

/// Bytes of the timestamps option with its padding.
pub(crate) const TIMESTAMPS_LEN: u32 = 12;

/// Options that one side offered in its SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub(crate) struct Offer {
    pub(crate) isn: SeqNum,
    /// Unscaled (RFC 7323 §2.2).
    pub(crate) window: u16,
    /// Bytes of the other side's stream that it has allowed so far: in the SYN unscaled (RFC 7323
    /// §2.2), and in what has passed since, which overtook the packet that completes the handshake.
    pub(crate) granted: u32,
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<WindowScale>,
    pub(crate) sack: bool,
    pub(crate) timestamp: Option<u32>,
    pub(crate) ecn: bool,
    /// A SYN that offers accurate ECN (RFC 9768 §3.1.1): its flags are others than those of a client that
    /// offers classic ECN or none. The SYN-ACK says whether it is agreed on.
    pub(crate) offers_accurate_ecn: bool,
    /// A SYN offers it with all three flags, or a SYN-ACK agrees to such an offer.
    #[stored(since(7, false))]
    pub(crate) accurate_ecn: bool,
    /// It has byte counters of accurate ECN (RFC 9768 §3.2.3).
    #[stored(since(7, false))]
    pub(crate) ecn_bytes: bool,
}

impl Offer {
    fn of(tcp: &Tcp) -> Self {
        let flags = tcp.flags;
        let is_reply = flags.contains(TcpFlags::ACK);
        let [ae, cwr, ece] = [TcpFlags::AE, TcpFlags::CWR, TcpFlags::ECE].map(|flag| flags.contains(flag));
        // RFC 3168 §6.1.1: SYN with ECE and CWR, SYN-ACK with ECE alone.
        let ecn = ece && is_reply != cwr;
        Self {
            isn: tcp.seq,
            window: tcp.window,
            granted: u32::from(tcp.window),
            mss: tcp.options.mss,
            window_scale: tcp.options.window_scale,
            sack: tcp.options.sack_permitted,
            timestamp: tcp.options.timestamps.map(|t| t.value),
            ecn,
            offers_accurate_ecn: !is_reply && (ae || cwr != ece || offers_in_options(tcp)),
            accurate_ecn: !is_reply && ae && cwr && ece,
            ecn_bytes: tcp.options.accecn,
        }
    }

    /// True when it is the same SYN sent again: only its time differs, and what was allowed since
    /// is not in it. Nor need what it offered of ECN (RFC 3168 §6.1.1.1, RFC 9768 §3.1.4.1).
    fn repeats(&self, earlier: &Self) -> bool {
        let Self { timestamp, granted, ecn, offers_accurate_ecn, accurate_ecn, ecn_bytes, .. } = *earlier;
        Self { timestamp, granted, ecn, offers_accurate_ecn, accurate_ecn, ecn_bytes, ..*self } == *earlier
    }

    /// Keeps what is known of it from `earlier`, where this is the same SYN or SYN-ACK again: a copy may come
    /// late, and what has gone on with a newer time, or allowed more, counts (H28).
    fn keep(&mut self, earlier: &Self) {
        let newest = self.timestamp.zip(earlier.timestamp).map(|(a, b)| later_of(a, b));
        self.timestamp = newest.or(self.timestamp);
        self.granted = self.granted.max(earlier.granted);
        // Nobody knows which of them is answered: the answer tells.
        self.ecn |= earlier.ecn;
        self.offers_accurate_ecn |= earlier.offers_accurate_ecn;
        self.accurate_ecn |= earlier.accurate_ecn;
        self.ecn_bytes |= earlier.ecn_bytes;
    }

    /// Follows the newest TSval: packets that overtake the third one go on before we take over.
    fn note_timestamp(&mut self, tcp: &Tcp) {
        if let (Some(newest), Some(timestamps)) = (self.timestamp.as_mut(), tcp.options.timestamps) {
            *newest = later_of(*newest, timestamps.value);
        }
    }

    /// Follows the largest window told to `peer`, for the same reason: what was allowed is not taken back.
    fn note_window(&mut self, tcp: &Tcp, peer: &Self) {
        if tcp.flags.contains(TcpFlags::ACK) && tcp.ack == peer.isn + 1 {
            let scale =
                self.window_scale.filter(|_| peer.window_scale.is_some()).unwrap_or(WindowScale::NONE);
            self.granted = self.granted.max(scale.window(tcp.window));
        }
    }
}

/// Options that both sides agreed on.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct Agreement {
    pub(crate) sink: Offer,
    pub(crate) source: Offer,
    /// End that has sent the SYN.
    #[stored(since(7, End::Sink))]
    pub(crate) initiator: End,
}

impl Agreement {
    pub(crate) fn timestamps(&self) -> bool {
        self.sink.timestamp.is_some() && self.source.timestamp.is_some()
    }
    pub(crate) fn sack(&self) -> bool {
        self.sink.sack && self.source.sack
    }
    pub(crate) fn ecn(&self) -> bool {
        self.sink.ecn && self.source.ecn
    }
    /// True when each of the two has said of accurate ECN what it must (RFC 9768 §3.1.1, §3.1.2).
    pub(crate) fn accurate_ecn(&self) -> bool {
        self.sink.accurate_ecn && self.source.accurate_ecn
    }
    /// True when the SYN-ACK had byte counters of accurate ECN.
    pub(crate) fn counts_ecn_bytes(&self) -> bool {
        match self.initiator {
            End::Sink => self.source.ecn_bytes,
            End::Source => self.sink.ecn_bytes,
        }
    }
    /// Scale of the windows the sink states, and of those stated in its name.
    pub(crate) fn sink_scale(&self) -> WindowScale {
        match (self.sink.window_scale, self.source.window_scale) {
            (Some(scale), Some(_)) => scale,
            _ => WindowScale::NONE,
        }
    }
    /// Scale of the windows the source states.
    pub(crate) fn source_scale(&self) -> WindowScale {
        match (self.sink.window_scale, self.source.window_scale) {
            (Some(_), Some(scale)) => scale,
            _ => WindowScale::NONE,
        }
    }

    /// Payload of the largest segment towards the sink, options deducted, in bytes.
    ///
    /// What the source can take fits its way to us, and its own segments would be no larger. A sink
    /// that can take more, by jumbo frames or a number made for the other IP version, says nothing
    /// about the way to it.
    pub(crate) fn mss(&self, is_v4: bool) -> u32 {
        let options_len = if self.timestamps() { TIMESTAMPS_LEN } else { 0 };
        u32::from(self.stated_mss(is_v4).max(MSS_MIN)).saturating_sub(options_len).min(MSS_MAX)
    }

    fn stated_mss(&self, is_v4: bool) -> u16 {
        let default = if is_v4 { MSS_DEFAULT_V4 } else { MSS_DEFAULT_V6 };
        self.sink.mss.unwrap_or(default).min(self.source.mss.unwrap_or(u16::MAX))
    }

    /// True when segments would be too short to be worth it.
    pub(crate) fn has_tiny_segments(&self, is_v4: bool) -> bool {
        self.stated_mss(is_v4) < MSS_MIN
    }
}

/// A handshake under way.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct Handshake {
    initiator: End,
    syn: Offer,
    syn_at: Instant,
    reply: Option<Offer>,
    reply_at: Instant,
    /// Something was sent twice: which of them was answered, nobody knows (Karn).
    is_repeated: bool,
}

/// Round trips of the handshake, from where we stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub(crate) struct RoundTrips {
    /// Time to the sink and back.
    pub(crate) to_sink: Duration,
    /// Time to the source and back.
    pub(crate) to_source: Duration,
    /// Something was sent twice: they may be too short.
    pub(crate) is_doubtful: bool,
}

/// Effect of a packet on the handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// It goes on.
    Continue,
    /// It is complete with this packet; the two hosts took so long to answer.
    Established(Agreement, RoundTrips),
    /// The flow is to be passed.
    Pass(PassReason),
}

impl Handshake {
    /// Starts with a SYN that came in at `from`.
    pub(crate) fn begin(tcp: &Tcp, from: End, now: Instant) -> Result<Self, PassReason> {
        check(tcp)?;
        Ok(Self {
            initiator: from,
            syn: Offer::of(tcp),
            syn_at: now,
            reply: None,
            reply_at: now,
            is_repeated: false,
        })
    }

    /// True when its hosts have said nothing in it that they had not said in `earlier`.
    pub(crate) fn says_as_much_as(&self, earlier: &Self) -> bool {
        (self.syn, self.reply) == (earlier.syn, earlier.reply)
    }

    /// Takes in the next packet of the flow.
    pub(crate) fn on_packet(&mut self, tcp: &Tcp, from: End, now: Instant) -> Step {
        if tcp.flags.contains(TcpFlags::RST) {
            let resets = self.is_reset(tcp, from);
            return if resets { Step::Pass(PassReason::Reset) } else { Step::Continue };
        }
        let result = match (from == self.initiator, tcp.flags.contains(TcpFlags::SYN)) {
            // Once the first one was answered, another one is somebody's: it would be answered otherwise.
            (true, true) if self.reply.is_some() && tcp.seq != self.syn.isn => Ok(()),
            (true, true) => Self::begin(tcp, from, now).map(|mut new| {
                let is_same = new.syn.repeats(&self.syn);
                if is_same {
                    new.syn.keep(&self.syn);
                }
                // The reply to a SYN answers the same SYN sent again as well.
                let reply = self.reply.filter(|_| is_same);
                *self = Self { reply, reply_at: self.reply_at, is_repeated: true, ..new };
            }),
            (false, true) => self.on_reply(tcp, now),
            (true, false) => {
                let reply = self.reply.filter(|reply| answers(tcp, &self.syn, reply));
                if reply.is_some() {
                    self.syn.note_timestamp(tcp);
                }
                let step = self.on_ack(tcp, now);
                if let (Step::Continue, Some(reply)) = (&step, &reply) {
                    self.syn.note_window(tcp, reply);
                }
                return step;
            }
            // Of somebody who knows nothing of the handshake's numbers nothing counts.
            (false, false) if !self.is_of_responder(tcp) => Ok(()),
            // It took a third packet that we did not see as one: what it sends passes us unaccounted.
            (false, false) if tcp.segment_len() > 0 => Err(PassReason::Desynchronised),
            (false, false) => {
                if let Some(reply) = self.reply.as_mut() {
                    reply.note_timestamp(tcp);
                    reply.note_window(tcp, &self.syn);
                }
                Ok(())
            }
        };
        result.map_or_else(Step::Pass, |()| Step::Continue)
    }

    fn on_reply(&mut self, tcp: &Tcp, now: Instant) -> Result<(), PassReason> {
        if !tcp.flags.contains(TcpFlags::ACK) {
            return Err(PassReason::SimultaneousOpen);
        }
        if tcp.ack == self.syn.isn + 1 {
            check(tcp)?;
            let mut reply = Offer::of(tcp);
            reply.accurate_ecn = self.judge_ecn(tcp)?;
            if let Some(known) = self.reply.filter(|known| known.isn == reply.isn) {
                reply.keep(&known);
            }
            self.is_repeated |= self.reply.is_some();
            self.reply = Some(reply);
            self.reply_at = now;
        }
        Ok(())
    }

    /// Judges the ECN flags of a SYN-ACK: true when it agrees to accurate ECN, by its flags AE, CWR and ECE
    /// (RFC 9768 §3.1.2, table 2).
    ///
    /// | flags | to a SYN that offers it | to another one |
    /// |---|---|---|
    /// | 000 | no ECN | no ECN |
    /// | 001 | classic ECN | classic ECN |
    /// | 010, 100, 110 | accepted | its offer was not seen |
    /// | 011 | accepted | no ECN: the server repeats what it gets (RFC 3168 §6.1.1) |
    /// | 101 | reserved (§3.1.3) | its offer was not seen |
    /// | 111 | broken | broken |
    ///
    /// # Errors
    /// What is broken, reserved, or answers an offer that was not seen, passes: nobody knows what its hosts make of
    /// it. So does the experimental form of the option.
    fn judge_ecn(&self, tcp: &Tcp) -> Result<bool, PassReason> {
        let is_accepted = match tcp.flags.ace() {
            0 | 1 => false,
            // Without an offer it is classic ECN's, repeated.
            3 if !self.syn.offers_accurate_ecn => false,
            2..=4 | 6 if self.syn.accurate_ecn => true,
            _ => return Err(PassReason::AccurateEcn),
        };
        let is_odd = tcp.options.experimental_accecn || tcp.options.accecn && !is_accepted;
        if is_odd { Err(PassReason::AccurateEcn) } else { Ok(is_accepted) }
    }

    /// The third packet: the initiator acknowledges the reply's SYN, perhaps with data.
    fn on_ack(&self, tcp: &Tcp, now: Instant) -> Step {
        let Some(reply) = self.reply else {
            // The initiator has the reply and we have not: it came another way (H10).
            let is_third = tcp.flags.contains(TcpFlags::ACK) && tcp.seq == self.syn.isn + 1;
            return if is_third { Step::Pass(PassReason::OneDirection) } else { Step::Continue };
        };
        if !answers(tcp, &self.syn, &reply) {
            return Step::Continue;
        }
        if tcp.seq.is_after(self.syn.isn + 1) && tcp.segment_len() > 0 {
            // The third packet and the first data were lost before us, and this passes us
            // unaccounted: what comes again must not be taken for the third packet.
            return Step::Pass(PassReason::Desynchronised);
        }
        if tcp.ack != reply.isn + 1 || tcp.seq != self.syn.isn + 1 {
            return Step::Continue;
        }
        // As how the SYN-ACK has arrived, or with data as the counter (RFC 9768 §3.2.2.1).
        if reply.accurate_ecn && !matches!(tcp.flags.ace(), 2..=6) {
            // The two do not agree, or somebody on the way clears the flags.
            return Step::Pass(PassReason::AccurateEcn);
        }
        let of_reply = self.reply_at.saturating_since(self.syn_at);
        let of_third = now.saturating_since(self.reply_at);
        let is_doubtful = self.is_repeated;
        match self.initiator {
            End::Sink => Step::Established(
                Agreement { sink: self.syn, source: reply, initiator: End::Sink },
                RoundTrips { to_sink: of_third, to_source: of_reply, is_doubtful },
            ),
            End::Source => Step::Established(
                Agreement { sink: reply, source: self.syn, initiator: End::Source },
                RoundTrips { to_sink: of_reply, to_source: of_third, is_doubtful },
            ),
        }
    }
}

impl Handshake {
    /// True for a segment behind the reply, which may not have come through us.
    fn is_of_responder(&self, tcp: &Tcp) -> bool {
        match &self.reply {
            Some(reply) => answers(tcp, reply, &self.syn),
            None => tcp.flags.contains(TcpFlags::ACK) && tcp.ack == self.syn.isn + 1,
        }
    }

    /// True for a reset that a host of the handshake would believe (RFC 9293 §3.10.7.3, §3.10.7.4), or one
    /// that has gone on.
    fn is_reset(&self, tcp: &Tcp, from: End) -> bool {
        let granted = |by: Option<Offer>| by.map_or(0, |by| by.granted);
        if from == self.initiator {
            return tcp.seq.is_within(self.syn.isn, granted(self.reply).saturating_add(2));
        }
        let refuses = tcp.flags.contains(TcpFlags::ACK) && tcp.ack == self.syn.isn + 1;
        let aborts =
            self.reply.is_some_and(|reply| tcp.seq.is_within(reply.isn, self.syn.granted.saturating_add(2)));
        refuses || aborts
    }
}

/// True when a segment of the host that said `own`, to the one that said `peer`, lies within the windows that
/// the two have told: no stranger's does but by chance.
fn answers(tcp: &Tcp, own: &Offer, peer: &Offer) -> bool {
    tcp.flags.contains(TcpFlags::ACK)
        && tcp.ack.is_within(peer.isn + 1, own.granted.saturating_add(2))
        && tcp.seq.is_within(own.isn + 1, peer.granted.saturating_add(2))
}

/// True when the options of a SYN offer accurate ECN.
fn offers_in_options(tcp: &Tcp) -> bool {
    tcp.options.accecn || tcp.options.experimental_accecn
}

/// Checks a SYN for what makes a flow one to pass (H9).
fn check(tcp: &Tcp) -> Result<(), PassReason> {
    let TcpOptions { mptcp, md5, ao, malformed, .. } = tcp.options;
    if malformed {
        Err(PassReason::MalformedOptions)
    } else if mptcp {
        Err(PassReason::Mptcp)
    } else if md5 || ao {
        Err(PassReason::Authenticated)
    } else if tcp.payload_len > 0 {
        Err(PassReason::SynData)
    } else {
        Ok(())
    }
}
