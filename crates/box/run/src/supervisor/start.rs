//! The start of an instance: checks, devices, attachment, and who else works beside the packet loop.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use ::handover::Note;
use engine::Port;
use io::features::{self, Feature};
use io::netlink::{LinkEvents, Netlink};
use io::{Clock, Instance, Interest, Leftover, Lifeline, NamespaceId, Waiter};
use units::Instant;

use super::passing::Passing;
use super::recover::{CrashedInstance, Stored, SuccessorNeeds, die_of_panics};
use super::standby::stand_by;
use super::upgrade::Adopted;
use super::{
    CONSOLE, Ended, FEEDBACK, HANDOVERS, Inputs, LIFELINE, LINKS, Links, Pulse, Reports, SHARDS, Supervisor,
    UpgradeState, WATCHDOG, Warnings, Why,
};
use crate::attachment::{Attachment, Ground, PATHS, Site};
use crate::console::Console;
use crate::event_broadcaster::{Announcer, EventBroadcaster};
use crate::feedback::{FeedbackConfig, FeedbackReceiver};
use crate::handover::{self, Handovers, Ledger};
use crate::inline::BridgedSite;
use crate::inline::link_headers::SharedHeaders;
use crate::instances;
use crate::interfaces::Interfaces;
use crate::journal::{self, FlowJournal, FullAlarm, Journals};
use crate::leftovers::{self, Removed, Settling};
use crate::packet_loop::PacketLoop;
use crate::packet_path::PacketPath;
use crate::patience::Patience;
use crate::processor::BarePath;
use crate::routed::RoutedSite;
use crate::service::Service;
use crate::shards::{Shards, Terms, shard_of};
use crate::signals::CaughtSignals;
use crate::upgrade::predecessor::{PlaceLock, Predecessor};
use crate::watchdog::Guardian;
use crate::{Accelerator, Config, Event, EventSink, Job, Plan, Processor, ReadSettings, RunError, log};

/// Decides what would be set up and tells it, and changes nothing.
///
/// # Errors
/// As [`run`] before anything is touched.
pub fn dry_run(config: &Config, events: &mut dyn EventSink) -> Result<(), RunError> {
    // Without, what it would see of programs and rules is not what there is.
    features::require(Feature::NetworkAdministration)?;
    let netlink = Netlink::open()?;
    if config.inline.is_some() {
        BridgedSite::survey(config, &netlink, NamespaceId::here()?)?;
        let command = format!(
            "two packet sockets, at {} and {}; a bridge between them with --inline-fallback bridge",
            config.wired, config.mobile
        );
        events.on_event(&Event::SetUp { command });
        return Ok(());
    }
    Plan::make(config, &netlink)?.tell(events);
    Ok(())
}

/// As [`run`], through the engine.
///
/// # Errors
/// As [`run`].
// Not generic: the packet loop is compiled here, once, and not in each crate that starts it.
pub fn accelerate(job: Job, events: &mut dyn EventSink) -> Result<Ended, RunError> {
    let Job { config, mut engine, read } = job;
    let read = read.map(|read| Arc::new(Mutex::new(read)));
    let mut is_first = true;
    let make = |shards| {
        let read = read.as_ref().map(|read| {
            let read = Arc::clone(read);
            let mut anew: ReadSettings =
                Box::new(move || (read.lock().unwrap_or_else(PoisonError::into_inner))());
            if !std::mem::take(&mut is_first)
                && let Ok(reread) = anew()
            {
                engine = reread.engine;
            }
            anew
        });
        Accelerator::for_shards(&engine, shards, read).map_err(|error| RunError::Settings(error.to_string()))
    };
    run(&config, make, events)
}

/// As [`run`], through nothing: every packet passes. All that is sent to `wanted` comes here, too, once TCP has.
///
/// # Errors
/// As [`run`].
pub fn pass_all(
    config: &Config,
    wanted: Option<IpAddr>,
    events: &mut dyn EventSink,
) -> Result<Ended, RunError> {
    run(config, |shards| Ok(vec![BarePath { wanted }; shards]), events)
}

