//! The wire: [`PeerSender`] sends to a peer, whose [`super::peer_listener::PeerListener`] hears it.
//!
//! What is written is sent in order. So little is written at a time, and data that goes ahead of a hand-over only when
//! nothing else waits.
//!
//! ```text
//!   frame: length of what follows (32 bits, big-endian) │ kind (8 bits) │ content
//!   kind 0: nothing, every second, to see that the other end is there
//!   kind 1: a message of the protocol
//!   kind 2: a packet: side it came from (8 bits: 0 wired, 1 mobile) │ virtio header │ from the IP header on
//! ```

use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use engine::Port;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use wire::VirtioNetHeader;

use super::tls::Identity;
use super::{Board, Frame, PeerConfig, QUEUE_MAX, Relayed};

/// Longest time for a connection to be made, and for a frame to be written.
const PATIENCE: Duration = Duration::from_secs(3);

/// Pause before another attempt.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// A sign of life.
const EVERY: Duration = Duration::from_secs(1);

/// Bytes that may be written and not sent yet: what is written later waits for them.
const UNSENT_MAX: u32 = 32 * 1024;

/// Frames that wait for a peer, those that are not urgent apart.
#[derive(Default)]
struct Waiting {
    urgent: VecDeque<Frame>,
    ahead: VecDeque<Frame>,
}

impl Waiting {
    /// The next frame; none after a while without any.
    ///
    /// # Errors
    /// Nobody can send anything any more.
    fn next(&mut self, queue: &mpsc::Receiver<Frame>) -> Result<Option<Frame>, mpsc::RecvTimeoutError> {
        while self.urgent.len() < QUEUE_MAX && self.ahead.len() < QUEUE_MAX {
            match queue.try_recv() {
                Ok(frame) => self.add(frame),
                Err(_) => break,
            }
        }
        let waits = self.urgent.pop_front().or_else(|| self.ahead.pop_front());
        match waits.map_or_else(|| queue.recv_timeout(EVERY), Ok) {
            Ok(frame) => Ok(Some(frame)),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn add(&mut self, frame: Frame) {
        match frame {
            Frame::Ahead(_) => self.ahead.push_back(frame),
            Frame::Message(_) | Frame::Packet(_) => self.urgent.push_back(frame),
        }
    }
}

/// Sends to one peer, and connects again and again.
pub(super) struct PeerSender {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    number: usize,
    board: Arc<Board>,
}

impl PeerSender {
    pub fn new(peer: &PeerConfig, tls: &Identity, number: usize, board: Arc<Board>) -> Result<Self, String> {
        Ok(Self { address: peer.address, tls: tls.client(number)?, number, board })
    }

    /// Works until nobody can send anything.
    pub fn run(&self, queue: &mpsc::Receiver<Frame>) {
        loop {
            if let Ok(mut stream) = self.connect() {
                self.show(true);
                let mut waiting = Waiting::default();
                let is_over = loop {
                    let Ok(frame) = waiting.next(queue) else { break true };
                    if stream.write_all(&encode(frame)).and_then(|()| stream.flush()).is_err() {
                        break false;
                    }
                };
                self.show(false);
                if is_over {
                    stream.conn.send_close_notify();
                    drop(stream.flush());
                    return;
                }
            }
            thread::park_timeout(PAUSE);
            // What has waited for a connection is old.
            loop {
                match queue.try_recv() {
                    Ok(_) => {}
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
            }
        }
    }

    fn show(&self, is_connected: bool) {
        if let Some(connected) = self.board.connected.get(self.number) {
            connected.store(is_connected, Ordering::Relaxed);
        }
    }

    fn connect(&self) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut socket = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        prepare(&socket)?;
        socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_MAX)?;
        keep_window(&socket);
        let name = ServerName::IpAddress(self.address.ip().into());
        let mut connection =
            ClientConnection::new(Arc::clone(&self.tls), name).map_err(std::io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(StreamOwned::new(connection, socket))
    }
}

pub(super) fn prepare(socket: &TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))
}

