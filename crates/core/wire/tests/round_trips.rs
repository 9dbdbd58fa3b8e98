//! What is emitted is read back, edits equal a packet written anew, and etherparse agrees with all of it.

use crate::common::{
    assert_oracle_agrees, oracle_tcp_checksum, packet, pseudo_random_bytes, sack_blocks, specs,
};
use etherparse::{PacketBuilder, TcpOptionElement};
use proptest::prelude::*;
use units::SeqNum;
use wire::checksum::{self, Sum};
use wire::{
    ChecksumState, EcnByteCounters, GsoType, SackBlocks, TcpEditor, TcpFlags, TcpHeaderSpec, VirtioNetHeader,
};

/// SACK blocks that fit beside the other options.
fn sack_room(spec: &TcpHeaderSpec) -> usize {
    let mut used = 0;
    used += if spec.mss.is_some() { 4 } else { 0 };
    used += if spec.timestamps.is_some() { 12 } else { 4 * usize::from(spec.sack_permitted) };
    used += if spec.window_scale.is_some() { 4 } else { 0 };
    used += if spec.ecn_byte_counters.is_some() { 12 } else { 0 };
    (40 - used - 4) / 8
}

fn counters_of([ect0, ce, ect1]: [u32; 3]) -> EcnByteCounters {
    EcnByteCounters { ect0: Some(ect0), ce: Some(ce), ect1: Some(ect1) }
}

