//! [`start`]: a program in the server's namespace that writes a file to each client no faster than a set rate.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use io::{Clock, Namespace};
use units::{Bytes, Duration, Rate};

use crate::LabError;
use crate::listener::{Listener, is_time_out, write_all};
use crate::origin::Content;
use crate::pause::pause;

/// A piece is written this often.
const PIECE_EVERY: Duration = Duration::from_millis(20);
/// Longest time that a socket may hold a thread up before it looks whether it is to end.
const TURN: std::time::Duration = std::time::Duration::from_millis(100);
/// A request is no longer.
const REQUEST_MAX: usize = 16 * 1024;
const BLOCK: usize = 1 << 16;

/// Content that every client gets.
struct Job {
    path: PathBuf,
    size: Bytes,
    rate: Rate,
}

/// Listens at `address`, port 80, in `server`, and answers every HTTP request with `content`, at a set rate.
///
/// # Errors
/// When it cannot listen there.
pub fn start(
    server: &Namespace,
    address: SocketAddr,
    content: &Content,
    rate: Rate,
) -> Result<Listener, LabError> {
    let job = Job { path: content.path.clone(), size: content.size, rate };
    // A client that goes away is its own affair: what it got is compared there.
    Listener::start(server, address, move |client, is_over| drop(serve(client, &job, is_over)))
}

/// Reads one request and writes the file.
fn serve(mut client: TcpStream, job: &Job, is_over: &AtomicBool) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    client.set_read_timeout(Some(TURN))?;
    client.set_write_timeout(Some(TURN))?;
    let is_over = || is_over.load(Ordering::Relaxed);
    if !has_asked(&mut client, &is_over)? {
        return Ok(());
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n",
        job.size.get()
    );
    write_all(&mut client, head.as_bytes(), &is_over)?;
    let mut file = File::open(&job.path)?;
    let (began, mut written) = (Clock::now(), 0);
    let mut block = vec![0; BLOCK];
    while written < job.size.get() && !is_over() {
        let due = Due::after(Clock::now().saturating_since(began), job.rate);
        let allowed = due.bytes.min(job.size.get());
        let len = usize::try_from(allowed.saturating_sub(written)).unwrap_or(BLOCK).min(BLOCK);
        if len == 0 {
            pause(due.next_in).map_err(std::io::Error::other)?;
            continue;
        }
        file.seek(SeekFrom::Start(written))?;
        let len = file.read(&mut block[..len])?;
        write_all(&mut client, &block[..len], &is_over)?;
        written += len as u64;
    }
    Ok(())
}

/// Amount of data that a program that writes at a rate has to have written at some moment.
///
/// Whole pieces only: one that writes whatever the rate allows by then writes a byte or two at a time, each a
/// segment of its own. A hundred thousand of those a second take the processors from emulator and client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Due {
    bytes: u64,
    /// Until the next piece.
    next_in: Duration,
}

impl Due {
    /// Says it for `elapsed` after the first piece.
    fn after(elapsed: Duration, rate: Rate) -> Self {
        let pieces = elapsed.as_nanos() / PIECE_EVERY.as_nanos() + 1;
        let until = PIECE_EVERY * pieces;
        Self { bytes: rate.bytes_in(until).get(), next_in: until.saturating_sub(elapsed) }
    }
}

/// Waits for the empty line behind a request; false when the client goes or all is to end.
fn has_asked(client: &mut TcpStream, is_over: &dyn Fn() -> bool) -> std::io::Result<bool> {
    let (mut request, mut block) = (Vec::new(), [0; 1_024]);
    while !is_over() && request.len() < REQUEST_MAX {
        match client.read(&mut block) {
            Ok(0) => return Ok(false),
            Ok(len) => request.extend_from_slice(&block[..len]),
            Err(error) if is_time_out(&error) => {}
            Err(error) => return Err(error),
        }
        if request.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_written_in_pieces_and_what_was_missed_is_caught_up_with() {
        let due = |ms| Due::after(Duration::from_millis(ms), Rate::from_kbps(3_200));
        assert_eq!(due(0), Due { bytes: 8_000, next_in: Duration::from_millis(20) });
        assert_eq!(due(19), Due { bytes: 8_000, next_in: Duration::from_millis(1) });
        assert_eq!(due(20), Due { bytes: 16_000, next_in: Duration::from_millis(20) });
        assert_eq!(due(7_005), Due { bytes: 351 * 8_000, next_in: Duration::from_millis(15) });
    }
}
