//! [`FlowRecord`]: what a flow needs to be taken up again when the process that delivered it has died.
//!
//! An image ([`crate::Engine::store`]) says everything, and is made by a process that lives. A record is
//! written with every packet of a flow, before any packet tells of what happened; so it is short: words of
//! 32 bits, and only what cannot be learnt anew. Controller and scoreboard begin cold.
//!
//! ```text
//!   bytes into the ring ─▶ record ─▶ the early acknowledgement leaves
//!   the sink acknowledges ─▶ record ─▶ the ring's bytes are used again
//! ```
//!
//! Between two records of a flow its ring is only ever written to behind the bytes that the older one
//! speaks of, and memory that is given back is lent to nobody: whichever of the two is found, what it
//! speaks of is there.

use control::Known;
use tcp::{BufferPlace, FlightBefore, Promises, SentBefore};
use units::{Duration, Instant, Rate, SeqNum, WindowScale};

/// The version of a record. It grows with every change of its words.
pub const RECORD_VERSION: u32 = 2;

/// Words of a [`FlowRecord`].
pub const RECORD_WORDS: usize = 40;

/// Defines a record by its words.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$field_about:meta])* $field:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct $name {
            $($(#[$field_about])* pub(crate) $field: u32,)+
        }

        impl $name {
            /// Words of the record, to be kept elsewhere.
            #[must_use]
            pub fn words(&self) -> [u32; RECORD_WORDS] {
                let mut words = [0; RECORD_WORDS];
                let all = [RECORD_VERSION, $(self.$field,)+];
                words[..all.len()].copy_from_slice(&all);
                words[RECORD_WORDS - 1] = check_sum(&words[..RECORD_WORDS - 1]);
                words
            }

            /// The record whose words these are; none when they are damaged, or of another version.
            #[must_use]
            pub fn of_words(words: &[u32; RECORD_WORDS]) -> Option<Self> {
                let [version, $($field,)+ .., sum] = *words;
                let is_whole = version == RECORD_VERSION && sum == check_sum(&words[..RECORD_WORDS - 1]);
                is_whole.then_some(Self { $($field,)+ })
            }

            /// Record of these words, whatever their sum: a stranger can sum, too. For fuzz targets.
            #[doc(hidden)]
            #[must_use]
            pub fn of_any_words(words: &[u32; RECORD_WORDS]) -> Self {
                let [_, $($field,)+ ..] = *words;
                Self { $($field,)+ }
            }
        }
    };
}

words! {
    /// State of a flow of one direction, for another process to go on with. Numbers are sequence
    /// numbers, unless it says otherwise.
    FlowRecord {
        /// [`Marks`], bit by bit.
        marks,
        /// Scales of the windows that the sink and the source state, 8 bits each; and what they say of marks,
        /// 12 bits, where they agreed on accurate ECN.
        scales,
        /// Largest payload of a segment to the sink, bytes.
        mss,
        /// The oldest number that the sink has not acknowledged.
        una,
        /// The next number to send to the sink.
        nxt,
        /// The window of the sink, bytes.
        sink_window,
        /// Smoothed round trip to the sink, µs; zero when it is not known.
        srtt_us,
        /// Round trip to the source, µs; zero when it is not known.
        source_rtt_us,
        /// Facts about the way to the sink (`word_of_known`).
        way,
        /// The highest number acknowledged to the source.
        told,
        /// The next number expected of the source.
        next,
        right_edge,
        granted_edge,
        /// TS.Recent, a timestamp.
        ts_recent,
        last_ack_sent,
        /// Place, capacity in bytes, first number and head of the stream buffer.
        ring_low,
        ring_high,
        capacity,
        start,
        head,
        sink_isn,
        /// One past what the sink has sent.
        sink_nxt,
        /// Bytes.
        sink_most_allowed,
        /// A timestamp.
        sink_tsval,
        sink_fin_end,
        /// Hop limit, traffic class: 8 bits each; identification: 16.
        sink_ip,
        /// Number of the sink's data that the source has acknowledged.
        source_ack,
        /// One past what the source has allowed.
        source_edge,
        /// The source's window field, 16 bits.
        source_window,
        source_tsval,
        source_tsecr,
        source_urgent_end,
        source_push_end,
        source_ip,
        /// Flow labels, 20 bits.
        sink_label,
        source_label,
        /// Times at which the sink last acknowledged something and a packet came: ms of the clock, lower 32
        /// bits.
        progress_ms,
        activity_ms,
    }
}

/// Bits of a rate that say its size; the others say how often it is doubled.
const MANTISSA_BITS: u32 = 11;
/// Unit of a round trip, µs: up to 4.19 s.
const ROUND_TRIP_UNIT: u64 = 64;

