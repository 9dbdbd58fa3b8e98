//! Resources kept for a successor, and the flows of a process that has died ([`crate::inherited_resources`]).

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use handover::Ownership;
use io::{Clock, IoError, Leftover, NamespaceId, RECORD, RECORD_OF_DEAD};
use units::{Bytes, Duration};

use super::{Supervisor, Why};
use crate::attachment::{Attachment, Ground};
use crate::handover::PendingHandovers;
use crate::inherited_resources::{History, InheritedResources, Inventory, TAKEN, is_last};
use crate::instances;
use crate::journal::{Journals, Left};
use crate::lasting::Lasting;
use crate::leftovers::{self, Settling};
use crate::packet_loop::PacketLoop;
use crate::packet_path::PacketPath;
use crate::record::Record;
use crate::service::Service;
use crate::{Amount, Config, Event, Processor, RecoveryStatus, RunError};

/// Longest time that the watchdog may take to give what it has.
const GIVEN_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// Resources of this process that a successor needs.
#[derive(Debug, Default)]
pub(super) struct SuccessorNeeds {
    /// Of each shard: wired, mobile.
    queues: Vec<OwnedFd>,
    /// Of each shard.
    pub(super) memories: Vec<Option<OwnedFd>>,
    pub(super) journals: Journals,
    /// Times at which processes of this line have died within a minute, ms.
    deaths_ms: Vec<u64>,
    /// Fate of all that have died.
    pub(super) history: History,
    /// The watchdog could not be given what a successor needs; why.
    unkept: Option<String>,
    /// Flows that were being handled at the last death.
    suspects: Vec<(SocketAddr, SocketAddr)>,
    /// The one that has died was to end; the longest time for that.
    pub(super) ends_within: Option<Duration>,
    /// Another instance was given what leads packets here, and it has not changed since.
    pub(super) is_shared: bool,
}

impl SuccessorNeeds {
    pub(super) fn with(journals: Journals) -> Self {
        Self { journals, ..Self::default() }
    }
}

/// Recipient of the resources that lead packets here.
#[derive(Clone, Copy, Debug)]
pub(super) enum Recipient<'a> {
    /// The watchdog, or the service manager, for a successor.
    Successor,
    /// The watchdog, which is to undo everything when this process dies.
    Cleanup,
    /// An instance that takes this one's place, with the socket at which reports of base stations come in.
    Instance(Option<BorrowedFd<'a>>),
}

/// Process that has died, and the resources that it had.
#[derive(Debug)]
pub(super) struct CrashedInstance {
    /// Its watchdog is at the other end; none where that has died too.
    stream: Option<UnixStream>,
    pub(super) kept: InheritedResources,
    /// Record of what it had set up.
    pub(super) record: Record,
    pub(super) journals: Journals,
}

impl CrashedInstance {
    /// Receives the resources from the watchdog, which is at the other end of standard input.
    ///
    /// # Errors
    /// When it is not there, or what it gives is not whole.
    pub(super) fn receive(record: &Path) -> Result<Self, RunError> {
        let stream = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(unheard)?);
        stream.set_read_timeout(Some(GIVEN_WITHIN)).map_err(unheard)?;
        let mut kept = InheritedResources::receive(&stream)?;
        let written = std::fs::read_to_string(record).ok().and_then(|text| Record::parse(&text));
        let directory = record.parent().unwrap_or(record);
        // Its directory may be gone, and the watchdog has what was in it.
        let record = written.or_else(|| kept.inventory.record.take());
        let record = record.ok_or_else(|| RunError::Settings("its record cannot be read".to_owned()))?;
        let journals = Journals::with(directory, std::mem::take(&mut kept.journals));
        Ok(Self { stream: Some(stream), kept, record, journals })
    }
}

/// Resources that the service manager has kept for a process of this service that has died together with its watchdog.
#[derive(Debug)]
pub(super) struct Stored {
    kept: InheritedResources,
    record: Record,
    /// Its directory. Nobody else undoes it as long as this is there.
    leftover: Leftover,
}

