//! State that connections to one destination share ([`SharedPath`]), and each one's part ([`Member`]).
//!
//! ```text
//!   connection ── Σ r̂, Σ r̄, Σ d, how many, when to drain ──▶ SharedPath ──▶ r̂, r̄, d are the mean of the members
//! ```
//!
//! Connections through one queue that each follow their own rate keep whatever shares they have: a window in proportion
//! to a rate confirms that rate. With the mean of all in its place the windows are equal, their sum is the same, and
//! the shares become equal within some round trips.
//!
//! One address is not one queue: behind a carrier's NAT it is thousands of radios. So a connection becomes a member
//! when its delays have proved a common queue (in the spirit of RFC 8382 §3.3, whose groups are by statistics of the
//! delay). One connection leads: it writes the mean round trip of each slot of 131 ms. Another one compares with its own
//! how both deviate from what they were of late:
//!
//! ```text
//!   apart  = EWMA |(own − its mean) − (leader's − its mean)|
//!   spread = EWMA (|own − its mean| + |leader's − its mean|) ÷ 2
//!   a member    when apart < spread ÷ 2 after twelve slots, or spread ÷ 8 after five, and spread is more than the noise
//!   none again  when apart > spread, and apart is more than the noise
//! ```
//!
//! Deviations in one queue are the same. Of two queues, `apart` is about 1.4 × `spread`.
//!
//! The smallest τ is everybody's. When the leader drains, all do: alone it could not empty the queue.
//!
//! What the leader knows of the path is also a hint for the start of the next connection ([`SharedPath::start_window`]).

use super::{BYTES_MAX, FLOOR_AGE_US, INITIAL_SEGMENTS, Law, SEGMENTS_MIN, bytes_in};

/// Slots that the leader's delays are kept of.
pub const SLOTS: usize = 8;

/// A slot lasts 2¹⁷ µs: 131 ms.
const SLOT_SHIFT: u32 = 17;
/// Memory of the averages, in slots.
const MEMORY_SLOTS: u64 = 8;
/// Slots to compare before anything is proved, and how many times smaller than `spread` `apart` is then; the same for
/// delays that are as good as equal.
const COMPARED_MIN: u64 = 12;
const ALIKE: u64 = 2;
const COMPARED_EARLY: u64 = 5;
const ALIKE_EARLY: u64 = 8;
const COMPARED_MAX: u64 = 255;
/// Deviations below these prove nothing, µs.
const SPREAD_MIN_US: u64 = 300;
const NOISE_US: u64 = 2_000;
/// Time after which a connection not bound by its window takes no share, µs.
const ACTIVE_US: u64 = 250_000;
/// Time without news after which a leader is none, µs.
const LED_US: u64 = 4_000_000;
/// Time for which a path is a hint, µs.
const HINT_US: u64 = 60_000_000;
/// The largest window to begin with, bytes.
const START_MAX: u64 = 32 << 10;

/// Shares that members report of themselves, or are told of the others: sums, or all zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, stored::Stored)]
pub struct Shares {
    /// Number of members.
    pub count: u64,
    /// Their forecasts, bytes per second.
    pub forecast: u64,
    /// Their rates of the last moments, bytes per second.
    pub recent: u64,
    /// Their headrooms, ns.
    pub headroom_ns: u64,
}

impl Shares {
    /// Sums with `new` in place of `old`.
    const fn replaced(self, old: Self, new: Self) -> Self {
        Self {
            count: self.count.wrapping_add(new.count).wrapping_sub(old.count),
            forecast: self.forecast.wrapping_add(new.forecast).wrapping_sub(old.forecast),
            recent: self.recent.wrapping_add(new.recent).wrapping_sub(old.recent),
            headroom_ns: self.headroom_ns.wrapping_add(new.headroom_ns).wrapping_sub(old.headroom_ns),
        }
    }
}

/// State of a destination. The order is that of `struct path` in `crates/linux/congestion/bpf/law.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "fields that belong together have one comment")]
pub struct SharedPath {
    /// The connection that leads, by number; 0: none.
    pub leader: u64,
    /// Time of the leader's last news, µs; it wrote all that follows but `group`, `members` and `floor_us`.
    pub led_us: u64,
    /// Counts how often somebody has begun to lead who was no member: what was proved before holds no longer.
    pub group: u64,
    /// The members.
    pub members: Shares,
    /// Times from which a drain shows, and until which it lasts, µs.
    pub drain_from_us: u64,
    pub drain_until_us: u64,
    /// Smallest round trip, µs, and rate, bytes per second.
    pub floor_us: u64,
    pub rate: u64,
    /// The slots, and the mean round trip in each, µs.
    pub slots: [u32; SLOTS],
    pub means_us: [u32; SLOTS],
}

impl SharedPath {
    /// True when nothing was heard of it for a minute.
    #[must_use]
    pub fn is_old(&self, now_us: u64) -> bool {
        self.led_us == 0 || now_us.saturating_sub(self.led_us) > HINT_US
    }

