//! [`FaultConfig`]: what goes wrong on a segment besides what its link does.
//!
//! ```text
//!   packet ─▶ rewriting ─▶ MTU ─▶ blackout ─▶ one fault drawn ─▶ stall ─▶ link
//!             numbers,     ICMP               lost, doubled,
//!             options,     back               late, damaged
//!             addresses
//! ```

use std::collections::BTreeMap;

use units::{Duration, Instant};

use crate::Random;
use crate::icmp::too_big;

mod damage;
mod rewriting;

pub use rewriting::{Rebinding, Strips};

/// Fault that a packet meets on its way into a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It vanishes.
    Drop,
    /// It comes twice, the second one this much later.
    Duplicate(Duration),
    /// It is held back, so that later ones overtake it.
    HoldBack(Duration),
    /// One bit of its second half changes; its checksum is wrong after that.
    Corrupt,
    /// One bit of its headers changes; its checksum is wrong after that.
    CorruptHeader,
    /// One bit of its payload changes, and its checksum with it: nobody can notice.
    Tamper,
    /// One bit of its TCP header changes, and the checksum with it.
    TamperHeader,
    /// Its end is missing, in half of the cases with a length field that says so.
    Truncate,
}

/// A time, from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Time at which it begins.
    pub from: Duration,
    /// Time that it lasts.
    pub length: Duration,
}

impl Span {
    fn end(&self) -> Duration {
        self.from + self.length
    }
    fn contains(&self, at: Duration) -> bool {
        self.from <= at && at < self.end()
    }
}

/// A narrow place of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtu {
    /// Longest packet that passes.
    pub bytes: usize,
    /// Whether the sender of a longer one gets an ICMP "too big" (RFC 1191, RFC 8201).
    pub sends_icmp: bool,
}

/// Faults of one direction of a segment, by number, by time and at random (in parts in a million of
/// the packets).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FaultConfig {
    /// Faults by the number of their packet, counted from zero.
    pub scheduled: BTreeMap<u64, Fault>,
    /// Packets held back at random.
    pub hold_back_ppm: u32,
    /// Longest time that one is held back.
    pub hold_back_max: Duration,
    /// Packets doubled at random.
    pub duplicate_ppm: u32,
    /// [`Fault::Corrupt`] at random.
    pub corrupt_ppm: u32,
    /// [`Fault::CorruptHeader`] at random.
    pub corrupt_header_ppm: u32,
    /// [`Fault::Tamper`] at random.
    pub tamper_ppm: u32,
    /// [`Fault::TamperHeader`] at random.
    pub tamper_header_ppm: u32,
    /// [`Fault::Truncate`] at random.
    pub truncate_ppm: u32,
    /// Packets with which a run of losses begins.
    pub burst_ppm: u32,
    /// Length of such a run at most, in packets; half a second in time.
    pub burst_max: u64,
    /// Times in which everything is lost.
    pub blackouts: Vec<Span>,
    /// Times in which everything waits for their end, in order: delay spikes.
    pub stalls: Vec<Span>,
    /// A narrow place.
    pub mtu: Option<Mtu>,
    /// Options that a middlebox takes out of SYNs.
    pub strips: Strips,
    /// Added to every sequence number: a middlebox rewrites the initial one of this direction (H12).
    pub seq_shift: u32,
    /// Added to every acknowledgement number, not to SACK blocks: the other half of such a middlebox.
    pub ack_shift: u32,
    /// A NAT gives packets of this direction another source.
    pub rebinds_source: Option<Rebinding>,
    /// The other half of it, for packets back to the new source; those to the old one are lost.
    pub rebinds_destination: Option<Rebinding>,
    /// ECN-capable packets (RFC 3168 §5) that a queue marks at random.
    pub mark_ppm: u32,
    /// It does so in this time alone.
    pub marks_in: Option<Span>,
    /// Seed of the random ones.
    pub seed: u64,
}

impl FaultConfig {
    /// One fault, done to the `nth` packet.
    #[must_use]
    pub fn once(nth: u64, fault: Fault) -> Self {
        Self { scheduled: BTreeMap::from([(nth, fault)]), ..Self::default() }
    }
}

/// A run of losses lasts no longer: on a quiet path the packets after it are those of another day.
const BURST_MAX: Duration = Duration::from_millis(500);

/// Outcome of the faults for a packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FaultOutcome {
    /// It enters the link, as it is now.
    Forward(Vec<u8>),
    /// It enters at that time.
    Delay(Vec<u8>, Instant),
    /// It enters, and once more at that time.
    Duplicate(Vec<u8>, Instant),
    /// It is gone.
    Drop,
    /// It is gone, and this goes back to its sender.
    Reply(Vec<u8>),
}

/// Draws and does the faults of one direction.
#[derive(Debug)]
pub(crate) struct Injector {
    config: FaultConfig,
    start: Instant,
    random: Random,
    /// Random numbers of marks alone: those leave all else as it is.
    marks: Random,
    seen: u64,
    /// Packets that a burst still takes, and when it is over at the latest.
    burst_left: u64,
    burst_until: Instant,
    /// The end of the stalls so far.
    stalled_until: Instant,
    is_harmless: bool,
}

