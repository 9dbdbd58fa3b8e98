//! [`Places`]: who may have a connection to here, so that strangers, and a box that means harm, keep nobody else out.
//!
//! ```text
//!   connection ─▶ place of a handshake ── certificate ─▶ place of a peer, 2 of each
//!                   4 for each peer's address, and 16 for all others together
//! ```
//!
//! Where all places of a kind are taken, the oldest connection ends: a handshake takes a few round trips, and who
//! holds a place for longer has no use for it.

use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use handover::Peer;

use super::MESSAGES_MAX;

/// Handshakes from the address of a peer at a time.
const OF_AN_ADDRESS: usize = 4;

/// Handshakes from all other addresses together.
const OF_STRANGERS: usize = 16;

/// Handshakes from one address that is no peer's.
const OF_A_STRANGER: usize = 4;

/// Connections of a peer: one, and another one that takes its place.
const OF_A_PEER: usize = 2;

/// Bytes of a peer's messages that wait at most; one may be longer.
const WAITING_MAX: usize = 1 << 20;

/// All places.
#[derive(Clone, Debug)]
pub(super) struct Places {
    addresses: Arc<[IpAddr]>,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    /// In the order of their beginning.
    all: Vec<Held>,
    count: u64,
}

#[derive(Debug)]
struct Held {
    id: u64,
    from: IpAddr,
    /// Peer whose certificate the connection has shown.
    peer: Option<Peer>,
    /// To end it by.
    socket: TcpStream,
}

impl Places {
    /// For peers at these addresses.
    pub fn new(addresses: Vec<IpAddr>) -> Self {
        Self { addresses: addresses.into(), taken: Arc::default() }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a connection from an address its place.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn take(&self, socket: &TcpStream, from: IpAddr) -> std::io::Result<Place> {
        let (socket, from) = (socket.try_clone()?, from.to_canonical());
        let is_of = |held: &Held| held.peer.is_none() && held.from == from;
        let mut taken = self.taken();
        if self.addresses.contains(&from) {
            taken.make_room(OF_AN_ADDRESS, is_of);
        } else {
            taken.make_room(OF_A_STRANGER, is_of);
            let is_strange = |held: &Held| held.peer.is_none() && !self.addresses.contains(&held.from);
            taken.make_room(OF_STRANGERS, is_strange);
        }
        taken.count += 1;
        let id = taken.count;
        taken.all.push(Held { id, from, peer: None, socket });
        Ok(Place { places: self.clone(), id })
    }
}

impl Taken {
    /// Ends the oldest of those that are meant until there is room for one more.
    fn make_room(&mut self, max: usize, is_meant: impl Fn(&Held) -> bool) {
        while self.all.iter().filter(|held| is_meant(held)).count() >= max {
            let Some(at) = self.all.iter().position(&is_meant) else { return };
            // It may have ended by itself.
            drop(self.all.remove(at).socket.shutdown(Shutdown::Both));
        }
    }
}

/// A connection's place; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    id: u64,
}

impl Place {
    /// It is a peer's from here on; false when it was ended meanwhile.
    pub fn is_of(&self, peer: Peer) -> bool {
        let mut taken = self.places.taken();
        taken.make_room(OF_A_PEER, |held| held.peer == Some(peer));
        let held = taken.all.iter_mut().find(|held| held.id == self.id);
        held.map(|held| held.peer = Some(peer)).is_some()
    }

    /// Gives it back; true when its peer has no other one.
    pub fn leave(self, peer: Peer) -> bool {
        let mut taken = self.places.taken();
        taken.all.retain(|held| held.id != self.id);
        !taken.all.iter().any(|held| held.peer == Some(peer))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().all.retain(|held| held.id != self.id);
    }
}

/// Amount of a peer's messages that waits: its connection is not read while it is too large.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog(Arc<(Mutex<[usize; 2]>, Condvar)>);

/// A message that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    backlog: Backlog,
    bytes: usize,
}

impl Backlog {
    /// Waits until there is room for a message of `bytes`.
    pub fn wait(&self, bytes: usize) -> Waiting {
        let (lock, changed) = &*self.0;
        let waiting = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |[count, sum]: &mut [usize; 2]| {
            *count >= MESSAGES_MAX || (*count > 0 && *sum + bytes > WAITING_MAX)
        };
        let mut waiting = changed.wait_while(waiting, is_full).unwrap_or_else(PoisonError::into_inner);
        *waiting = [waiting[0] + 1, waiting[1] + bytes];
        Waiting { backlog: self.clone(), bytes }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let (lock, changed) = &*self.backlog.0;
        let mut waiting = lock.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = [waiting[0].saturating_sub(1), waiting[1].saturating_sub(self.bytes)];
        changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// A connection: the end that listens, and the other one.
    fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        far.set_nonblocking(true).unwrap();
        (listener.accept().unwrap().0, far)
    }

    fn is_open(far: &mut TcpStream) -> bool {
        far.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    #[test]
    fn strangers_keep_no_peer_out_and_no_peer_another_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let [south, north]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let places = Places::new(vec![south, north]);
        let from = |address: IpAddr| {
            let (near, far) = pair(&listener);
            (places.take(&near, address).unwrap(), far)
        };
        let (first, mut first_far) = from(south);
        let strangers: Vec<_> = (1..=40_u8).map(|n| from([198, 51, 100, n].into())).collect();
        let mut alone: Vec<_> = (0..10).map(|_| from([203, 0, 113, 1].into())).collect();
        assert_eq!(places.taken().all.len(), 1 + OF_STRANGERS);
        assert!(is_open(&mut first_far), "the place of a peer's address is its own");
        assert!(!is_open(&mut alone[0].1) && is_open(&mut alone[9].1), "the oldest one gives way");
        assert!(first.is_of(0));
        let (second, mut second_far) = from(north);
        assert!(second.is_of(1));
        // A peer at the address of a stranger, and one that connects without end.
        let (third, mut third_far) = from([203, 0, 113, 1].into());
        assert!(third.is_of(0));
        let (fourth, _fourth_far) = from(south);
        assert!(fourth.is_of(0));
        assert!(!is_open(&mut first_far), "of three connections of a peer the oldest one ends");
        assert!(is_open(&mut second_far) && is_open(&mut third_far));
        assert!(!third.leave(0) && fourth.leave(0), "the last one is told from the others");
        drop((first, second, strangers, alone));
        assert!(places.taken().all.is_empty());
    }

    #[test]
    fn a_peer_that_says_too_much_waits() {
        let backlog = Backlog::default();
        let long = backlog.wait(WAITING_MAX * 4);
        let (said, heard) = std::sync::mpsc::channel();
        let waits = backlog.clone();
        let other = std::thread::spawn(move || {
            let waiting = waits.wait(1);
            said.send(()).unwrap();
            waiting
        });
        assert!(heard.recv_timeout(std::time::Duration::from_millis(50)).is_err());
        drop(long);
        heard.recv().unwrap();
        drop(other.join().unwrap());
        let all: Vec<_> = (0..MESSAGES_MAX).map(|_| backlog.wait(1)).collect();
        assert_eq!(backlog.0.0.lock().unwrap()[0], MESSAGES_MAX);
        drop(all);
        assert_eq!(*backlog.0.0.lock().unwrap(), [0, 0]);
    }
}