/// The round trip of a way without a queue, in units of 64 µs, in the lower half of a word. In the upper one
/// its rate: 11 bits, kbit/s, doubled as often as the 5 above say. Zero for what is not known.
fn word_of_known(known: &Known) -> u32 {
    let units =
        known.round_trip.map_or(0, |rtt| (rtt.as_micros() / ROUND_TRIP_UNIT).clamp(1, u16::MAX.into()));
    let kbps = known.rate.map_or(0, |rate| (rate.as_bps() / 1_000).clamp(1, u32::MAX.into()));
    let doublings = (u64::BITS - kbps.leading_zeros()).saturating_sub(MANTISSA_BITS);
    let rate = u64::from(doublings) << MANTISSA_BITS | kbps >> doublings;
    (rate as u32) << 16 | units as u32
}

/// Facts that such a word holds.
fn known_of_word(word: u32) -> Known {
    let (units, rate) = (u64::from(word & 0xffff), word >> 16);
    let kbps = u64::from(rate & ((1 << MANTISSA_BITS) - 1)) << (rate >> MANTISSA_BITS);
    Known {
        round_trip: (units > 0).then(|| Duration::from_micros(units * ROUND_TRIP_UNIT)),
        rate: (kbps > 0).then(|| Rate::from_kbps(kbps)),
    }
}

/// Sum over words that finds damage: the place of each counts as its value does.
fn check_sum(words: &[u32]) -> u32 {
    let weighed = (1u32..).step_by(2).zip(words);
    weighed.fold(0x811c_9dc5, |sum, (weight, word)| {
        sum.wrapping_add((word ^ weight).wrapping_mul(weight.wrapping_mul(0x9e37_79b1)))
    })
}

/// Properties of a flow that hold or not: bits of [`FlowRecord::marks`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Mark {
    Timestamps,
    Ecn,
    Sack,
    UplinkOfBoth,
    EchoesCongestion,
    SourceReset,
    SinkTimeOld,
    SourceTimeOld,
    SourceEce,
    Finished,
    MayAckFin,
    SinkFin,
    Urgent,
    TsRecent,
    Draining,
    Closed,
    SinkDontFragment,
    SourceDontFragment,
    Placed,
    /// Both hosts are being reset: nobody goes on with it.
    Aborted,
    AccurateEcn,
}

impl FlowRecord {
    pub(crate) const fn is(&self, mark: Mark) -> bool {
        self.marks & 1 << mark as u8 != 0
    }

    pub(crate) fn set(&mut self, mark: Mark, is_so: bool) {
        self.marks = self.marks & !(1 << mark as u8) | u32::from(is_so) << mark as u8;
    }

    /// True when something is owed: acknowledged to the source, and by the sink not yet.
    #[must_use]
    pub const fn owes(&self) -> bool {
        SeqNum::new(self.told).is_after(SeqNum::new(self.una))
    }

    /// The first number that the sink has not acknowledged, and the one behind the last byte that was taken.
    pub(crate) fn held(&self) -> (SeqNum, SeqNum) {
        let (una, next) = (SeqNum::new(self.una), SeqNum::new(self.next));
        // The end of the stream has a number, too, and no byte.
        (if una.is_after(next) { next } else { una }, next)
    }

    /// Scales that the sink and the source put on their windows.
    pub(crate) fn window_scales(&self) -> [WindowScale; 2] {
        [0, 8].map(|shift| WindowScale::new((self.scales >> shift) as u8))
    }

    pub(crate) fn promises(&self) -> Promises {
        Promises {
            next: SeqNum::new(self.next),
            right_edge: SeqNum::new(self.right_edge),
            granted_edge: SeqNum::new(self.granted_edge),
            is_finished: self.is(Mark::Finished),
            may_ack_fin: self.is(Mark::MayAckFin),
            ts_recent: self.is(Mark::TsRecent).then_some(self.ts_recent),
            last_ack_sent: SeqNum::new(self.last_ack_sent),
        }
    }

    pub(crate) fn keep_promises(&mut self, promises: &Promises) {
        self.next = promises.next.get();
        self.right_edge = promises.right_edge.get();
        self.granted_edge = promises.granted_edge.get();
        self.set(Mark::Finished, promises.is_finished);
        self.set(Mark::MayAckFin, promises.may_ack_fin);
        self.set(Mark::TsRecent, promises.ts_recent.is_some());
        self.ts_recent = promises.ts_recent.unwrap_or(0);
        self.last_ack_sent = promises.last_ack_sent.get();
    }

    pub(crate) fn place(&self) -> Option<BufferPlace> {
        self.is(Mark::Placed).then_some(BufferPlace {
            ring: u64::from(self.ring_high) << 32 | u64::from(self.ring_low),
            capacity: self.capacity,
            start: SeqNum::new(self.start),
            head: self.head,
        })
    }

    pub(crate) fn keep_place(&mut self, place: Option<BufferPlace>) {
        let Some(place) = place else { return };
        self.set(Mark::Placed, true);
        (self.ring_low, self.ring_high) = (place.ring as u32, (place.ring >> 32) as u32);
        (self.capacity, self.start, self.head) = (place.capacity, place.start.get(), place.head);
    }

    pub(crate) fn sent_before(&self, flight: FlightBefore) -> SentBefore {
        SentBefore {
            nxt: SeqNum::new(self.nxt),
            end: SeqNum::new(self.next),
            fin: self.is(Mark::Finished),
            srtt: (self.srtt_us > 0).then(|| Duration::from_micros(u64::from(self.srtt_us))),
            min_rtt: self.known().round_trip,
            flight,
        }
    }

