//! Packets of our own making that leave, in their order.

use tcp::Transmission;
use units::Instant;
use wire::{EmittedHeader, VirtioNetHeader};

use super::schedule::Pick;
use super::{Half, Made, Payload};
use crate::direction::End;
use crate::phase::next::Next;
use crate::relay::emit::ControlPacket;

impl Half {
    /// The next packet to send at `now`; call it until there is none.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Made> {
        loop {
            if let Some(id) = self.next_in_outbox() {
                if let Some((to, header)) = self.control_packet(id, now) {
                    self.stats.packets_made += 1;
                    let virtio = VirtioNetHeader::for_partial_checksum(header.transport_offset);
                    return Some(Made { to, virtio, header_len: header.len, payload: Payload::None });
                }
                continue;
            }
            if let Some((to, header)) = self.make_question(now) {
                self.stats.packets_made += 1;
                let virtio = VirtioNetHeader::for_partial_checksum(header.transport_offset);
                return Some(Made { to, virtio, header_len: header.len, payload: Payload::Direct });
            }
            if let Some(header_len) = self.make_marker(now) {
                self.stats.packets_made += 1;
                let virtio = VirtioNetHeader::default();
                return Some(Made { to: End::Sink, virtio, header_len, payload: Payload::Direct });
            }
            let subscriber_id = self.outgoing.ready.front()?;
            let Some(pick) = self.next_transmission(subscriber_id, now) else {
                self.arm_for_overdue(subscriber_id);
                let path = self.subscribers.get(subscriber_id).and_then(|subscriber| subscriber.path());
                self.outgoing.ready.leave(path.and_then(|path| self.paths.get_mut(path)));
                continue;
            };
            self.outgoing.ready.rotate();
            let Pick::Own(id, transmission, is_news) = pick else {
                if let Some(packet) = &self.outgoing.opaque {
                    return Some(Made {
                        to: End::Sink,
                        virtio: packet.virtio,
                        header_len: 0,
                        payload: Payload::Opaque,
                    });
                }
                continue;
            };
            self.arm_flow(id, now);
            self.note_flow(id);
            let Some((virtio, header)) = self.data_packet(id, &transmission) else { continue };
            self.stats.packets_made += 1;
            self.meter(&transmission, &virtio, &header);
            if is_news {
                self.follow_own(subscriber_id, header.len);
            }
            let payload = Payload::Held(id, transmission.seq, transmission.len);
            return Some(Made { to: End::Sink, virtio, header_len: header.len, payload });
        }
    }

    fn meter(&mut self, made: &Transmission, virtio: &VirtioNetHeader, header: &EmittedHeader) {
        let segments = match virtio.gso_size {
            0 => 1,
            size => u64::from(made.len.div_ceil(u32::from(size))),
        };
        self.meters.data_segments += segments;
        self.meters.data_bytes += u64::from(made.len) + segments * header.len as u64;
        if made.is_retransmission {
            self.meters.segments_retransmitted += segments;
            self.meters.bytes_retransmitted += u64::from(made.len);
        }
    }

    /// The header of the packet made last.
    pub(crate) fn made_header(&self, made: &Made) -> &[u8] {
        match (&made.payload, &self.outgoing.opaque) {
            (Payload::Opaque, Some(packet)) => &packet.bytes,
            _ => &self.outgoing.header[..made.header_len],
        }
    }

    /// The payload of the packet made last, in two pieces.
    pub(crate) fn made_payload(&self, made: &Made) -> (&[u8], &[u8]) {
        let Payload::Held(id, seq, len) = made.payload else { return (&[], &[]) };
        let relay = self.flows.get(id).and_then(|flow| flow.phase.relay());
        relay.map_or((&[], &[]), |relay| relay.slices(seq, len as usize))
    }

    /// The next flow with a control packet to make now. An acknowledgement for the sink waits until it is
    /// clear that no data goes out in its place.
    fn next_in_outbox(&mut self) -> Option<u32> {
        while let Some(id) = self.outgoing.outbox.pop_front() {
            let relay = self.flows.get(id).and_then(|flow| flow.phase.relay());
            if relay.is_some_and(|relay| relay.outbox().is_only_for_sink() && relay.wants_to_send()) {
                self.outgoing.after_data.push_back(id);
            } else {
                return Some(id);
            }
        }
        if self.outgoing.ready.is_empty() { self.outgoing.after_data.pop_front() } else { None }
    }

    /// Makes one of the control packets a flow waits to have made.
    fn control_packet(&mut self, id: u32, now: Instant) -> Option<(End, EmittedHeader)> {
        let ControlPacket { to, header, end } = self.look_at(id, now, |flow, cx, tools| {
            flow.in_outbox = false;
            let (relay, departure) = flow.phase.relay_and_departure()?;
            relay.make_control(&flow.key, departure, cx, tools.header)
        })??;
        self.apply(id, end.map_or(Next::Stay, Next::Leave), now);
        header.map(|header| (to, header))
    }

    fn data_packet(
        &mut self,
        id: u32,
        transmission: &Transmission,
    ) -> Option<(VirtioNetHeader, EmittedHeader)> {
        let flow = self.flows.get_mut(id)?;
        flow.phase.relay_mut()?.make_data(&flow.key, transmission, &mut self.outgoing.header)
    }
}
