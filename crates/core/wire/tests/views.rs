//! Views of packets with known contents: options, fragments, extension headers, ICMP quotes, printing.

use crate::common::packet;
use etherparse::PacketBuilder;
use units::{SeqNum, WindowScale};
use wire::{
    ChecksumState, ParseError, SackBlock, TcpEditor, TcpFlags, TcpHeaderSpec, TcpOptions, Timestamps,
    Transport,
};

fn spec(flags: TcpFlags) -> TcpHeaderSpec {
    TcpHeaderSpec::new(
        "192.0.2.1:443".parse().unwrap(),
        "198.51.100.7:50000".parse().unwrap(),
        SeqNum::new(1000),
        SeqNum::new(77),
        flags,
    )
}

fn options(raw: &[u8]) -> TcpOptions {
    let mut bytes = Vec::new();
    let step = PacketBuilder::ipv4([1; 4], [2; 4], 64).tcp(1, 2, 3, 4).options_raw(raw).unwrap();
    step.write_to_vec(&mut bytes, &[]).unwrap();
    wire::parse(&bytes).unwrap().tcp().unwrap().options
}

#[test]
fn further_sack_options_are_cleared_with_the_first() {
    let sack = [5, 10, 0, 0, 0, 9, 0, 0, 0, 12];
    let two = [&sack[..], &sack, &sack, &[1, 1]].concat();
    let mut bytes = Vec::new();
    let step = PacketBuilder::ipv4([1; 4], [2; 4], 64).tcp(1, 2, 3, 4).options_raw(&two).unwrap();
    step.write_to_vec(&mut bytes, b"x").unwrap();
    let parsed = wire::parse(&bytes).unwrap();
    let mut editor = TcpEditor::new(&mut bytes, parsed.tcp().unwrap(), ChecksumState::Complete);
    assert!(editor.clear_sack());
    let cleared = wire::parse(&bytes).unwrap();
    assert!(cleared.tcp().unwrap().options.sack.is_empty());
    assert!(bytes[40..72].iter().all(|byte| *byte == 1), "nothing but NOPs: {bytes:?}");
    assert!(wire::tcp_checksum_is_valid(&bytes, &cleared));
}

/// The bytes Linux puts into a SYN and a SACK (`tcp_options_write`).
#[test]
fn options_lie_as_linux_puts_them() {
    let syn = TcpHeaderSpec {
        mss: Some(1460),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 1, echo: 2 }),
        window_scale: Some(WindowScale::new(7)),
        ..spec(TcpFlags::SYN)
    };
    let expected = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7];
    assert_eq!(packet(&syn, &[])[40..], expected);
    let block = SackBlock { start: SeqNum::new(3), end: SeqNum::new(4) };
    let ack = TcpHeaderSpec {
        timestamps: Some(Timestamps { value: 1, echo: 2 }),
        sack: [block; 4].into_iter().collect(),
        ..spec(TcpFlags::ACK)
    };
    let bytes = packet(&ack, &[]);
    assert_eq!(bytes[40..56], [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 5, 26]);
    assert_eq!(bytes.len(), 80, "three blocks fit beside timestamps");
}

#[test]
fn every_option_is_known() {
    assert!(options(&[34, 6, 1, 2, 3, 4]).fast_open);
    assert!(options(&[254, 6, 0xf9, 0x89, 3, 4]).fast_open);
    assert!(options(&[30, 12, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]).mptcp);
    assert!(options(&[&[19, 18][..], &[0; 16]].concat()).md5);
    assert!(options(&[&[29, 16][..], &[0; 14]].concat()).ao);
    assert!(options(&[172, 5, 0, 0, 0]).accecn && options(&[174, 5, 0, 0, 0]).accecn);
    assert!(options(&[254, 8, 0xac, 0xce, 0, 0, 0, 0]).experimental_accecn);
    assert!(!options(&[172, 4, 0, 0]).accecn, "RFC 9768 §3.2.3: other lengths are ignored");
    let other = options(&[28, 4, 0, 9]);
    assert!(other.unknown && !other.malformed);
    assert!(options(&[253, 4, 1, 2]).unknown);
    assert_eq!(
        options(&[1, 1, 0, 30, 12]),
        TcpOptions::default(),
        "nothing counts after the end of the list"
    );
}

