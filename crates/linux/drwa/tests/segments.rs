//! What the BPF programs make of single segments. As root.

use crate::frames::{Host, OFFER_MSS};
use control::receiver::ReceiverParams;
use drwa::layout::{Connection, Counters, Peer, Shared, flag};
use drwa::{DrwaPrograms, Selection, Setup};
use io::bpf::TcDirection;
use units::Bytes;
use wire::TcpFlags;

use crate::frames;

const REMOTE_ISN: u32 = 9_000;
/// What the kernel offers; 8 MB where windows are scaled.
const OWN: u16 = 65_535;
/// What a managed connection is told of it before its first round has ended, of 128 bytes.
const TOLD: u16 = 512;
/// The window scale of a SYN here.
const SCALE: [u8; 3] = [3, 3, 7];
/// An option of MPTCP: MP_CAPABLE as a SYN has it.
const MULTIPATH: [u8; 4] = [30, 4, 1, 0];

fn load(params: ReceiverParams, selections: &[&str]) -> DrwaPrograms {
    let selections = selections.iter().map(|text| text.parse::<Selection>().unwrap()).collect();
    let program = DrwaPrograms::load(&Setup { params, link_header_len: 14, selections, is_test: true });
    let program = program.expect("as root, on Linux 5.12 or later");
    program.set_time(7_000_000).unwrap();
    program
}

fn plain() -> DrwaPrograms {
    load(ReceiverParams::default(), &[])
}

fn as_it_is(frame: Vec<u8>) -> Vec<u8> {
    frame
}

/// Both SYNs, changed, and the window of the first acknowledgement.
fn shake(
    program: &DrwaPrograms,
    host: &Host,
    ours: impl Fn(Vec<u8>) -> Vec<u8>,
    theirs: impl Fn(Vec<u8>) -> Vec<u8>,
) -> u16 {
    program.test(TcDirection::Out, &ours(host.syn(77, None))).unwrap();
    program.test(TcDirection::In, &theirs(host.syn_ack(REMOTE_ISN, 77, None))).unwrap();
    told(program, host, 0, OWN)
}

/// The window that is told with an acknowledgement of so many bytes.
fn told(program: &DrwaPrograms, host: &Host, bytes: u32, own: u16) -> u16 {
    let ack = host.ack(78, REMOTE_ISN + 1 + bytes, own, 0, None);
    frames::parse(&program.test(TcDirection::Out, &ack).unwrap()).window
}

fn counters(program: &DrwaPrograms) -> Counters {
    program.view().unwrap().counters().unwrap()
}

fn connection(program: &DrwaPrograms, host: &Host) -> Option<Connection> {
    program.view().unwrap().connections().get(&host.ends()).copied()
}

/// The header that Rust has is the one that the compiler laid out.
#[test]
fn sizes_are_the_compilers() {
    let ours = [Connection::LEN, Shared::LEN, Peer::LEN, Counters::LEN].map(|len| len as u32);
    assert_eq!(plain().value_lens().unwrap(), ours);
}

#[test]
fn a_connection_whose_syn_was_not_seen_is_left_alone() {
    let program = plain();
    for is_ipv6 in [false, true] {
        let host = Host::new(1, 1, is_ipv6);
        assert_eq!(told(&program, &host, 0, OWN), OWN);
        // Also when only the other host's SYN was seen.
        let host = Host::new(2, 1, is_ipv6);
        program.test(TcDirection::In, &host.syn_ack(REMOTE_ISN, 77, None)).unwrap();
        assert_eq!((told(&program, &host, 0, OWN), told(&program, &host, 9, OWN)), (OWN, OWN));
        assert_eq!(connection(&program, &host).unwrap().flags & flag::LATE, flag::LATE);
        assert_eq!(shake(&program, &Host::new(3, 1, is_ipv6), as_it_is, as_it_is), TOLD);
    }
    assert_eq!((counters(&program).late, counters(&program).connections), (4, 2));
    // A reset opens nothing.
    let host = Host::new(4, 1, false);
    program.test(TcDirection::Out, &host.ending(true, TcpFlags::RST, 1, 1, 0)).unwrap();
    assert_eq!((connection(&program, &host), counters(&program).late), (None, 4));
}

