//! One end of many flows, in a process of its own: `cellerator bench hold-server` and `hold-clients`.
//!
//! A process may have some 20,000 descriptors open, so that 100,000 flows need several of them on
//! either side. Each does what lines on its standard input say and answers on its standard output:
//!
//! | line | who | what |
//! |---|---|---|
//! | `count` | both | answers `count FLOWS BYTES`: flows it has, bytes it has received (clients) or sent (server) |
//! | `pulse PER_S LEN` | server | sends LEN bytes on one flow after the other, so many a second |
//! | `blast` | server | sends on all flows as fast as they take it |
//! | `fill LEN` | server | the same, and LEN bytes on each |
//! | `quiet` | server | stops all of these |
//! | `once LEN` | server | sends LEN bytes on every flow, and answers `once FLOWS`: how many took them |
//! | `deaf` | clients | reads nothing any more |
//! | `hear` | clients | reads again |
//!
//! The end of its input ends it. A server says `port N` when it listens, clients `open N` when all
//! are connected.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use io::{Clock, Interest, Waiter};
use socket2::{Domain, SockRef, Socket, Type};
use units::{Duration, Instant};

use crate::BenchError;
use crate::error::Context;
use crate::topology::{SERVER, subscriber};

const STDIN: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

/// Pulses are sent this often, several at a time.
const PULSE_EVERY: Duration = Duration::from_millis(1);

/// Written at once when blasting.
const BLOCK: usize = 64 * 1024;

/// Arguments of clients on their command line.
#[derive(Clone, Copy, Debug)]
pub struct ClientSide {
    /// The server.
    pub to: SocketAddr,
    /// Flows to open.
    pub flows: u32,
    /// Number of the first flow: it decides which subscriber's addresses are used.
    pub first: u32,
    /// Addresses used in turn.
    pub subscribers: u32,
    /// Socket buffers, bytes; 0 leaves them to the kernel.
    pub buffer: usize,
}

/// Way in which the server sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Nothing,
    Pulse { per_tick: usize, len: usize, next: Instant },
}

/// Either end.
struct End {
    waiter: Waiter,
    flows: Vec<TcpStream>,
    listener: Option<TcpListener>,
    sending: Sending,
    /// Bytes that are to be sent on each flow as it takes them.
    left: Vec<usize>,
    turn: usize,
    bytes: u64,
    buffer: usize,
    block: Vec<u8>,
    /// Of standard input, up to the end of a line.
    heard: String,
}

/// Accepts flows and sends on them, as told on standard input.
///
/// # Errors
/// When sockets cannot be had.
pub fn hold_server(buffer: usize) -> Result<(), BenchError> {
    io::raise_descriptor_limit()?;
    let doing = || "listen for many flows".to_owned();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).doing(doing)?;
    set_buffers(&socket, buffer).doing(doing)?;
    drop(socket.set_tcp_congestion(b"cubic"));
    socket.bind(&SocketAddr::new(SERVER, 0).into()).doing(doing)?;
    socket.listen(16_384).doing(doing)?;
    socket.set_nonblocking(true).doing(doing)?;
    let listener: TcpListener = socket.into();
    let port = listener.local_addr().doing(doing)?.port();
    let mut end = End::new(buffer)?;
    end.waiter.add(&listener, Interest::Read, LISTENER)?;
    end.listener = Some(listener);
    say(&format!("port {port}"));
    end.serve()
}

/// Connects, reads whatever comes, and answers questions on standard input.
///
/// # Errors
/// When a connection fails.
pub fn hold_clients(side: ClientSide) -> Result<(), BenchError> {
    io::raise_descriptor_limit()?;
    let mut end = End::new(side.buffer)?;
    for number in side.first..side.first + side.flows {
        let from = IpAddr::V4(subscriber(number % side.subscribers.max(1)));
        let flow =
            connect(from, side.to, side.buffer).doing(|| format!("open flow {number} to {}", side.to))?;
        end.add(flow, Interest::Read)?;
    }
    say(&format!("open {}", side.flows));
    end.serve()
}

fn connect(from: IpAddr, to: SocketAddr, buffer: usize) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    set_buffers(&socket, buffer)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    socket.connect_timeout(&to.into(), std::time::Duration::from_secs(10))?;
    Ok(socket.into())
}

