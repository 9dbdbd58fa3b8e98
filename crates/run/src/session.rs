//! [`run`]: from the first check to the last thing undone.

use std::thread::JoinHandle;

use engine::Port;
use io::features::{self, Feature};
use io::netlink::{LinkEvents, Netlink};
use io::{Clock, Instance, Interest, Namespace, Signals, Tun, Waiter};
use units::{Bytes, Duration, Instant};

use crate::console::{Answer, Console, Question, Reply};
use crate::feedback::{FeedbackConfig, FeedbackReceiver};
use crate::handover::Predecessor;
use crate::interfaces::Interfaces;
use crate::journal::{self, DebtJournal, FullAlarm};
use crate::packet_loop::PacketLoop;
use crate::packet_path::PacketPath;
use crate::patience::Patience;
use crate::recovery::Passage;
use crate::shards::{self, Command, Report, Shards, Terms};
use crate::steering::{self, Method, Steering, Tcx};
use crate::tun_path::TunPath;
use crate::watchdog::{Guardian, News};
use crate::{
    AfterHang, Config, Counters, Plan, Processor, ProcessorStatus, RunError, Status, inline, leftovers,
    recovery,
};
use upkeep::Passing;

mod upkeep;

/// How an instance ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub why: Why,
    /// What passed through.
    pub counters: Counters,
    /// Packets lost because the devices' queues were full: wired, then mobile.
    pub queue_drops: [u64; 2],
    /// What the processors have counted.
    pub processor: ProcessorStatus,
}

/// Why an instance ended in good order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A signal (its number) asked for it.
    Signal(i32),
    /// It had hung, and the configuration says to end then.
    Hang,
    /// Somebody asked it to drain.
    Drain,
}

/// Times at which two starts may have chosen the same numbers before the second one gives up.
const PLAN_ATTEMPTS: usize = 10;

const WIRED: u64 = 0;
const MOBILE: u64 = 1;
const SIGNAL: u64 = 2;
const WATCHDOG: u64 = 3;
const CONSOLE: u64 = 4;
const FEEDBACK: u64 = 5;
const SHARDS: u64 = 6;
const LINKS: u64 = 7;

/// While packets keep coming, reports are looked for this often.
pub(crate) const FEEDBACK_EVERY: Duration = Duration::from_millis(1);

/// Flows in one answer: few enough for the packets not to notice.
pub(crate) const FLOWS_PER_ANSWER: usize = 2_000;

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// Those that end the instance, and the one that has it read its settings anew: neither hides the other.
#[derive(Debug)]
pub(crate) struct CaughtSignals {
    pub ending: Signals,
    pub reload: Signals,
    /// The end of the terminal ends it too: it was not started to outlive that.
    pub ends_with_terminal: bool,
}

impl CaughtSignals {
    pub fn catch() -> Result<Self, RunError> {
        let ends_with_terminal = !io::is_signal_ignored(SIGHUP);
        let [ending, reload] = [&[SIGINT, SIGTERM][..], &[SIGHUP]].map(Signals::catch);
        Ok(Self { ending: ending?, reload: reload?, ends_with_terminal })
    }
}

/// The end, asked for: why, and until when to deliver what is owed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub why: Why,
    pub give_up: Instant,
}

/// Decides what would be set up, and changes nothing.
///
/// # Errors
/// As [`run`] before anything is touched.
pub fn dry_run(config: &Config) -> Result<Plan, RunError> {
    // Without, what it would see of programs and rules is not what there is.
    features::require(Feature::NetworkAdministration)?;
    Plan::make(config, &Netlink::open()?)
}

