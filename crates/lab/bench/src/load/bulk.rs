//! [`Bulk`]: bulk TCP flows from the server to the client, counted where they are read.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use io::{Clock, Namespace};
use socket2::SockRef;
use units::Duration;

use crate::BenchError;
use crate::error::Context;
use crate::pause::Pause;
use crate::topology::{Network, SERVER};

/// Bytes per read and write: large enough that system calls of the ends do not count.
const BLOCK: usize = 512 * 1024;

/// Longest time that a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(5);

const POLL: Duration = Duration::from_millis(2);

/// Flows under way; ended when dropped.
#[derive(Debug)]
pub(crate) struct Bulk {
    sockets: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
    received: Arc<AtomicU64>,
}

impl Bulk {
    /// Opens `flows` connections from the client to the server, which sends on all of them for as long as it
    /// lasts.
    pub fn start(network: &Network, flows: usize, pause: &mut Pause<'_>) -> Result<Self, BenchError> {
        let listener =
            network.server.run(|| TcpListener::bind((SERVER, 0)))?.doing(|| "listen".to_owned())?;
        listener.set_nonblocking(true).doing(|| "make a listener non-blocking".to_owned())?;
        let to = listener.local_addr().doing(|| "ask for a port".to_owned())?;
        choose_congestion_control(&listener);
        let mut load = Self { sockets: Vec::new(), threads: Vec::new(), received: Arc::default() };
        for _ in 0..flows {
            load.add(&network.client, &listener, to, pause)?;
        }
        Ok(load)
    }

    fn add(
        &mut self,
        client: &Namespace,
        listener: &TcpListener,
        to: SocketAddr,
        pause: &mut Pause<'_>,
    ) -> Result<(), BenchError> {
        let patience = std::time::Duration::from_nanos(PATIENCE.as_nanos());
        let reader = client.run(|| TcpStream::connect_timeout(&to, patience))?;
        let reader = reader.doing(|| format!("connect to {to} through the box"))?;
        let give_up = Clock::now() + PATIENCE;
        let writer = loop {
            match listener.accept() {
                Err(e) if e.kind() == ErrorKind::WouldBlock && Clock::now() < give_up => pause.wait(POLL)?,
                result => break result.doing(|| "accept a connection through the box".to_owned())?.0,
            }
        };
        writer.set_nonblocking(false).doing(|| "make a socket blocking".to_owned())?;
        for socket in [&reader, &writer] {
            self.sockets.push(socket.try_clone().doing(|| "copy a socket".to_owned())?);
        }
        let received = Arc::clone(&self.received);
        self.threads.push(std::thread::spawn(move || write(writer)));
        self.threads.push(std::thread::spawn(move || read(reader, &received)));
        Ok(())
    }

    /// Bytes the client has read so far, over all flows.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        for socket in &self.sockets {
            // Wakes the thread that reads or writes; a connection already gone is fine.
            drop(socket.shutdown(Shutdown::Both));
        }
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

/// Has connections to `listener` use CUBIC, which does not pace itself: with BBR, the default of
/// some machines, its rate would be measured instead of the box. Where the machine lacks CUBIC, its
/// default is used.
fn choose_congestion_control(listener: &TcpListener) {
    drop(SockRef::from(listener).set_tcp_congestion(b"cubic"));
}

/// Ends with the connection.
fn write(mut socket: TcpStream) {
    let block = vec![0; BLOCK];
    while socket.write_all(&block).is_ok() {}
}

/// Ends with the connection.
fn read(mut socket: TcpStream, received: &AtomicU64) {
    let mut block = vec![0; BLOCK];
    while let Ok(len) = socket.read(&mut block) {
        if len == 0 {
            return;
        }
        received.fetch_add(len as u64, Ordering::Relaxed);
    }
}
