//! [`Markers`]: echo requests behind opaque packets, where nothing else says what has left.
//!
//! The radio queue is first in, first out. So the reply to an echo request (RFC 792, RFC 4443 §4.1) says that all that
//! was sent before the request has left. Requests are sent only while opaque bytes are under way and nothing else
//! answers, to the address that the bytes went to, from the one they came from.

use std::collections::VecDeque;
use std::net::IpAddr;

use control::SendStamp;
use units::{Bytes, Duration, Instant, SeqNum, mix64};
use wire::{Icmp, Ip, IpVersion, Packet};

use super::key::host;

/// The identifier of all requests (RFC 792): who steers packets to the engine knows replies by it.
pub const IDENTIFIER: u16 = 0xce11;

/// A request follows so many bytes, or such a part of a window if that is more, or what has left so long ago.
const BYTES: u64 = 6_000;
const PART: u64 = 16;
const DELAY: Duration = Duration::from_millis(25);

/// Requests in a row without a reply, and the time they take, after which nobody answers. A host that has
/// answered before may be out of reach, and is asked for longer: soon nothing is sent to a phone that has
/// gone.
const UNANSWERED: u32 = 16;
const UNANSWERED_FOR: Duration = Duration::from_secs(4);
const OUT_OF_REACH: Duration = Duration::from_secs(60);

/// Time after which a subscriber that does not answer is asked again.
const REST: Duration = Duration::from_secs(60);

/// The bits of a traffic class that are for marks.
const ECN: u8 = 3;

/// Requests under way, at most: a window that needs more has other evidence.
const UNDER_WAY: usize = 1_024;

/// Number and token behind the header of a request.
const PAYLOAD_LEN: usize = 12;
const ICMP_LEN: usize = 8 + PAYLOAD_LEN;

/// A request to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub(crate) struct Marker {
    src: IpAddr,
    dst: IpAddr,
    /// Traffic class of what it follows: another class may have a queue of its own.
    traffic_class: u8,
    /// Requests to a subscriber have ascending numbers.
    pub(crate) number: SeqNum,
}

/// A request under way, the oldest first.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Asked {
    number: SeqNum,
    /// Place of what it follows in the order of what leaves.
    place: u64,
    stamp: SendStamp,
}

/// Requests to one subscriber.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(crate) struct Markers {
    /// Hosts that the last opaque packet came from, and went to.
    hosts: Option<(IpAddr, IpAddr)>,
    traffic_class: u8,
    number: SeqNum,
    /// Time at which the last request was sent, and what has been sent since.
    asked_at: Instant,
    bytes: u32,
    unanswered: u32,
    /// Time at which the first of those was sent.
    unanswered_since: Instant,
    answered_at: Option<Instant>,
    rests_until: Instant,
    under_way: VecDeque<Asked>,
}

