//! Largest size of a packet to a sink: what routers say of the way to it, and the interface it
//! leaves through (H23).

use std::net::SocketAddr;

use units::Instant;
use wire::Packet;

use super::Half;
use crate::key::FlowKey;

/// Least MTU believed of a path: what Linux believes (552), and what IPv6 demands (RFC 8200 §5). A
/// forged message could make us send tiny segments otherwise.
const PATH_MTU_MIN_V4: u32 = 552;
const PATH_MTU_MIN_V6: u32 = 1_280;

/// Bytes of IP and TCP headers without options.
const HEADERS_V4: u32 = 40;
const HEADERS_V6: u32 = 60;

/// Length of a flow's headers of IP and TCP without options, bytes.
pub(super) fn headers_len(key: &FlowKey) -> u32 {
    if key.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 }
}

impl Half {
    /// The path to a sink is narrower than what we sent: what is under way goes out again in
    /// smaller segments, and the message goes on to the source, whose future segments should be
    /// smaller too.
    pub(super) fn handle_icmp(&mut self, icmp: &wire::Icmp, parsed: &Packet, packet: &[u8], now: Instant) {
        let Some(mtu) = icmp.next_hop_mtu() else { return };
        if !icmp.checksum_is_valid(packet, &parsed.ip) {
            return;
        }
        let Some((quoted, seq)) = icmp.quoted(packet).and_then(|quoted| quoted.seq.map(|seq| (quoted, seq)))
        else {
            return;
        };
        let sink = SocketAddr::new(quoted.dst, quoted.dst_port);
        let key = FlowKey::new(sink, SocketAddr::new(quoted.src, quoted.src_port));
        let Some(id) = self.flow_index.get(&key, &self.flows) else { return };
        let Some(relay) = self.flows.get(id).and_then(|flow| flow.phase.relay()) else { return };
        // RFC 5927 §4: only what is under way can have been too big, and nobody who cannot see it
        // knows its numbers.
        if !relay.is_under_way(seq) {
            return;
        }
        let floor = if key.is_ipv4() { PATH_MTU_MIN_V4 } else { PATH_MTU_MIN_V6 };
        self.narrow(id, mtu.max(floor), now);
    }

    /// Packets to sinks may be `mtu` bytes long from here on: so the interface says that they leave through.
    /// The sender of what we repeat would hear of it from the kernel; we, in between, do not.
    pub(crate) fn set_mtu(&mut self, mtu: u32, now: Instant) {
        let is_narrower = mtu < self.mtu;
        self.mtu = mtu;
        for id in 0..if is_narrower { self.flows.places() } else { 0 } {
            self.narrow(id, mtu, now);
        }
    }

    /// Has the segments of a flow fit into packets of `mtu` bytes, those under way included, which
    /// go out again.
    pub(super) fn narrow(&mut self, id: u32, mtu: u32, now: Instant) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        let subscriber_id = flow.subscriber;
        let headers = headers_len(&flow.key);
        let Some(relay) = flow.phase.relay_mut() else { return };
        let before = relay.in_flight();
        let lost = relay.narrow(mtu, headers);
        let after = relay.in_flight();
        if lost == 0 {
            return;
        }
        self.stats.path_mtu_lowered += 1;
        if let Some(path) = self.path_of_mut(subscriber_id) {
            path.adjust_in_flight(before, after);
        }
        self.settle(id, now);
    }
}
