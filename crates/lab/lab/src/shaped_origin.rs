//! [`ShapedOrigin`]: a program in the server's namespace that writes a file to each client no
//! faster than a set rate.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use io::{Clock, Namespace};
use units::{Bytes, Duration, Rate};

use crate::LabError;
use crate::error::Context;
use crate::origin::Content;
use crate::pause::pause;

/// A piece is written this often.
const PIECE_EVERY: Duration = Duration::from_millis(20);
/// Longest time that a socket may hold a thread up before it looks whether it is to end.
const TURN: std::time::Duration = std::time::Duration::from_millis(100);
/// A request is no longer.
const REQUEST_MAX: usize = 16 * 1024;
const BLOCK: usize = 1 << 16;

/// A program that answers every HTTP request with the same file, at a set rate; ended when dropped.
#[derive(Debug)]
pub struct ShapedOrigin {
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl ShapedOrigin {
    /// Listens at `address`, port 80, in `server`, and serves `content`.
    ///
    /// # Errors
    /// When it cannot listen there.
    pub fn start(
        server: &Namespace,
        address: SocketAddr,
        content: &Content,
        rate: Rate,
    ) -> Result<Self, LabError> {
        let listener = server.run(|| {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?;
        let listener = listener.doing(|| format!("listen at {address}"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let job = Job { path: content.path.clone(), size: content.size, rate, stop: Arc::clone(&stop) };
        Ok(Self { stop, accepting: Some(std::thread::spawn(move || accept(&listener, &job))) })
    }
}

impl Drop for ShapedOrigin {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // One that has panicked has ended too.
        let _ = self.accepting.take().map(JoinHandle::join);
    }
}

/// Content that every client gets.
#[derive(Clone)]
struct Job {
    path: PathBuf,
    size: Bytes,
    rate: Rate,
    stop: Arc<AtomicBool>,
}

impl Job {
    fn is_to_end(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn accept(listener: &TcpListener, job: &Job) {
    let mut serving = Vec::new();
    while !job.is_to_end() {
        match listener.accept() {
            Ok((client, _)) => {
                let job = job.clone();
                // A client that goes away is its own affair: what it got is compared there.
                serving.push(std::thread::spawn(move || {
                    let _ = serve(client, &job);
                }));
            }
            Err(_) if pause(Duration::from_millis(2)).is_ok() => {}
            Err(_) => break,
        }
    }
    for thread in serving {
        let _ = thread.join();
    }
}

/// Reads one request and writes the file.
fn serve(mut client: TcpStream, job: &Job) -> std::io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_nodelay(true)?;
    client.set_read_timeout(Some(TURN))?;
    client.set_write_timeout(Some(TURN))?;
    if !has_asked(&mut client, job)? {
        return Ok(());
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n",
        job.size.get()
    );
    write_all(&mut client, head.as_bytes(), job)?;
    let mut file = File::open(Path::new(&job.path))?;
    let (began, mut written) = (Clock::now(), 0);
    let mut block = vec![0; BLOCK];
    while written < job.size.get() && !job.is_to_end() {
        let due = Due::after(Clock::now().saturating_since(began), job.rate);
        let allowed = due.bytes.min(job.size.get());
        let len = usize::try_from(allowed.saturating_sub(written)).unwrap_or(BLOCK).min(BLOCK);
        if len == 0 {
            pause(due.next_in).map_err(std::io::Error::other)?;
            continue;
        }
        file.seek(SeekFrom::Start(written))?;
        let len = file.read(&mut block[..len])?;
        write_all(&mut client, &block[..len], job)?;
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
fn has_asked(client: &mut TcpStream, job: &Job) -> std::io::Result<bool> {
    let (mut request, mut block) = (Vec::new(), [0; 1_024]);
    while !job.is_to_end() && request.len() < REQUEST_MAX {
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

/// Writes all of `bytes`, however long the client keeps it waiting, unless all is to end.
fn write_all(client: &mut TcpStream, mut bytes: &[u8], job: &Job) -> std::io::Result<()> {
    while !bytes.is_empty() && !job.is_to_end() {
        match client.write(bytes) {
            Ok(len) => bytes = bytes.get(len..).unwrap_or_default(),
            Err(error) if is_time_out(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// True for a call that a time limit ended, and for one to be made again.
pub fn is_time_out(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
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
