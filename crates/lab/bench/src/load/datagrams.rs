//! [`Datagrams`]: UDP from the server to the client as fast as one thread sends.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use io::Clock;

use crate::BenchError;
use crate::error::Context;
use crate::topology::{CLIENT, Network, SERVER};

/// UDP payload, bytes.
pub(crate) const PAYLOAD_LEN: usize = 1_400;

/// Interval at which the client's program reads what has come: its socket has room for more.
const READ_EVERY: Duration = Duration::from_micros(100);

/// Time after which an answer is not waited for any more.
const LOST_AFTER: Duration = Duration::from_millis(20);

/// Datagrams under way; ended when dropped.
#[derive(Debug)]
pub(crate) struct Datagrams {
    stop: Arc<AtomicBool>,
    read: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Datagrams {
    /// Begins, to an address of the client.
    pub fn start(network: &Network, client: IpAddr) -> Result<Self, BenchError> {
        let doing = || "make a socket for datagrams".to_owned();
        let to = network.client.run(|| UdpSocket::bind((client, 0)))?.doing(doing)?;
        let address = to.local_addr().doing(doing)?;
        to.set_nonblocking(true).doing(doing)?;
        let from = network.server.run(|| UdpSocket::bind((SERVER, 0)))?.doing(doing)?;
        from.connect(address).doing(doing)?;
        let (stop, read) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (for_sender, for_reader, count) = (Arc::clone(&stop), Arc::clone(&stop), Arc::clone(&read));
        let sender = std::thread::spawn(move || {
            let payload = [0; PAYLOAD_LEN];
            while !for_sender.load(Ordering::Relaxed) {
                // A full queue is the limit that is measured.
                drop(from.send(&payload));
            }
        });
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; PAYLOAD_LEN];
            while !for_reader.load(Ordering::Relaxed) {
                while to.recv(&mut buffer).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                // Who waits for datagrams is woken up for each that comes while it sleeps. That is the sender's work: of two
                // ways the slower one, where the reader sleeps more often, would come out slower still.
                std::thread::park_timeout(READ_EVERY);
            }
        });
        Ok(Self { stop, read, threads: vec![sender, reader] })
    }

    /// Datagrams that the client's program has read so far.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// Round trips of datagrams of 64 bytes from the client to the server and back for `time`, once each millisecond at most,
/// in nanoseconds. Those that are lost are not among them.
pub(crate) fn round_trips(network: &Network, time: units::Duration) -> Result<Vec<u64>, BenchError> {
    let doing = || "make a socket for datagrams".to_owned();
    let bind = |namespace: &io::Namespace, address| {
        let socket = namespace.run(|| UdpSocket::bind((address, 0)))?.doing(doing)?;
        socket.set_read_timeout(Some(LOST_AFTER)).doing(doing)?;
        Ok::<_, BenchError>(socket)
    };
    let (client, server) = (bind(&network.client, CLIENT)?, bind(&network.server, SERVER)?);
    client.connect(server.local_addr().doing(doing)?).doing(doing)?;
    let end = Clock::now() + time;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 64];
            while Clock::now() < end {
                if let Ok((len, from)) = server.recv_from(&mut buffer) {
                    drop(server.send_to(&buffer[..len], from));
                }
            }
        });
        let mut times = Vec::new();
        while Clock::now() < end {
            let (begin, mut answer) = (Clock::now(), [0; 64]);
            let is_answered = client.send(&[0; 64]).is_ok() && client.recv(&mut answer).is_ok();
            times.extend(is_answered.then(|| Clock::now().saturating_since(begin).as_nanos()));
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Ok(times)
    })
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}