/// BBR holds no more than four segments under way for 200 ms every ten seconds (PROBE_RTT). What nobody has while it is
/// under way cannot wait for that.
fn keep_window(socket: &TcpStream) {
    let socket = socket2::SockRef::from(socket);
    let is_bbr = socket.tcp_congestion().is_ok_and(|name| name.starts_with(b"bbr"));
    if is_bbr {
        // Where neither is to be had it stays as it is: slower now and then.
        let _ = ["cubic", "reno"].iter().find(|name| socket.set_tcp_congestion(name.as_bytes()).is_ok());
    }
}

fn encode(frame: Option<Frame>) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    match frame {
        None => bytes.push(0),
        Some(Frame::Message(message) | Frame::Ahead(message)) => {
            bytes.push(1);
            bytes.extend_from_slice(&message);
        }
        Some(Frame::Packet(Relayed { from, virtio, packet })) => {
            bytes.extend_from_slice(&[2, from.index() as u8]);
            bytes.extend_from_slice(&virtio.to_bytes());
            bytes.extend_from_slice(&packet);
        }
    }
    let len = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

pub(super) fn packet_of(content: &[u8]) -> Option<Relayed> {
    let (&side, rest) = content.split_first()?;
    let from = *Port::BOTH.get(usize::from(side))?;
    let (virtio, packet) = rest.split_at_checked(VirtioNetHeader::LEN)?;
    Some(Relayed { from, virtio: VirtioNetHeader::parse(virtio).ok()?, packet: packet.to_vec() })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn what_is_urgent_overtakes_what_goes_ahead() {
        let (sender, queue) = mpsc::sync_channel(8);
        let mut waiting = Waiting::default();
        let number = |frame: Option<Frame>| match frame {
            Some(Frame::Message(bytes) | Frame::Ahead(bytes)) => bytes[0],
            other => panic!("{other:?}"),
        };
        for frame in [Frame::Ahead(vec![1]), Frame::Ahead(vec![2]), Frame::Message(vec![3])] {
            sender.send(frame).unwrap();
        }
        assert_eq!(number(waiting.next(&queue).unwrap()), 3);
        assert_eq!(number(waiting.next(&queue).unwrap()), 1);
        sender.send(Frame::Message(vec![4])).unwrap();
        assert_eq!(number(waiting.next(&queue).unwrap()), 4);
        drop(sender);
        assert_eq!(number(waiting.next(&queue).unwrap()), 2);
        assert!(waiting.next(&queue).is_err(), "nobody can send any more");
    }

    #[test]
    fn a_way_to_a_peer_has_a_window_at_all_times() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = socket2::SockRef::from(&stream);
        let before = socket.tcp_congestion().unwrap();
        keep_window(&stream);
        let is_bbr = |name: &[u8]| name.starts_with(b"bbr");
        assert!(is_bbr(&before) || socket.tcp_congestion().unwrap() == before, "it is the operator's choice");
        // Not every kernel has it.
        if socket.set_tcp_congestion(b"bbr").is_ok() {
            keep_window(&stream);
            assert!(!is_bbr(&socket.tcp_congestion().unwrap()));
        }
    }

    #[test]
    fn frames_come_back_as_they_were() {
        let virtio = VirtioNetHeader::for_partial_checksum(20);
        let frame = Frame::Packet(Relayed { from: Port::Mobile, virtio, packet: vec![1, 2, 3] });
        let bytes = encode(Some(frame));
        assert_eq!(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize, bytes.len() - 4);
        let back = packet_of(&bytes[5..]).unwrap();
        assert_eq!((back.from, back.virtio, &back.packet[..]), (Port::Mobile, virtio, &[1, 2, 3][..]));
        assert!(packet_of(&[7, 0, 0]).is_none());
        assert!(packet_of(&[]).is_none());
        assert_eq!(encode(None), [0, 0, 0, 1, 0]);
        assert_eq!(encode(Some(Frame::Message(vec![9]))), [0, 0, 0, 2, 1, 9]);
    }
}
