//! [`Daemon`]: the loop that feeds [`multipath::Paths`] and does what it asks.

use std::collections::VecDeque;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;

use io::netlink::{
    DefaultRoute, Family, InterfaceIndex, LinkEvents, MptcpEventKind, MptcpEvents, MptcpLimits, Netlink,
};
use io::{Clock, Instance, Interest, Signals, Waiter};
use multipath::{Action, Cause, Change, Event, EventFile, PathId, PathSample, Paths, State};
use probe::Key;
use units::{Duration, Instant};

use crate::console::{Answer, Console, Question, Running};
use crate::demotion::{self, Demoted};
use crate::error::Context;
use crate::fallbacks::Counters;
use crate::guard::Guard;
use crate::hands::{Hands, Order};
use crate::interfaces::{self, Found};
use crate::kernel::Kernel;
use crate::others::Others;
use crate::per_subflow::PerSubflow;
use crate::prober::Prober;
use crate::profile::Profile;
use crate::record::{self, KIND, Record};
use crate::status::{EventLine, PathStatus, SCHEMA, Status, SubflowStatus};
use crate::strength::{ModemManager, Strength, StrengthFile, Wireless};
use crate::{ProbeBy, Settings, UplinkError, conflicts};

/// Between looks at the subflows while there are connections.
const SAMPLE_BUSY: Duration = Duration::from_millis(20);
/// The same without connections.
const SAMPLE_IDLE: Duration = Duration::from_millis(200);
/// Between looks at interfaces without news of them.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Between looks at radios and counters.
const STRENGTH_EVERY: Duration = Duration::from_millis(100);
/// A turn that took longer was the machine's fault: what is missing then may wait in a socket.
const PAUSE: Duration = Duration::from_millis(40);
const COUNTERS_EVERY: Duration = Duration::from_secs(1);
/// A default route that is gone for less was changed: its metric, by deleting and adding it.
const ROUTELESS: Duration = Duration::from_secs(1);
/// Probes without any answer since the start are said after so long.
const SILENCE: Duration = Duration::from_secs(5);
/// Number of the newest events that are kept for questions.
const EVENTS_KEPT: usize = 40;
/// The kernel allows no more.
const LIMITS: MptcpLimits = MptcpLimits { subflows: 8, add_addr_accepted: 8 };

const SIGNALS: u64 = 0;
const LINKS: u64 = 1;
const MPTCP: u64 = 2;
const CONSOLE: u64 = 3;
const HANDS: u64 = 4;
const PROBERS: u64 = 16;

/// End of a daemon.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ended {
    /// The signal, as `libc` numbers them.
    pub signal: i32,
    /// Endpoints that stay until the subflows that use them end.
    pub in_use: Vec<IpAddr>,
    /// Changes that could not be undone.
    pub problems: Vec<String>,
}

struct Uplink {
    interface: String,
    family: Family,
    found: Found,
    /// The address that is used.
    address: Option<IpAddr>,
    /// The interface's number when it was last there.
    index: Option<InterfaceIndex>,
    /// Since when it has had no default route, for so short that it is kept.
    routeless_since: Option<Instant>,
    prober: Option<Prober>,
    demoted: Vec<Demoted>,
    unjoined: u32,
}

impl Uplink {
    /// The interface's addresses, the one in use first; none without one.
    fn addresses(&self) -> Vec<IpAddr> {
        let Some(used) = self.address else { return Vec::new() };
        let others = self.found.usable.iter().map(|one| one.address).filter(|address| *address != used);
        [used].into_iter().chain(others).collect()
    }
}

/// A running daemon.
pub struct Daemon<'a> {
    settings: Settings,
    key: Option<Key>,
    instance: Option<Instance>,
    record: Record,
    guard: Option<Guard>,
    kernel: Kernel,
    per_subflow: Option<PerSubflow>,
    congestion: Option<coupled::Held>,
    hands: Hands,
    others: Others,
    /// The kernel told of something that may mean that an endpoint is gone.
    are_endpoints_doubtful: bool,
    netlink: Netlink,
    mptcp_events: Option<MptcpEvents>,
    link_events: LinkEvents,
    console: Console,
    paths: Paths,
    uplinks: Vec<Uplink>,
    strengths: Vec<Box<dyn Strength>>,
    counters: Counters,
    connections: u32,
    lacks: Vec<String>,
    /// Time at which the first probe left.
    unanswered_since: Option<Instant>,
    is_answered: bool,
    conflicts: Vec<String>,
    events: VecDeque<EventLine>,
    tell: &'a mut dyn FnMut(&EventLine),
    recording: Option<std::io::BufWriter<std::fs::File>>,
    started: Instant,
    waiter: Waiter,
}

