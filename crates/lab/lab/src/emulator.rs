//! [`Emulator`]: runs the four link models in real time, in one thread.
//!
//! ```text
//!   device 0  server wan0       ── link 0, wan down ──▶   device 1
//!   device 1  accelerator wan0  ── link 1, wan up ────▶   device 0
//!   device 2  accelerator radio0 ─ link 2, radio down ▶   device 3
//!   device 3  client radio0     ── link 3, radio up ──▶   device 2
//! ```
//!
//! One thread for all of it: two spinning threads on two processors starve the TCP they are to carry.
//! Each turn delivers what is due, then fetches what has arrived, then waits: asleep until shortly before
//! the next departure, then spinning ([`Waking::Early`]). A packet is never handed over before its planned time.

use std::os::unix::net::UnixStream;

use io::{Clock, SpinBudget, Tun};
use link::{DelayModel, Link, PacketRecord};
use scenario::LinkPlan;
use scenario::results::{Moved, Timing};
use scenario::segments::{Observer, Segment};
use units::{Bytes, Duration, Instant};

use crate::LabError;
use crate::air_thread::{AirThread, BATCH, PACKET_LEN_MAX, STOP, missed, waiter};
use crate::lateness::{LateBins, Lateness};
use crate::reporter::Reporter;

/// Buffers kept for reuse.
const FREE_BUFFERS_MAX: usize = 16_384;
/// Time before a departure at which the thread is awake. Longer than [`io::Waiter::SPIN_MARGIN`]: under load a
/// sleeper's wake-up often takes more than that.
const SPIN_MARGIN: Duration = Duration::from_micros(250);

const WAN_DOWN: usize = 0;
const WAN_UP: usize = 1;
const RADIO_DOWN: usize = 2;
const RADIO_UP: usize = 3;

/// Records that an [`Emulator`] is to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Counters and the timing error only: for labs that run for hours.
    Nothing,
    /// Every packet of the radio link, and the TCP headers on it.
    Everything,
    /// The same, and every packet of the wan segment.
    EveryLink,
}

/// Way in which an [`Emulator`] wakes for a packet that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// Some time before, and then it watches the clock: within microseconds. Takes most of a processor.
    Early,
    /// Wakes when its timer expires, some 10 to 100 µs late: for runs that do not measure time that finely.
    OnTimer,
}

/// A running emulator; dropping it stops it.
#[derive(Debug)]
pub struct Emulator {
    thread: AirThread<Emulation>,
    started: Instant,
}

/// Records of an emulator.
#[derive(Debug)]
pub struct Emulation {
    /// Wan down, wan up, radio down, radio up, as they stood at the end.
    pub links: [Link<Vec<u8>>; 4],
    /// The packets of radio down and radio up.
    pub records: [Vec<PacketRecord>; 2],
    /// The packets of wan down and wan up, where every link's are kept.
    pub wan_records: [Vec<PacketRecord>; 2],
    /// TCP segments that entered radio down and radio up.
    pub segments: [Vec<Segment>; 2],
    /// Share that lateness took of each 100 ms of radio down.
    pub late_bins: LateBins,
    /// The timing error of all links, not judged: what it can have moved depends on what was measured.
    pub timing: Timing,
    /// The least round trip of the path.
    pub path_rtt: Duration,
    /// Time during which packets were moved.
    pub time: Duration,
    /// True when the thread ran with real-time priority.
    pub is_realtime: bool,
}

impl Emulation {
    /// The timing error, judged by what it can have moved of a transfer that took all of the time;
    /// `has_round_trips` where a host measured round trips.
    #[must_use]
    pub fn judged(&self, has_round_trips: bool) -> Timing {
        self.timing.clone().judged(Moved {
            path_rtt_ms: self.path_rtt.as_millis_f64(),
            seconds: self.time.as_secs_f64(),
            lost: self.links.iter().map(|link| link.counters().dropped_packets()).sum(),
            has_round_trips,
        })
    }
}

