//! [`Session`]: a client with its socket, which brings runs to their end.

mod ask;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use io::{Clock, DatagramSocket, Interest, IoError, PacedWaiter, Signals};
use probe::{Client, ClientConfig, ClientEvent, DATA_LEN, Direction, Key, Limits, Pattern, RunLog, RunSpec};
use units::{Bytes, Duration, Rate};

use crate::error::{MeasureError, refusal};
use crate::maker::Peer;

const BATCH: usize = 32;
const DATAGRAM_MAX: usize = 16_384;
/// Interval at which progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(250);
pub(crate) const PRIORITY: u8 = 10;
/// A server that is silent for this long, and whose host says that nobody listens, is gone.
const LOST_AFTER: Duration = Duration::from_secs(2);
/// IPv4 and IPv6 header with the UDP header, bytes.
const OVERHEAD_V4: u16 = 28;
const OVERHEAD_V6: u16 = 48;

/// Choice among the addresses of a server's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address {
    /// The first.
    Any,
    /// The first of IPv4.
    V4,
    /// The first of IPv6.
    V6,
}

impl Address {
    fn family(self) -> &'static str {
        match self {
            Self::Any => "IP",
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// Settings of a session, with its server.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Name or address.
    pub host: String,
    /// UDP port.
    pub port: u16,
    /// Choice among its addresses.
    pub address: Address,
    /// Its key.
    pub key: Option<Key>,
    /// A random number.
    pub nonce: u64,
    /// Longest silence of the server.
    pub patience: Duration,
}

/// Progress that is shown while runs are under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// Others are measured first; the place in the queue.
    Waits(u32),
    /// Packets of the first run so far, and how many there will be.
    Moves(u64, u64),
}

/// Receiver of messages about the work and its progress.
pub trait Watcher {
    /// A step begins.
    fn say(&mut self, what: &str);
    /// Shows the progress.
    fn show(&mut self, moment: Moment);
}

/// Work that goes on beside runs, in a thread of its own.
pub(crate) trait Beside {
    /// The first run has begun: it is this client's turn.
    fn begin(&mut self);
    /// True when it is over, and the runs may end.
    fn is_over(&self) -> bool;
}

impl Beside for () {
    fn begin(&mut self) {}

    fn is_over(&self) -> bool {
        false
    }
}

/// A session with a server.
#[derive(Debug)]
pub struct Session<'a> {
    client: Client,
    socket: DatagramSocket,
    server: SocketAddr,
    options: SessionOptions,
    waiter: PacedWaiter,
    signals: &'a Signals,
    limits: Option<Limits>,
    /// Number of the next TCP transfer.
    transfers: u32,
    is_stopped: bool,
    refused_by_host: bool,
    unreachable: Option<String>,
    buffer: Vec<u8>,
}

/// Results of runs: their logs in the order they were asked for, and why there is no more.
type Logs = (Vec<Option<RunLog>>, Option<MeasureError>);

impl<'a> Session<'a> {
    /// Asks for a session, and waits for it.
    ///
    /// # Errors
    /// When the server cannot be found or reached, does not answer, or says no.
    pub fn open(options: &SessionOptions, signals: &'a Signals) -> Result<Self, MeasureError> {
        let server = resolve(options)?;
        let any: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
        let socket = DatagramSocket::bind(SocketAddr::new(any, 0))?;
        // For the time of a measurement; without the privilege it goes in line.
        let waiter = PacedWaiter::new(PRIORITY)?;
        waiter.add(&socket, Interest::Read, 0)?;
        waiter.add(signals, Interest::Read, 1)?;
        let config =
            ClientConfig { key: options.key.clone(), nonce: options.nonce, patience: options.patience };
        let mut session = Self {
            client: Client::new(config, Clock::now()),
            socket,
            server,
            options: options.clone(),
            waiter,
            signals,
            limits: None,
            transfers: 0,
            is_stopped: false,
            refused_by_host: false,
            unreachable: None,
            buffer: vec![0; DATAGRAM_MAX],
        };
        while session.limits.is_none() {
            session.turn()?;
            if session.is_stopped {
                return Err(MeasureError::Interrupted);
            }
            while let Some(event) = session.client.poll_event() {
                match event {
                    ClientEvent::Connected(limits) => session.limits = Some(limits),
                    ClientEvent::Failed(failure) => {
                        return Err(MeasureError::of(failure, &session.name()));
                    }
                    _ => {}
                }
            }
            if session.refused_by_host {
                return Err(MeasureError::NobodyListens { server: session.name() });
            }
            if let Some(why) = session.unreachable.take() {
                return Err(MeasureError::Unreachable { server: session.name(), why });
            }
        }
        Ok(session)
    }

