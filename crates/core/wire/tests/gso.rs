//! Splitting and merging super-packets.

use crate::common::{assert_oracle_agrees, data_specs, packet, pseudo_random_bytes, specs};
use etherparse::PacketBuilder;
use proptest::prelude::*;
use wire::{
    BuildError, ChecksumState, GsoType, MergeOutcome, Merger, TcpFlags, TcpHeaderSpec, VirtioNetHeader, split,
};

/// All segments of `bytes` cut at `mss`.
fn segments(bytes: &[u8], mss: u16) -> Vec<Vec<u8>> {
    let parsed = wire::parse(bytes).unwrap();
    let mut splitter = split(bytes, &parsed, mss).unwrap();
    let mut out = Vec::new();
    let mut buf = vec![0; 65_600];
    loop {
        let expected = (splitter.remaining(), splitter.next_len());
        let Some(len) = splitter.next_into(&mut buf).unwrap() else {
            assert_eq!(expected, (0, None));
            return out;
        };
        assert_eq!(expected.1, Some(len));
        assert_eq!(splitter.remaining(), expected.0 - 1);
        out.push(buf[..len].to_vec());
    }
}

proptest! {
    /// Every segment is a right packet of its own, and together they are the super-packet's stream.
    #[test]
    fn segments_are_whole_packets(spec in data_specs(), seed: u64, len in 0usize..30_000, mss in 500u16..9_000) {
        let payload = pseudo_random_bytes(seed, len);
        let all = segments(&packet(&spec, &payload), mss);
        prop_assert_eq!(all.len(), len.div_ceil(usize::from(mss)).max(1));
        let mut stream = Vec::new();
        for (i, bytes) in all.iter().enumerate() {
            assert_oracle_agrees(bytes);
            let is_last = i + 1 == all.len();
            let parsed = wire::parse(bytes).unwrap();
            let tcp = parsed.tcp().unwrap();
            prop_assert_eq!(tcp.seq, spec.seq + stream.len() as u32);
            prop_assert!(is_last || tcp.payload_len == usize::from(mss));
            prop_assert_eq!(tcp.flags.intersects(TcpFlags::FIN | TcpFlags::PSH),
                is_last && spec.flags.intersects(TcpFlags::FIN | TcpFlags::PSH));
            prop_assert_eq!(tcp.flags.contains(TcpFlags::CWR), i == 0 && spec.flags.contains(TcpFlags::CWR));
            prop_assert_eq!(tcp.flags.contains(TcpFlags::ECE), spec.flags.contains(TcpFlags::ECE));
            if spec.src.is_ipv4() {
                prop_assert_eq!(parsed.ip.id, spec.id.wrapping_add(i as u16));
            }
            stream.extend_from_slice(tcp.payload(bytes));
        }
        prop_assert_eq!(stream, payload);
    }

    /// Merging and then splitting is the identity on segments, byte for byte.
    #[test]
    fn split_undoes_merge(spec in data_specs(), seed: u64, len in 1usize..30_000, mss in 500u16..9_000) {
        let before = segments(&packet(&spec, &pseudo_random_bytes(seed, len)), mss);
        let mut buf = vec![0; 65_535];
        let mut merger = Merger::new(&mut buf);
        for (i, bytes) in before.iter().enumerate() {
            let parsed = wire::parse(bytes).unwrap();
            let outcome = merger.push(bytes, &parsed, ChecksumState::Complete);
            prop_assert!(outcome == MergeOutcome::Taken
                || (outcome == MergeOutcome::TakenAsLast && i + 1 == before.len()), "{:?}", outcome);
        }
        let merged = merger.finish().unwrap();
        prop_assert_eq!(merged.segments, before.len());
        prop_assert!(merger.finish().is_none());
        let bytes = merger.buffer()[..merged.len].to_vec();
        if merged.segments == 1 {
            prop_assert_eq!(merged.header, VirtioNetHeader::default());
            prop_assert_eq!(&bytes, &before[0]);
        } else {
            let parsed = wire::parse(&bytes).unwrap();
            prop_assert!(merged.header.fits(&bytes, &parsed));
            prop_assert_eq!(merged.header.gso_size, mss);
            prop_assert_eq!(merged.header.gso_type,
                if spec.src.is_ipv4() { GsoType::TcpV4 } else { GsoType::TcpV6 });
            prop_assert_eq!(merged.header.ecn, spec.flags.contains(TcpFlags::CWR));
            prop_assert!(wire::ipv4_checksum_is_valid(&bytes));
        }
        prop_assert_eq!(segments(&bytes, mss), before);
    }

    /// Splitting and then merging gives the super-packet back, with its checksum completed.
    #[test]
    fn merge_undoes_split(spec in data_specs(), seed: u64, len in 1usize..30_000, mss in 500u16..9_000) {
        let whole = packet(&spec, &pseudo_random_bytes(seed, len));
        let mut buf = vec![0; 65_535];
        let mut merger = Merger::new(&mut buf);
        for bytes in segments(&whole, mss) {
            let outcome = merger.push(&bytes, &wire::parse(&bytes).unwrap(), ChecksumState::Complete);
            prop_assert_ne!(outcome, MergeOutcome::Refused);
        }
        let merged = merger.finish().unwrap();
        let mut bytes = merger.buffer()[..merged.len].to_vec();
        wire::complete_checksum(&mut bytes, &merged.header).unwrap();
        prop_assert_eq!(bytes, whole);
    }

    /// A segment with any other header, place in the stream or a wrong checksum is refused.
    #[test]
    fn strangers_are_refused(spec in data_specs(), other in specs(), which in 0usize..11) {
        let spec = TcpHeaderSpec { flags: TcpFlags::ACK, ..spec };
        let mut next = TcpHeaderSpec { seq: spec.seq + 100, id: spec.id.wrapping_add(1), ..spec };
        let mut len = 100;
        match which {
            0 => next.src.set_port(spec.src.port() ^ 1),
            1 => next.dst.set_port(spec.dst.port() ^ 1),
            2 => next.seq = spec.seq + 101,
            3 => next.ack = spec.ack + 1,
            4 => next.window ^= 1,
            5 => next.hop_limit ^= 1,
            6 => next.traffic_class ^= 1,
            7 => next.flags |= [TcpFlags::SYN, TcpFlags::RST, TcpFlags::URG, TcpFlags::CWR, TcpFlags::ECE]
                [usize::from(other.window) % 5],
            8 => next.mss = Some(next.mss.map_or(1, |mss| mss ^ 1)),
            9 => len = 101,
            _ => next.id = spec.id.wrapping_add(2),
        }
        let first = packet(&spec, &[7; 100]);
        let second = packet(&next, &vec![8; len]);
        let mut buf = vec![0; 65_535];
        let mut merger = Merger::new(&mut buf);
        let push = |merger: &mut Merger<'_>, bytes: &[u8]| {
            merger.push(bytes, &wire::parse(bytes).unwrap(), ChecksumState::Complete)
        };
        prop_assert_eq!(push(&mut merger, &first), MergeOutcome::Taken);
        let is_v6_id = which == 10 && spec.src.is_ipv6();
        prop_assert_eq!(push(&mut merger, &second) == MergeOutcome::Refused, !is_v6_id);
        if !is_v6_id {
            let merged = merger.finish().unwrap();
            prop_assert_eq!(&merger.buffer()[..merged.len], &first[..]);
        }
        let mut corrupt = packet(&TcpHeaderSpec { seq: spec.seq + 100, ..spec }, &[8; 100]);
        *corrupt.last_mut().unwrap() ^= 1;
        prop_assert_eq!(push(&mut merger, &corrupt), MergeOutcome::Refused);
    }

    /// UDP datagrams of a super-packet are whole packets, and their payloads add up.
    #[test]
    fn udp_is_cut_too(seed: u64, len in 0usize..20_000, size in 300u16..2_000, is_v6: bool) {
        let payload = pseudo_random_bytes(seed, len);
        let mut bytes = Vec::new();
        if is_v6 {
            PacketBuilder::ipv6([9; 16], [3; 16], 3).udp(1, 2).write_to_vec(&mut bytes, &payload).unwrap();
        } else {
            PacketBuilder::ipv4([9; 4], [3; 4], 3).udp(1, 2).write_to_vec(&mut bytes, &payload).unwrap();
        }
        let mut stream = Vec::new();
        for segment in segments(&bytes, size) {
            assert_oracle_agrees(&segment);
            let wire::Transport::Udp(udp) = wire::parse(&segment).unwrap().transport else { panic!("UDP") };
            prop_assert_eq!(usize::from(udp.length), 8 + udp.payload_len);
            stream.extend_from_slice(udp.payload(&segment));
        }
        prop_assert_eq!(stream, payload);
    }

    /// The urgent byte keeps its place in the stream.
    #[test]
    fn urgent_data_keeps_its_place(spec in specs(), urgent in 1u16..3_000) {
        let spec = TcpHeaderSpec { flags: TcpFlags::ACK | TcpFlags::URG, urgent, ..spec };
        for bytes in segments(&packet(&spec, &[0; 3_000]), 700) {
            let parsed = wire::parse(&bytes).unwrap();
            let tcp = parsed.tcp().unwrap();
            let pointer = spec.seq + u32::from(urgent);
            prop_assert_eq!(tcp.flags.contains(TcpFlags::URG), pointer.is_after(tcp.seq));
            if tcp.flags.contains(TcpFlags::URG) {
                prop_assert_eq!(tcp.seq + u32::from(tcp.urgent), pointer);
            }
        }
    }
}