proptest! {
    #[test]
    fn emitted_headers_are_read_back(spec in specs(), seed: u64, len in 0usize..3000) {
        let payload = pseudo_random_bytes(seed, len);
        let bytes = packet(&spec, &payload);
        assert_oracle_agrees(&bytes);
        let parsed = wire::parse(&bytes).unwrap();
        let tcp = parsed.tcp().unwrap();
        prop_assert_eq!((parsed.ip.src, parsed.ip.dst), (spec.src.ip(), spec.dst.ip()));
        prop_assert_eq!((tcp.src_port, tcp.dst_port), (spec.src.port(), spec.dst.port()));
        prop_assert_eq!((tcp.seq, tcp.ack, tcp.flags), (spec.seq, spec.ack, spec.flags));
        prop_assert_eq!((tcp.window, tcp.urgent), (spec.window, spec.urgent));
        prop_assert_eq!((parsed.ip.hop_limit, parsed.ip.traffic_class), (spec.hop_limit, spec.traffic_class));
        if spec.src.is_ipv4() {
            prop_assert_eq!((parsed.ip.id, parsed.ip.dont_fragment), (spec.id, spec.dont_fragment));
        } else {
            prop_assert_eq!(parsed.ip.flow_label, spec.flow_label);
        }
        let options = &tcp.options;
        prop_assert_eq!((options.mss, options.window_scale), (spec.mss, spec.window_scale));
        prop_assert_eq!((options.timestamps, options.sack_permitted), (spec.timestamps, spec.sack_permitted));
        let mut sack = spec.sack;
        sack.truncate(sack_room(&spec));
        prop_assert_eq!(options.sack, sack);
        prop_assert!(!options.unknown && !options.malformed);
        let counters = tcp.ecn_byte_counters(&bytes);
        prop_assert_eq!(counters, spec.ecn_byte_counters.map(counters_of));
        prop_assert_eq!(tcp.payload(&bytes), &payload[..]);
    }

    /// A partial checksum, completed as a network card would, is the complete one.
    #[test]
    fn partial_checksums_complete(spec in specs(), seed: u64, len in 0usize..3000) {
        let payload = pseudo_random_bytes(seed, len);
        let whole = packet(&spec, &payload);
        let mut buf = vec![0; TcpHeaderSpec::MAX_LEN];
        let header = spec.emit_partial(&mut buf, len).unwrap();
        buf.truncate(header.len);
        buf.extend_from_slice(&payload);
        let virtio = VirtioNetHeader::for_partial_checksum(header.transport_offset);
        wire::complete_checksum(&mut buf, &virtio).unwrap();
        prop_assert_eq!(buf, whole);
    }

    /// Edits of a complete packet give the packet written anew; of a partial one, after completion too.
    #[test]
    fn edits_equal_writing_anew(
        (before, after) in (specs(), specs()),
        blocks in sack_blocks(),
        seed: u64,
        len in 0usize..2000,
        state in prop_oneof![Just(ChecksumState::Complete), Just(ChecksumState::Partial)],
    ) {
        // Same end points, IP header and option layout; everything that can be edited differs.
        let mut after = TcpHeaderSpec {
            src: before.src, dst: before.dst, flow_label: before.flow_label, id: before.id,
            dont_fragment: before.dont_fragment, mss: before.mss, window_scale: before.window_scale,
            sack_permitted: before.sack_permitted, sack: before.sack, ..after
        };
        after.timestamps = before.timestamps.map(|_| after.timestamps.unwrap_or_default());
        after.ecn_byte_counters = before.ecn_byte_counters.map(|_| after.ecn_byte_counters.unwrap_or([1, 0, 1]));
        let payload = pseudo_random_bytes(seed, len);
        let mut bytes = vec![0; TcpHeaderSpec::MAX_LEN];
        let header = match state {
            ChecksumState::Complete => before.emit(&mut bytes, &[&payload]).unwrap(),
            ChecksumState::Partial => before.emit_partial(&mut bytes, len).unwrap(),
        };
        bytes.truncate(header.len);
        bytes.extend_from_slice(&payload);

        let parsed = wire::parse(&bytes).unwrap();
        let tcp = parsed.tcp().unwrap();
        let mut editor = TcpEditor::new(&mut bytes, tcp, state);
        editor.set_seq(after.seq);
        editor.set_ack(after.ack);
        editor.set_flags(after.flags);
        editor.set_window(after.window);
        editor.set_urgent(after.urgent);
        let ts = after.timestamps.unwrap_or_default();
        prop_assert_eq!(editor.set_timestamps(ts.value, ts.echo), after.timestamps.is_some());
        let counters = after.ecn_byte_counters.unwrap_or_default();
        prop_assert_eq!(editor.set_ecn_byte_counters(counters), before.ecn_byte_counters.is_some());
        let had = tcp.options.sack;
        let is_set = editor.set_sack(&blocks);
        prop_assert_eq!(is_set, !had.is_empty() && blocks.len() <= had.len());
        prop_assert!(wire::set_hop_limit(&mut bytes, after.hop_limit));
        prop_assert!(wire::set_traffic_class(&mut bytes, after.traffic_class));

        if state == ChecksumState::Partial {
            wire::complete_checksum(&mut bytes, &VirtioNetHeader::for_partial_checksum(tcp.offset)).unwrap();
        }
        assert_oracle_agrees(&bytes);
        let read = wire::parse(&bytes).unwrap();
        prop_assert_eq!(read.tcp().unwrap().options.sack, if is_set { blocks } else { had });
        // Put the old blocks back to compare byte for byte.
        let mut editor = TcpEditor::new(&mut bytes, tcp, ChecksumState::Complete);
        prop_assert_eq!(editor.set_sack(&had), !had.is_empty());
        prop_assert_eq!(bytes, packet(&after, &payload));
    }

    /// Options at odd offsets, as without NOP padding, are edited with a right checksum too.
    #[test]
    fn odd_option_offsets(seed: u64, value: u32, echo: u32, blocks in sack_blocks(), shift in 0usize..4) {
        let mut raw = vec![1u8; shift];
        raw.extend_from_slice(&[8, 10]);
        raw.extend_from_slice(&pseudo_random_bytes(seed, 8));
        raw.extend_from_slice(&[5, 18]);
        raw.extend_from_slice(&pseudo_random_bytes(seed ^ 7, 16));
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .tcp(1, 2, 3, 4)
            .options_raw(&raw)
            .unwrap()
            .write_to_vec(&mut bytes, b"odd payload")
            .unwrap();
        let parsed = wire::parse(&bytes).unwrap();
        let tcp = parsed.tcp().unwrap();
        let mut editor = TcpEditor::new(&mut bytes, tcp, ChecksumState::Complete);
        prop_assert!(editor.set_timestamp_value(value) && editor.set_timestamp_echo(echo));
        prop_assert_eq!(editor.set_sack(&blocks), blocks.len() <= 2);
        assert_oracle_agrees(&bytes);
        let read = wire::parse(&bytes).unwrap();
        let options = read.tcp().unwrap().options;
        prop_assert_eq!(options.timestamps, Some(wire::Timestamps { value, echo }));
        if blocks.len() <= 2 {
            prop_assert_eq!(options.sack, blocks);
        }
        let mut editor = TcpEditor::new(&mut bytes, tcp, ChecksumState::Complete);
        prop_assert!(editor.clear_sack());
        assert_oracle_agrees(&bytes);
        prop_assert!(wire::parse(&bytes).unwrap().tcp().unwrap().options.sack.is_empty());
    }

    /// Packets written by etherparse are read alike.
    #[test]
    fn foreign_tcp_packets_are_read(
        src: [u8; 16], dst: [u8; 16], ports: (u16, u16), seq: u32, ack: u32, window: u16,
        scale in 0u8..=14, mss: u16, ts: (u32, u32), sack: (u32, u32), payload: Vec<u8>, is_v6: bool,
    ) {
        let ip = if is_v6 {
            PacketBuilder::ipv6(src, dst, 33)
        } else {
            PacketBuilder::ipv4([src[0], src[1], src[2], src[3]], [dst[0], dst[1], dst[2], dst[3]], 33)
        };
        let mut bytes = Vec::new();
        ip.tcp(ports.0, ports.1, seq, window)
            .ack(ack)
            .options(&[
                TcpOptionElement::MaximumSegmentSize(mss),
                TcpOptionElement::WindowScale(scale),
                TcpOptionElement::SelectiveAcknowledgement(sack, [None; 3]),
                TcpOptionElement::Timestamp(ts.0, ts.1),
            ])
            .unwrap()
            .write_to_vec(&mut bytes, &payload)
            .unwrap();
        assert_oracle_agrees(&bytes);
        let parsed = wire::parse(&bytes).unwrap();
        let options = parsed.tcp().unwrap().options;
        prop_assert_eq!(options.mss, Some(mss));
        prop_assert_eq!(options.window_scale.map(|s| s.shift()), Some(scale));
        prop_assert_eq!(options.timestamps, Some(wire::Timestamps { value: ts.0, echo: ts.1 }));
        let block = wire::SackBlock { start: SeqNum::new(sack.0), end: SeqNum::new(sack.1) };
        prop_assert_eq!(options.sack, [block].into_iter().collect::<SackBlocks>());
    }

    #[test]
    fn foreign_udp_packets_are_read(src: [u8; 16], dst: [u8; 4], ports: (u16, u16), payload: Vec<u8>, is_v6: bool) {
        let mut bytes = Vec::new();
        if is_v6 {
            PacketBuilder::ipv6(src, src, 3).udp(ports.0, ports.1).write_to_vec(&mut bytes, &payload).unwrap();
        } else {
            PacketBuilder::ipv4(dst, dst, 3).udp(ports.0, ports.1).write_to_vec(&mut bytes, &payload).unwrap();
        }
        assert_oracle_agrees(&bytes);
        // A flipped payload bit is found.
        if let Some(last) = bytes.last_mut().filter(|_| !payload.is_empty()) {
            *last ^= 1;
            prop_assert!(!wire::udp_checksum_is_valid(&bytes, &wire::parse(&bytes).unwrap()));
        }
    }

    #[test]
    fn corruption_is_found(spec in specs(), payload: Vec<u8>, at: prop::sample::Index, bit in 0u8..8) {
        let mut bytes = packet(&spec, &payload);
        let transport = wire::parse(&bytes).unwrap().ip.header_len;
        let at = transport + at.index(bytes.len() - transport);
        bytes[at] ^= 1 << bit;
        let parsed = wire::parse(&bytes).unwrap();
        prop_assert!(!wire::tcp_checksum_is_valid(&bytes, &parsed));
        bytes[9] ^= 0x10;
        prop_assert_eq!(wire::ipv4_checksum_is_valid(&bytes), spec.src.is_ipv6());
    }

    /// The fast sum equals word by word addition (RFC 1071 §1), whole and in pieces.
    #[test]
    fn sums_equal_the_definition(seed: u64, len in 0usize..5000, cuts: [prop::sample::Index; 3]) {
        let bytes = pseudo_random_bytes(seed, len);
        let mut slow = 0u32;
        for pair in bytes.chunks(2) {
            slow += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u32::from(*b));
            slow = (slow & 0xffff) + (slow >> 16);
        }
        prop_assert_eq!(checksum::sum(&bytes), slow as u16);
        let mut cuts = cuts.map(|cut| cut.index(len + 1));
        cuts.sort_unstable();
        let mut sum = Sum::new();
        for (from, to) in [(0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], cuts[2]), (cuts[2], len)] {
            sum.add_bytes(&bytes[from..to]);
        }
        prop_assert_eq!(sum.folded(), slow as u16);
    }

    /// An incremental update equals summing again (RFC 1624 §3).
    #[test]
    fn updates_equal_summing_again(seed: u64, len in 2usize..200, at: prop::sample::Index, new: [u8; 7]) {
        let mut bytes = pseudo_random_bytes(seed, len);
        bytes[0] |= 1; // Real data has a pseudo-header and is never all zero.
        let before = !checksum::sum(&bytes);
        let at = 1 + at.index(len - 1);
        let end = (at + new.len()).min(len);
        let old = bytes[at..end].to_vec();
        bytes[at..end].copy_from_slice(&new[..end - at]);
        prop_assert_eq!(checksum::update_bytes(before, at, &old, &new[..end - at]), !checksum::sum(&bytes));
    }

    #[test]
    fn word_updates_equal_summing_again(words: [u32; 4], new: u32) {
        let bytes = |w: &[u32; 4]| w.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<_>>();
        let mut words = words;
        words[0] |= 1;
        let before = !checksum::sum(&bytes(&words));
        let old = core::mem::replace(&mut words[2], new);
        let after = !checksum::sum(&bytes(&words));
        prop_assert_eq!(checksum::update_u32(before, old, new), after);
        let halves = checksum::update(before, (old >> 16) as u16, (new >> 16) as u16);
        prop_assert_eq!(checksum::update(halves, old as u16, new as u16), after);
    }

    #[test]
    fn virtio_headers_are_read_back(flags: u8, kind in 0usize..4, ecn: bool, words: [u16; 4]) {
        let header = VirtioNetHeader {
            flags,
            gso_type: [GsoType::None, GsoType::TcpV4, GsoType::TcpV6, GsoType::UdpL4][kind],
            ecn,
            hdr_len: words[0],
            gso_size: words[1],
            csum_start: words[2],
            csum_offset: words[3],
        };
        let mut buf = [0xaa; 12];
        prop_assert!(header.emit(&mut buf));
        prop_assert_eq!(VirtioNetHeader::parse(&buf).unwrap(), header);
        prop_assert_eq!(&buf[10..], &[0xaa; 2]);
        prop_assert!(!header.emit(&mut buf[..9]));
    }

    /// A router's step keeps the header checksum right and stops at zero.
    #[test]
    fn hop_limits_count_down(spec in specs()) {
        let mut bytes = packet(&spec, b"x");
        let left = wire::decrement_hop_limit(&mut bytes);
        prop_assert_eq!(left, spec.hop_limit.checked_sub(1));
        prop_assert_eq!(bytes, packet(&TcpHeaderSpec { hop_limit: left.unwrap_or(0), ..spec }, b"x"));
    }

    #[test]
    fn flags_are_sets(a in 0u16..0x200, b in 0u16..0x200) {
        let (x, y) = (TcpFlags::from_bits(a), TcpFlags::from_bits(b));
        prop_assert_eq!((x | y).bits(), a | b);
        prop_assert_eq!((x & y).bits(), a & b);
        prop_assert_eq!((!x).bits(), !a & 0x1ff);
        prop_assert_eq!(x.contains(y), a & b == b);
        prop_assert_eq!(x.intersects(y), a & b != 0);
        prop_assert_eq!(x.without(y).bits(), a & !b);
    }
}

