//! Who is seen, who refuses, and who is silent: as without an accelerator.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use io::Clock;
use lab::{Role, server_address};
use socket2::SockAddr;
use units::{Duration, Rate};

use crate::kernel::capture::{Capture, Side};
use crate::kernel::testbed::{FAMILIES, Radio, Testbed, unassigned};

fn radio() -> Radio {
    Radio::steady(Rate::from_mbps(20))
}

#[test]
fn the_server_sees_the_clients_own_address_and_port() {
    let mut bed = Testbed::accelerated("own", &radio(), &[]);
    for family in FAMILIES {
        // The comparison is in `pair`; the word shows that the connection is one.
        let (mut client, mut server) = bed.pair(family);
        client.write_all(b"word").unwrap();
        let mut word = [0; 4];
        server.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"word");
        assert_eq!(server.local_addr().unwrap(), client.peer_addr().unwrap());
    }
    assert_eq!(bed.stop().accelerated_flows(), 2);
}

#[test]
fn a_refused_connection_is_refused() {
    let mut bed = Testbed::accelerated("refused", &radio(), &[]);
    for family in FAMILIES {
        let to = SocketAddr::new(server_address(family), 9);
        let before = Clock::now();
        let refused = bed.host(Role::Client).run(|| TcpStream::connect(to)).unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        // A second attempt of the kernel would come after a second.
        assert!(Clock::now().saturating_since(before) < Duration::from_secs(1));
    }
    assert_eq!(bed.stop().accelerated_flows(), 0);
}

/// SYNs that reach the server's side until the client's kernel gives up.
fn syns_into_a_black_hole(bed: &Testbed) -> usize {
    let capture = Capture::start(bed);
    std::thread::scope(|scope| {
        for family in FAMILIES {
            scope.spawn(move || {
                let to = SocketAddr::new(unassigned(family), 9);
                let error = bed.socket(Role::Client, &to, None).connect(&SockAddr::from(to)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut);
            });
        }
    });
    capture.finish().iter().filter(|p| p.is_syn() && p.is_outgoing && p.side == Side::Wired).count()
}

#[test]
fn a_black_hole_times_out_as_without_an_accelerator() {
    let mut bed = Testbed::build("hole", &radio());
    bed.set(Role::Client, "net/ipv4/tcp_syn_retries", "1");
    // Linux 6.5 and later send some more first.
    let linear = "net/ipv4/tcp_syn_linear_timeouts";
    let _ = io::sysctl::write(bed.host(Role::Client), linear, "0");
    let direct = syns_into_a_black_hole(&bed);
    bed.accelerate(&[]);
    assert_eq!(syns_into_a_black_hole(&bed), direct);
    assert_eq!(direct, 4, "two per family");
    assert_eq!(bed.stop().accelerated_flows(), 0);
}
