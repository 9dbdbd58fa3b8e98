//! [`engine_cost`]: time per packet of the engine alone, in virtual time, with a real clock around it.
//!
//! Every flow is opened by its handshake; then flows are visited in an order that no cache
//! foresees: the server sends a full segment, the client acknowledges what the engine sent it.
//! Packets are made before the clock runs.

use std::net::{IpAddr, SocketAddr};

use engine::{Engine, EngineConfig, MemoryAdvice, Middlebox, Port};
use io::Clock;
use serde::{Deserialize, Serialize};
use units::{Duration, Instant, SeqNum, WindowScale};
use wire::{TcpFlags, TcpHeaderSpec, Timestamps, VirtioNetHeader};

use crate::BenchError;
use crate::topology::{SERVER, subscriber};

/// Payload of a segment, bytes.
const SEGMENT_LEN: usize = 1_400;

/// Flows visited between two looks at the clock.
const BATCH: usize = 64;

/// Flows of one subscriber.
pub(crate) const FLOWS_PER_SUBSCRIBER: u32 = 10;

/// Visits measured at least.
const VISITS_MIN: u32 = if cfg!(test) { 4_000 } else { 400_000 };

/// Virtual time between two packets: half a million a second.
const STEP: Duration = Duration::from_micros(2);

/// Advice that `run` gives for the engine's memory.
const ADVICE: MemoryAdvice =
    MemoryAdvice { on_piece: io::prefer_huge_pages, populate: io::populate, prefetch: io::prefetch };

const CLIENT_ISS: u32 = 1_000;
const SERVER_ISS: u32 = 5_000;
const FIRST_PORT: u16 = 10_000;

/// Cost of the engine alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineCost {
    /// Real time per packet handed in, those it makes of them included, ns.
    pub ns_per_packet: f64,
    /// Real time of opening a flow: three packets, ns.
    pub ns_per_flow_opened: f64,
    /// Memory of a flow that is open and has carried nothing yet, bytes.
    pub bytes_per_flow: f64,
    /// Memory of an idle flow after its data has been delivered, with what the allocator keeps of
    /// its buffers, bytes.
    pub bytes_per_used_flow: f64,
    /// State of a flow that is in use, as bytes for another process, with its share of its subscriber's.
    pub stored_bytes_per_flow: f64,
    /// Real time to store it, ns.
    pub ns_per_flow_stored: f64,
    /// Real time to make the flow of it, ns.
    pub ns_per_flow_resumed: f64,
    /// Real time in which packets wait for one scrape of the metrics, ns.
    pub ns_per_scrape: f64,
}

/// Opens `flows` flows and measures; in a process of its own, so that memory is the engine's.
///
/// # Errors
/// When the engine does not take a flow over, or does not deliver: then there is nothing to measure.
pub fn engine_cost(flows: u32) -> Result<EngineCost, BenchError> {
    let count = flows as usize;
    let config = EngineConfig { flows_max: count + 1_000, half_open_max: 10_000, ..EngineConfig::default() };
    let mut engine = Engine::new(config).map_err(|error| BenchError::Load(error.to_string()))?;
    engine.set_memory_advice(ADVICE);
    let mut driver = Driver {
        engine,
        now: Instant::ZERO + Duration::from_secs(1),
        sent: vec![0; count],
        delivered: vec![0; count],
        arrived: Vec::with_capacity(BATCH),
        packet: vec![0; TcpHeaderSpec::MAX_LEN + SEGMENT_LEN],
        elapsed: Duration::ZERO,
        packets: 0,
    };
    let memory_before = io::resident_bytes().unwrap_or(0);
    for flow in 0..flows {
        driver.open(flow);
    }
    let ns_per_flow_opened = driver.elapsed.as_nanos() as f64 / f64::from(flows);
    let accelerated = driver.engine.stats().flows_accelerated;
    if accelerated != u64::from(flows) {
        return Err(BenchError::Load(format!("{flows} flows were opened, {accelerated} were accelerated")));
    }
    let memory = || io::resident_bytes().unwrap_or(0).saturating_sub(memory_before) as f64 / f64::from(flows);
    let bytes_per_flow = memory();
    // Each once for the caches and for memory, then for the clock.
    driver.visit(flows, flows);
    (driver.elapsed, driver.packets) = (Duration::ZERO, 0);
    driver.visit(flows, flows.max(VISITS_MIN));
    let ns_per_packet = driver.elapsed.as_nanos() as f64 / driver.packets as f64;
    let (sent, delivered): (u64, u64) = (sum(&driver.sent), sum(&driver.delivered));
    if delivered < sent / 10 * 9 {
        return Err(BenchError::Load(format!("of {sent} bytes the engine delivered {delivered}")));
    }
    driver.rest();
    let bytes_per_used_flow = memory();
    let moved = move_state(&driver.engine)?;
    let ns_per_scrape = scrape(&driver.engine);
    let per_flow = |time: Duration| time.as_nanos() as f64 / f64::from(flows);
    Ok(EngineCost {
        ns_per_packet,
        ns_per_flow_opened,
        bytes_per_flow,
        bytes_per_used_flow,
        stored_bytes_per_flow: moved.bytes as f64 / f64::from(flows),
        ns_per_flow_stored: per_flow(moved.storing),
        ns_per_flow_resumed: per_flow(moved.resuming),
        ns_per_scrape,
    })
}