impl Emulator {
    /// Starts to move packets between `devices` through the links of `plan`, whose time begins now, and has
    /// `reporter` report on them. `waking` says how exact their times are.
    ///
    /// # Errors
    /// When a link cannot be made, or the system has no more threads or descriptors.
    pub fn start(
        devices: [Tun; 4],
        plan: &LinkPlan,
        keep: Keep,
        waking: Waking,
        mut reporter: Option<Reporter>,
    ) -> Result<Self, LabError> {
        let started = Clock::now();
        let make = |config: &link::LinkConfig, is_radio: bool| {
            let keeps_log = keep == Keep::EveryLink || is_radio && keep == Keep::Everything;
            Link::new(&link::LinkConfig { keeps_log, ..config.clone() }, started)
        };
        let links = [
            make(&plan.wan_down, false)?,
            make(&plan.wan_up, false)?,
            make(&plan.radio_down, true)?,
            make(&plan.radio_up, true)?,
        ];
        let observers = [(); 2].map(|()| Observer::new(keep != Keep::Nothing));
        if let Some(reporter) = &mut reporter {
            reporter.begin(plan.radio_down.seed, started)?;
        }
        let moved = Mover {
            devices,
            links,
            observers,
            lateness: Lateness::default(),
            late_bins: LateBins::new(started),
            path_rtt: path_rtt(plan),
            started,
            waking,
            free_buffers: Vec::new(),
            reporter,
        };
        let run = move |stopped: &UnixStream, is_realtime| moved.run(stopped, is_realtime);
        Ok(Self { thread: AirThread::start("emulator", run)?, started })
    }

    /// Start of the links' time.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// True when the thread has ended by itself, which is an error.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.thread.has_failed()
    }

    /// Stops and hands over what was kept.
    ///
    /// # Errors
    /// Reason why the thread ended before, if it did.
    pub fn finish(self) -> Result<Emulation, LabError> {
        self.thread.finish()
    }
}

/// The thread's own state.
struct Mover {
    devices: [Tun; 4],
    links: [Link<Vec<u8>>; 4],
    observers: [Observer; 2],
    lateness: Lateness,
    late_bins: LateBins,
    path_rtt: Duration,
    started: Instant,
    waking: Waking,
    free_buffers: Vec<Vec<u8>>,
    reporter: Option<Reporter>,
}

impl Mover {
    fn run(mut self, stopped: &UnixStream, is_realtime: bool) -> Result<Emulation, LabError> {
        let spin_margin = match self.waking {
            Waking::Early => SPIN_MARGIN,
            Waking::OnTimer => Duration::ZERO,
        };
        let mut precise = waiter(spin_margin, &self.devices, stopped)?;
        let mut relaxed = waiter(Duration::ZERO, &self.devices, stopped)?;
        let mut budget = SpinBudget::default();
        let mut woken = Clock::now();
        loop {
            let report = self.reporter.as_ref().and_then(Reporter::next_deadline);
            let deadline = self.links.iter().filter_map(Link::next_deadline).chain(report).min();
            let asleep_from = Clock::now();
            let (waiter, margin) = if budget.allows_spinning() {
                (&mut precise, spin_margin)
            } else {
                (&mut relaxed, Duration::ZERO)
            };
            let mut arrived = [false; 4];
            for ready in waiter.wait(deadline)? {
                if ready.token == STOP {
                    return self.finish(is_realtime);
                }
                if let Some(arrived) = usize::try_from(ready.token).ok().and_then(|i| arrived.get_mut(i)) {
                    *arrived = true;
                }
            }
            let now = Clock::now();
            let asleep_to = deadline.map_or(now, |at| now.min(at - margin));
            let asleep = asleep_to.saturating_since(asleep_from);
            budget.spend(now.saturating_since(woken) - asleep, asleep);
            woken = now;
            self.deliver();
            if let Some(reporter) = &mut self.reporter {
                reporter.turn(&mut self.links[RADIO_DOWN]);
            }
            for device in (0..4).filter(|i| arrived[*i]) {
                self.fetch(device)?;
            }
        }
    }

    /// Hands over what is due.
    fn deliver(&mut self) {
        for (i, link) in self.links.iter_mut().enumerate() {
            let mut now = Clock::now();
            if link.next_deadline().is_none_or(|at| at > now) {
                continue;
            }
            while let Some(delivery) = link.poll(now) {
                let late = now.saturating_since(delivery.planned);
                self.lateness.record(late);
                if i == RADIO_DOWN {
                    self.late_bins.record(delivery.size, delivery.planned, late);
                }
                // A device that is down or gone loses packets like a real one.
                let _ = self.devices[i ^ 1].send(&delivery.payload);
                if self.free_buffers.len() < FREE_BUFFERS_MAX {
                    self.free_buffers.push(delivery.payload);
                }
                // Read once for both: the packet that was handed over, and the next.
                now = Clock::now();
            }
        }
    }

