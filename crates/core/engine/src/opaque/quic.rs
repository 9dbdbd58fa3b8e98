//! [`Quic`]: handshakes of QUIC, which say without keys what has left.
//!
//! A client's long header to the connection ID that its server chose for itself says that the server's packet is there:
//! who has not got it cannot know that ID (RFC 9000 §7.2). That is an answer as any other, with its round trip. Long
//! headers are read as RFC 8999 has them, whatever the version.
//!
//! The spin bit (RFC 9000 §17.4) is not followed: it answers once a round trip, which releases all that is under way at
//! once. Nothing can be held back by that (`Path::opaque_is_gated`), and most hosts do not spin.

use control::SendStamp;
use units::Instant;
use wire::Udp;

use super::key::{LONG_HEADER, OpaqueKey};
use crate::report::QuicHandshake;

/// Handshakes of a subscriber that are under way; of more, the oldest is forgotten.
const FOLLOWED: usize = 16;

/// Longest connection ID (RFC 9000 §17.2).
const ID_MAX: usize = 20;

/// A connection ID, with zeros behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, stored::Stored)]
pub(crate) struct Id {
    len: u8,
    octets: [u8; ID_MAX],
}

impl Id {
    /// The one at the front of `octets`, behind its length; and what follows it.
    fn take(octets: &[u8]) -> Option<(Self, &[u8])> {
        let (&len, rest) = octets.split_first()?;
        let (taken, rest) = rest.split_at_checked(usize::from(len))?;
        let mut id = Self { len, octets: [0; ID_MAX] };
        id.octets.get_mut(..taken.len())?.copy_from_slice(taken);
        Some((id, rest))
    }
}

/// The long header that begins a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LongHeader {
    version: u32,
    destination: Id,
    source: Id,
}

impl LongHeader {
    /// Header of a datagram, if it has one.
    pub(crate) fn of(udp: &Udp, packet: &[u8]) -> Option<Self> {
        let (&first, rest) = udp.payload(packet).split_first()?;
        // The next bit, which versions 1 and 2 set, may be any once both hosts have agreed on that (RFC 9287).
        if first & LONG_HEADER == 0 {
            return None;
        }
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (destination, rest) = Id::take(rest)?;
        let (source, _) = Id::take(rest)?;
        Some(Self { version: u32::from_be_bytes(*version), destination, source })
    }
}

/// A server's packet that is under way, and the ID in it.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Greeting {
    flow: OpaqueKey,
    chosen: Id,
    /// Behind it, in the order of what leaves.
    place: u64,
    stamp: SendStamp,
}

/// Handshakes of one subscriber's QUIC connections.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(crate) struct Quic {
    greetings: Vec<Greeting>,
    newest: Option<QuicHandshake>,
}

impl Quic {
    /// The newest handshake that was seen.
    pub(crate) fn handshake(&self) -> Option<QuicHandshake> {
        self.newest
    }

    /// A datagram of a server leaves, up to `place` in the order of what leaves.
    pub(crate) fn on_sent(&mut self, flow: OpaqueKey, header: &LongHeader, place: u64, stamp: SendStamp) {
        // An empty ID is no secret; of several packets with one ID the first is answered.
        let chosen = header.source;
        let is_known = |greeting: &Greeting| greeting.flow == flow && greeting.chosen == chosen;
        if chosen.len == 0 || self.greetings.iter().any(is_known) {
            return;
        }
        if self.greetings.len() >= FOLLOWED {
            self.greetings.remove(0);
        }
        self.greetings.push(Greeting { flow, chosen, place, stamp });
    }

