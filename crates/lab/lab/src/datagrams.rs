//! [`Datagrams`]: a UDP source at a set rate in the server's namespace, and a sink that
//! acknowledges every datagram in the client's.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use io::{Clock, Namespace, Signals, Waiter};
use scenario::Workload;
use units::{Bytes, Duration, Instant, Rate};

use crate::LabError;
use crate::error::Context;
use crate::origin::Content;
use crate::topology::{client_address, server_address};
use crate::transfer::{Outcome, mark};

/// Port of source and sink.
const PORT: u16 = 5001;
/// Number of the datagram and when it left, which an acknowledgement returns.
const STAMP_LEN: usize = 16;
/// Interval of the checks of threads whether they are to end.
const TURN: Duration = Duration::from_millis(20);
/// Time to wait for acknowledgements after the last datagram: more than any queue here holds.
const DRAIN: Duration = Duration::from_secs(5);

/// Observations of source and sink.
#[derive(Clone, Debug, Default)]
pub struct DatagramLog {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Times at which each acknowledgement came back to the source, with the time since its datagram had left.
    pub round_trips: Vec<(Instant, Duration)>,
}

/// Datagrams of one case, evenly spaced.
#[derive(Debug)]
pub struct Datagrams {
    source: UdpSocket,
    sink: UdpSocket,
    rate: Rate,
    payload: Bytes,
    length: Duration,
    expected: Bytes,
}

impl Datagrams {
    /// Opens both sockets; nothing is sent yet.
    ///
    /// # Errors
    /// When a socket cannot be opened.
    pub fn open(server: &Namespace, client: &Namespace, workload: &Workload) -> Result<Self, LabError> {
        let [from, to] = [server_address(workload.family()), client_address(workload.family())]
            .map(|address| SocketAddr::from((address, PORT)));
        let bind = |at: SocketAddr| {
            let socket = UdpSocket::bind(at)?;
            // Sockets stay in the namespace in which they were made.
            socket.set_read_timeout(Some(std::time::Duration::from_nanos(TURN.as_nanos())))?;
            Ok(socket)
        };
        let source = server.run(|| bind(from))?.doing(|| format!("open a UDP socket at {from}"))?;
        let sink = client.run(|| bind(to))?.doing(|| format!("open a UDP socket at {to}"))?;
        source.connect(to).doing(|| format!("connect a UDP socket to {to}"))?;
        Ok(Self {
            source,
            sink,
            rate: workload.udp_rate(),
            payload: workload.datagram(),
            length: workload.length(),
            expected: workload.expected(),
        })
    }

    /// Sends for as long as the workload says, showing `progress(bytes so far)` from time to time.
    /// What is served stands for nothing here: that all was sent is noted as a content that came
    /// out right.
    ///
    /// # Errors
    /// When `check` refuses to go on, or the user interrupts.
    pub fn run(
        self,
        content: &Content,
        signals: &Signals,
        progress: &mut dyn FnMut(u64),
        check: &mut dyn FnMut() -> Result<(), LabError>,
    ) -> Result<(Outcome, DatagramLog), LabError> {
        let stop = Stop::default();
        let received = Arc::new(AtomicU64::new(0));
        let copy = |socket: &UdpSocket| socket.try_clone().doing(|| "copy a UDP socket".to_owned());
        let sink = sink(copy(&self.sink)?, stop.flag(), Arc::clone(&received));
        let listener = listen(copy(&self.source)?, stop.flag());
        let began = Clock::now();
        let sent = self.send(began, signals, check, &mut || {
            progress(received.load(Ordering::Relaxed) * self.payload.get());
        })?;
        let last_sent = Clock::now();
        while received.load(Ordering::Relaxed) < sent && Clock::now() < last_sent + DRAIN {
            crate::pause::pause(TURN)?;
            if signals.take().is_some() {
                return Err(LabError::Interrupted);
            }
        }
        // The acknowledgement of the last one is on its way.
        crate::pause::pause(TURN * 10)?;
        drop(stop);
        let (arrived, last, marks) = joined(sink)?;
        let round_trips = joined(listener)?;
        let is_whole = sent * self.payload.get() == self.expected.get();
        let outcome = Outcome {
            flow: 0,
            started: began,
            first_byte: marks.first().map(|(at, _)| *at),
            ended: last.map_or(began + self.length, |last| last.max(began + self.length)),
            bytes: arrived * self.payload.get(),
            sha256: if is_whole { content.sha256.clone() } else { String::new() },
            marks: marks.into_iter().map(|(at, count)| (at, count * self.payload.get())).collect(),
            is_cut_short: false,
            error: None,
        };
        Ok((outcome, DatagramLog { sent, received: arrived, round_trips }))
    }

