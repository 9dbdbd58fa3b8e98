//! [`ForwardingTable`]: boxes that packets of handed-over flows go to, and flows of which another box may send packets on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use engine::{FlowEnds, Port};

use crate::Peer;
use crate::rights::subscriber_of;

/// Client and server.
type Ends = (SocketAddr, SocketAddr);

/// Next hop of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHop {
    /// It is the engine's.
    Here,
    /// It goes to that box.
    To(Peer),
    /// It passes as it is, and the engine does not see it.
    Past,
}

/// Treatment of a packet that another box has sent on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It is the engine's, if it knows the flow; else it passes.
    Here,
    /// It waits until its flow is here.
    Early,
    /// It passes as it is.
    Past,
    /// It is dropped: its flow has gone to that box, or back there. As on any link, it is sent again.
    Astray,
    /// It is dropped: that box has no part in its flow.
    Refused,
}

/// Flows and another box: they went there or stayed there, or are here and that box knows of them.
#[derive(Clone, PartialEq, Eq, Debug, stored::Stored)]
pub struct Gone {
    /// The other box.
    pub to: Peer,
    /// Flows that went or stayed.
    pub flows: Vec<FlowEnds>,
}

/// State of one subscriber.
#[derive(Clone, Debug, Default)]
struct Absent {
    /// Box that has promised these flows, and has them for the time being. All others are this box's.
    promised: Option<(Peer, BTreeSet<Ends>)>,
    /// These flows are there.
    gone: BTreeMap<Ends, Peer>,
    /// It has left: all its other flows pass. Else they are this box's.
    has_left: bool,
}

/// Flows of one subscriber of which another box may send packets on.
#[derive(Clone, Debug, Default)]
struct Shared {
    flows: BTreeMap<Ends, Peer>,
    /// Way of the last packet from each side: true when it came by way of another box; none before the first.
    is_relayed: [Option<bool>; 2],
}

/// Subscribers whose flows other boxes have, and which boxes these are. Empty for nearly all packets: then it costs a comparison.
#[derive(Clone, Debug)]
pub struct ForwardingTable {
    ipv6_prefix_len: u8,
    all: BTreeMap<IpAddr, Absent>,
    shared: BTreeMap<IpAddr, Shared>,
}

impl ForwardingTable {
    /// Makes a table with this prefix length of a subscriber's IPv6 addresses, in bits.
    #[must_use]
    pub fn new(ipv6_prefix_len: u8) -> Self {
        Self { ipv6_prefix_len, all: BTreeMap::new(), shared: BTreeMap::new() }
    }

    fn key(&self, client: IpAddr) -> IpAddr {
        subscriber_of(client, self.ipv6_prefix_len)
    }

