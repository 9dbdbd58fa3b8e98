//! Strangers at the port for other boxes, and a box that is known and means harm.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{FlowEnds, RECORD_VERSION};
use handover::{Message, Name, Terms, VERSION};
use io::{Clock, Namespace};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned};
use units::{Duration, SeqNum};
use wire::{TcpFlags, TcpHeaderSpec, VirtioNetHeader};

use crate::handover::{B, CLIENT, Sites, counter, pause, shell};
use crate::handover_deaths::Over;
use crate::raw::Raw;
use crate::topology::{Program, wait_until};

/// Takes whatever certificate it is shown.
#[derive(Debug)]
struct Anyone(CryptoProvider);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, shown, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, shown, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A connection to box a with the certificate of box b.
struct Intruder(StreamOwned<ClientConnection, TcpStream>);

impl Intruder {
    fn connect(at: &Namespace) -> Self {
        let provider = rustls::crypto::ring::default_provider();
        let certificate = CertificateDer::from_pem_slice(B[0].as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(B[1].as_bytes()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(provider.clone()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_client_auth_cert(vec![certificate], key)
            .unwrap();
        let to: SocketAddr = "10.5.0.1:7320".parse().unwrap();
        let socket = at.run(|| TcpStream::connect(to)).unwrap().unwrap();
        let name = ServerName::IpAddress(to.ip().into());
        Self(StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), socket))
    }

    fn send(&mut self, kind: u8, content: &[u8]) {
        let len = u32::try_from(content.len() + 1).unwrap().to_be_bytes();
        self.0.write_all(&[&len[..], &[kind], content].concat()).unwrap();
        self.0.flush().unwrap();
    }

    fn say(&mut self, message: &Message) {
        self.send(1, &message.encode());
    }

    /// Sends a packet on that came from clients.
    fn relay(&mut self, spec: &TcpHeaderSpec, payload: &[u8]) {
        let mut packet = vec![0; TcpHeaderSpec::MAX_LEN];
        let header = spec.emit(&mut packet, &[payload]).unwrap();
        packet.truncate(header.len);
        packet.extend_from_slice(payload);
        let content = [&[1][..], &VirtioNetHeader::default().to_bytes(), &packet].concat();
        self.send(2, &content);
    }
}

fn prepare(subscriber: &str, epoch: u64, flows: Vec<FlowEnds>, packet: u32) -> Message {
    let name = Name { subscriber: subscriber.parse().unwrap(), epoch, nonce: 0 };
    let terms = Terms { packet, encapsulation: String::new() };
    Message::Prepare { name, versions: (VERSION, RECORD_VERSION), held: 0, flows, terms }
}

fn flow(client: &str, port: u16, source: SocketAddr) -> FlowEnds {
    FlowEnds { is_downlink: true, sink: SocketAddr::new(client.parse().unwrap(), port), source }
}

/// Bytes of a handshake's beginning without end: its header says a record of 256 bytes.
fn long_hello() -> impl Iterator<Item = u8> {
    [22, 3, 1, 1, 0].into_iter().chain(std::iter::repeat(1))
}

/// Connections that say a byte now and then, from one address and from many, take no place of a peer's.
#[test]
fn strangers_that_are_slow_do_not_keep_a_peer_out() {
    let sites = Sites::build("slow");
    let [a, b] = sites.configs();
    let a = Program::start_both_ways_with(&sites.a, &a);
    for n in 10..30 {
        shell(&sites.b.middle, &format!("ip addr add 10.5.0.{n}/24 dev ab"));
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        for n in 0..60 {
            let (is_over, at) = (&is_over, &sites.b.middle);
            scope.spawn(move || {
                let mut hello = long_hello();
                let connect = || {
                    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
                    let from: SocketAddr = format!("10.5.0.{}:0", 10 + n % 20).parse().unwrap();
                    socket.bind(&from.into())?;
                    let to: SocketAddr = "10.5.0.1:7320".parse().unwrap();
                    socket.connect(&to.into())?;
                    Ok::<TcpStream, std::io::Error>(socket.into())
                };
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(Ok(mut socket)) = at.run(connect) else { continue };
                    while socket.write_all(&[hello.next().unwrap()]).is_ok()
                        && !is_over.load(Ordering::Relaxed)
                    {
                        pause(200);
                    }
                }
            });
        }
        pause(1_000);
        let began = Clock::now();
        let b = Program::start_both_ways_with(&sites.b, &b);
        sites.await_connected();
        let took = Clock::now().saturating_since(began);
        assert!(took < Duration::from_secs(8), "{took}");
        drop(over);
        b.stop(&sites.b);
    });
    a.stop(&sites.a);
}

