//! [`Timed`]: a connection whose reads and writes end by a deadline, however slowly the other end talks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use ::io::Clock;
use units::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Timed {
    stream: TcpStream,
    give_up: Instant,
}

impl Timed {
    pub fn new(stream: TcpStream, time: Duration) -> Self {
        Self { stream, give_up: Clock::now() + time }
    }

    /// Allows this much time from now on.
    pub fn allow(&mut self, time: Duration) {
        self.give_up = Clock::now() + time;
    }

    fn left(&self) -> io::Result<std::time::Duration> {
        let left = self.give_up.saturating_since(Clock::now());
        if left == Duration::ZERO {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(std::time::Duration::from_nanos(left.as_nanos()))
    }
}

impl Read for Timed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buf)
    }
}

impl Write for Timed {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
