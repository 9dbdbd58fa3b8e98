//! [`Stream`]: the data sequence of one direction of a connection; [`Carrier`]: what one subflow carried of it.

use std::collections::{BTreeMap, VecDeque};

use capture::{Mapping, Segment};
use units::{Duration, Instant, SeqNum};

use super::{MAPPINGS_MAX, MappingNews};
use crate::samples::Samples;

/// Positions that were seen. Memory is proportional to the gaps.
#[derive(Clone, Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// The parts of `[start, end)` that were not seen.
    fn missing(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut missing = Vec::new();
        let mut at = start;
        let before = self.0.range(..=start).next_back().map_or(start, |(from, _)| *from);
        for (&from, &to) in self.0.range(before..end) {
            if from > at {
                missing.push((at, from));
            }
            at = at.max(to);
        }
        if at < end {
            missing.push((at, end));
        }
        missing
    }

    /// Adds `[start, end)`; what overlaps or touches it becomes one with it.
    fn add(&mut self, mut start: u64, mut end: u64) {
        while let Some((&from, &to)) = self.0.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }
}

/// Numbers of a packet's bytes, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    /// Not seen before.
    pub(super) fresh: u64,
    /// Carried by another subflow, and by this one for the first time.
    pub(super) reinjected: u64,
    /// Carried by this subflow before.
    pub(super) repeated: u64,
}

impl Carried {
    /// Kind that tells most about the packet.
    pub(super) fn news(self) -> MappingNews {
        match self {
            Self { fresh: 1.., .. } => MappingNews::Fresh,
            Self { reinjected: 1.., .. } => MappingNews::Reinjected,
            _ => MappingNews::Repeated,
        }
    }
}

/// The data sequence of one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    seen: Ranges,
    /// Everything before it was seen.
    pub(super) next: Option<u64>,
    /// Bytes seen above it: end and time, by start.
    waiting: BTreeMap<u64, (u64, Instant)>,
    pub(super) delays: Samples<Duration>,
    /// The delays one by one, if they are kept.
    pub(super) kept: Option<Vec<Duration>>,
    pub(super) out_of_order: u64,
}

impl Stream {
    /// `[start, end)` was seen on a subflow.
    pub(super) fn add(&mut self, start: u64, end: u64, carrier: &mut Carrier, now: Instant) -> Carried {
        let mut found = Carried { repeated: end - start, ..Carried::default() };
        for (from, to) in carrier.carried.missing(start, end) {
            found.repeated -= to - from;
            found.reinjected += to - from;
            for (from, to) in self.seen.missing(from, to) {
                found.reinjected -= to - from;
                found.fresh += to - from;
                self.order(from, to, now);
            }
        }
        carrier.carried.add(start, end);
        self.seen.add(start, end);
        found
    }

    fn waited(&mut self, delay: Duration) {
        self.delays.record(delay);
        if let Some(kept) = self.kept.as_mut().filter(|kept| kept.len() < MAPPINGS_MAX) {
            kept.push(delay);
        }
    }

    fn order(&mut self, from: u64, to: u64, now: Instant) {
        let next = *self.next.get_or_insert(from);
        if from > next {
            self.out_of_order += 1;
            self.waiting.insert(from, (to, now));
            return;
        }
        self.waited(Duration::ZERO);
        let mut next = next.max(to);
        while let Some(first) = self.waiting.first_entry().filter(|first| *first.key() <= next) {
            let (to, since) = first.remove();
            self.waited(now.saturating_since(since));
            next = next.max(to);
        }
        self.next = Some(next);
    }
}

/// Packets of a subflow among which copies are looked for.
const PACKETS_MAX: usize = 256;

/// A packet with data.
#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: SeqNum,
    id: u16,
    stamps: Option<(u32, u32)>,
    hop_limit: u8,
    time: Instant,
}

/// One direction of a subflow.
#[derive(Clone, Debug, Default)]
pub(super) struct Carrier {
    /// Sequence number of its SYN; the lowest that a packet with a mapping allows, if no SYN was seen.
    first: Option<SeqNum>,
    has_syn: bool,
    /// The last mapping, and its start in 64 bits and its bytes of data.
    mapping: Option<(Mapping, (u64, u64))>,
    carried: Ranges,
    last: VecDeque<Sent>,
}

impl Carrier {
    /// A SYN has told where it starts.
    pub(super) fn starts(&mut self, seq: SeqNum) {
        (self.first, self.has_syn) = (Some(seq), true);
    }

    /// A packet with sequence number `seq` announces `mapping`, of `(start, len)` in the data sequence.
    pub(super) fn on_mapping(&mut self, mapping: Mapping, mapped: (u64, u64), seq: SeqNum) {
        if mapped.1 == 0 {
            return;
        }
        self.mapping = Some((mapping, mapped));
        // A later packet of the same mapping, or the first: no SYN can have been later than this.
        let latest = SeqNum::new(seq.get().wrapping_sub(mapping.subflow_sequence));
        if !self.has_syn && self.first.is_none_or(|first| latest.is_before(first)) {
            self.first = Some(latest);
        }
    }

    /// Part of the last mapping that a packet with `payload` bytes carries; a mapping may span many packets:
    /// start and end in the data sequence. None beyond the mapping.
    pub(super) fn part(&self, seq: SeqNum, payload: u64) -> Option<(u64, u64)> {
        let (mapping, (start, len)) = self.mapping?;
        let offset = u64::from(seq.since(self.first?).wrapping_sub(mapping.subflow_sequence));
        let from = start.checked_add(offset).filter(|_| offset < len && payload > 0)?;
        Some((from, from.checked_add(payload.min(len - offset))?))
    }

