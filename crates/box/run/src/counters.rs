//! [`Counters`], [`PacketTime`], [`Answering`]: what packet loops have done, and how long it took.

use io::Clock;
use units::{Duration, Instant};
use wire::{GsoType, VirtioNetHeader};

/// RFC 768.
const UDP_HEADER_LEN: usize = 8;

/// Counts of all that has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// By the side a packet came from or, for sent ones, left to: wired, then mobile.
    pub sides: [SideCounters; 2],
}

impl Counters {
    /// Adds what happened elsewhere.
    pub(crate) fn add(&mut self, other: &Self) {
        for (own, other) in self.sides.iter_mut().zip(&other.sides) {
            own.received_packets += other.received_packets;
            own.received_bytes += other.received_bytes;
            own.consumed_packets += other.consumed_packets;
            own.sent_packets += other.sent_packets;
            own.refused_packets += other.refused_packets;
            own.received_on_link.add(other.received_on_link);
            own.sent_on_link.add(other.sent_on_link);
        }
    }
}

/// Counts of one side. A super-packet counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideCounters {
    /// Packets the kernel handed over.
    pub received_packets: u64,
    /// Bytes of those, IP headers included.
    pub received_bytes: u64,
    /// Of those, packets the processor took.
    pub consumed_packets: u64,
    /// Packets written, forwarded and made by the processor.
    pub sent_packets: u64,
    /// Packets the kernel refused to take.
    pub refused_packets: u64,
    /// Packets received, as they were on the link.
    pub received_on_link: OnLink,
    /// Packets written, as they are going to be on the link.
    pub sent_on_link: OnLink,
}

impl SideCounters {
    pub(crate) fn count(&mut self, is_sent: bool, on_link: OnLink) {
        if is_sent {
            self.sent_packets += 1;
            self.sent_on_link.add(on_link);
        } else {
            self.refused_packets += 1;
        }
    }
}

/// Packets as they are on a link: a super-packet is what it was made of, or what the kernel cuts it into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnLink {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of those, IP headers included.
    pub bytes: u64,
}

impl OnLink {
    /// A packet of `len` bytes, `headers_len` of which are headers, that is cut into pieces of `size` bytes of
    /// payload; 0 if it is not.
    pub(crate) fn new(len: usize, headers_len: usize, size: u16) -> Self {
        let payload_len = len.saturating_sub(headers_len);
        let packets = if size == 0 { 1 } else { payload_len.div_ceil(usize::from(size)).max(1) };
        Self { packets: packets as u64, bytes: (len + (packets - 1) * headers_len) as u64 }
    }

    /// A packet with the virtio header that it came with.
    pub(crate) fn of(virtio: &VirtioNetHeader, packet: &[u8]) -> Self {
        if virtio.gso_size == 0 {
            return Self::new(packet.len(), 0, 0);
        }
        // The kernel's `hdr_len` is a hint: headers are read where the checksum begins (VIRTIO 1.2 §5.1.6).
        let start = usize::from(virtio.csum_start);
        let header_len = match virtio.gso_type {
            GsoType::UdpL4 => UDP_HEADER_LEN,
            _ => packet.get(start + 12).map_or(0, |byte| usize::from(byte >> 4) * 4),
        };
        Self::new(packet.len(), start + header_len, virtio.gso_size)
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Upper bounds of the classes of [`PacketTime`], in nanoseconds; the last class has none.
pub(crate) const PACKET_TIME_BOUNDS_NS: [u64; 10] =
    [250, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000];

/// Number of turns with packets of which one is timed, the first one among them.
const TIMED_EVERY: u32 = 16;

/// Time per packet, by some turns of the loop: from before its packets are read until after what the processor
/// made of them is written, divided by the packets read and made. System calls are part of it, waiting is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketTime {
    /// Turns with packets until the next one that is timed.
    turns_left: u32,
    /// Packets of timed turns, by the time per packet of their turn.
    pub counts: [u64; PACKET_TIME_BOUNDS_NS.len() + 1],
    /// Time of all those turns, ns.
    pub sum_ns: u64,
}

impl PacketTime {
    /// Time at which a turn begins, if it is to be timed.
    pub(crate) fn begin(&self) -> Option<Instant> {
        (self.turns_left == 0).then(Clock::now)
    }

