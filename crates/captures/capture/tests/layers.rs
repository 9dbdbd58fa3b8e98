//! Link headers and tunnels around one TCP packet: the segment found is always the same.

use crate::made::{ethernet, packet};
use capture::{LinkType, Reassembly, Segment, Skip, decode};
use proptest::prelude::*;
use units::Instant;

fn v4() -> Vec<u8> {
    packet(false, 1000, 100)
}

fn v6() -> Vec<u8> {
    packet(true, 1000, 100)
}

/// An outer IPv4 header.
fn ipv4(protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let len = (20 + body.len()) as u16;
    header[2..4].copy_from_slice(&len.to_be_bytes());
    header.extend(body);
    header
}

fn ipv6(next: u8, body: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    header[4..6].copy_from_slice(&(body.len() as u16).to_be_bytes());
    header.extend([0xfd; 32]);
    header.extend(body);
    header
}

fn udp(port: u16, body: &[u8]) -> Vec<u8> {
    let len = (8 + body.len()) as u16;
    [&40_000_u16.to_be_bytes()[..], &port.to_be_bytes(), &len.to_be_bytes(), &[0, 0], body].concat()
}

fn behind(head: &[u8], body: &[u8]) -> Vec<u8> {
    [head, body].concat()
}

fn seen(link: u16, frame: &[u8]) -> Result<Segment, Skip> {
    decode(LinkType(link), frame, frame.len() as u32)
}

