//! [`Middlebox`]: a NAT before a radio, and what wipes out MPTCP options.

use std::collections::BTreeSet;

use scenario::Strips;
use wire::checksum;

const TCP: u8 = 6;
const UDP: u8 = 17;
const OPTION_MPTCP: u8 = 30;
const OPTION_NOP: u8 = 1;
const MP_JOIN: u8 = 1;
const SYN: u8 = 0x02;

/// A mapping: protocol, inner port, the peer's address and port.
type Mapping = (u8, u16, [u8; 4], u16);

/// Middlebox between a radio and the Internet; IPv4 only for the NAT.
#[derive(Debug, Default)]
pub(crate) struct Middlebox {
    nat: Option<Nat>,
    strips: Option<Strips>,
    /// Flows of further subflows, by the client's port, whose options are wiped out.
    joins: BTreeSet<u16>,
    pub stripped: u64,
}

#[derive(Debug)]
struct Nat {
    inner: [u8; 4],
    outer: [u8; 4],
    mappings: BTreeSet<Mapping>,
}

impl Middlebox {
    pub fn new(nat: Option<([u8; 4], [u8; 4])>, strips: Option<Strips>) -> Self {
        let nat = nat.map(|(inner, outer)| Nat { inner, outer, mappings: BTreeSet::new() });
        Self { nat, strips, ..Self::default() }
    }

    /// The NAT takes another address and forgets its mappings.
    pub fn move_to(&mut self, outer: [u8; 4]) {
        if let Some(nat) = &mut self.nat {
            nat.outer = outer;
            nat.mappings.clear();
        }
    }

    /// Edits a packet from the client; false when it is lost here.
    pub fn up(&mut self, packet: &mut [u8]) -> bool {
        self.strip(packet, true);
        let Some(nat) = &mut self.nat else { return true };
        let Some((protocol, own, peer)) = ends(packet, false) else { return true };
        let key = (protocol, own, peer.0, peer.1);
        let opens = protocol != TCP || is_syn(packet);
        if !nat.mappings.contains(&key) {
            if !opens {
                return false;
            }
            nat.mappings.insert(key);
        }
        let outer = nat.outer;
        replace(packet, 12, outer);
        true
    }

    /// Edits a packet to the client; false when no mapping leads on.
    pub fn down(&mut self, packet: &mut [u8]) -> bool {
        self.strip(packet, false);
        let Some(nat) = &mut self.nat else { return true };
        let Some((protocol, own, peer)) = ends(packet, true) else { return true };
        if packet.get(16..20) != Some(&nat.outer) || !nat.mappings.contains(&(protocol, own, peer.0, peer.1))
        {
            return false;
        }
        let inner = nat.inner;
        replace(packet, 16, inner);
        true
    }

    fn strip(&mut self, packet: &mut [u8], is_up: bool) {
        let Some(strips) = self.strips else { return };
        if packet.first().map(|b| b >> 4) != Some(4) || packet.get(9) != Some(&TCP) {
            return;
        }
        let Some((_, own, _)) = ends(packet, !is_up) else { return };
        let header = usize::from(packet[0] & 0x0f) * 4;
        let Some(options) = tcp_options(packet, header) else { return };
        let mut at = options.start;
        while at + 1 < options.end {
            let (kind, len) = (packet[at], usize::from(packet[at + 1]));
            if kind == OPTION_NOP {
                at += 1;
                continue;
            }
            if kind == 0 || len < 2 || at + len > options.end {
                break;
            }
            if kind == OPTION_MPTCP {
                if is_syn(packet) && packet.get(at + 2).map(|b| b >> 4) == Some(MP_JOIN) {
                    self.joins.insert(own);
                }
                if strips == Strips::Everything || self.joins.contains(&own) {
                    wipe(packet, header, at, len);
                    self.stripped += 1;
                }
            }
            at += len;
        }
    }
}

fn tcp_options(packet: &[u8], header: usize) -> Option<std::ops::Range<usize>> {
    let len = usize::from(packet.get(header + 12)? >> 4) * 4;
    let end = header + len;
    (len >= 20 && end <= packet.len()).then_some(header + 20..end)
}

