//! [`serve`]: lets views of other machines ask, from a process that can do nothing else.
//!
//! ```text
//!   connection ─ is there room? ─ TLS, hello, token in time? ─ question ─▶ one at a time ─▶ the gate
//!                     no: closed                  no: closed
//! ```

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use units::Duration;

use crate::gate::write_line;
use crate::question::{Greeting, Hello, read_line};
use crate::timed::Timed;
use crate::tls::Secrets;
use crate::{PROTOCOL, TopError};

/// Connections at a time; another one is closed at once.
const CONNECTIONS_MAX: usize = 32;

/// Longest time until a view is known to be one.
const HELLO_TIME_MAX: Duration = Duration::from_secs(5);

/// Longest silence of a view, and longest time for taking an answer in.
const SILENCE_MAX: Duration = Duration::from_secs(120);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest line of the gate, bytes.
const ANSWER_LEN_MAX: u64 = 8 << 20;

/// Delay of the answer to a wrong token.
const WRONG_TOKEN_PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

/// After a connection could not be taken in, it waits so long: as a rule no descriptor is left.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// State that all connections share.
struct Shared {
    secrets: Secrets,
    tls: Arc<ServerConfig>,
    gate: Mutex<BufReader<UnixStream>>,
    visitors: AtomicUsize,
}

/// Serves what the process at the other end of `gate` tells, whose first line are the secrets. `ready` is told where.
///
/// # Errors
/// The address cannot be listened at, or the gate speaks otherwise.
pub fn serve(listen: SocketAddr, gate: UnixStream, ready: impl FnOnce(SocketAddr)) -> Result<(), TopError> {
    let mut gate = BufReader::new(gate);
    let mut line = Vec::new();
    let hear = || TopError::doing("hear the process beside this one");
    (&mut gate).take(ANSWER_LEN_MAX).read_until(b'\n', &mut line).map_err(hear())?;
    let secrets: Secrets =
        serde_json::from_slice(&line).map_err(|error| hear()(std::io::Error::other(error)))?;
    let tls = secrets.config().map_err(TopError::Setting)?;
    let doing = || TopError::doing(format!("listen at {listen}"));
    let listener = TcpListener::bind(listen).map_err(doing())?;
    ready(listener.local_addr().map_err(doing())?);
    let shared = Arc::new(Shared { secrets, tls, gate: Mutex::new(gate), visitors: AtomicUsize::new(0) });
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            thread::park_timeout(ACCEPT_PAUSE);
            continue;
        };
        let Some(visit) = Visit::begin(&shared) else { continue };
        // Who is too slow, or says what nobody understands, has lost nothing but its connection.
        drop(thread::Builder::new().spawn(move || drop(visit.converse(stream))));
    }
    Ok(())
}

/// A connection, and its place among those that there may be.
struct Visit(Arc<Shared>);

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.visitors.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Visit {
    fn begin(shared: &Arc<Shared>) -> Option<Self> {
        let visit = Self(Arc::clone(shared));
        (shared.visitors.fetch_add(1, Ordering::SeqCst) < CONNECTIONS_MAX).then_some(visit)
    }

    fn converse(&self, stream: TcpStream) -> std::io::Result<()> {
        let connection = ServerConnection::new(Arc::clone(&self.0.tls)).map_err(std::io::Error::other)?;
        let tls = StreamOwned::new(connection, Timed::new(stream, HELLO_TIME_MAX));
        let mut stream = BufReader::new(tls);
        let hello: Hello = serde_json::from_slice(&read_line(&mut stream)?)?;
        if !self.0.secrets.is_token(&hello.token) {
            thread::park_timeout(WRONG_TOKEN_PAUSE);
            stream.get_mut().sock.allow(HELLO_TIME_MAX);
            return write_line(stream.get_mut(), &Greeting::WrongToken);
        }
        if hello.protocol != PROTOCOL {
            let version = env!("CARGO_PKG_VERSION").to_owned();
            return write_line(stream.get_mut(), &Greeting::OtherProtocol { protocol: PROTOCOL, version });
        }
        write_line(stream.get_mut(), &Greeting::Welcome)?;
        loop {
            stream.get_mut().sock.allow(SILENCE_MAX);
            let question = read_line(&mut stream)?;
            let answer = self.0.ask(&question)?;
            stream.get_mut().sock.allow(ANSWER_TIME_MAX);
            std::io::Write::write_all(stream.get_mut(), &answer)?;
            std::io::Write::flush(stream.get_mut())?;
        }
    }
}

impl Shared {
    /// Hands a question on as it is: the gate looks at it.
    fn ask(&self, question: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        std::io::Write::write_all(gate.get_mut(), question)?;
        let mut answer = Vec::new();
        (&mut *gate).take(ANSWER_LEN_MAX).read_until(b'\n', &mut answer)?;
        if answer.ends_with(b"\n") { Ok(answer) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }
}