/// Name, link type and frame: the same TCP packet behind each link header and tunnel that is read.
fn cases() -> Vec<(&'static str, u16, Vec<u8>)> {
    let mac = [2; 12];
    let tagged = |tag: &[u8], body: &[u8]| [&mac[..], tag, body].concat();
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let gre = |head: &[u8], body: &[u8]| ethernet(&ipv4(47, &behind(head, body)));
    let over_udp = |port, head: &[u8], body: &[u8]| ethernet(&ipv4(17, &udp(port, &behind(head, body))));
    let frame = ethernet(&v4());
    let mut nflog = vec![2, 0, 0, 0, 8, 0, 1, 0, 8, 0, 3, 0, 0, 0, 9, 0];
    nflog[12..14].copy_from_slice(&(4 + v4().len() as u16).to_le_bytes());
    let wifi = [&[0x88, 1][..], &[0; 24], &snap].concat();
    vec![
        ("Ethernet", 1, frame.clone()),
        ("PPI", 192, behind(&[0, 0, 8, 0, 1, 0, 0, 0], &frame)),
        (
            "PKTAP",
            258,
            behind(
                &[&108_u32.to_le_bytes()[..], &[1, 0, 0, 0], &1_u32.to_le_bytes(), &[0; 96]].concat(),
                &frame,
            ),
        ),
        ("L2TP", 1, over_udp(1701, &[0x40, 2, 0, 152, 0, 1, 0, 2, 0xff, 3, 0, 0x21], &v4())),
        (
            "L2TP with numbers, compressed PPP, IPv6",
            1,
            over_udp(1701, &[0x48, 2, 0, 173, 0, 1, 0, 2, 0, 7, 0, 8, 0x57], &v6()),
        ),
        ("L2TP with offset", 1, over_udp(1701, &[2, 2, 0, 1, 0, 2, 0, 2, 9, 9, 0, 0x21], &v4())),
        ("LISP", 1, over_udp(4341, &[0; 8], &v4())),
        ("AH", 1, ethernet(&ipv4(51, &behind(&[&[4, 4, 0, 0][..], &[7; 20]].concat(), &v4())))),
        (
            "AH, transport",
            1,
            ethernet(&ipv4(51, &behind(&[&[6, 4, 0, 0][..], &[7; 20]].concat(), &v4()[20..]))),
        ),
        ("AH, IPv6", 1, ethernet(&ipv6(51, &behind(&[&[41, 4, 0, 0][..], &[7; 20]].concat(), &v6())))),
        ("LISP, IPv6", 1, over_udp(4341, &[0x80, 0, 0, 1, 0, 0, 0, 1], &v6())),
        (
            "NSH in NSH over VXLAN-GPE",
            1,
            over_udp(
                4790,
                &[0x0c, 0, 0, 4, 0, 0, 1, 0, 0x0f, 0xc2, 2, 4, 0, 0, 1, 255, 0x0f, 0xc2, 2, 1, 0, 0, 1, 254],
                &v4(),
            ),
        ),
        (
            "MACsec with a check value, VLAN",
            1,
            tagged(&[0x88, 0xe5, 0, 0, 0, 0, 0, 1, 0x81, 0, 0, 7, 8, 0], &behind(&v4(), &[9; 16])),
        ),
        (
            "PPI, radiotap inside",
            192,
            [&[0, 0, 8, 0, 127, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0][..], &wifi, &v4()].concat(),
        ),
        (
            "PKTAP, raw",
            258,
            behind(&[&[108, 0, 0, 0, 1, 0, 0, 0, 12, 0, 0, 0][..], &[0; 96]].concat(), &v4()),
        ),
        (
            "NSH",
            1,
            tagged(
                &[0x89, 0x4f, 0, 6, 2, 3, 0, 0, 0, 1].iter().copied().chain([0; 16]).collect::<Vec<_>>(),
                &frame,
            ),
        ),
        ("MACsec", 1, tagged(&[0x88, 0xe5, 0x20, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 0, 1, 8, 0], &v4())),
        ("MACsec without a name", 1, tagged(&[0x88, 0xe5, 0, 0, 0, 0, 0, 1, 8, 0], &v4())),
        ("Ethernet, IPv6", 1, ethernet(&v6())),
        ("VLAN", 1, tagged(&[0x81, 0, 0, 5, 8, 0], &v4())),
        ("QinQ", 1, tagged(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0], &v4())),
        (
            "QinQ, PPPoE",
            1,
            tagged(&[0x81, 0, 0, 5, 0x81, 0, 0, 6, 0x88, 0x64, 0x11, 0, 0, 1, 0, 142, 0, 0x21], &v4()),
        ),
        ("802.3 SNAP", 1, tagged(&[&148_u16.to_be_bytes()[..], &snap].concat(), &v4())),
        ("802.1ah", 1, tagged(&[0x88, 0xe7, 0, 0, 0, 9], &frame)),
        ("MPLS", 1, tagged(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64], &v4())),
        ("MPLS pseudowire", 1, tagged(&[0x88, 0x47, 0, 2, 1, 64, 0, 0, 0, 0], &frame)),
        ("loopback, little", 0, behind(&[2, 0, 0, 0], &v4())),
        ("loopback, big, IPv6", 0, behind(&[0, 0, 0, 30], &v6())),
        ("raw", 101, v4()),
        ("raw IPv6", 229, v6()),
        ("PPP", 9, behind(&[0xff, 3, 0, 0x21], &v4())),
        ("PPP, compressed", 9, behind(&[0x21], &v4())),
        ("Cisco HDLC", 104, behind(&[0x0f, 0, 8, 0], &v4())),
        ("FDDI", 10, [&[0x50][..], &mac, &snap, &v4()].concat()),
        ("SLL", 113, behind(&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0, 8, 0], &v4())),
        ("SLL2", 276, behind(&[&[8, 0, 0, 0][..], &[0; 16]].concat(), &v4())),
        ("NFLOG", 239, behind(&nflog, &v4())),
        ("802.11 QoS", 105, behind(&wifi, &v4())),
        ("radiotap", 127, [&[0, 0, 8, 0, 0, 0, 0, 0][..], &wifi, &v4()].concat()),
        ("IP in IP", 1, ethernet(&ipv4(4, &v4()))),
        ("6in4", 1, ethernet(&ipv4(41, &v6()))),
        ("4in6", 1, ethernet(&ipv6(4, &v4()))),
        ("GRE", 1, gre(&[0, 0, 8, 0], &v4())),
        ("GRE, checksum, key, sequence", 1, gre(&[&[0xb0, 0, 0x86, 0xdd][..], &[0; 12]].concat(), &v6())),
        ("GRE, Ethernet", 1, gre(&[0, 0, 0x65, 0x58], &frame)),
        ("PPTP", 1, gre(&[&[0x30, 1, 0x88, 0x0b, 0, 142, 0, 0, 0, 0, 0, 1, 0, 0x21][..]].concat(), &v4())),
        ("ERSPAN I", 1, gre(&[0, 0, 0x88, 0xbe], &frame)),
        ("ERSPAN II", 1, gre(&[&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10][..], &[0; 7]].concat(), &frame)),
        ("ERSPAN III", 1, gre(&[&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20][..], &[0; 11]].concat(), &frame)),
        ("VXLAN", 1, over_udp(4789, &[8, 0, 0, 0, 0, 0, 1, 0], &frame)),
        ("VXLAN-GPE", 1, over_udp(4790, &[0x0c, 0, 0, 1, 0, 0, 1, 0], &v4())),
        ("Geneve", 1, over_udp(6081, &[1, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 2, 3, 4], &frame)),
        ("GTP-U", 1, over_udp(2152, &[0x30, 255, 0, 140, 0, 0, 0, 1], &v4())),
        (
            "GTP-U, extension",
            1,
            over_udp(2152, &[0x34, 255, 0, 168, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0], &v6()),
        ),
        ("MPLS in UDP", 1, over_udp(6635, &[0, 2, 1, 64], &v4())),
        ("GRE in UDP", 1, over_udp(4754, &[0, 0, 8, 0], &v4())),
        (
            "GRE in UDP, checksum, key, sequence, IPv6",
            1,
            over_udp(4754, &[&[0xb0, 0, 0x86, 0xdd][..], &[7; 12]].concat(), &v6()),
        ),
        ("CAPWAP", 1, over_udp(5247, &[0, 2 << 3, 0, 0, 0, 0, 0, 0], &frame)),
        (
            "CAPWAP, 802.11, wireless information",
            1,
            over_udp(
                5247,
                // The bytes of the frame control exchanged, as most access points send them.
                &[&[0, 4 << 3, 0x43, 0x20, 0, 0, 0, 0, 4, 1, 2, 3, 4, 0, 0, 0, 1, 0x88][..], &wifi[2..]]
                    .concat(),
                &v4(),
            ),
        ),
    ]
}