impl Markers {
    /// An opaque packet of `bytes` leaves.
    pub(crate) fn on_sent(&mut self, ip: &Ip, bytes: u32) {
        self.hosts = Some((ip.src, ip.dst));
        self.traffic_class = ip.traffic_class & !ECN;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Time at which the next request is due, if one is, where `window` may be under way.
    pub(crate) fn due(&self, window: Bytes) -> Option<Instant> {
        self.hosts?;
        let delay = match u64::from(self.bytes) {
            0 => return None,
            bytes if bytes >= BYTES.max(window.get() / PART) => Duration::ZERO,
            _ => DELAY,
        };
        Some((self.asked_at + delay).max(self.rests_until))
    }

    /// The request that is due now.
    pub(crate) fn ask(&mut self, window: Bytes, now: Instant) -> Option<Marker> {
        let (src, dst) = self.hosts.filter(|_| self.due(window).is_some_and(|due| now >= due))?;
        if self.unanswered == 0 {
            self.unanswered_since = now;
        }
        let patience = if self.answered_at.is_some() { OUT_OF_REACH } else { UNANSWERED_FOR };
        if self.unanswered >= UNANSWERED && now.saturating_since(self.unanswered_since) >= patience {
            (self.unanswered, self.rests_until) = (0, now + REST);
            return None;
        }
        self.unanswered += 1;
        (self.asked_at, self.bytes) = (now, 0);
        self.number += 1;
        Some(Marker { src, dst, traffic_class: self.traffic_class, number: self.number })
    }

    /// A request leaves behind all up to `place` in the order of what leaves.
    pub(crate) fn on_asked(&mut self, number: SeqNum, place: u64, stamp: SendStamp) {
        if self.under_way.len() >= UNDER_WAY {
            self.under_way.pop_front();
        }
        self.under_way.push_back(Asked { number, place, stamp });
    }

    /// The newest one under way has asked for all up to `place`.
    pub(crate) fn has_asked_for(&self, place: u64) -> bool {
        self.under_way.back().is_some_and(|asked| asked.place >= place)
    }

    /// The reply to a request has come: what it followed, and when it was sent. A reply counts once, and those to older
    /// ones do not any more.
    pub(crate) fn on_reply(&mut self, number: SeqNum, now: Instant) -> Option<(u64, SendStamp)> {
        let at = self.under_way.iter().position(|asked| asked.number == number)?;
        let asked = self.under_way.drain(..=at).next_back()?;
        (self.unanswered, self.answered_at) = (0, Some(now));
        Some((asked.place, asked.stamp))
    }

    /// Something else has answered: that is as good as a reply to the request that is due next.
    pub(crate) fn on_other_answer(&mut self, now: Instant) {
        (self.asked_at, self.bytes) = (now, 0);
    }

    /// Time at which the last one came.
    pub(crate) fn answered_at(&self) -> Option<Instant> {
        self.answered_at
    }
}

impl Marker {
    /// Writes the whole packet into `buffer`; its length, if there is room.
    pub(crate) fn write(&self, seed: u64, buffer: &mut [u8]) -> Option<usize> {
        let mut message = [0; ICMP_LEN];
        message[0] = if self.src.is_ipv4() { 8 } else { 128 };
        message[4..6].copy_from_slice(&IDENTIFIER.to_be_bytes());
        message[6..8].copy_from_slice(&(self.number.get() as u16).to_be_bytes());
        message[8..12].copy_from_slice(&self.number.get().to_be_bytes());
        message[12..20].copy_from_slice(&token(seed, self.dst, self.number).to_be_bytes());
        wire::emit_icmp((self.src, self.dst), self.traffic_class, &message, buffer).ok()
    }

