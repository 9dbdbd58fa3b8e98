//! [`stand_by`]: a process that does not steer, because of a packet filter that has come up, waits until it may.

use std::os::fd::AsFd;

use io::netlink::Netlink;
use io::{Clock, Instance, Interest, Lifeline, NamespaceId, Waiter};
use units::{Duration, Instant};

use super::Why;
use crate::console::{Asked, Console};
use crate::event_broadcaster::{Announcer, EventBroadcaster};
use crate::instances;
use crate::question::{Answer, Question};
use crate::record::Record;
use crate::service::Service;
use crate::signals::CaughtSignals;
use crate::{Config, Event, EventSink, FlowList, Plan, RunError, Snapshot, Status, SubscriberList};

/// Interval of the checks whether anything is against it still: each reads all rules.
const EVERY: Duration = Duration::from_secs(1);

/// Reason against it, before that has been looked at.
const AT_FIRST: &str = "a packet filter has come up";

/// Token that the waiter reports, the same for all sources.
const WOKEN: u64 = 0;

/// Waits until `config` could start as from nothing; a reason to end, if one comes before. Meanwhile it is found as an
/// instance, and answers.
///
/// # Errors
/// When it cannot wait.
pub(super) fn stand_by(
    config: &Config,
    signals: &CaughtSignals,
    events: &mut dyn EventSink,
) -> Result<Option<Why>, RunError> {
    let (mut service, lifeline, broadcaster) =
        (Service::find(), Lifeline::inherited(), EventBroadcaster::start()?);
    let events: &mut dyn EventSink = &mut Announcer { inner: events, broadcaster: broadcaster.clone() };
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(&signals.ending, Interest::Read, WOKEN)?;
    waiter.add(&signals.reload, Interest::Read, WOKEN)?;
    if let Some(line) = &lifeline {
        waiter.add(line, Interest::Read, WOKEN)?;
    }
    // Without room for it nobody can ask, and it waits all the same.
    let mut answering = Answering::open(config, broadcaster).ok();
    if let Some(answering) = &answering {
        waiter.add(&answering.console.as_fd(), Interest::Read, WOKEN)?;
    }
    let mut said = None;
    loop {
        let why = Netlink::open().map_err(RunError::from).and_then(|netlink| Plan::make(config, &netlink));
        match why.map_err(|why| why.to_string()) {
            // Not at first: one that starts and stands by in turn is not to do so all the time.
            Ok(_) if said.is_some() => {
                events.on_event(&Event::StandbyEnds);
                return Ok(None);
            }
            Ok(_) => said = Some(String::new()),
            Err(why) if said.as_ref() != Some(&why) => {
                answering.iter_mut().for_each(|answering| answering.why.clone_from(&why));
                events.on_event(&Event::StandsBy { why: why.clone() });
                said = Some(why);
            }
            Err(_) => {}
        }
        let look_at = Clock::now() + EVERY;
        while Clock::now() < look_at {
            service.stands_by();
            if let Some(signal) = signals.ending.take() {
                return Ok(Some(Why::Signal(signal)));
            }
            if lifeline.as_ref().is_some_and(Lifeline::is_cut) {
                return Ok(Some(Why::Abandoned));
            }
            if answering.as_ref().is_some_and(Answering::answer_all) {
                return Ok(Some(Why::Drain));
            }
            // The settings are read at the start.
            let _reload = signals.reload.take();
            waiter.wait(Some(look_at))?;
        }
    }
}

/// Thread that answers meanwhile. Fields are dropped in order: the sockets before their directory.
struct Answering<'a> {
    console: Console,
    _instance: Instance,
    config: &'a Config,
    since: Instant,
    /// Reason against it.
    why: String,
}

impl<'a> Answering<'a> {
    fn open(config: &'a Config, broadcaster: EventBroadcaster) -> Result<Self, RunError> {
        let instance = Instance::register(&config.state_directory, instances::KIND)?;
        let record = Record {
            namespace: NamespaceId::here()?,
            name: config.instance_name(),
            wired: config.wired.clone(),
            mobile: config.mobile.clone(),
            ..Record::default()
        };
        instance.record(&record.to_text())?;
        let console = Console::open(instance.path(), broadcaster, config.look_group)?;
        Ok(Self { console, _instance: instance, config, since: Clock::now(), why: AT_FIRST.to_owned() })
    }

    /// Answers whoever has asked; true when the answer to one of them is to end.
    fn answer_all(&self) -> bool {
        let mut is_over = false;
        while let Some(asked) = self.console.take() {
            is_over |= matches!(asked.question, Question::Drain { .. });
            self.answer(asked);
        }
        is_over
    }

    fn answer(&self, asked: Asked) {
        let Self { config, why, .. } = self;
        let (name, process) = (config.instance_name(), std::process::id());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let resident_bytes = io::resident_bytes().unwrap_or(0);
        let uptime_ms = Clock::now().saturating_since(self.since).as_millis();
        let answer = match &asked.question {
            Question::Status => Answer::Status(Box::new(Status {
                name,
                process,
                version,
                wired: config.wired.clone(),
                mobile: config.mobile.clone(),
                stands_by: why.clone(),
                uptime_s: uptime_ms / 1_000,
                resident_bytes,
                ..Status::default()
            })),
            Question::Metrics => Answer::Metrics(Box::new(Snapshot {
                name,
                process,
                version,
                interface_names: [config.wired.clone(), config.mobile.clone()],
                stands_by: why.clone(),
                uptime_ms,
                resident_bytes,
                ..Snapshot::default()
            })),
            Question::Flows { .. } => Answer::Flows(FlowList::default()),
            Question::Subscribers { .. } => Answer::Subscribers(SubscriberList::default()),
            Question::Drain { .. } => Answer::Done("it stands by, and ends".to_owned()),
            Question::Reload => Answer::Done("settings are read when it starts again".to_owned()),
            _ => Answer::Refused(format!("it stands by: {why}")),
        };
        asked.answer(Box::new(move || answer));
    }
}