impl Injector {
    pub(crate) fn new(config: &FaultConfig, start: Instant) -> Self {
        Self {
            random: Random::new(config.seed),
            marks: Random::new(config.seed ^ 0xecec_ecec),
            is_harmless: *config == FaultConfig { seed: config.seed, ..FaultConfig::default() },
            config: config.clone(),
            start,
            seen: 0,
            burst_left: 0,
            burst_until: start,
            stalled_until: start,
        }
    }

    /// Outcome of the faults for `packet`, and the remark to note about it.
    pub(crate) fn handle_packet(
        &mut self,
        mut packet: Vec<u8>,
        now: Instant,
    ) -> (FaultOutcome, Option<&'static str>) {
        if self.is_harmless {
            return (FaultOutcome::Forward(packet), None);
        }
        let since = now.saturating_since(self.start);
        if !rewriting::rewrite(&self.config, &mut packet, since) {
            return (FaultOutcome::Drop, Some("no such mapping"));
        }
        if let Some(mtu) = self.config.mtu.filter(|mtu| packet.len() > mtu.bytes) {
            let answer = if mtu.sends_icmp { too_big(&packet, mtu.bytes) } else { None };
            return (answer.map_or(FaultOutcome::Drop, FaultOutcome::Reply), Some("too big"));
        }
        let marks = self.config.mark_ppm > 0 && self.config.marks_in.is_none_or(|span| span.contains(since));
        if marks && self.marks.is_hit(self.config.mark_ppm) {
            mark(&mut packet);
        }
        let fault = self.draw(now);
        if self.config.blackouts.iter().any(|span| span.contains(since)) {
            return (FaultOutcome::Drop, Some("lost in a blackout"));
        }
        let stalls = self.config.stalls.iter().filter(|span| span.contains(since));
        if let Some(end) = stalls.map(Span::end).max() {
            self.stalled_until = self.stalled_until.max(self.start + end);
        }
        match self.apply(fault, packet, now) {
            (FaultOutcome::Forward(packet), remark) if now < self.stalled_until => {
                (FaultOutcome::Delay(packet, self.stalled_until), Some(remark.unwrap_or("stalled")))
            }
            outcome => outcome,
        }
    }

    /// Every packet draws the same number of times: switching one fault on does not move another.
    fn draw(&mut self, now: Instant) -> Option<Fault> {
        let nth = self.seen;
        self.seen += 1;
        let config = &self.config;
        let hold = Duration::from_nanos(self.random.below(config.hold_back_max.as_nanos() + 1));
        let at_random = [
            (config.corrupt_ppm, Fault::Corrupt),
            (config.corrupt_header_ppm, Fault::CorruptHeader),
            (config.tamper_ppm, Fault::Tamper),
            (config.tamper_header_ppm, Fault::TamperHeader),
            (config.truncate_ppm, Fault::Truncate),
            (config.hold_back_ppm, Fault::HoldBack(hold)),
            (config.duplicate_ppm, Fault::Duplicate(hold)),
        ];
        let mut drawn = None;
        for (ppm, fault) in at_random {
            if self.random.is_hit(ppm) && drawn.is_none() {
                drawn = Some(fault);
            }
        }
        let (begins_burst, length) =
            (self.random.is_hit(config.burst_ppm), self.random.within(1, config.burst_max));
        if now >= self.burst_until {
            self.burst_left = 0;
        }
        if begins_burst {
            self.burst_left = self.burst_left.max(length);
            self.burst_until = now + BURST_MAX;
        }
        if self.burst_left > 0 {
            self.burst_left -= 1;
            drawn = Some(Fault::Drop);
        }
        config.scheduled.get(&nth).copied().or(drawn)
    }

    fn apply(
        &mut self,
        fault: Option<Fault>,
        mut packet: Vec<u8>,
        now: Instant,
    ) -> (FaultOutcome, Option<&'static str>) {
        let random = &mut self.random;
        let remark = match fault {
            None => return (FaultOutcome::Forward(packet), None),
            Some(Fault::Drop) => return (FaultOutcome::Drop, Some("dropped by plan")),
            Some(Fault::Duplicate(later)) => {
                return (FaultOutcome::Duplicate(packet, now + later), Some("doubled"));
            }
            Some(Fault::HoldBack(time)) => {
                return (FaultOutcome::Delay(packet, now + time), Some("held back"));
            }
            Some(Fault::Corrupt) => damage::flip_in_second_half(&mut packet, random),
            Some(Fault::CorruptHeader) => damage::flip_in_headers(&mut packet, random),
            Some(Fault::Tamper) => damage::tamper_with_payload(&mut packet, random),
            Some(Fault::TamperHeader) => damage::tamper_with_header(&mut packet, random),
            Some(Fault::Truncate) => damage::truncate(&mut packet, random),
        };
        (FaultOutcome::Forward(packet), Some(remark))
    }
}

/// Marks a packet CE that is ECN-capable.
pub(crate) fn mark(packet: &mut [u8]) {
    let Ok(parsed) = wire::parse(packet) else { return };
    if parsed.ip.ecn() != 0 {
        wire::set_traffic_class(packet, parsed.ip.traffic_class | 3);
    }
}

#[cfg(test)]
mod tests;
