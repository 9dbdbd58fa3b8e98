//! Connections over the system's own TCP: what can be learned without root.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use io::{Clock, IoError, TcpInfo, Waiter};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use units::Duration;

use crate::seen::refusal_number;
use crate::tcp_socket::wait_at_most;
use probe::order::Answer;

/// Longest time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(12);
/// Longest answer that is read.
const ANSWER_MAX: u64 = 64 << 10;
/// Receive buffer of a connection that reads nothing: the least that the kernel gives.
const SMALL_BUFFER: usize = 2_048;
const PEEK_MAX: usize = 1 << 20;

/// A request over the system's TCP.
#[derive(Clone, Debug)]
pub(super) struct Get {
    pub(super) port: u16,
    pub(super) run: u32,
    pub(super) request: Vec<u8>,
    pub(super) outcome: Result<Answered, Failed>,
}

/// Result of a connection with its answer.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) local: SocketAddr,
    pub(super) handshake: Duration,
    /// From the request to the first byte's arrival.
    pub(super) answered: Duration,
    pub(super) answer: Vec<u8>,
    /// State of the connection in this end's kernel.
    pub(super) info: TcpInfo,
}

/// Reason why there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Failed {
    /// A reset instead of a connection.
    Refused,
    /// No connection in time.
    Silent,
    /// A connection, and then no answer.
    Unanswered(String),
    /// It was stopped, or never begun.
    Stopped,
}

/// A connection that reads nothing.
#[derive(Clone, Debug)]
pub(super) struct Filled {
    pub(super) port: u16,
    pub(super) run: u32,
    /// Bytes that had come to this machine when the server's time was over.
    pub(super) received: Result<u64, Failed>,
}

/// Questions to a port.
#[derive(Clone, Debug)]
pub(super) struct PortPlan {
    pub(super) to: SocketAddr,
    /// Run and request, the same again and again.
    pub(super) get: (u32, Vec<u8>),
    pub(super) repetitions: u32,
    /// Run and request of the connection that reads nothing, and for how long the server sends.
    pub(super) fill: (u32, Vec<u8>, Duration),
    /// The largest round trip that was seen.
    pub(super) rtt: Duration,
}

/// Asks a port.
pub(super) fn ask(
    plan: &PortPlan,
    is_stopped: &AtomicBool,
    done: &AtomicUsize,
) -> Result<(Vec<Get>, Filled), IoError> {
    let port = plan.to.port();
    let mut gets: Vec<Get> = Vec::new();
    for _ in 0..plan.repetitions {
        let outcome = if is_stopped.load(Ordering::SeqCst) {
            Err(Failed::Stopped)
        } else {
            get(plan.to, &plan.get.1, patience(plan.rtt))
        };
        done.fetch_add(1, Ordering::SeqCst);
        gets.push(Get { port, run: plan.get.0, request: plan.get.1.clone(), outcome });
    }
    let received = if is_stopped.load(Ordering::SeqCst) {
        Err(Failed::Stopped)
    } else {
        let time = plan.fill.2 + plan.rtt * 2 + Duration::from_millis(500);
        fill(plan.to, &plan.fill.1, (patience(plan.rtt), time), is_stopped)?
    };
    done.fetch_add(1, Ordering::SeqCst);
    Ok((gets, Filled { port, run: plan.fill.0, received }))
}

/// Longest time that a connection may take: some SYNs may be lost.
pub(super) fn patience(rtt: Duration) -> Duration {
    Duration::from_secs(4).max(rtt * 5)
}

fn failed(error: &std::io::Error) -> Failed {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Failed::Refused,
        _ => Failed::Silent,
    }
}

fn std_time(time: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(time.as_nanos())
}

/// Connects; with the least receive buffer where that is wanted.
pub(super) fn connect(to: SocketAddr, patience: Duration, is_small: bool) -> Result<TcpStream, Failed> {
    let open = || -> std::io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        if is_small {
            socket.set_recv_buffer_size(SMALL_BUFFER)?;
        }
        socket.connect_timeout(&SockAddr::from(to), std_time(patience))?;
        Ok(socket.into())
    };
    open().map_err(|error| failed(&error))
}

