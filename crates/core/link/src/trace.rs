//! [`Trace`]: a capacity trace in Mahimahi's sense.

use units::{Bytes, Duration, Rate};

use crate::LinkError;

/// Bytes that one delivery opportunity can carry: one full-size IP packet.
///
/// DEVIATION: Mahimahi counts 1,504 bytes per opportunity and 4 bytes of TUN framing on each packet.
/// Full-size packets cost the same; a 52-byte ACK costs 52/1500 here and 56/1504 there. Shown by
/// the test `small_packets_share_an_opportunity`.
pub const OPPORTUNITY: Bytes = Bytes::new(1500);

const NANOS_PER_MS: u64 = 1_000_000;

/// Longest trace that is read, so that a wrong unit of time cannot fill the memory with bins of its figures.
pub(crate) const LENGTH_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// A millisecond with at least one delivery opportunity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Milliseconds since the start of the trace.
    pub(crate) ms: u64,
    /// Opportunities in this and all earlier slots of one cycle.
    pub(crate) through: u64,
}

/// A repeating list of delivery opportunities with millisecond times (Mahimahi's trace format).
///
/// One line of the file is one opportunity to deliver [`OPPORTUNITY`] bytes at that millisecond. After
/// the last line the trace starts again, so the last time is the period; a time of 0 then falls
/// together with the end of the previous cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    slots: Vec<Slot>,
}

impl Trace {
    /// A trace from opportunity times in milliseconds, one entry per opportunity, not decreasing.
    ///
    /// # Errors
    ///
    /// [`LinkError::TraceLine`] (counting entries from 1) for a time that decreases,
    /// [`LinkError::Trace`] for an empty list or one whose last time is zero.
    pub fn from_opportunities_ms(times_ms: impl IntoIterator<Item = u64>) -> Result<Self, LinkError> {
        let mut builder = TraceBuilder::new("trace");
        for (index, ms) in times_ms.into_iter().enumerate() {
            builder.push(index + 1, ms)?;
        }
        builder.finish()
    }

    /// Reads Mahimahi's format: one whole number of milliseconds per line, not decreasing.
    ///
    /// `file` names the source in messages. Blank lines at the end are allowed, as are carriage returns.
    ///
    /// # Errors
    ///
    /// [`LinkError::TraceLine`] names the line and what is wrong with it; [`LinkError::Trace`] when
    /// there is no opportunity, or none after time zero.
    pub fn parse_mahimahi(text: &str, file: &str) -> Result<Self, LinkError> {
        let mut builder = TraceBuilder::new(file);
        for (index, line) in text.trim_end().lines().enumerate() {
            let number = index + 1;
            let line = line.trim();
            if line.is_empty() {
                return Err(LinkError::line(file, number, "empty line; expected a time in milliseconds"));
            }
            let ms = line.parse::<u64>().map_err(|_| {
                let shown: String = line.chars().take(40).collect();
                LinkError::line(
                    file,
                    number,
                    format!("`{shown}` is not a time in whole milliseconds (Mahimahi format)"),
                )
            })?;
            builder.push(number, ms)?;
        }
        builder.finish()
    }