    /// Sends every datagram at its time; how many.
    fn send(
        &self,
        began: Instant,
        signals: &Signals,
        check: &mut dyn FnMut() -> Result<(), LabError>,
        progress: &mut dyn FnMut(),
    ) -> Result<u64, LabError> {
        let count = self.expected.get() / self.payload.get().max(1);
        let mut waiter = Waiter::new(Duration::ZERO)?;
        let mut datagram =
            vec![0x5a; usize::try_from(self.payload.get()).unwrap_or(STAMP_LEN).max(STAMP_LEN)];
        let mut looked = began;
        for number in 0..count {
            let leaves = began + self.rate.time_for(Bytes::new(self.payload.get().saturating_mul(number)));
            if Clock::now() < leaves {
                waiter.wait(Some(leaves))?;
            }
            let now = Clock::now();
            datagram[..8].copy_from_slice(&number.to_be_bytes());
            datagram[8..STAMP_LEN].copy_from_slice(&now.as_nanos().to_be_bytes());
            // What the kernel does not take is lost like what a queue does not take.
            let _ = self.source.send(&datagram);
            if now.saturating_since(looked) >= TURN {
                looked = now;
                if signals.take().is_some() {
                    return Err(LabError::Interrupted);
                }
                check()?;
                progress();
            }
        }
        Ok(count)
    }
}

/// Ends the threads when it goes, whatever the reason.
#[derive(Default)]
struct Stop(Arc<AtomicBool>);

impl Stop {
    fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Number that arrived, time of the last one, and numbers so far at some moments.
type Arrived = (u64, Option<Instant>, Vec<(Instant, u64)>);

/// Acknowledges every datagram until it is told to stop.
fn sink(socket: UdpSocket, stop: Arc<AtomicBool>, received: Arc<AtomicU64>) -> JoinHandle<Arrived> {
    std::thread::spawn(move || {
        let (mut last, mut marks): (Option<Instant>, Vec<(Instant, u64)>) = (None, Vec::new());
        let mut datagram = [0; 2_048];
        while !stop.load(Ordering::Relaxed) {
            // The time-out of the socket, or an ICMP error of a peer that is gone.
            let Ok((len, from)) = socket.recv_from(&mut datagram) else { continue };
            let Some(stamp) = datagram.get(..STAMP_LEN).filter(|_| len >= STAMP_LEN) else { continue };
            let now = Clock::now();
            let total = received.fetch_add(1, Ordering::Relaxed) + 1;
            last = Some(now);
            mark(&mut marks, now, total);
            // An acknowledgement that is lost is none.
            let _ = socket.send_to(stamp, from);
        }
        (received.load(Ordering::Relaxed), last, marks)
    })
}

/// Notes when acknowledgements come back, until it is told to stop.
fn listen(socket: UdpSocket, stop: Arc<AtomicBool>) -> JoinHandle<Vec<(Instant, Duration)>> {
    std::thread::spawn(move || {
        let mut round_trips = Vec::new();
        let mut acknowledgement = [0; 64];
        while !stop.load(Ordering::Relaxed) {
            let Ok(len) = socket.recv(&mut acknowledgement) else { continue };
            let now = Clock::now();
            let Some(stamp) = acknowledgement[..len].get(8..).and_then(|rest| rest.first_chunk()) else {
                continue;
            };
            let left = Instant::from_nanos(u64::from_be_bytes(*stamp));
            round_trips.push((now, now.saturating_since(left)));
        }
        round_trips
    })
}

fn joined<T>(thread: JoinHandle<T>) -> Result<T, LabError> {
    thread.join().map_err(|_| LabError::Program {
        program: "UDP source and sink".to_owned(),
        message: "a thread of theirs ended with a panic".to_owned(),
    })
}