/// Time in which a packet loop hands over what is shown as metrics, ns: the rest is another thread's.
fn scrape(engine: &Engine) -> f64 {
    const SCRAPES: u32 = 1_000;
    let begin = Clock::now();
    for _ in 0..SCRAPES {
        std::hint::black_box(run::EngineMeters::of(engine));
    }
    Clock::now().saturating_since(begin).as_nanos() as f64 / f64::from(SCRAPES)
}

/// Cost of going on in another engine.
struct Moved {
    bytes: usize,
    storing: Duration,
    resuming: Duration,
}

fn move_state(engine: &Engine) -> Result<Moved, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Load(error.to_string());
    // As `run` does it: there is memory for the bytes and for the flows before packets wait.
    let mut state = engine.store();
    state.clear();
    let begin = Clock::now();
    engine.store_to(&mut |piece| state.extend_from_slice(piece));
    let stored = Clock::now();
    let mut next = Engine::new(engine.config().clone()).map_err(|error| failed(&error))?;
    next.set_memory_advice(ADVICE);
    next.prepare_for(engine.stats().flows_now as usize);
    let prepared = Clock::now();
    next.resume(&state).map_err(|error| failed(&error))?;
    let resumed = Clock::now();
    if next.stats().flows_now != engine.stats().flows_now {
        return Err(BenchError::Load("not all flows went on in another engine".to_owned()));
    }
    Ok(Moved {
        bytes: state.len(),
        storing: stored.saturating_since(begin),
        resuming: resumed.saturating_since(prepared),
    })
}

fn sum(counts: &[u32]) -> u64 {
    counts.iter().map(|count| u64::from(*count)).sum()
}

/// Both ends of every flow.
struct Driver {
    engine: Engine,
    now: Instant,
    /// Bytes each server has sent.
    sent: Vec<u32>,
    /// Bytes of them that the engine has sent to the client.
    delivered: Vec<u32>,
    /// Data that the engine has sent to clients since the clock was started: flow and bytes. It is entered
    /// when the clock stands: these accounts, too, have to be fetched from memory.
    arrived: Vec<(usize, u32)>,
    packet: Vec<u8>,
    elapsed: Duration,
    packets: u64,
}

fn client_of(flow: u32) -> SocketAddr {
    let port = FIRST_PORT + (flow % FLOWS_PER_SUBSCRIBER) as u16;
    SocketAddr::new(IpAddr::V4(subscriber(flow / FLOWS_PER_SUBSCRIBER)), port)
}

fn server() -> SocketAddr {
    SocketAddr::new(SERVER, 443)
}