    /// The window that a connection of segments of `mss` bytes begins with: half of what the path holds, no less than
    /// RFC 6928's, no more than 32 KiB.
    #[must_use]
    pub fn start_window(&self, mss: u64, now_us: u64) -> u64 {
        let usual = mss * INITIAL_SEGMENTS;
        if self.is_old(now_us) {
            return usual;
        }
        let rate = self.rate / (self.members.count.min(1 << 16) + 1);
        (bytes_in(rate, self.floor_us) / 2).min(START_MAX).max(usual)
    }
}

/// Reports of the others, for the law.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Peers {
    /// The other members.
    pub others: Shares,
    /// The members' smallest floor, where it differs; else 0.
    pub floor_us: u64,
    /// The drain that is under way; 0: none.
    pub drain_from_us: u64,
    /// Time until which it lasts.
    pub drain_until_us: u64,
}

/// State that a connection keeps for a [`SharedPath`]. The order is that of `struct member`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, stored::Stored)]
#[allow(missing_docs, reason = "fields that belong together have one comment")]
pub struct Member {
    /// Its number; 0: it has none yet.
    pub number: u64,
    /// Connection that it compares itself with, and in which group.
    pub leader: u64,
    pub group: u64,
    /// Nothing of it is in flight.
    pub is_drained: u64,
    /// The slot under way: its round trips, µs, and how many.
    pub slot: u64,
    pub sum_us: u64,
    pub samples: u64,
    /// The slot that has ended, and the one before it, with their means, µs.
    pub ended_slot: u64,
    pub ended_us: u64,
    pub earlier_slot: u64,
    pub earlier_us: u64,
    /// Eight times the mean of the slots so far, µs: its own, and the leader's.
    pub own_eighths: u64,
    pub leaders_eighths: u64,
    /// Eight times `apart` and `spread`, µs.
    pub apart: u64,
    pub spread: u64,
    /// Slots compared.
    pub compared: u64,
    /// It has what the others say, and says of itself.
    pub is_joined: u64,
    /// Report that it has given.
    pub given: Shares,
    /// A slot has ended that has not been told of.
    pub is_fresh: u64,
    /// Bins of the law when it told last.
    pub bins_told: u64,
}

