//! The two ends of multi-path transfers: content that follows from a seed goes either way, and whoever receives
//! it checks every byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use io::{Clock, Namespace};
use sha2::{Digest, Sha256};
use units::{Duration, GOLDEN_GAMMA, Instant, mix64};

use crate::LabError;
use crate::listener::{Listener, is_time_out, write_all};
use crate::origin::hexadecimal;
use crate::pause::pause;

/// Port of the server.
pub(crate) const PORT: u16 = 9000;
const BLOCK: usize = 1 << 16;
/// Interval of the checks of threads whether they are to end.
const TURN: std::time::Duration = std::time::Duration::from_millis(50);
/// Shorter times without a byte are no stalls.
const STALL_MIN: Duration = Duration::from_millis(50);
const CONNECT_MAX: Duration = Duration::from_secs(20);

/// Content that depends on a seed and a place only (SplitMix64).
pub(crate) struct Content {
    seed: u64,
    at: u64,
}

impl Content {
    /// From its start on.
    pub fn new(seed: u64) -> Self {
        Self { seed, at: 0 }
    }

    /// The next bytes; a whole number of words but for the last ones.
    pub fn fill(&mut self, block: &mut [u8]) {
        for chunk in block.chunks_mut(8) {
            self.at += 1;
            let word = mix64(self.seed.wrapping_add(self.at.wrapping_mul(GOLDEN_GAMMA)));
            chunk.copy_from_slice(&word.to_be_bytes()[..chunk.len()]);
        }
    }
}

/// Length of a request: seed, size, and until when the server receives (0: it sends), ns of [`Clock`].
const REQUEST_LEN: usize = 24;

/// A server that sends as much as it is asked for, or receives and checks; ends when dropped.
pub(crate) struct ContentServer {
    received: Received,
    _listener: Listener,
}

/// Results of uploads that nobody has asked for yet.
type Received = Arc<Mutex<Vec<Transfer>>>;

impl ContentServer {
    /// `congestion_control`: of its connections; none: that of the namespace.
    pub fn start(
        namespace: &Namespace,
        at: SocketAddr,
        is_multi_path: bool,
        congestion_control: Option<String>,
    ) -> Result<Self, LabError> {
        let listener = namespace.run(|| io::listen_multi_path(at, is_multi_path))??;
        let received = Received::default();
        let theirs = Arc::clone(&received);
        let listener = Listener::of(namespace, listener, move |stream, stop| {
            serve(stream, congestion_control.as_deref(), stop, &theirs);
        })?;
        Ok(Self { received, _listener: listener })
    }

    /// Result of the next upload; waits a moment for it.
    pub fn received(&self) -> Option<Transfer> {
        let limit = Clock::now() + Duration::from_secs(2);
        loop {
            let got = self.received.lock().unwrap_or_else(PoisonError::into_inner).pop();
            if got.is_some() || Clock::now() > limit || pause(Duration::from_millis(10)).is_err() {
                return got;
            }
        }
    }
}

/// Reads a request, then sends or receives.
fn serve(mut stream: TcpStream, congestion_control: Option<&str>, stop: &AtomicBool, received: &Received) {
    let accepted = Clock::now();
    let _ = stream.set_nodelay(true);
    let _ = stream.set_write_timeout(Some(TURN));
    // A connection that has another than was asked for would give a wrong figure: it gives none.
    if let Some(name) = congestion_control
        && io::set_congestion_control(&stream, name).is_err()
    {
        return;
    }
    let mut request = [0_u8; REQUEST_LEN];
    if stream.read_exact(&mut request).is_err() {
        return;
    }
    let number = |at: usize| request[at..at + 8].try_into().map_or(0, u64::from_be_bytes);
    let (seed, size, until) = (number(0), number(8), number(16));
    if until == 0 {
        let is_over = || stop.load(Ordering::Relaxed);
        // Whoever asked says what is missing.
        let _ = send(&mut stream, (seed, size), &is_over);
        return;
    }
    let _ = stream.set_read_timeout(Some(TURN));
    let mut result = Transfer::begun(accepted);
    receive(&mut stream, (seed, size), Instant::from_nanos(until), &mut result);
    received.lock().unwrap_or_else(PoisonError::into_inner).push(result);
}

/// Sends `size` bytes of content, or until it is over.
fn send(stream: &mut TcpStream, (seed, size): (u64, u64), is_over: &dyn Fn() -> bool) -> std::io::Result<()> {
    let (mut content, mut left) = (Content::new(seed), size);
    let mut block = vec![0; BLOCK];
    while left > 0 && !is_over() {
        let len = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        content.fill(&mut block[..len]);
        if !write_all(stream, &block[..len], is_over)? {
            break;
        }
        left -= len as u64;
    }
    Ok(())
}

