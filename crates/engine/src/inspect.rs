//! What can be seen of the flows from outside, for status displays; nothing here changes anything.

use std::collections::VecDeque;
use std::net::SocketAddr;

use control::Controller;
use units::{Bytes, Duration, Instant, Rate};

use crate::flow::{Flow, State};
use crate::one_way::OneWay;
use crate::table::FlowKey;
use crate::{Direction, PassReason};

/// Passed flows that are remembered.
const PASSED_MAX: usize = 256;

/// Where a flow in the table is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowState {
    /// Its handshake is under way.
    Observing,
    /// Its delivery is the engine's.
    Accelerated,
    /// What is owed is being delivered; then it is handed back.
    Draining,
    /// Both directions have ended; retransmissions are still answered.
    Closed,
    /// Its delivery is its hosts'; the window its client advertises is lowered.
    Windowed,
}

impl FlowState {
    /// The name used in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Observing => "observing",
            Self::Accelerated => "accelerated",
            Self::Draining => "draining",
            Self::Closed => "closed",
            Self::Windowed => "drwa",
        }
    }
}

/// One flow in the table, in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowReport {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server's.
    pub server: SocketAddr,
    /// Which direction is accelerated. For the uplink, read `server` for `client` in what follows, and the reverse.
    pub direction: Direction,
    /// Where it is in its life.
    pub state: FlowState,
    /// Acknowledged to the server and not by the client.
    pub debt: Bytes,
    /// Memory its stream buffer takes.
    pub held: Bytes,
    /// Sent to the client and neither acknowledged nor believed lost.
    pub in_flight: Bytes,
    /// Smoothed round-trip time of the mobile segment; of both segments where only the window is lowered.
    pub srtt: Option<Duration>,
    /// The window the client advertises; where it is lowered, what the server is told of it.
    pub client_window: Bytes,
    /// What the controller of its subscriber sends at, over all the subscriber's flows.
    pub subscriber_rate: Option<Rate>,
    /// What the controller of its subscriber lets be in flight, over all the subscriber's flows.
    pub subscriber_window: Option<Bytes>,
    /// When its last packet came.
    pub last_activity: Instant,
}

/// A flow that is not, or no longer, in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassedFlow {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server's.
    pub server: SocketAddr,
    /// Why.
    pub reason: PassReason,
}

/// The flows passed last, in bounded number.
#[derive(Clone, Debug, Default)]
pub(crate) struct PassedRecently(VecDeque<PassedFlow>);

impl PassedRecently {
    pub(crate) fn note(&mut self, key: FlowKey, reason: PassReason) {
        if self.0.len() == PASSED_MAX {
            self.0.pop_back();
        }
        self.0.push_front(PassedFlow { client: key.client(), server: key.server(), reason });
    }
}

impl OneWay {
    /// The flows in the table, in the order of their slots.
    pub(crate) fn flow_reports(&self) -> impl Iterator<Item = FlowReport> {
        self.flows.iter().map(|(_, flow)| self.report(flow))
    }

    /// The flows passed or ended last, newest first, at most 256.
    pub(crate) fn passed_recently(&self) -> impl Iterator<Item = PassedFlow> {
        self.passed_recently.0.iter().copied()
    }

    fn report(&self, flow: &Flow) -> FlowReport {
        let mut report = FlowReport {
            client: flow.key.client(),
            server: flow.key.server(),
            direction: self.direction,
            state: FlowState::Observing,
            debt: Bytes::ZERO,
            held: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            srtt: None,
            client_window: Bytes::ZERO,
            subscriber_rate: None,
            subscriber_window: None,
            last_activity: flow.last_activity,
        };
        let accelerated = match &flow.state {
            State::Accelerated(accelerated) => accelerated,
            State::Windowed(windowed) => {
                report.state = FlowState::Windowed;
                report.in_flight = windowed.in_flight();
                report.srtt = windowed.rtt();
                report.client_window = windowed.window();
                return report;
            }
            State::Observing(_) => return report,
        };
        report.state = match accelerated {
            a if a.is_closed => FlowState::Closed,
            a if a.is_draining => FlowState::Draining,
            _ => FlowState::Accelerated,
        };
        report.debt = Bytes::from(accelerated.debt());
        report.held = Bytes::new(accelerated.buffer.capacity() as u64);
        report.in_flight = Bytes::from(accelerated.sender.in_flight());
        report.srtt = accelerated.sender.rtt().smoothed();
        report.client_window = Bytes::from(accelerated.sender.window());
        let path = self.path_of(flow.subscriber);
        let control = path.map(|path| path.controller.control());
        report.subscriber_rate = control.map(|control| control.pacing_rate);
        report.subscriber_window = control.map(|control| control.window);
        report
    }
}
