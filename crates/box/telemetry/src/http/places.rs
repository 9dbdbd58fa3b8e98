//! [`Places`]: how many connections there may be, and how many of one host.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Connections at a time; another one is closed at once.
const PLACES: usize = 32;

/// Connections of one host, but for this machine itself: others find room, whatever one does.
const PLACES_OF_ONE: usize = 12;

/// All places.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// A connection's place among those that there may be, held by whoever works for it.
pub type Place = Arc<Taken>;

/// Given back when the last one who holds it lets it go.
#[derive(Debug)]
pub struct Taken {
    places: Places,
    by: IpAddr,
}

impl Places {
    /// One for a host, if there is room.
    pub fn take(&self, by: IpAddr) -> Option<Place> {
        let by = by.to_canonical();
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(&by).copied().unwrap_or(0);
        let is_full = taken.values().sum::<usize>() >= PLACES;
        if is_full || (own >= PLACES_OF_ONE && !by.is_loopback()) {
            return None;
        }
        taken.insert(by, own + 1);
        drop(taken);
        Some(Arc::new(Taken { places: self.clone(), by }))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = taken.get(&self.by).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            taken.remove(&self.by);
        } else {
            taken.insert(self.by, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_does_not_get_all_places_and_they_come_back() {
        let places = Places::default();
        let take = |last: u8| places.take([10, 0, 0, last].into());
        let all: Vec<Place> = std::iter::from_fn(|| take(1)).collect();
        assert_eq!(all.len(), PLACES_OF_ONE);
        let others: Vec<Place> = (2..100).filter_map(take).collect();
        assert_eq!(all.len() + others.len(), PLACES);
        drop(all);
        assert!(take(1).is_some(), "given back");
        drop(others);
        assert!(places.0.lock().unwrap().is_empty());
        let own: Vec<Place> = std::iter::from_fn(|| places.take([127, 0, 0, 1].into())).collect();
        assert_eq!(own.len(), PLACES);
    }
}
