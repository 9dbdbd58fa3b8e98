//! What can be seen of the flows from outside; nothing here changes anything.

use control::Controller;
use units::Bytes;

use super::Half;
use crate::flow::Flow;
use crate::report::{FlowReport, PassedFlow};

impl Half {
    /// The flows in the table, in the order of their slots.
    pub(crate) fn flow_reports(&self) -> impl Iterator<Item = FlowReport> {
        self.flows.iter().map(|(_, flow)| self.report(flow))
    }

    /// The flows passed or ended last, newest first, at most 256.
    pub(crate) fn passed_recently(&self) -> impl Iterator<Item = PassedFlow> {
        self.passed_recently.iter()
    }

    fn report(&self, flow: &Flow) -> FlowReport {
        let (client, server) = flow.key.client_and_server(self.direction);
        let bare = FlowReport {
            client,
            server,
            direction: self.direction,
            state: flow.phase.state(),
            debt: Bytes::ZERO,
            held: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            srtt: None,
            client_window: Bytes::ZERO,
            subscriber_rate: None,
            subscriber_window: None,
            last_activity: flow.last_activity,
        };
        if let Some(windowed) = flow.phase.windowed() {
            return FlowReport {
                in_flight: windowed.in_flight(),
                srtt: windowed.rtt(),
                client_window: windowed.window(),
                ..bare
            };
        }
        if let Some(watched) = flow.phase.watched() {
            return FlowReport { in_flight: Bytes::from(watched.in_flight()), ..bare };
        }
        let Some(relay) = flow.phase.relay() else { return bare };
        let control = self.path_of(flow.subscriber).map(|path| path.controller.control());
        FlowReport {
            debt: Bytes::from(relay.debt()),
            held: Bytes::new(relay.memory() as u64),
            in_flight: Bytes::from(relay.in_flight()),
            srtt: relay.srtt(),
            client_window: Bytes::from(relay.sink_window()),
            subscriber_rate: control.map(|control| control.pacing_rate),
            subscriber_window: control.map(|control| control.window),
            ..bare
        }
    }
}