    /// Takes in what a device has.
    fn fetch(&mut self, device: usize) -> Result<(), LabError> {
        for _ in 0..BATCH {
            let mut buffer = self.free_buffers.pop().unwrap_or_default();
            buffer.resize(PACKET_LEN_MAX, 0);
            let Some(len) = self.devices[device].recv(&mut buffer)? else {
                self.free_buffers.push(buffer);
                break;
            };
            let now = Clock::now();
            buffer.truncate(len);
            match device {
                RADIO_DOWN => self.observers[0].observe(&buffer, now),
                RADIO_UP => self.observers[1].observe(&buffer, now),
                _ => {}
            }
            if let Err(rejected) = self.links[device].enqueue(buffer, Bytes::from(len), now) {
                self.free_buffers.push(rejected.payload);
            }
        }
        Ok(())
    }

    fn finish(mut self, is_realtime: bool) -> Result<Emulation, LabError> {
        let missed = missed(&self.devices)?;
        let records = [self.links[RADIO_DOWN].take_log(), self.links[RADIO_UP].take_log()];
        let wan_records = [self.links[WAN_DOWN].take_log(), self.links[WAN_UP].take_log()];
        let segments = self.observers.map(Observer::into_segments);
        Ok(Emulation {
            links: self.links,
            records,
            wan_records,
            segments,
            late_bins: self.late_bins,
            timing: self.lateness.report(missed),
            path_rtt: self.path_rtt,
            time: Clock::now().saturating_since(self.started),
            is_realtime,
        })
    }
}

/// The least time from the server to the client and back.
#[must_use]
pub fn path_rtt(plan: &LinkPlan) -> Duration {
    let least = |delay: &DelayModel| match delay {
        DelayModel::Fixed(delay) => *delay,
        DelayModel::Uniform { min, .. } => *min,
        // Six deviations below the mean is the least that is drawn.
        DelayModel::Normal { mean, deviation } => mean.saturating_sub(*deviation * 6),
        DelayModel::Steps(steps) => steps.iter().map(|(_, delay)| *delay).min().unwrap_or(Duration::ZERO),
    };
    [&plan.wan_down, &plan.wan_up, &plan.radio_down, &plan.radio_up]
        .into_iter()
        .map(|link| least(&link.delay))
        .fold(Duration::ZERO, |sum, delay| sum + delay)
}

#[cfg(test)]
mod tests {
    use link::LinkConfig;

    use super::*;

    /// Records of `seconds` in which every packet was `late`.
    fn emulation(path_rtt: Duration, seconds: u64, late: Duration) -> Emulation {
        let start = Instant::ZERO;
        let mut lateness = Lateness::default();
        (0..1_000).for_each(|_| lateness.record(late));
        Emulation {
            links: [(); 4].map(|()| Link::new(&LinkConfig::default(), start).unwrap()),
            records: [Vec::new(), Vec::new()],
            wan_records: [Vec::new(), Vec::new()],
            segments: [Vec::new(), Vec::new()],
            late_bins: LateBins::new(start),
            timing: lateness.report(0),
            path_rtt,
            time: Duration::from_secs(seconds),
            is_realtime: true,
        }
    }

    #[test]
    fn lateness_is_judged_by_what_it_moves_not_by_its_own_length() {
        let (us, ms) = (Duration::from_micros, Duration::from_millis);
        // All packets 0.24 ms late add 0.96 ms to a round trip: under 2 % of 60 ms, and of 60 s.
        let judged = emulation(ms(60), 60, us(240)).judged(true);
        assert_eq!((judged.trustworthy, judged.why_not), (true, None));
        let judged = emulation(ms(10), 60, us(240)).judged(true);
        assert!(!judged.trustworthy && judged.why_not.unwrap().contains("throughput"));
        // No throughput, but the round trips that a host measured.
        let [with, without] = [true, false].map(|has| emulation(ms(600), 60, us(300)).judged(has));
        assert!(with.why_not.unwrap().contains("round trips") && without.trustworthy);
    }
}