fn example() -> TcpHeaderSpec {
    TcpHeaderSpec::new(
        "10.0.0.1:80".parse().unwrap(),
        "10.0.0.2:5000".parse().unwrap(),
        units::SeqNum::new(u32::MAX - 50),
        units::SeqNum::new(2),
        TcpFlags::ACK,
    )
}

#[test]
fn constant_ids_with_df_are_merged() {
    let (mut buf, spec) = (vec![0; 65_535], example());
    let mut merger = Merger::new(&mut buf);
    for i in 0..3 {
        let bytes = packet(&TcpHeaderSpec { seq: spec.seq + i * 100, ..spec }, &[7; 100]);
        let parsed = wire::parse(&bytes).unwrap();
        assert_eq!(merger.push(&bytes, &parsed, ChecksumState::Complete), MergeOutcome::Taken);
    }
    let merged = merger.finish().unwrap();
    assert_eq!((merged.segments, merged.len), (3, 340));
}

#[test]
fn a_full_buffer_ends_the_batch() {
    let (mut buf, spec) = (vec![0; 300], example());
    let mut merger = Merger::new(&mut buf);
    let mut outcomes = Vec::new();
    for i in 0..3 {
        let bytes = packet(&TcpHeaderSpec { seq: spec.seq + i * 100, ..spec }, &[7; 100]);
        let parsed = wire::parse(&bytes).unwrap();
        outcomes.push(merger.push(&bytes, &parsed, ChecksumState::Complete));
    }
    assert_eq!(outcomes, [MergeOutcome::Taken, MergeOutcome::Taken, MergeOutcome::Refused]);
    assert_eq!(merger.finish().unwrap().len, 240);
}

