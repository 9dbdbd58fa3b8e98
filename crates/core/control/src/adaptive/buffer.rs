//! Q: how much the radio's queue takes, where that is less than the law would have in it.
//!
//! ```text
//!   loss │                 of a buffer ×        q: the queue that a packet met, in bytes
//!        │    of the radio             ×        q̂: the longest of the last 10 s
//!        │  ·  ·  ·  ·  ·  ·  ·  ·  ·  × ·
//!        └──────────────────────┬──────┴─▶ q
//!                     short    ¾·q̂ long  q̂
//!
//!   long loses 3 times the share of short, or 6 % more of all, or short a fifth   ⇒   Q ← q
//!   W ≤ max( Q , τ·r̃ + Q÷3 );  beside others:  Q ← ⅞·q,  W ≤ Q
//! ```
//!
//! A full buffer loses what meets a full queue. The radio loses the same share of whatever is sent. So what was
//! lost and what was delivered is counted apart, for packets that met a long queue and for all others.
//!
//! q is what was acknowledged in the RTT − τ before a packet's own acknowledgement: that has left the queue
//! before it. What was lost met about the queue that the packets before it met: the longest of the last eight.
//!
//! Beside others in one schedule, what is lost is theirs as well, and they halve their rate for it. So Q stays below what
//! was lost, rises slowly, and bounds W however fast the link is at the moment.
//!
//! Where Q exceeds the path, Q bytes in flight use the link at any rate from 0 to Q÷τ, and no outage overflows
//! the buffer. Where it is smaller, the path has to be filled as well, and a third of Q waits.

use std::mem::offset_of;

use units::{Bytes, Duration, Instant};

use crate::RecentMax;

/// Moments for which it is known what had been acknowledged by then.
const MARKS: usize = 16;

/// Acknowledgements up to a loss, to the longest of whose queues it is attributed: the packet that shows it
/// may have come long after the lost one, to an empty queue.
const MET: usize = 8;

/// Time for which the largest queue is remembered, and that the receiver throws data away.
const MEMORY: Duration = Duration::from_secs(10);

/// A queue of this part of the largest is a long one, in quarters.
const LONG_QUARTERS: u64 = 3;

/// Segments lost in long queues from which on their number is significant.
const LOST_MIN: u64 = 4;

/// Long queues that lose this many times the share of short ones overflow,
const TIMES: u64 = 3;

/// or that lose this much more of a million bytes,
const MORE_PPM: u64 = 60_000;

/// or where short queues lose this much: no radio does, and what a short queue is cannot be told any more.
const SHORT_PPM: u64 = 200_000;

/// Part of Q that Q rises by in a round trip,
const RISE: u64 = 128;

/// and part of W, where there is no queue: then W is what limits the rate.
const RISE_IDLE: u64 = 32;

/// Beside others, part of Q that Q rises by in a round trip, whatever limits the rate,
const RISE_BESIDE: u64 = 1_024;

/// and part of the queue that lost something that Q is, in eighths.
const BESIDE_EIGHTHS: u64 = 7;

/// Windows of data after which half of what was counted is forgotten, and fewer where this many segments were
/// lost.
const WINDOWS_MAX: u64 = 1_024;
const WINDOWS_MIN: u64 = 16;
const LOST_MUCH: u64 = 64;

/// A buffer of fewer segments than this does not exist.
const SEGMENTS_MIN: u64 = 4;

/// Bytes delivered and lost.
#[derive(Clone, Copy, Debug, Default, stored::Stored)]
struct Account {
    delivered: u32,
    lost: u32,
}

impl Account {
    fn add(&mut self, delivered: Bytes, lost: u32) {
        self.delivered = self.delivered.saturating_add(narrow(delivered));
        self.lost = self.lost.saturating_add(lost);
    }

    fn halve(&mut self) {
        self.delivered /= 2;
        self.lost /= 2;
    }

    fn sum(self) -> u64 {
        u64::from(self.delivered) + u64::from(self.lost)
    }

    /// Bytes lost of a million.
    fn lost_ppm(self) -> u64 {
        (u64::from(self.lost) * 1_000_000).checked_div(self.sum()).unwrap_or(0)
    }
}