/// A handshake that is not finished in time ends, however many bytes come.
#[test]
fn a_handshake_has_a_time_in_all() {
    let sites = Sites::build("handshake");
    let [a, _] = sites.configs();
    let a = Program::start_both_ways_with(&sites.a, &a);
    let connect = || TcpStream::connect("10.5.0.1:7320");
    let mut connected = None;
    wait_until("the port is open", || {
        connected = sites.b.middle.run(connect).unwrap().ok();
        connected.is_some()
    });
    let mut socket = connected.unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_millis(100))).unwrap();
    let began = Clock::now();
    let mut hello = long_hello();
    let is_closed = |socket: &mut TcpStream| match socket.read(&mut [0]) {
        Ok(len) => len == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    };
    while socket.write_all(&[hello.next().unwrap()]).is_ok() && !is_closed(&mut socket) {
        assert!(Clock::now().saturating_since(began) < Duration::from_secs(12), "it is open still");
    }
    let took = Clock::now().saturating_since(began);
    assert!(took > Duration::from_secs(2), "it ended for another reason: {took}");
    a.stop(&sites.a);
}

/// It can neither have flows of this box, nor subscribers that are none of its, nor any packet sent.
#[test]
fn a_box_that_means_harm_gets_nothing_but_its_own() {
    let sites = Sites::build("harm");
    let [mut a, _] = sites.configs();
    if let Some(handover) = a.handover.as_mut() {
        handover.peers[0].gives = Some(vec!["10.9.0.0/24".to_owned()]);
    }
    let a = Program::start_both_ways_with(&sites.a, &a);
    let mut talk = sites.connect();
    talk.exchange(b"opening.");
    let own = talk.client.local_addr().unwrap();
    let server = talk.client.peer_addr().unwrap();
    let mut intruder = Intruder::connect(&sites.b.middle);
    let mut arrived = Raw::open(&sites.a.server, "s0");
    let counted = |name: &str, count: u64| wait_until(name, || counter(&sites.a, name) == count);
    // A flow that is here.
    intruder.say(&prepare(CLIENT, u64::MAX / 4, vec![flow(CLIENT, own.port(), server)], 1_500));
    counted("handover_refused_owned", 1);
    talk.exchange(b"is here-");
    // Another one of the subscriber: that one alone is led away.
    intruder.say(&prepare(CLIENT, u64::MAX / 4, vec![flow(CLIENT, 9, server)], 1_500));
    counted("handover_under_way", 1);
    talk.exchange(b"is here-");
    sites.connect().exchange(b"newly---");
    // A subscriber that it may not give.
    intruder.say(&prepare("10.8.0.9", 5_000, vec![flow("10.8.0.9", 9, server)], 1_500));
    counted("handover_refused_forbidden", 1);
    // Packets of flows that it has no part in: of that subscriber, and of nobody.
    for (n, from) in [own, SocketAddr::new("10.9.0.77".parse().unwrap(), 1)].into_iter().enumerate() {
        let spec = TcpHeaderSpec::new(from, server, SeqNum::new(1), SeqNum::new(1), TcpFlags::ACK);
        intruder.relay(&spec, b"injected");
        counted("handover_packets_refused", n as u64 + 1);
    }
    talk.exchange(b"by here-");
    let seen: Vec<_> = std::iter::from_fn(|| arrived.next()).collect();
    assert!(seen.iter().any(|seen| seen.source() == own), "what passes is seen");
    let is_injected = |seen: &&crate::raw::Seen| seen.source().port() == 1 || seen.tcp.seq == SeqNum::new(1);
    assert_eq!(seen.iter().filter(is_injected).count(), 0);
    a.stop(&sites.a);
}

/// Questions without end, all of which are refused: packets go on, and memory does not grow with them.
#[test]
fn questions_without_end_do_not_hold_up_packets() {
    let sites = Sites::build("flood");
    let [a, _] = sites.configs();
    let a = Program::start_both_ways_with(&sites.a, &a);
    let mut talk = sites.connect();
    talk.exchange(b"opening.");
    let server = talk.client.peer_addr().unwrap();
    let before = sites.a.status().resident_bytes;
    let mut intruder = Intruder::connect(&sites.b.middle);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        let is_over = &is_over;
        let flood = scope.spawn(move || {
            let mut bytes = 0;
            for n in 0..1_500_u32 {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let client = std::net::Ipv4Addr::from(0x0a09_1000 + n).to_string();
                let flows = (1..1_200).map(|port| flow(&client, port, server)).collect();
                let message = prepare(&client, 5_000, flows, 60_000);
                bytes += message.encode().len();
                intruder.say(&message);
            }
            bytes
        });
        let mut longest = Duration::ZERO;
        while !flood.is_finished() {
            let began = Clock::now();
            talk.exchange(b"goes on-");
            longest = longest.max(Clock::now().saturating_since(began));
        }
        drop(over);
        let bytes = flood.join().unwrap();
        println!("{bytes} bytes of questions; the longest answer took {longest}");
        assert!(bytes > 25_000_000, "{bytes}");
        assert!(longest < Duration::from_secs(3), "{longest}");
    });
    wait_until("all are answered", || {
        let refused = ["handover_refused_mtu", "handover_refused_memory"].map(|name| counter(&sites.a, name));
        refused.iter().sum::<u64>() == 1_500
    });
    let grown = sites.a.status().resident_bytes.saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes");
    talk.exchange(b"and on--");
    assert_eq!(counter(&sites.a, "handover_under_way"), 0);
    drop(talk);
    a.stop(&sites.a);
}
