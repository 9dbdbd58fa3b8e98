//! Random packets, and what an independent parser (etherparse) says about packets.

#![allow(dead_code)] // Each test binary uses a part.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::option;
use proptest::prelude::*;
use units::{SeqNum, WindowScale};
use wire::{SackBlock, SackBlocks, TcpFlags, TcpHeaderSpec, Timestamps};

pub fn addresses() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let v4 = || any::<(u32, u16)>().prop_map(|(a, p)| SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(a)), p));
    let v6 =
        || any::<(u128, u16)>().prop_map(|(a, p)| SocketAddr::new(IpAddr::V6(Ipv6Addr::from_bits(a)), p));
    prop_oneof![(v4(), v4()), (v6(), v6())]
}

pub fn sack_blocks() -> impl Strategy<Value = SackBlocks> {
    prop::collection::vec(any::<(u32, u32)>(), 0..=4).prop_map(|blocks| {
        blocks
            .into_iter()
            .map(|(start, end)| SackBlock { start: SeqNum::new(start), end: SeqNum::new(end) })
            .collect()
    })
}

pub fn timestamps() -> impl Strategy<Value = Timestamps> {
    any::<(u32, u32)>().prop_map(|(value, echo)| Timestamps { value, echo })
}

prop_compose! {
    /// Any header, with any flags and options.
    pub fn specs()(
        (src, dst) in addresses(),
        (hop_limit, traffic_class, flow_label, id, dont_fragment) in any::<(u8, u8, u32, u16, bool)>(),
        (seq, ack, flags, window, urgent) in any::<(u32, u32, u16, u16, u16)>(),
        timestamps in option::of(timestamps()),
        sack in sack_blocks(),
        mss in option::of(any::<u16>()),
        window_scale in option::of(0u8..=14),
        sack_permitted: bool,
        counters in option::weighted(0.2, any::<[u32; 3]>()),
    ) -> TcpHeaderSpec {
        TcpHeaderSpec {
            src, dst, hop_limit, traffic_class, flow_label: flow_label & 0xf_ffff, id, dont_fragment,
            seq: SeqNum::new(seq), ack: SeqNum::new(ack), flags: TcpFlags::from_bits(flags), window, urgent,
            timestamps, sack, mss, window_scale: window_scale.map(WindowScale::new), sack_permitted,
            ecn_byte_counters: counters.map(|all| all.map(|counter| counter & 0xff_ffff)),
        }
    }
}

prop_compose! {
    /// A data segment as in the middle of a flow.
    pub fn data_specs()(spec in specs(), flags in 0usize..16) -> TcpHeaderSpec {
        let mut all = TcpFlags::ACK;
        for (bit, flag) in [TcpFlags::PSH, TcpFlags::FIN, TcpFlags::CWR, TcpFlags::ECE].into_iter().enumerate() {
            if flags & (1 << bit) != 0 {
                all |= flag;
            }
        }
        TcpHeaderSpec { flags: all, ..spec }
    }
}

/// The complete packet of `spec` with `payload`.
pub fn packet(spec: &TcpHeaderSpec, payload: &[u8]) -> Vec<u8> {
    let mut buf = vec![0; TcpHeaderSpec::MAX_LEN];
    let header = spec.emit(&mut buf, &[payload]).unwrap();
    buf.truncate(header.len);
    buf.extend_from_slice(payload);
    assert_eq!(buf.len(), header.total_len);
    buf
}

pub fn pseudo_random_bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// Asserts that etherparse finds right lengths and checksums, and the same fields as this crate.
pub fn assert_oracle_agrees(bytes: &[u8]) {
    let ours = wire::parse(bytes).unwrap();
    let theirs = SlicedPacket::from_ip(bytes).unwrap();
    match theirs.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let h = ip.header().to_header();
            assert_eq!(h.header_checksum, h.calc_header_checksum(), "IPv4 header checksum");
            assert_eq!(ours.ip.src, IpAddr::V4(h.source.into()));
            assert_eq!(ours.ip.dst, IpAddr::V4(h.destination.into()));
            assert_eq!((ours.ip.id, ours.ip.dont_fragment), (h.identification, h.dont_fragment));
            assert_eq!((ours.ip.hop_limit, ours.ip.total_len), (h.time_to_live, usize::from(h.total_len)));
            assert_eq!(ours.ip.traffic_class, (h.dscp.value() << 2) | h.ecn.value());
        }
        NetSlice::Ipv6(ip) => {
            let h = ip.header().to_header();
            assert_eq!(ours.ip.src, IpAddr::V6(h.source.into()));
            assert_eq!(ours.ip.dst, IpAddr::V6(h.destination.into()));
            assert_eq!((ours.ip.hop_limit, ours.ip.traffic_class), (h.hop_limit, h.traffic_class));
            assert_eq!(ours.ip.flow_label, h.flow_label.value());
            assert_eq!(ours.ip.total_len, 40 + usize::from(h.payload_length));
        }
        NetSlice::Arp(_) => panic!("not IP"),
    }
    match (theirs.transport.as_ref(), &ours.transport) {
        (Some(TransportSlice::Tcp(theirs_tcp)), wire::Transport::Tcp(tcp)) => {
            let h = theirs_tcp.to_header();
            assert_eq!(h.checksum, oracle_tcp_checksum(bytes), "TCP checksum");
            assert_eq!((tcp.src_port, tcp.dst_port), (h.source_port, h.destination_port));
            assert_eq!((tcp.seq.get(), tcp.ack.get()), (h.sequence_number, h.acknowledgment_number));
            assert_eq!((tcp.window, tcp.urgent), (h.window_size, h.urgent_pointer));
            let bits = [h.fin, h.syn, h.rst, h.psh, h.ack, h.urg, h.ece, h.cwr, h.ns];
            let bits = bits.iter().enumerate().map(|(i, set)| u16::from(*set) << i).sum();
            assert_eq!(tcp.flags, TcpFlags::from_bits(bits));
            assert_eq!(tcp.payload(bytes), theirs_tcp.payload());
            assert!(wire::tcp_checksum_is_valid(bytes, &ours));
        }
        (Some(TransportSlice::Udp(theirs_udp)), wire::Transport::Udp(udp)) => {
            assert_eq!(
                (udp.src_port, udp.dst_port),
                (theirs_udp.source_port(), theirs_udp.destination_port())
            );
            assert_eq!(udp.length, theirs_udp.length());
            assert_eq!(udp.payload(bytes), theirs_udp.payload());
            assert!(wire::udp_checksum_is_valid(bytes, &ours));
        }
        (theirs, ours) => panic!("etherparse: {theirs:?}, wire: {ours:?}"),
    }
}

/// The TCP checksum `bytes` should have, by etherparse.
pub fn oracle_tcp_checksum(bytes: &[u8]) -> u16 {
    let sliced = SlicedPacket::from_ip(bytes).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else { panic!("not TCP") };
    match sliced.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()).unwrap()
        }
        NetSlice::Ipv6(ip) => {
            tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()).unwrap()
        }
        NetSlice::Arp(_) => panic!("not IP"),
    }
}
