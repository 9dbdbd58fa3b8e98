//! Downloads that go on until they are dropped, by clients of several addresses.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use io::netlink::Cidr;

use crate::network::{Network, PATIENCE};

/// Gives the client further addresses, 10.1.0.3 and so on.
pub fn add_clients(network: &Network, count: u8) {
    let netlink = network.client.netlink().unwrap();
    let index = netlink.index_of("c0").unwrap();
    for last in 3..3 + count {
        netlink.add_address(index, format!("10.1.0.{last}/24").parse::<Cidr>().unwrap()).unwrap();
    }
}

/// Downloads that go on.
pub struct Traffic {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// One for each of these last numbers of the client's address, at a time.
    pub fn start(network: &Network, clients: &[u8]) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for last in clients {
            let (client, server) = connect(network, *last, 0);
            for end in [&client, &server] {
                end.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                end.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            }
            let over = Arc::clone(&is_over);
            // Each client at a rate of its own, some ten Mbit/s.
            let pause = Duration::from_millis(u64::from(*last) * 2);
            threads.push(thread::spawn(move || {
                go_on(&over, || {
                    thread::park_timeout(pause);
                    (&server).write(&[7; 16_384]).map(drop)
                });
            }));
            let over = Arc::clone(&is_over);
            let mut room = vec![0; 65_536];
            threads.push(thread::spawn(move || go_on(&over, || (&client).read(&mut room).map(drop))));
        }
        Self { is_over, threads }
    }
}

/// Does so until it is over; a time-out is none.
fn go_on(is_over: &AtomicBool, mut act: impl FnMut() -> std::io::Result<()>) {
    while !is_over.load(Ordering::SeqCst) {
        match act() {
            Err(error)
                if !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                return;
            }
            _ => {}
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// A connection of the client's address 10.1.0.LAST to a port of the server, 0 for any.
pub fn connect(network: &Network, last: u8, port: u16) -> (TcpStream, TcpStream) {
    let listener = network.server.run(|| TcpListener::bind(("10.2.0.2", port))).unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let client = network.client.run(|| from_address(last, to)).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client, server)
}

/// The kernel chooses an address of its own; one of ours has to be bound before.
fn from_address(last: u8, to: SocketAddr) -> TcpStream {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let own: SocketAddr = format!("10.1.0.{last}:0").parse().unwrap();
    socket.bind(&own.into()).unwrap();
    socket.connect_timeout(&to.into(), PATIENCE).unwrap();
    socket.into()
}