    /// Facts about the way to the sink.
    pub(crate) fn known(&self) -> Known {
        known_of_word(self.way)
    }

    pub(crate) fn keep_known(&mut self, known: &Known) {
        self.way = word_of_known(known);
    }

    /// Notes when the sink last acknowledged something, or when a packet came last.
    pub(crate) fn keep_times(&mut self, progress: Instant, activity: Instant) {
        [self.progress_ms, self.activity_ms] = [progress, activity].map(|at| at.as_millis() as u32);
    }

    /// Has its times said by another clock: what was `theirs` there is `ours` here.
    pub(crate) fn change_clock(&mut self, theirs: u32, ours: Instant) {
        let shift = (ours.as_millis() as u32).wrapping_sub(theirs);
        self.progress_ms = self.progress_ms.wrapping_add(shift);
        self.activity_ms = self.activity_ms.wrapping_add(shift);
    }

    /// Has nothing said of where its data lies: that holds in one machine only.
    pub(crate) fn forget_place(&mut self) {
        self.set(Mark::Placed, false);
        (self.ring_low, self.ring_high) = (0, 0);
        (self.capacity, self.start, self.head) = (0, 0, 0);
    }

    /// The same, as known at `now`: by the same clock, less than 49 days later.
    pub(crate) fn times(&self, now: Instant) -> [Instant; 2] {
        [self.progress_ms, self.activity_ms].map(|at| {
            let ago = (now.as_millis() as u32).wrapping_sub(at);
            // A clock that went back has said nothing.
            let ago = if ago > u32::MAX / 2 { 0 } else { ago };
            Instant::from_millis(now.as_millis().saturating_sub(u64::from(ago)))
        })
    }

    /// True when its numbers can be those of one flow: what they say lies in the order that it must.
    pub(crate) fn makes_sense(&self) -> bool {
        let [una, nxt, told, next] = [self.una, self.nxt, self.told, self.next].map(SeqNum::new);
        let end = next + u32::from(self.is(Mark::Finished));
        una.is_at_or_before(nxt)
            && nxt.is_at_or_before(end)
            && told.is_at_or_before(end)
            && end.since(una) < 1 << 30
            && self.mss > 0
            && self.mss < 1 << 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> FlowRecord {
        let mut record =
            FlowRecord { una: 10, nxt: 30, told: 35, next: 40, mss: 1_448, ..FlowRecord::default() };
        record.set(Mark::Finished, true);
        record
    }

    #[test]
    fn words_come_back_and_damage_is_found() {
        let words = record().words();
        assert_eq!(FlowRecord::of_words(&words), Some(record()));
        for at in 0..RECORD_WORDS {
            for bit in 0..32 {
                let mut damaged = words;
                damaged[at] ^= 1 << bit;
                assert_eq!(FlowRecord::of_words(&damaged), None, "word {at}, bit {bit}");
            }
        }
        assert_eq!(FlowRecord::of_words(&[0; RECORD_WORDS]), None, "nothing was ever written");
        let mut swapped = words;
        swapped.swap(4, 5);
        assert_eq!(FlowRecord::of_words(&swapped), None);
    }

    #[test]
    fn what_is_known_of_the_way_fits_into_a_word() {
        for (us, kbps) in [(64, 1), (40_000, 2_000), (4_194_240, 2_047), (700, 100_000), (96, 9_999_999)] {
            let known =
                Known { round_trip: Some(Duration::from_micros(us)), rate: Some(Rate::from_kbps(kbps)) };
            let read = known_of_word(word_of_known(&known));
            let (rtt, rate) = (read.round_trip.unwrap().as_micros(), read.rate.unwrap().as_bps() / 1_000);
            assert!(rtt <= us && us - rtt < ROUND_TRIP_UNIT, "{us} µs, read {rtt}");
            assert!(rate <= kbps && kbps - rate <= kbps >> (MANTISSA_BITS - 1), "{kbps} kbit/s, read {rate}");
        }
        assert_eq!(known_of_word(word_of_known(&Known::default())), Known::default());
        let most = Known { round_trip: Some(Duration::from_secs(90)), rate: Some(Rate::MAX) };
        let read = known_of_word(word_of_known(&most));
        assert!(
            read.round_trip.unwrap() > Duration::from_secs(4)
                && read.rate.unwrap() > Rate::from_mbps(4_000_000)
        );
    }

    #[test]
    fn numbers_out_of_order_make_no_sense() {
        assert!(record().makes_sense() && record().owes());
        assert!(!FlowRecord { nxt: 9, ..record() }.makes_sense(), "sent less than is acknowledged");
        assert!(!FlowRecord { nxt: 42, ..record() }.makes_sense(), "sent more than there is");
        assert!(FlowRecord { nxt: 41, ..record() }.makes_sense(), "the FIN");
        assert!(!FlowRecord { told: 42, ..record() }.makes_sense());
        assert!(!FlowRecord { mss: 0, ..record() }.makes_sense());
    }
}
