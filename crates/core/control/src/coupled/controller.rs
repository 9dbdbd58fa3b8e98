//! [`CoupledControl`]: a subflow's window controller, beside those of the other subflows of its connection.
//!
//! It has what all window controllers share (`window.rs`); the price of growth and the threshold of a loss are
//! those of the connection.

use std::cell::RefCell;
use std::rc::Rc;

use units::Bytes;

use super::{Coupled, Scheme, SubflowId};
use crate::window::{Rule, Window, WindowControl};
use crate::{Ack, Loss, MSS_DEFAULT};

/// Parameters of a [`CoupledControl`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoupledParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
}

impl Default for CoupledParams {
    fn default() -> Self {
        Self { mss: MSS_DEFAULT, initial_window_segments: 10 }
    }
}

/// A multi-path connection whose subflows have controllers.
#[derive(Clone, Debug)]
pub struct CoupledGroup(Rc<RefCell<Coupled>>);

impl CoupledGroup {
    /// A connection without subflows.
    #[must_use]
    pub fn new(scheme: Scheme) -> Self {
        Self(Rc::new(RefCell::new(Coupled::new(scheme))))
    }

    /// The controller of a further subflow; none when there are [`super::SUBFLOWS_MAX`]. It leaves the connection
    /// when it is dropped.
    #[must_use]
    pub fn subflow(&self, params: CoupledParams) -> Option<CoupledControl> {
        let id = self.0.borrow_mut().add(params.initial_window_segments, u64::MAX)?;
        let rule = CoupledRule { connection: Rc::clone(&self.0), id, srtt_us: 0 };
        Some(WindowControl::with(rule, params.mss, params.initial_window_segments))
    }

    /// All windows together, segments.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.borrow().total()
    }
}

/// The congestion window of a subflow.
pub type CoupledControl = WindowControl<CoupledRule>;

/// A subflow's share of its connection.
#[derive(Debug)]
pub struct CoupledRule {
    connection: Rc<RefCell<Coupled>>,
    id: SubflowId,
    srtt_us: u64,
}

impl CoupledRule {
    /// Shows others the state of this window.
    fn show(&self, window: &Window) {
        let segments = |bytes: u64| bytes / window.mss;
        let (cwnd, ssthresh) = (segments(window.cwnd), segments(window.ssthresh));
        self.connection.borrow_mut().resume(self.id, cwnd, ssthresh, 0);
    }
}

impl Drop for CoupledRule {
    fn drop(&mut self) {
        self.connection.borrow_mut().remove(self.id);
    }
}

impl Rule for CoupledRule {
    /// Name for all schemes; the connection knows which of them it is.
    const NAME: &'static str = "coupled";

    fn on_sample(&mut self, ack: &Ack, window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            let sample = rtt.as_nanos() / 1_000;
            // RFC 6298 §2: 7/8 of the old.
            self.srtt_us = if self.srtt_us == 0 { sample } else { (7 * self.srtt_us + sample) / 8 };
            self.connection.borrow_mut().on_round_trip(self.id, self.srtt_us);
        }
        if !ack.is_recovering {
            self.show(window);
        }
    }

    fn avoid_congestion(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        let price = self.connection.borrow().price(self.id);
        window.grow(price * window.mss, acked);
        self.show(window);
    }

    fn threshold(&mut self, window: &Window, _loss: &Loss) -> u64 {
        self.show(window);
        let mut connection = self.connection.borrow_mut();
        let threshold = connection.threshold(self.id);
        connection.on_loss(self.id);
        threshold * window.mss
    }
}
