//! [`PacketIds`]: packets missing in a sequence of IPv4 identifications.
//!
//! Many senders count the identification up by one per packet of a connection. Behind the place of loss a
//! jump then tells how many packets are missing, even of repairs that were lost too and of tails, which leave
//! no hole. Others use one counter for all connections, random numbers or zero; they are recognised by jumps
//! that no hole explains.
//!
//! Acknowledgements without data that are missing leave jumps too ([`AckGaps`]). A counter that others use
//! jumps in the same way, but then the acknowledgement behind the jump acknowledges no more than others do.

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

/// What the identification of a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckStep {
    /// Nothing is missing before it, or at data what is counted here.
    Usual,
    /// So many packets are missing before it.
    Ahead(u16),
    /// It lies before others that have been seen.
    Late,
    /// A packet with data follows a pause, and packets before it are missing.
    AfterLoss,
}

/// Jumps of identifications at acknowledgements without data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckGaps {
    missing: u32,
    /// Of these, before acknowledgements of new data.
    missing_at_news: u32,
    /// How many such acknowledgements.
    news: u32,
    /// Bytes that they acknowledged.
    acked: u64,
}

/// All that one end acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckTotals {
    /// Bytes.
    pub(crate) bytes: u64,
    /// Acknowledgements without data.
    pub(crate) pure: u64,
}

impl AckGaps {
    /// `missing` packets are missing before an acknowledgement of `acked` new bytes.
    #[cold]
    pub(crate) fn ahead(&mut self, missing: u16, acked: u64) {
        self.missing = self.missing.saturating_add(u32::from(missing));
        if acked > 0 {
            self.missing_at_news = self.missing_at_news.saturating_add(u32::from(missing));
            self.news = self.news.saturating_add(1);
            self.acked = self.acked.saturating_add(acked);
        }
    }

    /// One that was counted as missing came late; false if none was.
    #[cold]
    pub(crate) fn late(&mut self) -> bool {
        let was_missing = self.missing > 0;
        self.missing = self.missing.saturating_sub(1);
        was_missing
    }

    /// Acknowledgements missing; none if those behind jumps do not acknowledge what the missing ones would
    /// have, or at least two thirds of it.
    pub(crate) fn missing(&self, all: AckTotals) -> Option<u64> {
        let news = u64::from(self.news);
        let usual_bytes = u128::from(all.bytes.saturating_sub(self.acked));
        let usual = u128::from(all.pure.saturating_sub(news).max(1));
        let stood_for = u128::from(u64::from(self.missing_at_news) + news);
        let is_sound = u128::from(self.acked) * usual * 3 >= usual_bytes * stood_for * 2;
        (news == 0 || is_sound).then_some(u64::from(self.missing))
    }
}

/// A sender waits at least so long for a timer (RFC 8985 §7.2: two round trips; RTO: 200 ms).
const PAUSE: Duration = Duration::from_millis(60);

impl PacketIds {
    /// Gives what is said of a packet without data, or of one after a pause; other jumps at data are counted here.
    #[inline]
    pub(crate) fn on_packet(&mut self, id: u16, standing: &PacketContext) -> AckStep {
        let after = id.wrapping_add(standing.segments as u16);
        let Some(expected) = self.expected else {
            self.expected = Some(after);
            return AckStep::Usual;
        };
        let ahead = id.wrapping_sub(expected);
        if ahead == 0 {
            self.regular = self.regular.saturating_add(1);
            self.expected = Some(after);
            return AckStep::Usual;
        }
        if ahead > u16::MAX - JUMP_MAX {
            if !standing.has_data {
                return AckStep::Late;
            }
            // An earlier packet that came late, which was counted as missing; a repeated number is neither.
            match standing.is_at_hole && self.missing > 0 {
                true => self.missing -= 1,
                false => self.on_unsound(),
            }
            return AckStep::Usual;
        }
        self.expected = Some(after);
        if ahead > JUMP_MAX {
            self.on_unsound();
        } else if !standing.has_data {
            return AckStep::Ahead(ahead);
        } else if standing.is_at_hole {
            self.missing = self.missing.saturating_add(u32::from(ahead));
        } else if standing.pause >= PAUSE {
            self.missing_after_pause = self.missing_after_pause.saturating_add(u32::from(ahead));
            if self.unsound == 0 && ahead <= TAIL_MAX {
                return AckStep::AfterLoss;
            }
        } else {
            self.on_unsound();
        }
        AckStep::Usual
    }