impl Stored {
    /// Resources that this start is given and can go on with. The manager keeps none of them any more: if
    /// this start fails, the next one undoes what is left.
    ///
    /// # Errors
    /// When directories cannot be read.
    pub(super) fn find(config: &Config, namespace: NamespaceId) -> Result<Option<Self>, IoError> {
        let service = Service::find();
        let all = io::take_stored().into_iter().filter_map(|(name, descriptor)| {
            service.forget(Path::new(&name));
            let stream = UnixStream::from(descriptor);
            stream.set_nonblocking(true).ok()?;
            Some((name, InheritedResources::receive(&stream).ok()?))
        });
        let mut all = all.collect::<Vec<_>>();
        if all.is_empty() || config.recover.is_some() || config.replace.is_some() {
            return Ok(None);
        }
        for leftover in Leftover::find(&config.state_directory, instances::KIND)? {
            let Some(at) = all.iter().position(|(name, _)| leftover.path().ends_with(name)) else { continue };
            let record = leftover.record().and_then(|text| Record::parse(&text));
            let record = record
                .filter(|record| record.namespace.is(&namespace) && record.name == config.instance_name());
            let Some(record) = record.filter(Record::is_held) else { continue };
            let mut kept = all.swap_remove(at).1;
            if !config.may_have_successor()
                || !kept.is_fresh(config.hang_after())
                || !kept.inventory.note_death()
            {
                continue;
            }
            // Whoever has told the dead one to end has started this one since.
            kept.inventory.ends_within_ms = None;
            kept.beat();
            return Ok(Some(Self { kept, record, leftover }));
        }
        Ok(None)
    }

    /// The record of the one that has died, which nobody else takes over from there.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub(super) fn path(&self) -> Result<PathBuf, IoError> {
        let path = self.leftover.path().join(RECORD_OF_DEAD);
        match std::fs::rename(self.leftover.path().join(RECORD), &path) {
            Err(error) if !path.exists() => {
                Err(IoError::system("take over the record of the one that died", error))
            }
            _ => Ok(path),
        }
    }

    /// Parts: the crashed instance, and the directory, which is to be forgotten then.
    pub(super) fn into_crashed(self) -> (CrashedInstance, Leftover) {
        let Self { mut kept, record, leftover } = self;
        let journals = Journals::with(leftover.path(), std::mem::take(&mut kept.journals));
        (CrashedInstance { stream: None, kept, record, journals }, leftover)
    }
}

fn unheard(error: std::io::Error) -> RunError {
    RunError::Io(IoError::system("speak with the watchdog of the process that has died", error))
}

/// Name of a file in an instance's directory, which says that its process has panicked.
const PANICKED: &str = "panicked";

/// A panic ends the process at once, with its message and a mark: what unwinds would undo what a successor needs.
pub(super) fn die_of_panics(directory: &Path) {
    let (tell, mark) = (std::panic::take_hook(), directory.join(PANICKED));
    std::panic::set_hook(Box::new(move |panic| {
        // Where others have deleted the directory, it counts as killed.
        drop(std::fs::write(&mark, []));
        tell(panic);
        std::process::abort();
    }));
}

/// True when the process of this directory has died of a panic.
fn has_panicked(directory: &Path) -> bool {
    directory.join(PANICKED).exists()
}

impl<A: Attachment, P: Processor + Send + 'static> Supervisor<'_, A, P> {
    /// Notes what of the shards a successor would need. `others` are further shards.
    pub(super) fn take_stock(&mut self, others: &[(PacketLoop<A::Path>, P)]) -> Result<(), IoError> {
        let others = others.iter().map(|(packet_loop, processor)| (packet_loop, processor));
        let (mut queues, mut memories) = (Vec::new(), Vec::new());
        for (packet_loop, processor) in std::iter::once((&self.packet_loop, &self.processor)).chain(others) {
            queues.extend(packet_loop.path().share()?.into_iter().flatten());
            memories.push(processor.held_data());
        }
        (self.successor_needs.queues, self.successor_needs.memories) = (queues, memories);
        Ok(())
    }

    /// Notes the queues of the first shard anew: a bridge opens others at an interface that was made anew.
    pub(super) fn renew_stock(&mut self) -> Result<(), IoError> {
        let queues = self.packet_loop.path().share()?.into_iter().flatten();
        self.successor_needs.queues.iter_mut().zip(queues).for_each(|(place, queue)| *place = queue);
        Ok(())
    }

