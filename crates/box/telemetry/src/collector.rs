//! [`Collector`]: the way to whoever collects IPFIX.

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use io::Clock;
use run::FlowRecord;
use units::{Duration as Time, Instant};

use crate::TelemetryError;
use crate::ipfix::Exporter;

/// Longest time that a record may wait for others to share a message with.
const WAIT_MAX: Time = Time::from_secs(1);

/// Over UDP, templates are sent again so often: RFC 7011 §8.1 leaves the time to us.
const TEMPLATES_EVERY: Time = Time::from_secs(60);

/// Longest time that a connection may take to be opened, or to take a message in.
const PATIENCE: Duration = Duration::from_secs(5);

/// After a failure the collector is left alone for so long.
const PAUSE: Time = Time::from_secs(2);

/// Transport of messages.
#[derive(Debug)]
enum Way {
    Udp(UdpSocket),
    Tcp(Option<TcpStream>),
}

/// A collector, and what waits to be sent to it.
#[derive(Debug)]
pub struct Collector {
    to: SocketAddr,
    way: Way,
    exporter: Exporter,
    /// Latest time for the message with the records that wait.
    due: Option<Instant>,
    templates_due: Instant,
    /// Nothing is tried before then.
    next_try: Instant,
    sent: u64,
    lost: u64,
}

impl Collector {
    /// The one at `to`, over TCP or UDP, for `exporter`.
    ///
    /// # Errors
    /// It cannot be reached. Later on this is no error: records are lost then, and counted.
    pub fn open(to: SocketAddr, is_tcp: bool, exporter: Exporter) -> Result<Self, TelemetryError> {
        let doing = || TelemetryError::doing(format!("reach the collector at {to}"));
        let way = if is_tcp {
            Way::Tcp(Some(connect(to).map_err(doing())?))
        } else {
            let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
            let socket = UdpSocket::bind(any).map_err(doing())?;
            socket.connect(to).map_err(doing())?;
            Way::Udp(socket)
        };
        let start = Instant::ZERO;
        Ok(Self { to, way, exporter, due: None, templates_due: start, next_try: start, sent: 0, lost: 0 })
    }

    /// Takes in a record.
    pub fn add(&mut self, record: &FlowRecord) {
        if self.exporter.add(record) {
            self.due.get_or_insert_with(|| Clock::now() + WAIT_MAX);
        }
        if self.exporter.is_full() {
            self.flush();
        }
    }

    /// Sends what has waited for long enough.
    pub fn turn(&mut self) {
        if self.due.is_some_and(|due| due <= Clock::now()) {
            self.flush();
        }
    }

    /// Sends what waits.
    pub fn flush(&mut self) {
        let records = u64::from(self.exporter.waiting());
        self.due = None;
        if records == 0 {
            return;
        }
        let now = Clock::now();
        let is_new = self.connect_again(now);
        let has_templates = is_new || now >= self.templates_due;
        let message = self.exporter.message((Clock::wall_nanos() / 1_000_000_000) as u32, has_templates);
        let is_sent = match &mut self.way {
            Way::Udp(socket) => socket.send(&message).is_ok(),
            Way::Tcp(Some(stream)) => stream.write_all(&message).is_ok(),
            Way::Tcp(None) => false,
        };
        if is_sent {
            self.sent += records;
            if has_templates {
                self.templates_due = match self.way {
                    Way::Udp(_) => now + TEMPLATES_EVERY,
                    // RFC 7011 §10.4: once for a connection.
                    Way::Tcp(_) => Instant::FAR_FUTURE,
                };
            }
            return;
        }
        self.lost += records;
        self.templates_due = Instant::ZERO;
        if let Way::Tcp(stream) = &mut self.way {
            *stream = None;
            self.next_try = now + PAUSE;
        }
    }

    /// Over TCP: connects if that was lost; true for a new connection.
    fn connect_again(&mut self, now: Instant) -> bool {
        let Way::Tcp(stream @ None) = &mut self.way else { return false };
        if now >= self.next_try {
            *stream = connect(self.to).ok();
        }
        stream.is_some()
    }

    /// Records that were sent, and such as were lost since the collector could not be reached.
    #[must_use]
    pub fn counted(&self) -> (u64, u64) {
        (self.sent, self.lost)
    }
}

fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}