/// The example of RFC 1624 §4: 0x5555 becomes 0x3285, and the checksum 0xDD2F becomes 0x0000.
#[test]
fn rfc_1624_example() {
    assert_eq!(checksum::update(0xdd2f, 0x5555, 0x3285), 0x0000);
}

/// The example of RFC 1071 §3.
#[test]
fn rfc_1071_example() {
    assert_eq!(checksum::sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
}

#[test]
fn a_checksum_that_was_wrong_stays_wrong() {
    let spec = TcpHeaderSpec::new(
        "10.0.0.1:80".parse().unwrap(),
        "10.0.0.2:5000".parse().unwrap(),
        SeqNum::new(1),
        SeqNum::new(2),
        TcpFlags::ACK,
    );
    let mut bytes = packet(&spec, b"payload");
    bytes[41] ^= 4;
    let parsed = wire::parse(&bytes).unwrap();
    TcpEditor::new(&mut bytes, parsed.tcp().unwrap(), ChecksumState::Complete).set_ack(SeqNum::new(77));
    assert!(!wire::tcp_checksum_is_valid(&bytes, &parsed));
    bytes[41] ^= 4;
    assert!(wire::tcp_checksum_is_valid(&bytes, &parsed));
    assert_eq!(oracle_tcp_checksum(&bytes), wire::parse(&bytes).unwrap().tcp().unwrap().checksum);
}

#[test]
fn what_cannot_be_built_says_so() {
    let spec = TcpHeaderSpec::new(
        "10.0.0.1:80".parse().unwrap(),
        "[::1]:5000".parse().unwrap(),
        SeqNum::new(1),
        SeqNum::new(2),
        TcpFlags::ACK,
    );
    let mut buf = [0; TcpHeaderSpec::MAX_LEN];
    assert_eq!(spec.emit(&mut buf, &[]), Err(wire::BuildError::MixedFamilies));
    let spec = TcpHeaderSpec { dst: spec.src, ..spec };
    assert_eq!(
        spec.emit_partial(&mut buf[..39], 0),
        Err(wire::BuildError::BufferTooSmall { needed: 40, have: 39 })
    );
    assert_eq!(spec.emit_partial(&mut buf, 65_496), Err(wire::BuildError::TooLong { len: 65_536 }));
    assert_eq!(spec.emit_partial(&mut buf, 65_495).unwrap().total_len, 65_535);
    let localhost = "[::1]:80".parse().unwrap();
    let spec = TcpHeaderSpec { src: localhost, dst: localhost, ..spec };
    assert_eq!(spec.emit_partial(&mut buf, 65_515).unwrap().total_len, 65_575);
    assert_eq!(spec.emit_partial(&mut buf, 65_516), Err(wire::BuildError::TooLong { len: 65_576 }));
}