    /// Announces that the resources that lead packets here have changed: processes that share them must ask
    /// again, and the watchdog keeps them anew.
    pub(super) fn entrust(&mut self) {
        self.successor_needs.is_shared = false;
        self.entrust_watchdog();
    }

    /// Has the watchdog keep what a successor needs, if there is to be one, and what it needs itself. So does the service
    /// manager, for the next start.
    pub(super) fn entrust_watchdog(&mut self) {
        self.tell_watchdog();
        let has_watchdog = self.pulse.guardian.is_some();
        let mut service = std::mem::take(&mut self.pulse.service);
        if has_watchdog
            && self.ground.config.may_have_successor()
            && let Some((inventory, descriptors)) = self.inventory(Recipient::Successor)
        {
            // What is too much for it is too much for the watchdog, which says so.
            drop(service.keep(self.ground.instance.path(), &inventory, &descriptors));
        }
        self.pulse.service = service;
    }

    /// The same for the watchdog alone.
    pub(super) fn tell_watchdog(&mut self) {
        self.successor_needs.unkept = None;
        if self.pulse.guardian.is_none() {
            return;
        }
        let may_have_successor = self.ground.config.may_have_successor();
        let for_whom = if may_have_successor { Recipient::Successor } else { Recipient::Cleanup };
        if let Err(error) = self.give_watchdog(for_whom)
            && may_have_successor
        {
            self.events.on_event(&Event::NoSuccessor { error: error.clone() });
            self.successor_needs.unkept = Some(error);
        }
    }

    /// Has the watchdog keep nothing for a successor any more: if this process dies from here on, nobody goes on.
    pub(super) fn give_up_successor(&mut self) {
        // What it had before is forgotten in any case.
        drop(self.give_watchdog(Recipient::Cleanup));
    }

    fn give_watchdog(&mut self, for_whom: Recipient<'_>) -> Result<(), String> {
        // Taken out, since what is sent is borrowed of the rest.
        let mut guardian = self.pulse.guardian.take();
        let given = match (self.inventory(for_whom), guardian.as_mut()) {
            (Some((inventory, descriptors)), Some(guardian)) => guardian.keep(&inventory, &descriptors),
            _ => Ok(()),
        };
        self.pulse.guardian = guardian;
        given.map_err(|error| error.to_string())
    }

    /// State of recovery for a status.
    pub(super) fn recovery_status(&self) -> RecoveryStatus {
        let why_not = self.why_no_successor();
        let History { deaths, last_death_ms, recovered, lost, .. } = self.successor_needs.history;
        RecoveryStatus {
            is_ready: why_not.is_none(),
            why_not: why_not.unwrap_or_default(),
            deaths,
            last_death_ms: (deaths > 0).then(|| Clock::now().as_millis().saturating_sub(last_death_ms)),
            flows_recovered: recovered,
            flows_lost: lost,
        }
    }

    /// Reason why nobody would go on with the flows if this process died now, if so.
    pub(super) fn why_no_successor(&self) -> Option<String> {
        let config = self.ground.config;
        let (watchdog, successor_needs) = (&config.watchdog, &self.successor_needs);
        let has_watchdog = self.pulse.guardian.as_ref().is_some_and(|guardian| guardian.fd().is_some());
        let said = if !watchdog.is_wanted {
            "it runs without a watchdog (--no-watchdog)"
        } else if watchdog.recover_within_ms == 0 {
            "it is switched off (--recover-within 0)"
        } else if watchdog.successor.is_empty() {
            "there is no command that starts a successor"
        } else if !config.may_have_successor() || self.attachment.lasting().is_none() {
            "nothing that leads packets here would outlive this process"
        } else if successor_needs.memories.iter().any(Option::is_none) {
            "the machine has no memory for held data that would outlive this process"
        } else if !has_watchdog {
            "the watchdog has ended"
        } else if let Some(why) = &successor_needs.unkept {
            why
        } else if self.warnings.journal_alarm.is_raised() {
            "the journal is full, and flows that are not in it cannot go on"
        } else if is_last(&successor_needs.deaths_ms, watchdog.deaths_max) {
            let deaths = watchdog.deaths_max;
            return Some(format!(
                "the next death would be number {deaths} within a minute (--recover-deaths)"
            ));
        } else {
            return None;
        };
        Some(said.to_owned())
    }