#[test]
fn malformed_options_are_noticed() {
    for raw in [
        &[2, 3, 1][..],               // MSS of a wrong length
        &[30, 40, 0, 0],              // longer than the header
        &[8, 0, 1, 1],                // length zero
        &[5, 9, 0, 0, 0, 0, 0, 0, 0], // not a whole block
        &[8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        assert!(options(raw).malformed, "{raw:?}");
    }
}

#[test]
fn fragments_and_extension_headers_are_told() {
    let mut v4 = packet(&spec(TcpFlags::ACK), b"abc");
    v4[6] = 0x20; // More fragments.
    let parsed = wire::parse(&v4).unwrap();
    assert!(parsed.ip.is_fragment && parsed.transport == Transport::Fragment);

    let ends = ("[2001:db8::1]:1".parse().unwrap(), "[2001:db8::2]:2".parse().unwrap());
    let v6 = packet(&TcpHeaderSpec { src: ends.0, dst: ends.1, ..spec(TcpFlags::ACK) }, b"abc");
    let with = |kind: u8, header: &[u8; 8]| {
        let mut bytes = [&v6[..40], header, &v6[40..]].concat();
        bytes[5] += 8;
        bytes[6] = kind;
        bytes
    };
    let bytes = with(0, &[6, 0, 1, 4, 0, 0, 0, 0]);
    let parsed = wire::parse(&bytes).unwrap();
    assert!(parsed.ip.has_extensions && parsed.ip.header_len == 48);
    assert_eq!(parsed.tcp().unwrap().payload(&bytes), b"abc");
    assert!(wire::tcp_checksum_is_valid(&bytes, &parsed));
    let parsed = wire::parse(&with(44, &[6, 0, 0, 1, 0, 0, 0, 9])).unwrap();
    assert_eq!(parsed.transport, Transport::Fragment);
    // A chain that runs out of the packet.
    assert_eq!(wire::parse(&with(60, &[6, 99, 0, 0, 0, 0, 0, 0])).unwrap().transport, Transport::Truncated);
}

#[test]
fn padding_is_ignored_and_cuts_are_told() {
    let mut bytes = packet(&spec(TcpFlags::ACK), b"abc");
    bytes.extend_from_slice(&[0; 3]);
    let parsed = wire::parse(&bytes).unwrap();
    assert_eq!(parsed.tcp().unwrap().payload(&bytes), b"abc");
    assert!(wire::tcp_checksum_is_valid(&bytes, &parsed));
    let cut = &bytes[..42];
    assert_eq!(wire::parse(cut), Err(ParseError::Short { needed: 43, have: 42 }));
    let prefix = wire::parse_prefix(cut).unwrap();
    assert_eq!((prefix.tcp().unwrap().payload_len, prefix.tcp().unwrap().payload(cut)), (3, &b"ab"[..]));
    assert_eq!(wire::parse(&[0x55; 40]), Err(ParseError::Version(5)));
    assert_eq!(wire::parse(&[]), Err(ParseError::Short { needed: 20, have: 0 }));
    bytes[32] = 0x40; // A TCP header of 16 bytes.
    assert_eq!(wire::parse(&bytes).unwrap().transport, Transport::Truncated);
}

#[test]
fn sequence_space_counts_syn_and_fin() {
    let len = |flags, payload: &[u8]| {
        let parsed = wire::parse(&packet(&spec(flags), payload)).unwrap();
        let tcp = parsed.tcp().unwrap();
        assert_eq!(tcp.seq_end(), SeqNum::new(1000) + tcp.segment_len());
        tcp.segment_len()
    };
    assert_eq!(len(TcpFlags::SYN, b""), 1);
    assert_eq!(len(TcpFlags::ACK, b"abc"), 3);
    assert_eq!(len(TcpFlags::ACK | TcpFlags::FIN, b"abc"), 4);
}

#[test]
fn too_big_messages_tell_the_flow() {
    let quoted = packet(&spec(TcpFlags::ACK), &[0; 1400]);
    for keep in [28, 60, quoted.len()] {
        let mut bytes = Vec::new();
        let step = PacketBuilder::ipv4([9; 4], [192, 0, 2, 1], 64).icmpv4_raw(3, 4, [0, 0, 5, 0x50]);
        step.write_to_vec(&mut bytes, &quoted[..keep]).unwrap();
        let parsed = wire::parse(&bytes).unwrap();
        let Transport::Icmp(icmp) = parsed.transport else { panic!("ICMP") };
        assert!(icmp.checksum_is_valid(&bytes, &parsed.ip));
        assert_eq!(icmp.next_hop_mtu(), Some(1360));
        let quote = icmp.quoted(&bytes).unwrap();
        assert_eq!((quote.src, quote.dst), ("192.0.2.1".parse().unwrap(), "198.51.100.7".parse().unwrap()));
        assert_eq!((quote.src_port, quote.dst_port, quote.protocol), (443, 50_000, 6));
        assert_eq!((quote.seq, quote.total_len), (Some(SeqNum::new(1000)), 1440));
    }
    let mut bytes = Vec::new();
    let step = PacketBuilder::ipv6([9; 16], [8; 16], 64).icmpv6_raw(2, 0, 1280u32.to_be_bytes());
    let ends = ("[2001:db8::1]:1".parse().unwrap(), "[2001:db8::2]:2".parse().unwrap());
    let quoted = packet(&TcpHeaderSpec { src: ends.0, dst: ends.1, ..spec(TcpFlags::ACK) }, &[0; 1400]);
    step.write_to_vec(&mut bytes, &quoted[..1000]).unwrap();
    let parsed = wire::parse(&bytes).unwrap();
    let Transport::Icmp(icmp) = parsed.transport else { panic!("ICMP") };
    assert!(icmp.checksum_is_valid(&bytes, &parsed.ip));
    assert_eq!((icmp.next_hop_mtu(), icmp.quoted(&bytes).unwrap().dst_port), (Some(1280), 2));
}

#[test]
fn an_echo_quotes_nothing() {
    let mut bytes = Vec::new();
    let quoted = packet(&spec(TcpFlags::ACK), &[]);
    PacketBuilder::ipv4([9; 4], [8; 4], 64)
        .icmpv4_echo_request(1, 2)
        .write_to_vec(&mut bytes, &quoted)
        .unwrap();
    let Transport::Icmp(icmp) = wire::parse(&bytes).unwrap().transport else { panic!("ICMP") };
    assert_eq!((icmp.quoted(&bytes), icmp.next_hop_mtu()), (None, None));
    assert_eq!(icmp.rest, 0x0001_0002);
}

#[test]
fn packets_print_like_tcpdump() {
    let print =
        |spec: &TcpHeaderSpec, payload: &[u8]| wire::parse(&packet(spec, payload)).unwrap().to_string();
    let syn = TcpHeaderSpec {
        mss: Some(1460),
        sack_permitted: true,
        window_scale: Some(WindowScale::new(7)),
        window: 64_240,
        ..spec(TcpFlags::SYN)
    };
    assert_eq!(
        print(&syn, &[]),
        "IP 192.0.2.1.443 > 198.51.100.7.50000: Flags [S], seq 1000, win 64240, options [mss \
         1460,sackOK,wscale 7], length 0"
    );
    let data = TcpHeaderSpec {
        timestamps: Some(Timestamps { value: 5, echo: 6 }),
        sack: [SackBlock { start: SeqNum::new(3), end: SeqNum::new(4) }].into_iter().collect(),
        ..spec(TcpFlags::ACK | TcpFlags::PSH)
    };
    assert_eq!(
        print(&data, b"hello"),
        "IP 192.0.2.1.443 > 198.51.100.7.50000: Flags [P.], seq 1000:1005, ack 77, win 0, options [TS val 5 \
         ecr 6,sack 3:4], length 5"
    );
    let plain = TcpHeaderSpec { window: 9, ..spec(TcpFlags::RST) };
    assert_eq!(
        print(&plain, &[]),
        "IP 192.0.2.1.443 > 198.51.100.7.50000: Flags [R], seq 1000, win 9, length 0"
    );
}

/// A packet's facts are passed about by value: they should stay within a few cache lines.
#[test]
fn facts_are_small() {
    assert!(size_of::<wire::Packet>() <= 256, "{}", size_of::<wire::Packet>());
}

/// RFC 4302 §2.2: the authentication header counts its length otherwise than all others.
#[test]
fn authentication_headers_are_passed_over() {
    let ends = ("[2001:db8::1]:1".parse().unwrap(), "[2001:db8::2]:2".parse().unwrap());
    let v6 = packet(&TcpHeaderSpec { src: ends.0, dst: ends.1, ..spec(TcpFlags::ACK) }, b"abc");
    let mut header = [0; 24];
    header[..2].copy_from_slice(&[6, 4]);
    let mut bytes = [&v6[..40], &header, &v6[40..]].concat();
    bytes[5] += 24;
    bytes[6] = 51;
    let parsed = wire::parse(&bytes).unwrap();
    assert_eq!((parsed.ip.header_len, parsed.tcp().unwrap().payload(&bytes)), (64, &b"abc"[..]));
}

/// RFC 1191 §4: the 16 bits before the MTU are unused and mean nothing.
#[test]
fn unused_bits_before_the_mtu_are_ignored() {
    let mut bytes = Vec::new();
    let step = PacketBuilder::ipv4([9; 4], [8; 4], 64).icmpv4_raw(3, 4, [1, 2, 5, 0x50]);
    step.write_to_vec(&mut bytes, &[]).unwrap();
    let Transport::Icmp(icmp) = wire::parse(&bytes).unwrap().transport else { panic!("ICMP") };
    assert_eq!((icmp.next_hop_mtu(), icmp.quoted(&bytes)), (Some(1360), None));
}

/// Reserved bits beside the flags belong to the sender: edits and cuts leave them.
#[test]
fn reserved_bits_stay() {
    let mut bytes = packet(&spec(TcpFlags::ACK), &[1; 300]);
    bytes[32] |= 0x0e;
    let parsed = wire::parse(&bytes).unwrap();
    let tcp = parsed.tcp().unwrap();
    assert_eq!(tcp.flags, TcpFlags::ACK);
    let mut buf = [0; 200];
    wire::split(&bytes, &parsed, 100).unwrap().next_into(&mut buf).unwrap();
    assert_eq!(buf[32..34], [0x5e, 0x10]);
    let mut editor = wire::TcpEditor::new(&mut bytes, tcp, wire::ChecksumState::Complete);
    editor.set_flags(TcpFlags::AE | TcpFlags::FIN);
    assert_eq!(bytes[32..34], [0x5f, 0x01]);
}

/// RFC 9768 §3.2.3: the two kinds differ in the order of their counters, and the last ones may be missing.
#[test]
fn counters_of_accurate_ecn_are_read_and_changed_in_their_order() {
    for (kind, len, ect0, ce, ect1) in [
        (172, 11, Some(0x01_0203), Some(0x04_0506), Some(0x07_0809)),
        (174, 11, Some(0x07_0809), Some(0x04_0506), Some(0x01_0203)),
        (172, 8, Some(0x01_0203), Some(0x04_0506), None),
        (174, 8, None, Some(0x04_0506), Some(0x01_0203)),
        (172, 5, Some(0x01_0203), None, None),
        (174, 2, None, None, None),
    ] {
        let mut raw = vec![kind, len];
        raw.extend((1..=len - 2).collect::<Vec<u8>>());
        let mut packet = Vec::new();
        let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(1, 2, 3, 4);
        builder.ack(9).options_raw(&raw).unwrap().write_to_vec(&mut packet, b"data").unwrap();
        let parsed = wire::parse(&packet).unwrap();
        let tcp = parsed.tcp().unwrap();
        let counters = wire::EcnByteCounters { ect0, ce, ect1 };
        assert_eq!(tcp.ecn_byte_counters(&packet), Some(counters));
        // All that are there change, and the checksum with them.
        let more =
            |counter: Option<u32>| counter.map(|counter| (counter + 0x80_0001) & wire::EcnByteCounters::MAX);
        let all = wire::EcnByteCounters { ect0: more(ect0), ce: more(ce), ect1: more(ect1) };
        let mut editor = wire::TcpEditor::new(&mut packet, tcp, wire::ChecksumState::Complete);
        let new = [ect0, ce, ect1].map(|counter| more(counter).unwrap_or_default());
        assert!(editor.set_ecn_byte_counters(new));
        let parsed = wire::parse(&packet).unwrap();
        assert_eq!(parsed.tcp().unwrap().ecn_byte_counters(&packet), Some(all), "kind {kind}, length {len}");
        assert!(wire::tcp_checksum_is_valid(&packet, &parsed));
        let mut editor = wire::TcpEditor::new(&mut packet, tcp, wire::ChecksumState::Complete);
        assert!(editor.clear_ecn_byte_counters());
        let parsed = wire::parse(&packet).unwrap();
        assert_eq!(parsed.tcp().unwrap().options, wire::TcpOptions::default());
        assert!(wire::tcp_checksum_is_valid(&packet, &parsed));
    }
}

#[test]
fn the_ace_field_is_three_flags() {
    for ace in 0..8 {
        let flags = (TcpFlags::ACK | TcpFlags::PSH | TcpFlags::CWR).with_ace(ace);
        assert_eq!(flags.ace(), ace);
        assert_eq!(
            flags.without(TcpFlags::AE | TcpFlags::CWR | TcpFlags::ECE),
            TcpFlags::ACK | TcpFlags::PSH
        );
    }
    assert_eq!(TcpFlags::AE.ace(), 4);
    assert_eq!(TcpFlags::ECE.ace(), 1);
}
