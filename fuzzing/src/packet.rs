//! Parsers, edits and builders of packets.

use core::fmt::Write as _;

use units::SeqNum;
use wire::{
    ChecksumState, FeedbackDatagram, FeedbackKey, GsoType, MergeOutcome, Merger, Packet, SackBlock,
    SackBlocks, Tcp, TcpEditor, TcpFlags, TcpHeaderSpec, Transport, VirtioNetHeader,
};

/// Any packet: what is read lies inside it, and edits keep everything else, lengths and checksums.
pub fn packet(bytes: &[u8]) {
    if let Ok(prefix) = wire::parse_prefix(bytes) {
        print(&prefix);
        check_offsets(&prefix);
    }
    let Ok(parsed) = wire::parse(bytes) else { return };
    assert_eq!(wire::parse_prefix(bytes), Ok(parsed), "a whole packet read as a part");
    check_inside(bytes, &parsed);
    let _ = (wire::ipv4_checksum_is_valid(bytes), wire::udp_checksum_is_valid(bytes, &parsed));
    if let Transport::Icmp(icmp) = &parsed.transport {
        let _ = (icmp.next_hop_mtu(), icmp.quoted(bytes), icmp.checksum_is_valid(bytes, &parsed.ip));
    }
    check_ip_edits(bytes, &parsed);
    if let Some(tcp) = parsed.tcp() {
        check_tcp_edits(bytes, &parsed, tcp);
    }
}

/// A base station's datagram: what is read can be written and reads the same; a tag holds for its key alone.
pub fn feedback(bytes: &[u8]) {
    let Some(key) = FeedbackKey::new(b"key") else { return };
    if let Ok(signed) = FeedbackDatagram::decode(bytes, Some(&key)) {
        assert_eq!(FeedbackDatagram::decode(bytes, None), Ok(signed), "the key changed what is read");
    }
    let Ok(report) = FeedbackDatagram::decode(bytes, None) else { return };
    assert!(bytes.len() <= FeedbackDatagram::LEN_MAX);
    for key in [None, Some(&key)] {
        let encoded = report.encode(key);
        assert_eq!(FeedbackDatagram::decode(encoded.as_ref(), key), Ok(report), "written and read");
    }
    let other = FeedbackKey::new(b"another");
    let encoded = report.encode(other.as_ref());
    assert!(FeedbackDatagram::decode(encoded.as_ref(), Some(&key)).is_err(), "signed with another key");
}

fn print(parsed: &Packet) {
    let mut text = String::new();
    write!(text, "{parsed} {parsed:?}").expect("a String takes everything");
}

/// Checks conditions that hold for a part of a packet too.
fn check_offsets(parsed: &Packet) {
    match &parsed.transport {
        Transport::Tcp(tcp) => {
            assert_eq!(tcp.offset + tcp.header_len, tcp.payload_offset);
            assert_eq!(tcp.payload_offset + tcp.payload_len, parsed.ip.total_len);
            assert!((20..=60).contains(&tcp.header_len) && tcp.options.sack.len() <= SackBlocks::CAPACITY);
        }
        Transport::Udp(udp) => assert_eq!(udp.payload_offset + udp.payload_len, parsed.ip.total_len),
        Transport::Icmp(icmp) => assert_eq!(icmp.offset + icmp.len, parsed.ip.total_len),
        Transport::Fragment | Transport::Other(_) | Transport::Truncated => {}
    }
}

fn check_inside(bytes: &[u8], parsed: &Packet) {
    check_offsets(parsed);
    assert!(parsed.ip.header_len <= parsed.ip.total_len && parsed.ip.total_len <= bytes.len());
    let (held, said) = match &parsed.transport {
        Transport::Tcp(tcp) => (tcp.payload(bytes).len(), tcp.payload_len),
        Transport::Udp(udp) => (udp.payload(bytes).len(), udp.payload_len),
        _ => return,
    };
    assert_eq!(held, said, "the payload is not what its length says");
}

fn check_ip_edits(bytes: &[u8], parsed: &Packet) {
    let was_valid = wire::ipv4_checksum_is_valid(bytes);
    for value in [0, 1, 0x55, 0xff] {
        let mut edited = bytes.to_vec();
        assert!(wire::set_hop_limit(&mut edited, value) && wire::set_traffic_class(&mut edited, value));
        let again = wire::parse(&edited).expect("an edited packet is a packet");
        let ip = wire::Ip { hop_limit: value, traffic_class: value, ..parsed.ip };
        assert_eq!(again.ip, ip, "edits of the IP header change more");
        assert_eq!(wire::ipv4_checksum_is_valid(&edited), was_valid, "IPv4 checksum after edits");
    }
    let mut edited = bytes.to_vec();
    let left = wire::decrement_hop_limit(&mut edited);
    assert_eq!(left, parsed.ip.hop_limit.checked_sub(1));
}

