//! A download by a program that reads only some time after something to read has come.

use std::io::{Error, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicU64;

use io::{Clock, Namespace, Waiter};
use sha2::Digest;
use units::{Duration, Instant};

use super::{Arrival, Outcome, failed};
use crate::listener::is_time_out;
use crate::origin::{FILE, hexadecimal};

/// One read takes all there is, of any window in use.
const BLOCK: usize = 1 << 20;
/// Interval at which the time limit is looked at.
const TURN: std::time::Duration = std::time::Duration::from_millis(20);
/// The answer's head is no longer.
const HEAD_MAX: usize = 16 * 1024;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// A download to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub flow: usize,
    pub server: SocketAddr,
    /// From something to read to its reading.
    pub delay: Duration,
    /// Time when it gives up.
    pub until: Instant,
}

/// Downloads the file from within `client`, counting in `received`.
pub(super) fn download(client: &Namespace, asked: &Asked, received: &AtomicU64) -> Outcome {
    let started = Clock::now();
    let mut arrival = Arrival::default();
    let end = match client.run(|| read(asked, &mut arrival, received)) {
        Ok(end) => end.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    arrival.end();
    let is_cut_short = end == Ok(End::OutOfTime);
    Outcome {
        flow: asked.flow,
        started,
        first_byte: arrival.first,
        ended: if is_cut_short { Clock::now() } else { arrival.last.unwrap_or_else(Clock::now) },
        bytes: arrival.bytes,
        sha256: hexadecimal(&arrival.hash.finalize()),
        marks: arrival.marks,
        is_cut_short,
        error: end.err().map(|why| failed(why).to_string()),
    }
}

/// Reason why reading ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Complete,
    OutOfTime,
}

fn read(asked: &Asked, arrival: &mut Arrival, received: &AtomicU64) -> std::io::Result<End> {
    let left = asked.until.saturating_since(Clock::now());
    let limit = std::time::Duration::from_nanos(left.as_nanos().max(1));
    let mut socket = match TcpStream::connect_timeout(&asked.server, limit) {
        Ok(socket) => socket,
        Err(error) if is_time_out(&error) => return Ok(End::OutOfTime),
        Err(error) => return Err(error),
    };
    socket.set_read_timeout(Some(TURN))?;
    let request = format!("GET /{FILE} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", asked.server);
    socket.write_all(request.as_bytes())?;
    let mut late = Waiter::new(Duration::ZERO).map_err(Error::other)?;
    let (mut head, mut block) = (Some(Vec::new()), vec![0; BLOCK]);
    while Clock::now() < asked.until {
        let is_there = socket.peek(&mut [0]);
        late.wait(Some(Clock::now() + asked.delay)).map_err(Error::other)?;
        let len = match is_there.and_then(|_| socket.read(&mut block)) {
            Ok(0) => return Ok(End::Complete),
            Ok(len) => len,
            Err(error) if is_time_out(&error) => continue,
            Err(error) => return Err(error),
        };
        let Some(text) = head.as_mut() else {
            arrival.take(&block[..len], received);
            continue;
        };
        text.extend_from_slice(&block[..len]);
        if let Some(body) = body_of(text)? {
            arrival.take(&text[body..], received);
            head = None;
        }
    }
    Ok(End::OutOfTime)
}

/// Beginning of the body behind the head of an answer; none while the head is not there.
fn body_of(text: &[u8]) -> std::io::Result<Option<usize>> {
    match text.windows(HEAD_END.len()).position(|window| window == HEAD_END) {
        Some(at) if text.starts_with(b"HTTP/1.1 200 ") => Ok(Some(at + HEAD_END.len())),
        None if text.len() < HEAD_MAX => Ok(None),
        _ => Err(Error::other("the answer is not the file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_begins_behind_the_head_and_another_answer_is_an_error() {
        assert_eq!(body_of(b"HTTP/1.1 200 OK\r\nA: b\r\n").unwrap(), None);
        assert_eq!(body_of(b"HTTP/1.1 200 OK\r\n\r\nxy").unwrap(), Some(19));
        assert!(body_of(b"HTTP/1.1 404 Not Found\r\n\r\n").is_err());
        assert!(body_of(&[b'x'; HEAD_MAX]).is_err());
    }
}