fn get(to: SocketAddr, request: &[u8], patience: Duration) -> Result<Answered, Failed> {
    let unanswered = |why: &dyn std::fmt::Display| Failed::Unanswered(why.to_string());
    let begun = Clock::now();
    let mut stream = connect(to, patience, false)?;
    let handshake = Clock::now().saturating_since(begun);
    let local = stream.local_addr().map_err(|error| unanswered(&error))?;
    wait_at_most(&stream, PATIENCE).map_err(|error| unanswered(&error))?;
    let info = TcpInfo::of(&stream).map_err(|error| unanswered(&error))?;
    let asked = Clock::now();
    stream.write_all(request).map_err(|error| unanswered(&error))?;
    let mut answer = vec![0; 1_024];
    let count = stream.read(&mut answer).map_err(|error| unanswered(&error))?;
    let read = Clock::now().saturating_since(asked);
    let answered = TcpInfo::of(&stream).map_or(read, |info| without_own_wait(read, &info, Clock::tick()));
    answer.truncate(count);
    if count == 0 {
        return Err(unanswered(&"it was closed without an answer"));
    }
    (&stream).take(ANSWER_MAX).read_to_end(&mut answer).map_err(|error| unanswered(&error))?;
    // A server that has no room for a connection says so with one byte.
    let lone = if let [byte] = answer[..] { Some(byte) } else { None };
    if let Some(refused) = refusal_number(&answer).or(lone).and_then(Answer::from_byte) {
        return Err(unanswered(&refusal_words(refused)));
    }
    Ok(Answered { local, handshake, answered, answer, info })
}

/// Time to an answer of which this program knows that it took `read`: its part in which the program had no processor,
/// before it sent or after the answer came, is not the path's. The kernel's own times are in steps of a `tick`.
fn without_own_wait(read: Duration, info: &TcpInfo, tick: Duration) -> Duration {
    let by_kernel = info.last_data_sent.saturating_sub(info.last_data_received) + tick;
    read.saturating_sub(info.last_data_received).min(by_kernel)
}

/// Reads nothing for a time, and then counts what has come.
fn fill(
    to: SocketAddr,
    request: &[u8],
    (patience, time): (Duration, Duration),
    is_stopped: &AtomicBool,
) -> Result<Result<u64, Failed>, IoError> {
    let mut stream = match connect(to, patience, true) {
        Ok(stream) => stream,
        Err(failed) => return Ok(Err(failed)),
    };
    if let Err(error) = stream.write_all(request) {
        return Ok(Err(Failed::Unanswered(error.to_string())));
    }
    if !pause(time, is_stopped)? {
        return Ok(Err(Failed::Stopped));
    }
    let _ = stream.set_nonblocking(true);
    let mut room = vec![0; PEEK_MAX];
    Ok(match stream.peek(&mut room) {
        Ok(0) => Err(Failed::Unanswered("it was closed without an answer".to_owned())),
        Ok(count) => Ok(count as u64),
        Err(error) => Err(Failed::Unanswered(error.to_string())),
    })
}

/// False when it was cut short.
fn pause(time: Duration, is_stopped: &AtomicBool) -> Result<bool, IoError> {
    let mut waiter = Waiter::new(Duration::ZERO)?;
    let end = Clock::now() + time;
    while Clock::now() < end && !is_stopped.load(Ordering::SeqCst) {
        waiter.wait(Some(end.min(Clock::now() + Duration::from_millis(100))))?;
    }
    Ok(!is_stopped.load(Ordering::SeqCst))
}

/// Reason why the server does not do what `probe middlebox` asks for.
pub(super) fn refusal_words(answer: Answer) -> String {
    match answer {
        Answer::TooLong => {
            "the server allows only a shorter --delay: less than half its --time-max".to_owned()
        }
        Answer::WrongKey => "wrong key".to_owned(),
        Answer::NoSession => "the server does not know the session any more".to_owned(),
        Answer::Busy => "the server has too many TCP connections: try again in a minute".to_owned(),
        _ => "the server does not understand: use the same version at both ends".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_this_program_are_no_time_of_the_path() {
        let ms = Duration::from_millis;
        let answered = |read: u64, sent: u64, received: u64| {
            let (last_data_sent, last_data_received) = (ms(sent), ms(received));
            let info = TcpInfo { last_data_sent, last_data_received, ..TcpInfo::default() };
            without_own_wait(ms(read), &info, ms(4))
        };
        assert_eq!(answered(21, 20, 0), ms(21));
        assert_eq!(answered(61, 60, 40), ms(21), "it read late");
        assert_eq!(answered(61, 20, 0), ms(24), "it sent late, and the kernel's clock is coarse");
    }
}
