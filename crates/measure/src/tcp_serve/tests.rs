//! What strangers may do to the server's TCP ports.

use std::io::Read;

use io::Clock;
use units::{Bytes, Rate};

use super::*;

const PATIENCE: Duration = Duration::from_millis(600);

fn server(patience: Duration) -> (TcpServer, SocketAddr) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let limits = Limits {
        rate_max: Rate::from_mbps(10),
        time_max: Duration::from_secs(5),
        volume_max: Bytes::new(1_000_000),
    };
    (TcpServer::start(free, &[], None, limits, patience).unwrap(), free)
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    wait_at_most(&stream, Duration::from_secs(10)).unwrap();
    stream
}

#[test]
fn who_sends_a_byte_now_and_then_is_not_waited_for() {
    let (server, at) = server(PATIENCE);
    // The begin of an order, and of one within HTTP.
    for begin in [&[0xce, 0x13, 1, 1][..], b"GET /cellerator/"] {
        let mut slow = connect(at);
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(&slow, Interest::Read, 0).unwrap();
        let from = Clock::now();
        slow.write_all(begin).unwrap();
        // Each byte comes within the time of a single read.
        while waiter.wait(Some(Clock::now() + PATIENCE / 6)).unwrap().is_empty() {
            assert!(Clock::now() < from + PATIENCE * 10, "it is still waited for");
            let _ = slow.write_all(b"0");
        }
        assert!(Clock::now() >= from + PATIENCE);
        assert!(slow.read(&mut [0]).map_or(true, |count| count == 0), "an answer");
    }
    // Who is quick is answered: it has no session.
    let order = Order {
        what: What::Report,
        session: 0,
        run: 1,
        length: Duration::ZERO,
        window: 0,
        congestion_control: String::new(),
    };
    let mut quick = connect(at);
    quick.write_all(&order.encode(None)).unwrap();
    let mut answer = [0];
    quick.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [Answer::NoSession as u8]);
    drop(server);
}

#[test]
fn one_client_does_not_take_all_connections() {
    // So many connections at once wait for each other at first.
    let (server, at) = server(ORDER_PATIENCE);
    let held: Vec<TcpStream> = (0..CONNECTIONS_PER_CLIENT_MAX).map(|_| connect(at)).collect();
    let mut answer = [0];
    connect(at).read_exact(&mut answer).unwrap();
    assert_eq!(answer, [Answer::Busy as u8]);
    let other = IpAddr::from([192, 0, 2, 1]);
    assert!(server.shared.enter(other));
    server.shared.leave(other);
    drop(held);
}
