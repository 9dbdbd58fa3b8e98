//! [`PacketIds`]: packets missing in a sequence of IPv4 identifications.
//!
//! Many senders count the identification up by one per packet of a connection. Behind the place of loss a
//! jump then tells how many packets are missing, even of repairs that were lost too and of tails, which leave
//! no hole. Others use one counter for all connections, random numbers or zero; they are recognised by jumps
//! that no hole explains.

use units::Duration;

/// A jump further than this is no loss but another way to number.
const JUMP_MAX: u16 = 2_000;

/// More than this is not missing of a tail: other connections used the counter.
const TAIL_MAX: u16 = 16;
/// Packets numbered one by one from which on the numbers are those of the connection.
const REGULAR_MIN: u32 = 8;

/// Identifications of the packets of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketIds {
    expected: Option<u16>,
    regular: u32,
    unsound: u32,
    missing: u32,
    missing_after_pause: u32,
}

/// How a packet stands in its stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketContext {
    pub(crate) has_data: bool,
    /// There is a hole below it, or it fills one.
    pub(crate) is_at_hole: bool,
    /// Time since the last packet of its flow.
    pub(crate) pause: Duration,
    /// Packets on the wire that it stands for.
    pub(crate) segments: u64,
}

/// A sender waits at least so long for a timer (RFC 8985 §7.2: two round trips; RTO: 200 ms).
const PAUSE: Duration = Duration::from_millis(60);

impl PacketIds {
    /// Takes a packet; true when packets before it, which it follows after a pause, are missing.
    #[inline]
    pub(crate) fn on_packet(&mut self, id: u16, standing: &PacketContext) -> bool {
        let after = id.wrapping_add(standing.segments as u16);
        let Some(expected) = self.expected else {
            self.expected = Some(after);
            return false;
        };
        let ahead = id.wrapping_sub(expected);
        if ahead == 0 {
            self.regular = self.regular.saturating_add(1);
            self.expected = Some(after);
            return false;
        }
        if ahead > u16::MAX - JUMP_MAX {
            // An earlier packet that came late, which was counted as missing; a repeated number is neither.
            match standing.has_data && standing.is_at_hole && self.missing > 0 {
                true => self.missing -= 1,
                false => self.unsound = self.unsound.saturating_add(1),
            }
            return false;
        }
        self.expected = Some(after);
        if ahead > JUMP_MAX {
            self.unsound = self.unsound.saturating_add(1);
        } else if standing.has_data && standing.is_at_hole {
            self.missing = self.missing.saturating_add(u32::from(ahead));
        } else if standing.has_data && standing.pause >= PAUSE {
            self.missing_after_pause = self.missing_after_pause.saturating_add(u32::from(ahead));
            return self.unsound == 0 && ahead <= TAIL_MAX;
        } else if standing.has_data {
            self.unsound = self.unsound.saturating_add(1);
        }
        false
    }

    /// True when this identification does not lie close before the one expected.
    #[inline]
    pub(crate) fn is_new(&self, id: u16) -> bool {
        self.expected.is_none_or(|expected| !(1..=64).contains(&expected.wrapping_sub(id)))
    }

    /// True when the numbers have been seen to count up.
    pub(crate) fn is_regular(&self) -> bool {
        self.regular >= REGULAR_MIN
    }

    /// Packets missing; none if this sender does not number the packets of the connection.
    pub(crate) fn missing(&self) -> Option<u64> {
        if !self.is_regular() || u64::from(self.unsound) * 50 > u64::from(self.regular) {
            return None;
        }
        // A counter that others use too moves on in a pause.
        let tails = if self.unsound == 0 { self.missing_after_pause } else { 0 };
        Some(u64::from(self.missing) + u64::from(tails))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: PacketContext =
        PacketContext { has_data: true, is_at_hole: false, pause: Duration::ZERO, segments: 1 };

    #[test]
    fn jumps_at_holes_and_after_pauses_are_loss() {
        let mut ids = PacketIds::default();
        assert!((65_530..65_536).chain(0..6).all(|id| !ids.on_packet(id as u16, &USUAL)));
        assert!(!ids.on_packet(8, &PacketContext { is_at_hole: true, ..USUAL }));
        assert!(ids.on_packet(10, &PacketContext { pause: Duration::from_millis(250), ..USUAL }));
        ids.on_packet(11, &PacketContext { segments: 4, ..USUAL });
        ids.on_packet(15, &USUAL);
        assert_eq!(ids.missing(), Some(3));
        ids.on_packet(7, &PacketContext { is_at_hole: true, ..USUAL });
        assert_eq!(ids.missing(), Some(2), "one was only late");
    }

    #[test]
    fn other_ways_to_number_say_nothing() {
        let numbered = |step: fn(u16) -> u16| {
            let mut ids = PacketIds::default();
            for i in 0..100 {
                ids.on_packet(step(i), &USUAL);
            }
            ids.missing()
        };
        assert_eq!(numbered(|_| 0), None);
        assert_eq!(numbered(|i| i.wrapping_mul(40_503)), None);
        assert_eq!(numbered(|i| i + i / 10), None, "a counter shared with others");
        assert_eq!(numbered(|i| i), Some(0));
    }
}
