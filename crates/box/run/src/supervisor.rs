//! [`run`]: from the first check to the last thing undone, whatever the [`Attachment`].
//!
//! ```text
//!   start ─▶ serve: turn ─▶ reports ─▶ heartbeat ─▶ wait ─▶ signals, questions ─┐ ─▶ close
//!                    ▲───────────────────────────────────────────────────────────┘
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use io::netlink::LinkEvents;
use io::{Clock, Interest, Lifeline, Waiter};
use units::{Duration, Instant};

use crate::attachment::{Attachment, Ground};
use crate::console::Console;
use crate::feedback::FeedbackReceiver;
use crate::handover::{self, Handovers, JOBS_MAX};
use crate::interfaces::Interfaces;
use crate::journal::FullAlarm;
use crate::leftovers::Settling;
use crate::packet_loop::PacketLoop;
use crate::patience::Patience;
use crate::service::Service;
use crate::shards::{Command, Shards};
use crate::signals::CaughtSignals;
use crate::upgrade::predecessor::{PlaceLock, Predecessor};
use crate::watchdog::Guardian;
use crate::{Counters, Event, EventSink, Processor, ProcessorStatus, RunError};
use ab::Phase;
use passing::Passing;
use recover::SuccessorNeeds;
use upkeep::{Overload, Sides};

mod ab;
mod answers;
mod close;
mod directory;
mod passing;
mod recover;
mod standby;
mod start;
mod upgrade;
mod upkeep;

pub use start::{accelerate, dry_run, pass_all, run};

/// End of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Reason.
    pub why: Why,
    /// Traffic that passed through.
    pub counters: Counters,
    /// Packets lost because the devices' queues were full: wired, then mobile.
    pub queue_drops: [u64; 2],
    /// Counts of the processors.
    pub processor: ProcessorStatus,
}

impl Ended {
    /// One that nothing has passed through.
    fn of_nothing(why: Why) -> Self {
        Self {
            why,
            counters: Counters::default(),
            queue_drops: [0; 2],
            processor: ProcessorStatus::default(),
        }
    }
}

/// Reason why an instance ended in good order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A signal (its number) asked for it.
    Signal(i32),
    /// A packet filter has come up that would be passed by: it goes on once that is so no more.
    Filter,
    /// It had hung, and the configuration says to end then.
    Hang,
    /// Somebody asked it to drain.
    Drain,
    /// Another instance has its flows.
    Upgraded,
    /// Whoever it was started for has gone, and the hosts of its flows with it ([`io::Tethered`]).
    Abandoned,
}

/// Token that a waiter reports, beside packets ([`crate::attachment::PATHS`]).
const SIGNAL: u64 = 2;
const WATCHDOG: u64 = 3;
const CONSOLE: u64 = 4;
const FEEDBACK: u64 = 5;
const SHARDS: u64 = 6;
const LINKS: u64 = 7;
const HANDOVERS: u64 = 8;
const LIFELINE: u64 = 9;

/// While packets keep coming, reports are looked for this often.
const FEEDBACK_EVERY: Duration = Duration::from_millis(1);

/// Pause between the change of an interface and the look at it: a change comes in several pieces.
const LINK_PAUSE: Duration = Duration::from_millis(5);

/// The end, asked for: why, and until when to deliver what is owed.
#[derive(Clone, Copy, Debug)]
struct Stop {
    why: Why,
    give_up: Instant,
}

/// Everything a running instance holds. Fields are dropped in order: the attachment before the devices.
struct Supervisor<'a, A: Attachment, P: Processor> {
    ground: Ground<'a>,
    attachment: A,
    packet_loop: PacketLoop<A::Path>,
    processor: P,
    /// All but the first, which is this thread.
    shards: Shards<P>,
    links: Links,
    passing: Passing,
    pulse: Pulse,
    inputs: Inputs,
    /// Resets flows of a killed instance.
    settling: Option<Settling>,
    successor_needs: SuccessorNeeds,
    upgrade: UpgradeState,
    warnings: Warnings,
    patience: Patience,
    started_at: Instant,
    /// The A/B phase that is under way, or was last.
    ab: Option<Phase>,
    stop: Option<Stop>,
    /// No flow is to begin: their first packets are not passed.
    no_new_flows: Arc<AtomicBool>,
    events: &'a mut dyn EventSink,
}

