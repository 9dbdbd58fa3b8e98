//! [`Bypass`]: the flows that the steering programs leave to the kernel, and the subscribers all of whose traffic comes
//! here.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use engine::{PassReason, UnknownFlow};
use io::bpf::{HashMap, SharedArray};
use io::{Clock, IoError};
use units::Duration;

use super::program::{self, CLOCK_BEHIND_MAX, HEARTBEAT_WORD};

/// Flows in the map: 10 MB of the kernel's memory. When there are more, those that were silent for
/// longest take the detour through this process again.
const PASSED_MAX: u32 = 65_536;

/// Flows that are put into the map between two heartbeats: a flood of made-up segments is not to occupy us.
const ADDED_MAX: u32 = 5_000;

/// Words of the shared array that each program has for its counters, and that stand before the
/// first: a cache line.
pub(super) const LINE_WORDS: usize = 8;
/// Two interfaces, and two devices of an instance that is replaced.
const PROGRAMS_MAX: usize = 4;

/// The first word of the shared array that counts bytes by reason.
pub(super) const REASONS_WORD: usize = LINE_WORDS * (1 + PROGRAMS_MAX);

/// The first one that says where subscribers are.
const PLACES_WORD: usize = program::PLACES as usize / size_of::<u64>();

pub(super) type PassedMap = HashMap<{ program::KEY_LEN }, { program::VALUE_LEN }>;

/// The flows that the kernel forwards past us.
#[derive(Debug)]
pub(crate) struct Bypass {
    pub(super) passed: PassedMap,
    pub(super) shared: SharedArray,
    added: AtomicU64,
    /// Number of flows that may be added until the next heartbeat.
    room: AtomicU32,
    scheduled: Mutex<Scheduled>,
}

/// Subscribers all of whose traffic comes here.
#[derive(Debug)]
struct Scheduled {
    /// None may.
    is_refused: bool,
    keys: BTreeSet<[u8; program::KEY_LEN]>,
    /// Number of them for each [`program::place`].
    places: [u32; program::PLACES_COUNT],
}

impl Default for Scheduled {
    fn default() -> Self {
        Self { is_refused: false, keys: BTreeSet::new(), places: [0; program::PLACES_COUNT] }
    }
}

/// Counts of flows that are none of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BypassCounters {
    /// Flows left to the kernel.
    pub flows: u64,
    /// Of those, flows that were seen to end or begin anew.
    pub ended: u64,
    /// Packets of theirs that never entered this process; a super-packet counts as one.
    pub packets: u64,
}

impl BypassCounters {
    /// Names and values, as in the status.
    pub fn named(&self) -> [(&'static str, u64); 3] {
        [("bypass_flows", self.flows), ("bypass_flows_ended", self.ended), ("bypass_packets", self.packets)]
    }
}

impl Bypass {
    pub(super) fn create() -> Result<Self, IoError> {
        let passed = HashMap::create("cell_passed", PASSED_MAX)?;
        Ok(Self::of(passed, SharedArray::create("cell_shared", REASONS_WORD + program::REASONS)?))
    }

    /// That of another process.
    pub(super) fn adopt(passed: OwnedFd, shared: SharedArray) -> Result<Self, IoError> {
        Ok(Self::of(HashMap::adopt(passed, PASSED_MAX)?, shared))
    }

    fn of(passed: PassedMap, shared: SharedArray) -> Self {
        let (added, room) = (AtomicU64::new(0), AtomicU32::new(ADDED_MAX));
        Self { passed, shared, added, room, scheduled: Mutex::default() }
    }

    /// The packet loop is alive.
    pub(super) fn beat(&self) {
        self.room.store(ADDED_MAX, Relaxed);
        if let Some(word) = self.shared.words().get(HEARTBEAT_WORD) {
            word.store(Clock::now().as_nanos(), Relaxed);
        }
    }

    /// Leaves a flow to the kernel until it ends or its ports are used again.
    pub fn add(&self, flow: &UnknownFlow) {
        let place = flow.reason.map_or(0, |reason| 1 + reason.index() as u64);
        let value = (place << program::REASON_SHIFT).to_ne_bytes();
        let has_room = self.room.fetch_update(Relaxed, Relaxed, |room| room.checked_sub(1)).is_ok();
        // The kernel may have no element to give at this moment: then the next packet asks again.
        if has_room && matches!(self.passed.insert(&key(flow.client, flow.server), &value), Ok(true)) {
            self.added.fetch_add(1, Relaxed);
        }
    }

    /// Has a flow's packets come here again, if they were left to the kernel.
    pub fn remove(&self, client: SocketAddr, server: SocketAddr) {
        // It is rarely there; where the kernel fails, the flow goes on to pass, as before.
        drop(self.passed.remove(&key(client, server)));
    }

    /// Has everything to a subscriber come here, and what it acknowledges; or no longer.
    pub fn schedule(&self, subscriber: IpAddr, is_wanted: bool) {
        let key = subscriber_key(subscriber);
        let mut scheduled = self.scheduled.lock().unwrap_or_else(PoisonError::into_inner);
        // One that a process before this one has led here may be there although none may.
        if !is_wanted || scheduled.is_refused {
            // It may not be there.
            self.passed.remove(&key).ok();
            if scheduled.keys.remove(&key) {
                self.leave_place(&mut scheduled, &key);
            }
        } else {
            // Before it is there: the programs look it up only then.
            if scheduled.keys.insert(key) {
                self.take_place(&mut scheduled, &key);
            }
            if self.passed.insert(&key, &[0; program::VALUE_LEN]).is_err() {
                scheduled.keys.remove(&key);
                self.leave_place(&mut scheduled, &key);
            }
        }
    }