/// Packets with a partial checksum are merged too, and one alone still says that it is partial.
#[test]
fn partial_checksums_stay_partial() {
    let (mut buf, spec) = (vec![0; 65_535], example());
    let mut merger = Merger::new(&mut buf);
    let mut bytes = vec![0; TcpHeaderSpec::MAX_LEN];
    let header = spec.emit_partial(&mut bytes, 3).unwrap();
    bytes.truncate(header.len);
    bytes.extend_from_slice(b"abc");
    let parsed = wire::parse(&bytes).unwrap();
    assert_eq!(merger.push(&bytes, &parsed, ChecksumState::Partial), MergeOutcome::Taken);
    let merged = merger.finish().unwrap();
    assert_eq!(merged.header.checksum_state(), ChecksumState::Partial);
    let mut sent = merger.buffer()[..merged.len].to_vec();
    wire::complete_checksum(&mut sent, &merged.header).unwrap();
    assert_eq!(sent, packet(&spec, b"abc"));
}

#[test]
fn what_cannot_be_cut_says_so() {
    let syn = packet(&TcpHeaderSpec { flags: TcpFlags::SYN, ..example() }, b"fast open");
    let parsed = wire::parse(&syn).unwrap();
    assert_eq!(split(&syn, &parsed, 0).unwrap_err(), BuildError::ZeroSegmentSize);
    assert_eq!(split(&syn, &parsed, 5).unwrap_err(), BuildError::NotSplittable);
    assert_eq!(split(&syn[..30], &parsed, 9).unwrap_err(), BuildError::NotSplittable);
    let mut splitter = split(&syn, &parsed, 9).unwrap();
    assert_eq!(
        splitter.next_into(&mut [0; 48]).unwrap_err(),
        BuildError::BufferTooSmall { needed: 49, have: 48 }
    );
    assert_eq!(splitter.next_into(&mut [0; 49]), Ok(Some(49)));
}

