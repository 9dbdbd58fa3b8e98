//! Devices and steering that go from a running instance to the one that takes its place
//! ([`crate::upgrade::transfer`]).

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use io::{Clock, Instance};

use crate::attachment::Attachment;
use crate::console::Reply;
use crate::feedback::{FeedbackConfig, FeedbackReceiver};
use crate::inherited_resources::{InheritedResources, Inventory};
use crate::journal::Journals;
use crate::packet_loop::PacketLoop;
use crate::question::{Answer, Question};
use crate::record::Record;
use crate::shards::Command;
use crate::supervisor::Supervisor;
use crate::supervisor::recover::Recipient;
use crate::upgrade::predecessor::Predecessor;
use crate::upgrade::transfer::{self, Offer, StateReceiver};
use crate::{Config, Event, Processor, RunError};

/// Resources that a running instance has shared; they belong to it until this one has its flows.
#[derive(Debug)]
pub(in crate::supervisor) struct Adopted {
    receiver: StateReceiver,
    pub(in crate::supervisor) kept: InheritedResources,
    before: Predecessor,
    /// Path of the record of the resources that the other one has set up.
    record: PathBuf,
    /// The processors go on with its journal.
    pub(in crate::supervisor) has_journal: bool,
}

/// Longest time that another process waits for memory for the flows' state: without it, packets wait a little longer.
const PREPARED_WITHIN: std::time::Duration = std::time::Duration::from_millis(500);

impl Adopted {
    /// Resources that the instance shares that `config` says to replace, for one of as many shards.
    ///
    /// # Errors
    /// When there is no such instance.
    pub(in crate::supervisor) fn ask(
        config: &Config,
        instance: &Instance,
    ) -> Result<Result<Self, String>, RunError> {
        let Some(before) = Predecessor::find(config)? else {
            return Ok(Err("none is to be replaced".to_owned()));
        };
        let ask = || {
            let text = |error: RunError| error.to_string();
            let receiver = StateReceiver::open(instance.path()).map_err(|error| error.to_string())?;
            // It says what it has.
            let offer = receiver.offer(0, config.ipv6_prefix_len, u64::MAX, true);
            match before.ask(config, &Question::Share(offer)).map_err(text)? {
                Answer::Done(_) => {}
                Answer::Refused(why) => return Err(why),
                other => return Err(format!("it answers {other:?}")),
            }
            let kept = receiver.take_kept().map_err(|error| error.to_string())?;
            let record = before.record_path();
            Ok(Self { receiver, kept, before, record, has_journal: false })
        };
        Ok(ask())
    }

    /// Socket on which reports of base stations come in, if that is where `config` has them come in.
    pub(in crate::supervisor) fn take_reports(
        &mut self,
        config: &FeedbackConfig,
    ) -> Option<FeedbackReceiver> {
        FeedbackReceiver::adopt(self.kept.reports.take()?, config)
    }

    /// Name of the other one.
    pub(in crate::supervisor) fn name(&self) -> &str {
        self.before.name()
    }

    /// The directory of the other one.
    pub(in crate::supervisor) fn directory(&self) -> &Path {
        self.record.parent().unwrap_or(&self.record)
    }

    /// Record of what the other one has written down.
    ///
    /// # Errors
    /// When it cannot be read: it has ended, or another one has taken its place.
    pub(in crate::supervisor) fn record(&self) -> Result<Record, RunError> {
        let text = fs::read_to_string(&self.record).ok();
        let record = text.and_then(|text| Record::parse(&text));
        record.ok_or_else(|| RunError::Settings("the one to be replaced has ended meanwhile".to_owned()))
    }
}