/// One per subscriber is kept: four bytes do.
fn narrow(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

/// Bytes acknowledged until a point of time, both modulo 2³².
#[derive(Clone, Copy, Debug, Default, stored::Stored)]
struct Mark {
    us: u32,
    bytes: u32,
}

/// Queues that were met, and the losses in them.
#[derive(Clone, Debug, stored::Stored)]
#[repr(C)]
#[stored(order(
    mss,
    marks,
    written,
    acknowledged,
    pending,
    discarded_at,
    met,
    acks,
    longest,
    long,
    short,
    size,
    rises_at,
    beside_at
))]
pub(super) struct Buffer {
    size: Option<Bytes>,
    /// Time at which the receiver last threw something away.
    discarded_at: Option<Instant>,
    /// Time at which there were others in one schedule with these, if that is not long ago.
    #[stored(since(5, None))]
    beside_at: Option<Instant>,
    rises_at: Instant,
    mss: Bytes,
    acknowledged: u32,
    /// Lost since the last acknowledgement with a round trip.
    pending: u32,
    /// Accounts of the data that met a long queue, and of the data that met a short one.
    long: Account,
    short: Account,
    /// Marks written so far, at most twice the ring.
    written: u8,
    acks: u8,
    longest: RecentMax<u32>,
    /// The queues that were met last.
    met: [u32; MET],
    marks: [Mark; MARKS],
}

/// Signs that an acknowledgement gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub delivered: Bytes,
    /// Bytes of that which the receiver has thrown away.
    pub discarded: Bytes,
    /// RTT − τ, where it has a round trip.
    pub waited: Option<Duration>,
    /// The round trip, or the path's.
    pub rtt: Duration,
    /// Bytes that may be in flight.
    pub window: Bytes,
    /// All of that was in use.
    pub is_in_use: bool,
    /// Part of what is under way is of others in one schedule with these.
    pub is_beside_others: bool,
    pub now: Instant,
}

impl Buffer {
    /// Bytes at its beginning that each acknowledgement needs.
    pub(super) const ALWAYS_TOUCHED: usize = offset_of!(Self, marks);

    pub(super) fn new(mss: Bytes) -> Self {
        Self {
            mss,
            marks: [Mark::default(); MARKS],
            written: 0,
            acknowledged: 0,
            pending: 0,
            discarded_at: None,
            met: [0; MET],
            acks: 0,
            longest: RecentMax::default(),
            long: Account::default(),
            short: Account::default(),
            size: None,
            rises_at: Instant::ZERO,
            beside_at: None,
        }
    }

    /// Bytes that may be in flight without an overflow, where `path` bytes are under way without a queue.
    pub(super) fn window(&self, path: Bytes) -> Option<Bytes> {
        let size = self.size?;
        let is_beside = self.beside_at.is_some();
        Some(if is_beside { size } else { size.max(path + Bytes::new(size.get() / 3)) })
    }

    /// Takes in a loss, found by later deliveries.
    pub(super) fn on_lost(&mut self, bytes: Bytes) {
        self.pending = self.pending.saturating_add(narrow(bytes));
    }