/// Every edit in turn; the result reads as what was set, and a right checksum stays right.
fn check_tcp_edits(bytes: &[u8], parsed: &Packet, tcp: &Tcp) {
    let mut edited = bytes.to_vec();
    let was_valid = wire::tcp_checksum_is_valid(bytes, parsed);
    let number = |turn: u32| SeqNum::new(tcp.ack.get().rotate_left(turn) ^ 0x5a5a_0f0f);
    let blocks: SackBlocks = (0..tcp.options.sack.len() as u32)
        .map(|i| SackBlock { start: number(i), end: number(i + 9) })
        .collect();
    let flags = TcpFlags::from_bits(!tcp.flags.bits());
    let mut edit = TcpEditor::new(&mut edited, tcp, ChecksumState::Complete);
    edit.set_seq(number(1));
    edit.set_ack(number(2));
    edit.set_flags(flags);
    edit.set_window(!tcp.window);
    edit.set_urgent(!tcp.urgent);
    let stamps = edit.set_timestamps(7, u32::MAX);
    let sacks = edit.set_sack(&blocks);
    assert_eq!(stamps, tcp.options.timestamps.is_some());
    assert_eq!(sacks, !tcp.options.sack.is_empty());
    let parsed_again = wire::parse(&edited).expect("an edited packet is a packet");
    let again = parsed_again.tcp().expect("an edited segment is a segment");
    let mut options = tcp.options;
    options.timestamps = tcp.options.timestamps.map(|_| wire::Timestamps { value: 7, echo: u32::MAX });
    options.sack = blocks;
    assert_eq!(again.options, options);
    let header = (again.seq, again.ack, again.flags, again.window, again.urgent);
    assert_eq!(header, (number(1), number(2), flags, !tcp.window, !tcp.urgent));
    assert_eq!(tcp.payload(bytes), again.payload(&edited), "an edit reached the payload");
    assert_eq!(wire::tcp_checksum_is_valid(&edited, &parsed_again), was_valid, "checksum after edits");
    let mut edit = TcpEditor::new(&mut edited, tcp, ChecksumState::Complete);
    edit.clear_sack();
    let cleared = wire::parse(&edited).expect("an edited packet is a packet");
    assert!(cleared.tcp().is_some_and(|tcp| tcp.options.sack.is_empty()));
    assert_eq!(wire::tcp_checksum_is_valid(&edited, &cleared), was_valid, "checksum after clearing");
}

/// TCP options: byte 0 gives flags, the rest is the option list of a segment that is whole otherwise.
///
/// Options that are read can be written again by [`TcpHeaderSpec`], and read the same.
pub fn tcp_options(bytes: &[u8]) {
    let Some((&flags, list)) = bytes.split_first() else { return };
    let mut list = list[..list.len().min(40)].to_vec();
    list.resize(list.len().next_multiple_of(4), 0);
    let ends =
        (core::net::SocketAddr::from(([10, 0, 0, 1], 1)), core::net::SocketAddr::from(([10, 0, 0, 2], 2)));
    let number = SeqNum::new(0x1234_5678);
    let bare = TcpHeaderSpec::new(ends.0, ends.1, number, number, TcpFlags::from_bits(u16::from(flags)));
    let built = sim::build_packet(&bare, &list, &[b"data"]).expect("40 bytes of options fit");
    packet(&built);
    let parsed = wire::parse(&built).expect("what was built is a packet");
    let options = parsed.tcp().expect("and a segment").options;
    let spec = TcpHeaderSpec {
        timestamps: options.timestamps,
        sack: options.sack,
        mss: options.mss,
        window_scale: options.window_scale,
        sack_permitted: options.sack_permitted,
        ..bare
    };
    let mut buffer = [0; TcpHeaderSpec::MAX_LEN];
    let header = spec.emit(&mut buffer, &[]).expect("a header fits");
    let parsed = wire::parse(&buffer[..header.len]).expect("what was written is a packet");
    assert!(wire::tcp_checksum_is_valid(&buffer[..header.len], &parsed));
    let again = parsed.tcp().expect("and a segment").options;
    assert!(!again.malformed && !again.unknown, "options of our own are not understood: {again:?}");
    assert_eq!(
        (again.timestamps, again.mss, again.window_scale, again.sack_permitted),
        (options.timestamps, options.mss, options.window_scale, options.sack_permitted),
    );
    assert!(options.sack.as_slice().starts_with(again.sack.as_slice()), "other SACK blocks");
}