/// Overwrites an option with NOPs, checksum included.
fn wipe(packet: &mut [u8], header: usize, at: usize, len: usize) {
    let old = packet[at..at + len].to_vec();
    let new = vec![OPTION_NOP; len];
    let field = header + 16;
    let sum = u16::from_be_bytes([packet[field], packet[field + 1]]);
    let sum = checksum::update_bytes(sum, at - header, &old, &new);
    packet[at..at + len].copy_from_slice(&new);
    packet[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}

fn is_syn(packet: &[u8]) -> bool {
    let header = usize::from(packet.first().unwrap_or(&0) & 0x0f) * 4;
    packet.get(header + 13).is_some_and(|flags| flags & SYN != 0)
}

/// Protocol, the client's port, the server's address and port; none for what has no ports.
fn ends(packet: &[u8], is_down: bool) -> Option<(u8, u16, ([u8; 4], u16))> {
    if packet.first()? >> 4 != 4 {
        return None;
    }
    let (protocol, header) = (*packet.get(9)?, usize::from(packet[0] & 0x0f) * 4);
    if protocol != TCP && protocol != UDP {
        return None;
    }
    let port = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
    let ip = |at: usize| packet.get(at..at + 4).and_then(|b| b.try_into().ok());
    let (source, destination) = ((ip(12)?, port(header)?), (ip(16)?, port(header + 2)?));
    Some(if is_down { (protocol, destination.1, source) } else { (protocol, source.1, destination) })
}

/// Replaces an address and keeps the checksums of IP, TCP and UDP right.
fn replace(packet: &mut [u8], at: usize, new: [u8; 4]) {
    let Some(old) = packet.get(at..at + 4).and_then(|b| <[u8; 4]>::try_from(b).ok()) else { return };
    let header = usize::from(packet[0] & 0x0f) * 4;
    let field = match packet.get(9) {
        Some(&TCP) => Some(header + 16),
        Some(&UDP) => Some(header + 6),
        _ => None,
    };
    for field in [Some(10), field].into_iter().flatten() {
        let Some(sum) = packet.get(field..field + 2).map(|b| u16::from_be_bytes([b[0], b[1]])) else {
            continue;
        };
        // Zero is "none" for UDP.
        if sum == 0 && field == header + 6 && packet.get(9) == Some(&UDP) {
            continue;
        }
        let sum = checksum::update_u32(sum, u32::from_be_bytes(old), u32::from_be_bytes(new));
        packet[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
    packet[at..at + 4].copy_from_slice(&new);
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: [u8; 4] = [10, 100, 0, 2];
    const OUTER: [u8; 4] = [198, 18, 0, 1];

    /// An IPv4 TCP packet with right checksums, with `options`.
    fn packet(source: [u8; 4], destination: [u8; 4], ports: [u16; 2], flags: u8, options: &[u8]) -> Vec<u8> {
        let len = 40 + options.len();
        let mut p = vec![0_u8; len];
        (p[0], p[8], p[9]) = (0x45, 64, TCP);
        p[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        p[12..16].copy_from_slice(&source);
        p[16..20].copy_from_slice(&destination);
        let sum = !checksum::sum(&p[..20]);
        p[10..12].copy_from_slice(&sum.to_be_bytes());
        p[20..22].copy_from_slice(&ports[0].to_be_bytes());
        p[22..24].copy_from_slice(&ports[1].to_be_bytes());
        (p[32], p[33]) = ((((20 + options.len()) / 4) << 4) as u8, flags);
        p[40..].copy_from_slice(options);
        let mut pseudo =
            [&source[..], &destination[..], &[0, TCP], &((len - 20) as u16).to_be_bytes()].concat();
        pseudo.extend(&p[20..]);
        let sum = !checksum::sum(&pseudo);
        p[36..38].copy_from_slice(&sum.to_be_bytes());
        p
    }

    fn is_right(p: &[u8]) -> bool {
        let parsed = wire::parse(p).unwrap();
        wire::ipv4_checksum_is_valid(p) && wire::tcp_checksum_is_valid(p, &parsed)
    }

    #[test]
    fn a_nat_maps_both_ways_and_forgets_when_it_moves() {
        let mut nat = Middlebox::new(Some((INNER, OUTER)), None);
        let server = [10, 9, 0, 1];
        let mut syn = packet(INNER, server, [4000, 80], SYN, &[]);
        assert!(is_right(&syn) && nat.up(&mut syn));
        assert_eq!(syn[12..16], OUTER);
        assert!(is_right(&syn));
        let mut answer = packet(server, OUTER, [80, 4000], 0x12, &[]);
        assert!(nat.down(&mut answer) && answer[16..20] == INNER && is_right(&answer));
        assert!(!nat.down(&mut packet(server, OUTER, [80, 4001], 0x10, &[])), "nobody asked");
        nat.move_to([198, 18, 0, 2]);
        assert!(!nat.down(&mut packet(server, OUTER, [80, 4000], 0x10, &[])));
        assert!(!nat.up(&mut packet(INNER, server, [4000, 80], 0x10, &[])), "its mapping is gone");
        let mut syn = packet(INNER, server, [4002, 80], SYN, &[]);
        assert!(nat.up(&mut syn) && syn[12..16] == [198, 18, 0, 2]);
    }

    #[test]
    fn options_are_wiped_out_of_everything_or_of_joins_only() {
        let (client, server) = (INNER, [10, 9, 0, 1]);
        let capable = [OPTION_MPTCP, 4, 0x01, 0];
        let join = [OPTION_MPTCP, 12, 0x10, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        for (strips, options, is_wiped) in [
            (Strips::Everything, &capable[..], true),
            (Strips::Joins, &capable[..], false),
            (Strips::Joins, &join[..], true),
        ] {
            let mut middlebox = Middlebox::new(None, Some(strips));
            let mut syn = packet(client, server, [4000, 80], SYN, options);
            assert!(middlebox.up(&mut syn) && is_right(&syn), "{strips:?}");
            assert_eq!(syn[40] == OPTION_NOP, is_wiped, "{strips:?}");
            // The answer of the same flow too.
            let mut answer = packet(server, client, [80, 4000], 0x12, options);
            assert!(middlebox.down(&mut answer));
            assert_eq!(answer[40] == OPTION_NOP, is_wiped, "{strips:?}");
        }
    }
}
