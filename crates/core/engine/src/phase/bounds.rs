//! [`Bounds`]: which segments of a flow that passes may be its hosts'. A stranger's pass like any other, and
//! nothing is learnt from them.

use units::{SeqNum, WindowScale};
use wire::{Tcp, TcpFlags};

use crate::direction::End;
use crate::handshake::{Agreement, Offer};
use crate::relay::acceptance::{AckKind, AckRange};

/// Distance beyond a window within which a number is believed: an end of stream, a probe.
const BEYOND_WINDOW: u32 = 2;

/// The stream of one host, as far as it has passed.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Stream {
    /// Highest number that the other host has acknowledged.
    una: SeqNum,
    /// One past the highest number sent.
    nxt: SeqNum,
    /// One past the last number that the other host has allowed.
    edge: SeqNum,
    /// Range of its acknowledgements: how far back they may lie.
    acks: AckRange,
    /// Scale of the windows that the host itself states.
    scale: WindowScale,
}

impl Stream {
    fn new(own: &Offer, peer: &Offer, scale: WindowScale) -> Self {
        let start = own.isn + 1;
        let acks = AckRange::new(peer.granted);
        Self { una: start, nxt: start, edge: start + peer.granted, acks, scale }
    }

    fn has_number(&self, tcp: &Tcp) -> bool {
        tcp.seq_end().is_at_or_after(self.una) && tcp.seq.is_at_or_before(self.edge + BEYOND_WINDOW)
    }

    fn note_sent(&mut self, tcp: &Tcp) {
        let end = tcp.seq_end();
        if tcp.segment_len() > 0 && end.is_at_or_before(self.edge + BEYOND_WINDOW) {
            self.nxt = self.nxt.later_of(end);
        }
    }

    fn note_ack(&mut self, ack: SeqNum, window: u32) {
        self.acks.note_acked(ack.since(self.una));
        self.acks.note_allowed(window.max(self.nxt.since(ack)));
        self.una = ack;
        self.edge = self.edge.later_of(ack + window);
    }
}

/// Sender of a segment of a flow that passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sender {
    /// One of its hosts.
    Host,
    /// One of its hosts, which acknowledges what never passed here.
    HostElsewhere,
    /// Perhaps none of them.
    Stranger,
}

/// Progress of both streams of a flow that passes.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct Bounds {
    source: Stream,
    sink: Stream,
}

impl Bounds {
    /// Begins with a handshake that is complete.
    pub(super) fn new(agreement: &Agreement) -> Self {
        let Agreement { sink, source, .. } = agreement;
        Self {
            source: Stream::new(source, sink, agreement.source_scale()),
            sink: Stream::new(sink, source, agreement.sink_scale()),
        }
    }

    fn streams(&mut self, from: End) -> (&mut Stream, &mut Stream) {
        match from {
            End::Source => (&mut self.source, &mut self.sink),
            End::Sink => (&mut self.sink, &mut self.source),
        }
    }

    /// Takes in a segment that comes from `from`, and is no SYN.
    pub(super) fn note(&mut self, from: End, tcp: &Tcp) -> Sender {
        let (own, peer) = self.streams(from);
        if !own.has_number(tcp) {
            return Sender::Stranger;
        }
        if tcp.flags.contains(TcpFlags::RST) {
            return Sender::Host;
        }
        match peer.acks.judge(tcp, peer.una, peer.nxt) {
            AckKind::Missing | AckKind::TooOld => Sender::Stranger,
            AckKind::NeverSent => Sender::HostElsewhere,
            kind => {
                own.note_sent(tcp);
                if kind.is_current() {
                    peer.note_ack(tcp.ack, own.scale.window(tcp.window));
                }
                Sender::Host
            }
        }
    }
}
