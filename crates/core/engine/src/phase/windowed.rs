//! [`Windowed`] (`drwa`): the window of a flow that is not split, lowered on its way to the server. \[DR\].
//!
//! ```text
//!   server ───── data ────▶ ┌──────────┐ ───── data ────▶ client
//!          ◀── ACK, rwnd ── │ Windowed │ ◀── ACK, own ───
//!      TSval up → its echo  └──────────┘  data down → its ACK
//!        = wired half                      = mobile half, with the radio queue
//! ```
//!
//! Nothing is held, made or answered, and of what passes only the window field of the client's
//! segments changes. So the flow can be let go at any time: the client's own window, which is never
//! smaller, is then what the server hears.
//!
//! A receiver sees the whole round trip in one: the time from an acknowledgement's TSval to the
//! data that echoes it. From the middle that would lack the mobile segment, and with it the queue:
//! each half is measured by itself, and their sum is RTT_est. Without timestamps the wired half
//! stays what it was in the handshake.

use control::{Drwa, DrwaParams, WindowField};
use units::{Bytes, Duration, Instant, SeqNum, WindowScale};
use wire::{Tcp, TcpFlags};

use super::bounds::{Bounds, Sender};
use super::next::Next;
use crate::boundary::Verdict;
use crate::direction::End;
use crate::handshake::{Agreement, RoundTrips};
use crate::pass::PassReason;
use crate::segment::{Context, Segment};
use crate::stats::Stats;

mod half_timer;

use half_timer::HalfTimer;

/// Acknowledgements in a row of what never came through us: the data takes another way (H10, H27).
pub(crate) const NONSENSE_MAX: u32 = 8;

/// Distance beyond the window within which a number is believed: a probe, an end of stream.
const BEYOND_WINDOW: u32 = 2;

/// A flow whose client's window is lowered.
#[derive(Debug, stored::Stored)]
pub(crate) struct Windowed {
    drwa: Drwa,
    field: WindowField,
    scale: WindowScale,
    sink_isn: SeqNum,
    /// Highest number the client has acknowledged.
    una: SeqNum,
    /// One past the highest number that went down to the client.
    nxt: SeqNum,
    /// Bytes acknowledged since the start.
    delivered: Bytes,
    mobile: HalfTimer<SeqNum>,
    wired: HalfTimer<Stamp>,
    /// The wired half, as it was before the round under way.
    wired_rtt: Duration,
    /// Smallest sample of the wired half in the round under way: a server that waits for its
    /// application makes it long.
    wired_in_round: Option<Duration>,
    /// Time at which data last went down.
    last_data: Instant,
    told: Bytes,
    has_ended: [bool; 2],
    nonsense: u32,
    /// Bounds of the hosts whose segments are believed; all are where that is not known.
    bounds: Option<Bounds>,
}

/// A TSval, compared on its circle (RFC 7323 §5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
struct Stamp(u32);

impl half_timer::Mark for Stamp {
    fn is_covered_by(self, reached: Self) -> bool {
        reached.0.wrapping_sub(self.0) as i32 >= 0
    }
}

impl half_timer::Mark for SeqNum {
    fn is_covered_by(self, reached: Self) -> bool {
        self.is_at_or_before(reached)
    }
}

impl Windowed {
    /// Begins with a handshake that is complete.
    pub(crate) fn new(
        agreement: &Agreement,
        params: DrwaParams,
        is_v4: bool,
        handshake: RoundTrips,
        now: Instant,
    ) -> Self {
        let start = agreement.source.isn + 1;
        let scale = agreement.sink_scale();
        let window = agreement.sink.granted;
        let mut drwa = Drwa::new(params, Bytes::from(agreement.mss(is_v4)));
        drwa.on_handshake(handshake.to_sink + handshake.to_source);
        Self {
            drwa,
            field: WindowField::new(start + window, scale),
            scale,
            sink_isn: agreement.sink.isn,
            una: start,
            nxt: start,
            delivered: Bytes::ZERO,
            mobile: HalfTimer::new(),
            wired: HalfTimer::new(),
            wired_rtt: handshake.to_source,
            wired_in_round: None,
            last_data: now,
            told: Bytes::from(window),
            has_ended: [false; 2],
            nonsense: 0,
            bounds: Some(Bounds::new(agreement)),
        }
    }

    /// Takes in a segment, which goes on in any case: as it is where the flow is let go.
    pub(super) fn on_segment(&mut self, segment: &mut Segment<'_>, cx: &mut Context<'_>) -> (Verdict, Next) {
        let end = self.end_by(segment, cx);
        (Verdict::Forward, end.map_or(Next::Stay, Next::Leave))
    }

