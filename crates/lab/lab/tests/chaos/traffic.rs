//! [`Traffic`]: downloads, uploads, and connections that ask for something now and then, each byte
//! of which is checked.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use io::Namespace;
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};

use crate::chaos::network::SERVER;

/// A transfer that has not moved for so long hangs: longer than what a host's backed-off time-out
/// takes after the longest fault. On a machine with much else to do a fault of two seconds has
/// taken 24, and the host's next try came 25 s later.
pub const HANG: Duration = Duration::from_secs(100);

/// What a client holds of an upload at most, bytes: what it waits for then has little to do with
/// how long the upload is.
const SEND_BUFFER: usize = 256 << 10;

/// Bytes handled at a time.
const CHUNK: usize = 65_536;

/// A prime: no window or packet has a period that divides it.
const BLOCK: usize = 1_000_003;

/// What is sent: the byte at `at` of content `seed`.
fn block() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut bytes = vec![0; BLOCK];
        Xoshiro256PlusPlus::seed_from_u64(1).fill_bytes(&mut bytes);
        bytes.extend_from_within(..CHUNK);
        bytes
    })
}

/// Up to `len` bytes of content `seed` from `at` on.
fn content(seed: u64, at: u64, len: usize) -> &'static [u8] {
    let start = ((seed.wrapping_mul(7_919).wrapping_add(at)) % BLOCK as u64) as usize;
    &block()[start..start + len.min(CHUNK)]
}

/// How a transfer ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// All of it came, as it was sent.
    Whole,
    /// A clean end before the last byte.
    Short,
    /// A byte that is another.
    Wrong,
    /// One of the ends was reset.
    Reset,
    /// Nothing moved for [`HANG`].
    Hung,
    /// No connection was made: the network said so.
    Refused,
}

/// What happened to the transfers of one kind.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    ends: BTreeMap<(&'static str, End), u64>,
    /// The client's ports of those that did not end as they should, and what they were.
    pub troubled: Vec<(u16, String)>,
}

impl Tally {
    pub fn count(&self, end: &End) -> u64 {
        self.ends.iter().filter(|((_, other), _)| other == end).map(|(_, count)| count).sum()
    }

    pub fn summary(&self) -> String {
        let parts: Vec<String> =
            self.ends.iter().map(|((kind, end), count)| format!("{kind} {end:?} {count}")).collect();
        parts.join(", ")
    }
}

/// What all threads share.
struct Shared {
    is_over: AtomicBool,
    tally: Mutex<Tally>,
    /// Told the port of a transfer that has ended well: what was captured of it is not needed.
    forget: Box<dyn Fn(u16) + Send + Sync>,
}

impl Shared {
    fn note(&self, kind: &'static str, port: u16, what: &str, end: End) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        match end {
            End::Whole => (self.forget)(port),
            End::Refused => {}
            _ => {
                let line = format!("{kind} {what} from port {port}: {end:?}");
                eprintln!("  {line}");
                tally.troubled.push((port, line));
            }
        }
        *tally.ends.entry((kind, end)).or_default() += 1;
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// How many connections of each kind there are at a time.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    pub downloads: usize,
    pub uploads: usize,
    pub idle: usize,
    pub keep_alive: usize,
    /// Longest transfer, bytes.
    pub len_max: u64,
}

