//! The two ends of multi-path transfers: a server of numbered content, and a client that checks every byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use io::{Clock, Namespace};
use sha2::{Digest, Sha256};
use units::{Duration, Instant};

use crate::LabError;
use crate::error::Context;
use crate::origin::hexadecimal;

/// Port of the server.
pub(crate) const PORT: u16 = 9000;
const BLOCK: usize = 1 << 16;
/// How often threads look whether they are to end.
const TURN: std::time::Duration = std::time::Duration::from_millis(50);
/// Shorter times without a byte are no stalls.
const STALL_MIN: Duration = Duration::from_millis(50);
const CONNECT_MAX: Duration = Duration::from_secs(20);

/// Content that depends on a seed and a place only (SplitMix64).
struct Content {
    seed: u64,
    at: u64,
}

impl Content {
    fn fill(&mut self, block: &mut [u8]) {
        for chunk in block.chunks_mut(8) {
            self.at += 1;
            let mut z = self.seed.wrapping_add(self.at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(z ^ (z >> 31)).to_be_bytes()[..chunk.len()]);
        }
    }
}

/// A server that sends as much as it is asked for; ends when dropped.
pub(crate) struct ContentServer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ContentServer {
    pub fn start(namespace: &Namespace, at: SocketAddr, is_multi_path: bool) -> Result<Self, LabError> {
        let listener = namespace.run(|| io::listen_multi_path(at, is_multi_path))??;
        listener.set_nonblocking(true).doing(|| "make a socket non-blocking".to_owned())?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || accept(&listener, &flag));
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for ContentServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic would be a test's.
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, stop: &Arc<AtomicBool>) {
    let Ok(mut waiter) = io::Waiter::new(Duration::ZERO) else { return };
    if waiter.add(listener, io::Interest::Read, 0).is_err() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        if let Ok((stream, _)) = listener.accept() {
            let stop = Arc::clone(stop);
            std::thread::spawn(move || serve(stream, &stop));
        } else {
            let _ = waiter.wait(Some(Clock::now() + Duration::from_millis(50)));
        }
    }
}

/// Reads a request (seed and size) and sends.
fn serve(mut stream: TcpStream, stop: &AtomicBool) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_nodelay(true);
    let _ = stream.set_write_timeout(Some(TURN));
    let mut request = [0_u8; 16];
    if stream.read_exact(&mut request).is_err() {
        return;
    }
    let number = |at: usize| request[at..at + 8].try_into().map_or(0, u64::from_be_bytes);
    let (mut content, mut left) = (Content { seed: number(0), at: 0 }, number(8));
    let mut block = vec![0; BLOCK];
    while left > 0 && !stop.load(Ordering::Relaxed) {
        let len = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        content.fill(&mut block[..len]);
        let mut sent = 0;
        while sent < len {
            match stream.write(&block[sent..len]) {
                Ok(0) => return,
                Ok(n) => sent += n,
                Err(error) if is_pause(&error) && !stop.load(Ordering::Relaxed) => {}
                Err(_) => return,
            }
        }
        left -= len as u64;
    }
}

fn is_pause(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// What a download gave.
#[derive(Debug, Default)]
pub(crate) struct Download {
    pub connected: Option<Duration>,
    pub answered: Option<Duration>,
    pub bytes: u64,
    pub ended: Option<Instant>,
    pub connected_at: Option<Instant>,
    /// When nothing came for [`STALL_MIN`] and more, and for how long.
    pub stalls: Vec<(Instant, Duration)>,
    pub is_intact: bool,
    pub sha256: String,
    pub is_multi_path: bool,
    pub error: Option<String>,
}

/// Downloads `size` bytes or until `end`, checking each; `start` is when to begin.
pub(crate) fn download(
    to: SocketAddr,
    (seed, size): (u64, u64),
    end: Instant,
    is_multi_path: bool,
) -> Download {
    let began = Clock::now();
    let mut result = Download { is_intact: true, ..Download::default() };
    let time_max = CONNECT_MAX.min(end.saturating_since(began));
    let mut stream = match io::connect_multi_path(to, is_multi_path, time_max) {
        Ok(stream) => stream,
        Err(error) => {
            result.error = Some(error.to_string());
            return result;
        }
    };
    let connected_at = Clock::now();
    result.connected = Some(connected_at.saturating_since(began));
    result.connected_at = Some(connected_at);
    let mut request = seed.to_be_bytes().to_vec();
    request.extend(size.to_be_bytes());
    let _ = stream.set_read_timeout(Some(TURN));
    if let Err(error) = stream.write_all(&request) {
        result.error = Some(error.to_string());
        return result;
    }
    let mut hash = Sha256::new();
    let mut content = Content { seed, at: 0 };
    // The server fills blocks of its own size from the start of a word.
    let (mut expected, mut ahead) = (vec![0_u8; BLOCK], 0);
    let mut block = vec![0_u8; BLOCK];
    let mut last = connected_at;
    while result.bytes < size {
        let now = Clock::now();
        if now >= end {
            break;
        }
        let len = match stream.read(&mut block) {
            Ok(0) => {
                result.error = Some(format!("the server ended after {} bytes", result.bytes));
                break;
            }
            Ok(len) => len,
            Err(error) if is_pause(&error) => continue,
            Err(error) => {
                result.error = Some(format!("after {} bytes: {error}", result.bytes));
                break;
            }
        };
        let now = Clock::now();
        if result.answered.is_none() {
            result.answered = Some(now.saturating_since(began));
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
    result.is_multi_path = io::is_multi_path(&stream);
    result.sha256 = hexadecimal(&hash.finalize());
    result
}
