//! The window for the source: what the path needs, as far as memory allows. `docs/engine.md`,
//! "Towards the server".

use control::Controller;
use units::{Bytes, Duration, SeqNum};

use super::Relay;
use super::departure::Departure;
use crate::direction::End;
use crate::segment::Context;

/// Largest window of TCP, with room to reckon with numbers on their circle.
const WINDOW_MAX: u64 = u32::MAX as u64 / 4;

impl Relay {
    /// Bytes of buffer the source may still fill: twice the path's, plus a floor, less what is
    /// held; or \[WA\] (8).
    fn free_window(&self, cx: &Context<'_>) -> u32 {
        if let Some(q20) = cx.config.waiting_target {
            return self.window_by_controller(q20, cx);
        }
        let sent = Bytes::from(self.sender.nxt().distance_from(self.sender.una()).max(0).unsigned_abs());
        let source_rtt = Duration::from_micros(u64::from(self.source_rtt_us));
        let needs = cx.path.as_deref().map_or(Bytes::ZERO, |path| path.needs(self.srtt(), source_rtt, sent));
        // Less than a unit of the sink's scale cannot be said, and the source would wait for ever;
        // of two units one is left when the other is in use.
        let unit = Bytes::new(1 << self.agreed.sink_scale.shift());
        // All of it may have to be held: what there is no memory for would be lost, and the source
        // slow down for it.
        let wanted = (needs + cx.config.window_floor).min(cx.budget.memory).min(cx.config.window_max);
        let target = wanted.max(unit + unit);
        target.saturating_sub(self.held()).get().min(WINDOW_MAX) as u32
    }

    /// aw = w − q2 + q20, \[WA\] (8): w is the flow's share of the controller's window, q2 what
    /// waits here for its turn.
    fn window_by_controller(&self, q20: Bytes, cx: &Context<'_>) -> u32 {
        // Before there was data, what a new controller would allow.
        let control = cx
            .path
            .as_deref()
            .map_or_else(|| cx.config.controller.build().control(), |p| p.controller.control());
        let share = control.window.get() / u64::from(cx.budget.flows.max(1));
        let waiting = self.receiver.next().distance_from(self.sender.nxt()).max(0).unsigned_abs();
        let most = cx.config.window_max.min(cx.budget.memory).saturating_sub(self.held());
        let window = Bytes::new(share.saturating_add(q20.get())).saturating_sub(Bytes::from(waiting));
        window.min(most).get().min(WINDOW_MAX) as u32
    }

    /// Bytes in order that the sink has not acknowledged.
    fn held(&self) -> Bytes {
        Bytes::from(self.receiver.next().distance_from(self.sender.una()).max(0).unsigned_abs())
    }

    /// The window field for the source, noted as told.
    ///
    /// Where nothing more is taken, nothing more is allowed: what the sink would not take of it
    /// once the flow is handed back would be lost.
    fn offer_window(&mut self, ack: SeqNum, departure: Option<&Departure>, cx: &Context<'_>) -> u16 {
        let free = if departure.is_some() { 0 } else { self.free_window(cx) };
        self.receiver.window_field_from(ack, free, self.agreed.sink_scale)
    }

    /// True when the source should hear that its window has grown: it may be about to run out of it.
    // Each packet comes through here: a call would cost as much again.
    #[inline(always)]
    pub(super) fn wants_window_update(&self, departure: Option<&Departure>, cx: &Context<'_>) -> bool {
        if departure.is_some() || self.source_reset || self.receiver.is_finished() {
            return false;
        }
        let scale = self.agreed.sink_scale;
        // Only what the field can say: the same window again is no update, and may count as a duplicate.
        let free = scale.window(scale.field(self.free_window(cx)));
        let growth = self.receiver.window_growth(free);
        let left = self.receiver.right_edge().distance_from(self.receiver.highest()).max(0).unsigned_abs();
        let mss = self.sender.mss();
        // RFC 9293 §3.8.6.2.2: where two segments are more than half of all there is, half is enough.
        let half = (cx.config.window_max.get() / 2).clamp(1, u64::from(u32::MAX)) as u32;
        growth >= half.min(2 * mss) && (left < growth || left < 4 * mss)
    }

    /// The acknowledgement number and the window field for the source, noted as told. With accurate ECN one that
    /// covers more packets than a sender can tell the marks of covers a part of them, and another one follows.
    pub(super) fn acknowledge(&mut self, departure: Option<&Departure>, cx: &Context<'_>) -> (SeqNum, u16) {
        let whole = self.receiver.ack_number();
        let mut limit = whole;
        if let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut() {
            let to_source = accurate_ecn.to(End::Source);
            limit = to_source.covers().map_or(whole, |bytes| self.acked_to_source + bytes);
            to_source.acknowledge(whole.is_at_or_before(limit));
        }
        let ack = self.receiver.ack_up_to(limit);
        let window = self.offer_window(ack, departure, cx);
        self.acked_to_source = self.acked_to_source.later_of(ack);
        (ack, window)
    }

    /// True when the sink advertises no window: more data for it would wait here.
    pub(crate) fn is_sink_window_shut(&self) -> bool {
        self.sender.window() == 0
    }
}