impl<'a> Daemon<'a> {
    /// Sets everything up in this network namespace: what a killed daemon left is undone or adopted, sysctls
    /// and limits are set. `program` is this program, for the guard.
    ///
    /// # Errors
    /// Without MPTCP or privileges, when another daemon runs here, or nothing answers probes.
    pub fn start(
        settings: Settings,
        base: &Path,
        program: &Path,
        tell: &'a mut dyn FnMut(&EventLine),
    ) -> Result<Self, UplinkError> {
        io::features::require(io::features::Feature::NetworkAdministration)?;
        if settings.probes.is_empty() {
            return Err(UplinkError::Setting(
                "nothing answers probes: name a server (--server HOST, on which `cellerator probe server` runs) \
                 or an address (--ping ADDRESS)"
                    .to_owned(),
            ));
        }
        let kernel = Kernel::open()?;
        if let Ok(other) = Running::here(base) {
            return Err(UplinkError::Setting(format!(
                "a path manager runs here already (process {}): end it first",
                other.pid
            )));
        }
        let (adopted, problems) = record::take_over(base)?;
        let key = settings.key.as_deref().and_then(Key::new);
        let started = Clock::now();
        let recording = settings.record.as_ref().map(|path| {
            std::fs::File::create(path)
                .doing(|| format!("write {}", path.display()))
                .map(std::io::BufWriter::new)
        });
        let instance = Instance::register(base, KIND)?;
        let console = Console::open(instance.path())?;
        let mut daemon = Self {
            record: Record {
                namespace: record::own_namespace()?,
                endpoints: adopted.clone(),
                ..Record::default()
            },
            paths: Paths::new(settings.thresholds.clone()),
            key,
            guard: None,
            per_subflow: None,
            congestion: None,
            mptcp_events: None,
            link_events: LinkEvents::open_with_routes()?,
            netlink: Netlink::open()?,
            console,
            uplinks: Vec::new(),
            strengths: Vec::new(),
            counters: Counters::read(),
            connections: 0,
            lacks: Vec::new(),
            unanswered_since: None,
            is_answered: false,
            conflicts: conflicts(&kernel.manager().endpoints()?),
            events: VecDeque::new(),
            recording: recording.transpose()?,
            started,
            waiter: Waiter::new(Duration::ZERO)?,
            instance: Some(instance),
            kernel,
            hands: Hands::start()?,
            others: Others::default(),
            are_endpoints_doubtful: false,
            settings,
            tell,
        };
        daemon.prepare(program)?;
        for address in adopted {
            daemon.say("", format!("adopted the endpoint {address} of a daemon that was killed"));
        }
        problems.into_iter().for_each(|problem| daemon.say("", problem));
        Ok(daemon)
    }