/// Has the TCP between the two interfaces pass through processors until a signal comes; then undoes
/// everything.
///
/// `make` is asked for one processor for each shard: as many as [`Config::shards`] says, or as the
/// machine allows; once more where a packet filter has come up that is against it, and has gone. Works in the calling
/// thread's network namespace, on the calling thread and on one more for each further shard. `events` gets what was set
/// up, warnings, and what happened.
///
/// # Errors
/// When it cannot start, or an interface is lost; everything is undone in both cases.
pub fn run<P: Processor + Send + 'static>(
    config: &Config,
    mut make: impl FnMut(usize) -> Result<Vec<P>, RunError>,
    events: &mut dyn EventSink,
) -> Result<Ended, RunError> {
    if config.inline.is_some() {
        return run_at::<BridgedSite, P>(config, make, events);
    }
    // What comes between two starts counts, too.
    let signals = CaughtSignals::catch()?;
    let mut ended = run_at::<RoutedSite, P>(config, &mut make, events)?;
    // There is nobody any more whose place it could take.
    let config = Config { replace: None, recover: None, replaced_process: None, ..config.clone() };
    while ended.why == Why::Filter {
        ended.tell(events);
        ended = loop {
            if let Some(why) = stand_by(&config, &signals, events)? {
                return Ok(Ended::of_nothing(why));
            }
            match run_at::<RoutedSite, P>(&config, &mut make, events) {
                // It has come back at once.
                Err(RunError::Filtered { .. } | RunError::NoTcx(_)) => {}
                ended => break ended?,
            }
        };
    }
    Ok(ended)
}

fn run_at<S: Site, P: Processor + Send + 'static>(
    config: &Config,
    make: impl FnOnce(usize) -> Result<Vec<P>, RunError>,
    events: &mut dyn EventSink,
) -> Result<Ended, RunError> {
    S::NEEDS.iter().try_for_each(|feature| features::require(*feature))?;
    // Before anything is set up, so that no signal can end us in between.
    let signals = CaughtSignals::catch()?;
    // Before another program is started, that would inherit it.
    let lifeline = Lifeline::inherited();
    let broadcaster = EventBroadcaster::start()?;
    if config.log_flows {
        log::follow_flows(&broadcaster, &config.instance_name())?;
    }
    let events: &mut dyn EventSink = &mut Announcer { inner: events, broadcaster: broadcaster.clone() };
    let netlink = Netlink::open()?;
    let namespace = NamespaceId::here()?;
    let stored = Stored::find(config, namespace)?;
    let place_lock = PlaceLock::take(config)?;
    let mut own = Config { replaced_process: place_lock.as_ref().map(PlaceLock::process), ..config.clone() };
    if let Some(stored) = &stored {
        own.recover = Some(stored.path()?);
    }
    let config = &own;
    let (stored, dead) = stored.map(Stored::into_crashed).unzip();
    let removed = match config.recover {
        // Of the one that has died everything is still needed.
        Some(_) => Removed::default(),
        None => leftovers::remove(&config.state_directory, &netlink, namespace)?,
    };
    removed.events.iter().for_each(|event| events.on_event(event));
    let instance = match config.recover {
        // The flows of the one that has died do not wait for room on a disk.
        Some(_) => Instance::register_sooner_or_later(&config.state_directory, instances::KIND)?,
        None => Instance::register(&config.state_directory, instances::KIND)?,
    };
    let (mut site, mut mode) = find_site::<S>(config, &netlink, namespace, &instance, stored, events)?;
    let mut processors = make(site.shards())?;
    if let StartMode::Upgrade(adopted) = &mode
        && adopted.kept.inventory.held > memory_of(&processors)
    {
        let (held, memory) = (adopted.kept.inventory.held, memory_of(&processors));
        let why = format!("it holds {held} bytes, the new one may hold {memory}");
        stand_behind::<S>(config, why, events)?;
        (site, mode) = (S::survey(config, &netlink, namespace)?, StartMode::Fresh);
    }
    let journal_alarm = FullAlarm::default();
    let before = match &mode {
        StartMode::Upgrade(adopted) => Some(adopted.directory()),
        StartMode::Fresh | StartMode::Recovery(_) => None,
    };
    let journals =
        NewJournals { config, instance: &instance, headers: site.link_headers(), alarm: &journal_alarm };
    let (journals, has_journal) = journals.make(processors.len(), before)?;
    let shared = share_journals(&instance, &journals)?;
    if let StartMode::Upgrade(adopted) = &mut mode {
        adopted.has_journal = has_journal;
    }
    prepare(&mut processors, &site, config, journals);
    if config.may_have_successor() {
        die_of_panics(instance.path());
    }
    let ground = Ground { config, netlink: &netlink, instance: &instance, namespace };
    let start = Start {
        removed,
        journal_alarm,
        journals: shared,
        processors,
        mode,
        place_lock,
        broadcaster: broadcaster.clone(),
        lifeline,
    };
    let mut supervisor = start.supervise(&mut site, ground, events)?;
    dead.map_or(Ok(()), Leftover::forget)?;
    let result = supervisor.serve(&signals);
    let ended = supervisor.close(result);
    broadcaster.part();
    ended
}

