//! [`Daemon`]: the loop that feeds [`multipath::Paths`] and does what it asks.

mod actions;
mod journal;
mod registration;
mod status;

use std::net::IpAddr;
use std::path::Path;

use io::netlink::{Family, InterfaceIndex, LinkEvents, MptcpEventKind, MptcpEvents, MptcpLimits, Netlink};
use io::{Clock, Instance, Interest, Signals, Waiter};
use multipath::{Action, Cause, Change, Event, EventFile, PathId, PathSample, Paths, State};
use probe::Key;
use units::{Duration, Instant};

use crate::console::{Answer, Console, Question, Running};
use crate::demotion::Demoted;
use crate::fallbacks::Counters;
use crate::guard::Guard;
use crate::hands::Hands;
use crate::interfaces::{self, Found};
use crate::kernel::Kernel;
use crate::others::Others;
use crate::per_subflow::PerSubflow;
use crate::prober::Prober;
use crate::profile::Profile;
use crate::record::{self, KIND, Record};
use crate::status::EventLine;
use crate::strength::{ModemManager, Strength, StrengthFile, Wireless};
use crate::{ProbeBy, Settings, UplinkError, conflicts};
use journal::Journal;
use registration::Registration;

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
    journal: Journal<'a>,
    registration: Registration,
    kernel: Kernel,
    programs: Programs,
    endpoints: Endpoints,
    netlink: Netlink,
    mptcp_events: Option<MptcpEvents>,
    link_events: LinkEvents,
    console: Console,
    paths: Paths,
    uplinks: Vec<Uplink>,
    strengths: Vec<Box<dyn Strength>>,
    counters: Counters,
    connections: u32,
    probing: Probing,
    waiter: Waiter,
}

/// BPF programs for subflows, which end with this.
#[derive(Default)]
struct Programs {
    per_subflow: Option<PerSubflow>,
    congestion: Option<coupled::Held>,
}

/// Changes to the kernel's endpoints.
struct Endpoints {
    hands: Hands,
    others: Others,
    /// The kernel told of something that may mean that one is gone.
    are_doubtful: bool,
}