    fn prepare(&mut self, program: &Path) -> Result<(), UplinkError> {
        self.strengths.extend(self.settings.strength_file.clone().map(|p| Box::new(StrengthFile(p)) as _));
        self.strengths.extend(Wireless::open().map(|w| Box::new(w) as _));
        self.strengths.extend(ModemManager::open().map(|m| Box::new(m) as _));
        match self.kernel.manager().events() {
            Ok(events) => self.mptcp_events = Some(events),
            Err(error) => self.lacks.push(format!("{error}: connections are seen a moment later")),
        }
        let limits = self.kernel.manager().limits()?;
        if limits != LIMITS {
            self.record.limits = Some((limits.subflows, limits.add_addr_accepted));
        }
        let (keep_alive, is_per_subflow) = (self.settings.keep_alive, self.settings.is_per_subflow);
        let profile = self.settings.with_profile.then(|| Profile::plan(keep_alive, is_per_subflow));
        self.record.sysctls = profile.as_ref().map(|p| p.before.clone()).unwrap_or_default();
        // Written before anything is changed, and watched over: a kill at any later moment is undone.
        self.write_record()?;
        let directory = self.instance.as_ref().map(|i| i.path().to_owned()).unwrap_or_default();
        match Guard::start(program, &directory) {
            Ok(guard) => {
                self.record.guard = Some(guard.pid());
                self.guard = Some(guard);
                self.write_record()?;
            }
            Err(error) => self.lacks.push(format!("no guard ({error}): after a kill, the next start undoes")),
        }
        self.kernel.manager().set_limits(LIMITS)?;
        self.lacks.extend(profile.iter().flat_map(Profile::apply));
        match is_per_subflow.then(|| PerSubflow::start(keep_alive)).transpose() {
            Ok(started) => self.per_subflow = started,
            Err(error) => self.lacks.push(format!("{error}: subflows have the host's time-outs")),
        }
        match self.settings.congestion.map(|scheme| coupled::Held::start(scheme, true)).transpose() {
            Ok(held) => self.congestion = held,
            Err(error) => self.lacks.push(format!("{error}: subflows are not coupled")),
        }
        if io::sysctl::read_here("net/mptcp/enabled").is_ok_and(|value| value == "0") {
            let how = "new connections are plain TCP: sysctl net.mptcp.enabled=1";
            self.lacks.push(format!("MPTCP is switched off here, {how}"));
        }
        let missing = interfaces::missing(&self.netlink, &self.settings)?;
        for line in self.conflicts.iter().chain(&self.lacks).cloned().chain(missing).collect::<Vec<_>>() {
            self.say("", line);
        }
        self.waiter.add(&self.link_events, Interest::Read, LINKS)?;
        self.waiter.add(&self.console, Interest::Read, CONSOLE)?;
        self.waiter.add(&self.hands.wake, Interest::Read, HANDS)?;
        if let Some(events) = &self.mptcp_events {
            self.waiter.add(events, Interest::Read, MPTCP)?;
        }
        Ok(())
    }

    fn write_record(&self) -> Result<(), UplinkError> {
        match &self.instance {
            Some(instance) => Ok(instance.record(&self.record.to_text())?),
            None => Ok(()),
        }
    }

    /// Runs until a signal comes, then undoes everything.
    ///
    /// # Errors
    /// The system refuses what it must not.
    pub fn run(mut self, signals: &Signals) -> Result<Ended, UplinkError> {
        self.waiter.add(signals, Interest::Read, SIGNALS)?;
        let outcome = self.turn(signals);
        let mut ended = self.finish();
        ended.signal = outcome?;
        Ok(ended)
    }

    fn turn(&mut self, signals: &Signals) -> Result<i32, UplinkError> {
        let (mut look, mut sample, mut strength, mut count) =
            (self.started, self.started, self.started, self.started);
        let mut awake = Clock::now();
        loop {
            let mut now = Clock::now();
            if now.saturating_since(awake) > PAUSE {
                self.paths.excuse(now);
            }
            self.excuse_routeless(now);
            // Before silence is judged.
            self.hear_answers();
            if let Some(signal) = signals.take() {
                return Ok(signal);
            }
            if self.link_events.take() || now >= look {
                self.look(now)?;
                look = now + LOOK_EVERY;
                // Whether a route is gone for good.
                let kept = self.uplinks.iter().filter_map(|uplink| uplink.routeless_since);
                look = kept.map(|since| since + ROUTELESS).chain([look]).min().unwrap_or(look);
            }
            if self.hears_of_connections() || now >= sample {
                self.sample(now)?;
                sample = now + if self.connections > 0 { SAMPLE_BUSY } else { SAMPLE_IDLE };
            }
            if now >= strength {
                self.read_strengths(now);
                strength = now + STRENGTH_EVERY;
            }
            if now >= count {
                let counters = Counters::read();
                let news = counters.news(&self.counters);
                self.counters = counters;
                news.into_iter().for_each(|line| self.say("", line));
                count = now + COUNTERS_EVERY;
                self.are_endpoints_doubtful = true;
            }
            self.hear_answers();
            self.tell_silence(now);
            self.hear_of_orders()?;
            self.answer_questions();
            now = Clock::now();
            while let Some(action) = self.paths.poll(now) {
                self.act(action, now)?;
            }
            self.tell_changes();
            self.look_after_others(now)?;
            let next = self.paths.next_deadline(now);
            let deadline =
                [Some(look), Some(sample), Some(strength), Some(count), next].into_iter().flatten().min();
            // A deadline in the past must not spin.
            let deadline = deadline.map(|at| at.max(now + Duration::from_micros(200)));
            self.waiter.wait(deadline)?;
            // Woken late is a pause too.
            awake = deadline.map_or_else(Clock::now, |at| at.min(Clock::now()));
        }
    }

