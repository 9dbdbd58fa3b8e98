//! What is kept for a successor, and the flows of a process that has died ([`crate::keepsakes`]).

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use io::{Clock, IoError};
use units::Bytes;

use super::Supervisor;
use crate::attachment::Attachment;
use crate::journal::{self, Left};
use crate::keepsakes::{Inventory, Keepsakes, TAKEN};
use crate::packet_loop::PacketLoop;
use crate::packet_path::PacketPath;
use crate::record::Record;
use crate::{Amount, Event, Processor, RunError, leftovers};

/// How long the watchdog may take to give what it has.
const GIVEN_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// What this process has of what a successor needs.
#[derive(Debug, Default)]
pub(super) struct Estate {
    /// Of each shard: wired, mobile.
    queues: Vec<OwnedFd>,
    /// Of each shard.
    pub(super) memories: Vec<Option<OwnedFd>>,
    /// When processes of this line have died, ms.
    deaths_ms: Vec<u64>,
    /// Flows that were being handled at the last death.
    suspects: Vec<(SocketAddr, SocketAddr)>,
    /// Another instance was given what leads packets here, and it has not changed since.
    pub(super) is_shared: bool,
}

/// Who goes on in the place of a process that has died, and what that had.
#[derive(Debug)]
pub(super) struct Heir {
    /// Its watchdog is at the other end.
    stream: UnixStream,
    pub(super) kept: Keepsakes,
    /// What it had written down.
    pub(super) record: Record,
}

impl Heir {
    /// What the watchdog gives, which is at the other end of standard input.
    ///
    /// # Errors
    /// When it is not there, or what it gives is not whole.
    pub(super) fn receive(record: &Path) -> Result<Self, RunError> {
        let stream = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(unheard)?);
        stream.set_read_timeout(Some(GIVEN_WITHIN)).map_err(unheard)?;
        let kept = Keepsakes::receive(&stream)?;
        let record = std::fs::read_to_string(record).ok().and_then(|text| Record::parse(&text));
        let record = record.ok_or_else(|| RunError::Settings("its record cannot be read".to_owned()))?;
        Ok(Self { stream, kept, record })
    }
}

fn unheard(error: std::io::Error) -> RunError {
    RunError::Io(IoError::system("speak with the watchdog of the process that has died", error))
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
        (self.estate.queues, self.estate.memories) = (queues, memories);
        Ok(())
    }

    /// Notes the queues of the first shard anew: a bridge opens others at an interface that was made anew.
    pub(super) fn renew_stock(&mut self) -> Result<(), IoError> {
        let queues = self.packet_loop.path().share()?.into_iter().flatten();
        self.estate.queues.iter_mut().zip(queues).for_each(|(place, queue)| *place = queue);
        Ok(())
    }

    /// Has the watchdog keep what a successor needs, if there is to be one.
    pub(super) fn entrust(&mut self) {
        self.estate.is_shared = false;
        if self.pulse.guardian.is_none() || !self.ground.config.may_have_successor() {
            return;
        }
        // Taken out, since what is sent is borrowed of the rest.
        let mut guardian = self.pulse.guardian.take();
        if let (Some((inventory, descriptors)), Some(guardian)) = (self.inventory(None), guardian.as_mut())
            && let Err(error) = guardian.keep(&inventory, &descriptors)
        {
            let event = Event::NoSuccessor { error: error.to_string() };
            drop((inventory, descriptors));
            self.events.on_event(&event);
        }
        self.pulse.guardian = guardian;
    }

    /// What leads packets here, with its descriptors; none where nothing outlives this process. Reports of base
    /// stations come in by `reports`.
    pub(super) fn inventory<'b>(
        &'b self,
        reports: Option<BorrowedFd<'b>>,
    ) -> Option<(Inventory, Vec<BorrowedFd<'b>>)> {
        let (config, estate) = (self.ground.config, &self.estate);
        let lasting = self.attachment.lasting()?;
        let mut inventory = Inventory {
            process: std::process::id(),
            shards: estate.memories.len(),
            gso: config.gso,
            has_memory: estate.memories.iter().map(Option::is_some).collect(),
            within_ms: config.watchdog.recover_within_ms,
            deaths_ms: estate.deaths_ms.clone(),
            deaths_max: config.watchdog.deaths_max,
            hang_after_ms: config.hang_after().as_millis(),
            suspects: estate.suspects.clone(),
            successor: config.watchdog.successor.clone(),
            ..Inventory::default()
        };
        let mut descriptors: Vec<_> = estate.queues.iter().map(AsFd::as_fd).collect();
        descriptors.extend(inventory.note(&lasting));
        inventory.has_reports = reports.is_some();
        descriptors.extend(reports);
        descriptors.extend(estate.memories.iter().flatten().map(AsFd::as_fd));
        Some((inventory, descriptors))
    }

    /// Goes on with the flows of the process that has died. `others` are further shards.
    ///
    /// # Errors
    /// Why that cannot be: the watchdog hears of it when this process ends.
    pub(super) fn recover_flows(
        &mut self,
        heir: Heir,
        others: &mut [(PacketLoop<A::Path>, P)],
    ) -> Result<(), RunError> {
        let Heir { stream, mut kept, .. } = heir;
        let Some(record) = &self.ground.config.recover else { return Ok(()) };
        let directory = record.parent().unwrap_or(record);
        let others = others.iter_mut().map(|(_, processor)| processor);
        let mut processors: Vec<_> = std::iter::once(&mut self.processor).chain(others).collect();
        let began = Clock::now();
        let memories = kept.take_memories();
        let mut lost: Vec<Left> = Vec::new();
        let shards = 0..processors.len();
        let in_hand: Vec<_> = shards.flat_map(|shard| journal::read_in_hand(directory, shard)).collect();
        // What was being handled at two deaths in a row is what they died of.
        let is_deadly = |left: &Left| {
            let flow = (left.entry.sink, left.entry.source);
            in_hand.contains(&flow) && kept.inventory.suspects.contains(&flow)
        };
        for (shard, (processor, memory)) in processors.iter_mut().zip(memories).enumerate() {
            let all = journal::read_shard(directory, shard);
            let (deadly, left): (Vec<_>, Vec<_>) = all.into_iter().partition(&is_deadly);
            lost.extend(deadly.into_iter().filter(|left| left.entry.owes()));
            let entries: Vec<_> = left.iter().map(|left| (left.receiver, left.entry)).collect();
            let failed = processor.recover(&entries, memory, began).map_err(RunError::Settings)?;
            lost.extend(failed.into_iter().filter_map(|at| left.get(at)).filter(|left| left.entry.owes()));
        }
        self.attachment.learn(directory);
        processors.iter_mut().for_each(|processor| processor.own());
        self.attachment.beat();
        // However long that took: the other one, or the watchdog, has shown signs of life meanwhile.
        self.pulse.last_alive = Clock::now();
        self.attachment.own()?;
        // From here on they are ours.
        (&stream).write_all(&[TAKEN]).map_err(unheard)?;
        let flows = processors.iter().map(|processor| processor.flow_count() as u64).sum();
        let held = processors.iter().map(|processor| processor.memory().1).sum();
        let took_us = Clock::now().saturating_since(began).as_micros();
        let bytes = Amount(Bytes::new(held));
        self.events.on_event(&Event::FlowsRecovered { flows, bytes, took_us, lost: lost.len() });
        self.estate.deaths_ms.clone_from(&kept.inventory.deaths_ms);
        self.estate.suspects = in_hand;
        if !lost.is_empty() {
            self.settling = Some(leftovers::reset(lost, self.ground.config));
        }
        Ok(())
    }
}