    /// Opens another session with the same server in place of one that is lost.
    ///
    /// # Errors
    /// Those of [`Session::open`].
    pub fn reopen(&mut self) -> Result<(), MeasureError> {
        let options = SessionOptions { nonce: self.options.nonce.wrapping_add(1), ..self.options.clone() };
        *self = Self::open(&options, self.signals)?;
        Ok(())
    }

    /// The server, for people.
    #[must_use]
    pub fn name(&self) -> String {
        if self.options.host == self.server.ip().to_string() {
            format!("{} port {}", self.options.host, self.server.port())
        } else {
            format!("{} ({} port {})", self.options.host, self.server.ip(), self.server.port())
        }
    }

    /// The server, for documents.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer {
            host: self.options.host.clone(),
            address: self.server.ip().to_string(),
            port: self.server.port(),
            ip_version: if self.server.is_ipv4() { 4 } else { 6 },
        }
    }

    /// The session's number; none when it is over.
    pub(crate) fn id(&self) -> Option<probe::SessionId> {
        self.client.session()
    }

    /// Takes numbers for TCP transfers, and returns the first.
    pub(crate) fn next_transfer(&mut self, count: u32) -> u32 {
        let first = self.transfers;
        self.transfers = first.wrapping_add(count);
        first
    }

    /// The server's address.
    pub(crate) fn server(&self) -> SocketAddr {
        self.server
    }

    /// Limits that the server allows.
    #[must_use]
    pub fn limits(&self) -> Option<Limits> {
        self.limits
    }

    /// True when the server's host has said that nobody listens there any more.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused_by_host
    }

    /// Bytes of the headers in front of each payload.
    #[must_use]
    pub fn overhead(&self) -> u16 {
        if self.server.is_ipv4() { OVERHEAD_V4 } else { OVERHEAD_V6 }
    }

    /// A run of the small packets that measure the round trip.
    pub(crate) fn echo_spec(&self, every: Duration, length: Duration) -> RunSpec {
        let overhead = self.overhead();
        let packet = Bytes::new(DATA_LEN as u64 + u64::from(overhead));
        RunSpec {
            direction: Direction::Up,
            pattern: Pattern::Steady,
            rate: Rate::from_transfer(packet, every),
            payload: DATA_LEN as u16,
            overhead,
            length,
            is_echoed: true,
        }
    }

    /// A run of packets of `packet` bytes that load the path.
    pub(crate) fn load_spec(
        &self,
        direction: Direction,
        pattern: Pattern,
        rate: Rate,
        packet: u16,
        length: Duration,
    ) -> RunSpec {
        let overhead = self.overhead();
        let payload = packet.saturating_sub(overhead);
        RunSpec { direction, pattern, rate, payload, overhead, length, is_echoed: false }
    }

    /// True once the user has asked to stop.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Brings runs that go at the same time to their end.
    ///
    /// # Errors
    /// Of the system only; that the server is gone, denies a run, or that the user has stopped is told
    /// beside what was measured until then.
    pub fn run(&mut self, specs: &[RunSpec], watcher: &mut dyn Watcher) -> Result<Logs, IoError> {
        self.run_beside(specs, watcher, &mut ())
    }

    /// The same; the runs end when what goes on beside them is over.
    pub(crate) fn run_beside(
        &mut self,
        specs: &[RunSpec],
        watcher: &mut dyn Watcher,
        beside: &mut dyn Beside,
    ) -> Result<Logs, IoError> {
        let now = Clock::now();
        let numbers: Vec<u32> = specs.iter().map(|spec| self.client.begin(*spec, now)).collect();
        let mut logs: Vec<Option<RunLog>> = specs.iter().map(|_| None).collect();
        let (mut failure, mut shown) = (None, now);
        loop {
            self.turn()?;
            self.lose_what_is_refused();
            while let Some(event) = self.client.poll_event() {
                match event {
                    ClientEvent::Ended { run, log } => {
                        let at = numbers.iter().position(|number| *number == run);
                        if let Some(slot) = at.and_then(|at| logs.get_mut(at)) {
                            *slot = Some(*log);
                        }
                        // What goes beside the first goes no longer than it.
                        if at == Some(0) {
                            numbers.iter().for_each(|number| self.client.finish(*number, Clock::now()));
                        }
                    }
                    ClientEvent::Denied { reason, detail, .. } => {
                        let why = refusal(reason, detail, probe::VERSION);
                        failure.get_or_insert(MeasureError::Refused { server: self.name(), why });
                        numbers.iter().for_each(|number| self.client.finish(*number, Clock::now()));
                    }
                    ClientEvent::Failed(reason) => {
                        failure.get_or_insert(MeasureError::of(reason, &self.name()));
                    }
                    ClientEvent::Waits { place } => watcher.show(Moment::Waits(place)),
                    ClientEvent::Begun { run } if numbers.first() == Some(&run) => beside.begin(),
                    ClientEvent::Connected(_) | ClientEvent::Begun { .. } | ClientEvent::Answered(_) => {}
                }
            }
            if beside.is_over() {
                numbers.iter().for_each(|number| self.client.finish(*number, Clock::now()));
            }
            let now = Clock::now();
            if now.saturating_since(shown) >= SHOW_EVERY {
                shown = now;
                let first = numbers.first().and_then(|number| self.client.progress(*number));
                if let Some((done, all)) = first.filter(|(done, _)| *done > 0) {
                    watcher.show(Moment::Moves(done, all));
                }
            }
            if !self.client.is_busy() {
                break;
            }
        }
        if self.is_stopped {
            failure = Some(MeasureError::Interrupted);
        }
        Ok((logs, failure))
    }

    /// Rests for `time`, or until the user stops.
    ///
    /// # Errors
    /// Of the system only.
    pub fn rest(&mut self, time: Duration) -> Result<(), IoError> {
        let end = Clock::now() + time;
        while !self.is_stopped && Clock::now() < end {
            self.turn()?;
        }
        Ok(())
    }

    /// Has the server keep the session though no run is under way.
    pub(crate) fn keep_alive(&mut self) {
        self.client.keep_alive();
    }

    /// Says good-bye.
    ///
    /// # Errors
    /// Of the system only.
    pub fn close(mut self) -> Result<(), IoError> {
        self.client.close();
        self.turn()
    }

    /// Ends what is under way where the server's host has said that nobody listens any more, and nothing came
    /// for a while: the events tell what ended, so they are to be polled after it.
    fn lose_what_is_refused(&mut self) {
        if self.refused_by_host && self.client.silence(Clock::now()) > LOST_AFTER {
            self.client.lose();
        }
    }

    /// Waits for what comes next, and handles it.
    fn turn(&mut self) -> Result<(), IoError> {
        let soon = Clock::now() + SHOW_EVERY;
        let deadline = self.client.next_deadline().map_or(soon, |at| at.min(soon));
        self.waiter.wait(Some(deadline), !self.client.is_saturating())?;
        if self.signals.take().is_some() && !std::mem::replace(&mut self.is_stopped, true) {
            self.client.stop(Clock::now());
        }
        for _ in 0..BATCH {
            match self.socket.recv(&mut self.buffer) {
                Ok(None) => break,
                Ok(Some(received)) => {
                    if received.overflowed > 0 {
                        self.client.on_overflow(received.overflowed);
                    }
                    if is_from(received.from, self.server) {
                        let bytes = self.buffer.get(..received.len).unwrap_or(&self.buffer);
                        self.client.handle_datagram(bytes, received.at, Clock::now());
                    }
                }
                Err(error) => self.on_error(&error),
            }
        }
        let mut out = Vec::new();
        for _ in 0..BATCH {
            let Some(run) = self.client.poll_transmit(Clock::now(), &mut out) else { break };
            if let Err(error) = self.socket.send_to(&out, self.server) {
                if let Some(run) = run {
                    self.client.on_refused(run);
                }
                self.on_error(&error);
            }
        }
        Ok(())
    }

    /// Handles an error of the system about the way there: it ends an attempt to connect, and nothing that is
    /// under way.
    fn on_error(&mut self, error: &IoError) {
        /// `ECONNREFUSED`.
        const REFUSED: i32 = 111;
        /// `EAGAIN`, `ENOBUFS`: no room just now.
        const NO_ROOM: [i32; 2] = [11, 105];
        match error.raw_os_error() {
            Some(REFUSED) => self.refused_by_host = true,
            Some(number) if !NO_ROOM.contains(&number) => self.unreachable = Some(error.to_string()),
            _ => {}
        }
    }
}

