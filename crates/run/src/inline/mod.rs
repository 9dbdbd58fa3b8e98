//! The accelerator as a bridge: two interfaces joined by this process, frame by frame.
//!
//! ```text
//!            ┌───────────── this process ─────────────┐
//!   WIRED ──▶│ socket ─▶ TCP, ICMP: handle_packet ─┐  │
//!            │        └▶ anything else ────────────┴─▶│─▶ MOBILE
//!   WIRED ◀──│◀───────────────── socket ◀─────────────│── MOBILE
//!            └────────────────────────────────────────┘
//! ```
//!
//! What is forwarded keeps its addresses and its VLAN tag; what the processor makes has those that the flow's packets had
//! in the same direction. There is no hop: neither end sees a machine here. A bridge that dies cuts the wire, unless a
//! [`fallback`] stands by.

mod fallback;
mod frame;
mod link_headers;
mod path;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread::JoinHandle;

use engine::Port;
use io::features::{self, Feature};
use io::netlink::{Link, LinkEvents, Netlink};
use io::{Clock, FrameSocket, Instance, Interest, Namespace, Waiter};
use units::{Duration, Instant};

use crate::console::{Answer, Console, Question, Reply};
use crate::feedback::FeedbackReceiver;
use crate::interfaces::{Condition, Interfaces};
use crate::journal::{DebtJournal, FullAlarm};
use crate::packet_loop::PacketLoop;
use crate::packet_path::PacketPath;
use crate::record::Record;
use crate::session::{CaughtSignals, FEEDBACK_EVERY, FLOWS_PER_ANSWER, Stop, end_settling, reload, settle};
use crate::shards::Report;
use crate::watchdog::{Guardian, News};
use crate::{Config, Ended, InlineFallback, Processor, RunError, Status, Why, leftovers};
use fallback::Fallback;
use path::InlinePath;

pub(crate) use frame::{ETHERNET_LEN, kind_of, split, write};
pub(crate) use link_headers::{LinkHeader, SharedHeaders};

const WIRED: u64 = 0;
const MOBILE: u64 = 1;
const SIGNAL: u64 = 2;
const WATCHDOG: u64 = 3;
const CONSOLE: u64 = 4;
const FEEDBACK: u64 = 5;
const LINKS: u64 = 6;

/// When an interface has changed, it is looked at so much later: a change comes in several pieces.
const LINK_PAUSE: Duration = Duration::from_millis(5);

/// Joins the two interfaces through a processor until a signal comes; then takes itself out.
///
/// # Errors
/// When it cannot start, or an interface is lost; everything is undone in both cases.
pub(crate) fn run<P: Processor>(
    config: &Config,
    make: impl FnOnce(usize) -> Result<Vec<P>, RunError>,
    say: &mut dyn FnMut(&str),
) -> Result<Ended, RunError> {
    features::require(Feature::NetworkAdministration)?;
    features::require(Feature::PacketSockets)?;
    let signals = CaughtSignals::catch()?;
    let netlink = Netlink::open()?;
    let namespace = Namespace::current()?.id()?;
    let removed = leftovers::remove(&config.state_directory, &netlink, namespace)?;
    removed.lines.iter().for_each(|line| say(line));
    let links = check(config, &netlink)?;
    let found = links.map(|link| (link.index, link.mtu));
    let interfaces = found.map(|(index, _)| index);
    let mut processors = make(1)?;
    let mut processor = processors.pop().ok_or_else(|| RunError::Settings("no shards".to_owned()))?;
    let instance = Instance::register(&config.state_directory, leftovers::KIND)?;
    let mut record = Record {
        namespace,
        is_inline: true,
        name: config.instance_name(),
        wired: config.wired.clone(),
        mobile: config.mobile.clone(),
        ..Record::default()
    };
    // Written down first: of two that start at the same time at least one sees the other.
    instance.record(&record.to_text())?;
    leftovers::refuse_taken(config, namespace, true, std::process::id())?;
    let [wired, mobile] = interfaces;
    let sockets = [FrameSocket::open(wired, &config.wired)?, FrameSocket::open(mobile, &config.mobile)?];
    let headers = SharedHeaders::new(RandomState::new().build_hasher().finish());
    let journal_alarm = FullAlarm::default();
    let [down, up] = DebtJournal::create_both(instance.path(), 0, Some(&headers), &journal_alarm)?;
    processor.keep_journals(Box::new(down), Box::new(up));
    Port::BOTH.iter().for_each(|side| processor.set_mtu(*side, found[side.index()].1, Clock::now()));
    if !config.gso {
        processor.refuse_super_packets();
    }
    let fallback = if config.inline == Some(InlineFallback::Bridge) {
        let bridge = free_name(&netlink)?;
        record.bridge = Some(bridge.clone());
        // Written down first: whatever happens from here on can be undone by the next start.
        instance.record(&record.to_text())?;
        let fallback = Fallback::install(&bridge, interfaces, config.hang_after(), &netlink)?;
        say(&format!("bridge {bridge} stands by between {} and {}", config.wired, config.mobile));
        Some(fallback)
    } else {
        say(
            "warning: when this process ends the wire is cut; --inline-fallback bridge has the kernel take over",
        );
        None
    };
    let guardian = if config.watchdog { Some(Guardian::start(config, &instance)?) } else { None };
    let packet_loop = PacketLoop::new(InlinePath::new(sockets, headers), None);
    let feedback = config.feedback.as_ref().map(FeedbackReceiver::open).transpose()?;
    let mut inline = Inline {
        config,
        netlink: &netlink,
        instance: &instance,
        record,
        packet_loop,
        interfaces: Interfaces::new([&config.wired, &config.mobile], found),
        must_join: [false; 2],
        said: None,
        processor,
        fallback,
        guardian,
        settling: (!removed.indebted.is_empty()).then(|| leftovers::settle(removed.indebted)),
        journal_alarm,
        console: Console::open(instance.path())?,
        feedback,
        next_feedback: Instant::ZERO,
        last_beat: Clock::now(),
        started_at: Clock::now(),
        stop: None,
    };
    let result = inline.serve(&signals, say);
    inline.close(result, say)
}

