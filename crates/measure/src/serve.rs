//! [`serve`]: the server's loop.

use std::net::SocketAddr;

use io::{Clock, DatagramSocket, Interest, IoError, PacedWaiter, Signals};
use probe::{Server, ServerConfig, ServerCounters};
use units::Duration;

use crate::tcp_serve::TcpServer;

/// Datagrams read or sent in a row before the other has its turn.
const BATCH: usize = 32;
/// Longest datagram that is read whole; of longer ones the header is.
const DATAGRAM_MAX: usize = 2_048;
/// How often the user's signals are looked for while packets leave.
const TURN: Duration = Duration::from_millis(100);
/// Below the kernel's own, above what computes.
const PRIORITY: u8 = 10;

/// Where a server listens, and what it allows.
#[derive(Debug)]
pub struct ServeOptions {
    /// Address and port.
    pub listen: SocketAddr,
    /// TCP ports to listen at as well.
    pub ports: Vec<u16>,
    /// What it allows.
    pub config: ServerConfig,
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
    let socket = DatagramSocket::bind(options.listen)?;
    say(&format!("listening at {} (UDP and TCP)", socket.local_address()?));
    // A server that computes nothing else may go first; without the privilege it goes in line.
    let _ = io::sched::set_realtime_priority(PRIORITY);
    let mut waiter = PacedWaiter::new()?;
    waiter.add(&socket, Interest::Read, 0)?;
    waiter.add(signals, Interest::Read, 1)?;
    let key = options.config.key.clone();
    let limits = options.config.limits;
    let tcp = TcpServer::start(socket.local_address()?, &options.ports, key, limits)?;
    tcp.words().iter().for_each(|line| say(line));
    let mut server = Server::new(options.config);
    let (mut buffer, mut out) = (vec![0; DATAGRAM_MAX], Vec::new());
    let mut told = server.counters();
    loop {
        let turn = Clock::now() + TURN;
        let deadline = server.next_deadline().map(|at| at.min(turn));
        waiter.wait(deadline)?;
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
            server.handle_datagram(bytes, received.from, received.at, Clock::now());
        }
        // Before the answer leaves that tells a client of its session.
        let now = Clock::now();
        for (session, bytes) in tcp.take_volumes() {
            server.on_volume(session, bytes, now);
        }
        tcp.allow(server.sessions().map(|(id, is_turn)| (id, is_turn, server.volume_left(id, now))));
        while let Some(question) = server.poll_question() {
            server.answer(&tcp.answer(question));
        }
        for _ in 0..BATCH {
            let Some(transmit) = server.poll_transmit(Clock::now(), &mut out) else { break };
            let is_refused = socket.send_to(&out, transmit.to).is_err();
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
