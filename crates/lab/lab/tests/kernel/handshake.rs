//! SYN and SYN-ACK are the same on both sides, but for one router's hop, and strange connections work.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use lab::{Role, server_address};
use socket2::{Protocol, SockAddr, Socket};
use units::Rate;
use wire::{IpVersion, TcpFlags};

use crate::kernel::capture::{Capture, Captured};
use crate::kernel::content::{Content, read_to_end};
use crate::kernel::raw_peer::{RawPeer, STRANGE_OPTIONS};
use crate::kernel::testbed::{FAMILIES, PATIENCE, Radio, Testbed, patient};

const MPTCP: i32 = 262;
/// `MSG_FASTOPEN`: connect with the data.
const FAST_OPEN: i32 = 0x2000_0000;
/// `net.ipv4.tcp_fastopen`: clients may, servers may, and all listeners do.
const FAST_OPEN_EVERYWHERE: &str = "1027";

fn testbed(what: &str) -> Testbed {
    Testbed::accelerated(what, &Radio::steady(Rate::from_mbps(50)), &[])
}

/// As another router would send it on, without the IPv4 header's checksum.
pub fn after_one_hop(packet: &Captured) -> Vec<u8> {
    let mut bytes = packet.bytes.clone();
    let at = if packet.packet.ip.version == IpVersion::V4 { 8 } else { 7 };
    bytes[at] -= 1;
    without_ip_checksum(&bytes)
}

pub fn without_ip_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes[0] >> 4 == 4 {
        bytes[10..12].fill(0);
    }
    bytes
}

/// Every SYN and SYN-ACK that came in went out of the other side, one hop later, and nothing else did.
/// Gives those that came in: from the client, from the server.
fn assert_handshakes_are_transparent(captured: &[Captured]) -> [Vec<Captured>; 2] {
    [false, true].map(|downward| {
        let way = |outgoing: bool| {
            let wanted =
                move |p: &&Captured| p.is_syn() && p.is_downward() == downward && p.is_outgoing == outgoing;
            captured.iter().filter(wanted).cloned().collect::<Vec<_>>()
        };
        let (came, went) = (way(false), way(true));
        assert!(!came.is_empty());
        let expected: Vec<_> = came.iter().map(after_one_hop).collect();
        let actual: Vec<_> = went.iter().map(|packet| without_ip_checksum(&packet.bytes)).collect();
        assert_eq!(actual, expected);
        for packet in &went {
            let is_v4 = packet.packet.ip.version == IpVersion::V4;
            assert!(!is_v4 || wire::ipv4_checksum_is_valid(&packet.bytes));
            assert!(wire::tcp_checksum_is_valid(&packet.bytes, &packet.packet));
        }
        came
    })
}

/// A word there, content back, both ends closed.
fn use_connection(mut client: TcpStream, mut server: TcpStream) {
    let content = Content { seed: 3, len: 300_000 };
    client.write_all(b"the word").unwrap();
    let mut word = [0; 8];
    server.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"the word");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            content.write_to(&mut server).unwrap();
            server.shutdown(Shutdown::Write).unwrap();
        });
        assert_eq!(read_to_end(&mut client).unwrap(), content.print());
    });
}

#[test]
fn ordinary_handshakes_pass_unchanged() {
    let mut bed = testbed("syn");
    let capture = Capture::start(&bed);
    // With ECN asked for or not, and with few options.
    for (setting, value) in [("tcp_ecn", "0"), ("tcp_ecn", "1"), ("tcp_timestamps", "0"), ("tcp_sack", "0")] {
        bed.set(Role::Client, &format!("net/ipv4/{setting}"), value);
        for family in FAMILIES {
            let (client, server) = bed.pair(family);
            use_connection(client, server);
        }
    }
    let said = bed.stop();
    let [syns, replies] = assert_handshakes_are_transparent(&capture.finish());
    assert!(syns.len() >= 8 && replies.len() >= 8);
    assert!(syns.iter().any(|syn| syn.tcp.flags.contains(TcpFlags::ECE | TcpFlags::CWR)));
    assert_eq!(said.accelerated_flows(), 8);
    said.assert_no_warning();
}

#[test]
fn h06_unknown_options_of_a_client_pass_unchanged() {
    let mut bed = testbed("optclient");
    let capture = Capture::start(&bed);
    let content = Content { seed: 4, len: 30_000 };
    for family in FAMILIES {
        let listener = bed.listen(family);
        let mut peer = RawPeer::new(&bed, Role::Client, family, Some(listener.local_addr().unwrap()));
        peer.send(TcpFlags::SYN, &STRANGE_OPTIONS, &[]);
        let (reply, _) = peer.receive();
        assert!(reply.flags.contains(TcpFlags::SYN | TcpFlags::ACK));
        peer.send(TcpFlags::ACK, &[], &[]);
        let (server, from) = listener.accept().unwrap();
        assert_eq!(from, peer.own);
        let mut server = patient(server);
        peer.send(TcpFlags::ACK | TcpFlags::PSH, &[], b"the word");
        let mut word = [0; 8];
        server.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"the word");
        content.write_to(&mut server).unwrap();
        server.shutdown(Shutdown::Write).unwrap();
        let got = peer.receive_to_end();
        assert_eq!(read_to_end(&mut &got[..]).unwrap(), content.print());
        peer.send(TcpFlags::ACK | TcpFlags::FIN, &[], &[]);
        assert_eq!(server.read(&mut word).unwrap(), 0);
    }
    let said = bed.stop();
    let [syns, _] = assert_handshakes_are_transparent(&capture.finish());
    assert!(syns.iter().all(|syn| syn.bytes.ends_with(&STRANGE_OPTIONS)));
    assert_eq!(said.accelerated_flows(), 2);
}

