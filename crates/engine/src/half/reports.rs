//! What can be seen of the flows from outside; nothing here changes anything.

use std::net::IpAddr;

use control::{Control, Controller};
use units::Bytes;

use super::Half;
use crate::flow::Flow;
use crate::key::{SharingKey, subscriber_key};
use crate::memory::slab::Slab;
use crate::path::subscriber::Subscriber;
use crate::report::{FlowReport, Page, PassedFlow, PathReport, SubscriberReport};

impl Half {
    /// The flows in the table, in the order of their slots.
    pub(crate) fn flow_reports(&self) -> impl Iterator<Item = FlowReport> {
        self.flows.iter().map(|(_, flow)| self.report(flow))
    }

    /// The flows passed or ended last, newest first, at most 256.
    pub(crate) fn passed_recently(&self) -> impl Iterator<Item = PassedFlow> {
        self.passed_recently.iter()
    }

    /// Flows of a client, or of all, at `looks` places from `from` on.
    pub(crate) fn flow_page(&self, client: Option<IpAddr>, from: u32, looks: u32) -> Page<FlowReport> {
        let prefix_len = self.config.ipv6_prefix_len;
        let meant = client.map(|client| subscriber_key(client, prefix_len));
        let is_meant = |flow: &Flow| {
            let (client, _) = flow.key.client_and_server(self.direction);
            meant.is_none_or(|meant| subscriber_key(client.ip(), prefix_len) == meant)
        };
        page(&self.flows, from, looks, |flow| is_meant(flow).then(|| self.report(flow)))
    }

    /// Subscribers at `looks` places from `from` on.
    pub(crate) fn subscriber_page(&self, from: u32, looks: u32) -> Page<SubscriberReport> {
        page(&self.subscribers, from, looks, |subscriber| Some(self.report_subscriber(subscriber)))
    }

    /// The subscriber that an address belongs to, if it is known.
    pub(crate) fn subscriber_report(&self, client: IpAddr) -> Option<SubscriberReport> {
        let key = SharingKey::Address(subscriber_key(client, self.config.ipv6_prefix_len));
        let id = self.subscriber_index.get(&key, &self.subscribers)?;
        self.subscribers.get(id).map(|subscriber| self.report_subscriber(subscriber))
    }

    fn report_subscriber(&self, subscriber: &Subscriber) -> SubscriberReport {
        let (address, port) = match &subscriber.key {
            SharingKey::Address(address) => (*address, None),
            SharingKey::Flow(flow) => {
                let (client, _) = flow.client_and_server(self.direction);
                (client.ip(), Some(client.port()))
            }
        };
        let path = subscriber.path().and_then(|path| self.paths.get(path));
        let last_sent = path.map_or(subscriber.last_used, |path| path.last_used);
        let last_used = subscriber.last_used.max(last_sent);
        let path = path.map(|path| {
            let Control { window, pacing_rate, .. } = path.controller.control();
            PathReport {
                delivered: path.sampler.delivered(),
                retransmitted: path.sight.retransmitted(),
                in_flight: Bytes::new(path.under_way()),
                held: Bytes::new(path.buffered),
                srtt: path.sight.srtt(),
                queueing: path.sight.queueing(),
                rate: pacing_rate,
                window,
                opaque: path.opaque.report(path.in_flight > 0 || !path.turns.is_empty()),
            }
        });
        SubscriberReport { address, port, flows: subscriber.flows, last_used, path }
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

/// What `show` shows of the things at `looks` places from `from` on: the time does not depend on how many there are.
fn page<T, R>(table: &Slab<T>, from: u32, looks: u32, show: impl Fn(&T) -> Option<R>) -> Page<R> {
    let end = from.saturating_add(looks).min(table.places());
    let found = (from..end).filter_map(|place| show(table.get(place)?)).collect();
    Page { found, next: (end < table.places()).then_some(u64::from(end)) }
}
