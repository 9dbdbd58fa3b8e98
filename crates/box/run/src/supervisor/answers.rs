//! Answers of an instance to a signal or a question.

use std::collections::BTreeMap;
use std::net::IpAddr;

use engine::Port;
use io::Clock;
use units::Duration;

use super::{Stop, Supervisor, Why};
use crate::attachment::Attachment;
use crate::console::{Asked, Reply};
use crate::feedback::FeedbackReceiver;
use crate::question::{Answer, Question};
use crate::shards::Command;
use crate::signals::CaughtSignals;
use crate::status::Report;
use crate::subscribers::shard_and_place;
use crate::{Event, Processor, ProcessorStatus, Snapshot, Status};

/// Flows in one answer: few enough for the packets not to notice.
const FLOWS_PER_ANSWER: usize = 2_000;

impl<A: Attachment, P: Processor + Send + 'static> Supervisor<'_, A, P> {
    /// Acts on signals and questions; gives a reason to end without further patience.
    pub(super) fn obey(&mut self, signals: &CaughtSignals) -> Option<Why> {
        let ending = signals.ending.take();
        // Without a settings file that says so, and nothing else: a terminal that goes does not end it.
        if signals.reload.take().is_some() {
            let event = self.reload();
            self.events.on_event(&event);
        }
        loop {
            let began = Clock::thread_time();
            let Some(asked) = self.inputs.console.take() else { break };
            self.hear(asked);
            self.packet_loop.has_answered(began);
            if self.upgrade.is_succeeded {
                return Some(Why::Upgraded);
            }
        }
        let signal = ending?;
        match self.stop {
            // Asked twice.
            Some(Stop { why: Why::Signal(_), .. }) => Some(Why::Signal(signal)),
            _ => {
                self.begin_stop(Why::Signal(signal), None);
                None
            }
        }
    }

    /// Has the settings read anew, for all shards.
    fn reload(&mut self) -> Event {
        let settings = self.processor.read_settings();
        let applied = settings.and_then(|settings| {
            let line = self.processor.apply(&settings)?;
            self.shards.tell_all(|| Command::Apply(settings.clone()));
            Ok(line)
        });
        match applied {
            Ok(outcome) => Event::Reloaded { outcome },
            Err(problem) => Event::NotReloaded { problem },
        }
    }

    /// Does what was asked for, and answers.
    fn hear(&mut self, asked: Asked) {
        let said = |answer| -> Reply { Box::new(move || answer) };
        let reply = match &asked.question {
            Question::Status => self.status(),
            Question::Metrics => self.metrics(),
            Question::Flows { skip } => self.flows(*skip),
            Question::Subscribers { from } => self.subscribers(*from),
            Question::Subscriber { client, from } => self.subscriber(*client, *from),
            Question::Drain { time_ms_max } => {
                self.begin_stop(Why::Drain, time_ms_max.map(Duration::from_millis));
                said(Answer::Done("draining".to_owned()))
            }
            Question::BeginAb { time_ms, seed } => self.begin_ab(Duration::from_millis(*time_ms), *seed),
            Question::MoveSubscriber { client, to } => match &self.inputs.handovers {
                None => said(Answer::Refused(
                    "it has no peers: give it --handover-listen, a certificate and --handover-peer"
                        .to_owned(),
                )),
                Some(_) if self.stop.is_some() => said(Answer::Refused("it is ending".to_owned())),
                Some(handovers) => match handovers.begin(*client, to) {
                    Err(why) => said(Answer::Refused(why)),
                    Ok(wait) => Box::new(move || wait().map_or_else(Answer::Refused, Answer::Done)),
                },
            },
            Question::EndAb => {
                self.end_ab("request", Clock::now());
                self.ab_report()
            }
            Question::Ab => self.ab_report(),
            Question::Reload => match self.reload() {
                // Who asked is told, and nobody else.
                refused @ Event::NotReloaded { .. } => said(Answer::Refused(refused.to_string())),
                done => {
                    self.events.on_event(&done);
                    said(Answer::Done(done.to_string()))
                }
            },
            // The console has handed who asks so over to the broadcaster.
            Question::Listen(_) => said(Answer::Refused("nothing is told here".to_owned())),
            Question::Share(offer) => self.share(offer),
            Question::Upgrade(offer) => {
                let offer = offer.clone();
                // It answers before it begins.
                return self.give_flows(asked, &offer);
            }
        };
        asked.answer(reply);
    }

    /// Flows of this shard, then of the others, asked for by the thread that answers.
    fn flows(&self, skip: usize) -> Reply {
        let own = self.processor.flows(skip, FLOWS_PER_ANSWER, Clock::now());
        let (asker, count) = (self.shards.asker(), self.processor.flow_count());
        let skip = skip.saturating_sub(count);
        Box::new(move || Answer::Flows(asker.flows(own, skip, FLOWS_PER_ANSWER)))
    }