/// Super-packets: ten bytes of virtio header, two of segment size, then the packet.
///
/// Whatever the header says, nothing panics; the pieces of a cut are whole packets of the right
/// lengths; and what the merger takes comes out of the next cut as it went in.
pub fn super_packet(bytes: &[u8]) {
    let Ok(virtio) = VirtioNetHeader::parse(bytes) else { return };
    assert_eq!(VirtioNetHeader::parse(&virtio.to_bytes()), Ok(virtio));
    let (Some(&[high, low]), Some(packet)) = (bytes.get(10..12), bytes.get(12..)) else { return };
    let Ok(parsed) = wire::parse(packet) else { return };
    let packet = &packet[..parsed.ip.total_len];
    let fits = virtio.fits(packet, &parsed);
    let mut completed = packet.to_vec();
    let outcome = wire::complete_checksum(&mut completed, &virtio);
    assert!(outcome.is_ok() || !fits, "a header that fits cannot be completed");
    if fits && virtio.gso_type != GsoType::None {
        cut(packet, &parsed, virtio.gso_size);
    }
    let pieces = cut(packet, &parsed, u16::from_be_bytes([high, low]));
    merge(&pieces);
}

/// Cuts and checks the pieces; empty when the packet cannot be cut.
fn cut(packet: &[u8], parsed: &Packet, mss: u16) -> Vec<Vec<u8>> {
    // More than a thousand pieces show nothing that a thousand do not.
    if packet.len() > usize::from(mss) * 1_000 {
        return Vec::new();
    }
    let Ok(mut splitter) = wire::split(packet, parsed, mss) else { return Vec::new() };
    let (count, mut pieces) = (splitter.remaining(), Vec::new());
    let mut payload = Vec::new();
    while let Some(len) = splitter.next_len() {
        let mut piece = vec![0; len];
        assert_eq!(splitter.next_into(&mut piece), Ok(Some(len)));
        let again = wire::parse(&piece).expect("a piece is a packet");
        assert_eq!(again.ip.total_len, len);
        match &again.transport {
            Transport::Tcp(tcp) => {
                assert!(wire::tcp_checksum_is_valid(&piece, &again), "checksum of a piece");
                assert!(tcp.payload_len <= usize::from(mss));
                payload.extend_from_slice(tcp.payload(&piece));
            }
            Transport::Udp(udp) => {
                assert!(wire::udp_checksum_is_valid(&piece, &again), "checksum of a piece");
                assert!(udp.payload_len <= usize::from(mss));
                payload.extend_from_slice(udp.payload(&piece));
            }
            other => panic!("a piece is no segment: {other:?}"),
        }
        assert!(again.ip.version == wire::IpVersion::V6 || wire::ipv4_checksum_is_valid(&piece));
        pieces.push(piece);
    }
    assert_eq!((pieces.len(), splitter.remaining()), (count, 0));
    let whole = match &parsed.transport {
        Transport::Tcp(tcp) => tcp.payload(packet),
        Transport::Udp(udp) => udp.payload(packet),
        _ => &[],
    };
    assert_eq!(payload, whole, "the pieces are not the whole");
    pieces
}

/// Merges pieces and cuts the results again.
fn merge(pieces: &[Vec<u8>]) {
    let mut buffer = vec![0; 65_535];
    let mut merger = Merger::new(&mut buffer);
    let mut taken: Vec<&[u8]> = Vec::new();
    for piece in pieces {
        let parsed = wire::parse(piece).expect("checked when it was cut");
        let mut outcome = merger.push(piece, &parsed, ChecksumState::Complete);
        if outcome == MergeOutcome::Refused {
            check_merged(&mut merger, &taken);
            taken.clear();
            outcome = merger.push(piece, &parsed, ChecksumState::Complete);
        }
        if outcome != MergeOutcome::Refused {
            taken.push(piece);
        }
        if outcome == MergeOutcome::TakenAsLast {
            check_merged(&mut merger, &taken);
            taken.clear();
        }
    }
    check_merged(&mut merger, &taken);
}

fn check_merged(merger: &mut Merger<'_>, taken: &[&[u8]]) {
    let Some(merged) = merger.finish() else {
        assert!(taken.is_empty(), "what the merger took is gone");
        return;
    };
    assert_eq!(merged.segments, taken.len());
    let packet = &merger.buffer()[..merged.len];
    let parsed = wire::parse(packet).expect("a merged packet is a packet");
    assert!(merged.header.fits(packet, &parsed), "the header of a merged packet does not fit");
    if merged.segments == 1 {
        assert_eq!(packet, taken[0]);
        return;
    }
    let mut splitter = wire::split(packet, &parsed, merged.header.gso_size).expect("it can be cut again");
    for before in taken {
        let mut piece = vec![0; splitter.next_len().expect("as many pieces as before")];
        assert!(matches!(splitter.next_into(&mut piece), Ok(Some(_))));
        let mut before = before.to_vec();
        if parsed.ip.version == wire::IpVersion::V4 && parsed.ip.dont_fragment {
            // Equal numbers may come out counting up; they mean nothing.
            for packet in [&mut piece, &mut before] {
                packet[4..6].fill(0);
                packet[10..12].fill(0);
            }
        }
        assert_eq!(piece, before, "merged and cut again");
    }
    assert_eq!(splitter.remaining(), 0);
}
