//! One small TCP packet behind each link header and tunnel that is read.

use crate::made::{ethernet, packet};

fn ipv4(protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let len = (20 + body.len()) as u16;
    header[2..4].copy_from_slice(&len.to_be_bytes());
    [&header[..], body].concat()
}

fn ipv6(next: u8, body: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    header[4..6].copy_from_slice(&(body.len() as u16).to_be_bytes());
    header.extend([0xfd; 32]);
    [&header[..], body].concat()
}

fn over_udp(port: u16, head: &[u8], body: &[u8]) -> Vec<u8> {
    let len = (8 + head.len() + body.len()) as u16;
    let udp = [&40_000_u16.to_be_bytes()[..], &port.to_be_bytes(), &len.to_be_bytes(), &[0, 0], head, body];
    ethernet(&ipv4(17, &udp.concat()))
}

/// Name, link type and frame.
pub fn frames() -> Vec<(&'static str, u16, Vec<u8>)> {
    let (v4, v6) = (packet(false, 1, 4), packet(true, 1, 4));
    let frame = ethernet(&v4);
    let behind = |head: &[u8], body: &[u8]| [head, body].concat();
    let tagged = |tag: &[u8], body: &[u8]| [&[2; 12], tag, body].concat();
    let gre = |head: &[u8], body: &[u8]| ethernet(&ipv4(47, &behind(head, body)));
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let wifi = [&[0x88, 1][..], &[0; 24], &snap].concat();
    let mut nflog = vec![2, 0, 0, 0, 8, 0, 1, 0, 1, 2, 3, 4, 0, 0, 9, 0];
    nflog[12..14].copy_from_slice(&(4 + v4.len() as u16).to_le_bytes());
    vec![
        ("ethernet-v6", 1, ethernet(&v6)),
        ("vlan", 1, tagged(&[0x81, 0, 0, 5, 8, 0], &v4)),
        (
            "qinq-pppoe",
            1,
            tagged(&[0x81, 0, 0, 5, 0x81, 0, 0, 6, 0x88, 0x64, 0x11, 0, 0, 1, 0, 46, 0, 0x21], &v4),
        ),
        ("snap", 1, tagged(&[&52_u16.to_be_bytes()[..], &snap].concat(), &v4)),
        ("mac-in-mac", 1, tagged(&[0x88, 0xe7, 0, 0, 0, 9], &frame)),
        ("mpls", 1, tagged(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64], &v4)),
        ("pseudowire", 1, tagged(&[0x88, 0x47, 0, 2, 1, 64, 0, 0, 0, 0], &frame)),
        ("loopback", 0, behind(&[2, 0, 0, 0], &v4)),
        ("raw", 101, v4.clone()),
        ("ppp", 9, behind(&[0xff, 3, 0, 0x21], &v4)),
        ("hdlc", 104, behind(&[0x0f, 0, 8, 0], &v4)),
        ("fddi", 10, [&[0x50][..], &[2; 12], &snap, &v4].concat()),
        ("sll", 113, behind(&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0, 8, 0], &v4)),
        ("sll2", 276, behind(&[&[8, 0, 0, 0][..], &[0; 16]].concat(), &v4)),
        ("nflog", 239, behind(&nflog, &v4)),
        ("wifi", 105, behind(&wifi, &v4)),
        ("radiotap", 127, [&[0, 0, 8, 0, 0, 0, 0, 0][..], &wifi, &v4].concat()),
        ("ip-in-ip", 1, ethernet(&ipv4(4, &v4))),
        ("6in4", 1, ethernet(&ipv4(41, &v6))),
        ("4in6", 1, ethernet(&ipv6(4, &v4))),
        ("fragment", 1, ethernet(&ipv6(44, &behind(&[6, 0, 0, 0, 0, 0, 0, 1], &v6[40..])))),
        ("jumbo", 101, [&ipv6(0, &[])[..], &[6, 0, 0xc2, 4, 0, 1, 0x11, 0x70], &v6[40..]].concat()),
        ("gre", 1, gre(&[&[0xb0, 0, 0x86, 0xdd][..], &[0; 12]].concat(), &v6)),
        ("gre-ethernet", 1, gre(&[0, 0, 0x65, 0x58], &frame)),
        ("pptp", 1, gre(&[0x30, 1, 0x88, 0x0b, 0, 46, 0, 0, 0, 0, 0, 1, 0, 0x21], &v4)),
        ("erspan-1", 1, gre(&[0, 0, 0x88, 0xbe], &frame)),
        ("erspan-2", 1, gre(&[&[0x10, 0, 0x88, 0xbe][..], &[0; 12]].concat(), &frame)),
        ("erspan-3", 1, gre(&[&[0x10, 0, 0x22, 0xeb][..], &[0; 16]].concat(), &frame)),
        ("vxlan", 1, over_udp(4789, &[8, 0, 0, 0, 0, 0, 1, 0], &frame)),
        ("vxlan-gpe", 1, over_udp(4790, &[0x0c, 0, 0, 1, 0, 0, 1, 0], &v4)),
        ("geneve", 1, over_udp(6081, &[1, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 2, 3, 4], &frame)),
        ("gtp-u", 1, over_udp(2152, &[0x34, 255, 0, 72, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0], &v6)),
        ("mpls-in-udp", 1, over_udp(6635, &[0, 2, 1, 64], &v4)),
        ("l2tp", 1, over_udp(1701, &[0x40, 2, 0, 52, 0, 1, 0, 2, 0xff, 3, 0, 0x21], &v4)),
        ("l2tp-offset", 1, over_udp(1701, &[2, 2, 0, 1, 0, 2, 0, 2, 9, 9, 0, 0x21], &v4)),
        ("lisp", 1, over_udp(4341, &[0x80, 0, 0, 1, 0, 0, 0, 1], &v4)),
        ("ah-tunnel", 1, ethernet(&ipv4(51, &behind(&[&[4, 4, 0, 0][..], &[7; 20]].concat(), &v4)))),
        ("ah", 1, ethernet(&ipv4(51, &behind(&[&[6, 4, 0, 0][..], &[7; 20]].concat(), &v4[20..])))),
        ("nsh", 1, tagged(&[0x89, 0x4f], &[&[0, 6, 1, 3, 0, 0, 1, 255][..], &[0; 16], &frame].concat())),
        ("macsec", 1, tagged(&[0x88, 0xe5, 0x20, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 0, 1, 8, 0], &v4)),
        ("macsec-short", 1, tagged(&[0x88, 0xe5, 0, 0, 0, 0, 0, 1, 8, 0], &v4)),
        ("ppi", 192, behind(&[0, 0, 8, 0, 1, 0, 0, 0], &frame)),
        ("pktap", 258, behind(&[&[108, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0][..], &[0; 96]].concat(), &frame)),
    ]
}