/// Sources of what it does, beside packets.
struct Inputs {
    waiter: Waiter,
    /// Its end is the end of this process, if there is one.
    lifeline: Option<Lifeline>,
    console: Console,
    reports: Reports,
    handovers: Option<Handovers>,
}

/// Upgrade to this process, or from it.
#[derive(Default)]
struct UpgradeState {
    /// The instance before, whose devices these are, while it is there.
    before: Option<Predecessor>,
    /// No other process takes its place meanwhile.
    place_lock: Option<PlaceLock>,
    /// Another process has all that leads packets here, and the flows: nothing is to be undone.
    is_succeeded: bool,
}

/// Conditions of which people are told once, or now and then.
#[derive(Default)]
struct Warnings {
    journal_alarm: FullAlarm,
    /// That the directory is missing and cannot be made anew was said.
    said_missing: bool,
    overload: Overload,
    sides: Sides,
}

/// The interfaces on both sides, and what is known of them.
struct Links {
    interfaces: Interfaces,
    /// The least that routes through them state.
    route_mtus: [u32; 2],
    changes: LinkEvents,
    /// Reason why a new interface could not be followed, as said last.
    said: Option<Event>,
}

/// Means by which it shows that it is alive.
struct Pulse {
    /// Time when all shards were known to be alive.
    last_alive: Instant,
    next_beat: Instant,
    service: Service,
    guardian: Option<Guardian>,
    /// The watchdog has taken the steering away, and it is to be installed again.
    is_unsteered: bool,
}

impl Pulse {
    /// Process whose end is the end of the service: the watchdog's, which outlives this process's death.
    fn main_process(&self) -> u32 {
        self.guardian.as_ref().and_then(Guardian::process).unwrap_or_else(std::process::id)
    }

    /// Tells the watchdog that a step of the end begins, in which there are no heartbeats.
    fn still_closing(&mut self) {
        if let Some(guardian) = self.guardian.as_mut() {
            guardian.closing();
        }
    }
}

/// Reports of base stations.
struct Reports {
    receiver: Option<FeedbackReceiver>,
    /// Time of the next look for them.
    next_look: Instant,
}

impl<A: Attachment, P: Processor + Send + 'static> Supervisor<'_, A, P> {
    /// Runs until there is a reason to end.
    fn serve(&mut self, signals: &CaughtSignals) -> Result<Why, RunError> {
        self.inputs.waiter.add(&signals.ending, Interest::Read, SIGNAL)?;
        self.inputs.waiter.add(&signals.reload, Interest::Read, SIGNAL)?;
        let (attachment, purpose) = (self.attachment.name(), self.attachment.purpose());
        let no_successor = self.why_no_successor();
        self.events.on_event(&Event::Ready { attachment, purpose, no_successor });
        self.pulse.service.is_ready(self.pulse.main_process(), attachment);
        loop {
            self.notice_gap()?;
            let turned = self.packet_loop.turn(&mut self.processor);
            let is_busy = turned.map_err(|error| self.attachment.explain(error))?;
            let now = Clock::now();
            if let Some(stop) = self.stop
                && (self.is_drained() || now >= stop.give_up)
            {
                return Ok(stop.why);
            }
            if now >= self.inputs.reports.next_look {
                self.take_reports(now);
                // A loop that never waits is not woken.
                if is_busy {
                    self.hear_handovers()?;
                }
            }
            // While busy, signals are looked at with each heartbeat.
            let is_due = now >= self.pulse.next_beat;
            let mut is_asked = is_due || self.inputs.console.is_asked();
            if is_due {
                self.pulse.next_beat = now + self.ground.config.heartbeat();
                if self.inputs.lifeline.as_ref().is_some_and(Lifeline::is_cut) {
                    return Ok(Why::Abandoned);
                }
                if let Some(why) = self.beat()? {
                    self.begin_stop(why, None);
                }
            }
            if !is_busy {
                is_asked |= self.wait(now)?;
            }
            if is_asked && let Some(why) = self.obey(signals) {
                return Ok(why);
            }
        }
    }

