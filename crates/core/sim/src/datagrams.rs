//! [`Datagrams`]: a UDP source at a set rate on the server's side, and a sink that acknowledges
//! every datagram.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use units::{Bytes, Duration, Instant, Rate};
use wire::Transport;

use crate::ip_header::udp_packet;

/// Payload of an acknowledgement: the number of the datagram.
const ACK_LEN: usize = 8;

/// Marks of progress are at least this far apart.
const MARK_SPACING: Duration = Duration::from_millis(5);

/// Time for which the last datagrams are waited for where the links are never empty.
const DRAIN: Duration = Duration::from_secs(5);

/// UDP datagrams from a server to a client, evenly spaced.
#[derive(Clone, Debug)]
pub struct DatagramConfig {
    /// The source.
    pub server: SocketAddr,
    /// The sink, behind the first radio link.
    pub client: SocketAddr,
    /// Time of the first one, after the start of the run.
    pub begins: Duration,
    /// Payload over time.
    pub rate: Rate,
    /// Payload of each, at least 8 bytes.
    pub payload: Bytes,
    /// Number of datagrams.
    pub count: u64,
    /// Payload of each acknowledgement, at least 8 bytes: as much as a datagram's for a call, which
    /// goes both ways.
    pub answer: Bytes,
}

impl DatagramConfig {
    /// Payload of an acknowledgement that is nothing more.
    pub const ACK: Bytes = Bytes::new(ACK_LEN as u64);
}

/// Observations of source and sink.
#[derive(Clone, Debug, Default)]
pub struct DatagramLog {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Datagrams up to the last one that arrived: those of them that did not are lost.
    pub reached: u64,
    /// Payload that arrived, so far, at some moments.
    pub marks: Vec<(Instant, u64)>,
    /// Arrival time of the last one.
    pub last: Option<Instant>,
    /// Times at which acknowledgements came back to the source, and how long after its datagram each did.
    pub round_trips: Vec<(Instant, Duration)>,
    /// Delays of the datagrams that arrived, in the order of arrival.
    pub delays: Vec<Duration>,
    /// The same of the acknowledgements.
    pub answer_delays: Vec<Duration>,
}

/// Source and sink.
#[derive(Debug)]
pub(crate) struct Datagrams {
    config: DatagramConfig,
    start: Instant,
    log: DatagramLog,
    /// Arrival times of the datagrams that arrived, by their numbers.
    arrived: BTreeMap<u64, Instant>,
}

impl Datagrams {
    pub(crate) fn new(config: DatagramConfig, start: Instant) -> Self {
        let start = start + config.begins;
        Self { config, start, log: DatagramLog::default(), arrived: BTreeMap::new() }
    }

    pub(crate) fn log(&self) -> &DatagramLog {
        &self.log
    }

    /// Time at which the datagram of this number leaves: exact, however many there are.
    fn leaves_at(&self, number: u64) -> Instant {
        let amount = Bytes::new(self.config.payload.get().saturating_mul(number));
        self.start + self.config.rate.time_for(amount)
    }

    /// Time at which the next one leaves; none behind the last.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        (self.log.sent < self.config.count).then(|| self.leaves_at(self.log.sent))
    }

    /// True when all have left, and the last one so long ago that nothing more comes of them.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.next_deadline().is_none() && now >= self.leaves_at(self.config.count) + DRAIN
    }

    /// The next datagram, if it is due.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.next_deadline().filter(|at| *at <= now)?;
        let number = self.log.sent;
        self.log.sent += 1;
        datagram(self.config.server, self.config.client, number, self.config.payload.get() as usize)
    }

    /// Takes a datagram at the sink; its acknowledgement. None for what is no datagram of this source.
    pub(crate) fn handle_at_sink(&mut self, packet: &[u8], now: Instant) -> Option<Vec<u8>> {
        let (number, payload) = self.read(packet, self.config.client)?;
        self.log.received += 1;
        self.log.reached = self.log.reached.max(number.saturating_add(1));
        self.log.last = Some(now);
        self.log.delays.push(now.saturating_since(self.leaves_at(number)));
        self.arrived.insert(number, now);
        let total = self.log.received.saturating_mul(payload);
        match self.log.marks.last() {
            Some((at, _)) if now.saturating_since(*at) < MARK_SPACING => {}
            _ => self.log.marks.push((now, total)),
        }
        datagram(self.config.client, self.config.server, number, self.config.answer.get() as usize)
    }

    /// Takes an acknowledgement at the source; false for what is none.
    pub(crate) fn handle_at_source(&mut self, packet: &[u8], now: Instant) -> bool {
        let Some((number, _)) = self.read(packet, self.config.server) else { return false };
        if number < self.log.sent {
            self.log.round_trips.push((now, now.saturating_since(self.leaves_at(number))));
            let answered = self.arrived.remove(&number).map(|at| now.saturating_since(at));
            self.log.answer_delays.extend(answered);
        }
        true
    }

    /// Number and payload of a datagram for `to`.
    fn read(&self, packet: &[u8], to: SocketAddr) -> Option<(u64, u64)> {
        let parsed = wire::parse(packet).ok()?;
        let Transport::Udp(udp) = &parsed.transport else { return None };
        let is_ours = parsed.ip.dst == to.ip() && udp.dst_port == to.port();
        let payload = udp.payload(packet);
        let number = u64::from_be_bytes(*payload.first_chunk()?);
        (is_ours && wire::udp_checksum_is_valid(packet, &parsed)).then_some((number, payload.len() as u64))
    }
}