    /// Takes in an acknowledgement.
    pub(super) fn on_ack(&mut self, heard: &Heard) {
        self.acknowledged = self.acknowledged.wrapping_add(narrow(heard.delivered));
        if heard.discarded > Bytes::ZERO {
            self.discarded_at = Some(heard.now);
        }
        // Then what is lost may be so by the receiver's hand, and that too while much arrives (H18).
        if self.discarded_at.is_some_and(|at| heard.now.saturating_since(at) < MEMORY) {
            (self.pending, self.size) = (0, None);
            (self.long, self.short) = (Account::default(), Account::default());
        }
        if heard.is_beside_others {
            self.beside_at = Some(heard.now);
        } else if self.beside_at.is_some_and(|at| heard.now.saturating_since(at) >= MEMORY) {
            self.beside_at = None;
        }
        let is_beside = self.beside_at.is_some();
        let us = (heard.now.as_nanos() / 1_000) as u32;
        // What is acknowledged for less than half a segment may have been held back by the receiver's own timer.
        let Some(waited) = heard.waited.filter(|_| heard.delivered.get() >= self.mss.get() / 2) else {
            return;
        };
        let queue = self.acknowledged_within(us, narrow(Bytes::new(waited.as_nanos() / 1_000)));
        // What was lost met the queue that was met by what came through before it.
        self.met[usize::from(self.acks) % MET] = queue;
        self.acks = self.acks.wrapping_add(1);
        self.mark(us, waited);
        self.longest.update(queue, heard.now);
        let longest = self.longest.get().unwrap_or(queue);
        let is_long = |queue: u32| u64::from(queue) * 4 >= u64::from(longest) * LONG_QUARTERS;
        let lost_now = core::mem::take(&mut self.pending);
        let met = self.met.iter().copied().max().unwrap_or(queue);
        // The same for what was delivered: else random losses would seem to prefer long queues.
        if is_long(met) { &mut self.long } else { &mut self.short }.add(heard.delivered, lost_now);
        let counted = self.long.sum() + self.short.sum();
        let lost = u64::from(self.long.lost) + u64::from(self.short.lost);
        let windows = if lost >= self.mss.get() * LOST_MUCH { WINDOWS_MIN } else { WINDOWS_MAX };
        if counted >= heard.window.get().saturating_mul(windows).min(u64::from(u32::MAX / 2)) {
            self.long.halve();
            self.short.halve();
        }
        let overflows = self.overflows();
        if !overflows && (!is_beside || self.is_refuted()) {
            self.size = None;
        } else if overflows && lost_now > 0 && is_long(met) && u64::from(met) >= self.mss.get() * SEGMENTS_MIN
        {
            let eighths = if is_beside { BESIDE_EIGHTHS } else { 8 };
            self.size = Some(Bytes::new(u64::from(met) * eighths / 8));
            self.rises_at = heard.now + heard.rtt;
        } else if let Some(size) = self.size
            && heard.is_in_use
            && heard.now >= self.rises_at
            && (!is_beside || heard.window >= size)
        {
            // Without a queue it is W that limits, and what has arrived says nothing of the link.
            let is_idle = u64::from(met) * 4 < size.get();
            let step = match is_idle {
                _ if is_beside => size.get() / RISE_BESIDE,
                true => heard.window.get() / RISE_IDLE + self.mss.get() / 16,
                false => size.get() / RISE + self.mss.get() / 16,
            };
            let risen = Bytes::new(size.get() + step);
            self.size = (is_beside || risen.get() / 2 < heard.window.get()).then_some(risen);
            self.rises_at = heard.now + heard.rtt;
        }
    }

    /// Long queues lose far more than short ones.
    pub(super) fn overflows(&self) -> bool {
        let (long, short) = (self.long.lost_ppm(), self.short.lost_ppm());
        u64::from(self.long.lost) >= self.mss.get() * LOST_MIN
            && (long >= short * TIMES || long >= short + MORE_PPM || short >= SHORT_PPM)
    }

    /// True when enough is lost and the losses do not prefer long queues.
    fn is_refuted(&self) -> bool {
        u64::from(self.long.lost) + u64::from(self.short.lost) >= self.mss.get() * LOST_MIN * 2
    }

    /// Bytes acknowledged in the `before` microseconds before `us`, or in a little less: no mark lies just
    /// there.
    fn acknowledged_within(&self, us: u32, before: u32) -> u32 {
        let known = usize::from(self.written).min(MARKS);
        let newest_first =
            (1..=known).map(|back| self.marks[(usize::from(self.written) + MARKS - back) % MARKS]);
        let oldest = newest_first.take_while(|mark| us.wrapping_sub(mark.us) <= before).last();
        oldest.map_or(0, |mark| self.acknowledged.wrapping_sub(mark.bytes))
    }