    /// True when `segment` is the same packet as one before, which the capture has twice; remembers it
    /// otherwise.
    pub(super) fn is_copy(&mut self, segment: &Segment, (start, end): (u64, u64), now: Instant) -> bool {
        let stamps = segment.tcp.options.timestamps.map(|stamps| (stamps.value, stamps.echo));
        let (seq, id, hop_limit) = (segment.tcp.seq, segment.ip.id, segment.ip.hop_limit);
        let is_same = |sent: &Sent| {
            let apart = now.saturating_since(sent.time);
            // As among all flows: by the identification, else by place, time and timestamps.
            let is_alike = match id {
                0 => {
                    let is_elsewhere = sent.hop_limit != hop_limit && stamps.is_some();
                    is_elsewhere || apart <= Duration::from_micros(100)
                }
                _ => true,
            };
            let is_equal = (sent.seq, sent.id, sent.stamps) == (seq, id, stamps);
            is_equal && is_alike && apart <= Duration::from_secs(1)
        };
        let is_known = self.carried.missing(start, end).is_empty();
        if is_known && self.last.iter().any(is_same) {
            return true;
        }
        if self.last.len() >= PACKETS_MAX {
            self.last.pop_front();
        }
        self.last.push_back(Sent { seq, id, stamps, hop_limit, time: now });
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mptcp::summary;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_packet_carries_its_part_of_a_mapping() {
        let mapping = Mapping { data_sequence: 5_000, is_wide: true, subflow_sequence: 1, len: 3_000 };
        let mut carrier = Carrier::default();
        carrier.starts(SeqNum::new(u32::MAX - 500));
        carrier.on_mapping(mapping, (5_000, 3_000), SeqNum::new(u32::MAX - 499));
        let part = |seq, payload| carrier.part(SeqNum::new(seq), payload);
        assert_eq!(part(u32::MAX - 499, 1_400), Some((5_000, 6_400)));
        assert_eq!(part(900, 1_400), Some((6_400, 7_800)), "beyond the wrap");
        assert_eq!(part(2_300, 1_400), Some((7_800, 8_000)), "no more than the mapping");
        assert_eq!(part(900_000, 1_400), None, "outside of it");
        assert_eq!(part(900, 0), None, "a data acknowledgement carries nothing");
    }

    #[test]
    fn where_a_subflow_starts_is_learned_from_its_mappings() {
        let mapping =
            |subflow_sequence| Mapping { data_sequence: 9_000, is_wide: true, subflow_sequence, len: 2_800 };
        let mut carrier = Carrier::default();
        assert_eq!(carrier.part(SeqNum::new(101), 1_400), None);
        // The capture starts at the second packet of a mapping.
        carrier.on_mapping(mapping(1), (9_000, 2_800), SeqNum::new(1_501));
        assert_eq!(carrier.part(SeqNum::new(1_501), 1_400), Some((9_000, 10_400)));
        carrier.on_mapping(mapping(2_801), (11_800, 2_800), SeqNum::new(2_901));
        assert_eq!(carrier.part(SeqNum::new(2_901), 1_400), Some((11_800, 13_200)));
        assert_eq!(carrier.part(SeqNum::new(4_301), 1_400), Some((13_200, 14_600)));
    }

    #[test]
    fn reinjections_repetitions_and_waiting_are_told() {
        let at = Instant::from_millis;
        let carried = |fresh, reinjected, repeated| Carried { fresh, reinjected, repeated };
        let mut stream = Stream::default();
        let [mut a, mut b] = [Carrier::default(), Carrier::default()];
        assert_eq!(stream.add(1_000, 2_000, &mut a, at(0)), carried(1_000, 0, 0));
        assert_eq!(
            stream.add(3_000, 4_000, &mut b, at(10)),
            carried(1_000, 0, 0),
            "waits for what is before"
        );
        assert_eq!(
            stream.add(1_000, 2_000, &mut a, at(15)),
            carried(0, 0, 1_000),
            "again on its own subflow"
        );
        assert_eq!(stream.add(2_000, 3_500, &mut a, at(30)), carried(1_000, 500, 0), "half of it was b's");
        assert_eq!(stream.add(1_000, 4_000, &mut b, at(40)), carried(0, 2_000, 1_000));
        assert_eq!(stream.add(1_000, 4_000, &mut b, at(50)), carried(0, 0, 3_000), "reinjected once only");
        assert_eq!(stream.out_of_order, 1);
        let delays = summary(&stream.delays).unwrap();
        assert_eq!((delays.n, delays.max_ms), (3, 20.0));
        assert_eq!(stream.next, Some(4_000));
    }

    proptest! {
        #[test]
        fn counts_agree_with_sets_of_bytes(
            pieces in prop::collection::vec((0_usize..3, 0_u64..200, 1_u64..40), 1..80),
        ) {
            let mut stream = Stream::default();
            let mut carriers: [Carrier; 3] = Default::default();
            let mut sets: [BTreeSet<u64>; 3] = Default::default();
            let mut all = BTreeSet::new();
            for (subflow, start, len) in pieces {
                let found = stream.add(start, start + len, &mut carriers[subflow], Instant::ZERO);
                let mut wanted = Carried::default();
                for byte in start..start + len {
                    match (sets[subflow].insert(byte), all.insert(byte)) {
                        (false, _) => wanted.repeated += 1,
                        (true, false) => wanted.reinjected += 1,
                        (true, true) => wanted.fresh += 1,
                    }
                }
                prop_assert_eq!(found, wanted);
                prop_assert!(stream.seen.0.iter().zip(stream.seen.0.iter().skip(1)).all(|(a, b)| a.1 < b.0));
            }
        }
    }
}
