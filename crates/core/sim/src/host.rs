//! Times of Linux that hosts have in common, and [`Limits`] of their senders.

use control::{Ack, Control, Controller, Loss, LossKind, Mark, RateSampler, Sent};
use tcp::{AckOutcome, SendContext, Sender, Transmission};
use units::{Bytes, Duration, Instant, Rate};

/// Longest an acknowledgement waits for a second segment (Linux `TCP_DELACK_MIN`).
pub(crate) const DELAYED_ACK: Duration = Duration::from_millis(40);

/// Segments acknowledged at once before acknowledgements are delayed (Linux `TCP_MAX_QUICKACKS`).
pub(crate) const QUICK_ACKS: u32 = 16;

/// Longest retransmission time-out of an end host (Linux `TCP_RTO_MAX`).
pub(crate) const RTO_MAX: Duration = Duration::from_secs(120);

/// Limits of a sender: its congestion control, and pacing.
///
/// A paced sender sends a burst at a time, as Linux sends what it hands to segmentation offload.
#[derive(Debug)]
pub(crate) struct Limits<C: ?Sized> {
    pub(crate) controller: Box<C>,
    pub(crate) sampler: RateSampler,
    may_send_at: Instant,
    /// The last attempt was refused by pacing.
    is_waiting: bool,
    /// Bytes the burst under way may still have.
    burst_left: u64,
}

/// Circumstances of an acknowledgement that delivers something.
pub(crate) struct Delivery {
    /// Bytes in flight before it.
    pub before: Bytes,
    /// The same after it.
    pub in_flight: Bytes,
    /// Window of the peer.
    pub peer_window: Bytes,
    /// Largest payload of a segment.
    pub mss: u32,
    pub mark: Option<Mark>,
}

impl<C: Controller + ?Sized> Limits<C> {
    pub(crate) fn new(controller: Box<C>) -> Self {
        Self {
            controller,
            sampler: RateSampler::new(),
            may_send_at: Instant::ZERO,
            is_waiting: false,
            burst_left: 0,
        }
    }

    /// A handshake took `rtt`.
    pub(crate) fn on_handshake(&mut self, rtt: Duration, now: Instant) {
        self.controller.on_ack(&Ack { now, rtt: Some(rtt), min_rtt: Some(rtt), ..Ack::default() });
    }

    /// True when pacing is what keeps a sender that `wants_to_send` from it.
    pub(crate) fn hold_back(&mut self, wants_to_send: bool, now: Instant) -> bool {
        self.is_waiting = wants_to_send && now < self.may_send_at && self.burst_left == 0;
        self.is_waiting
    }

    /// Time at which a sender that was held back may send.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.is_waiting.then_some(self.may_send_at)
    }

    /// The next transmission that the limits allow with `in_flight` bytes in the network.
    pub(crate) fn poll(&mut self, sender: &mut Sender, in_flight: u32, now: Instant) -> Option<Transmission> {
        if self.hold_back(sender.wants_to_send(), now) {
            return None;
        }
        let Control { window, pacing_rate, send_quantum } = self.controller.control();
        let room = window.get().saturating_sub(u64::from(in_flight)).min(u64::from(u32::MAX)) as u32;
        let context = SendContext {
            now,
            quantum: sender.mss(),
            window_room: room,
            is_path_idle: sender.is_idle(),
            sampler: &mut self.sampler,
        };
        let Some(sent) = sender.poll(context) else {
            self.burst_left = 0;
            return None;
        };
        let bytes = Bytes::from(sent.len);
        let (in_flight, is_app_limited) = (Bytes::from(in_flight), self.sampler.is_app_limited());
        self.controller.on_send(&Sent { now, bytes, in_flight, is_app_limited });
        if pacing_rate != Rate::MAX {
            let burst = if self.burst_left > 0 { self.burst_left } else { send_quantum.get() };
            self.burst_left = burst.saturating_sub(u64::from(sent.len));
            // Linux paces payload; headers are not counted.
            self.may_send_at = self.may_send_at.max(now) + pacing_rate.time_for(bytes);
        }
        Some(sent)
    }

    /// Takes in what an acknowledgement has delivered, if anything.
    pub(crate) fn on_delivery(
        &mut self,
        sender: &Sender,
        out: &AckOutcome,
        delivery: &Delivery,
        now: Instant,
    ) {
        if out.delivered == 0 {
            return;
        }
        let delivered = Bytes::from(out.delivered);
        let min_rtt = sender.rtt().min();
        let rate = self.sampler.on_delivered(delivered, out.newest.as_ref(), min_rtt, now);
        let Control { window, .. } = self.controller.control();
        self.controller.on_ack(&Ack {
            now,
            delivered,
            discarded: Bytes::ZERO,
            peer_window: delivery.peer_window,
            delivered_total: self.sampler.delivered(),
            rtt: out.rtt,
            return_wait: Duration::ZERO,
            lasting_return_wait: Duration::ZERO,
            min_rtt,
            rate,
            in_flight: delivery.in_flight,
            in_flight_before: delivery.before,
            others: Bytes::ZERO,
            lost: Bytes::from(out.lost),
            is_recovering: out.is_recovering,
            is_window_limited: delivery.before + Bytes::from(delivery.mss) > window,
            mark: delivery.mark,
        });
    }

    /// Takes in a loss of `lost` bytes.
    pub(crate) fn on_loss(
        &mut self,
        lost: u32,
        (kind, is_new_event): (LossKind, bool),
        in_flight: u32,
        now: Instant,
    ) {
        let (lost, in_flight) = (Bytes::from(lost), Bytes::from(in_flight));
        self.controller.on_loss(&Loss { now, lost, kind, is_new_event, in_flight });
    }
}