/// The control socket; who must go on without room for one gets it later.
fn open_console(ground: Ground<'_>, broadcaster: &EventBroadcaster) -> Result<Console, RunError> {
    let group = ground.config.look_group;
    let opened = Console::open(ground.instance.path(), broadcaster.clone(), group);
    match ground.config.recover {
        Some(_) => opened.or_else(|_| Ok(Console::nowhere(broadcaster.clone(), group)?)),
        None => Ok(opened?),
    }
}

/// Source of the resources that this instance begins with.
#[derive(Debug)]
enum StartMode {
    /// All is new; another instance may stand before this one.
    Fresh,
    /// One that has died.
    Recovery(CrashedInstance),
    /// One that runs.
    Upgrade(Adopted),
}

/// Site to attach to: devices of an instance before this one, or new ones.
fn find_site<S: Site>(
    config: &Config,
    netlink: &Netlink,
    namespace: NamespaceId,
    instance: &Instance,
    stored: Option<CrashedInstance>,
    events: &mut dyn EventSink,
) -> Result<(S, StartMode), RunError> {
    if let Some(record) = &config.recover {
        let mut crashed = stored.map_or_else(|| CrashedInstance::receive(record), Ok)?;
        let site = S::inherit(config, netlink, &mut crashed.kept, crashed.record.clone())?;
        return Ok((site, StartMode::Recovery(crashed)));
    }
    if config.replace.is_some() {
        let why = match Adopted::ask(config, instance)? {
            Ok(mut adopted) => {
                let record = adopted.record()?;
                match S::inherit(config, netlink, &mut adopted.kept, record) {
                    Ok(site) => return Ok((site, StartMode::Upgrade(adopted))),
                    Err(error) => error.to_string(),
                }
            }
            Err(why) => why,
        };
        stand_behind::<S>(config, why, events)?;
    }
    Ok((S::survey(config, netlink, namespace)?, StartMode::Fresh))
}

/// Says why this instance is to stand behind the one that it replaces.
///
/// # Errors
/// When it cannot: then that one goes on.
fn stand_behind<S: Site>(config: &Config, why: String, events: &mut dyn EventSink) -> Result<(), RunError> {
    if !S::STANDS_BEHIND {
        let name = config.replace.clone().unwrap_or_default();
        return Err(RunError::NotReplaced { name, why });
    }
    events.on_event(&Event::DevicesNotTakenOver { why });
    Ok(())
}

