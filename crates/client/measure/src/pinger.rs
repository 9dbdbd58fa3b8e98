//! [`Pinger`]: rows of pings in a thread of its own, beside a session.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use io::{Clock, HopSocket, Interest, IoError, Waiter};
use probe::{DelayFigures, Pings, SessionId, delay_figures};
use units::{Duration, Instant};

const TURN: Duration = Duration::from_millis(100);
const BUFFER: usize = 1_500;
/// Shortly before a ping leaves the thread is awake.
const AWAKE: Duration = Duration::from_micros(100);

/// A row of pings: how many hops they live, and how often one leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) hops: u8,
    pub(crate) every: Duration,
    /// After the begin.
    pub(crate) first: Duration,
    /// Number of pings; none for no end.
    pub(crate) count: Option<usize>,
}

/// Results of a row.
#[derive(Clone, Debug)]
pub(crate) struct RowLog {
    pub(crate) pings: Pings,
    /// Routers that answered, and how often.
    pub(crate) routers: BTreeMap<IpAddr, usize>,
    /// Answers of the server itself.
    pub(crate) reached: usize,
    /// Number of messages of routers other than "out of hops": no way there, forbidden.
    pub(crate) unreachable: usize,
}

impl RowLog {
    /// Pings sent from `begin` to `end`, those of them that were answered, and their round trips.
    pub(crate) fn between(&self, begin: Instant, end: Instant) -> (usize, usize, Option<DelayFigures>) {
        let own = self.pings.samples().iter().filter(|sample| begin <= sample.sent && sample.sent <= end);
        let trips: Vec<f64> = own.map(|sample| sample.round_trip.as_millis_f64()).collect();
        (self.pings.sent_between(begin, end), trips.len(), delay_figures(trips))
    }
}

/// Sends rows of pings until it is ended.
pub(crate) struct Pinger {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<RowLog>>,
}

struct Sending {
    row: Row,
    socket: HopSocket,
    log: RowLog,
}

impl Sending {
    fn is_due(&self, now: Instant) -> bool {
        self.next().is_some_and(|at| at <= now)
    }

    fn next(&self) -> Option<Instant> {
        let is_left = self.row.count.is_none_or(|count| self.log.pings.sent() < count);
        is_left.then(|| self.log.pings.next_deadline())
    }

    fn receive(&mut self, buffer: &mut [u8]) {
        while let Some(answer) = self.socket.recv(buffer) {
            let bytes = buffer.get(..answer.len).unwrap_or(&[]);
            match answer.router {
                None => self.log.reached += usize::from(self.log.pings.handle_datagram(bytes, answer.at)),
                Some(router) if answer.is_exceeded => {
                    if self.log.pings.handle_returned(bytes, answer.at) {
                        *self.log.routers.entry(router).or_insert(0) += 1;
                    }
                }
                Some(_) => self.log.unreachable += 1,
            }
        }
    }
}

impl Pinger {
    /// Begins at once.
    ///
    /// # Errors
    /// When there is no descriptor, or no way to the server.
    pub(crate) fn start(to: SocketAddr, session: SessionId, rows: &[Row]) -> Result<Self, IoError> {
        let mut waiter = Waiter::new(AWAKE)?;
        let begin = Clock::now();
        let mut sending = Vec::new();
        for (number, row) in (0_u32..).zip(rows) {
            let socket = HopSocket::towards(to, row.hops)?;
            waiter.add(&socket, Interest::Read, number.into())?;
            let pings = Pings::new(session, number, row.every, begin + row.first);
            let log = RowLog { pings, routers: BTreeMap::new(), reached: 0, unreachable: 0 };
            sending.push(Sending { row: *row, socket, log });
        }
        let is_over: Arc<AtomicBool> = Arc::default();
        let own = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            // It sleeps nearly always, and goes first when it is awake, as the session does.
            let _ = io::sched::set_realtime_priority(crate::session::PRIORITY);
            turn(&mut sending, &mut waiter, &own);
            sending.into_iter().map(|one| one.log).collect()
        });
        Ok(Self { is_over, thread })
    }

    /// Ends it; what came of each row.
    pub(crate) fn end(self) -> Vec<RowLog> {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().unwrap_or_default()
    }
}

fn turn(rows: &mut [Sending], waiter: &mut Waiter, is_over: &AtomicBool) {
    let (mut out, mut buffer) = (Vec::new(), vec![0; BUFFER]);
    while !is_over.load(Ordering::SeqCst) {
        let soon = Clock::now() + TURN;
        let next = rows.iter().filter_map(Sending::next).min().map_or(soon, |at| at.min(soon));
        if waiter.wait(Some(next)).is_err() {
            return;
        }
        for row in rows.iter_mut() {
            row.receive(&mut buffer);
            if row.is_due(Clock::now()) && row.log.pings.poll_transmit(Clock::now(), &mut out) {
                // One that does not leave is one that is not answered.
                let _ = row.socket.send(&out);
            }
        }
    }
    rows.iter_mut().for_each(|row| row.receive(&mut buffer));
}