    /// Subscribers of the shard that `from` is in.
    fn subscribers(&self, from: u64) -> Reply {
        let (shard, place) = shard_and_place(from);
        let own = (shard == 0).then(|| self.processor.subscribers(place, Clock::now()));
        let (asker, count) = (self.shards.asker(), self.shards.count());
        Box::new(move || {
            let list = own.unwrap_or_else(|| asker.subscribers(shard, place));
            Answer::Subscribers(list.of_shard(shard, count))
        })
    }

    /// A subscriber: its shard alone is asked.
    fn subscriber(&self, client: IpAddr, from: u64) -> Reply {
        let shard = self.shards.number_of(client);
        let own = (shard == 0).then(|| self.processor.subscriber(client, from, Clock::now()));
        let asker = self.shards.asker();
        Box::new(move || {
            let view = own.unwrap_or_else(|| asker.subscriber(shard, client, from));
            Answer::Subscriber(Box::new(view))
        })
    }

    /// Counts of this shard and of all others; the thread that answers asks the others.
    fn status(&self) -> Reply {
        let own = Report { counters: self.packet_loop.counters(), processor: self.counted() };
        let queue_drops = self.attachment.queue_drops(self.packet_loop.path());
        let config = self.ground.config;
        let status = Status {
            name: config.instance_name(),
            process: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            steering: self.attachment.name().to_owned(),
            wired: config.wired.clone(),
            mobile: config.mobile.clone(),
            interfaces: Port::BOTH.map(|side| self.links.interfaces.condition(side).name().to_owned()),
            is_draining: self.stop.is_some(),
            uptime_s: Clock::now().saturating_since(self.started_at).as_millis() / 1_000,
            resident_bytes: io::resident_bytes().unwrap_or(0),
            recovery: self.recovery_status(),
            ..Status::default()
        };
        let asker = self.shards.asker();
        Box::new(move || {
            let mut reports = vec![own];
            reports.extend(asker.reports());
            Answer::Status(Box::new(status.with_reports(&reports, queue_drops)))
        })
    }

    /// Metrics: copied here, put together by the thread that answers.
    fn metrics(&self) -> Reply {
        let now = Clock::now();
        let own = self.packet_loop.meters(&self.processor);
        let queue_drops = self.attachment.queue_drops_later(self.packet_loop.path());
        let config = self.ground.config;
        let age = |at| now.saturating_since(at).as_millis();
        let receiver = self.inputs.reports.receiver.as_ref();
        let mut others = BTreeMap::new();
        self.count_others(&mut |name, value| {
            others.insert(name.to_owned(), value);
        });
        let snapshot = Snapshot {
            name: config.instance_name(),
            process: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            steering: self.attachment.name().to_owned(),
            interface_names: Port::BOTH.map(|side| self.links.interfaces.name(side).to_owned()),
            are_up: Port::BOTH.map(|side| self.links.interfaces.condition(side).name() == "up"),
            is_draining: self.stop.is_some(),
            uptime_ms: now.saturating_since(self.started_at).as_millis(),
            recovery: self.recovery_status(),
            upgrades: self.successor_needs.history.upgrades,
            feedback_age_ms: receiver.and_then(FeedbackReceiver::last_accepted).map(age),
            others,
            passed_bytes: self.passed_bytes(),
            ..Snapshot::default()
        };
        let asker = self.shards.asker();
        let packets_waited_ns = Clock::now().saturating_since(now).as_nanos();
        Box::new(move || {
            let mut meters = vec![own];
            meters.extend(asker.meters());
            let resident_bytes = io::resident_bytes().unwrap_or(0);
            let snapshot = Snapshot { resident_bytes, packets_waited_ns, ..snapshot };
            Answer::Metrics(Box::new(snapshot.with_meters(&meters, queue_drops())))
        })
    }

    /// Counts of the processor, with what became of the base stations' reports, the flows left to the kernel,
    /// and what the kernel has refused for the moment.
    fn counted(&self) -> ProcessorStatus {
        let mut status = self.processor.status();
        self.count_others(&mut |name, value| {
            status.counters.insert(name.to_owned(), value);
        });
        status.passed_bytes = self.passed_bytes();
        status
    }

    /// Bytes of TCP that passed, by reason.
    fn passed_bytes(&self) -> BTreeMap<String, u64> {
        let bypass = self.attachment.bypass().into_iter();
        bypass
            .flat_map(|bypass| bypass.bytes_by_reason())
            .map(|(name, bytes)| (name.to_owned(), bytes))
            .collect()
    }

    /// Counts that are kept here, and not by a processor.
    fn count_others(&self, add: &mut dyn FnMut(&str, u64)) {
        if let Some(counters) = self.inputs.reports.receiver.as_ref().map(FeedbackReceiver::counters) {
            let (accepted, unknown) = self.shards.feedback();
            let all = counters.with_those_of_shards(accepted, unknown);
            all.named().into_iter().for_each(|(name, value)| add(name, value));
        }
        if let Some(bypass) = self.attachment.bypass() {
            bypass.counters().named().into_iter().for_each(|(name, value)| add(name, value));
        }
        if let Some(handovers) = &self.inputs.handovers {
            handovers.named().iter().for_each(|(name, value)| add(name, *value));
        }
        add("kernel_refusals", self.patience.failed());
    }
}