    /// True when nobody is, and no other box sends packets on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.shared.is_empty()
    }

    /// Next hop of a packet between a client and a server.
    #[must_use]
    pub fn next_hop(&self, ends: Ends) -> NextHop {
        let absent = if self.all.is_empty() { None } else { self.all.get(&self.key(ends.0.ip())) };
        let Some(Absent { promised, gone, has_left }) = absent else { return NextHop::Here };
        match promised {
            Some((to, flows)) if flows.contains(&ends) => NextHop::To(*to),
            _ => {
                let others = if *has_left { NextHop::Past } else { NextHop::Here };
                gone.get(&ends).map_or(others, |to| NextHop::To(*to))
            }
        }
    }

    /// Treatment of a packet between a client and a server that a box has sent on.
    #[must_use]
    pub fn admission_of(&self, by: Peer, ends: Ends) -> Admission {
        let key = self.key(ends.0.ip());
        if self.shared.get(&key).and_then(|shared| shared.flows.get(&ends)) != Some(&by) {
            return Admission::Refused;
        }
        let promised = self.all.get(&key).and_then(|absent| absent.promised.as_ref());
        match self.next_hop(ends) {
            NextHop::Here => Admission::Here,
            NextHop::Past => Admission::Past,
            NextHop::To(_) if promised.is_some_and(|(from, flows)| *from == by && flows.contains(&ends)) => {
                Admission::Early
            }
            NextHop::To(_) => Admission::Astray,
        }
    }

    /// Notes that a packet of a flow has come from a side, by way of another box or straight.
    pub fn note_packet(&mut self, ends: Ends, from: Port, is_relayed: bool) {
        if self.shared.is_empty() {
            return;
        }
        let key = self.key(ends.0.ip());
        if let Some(shared) = self.shared.get_mut(&key).filter(|shared| shared.flows.contains_key(&ends)) {
            shared.is_relayed[from.index()] = Some(is_relayed);
        }
    }

    /// Flows of a subscriber whose packets come by way of a box, or would as far as is known: clients and servers.
    #[must_use]
    pub fn relayed_by(&self, subscriber: IpAddr, by: Peer) -> BTreeSet<(SocketAddr, SocketAddr)> {
        let shared = self.shared.get(&self.key(subscriber));
        let shared = shared.filter(|shared| shared.is_relayed != [Some(false); 2]);
        let flows = shared.into_iter().flat_map(|shared| &shared.flows);
        flows.filter(|(_, peer)| **peer == by).map(|(ends, _)| *ends).collect()
    }

    /// True when flows of a client are promised to this box.
    #[must_use]
    pub fn is_led(&self, client: IpAddr) -> bool {
        self.all.get(&self.key(client)).is_some_and(|absent| absent.promised.is_some())
    }

    /// Does the work of [`crate::Flows::announce`].
    pub fn announce(&mut self, subscriber: IpAddr, to: Peer, flows: &[FlowEnds]) {
        let shared = self.shared.entry(self.key(subscriber)).or_default();
        shared.flows.extend(flows.iter().map(|flow| (flow.client_and_server(), to)));
        shared.is_relayed = [None; 2];
    }

    /// Does the work of [`crate::Flows::give_away`].
    pub fn give_away(&mut self, subscriber: IpAddr, flows: impl Iterator<Item = FlowEnds>, to: Peer) {
        let absent = self.all.entry(self.key(subscriber)).or_default();
        // What begins now is the other box's soon. What stayed at another one before is still there.
        (absent.promised, absent.has_left) = (None, true);
        absent.gone.extend(flows.map(|flow| (flow.client_and_server(), to)));
    }

    /// Does the work of [`crate::Flows::take_in`].
    pub fn take_in(&mut self, subscriber: IpAddr) {
        self.all.remove(&self.key(subscriber));
    }

    /// Does the work of [`crate::Flows::lead`].
    pub fn lead(&mut self, subscriber: IpAddr, to: Peer, flows: &[FlowEnds]) {
        let led = flows.iter().map(FlowEnds::client_and_server).collect();
        self.all.entry(self.key(subscriber)).or_default().promised = Some((to, led));
        self.announce(subscriber, to, flows);
    }

    /// Does the work of [`crate::Flows::let_stay`].
    pub fn let_stay(&mut self, subscriber: IpAddr, stay: Option<&Gone>) {
        let key = self.key(subscriber);
        let Some(Gone { to, flows }) = stay else {
            self.all.remove(&key);
            return;
        };
        let gone = flows.iter().map(|flow| (flow.client_and_server(), *to)).collect();
        self.all.insert(key, Absent { promised: None, gone, has_left: false });
    }

    /// Does the work of [`crate::Flows::forget`].
    pub fn forget(&mut self, subscriber: IpAddr) {
        let key = self.key(subscriber);
        self.shared.remove(&key);
        if let Some(absent) = self.all.get_mut(&key) {
            (absent.gone, absent.has_left) = (BTreeMap::new(), false);
            if absent.promised.is_none() {
                self.all.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(client: &str, port: u16) -> Ends {
        let client = SocketAddr::new(client.parse().unwrap(), port);
        (client, "192.0.2.1:443".parse().unwrap())
    }

    fn flow((sink, source): Ends) -> FlowEnds {
        FlowEnds { is_downlink: true, sink, source }
    }

    #[test]
    fn flows_go_to_who_has_them_and_no_others() {
        let mut forwarding = ForwardingTable::new(64);
        let (old, new, near) = (ends("2001:db8::1", 1), ends("2001:db8::1", 2), ends("2001:db8::2", 1));
        assert_eq!(forwarding.next_hop(old), NextHop::Here);
        forwarding.lead(old.0.ip(), 3, &[flow(old)]);
        let ways = [old, new, near].map(|ends| forwarding.next_hop(ends));
        assert_eq!(
            ways,
            [NextHop::To(3), NextHop::Here, NextHop::Here],
            "what was not promised is not led away"
        );
        assert!(forwarding.is_led(near.0.ip()));
        forwarding.let_stay(old.0.ip(), None);
        forwarding.give_away(old.0.ip(), [flow(old)].into_iter(), 4);
        assert_eq!([old, new].map(|ends| forwarding.next_hop(ends)), [NextHop::To(4), NextHop::Past]);
        forwarding.lead(old.0.ip(), 4, &[flow(old)]);
        assert_eq!([old, new].map(|ends| forwarding.next_hop(ends)), [NextHop::To(4), NextHop::Past]);
        forwarding.let_stay(old.0.ip(), Some(&Gone { to: 4, flows: vec![flow(old)] }));
        let ways = [old, new, near].map(|ends| forwarding.next_hop(ends));
        assert_eq!(
            ways,
            [NextHop::To(4), NextHop::Here, NextHop::Here],
            "what stays is there, the rest is not concerned"
        );
        forwarding.give_away(old.0.ip(), [flow(new)].into_iter(), 5);
        let ways = [old, new, near].map(|ends| forwarding.next_hop(ends));
        assert_eq!(
            ways,
            [NextHop::To(4), NextHop::To(5), NextHop::Past],
            "what begins here may go elsewhere"
        );
        forwarding.forget(old.0.ip());
        assert!(forwarding.is_empty());
        forwarding.give_away(old.0.ip(), [flow(old)].into_iter(), 4);
        forwarding.take_in(near.0.ip());
        assert_eq!(forwarding.next_hop(old), NextHop::Here);
    }

    #[test]
    fn packets_come_from_a_box_of_flows_that_it_has_a_part_in_and_of_no_others() {
        let mut forwarding = ForwardingTable::new(64);
        let (own, other, foreign) = (ends("10.0.0.1", 1), ends("10.0.0.1", 2), ends("10.0.0.9", 1));
        let ways = |forwarding: &ForwardingTable, by| {
            [own, other, foreign].map(|ends| forwarding.admission_of(by, ends))
        };
        use Admission::{Astray, Early, Here, Refused};
        assert_eq!(ways(&forwarding, 1), [Refused; 3], "nothing was ever said of them");
        forwarding.lead(own.0.ip(), 1, &[flow(own)]);
        assert_eq!(ways(&forwarding, 1), [Early, Refused, Refused]);
        assert_eq!(ways(&forwarding, 2), [Refused; 3], "it is another box's");
        forwarding.take_in(own.0.ip());
        assert_eq!(ways(&forwarding, 1), [Here, Refused, Refused]);
        forwarding.give_away(own.0.ip(), [flow(own)].into_iter(), 2);
        assert_eq!(ways(&forwarding, 1), [Astray, Refused, Refused], "it has gone on");
        forwarding.forget(own.0.ip());
        assert_eq!(ways(&forwarding, 1), [Refused; 3]);
        forwarding.announce(own.0.ip(), 2, &[flow(other)]);
        assert_eq!(ways(&forwarding, 2), [Refused, Here, Refused], "it was asked to take that one");
    }

    #[test]
    fn who_is_relied_on_is_known_by_the_last_packets() {
        let mut forwarding = ForwardingTable::new(64);
        let (own, other) = (ends("10.0.0.1", 1), ends("10.0.0.1", 2));
        forwarding.announce(own.0.ip(), 1, &[flow(own)]);
        let relies = |forwarding: &ForwardingTable| !forwarding.relayed_by(own.0.ip(), 1).is_empty();
        assert!(relies(&forwarding), "nobody knows yet");
        forwarding.note_packet(own, Port::Mobile, false);
        forwarding.note_packet(other, Port::Wired, false);
        assert!(relies(&forwarding), "one side is not all, and another flow is not this one");
        forwarding.note_packet(own, Port::Wired, false);
        assert!(!relies(&forwarding));
        forwarding.note_packet(own, Port::Wired, true);
        assert_eq!(forwarding.relayed_by(own.0.ip(), 1), [own].into());
        assert!(forwarding.relayed_by(own.0.ip(), 2).is_empty());
    }
}