/// Steers TCP between the two interfaces through processors until a signal comes; then undoes everything.
///
/// `make` is asked for one processor for each shard: as many as [`Config::shards`] says, or as the machine allows. Works
/// in the calling thread's network namespace, on the calling thread and on one more for each further shard. `say` gets
/// one line at a time for the user: what was set up, warnings, what happened.
///
/// # Errors
/// When it cannot start, or an interface is lost; everything is undone in both cases.
pub fn run<P: Processor + Send + 'static>(
    config: &Config,
    make: impl FnOnce(usize) -> Result<Vec<P>, RunError>,
    say: &mut dyn FnMut(&str),
) -> Result<Ended, RunError> {
    if config.inline.is_some() {
        return inline::run(config, make, say);
    }
    features::require(Feature::NetworkAdministration)?;
    features::require(Feature::Tun)?;
    // Before anything is set up, so that no signal can end us in between.
    let signals = CaughtSignals::catch()?;
    let netlink = Netlink::open()?;
    let namespace = Namespace::current()?.id()?;
    let removed = leftovers::remove(&config.state_directory, &netlink, namespace)?;
    removed.lines.iter().for_each(|line| say(line));
    let Made { plan, tcx, paths } = make_devices(config, &netlink)?;
    let instance = Instance::register(&config.state_directory, leftovers::KIND)?;
    let mut processors = make(plan.shards)?;
    let journal_alarm = FullAlarm::default();
    for (shard, processor) in processors.iter_mut().enumerate() {
        let [down, up] = DebtJournal::create_both(instance.path(), shard, None, &journal_alarm)?;
        processor.keep_journals(Box::new(down), Box::new(up));
        Port::BOTH.iter().for_each(|side| processor.set_mtu(*side, plan.path_mtu(*side), Clock::now()));
        if !config.gso {
            processor.refuse_super_packets();
        }
    }
    // One that is replaced may listen there still.
    let open = if plan.predecessor.is_some() { FeedbackReceiver::open_if_free } else { open_feedback };
    let mut feedback = config.feedback.as_ref().map(open).transpose()?.flatten();
    let steering = Steering::install(&plan, &config.instance_name(), tcx, &netlink, &instance)?;
    let bypass = steering.bypass().filter(|_| config.bypass).cloned();
    for line in plan.commands() {
        say(&line);
    }
    for warning in plan.warnings() {
        say(&format!("warning: {warning}"));
    }
    let guardian = if config.watchdog { Some(Guardian::start(config, &instance)?) } else { None };
    let shards = Shards::new(config.ipv6_prefix_len)?;
    let loops = paths.into_iter().map(|path| PacketLoop::new(path, bypass.clone()));
    let mut places = loops.zip(processors);
    let (packet_loop, mut processor) =
        places.next().ok_or_else(|| RunError::Settings("no shards".to_owned()))?;
    let held = Held { plan: &plan, netlink: &netlink, instance: &instance, steering, guardian, shards };
    let mut session = Session::new(config, held, packet_loop)?;
    if let Some(before) = &plan.predecessor {
        // Last, so that it goes on where this start fails; before the first packet is read here, so that no flow is taken over by both.
        before.retire(config)?;
        say(&format!("replacing '{}'", config.replace.as_deref().unwrap_or_default()));
        if let Some(wanted) = config.feedback.as_ref().filter(|_| feedback.is_none()) {
            // The other one has closed its own. There is no way back any more.
            match FeedbackReceiver::open(wanted) {
                Ok(receiver) => feedback = Some(receiver),
                Err(error) => say(&format!("warning: {error}: going on without reports of base stations")),
            }
        }
    }
    session.listen(feedback)?;
    session.journal_alarm = journal_alarm;
    for (packet_loop, processor) in places {
        let (heartbeat, hang_after) = (config.heartbeat(), config.hang_after());
        let terms = Terms { heartbeat, hang_after, spin_margin: config.spin_margin() };
        session.shards.start(packet_loop, processor, terms)?;
    }
    if !removed.indebted.is_empty() {
        session.settling = Some(leftovers::settle(removed.indebted));
    }
    let result = session.serve(&signals, &mut processor, say);
    session.close(processor, result, say)
}

fn open_feedback(config: &FeedbackConfig) -> Result<Option<FeedbackReceiver>, RunError> {
    FeedbackReceiver::open(config).map(Some)
}

