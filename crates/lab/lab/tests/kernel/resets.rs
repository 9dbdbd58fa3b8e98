//! A reset by one side is a reset for the other, behind what was acknowledged.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use scenario::Family;
use socket2::SockRef;
use units::{Rate, SeqNum};
use wire::TcpFlags;

use crate::kernel::capture::{Capture, Captured, Side};
use crate::kernel::content::{Content, Reading};
use crate::kernel::testbed::{FAMILIES, Radio, Testbed};

/// Closes with a reset.
fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(stream);
}

/// What arrives up to an error, and the error's kind; a clean end has none.
fn read_to_error(stream: &mut TcpStream) -> (Reading, Option<ErrorKind>) {
    let mut reading = Reading::default();
    let mut chunk = vec![0; 65_536];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return (reading, None),
            Ok(len) => reading.add(&chunk[..len]),
            Err(error) => return (reading, Some(error.kind())),
        }
    }
}

/// Stream bytes that were acknowledged to the server before its reset.
fn acknowledged(captured: &[Captured], family: Family) -> u64 {
    let ours = || captured.iter().filter(|p| p.packet.ip.src.is_ipv6() == (family == Family::Ipv6));
    let on_wan = || ours().filter(|p| p.side == Side::Wired);
    let start = on_wan().find(|p| p.is_syn() && p.is_downward()).unwrap().tcp.seq + 1;
    let upward = on_wan().take_while(|p| !p.is_reset()).filter(|p| !p.is_downward());
    let acks = upward.filter(|p| p.tcp.flags.contains(TcpFlags::ACK)).map(|p| p.tcp.ack);
    u64::from(acks.fold(start, SeqNum::later_of).since(start))
}

#[test]
fn h04_a_servers_reset_in_the_middle_comes_behind_the_debt() {
    for policy in ["honour", "opportunistic"] {
        let radio = Radio::steady(Rate::from_mbps(8));
        let options = ["--window-policy", policy];
        let mut bed = Testbed::accelerated("reset", &radio, &options);
        for family in FAMILIES {
            let capture = Capture::start(&bed);
            let (mut client, mut server) = bed.pair(family);
            let content = Content { seed: 6, len: 1_500_000 };
            let (reading, end) = std::thread::scope(|scope| {
                scope.spawn(move || {
                    content.write_to(&mut server).unwrap();
                    reset(server);
                });
                read_to_error(&mut client)
            });
            let got = reading.print();
            let captured = capture.finish();
            let owed = acknowledged(&captured, family);
            println!(
                "{policy} {family:?}: {owed} bytes acknowledged of {}, {} arrived",
                content.len, got.len
            );
            assert_eq!(end, Some(ErrorKind::ConnectionReset), "never a clean end");
            assert!(got.len >= owed && got.len < content.len, "{} of {owed}", got.len);
            assert_eq!(got, Content { len: got.len, ..content }.print());
            let debt = debt_at_reset(&captured, family);
            assert!((10_000..2_000_000).contains(&debt), "{debt} bytes of debt when the reset came");
        }
        let said = bed.stop();
        assert_eq!((said.accelerated_flows(), said.passed_flows("reset")), (2, 2), "{said:?}");
        said.assert_no_warning();
    }
}

/// Bytes that the client had yet to acknowledge when the server's reset came in.
fn debt_at_reset(captured: &[Captured], family: Family) -> u32 {
    let ours = || captured.iter().filter(|p| p.packet.ip.src.is_ipv6() == (family == Family::Ipv6));
    let came = ours().find(|p| p.side == Side::Wired && p.is_downward() && p.is_reset()).unwrap();
    let mut to_client = ours().filter(|p| p.side == Side::Mobile && p.is_downward());
    let end = to_client.find(|p| p.is_reset()).unwrap().tcp.seq;
    let from_client = ours().filter(|p| p.side == Side::Mobile && !p.is_downward());
    let acked = from_client.take_while(|p| p.at < came.at).last().unwrap().tcp.ack;
    end.since(acked)
}

#[test]
fn a_reset_of_an_idle_connection_arrives_either_way() {
    let mut bed = Testbed::accelerated("resetidle", &Radio::steady(Rate::from_mbps(20)), &[]);
    for family in FAMILIES {
        for by_client in [false, true] {
            let (mut client, mut server) = bed.pair(family);
            server.write_all(b"word").unwrap();
            client.read_exact(&mut [0; 4]).unwrap();
            let (own, mut other) = if by_client { (client, server) } else { (server, client) };
            reset(own);
            let error = other.read(&mut [0; 4]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    }
    let said = bed.stop();
    assert_eq!((said.accelerated_flows(), said.passed_flows("reset")), (4, 4), "{said:?}");
    said.assert_no_warning();
}

#[test]
fn a_clients_reset_in_the_middle_reaches_the_server() {
    let radio = Radio::steady(Rate::from_mbps(8));
    let mut bed = Testbed::accelerated("resetmid", &radio, &[]);
    for family in FAMILIES {
        let (mut client, mut server) = bed.pair(family);
        let end = std::thread::scope(|scope| {
            let content = Content { seed: 8, len: 50_000_000 };
            let sender = scope.spawn(move || content.write_to(&mut server).unwrap_err().kind());
            client.read_exact(&mut vec![0; 500_000]).unwrap();
            reset(client);
            sender.join().unwrap()
        });
        assert!([ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&end), "{end}");
    }
    let said = bed.stop();
    assert_eq!((said.accelerated_flows(), said.passed_flows("reset")), (2, 2), "{said:?}");
}
