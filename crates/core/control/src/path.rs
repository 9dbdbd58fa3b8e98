//! A path for the tests of controllers: what is sent arrives a round trip later, in order.

use units::{Bytes, Duration, Instant};

use crate::{Ack, Controller, Loss, LossKind, Mark, Sent};

/// A sender with data without end, whose controller is told what became of it round trip by round trip.
pub(crate) struct WindowPath<C> {
    pub(crate) controller: C,
    pub(crate) now: Instant,
    pub(crate) in_flight: u64,
    pub(crate) delivered: u64,
    pub(crate) min_rtt: Option<Duration>,
    mss: u64,
}

impl<C: Controller> WindowPath<C> {
    pub(crate) fn new(controller: C, mss: u64) -> Self {
        let mut path =
            Self { controller, now: Instant::ZERO, in_flight: 0, delivered: 0, min_rtt: None, mss };
        path.fill();
        path
    }

    /// Sends what the window allows.
    pub(crate) fn fill(&mut self) {
        while self.in_flight + self.mss <= self.controller.control().window.get() {
            let (bytes, in_flight) = (Bytes::new(self.mss), Bytes::new(self.in_flight));
            self.controller.on_send(&Sent { now: self.now, bytes, in_flight, is_app_limited: false });
            self.in_flight += self.mss;
        }
    }

    /// Acknowledges `bytes` with a round trip of `rtt_ms`; time is not moved.
    pub(crate) fn ack(&mut self, bytes: u64, rtt_ms: u64, is_recovering: bool) {
        let before = self.in_flight;
        self.in_flight -= bytes.min(before);
        self.delivered += bytes;
        let rtt = Duration::from_millis(rtt_ms);
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        self.controller.on_ack(&Ack {
            now: self.now,
            delivered: Bytes::new(bytes),
            delivered_total: Bytes::new(self.delivered),
            rtt: Some(rtt),
            min_rtt: self.min_rtt,
            in_flight: Bytes::new(self.in_flight),
            in_flight_before: Bytes::new(before),
            is_recovering,
            is_window_limited: true,
            ..Ack::default()
        });
    }

    /// Acknowledges `bytes`, with a mark.
    pub(crate) fn mark(&mut self, bytes: u64, rtt_ms: u64, mark: Mark) {
        let before = self.in_flight;
        self.in_flight -= bytes.min(before);
        self.delivered += bytes;
        self.controller.on_ack(&Ack {
            now: self.now,
            delivered: Bytes::new(bytes),
            delivered_total: Bytes::new(self.delivered),
            rtt: Some(Duration::from_millis(rtt_ms)),
            in_flight: Bytes::new(self.in_flight),
            in_flight_before: Bytes::new(before),
            is_window_limited: true,
            mark: Some(mark),
            ..Ack::default()
        });
        self.fill();
    }

    /// One round trip: all that is in flight is acknowledged segment by segment, evenly over `rtt_ms`.
    pub(crate) fn round(&mut self, rtt_ms: u64) {
        self.acknowledge_all(rtt_ms, false);
    }

    fn acknowledge_all(&mut self, rtt_ms: u64, is_recovering: bool) {
        let segments = (self.in_flight / self.mss).max(1);
        let end = self.now + Duration::from_millis(rtt_ms);
        for i in 1..=segments {
            self.now = end - Duration::from_millis(rtt_ms).mul_ratio(segments - i, segments);
            self.ack(self.mss, rtt_ms, is_recovering);
            self.fill();
        }
    }

    /// `bytes` of what is in flight are found lost.
    pub(crate) fn lose(&mut self, bytes: u64, kind: LossKind, is_new_event: bool) {
        self.in_flight -= bytes.min(self.in_flight);
        let (lost, in_flight) = (Bytes::new(bytes), Bytes::new(self.in_flight));
        self.controller.on_loss(&Loss { now: self.now, lost, kind, is_new_event, in_flight });
        self.fill();
    }

    /// The recovery's round trip, and the acknowledgement that ends it.
    pub(crate) fn recover(&mut self, rtt_ms: u64) {
        let outstanding = self.in_flight;
        let mut left = outstanding;
        while left > self.mss {
            self.ack(self.mss, rtt_ms, true);
            self.fill();
            left -= self.mss;
        }
        self.now += Duration::from_millis(rtt_ms);
        // Nothing may grow by the acknowledgement that ends it: the tests want the threshold itself.
        let limit = self.in_flight.min(self.mss);
        let before = self.in_flight;
        self.in_flight -= limit;
        self.delivered += limit;
        self.controller.on_ack(&Ack {
            now: self.now,
            delivered: Bytes::new(limit.max(1)),
            delivered_total: Bytes::new(self.delivered),
            in_flight: Bytes::new(self.in_flight),
            in_flight_before: Bytes::new(before),
            ..Ack::default()
        });
        self.fill();
    }
}
