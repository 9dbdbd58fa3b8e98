//! [`Places`]: who has the server's TCP connections.
//!
//! Who has not said what it wants keeps nobody out: where there is no room, the one of them that is there
//! longest goes.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::Arc;

use probe::order::Answer;

/// Connections at once, and those of one client (IPv4 address or IPv6 /64).
pub(super) const CONNECTIONS_MAX: usize = 128;
pub(super) const CONNECTIONS_PER_CLIENT_MAX: usize = 96;

/// A connection's number: the larger, the later it came.
pub(super) type PlaceId = u64;

struct Place {
    client: IpAddr,
    stream: Arc<TcpStream>,
    has_order: bool,
}

/// INVARIANT: no more than the limits say, of one client and in all.
#[derive(Default)]
pub(super) struct Places {
    places: BTreeMap<PlaceId, Place>,
    count: u64,
}

impl Places {
    /// Takes in a connection of `client`; none where all places that it could have belong to connections with
    /// an order.
    pub(super) fn enter(&mut self, client: IpAddr, stream: &Arc<TcpStream>) -> Option<PlaceId> {
        let own = self.places.values().filter(|place| place.client == client).count();
        if own >= CONNECTIONS_PER_CLIENT_MAX {
            self.end_oldest_without_order(client)?;
        } else if self.places.len() >= CONNECTIONS_MAX {
            let waiting = self.client_with_most_without_order()?;
            self.end_oldest_without_order(waiting)?;
        }
        self.count += 1;
        self.places.insert(self.count, Place { client, stream: Arc::clone(stream), has_order: false });
        Some(self.count)
    }

    /// A connection has said what it wants, and may have it.
    pub(super) fn on_order(&mut self, id: PlaceId) {
        if let Some(place) = self.places.get_mut(&id) {
            place.has_order = true;
        }
    }

    /// A connection is over.
    pub(super) fn leave(&mut self, id: PlaceId) {
        self.places.remove(&id);
    }

    fn client_with_most_without_order(&self) -> Option<IpAddr> {
        let mut waiting: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for place in self.places.values().filter(|place| !place.has_order) {
            *waiting.entry(place.client).or_insert(0) += 1;
        }
        waiting.into_iter().max_by_key(|(_, count)| *count).map(|(client, _)| client)
    }

    fn end_oldest_without_order(&mut self, client: IpAddr) -> Option<()> {
        let oldest = self.places.iter().find(|(_, place)| place.client == client && !place.has_order);
        let id = *oldest?.0;
        let place = self.places.remove(&id)?;
        // Best effort, as it may have hung up; its thread reads the end and goes.
        let _ = (&*place.stream).write(&[Answer::Busy as u8]);
        let _ = place.stream.shutdown(Shutdown::Both);
        Some(())
    }
}