    /// A datagram of the client: place and stamp of the server's packet that it answers, if it is the first answer.
    pub(crate) fn on_reply(
        &mut self,
        flow: OpaqueKey,
        header: &LongHeader,
        now: Instant,
    ) -> Option<(u64, SendStamp)> {
        let is_answered =
            |greeting: &Greeting| greeting.flow == flow && greeting.chosen == header.destination;
        let greeting = self.greetings.iter().find(|greeting| is_answered(greeting)).copied()?;
        self.greetings.retain(|greeting| greeting.flow != flow);
        let round_trip = now.saturating_since(greeting.stamp.sent_at);
        self.newest = Some(QuicHandshake { version: header.version, round_trip });
        Some((greeting.place, greeting.stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    use control::RateSampler;
    use wire::Transport;

    use crate::opaque::tests::datagram;

    const CHOSEN: [u8; 8] = [7; 8];

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn flow(n: u64) -> OpaqueKey {
        let packet = datagram(n as u16, 100, 0);
        OpaqueKey::of(&wire::parse(&packet).unwrap(), &packet, 7)
    }

    fn id(octets: &[u8]) -> Id {
        Id::take(&[&[octets.len() as u8], octets].concat()).unwrap().0
    }

    fn long(destination: &[u8], source: &[u8]) -> LongHeader {
        LongHeader { version: 1, destination: id(destination), source: id(source) }
    }

    fn send(quic: &mut Quic, n: u64, header: LongHeader, place: u64, ms: u64) {
        quic.on_sent(flow(n), &header, place, RateSampler::new().on_send(true, at(ms)));
    }

    fn place(quic: &mut Quic, n: u64, header: LongHeader, ms: u64) -> Option<u64> {
        quic.on_reply(flow(n), &header, at(ms)).map(|(place, _)| place)
    }

    #[test]
    fn headers_are_read_as_far_as_they_are_there() {
        let read = |payload: &[u8]| {
            let mut packet = datagram(443, 28 + payload.len(), 0);
            packet[28..].copy_from_slice(payload);
            let parsed = wire::parse(&packet).unwrap();
            let Transport::Udp(udp) = parsed.transport else { panic!() };
            LongHeader::of(&udp, &packet)
        };
        let whole = [&[0xc0, 0, 0, 0, 1, 2, 8, 9][..], &[8], &CHOSEN, &[0; 20]].concat();
        assert_eq!(read(&whole), Some(long(&[8, 9], &CHOSEN)));
        for len in 0..whole.len() - 20 {
            assert_eq!(read(&whole[..len]), None, "{len} octets");
        }
        let beyond = [&[0xc0, 0, 0, 0, 1, 21][..], &[1; 21], &[0]].concat();
        assert_eq!(read(&beyond), None, "no connection ID is so long");
        let with = |first: u8| read(&[&[first][..], &whole[1..]].concat());
        assert_eq!(with(0x81), with(0xc0), "the fixed bit may be greased");
        assert_eq!([with(0x40), with(0x7f)], [None; 2], "no long header");
    }

    #[test]
    fn a_client_that_knows_the_servers_id_has_its_packet() {
        let mut quic = Quic::default();
        send(&mut quic, 1, long(&[3; 4], &CHOSEN), 1_200, 100);
        send(&mut quic, 1, long(&[3; 4], &CHOSEN), 2_400, 101);
        let again = long(&[9; 8], &[3; 4]);
        assert_eq!(
            place(&mut quic, 1, again, 120),
            None,
            "sent again because nothing came: it has the old ID"
        );
        assert_eq!(place(&mut quic, 2, long(&CHOSEN, &[3; 4]), 121), None, "another flow");
        assert_eq!(place(&mut quic, 1, long(&CHOSEN, &[3; 4]), 163), Some(1_200));
        let shown = quic.handshake().unwrap();
        assert_eq!((shown.version, shown.round_trip), (1, Duration::from_millis(63)));
        assert_eq!(place(&mut quic, 1, long(&CHOSEN, &[3; 4]), 164), None, "it counts once");
        let mut quic = Quic::default();
        send(&mut quic, 1, long(&[3; 4], &[]), 1_200, 100);
        assert_eq!(place(&mut quic, 1, long(&[], &[3; 4]), 163), None, "an empty ID is no secret");
    }

    #[test]
    fn the_oldest_handshake_makes_room() {
        let mut quic = Quic::default();
        for n in 0..=FOLLOWED as u64 {
            send(&mut quic, n, long(&[3; 4], &CHOSEN), n, 100 + n);
        }
        assert_eq!(quic.greetings.len(), FOLLOWED);
        for (n, found) in [(0, None), (1, Some(1)), (FOLLOWED as u64, Some(FOLLOWED as u64))] {
            assert_eq!(place(&mut quic, n, long(&CHOSEN, &[3; 4]), 200), found);
        }
    }
}