/// Both interfaces exist, differ and are up.
fn check(config: &Config, netlink: &Netlink) -> Result<[Link; 2], RunError> {
    if config.wired == config.mobile {
        return Err(RunError::SameInterface(config.wired.clone()));
    }
    if config.replace.is_some() {
        return Err(RunError::Settings(
            "--replace is for steered accelerators: stop the inline one and start the next".to_owned(),
        ));
    }
    let link_of = |name: &String| -> Result<Link, RunError> {
        let link = netlink.link(name)?;
        if link.is_up { Ok(link) } else { Err(RunError::InterfaceDown(name.clone())) }
    };
    Ok([link_of(&config.wired)?, link_of(&config.mobile)?])
}

/// A name that no interface has.
fn free_name(netlink: &Netlink) -> Result<String, RunError> {
    let links = netlink.links()?;
    let mut names = (0..100).map(|n| format!("cellbr{n}"));
    names.find(|name| !links.iter().any(|link| link.name == *name)).ok_or(RunError::NoFreeSlot)
}

/// Everything a running instance holds.
struct Inline<'a, P> {
    config: &'a Config,
    netlink: &'a Netlink,
    instance: &'a Instance,
    record: Record,
    packet_loop: PacketLoop<InlinePath>,
    interfaces: Interfaces,
    /// They were made anew: wired, mobile.
    must_join: [bool; 2],
    /// Why one could not be joined, as told last.
    said: Option<String>,
    processor: P,
    fallback: Option<Fallback>,
    guardian: Option<Guardian>,
    /// Resets flows of a killed instance.
    settling: Option<JoinHandle<Vec<String>>>,
    journal_alarm: FullAlarm,
    console: Console,
    feedback: Option<FeedbackReceiver>,
    next_feedback: Instant,
    last_beat: Instant,
    started_at: Instant,
    stop: Option<Stop>,
}

