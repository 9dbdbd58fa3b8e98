//! Flows of a client that go to another box, and flows that come from one.
//!
//! Nothing here looks at the flows of other clients.

use std::net::IpAddr;

use control::Known;
use units::{Instant, SeqNum};

use super::Half;
use super::path_mtu::headers_len;
use super::transitions::record_of;
use crate::direction::Direction;
use crate::half::recover::RecoverError;
use crate::handover::{FlowEnds, HandoverFlow, HeldPiece};
use crate::key::{FlowKey, subscriber_key};
use crate::pass::PassReason;
use crate::record::Mark;
use crate::relay::Relay;
use crate::relay::departure::Departure;

impl Half {
    /// The client of a flow, as far as it makes a subscriber.
    pub(super) fn client_of(&self, key: &FlowKey) -> IpAddr {
        key.client(self.direction, self.config.ipv6_prefix_len)
    }

    /// Puts a flow in the table among those of its client.
    pub(super) fn join_family(&mut self, id: u32) {
        let Some(flow) = self.flows.get(id) else { return };
        let client = self.client_of(&flow.key);
        self.clients.families.join(client, id, &mut self.flows);
    }

    /// Places of a client's flows, the newest first.
    fn places_of(&self, client: IpAddr) -> Vec<u32> {
        let client = subscriber_key(client, self.config.ipv6_prefix_len);
        self.clients.families.of(client, &self.flows).collect()
    }

    fn ends_of(&self, key: &FlowKey) -> FlowEnds {
        FlowEnds {
            is_downlink: self.direction == Direction::Downlink,
            sink: key.sink(),
            source: key.source(),
        }
    }

    /// The flows of a client that deliver.
    pub(crate) fn delivering(&self, client: IpAddr) -> impl Iterator<Item = FlowEnds> {
        let flows = self.places_of(client).into_iter().filter_map(|id| self.flows.get(id));
        flows.filter(|flow| flow.phase.relay().is_some()).map(|flow| self.ends_of(&flow.key))
    }

    /// Data that a flow holds from `from` on, or from the first byte on; at most `len_max` bytes.
    pub(crate) fn held(&self, ends: &FlowEnds, from: Option<SeqNum>, len_max: usize) -> Option<HeldPiece> {
        let id = self.flow_index.get(&FlowKey::new(ends.sink, ends.source), &self.flows)?;
        let (una, start, bytes) = self.flows.get(id)?.phase.relay()?.held_from(from, len_max);
        Some(HeldPiece { flow: *ends, una, start, bytes })
    }

    /// Bytes that a flow holds in order.
    pub(crate) fn held_len(&self, ends: &FlowEnds) -> Option<u64> {
        let id = self.flow_index.get(&FlowKey::new(ends.sink, ends.source), &self.flows)?;
        self.flows.get(id)?.phase.relay().map(Relay::held_len)
    }

    /// The longest packet that a flow sends, bytes with the IP header.
    pub(crate) fn packet_len_max(&self, ends: &FlowEnds) -> Option<u32> {
        let key = FlowKey::new(ends.sink, ends.source);
        let id = self.flow_index.get(&key, &self.flows)?;
        let relay = self.flows.get(id)?.phase.relay()?;
        Some(relay.packet_len_max(headers_len(&key)))
    }

    /// The flows of a client that deliver, as they stand, with what they hold.
    pub(crate) fn moved(
        &self,
        client: IpAddr,
        now: Instant,
    ) -> impl Iterator<Item = (HandoverFlow, Vec<u8>)> {
        self.places_of(client).into_iter().filter_map(move |id| {
            let flow = self.flows.get(id)?;
            let relay = flow.phase.relay()?;
            let mut record = record_of(flow, relay);
            record.forget_place();
            if let Some(path) = self.path_of(flow.subscriber) {
                let known = path.known();
                let round_trip = known.round_trip.or(relay.rtt_min());
                record.keep_known(&Known { round_trip, ..known });
            }
            let (_, _, held) = relay.held_from(None, usize::MAX);
            let clock_ms = now.as_millis() as u32;
            Some((HandoverFlow { ends: self.ends_of(&flow.key), record, clock_ms }, held))
        })
    }

    /// Takes a client's flows out of the table, without a word to any host.
    pub(crate) fn release(&mut self, client: IpAddr) {
        self.end_handshakes_of(client);
        self.places_of(client).into_iter().for_each(|id| self.leave(id, None));
    }

    /// Goes on with a flow of another box, which held `held`.
    pub(crate) fn take_in(
        &mut self,
        flow: &HandoverFlow,
        held: &[u8],
        now: Instant,
    ) -> Result<(), RecoverError> {
        let mut record = flow.record;
        if self.is_draining {
            record.set(Mark::Draining, true);
        }
        record.change_clock(flow.clock_ms, now);
        self.go_on(FlowKey::new(flow.ends.sink, flow.ends.source), &record, Some(held), now)
    }

    /// Takes a flow out of the table without a word to anybody.
    pub(crate) fn let_go(&mut self, ends: &FlowEnds) {
        if let Some(id) = self.flow_index.get(&FlowKey::new(ends.sink, ends.source), &self.flows) {
            self.leave(id, None);
        }
    }

    /// Packets of a flow may go past, or have done so: it is handed back as soon as nothing is owed to it.
    pub(crate) fn doubt(&mut self, ends: &FlowEnds, now: Instant) {
        if let Some(id) = self.flow_index.get(&FlowKey::new(ends.sink, ends.source), &self.flows) {
            self.send_one_away(id, PassReason::Desynchronised, Departure::doubt, now);
        }
    }

    /// Has a flow end: both hosts are reset if something is owed, or it passes from here on.
    pub(crate) fn break_off(&mut self, ends: &FlowEnds, now: Instant) {
        let key = FlowKey::new(ends.sink, ends.source);
        let Some(id) = self.flow_index.get(&key, &self.flows) else { return };
        let relay = self.flows.get_mut(id).and_then(|flow| flow.phase.relay_mut());
        match relay.filter(|relay| relay.owes()) {
            Some(relay) => {
                relay.abort();
                self.settle(id, now);
            }
            None => self.leave(id, None),
        }
    }
}
