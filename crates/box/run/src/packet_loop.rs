//! [`PacketLoop`]: moves packets between a path and the processor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Port, Transmit, Verdict};
use handover::Peer;
use io::{Clock, IoError};
use units::{Duration, Instant};
use wire::{TcpFlags, VirtioNetHeader};

use crate::counters::{Answering, Counters, OnLink, PacketTime};
use crate::event_broadcaster::{EventBroadcaster, Reporter};
use crate::handover::{Job, Relayed};
use crate::packet_path::{Batch, PacketPath, Received};
use crate::processor::Processor;
use crate::snapshot::ShardMeters;
use crate::steering::bypass::Bypass;
use crate::steering::subscribers::SubscriberRoutes;

/// Packets read from one side before the other has its turn.
const READ_BUDGET_PACKETS: usize = 64;

/// Bytes read from one side before what the processor made of them is sent: what waits longer has left the
/// processor's cache and is fetched from memory again.
const READ_BUDGET_BYTES: usize = 256 * 1024;

/// Packets sent on the processor's behalf before the devices are read again.
const TRANSMIT_BUDGET_PACKETS: usize = 256;

/// Time during which a loop that ends hands on what has come in: what sockets and devices hold takes far
/// less. It is shorter than any time after which a process without a heartbeat is taken for hung.
pub(crate) const LAST_TURNS: Duration = Duration::from_millis(100);

/// The segments of a super-packet on which the kernel would leave CWR on the first one only.
fn cut_keeping_cwr(virtio: &VirtioNetHeader, packet: &[u8]) -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    let Ok(parsed) = wire::parse(packet) else { return segments };
    let Ok(splitter) = wire::split(packet, &parsed, virtio.gso_size) else { return segments };
    let mut splitter = splitter.keeping_cwr();
    while let Some(len) = splitter.next_len() {
        let mut segment = vec![0; len];
        if !matches!(splitter.next_into(&mut segment), Ok(Some(_))) {
            break;
        }
        segments.push(segment);
    }
    segments
}

/// A path and what passed along it.
#[derive(Debug)]
pub(crate) struct PacketLoop<P> {
    path: P,
    counters: Counters,
    packet_time: PacketTime,
    answering: Answering,
    /// Packets read, and made by the processor.
    handled: u64,
    /// Bypass for flows that the processor takes no part in.
    bypass: Option<Arc<Bypass>>,
    routes: Option<Arc<SubscriberRoutes>>,
    reporter: Option<Reporter>,
    /// First SYNs are not passed.
    no_new_flows: Arc<AtomicBool>,
}

impl<P: PacketPath> PacketLoop<P> {
    /// A loop along `path`. Flows that the processor takes no part in are left to the kernel by `bypass`.
    pub fn new(path: P, bypass: Option<Arc<Bypass>>) -> Self {
        Self {
            path,
            counters: Counters::default(),
            packet_time: PacketTime::default(),
            answering: Answering::default(),
            handled: 0,
            bypass,
            routes: None,
            reporter: None,
            no_new_flows: Arc::default(),
        }
    }

    /// Has subscribers led here by routes, from here on.
    pub fn leading(self, routes: Option<Arc<SubscriberRoutes>>) -> Self {
        Self { routes, ..self }
    }

    /// While that is set, the packets that begin a flow are dropped: they come again.
    pub fn refusing(self, no_new_flows: Arc<AtomicBool>) -> Self {
        Self { no_new_flows, ..self }
    }