    /// Resources that lead packets here, with their descriptors, as far as `for_whom` needs them; none where
    /// nothing outlives this process.
    pub(super) fn inventory<'b>(
        &'b self,
        for_whom: Recipient<'b>,
    ) -> Option<(Inventory, Vec<BorrowedFd<'b>>)> {
        let (config, successor_needs) = (self.ground.config, &self.successor_needs);
        let lasting = self.attachment.lasting()?;
        let mut inventory =
            Inventory { process: std::process::id(), gso: config.gso, ..Inventory::default() };
        let mut descriptors = Vec::new();
        let has_all = !matches!(for_whom, Recipient::Cleanup);
        if has_all {
            inventory.shards = successor_needs.memories.len();
            inventory.has_memory = successor_needs.memories.iter().map(Option::is_some).collect();
            inventory.within_ms = config.watchdog.recover_within_ms;
            inventory.deaths_ms.clone_from(&successor_needs.deaths_ms);
            inventory.history = successor_needs.history;
            inventory.deaths_max = config.watchdog.deaths_max;
            inventory.ends_within_ms = self.ends_within().map(Duration::as_millis);
            inventory.suspects.clone_from(&successor_needs.suspects);
            inventory.successor.clone_from(&config.watchdog.successor);
            descriptors.extend(successor_needs.queues.iter().map(AsFd::as_fd));
        }
        inventory.hang_after_ms = config.hang_after().as_millis();
        let lasting = if has_all { lasting } else { Lasting { programs: None, ..lasting } };
        descriptors.extend(inventory.note(&lasting));
        if let Recipient::Instance(reports) = for_whom {
            inventory.has_reports = reports.is_some();
            descriptors.extend(reports);
        } else {
            // Who takes this one's place while it runs takes those by their names.
            inventory.record = self.ground.instance.recorded().and_then(|text| Record::parse(&text));
            inventory.journals = successor_needs.journals.shards();
            descriptors.extend(successor_needs.journals.descriptors());
        }
        if has_all {
            descriptors.extend(successor_needs.memories.iter().flatten().map(AsFd::as_fd));
        }
        Some((inventory, descriptors))
    }

    /// Time left for its end, if somebody has asked for that. Who hands its flows back because of a packet filter goes on
    /// once that has gone.
    fn ends_within(&self) -> Option<Duration> {
        let stop = self.stop.filter(|stop| stop.why != Why::Filter)?;
        Some(stop.give_up.saturating_since(Clock::now()))
    }

    /// Goes on with the flows of the process that has died. `others` are further shards.
    ///
    /// # Errors
    /// Reason why that cannot be: the watchdog hears of it when this process ends.
    pub(super) fn recover_flows(
        &mut self,
        crashed: CrashedInstance,
        others: &mut [(PacketLoop<A::Path>, P)],
    ) -> Result<(), RunError> {
        let CrashedInstance { stream, mut kept, record: Record { name: crashed_name, .. }, journals } =
            crashed;
        let Some(record) = &self.ground.config.recover else { return Ok(()) };
        let directory = record.parent().unwrap_or(record);
        let others = others.iter_mut().map(|(_, processor)| processor);
        let mut processors: Vec<_> = std::iter::once(&mut self.processor).chain(others).collect();
        let began = Clock::now();
        let memories = kept.take_memories();
        let mut lost: Vec<Left> = Vec::new();
        let shards = 0..processors.len();
        // Who was killed has died of no flow.
        let is_own_fault = kept.inventory.has_hung || has_panicked(directory);
        let shards = shards.filter(|_| is_own_fault);
        let suspects: Vec<_> = shards.flat_map(|shard| journals.read_in_hand(shard)).collect();
        // What was being handled at two such deaths in a row is what they died of.
        let is_deadly = |left: &Left| {
            let flow = (left.entry.sink, left.entry.source);
            suspects.contains(&flow) && kept.inventory.suspects.contains(&flow)
        };
        let pending_handovers =
            PendingHandovers::read(&self.ground.config.state_directory, self.ground.namespace, &crashed_name);
        for (shard, (processor, memory)) in processors.iter_mut().zip(memories).enumerate() {
            let mut all = journals.read_shard(shard);
            // Those that are on their way to another box, or were not taken from one, are not ours.
            all.retain(|left| pending_handovers.of(left) != Ownership::Leave);
            let (given_up, all): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|left| pending_handovers.of(left) == Ownership::GiveUp);
            lost.extend(given_up.into_iter().filter(|left| left.entry.owes()));
            let (deadly, left): (Vec<_>, Vec<_>) = all.into_iter().partition(&is_deadly);
            lost.extend(deadly.into_iter().filter(|left| left.entry.owes()));
            let entries: Vec<_> = left.iter().map(|left| (left.receiver, left.entry)).collect();
            let failed = processor.recover(&entries, memory, began).map_err(RunError::Settings)?;
            lost.extend(failed.into_iter().filter_map(|at| left.get(at)).filter(|left| left.entry.owes()));
        }
        self.attachment.learn(&journals);
        processors.iter_mut().for_each(|processor| processor.own());
        self.attachment.beat();
        // However long that took: the other one, or the watchdog, has shown signs of life meanwhile.
        self.pulse.last_alive = Clock::now();
        self.attachment.own()?;
        // The watchdog that was the main process ends as soon as it hears that.
        self.pulse.service.main_is(self.pulse.main_process());
        // From here on they are ours.
        stream.iter().try_for_each(|mut stream| stream.write_all(&[TAKEN])).map_err(unheard)?;
        self.pulse.service.forget(directory);
        let flows = processors.iter().map(|processor| processor.flow_count() as u64).sum();
        let held = processors.iter().map(|processor| processor.memory().1).sum();
        let took_us = Clock::now().saturating_since(began).as_micros();
        let bytes = Amount(Bytes::new(held));
        let History { deaths, last_death_ms, recovered, lost: lost_before, .. } = kept.inventory.history;
        let waited_ms = Clock::now().as_millis().saturating_sub(last_death_ms);
        let lost_now = lost.len();
        self.events.on_event(&Event::FlowsRecovered {
            flows,
            bytes,
            took_us,
            lost: lost_now,
            deaths,
            waited_ms,
        });
        self.successor_needs.history = History {
            recovered: recovered + flows,
            lost: lost_before + lost_now as u64,
            ..kept.inventory.history
        };
        self.successor_needs.deaths_ms.clone_from(&kept.inventory.deaths_ms);
        self.successor_needs.suspects = suspects;
        self.successor_needs.ends_within = kept.inventory.ends_within_ms.map(Duration::from_millis);
        if is_last(&self.successor_needs.deaths_ms, self.ground.config.watchdog.deaths_max) {
            let error = format!("that was death {} within a minute", self.successor_needs.deaths_ms.len());
            self.events.on_event(&Event::NoSuccessor { error });
        }
        self.begin_settling(lost);
        Ok(())
    }

    /// Begins to reset `lost` flows, and those of others that the one that has died may have had to reset. What cannot
    /// be read is the next start's.
    fn begin_settling(&mut self, lost: Vec<Left>) {
        let Ground { config, namespace, .. } = self.ground;
        let unsettled = leftovers::find_unsettled(&config.state_directory, namespace).unwrap_or_default();
        if !lost.is_empty() || !unsettled.is_empty() {
            self.settling = Some(Settling::of(unsettled, lost, config));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The test starts itself once more, to panic in a process of its own.
    #[test]
    fn a_panic_leaves_a_mark_behind() {
        const DIRECTORY: &str = "CELLERATOR_TEST_PANICS_IN";
        if let Some(directory) = std::env::var_os(DIRECTORY) {
            die_of_panics(Path::new(&directory));
            panic!("as it should");
        }
        let scratch = tempfile::tempdir().unwrap();
        assert!(!has_panicked(scratch.path()));
        let own = std::env::current_exe().unwrap();
        let words = ["--exact", "supervisor::recover::tests::a_panic_leaves_a_mark_behind", "--nocapture"];
        let output = Command::new(own).args(words).env(DIRECTORY, scratch.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("as it should"), "{said}");
        assert!(has_panicked(scratch.path()), "{said}");
    }
}
