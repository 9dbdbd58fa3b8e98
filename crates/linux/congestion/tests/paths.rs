//! Destinations that the program in the kernel keeps apart, and forgets. As root.

use std::net::{TcpListener, TcpStream};

use congestion::Chooser;
use io::{Clock, Waiter};
use units::Duration;

use crate::arithmetic::load;

/// Most servers have one socket for both families: an IPv4 client is `::ffff:…` there.
#[test]
fn an_ipv4_client_at_an_ipv6_socket_is_a_destination_of_its_own() {
    let Some(mut program) = load() else { return };
    program.register().unwrap();
    let listener = TcpListener::bind("[::]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let has_mptcp = io::bpf::congestion_controls(None).unwrap().has_mptcp;
    let chooser = Chooser::start(program.name(), Some(port), None, has_mptcp).unwrap();
    let mut ends = Vec::new();
    for (host, paths) in [("127.0.0.1", 1), ("::1", 2), ("127.0.0.1", 2)] {
        ends.push(TcpStream::connect((host, port)).unwrap());
        ends.push(listener.accept().unwrap().0);
        assert_eq!(program.paths().unwrap(), paths, "after a connection from {host}");
    }
    program.sweep(Clock::now()).unwrap();
    assert_eq!(program.paths().unwrap(), 2, "connections use them");
    drop(ends);
    let mut waiter = Waiter::new(Duration::ZERO).unwrap();
    let until = Clock::now() + Duration::from_secs(60);
    while program.paths().unwrap() > 0 {
        assert!(Clock::now() < until, "they are not forgotten");
        waiter.wait(Some(Clock::now() + Duration::from_millis(50))).unwrap();
        program.sweep(Clock::now()).unwrap();
    }
    drop(chooser);
}
