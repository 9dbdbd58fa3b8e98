//! [`PacketIds`]: packets missing in a sequence of IPv4 identifications.
//!
//! Many senders count the identification up by one per packet of a connection. Where sequence numbers show that
//! something was lost before the place of capture, a jump then tells how many packets are missing, among them
//! repairs that were lost too. Others use one counter for all connections, random numbers or zero. A jump that no
//! hole explains is theirs: alone, identifications say nothing of a loss.
//!
//! Acknowledgements without data that are missing leave jumps too ([`AckGaps`]). A counter that others use
//! jumps in the same way, but then the acknowledgement behind the jump acknowledges no more than others do.

/// A jump further than this is no loss but another way to number.
const JUMP_MAX: u16 = 2_000;

/// Packets numbered one by one from which on the numbers are those of the connection.
const REGULAR_MIN: u32 = 8;

/// Identifications of the packets of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketIds {
    expected: Option<u16>,
    regular: u32,
    unsound: u32,
    missing: u32,
}

/// Relation of a packet to its stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketContext {
    pub(crate) has_data: bool,
    /// Packets on the wire that it stands for.
    pub(crate) segments: u64,
    /// Packets that holes show to be missing: those below it, and what it fills itself.
    pub(crate) shown: u64,
    /// The capture missed what lies before it.
    pub(crate) is_after_capture_gap: bool,
}

/// Meaning of the identification of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckStep {
    /// Nothing is missing before it, or at data what is counted here.
    Usual,
    /// Number of packets that are missing before it.
    Ahead(u16),
    /// It lies before others that have been seen.
    Late,
}