/// Bytes that all of them together may hold.
fn memory_of<P: Processor>(processors: &[P]) -> u64 {
    processors.iter().map(|processor| processor.memory().0).sum()
}

/// Parts that journals are made of.
#[derive(Clone, Copy)]
pub(super) struct NewJournals<'a> {
    pub config: &'a Config,
    pub instance: &'a Instance,
    pub headers: Option<&'a SharedHeaders>,
    pub alarm: &'a FullAlarm,
}

/// Descriptors of journals, for whoever is to read them once this process has died.
pub(super) fn share_journals(
    instance: &Instance,
    journals: &[[FlowJournal; 2]],
) -> Result<Journals, RunError> {
    let shared = journals.iter().flatten().map(FlowJournal::share).collect::<Result<_, _>>()?;
    Ok(Journals::with(instance.path(), shared))
}

impl NewJournals<'_> {
    /// Those of `shards` shards; true with them when they are those of the instance whose directory is `before`.
    fn make(self, shards: usize, before: Option<&Path>) -> Result<(Vec<[FlowJournal; 2]>, bool), RunError> {
        let Self { config, instance, headers, alarm } = self;
        let wants_records = config.may_have_successor();
        let own = instance.path();
        if let Some(before) = before {
            let continued =
                |shard| FlowJournal::continue_both(before, own, shard, headers, wants_records, alarm);
            if let Some(all) = (0..shards).map(continued).collect() {
                return Ok((all, true));
            }
            // Not all of them: then none.
            journal::discard(own);
        }
        self.create(shards).map(|journals| (journals, false))
    }

    /// New ones of `shards` shards. Those of a process that must go on need no room in its directory.
    pub fn create(self, shards: usize) -> Result<Vec<[FlowJournal; 2]>, RunError> {
        let Self { config, instance, headers, alarm } = self;
        let wants_records = config.may_have_successor();
        let create = |shard| {
            FlowJournal::create_both(instance.path(), shard, headers, wants_records, alarm).or_else(|error| {
                config.recover.as_ref().ok_or(error)?;
                FlowJournal::create_without_names(headers, wants_records, alarm)
            })
        };
        Ok((0..shards).map(create).collect::<Result<_, _>>()?)
    }
}

/// Gives each processor its journals, and tells it what packets may be sent.
fn prepare<P: Processor>(
    processors: &mut [P],
    site: &impl Site,
    config: &Config,
    journals: Vec<[FlowJournal; 2]>,
) {
    let (links, route_mtus) = (site.links(), site.route_mtus());
    for (processor, [down, up]) in processors.iter_mut().zip(journals) {
        processor.keep_journals(Box::new(down), Box::new(up));
        for side in Port::BOTH {
            let mtu = links[side.index()].1.min(route_mtus[side.index()]);
            processor.set_mtu(side, mtu, Clock::now());
        }
        if !config.gso {
            processor.refuse_super_packets();
        }
        if config.inline.is_some() {
            // What passes needs the link header that it came with.
            processor.refuse_to_schedule();
        }
    }
}

/// State before anything is attached.
struct Start<P> {
    removed: Removed,
    journal_alarm: FullAlarm,
    journals: Journals,
    processors: Vec<P>,
    mode: StartMode,
    place_lock: Option<PlaceLock>,
    broadcaster: EventBroadcaster,
    lifeline: Option<Lifeline>,
}

