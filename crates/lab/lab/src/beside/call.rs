//! A call: UDP packets both ways, evenly spaced.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};

use io::Clock;
use units::{Bytes, Duration, Instant, Rate};

use super::{Arrived, Seen, TURN, Times};

/// Number of the packet and when it left.
const STAMP_LEN: usize = 16;
/// Time to wait for the last packets: no queue here holds more.
const DRAIN: Duration = Duration::from_secs(2);

/// Packets that arrived at one end.
#[derive(Default)]
struct Heard {
    arrived: Arrived,
    delays: Vec<Duration>,
    /// Packets up to the last one that arrived.
    reached: u64,
}

/// Calls between the sockets of server and client until it is over.
pub(super) fn call([server, client]: [UdpSocket; 2], (payload, rate): (Bytes, Rate), times: &Times) -> Seen {
    if !times.wait_for(times.begins) {
        return Seen::default();
    }
    let addresses = (server.local_addr(), client.local_addr());
    let (Ok(far), Ok(near)) = addresses else { return Seen::failed("a socket has no address") };
    std::thread::scope(|scope| {
        let ends = [(&server, near), (&client, far)];
        let sending = ends.map(|(socket, to)| scope.spawn(move || send(socket, to, (payload, rate), times)));
        let hearing = [&client, &server].map(|socket| scope.spawn(move || hear(socket, times)));
        let errors = sending.map(|thread| thread.join().unwrap_or_else(|_| Err("it panicked".to_owned())));
        let [down, up] = hearing.map(|thread| thread.join().unwrap_or_default());
        Seen {
            arrived: down.arrived,
            delays: [down.delays, up.delays],
            sent: down.reached,
            error: errors.into_iter().find_map(Result::err),
            ..Seen::default()
        }
    })
}

/// Sends a packet at each of its times.
fn send(
    socket: &UdpSocket,
    to: SocketAddr,
    (payload, rate): (Bytes, Rate),
    times: &Times,
) -> Result<(), String> {
    let len = usize::try_from(payload.get()).unwrap_or(STAMP_LEN).max(STAMP_LEN);
    let mut packet = vec![0x5a; len];
    for number in 0u64.. {
        let leaves = times.begins + rate.time_for(Bytes::new(payload.get().saturating_mul(number)));
        if leaves >= times.stops || !times.wait_for(leaves) {
            break;
        }
        packet[..8].copy_from_slice(&number.to_be_bytes());
        packet[8..STAMP_LEN].copy_from_slice(&Clock::now().as_nanos().to_be_bytes());
        // What the kernel does not take is lost like what a queue does not take.
        let _ = socket.send_to(&packet, to);
    }
    Ok(())
}

/// Notes what arrives until it is over.
fn hear(socket: &UdpSocket, times: &Times) -> Heard {
    let mut heard = Heard::default();
    let mut packet = vec![0; 2_048];
    if socket.set_read_timeout(Some(TURN)).is_err() {
        return heard;
    }
    let mut seen = BTreeMap::new();
    while !times.is_over.load(std::sync::atomic::Ordering::Relaxed) && Clock::now() < times.stops + DRAIN {
        // The time-out of the socket, or an ICMP error of a peer that is gone.
        let Ok(len) = socket.recv(&mut packet) else { continue };
        let now = Clock::now();
        let word = |from: usize| packet.get(from..from + 8).and_then(|bytes| bytes.first_chunk());
        let (Some(number), Some(left)) = (word(0), word(8)) else { continue };
        let (number, left) = (u64::from_be_bytes(*number), u64::from_be_bytes(*left));
        // A packet counts once.
        if len < STAMP_LEN || seen.insert(number, ()).is_some() {
            continue;
        }
        heard.arrived.add(len);
        heard.delays.push(now.saturating_since(Instant::from_nanos(left)));
        heard.reached = heard.reached.max(number.saturating_add(1));
    }
    heard
}