/// Running transfers.
pub struct Traffic {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Begins; each worker's choices come from `seed`.
    pub fn start(
        client: &Namespace,
        server: &Namespace,
        amount: Amount,
        seed: u64,
        forget: impl Fn(u16) + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            is_over: AtomicBool::new(false),
            tally: Mutex::default(),
            forget: Box::new(forget),
        });
        let servers = SERVER.map(|address| serve(server, address));
        let mut traffic = Self { shared, workers: Vec::new() };
        type Job = fn(&Shared, SocketAddr, &mut Xoshiro256PlusPlus, u64);
        let kinds: [(usize, Job); 4] = [
            (amount.downloads, download),
            (amount.uploads, upload),
            (amount.idle, |shared, to, random, _| converse(shared, to, random, "idle", 1_000..9_000, 64)),
            (amount.keep_alive, |shared, to, random, _| {
                converse(shared, to, random, "keep-alive", 0..400, 200_000);
            }),
        ];
        for (count, job) in kinds {
            for _ in 0..count {
                let number = traffic.workers.len();
                let (shared, to) = (Arc::clone(&traffic.shared), servers[number % 2]);
                let namespace = Namespace::open(client.name()).unwrap();
                traffic.workers.push(std::thread::spawn(move || {
                    namespace.enter().unwrap();
                    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ (number as u64) << 32);
                    while !shared.is_over() {
                        job(&shared, to, &mut random, amount.len_max);
                    }
                }));
            }
        }
        traffic
    }

    /// Lets what is under way end, and gives what happened.
    pub fn finish(self) -> Tally {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for worker in self.workers {
            worker.join().unwrap();
        }
        self.shared.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many have hung so far.
    pub fn hung(&self) -> u64 {
        self.shared.tally.lock().unwrap_or_else(PoisonError::into_inner).count(&End::Hung)
    }
}

/// Log-uniform between 20 kB and `len_max`.
fn some_len(random: &mut Xoshiro256PlusPlus, len_max: u64) -> u64 {
    let (low, high) = (20_000f64.ln(), (len_max as f64).ln());
    random.random_range(low..high).exp() as u64
}

fn connect(to: SocketAddr) -> Result<(TcpStream, u16), End> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
    match socket.connect_timeout(&to.into(), HANG) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::TimedOut => return Err(End::Hung),
        Err(_) => {
            crate::chaos::pause_ms(50);
            return Err(End::Refused);
        }
    }
    socket.set_send_buffer_size(SEND_BUFFER).unwrap();
    let stream = patient(socket.into());
    let port = stream.local_addr().unwrap().port();
    Ok((stream, port))
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.set_write_timeout(Some(HANG)).unwrap();
    stream
}

fn end_of(error: &std::io::Error) -> End {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => End::Hung,
        ErrorKind::UnexpectedEof => End::Short,
        _ => End::Reset,
    }
}

/// Reads `len` bytes of content `seed`.
fn receive(stream: &mut impl Read, seed: u64, len: u64) -> Result<(), End> {
    let (mut at, mut chunk) = (0, vec![0; CHUNK]);
    while at < len {
        let want = (len - at).min(CHUNK as u64) as usize;
        match stream.read(&mut chunk[..want]) {
            Ok(0) => return Err(End::Short),
            Ok(got) if chunk[..got] == *content(seed, at, got) => at += got as u64,
            Ok(_) => return Err(End::Wrong),
            Err(error) => return Err(end_of(&error)),
        }
    }
    Ok(())
}

fn send(stream: &mut impl Write, seed: u64, len: u64) -> std::io::Result<()> {
    let mut at = 0;
    while at < len {
        let piece = content(seed, at, (len - at).min(CHUNK as u64) as usize);
        stream.write_all(piece)?;
        at += piece.len() as u64;
    }
    Ok(())
}

fn expect_end(stream: &mut impl Read) -> Result<(), End> {
    match stream.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(End::Wrong),
        Err(error) => Err(end_of(&error)),
    }
}

fn download(shared: &Shared, to: SocketAddr, random: &mut Xoshiro256PlusPlus, len_max: u64) {
    let (len, seed) = (some_len(random, len_max), random.random_range(0..u64::from(u32::MAX)));
    let what = format!("of {len} B from {to}");
    let (mut stream, port) = match connect(to) {
        Ok(connection) => connection,
        Err(end) => return shared.note("download", 0, &what, end),
    };
    let mut run = || {
        stream.write_all(format!("D {len} {seed}\n").as_bytes()).map_err(|error| end_of(&error))?;
        receive(&mut stream, seed, len)?;
        expect_end(&mut stream)
    };
    let end = run().err().unwrap_or(End::Whole);
    shared.note("download", port, &what, end);
}