    /// Hands reports of base stations to the shards whose subscribers they are about.
    fn take_reports(&mut self, now: Instant) {
        let Some(receiver) = self.inputs.reports.receiver.as_mut() else { return };
        let (shards, processor) = (&self.shards, &mut self.processor);
        let handovers = self.inputs.handovers.as_ref().filter(|_| self.stop.is_none());
        receiver.turn(
            |client, feedback| {
                let is_elsewhere = shards.hand_on(client, feedback);
                (!is_elsewhere).then(|| processor.handle_feedback(client, feedback))
            },
            |order| handovers.is_some_and(|handovers| handovers.obey(order)),
        );
        self.inputs.reports.next_look = now + FEEDBACK_EVERY;
    }

    /// Does what comes from other boxes, and tells which subscribers have moved.
    fn hear_handovers(&mut self) -> Result<(), RunError> {
        let Some(handovers) = &self.inputs.handovers else { return Ok(()) };
        handovers.hear();
        // Whatever other boxes send, packets have their turn.
        for done in 0.. {
            if done == JOBS_MAX {
                handovers.wake_again();
                break;
            }
            let Some(job) = handovers.take_job() else { break };
            let worked = self.packet_loop.work(job, &mut self.processor);
            worked.map_err(|error| self.attachment.explain(error))?;
        }
        while let Some(ended) = handovers.take_ended() {
            let peer = handovers.name_of(ended.peer);
            self.events.on_event(&handover::event_of(&ended, peer));
        }
        Ok(())
    }

    /// Waits for anything to do; true when a signal or a question has come.
    fn wait(&mut self, now: Instant) -> Result<bool, RunError> {
        let deadline =
            self.processor.next_deadline().map_or(self.pulse.next_beat, |at| at.min(self.pulse.next_beat));
        let ready = self.inputs.waiter.wait(Some(deadline))?;
        let is_ready = |token: u64| ready.iter().any(|ready| ready.token == token);
        let is_asked = is_ready(SIGNAL) || is_ready(CONSOLE);
        let has_handover_news = is_ready(HANDOVERS);
        if is_ready(FEEDBACK) {
            self.inputs.reports.next_look = Instant::ZERO;
        }
        if is_ready(WATCHDOG) || is_ready(LIFELINE) {
            self.pulse.next_beat = Instant::ZERO;
        }
        if is_ready(LINKS) && self.links.changes.take() {
            self.pulse.next_beat = self.pulse.next_beat.min(now + LINK_PAUSE);
        }
        if is_ready(SHARDS) {
            self.shards.hear();
            if self.shards.has_failed() {
                self.pulse.next_beat = Instant::ZERO;
            }
        }
        if has_handover_news {
            self.hear_handovers()?;
        }
        Ok(is_asked)
    }

    /// True when nobody owes anything.
    fn is_drained(&self) -> bool {
        let is_undecided = self.inputs.handovers.as_ref().is_some_and(Handovers::is_undecided);
        self.processor.is_drained() && self.shards.are_drained() && !is_undecided
    }

    /// Takes nothing new over from here on, and ends when nothing is owed or time is up.
    fn begin_stop(&mut self, why: Why, time_max: Option<Duration>) {
        let now = Clock::now();
        let time_max = time_max.unwrap_or(Duration::from_millis(self.ground.config.drain_ms_max));
        let give_up = now + time_max;
        // A second wish can only shorten the time.
        let give_up = self.stop.map_or(give_up, |earlier| earlier.give_up.min(give_up));
        if self.stop.is_none() {
            if let Some(handovers) = &self.inputs.handovers {
                handovers.end();
            }
            self.processor.begin_drain(now);
            self.shards.tell_all(|| Command::Drain);
            // Who takes this one's place may listen at the same port.
            self.inputs.reports.receiver = None;
        }
        self.stop = Some(Stop { why, give_up });
        // If this process dies meanwhile, its successor knows. Who starts it anew does not want its end.
        self.tell_watchdog();
    }
}