    /// An identification that no loss explains.
    pub(crate) fn on_unsound(&mut self) {
        self.unsound = self.unsound.saturating_add(1);
    }

    /// True when this sender numbers the packets of the connection, as far as was seen.
    pub(crate) fn is_sound(&self) -> bool {
        self.is_regular() && u64::from(self.unsound) * 50 <= u64::from(self.regular)
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
        if !self.is_sound() {
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
        (65_530..65_536)
            .chain(0..6)
            .for_each(|id| assert_eq!(ids.on_packet(id as u16, &USUAL), AckStep::Usual));
        assert_eq!(ids.on_packet(8, &PacketContext { is_at_hole: true, ..USUAL }), AckStep::Usual);
        let paused = PacketContext { pause: Duration::from_millis(250), ..USUAL };
        assert_eq!(ids.on_packet(10, &paused), AckStep::AfterLoss);
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
            for number in 0..100 {
                assert_eq!(ids.on_packet(step(number), &USUAL), AckStep::Usual);
            }
            ids.missing()
        };
        assert_eq!(numbered(|_| 0), None);
        assert_eq!(numbered(|i| i.wrapping_mul(40_503)), None);
        assert_eq!(numbered(|i| i + i / 10), None, "a counter shared with others");
        assert_eq!(numbered(|i| i), Some(0));
    }

    /// What is found of 100 acknowledgements of 2,000 bytes each, of which those are seen that `is_seen` says;
    /// `id` numbers them.
    fn acknowledged(is_seen: fn(u16) -> bool, id: fn(u16) -> u16) -> Option<u64> {
        let (mut ids, mut gaps) = (PacketIds::default(), AckGaps::default());
        let (mut edge, mut pure) = (0, 0);
        for number in (0..100).filter(|number| is_seen(*number)) {
            let next = u64::from(number + 1) * 2_000;
            match ids.on_packet(id(number), &PacketContext { has_data: false, ..USUAL }) {
                AckStep::Ahead(missing) => gaps.ahead(missing, next - edge),
                step => assert_eq!(step, AckStep::Usual),
            }
            (edge, pure) = (next, pure + 1);
        }
        gaps.missing(AckTotals { bytes: edge, pure })
    }

    #[test]
    fn lost_acknowledgements_are_told_from_a_counter_that_others_use() {
        assert_eq!(acknowledged(|_| true, |number| number), Some(0));
        assert_eq!(acknowledged(|number| number % 5 != 3, |number| number), Some(20));
        assert_eq!(
            acknowledged(|number| number % 10 < 6, |number| number),
            Some(36),
            "the last four, unseen"
        );
        assert_eq!(acknowledged(|_| true, |number| number + number / 5), None);
        assert_eq!(acknowledged(|_| true, |number| number + 4 * (number / 5)), None);
    }

    #[test]
    fn an_acknowledgement_that_is_late_was_not_lost() {
        let (mut ids, mut gaps) = (PacketIds::default(), AckGaps::default());
        let bare = PacketContext { has_data: false, ..USUAL };
        (0..10).for_each(|id| assert_eq!(ids.on_packet(id, &bare), AckStep::Usual));
        assert_eq!(ids.on_packet(11, &bare), AckStep::Ahead(1));
        gaps.ahead(1, 0);
        assert_eq!(ids.on_packet(10, &bare), AckStep::Late);
        assert!(gaps.late() && !gaps.late());
        assert_eq!(gaps.missing(AckTotals { bytes: 10, pure: 12 }), Some(0));
    }
}