impl<P: Processor + Send + 'static> Start<P> {
    /// Reads what hand-overs need, and gives each processor its ways to the other boxes.
    fn prepare_handovers(
        &mut self,
        config: &Config,
        notes_at: PathBuf,
        events: &mut dyn EventSink,
    ) -> Result<Option<handover::Prepared>, RunError> {
        let Some(wanted) = &config.handover else { return Ok(None) };
        let prepared = handover::Prepared::new(wanted, config.ipv6_prefix_len, notes_at)?;
        let cautions = prepared.cautions();
        cautions.into_iter().for_each(|advice| events.on_event(&Event::Caution { advice }));
        for one in &mut self.processors {
            one.set_outlets(prepared.outlets(), config.ipv6_prefix_len, prepared.ledger());
        }
        Ok(Some(prepared))
    }

    /// Attaches, and starts whatever works beside the packet loop of this thread.
    fn supervise<'a, S: Site>(
        mut self,
        site: &'a mut S,
        ground: Ground<'a>,
        events: &'a mut dyn EventSink,
    ) -> Result<Supervisor<'a, S::Attachment<'a>, P>, RunError> {
        let config = ground.config;
        let feedback =
            config.feedback.as_ref().map(|wanted| self.listen(config, wanted)).transpose()?.flatten();
        let (links, route_mtus) = (site.links(), site.route_mtus());
        let (paths, attachment) = site.attach(ground, events)?;
        let guardian =
            if config.watchdog.is_wanted { Some(Guardian::start(config, ground.instance)?) } else { None };
        let bypass = attachment.bypass().filter(|_| config.bypass).cloned();
        let broadcaster = self.broadcaster.clone();
        let routes = attachment.subscribers().cloned();
        let no_new_flows = Arc::new(AtomicBool::new(false));
        let loops = paths.into_iter().map(|path| {
            let packet_loop = PacketLoop::new(path, bypass.clone()).leading(routes.clone());
            packet_loop.reporting(broadcaster.clone()).refusing(Arc::clone(&no_new_flows))
        });
        let notes_at = Ledger::path(&config.state_directory, ground.namespace, &config.instance_name());
        let prepared = self.prepare_handovers(config, notes_at, events)?;
        let mut places = loops.zip(self.processors);
        let (packet_loop, processor) =
            places.next().ok_or_else(|| RunError::Settings("no shards".to_owned()))?;
        let interfaces = Interfaces::new([&config.wired, &config.mobile], links);
        let mut supervisor = Supervisor {
            ground,
            attachment,
            packet_loop,
            processor,
            shards: Shards::new(config.ipv6_prefix_len)?,
            links: Links { interfaces, route_mtus, changes: LinkEvents::open()?, said: None },
            passing: Passing::No,
            pulse: Pulse {
                last_alive: Clock::now(),
                next_beat: Instant::ZERO,
                service: Service::find(),
                guardian,
                is_unsteered: false,
            },
            inputs: Inputs {
                waiter: Waiter::new(config.spin_margin())?,
                lifeline: self.lifeline.take(),
                console: open_console(ground, &self.broadcaster)?,
                reports: Reports { receiver: None, next_look: Instant::ZERO },
                handovers: None,
            },
            settling: None,
            successor_needs: SuccessorNeeds::with(self.journals),
            upgrade: UpgradeState { place_lock: self.place_lock.take(), ..UpgradeState::default() },
            warnings: Warnings { journal_alarm: self.journal_alarm, ..Warnings::default() },
            patience: Patience::default(),
            started_at: Clock::now(),
            ab: None,
            stop: None,
            no_new_flows: Arc::clone(&no_new_flows),
            events,
        };
        supervisor.watch()?;
        supervisor.begin(self.mode, feedback, prepared, places.collect())?;
        if !self.removed.indebted.is_empty() {
            supervisor.settling = Some(Settling::of(self.removed.indebted, Vec::new(), config));
        }
        Ok(supervisor)
    }

    /// Receives reports of base stations, unless one that is replaced listens there still.
    fn listen(
        &mut self,
        config: &Config,
        wanted: &FeedbackConfig,
    ) -> Result<Option<FeedbackReceiver>, RunError> {
        if let StartMode::Upgrade(adopted) = &mut self.mode
            && let Some(receiver) = adopted.take_reports(wanted)
        {
            return Ok(Some(receiver));
        }
        match config.replace {
            Some(_) => FeedbackReceiver::open_if_free(wanted),
            None => FeedbackReceiver::open(wanted).map(Some),
        }
    }
}