#[test]
fn every_link_and_tunnel_leads_to_the_same_segment() {
    for (name, link, frame) in cases() {
        let segment = seen(link, &frame).unwrap_or_else(|skip| panic!("{name}: {skip:?}"));
        let tcp = segment.tcp;
        assert_eq!(
            (tcp.src_port, tcp.dst_port, tcp.seq.get(), tcp.payload_len),
            (1000, 80, 1000, 100),
            "{name}"
        );
        for len in 0..frame.len() {
            let _ = decode(LinkType(link), &frame[..len], frame.len() as u32);
        }
    }
}

/// What the program of Wireshark says of the innermost TCP header of each case: `make tshark`.
#[test]
#[ignore = "needs tshark: make tshark"]
fn tshark_finds_the_same_segment() {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for (name, link, frame) in cases() {
        let file = folder.path().join("case.pcap");
        let len = frame.len() as u32;
        std::fs::write(
            &file,
            crate::made::pcap(&crate::made::USUAL, u32::from(link), &[(1_000_000_000, len, frame)]),
        )
        .unwrap();
        let mut command = std::process::Command::new("tshark");
        command.arg("-r").arg(&file).args(["-T", "fields", "-E", "occurrence=l"]);
        for field in ["tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.len"] {
            command.args(["-e", field]);
        }
        let out = command.output().expect("tshark starts");
        let said = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        if said != "1000\t80\t1000\t100" {
            wrong.push(format!("{name}: {said:?}"));
        }
    }
    // And in a snoop file.
    let (frame, file) = (ethernet(&v4()), folder.path().join("case.snoop"));
    std::fs::write(&file, crate::made::snoop(4, &[(1_500_000_000, frame.len() as u32, frame)])).unwrap();
    let mut command = std::process::Command::new("tshark");
    command.arg("-r").arg(&file).args(["-T", "fields", "-e", "frame.time_epoch", "-e", "tcp.seq_raw"]);
    let said = command.output().expect("tshark starts").stdout;
    assert_eq!(String::from_utf8_lossy(&said).trim(), "1.500000000\t1000");
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn reserved_bits_of_vxlan_are_ignored() {
    let frame = ethernet(&v4());
    for port in [4789, 8472] {
        for flags in [0x08, 0x88, 0xff] {
            for reserved in [[0; 3], [0xff; 3], [0, 0, 1], [0, 0, 2], [0, 0, 4], [0, 0, 5]] {
                for last in [0, 1, 0xff] {
                    let head = [&[flags][..], &reserved, &[0, 0, 5, last]].concat();
                    let packet = ipv4(17, &udp(port, &behind(&head, &frame)));
                    let found = seen(101, &packet).map(|segment| segment.tcp.payload_len);
                    assert_eq!(found, Ok(100), "{port} {head:x?}");
                }
            }
        }
    }
    // At this port, too, the protocol of what is inside may be named; and without a valid identifier there is none.
    assert!(seen(101, &ipv4(17, &udp(4789, &behind(&[0x0c, 0, 0, 1, 0, 0, 5, 0], &v4())))).is_ok());
    let invalid = ipv4(17, &udp(4789, &behind(&[0xf7, 0, 0, 0, 0, 0, 5, 0], &frame)));
    assert_eq!(seen(101, &invalid).unwrap_err(), Skip::NotTcp);
}

#[test]
fn capwap_data_is_read_as_far_as_it_is_neither_encrypted_nor_a_later_piece() {
    let frame = ethernet(&v4());
    let capwap = |head: &[u8], body: &[u8]| seen(101, &ipv4(17, &udp(5247, &behind(head, body))));
    let wifi = [&[0x08, 2][..], &[0; 22], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &v4()].concat();
    let native = [0, 2 << 3, 0x03, 0, 0, 0, 0, 0];
    assert_eq!(capwap(&native, &wifi).map(|segment| segment.tcp.payload_len), Ok(100));
    // The first piece of two: the packet says its own length.
    let pieces = |offset: u8| capwap(&[0, 2 << 3, 0, 0x80, 0, 7, 0, offset << 3], &frame[..100]);
    assert_eq!(pieces(0).map(|segment| segment.tcp.payload_len), Ok(100));
    assert_eq!(pieces(12).unwrap_err(), Skip::NotTcp);
    for head in
        [[1, 2 << 3, 0, 0], [0x10, 2 << 3, 0, 0], [0, 1 << 3, 0, 0], [0, 2 << 3, 0, 8], [0, 2 << 3, 7, 0]]
    {
        let head = [&head[..], &[0; 4]].concat();
        assert_eq!(capwap(&head, &frame).unwrap_err(), Skip::NotTcp, "{head:x?}");
    }
    // GRE in UDP with bits that it does not have.
    let gre =
        |flags: u16| seen(101, &ipv4(17, &udp(4754, &[&flags.to_be_bytes()[..], &[8, 0], &v4()].concat())));
    assert!(gre(0).is_ok());
    assert_eq!([gre(1), gre(0x4000), gre(0x0800)].map(Result::unwrap_err), [Skip::NotTcp; 3]);
}

#[test]
fn lengths_of_super_packets_come_from_the_frame() {
    let mut v4 = v4();
    v4[2..4].fill(0);
    assert_eq!(seen(1, &ethernet(&v4)).unwrap().tcp.payload_len, 100);
    let mut v6 = v6();
    v6[4..6].fill(0);
    assert_eq!(seen(1, &ethernet(&v6)).unwrap().tcp.payload_len, 100);
    // A jumbogram with its option (RFC 2675), captured to the headers only.
    let jumbo = [&ipv6(0, &[])[..], &[6, 0, 0xc2, 4, 0, 1, 0x11, 0x70], &v6[40..]].concat();
    let segment = decode(LinkType::RAW, &jumbo, 40 + 8 + 20 + 70_000).unwrap();
    assert_eq!(segment.tcp.payload_len, 70_000);
}

#[test]
fn captured_parts_and_fragments() {
    let whole = ethernet(&v4());
    let head = decode(LinkType::ETHERNET, &whole[..54], whole.len() as u32).unwrap();
    assert_eq!((head.tcp.payload_len, head.is_cut_by_tool), (100, false));
    let cut = decode(LinkType::ETHERNET, &whole[..54], 54).unwrap();
    assert_eq!((cut.tcp.payload_len, cut.is_cut_by_tool), (100, true));

    let mut fragment = v4();
    fragment[6] = 0x20;
    assert_eq!(seen(101, &fragment).unwrap_err(), Skip::Fragment);
    let tcp = &v6()[40..];
    let atomic = ipv6(44, &behind(&[6, 0, 0, 0, 0, 0, 0, 1], tcp));
    assert_eq!(seen(101, &atomic).unwrap().tcp.payload_len, 100);
    let first = ipv6(44, &behind(&[6, 0, 0, 1, 0, 0, 0, 1], tcp));
    assert_eq!(seen(101, &first).unwrap_err(), Skip::Fragment);

    // Of a tunnel's first fragment the packet inside tells its own length.
    let mut outer = ipv4(4, &v4());
    outer[6] = 0x20;
    assert_eq!(seen(101, &outer).unwrap().tcp.payload_len, 100);
    outer[7] = 1;
    assert_eq!(seen(101, &outer).unwrap_err(), Skip::Fragment);

    // A segment with options of which the capture kept none.
    let mut options = v4();
    options[32] = 0x80;
    assert_eq!(decode(LinkType::RAW, &options[..40], 140).unwrap().tcp.payload_len, 88);
}

#[test]
fn ipv6_extension_headers_are_followed() {
    let tcp = &v6()[40..];
    let extension = |next: u8, words: u8| [vec![next, words], vec![0; 6 + usize::from(words) * 8]].concat();
    // Hop-by-hop, routing, authentication (counted in words of four, less two), destination options.
    let chain =
        [extension(43, 0), extension(51, 1), [&[60, 4, 0, 0][..], &[0; 20]].concat(), extension(6, 2)]
            .concat();
    let packet = ipv6(0, &behind(&chain, tcp));
    let segment = seen(101, &packet).unwrap();
    assert_eq!((segment.tcp.seq.get(), segment.tcp.payload_len, segment.ip.header_len), (1000, 100, 40 + 72));
    // Behind encryption nobody knows; a chain that is cut is cut.
    assert_eq!(seen(101, &ipv6(50, tcp)).unwrap_err(), Skip::NotTcp);
    assert_eq!(decode(LinkType::RAW, &packet[..80], packet.len() as u32).unwrap_err(), Skip::Cut);
}

/// The fragments of an IPv4 packet behind its 20 bytes of header, by start and length of each.
fn in_pieces(packet: &[u8], id: u8, pieces: &[(usize, usize)]) -> Vec<Vec<u8>> {
    let body = &packet[20..];
    let of = |&(start, len): &(usize, usize)| {
        let more = if start + len < body.len() { 0x2000 } else { 0 };
        let mut fragment = packet[..20].to_vec();
        fragment[2..4].copy_from_slice(&((20 + len) as u16).to_be_bytes());
        fragment[5] = id;
        fragment[6..8].copy_from_slice(&(more | (start / 8) as u16).to_be_bytes());
        fragment.extend(&body[start..start + len]);
        fragment
    };
    pieces.iter().map(of).collect()
}

/// The same for IPv6.
fn in_pieces_v6(packet: &[u8], id: u8, pieces: &[(usize, usize)]) -> Vec<Vec<u8>> {
    let body = &packet[40..];
    let of = |&(start, len): &(usize, usize)| {
        let field = (start as u16 | u16::from(start + len < body.len())).to_be_bytes();
        ipv6(44, &behind(&[6, 0, field[0], field[1], 0, 0, 0, id], &body[start..start + len]))
    };
    pieces.iter().map(of).collect()
}

#[test]
fn fragments_are_put_together_in_any_order() {
    let (v4, v6) = (packet(false, 5, 1400), packet(true, 5, 1400));
    // 1420 bytes behind the IP header: in order, backwards, overlapping, one twice.
    for pieces in [
        &[(0, 704), (704, 716)][..],
        &[(704, 716), (0, 704)],
        &[(0, 800), (1200, 220), (704, 600)],
        &[(48, 8), (1408, 12), (0, 48), (48, 8), (56, 1352)],
    ] {
        let gre = |fragment: &Vec<u8>| ipv4(47, &behind(&[0, 0, 8, 0], fragment));
        let plain = in_pieces(&v4, 7, pieces);
        for (name, fragments, header) in [
            ("IPv4", plain.clone(), 20),
            ("IPv6", in_pieces_v6(&v6, 7, pieces), 48),
            ("IPv4 in GRE", plain.iter().map(gre).collect(), 20),
        ] {
            let mut reassembly = Reassembly::default();
            let last = fragments.len() - 1;
            for (index, fragment) in fragments.iter().enumerate() {
                let now = Instant::from_millis(index as u64);
                // Headers only, as captures often keep: all but the TCP header is there.
                let kept = &fragment[..fragment.len().min(100)];
                let found = reassembly.decode(0, LinkType::RAW, kept, fragment.len() as u32, now);
                assert_eq!(found.is_ok(), index == last, "{name} {pieces:?} {index}");
                let Ok(segment) = found else { continue };
                let tcp = segment.tcp;
                assert_eq!(
                    (tcp.src_port, tcp.seq.get(), tcp.payload_len),
                    (1000, 5, 1400),
                    "{name} {pieces:?}"
                );
                assert_eq!(segment.ip.total_len, header + 1420, "{name}");
                assert_eq!(segment.is_tunnelled, name == "IPv4 in GRE");
            }
        }
    }
}

#[test]
fn pieces_of_different_packets_stay_apart() {
    let packet = packet(false, 5, 100);
    let fragments = |id| in_pieces(&packet, id, &[(0, 64), (64, 56)]);
    let (a, b) = (fragments(1), fragments(2));
    let mut reassembly = Reassembly::default();
    let mut take = |point, frame: &[u8], at: u64| {
        reassembly
            .decode(point, LinkType::RAW, frame, frame.len() as u32, Instant::from_millis(at * 1_000))
            .is_ok()
    };
    assert!(!take(0, &a[0], 0) && !take(0, &b[1], 0), "two identifications");
    assert!(!take(1, &a[1], 0), "another place");
    assert!(take(0, &b[0], 20) && take(1, &a[0], 20));
    assert!(!take(0, &a[1], 31), "too late");
    // A flood of beginnings is forgotten, the oldest first.
    for id in 0..=255 {
        assert!(!take(2, &fragments(id)[0], 50));
    }
    assert!(!take(3, &fragments(0)[0], 50));
    assert!(take(2, &fragments(255)[1], 50) && !take(2, &fragments(0)[1], 50));
}

#[test]
fn headers_in_pieces_are_put_together_too() {
    // With options: 52 bytes of header in front of 68 of data.
    let options = |mut packet: Vec<u8>, at: usize| {
        packet[at + 12] = 0xd0;
        packet[at + 20..at + 52].fill(1);
        packet
    };
    let (v4, v6) = (options(v4(), 20), options(v6(), 40));
    for first in (8..=64).step_by(8) {
        for step in [8, 16, 64] {
            let starts = std::iter::once(0).chain((first..120).step_by(step));
            let mut pieces: Vec<(usize, usize)> =
                starts.map(|at| (at, if at == 0 { first } else { step.min(120 - at) })).collect();
            for order in 0..3 {
                for (name, fragments) in
                    [("IPv4", in_pieces(&v4, 7, &pieces)), ("IPv6", in_pieces_v6(&v6, 7, &pieces))]
                {
                    let mut reassembly = Reassembly::default();
                    let mut found = Vec::new();
                    for fragment in &fragments {
                        // Short frames are padded on Ethernet.
                        let mut frame = ethernet(fragment);
                        frame.resize(frame.len().max(60), 0xee);
                        let len = frame.len() as u32;
                        found.extend(reassembly.decode(0, LinkType::ETHERNET, &frame, len, Instant::ZERO));
                    }
                    let case = format!("{name} {first} {step} {order}");
                    assert_eq!(found.len(), 1, "{case}");
                    let tcp = &found[0].tcp;
                    assert_eq!(
                        (tcp.src_port, tcp.seq.get(), tcp.header_len, tcp.payload_len),
                        (1000, 1000, 52, 68),
                        "{case}"
                    );
                }
                if order == 0 { pieces.reverse() } else { pieces.rotate_left(1) }
            }
        }
    }
}

#[test]
fn what_is_no_segment_says_why() {
    let quoted = ipv4(1, &behind(&[3, 4, 0, 0, 0, 0, 0, 0], &v4()));
    assert_eq!(seen(101, &quoted).unwrap_err(), Skip::NotTcp);
    assert_eq!(seen(101, &ipv4(17, &udp(53, b"query"))).unwrap_err(), Skip::NotTcp);
    assert_eq!(seen(101, &ipv4(17, &udp(4789, &[0; 60]))).unwrap_err(), Skip::NotTcp);
    assert_eq!(seen(1, &[&[2; 12][..], &[8, 6], &[0; 28]].concat()).unwrap_err(), Skip::NotIp);
    assert_eq!(seen(147, &v4()).unwrap_err(), Skip::UnknownLink);
    // What only looks like a tunnel, or hides what it carries.
    let udp_of = |port, body: &[u8]| seen(101, &ipv4(17, &udp(port, body))).unwrap_err();
    let l2tp_control = [&[0xc8, 2, 0, 12, 0, 1, 0, 0, 0, 0, 0, 0][..], &v4()].concat();
    let l2tp_version_3 = [&[0x40, 3, 0, 152, 0, 1, 0, 2, 0xff, 3, 0, 0x21][..], &v4()].concat();
    let l2tp_offset = [&[2, 2, 0, 1, 0, 2, 0xff, 0xff][..], &v4()].concat();
    for body in [l2tp_control, l2tp_version_3, l2tp_offset] {
        assert_eq!(udp_of(1701, &body), Skip::NotTcp);
    }
    assert_eq!(udp_of(4341, &[0; 60]), Skip::NotTcp, "no IP behind LISP");
    let in_ethernet =
        |kind: [u8; 2], head: &[u8]| seen(1, &[&[2; 12], &kind[..], head, &v4()].concat()).unwrap_err();
    let macsec = |control| in_ethernet([0x88, 0xe5], &[control, 0, 0, 0, 0, 1, 8, 0]);
    assert_eq!([macsec(0x0c), macsec(0x08), macsec(0x04), macsec(0x80)], [Skip::NotIp; 4], "encrypted");
    let nsh = |head: [u8; 8]| in_ethernet([0x89, 0x4f], &head);
    assert_eq!(nsh([0x40, 2, 2, 1, 0, 0, 1, 255]), Skip::NotIp, "another version");
    assert_eq!(nsh([0, 1, 2, 1, 0, 0, 1, 255]), Skip::NotIp, "too short for itself");
    assert_eq!(nsh([0, 2, 2, 9, 0, 0, 1, 255]), Skip::NotIp, "of an unknown protocol");
    let authenticated = |next| seen(101, &ipv4(51, &[&[next, 4, 0, 0][..], &[7; 20], &v4()].concat()));
    assert_eq!(authenticated(50).unwrap_err(), Skip::NotTcp, "encrypted");
    // PPI and PKTAP in themselves, longer than the frame, and shorter than their own header.
    let ppi =
        |len: u8, link: u8| seen(192, &[&[0, 0, len, 0, link, 0, 0, 0][..], &v4()].concat()).unwrap_err();
    assert_eq!([ppi(8, 192), ppi(255, 101), ppi(4, 101), ppi(8, 147)], [Skip::NotIp; 4]);
    assert_eq!(seen(101, &v4()[..30]).unwrap_err(), Skip::Cut);
}

proptest! {
    #[test]
    fn arbitrary_frames_never_panic(
        link in prop::sample::select(vec![
            0_u16, 1, 6, 9, 10, 51, 100, 101, 104, 105, 108, 113, 127, 138, 192, 239, 242, 258, 276,
        ]),
        kind in prop::sample::select(vec![0_usize, 12, 14, 34]),
        body in prop::collection::vec(any::<u8>(), 0..200),
        wire: u32,
    ) {
        let heads = ethernet(&ipv4(47, &[]));
        let frame = [&heads[..kind], &body].concat();
        if let Ok(segment) = decode(LinkType(link), &frame, wire) {
            prop_assert!(segment.tcp.payload_len <= segment.ip.total_len);
        }
    }

    #[test]
    fn arbitrary_fragments_never_panic(
        pieces in prop::collection::vec((any::<bool>(), 0_u8..3, 0_u16..40, any::<bool>(), 0_usize..300), 1..60),
    ) {
        let mut reassembly = Reassembly::default();
        for (is_v6, id, start, more, len) in pieces {
            let body = vec![0x50; len];
            let field = (start << 3) | u16::from(more);
            let frame = if is_v6 {
                ipv6(44, &behind(&[6, 0, (field >> 8) as u8, field as u8, 0, 0, 0, id], &body))
            } else {
                let mut frame = ipv4(6, &body);
                frame[5] = id;
                frame[6..8].copy_from_slice(&(start | (u16::from(more) << 13)).to_be_bytes());
                frame
            };
            let wire = frame.len() as u32;
            if let Ok(segment) = reassembly.decode(0, LinkType::RAW, &frame, wire, Instant::ZERO) {
                prop_assert!(segment.tcp.payload_len < segment.ip.total_len);
            }
        }
    }
}

#[test]
fn the_innermost_datagram_is_found_behind_links_and_tunnels() {
    let inner = udp(443, &[0xc0; 30]);
    let found = |link: u16, frame: &[u8]| capture::datagram(LinkType(link), frame, frame.len() as u32);
    let gtp = [0x30, 255, 0, 0, 0, 0, 0, 1];
    let tunnelled = ipv4(17, &udp(2152, &behind(&gtp, &ipv6(17, &inner))));
    for (link, frame, is_tunnelled) in [
        (101, ipv4(17, &inner), false),
        (101, ipv6(17, &inner), false),
        (1, ethernet(&ipv4(17, &inner)), false),
        (1, ethernet(&tunnelled), true),
    ] {
        let datagram = found(link, &frame).unwrap();
        assert_eq!((datagram.udp.src_port, datagram.udp.dst_port), (40_000, 443));
        assert_eq!((datagram.payload(&frame), datagram.udp.payload_len), (&[0xc0; 30][..], 30));
        assert_eq!(datagram.is_tunnelled, is_tunnelled);
        // Cut off, it is as long as it was.
        let cut = &frame[..frame.len() - 29];
        let datagram = capture::datagram(LinkType(link), cut, frame.len() as u32).unwrap();
        assert_eq!((datagram.payload(cut), datagram.udp.payload_len), (&[0xc0][..], 30));
    }
    // On a tunnel's port without the tunnel.
    assert_eq!(found(101, &ipv4(17, &udp(4789, &[0; 60]))).unwrap().udp.dst_port, 4789);
    assert_eq!(found(101, &v4()).unwrap_err(), Skip::NotTcp);
    assert_eq!(found(101, &ipv4(17, &inner)[..27]).unwrap_err(), Skip::Cut);
    let mut fragment = ipv4(17, &inner);
    fragment[6] = 0x20;
    assert_eq!(found(101, &fragment).unwrap_err(), Skip::Fragment);
}
