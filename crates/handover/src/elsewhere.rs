//! [`Elsewhere`]: where packets go whose flows another box has.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use engine::FlowEnds;

use crate::{Gone, Peer};

/// What is to become of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It is the engine's.
    Here,
    /// It goes to that box. If it came from there it waits until the flows are here, where the subscriber is led there
    /// for the time being; else it is dropped: as on any link, it is sent again.
    To(Peer),
    /// It passes as it is, and the engine does not see it.
    Past,
}

/// Of one subscriber.
#[derive(Clone, Debug, Default)]
struct Absent {
    /// Who has all of it for the time being.
    led: Option<Peer>,
    /// These flows are there.
    gone: BTreeMap<(SocketAddr, SocketAddr), Peer>,
    /// It has left: all its other flows pass. Else they are this box's.
    has_left: bool,
}

/// Which subscribers are elsewhere, and where. Empty for nearly all packets: then it costs a comparison.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    ipv6_prefix_len: u8,
    all: BTreeMap<IpAddr, Absent>,
}

impl Elsewhere {
    /// With so long a prefix of IPv6 addresses for a subscriber, in bits.
    #[must_use]
    pub fn new(ipv6_prefix_len: u8) -> Self {
        Self { ipv6_prefix_len, all: BTreeMap::new() }
    }

    fn key(&self, client: IpAddr) -> IpAddr {
        match client {
            IpAddr::V4(_) => client,
            IpAddr::V6(address) => {
                let host_bits = 128 - u32::from(self.ipv6_prefix_len.min(128));
                let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        }
    }

    /// True when nobody is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What is to become of a packet between a client and a server.
    #[must_use]
    pub fn way_of(&self, ends: (SocketAddr, SocketAddr)) -> Way {
        let absent = if self.all.is_empty() { None } else { self.all.get(&self.key(ends.0.ip())) };
        match absent {
            None => Way::Here,
            Some(Absent { led: Some(to), .. }) => Way::To(*to),
            Some(Absent { gone, has_left, .. }) => {
                let others = if *has_left { Way::Past } else { Way::Here };
                gone.get(&ends).map_or(others, |to| Way::To(*to))
            }
        }
    }

    /// True when all packets of a client go elsewhere.
    #[must_use]
    pub fn is_led(&self, client: IpAddr) -> bool {
        self.all.get(&self.key(client)).is_some_and(|absent| absent.led.is_some())
    }

    /// As [`crate::Flows::give_away`].
    pub fn give_away(&mut self, subscriber: IpAddr, flows: impl Iterator<Item = FlowEnds>, to: Peer) {
        let absent = self.all.entry(self.key(subscriber)).or_default();
        // What begins now is the other box's soon. What stayed at another one before is still there.
        (absent.led, absent.has_left) = (None, true);
        absent.gone.extend(flows.map(|flow| (flow.client_and_server(), to)));
    }

    /// As [`crate::Flows::take_in`].
    pub fn take_in(&mut self, subscriber: IpAddr) {
        self.all.remove(&self.key(subscriber));
    }

    /// As [`crate::Flows::lead`].
    pub fn lead(&mut self, subscriber: IpAddr, to: Peer) {
        self.all.entry(self.key(subscriber)).or_default().led = Some(to);
    }

    /// As [`crate::Flows::let_stay`].
    pub fn let_stay(&mut self, subscriber: IpAddr, stay: Option<&Gone>) {
        let key = self.key(subscriber);
        let Some(Gone { to, flows }) = stay else {
            self.all.remove(&key);
            return;
        };
        let gone = flows.iter().map(|flow| (flow.client_and_server(), *to)).collect();
        self.all.insert(key, Absent { led: None, gone, has_left: false });
    }

    /// As [`crate::Flows::forget`].
    pub fn forget(&mut self, subscriber: IpAddr) {
        let key = self.key(subscriber);
        if let Some(absent) = self.all.get_mut(&key) {
            (absent.gone, absent.has_left) = (BTreeMap::new(), false);
            if absent.led.is_none() {
                self.all.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_led_goes_whole_and_who_has_gone_by_flows() {
        let mut elsewhere = Elsewhere::new(64);
        let ends = |client: &str, port: u16| {
            let client = SocketAddr::new(client.parse().unwrap(), port);
            (client, "192.0.2.1:443".parse().unwrap())
        };
        let flow = |(sink, source)| FlowEnds { is_downlink: true, sink, source };
        let (old, new, near) = (ends("2001:db8::1", 1), ends("2001:db8::1", 2), ends("2001:db8::2", 1));
        assert_eq!(elsewhere.way_of(old), Way::Here);
        elsewhere.lead(old.0.ip(), 3);
        assert_eq!([old, new, near].map(|ends| elsewhere.way_of(ends)), [Way::To(3); 3], "of one prefix");
        elsewhere.let_stay(old.0.ip(), None);
        assert!(elsewhere.is_empty());
        elsewhere.give_away(old.0.ip(), [flow(old)].into_iter(), 4);
        assert_eq!([old, new].map(|ends| elsewhere.way_of(ends)), [Way::To(4), Way::Past]);
        elsewhere.lead(old.0.ip(), 4);
        assert_eq!(elsewhere.way_of(new), Way::To(4));
        elsewhere.let_stay(old.0.ip(), Some(&Gone { to: 4, flows: vec![flow(old)] }));
        let ways = [old, new, near].map(|ends| elsewhere.way_of(ends));
        assert_eq!(
            ways,
            [Way::To(4), Way::Here, Way::Here],
            "what stays is there, the rest is not concerned"
        );
        elsewhere.give_away(old.0.ip(), [flow(new)].into_iter(), 5);
        let ways = [old, new, near].map(|ends| elsewhere.way_of(ends));
        assert_eq!(ways, [Way::To(4), Way::To(5), Way::Past], "what begins here may go elsewhere");
        elsewhere.forget(old.0.ip());
        assert!(elsewhere.is_empty());
        elsewhere.give_away(old.0.ip(), [flow(old)].into_iter(), 4);
        elsewhere.take_in(near.0.ip());
        assert_eq!(elsewhere.way_of(old), Way::Here);
    }
}