/// A packet loop of a thread of its own, with its processor.
type Place<A, P> = (PacketLoop<<A as Attachment>::Path>, P);

impl<A: Attachment, P: Processor + Send + 'static> Supervisor<'_, A, P> {
    /// Takes over what there is to take over, and starts all shards; this thread's packets are read after it.
    fn begin(
        &mut self,
        mut mode: StartMode,
        feedback: Option<FeedbackReceiver>,
        prepared: Option<handover::Prepared>,
        mut places: Vec<Place<A, P>>,
    ) -> Result<(), RunError> {
        let (config, namespace) = (self.ground.config, self.ground.namespace);
        self.take_stock(&places)?;
        if let StartMode::Upgrade(adopted) = &mut mode {
            // Before they are ours: if this process dies then, its watchdog sees by the record whether they are.
            self.successor_needs.memories = adopted.kept.take_memories();
            self.successor_needs.history = adopted.kept.inventory.history;
            self.successor_needs.history.upgrades += 1;
            self.entrust();
            self.expect_flows(adopted.kept.inventory.flows as usize, &mut places);
        }
        let before = match &mode {
            StartMode::Upgrade(adopted) => Some(adopted.name()),
            _ => self.attachment.predecessor().map(Predecessor::name),
        };
        let before = before.filter(|before| *before != config.instance_name()).map(str::to_owned);
        self.take_over(feedback, mode, &mut places)?;
        if let (Some(prepared), Some(before)) = (&prepared, before) {
            prepared.ledger().take_over(&Ledger::path(&config.state_directory, namespace, &before));
        }
        // Before the first packet.
        let notes = prepared.as_ref().map(|prepared| prepared.ledger().read()).unwrap_or_default();
        self.remember(&notes, &mut places);
        self.take_stock(&places)?;
        self.entrust();
        self.start_shards(places)?;
        prepared.map_or(Ok(()), |prepared| self.receive_subscribers(prepared, notes))?;
        if let Some(time_max) = self.successor_needs.ends_within.take() {
            self.begin_stop(Why::Drain, Some(time_max));
        }
        Ok(())
    }

    /// Makes room for flows that are to come, divided among this shard and the others.
    fn expect_flows(&mut self, flows: usize, others: &mut [Place<A, P>]) {
        let flows = flows / (1 + others.len());
        let others = others.iter_mut().map(|(_, processor)| processor);
        let processors = std::iter::once(&mut self.processor).chain(others);
        for (processor, memory) in processors.zip(&self.successor_needs.memories) {
            processor.expect_flows(flows, memory.as_ref().map(AsFd::as_fd));
        }
    }

    /// Gives each shard the notes of its subscribers.
    fn remember(&mut self, notes: &[Note], others: &mut [Place<A, P>]) {
        let (count, prefix_len) = (1 + others.len(), self.ground.config.ipv6_prefix_len);
        let others = others.iter_mut().map(|(_, processor)| processor);
        for (shard, processor) in std::iter::once(&mut self.processor).chain(others).enumerate() {
            let is_its = |note: &&Note| shard_of(note.name().subscriber, prefix_len, count) == shard;
            processor.remember(&notes.iter().filter(is_its).cloned().collect::<Vec<_>>());
        }
    }

    /// Starts the threads of all shards but this one.
    fn start_shards(&mut self, others: Vec<Place<A, P>>) -> Result<(), RunError> {
        let config = self.ground.config;
        for (packet_loop, processor) in others {
            // Twice between two looks at it: one that is alive is never taken for silent.
            let (heartbeat, hang_after) = (config.heartbeat() / 2, config.hang_after());
            let bypass = self.attachment.bypass().cloned();
            let terms = Terms { heartbeat, hang_after, bypass, spin_margin: config.spin_margin() };
            self.shards.start(packet_loop, processor, terms)?;
        }
        Ok(())
    }

