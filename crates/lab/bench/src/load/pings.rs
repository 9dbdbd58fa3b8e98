//! [`Pings`]: short messages to and fro over TCP, each direction timed by itself.
//!
//! Both ends are threads of this process and read the same clock.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use io::{Clock, Interest, Waiter};
use units::Duration;

use crate::BenchError;
use crate::error::Context;
use crate::topology::{Network, SERVER};

/// A message: large enough for two times, small enough for one packet anywhere.
const MESSAGE_LEN: usize = 64;

/// Between two messages: a load that no part of the path notices.
const EVERY: Duration = Duration::from_millis(1);

/// Longest time that one may take before the benchmark gives up.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// One message and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ping {
    /// From the client's write to the end of the server's read, ns.
    pub up_ns: u64,
    /// From the server's write to the end of the client's read, ns.
    pub down_ns: u64,
}

/// A connection that carries pings.
#[derive(Debug)]
pub(crate) struct Pings {
    socket: TcpStream,
    server: Option<std::thread::JoinHandle<()>>,
}

impl Pings {
    /// Connects through the box.
    pub fn start(network: &Network) -> Result<Self, BenchError> {
        let doing = || "make a connection for pings".to_owned();
        let listener = network.server.run(|| TcpListener::bind((SERVER, 0)))?.doing(doing)?;
        let to = listener.local_addr().doing(doing)?;
        let socket = network.client.run(|| TcpStream::connect_timeout(&to, PATIENCE))?.doing(doing)?;
        // The connection is made: it waits to be accepted.
        let (other, _) = listener.accept().doing(doing)?;
        let server = std::thread::spawn(move || answer(other));
        socket.set_nodelay(true).doing(doing)?;
        socket.set_read_timeout(Some(PATIENCE)).doing(doing)?;
        Ok(Self { socket, server: Some(server) })
    }

    /// Sends one, and waits for its answer.
    pub fn once(&mut self) -> Result<Ping, BenchError> {
        self.ping().doing(|| "exchange a message through the box".to_owned())
    }

    /// Sends and times for `time`.
    pub fn run(&mut self, time: Duration) -> Result<Vec<Ping>, BenchError> {
        self.run_every(EVERY, time)
    }

    /// The same with this pause between two messages.
    pub fn run_every(&mut self, every: Duration, time: Duration) -> Result<Vec<Ping>, BenchError> {
        let mut waiter = Waiter::new(Duration::ZERO)?;
        let (listening, _other) =
            std::os::unix::net::UnixStream::pair().doing(|| "make a pair of sockets".to_owned())?;
        waiter.add(&listening, Interest::Read, 0)?;
        let end = Clock::now() + time;
        let mut next = Clock::now();
        let mut pings = Vec::new();
        while next < end {
            waiter.wait(Some(next))?;
            pings.push(self.once()?);
            next = next.max(Clock::now()) + every;
        }
        Ok(pings)
    }

    fn ping(&mut self) -> std::io::Result<Ping> {
        let mut message = [0; MESSAGE_LEN];
        let sent = Clock::now();
        self.socket.write_all(&message)?;
        self.socket.read_exact(&mut message)?;
        let came = Clock::now().as_nanos();
        let (read, written) = (word(&message, 0), word(&message, 8));
        Ok(Ping { up_ns: read.saturating_sub(sent.as_nanos()), down_ns: came.saturating_sub(written) })
    }
}

impl Drop for Pings {
    fn drop(&mut self) {
        drop(self.socket.shutdown(std::net::Shutdown::Both));
        drop(self.server.take().map(std::thread::JoinHandle::join));
    }
}

fn word(message: &[u8], at: usize) -> u64 {
    message.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

/// Answers with the times of reading and of writing, until the connection ends.
fn answer(mut socket: TcpStream) {
    drop(socket.set_nodelay(true));
    let mut message = [0; MESSAGE_LEN];
    while socket.read_exact(&mut message).is_ok() {
        message[..8].copy_from_slice(&Clock::now().as_nanos().to_be_bytes());
        message[8..16].copy_from_slice(&Clock::now().as_nanos().to_be_bytes());
        if socket.write_all(&message).is_err() {
            return;
        }
    }
}