/// A UDP packet that carries `number` in `len` bytes of payload; none for mixed addresses.
fn datagram(src: SocketAddr, dst: SocketAddr, number: u64, len: usize) -> Option<Vec<u8>> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(len.max(ACK_LEN), 0x5a);
    udp_packet(src, dst, &payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(rate: Rate, server: &str, client: &str) -> Datagrams {
        let (server, client) = (server.parse().unwrap(), client.parse().unwrap());
        let config = DatagramConfig {
            server,
            client,
            begins: Duration::ZERO,
            rate,
            payload: Bytes::new(1_000),
            count: 3,
            answer: DatagramConfig::ACK,
        };
        Datagrams::new(config, Instant::from_millis(5))
    }

    #[test]
    fn datagrams_leave_evenly_and_come_back_as_acknowledgements() {
        for (server, client) in [("10.0.0.1:9", "10.0.0.2:8"), ("[fd00::1]:9", "[fd00::2]:8")] {
            let mut flow = source(Rate::from_mbps(8), server, client);
            assert!(flow.poll_transmit(Instant::from_millis(4)).is_none());
            for number in 0..3 {
                let at = Instant::from_millis(5 + number);
                assert_eq!(flow.next_deadline(), Some(at));
                let packet = flow.poll_transmit(at).unwrap();
                assert!(flow.poll_transmit(at).is_none(), "one each millisecond");
                let parsed = wire::parse(&packet).unwrap();
                assert!(
                    wire::ipv4_checksum_is_valid(&packet) && wire::udp_checksum_is_valid(&packet, &parsed)
                );
                let later = at + Duration::from_millis(10);
                let ack = flow.handle_at_sink(&packet, later).unwrap();
                assert!(!flow.handle_at_source(&packet, later), "not for the source");
                assert!(flow.handle_at_source(&ack, later + Duration::from_millis(2)));
            }
            assert_eq!(flow.next_deadline(), None);
            assert!(flow.log().round_trips.iter().all(|(_, rtt)| *rtt == Duration::from_millis(12)));
            assert_eq!(flow.log().delays, [Duration::from_millis(10); 3]);
            assert_eq!(flow.log().answer_delays, [Duration::from_millis(2); 3]);
            assert_eq!((flow.log().received, flow.log().reached), (3, 3));
            assert_eq!(flow.log().marks.first().unwrap().1, 1_000);
        }
    }

    #[test]
    fn what_is_broken_or_not_for_it_is_not_taken() {
        let mut flow = source(Rate::from_mbps(8), "10.0.0.1:9", "10.0.0.2:8");
        let mut packet = flow.poll_transmit(Instant::from_millis(5)).unwrap();
        *packet.last_mut().unwrap() ^= 1;
        assert!(flow.handle_at_sink(&packet, Instant::from_millis(6)).is_none());
        let stray = datagram("10.0.0.1:9".parse().unwrap(), "10.0.0.2:7".parse().unwrap(), 0, 8).unwrap();
        assert!(flow.handle_at_sink(&stray, Instant::from_millis(6)).is_none());
        assert_eq!(flow.log().received, 0);
    }
}