    fn mark(&mut self, us: u32, waited: Duration) {
        let last = self.marks[(usize::from(self.written) + MARKS - 1) % MARKS].us;
        let apart = narrow(Bytes::new(waited.as_nanos() / 1_000 / (MARKS as u64 - 4))).max(100);
        if self.written == 0 || us.wrapping_sub(last) >= apart {
            self.marks[usize::from(self.written) % MARKS] = Mark { us, bytes: self.acknowledged };
            self.written += 1;
            if usize::from(self.written) >= 2 * MARKS {
                self.written -= MARKS as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_000;

    /// A segment is acknowledged every millisecond, for `rounds` times a second in which the queue grows from
    /// nothing to `longest` segments and shrinks again. `lost` gives the segments lost behind one, by the
    /// queue that it met and its number among all.
    fn run(rounds: u64, longest: u64, lost: impl FnMut(u64, u64) -> u64) -> Buffer {
        run_beside(false, rounds, longest, lost)
    }

    /// The same beside others, or not.
    fn run_beside(
        is_beside_others: bool,
        rounds: u64,
        longest: u64,
        mut lost: impl FnMut(u64, u64) -> u64,
    ) -> Buffer {
        let mut buffer = Buffer::new(Bytes::new(MSS));
        for nth in 1..=rounds * 1_000 {
            let queue = (500 - (nth % 1_000).abs_diff(500)) * longest / 500;
            buffer.on_lost(Bytes::new(lost(nth, queue) * MSS));
            buffer.on_ack(&Heard {
                delivered: Bytes::new(MSS),
                discarded: Bytes::ZERO,
                waited: Some(Duration::from_millis(queue)),
                rtt: Duration::from_millis(20 + queue),
                window: buffer.size.filter(|_| is_beside_others).unwrap_or(Bytes::new(100 * MSS)),
                is_in_use: true,
                is_beside_others,
                now: Instant::from_millis(1_000 + nth),
            });
        }
        buffer
    }

    fn size(buffer: &Buffer) -> Option<u64> {
        buffer.window(Bytes::ZERO).map(Bytes::get)
    }

    #[test]
    fn a_queue_that_loses_at_its_end_is_a_buffer_of_that_size() {
        let buffer = run(3, 80, |_, queue| u64::from(queue >= 79));
        let size = size(&buffer).unwrap();
        assert!((70_000..=100_000).contains(&size), "{size} bytes");
    }

    #[test]
    fn beside_others_it_stays_below_what_was_lost_and_rises_slowly() {
        let of = |is_beside, rounds| {
            // In the first second something is lost.
            run_beside(is_beside, rounds, 80, |nth, queue| u64::from(nth < 1_000 && queue >= 79))
        };
        let [alone, beside] = [false, true].map(|is_beside| size(&of(is_beside, 1)).unwrap());
        assert!(beside * 8 < alone * 7 + 8 * MSS, "{beside} beside, {alone} alone");
        let later = size(&of(true, 3)).unwrap();
        assert!(later > beside && later < beside * 21 / 20, "{beside}, then {later}");
        // A fast link does not raise the window over it.
        let wide = |buffer: &Buffer| buffer.window(Bytes::new(1_000 * MSS)).unwrap().get();
        assert_eq!(wide(&of(true, 1)), beside);
        assert!(wide(&of(false, 1)) > 1_000 * MSS);
    }

    #[test]
    fn losses_of_queues_of_any_length_are_the_radios() {
        for share in [100, 30, 10, 5] {
            assert_eq!(size(&run(10, 80, |nth, _| u64::from(nth * 7 % share == 0))), None, "1 of {share}");
        }
        // Bursts of eight, every 0.37 s.
        assert_eq!(size(&run(10, 80, |nth, _| if nth % 370 == 0 { 8 } else { 0 })), None);
    }

    #[test]
    fn a_buffer_is_found_behind_a_radio_that_loses_data_too() {
        let buffer = run(10, 80, |nth, queue| u64::from(nth % 50 == 0) + u64::from(queue >= 78));
        assert!(size(&buffer).is_some_and(|size| (60_000..=95_000).contains(&size)), "{:?}", size(&buffer));
    }

    #[test]
    fn without_losses_the_buffer_is_taken_for_larger_and_larger() {
        // In the first second something is lost.
        let after = |rounds| size(&run(rounds, 80, |nth, queue| u64::from(nth < 1_000 && queue >= 79)));
        let (first, second, last) = (after(1).unwrap(), after(2).unwrap(), after(60));
        assert!(second > first && second < first * 3 / 2, "{first}, then {second} bytes");
        assert_eq!(last, None);
    }

    #[test]
    fn a_buffer_smaller_than_the_path_is_filled_by_a_third() {
        let buffer = run(3, 80, |_, queue| u64::from(queue >= 79));
        let size = size(&buffer).unwrap();
        let windows = [0, size / 2, 4 * size].map(|path| buffer.window(Bytes::new(path)).unwrap().get());
        assert_eq!(windows, [size, size, 4 * size + size / 3]);
    }

    #[test]
    fn a_receiver_that_holds_back_an_acknowledgement_shows_no_queue() {
        let mut buffer = run(1, 40, |_, _| 0);
        let before = buffer.longest.get();
        buffer.on_ack(&Heard {
            delivered: Bytes::new(100),
            discarded: Bytes::ZERO,
            waited: Some(Duration::from_millis(400)),
            rtt: Duration::from_millis(420),
            window: Bytes::new(100 * MSS),
            is_in_use: true,
            is_beside_others: false,
            now: Instant::from_millis(2_001),
        });
        assert_eq!(buffer.longest.get(), before);
    }
}