/// Header bits that no spec can set keep segments apart too.
#[test]
fn odd_bits_keep_segments_apart() {
    let first = packet(&example(), &[7; 100]);
    let second = packet(&TcpHeaderSpec { seq: example().seq + 100, id: 1, ..example() }, &[8; 100]);
    let outcome = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut buf = vec![0; 65_535];
        let mut merger = Merger::new(&mut buf);
        // Partial, so that the TCP checksum does not count.
        merger.push(&first, &wire::parse(&first).unwrap(), ChecksumState::Partial);
        let mut second = second.clone();
        change(&mut second);
        merger.push(&second, &wire::parse(&second).unwrap(), ChecksumState::Partial)
    };
    let fix_ip = |bytes: &mut Vec<u8>| {
        bytes[10..12].fill(0);
        let checksum = !wire::checksum::sum(&bytes[..20]);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    };
    assert_eq!(outcome(&|_| {}), MergeOutcome::Taken);
    let reserved_tcp_bit = |bytes: &mut Vec<u8>| bytes[32] |= 2;
    assert_eq!(outcome(&reserved_tcp_bit), MergeOutcome::Refused);
    let urgent_without_flag = |bytes: &mut Vec<u8>| bytes[39] = 1;
    assert_eq!(outcome(&urgent_without_flag), MergeOutcome::Refused);
    let reserved_ip_bit = |bytes: &mut Vec<u8>| {
        bytes[6] |= 0x80;
        fix_ip(bytes);
    };
    assert_eq!(outcome(&reserved_ip_bit), MergeOutcome::Refused);
    let bad_ip_checksum = |bytes: &mut Vec<u8>| bytes[10] ^= 1;
    assert_eq!(outcome(&bad_ip_checksum), MergeOutcome::Refused);
}

#[test]
fn flow_labels_keep_segments_apart() {
    let localhost = "[::1]:80".parse().unwrap();
    let spec = TcpHeaderSpec { src: localhost, dst: localhost, ..example() };
    let first = packet(&spec, &[7; 100]);
    let mut buf = vec![0; 65_535];
    let mut merger = Merger::new(&mut buf);
    let mut push = |bytes: &[u8]| merger.push(bytes, &wire::parse(bytes).unwrap(), ChecksumState::Complete);
    assert_eq!(push(&first), MergeOutcome::Taken);
    let labelled = TcpHeaderSpec { seq: spec.seq + 100, flow_label: 1, ..spec };
    assert_eq!(push(&packet(&labelled, &[7; 100])), MergeOutcome::Refused);
    assert_eq!(push(&packet(&TcpHeaderSpec { flow_label: 0, ..labelled }, &[7; 100])), MergeOutcome::Taken);
}