/// Ends the flows that are still owed something although it was stopped: their time was up.
pub(crate) fn settle(
    instance: &Instance,
    passage: Passage<'_>,
    netlink: &Netlink,
    say: &mut dyn FnMut(&str),
) -> Result<(), RunError> {
    let owed = journal::read(instance.path());
    if owed.is_empty() {
        return Ok(());
    }
    let bytes = owed.iter().map(|owed| u64::from(owed.entry.told.since(owed.entry.delivered))).sum();
    let bytes = Bytes::new(bytes);
    say(&format!("warning: {bytes} could not be delivered to {} flows in time: resetting them", owed.len()));
    let outcome = recovery::reset_ends(&owed, passage, netlink)?;
    say(&format!("warning: {outcome}"));
    journal::discard(instance.path());
    Ok(())
}

/// What is there before anything is steered.
struct Made {
    plan: Plan,
    tcx: Option<Tcx>,
    /// One for each shard.
    paths: Vec<TunPath>,
}

/// Plans and makes the devices; a start at the same moment may take the names first, then plans anew.
fn make_devices(config: &Config, netlink: &Netlink) -> Result<Made, RunError> {
    const EBUSY: i32 = 16;
    let mut attempt = 1;
    loop {
        let mut plan = Plan::make(config, netlink)?;
        match steering::create_devices(&plan) {
            Ok(tuns) => {
                let tcx = steering::load(config, &mut plan, tuns.each_ref().map(Tun::index), netlink)?;
                let paths = open_paths(tuns, &plan, config.ipv6_prefix_len)?;
                return Ok(Made { plan, tcx, paths });
            }
            Err(e) if e.raw_os_error() == Some(EBUSY) && attempt < PLAN_ATTEMPTS => attempt += 1,
            Err(e) => return Err(e.into()),
        }
    }
}

/// A queue of either device for each shard.
fn open_paths(tuns: [Tun; 2], plan: &Plan, ipv6_prefix_len: u8) -> Result<Vec<TunPath>, RunError> {
    let are_routed = plan.method != Method::Tcx;
    let mut further = Vec::new();
    if plan.shards > 1 {
        for (tun, side) in tuns.iter().zip([Port::Wired, Port::Mobile]) {
            shards::install(tun, side, ipv6_prefix_len)?;
        }
        let [wired, mobile] = &tuns;
        for _ in 1..plan.shards {
            further.push(TunPath::new([wired.open_queue()?, mobile.open_queue()?], are_routed));
        }
    }
    further.insert(0, TunPath::new(tuns.map(Tun::into_queue), are_routed));
    Ok(further)
}

/// Has the settings read anew; gives them, and a line either way.
pub(crate) fn reload<P: Processor>(processor: &mut P) -> Result<(P::Settings, String), String> {
    let settings = processor.read_settings();
    let applied = settings.and_then(|settings| processor.apply(&settings).map(|line| (settings, line)));
    match applied {
        Ok((settings, line)) => Ok((settings, format!("reloaded: {line}"))),
        Err(problem) => Err(format!("not reloaded, all is as before: {problem}")),
    }
}

/// Waits for the thread that resets flows of a killed instance.
pub(crate) fn end_settling(settling: Option<JoinHandle<Vec<String>>>, say: &mut dyn FnMut(&str)) {
    let lines = settling.map(JoinHandle::join);
    lines.into_iter().flatten().flatten().for_each(|line| say(&line));
}

/// What was made before the session.
struct Held<'a, P: Processor> {
    plan: &'a Plan,
    netlink: &'a Netlink,
    instance: &'a Instance,
    steering: Steering<'a>,
    guardian: Option<Guardian>,
    shards: Shards<P>,
}

/// Everything a running instance holds. Fields are dropped in order: the steering before the devices.
struct Session<'a, P: Processor> {
    config: &'a Config,
    plan: &'a Plan,
    netlink: &'a Netlink,
    instance: &'a Instance,
    steering: Steering<'a>,
    packet_loop: PacketLoop<TunPath>,
    interfaces: Interfaces,
    link_events: LinkEvents,
    /// An interface was made anew, and the programs are to follow.
    must_follow: bool,
    said_unsteered: Option<String>,
    passing: Passing,
    /// When the steering was told last that all shards are alive.
    last_alive: Instant,
    route_mtus: [u32; 2],
    next_routes: Instant,
    shards: Shards<P>,
    guardian: Option<Guardian>,
    /// The watchdog has taken the steering away, and it is to be installed again.
    is_unsteered: bool,
    waiter: Waiter,
    next_beat: Instant,
    /// Resets flows of a killed instance.
    settling: Option<JoinHandle<Vec<String>>>,
    journal_alarm: FullAlarm,
    patience: Patience,
    console: Console,
    feedback: Option<FeedbackReceiver>,
    next_feedback: Instant,
    started_at: Instant,
    stop: Option<Stop>,
    /// The instance whose place this one takes, while it is there.
    predecessor: Option<&'a Predecessor>,
}

