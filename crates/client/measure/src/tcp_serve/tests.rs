//! Actions of strangers against the server's TCP ports.

use std::io::Read;

use io::Clock;
use units::{Bytes, Rate};

use super::places::{CONNECTIONS_MAX, CONNECTIONS_PER_CLIENT_MAX};
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

/// A word of a session that the server knows: it is silent for a minute.
fn silence(session: u64) -> [u8; ORDER_LEN] {
    let order = Order {
        what: What::Idle,
        session,
        run: 1,
        length: Duration::from_secs(60),
        window: 0,
        congestion_control: String::new(),
    };
    order.encode(None)
}

/// Opens a connection with an order; the server's answer, and the connection.
fn ask(at: SocketAddr, session: u64) -> (u8, TcpStream) {
    let mut stream = connect(at);
    stream.write_all(&silence(session)).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    (answer[0], stream)
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    // Nobody is ended by the time that an order may take.
    let (server, at) = server(Duration::from_secs(3_600));
    server.allow([(1, false, 0)].into_iter());
    let mut silent: Vec<TcpStream> = (0..CONNECTIONS_PER_CLIENT_MAX).map(|_| connect(at)).collect();
    let asked: Vec<(u8, TcpStream)> = (0..3).map(|_| ask(at, 1)).collect();
    assert!(asked.iter().all(|(answer, _)| *answer == Answer::Yes as u8));
    // The three that were there longest are told, and no other.
    for (number, stream) in silent.iter_mut().enumerate() {
        let mut said = Vec::new();
        if number < 3 {
            stream.read_to_end(&mut said).unwrap();
            assert_eq!(said, [Answer::Busy as u8], "{number}");
        } else {
            stream.set_nonblocking(true).unwrap();
            assert!(
                stream.read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock),
                "{number}"
            );
        }
    }
}

#[test]
fn what_a_session_has_ordered_ends_with_it() {
    let (server, at) = server(ORDER_PATIENCE);
    server.allow([(1, false, 0), (2, false, 0)].into_iter());
    let within_http = |what: What| {
        let order = Order {
            what,
            session: 1,
            run: 1,
            length: Duration::from_millis(400),
            window: 0,
            congestion_control: String::new(),
        };
        let mut stream = connect(at);
        stream.write_all(&probe::http_request(&order.encode(None), "h")).unwrap();
        stream
    };
    let (answer, idle) = ask(at, 1);
    let (_, other) = ask(at, 2);
    assert_eq!(answer, Answer::Yes as u8);
    let mut watched = vec![within_http(What::Split), within_http(What::Fill)];
    watched.iter_mut().for_each(|stream| stream.read_exact(&mut [0]).unwrap());
    // The first session says good-bye; the second stays.
    server.allow([(2, false, 0)].into_iter());
    let from = Clock::now();
    for mut stream in watched.into_iter().chain([idle]) {
        // An end, or a reset: nothing more is said.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    // All would have been at work for seconds more.
    assert!(Clock::now() < from + Duration::from_secs(3), "they stay");
    other.set_nonblocking(true).unwrap();
    assert!((&other).read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock));
}

#[test]
fn one_client_does_not_take_all_connections() {
    let (server, at) = server(ORDER_PATIENCE);
    server.allow([(1, false, 0)].into_iter());
    let held: Vec<(u8, TcpStream)> = (0..CONNECTIONS_PER_CLIENT_MAX).map(|_| ask(at, 1)).collect();
    assert!(held.iter().all(|(answer, _)| *answer == Answer::Yes as u8));
    // Each of these has an order, so whoever comes next waits.
    assert_eq!(connect_and_read(at), Answer::Busy as u8);
    let another = std::sync::Arc::new(connect(at));
    let other = std::net::IpAddr::from([192, 0, 2, 1]);
    let place = server.shared.state().places.enter(other, &another);
    assert!(place.is_some());
}

fn connect_and_read(at: SocketAddr) -> u8 {
    let mut answer = [0];
    connect(at).read_exact(&mut answer).unwrap();
    answer[0]
}

#[test]
fn in_all_the_client_with_most_silent_connections_makes_room() {
    let (_server, at) = server(ORDER_PATIENCE);
    let stream = std::sync::Arc::new(connect(at));
    let host = |number: u8| std::net::IpAddr::from([192, 0, 2, number]);
    let mut places = Places::default();
    let many: Vec<PlaceId> = (0..90).map(|_| places.enter(host(1), &stream).unwrap()).collect();
    let few: Vec<PlaceId> = (0..38).map(|_| places.enter(host(2), &stream).unwrap()).collect();
    assert_eq!(many.len() + few.len(), CONNECTIONS_MAX);
    for id in &few {
        places.on_order(*id);
    }
    // Ninety newcomers push out the ninety that say nothing; those that said what they want stay.
    for number in 0..90 {
        let id = places.enter(host(3 + number), &stream).unwrap();
        places.on_order(id);
    }
    assert_eq!(places.enter(host(200), &stream), None);
    // One that is over makes room.
    places.leave(few[0]);
    assert!(places.enter(host(200), &stream).is_some());
}