    /// A turn of `packets` is over. One without packets says nothing: the next one is timed in its place.
    pub(crate) fn end(&mut self, began: Option<Instant>, packets: u64) {
        if packets == 0 {
            return;
        }
        let Some(began) = began else {
            self.turns_left -= 1;
            return;
        };
        self.turns_left = TIMED_EVERY - 1;
        self.count(Clock::now().saturating_since(began), packets);
    }

    pub(crate) fn count(&mut self, took: Duration, packets: u64) {
        let per_packet = took.as_nanos() / packets;
        self.counts[PACKET_TIME_BOUNDS_NS.partition_point(|bound| *bound < per_packet)] += packets;
        self.sum_ns = self.sum_ns.saturating_add(took.as_nanos());
    }

    /// Adds what another loop has seen.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(own, other)| *own += other);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }
}

/// Answers that the loop has given between its turns: questions for metrics, the status, subscribers, flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answering {
    /// Number of answers.
    pub count: u64,
    /// Processor time of the loop's thread for them, ns.
    pub sum_ns: u64,
}

impl Answering {
    /// Adds what another loop has answered.
    pub fn add(&mut self, other: Self) {
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_super_packet_counts_as_what_it_is_on_the_link() {
        let mut packet = [0; 20 + 32 + 3_000];
        packet[20 + 12] = 8 << 4;
        let virtio = VirtioNetHeader { csum_start: 20, gso_size: 1_448, ..VirtioNetHeader::default() };
        assert_eq!(OnLink::of(&virtio, &packet), OnLink { packets: 3, bytes: 3_000 + 3 * 52 });
        let whole = VirtioNetHeader { gso_size: 0, ..virtio };
        assert_eq!(OnLink::of(&whole, &packet), OnLink { packets: 1, bytes: 3_052 });
        assert_eq!(OnLink::of(&virtio, &packet[..30]), OnLink { packets: 1, bytes: 30 }, "cut short");
        let datagrams = VirtioNetHeader { gso_type: GsoType::UdpL4, gso_size: 1_512, ..virtio };
        assert_eq!(OnLink::of(&datagrams, &packet), OnLink { packets: 2, bytes: 3_052 + 28 });
        assert_eq!(OnLink::new(52 + 1_448, 52, 1_448), OnLink { packets: 1, bytes: 1_500 });
    }

    #[test]
    fn time_per_packet_is_that_of_its_turn() {
        let mut time = PacketTime::default();
        let began = time.begin();
        time.end(began, 0);
        assert_eq!(time, PacketTime::default(), "nothing was handled");
        assert!(began.is_some() && time.begin().is_some(), "the next turn is timed in its place");
        time.count(Duration::from_micros(30), 10);
        time.count(Duration::from_micros(1), 1);
        assert_eq!((time.counts[4], time.counts[2], time.sum_ns), (10, 1, 31_000));
        let mut sum = PacketTime::default();
        sum.add(&time);
        sum.add(&time);
        assert_eq!((sum.counts[4], sum.sum_ns), (20, 62_000));
    }

    #[test]
    fn one_in_sixteen_turns_with_packets_is_timed_and_the_first_is() {
        let mut time = PacketTime::default();
        let timed = |_| {
            let began = time.begin();
            time.end(began, 3);
            began.is_some()
        };
        let timed: Vec<bool> = (0..33).map(timed).collect();
        let expected: Vec<bool> = (0..33).map(|turn| turn % 16 == 0).collect();
        assert_eq!(timed, expected);
        assert_eq!(time.counts.iter().sum::<u64>(), 9);
    }
}
