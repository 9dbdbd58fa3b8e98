//! [`Datagrams`]: UDP from the server to the client as fast as one thread sends.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::BenchError;
use crate::error::Context;
use crate::topology::{Network, SERVER};

/// UDP payload, bytes.
pub(crate) const PAYLOAD_LEN: usize = 1_400;

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
        to.set_read_timeout(Some(std::time::Duration::from_millis(20))).doing(doing)?;
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
                if to.recv(&mut buffer).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Ok(Self { stop, read, threads: vec![sender, reader] })
    }

    /// Datagrams that the client's program has read so far.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}