    /// Has everything reported that is there from the start.
    fn watch(&self) -> Result<(), RunError> {
        self.packet_loop.path().watch(&self.inputs.waiter, PATHS)?;
        if let Some(fd) = self.pulse.guardian.as_ref().and_then(Guardian::fd) {
            self.inputs.waiter.add(&fd, Interest::Read, WATCHDOG)?;
        }
        if let Some(line) = &self.inputs.lifeline {
            self.inputs.waiter.add(line, Interest::Read, LIFELINE)?;
        }
        self.inputs.waiter.add(self.shards.news(), Interest::Read, SHARDS)?;
        self.inputs.waiter.add(&self.inputs.console, Interest::Read, CONSOLE)?;
        Ok(self.inputs.waiter.add(&self.links.changes, Interest::Read, LINKS)?)
    }

    /// Has subscribers go to other boxes and come from them.
    fn receive_subscribers(
        &mut self,
        prepared: handover::Prepared,
        notes: Vec<Note>,
    ) -> Result<(), RunError> {
        let (count, prefix_len) = (self.shards.count(), self.ground.config.ipv6_prefix_len);
        let shard_of = Box::new(move |client| shard_of(client, prefix_len, count));
        let memory_max = self.processor.memory().0 * count as u64 / 4;
        let lease = self.processor.debt_timeout();
        let hands = self.shards.hands();
        let handovers = Handovers::start(prepared, hands, shard_of, lease, memory_max, notes)?;
        self.inputs.waiter.add(handovers.woken(), Interest::Read, HANDOVERS)?;
        self.inputs.handovers = Some(handovers);
        Ok(())
    }

    /// Takes over the flows of the instance whose place this one takes, if there is one, and has it end; has
    /// reports of base stations received. `others` are further shards.
    fn take_over(
        &mut self,
        feedback: Option<FeedbackReceiver>,
        mode: StartMode,
        others: &mut [(PacketLoop<A::Path>, P)],
    ) -> Result<(), RunError> {
        let config = self.ground.config;
        self.inputs.reports.receiver = feedback;
        // Last, so that it goes on where this start fails; before the first packet is read here, so that no
        // flow is taken over by both. It ends by itself once its flows are ours.
        let is_replacing = match mode {
            StartMode::Recovery(crashed) => self.recover_flows(crashed, others).map(|()| false)?,
            StartMode::Upgrade(adopted) => self.upgrade_from(adopted, others).map(|()| true)?,
            StartMode::Fresh => {
                let are_taken = self.take_flows(others);
                if !are_taken && self.attachment.predecessor().is_some() && config.handover.is_some() {
                    let name = config.replace.clone().unwrap_or_default();
                    let why = "its flows do not move, and other boxes would speak with both";
                    return Err(RunError::NotReplaced { name, why: why.to_owned() });
                }
                if !are_taken && self.attachment.predecessor().is_some() {
                    // It may end at once.
                    self.pulse.service.main_is(self.pulse.main_process());
                }
                are_taken || self.attachment.retire_predecessor()?
            }
        };
        if is_replacing {
            self.events.on_event(&Event::Replacing { name: config.replace.clone().unwrap_or_default() });
            if let Some(wanted) = config.feedback.as_ref().filter(|_| self.inputs.reports.receiver.is_none())
            {
                // The other one has closed its own. There is no way back any more.
                match FeedbackReceiver::open(wanted) {
                    Ok(receiver) => self.inputs.reports.receiver = Some(receiver),
                    Err(error) => self.events.on_event(&Event::WithoutReports { error: error.to_string() }),
                }
            }
        }
        if let Some(receiver) = &self.inputs.reports.receiver {
            self.inputs.waiter.add(receiver, Interest::Read, FEEDBACK)?;
        }
        Ok(())
    }
}