#[test]
fn multipath_is_left_alone_where_both_offer_it() {
    let program = plain();
    let offers = |frame: Vec<u8>| frames::with_option(&frame, &MULTIPATH);
    assert_eq!(shake(&program, &Host::new(1, 1, false), offers, offers), OWN);
    assert_eq!(shake(&program, &Host::new(2, 1, false), offers, as_it_is), TOLD);
    assert_eq!(shake(&program, &Host::new(3, 1, false), as_it_is, offers), TOLD);
    assert_eq!((counters(&program).mptcp, counters(&program).connections), (1, 2));
}

#[test]
fn what_is_not_chosen_is_left_alone() {
    // Host 0 of server n is 192.0.2.(n + 1), port 443.
    for (selection, is_ipv6, servers) in [
        ("192.0.2.2", false, [false, true, false]),
        ("192.0.2.2/31", false, [false, true, true]),
        ("192.0.2.0/24", true, [false, false, false]),
        ("[2001:db8:2::2]:400-443", true, [false, true, false]),
        (":443", true, [true, true, true]),
        (":442", false, [false, false, false]),
        (":444-500", false, [false, false, false]),
    ] {
        let program = load(ReceiverParams::default(), &["198.51.100.0/24", selection]);
        for (server, is_chosen) in (0..).zip(servers) {
            let window = shake(&program, &Host::new(server, server, is_ipv6), as_it_is, as_it_is);
            assert_eq!(window == TOLD, is_chosen, "{selection}, server {server}");
            assert!(window == TOLD || window == OWN);
        }
        let left = servers.iter().filter(|is_chosen| !**is_chosen).count() as u64;
        assert_eq!((counters(&program).unselected, counters(&program).connections), (left, 3 - left));
    }
}

/// Where one side offers no scale, windows are bytes (RFC 7323 §1.3).
#[test]
fn the_scale_is_what_both_offer() {
    let program =
        load(ReceiverParams { initial_window: Bytes::new(3_000), ..ReceiverParams::default() }, &[]);
    let unscaled = |frame: Vec<u8>| frames::with_other(&frame, SCALE, [1; 3]);
    for (n, is_scaled) in [(1, true), (2, false), (3, false)] {
        let host = Host::new(n, 1, false);
        match n {
            1 => shake(&program, &host, as_it_is, as_it_is),
            2 => shake(&program, &host, as_it_is, unscaled),
            _ => shake(&program, &host, unscaled, as_it_is),
        };
        // Of the SYN's window 240 bytes are left.
        assert_eq!(told(&program, &host, 64_000, OWN), if is_scaled { 24 } else { 3_000 }, "{n}");
    }
}

#[test]
fn what_a_syn_does_not_say_or_may_not_say_has_a_default() {
    let program = plain();
    let host = Host::new(1, 1, false);
    // RFC 7323 §2.3: a scale above 14 is 14.
    shake(&program, &host, |frame| frames::with_other(&frame, SCALE, [3, 3, 15]), as_it_is);
    assert_eq!(connection(&program, &host).unwrap().local_scale, 14);
    // RFC 9293 §3.7.1: without an MSS it is 536.
    let host = Host::new(2, 1, false);
    let [high, low] = OFFER_MSS.to_be_bytes();
    shake(&program, &host, |frame| frames::with_other(&frame, [2, 4, high, low], [1; 4]), as_it_is);
    assert_eq!(connection(&program, &host).unwrap().mss, 536);
}

#[test]
fn the_window_is_never_larger_than_the_kernels_and_zero_stays() {
    let program = plain();
    let host = Host::new(1, 1, false);
    shake(&program, &host, as_it_is, as_it_is);
    assert_eq!([0, 1, 511, 512, 513].map(|own| told(&program, &host, 0, own)), [0, 1, 511, 512, 512]);
    // What was allowed stays allowed: the edge is 65,536 bytes beyond the first.
    assert_eq!(told(&program, &host, 65_536 - 128, OWN), TOLD);
    let connection = connection(&program, &host).unwrap();
    assert_eq!(connection.edge, REMOTE_ISN + 1 + 65_536 - 128 + 65_536);
    assert_eq!(connection.mss, u32::from(OFFER_MSS));
}