#[test]
fn unknown_options_of_a_server_pass_unchanged() {
    let mut bed = testbed("optserver");
    let capture = Capture::start(&bed);
    for family in FAMILIES {
        let mut peer = RawPeer::new(&bed, Role::Server, family, None);
        let to = peer.own;
        std::thread::scope(|scope| {
            let bed = &bed;
            let client = scope.spawn(move || {
                let mut client = bed.connect(to);
                client.write_all(b"the word").unwrap();
                client.shutdown(Shutdown::Write).unwrap();
                let mut answer = Vec::new();
                client.read_to_end(&mut answer).unwrap();
                answer
            });
            peer.receive();
            peer.send(TcpFlags::SYN | TcpFlags::ACK, &STRANGE_OPTIONS, &[]);
            assert_eq!(peer.receive_to_end(), b"the word");
            peer.send(TcpFlags::ACK | TcpFlags::PSH, &[], b"an answer");
            peer.send(TcpFlags::ACK | TcpFlags::FIN, &[], &[]);
            assert_eq!(client.join().unwrap(), b"an answer");
        });
    }
    let said = bed.stop();
    let [_, replies] = assert_handshakes_are_transparent(&capture.finish());
    assert!(replies.iter().all(|reply| reply.bytes.ends_with(&STRANGE_OPTIONS)));
    assert_eq!(said.accelerated_flows(), 2);
}

#[test]
fn h09_multipath_tcp_works_and_passes_unchanged() {
    let mut bed = testbed("mptcp");
    let protocol = Some(Protocol::from(MPTCP));
    let is_able = std::path::Path::new("/proc/sys/net/mptcp/enabled").exists();
    if !is_able {
        println!("skipped: this kernel has no Multipath TCP");
        return;
    }
    let capture = Capture::start(&bed);
    for family in FAMILIES {
        let address = SocketAddr::new(server_address(family), 0);
        let listener = bed.socket(Role::Server, &address, protocol);
        listener.bind(&SockAddr::from(address)).unwrap();
        listener.listen(8).unwrap();
        let listener = TcpListener::from(listener);
        let to = listener.local_addr().unwrap();
        let client = bed.socket(Role::Client, &to, protocol);
        client.connect_timeout(&SockAddr::from(to), PATIENCE).unwrap();
        let (server, _) = listener.accept().unwrap();
        use_connection(patient(client.into()), patient(server));
    }
    let said = bed.stop();
    let handshakes = assert_handshakes_are_transparent(&capture.finish());
    assert!(handshakes.iter().flatten().all(|syn| syn.tcp.options.mptcp));
    assert_eq!((said.accelerated_flows(), said.passed_flows("mptcp")), (0, 2), "{said:?}");
}

/// Connects by Fast Open with a word, and uses the connection.
fn fast_open(bed: &Testbed, listener: &TcpListener) {
    let to = listener.local_addr().unwrap();
    let client: Socket = bed.socket(Role::Client, &to, None);
    let sent = client.send_to_with_flags(b"in haste", &SockAddr::from(to), FAST_OPEN).unwrap();
    assert_eq!(sent, 8);
    let (server, _) = listener.accept().unwrap();
    let (client, mut server) = (patient(client.into()), patient(server));
    let mut word = [0; 8];
    server.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"in haste");
    use_connection(client, server);
}

#[test]
fn fast_open_works_and_passes_unchanged() {
    let mut bed = testbed("tfo");
    for host in [Role::Client, Role::Server] {
        bed.set(host, "net/ipv4/tcp_fastopen", FAST_OPEN_EVERYWHERE);
    }
    let capture = Capture::start(&bed);
    for family in FAMILIES {
        let listener = bed.listen(family);
        // The first asks for a cookie, the second uses it.
        fast_open(&bed, &listener);
        fast_open(&bed, &listener);
    }
    let said = bed.stop();
    let [syns, replies] = assert_handshakes_are_transparent(&capture.finish());
    let with_option = |packets: &[Captured]| packets.iter().filter(|p| p.tcp.options.fast_open).count();
    assert_eq!((with_option(&syns), with_option(&replies)), (4, 2), "request or cookie; cookie granted");
    assert_eq!(syns.iter().filter(|syn| syn.tcp.payload_len == 8).count(), 2, "data with the cookie");
    assert_eq!((said.accelerated_flows(), said.passed_flows("syn-data")), (2, 2), "{said:?}");
}