/// Result of a download or an upload.
#[derive(Debug, Default)]
pub(crate) struct Transfer {
    pub connected: Option<Duration>,
    /// Time of the beginning, and time from then until the first byte.
    pub began: Instant,
    pub answered: Option<Duration>,
    pub bytes: u64,
    pub ended: Option<Instant>,
    pub connected_at: Option<Instant>,
    /// Times when nothing came for [`STALL_MIN`] and more, with their durations.
    pub stalls: Vec<(Instant, Duration)>,
    pub is_intact: bool,
    pub sha256: String,
    pub is_multi_path: bool,
    pub error: Option<String>,
}

impl Transfer {
    fn begun(began: Instant) -> Self {
        Self { is_intact: true, began, ..Self::default() }
    }
}

/// Connects and asks; none, with the error in `result`, when that fails.
fn ask(
    to: SocketAddr,
    request: [u64; 3],
    end: Instant,
    is_multi_path: bool,
    result: &mut Transfer,
) -> Option<TcpStream> {
    let time_max = CONNECT_MAX.min(end.saturating_since(result.began));
    let mut stream = match io::connect_multi_path(to, is_multi_path, time_max) {
        Ok(stream) => stream,
        Err(error) => {
            result.error = Some(error.to_string());
            return None;
        }
    };
    let connected_at = Clock::now();
    result.connected = Some(connected_at.saturating_since(result.began));
    result.connected_at = Some(connected_at);
    let _ = stream.set_read_timeout(Some(TURN));
    let _ = stream.set_write_timeout(Some(TURN));
    if let Err(error) = stream.write_all(&request.map(u64::to_be_bytes).concat()) {
        result.error = Some(error.to_string());
        return None;
    }
    Some(stream)
}

/// Downloads `size` bytes or until `end`, checking each.
pub(crate) fn download(
    to: SocketAddr,
    (seed, size): (u64, u64),
    end: Instant,
    is_multi_path: bool,
) -> Transfer {
    let mut result = Transfer::begun(Clock::now());
    if let Some(mut stream) = ask(to, [seed, size, 0], end, is_multi_path, &mut result) {
        receive(&mut stream, (seed, size), end, &mut result);
    }
    result
}

/// Uploads `size` bytes or until `end`. What arrived, [`ContentServer::received`] says.
pub(crate) fn upload(
    to: SocketAddr,
    (seed, size): (u64, u64),
    end: Instant,
    is_multi_path: bool,
) -> Transfer {
    let mut result = Transfer::begun(Clock::now());
    let request = [seed, size, end.as_nanos()];
    let Some(mut stream) = ask(to, request, end, is_multi_path, &mut result) else { return result };
    let sent = send(&mut stream, (seed, size), &|| Clock::now() >= end);
    result.is_multi_path = io::is_multi_path(&stream);
    // The server closes when it has everything, or when the time is over: then it may refuse what still comes.
    let mut sink = [0_u8; 1];
    while Clock::now() < end && matches!(stream.read(&mut sink), Err(error) if is_time_out(&error)) {}
    result.error = sent.err().filter(|_| Clock::now() < end).map(|error| error.to_string());
    result
}

/// Receives `size` bytes or until `end`, checking each.
fn receive(stream: &mut TcpStream, (seed, size): (u64, u64), end: Instant, result: &mut Transfer) {
    let mut hash = Sha256::new();
    let mut content = Content::new(seed);
    // The sender fills blocks of its own size from the start of a word.
    let (mut expected, mut ahead) = (vec![0_u8; BLOCK], 0);
    let mut block = vec![0_u8; BLOCK];
    let mut last = result.connected_at.unwrap_or(result.began);
    while result.bytes < size {
        let now = Clock::now();
        if now >= end {
            break;
        }
        let len = match stream.read(&mut block) {
            Ok(0) => {
                result.error = Some(format!("the other end closed after {} bytes", result.bytes));
                break;
            }
            Ok(len) => len,
            Err(error) if is_time_out(&error) => continue,
            Err(error) => {
                result.error = Some(format!("after {} bytes: {error}", result.bytes));
                break;
            }
        };
        let now = Clock::now();
        if result.answered.is_none() {
            result.answered = Some(now.saturating_since(result.began));
        } else if now.saturating_since(last) >= STALL_MIN {
            result.stalls.push((last, now.saturating_since(last)));
        }
        last = now;
        hash.update(&block[..len]);
        for byte in &block[..len] {
            if ahead == 0 {
                let left = usize::try_from(size - (result.bytes / BLOCK as u64) * BLOCK as u64);
                let len = left.unwrap_or(BLOCK).min(BLOCK);
                content.fill(&mut expected[..len]);
            }
            result.is_intact &= *byte == expected[ahead];
            ahead = (ahead + 1) % BLOCK;
            result.bytes += 1;
        }
    }
    if result.bytes < size && result.error.is_none() {
        let open = Clock::now().saturating_since(last);
        if open >= STALL_MIN {
            result.stalls.push((last, open));
        }
    }
    result.ended = Some(if result.bytes >= size { last } else { Clock::now() });
    result.is_multi_path = io::is_multi_path(stream);
    result.sha256 = hexadecimal(&hash.finalize());
}
