//! [`ConnectionIds`]: which flow a server's connection ID belongs to, so that a client is known at its new address.
//!
//! A client that moves on purpose uses a new ID (RFC 9000 §9.5), which nobody on the way can link to the old one. What
//! is found is a client whose address changes without its knowledge: a translator that has forgotten it (§9.3.1).

use std::net::SocketAddr;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::header::{ConnectionId, ID_MAX};

/// Shorter IDs are those of several connections too easily.
const ID_MIN: usize = 4;

/// Place of use of an ID: capture point, server, ID.
type Place = (u16, SocketAddr, ConnectionId);

#[derive(Clone, Copy, Debug)]
struct Owner {
    flow: u32,
    /// Flows that have this ID.
    flows: u32,
    /// More than one had it at some time.
    is_ambiguous: bool,
}

/// The IDs that are in use towards servers.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionIds {
    owners: HashMap<Place, Owner, FixedState>,
    /// IDs of each length.
    of_len: [u32; ID_MAX + 1],
}

impl Default for ConnectionIds {
    fn default() -> Self {
        Self { owners: HashMap::with_hasher(FixedState::with_seed(0)), of_len: [0; ID_MAX + 1] }
    }
}

impl ConnectionIds {
    /// True of IDs that are long enough to tell connections apart.
    pub(crate) fn is_usable(id: ConnectionId) -> bool {
        id.len() >= ID_MIN
    }

    /// The flow in place `flow` uses this ID towards `server`. Call it once per flow and ID.
    pub(crate) fn add(&mut self, point: u16, server: SocketAddr, id: ConnectionId, flow: u32) {
        let owner =
            self.owners.entry((point, server, id)).or_insert(Owner { flow, flows: 0, is_ambiguous: false });
        owner.flows += 1;
        owner.is_ambiguous |= owner.flows > 1;
        if owner.flows == 1
            && let Some(count) = self.of_len.get_mut(id.len())
        {
            *count += 1;
        }
    }

    /// A flow that used this ID has ended.
    pub(crate) fn remove(&mut self, point: u16, server: SocketAddr, id: ConnectionId) {
        let place = (point, server, id);
        let Some(owner) = self.owners.get_mut(&place) else { return };
        owner.flows -= 1;
        if owner.flows == 0 {
            self.owners.remove(&place);
            if let Some(count) = self.of_len.get_mut(id.len()) {
                *count -= 1;
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// The flow whose ID stands behind the first byte of a short header to `server`; none if there is none or several.
    pub(crate) fn owner(&self, point: u16, server: SocketAddr, packet: &[u8]) -> Option<u32> {
        let behind = packet.get(1..)?;
        let mut found = None;
        for (len, _) in self.of_len.iter().enumerate().filter(|(_, count)| **count > 0) {
            let owner = behind
                .get(..len)
                .and_then(ConnectionId::new)
                .and_then(|id| self.owners.get(&(point, server, id)));
            if let Some(owner) = owner {
                if owner.is_ambiguous || found.is_some_and(|flow| flow != owner.flow) {
                    return None;
                }
                found = Some(owner.flow);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_two_flows_is_nobodys() {
        let server = SocketAddr::from(([10, 0, 0, 2], 443));
        let other = SocketAddr::from(([10, 0, 0, 3], 443));
        let id = |byte, len| ConnectionId::new(&vec![byte; len]).unwrap();
        let packet = |byte| [&[0x40][..], &[byte; 30]].concat();
        let mut ids = ConnectionIds::default();
        assert!(ids.is_empty());
        ids.add(0, server, id(1, 8), 7);
        ids.add(0, server, id(2, 20), 9);
        assert_eq!(ids.owner(0, server, &packet(1)), Some(7));
        assert_eq!(ids.owner(0, server, &packet(2)), Some(9));
        assert_eq!(ids.owner(0, server, &packet(2)[..20]), None, "cut off");
        assert_eq!((ids.owner(1, server, &packet(1)), ids.owner(0, other, &packet(1))), (None, None));
        assert_eq!((ids.owner(0, server, &packet(3)), ids.owner(0, server, &[])), (None, None));
        ids.add(0, server, id(1, 8), 8);
        assert_eq!(ids.owner(0, server, &packet(1)), None);
        ids.remove(0, server, id(1, 8));
        assert_eq!(ids.owner(0, server, &packet(1)), None, "whose it is now is not known");
        ids.remove(0, server, id(1, 8));
        ids.remove(0, server, id(1, 8));
        ids.add(0, server, id(1, 8), 5);
        assert_eq!(ids.owner(0, server, &packet(1)), Some(5));
        // One flow may have two IDs that both fit.
        ids.add(0, server, id(1, 10), 5);
        assert_eq!(ids.owner(0, server, &packet(1)), Some(5));
        ids.add(0, server, id(1, 12), 6);
        assert_eq!(ids.owner(0, server, &packet(1)), None);
        assert!(ConnectionIds::is_usable(id(1, 4)) && !ConnectionIds::is_usable(id(1, 3)));
    }
}