impl<P: Processor> Inline<'_, P> {
    fn serve(&mut self, signals: &CaughtSignals, say: &mut dyn FnMut(&str)) -> Result<Why, RunError> {
        let mut waiter = Waiter::new(self.config.spin_margin())?;
        self.packet_loop.path().watch(&waiter, [WIRED, MOBILE])?;
        waiter.add(&signals.ending, Interest::Read, SIGNAL)?;
        waiter.add(&signals.reload, Interest::Read, SIGNAL)?;
        waiter.add(&self.console, Interest::Read, CONSOLE)?;
        let link_events = LinkEvents::open()?;
        waiter.add(&link_events, Interest::Read, LINKS)?;
        if let Some(receiver) = &self.feedback {
            waiter.add(receiver, Interest::Read, FEEDBACK)?;
        }
        if let Some(fd) = self.guardian.as_ref().and_then(Guardian::fd) {
            waiter.add(&fd, Interest::Read, WATCHDOG)?;
        }
        say(&format!("ready: bridging {} and {}", self.config.wired, self.config.mobile));
        let mut next_beat = Instant::ZERO;
        loop {
            let now = Clock::now();
            let mut is_asked = now >= next_beat;
            if now >= next_beat {
                next_beat = now + self.config.heartbeat();
                self.beat(now, &waiter, say)?;
            }
            let is_busy = self.packet_loop.turn(&mut self.processor)?;
            if let Some(stop) = self.stop
                && (self.processor.is_drained() || now >= stop.give_up)
            {
                return Ok(stop.why);
            }
            if let Some(receiver) = self.feedback.as_mut().filter(|_| now >= self.next_feedback) {
                let processor = &mut self.processor;
                receiver.turn(|client, feedback| Some(processor.handle_feedback(client, feedback)));
                self.next_feedback = now + FEEDBACK_EVERY;
            }
            if !is_busy {
                let deadline = self.processor.next_deadline().map_or(next_beat, |at| at.min(next_beat));
                let ready = waiter.wait(Some(deadline))?;
                is_asked |= ready.iter().any(|ready| [SIGNAL, CONSOLE].contains(&ready.token));
                if ready.iter().any(|ready| ready.token == LINKS) && link_events.take() {
                    next_beat = next_beat.min(now + LINK_PAUSE);
                }
                if ready.iter().any(|ready| ready.token == FEEDBACK) {
                    self.next_feedback = Instant::ZERO;
                }
            }
            if is_asked && let Some(why) = self.obey(signals, say) {
                return Ok(why);
            }
        }
    }

    /// Shows that the loop is alive. After a hang the bridge has had what waits in the sockets.
    fn beat(&mut self, now: Instant, waiter: &Waiter, say: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        let has_hung = now.saturating_since(self.last_beat) > self.config.hang_after();
        self.last_beat = now;
        if let Some(fallback) = &self.fallback {
            fallback.beat();
            if has_hung {
                self.packet_loop.path_mut().discard()?;
                self.processor.resynchronise(now);
                say("warning: this process had hung and the bridge had taken over: bridging here again");
            }
        }
        if let Some(line) = self.journal_alarm.take() {
            say(&line);
        }
        if self.settling.as_ref().is_some_and(JoinHandle::is_finished) {
            end_settling(self.settling.take(), say);
        }
        self.hear_watchdog(waiter, say)?;
        for side in Port::BOTH {
            self.check_interface(side, waiter, say)?;
        }
        Ok(())
    }

    /// Follows an interface that goes and comes back.
    fn check_interface(
        &mut self,
        side: Port,
        waiter: &Waiter,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), RunError> {
        let change = match self.interfaces.look(side, self.netlink) {
            // Looked at again with the next heartbeat.
            Err(error) if error.is_transient() => return Ok(()),
            change => change?,
        };
        if let Some(line) = self.interfaces.line(side, change, "joined again") {
            say(&line);
        }
        if let Some(mtu) = change.mtu {
            say(&format!("the MTU of {} is {mtu}", self.interfaces.name(side)));
            self.processor.set_mtu(side, mtu, Clock::now());
        }
        let must_join = self.must_join[side.index()] | change.is_new;
        self.must_join[side.index()] = must_join;
        if must_join && self.interfaces.condition(side) == Condition::Up {
            match self.join(side, waiter) {
                Ok(()) => (self.must_join[side.index()], self.said) = (false, None),
                // It may have gone again; then it is joined when it is back.
                Err(error) if error.is_not_there() || error.is_device_gone() => {}
                Err(error) => {
                    let line = format!("warning: {error}: the wire is cut, and it is tried again");
                    if self.said.as_ref() != Some(&line) {
                        say(&line);
                        self.said = Some(line);
                    }
                }
            }
        }
        Ok(())
    }

    /// Joins an interface that was made anew.
    fn join(&mut self, side: Port, waiter: &Waiter) -> Result<(), io::IoError> {
        let (index, name) = (self.interfaces.index(side), self.interfaces.name(side));
        let socket = FrameSocket::open(index, name)?;
        let token = if side == Port::Wired { WIRED } else { MOBILE };
        self.packet_loop.path_mut().replace(side, socket, waiter, token)?;
        match self.fallback.as_mut() {
            Some(fallback) => fallback.rejoin(side, index, self.netlink),
            None => Ok(()),
        }
    }

    /// Tells the watchdog that the loop is alive. There is nothing to install again after a hang: its program looks at the
    /// heartbeat itself.
    fn hear_watchdog(&mut self, waiter: &Waiter, say: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        let Some(guardian) = self.guardian.as_mut() else { return Ok(()) };
        match guardian.news() {
            Some(News::SteeringRemoved) => guardian.resumed(),
            Some(News::Died) => say("warning: the watchdog has ended: starting another one"),
            None => {}
        }
        match guardian.revive(self.instance) {
            Ok(true) => {
                if let Some(fd) = guardian.fd() {
                    waiter.add(&fd, Interest::Read, WATCHDOG)?;
                }
            }
            Ok(false) => {}
            Err(error) => say(&format!("warning: {error}: trying again")),
        }
        guardian.beat();
        Ok(())
    }

    fn obey(&mut self, signals: &CaughtSignals, say: &mut dyn FnMut(&str)) -> Option<Why> {
        let mut ending = signals.ending.take();
        if let Some(signal) = signals.reload.take() {
            if self.processor.has_settings() {
                let line = reload(&mut self.processor).map(|(_, line)| line);
                say(&line.unwrap_or_else(|problem| format!("warning: {problem}")));
            } else if signals.ends_with_terminal {
                ending = ending.or(Some(signal));
            }
        }
        while let Some(asked) = self.console.take() {
            let reply = self.answer(&asked.question, say);
            asked.answer(reply);
        }
        let signal = ending?;
        let is_asked_twice = matches!(self.stop, Some(Stop { why: Why::Signal(_), .. }));
        self.begin_stop(Why::Signal(signal), None);
        is_asked_twice.then_some(Why::Signal(signal))
    }

    fn begin_stop(&mut self, why: Why, time_max: Option<Duration>) {
        let now = Clock::now();
        let give_up = now + time_max.unwrap_or(Duration::from_millis(self.config.drain_ms_max));
        // A second wish can only shorten the time.
        let give_up = self.stop.map_or(give_up, |earlier| earlier.give_up.min(give_up));
        if self.stop.is_none() {
            self.processor.begin_drain(now);
        }
        self.stop = Some(Stop { why, give_up });
    }

    fn answer(&mut self, question: &Question, say: &mut dyn FnMut(&str)) -> Reply {
        let answer = match *question {
            Question::Status => Answer::Status(Box::new(self.status())),
            Question::Flows { skip } => {
                Answer::Flows(self.processor.flows(skip, FLOWS_PER_ANSWER, Clock::now()))
            }
            Question::Drain { time_ms_max } => {
                self.begin_stop(Why::Drain, time_ms_max.map(Duration::from_millis));
                Answer::Done("draining".to_owned())
            }
            Question::Reload => match reload(&mut self.processor) {
                Ok((_, line)) => {
                    say(&line);
                    Answer::Done(line)
                }
                Err(problem) => Answer::Refused(problem),
            },
        };
        Box::new(move || answer)
    }

    fn status(&self) -> Status {
        let mut processor = self.processor.status();
        let named = self.feedback.as_ref().map(|receiver| receiver.counters().named());
        let named = named.into_iter().flatten().map(|(name, value)| (name.to_owned(), value));
        processor.counters.extend(named);
        let status = Status {
            name: self.config.instance_name(),
            process: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            steering: "inline".to_owned(),
            wired: self.config.wired.clone(),
            mobile: self.config.mobile.clone(),
            interfaces: Port::BOTH.map(|side| self.interfaces.condition(side).name().to_owned()),
            is_draining: self.stop.is_some(),
            uptime_s: Clock::now().saturating_since(self.started_at).as_millis() / 1_000,
            resident_bytes: io::resident_bytes().unwrap_or(0),
            ..Status::default()
        };
        let report = Report { counters: self.packet_loop.counters(), processor };
        status.with_reports(&[report], self.packet_loop.path().drops())
    }

    /// Hands on what is left, takes the bridge away, if there is one, and resets what is owed something for too long.
    fn close(mut self, result: Result<Why, RunError>, say: &mut dyn FnMut(&str)) -> Result<Ended, RunError> {
        while result.is_ok() && self.packet_loop.turn(&mut self.processor).unwrap_or(false) {}
        let counters = self.packet_loop.counters();
        let queue_drops = self.packet_loop.path().drops();
        let processor = self.processor.status();
        let Self { netlink, instance, record, fallback, guardian, settling, packet_loop, .. } = self;
        // The journals are complete: no packet comes any more.
        drop(packet_loop);
        let removed = fallback.map_or(Ok(()), |fallback| fallback.remove(netlink));
        let settled = settle(instance, record.passage(), netlink, say);
        end_settling(settling, say);
        // There is nothing left for the watchdog to do.
        let forgotten = instance.record(&Record::default().to_text());
        if let Some(guardian) = guardian {
            guardian.finish()?;
        }
        let why = result?;
        removed?;
        settled?;
        forgotten?;
        Ok(Ended { why, counters, queue_drops, processor })
    }
}