impl<'a, P: Processor + Send + 'static> Session<'a, P> {
    fn new(
        config: &'a Config,
        held: Held<'a, P>,
        packet_loop: PacketLoop<TunPath>,
    ) -> Result<Self, RunError> {
        let Held { plan, netlink, instance, steering, guardian, shards } = held;
        let waiter = Waiter::new(config.spin_margin())?;
        packet_loop.path().watch(&waiter, [WIRED, MOBILE])?;
        if let Some(fd) = guardian.as_ref().and_then(Guardian::fd) {
            waiter.add(&fd, Interest::Read, WATCHDOG)?;
        }
        waiter.add(shards.news(), Interest::Read, SHARDS)?;
        let console = Console::open(instance.path())?;
        waiter.add(&console, Interest::Read, CONSOLE)?;
        let link_events = LinkEvents::open()?;
        waiter.add(&link_events, Interest::Read, LINKS)?;
        let names = Port::BOTH.map(|side| plan.side(side).interface.as_str());
        let [wired, mobile] = [0, 1].map(|at: usize| (plan.links[at], plan.mtus[at]));
        Ok(Self {
            config,
            plan,
            netlink,
            instance,
            steering,
            packet_loop,
            interfaces: Interfaces::new(names, [wired, mobile]),
            link_events,
            must_follow: false,
            said_unsteered: None,
            passing: Passing::No,
            last_alive: Clock::now(),
            route_mtus: plan.route_mtus,
            next_routes: Clock::now() + upkeep::ROUTES_EVERY,
            shards,
            guardian,
            is_unsteered: false,
            waiter,
            next_beat: Instant::ZERO,
            settling: None,
            journal_alarm: FullAlarm::default(),
            patience: Patience::default(),
            console,
            feedback: None,
            next_feedback: Instant::ZERO,
            started_at: Clock::now(),
            stop: None,
            predecessor: plan.predecessor.as_ref(),
        })
    }

    /// Has reports of base stations received.
    fn listen(&mut self, receiver: Option<FeedbackReceiver>) -> Result<(), RunError> {
        if let Some(receiver) = &receiver {
            self.waiter.add(receiver, Interest::Read, FEEDBACK)?;
        }
        self.feedback = receiver;
        Ok(())
    }

    /// Runs until there is a reason to end.
    fn serve(
        &mut self,
        signals: &CaughtSignals,
        processor: &mut P,
        say: &mut dyn FnMut(&str),
    ) -> Result<Why, RunError> {
        self.waiter.add(&signals.ending, Interest::Read, SIGNAL)?;
        self.waiter.add(&signals.reload, Interest::Read, SIGNAL)?;
        say(&format!("ready: steering TCP between {} and {}", self.config.wired, self.config.mobile));
        loop {
            self.notice_gap(processor);
            let is_busy =
                self.packet_loop.turn(processor).map_err(|e| explain(e, self.plan, self.netlink))?;
            let now = Clock::now();
            if let Some(stop) = self.stop
                && (self.is_drained(processor) || now >= stop.give_up)
            {
                return Ok(stop.why);
            }
            if let Some(receiver) = self.feedback.as_mut().filter(|_| now >= self.next_feedback) {
                let shards = &self.shards;
                receiver.turn(|client, feedback| {
                    let is_elsewhere = shards.hand_on(client, feedback);
                    (!is_elsewhere).then(|| processor.handle_feedback(client, feedback))
                });
                self.next_feedback = now + FEEDBACK_EVERY;
            }
            // While busy, signals and questions are looked at with each heartbeat.
            let mut is_asked = now >= self.next_beat;
            if now >= self.next_beat {
                self.next_beat = now + self.config.heartbeat();
                if let Some(why) = self.beat(processor, say)? {
                    self.begin_stop(why, None, processor);
                }
            }
            if !is_busy {
                let deadline = processor.next_deadline().map_or(self.next_beat, |at| at.min(self.next_beat));
                let ready = self.waiter.wait(Some(deadline))?;
                is_asked |= ready.iter().any(|ready| [SIGNAL, CONSOLE].contains(&ready.token));
                if ready.iter().any(|ready| ready.token == FEEDBACK) {
                    self.next_feedback = Instant::ZERO;
                }
                if ready.iter().any(|ready| ready.token == WATCHDOG) {
                    self.next_beat = Instant::ZERO;
                }
                if ready.iter().any(|ready| ready.token == LINKS) && self.link_events.take() {
                    self.next_beat = self.next_beat.min(now + upkeep::LINK_PAUSE);
                }
                if ready.iter().any(|ready| ready.token == SHARDS) {
                    self.shards.hear();
                    if self.shards.has_failed() {
                        self.next_beat = Instant::ZERO;
                    }
                }
            }
            if is_asked && let Some(why) = self.obey(signals, processor, say) {
                return Ok(why);
            }
        }
    }

    /// Acts on signals and questions; gives a reason to end without further patience.
    fn obey(&mut self, signals: &CaughtSignals, processor: &mut P, say: &mut dyn FnMut(&str)) -> Option<Why> {
        let mut ending = signals.ending.take();
        if let Some(signal) = signals.reload.take() {
            if processor.has_settings() {
                say(&self.reload(processor).unwrap_or_else(|problem| format!("warning: {problem}")));
            } else if signals.ends_with_terminal {
                ending = ending.or(Some(signal));
            }
        }
        while let Some(asked) = self.console.take() {
            let answer = self.answer(&asked.question, processor, say);
            asked.answer(answer);
        }
        let signal = ending?;
        match self.stop {
            // Asked twice.
            Some(Stop { why: Why::Signal(_), .. }) => Some(Why::Signal(signal)),
            _ => {
                self.begin_stop(Why::Signal(signal), None, processor);
                None
            }
        }
    }

    fn begin_stop(&mut self, why: Why, time_max: Option<Duration>, processor: &mut P) {
        let now = Clock::now();
        let time_max = time_max.unwrap_or(Duration::from_millis(self.config.drain_ms_max));
        let give_up = now + time_max;
        // A second wish can only shorten the time.
        let give_up = self.stop.map_or(give_up, |earlier| earlier.give_up.min(give_up));
        if self.stop.is_none() {
            processor.begin_drain(now);
            self.shards.tell_all(|| Command::Drain);
            // Who takes this one's place may listen at the same port.
            self.feedback = None;
        }
        self.stop = Some(Stop { why, give_up });
    }

    /// True when nobody owes anything.
    fn is_drained(&self, processor: &P) -> bool {
        processor.is_drained() && self.shards.are_drained()
    }

    /// Has the settings read anew, for all shards; gives a line either way.
    fn reload(&mut self, processor: &mut P) -> Result<String, String> {
        let (settings, line) = reload(processor)?;
        self.shards.tell_all(|| Command::Apply(settings.clone()));
        Ok(line)
    }

    fn answer(&mut self, question: &Question, processor: &mut P, say: &mut dyn FnMut(&str)) -> Reply {
        let answer = match *question {
            Question::Status => return self.status(processor),
            Question::Flows { skip } => {
                let own = processor.flows(skip, FLOWS_PER_ANSWER, Clock::now());
                let (asker, count) = (self.shards.asker(), processor.flow_count());
                let skip = skip.saturating_sub(count);
                return Box::new(move || Answer::Flows(asker.flows(own, skip, FLOWS_PER_ANSWER)));
            }
            Question::Drain { time_ms_max } => {
                self.begin_stop(Why::Drain, time_ms_max.map(Duration::from_millis), processor);
                Answer::Done("draining".to_owned())
            }
            Question::Reload => match self.reload(processor) {
                Ok(line) => {
                    say(&line);
                    Answer::Done(line)
                }
                Err(problem) => Answer::Refused(problem),
            },
        };
        Box::new(move || answer)
    }

    /// What this shard and all others have counted, the others' asked for by the thread that answers.
    fn status(&self, processor: &P) -> Reply {
        let (counters, status) = (self.packet_loop.counters(), processor.status());
        let own =
            Report { counters, processor: self.with_refusals(self.with_bypass(self.with_feedback(status))) };
        let queue_drops = [Port::Wired, Port::Mobile].map(|side| self.queue_drops(side));
        let status = Status {
            name: self.config.instance_name(),
            process: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            wired: self.config.wired.clone(),
            mobile: self.config.mobile.clone(),
            interfaces: Port::BOTH.map(|side| self.interfaces.condition(side).name().to_owned()),
            is_draining: self.stop.is_some(),
            uptime_s: Clock::now().saturating_since(self.started_at).as_millis() / 1_000,
            resident_bytes: io::resident_bytes().unwrap_or(0),
            steering: self.plan.method.name().to_owned(),
            ..Status::default()
        };
        let asker = self.shards.asker();
        Box::new(move || {
            let mut reports = vec![own];
            reports.extend(asker.reports());
            Answer::Status(Box::new(status.with_reports(&reports, queue_drops)))
        })
    }

    /// With what became of the base stations' reports among the counters.
    fn with_feedback(&self, mut status: ProcessorStatus) -> ProcessorStatus {
        let counters = self.feedback.as_ref().map(FeedbackReceiver::counters);
        let counters = counters.map(|own| {
            let (accepted, unknown) = self.shards.feedback();
            own.with_those_of_shards(accepted, unknown)
        });
        let named = counters.map(|counters| counters.named()).into_iter().flatten();
        status.counters.extend(named.map(|(name, value)| (name.to_owned(), value)));
        status
    }

    /// With the flows left to the kernel among the counters.
    fn with_bypass(&self, mut status: ProcessorStatus) -> ProcessorStatus {
        let named = self.steering.bypass().map(|bypass| bypass.counters().named());
        let named = named.into_iter().flatten().map(|(name, value)| (name.to_owned(), value));
        status.counters.extend(named);
        status
    }

    /// With what the kernel has refused for the moment.
    fn with_refusals(&self, mut status: ProcessorStatus) -> ProcessorStatus {
        status.counters.insert("kernel_refusals".to_owned(), self.patience.failed());
        status
    }

    /// What is done a few times a second: heartbeat, news of the watchdog, state of the interfaces.
    fn beat(&mut self, processor: &mut P, say: &mut dyn FnMut(&str)) -> Result<Option<Why>, RunError> {
        let are_alive = self.are_alive(processor);
        if are_alive {
            self.steering.beat();
        }
        let checked = self.check_interfaces(processor, say);
        self.patience.with(checked, say)?;
        let checked = self.check_routes(processor, say);
        self.patience.with(checked, say)?;
        if self.shards.has_failed() {
            return Err(RunError::ShardLost);
        }
        if let Some(line) = self.journal_alarm.take() {
            say(&line);
        }
        if self.settling.as_ref().is_some_and(JoinHandle::is_finished) {
            end_settling(self.settling.take(), say);
        }
        if self.predecessor.is_some_and(|before| !before.is_there(self.config))
            && self.patience.with(self.steering.unchain(), say)?.is_some()
        {
            self.predecessor = None;
            say("the replaced one has ended");
        }
        if let Some(why) = self.hear_watchdog(are_alive, say)? {
            return Ok(Some(why));
        }
        self.resynchronise(processor);
        // What the watchdog has taken away stays away until all shards are alive.
        if !are_alive || self.is_unsteered {
            return Ok(None);
        }
        if self.patience.with(self.steering.ensure_notrack(), say)? == Some(true) {
            say("warning: the nft table had vanished and was installed again");
        }
        self.patience.with(self.steering.ensure_paths().map_err(RunError::from), say)?;
        let added = self.steering.ensure_rules().map_err(RunError::from);
        if let Some(added) = self.patience.with(added, say)?.filter(|added| *added > 0) {
            say(&format!(
                "warning: {added} policy rules had vanished and were installed again; does another program manage them?"
            ));
        }
        Ok(None)
    }

    /// Sends the heartbeat if all shards are alive, and acts on what the watchdog did.
    fn hear_watchdog(&mut self, are_alive: bool, say: &mut dyn FnMut(&str)) -> Result<Option<Why>, RunError> {
        let Some(guardian) = self.guardian.as_mut() else { return Ok(None) };
        match guardian.news() {
            Some(News::SteeringRemoved) if self.config.after_hang == AfterHang::Exit => {
                say("warning: this process had hung and the watchdog took the steering away: ending");
                return Ok(Some(Why::Hang));
            }
            Some(News::SteeringRemoved) => {
                self.is_unsteered = true;
                self.passing = Passing::Noticed;
                self.next_beat = Instant::ZERO;
            }
            Some(News::Died) => say("warning: the watchdog has ended: starting another one"),
            None => {}
        }
        // Not before all shards know that packets went past.
        let may_steer = are_alive && self.passing == Passing::No;
        if self.is_unsteered && may_steer && self.patience.with(self.steering.steer(), say)?.is_some() {
            self.is_unsteered = false;
            guardian.resumed();
            say("warning: this process had hung and the watchdog took the steering away: installed again");
        }
        // Without one the flows are better off than without us: it is tried again.
        match guardian.revive(self.instance) {
            Ok(true) => {
                if let Some(fd) = guardian.fd() {
                    self.waiter.add(&fd, Interest::Read, WATCHDOG)?;
                }
            }
            Ok(false) => {}
            Err(error) => say(&format!("warning: {error}: trying again")),
        }
        if are_alive {
            guardian.beat();
        }
        Ok(None)
    }

    /// Packets lost because the queue of a side's device was full.
    fn queue_drops(&self, side: Port) -> u64 {
        self.netlink.link(&self.plan.side(side).tun).map_or(0, |link| link.stats.tx_dropped)
    }

    /// Undoes everything: rules first, then what is still in the devices is passed on, then the rest.
    fn close(
        mut self,
        mut processor: P,
        result: Result<Why, RunError>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Ended, RunError> {
        let unsteered = self.steering.unsteer();
        let is_usable = result.is_ok();
        while is_usable && self.packet_loop.turn(&mut processor).unwrap_or(false) {}
        let queue_drops = [Port::Wired, Port::Mobile].map(|side| self.queue_drops(side));
        let mut counters = self.packet_loop.counters();
        let Self { config, plan, netlink, instance, steering, packet_loop, shards, guardian, .. } = self;
        let (settling, console) = (self.settling, self.console);
        drop(console);
        let (others, theirs, sharded) = shards.finish();
        counters.add(&theirs);
        let mut status = processor.status();
        others.iter().for_each(|other| status.add(&other.status()));
        // The journals are complete: no processor works any more.
        drop((processor, others));
        drop(steering);
        drop(packet_loop);
        let settled = settle(instance, Passage::Routed { mobile: &config.mobile }, netlink, say);
        end_settling(settling, say);
        if let Some(guardian) = guardian {
            guardian.finish()?;
        }
        let why = match (result, sharded) {
            (Err(RunError::ShardLost), Err(error)) => return Err(explain(error, plan, netlink)),
            (result, Err(error)) => {
                say(&format!("warning: {error}"));
                result?
            }
            (result, Ok(())) => result?,
        };
        unsteered?;
        settled?;
        Ok(Ended { why, counters, queue_drops, processor: status })
    }
}

/// A device of ours that is gone was deleted or switched off by somebody.
fn explain(error: io::IoError, plan: &Plan, netlink: &Netlink) -> RunError {
    let lost = plan
        .sides
        .iter()
        .find(|side| error.is_device_gone() && !netlink.link(&side.tun).is_ok_and(|link| link.is_up));
    lost.map_or_else(|| error.into(), |side| RunError::InterfaceLost(side.tun.clone()))
}