    /// Writes Mahimahi's format.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_mahimahi(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        let mut line = String::new();
        for (ms, count) in self.busy_ms() {
            line.clear();
            use std::fmt::Write as _;
            // Writing into a String cannot fail.
            let _ = writeln!(line, "{ms}");
            for _ in 0..count {
                out.write_all(line.as_bytes())?;
            }
        }
        Ok(())
    }

    /// The same from `time` on, or from the first opportunity after it: what comes before follows at the end.
    #[must_use]
    pub fn begun_at(&self, time: Duration) -> Self {
        let period = self.period_ms();
        let time = time.as_millis() % period.max(1);
        let first = self.slots.partition_point(|slot| slot.ms < time);
        let Some(begin) = self.slots.get(first).map(|slot| slot.ms).filter(|_| time > 0) else {
            return self.clone();
        };
        let behind = self.busy_ms().skip(first + 1).map(|(ms, count)| (ms - begin, count));
        let before = self.busy_ms().take(first + 1).map(|(ms, count)| (ms + period - begin, count));
        let mut slots: Vec<Slot> = Vec::with_capacity(self.slots.len());
        let mut through = 0;
        for (ms, count) in behind.chain(before) {
            through += count;
            match slots.last_mut() {
                // The end of a cycle and the zero of the next are the same moment.
                Some(last) if last.ms == ms => last.through = through,
                _ => slots.push(Slot { ms, through }),
            }
        }
        Self { slots }
    }

    /// The time after which the trace starts again: its last opportunity.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms())
    }

    /// Opportunities in one period.
    #[must_use]
    pub fn opportunities(&self) -> u64 {
        self.slots.last().map_or(0, |slot| slot.through)
    }

    /// Mean rate over one period.
    #[must_use]
    pub fn mean_rate(&self) -> Rate {
        Rate::from_transfer(Bytes::new(self.opportunities().saturating_mul(OPPORTUNITY.get())), self.period())
    }

    /// Each millisecond of one period that has opportunities, with their number.
    pub fn busy_ms(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.slots.iter().scan(0, |before, slot| {
            let count = slot.through - *before;
            *before = slot.through;
            Some((slot.ms, count))
        })
    }

    /// Exact number of bytes offered in `[from, to)` since the start, over as many periods as that spans.
    #[must_use]
    pub fn offered_bytes(&self, from: Duration, to: Duration) -> Bytes {
        let count = self.opportunities_before(to).saturating_sub(self.opportunities_before(from));
        Bytes::new(count.saturating_mul(OPPORTUNITY.get()))
    }

    pub(crate) fn period_ms(&self) -> u64 {
        self.slots.last().map_or(1, |slot| slot.ms)
    }

    /// Opportunities strictly before `t`.
    fn opportunities_before(&self, t: Duration) -> u64 {
        // A slot at m ms is before t when m < ceil(t in ms).
        let end_ms = t.as_nanos().div_ceil(NANOS_PER_MS);
        if end_ms == 0 {
            return 0;
        }
        let period = self.period_ms();
        let whole_cycles = end_ms.div_ceil(period) - 1;
        let rest_ms = end_ms - whole_cycles * period;
        let index = self.slots.partition_point(|slot| slot.ms < rest_ms);
        let partial = index.checked_sub(1).map_or(0, |last| self.slots[last].through);
        whole_cycles.saturating_mul(self.opportunities()).saturating_add(partial)
    }

    /// The first slot strictly after `t`.
    pub(crate) fn first_slot_after(&self, t: Duration) -> SlotCursor {
        self.first_slot_from_ms(t.as_nanos() / NANOS_PER_MS + 1)
    }

    /// The first slot at or after `t`.
    pub(crate) fn first_slot_at_or_after(&self, t: Duration) -> SlotCursor {
        let ms = t.as_nanos().div_ceil(NANOS_PER_MS);
        if ms == 0 { SlotCursor { cycle_ms: 0, index: 0 } } else { self.first_slot_from_ms(ms) }
    }

    /// The first slot at or after `ms`, which is at least 1.
    fn first_slot_from_ms(&self, ms: u64) -> SlotCursor {
        let period = self.period_ms();
        let cycle_ms = (ms.div_ceil(period) - 1) * period;
        let index = self.slots.partition_point(|slot| slot.ms < ms - cycle_ms);
        SlotCursor { cycle_ms, index }
    }

    /// The slot after `cursor`.
    pub(crate) fn slot_after(&self, cursor: SlotCursor) -> SlotCursor {
        if cursor.index + 1 < self.slots.len() {
            SlotCursor { index: cursor.index + 1, ..cursor }
        } else {
            SlotCursor { cycle_ms: cursor.cycle_ms.saturating_add(self.period_ms()), index: 0 }
        }
    }

    /// Time and bytes of a slot.
    pub(crate) fn slot(&self, cursor: SlotCursor) -> (Duration, u64) {
        let slot = self.slots[cursor.index];
        let before = cursor.index.checked_sub(1).map_or(0, |previous| self.slots[previous].through);
        let time = Duration::from_millis(cursor.cycle_ms.saturating_add(slot.ms));
        (time, (slot.through - before).saturating_mul(OPPORTUNITY.get()))
    }
}

/// A position in the endless repetition of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotCursor {
    /// Start of the current cycle.
    cycle_ms: u64,
    index: usize,
}

/// Collects opportunity times and checks their order.
pub(crate) struct TraceBuilder<'a> {
    file: &'a str,
    slots: Vec<Slot>,
}

impl<'a> TraceBuilder<'a> {
    pub(crate) fn new(file: &'a str) -> Self {
        Self { file, slots: Vec::new() }
    }

    pub(crate) fn push(&mut self, line: usize, ms: u64) -> Result<(), LinkError> {
        if ms > LENGTH_MAX.as_millis() {
            return Err(LinkError::line(self.file, line, format!("{ms} ms is above the limit of 30 days")));
        }
        match self.slots.last_mut() {
            Some(last) if ms < last.ms => {
                let problem = format!("time {ms} ms is before the previous line's {} ms", last.ms);
                Err(LinkError::line(self.file, line, problem))
            }
            Some(last) if ms == last.ms => {
                last.through += 1;
                Ok(())
            }
            last => {
                let through = last.map_or(0, |slot| slot.through) + 1;
                self.slots.push(Slot { ms, through });
                Ok(())
            }
        }
    }

    pub(crate) fn finish(self) -> Result<Trace, LinkError> {
        match self.slots.last() {
            None => Err(LinkError::trace(self.file, "no delivery opportunity in the trace")),
            Some(last) if last.ms == 0 => {
                Err(LinkError::trace(self.file, "the last time is 0 ms; a trace must last at least 1 ms"))
            }
            Some(_) => Ok(Trace { slots: self.slots }),
        }
    }
}

#[cfg(test)]
mod tests;
