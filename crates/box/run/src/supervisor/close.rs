//! The end of an instance: everything is undone.

use io::netlink::Netlink;
use units::Bytes;

use super::upkeep::end_settling;
use super::{Ended, Inputs, Supervisor, Why};
use crate::attachment::{Attachment, Ground};
use crate::handover::Ledger;
use crate::journal::Journals;
use crate::reset_orphans::{Haste, Passage};
use crate::{Amount, Event, EventSink, Processor, RunError, reset_orphans};

impl<A: Attachment, P: Processor + Send + 'static> Supervisor<'_, A, P> {
    /// Undoes everything: first nothing new comes, then what is still in the devices is passed on, then the
    /// rest goes.
    pub(super) fn close(mut self, result: Result<Why, RunError>) -> Result<Ended, RunError> {
        self.pulse.service.forget(self.ground.instance.path());
        if self.upgrade.is_succeeded {
            return self.leave();
        }
        if (result.is_err() && self.stop.is_none()) || matches!(result, Ok(Why::Filter)) {
            // The watchdog ends in good order; this process says that something failed, or goes on later.
            self.pulse.service.main_is(std::process::id());
        }
        if let Some(guardian) = self.pulse.guardian.as_mut() {
            guardian.beat();
        }
        let released = self.attachment.release();
        // Silence is no hang from here on: no packet comes here any more.
        self.pulse.still_closing();
        let is_usable = result.is_ok();
        if is_usable {
            self.packet_loop.finish(&mut self.processor);
        }
        self.pulse.still_closing();
        let queue_drops = self.attachment.queue_drops(self.packet_loop.path());
        let mut counters = self.packet_loop.counters();
        let Self {
            ground,
            attachment,
            packet_loop,
            processor,
            shards,
            mut pulse,
            successor_needs,
            settling,
            inputs,
            events,
            ..
        } = self;
        let Inputs { console, handovers, .. } = inputs;
        drop(console);
        // Who has the flows has what is written down of them.
        if let Some(handovers) = handovers.filter(|_| !matches!(result, Ok(Why::Upgraded))) {
            handovers.close();
        }
        let (others, theirs, sharded) = shards.finish();
        counters.add(&theirs);
        let mut status = processor.status();
        others.iter().for_each(|other| status.add(&other.status()));
        // The journals are complete: no processor works any more. Of many flows this takes its time.
        for processor in std::iter::once(processor).chain(others) {
            pulse.still_closing();
            drop(processor);
        }
        pulse.still_closing();
        // As long as the devices are there: which one is lost can be seen.
        let result = outcome(result, sharded.map_err(|error| attachment.explain(error)), events);
        let Ground { config, netlink, namespace, .. } = ground;
        let passage = Passage::of(config);
        let undone = attachment.undo(packet_loop);
        pulse.still_closing();
        let is_abandoned = matches!(result, Ok(Why::Abandoned));
        if is_abandoned {
            // Nobody is left who could be told, or could ask.
            successor_needs.journals.discard();
            Ledger::forget(&config.state_directory, namespace, &config.instance_name());
        }
        let settled = settle(&successor_needs.journals, passage, netlink, events);
        end_settling(settling.filter(|_| !is_abandoned), events);
        if let Some(guardian) = pulse.guardian {
            guardian.finish()?;
        }
        let why = result?;
        released?;
        undone?;
        settled?;
        Ok(Ended { why, counters, queue_drops, processor: status })
    }

    /// Ends, and undoes nothing: all is another process's.
    fn leave(self) -> Result<Ended, RunError> {
        let queue_drops = self.attachment.queue_drops(self.packet_loop.path());
        let mut counters = self.packet_loop.counters();
        let Self { attachment, packet_loop, processor, shards, pulse, settling, inputs, events, .. } = self;
        drop(inputs.console);
        attachment.leave();
        drop(packet_loop);
        let (others, theirs, _) = shards.finish();
        counters.add(&theirs);
        let mut status = processor.status();
        others.iter().for_each(|other| status.add(&other.status()));
        end_settling(settling, events);
        if let Some(guardian) = pulse.guardian {
            guardian.finish()?;
        }
        Ok(Ended { why: Why::Upgraded, counters, queue_drops, processor: status })
    }
}

/// Outcome: a shard that ended by itself knows the reason better than the one that noticed.
fn outcome(
    result: Result<Why, RunError>,
    sharded: Result<(), RunError>,
    events: &mut dyn EventSink,
) -> Result<Why, RunError> {
    match (result, sharded) {
        (result, Ok(())) => result,
        (Err(RunError::ShardLost), Err(error)) => Err(error),
        (result, Err(error)) => {
            events.on_event(&Event::ShardFailed { error: error.to_string() });
            result
        }
    }
}

/// Ends the flows that are still owed something although it was stopped: their time was up.
fn settle(
    journals: &Journals,
    passage: Passage<'_>,
    netlink: &Netlink,
    events: &mut dyn EventSink,
) -> Result<(), RunError> {
    let owed = journals.read_owed();
    if owed.is_empty() {
        return Ok(());
    }
    let bytes = owed.iter().map(|owed| u64::from(owed.entry.told.since(owed.entry.delivered))).sum();
    let bytes = Amount(Bytes::new(bytes));
    events.on_event(&Event::Undelivered { bytes, flows: owed.len() });
    let outcome = reset_orphans::reset_ends(&owed, passage, netlink, &Haste::default())?;
    events.on_event(&Event::FlowsReset { outcome });
    journals.discard();
    Ok(())
}
