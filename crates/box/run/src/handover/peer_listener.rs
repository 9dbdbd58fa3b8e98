//! [`PeerListener`]: lets the peers' senders in, and hears them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;

use handover::{MESSAGE_LEN_MAX, Message, Peer};
use io::Clock;
use rustls::{ServerConnection, StreamOwned};
use units::{Duration, Instant};

use super::peer_sender::{PAUSE, packet_of, prepare};
use super::places::{Backlog, Place, Places};
use super::tls::Identity;
use super::{Hands, Input};

/// Longest time that a handshake may take in all, however slowly bytes come.
const HANDSHAKE_MAX: Duration = Duration::from_secs(3);

/// Longest time that a frame may take in all, once it has begun.
const FRAME_MAX: Duration = Duration::from_secs(10);

/// Listener that peers connect to.
pub(super) struct PeerListener {
    pub tls: Identity,
    pub told: mpsc::SyncSender<Input>,
    pub hands: Arc<Hands>,
    pub places: Places,
}

/// A socket until a moment: then reading and writing fail.
struct Until<'a> {
    socket: &'a TcpStream,
    end: Instant,
}

impl Until<'_> {
    fn left(&self) -> std::io::Result<Option<std::time::Duration>> {
        let left = self.end.saturating_since(Clock::now());
        if left == Duration::ZERO {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        Ok(Some(std::time::Duration::from_nanos(left.as_nanos())))
    }
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.read(buffer)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.socket.flush()
    }
}

impl PeerListener {
    /// Listens for ever; one that is replaced may listen there still, for a while.
    pub fn run(self, listen: SocketAddr) {
        let listener = loop {
            match TcpListener::bind(listen) {
                Ok(listener) => break listener,
                Err(_) => thread::park_timeout(PAUSE),
            }
        };
        let backlogs: Vec<Backlog> = (0..self.tls.peers()).map(|_| Backlog::default()).collect();
        let (own, backlogs) = (Arc::new(self), Arc::new(backlogs));
        loop {
            let accepted = listener.accept();
            let taken = accepted.and_then(|(socket, from)| {
                let place = own.places.take(&socket, from.ip())?;
                Ok((socket, place))
            });
            let Ok((socket, place)) = taken else {
                // No descriptor is left, as a rule.
                thread::park_timeout(PAUSE);
                continue;
            };
            let (own, backlogs) = (Arc::clone(&own), Arc::clone(&backlogs));
            // Where there is no thread for it, the connection ends; who breaks off, or is a stranger, hears nothing more.
            let serve = move || drop(own.serve(socket, place, &backlogs));
            drop(thread::Builder::new().name("from-peer".to_owned()).spawn(serve));
        }
    }

    fn serve(&self, socket: TcpStream, place: Place, backlogs: &[Backlog]) -> std::io::Result<()> {
        let end = Clock::now() + HANDSHAKE_MAX;
        let mut connection =
            ServerConnection::new(Arc::clone(&self.tls.server)).map_err(std::io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut Until { socket: &socket, end })?;
        }
        let shown = connection.peer_certificates().and_then(<[_]>::first);
        let Some(peer) = shown.and_then(|shown| self.tls.peer_of(shown)) else { return Ok(()) };
        let Some(backlog) = backlogs.get(peer).filter(|_| place.is_of(peer as Peer)) else { return Ok(()) };
        prepare(&socket)?;
        let mut stream = StreamOwned::new(connection, socket);
        // Where the protocol has gone nobody needs to hear.
        let _ = self.told.send(Input::Heard(peer as Peer));
        let heard = self.hear(&mut stream, peer as Peer, backlog);
        if place.leave(peer as Peer) {
            let _ = self.told.send(Input::Lost(peer as Peer));
        }
        heard
    }

    /// Hears a peer until it ends, or says what makes no sense.
    fn hear(
        &self,
        stream: &mut StreamOwned<ServerConnection, TcpStream>,
        peer: Peer,
        backlog: &Backlog,
    ) -> std::io::Result<()> {
        let mut content = Vec::new();
        loop {
            let mut len = [0; 4];
            stream.read_exact(&mut len)?;
            let len = u32::from_be_bytes(len) as usize;
            if len == 0 || len > MESSAGE_LEN_MAX {
                return Ok(());
            }
            read_frame(stream, &mut content, len)?;
            match content.split_first() {
                Some((1, message)) => {
                    let waiting = backlog.wait(len);
                    let Ok(message) = Message::decode(message) else { return Ok(()) };
                    if self.told.send(Input::Message(peer, message, waiting)).is_err() {
                        return Ok(());
                    }
                }
                Some((2, packet)) => {
                    if let Some(relayed) = packet_of(packet) {
                        self.hands.relay(peer, relayed);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Reads `len` bytes: memory is taken as they come, and they come within a time.
fn read_frame(stream: &mut impl Read, content: &mut Vec<u8>, len: usize) -> std::io::Result<()> {
    const PIECE: usize = 64 * 1024;
    let end = Clock::now() + FRAME_MAX;
    content.clear();
    while content.len() < len {
        if Clock::now() > end {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        let from = content.len();
        content.resize(len.min(from + PIECE), 0);
        stream.read_exact(&mut content[from..])?;
    }
    Ok(())
}
