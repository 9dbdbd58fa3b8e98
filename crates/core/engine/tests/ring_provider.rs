//! Held data lies where a provider of rings says; what that has no memory for is neither acknowledged nor
//! lost.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use engine::{Engine, EngineConfig, Middlebox, Port, RingProvider};
use units::{Bytes, Duration, Instant, SeqNum, WindowScale};
use wire::{TcpFlags, TcpHeaderSpec, VirtioNetHeader};

const SEGMENT: usize = 1_000;
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 80);
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1_024);

/// Lends rings of at most so many bytes, and counts.
#[derive(Debug)]
struct Lender {
    len_max: usize,
    lent: AtomicUsize,
    lent_ever: AtomicUsize,
}

impl RingProvider for Lender {
    fn allocate(&self, len: usize) -> Option<&'static mut [u8]> {
        if len > self.len_max {
            return None;
        }
        self.lent.fetch_add(len, Relaxed);
        self.lent_ever.fetch_add(len, Relaxed);
        Some(vec![0xee; len].leak())
    }
    fn give_back(&self, memory: &'static mut [u8]) {
        self.lent.fetch_sub(memory.len(), Relaxed);
    }
}

/// One download.
struct Download {
    engine: Engine,
    now: Instant,
    packet: Vec<u8>,
    /// What the client has got, in order and without holes.
    got: Vec<u8>,
}

impl Download {
    fn new(provider: Arc<Lender>) -> Self {
        let mut engine = Engine::new(EngineConfig::default()).unwrap();
        engine.set_ring_provider(provider);
        let now = Instant::from_millis(1);
        let mut download = Self { engine, now, packet: vec![0; 2_000], got: Vec::new() };
        let syn = |mut spec: TcpHeaderSpec| {
            (spec.mss, spec.window_scale) = (Some(1_460), Some(WindowScale::new(7)));
            spec
        };
        let at = SeqNum::new;
        download.inject(Port::Mobile, syn(spec(CLIENT, SERVER, at(0), at(0), TcpFlags::SYN)), &[]);
        let flags = TcpFlags::SYN.with(TcpFlags::ACK);
        download.inject(Port::Wired, syn(spec(SERVER, CLIENT, at(0), at(1), flags)), &[]);
        download.now += Duration::from_millis(20);
        download.acknowledge();
        assert_eq!(download.engine.stats().flows_accelerated, 1);
        download
    }

    fn inject(&mut self, from: Port, spec: TcpHeaderSpec, payload: &[u8]) {
        let header = spec.emit_partial(&mut self.packet, payload.len()).unwrap();
        let len = header.len + payload.len();
        self.packet[header.len..len].copy_from_slice(payload);
        let virtio = VirtioNetHeader::for_partial_checksum(header.transport_offset);
        self.engine.handle_packet(from, &virtio, &mut self.packet[..len], self.now);
        while let Some(made) = self.engine.poll_transmit(self.now) {
            if made.to == Port::Mobile {
                let seq = SeqNum::new(u32::from_be_bytes(made.header[24..28].try_into().unwrap()));
                let payload = [made.payload.0, made.payload.1].concat();
                if seq.since(SeqNum::new(1)) as usize == self.got.len() {
                    self.got.extend(payload);
                }
            }
        }
    }

    fn acknowledge(&mut self) {
        let ack = SeqNum::new(1 + self.got.len() as u32);
        self.inject(Port::Mobile, spec(CLIENT, SERVER, SeqNum::new(1), ack, TcpFlags::ACK), &[]);
    }

    /// The server sends segments of `stream` from what it was told is delivered, the client answers nothing.
    fn send(&mut self, stream: &[u8], acked: usize) {
        let from = acked + self.engine.debt().get() as usize;
        for (index, part) in stream[from..].chunks(SEGMENT).take(40).enumerate() {
            let seq = SeqNum::new((1 + from + index * SEGMENT) as u32);
            self.inject(Port::Wired, spec(SERVER, CLIENT, seq, SeqNum::new(1), TcpFlags::ACK), part);
        }
    }

    fn wait(&mut self) {
        self.now += Duration::from_millis(5);
        self.engine.handle_timeout(self.now);
    }
}

fn spec(from: SocketAddr, to: SocketAddr, seq: SeqNum, ack: SeqNum, flags: TcpFlags) -> TcpHeaderSpec {
    TcpHeaderSpec { window: 60_000, ..TcpHeaderSpec::new(from, to, seq, ack, flags) }
}

#[test]
fn what_a_provider_refuses_is_sent_again_and_all_it_lends_comes_back() {
    let stream: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
    for (len_max, refuses) in [(16 * 1_024, true), (1 << 20, false)] {
        let lender = Arc::new(Lender { len_max, lent: AtomicUsize::new(0), lent_ever: AtomicUsize::new(0) });
        let mut download = Download::new(Arc::clone(&lender));
        for _ in 0..2_000 {
            let acked = download.got.len();
            download.send(&stream, acked);
            let debt = download.engine.debt();
            assert!(debt <= Bytes::new(len_max as u64), "{debt} of debt in rings of {len_max} B");
            download.wait();
            download.acknowledge();
        }
        assert!(download.got == stream, "{} B of {}", download.got.len(), stream.len());
        assert_eq!(download.engine.stats().memory_refused > 0, refuses, "rings of {len_max} B");
        assert_eq!(download.engine.debt(), Bytes::ZERO);
        assert!(lender.lent_ever.load(Relaxed) > 0, "it was asked");
        drop(download);
        assert_eq!(lender.lent.load(Relaxed), 0);
    }
}
