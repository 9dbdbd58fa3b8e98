//! Questions and answers in turn over one connection, each answer checked byte by byte.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use io::Clock;
use units::{Duration, Instant};

use crate::listener::read_exact;
use crate::pause::pause;
use crate::radios::ends::Content;

/// A question: the seed of the answer, and its size.
const QUESTION_LEN: usize = 16;
/// Interval of the checks of threads whether they are to end.
const TURN: std::time::Duration = std::time::Duration::from_millis(100);
const CONNECT_MAX: Duration = Duration::from_secs(20);

/// Answers questions until the other end closes, or it is to stop.
pub(crate) fn answer(mut stream: TcpStream, stop: &AtomicBool) {
    let _ = stream.set_nodelay(true);
    let _ = stream.set_read_timeout(Some(TURN));
    let mut question = [0; QUESTION_LEN];
    while matches!(read_exact(&mut stream, &mut question, &|| stop.load(Ordering::Relaxed)), Ok(true)) {
        let number = |at: usize| question[at..at + 8].try_into().map_or(0, u64::from_be_bytes);
        let (seed, size) = (number(0), usize::try_from(number(8)).unwrap_or(0));
        let mut bytes = vec![0; size];
        Content::new(seed).fill(&mut bytes);
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// Results of questions and answers.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    /// Time at which each question was put, and the time until its answer was whole.
    pub answers: Vec<(Instant, Duration)>,
    pub bytes: u64,
    pub is_intact: bool,
    pub error: Option<String>,
}

/// Asks until `end`.
pub(crate) fn ask(to: SocketAddr, (seed, size, think): (u64, u64, Duration), end: Instant) -> Exchanges {
    let mut result = Exchanges { is_intact: true, ..Exchanges::default() };
    if let Err(error) = ask_on(to, (seed, size, think), end, &mut result) {
        result.error = Some(error.to_string());
    }
    result
}

fn ask_on(
    to: SocketAddr,
    (seed, size, think): (u64, u64, Duration),
    end: Instant,
    result: &mut Exchanges,
) -> std::io::Result<()> {
    let time_max = std::time::Duration::from_nanos(CONNECT_MAX.as_nanos());
    let mut stream = TcpStream::connect_timeout(&to, time_max)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TURN))?;
    let (mut number, mut wanted) = (seed << 32, vec![0; usize::try_from(size).unwrap_or(0)]);
    let mut got = wanted.clone();
    while Clock::now() < end {
        number += 1;
        let asked = Clock::now();
        stream.write_all(&[number, size].map(u64::to_be_bytes).concat())?;
        if !read_exact(&mut stream, &mut got, &|| Clock::now() >= end)? {
            return Ok(());
        }
        result.answers.push((asked, Clock::now().saturating_since(asked)));
        result.bytes += size;
        Content::new(number).fill(&mut wanted);
        result.is_intact &= got == wanted;
        pause(think).map_err(std::io::Error::other)?;
    }
    Ok(())
}