    /// The number of the request that a packet of a subscriber answers, if it is the reply to one of ours.
    pub(crate) fn number_of_reply(parsed: &Packet, icmp: &Icmp, packet: &[u8], seed: u64) -> Option<SeqNum> {
        let is_reply = icmp.icmp_type == if icmp.version == IpVersion::V4 { 0 } else { 129 };
        if !is_reply || icmp.rest >> 16 != u32::from(IDENTIFIER) || icmp.len != ICMP_LEN {
            return None;
        }
        let payload = packet.get(icmp.offset + 8..)?;
        let number = SeqNum::new(u32::from_be_bytes(*payload.first_chunk()?));
        let said = u64::from_be_bytes(*payload.get(4..)?.first_chunk()?);
        let is_ours = said == token(seed, parsed.ip.src, number);
        (is_ours && icmp.checksum_is_valid(packet, &parsed.ip)).then_some(number)
    }
}

/// Token that only a host that has seen the request can repeat.
fn token(seed: u64, client: IpAddr, number: SeqNum) -> u64 {
    mix64(host(client, seed) ^ mix64(seed ^ u64::from(number.get())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Transport;

    const WINDOW: Bytes = Bytes::new(50_000);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn ip() -> Ip {
        let (src, dst) = hosts(true);
        let marker = Marker { src, dst, traffic_class: 0, number: SeqNum::new(1) };
        let mut packet = [0; 120];
        let len = marker.write(0, &mut packet).unwrap();
        wire::parse(&packet[..len]).unwrap().ip
    }

    fn hosts(is_ipv4: bool) -> (IpAddr, IpAddr) {
        let (src, dst) = if is_ipv4 { ("10.9.0.1", "10.0.0.2") } else { ("2001:db8::1", "2001:db8:1::2") };
        (src.parse().unwrap(), dst.parse().unwrap())
    }

    #[test]
    fn a_request_follows_what_leaves() {
        let mut markers = Markers::default();
        assert_eq!(markers.due(WINDOW), None, "nothing has left");
        markers.on_sent(&ip(), 1_000);
        assert_eq!(markers.ask(WINDOW, at(24)), None, "it is little");
        assert!(markers.ask(WINDOW, at(25)).is_some());
        assert_eq!(
            (markers.due(WINDOW), markers.ask(WINDOW, at(99))),
            (None, None),
            "nothing has left since"
        );
        markers.on_sent(&ip(), BYTES as u32);
        assert_eq!(markers.due(WINDOW), Some(at(25)));
        assert_eq!(markers.due(Bytes::new(200_000)), Some(at(50)), "less than a part of the window");
    }

    #[test]
    fn whoever_does_not_answer_is_left_alone() {
        let mut markers = Markers::default();
        let mut asked = 0;
        for ms in 0..60_000 {
            markers.on_sent(&ip(), 1_500);
            asked += u32::from(markers.ask(WINDOW, at(ms)).is_some());
        }
        assert!((900..1_100).contains(&asked), "four seconds of them: {asked}");
        // One that answers now and then is asked on.
        let mut markers = Markers::default();
        for ms in 0..60_000 {
            markers.on_sent(&ip(), 1_500);
            if let Some(marker) = markers.ask(WINDOW, at(ms)) {
                let stamp = control::RateSampler::new().on_send(true, at(ms));
                markers.on_asked(marker.number, ms, stamp);
                assert!(markers.has_asked_for(ms) && !markers.has_asked_for(ms + 1));
                if ms % 1_000 < 10 {
                    let (place, stamp) = markers.on_reply(marker.number, at(ms)).unwrap();
                    assert_eq!((place, stamp.sent_at), (ms, at(ms)));
                    assert!(markers.on_reply(marker.number, at(ms)).is_none(), "counts once");
                }
            }
        }
        assert!(markers.due(WINDOW) < Some(at(60_010)), "{markers:?}");
    }

    #[test]
    fn only_the_reply_to_a_request_of_ours_counts() {
        for is_ipv4 in [true, false] {
            let (src, dst) = hosts(is_ipv4);
            let marker = Marker { src, dst, traffic_class: 0xb8, number: SeqNum::new(77_777) };
            let mut request = [0; 120];
            let len = marker.write(5, &mut request).unwrap();
            let read = |packet: &[u8], seed: u64| {
                let parsed = wire::parse(packet).unwrap();
                let Transport::Icmp(icmp) = parsed.transport else { panic!("{parsed:?}") };
                Marker::number_of_reply(&parsed, &icmp, packet, seed)
            };
            assert_eq!(wire::parse(&request[..len]).unwrap().ip.traffic_class, 0xb8);
            assert_eq!(read(&request[..len], 5), None, "a request is no reply");
            let message = &request[len - ICMP_LEN..len];
            let reply_of = |change: &dyn Fn(&mut [u8])| {
                let mut message = message.to_vec();
                message[0] = if is_ipv4 { 0 } else { 129 };
                change(&mut message);
                let mut reply = [0; 120];
                let len = wire::emit_icmp((dst, src), 0, &message, &mut reply).unwrap();
                reply[..len].to_vec()
            };
            let reply = reply_of(&|_| {});
            assert_eq!(read(&reply, 5), Some(SeqNum::new(77_777)));
            assert_eq!(read(&reply, 6), None, "another engine's");
            for at in [4, 9, 12, 19] {
                assert_eq!(read(&reply_of(&|message| message[at] ^= 1), 5), None, "byte {at}");
            }
        }
    }
}