    /// Hands on what the processor notes, from here on.
    pub fn reporting(self, broadcaster: EventBroadcaster) -> Self {
        Self { reporter: Some(Reporter::new(broadcaster)), ..self }
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Metrics of this loop and of what handles its packets.
    pub fn meters(&self, processor: &impl Processor) -> ShardMeters {
        let Self { counters, packet_time, answering, .. } = self;
        let (counters, packet_time, answering) = (*counters, *packet_time, *answering);
        ShardMeters { counters, packet_time, answering, engine: processor.meters() }
    }

    /// Notes that a question was answered here, since the thread had used `began`.
    pub fn has_answered(&mut self, began: Duration) {
        let sum_ns = Clock::thread_time().as_nanos().saturating_sub(began.as_nanos());
        self.answering.add(Answering { count: 1, sum_ns });
    }

    pub fn path(&self) -> &P {
        &self.path
    }

    pub fn path_mut(&mut self) -> &mut P {
        &mut self.path
    }

    /// Reads, handles and sends a bounded amount; true when there may be more at once.
    ///
    /// # Errors
    /// When a device is gone or down.
    pub fn turn(&mut self, processor: &mut impl Processor) -> Result<bool, IoError> {
        let (began, handled) = (self.packet_time.begin(), self.handled);
        let mut more = false;
        for side in [Port::Wired, Port::Mobile] {
            more |= self.read(side, processor)?;
        }
        let now = Clock::now();
        if processor.next_deadline().is_some_and(|at| at <= now) {
            processor.handle_timeout(now);
        }
        more |= self.transmit(processor, now)?;
        self.follow_wanted(processor);
        if let Some(reporter) = &mut self.reporter {
            reporter.report(processor);
        }
        self.packet_time.end(began, self.handled - handled);
        Ok(more)
    }

    /// Hands on what has come in already, before the loop ends: for [`LAST_TURNS`] at most. Where
    /// packets go on to come, and faster than they are handled, there is always more.
    pub fn finish(&mut self, processor: &mut impl Processor) {
        let end = Clock::now() + LAST_TURNS;
        while self.turn(processor).unwrap_or(false) && Clock::now() < end {}
    }

    fn read(&mut self, from: Port, processor: &mut impl Processor) -> Result<bool, IoError> {
        let (mut packets, mut bytes) = (0, 0);
        while packets < READ_BUDGET_PACKETS && bytes < READ_BUDGET_BYTES {
            let Batch { len, is_last } = self.path.receive(from)?;
            if len > 1 {
                processor.look_ahead(from, self.path.batch());
            }
            let now = Clock::now();
            for index in 0..len {
                bytes += self.handle(from, index, processor, now)?;
            }
            packets += len;
            if is_last {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Handles one packet of the batch read last; gives its length.
    fn handle(
        &mut self,
        from: Port,
        index: usize,
        processor: &mut impl Processor,
        now: Instant,
    ) -> Result<usize, IoError> {
        let Some(Received { virtio, packet }) = self.path.packet(index) else { return Ok(0) };
        let len = packet.len();
        self.handled += 1;
        let counters = &mut self.counters.sides[from.index()];
        counters.received_packets += 1;
        counters.received_bytes += len as u64;
        // What the kernel says in a way that nobody understands is left to it.
        let virtio = VirtioNetHeader::parse(virtio).ok();
        let on_link = virtio.map_or(OnLink::new(len, 0, 0), |virtio| OnLink::of(&virtio, packet));
        counters.received_on_link.add(on_link);
        let is_refused = self.no_new_flows.load(Ordering::Relaxed) && is_first_syn(packet);
        let verdict = match virtio {
            _ if is_refused => Verdict::Consumed,
            Some(virtio) => processor.handle_packet(from, &virtio, packet, now),
            None => Verdict::Forward,
        };
        let cut = virtio.filter(|virtio| verdict == Verdict::Forward && virtio.has_cwr_everywhere(packet));
        let cut = cut.map(|virtio| cut_keeping_cwr(&virtio, packet));
        if processor.take_news() {
            self.path.trust(index);
        }
        match verdict {
            Verdict::Consumed => counters.consumed_packets += 1,
            Verdict::Forward => {
                // Before the next packet: that may open the same ports anew.
                if let (Some(bypass), Some(flow)) = (&self.bypass, processor.take_unknown_flow()) {
                    bypass.add(&flow);
                }
                let is_sent = match cut {
                    Some(segments) => self.send_all(from.opposite(), &segments)?,
                    None => self.path.forward(index)?,
                };
                self.counters.sides[from.opposite().index()].count(is_sent, on_link);
            }
        }
        Ok(len)
    }

    /// Sends packets with complete checksums; false when one was refused.
    fn send_all(&mut self, to: Port, packets: &[Vec<u8>]) -> Result<bool, IoError> {
        let mut are_sent = true;
        for packet in packets {
            let virtio = VirtioNetHeader::default();
            are_sent &= self.path.send(&Transmit { to, virtio, header: packet, payload: (&[], &[]) })?;
        }
        Ok(are_sent)
    }

    /// Has all traffic of subscribers come here, or no longer, as the processor wants it.
    fn follow_wanted(&mut self, processor: &mut impl Processor) {
        while let Some((subscriber, is_wanted)) = processor.take_wanted_subscriber() {
            if let Some(bypass) = &self.bypass {
                bypass.schedule(subscriber, is_wanted);
            } else if let Some(routes) = &self.routes {
                routes.lead(subscriber, is_wanted);
            }
        }
    }

    /// Does work that comes from another box.
    ///
    /// # Errors
    /// When the device is gone or down.
    pub fn work(&mut self, job: Job, processor: &mut impl Processor) -> Result<(), IoError> {
        let now = Clock::now();
        match job {
            Job::Handover(request) => {
                if let Some(bypass) = &self.bypass {
                    let ends = request.flows().into_iter().map(|flow| flow.client_and_server());
                    ends.for_each(|(client, server)| bypass.remove(client, server));
                }
                processor.handle_handover_request(request, now);
                while let Some((by, early)) = processor.take_early() {
                    self.handle_relayed(by, early, processor, now)?;
                }
            }
            Job::Relayed(by, relayed, waiting) => {
                waiting.fetch_sub(1, Ordering::Relaxed);
                self.handle_relayed(by, relayed, processor, now)?;
            }
        }
        Ok(())
    }

    fn handle_relayed(
        &mut self,
        by: Peer,
        Relayed { from, virtio, mut packet }: Relayed,
        processor: &mut impl Processor,
        now: Instant,
    ) -> Result<(), IoError> {
        if processor.handle_relayed(by, from, &virtio, &mut packet, now) == Verdict::Forward {
            let to = from.opposite();
            let on_link = OnLink::of(&virtio, &packet);
            let is_sent = self.path.send(&Transmit { to, virtio, header: &packet, payload: (&[], &[]) })?;
            self.counters.sides[to.index()].count(is_sent, on_link);
        }
        Ok(())
    }

    fn transmit(&mut self, processor: &mut impl Processor, now: Instant) -> Result<bool, IoError> {
        for _ in 0..TRANSMIT_BUDGET_PACKETS {
            let Some(packet) = processor.poll_transmit(now) else { return Ok(false) };
            let is_sent = self.path.send(&packet)?;
            self.handled += 1;
            let len = packet.header.len() + packet.payload.0.len() + packet.payload.1.len();
            let on_link = OnLink::new(len, packet.header.len(), packet.virtio.gso_size);
            self.counters.sides[packet.to.index()].count(is_sent, on_link);
        }
        Ok(true)
    }
}

fn is_first_syn(packet: &[u8]) -> bool {
    let parsed = wire::parse(packet);
    parsed.is_ok_and(|parsed| {
        parsed
            .tcp()
            .is_some_and(|tcp| tcp.flags.contains(TcpFlags::SYN) && !tcp.flags.contains(TcpFlags::ACK))
    })
}

#[cfg(test)]
mod tests {
    use engine::PassThrough;
    use io::{VNET_HEADER_LEN, VnetHeader, Waiter};

    use super::*;

    /// Packets come in faster than they are handled.
    struct Flood {
        virtio: VnetHeader,
        packet: [u8; 40],
    }

    impl PacketPath for Flood {
        fn receive(&mut self, _from: Port) -> Result<Batch, IoError> {
            Ok(Batch { len: 1, is_last: false })
        }
        fn batch(&self) -> impl Iterator<Item = &[u8]> + Clone {
            std::iter::once(&self.packet[..])
        }
        fn packet(&mut self, _index: usize) -> Option<Received<'_>> {
            Some(Received { virtio: &mut self.virtio, packet: &mut self.packet })
        }
        fn forward(&mut self, _index: usize) -> Result<bool, IoError> {
            Ok(true)
        }
        fn send(&mut self, _packet: &Transmit<'_>) -> Result<bool, IoError> {
            Ok(true)
        }
        fn watch(&self, _waiter: &Waiter, _tokens: [u64; 2]) -> Result<(), IoError> {
            Ok(())
        }
    }

    #[test]
    fn the_time_of_answers_adds_up() {
        let path = Flood { virtio: [0; VNET_HEADER_LEN], packet: [0; 40] };
        let mut packet_loop = PacketLoop::new(path, None);
        let began = Clock::thread_time();
        while Clock::thread_time() - began < Duration::from_micros(200) {}
        packet_loop.has_answered(began);
        packet_loop.has_answered(began);
        let answering = packet_loop.answering;
        assert!(answering.count == 2 && answering.sum_ns >= 400_000, "{answering:?}");
    }

    #[test]
    fn a_loop_ends_although_packets_go_on_to_come() {
        let path = Flood { virtio: [0; VNET_HEADER_LEN], packet: [0; 40] };
        let mut packet_loop = PacketLoop::new(path, None);
        packet_loop.finish(&mut PassThrough);
        assert!(packet_loop.packet_time.counts.iter().sum::<u64>() > 0, "some turns are timed");
        assert!(packet_loop.counters().sides[0].received_packets >= READ_BUDGET_PACKETS as u64);
    }
}