impl Member {
    /// State of a connection with this number.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self { number, is_drained: 1, ..Self::default() }
    }

    /// Takes in an acknowledgement's round trip, µs; 0 where it has none. True when there is something to
    /// [`Member::exchange`].
    pub fn on_ack(&mut self, law: &Law, rtt_us: u64, now_us: u64) -> bool {
        let slot = (now_us >> SLOT_SHIFT) & 0xffff_ffff;
        if slot != self.slot {
            if let Some(mean_us) = self.sum_us.checked_div(self.samples) {
                (self.earlier_slot, self.earlier_us) = (self.ended_slot, self.ended_us);
                (self.ended_slot, self.ended_us) = (self.slot, mean_us);
                self.is_fresh = 1;
            }
            (self.slot, self.sum_us, self.samples) = (slot, 0, 0);
        }
        if rtt_us > 0 {
            self.sum_us += rtt_us.min(0xffff_ffff);
            self.samples += 1;
        }
        let gives = self.is_joined > 0 && is_active(law, self, now_us);
        self.is_fresh > 0
            || self.bins_told != u64::from(law.bins_written)
            || u64::from(gives) != self.given.count
    }

    /// Tells the path what this connection says; what the others say, and whether the law is to hear of it.
    pub fn exchange(&mut self, law: &Law, path: &mut SharedPath, now_us: u64) -> (Peers, bool) {
        let is_active = is_active(law, self, now_us);
        let is_silent = path.leader == 0 || now_us.saturating_sub(path.led_us) > LED_US;
        if is_active && is_silent && path.leader != self.number {
            if self.is_joined == 0 || self.group != path.group {
                path.group += 1;
                (path.floor_us, path.drain_from_us, path.drain_until_us) = (0, 0, 0);
            }
            path.leader = self.number;
        }
        let leads = path.leader == self.number;
        if self.group != path.group {
            self.group = path.group;
            self.is_joined = 0;
        }
        if self.leader != path.leader {
            // Who was a member of the group is one until the new leader's delays say otherwise.
            self.leader = path.leader;
            (self.compared, self.apart, self.spread) = (0, 0, 0);
        }
        if leads {
            self.is_joined = 1;
        }
        if leads && is_active {
            self.lead(law, path, now_us);
        } else if self.is_fresh > 0 && !leads {
            self.compare(path);
        }
        self.is_fresh = 0;
        self.bins_told = u64::from(law.bins_written);
        let gives = self.is_joined > 0 && is_active;
        let given = if gives {
            Shares { count: 1, forecast: law.forecast, recent: law.recent(), headroom_ns: law.headroom_ns }
        } else {
            Shares::default()
        };
        path.members = path.members.replaced(self.given, given);
        self.given = given;
        let peers = self.peers(law, path, now_us);
        (peers, peers != Peers { others: law.others(), ..Peers::default() })
    }

    /// Ends what it has to do with a path.
    pub fn leave(&mut self, path: &mut SharedPath) {
        path.members = path.members.replaced(self.given, Shares::default());
        self.given = Shares::default();
        if path.leader == self.number {
            path.leader = 0;
        }
        self.leader = 0;
        self.is_joined = 0;
    }

    fn lead(&self, law: &Law, path: &mut SharedPath, now_us: u64) {
        path.led_us = now_us;
        // Another drain may have begun at once.
        let has_measured = path.drain_from_us > 0 && law.drain_from_us != path.drain_from_us;
        if has_measured || path.members.count < 2 || path.floor_us == 0 {
            path.floor_us = law.floor_us;
        }
        (path.drain_from_us, path.drain_until_us) = (law.drain_from_us, law.drain_until_us);
        path.rate = path.members.forecast.max(law.forecast);
        if self.is_fresh > 0 {
            let place = self.ended_slot as usize % SLOTS;
            path.slots[place] = self.ended_slot as u32;
            path.means_us[place] = self.ended_us as u32;
        }
    }

    /// Compares the slot before the last with the leader's, which has had time to write it.
    fn compare(&mut self, path: &SharedPath) {
        let place = self.earlier_slot as usize % SLOTS;
        if self.earlier_slot == 0 || u64::from(path.slots[place]) != self.earlier_slot {
            return;
        }
        let (own, leaders) = (self.earlier_us, u64::from(path.means_us[place]));
        if self.compared == 0 {
            (self.own_eighths, self.leaders_eighths) = (own * MEMORY_SLOTS, leaders * MEMORY_SLOTS);
        }
        let (own_mean, leaders_mean) = (self.own_eighths / MEMORY_SLOTS, self.leaders_eighths / MEMORY_SLOTS);
        // (own − its mean) − (leader's − its mean), without signs.
        let apart = (own + leaders_mean).abs_diff(leaders + own_mean);
        let spread = (own.abs_diff(own_mean) + leaders.abs_diff(leaders_mean)) / 2;
        self.apart = self.apart - self.apart / MEMORY_SLOTS + apart;
        self.spread = self.spread - self.spread / MEMORY_SLOTS + spread;
        self.own_eighths = self.own_eighths - own_mean + own;
        self.leaders_eighths = self.leaders_eighths - leaders_mean + leaders;
        self.compared = (self.compared + 1).min(COMPARED_MAX);
        let is_alike = (self.compared >= COMPARED_MIN && self.apart * ALIKE < self.spread)
            || (self.compared >= COMPARED_EARLY && self.apart * ALIKE_EARLY < self.spread);
        if is_alike && self.spread > SPREAD_MIN_US * MEMORY_SLOTS {
            self.is_joined = 1;
        } else if self.apart > self.spread && self.apart > NOISE_US * MEMORY_SLOTS {
            self.is_joined = 0;
        }
    }

    /// Reports of the others.
    fn peers(&self, law: &Law, path: &mut SharedPath, now_us: u64) -> Peers {
        if self.given.count == 0 || path.members.count < 2 {
            return Peers::default();
        }
        path.floor_us = path.floor_us.min(law.floor_us);
        let mut peers =
            Peers { others: path.members.replaced(self.given, Shares::default()), ..Peers::default() };
        if path.floor_us != law.floor_us {
            peers.floor_us = path.floor_us;
        }
        if law.drain_from_us == 0 && now_us < path.drain_until_us {
            (peers.drain_from_us, peers.drain_until_us) = (path.drain_from_us, path.drain_until_us);
        }
        peers
    }
}

/// Its window, which is not the least, bounds what it sends, and it hears of its data.
fn is_active(law: &Law, member: &Member, now_us: u64) -> bool {
    member.is_drained == 0
        && law.allowed == 0
        && law.forecast > 0
        && law.limited_us > 0
        && law.window > law.mss * SEGMENTS_MIN
        && now_us.saturating_sub(law.limited_us) <= ACTIVE_US
}

impl Law {
    /// Takes in what the other members say.
    pub fn on_peers(&mut self, peers: &Peers, now_us: u64) {
        self.others = peers.others.count;
        self.others_forecast = peers.others.forecast;
        self.others_recent = peers.others.recent;
        self.others_headroom_ns = peers.others.headroom_ns;
        if peers.floor_us > 0 {
            self.floor_us = peers.floor_us;
            self.confirmed_us = now_us;
            self.age_max_us = FLOOR_AGE_US;
        }
        if peers.drain_from_us > 0 && self.drain_from_us == 0 {
            self.drain_from_us = peers.drain_from_us.max(now_us);
            self.drain_until_us = peers.drain_until_us;
        }
        self.update();
    }

    /// Shares that the other members reported last.
    const fn others(&self) -> Shares {
        Shares {
            count: self.others,
            forecast: self.others_forecast,
            recent: self.others_recent,
            headroom_ns: self.others_headroom_ns,
        }
    }

    /// The window to begin with, where something is known of the path.
    pub fn on_hint(&mut self, window: u64) {
        self.start_window = window.min(BYTES_MAX);
        self.update();
    }

    /// The mean of what this connection and the other members have.
    pub(super) fn shared(&self, own: u64, others: u64) -> u64 {
        match self.others {
            0 => own,
            count => (own + others) / (count + 1),
        }
    }
}