    // What is seen.

    /// Hands an event to the machine, and writes it down.
    fn handle(&mut self, event: Event, now: Instant) {
        if self.recording.is_some() {
            let names: Vec<String> = self.paths.iter().map(|(_, path)| path.name().to_owned()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let line = EventFile::recorded(&names, &event, now, self.started);
            self.write_down(&line);
        }
        self.paths.handle(event, now);
    }

    fn write_down(&mut self, line: &str) {
        if let Some(file) = &mut self.recording
            && writeln!(file, "{line}").is_err()
        {
            self.recording = None;
            self.say("", "the recording ends: its disk is full".to_owned());
        }
    }

    fn look(&mut self, now: Instant) -> Result<(), UplinkError> {
        let mut found = interfaces::look(&self.netlink, &self.settings)?;
        for i in 0..self.uplinks.len() {
            let key = (self.uplinks[i].interface.clone(), self.uplinks[i].family);
            let here = found.remove(&key).unwrap_or_default();
            // Such as by an advertisement, or by a lease that was renewed.
            let has_come_back = here.routes.iter().any(|route| !route.is_demoted());
            self.update(i, here, now);
            if has_come_back
                && self.paths.get(id(i)).is_some_and(|path| path.observed(now).are_routes_demoted)
            {
                self.act(Action::DemoteRoutes(id(i)), now)?;
            }
        }
        let is_path = |name: &str, here: &Found| {
            here.has_route || self.settings.interfaces.iter().any(|one| one == name)
        };
        found.retain(|(name, _), here| is_path(name, here));
        for ((interface, family), here) in found {
            let name = if family == Family::V4 { interface.clone() } else { format!("{interface}/6") };
            let us = now.saturating_since(self.started).as_micros();
            self.write_down(&format!("{}.{:06} path {name}", us / 1_000_000, us % 1_000_000));
            self.paths.add(&name, now);
            self.record.paths.push(interface.clone());
            self.uplinks.push(Uplink {
                interface,
                family,
                found: Found::default(),
                address: None,
                index: None,
                routeless_since: None,
                prober: None,
                demoted: Vec::new(),
                unjoined: 0,
            });
            self.update(self.uplinks.len() - 1, here, now);
        }
        Ok(())
    }

    fn update(&mut self, i: usize, here: Found, now: Instant) {
        if here.index.is_some() && here.index != self.uplinks[i].index {
            self.replace(i, here.index, now);
        }
        let before = self.uplinks[i].address;
        let mut address = here.address(before, self.is_in_use(i));
        let uplink = &mut self.uplinks[i];
        let was_routeless = uplink.routeless_since.is_some();
        let is_routeless = before.is_some() && here.is_ready && !here.has_route;
        let since = is_routeless.then(|| uplink.routeless_since.unwrap_or(now));
        uplink.routeless_since = since.filter(|since| now.saturating_since(*since) < ROUTELESS);
        if uplink.routeless_since.is_some() && here.usable.iter().any(|one| Some(one.address) == before) {
            address = before;
        }
        uplink.found = here;
        uplink.address = address;
        if was_routeless || is_routeless {
            self.paths.excuse_path(id(i), now);
        }
        let uplink = &mut self.uplinks[i];
        if before == address && (address.is_none() || uplink.prober.is_some()) {
            return;
        }
        uplink.prober = None;
        let by = self.settings.probes.iter().find(|p| p.is_ipv4() == (uplink.family == Family::V4));
        if let (Some(address), Some(by)) = (address, by) {
            let identifier = (std::process::id() as u16).wrapping_add(i as u16);
            match Prober::open(*by, &uplink.interface, address, identifier) {
                Ok(prober) => {
                    let token = PROBERS + i as u64;
                    // Without being woken it is heard at the next turn.
                    let _ = self.waiter.add(&prober.fd(), Interest::Read, token);
                    uplink.prober = Some(prober);
                }
                Err(error) => {
                    let name = uplink.interface.clone();
                    self.say(&name, format!("no probes: {error}"));
                }
            }
        }
        self.handle(Event::Address(id(i), address), now);
    }

    /// Excludes from the losses probes that cannot be sent for want of a route.
    fn excuse_routeless(&mut self, now: Instant) {
        for i in 0..self.uplinks.len() {
            if self.uplinks[i].routeless_since.is_some() {
                self.paths.excuse_path(id(i), now);
            }
        }
    }

    /// An interface of another number has the path's name: sockets and endpoints are bound to the old one.
    fn replace(&mut self, i: usize, index: Option<InterfaceIndex>, now: Instant) {
        let uplink = &mut self.uplinks[i];
        let is_first = uplink.index.is_none();
        (uplink.index, uplink.prober) = (index, None);
        if is_first {
            return;
        }
        if uplink.address.take().is_some() {
            // It came and went between two looks.
            self.handle(Event::Address(id(i), None), now);
        }
        self.handle(Event::Replaced(id(i)), now);
    }

    /// True when connections use the path's address: it stays then, even when the kernel has another one for new ones.
    fn is_in_use(&self, i: usize) -> bool {
        let passes =
            self.paths.get(id(i)).is_some_and(|path| path.state().passes() || path.state() == State::Suspect);
        let address = self.uplinks[i].address;
        passes && self.kernel.subflows.iter().any(|s| s.is_established && Some(s.local.ip()) == address)
    }

    /// Sets again what other programs have taken away: endpoints, limits.
    fn look_after_others(&mut self, now: Instant) -> Result<(), UplinkError> {
        // What the daemon itself is changing tells nothing.
        if !self.are_endpoints_doubtful || !self.hands.is_idle() {
            return Ok(());
        }
        self.are_endpoints_doubtful = false;
        let limits = self.kernel.manager().limits()?;
        if let Some(what) = self.others.limits(limits, LIMITS, now) {
            self.kernel.manager().set_limits(LIMITS)?;
            self.say("", what);
        }
        let there: Vec<IpAddr> = self.kernel.manager().endpoints()?.iter().map(|one| one.address).collect();
        let wanted: Vec<(PathId, String, IpAddr, bool)> = self
            .paths
            .iter()
            .map(|(id, path)| (id, path.observed(now)))
            .flat_map(|(id, seen)| {
                let used = seen.address;
                let of_use = seen.endpoints.into_iter().filter(move |(address, _)| Some(*address) == used);
                of_use.map(move |(address, is_backup)| (id, seen.name.clone(), address, is_backup))
            })
            .collect();
        for (id, name, address, is_backup) in wanted {
            if self.others.is_to_be_set_again(address, &there, now) {
                self.say(&name, format!("another program removed the endpoint {address}: it is set again"));
                self.act(Action::AddEndpoint(id, address, is_backup), now)?;
            }
        }
        Ok(())
    }

    /// True when the kernel told of a connection or a subflow.
    fn hears_of_connections(&mut self) -> bool {
        let Some(events) = &self.mptcp_events else { return false };
        let (news, is_incomplete) = events.take();
        let is_closed = news.iter().any(|event| event.kind == MptcpEventKind::SubflowClosed);
        self.are_endpoints_doubtful |= is_incomplete || is_closed;
        is_incomplete || !news.is_empty()
    }

    fn sample(&mut self, now: Instant) -> Result<(), UplinkError> {
        let addresses: Vec<Vec<IpAddr>> = self.uplinks.iter().map(Uplink::addresses).collect();
        let (connections, samples) = self.kernel.sample(&addresses, now)?;
        if connections != self.connections {
            self.connections = connections;
            self.handle(Event::Connections(connections), now);
        }
        for (i, sample) in samples.into_iter().enumerate() {
            if self.uplinks[i].address.is_some() {
                self.sampled(i, sample, now);
            }
        }
        Ok(())
    }

    fn sampled(&mut self, i: usize, sample: PathSample, now: Instant) {
        if sample.subflows > 0 {
            self.uplinks[i].unjoined = 0;
        }
        self.handle(Event::Sample(id(i), sample), now);
    }

    fn read_strengths(&mut self, now: Instant) {
        let read: Vec<(String, i32)> = self.strengths.iter_mut().flat_map(|source| source.read()).collect();
        for (name, dbm) in read {
            for i in 0..self.uplinks.len() {
                if self.uplinks[i].interface == name {
                    self.handle(Event::Strength(id(i), dbm), now);
                }
            }
        }
    }

    fn hear_answers(&mut self) {
        for i in 0..self.uplinks.len() {
            while let Some(answered) = self.uplinks[i].prober.as_mut().and_then(|p| p.recv(self.key.as_ref()))
            {
                let (number, rtt, seen_as) = answered;
                self.is_answered = true;
                self.handle(Event::Answer(id(i), number, rtt, seen_as), Clock::now());
            }
        }
    }

    /// Says once that nothing has answered since the start; and once that something does after that.
    fn tell_silence(&mut self, now: Instant) {
        let silent = self.settings.probes.iter().map(ProbeBy::unanswered);
        let is_said = |lacks: &[String]| silent.clone().all(|line| lacks.contains(&line));
        if self.is_answered {
            if is_said(&self.lacks) {
                let lines: Vec<String> = silent.collect();
                self.lacks.retain(|line| !lines.contains(line));
                self.say("", "probes are answered now".to_owned());
            }
        } else if self.unanswered_since.is_some_and(|since| now.saturating_since(since) >= SILENCE)
            && !is_said(&self.lacks)
        {
            let lines: Vec<String> = silent.collect();
            self.lacks.extend(lines.iter().cloned());
            lines.into_iter().for_each(|line| self.say("", line));
        }
    }

    fn answer_questions(&mut self) {
        while let Some((question, from)) = self.console.take() {
            let answer = match question {
                Question::Status => Answer::Status(Box::new(self.status())),
                Question::Retire { path, is_retired } => {
                    let found: Vec<usize> =
                        (0..self.uplinks.len()).filter(|i| self.uplinks[*i].interface == path).collect();
                    for i in &found {
                        self.handle(Event::Retire(id(*i), is_retired), Clock::now());
                    }
                    let names: Vec<&str> = self.uplinks.iter().map(|u| u.interface.as_str()).collect();
                    if found.is_empty() {
                        Answer::Refused(format!("no path `{path}`; there are {}", names.join(", ")))
                    } else {
                        Answer::Done
                    }
                }
            };
            self.console.answer(&from, &answer);
        }
    }

    // What is done.

    fn act(&mut self, action: Action, now: Instant) -> Result<(), UplinkError> {
        let (path, done) = match action {
            Action::Probe(id, number) => {
                let key = self.key.as_ref();
                if let Some(prober) = self.uplinks.get_mut(usize::from(id.0)).and_then(|u| u.prober.as_mut())
                {
                    prober.send(number, key, now);
                    self.unanswered_since.get_or_insert(now);
                }
                return Ok(());
            }
            Action::AddEndpoint(id, address, is_backup) => {
                // Written down before it is there.
                self.record.endpoints.retain(|a| *a != address);
                self.record.endpoints.push(address);
                self.write_record()?;
                let uplink = self.uplinks.get(usize::from(id.0));
                let index = uplink.and_then(|u| u.found.index).map_or(0, InterfaceIndex::get);
                self.hands.ask(id, Order::Add(address, index, self.settings.full_mesh, is_backup));
                return Ok(());
            }
            Action::RemoveEndpoint(id, address) => {
                self.hands.ask(id, Order::Remove(address));
                return Ok(());
            }
            Action::SetBackup(id, address, is_backup) => {
                self.hands.ask(id, Order::SetBackup(address, is_backup));
                return Ok(());
            }
            Action::DemoteRoutes(id) => (id, self.demote(id)),
            Action::RestoreRoutes(id) => (id, self.restore(id)),
        };
        self.write_record()?;
        let name = self.paths.get(path).map(|p| p.name().to_owned()).unwrap_or_default();
        match done {
            Ok(what) => self.say(&name, what),
            // The system changed in the meantime; the next look tells what there is.
            Err(error) => self.say(&name, error.to_string()),
        }
        Ok(())
    }

    /// Says what became of orders; an endpoint that is gone needs no undoing.
    fn hear_of_orders(&mut self) -> Result<(), UplinkError> {
        for (path, order, result) in self.hands.take() {
            match (order, &result) {
                (Order::Add(address, ..), Ok(_)) => self.others.on_set(address),
                (Order::Remove(address), _) => self.others.on_removed(address),
                _ => {}
            }
            if let (Order::Remove(address), Ok(_)) = (order, &result) {
                let is_there = self.paths.get(path).is_some_and(|p| p.has_endpoint(address));
                if !is_there {
                    self.record.endpoints.retain(|a| *a != address);
                    self.write_record()?;
                }
            }
            let name = self.paths.get(path).map(|p| p.name().to_owned()).unwrap_or_default();
            self.say(&name, result.unwrap_or_else(|error| error));
        }
        Ok(())
    }

    fn demote(&mut self, id: PathId) -> Result<String, UplinkError> {
        let Some(uplink) = self.uplinks.get(usize::from(id.0)) else { return Ok(String::new()) };
        let Some(index) = uplink.found.index else { return Ok("no routes to demote".to_owned()) };
        let all = interfaces::general_routes(&self.netlink, uplink.family)?;
        let known: Vec<Demoted> = self.uplinks.iter().flat_map(|one| one.demoted.clone()).collect();
        let planned = demotion::plan(&all, index, &known);
        let mut order: Vec<DefaultRoute> =
            self.record.order.iter().filter_map(|text| DefaultRoute::from_text(text)).collect();
        demotion::note_order(&mut order, &all);
        self.record.order = order.iter().map(DefaultRoute::to_text).collect();
        if let Some(uplink) = self.uplinks.get_mut(usize::from(id.0)) {
            uplink.demoted.retain(|one| !planned.iter().any(|(other, _)| other.is_same(one)));
            uplink.demoted.extend(planned.iter().map(|(demoted, _)| demoted.clone()));
        }
        // Written before it is done: of what was not done there is no copy that would be restored.
        self.record_demoted();
        self.write_record()?;
        let count = planned.len();
        let leads_elsewhere = |route: &&DefaultRoute| route.with_hops(|device| device != index).is_some();
        let has_other = all.iter().filter(|route| !route.is_demoted()).any(|route| leads_elsewhere(&route));
        for (demoted, there) in planned {
            demotion::demote(&self.netlink, &demoted, &there)?;
        }
        let still = "; there is no other in the main table, so new connections begin here all the same";
        Ok(format!("{count} default routes demoted{}", if count > 0 && !has_other { still } else { "" }))
    }

    fn record_demoted(&mut self) {
        let all = self.uplinks.iter().flat_map(|uplink| &uplink.demoted);
        self.record.routes = all.map(Demoted::to_text).collect();
    }

    fn restore(&mut self, id: PathId) -> Result<String, UplinkError> {
        let Some(uplink) = self.uplinks.get_mut(usize::from(id.0)) else { return Ok(String::new()) };
        let routes = std::mem::take(&mut uplink.demoted);
        let order: Vec<DefaultRoute> =
            self.record.order.iter().filter_map(|text| DefaultRoute::from_text(text)).collect();
        // Each, whatever becomes of another one.
        let restored: Vec<Result<(), io::IoError>> =
            routes.iter().map(|demoted| demotion::restore(&self.netlink, demoted, &order)).collect();
        self.record_demoted();
        if self.record.routes.is_empty() {
            // As they stand then, they may stand for other reasons.
            self.record.order.clear();
        }
        restored.into_iter().collect::<Result<(), _>>()?;
        Ok(format!("{} default routes restored", routes.len()))
    }

    fn tell_changes(&mut self) {
        while let Some(change) = self.paths.poll_change() {
            let Change { path, from, to, cause, .. } = change;
            let is_passing = (to == State::Suspect && from != to) || cause == Cause::Arrived;
            if is_passing && !self.settings.is_verbose {
                continue;
            }
            let name = self.paths.get(path).map(|p| p.name().to_owned()).unwrap_or_default();
            let what = if from == to { format!("{to}: {cause}") } else { format!("{from} -> {to}: {cause}") };
            self.say(&name, what);
            if cause == Cause::Unjoined
                && let Some(uplink) = self.uplinks.get_mut(usize::from(path.0))
            {
                uplink.unjoined += 1;
                if uplink.unjoined == 2 {
                    let why = "no subflow joins: the path strips MPTCP options, or the server refuses (such as by limits of 0: \
                               `ip mptcp limits`)";
                    self.say(&name, why.to_owned());
                }
            }
        }
    }

    fn say(&mut self, path: &str, what: String) {
        let at_ms = Clock::now().saturating_since(self.started).as_millis();
        let line = EventLine { at_ms, path: path.to_owned(), what };
        (self.tell)(&line);
        if self.events.len() >= EVENTS_KEPT {
            self.events.pop_front();
        }
        self.events.push_back(line);
    }

    fn status(&self) -> Status {
        let now = Clock::now();
        let up_ms = |at: Instant| now.saturating_since(at).as_millis();
        let path = |i: usize, path: &multipath::Path| {
            let seen = path.observed(now);
            let addresses = self.uplinks.get(i).map(Uplink::addresses).unwrap_or_default();
            let subflows = self.kernel.subflows.iter().filter(|s| addresses.contains(&s.local.ip()));
            let rates = seen.address.map_or((0.0, 0.0), |address| self.kernel.rates_mbps(address));
            let ms = |us: Option<u64>| us.map(|us| us as f64 / 1e3);
            let since = Instant::from_millis(seen.since_ms);
            PathStatus {
                state: seen.state,
                cause: seen.cause,
                for_ms: up_ms(since),
                address: self.uplinks.get(i).and_then(|u| u.address),
                seen_as: seen.seen_as,
                is_backup: seen.endpoints.first().map(|(_, is_backup)| *is_backup),
                rtt_ms: ms(seen.rtt_us),
                rtt_min_ms: ms(seen.rtt_min_us),
                probes_lost: seen.probes_lost,
                strength_dbm: seen.strength_dbm,
                are_routes_demoted: seen.are_routes_demoted,
                is_retired: seen.is_retired,
                is_last: seen.is_last,
                hold_ms: seen.hold_ms,
                receive_mbps: rates.0,
                send_mbps: rates.1,
                subflows: subflows.map(subflow_status).collect(),
                name: seen.name,
            }
        };
        let mut paths: Vec<PathStatus> =
            self.paths.iter().map(|(id, p)| path(usize::from(id.0), p)).collect();
        paths.sort_by(|a, b| a.name.cmp(&b.name));
        Status {
            schema: SCHEMA.to_owned(),
            pid: std::process::id(),
            up_ms: up_ms(self.started),
            connections: self.connections,
            fallbacks: self.counters.fallbacks(),
            paths,
            conflicts: self.conflicts.clone(),
            lacks: self.lacks.clone(),
            events: self.events.iter().cloned().collect(),
        }
    }

    // The end.

    fn finish(mut self) -> Ended {
        self.hands.finish();
        (self.per_subflow, self.congestion) = (None, None);
        let undone = self.record.undo(false);
        if let Some(file) = &mut self.recording {
            // What could not be written was told.
            let _ = file.flush();
        }
        let (instance, guard) = (self.instance.take(), self.guard.take());
        if undone.in_use.is_empty() {
            drop(instance);
            if let Some(guard) = guard {
                guard.finish();
            }
        } else if let Some(instance) = instance {
            // The guard removes them, and the directory, when their subflows have ended.
            let _ = instance.record(&self.record.to_text());
            std::mem::forget(instance);
        }
        Ended { signal: 0, in_use: undone.in_use, problems: undone.problems }
    }
}

fn id(i: usize) -> PathId {
    PathId(u16::try_from(i).unwrap_or(u16::MAX))
}

fn subflow_status(s: &io::netlink::Subflow) -> SubflowStatus {
    SubflowStatus {
        token: s.token,
        local: s.local,
        remote: s.remote,
        is_established: s.is_established,
        is_backup: s.is_backup,
        rtt_ms: s.srtt.as_millis_f64(),
        cwnd: s.cwnd,
        backoff: s.backoff,
        bytes_received: s.bytes_received,
        bytes_acked: s.bytes_acked,
    }
}