/// True when a datagram from `from` is of `server`. Only a link-local address has a scope there.
pub(crate) fn is_from(from: SocketAddr, server: SocketAddr) -> bool {
    let scope = |address: SocketAddr| match address {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let is_same = (from.ip(), from.port()) == (server.ip(), server.port());
    is_same && (scope(from) == scope(server) || scope(from) == 0)
}

/// The server's address: of a name, an address, one of IPv6 in brackets, or a link-local one with its zone.
fn resolve(options: &SessionOptions) -> Result<SocketAddr, MeasureError> {
    let name = |why: String| MeasureError::Name { host: options.host.clone(), why };
    let bare = options.host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bare.unwrap_or(&options.host);
    let found = (host, options.port).to_socket_addrs().map_err(|e| name(e.to_string()))?;
    let is_wanted = |address: &SocketAddr| match options.address {
        Address::Any => true,
        Address::V4 => address.is_ipv4(),
        Address::V6 => address.is_ipv6(),
    };
    let server = found
        .into_iter()
        .find(is_wanted)
        .ok_or_else(|| name(format!("it has no {} address", options.address.family())))?;
    match server {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => Err(name(format!(
            "a link-local address needs the interface that it is reached by: {}%eth0",
            v6.ip()
        ))),
        server => Ok(server),
    }
}