    fn end_by(&mut self, segment: &mut Segment<'_>, cx: &mut Context<'_>) -> Option<PassReason> {
        let is_syn = segment.has(TcpFlags::SYN) && !segment.has(TcpFlags::RST);
        let bounds = self.bounds.as_mut().filter(|_| !is_syn);
        let sender = bounds.map_or(Sender::Host, |bounds| bounds.note(segment.from, segment.tcp));
        if is_syn {
            return None;
        }
        if sender == Sender::Stranger {
            // Or an old copy. A larger window than the one that was told would be taken back with the next
            // packet.
            if segment.from == End::Sink {
                self.lower(segment, cx.stats);
            }
            return None;
        }
        if segment.has(TcpFlags::RST) {
            return Some(PassReason::Reset);
        }
        match segment.from {
            End::Source => self.on_data(segment.tcp, cx.now),
            End::Sink => {
                self.on_ack(segment.tcp, cx.now);
                if self.nonsense >= NONSENSE_MAX {
                    return Some(PassReason::Desynchronised);
                }
                self.lower(segment, cx.stats);
            }
        }
        self.has_ended[usize::from(segment.from == End::Sink)] |=
            segment.has(TcpFlags::FIN) && sender == Sender::Host;
        (self.has_ended == [true; 2]).then_some(PassReason::Closed)
    }

    /// Silence ends it: the client's own window holds again.
    pub(super) fn on_deadline(&self, last_activity: Instant, cx: &Context<'_>) -> Next {
        let is_silent = cx.now.saturating_since(last_activity) >= cx.config.idle_timeout;
        if is_silent { Next::Leave(PassReason::Idle) } else { Next::Stay }
    }

    /// The server's data goes down.
    fn on_data(&mut self, tcp: &Tcp, now: Instant) {
        let end = tcp.seq_end();
        // What the client will not take says nothing, and must not drag our numbers along.
        if tcp.segment_len() == 0 || end.is_after(self.field.edge() + BEYOND_WINDOW) {
            return;
        }
        if let Some(timestamps) = tcp.options.timestamps {
            self.on_echo(Stamp(timestamps.echo), now);
        }
        if tcp.seq.is_before(self.nxt) {
            // Which of the two copies an acknowledgement answers, nobody knows (Karn).
            self.mobile.forget();
        }
        if !end.is_after(self.nxt) {
            return;
        }
        let has_paused = self.una == self.nxt
            && self.drwa.rtt().is_some_and(|rtt| now.saturating_since(self.last_data) > rtt + rtt);
        if has_paused {
            self.drwa.on_pause();
        }
        self.nxt = end;
        self.last_data = now;
        self.mobile.start(end, now);
    }

    fn on_echo(&mut self, echo: Stamp, now: Instant) {
        if let Some(rtt) = self.wired.stop(echo, true, now) {
            self.wired_in_round = Some(self.wired_in_round.map_or(rtt, |least| least.min(rtt)));
        }
    }

    /// The client's acknowledgement passes up.
    fn on_ack(&mut self, tcp: &Tcp, now: Instant) {
        if !tcp.flags.contains(TcpFlags::ACK) {
            return;
        }
        if tcp.ack.is_after(self.nxt) {
            self.nonsense += 1;
            return;
        }
        self.nonsense = 0;
        if !tcp.options.sack.is_empty() {
            // What waits behind a hole is acknowledged when the hole is filled, not when it came.
            self.mobile.forget();
        }
        if let Some(timestamps) = tcp.options.timestamps {
            self.wired.start(Stamp(timestamps.value), now);
        }
        if !tcp.ack.is_after(self.una) {
            return;
        }
        self.delivered += Bytes::from(tcp.ack.since(self.una));
        self.una = tcp.ack;
        if let Some(mobile) = self.mobile.stop(tcp.ack, false, now) {
            self.drwa.on_rtt(mobile + self.wired_in_round.unwrap_or(self.wired_rtt));
        }
        if self.drwa.on_delivered(self.delivered, now) {
            self.wired_rtt = self.wired_in_round.take().unwrap_or(self.wired_rtt);
        }
    }

    /// Puts the lower window in place of the client's.
    fn lower(&mut self, segment: &mut Segment<'_>, stats: &mut Stats) {
        let tcp = segment.tcp;
        if !tcp.flags.contains(TcpFlags::ACK) || tcp.ack.is_after(self.nxt) {
            return;
        }
        let window = self.field.lower(tcp.ack, tcp.window, self.drwa.window());
        self.told = Bytes::from(self.scale.window(window));
        if window != tcp.window {
            segment.edit().set_window(window);
            stats.windows_lowered += 1;
        }
    }

    /// Nothing is owed: a SYN of the client that is not this connection's own, sent again, begins
    /// something new.
    pub(super) fn gives_way_to(&self, syn: &Segment<'_>) -> bool {
        syn.from == End::Sink && syn.tcp.seq != self.sink_isn
    }

    /// Passed down and not acknowledged.
    pub(crate) fn in_flight(&self) -> Bytes {
        Bytes::from(self.nxt.since(self.una))
    }

    /// RTT_est of the round that ended last.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.drwa.rtt()
    }

    /// The window told last.
    pub(crate) fn window(&self) -> Bytes {
        self.told
    }
}

/// Values that tests look at.
#[cfg(test)]
impl Windowed {
    pub(crate) fn una(&self) -> SeqNum {
        self.una
    }

    pub(crate) fn nxt(&self) -> SeqNum {
        self.nxt
    }

    /// The time of the half towards the client that an acknowledgement of `reached` would tell.
    pub(crate) fn mobile_time(&mut self, reached: SeqNum, now: Instant) -> Option<Duration> {
        self.mobile.stop(reached, false, now)
    }
}