#[test]
fn another_syn_of_the_same_ports_is_another_connection() {
    let program = plain();
    let host = Host::new(1, 1, false);
    shake(&program, &host, as_it_is, as_it_is);
    told(&program, &host, 5_000, OWN);
    assert_eq!(connection(&program, &host).unwrap().delivered, 5_000);
    program.test(TcDirection::Out, &host.syn(78, None)).unwrap();
    let anew = connection(&program, &host).unwrap();
    assert_eq!((anew.delivered, anew.syns, anew.flags & flag::SHAKEN), (0, 1, 0));
    // The same again is a repetition.
    program.test(TcDirection::Out, &host.syn(78, None)).unwrap();
    assert_eq!(connection(&program, &host).unwrap().syns, 2);
}

#[test]
fn what_is_no_whole_segment_is_not_looked_at() {
    let program = plain();
    for is_ipv6 in [false, true] {
        let host = Host::new(1, 1, is_ipv6);
        shake(&program, &host, as_it_is, as_it_is);
        let bytes = || counters(&program).bytes_in;
        let before = bytes();
        let came = |frame: &[u8]| assert_eq!(program.test(TcDirection::In, frame).unwrap(), frame);
        let whole = host.data(REMOTE_ISN + 1, 78, 100, None);
        came(&whole);
        assert_eq!(bytes() - before, 100);
        // An empty segment that Ethernet pads to 60 bytes has no payload.
        let mut padded = host.data(REMOTE_ISN + 1, 78, 0, None);
        padded.resize(padded.len().max(60) + 6, 0);
        came(&padded);
        let mut other = whole.clone();
        // Another protocol in the IPv4 header, or an extension header of IPv6.
        other[if is_ipv6 { 14 + 6 } else { 14 + 9 }] = if is_ipv6 { 0 } else { 17 };
        came(&other);
        // A super-packet says that it has no length: what is there counts.
        let mut large = whole.clone();
        let length = 14 + if is_ipv6 { 4 } else { 2 };
        large[length..length + 2].fill(0);
        came(&large);
        assert_eq!(bytes() - before, 200);
        if !is_ipv6 {
            // More fragments, and fragments at 8 bytes and at 2048.
            for (at, value) in [(6, 0x20), (7, 1), (6, 1)] {
                let mut fragment = whole.clone();
                fragment[14 + at] = value;
                came(&fragment);
            }
        }
        // A header that says it is longer than the packet, or shorter than a header is.
        for len in [0xf0, 0x40] {
            let mut broken = host.data(REMOTE_ISN + 1, 78, 0, None);
            broken[14 + if is_ipv6 { 40 } else { 20 } + 12] = len;
            came(&broken);
        }
        assert_eq!(bytes() - before, 200);
    }
}

#[test]
fn how_a_connection_ends_is_noted() {
    let program = plain();
    for (n, is_out, flags, ended) in [
        (1, false, TcpFlags::FIN.with(TcpFlags::ACK), [1, 0]),
        (2, false, TcpFlags::RST, [2, 0]),
        (3, true, TcpFlags::FIN.with(TcpFlags::ACK), [0, 1]),
        (4, true, TcpFlags::RST.with(TcpFlags::ACK), [0, 2]),
    ] {
        let host = Host::new(n, 1, false);
        shake(&program, &host, as_it_is, as_it_is);
        let (seq, ack) = if is_out { (78, REMOTE_ISN + 1) } else { (REMOTE_ISN + 1, 78) };
        let frame = host.ending(is_out, flags, seq, ack, OWN);
        let direction = if is_out { TcDirection::Out } else { TcDirection::In };
        let left = program.test(direction, &frame).unwrap();
        // Of segments that go out, a reset's window says nothing.
        assert_eq!(frames::parse(&left).window, if n == 3 { TOLD } else { OWN }, "{n}");
        let connection = connection(&program, &host).unwrap();
        assert_eq!([connection.in_ended, connection.out_ended], ended, "{n}");
    }
}

/// Options that cannot be read end the reading; those before them count.
#[test]
fn options_are_read_up_to_what_is_wrong() {
    for option in [[30, 0, 0, 0], [30, 1, 0, 0], [0, 0, 0, 0], [77, 40, 0, 0]] {
        let program = plain();
        let host = Host::new(1, 1, false);
        let with = |frame: Vec<u8>| frames::with_option(&frame, &option);
        assert_eq!(shake(&program, &host, with, with), TOLD, "{option:?}");
        assert_eq!(connection(&program, &host).unwrap().local_scale, 7);
    }
}
