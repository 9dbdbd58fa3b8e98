//! Datagrams to a probe's server and client.

use std::net::SocketAddr;

use ::probe::{
    Client, ClientConfig, CookieJar, Direction, Key, Limits, Message, Pattern, RunSpec, Server, ServerConfig,
};
use units::{Bytes, Duration, Instant, Rate};

/// Longest time between two datagrams, ms.
const PAUSE_MAX: u64 = 2_000;

/// The bytes as one message, and as a row of datagrams from addresses that prove nothing: what is read
/// is written again the same, and no address gets more than it sent.
pub fn probe(bytes: &[u8]) {
    let Some(key) = Key::new(b"key") else { return };
    for key in [None, Some(&key)] {
        if let Ok(message) = Message::decode(bytes, key) {
            let mut out = Vec::new();
            message.encode(key, &mut out);
            // Of data the filling is not read, and of records those that fit are written.
            let read = Message::decode(&out, key).expect("written and read");
            match (&message, &read) {
                (Message::Records { arrivals: all, .. }, Message::Records { arrivals: some, .. }) => {
                    assert_eq!(all[..some.len()], some[..], "written and read");
                }
                _ => assert_eq!(message, read, "written and read"),
            }
        }
        datagrams(bytes, key);
    }
}

/// Each datagram begins with its sender, its length, and how long after the one before it comes.
fn datagrams(bytes: &[u8], key: Option<&Key>) {
    let Some(secret) = CookieJar::new(b"secret") else { return };
    let mut server = Server::new(ServerConfig {
        key: key.cloned(),
        secret,
        limits: Limits {
            rate_max: Rate::from_mbps(10),
            time_max: Duration::from_secs(1),
            volume_max: Bytes::new(1_000_000),
        },
        sessions_max: 4,
        sessions_per_client_max: 2,
        measured_max: 1,
        arrivals_max: 10_000,
    });
    let mut now = Instant::from_millis(1_000);
    let mut client =
        Client::new(ClientConfig { key: key.cloned(), nonce: 1, patience: Duration::from_secs(10) }, now);
    client.begin(
        RunSpec {
            direction: Direction::Down,
            pattern: Pattern::Steady,
            rate: Rate::from_mbps(1),
            payload: 1_000,
            overhead: 28,
            length: Duration::from_secs(1),
            is_echoed: false,
        },
        now,
    );
    let (mut came, mut went) = ([0_usize; 4], [0_usize; 4]);
    let (mut rest, mut out) = (bytes, Vec::new());
    while let [from, len, pause, tail @ ..] = rest {
        let (datagram, after) = tail.split_at(usize::from(*len).min(tail.len()));
        let from = usize::from(from % 4);
        let address = SocketAddr::from(([192, 0, 2, 1], 1_000 + from as u16));
        now += Duration::from_millis(u64::from(*pause) * PAUSE_MAX / 255);
        came[from] += datagram.len();
        server.handle_datagram(datagram, address, now, now);
        client.handle_datagram(datagram, now, now);
        while let Some(transmit) = server.poll_transmit(now, &mut out) {
            went[usize::from(transmit.path.client.port() - 1_000)] += out.len();
        }
        for _ in 0..100 {
            if client.poll_transmit(now, &mut out).is_none() {
                break;
            }
        }
        while client.poll_event().is_some() {}
        rest = after;
    }
    assert!(came.iter().zip(&went).all(|(came, went)| went <= came), "more was sent than came");
}
