//! [`serve`]: the server's loop.

use std::net::SocketAddr;

use io::{Clock, DatagramSocket, Interest, IoError, PacedWaiter, Signals};
use probe::{ClientPath, Server, ServerConfig, ServerCounters};
use units::{Duration, Instant};

use crate::tcp_serve::{ORDER_PATIENCE, TcpServer};

/// Datagrams read or sent in a row before the other has its turn.
const BATCH: usize = 32;
/// Longest datagram that is read whole; of longer ones the header is.
const DATAGRAM_MAX: usize = 2_048;
/// Interval at which the user's signals are looked for while packets leave.
const TURN: Duration = Duration::from_millis(100);
/// Below the kernel's own, above what computes.
const PRIORITY: u8 = 10;
/// Ports that are tried where the system chooses one.
const PORTS_TRIED: u32 = 16;

/// Settings of a server: addresses to listen on, and limits.
#[derive(Debug)]
pub struct ServeOptions {
    /// Address and port.
    pub listen: SocketAddr,
    /// TCP ports to listen at as well.
    pub ports: Vec<u16>,
    /// Limits that it allows.
    pub config: ServerConfig,
    /// Gain of its clock, ppm: for tests of what clients make of clocks that drift.
    pub drift_ppm: i32,
}

/// A clock that gains on the machine's from `begin` on.
#[derive(Clone, Copy, Debug)]
struct DriftingClock {
    begin: Instant,
    ppm: i32,
}

impl DriftingClock {
    fn now(self) -> Instant {
        self.told(Clock::now())
    }

    fn gained(self, real: Duration) -> u64 {
        let nanos = u128::from(real.as_nanos()) * u128::from(self.ppm.unsigned_abs()) / 1_000_000;
        u64::try_from(nanos).unwrap_or(0)
    }

    /// Time that it shows at `real`.
    fn told(self, real: Instant) -> Instant {
        let gained = Duration::from_nanos(self.gained(real.saturating_since(self.begin)));
        if self.ppm < 0 { real - gained } else { real + gained }
    }

    /// Time at which it shows `told`, to a part in a million of a ppm: who waits for it looks at it again.
    fn real(self, told: Instant) -> Instant {
        let gained = Duration::from_nanos(self.gained(told.saturating_since(self.begin)));
        if self.ppm < 0 { told + gained } else { told - gained }
    }
}

/// Sockets of UDP and TCP at the same port. Of those that the system gives for port 0 each is free for UDP, but TCP may
/// have it: then it is another one's turn.
fn listen(options: &ServeOptions) -> Result<(DatagramSocket, TcpServer), IoError> {
    let mut left = if options.listen.port() == 0 { PORTS_TRIED } else { 1 };
    loop {
        left -= 1;
        let socket = DatagramSocket::bind(options.listen)?;
        let (at, key) = (socket.local_address()?, options.config.key.clone());
        match TcpServer::start(at, &options.ports, key, options.config.limits, ORDER_PATIENCE) {
            Ok(tcp) => return Ok((socket, tcp)),
            Err(error) if left == 0 => return Err(error),
            Err(_) => {}
        }
    }
}

/// Serves until a signal comes. `say` hears where it listens, and of each session.
///
/// # Errors
/// When it cannot listen there.
pub fn serve(
    options: ServeOptions,
    signals: &Signals,
    say: &mut dyn FnMut(&str),
) -> Result<ServerCounters, IoError> {
    let (socket, tcp) = listen(&options)?;
    // A server that computes nothing else may go first; without the privilege it goes in line.
    let mut waiter = PacedWaiter::new(PRIORITY)?;
    waiter.add(&socket, Interest::Read, 0)?;
    waiter.add(signals, Interest::Read, 1)?;
    say(&format!("listening at {} (UDP and TCP)", socket.local_address()?));
    tcp.words().iter().for_each(|line| say(line));
    let mut server = Server::new(options.config);
    let (mut buffer, mut out) = (vec![0; DATAGRAM_MAX], Vec::new());
    let mut told = server.counters();
    let clock = DriftingClock { begin: Clock::now(), ppm: options.drift_ppm };
    loop {
        let turn = Clock::now() + TURN;
        let deadline = server.next_deadline().map(|at| clock.real(at).min(turn));
        waiter.wait(deadline, !server.is_saturating())?;
        if signals.take().is_some() {
            return Ok(server.counters());
        }
        for _ in 0..BATCH {
            // What ICMP says of a client is no reason to stop: it is silent, or says more.
            let received = match socket.recv(&mut buffer) {
                Ok(Some(received)) => received,
                Ok(None) => break,
                Err(_) => continue,
            };
            if received.overflowed > 0 {
                server.on_overflow(received.overflowed);
            }
            let bytes = buffer.get(..received.len.min(buffer.len())).unwrap_or(&buffer);
            let path = ClientPath { client: received.from, server: received.to };
            server.handle_datagram(bytes, path, clock.told(received.at), clock.now());
        }
        // Before the answer leaves that tells a client of its session.
        let now = clock.now();
        for (session, bytes) in tcp.take_volumes() {
            server.on_volume(session, bytes, now);
        }
        tcp.allow(server.sessions().map(|(id, is_turn)| (id, is_turn, server.volume_left(id, now))));
        while let Some(question) = server.poll_question() {
            server.answer(&tcp.answer(&question));
        }
        for _ in 0..BATCH {
            let Some(transmit) = server.poll_transmit(clock.now(), &mut out) else { break };
            let ClientPath { client, server: own } = transmit.path;
            let sent = match own {
                Some(own) => socket.send_from(&out, client, own),
                None => socket.send_to(&out, client),
            };
            let is_refused = sent.is_err();
            if let Some(run) = transmit.run.filter(|_| is_refused) {
                server.on_refused(run);
            }
        }
        let counters = server.counters();
        if counters.sessions != told.sessions {
            say(&format!("{} sessions so far, {} now", counters.sessions, server.session_count()));
        }
        told = counters;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drifting_clock_gains_what_it_should_and_is_waited_for() {
        let begin = Instant::from_millis(5_000);
        for (ppm, gained_us) in [(0, 0_i64), (300, 3_000), (-1_000, -10_000)] {
            let clock = DriftingClock { begin, ppm };
            let real = begin + Duration::from_secs(10);
            let told = clock.told(real);
            let off = told.as_nanos().cast_signed() - real.as_nanos().cast_signed();
            assert_eq!(off, gained_us * 1_000, "{ppm} ppm");
            // Of 10 s to a few microseconds.
            assert!(clock.real(told).as_nanos().abs_diff(real.as_nanos()) <= 11_000, "{ppm} ppm");
            assert_eq!((clock.told(begin), clock.real(begin)), (begin, begin));
        }
        let clock = DriftingClock { begin, ppm: 0 };
        assert_eq!(clock.real(Instant::ZERO), Instant::ZERO, "at once");
    }
}
