//! Reports on the flows for those outside; nothing here changes anything.

use std::net::IpAddr;

use control::{Control, Controller};
use units::{Bytes, Instant};

use super::Half;
use super::handshakes::Opening;
use crate::flow::Flow;
use crate::key::{FlowKey, SharingKey, subscriber_key};
use crate::memory::half_open::Record;
use crate::path::subscriber::Subscriber;
use crate::report::{FlowReport, FlowState, Page, PassedFlow, PathReport, SubscriberReport};

/// Places of handshakes lie behind this number, in what is told outside.
const HANDSHAKES: u32 = 1 << 31;

impl Half {
    /// The flows in the table, in the order of their slots, and those whose handshake is under way, the oldest
    /// first.
    pub(crate) fn flow_reports(&self) -> impl Iterator<Item = FlowReport> {
        let handshakes = self.half_open.iter().map(|record| self.report_handshake(record));
        self.flows.iter().map(|(_, flow)| self.report(flow)).chain(handshakes)
    }

    /// The flows passed or ended last, newest first, at most 256.
    pub(crate) fn passed_recently(&self) -> impl Iterator<Item = PassedFlow> {
        self.observed.passed_recently.iter()
    }

    /// Flows of a client, or of all, at `looks` places from `from` on.
    pub(crate) fn flow_page(&self, client: Option<IpAddr>, from: u32, looks: u32) -> Page<FlowReport> {
        let meant = client.map(|client| subscriber_key(client, self.config.ipv6_prefix_len));
        let is_meant = |key: &FlowKey| meant.is_none_or(|meant| self.client_of(key) == meant);
        if from < HANDSHAKES {
            let show =
                |id| self.flows.get(id).filter(|flow| is_meant(&flow.key)).map(|flow| self.report(flow));
            let found = page(self.flows.places(), from, looks, show);
            let handshakes = (self.half_open.len() > 0).then_some(u64::from(HANDSHAKES));
            return Page { next: found.next.or(handshakes), ..found };
        }
        let show = |place| {
            let record = self.half_open.get(place).filter(|record| is_meant(&record.key));
            record.map(|record| self.report_handshake(record))
        };
        let found = page(self.half_open.places(), from - HANDSHAKES, looks, show);
        Page { next: found.next.map(|next| next | u64::from(HANDSHAKES)), ..found }
    }

    /// Subscribers at `looks` places from `from` on.
    pub(crate) fn subscriber_page(&self, from: u32, looks: u32) -> Page<SubscriberReport> {
        let show = |id| self.subscribers.get(id).map(|subscriber| self.report_subscriber(subscriber));
        page(self.subscribers.places(), from, looks, show)
    }

    /// The subscriber that an address belongs to, if it is known.
    pub(crate) fn subscriber_report(&self, client: IpAddr) -> Option<SubscriberReport> {
        let key = SharingKey::Address(subscriber_key(client, self.config.ipv6_prefix_len));
        let id = self.clients.index.get(&key, &self.subscribers)?;
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

    fn report_handshake(&self, record: &Record<Opening>) -> FlowReport {
        self.bare_report(&record.key, FlowState::Observing, record.began)
    }

    /// Report of a flow of which nothing but its life is known.
    fn bare_report(&self, key: &FlowKey, state: FlowState, last_activity: Instant) -> FlowReport {
        let (client, server) = key.client_and_server(self.direction);
        FlowReport {
            client,
            server,
            direction: self.direction,
            state,
            debt: Bytes::ZERO,
            held: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            srtt: None,
            client_window: Bytes::ZERO,
            subscriber_rate: None,
            subscriber_window: None,
            last_activity,
        }
    }

    fn report(&self, flow: &Flow) -> FlowReport {
        let bare = self.bare_report(&flow.key, flow.phase.state(), flow.last_activity);
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

/// Page of what `show` shows of the places of a table, `looks` from `from` on: the time does not depend on
/// their number.
fn page<R>(places: u32, from: u32, looks: u32, show: impl Fn(u32) -> Option<R>) -> Page<R> {
    let end = from.saturating_add(looks).min(places);
    Page { found: (from..end).filter_map(show).collect(), next: (end < places).then_some(u64::from(end)) }
}