impl<A: Attachment, P: Processor + Send + 'static> Supervisor<'_, A, P> {
    /// Shares what leads packets here with the instance that makes `offer`, and goes on. Who asks hears of it once
    /// there is memory for the flows' state: the thread that answers waits for that.
    pub(in crate::supervisor) fn share(&mut self, offer: &Offer) -> Reply {
        let refused = |why: String| -> Reply { Box::new(move || Answer::Refused(why)) };
        if self.stop.is_some() {
            return refused("it is ending already".to_owned());
        }
        let theirs = self.shards.asker().reports();
        let sum = |name: &str| theirs.iter().map(|report| report.processor.counter(name)).sum::<u64>();
        let held = self.processor.memory().1 + sum("buffer_bytes_now");
        let flows = self.processor.flow_count() as u64 + sum("flows_now");
        let reports = self.inputs.reports.receiver.as_ref().map(AsFd::as_fd);
        let sent = match self.inventory(Recipient::Instance(reports)) {
            Some((inventory, _)) if inventory.is_bridge && self.warnings.journal_alarm.is_raised() => {
                Err("its journal is full, which has what its flows' frames begin with".to_owned())
            }
            Some((inventory, descriptors)) => {
                let inventory = Inventory { held, flows, ..inventory };
                transfer::share(offer, &inventory, &descriptors)
            }
            None => Err("it has nothing that another process could go on with".to_owned()),
        };
        match sent {
            Ok(()) => {
                self.successor_needs.is_shared = true;
                let (done, ready) = mpsc::channel();
                self.shards.tell_all(|| Command::PrepareToStore(done.clone()));
                self.processor.prepare_to_store(done);
                Box::new(move || {
                    // Nothing is ever sent: it ends with the last sender, or is too late to be of use.
                    _ = ready.recv_timeout(PREPARED_WITHIN);
                    Answer::Done("shared".to_owned())
                })
            }
            Err(why) => refused(why),
        }
    }

    /// Takes over flows, devices and steering of the instance that has shared them. No packet was read yet.
    /// `others` are further shards.
    ///
    /// # Errors
    /// Reason of the failure: then all is the other one's, as before.
    pub(in crate::supervisor) fn upgrade_from(
        &mut self,
        adopted: Adopted,
        others: &mut [(PacketLoop<A::Path>, P)],
    ) -> Result<(), RunError> {
        let Adopted { receiver, before, record, has_journal, .. } = adopted;
        let config = self.ground.config;
        let others = others.iter_mut().map(|(_, processor)| processor);
        let mut processors: Vec<_> = std::iter::once(&mut self.processor).chain(others).collect();
        let memory = processors.iter().map(|processor| processor.memory().0).sum();
        let offer = receiver.offer(processors.len(), config.ipv6_prefix_len, memory, true);
        let refused = |why: String| RunError::NotReplaced { name: before.name().to_owned(), why };
        match before.ask(config, &Question::Upgrade(offer))? {
            Answer::Done(_) => {}
            Answer::Refused(why) => return Err(refused(why)),
            other => return Err(refused(format!("it answers {other:?}"))),
        }
        let began = Clock::now();
        let arrived = receiver.take_in(&mut processors, || {}).map_err(&refused)?;
        if let Some(directory) = record.parent() {
            self.attachment.learn(&Journals::of(directory));
        }
        let instance = self.ground.instance;
        arrived.commit_by_record(&mut processors, &record, instance, has_journal).map_err(&refused)?;
        self.attachment.beat();
        // However long that took: the other one, or the watchdog, has shown signs of life meanwhile.
        self.pulse.last_alive = Clock::now();
        self.attachment.own()?;
        let took_us = Clock::now().saturating_since(began).as_micros();
        let flows = processors.iter().map(|processor| processor.flow_count() as u64).sum();
        self.events.on_event(&Event::FlowsTakenOver { flows, took_us });
        self.upgrade.before = Some(before);
        Ok(())
    }

    /// Says once that the instance before has ended, whose devices these are.
    pub(in crate::supervisor) fn part_from_before(&mut self) {
        if self.upgrade.before.take_if(|before| !before.is_there(self.ground.config)).is_some() {
            self.events.on_event(&Event::ReplacedEnded);
        }
        if self.upgrade.before.is_none() && self.attachment.predecessor().is_none() {
            self.upgrade.place_lock = None;
        }
    }
}