fn set_buffers(socket: &Socket, buffer: usize) -> std::io::Result<()> {
    if buffer > 0 {
        socket.set_recv_buffer_size(buffer)?;
        socket.set_send_buffer_size(buffer)?;
    }
    Ok(())
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    // Whoever asked has gone: the end of input follows.
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

impl End {
    fn new(buffer: usize) -> Result<Self, BenchError> {
        let waiter = Waiter::new(Duration::ZERO)?;
        waiter.add(&std::io::stdin(), Interest::Read, STDIN)?;
        Ok(Self {
            waiter,
            flows: Vec::new(),
            listener: None,
            sending: Sending::Nothing,
            left: Vec::new(),
            turn: 0,
            bytes: 0,
            buffer,
            block: vec![0; BLOCK],
            heard: String::new(),
        })
    }

    fn add(&mut self, flow: TcpStream, interest: Interest) -> Result<(), BenchError> {
        flow.set_nonblocking(true).doing(|| "make a flow non-blocking".to_owned())?;
        self.waiter.add(&flow, interest, self.flows.len() as u64)?;
        self.flows.push(flow);
        Ok(())
    }

    /// Until standard input ends.
    fn serve(&mut self) -> Result<(), BenchError> {
        loop {
            let deadline = match self.sending {
                Sending::Pulse { next, .. } => Some(next),
                _ => None,
            };
            let ready: Vec<(u64, bool)> =
                self.waiter.wait(deadline)?.iter().map(|event| (event.token, event.writable)).collect();
            for (token, writable) in ready {
                match token {
                    STDIN => {
                        if !self.obey()? {
                            return Ok(());
                        }
                    }
                    LISTENER => self.accept()?,
                    flow => self.on_ready(flow as usize, writable),
                }
            }
            self.pulse();
        }
    }

    fn accept(&mut self) -> Result<(), BenchError> {
        loop {
            let Some(accepted) = self.listener.as_ref().map(TcpListener::accept) else { return Ok(()) };
            match accepted {
                Ok((flow, _)) => {
                    if self.buffer > 0 {
                        drop(SockRef::from(&flow).set_send_buffer_size(self.buffer));
                    }
                    drop(flow.set_nodelay(true));
                    self.add(flow, Interest::Read)?;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client has gone again.
                Err(e) if e.kind() == ErrorKind::ConnectionAborted => {}
                Err(e) => return Err(e).doing(|| "accept a flow".to_owned()),
            }
        }
    }

    fn on_ready(&mut self, index: usize, writable: bool) {
        let Some(mut flow) = self.flows.get(index) else { return };
        if let Some(left) = self.left.get_mut(index).filter(|left| writable && **left > 0) {
            let block = self.block.get(..*left).unwrap_or(&self.block);
            let written = flow.write(block).unwrap_or(0);
            self.bytes += written as u64;
            *left -= written;
            if *left == 0 {
                drop(self.waiter.modify(flow, Interest::Read, index as u64));
            }
            return;
        }
        match flow.read(&mut self.block) {
            Ok(0) => drop(self.waiter.remove(flow)),
            Ok(len) if self.listener.is_none() => self.bytes += len as u64,
            Err(e) if e.kind() != ErrorKind::WouldBlock => drop(self.waiter.remove(flow)),
            _ => {}
        }
    }

    fn pulse(&mut self) {
        let Sending::Pulse { per_tick, len, next } = self.sending else { return };
        if Clock::now() < next || self.flows.is_empty() {
            return;
        }
        for _ in 0..per_tick {
            self.turn = (self.turn + 1) % self.flows.len();
            let block = self.block.get(..len).unwrap_or(&self.block);
            self.bytes += (&self.flows[self.turn]).write(block).unwrap_or(0) as u64;
        }
        // A late tick is not made up for: a burst would measure something else.
        self.sending = Sending::Pulse { per_tick, len, next: (next + PULSE_EVERY).max(Clock::now()) };
    }

    /// Does what the lines on standard input say; false at its end.
    fn obey(&mut self) -> Result<bool, BenchError> {
        let mut text = [0; 256];
        let len = std::io::stdin().read(&mut text).doing(|| "read what to do".to_owned())?;
        if len == 0 {
            return Ok(false);
        }
        self.heard += &String::from_utf8_lossy(&text[..len]);
        while let Some((line, rest)) = self.heard.split_once('\n') {
            let (line, rest) = (line.to_owned(), rest.to_owned());
            self.heard = rest;
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words.as_slice() {
                ["count"] => say(&format!("count {} {}", self.flows.len(), self.bytes)),
                ["pulse", per_s, len] => {
                    let (per_s, len): (usize, usize) = (per_s.parse().unwrap_or(0), len.parse().unwrap_or(0));
                    self.sending = Sending::Pulse { per_tick: per_s / 1_000, len, next: Clock::now() };
                }
                ["blast"] => self.write(usize::MAX),
                ["fill", len] => self.write(len.parse().unwrap_or(0)),
                ["quiet"] => self.write(0),
                ["once", len] => say(&format!("once {}", self.send_once(len.parse().unwrap_or(0)))),
                ["deaf"] => self.flows.iter().for_each(|flow| drop(self.waiter.remove(flow))),
                ["hear"] => self.listen_again()?,
                _ => {
                    return Err(BenchError::Load(format!(
                        "`{line}` is not among count, pulse, blast, fill, quiet, once, deaf, hear"
                    )));
                }
            }
        }
        Ok(true)
    }

    /// Sends `len` bytes on every flow; gives how many flows took all of them.
    fn send_once(&mut self, len: usize) -> usize {
        let block = self.block.get(..len).unwrap_or(&self.block);
        let mut taken = 0;
        for mut flow in &self.flows {
            let written = flow.write(block).unwrap_or(0);
            self.bytes += written as u64;
            taken += usize::from(written == block.len());
        }
        taken
    }

    fn listen_again(&mut self) -> Result<(), BenchError> {
        for (index, flow) in self.flows.iter().enumerate() {
            self.waiter.add(flow, Interest::Read, index as u64)?;
        }
        Ok(())
    }

    /// Sends `len` bytes on every flow as it takes them.
    fn write(&mut self, len: usize) {
        self.sending = Sending::Nothing;
        self.left = vec![len; self.flows.len()];
        let interest = if len > 0 { Interest::Write } else { Interest::Read };
        for (index, flow) in self.flows.iter().enumerate() {
            // A flow that has ended is not watched any more.
            drop(self.waiter.modify(flow, interest, index as u64));
        }
    }
}