    fn take_place(&self, scheduled: &mut Scheduled, key: &[u8; program::KEY_LEN]) {
        let place = program::place(key);
        scheduled.places[place] += 1;
        if let Some(word) = self.shared.words().get(PLACES_WORD + place / 64) {
            word.fetch_or(1 << (place % 64), Relaxed);
        }
    }

    /// A place that only a process before this one has taken stays so: then the programs look for nothing there.
    fn leave_place(&self, scheduled: &mut Scheduled, key: &[u8; program::KEY_LEN]) {
        let place = program::place(key);
        scheduled.places[place] = scheduled.places[place].saturating_sub(1);
        if scheduled.places[place] == 0
            && let Some(word) = self.shared.words().get(PLACES_WORD + place / 64)
        {
            word.fetch_and(!(1 << (place % 64)), Relaxed);
        }
    }

    /// Says whether all traffic of subscribers may come here; if not, that of none does from here on.
    pub fn permit_schedules(&self, is_permitted: bool) {
        let mut scheduled = self.scheduled.lock().unwrap_or_else(PoisonError::into_inner);
        scheduled.is_refused = !is_permitted;
        const AT: usize = program::SCHEDULES as usize / size_of::<u64>();
        if let Some(word) = self.shared.words().get(AT) {
            word.store(is_permitted.into(), Relaxed);
        }
        if !is_permitted {
            for key in std::mem::take(&mut scheduled.keys) {
                // One that the kernel has dropped is not there.
                self.passed.remove(&key).ok();
                self.leave_place(&mut scheduled, &key);
            }
        }
    }

    /// Leaves flows that begin from here on to the kernel, or no longer.
    pub fn refuse_new_flows(&self, is_refused: bool) {
        const AT: usize = program::NO_NEW_FLOWS as usize / size_of::<u64>();
        if let Some(word) = self.shared.words().get(AT) {
            word.store(is_refused.into(), Relaxed);
        }
    }

    /// True when there has been no sign of life for `time`, but for the few milliseconds by which the clock of the
    /// programs is behind.
    pub fn is_silent_for(&self, time: Duration) -> bool {
        let last = self.shared.words().get(HEARTBEAT_WORD).map_or(0, |word| word.load(Relaxed));
        Clock::now().as_nanos().saturating_sub(last) + CLOCK_BEHIND_MAX.as_nanos() >= time.as_nanos()
    }

    /// Counts so far.
    pub fn counters(&self) -> BypassCounters {
        let mut counters = BypassCounters { flows: self.added.load(Relaxed), ..BypassCounters::default() };
        for line in self.shared.words().chunks(LINE_WORDS).skip(1).take(PROGRAMS_MAX) {
            let value = |at: i32| line.get(at as usize / 8).map_or(0, |word| word.load(Relaxed));
            counters.packets += value(program::BYPASSED_PACKETS);
            counters.ended += value(program::ENDED_FLOWS);
        }
        counters
    }

    /// Bytes of the flows in the map, by the reason why they pass; without those that are zero.
    pub fn bytes_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = std::iter::once(UNKNOWN_REASON).chain(PassReason::ALL.iter().map(|reason| reason.name()));
        let words = self.shared.words().get(REASONS_WORD..).unwrap_or_default();
        let counted = names.zip(words.iter().map(|word| word.load(Relaxed)));
        counted.filter(|(_, bytes)| *bytes > 0)
    }
}

/// Reason why a flow passes that began before the process, or too long ago.
const UNKNOWN_REASON: &str = "unknown";
const _: () = assert!(PassReason::COUNT < program::REASONS);

/// A flow's key as the programs make it of a packet.
fn key(client: SocketAddr, server: SocketAddr) -> [u8; program::KEY_LEN] {
    let mut key = [0; program::KEY_LEN];
    for (start, address) in [(0, client.ip()), (16, server.ip())] {
        match address {
            IpAddr::V4(address) => key[start..start + 4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => key[start..start + 16].copy_from_slice(&address.octets()),
        }
    }
    key[32..34].copy_from_slice(&client.port().to_be_bytes());
    key[34..36].copy_from_slice(&server.port().to_be_bytes());
    let family: u32 = if client.is_ipv4() { 4 } else { 6 };
    key[36..40].copy_from_slice(&family.to_ne_bytes());
    key
}

/// A subscriber's key, by its address or the first one of its prefix.
fn subscriber_key(subscriber: IpAddr) -> [u8; program::KEY_LEN] {
    let nobody = if subscriber.is_ipv4() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    };
    let mut key = key(SocketAddr::new(subscriber, 0), SocketAddr::new(nobody, 0));
    let family = program::SUBSCRIBER.cast_unsigned() | if subscriber.is_ipv4() { 4 } else { 6 };
    key[36..40].copy_from_slice(&family.to_ne_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_each_thing_at_its_place() {
        let made = key("10.1.0.2:258".parse().unwrap(), "10.2.0.2:80".parse().unwrap());
        assert_eq!((&made[..4], &made[16..20]), (&[10, 1, 0, 2][..], &[10, 2, 0, 2][..]));
        assert_eq!(&made[32..36], &[1, 2, 0, 80]);
        assert!(made[4..16].iter().chain(&made[20..32]).all(|byte| *byte == 0));
        let made = key("[fd01::2]:1".parse().unwrap(), "[fd02::2]:2".parse().unwrap());
        assert_eq!((made[0], made[15], made[16], made[31]), (0xfd, 2, 0xfd, 2));
        // As the program stores it: a number of this machine's.
        assert_eq!(u32::from_ne_bytes([made[36], made[37], made[38], made[39]]), 6);
        let place = |address: &str| program::place(&subscriber_key(address.parse().unwrap()));
        assert_eq!((place("10.1.0.2"), place("fd01::")), (10 ^ 1 ^ 2, 0xfd ^ 1));
    }
}
