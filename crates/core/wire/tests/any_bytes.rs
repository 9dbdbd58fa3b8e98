//! No bytes make a parser, an edit or a cut panic.

use crate::common::{packet, specs};
use etherparse::PacketBuilder;
use proptest::prelude::*;
use units::SeqNum;
use wire::{
    ChecksumState, MergeOutcome, Merger, SackBlocks, TcpEditor, TcpFlags, Transport, VirtioNetHeader,
};

/// Everything that reads or changes a packet, on `bytes`.
fn exercise(bytes: &[u8], other: &[u8]) {
    let _ = wire::ipv4_checksum_is_valid(bytes);
    let _ = VirtioNetHeader::parse(bytes)
        .map(|header| wire::complete_checksum(&mut bytes.to_vec(), &header).is_ok());
    let mut copy = bytes.to_vec();
    let _ = wire::set_hop_limit(&mut copy, 3);
    let _ = wire::set_traffic_class(&mut copy, 3);
    let _ = wire::decrement_hop_limit(&mut copy);
    if let Ok(parsed) = wire::parse(bytes) {
        assert_eq!(wire::parse_prefix(bytes), Ok(parsed));
        assert!(parsed.ip.header_len <= parsed.ip.total_len && parsed.ip.total_len <= bytes.len());
    }
    let Ok(parsed) = wire::parse_prefix(bytes) else { return };
    assert!(!parsed.to_string().is_empty());
    // The packet it was read from, a cut one and one that has nothing to do with it.
    for bytes in [bytes, &bytes[..bytes.len() / 2], other] {
        let _ = wire::tcp_checksum_is_valid(bytes, &parsed);
        let _ = wire::udp_checksum_is_valid(bytes, &parsed);
        match &parsed.transport {
            Transport::Tcp(tcp) => {
                let _ = tcp.payload(bytes);
                edit(&mut bytes.to_vec(), tcp);
            }
            Transport::Udp(udp) => drop(udp.payload(bytes).to_vec()),
            Transport::Icmp(icmp) => {
                let _ = (icmp.quoted(bytes), icmp.checksum_is_valid(bytes, &parsed.ip), icmp.next_hop_mtu());
            }
            Transport::Fragment | Transport::Other(_) | Transport::Truncated => {}
        }
        let mut buf = [0; 2_000];
        if let Ok(mut splitter) = wire::split(bytes, &parsed, 100) {
            while let Ok(Some(_)) = splitter.next_into(&mut buf) {}
        }
        let mut merger = Merger::new(&mut buf);
        while merger.push(bytes, &parsed, ChecksumState::Partial) == MergeOutcome::Taken {}
        let _ = merger.finish();
    }
}

fn edit(bytes: &mut [u8], tcp: &wire::Tcp) {
    let before = bytes.len();
    let mut editor = TcpEditor::new(bytes, tcp, ChecksumState::Complete);
    editor.set_seq(SeqNum::new(5));
    editor.set_ack(SeqNum::new(6));
    editor.set_flags(TcpFlags::ACK);
    editor.set_window(7);
    editor.set_urgent(8);
    let _ = editor.set_timestamps(9, 10);
    let _ = editor.set_sack(&tcp.options.sack);
    let _ = editor.set_sack(&SackBlocks::new());
    assert_eq!(bytes.len(), before);
}

/// Whole packets of every kind, some of them nested.
fn valid_packets() -> impl Strategy<Value = Vec<u8>> {
    let tcp = || (specs(), prop::collection::vec(any::<u8>(), 0..600)).prop_map(|(s, p)| packet(&s, &p));
    let icmp =
        (any::<(u8, u8, u32)>(), tcp(), any::<bool>()).prop_map(|((kind, code, rest), quote, is_v6)| {
            let mut bytes = Vec::new();
            let rest = rest.to_be_bytes();
            let quote = &quote[..quote.len().min(500)];
            if is_v6 {
                let step = PacketBuilder::ipv6([1; 16], [2; 16], 9).icmpv6_raw(kind % 5, code, rest);
                step.write_to_vec(&mut bytes, quote).unwrap();
            } else {
                let step = PacketBuilder::ipv4([1; 4], [2; 4], 9).icmpv4_raw(kind % 13, code, rest);
                step.write_to_vec(&mut bytes, quote).unwrap();
            }
            bytes
        });
    let udp = prop::collection::vec(any::<u8>(), 0..600).prop_map(|payload| {
        let mut bytes = Vec::new();
        PacketBuilder::ipv6([1; 16], [2; 16], 9).udp(1, 2).write_to_vec(&mut bytes, &payload).unwrap();
        bytes
    });
    // IPv6 extension headers of any kind in front of anything.
    let chain =
        prop::collection::vec((prop::sample::select(vec![0u8, 43, 44, 51, 60, 6, 17, 58]), 0u8..3), 1..8)
            .prop_map(|kinds| {
                let mut bytes = vec![0x60, 0, 0, 0, 0, 0, kinds[0].0, 9];
                bytes.extend_from_slice(&[7; 32]);
                for pair in kinds.windows(2) {
                    bytes.extend_from_slice(&[pair[1].0, pair[0].1]);
                    bytes.extend(vec![0x50; usize::from(pair[0].1) * 8 + 6]);
                }
                bytes.extend_from_slice(&[0x50; 40]);
                let len = (bytes.len() - 40) as u16;
                bytes[4..6].copy_from_slice(&len.to_be_bytes());
                bytes
            });
    prop_oneof![3 => tcp(), 2 => icmp, 1 => udp, 2 => chain]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), other: Vec<u8>) {
        exercise(&bytes, &other);
    }

    /// Random bytes behind a plausible first byte, so that more than the version check is reached.
    #[test]
    fn arbitrary_bytes_with_a_version(
        first in prop::sample::select(vec![0x45u8, 0x46, 0x4f, 0x60, 0x6f]),
        protocol in prop::sample::select(vec![0u8, 1, 6, 17, 43, 44, 58, 60]),
        mut bytes in prop::collection::vec(any::<u8>(), 60..200),
    ) {
        bytes[0] = first;
        bytes[if first >> 4 == 4 { 9 } else { 6 }] = protocol;
        let len = bytes.len() as u16;
        if first >> 4 == 4 {
            bytes[2..4].copy_from_slice(&len.to_be_bytes());
            bytes[6] = 0x40;
            bytes[7] = 0;
        } else {
            bytes[4..6].copy_from_slice(&(len - 40).to_be_bytes());
        }
        exercise(&bytes, &[]);
    }

    #[test]
    fn mutated_valid_packets(
        mut bytes in valid_packets(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        other in valid_packets(),
    ) {
        for (at, value) in changes {
            // Headers are where the parsers look.
            let at = at.index(bytes.len().min(120));
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        exercise(&bytes, &other);
    }
}
