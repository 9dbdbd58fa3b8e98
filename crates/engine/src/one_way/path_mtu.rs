//! How large a packet to a client may be: what routers say of the way to it, and the interface it leaves through (H23).

use std::net::SocketAddr;

use units::Instant;
use wire::Packet;

use super::OneWay;
use crate::flow::Flow;
use crate::table::FlowKey;

/// Least MTU believed of a path: what Linux believes (552), and what IPv6 demands (RFC 8200 §5). A forged message
/// could make us send tiny segments otherwise.
const PATH_MTU_MIN_V4: u32 = 552;
const PATH_MTU_MIN_V6: u32 = 1_280;

/// Bytes of IP and TCP headers without options.
const HEADERS_V4: u32 = 40;
const HEADERS_V6: u32 = 60;

impl OneWay {
    /// The path to a client is narrower than what we sent: what is under way goes out again in smaller segments, and
    /// the message goes on to the server, whose future segments should be smaller too.
    pub(super) fn handle_icmp(&mut self, icmp: &wire::Icmp, parsed: &Packet, packet: &[u8], now: Instant) {
        let Some(mtu) = icmp.next_hop_mtu() else { return };
        if !icmp.checksum_is_valid(packet, parsed) {
            return;
        }
        let Some((quoted, seq)) = icmp.quoted(packet).and_then(|quoted| quoted.seq.map(|seq| (quoted, seq)))
        else {
            return;
        };
        let client = SocketAddr::new(quoted.dst, quoted.dst_port);
        let key = FlowKey::new(client, SocketAddr::new(quoted.src, quoted.src_port));
        let Some(id) = self.flow_index.get(&key, &self.flows) else { return };
        let Some(accelerated) = self.flows.get_mut(id).and_then(Flow::accelerated) else { return };
        // RFC 5927 §4: only what is under way can have been too big, and nobody who cannot see it knows its numbers.
        let sender = &accelerated.sender;
        if seq.is_before(sender.una()) || seq.is_at_or_after(sender.nxt()) {
            return;
        }
        let floor = if key.is_ipv4() { PATH_MTU_MIN_V4 } else { PATH_MTU_MIN_V6 };
        self.narrow(id, mtu.max(floor), now);
    }

    /// Packets to clients may be `mtu` bytes long from here on: so the interface says that they leave through. Whoever sent
    /// what we repeat would hear of it from the kernel; we, in between, do not.
    pub(crate) fn set_mtu(&mut self, mtu: u32, now: Instant) {
        let is_narrower = mtu < self.mtu;
        self.mtu = mtu;
        for id in 0..if is_narrower { self.flows.places() } else { 0 } {
            self.narrow(id, mtu, now);
        }
    }

    /// Has the segments of a flow fit into packets of `mtu` bytes, those under way included, which go out again.
    pub(super) fn narrow(&mut self, id: u32, mtu: u32, now: Instant) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        let (subscriber_id, headers) =
            (flow.subscriber, if flow.key.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 });
        let Some(accelerated) = flow.accelerated() else { return };
        let headers = headers + accelerated.options_len();
        let sender = &mut accelerated.sender;
        let before = sender.in_flight();
        let lost = sender.on_path_mtu(mtu.saturating_sub(headers));
        let after = sender.in_flight();
        if lost == 0 {
            return;
        }
        self.stats.path_mtu_lowered += 1;
        if let Some(path) = self.path_of_mut(subscriber_id) {
            path.adjust_in_flight(before, after);
        }
        self.follow_up(id, now);
    }
}