/// Whether anything answers probes.
#[derive(Default)]
struct Probing {
    /// Time at which the first probe left.
    since: Option<Instant>,
    is_answered: bool,
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
        let mut journal = Journal::open(settings.record.as_deref(), tell)?;
        let instance = Instance::register(base, KIND)?;
        let console = Console::open(instance.path())?;
        journal.conflicts = conflicts(&kernel.manager().endpoints()?);
        let record =
            Record { namespace: record::own_namespace()?, endpoints: adopted.clone(), ..Record::default() };
        let mut daemon = Self {
            registration: Registration { instance: Some(instance), record, guard: None },
            paths: Paths::new(settings.thresholds.clone()),
            key,
            journal,
            programs: Programs::default(),
            mptcp_events: None,
            link_events: LinkEvents::open_with_routes()?,
            netlink: Netlink::open()?,
            console,
            uplinks: Vec::new(),
            strengths: Vec::new(),
            counters: Counters::read(),
            connections: 0,
            probing: Probing::default(),
            waiter: Waiter::new(Duration::ZERO)?,
            kernel,
            endpoints: Endpoints { hands: Hands::start()?, others: Others::default(), are_doubtful: false },
            settings,
        };
        daemon.prepare(program)?;
        for address in adopted {
            daemon.journal.say("", format!("adopted the endpoint {address} of a daemon that was killed"));
        }
        problems.into_iter().for_each(|problem| daemon.journal.say("", problem));
        Ok(daemon)
    }

    fn prepare(&mut self, program: &Path) -> Result<(), UplinkError> {
        self.strengths.extend(self.settings.strength_file.clone().map(|p| Box::new(StrengthFile(p)) as _));
        self.strengths.extend(Wireless::open().map(|w| Box::new(w) as _));
        self.strengths.extend(ModemManager::open().map(|m| Box::new(m) as _));
        match self.kernel.manager().events() {
            Ok(events) => self.mptcp_events = Some(events),
            Err(error) => self.journal.lacks.push(format!("{error}: connections are seen a moment later")),
        }
        let limits = self.kernel.manager().limits()?;
        if limits != LIMITS {
            self.registration.record.limits = Some((limits.subflows, limits.add_addr_accepted));
        }
        let (keep_alive, is_per_subflow) = (self.settings.keep_alive, self.settings.is_per_subflow);
        let profile = self.settings.with_profile.then(|| Profile::plan(keep_alive, is_per_subflow));
        self.registration.record.sysctls = profile.as_ref().map(|p| p.before.clone()).unwrap_or_default();
        // Written before anything is changed, and watched over: a kill at any later moment is undone.
        self.registration.write()?;
        let directory = self.registration.instance.as_ref().map(|i| i.path().to_owned()).unwrap_or_default();
        match Guard::start(program, &directory) {
            Ok(guard) => {
                self.registration.record.guard = Some(guard.pid());
                self.registration.guard = Some(guard);
                self.registration.write()?;
            }
            Err(error) => {
                self.journal.lacks.push(format!("no guard ({error}): after a kill, the next start undoes"));
            }
        }
        self.kernel.manager().set_limits(LIMITS)?;
        self.journal.lacks.extend(profile.iter().flat_map(Profile::apply));
        match is_per_subflow.then(|| PerSubflow::start(keep_alive)).transpose() {
            Ok(started) => self.programs.per_subflow = started,
            Err(error) => self.journal.lacks.push(format!("{error}: subflows have the host's time-outs")),
        }
        match self.settings.congestion.map(|scheme| coupled::Held::start(scheme, true)).transpose() {
            Ok(held) => self.programs.congestion = held,
            Err(error) => self.journal.lacks.push(format!("{error}: subflows are not coupled")),
        }
        if io::sysctl::read_here("net/mptcp/enabled").is_ok_and(|value| value == "0") {
            let how = "new connections are plain TCP: sysctl net.mptcp.enabled=1";
            self.journal.lacks.push(format!("MPTCP is switched off here, {how}"));
        }
        let missing = interfaces::missing(&self.netlink, &self.settings)?;
        for line in self
            .journal
            .conflicts
            .iter()
            .chain(&self.journal.lacks)
            .cloned()
            .chain(missing)
            .collect::<Vec<_>>()
        {
            self.journal.say("", line);
        }
        self.waiter.add(&self.link_events, Interest::Read, LINKS)?;
        self.waiter.add(&self.console, Interest::Read, CONSOLE)?;
        self.waiter.add(&self.endpoints.hands.wake, Interest::Read, HANDS)?;
        if let Some(events) = &self.mptcp_events {
            self.waiter.add(events, Interest::Read, MPTCP)?;
        }
        Ok(())
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
            (self.journal.started, self.journal.started, self.journal.started, self.journal.started);
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
                news.into_iter().for_each(|line| self.journal.say("", line));
                count = now + COUNTERS_EVERY;
                self.endpoints.are_doubtful = true;
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
        if self.journal.recording.is_some() {
            let names: Vec<String> = self.paths.iter().map(|(_, path)| path.name().to_owned()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let line = EventFile::recorded(&names, &event, now, self.journal.started);
            self.journal.write_down(&line);
        }
        self.paths.handle(event, now);
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
            let us = now.saturating_since(self.journal.started).as_micros();
            self.journal.write_down(&format!("{}.{:06} path {name}", us / 1_000_000, us % 1_000_000));
            self.paths.add(&name, now);
            self.registration.record.paths.push(interface.clone());
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
                    self.journal.say(&name, format!("no probes: {error}"));
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
        if !self.endpoints.are_doubtful || !self.endpoints.hands.is_idle() {
            return Ok(());
        }
        self.endpoints.are_doubtful = false;
        let limits = self.kernel.manager().limits()?;
        if let Some(what) = self.endpoints.others.limits(limits, LIMITS, now) {
            self.kernel.manager().set_limits(LIMITS)?;
            self.journal.say("", what);
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
            if self.endpoints.others.is_to_be_set_again(address, &there, now) {
                self.journal
                    .say(&name, format!("another program removed the endpoint {address}: it is set again"));
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
        self.endpoints.are_doubtful |= is_incomplete || is_closed;
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
                self.probing.is_answered = true;
                self.handle(Event::Answer(id(i), number, rtt, seen_as), Clock::now());
            }
        }
    }

    /// Says once that nothing has answered since the start; and once that something does after that.
    fn tell_silence(&mut self, now: Instant) {
        let silent = self.settings.probes.iter().map(ProbeBy::unanswered);
        let is_said = |lacks: &[String]| silent.clone().all(|line| lacks.contains(&line));
        if self.probing.is_answered {
            if is_said(&self.journal.lacks) {
                let lines: Vec<String> = silent.collect();
                self.journal.lacks.retain(|line| !lines.contains(line));
                self.journal.say("", "probes are answered now".to_owned());
            }
        } else if self.probing.since.is_some_and(|since| now.saturating_since(since) >= SILENCE)
            && !is_said(&self.journal.lacks)
        {
            let lines: Vec<String> = silent.collect();
            self.journal.lacks.extend(lines.iter().cloned());
            lines.into_iter().for_each(|line| self.journal.say("", line));
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

    fn tell_changes(&mut self) {
        while let Some(change) = self.paths.poll_change() {
            let Change { path, from, to, cause, .. } = change;
            let is_passing = (to == State::Suspect && from != to) || cause == Cause::Arrived;
            if is_passing && !self.settings.is_verbose {
                continue;
            }
            let name = self.name(path);
            let what = if from == to { format!("{to}: {cause}") } else { format!("{from} -> {to}: {cause}") };
            self.journal.say(&name, what);
            if cause == Cause::Unjoined
                && let Some(uplink) = self.uplinks.get_mut(usize::from(path.0))
            {
                uplink.unjoined += 1;
                if uplink.unjoined == 2 {
                    let why = "no subflow joins: the path strips MPTCP options, or the server refuses (such as by limits of 0: \
                               `ip mptcp limits`)";
                    self.journal.say(&name, why.to_owned());
                }
            }
        }
    }

    // The end.

    fn finish(mut self) -> Ended {
        self.endpoints.hands.finish();
        drop(self.programs);
        self.journal.finish();
        self.registration.finish()
    }

    /// Name of a path; empty without such a one.
    fn name(&self, id: PathId) -> String {
        self.paths.get(id).map(|path| path.name().to_owned()).unwrap_or_default()
    }
}

fn id(i: usize) -> PathId {
    PathId(u16::try_from(i).unwrap_or(u16::MAX))
}