fn upload(shared: &Shared, to: SocketAddr, random: &mut Xoshiro256PlusPlus, len_max: u64) {
    let (len, seed) = (some_len(random, len_max), random.random_range(0..u64::from(u32::MAX)));
    let what = format!("of {len} B to {to}");
    let (mut stream, port) = match connect(to) {
        Ok(connection) => connection,
        Err(end) => return shared.note("upload", 0, &what, end),
    };
    let mut run = || {
        let failed = |error: std::io::Error| end_of(&error);
        stream.write_all(format!("U {len} {seed}\n").as_bytes()).map_err(failed)?;
        send(&mut stream, seed, len).map_err(failed)?;
        stream.shutdown(Shutdown::Write).map_err(failed)?;
        let mut verdict = [0; 1];
        stream.read_exact(&mut verdict).map_err(failed)?;
        if verdict != *b"y" {
            return Err(End::Wrong);
        }
        expect_end(&mut stream)
    };
    let end = run().err().unwrap_or(End::Whole);
    shared.note("upload", port, &what, end);
}

/// One connection for a long time, and a request after each pause.
fn converse(
    shared: &Shared,
    to: SocketAddr,
    random: &mut Xoshiro256PlusPlus,
    kind: &'static str,
    pause_ms: std::ops::Range<u64>,
    len_max: u64,
) {
    let (mut stream, port) = match connect(to) {
        Ok(connection) => connection,
        Err(end) => return shared.note(kind, 0, &format!("to {to}"), end),
    };
    if random.random_bool(0.5) {
        let keep_alive = TcpKeepalive::new()
            .with_time(Duration::from_secs(2))
            .with_interval(Duration::from_secs(2))
            .with_retries(20);
        SockRef::from(&stream).set_tcp_keepalive(&keep_alive).unwrap();
    }
    let mut requests = 0;
    let end = loop {
        let (len, seed) = (random.random_range(64..=len_max), random.random_range(0..u64::from(u32::MAX)));
        let asked = stream.write_all(format!("K {len} {seed}\n").as_bytes()).map_err(|error| end_of(&error));
        if let Err(end) = asked.and_then(|()| receive(&mut stream, seed, len)) {
            break end;
        }
        requests += 1;
        if shared.is_over() {
            break End::Whole;
        }
        let mut left = random.random_range(pause_ms.clone());
        while left > 0 && !shared.is_over() {
            let now = left.min(200);
            crate::chaos::pause_ms(now);
            left -= now;
        }
    };
    shared.note(kind, port, &format!("to {to}, {requests} answers"), end);
}

/// Serves at an address until the process ends.
fn serve(namespace: &Namespace, address: &'static str) -> SocketAddr {
    let listener = namespace.run(|| TcpListener::bind((address, 0))).unwrap().unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            // How it ends its client says.
            std::thread::spawn(move || drop(answer(&stream)));
        }
    });
    at
}

fn answer(mut stream: &TcpStream) -> std::io::Result<()> {
    // A client that hangs is noticed by itself first.
    stream.set_read_timeout(Some(HANG * 4))?;
    stream.set_write_timeout(Some(HANG * 4))?;
    let mut requests = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if requests.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_ascii_whitespace();
        let kind = words.next().unwrap_or_default();
        let mut number =
            || words.next().and_then(|word| word.parse::<u64>().ok()).ok_or(ErrorKind::InvalidData);
        let (len, seed) = (number()?, number()?);
        match kind {
            "U" => {
                let verdict = receive(&mut requests, seed, len).and_then(|()| expect_end(&mut requests));
                stream.write_all(if verdict.is_ok() { b"y" } else { b"n" })?;
                return stream.shutdown(Shutdown::Write);
            }
            "D" => {
                send(&mut stream, seed, len)?;
                stream.shutdown(Shutdown::Write)?;
                return requests.read_to_end(&mut Vec::new()).map(drop);
            }
            _ => send(&mut stream, seed, len)?,
        }
    }
}