/// Only the last segment may be short, or a split would cut elsewhere.
#[test]
fn a_short_segment_is_the_last() {
    let (mut buf, spec) = (vec![0; 65_535], example());
    let mut merger = Merger::new(&mut buf);
    let mut push = |at: u32, len: usize| {
        let bytes = packet(&TcpHeaderSpec { seq: spec.seq + at, ..spec }, &vec![7; len]);
        merger.push(&bytes, &wire::parse(&bytes).unwrap(), ChecksumState::Complete)
    };
    assert_eq!(push(0, 100), MergeOutcome::Taken);
    assert_eq!(push(100, 99), MergeOutcome::TakenAsLast);
    assert_eq!(push(199, 99), MergeOutcome::Refused);
}

/// A UDP checksum that comes out as zero is sent as all ones (RFC 768), and zero means none over IPv4 only.
#[test]
fn udp_zero_checksums() {
    for is_v6 in [false, true] {
        let build = |payload: [u8; 2]| {
            let mut bytes = Vec::new();
            if is_v6 {
                PacketBuilder::ipv6([9; 16], [3; 16], 3)
                    .udp(1, 2)
                    .write_to_vec(&mut bytes, &payload)
                    .unwrap();
            } else {
                PacketBuilder::ipv4([9; 4], [3; 4], 3).udp(1, 2).write_to_vec(&mut bytes, &payload).unwrap();
            }
            bytes
        };
        let udp = if is_v6 { 40 } else { 20 };
        let blank = build([0, 0]);
        let mut bytes = build([blank[udp + 6], blank[udp + 7]]);
        assert_eq!(segments(&bytes, 100)[0][udp + 6..udp + 8], [0xff, 0xff]);
        let parsed = wire::parse(&bytes).unwrap();
        let virtio = VirtioNetHeader { csum_offset: 6, ..VirtioNetHeader::for_partial_checksum(udp) };
        let pseudo = wire::checksum::Sum::pseudo_header(parsed.ip.src, parsed.ip.dst, 17, 10).folded();
        bytes[udp + 6..udp + 8].copy_from_slice(&pseudo.to_be_bytes());
        wire::complete_checksum(&mut bytes, &virtio).unwrap();
        assert_eq!(bytes[udp + 6..udp + 8], [0xff, 0xff]);
        assert!(wire::udp_checksum_is_valid(&bytes, &wire::parse(&bytes).unwrap()));
        bytes[udp + 6..udp + 8].fill(0);
        assert_eq!(wire::udp_checksum_is_valid(&bytes, &wire::parse(&bytes).unwrap()), !is_v6);
    }
}

#[test]
fn virtio_headers_that_do_not_fit_are_told() {
    let bytes = packet(&example(), &[7; 100]);
    let parsed = wire::parse(&bytes).unwrap();
    let gso = VirtioNetHeader::for_tcp_gso(wire::IpVersion::V4, 20, 40, 50);
    assert!(gso.fits(&bytes, &parsed));
    assert!(!VirtioNetHeader { gso_size: 0, ..gso }.fits(&bytes, &parsed));
    assert!(!VirtioNetHeader { gso_type: GsoType::TcpV6, ..gso }.fits(&bytes, &parsed));
    assert!(!VirtioNetHeader { gso_type: GsoType::UdpL4, ..gso }.fits(&bytes, &parsed));
    let outside = VirtioNetHeader { csum_start: 123, ..gso };
    assert!(!outside.fits(&bytes, &parsed));
    assert_eq!(wire::complete_checksum(&mut bytes.clone(), &outside), Err(BuildError::BadVirtioHeader));
    assert_eq!(VirtioNetHeader::parse(&[0, 3, 0, 0, 0, 0, 0, 0, 0, 0]), Err(BuildError::BadVirtioHeader));
}