/// Jumps of identifications at acknowledgements without data that say that data has arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckGaps {
    missing: u32,
    /// Number of such acknowledgements.
    news: u32,
    /// Bytes that they said have arrived.
    delivered: u64,
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
    /// `missing` packets are missing before an acknowledgement that says that `delivered` more bytes have
    /// arrived. One that says nothing new cannot stand for others.
    #[cold]
    pub(crate) fn ahead(&mut self, missing: u16, delivered: u64) {
        if delivered > 0 {
            self.missing = self.missing.saturating_add(u32::from(missing));
            self.news = self.news.saturating_add(1);
            self.delivered = self.delivered.saturating_add(delivered);
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
    /// have, or at least two thirds of it, or if they are so many that it is not known what is usual.
    pub(crate) fn missing(&self, all: AckTotals) -> Option<u64> {
        let news = u64::from(self.news);
        let usual_bytes = u128::from(all.bytes.saturating_sub(self.delivered));
        let usual = u128::from(all.pure.saturating_sub(news).max(1));
        let stood_for = u128::from(u64::from(self.missing) + news);
        let is_sound =
            news * 2 <= all.pure && u128::from(self.delivered) * usual * 3 >= usual_bytes * stood_for * 2;
        (news == 0 || is_sound).then_some(u64::from(self.missing))
    }
}

impl PacketIds {
    /// True when this identification follows that of the packet before.
    #[inline]
    pub(crate) fn is_expected(&self, id: u16) -> bool {
        self.expected == Some(id)
    }

    /// Takes an expected identification, of a packet that stands for `segments`.
    #[inline]
    pub(crate) fn on_expected(&mut self, id: u16, segments: u64) {
        self.regular = self.regular.saturating_add(1);
        self.expected = Some(id.wrapping_add(segments as u16));
    }

    /// Gives what is said of a packet without data; jumps at data are counted here.
    pub(crate) fn on_packet(&mut self, id: u16, standing: &PacketContext) -> AckStep {
        let Some(expected) = self.expected else {
            self.expected = Some(id.wrapping_add(standing.segments as u16));
            return AckStep::Usual;
        };
        let ahead = id.wrapping_sub(expected);
        if ahead == 0 {
            self.on_expected(id, standing.segments);
            return AckStep::Usual;
        }
        if ahead > u16::MAX - JUMP_MAX {
            if !standing.has_data {
                return AckStep::Late;
            }
            // An earlier packet that came late, which was counted as missing; a repeated number is neither.
            match standing.shown > 0 && self.missing > 0 {
                true => self.missing -= 1,
                false => self.on_unsound(),
            }
            return AckStep::Usual;
        }
        self.expected = Some(id.wrapping_add(standing.segments as u16));
        if ahead > JUMP_MAX {
            self.on_unsound();
        } else if !standing.has_data {
            return AckStep::Ahead(ahead);
        } else if !standing.is_after_capture_gap {
            self.on_jump(u64::from(ahead), standing.shown);
        }
        AckStep::Usual
    }

    /// `ahead` packets are missing before data, of which holes show `shown`: others use the counter for the rest.
    #[cold]
    fn on_jump(&mut self, ahead: u64, shown: u64) {
        self.missing = self.missing.saturating_add(ahead.min(shown) as u32);
        if ahead > shown {
            self.on_unsound();
        }
    }

    /// An identification that no loss explains.
    pub(crate) fn on_unsound(&mut self) {
        self.unsound = self.unsound.saturating_add(1);
    }

    /// True when this sender numbers the packets of the connection, as far as was seen.
    pub(crate) fn is_sound(&self) -> bool {
        self.regular >= REGULAR_MIN && u64::from(self.unsound) * 50 <= u64::from(self.regular)
    }

    /// True when this identification does not lie close before the one expected.
    #[inline]
    pub(crate) fn is_new(&self, id: u16) -> bool {
        self.expected.is_none_or(|expected| !(1..=64).contains(&expected.wrapping_sub(id)))
    }

    /// Packets missing at holes; none if this sender does not number the packets of the connection.
    pub(crate) fn missing(&self) -> Option<u64> {
        self.is_sound().then_some(u64::from(self.missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: PacketContext =
        PacketContext { has_data: true, segments: 1, shown: 0, is_after_capture_gap: false };

    #[test]
    fn jumps_are_loss_as_far_as_holes_show_it() {
        let mut ids = PacketIds::default();
        (65_000..65_536).chain(0..6).for_each(|id| {
            assert_eq!(ids.on_packet(id as u16, &USUAL), AckStep::Usual);
        });
        ids.on_packet(8, &PacketContext { shown: 2, ..USUAL });
        ids.on_packet(9, &PacketContext { segments: 4, ..USUAL });
        ids.on_packet(13, &USUAL);
        assert_eq!(ids.missing(), Some(2));
        ids.on_packet(7, &PacketContext { shown: 1, ..USUAL });
        assert_eq!(ids.missing(), Some(1), "one was only late");
        ids.on_packet(16, &USUAL);
        assert_eq!(ids.missing(), Some(1), "no hole shows them");
        ids.on_packet(27, &PacketContext { shown: 3, ..USUAL });
        assert_eq!(ids.missing(), Some(4), "no hole shows more");
        ids.on_packet(30, &PacketContext { is_after_capture_gap: true, ..USUAL });
        assert_eq!(ids.missing(), Some(4));
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

    /// Estimate from 100 acknowledgements of 2,000 bytes each, of which those are seen that `is_seen` says;
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
    fn acknowledgements_that_say_nothing_new_stand_for_no_others() {
        let mut gaps = AckGaps::default();
        gaps.ahead(10, 0);
        assert_eq!(gaps.missing(AckTotals { bytes: 10_000, pure: 12 }), Some(0));
    }

    #[test]
    fn an_acknowledgement_that_is_late_was_not_lost() {
        let (mut ids, mut gaps) = (PacketIds::default(), AckGaps::default());
        let bare = PacketContext { has_data: false, ..USUAL };
        (0..10).for_each(|id| assert_eq!(ids.on_packet(id, &bare), AckStep::Usual));
        assert_eq!(ids.on_packet(11, &bare), AckStep::Ahead(1));
        gaps.ahead(1, 2_000);
        assert_eq!(ids.on_packet(10, &bare), AckStep::Late);
        assert!(gaps.late() && !gaps.late());
        assert_eq!(gaps.missing(AckTotals { bytes: 20_000, pure: 12 }), Some(0));
    }
}