/// The flow that a packet to `client` belongs to: the inverse of [`client_of`], from a header's bytes.
fn flow_of(header: &[u8]) -> Option<usize> {
    let &[high, middle, low] = header.get(17..20)?.first_chunk::<3>()?;
    let port = u16::from_be_bytes(*header.get(22..24)?.first_chunk::<2>()?);
    let number = u32::from_be_bytes([0, high & 0x7f, middle, low]).checked_sub(1)?;
    Some((number * FLOWS_PER_SUBSCRIBER + u32::from(port.checked_sub(FIRST_PORT)?)) as usize)
}

impl Driver {
    fn millis(&self) -> u32 {
        self.now.as_nanos().wrapping_div(1_000_000) as u32
    }

    /// A packet of `flow` from `port`'s side with `payload_len` zeros; gives its length and virtio header.
    fn write(
        &mut self,
        flow: u32,
        from: Port,
        seq: u32,
        ack: u32,
        flags: TcpFlags,
        payload_len: usize,
    ) -> (usize, VirtioNetHeader) {
        let (client, server) = (client_of(flow), server());
        let (src, dst) = if from == Port::Mobile { (client, server) } else { (server, client) };
        let mut spec = TcpHeaderSpec::new(src, dst, SeqNum::new(seq), SeqNum::new(ack), flags);
        spec.window = 4_096;
        let millis = self.millis();
        spec.timestamps =
            Some(Timestamps { value: millis, echo: if flags == TcpFlags::SYN { 0 } else { millis } });
        if flags.contains(TcpFlags::SYN) {
            (spec.mss, spec.window_scale, spec.sack_permitted) =
                (Some(1_460), Some(WindowScale::new(7)), true);
        }
        match spec.emit_partial(&mut self.packet, payload_len) {
            Ok(header) => (header.total_len, VirtioNetHeader::for_partial_checksum(header.transport_offset)),
            // Both addresses are IPv4 and the buffer is as long as the longest packet.
            Err(_) => (0, VirtioNetHeader::default()),
        }
    }

    fn open(&mut self, flow: u32) {
        let syn_ack = TcpFlags::SYN.with(TcpFlags::ACK);
        let steps = [
            (Port::Mobile, CLIENT_ISS, 0, TcpFlags::SYN),
            (Port::Wired, SERVER_ISS, CLIENT_ISS + 1, syn_ack),
            (Port::Mobile, CLIENT_ISS + 1, SERVER_ISS + 1, TcpFlags::ACK),
        ];
        for (from, seq, ack, flags) in steps {
            let (len, virtio) = self.write(flow, from, seq, ack, flags, 0);
            let begin = Clock::now();
            self.engine.handle_packet(from, &virtio, &mut self.packet[..len], self.now);
            self.drain();
            self.elapsed += Clock::now().saturating_since(begin);
            self.now += STEP;
        }
    }

    /// Visits `visits` times the next flow of an order that goes through all of them.
    fn visit(&mut self, flows: u32, visits: u32) {
        let stride = stride(flows);
        let mut flow = 0;
        let mut left = visits;
        while left > 0 {
            let batch: Vec<u32> = (0..left.min(BATCH as u32))
                .map(|_| {
                    flow = ((u64::from(flow) + u64::from(stride)) % u64::from(flows)) as u32;
                    flow
                })
                .collect();
            left -= batch.len() as u32;
            self.send_batch(&batch);
            self.acknowledge_batch(&batch);
        }
    }

    fn send_batch(&mut self, flows: &[u32]) {
        let packets: Vec<_> = flows
            .iter()
            .map(|&flow| {
                let seq = SERVER_ISS.wrapping_add(1).wrapping_add(self.sent[flow as usize]);
                let made = self.write(
                    flow,
                    Port::Wired,
                    seq,
                    CLIENT_ISS + 1,
                    TcpFlags::ACK.with(TcpFlags::PSH),
                    SEGMENT_LEN,
                );
                self.sent[flow as usize] = self.sent[flow as usize].wrapping_add(SEGMENT_LEN as u32);
                (self.packet[..made.0].to_vec(), made.1)
            })
            .collect();
        self.hand_in(Port::Wired, packets);
    }

