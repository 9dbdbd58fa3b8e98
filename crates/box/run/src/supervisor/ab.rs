//! The A/B phase of an instance: begun and ended on request, ended on time, and before flows go elsewhere.

use engine::ControlGroup;
use io::Clock;
use units::{Duration, Instant};

use super::Supervisor;
use crate::ab::{AbPhase, AbReport};
use crate::attachment::Attachment;
use crate::console::Reply;
use crate::event_broadcaster::wall_ms;
use crate::question::Answer;
use crate::shards::Command;
use crate::{Event, Processor};

/// Shortest and longest A/B phase.
const TIME_MIN: Duration = Duration::from_secs(1);
const TIME_MAX: Duration = Duration::from_secs(31 * 24 * 3_600);

/// An A/B phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    seed: u32,
    began: Instant,
    time: Duration,
    /// Time of its end, and the reason.
    ended: Option<(Instant, &'static str)>,
}

impl<A: Attachment, P: Processor + Send + 'static> Supervisor<'_, A, P> {
    /// Has half of the subscribers passed from here on, and all flows that begin measured.
    pub(super) fn begin_ab(&mut self, time: Duration, seed: Option<u32>) -> Reply {
        let refused = |why: &str| -> Reply {
            let why = why.to_owned();
            Box::new(move || Answer::Refused(why))
        };
        if !(TIME_MIN..=TIME_MAX).contains(&time) {
            return refused("an A/B phase lasts from a second to 31 days");
        }
        if self.ab.is_some_and(|phase| phase.ended.is_none()) {
            return refused("an A/B phase is under way; end it first: cellerator ab stop");
        }
        if self.stop.is_some() {
            return refused("it is ending");
        }
        let began = Clock::now();
        // Another half each time, unless a certain one is wanted.
        let seed = seed.unwrap_or_else(|| (began.saturating_since(Instant::ZERO).as_nanos() >> 10) as u32);
        self.tell_control_group(Some(ControlGroup { seed: u64::from(seed) }));
        self.ab = Some(Phase { seed, began, time, ended: None });
        self.events.on_event(&Event::AbBegan { seed, time_s: time.as_millis() / 1_000 });
        self.ab_report()
    }

    /// Ends the one whose time is over.
    pub(super) fn look_at_ab(&mut self, now: Instant) {
        if self.ab.is_some_and(|phase| now.saturating_since(phase.began) >= phase.time) {
            self.end_ab("time", now);
        }
    }

    /// Ends the one under way, if there is one.
    pub(super) fn end_ab(&mut self, why: &'static str, now: Instant) {
        let Some(phase) = self.ab.as_mut().filter(|phase| phase.ended.is_none()) else { return };
        phase.ended = Some((now, why));
        self.tell_control_group(None);
        self.events.on_event(&Event::AbEnded { why });
    }

    fn tell_control_group(&mut self, group: Option<ControlGroup>) {
        self.processor.set_control_group(group);
        self.shards.tell_all(|| Command::SetControlGroup(group));
    }

    /// Measurements, put together by the thread that answers.
    pub(super) fn ab_report(&mut self) -> Reply {
        let Some(phase) = self.ab else {
            return Box::new(|| Answer::Refused("there was no A/B phase since it started".to_owned()));
        };
        let own = self.processor.measured();
        let asker = self.shards.asker();
        let (until, ended_by) = match phase.ended {
            Some((at, why)) => (at, Some(why.to_owned())),
            None => (Clock::now(), None),
        };
        let told = AbPhase {
            name: self.ground.config.instance_name(),
            is_running: ended_by.is_none(),
            ended_by,
            seed: phase.seed,
            began_ms: wall_ms(phase.began),
            planned_ms: phase.time.as_millis(),
            elapsed_ms: until.saturating_since(phase.began).as_millis(),
        };
        Box::new(move || {
            let mut tallies = asker.measured();
            tallies.push(own);
            Answer::Ab(Box::new(AbReport::of(told, &tallies)))
        })
    }
}