    fn acknowledge_batch(&mut self, flows: &[u32]) {
        let packets: Vec<_> = flows
            .iter()
            .map(|&flow| {
                let ack = SERVER_ISS.wrapping_add(1).wrapping_add(self.delivered[flow as usize]);
                let made = self.write(flow, Port::Mobile, CLIENT_ISS + 1, ack, TcpFlags::ACK, 0);
                (self.packet[..made.0].to_vec(), made.1)
            })
            .collect();
        self.hand_in(Port::Mobile, packets);
    }

    /// Hands in the packets, as the clock measures it.
    fn hand_in(&mut self, from: Port, mut packets: Vec<(Vec<u8>, VirtioNetHeader)>) {
        self.packets += packets.len() as u64;
        let begin = Clock::now();
        // As the packet loop of `run` does with what it has read together.
        for batch in packets.chunks_mut(Engine::LOOK_AHEAD_MAX) {
            self.engine.look_ahead(batch.iter().map(|(packet, _)| (from, &packet[..])));
            for (packet, virtio) in batch {
                self.engine.handle_packet(from, virtio, packet, self.now);
                self.now += STEP;
            }
        }
        if self.engine.next_deadline().is_some_and(|at| at <= self.now) {
            self.engine.handle_timeout(self.now);
        }
        self.drain();
        self.elapsed += Clock::now().saturating_since(begin);
        for (flow, len) in self.arrived.drain(..) {
            if let Some(delivered) = self.delivered.get_mut(flow) {
                // Nothing is lost here, so what is sent is new and in order.
                *delivered = delivered.wrapping_add(len);
            }
        }
    }

    /// Takes what the engine sends, and notes what the client gets of it.
    fn drain(&mut self) {
        while let Some(made) = self.engine.poll_transmit(self.now) {
            let len = made.payload.0.len() + made.payload.1.len();
            if made.to == Port::Mobile
                && len > 0
                && let Some(flow) = flow_of(made.header)
            {
                self.arrived.push((flow, len as u32));
            }
        }
    }

    /// Lets time pass, in which buffers are given back.
    fn rest(&mut self) {
        for _ in 0..5_000 {
            self.now += Duration::from_millis(1);
            if self.engine.next_deadline().is_some_and(|at| at <= self.now) {
                self.engine.handle_timeout(self.now);
                self.drain();
            }
        }
    }
}

/// About 0.618 of `flows`, and without a common divisor: the order visits every flow and never its neighbour.
fn stride(flows: u32) -> u32 {
    let divides = |mut a: u32, mut b: u32| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let first = (u64::from(flows) * 618 / 1_000).max(1) as u32;
    (first..).find(|stride| divides(*stride, flows) == 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_leads_back_to_its_flow() {
        let mut packet = [0; TcpHeaderSpec::MAX_LEN];
        for flow in [0, 9, 10, 65_541, 999_999] {
            let spec =
                TcpHeaderSpec::new(server(), client_of(flow), SeqNum::new(1), SeqNum::new(1), TcpFlags::ACK);
            spec.emit_partial(&mut packet, 0).unwrap();
            assert_eq!(flow_of(&packet), Some(flow as usize));
        }
    }

    #[test]
    fn the_order_visits_every_flow() {
        for flows in [1, 2, 10, 1_000, 1_024] {
            let stride = stride(flows);
            let mut seen = vec![false; flows as usize];
            (0..flows).fold(0, |flow, _| {
                let next = (flow + stride) % flows;
                seen[next as usize] = true;
                next
            });
            assert!(seen.iter().all(|seen| *seen), "{flows}");
        }
    }

    #[test]
    fn every_flow_is_accelerated_and_served() {
        let cost = engine_cost(50).unwrap();
        assert!(cost.ns_per_packet > 0.0 && cost.ns_per_flow_opened > 0.0 && cost.ns_per_scrape > 0.0);
    }
}
