//! [`compare`]: of new connections half use `adaptive`, half another congestion control, and both are measured.
//!
//! ```text
//!   established ─▶ split: a keyed hash ─▶ TCP_CONGESTION ─▶ measured in the kernel ─▶ tally ─▶ CompareReport
//! ```
//!
//! The program (`bpf/compare.bpf.c`) takes the [`Chooser`](crate::Chooser)'s place: it decides when a connection is
//! established, looks at it once a round trip, and hands over what it has counted when it is closed.

mod layout;
mod report;
mod splitter;
mod tally;

use std::collections::BTreeSet;
use std::path::PathBuf;

use io::bpf::congestion_controls;
use io::{Clock, Instance, Interest, IoError, Signals, Waiter};
use units::{Duration, Instant};

pub use report::{CompareEstimate, CompareReport, EndedBy, Metric, Shows, Side};

use crate::hold::{SWEEP_EVERY, enter, register};
use crate::record::RunningComparison;
use crate::split::{Group, Split, Unit};
use crate::{CongestionError, ControlProgram, KERNEL_NAME, Setup, Users};
use splitter::Splitter;
use tally::Tally;

/// Interval at which ended connections are taken from the kernel.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval of messages on progress in the first minute; then they come every minute.
const TOLD_EVERY: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);

/// A comparison to make.
#[derive(Clone, Debug)]
pub struct Comparing {
    /// The other congestion control; none: the one that the namespace's sysctl names.
    pub with: Option<String>,
    /// Only connections with this local port.
    pub port: Option<u16>,
    /// Only those of processes in this control group or below it.
    pub group: Option<PathBuf>,
    /// Duration; none: until a signal comes.
    pub time: Option<Duration>,
    /// Input of the hash.
    pub by: Unit,
    /// Seed that decides which half uses which.
    pub seed: u32,
}

/// All that a comparison holds; it ends with the value, and with the process.
#[derive(Debug)]
struct Running {
    splitter: Splitter,
    tally: Tally,
    /// The congestion controls by group.
    controls: [String; 2],
    users: Users,
    began: Instant,
    began_ms: u64,
    _instance: Instance,
    program: ControlProgram,
}

/// Makes a comparison until its time is over or `signals` says to end; `tell` gets one line about each thing of note.
///
/// # Errors
/// As [`crate::Held::start`]; when the kernel has no such other congestion control; when it does not let the figures be
/// read.
pub fn compare(
    what: &Comparing,
    signals: &Signals,
    tell: &mut dyn FnMut(&str),
) -> Result<CompareReport, CongestionError> {
    let mut running = Running::start(what)?;
    let end = what.time.map(|time| running.began + time);
    tell(&running.ready(what));
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(signals, Interest::Read, 0)?;
    let mut tell_at = running.began + TOLD_EVERY;
    let mut sweep_at = running.began + SWEEP_EVERY;
    loop {
        if signals.take().is_some() {
            return running.finish(what, EndedBy::Signal);
        }
        let now = Clock::now();
        if end.is_some_and(|end| now >= end) {
            return running.finish(what, EndedBy::Time);
        }
        running.look()?;
        if now >= sweep_at {
            running.program.sweep(now)?;
            sweep_at = now + SWEEP_EVERY;
        }
        if now >= tell_at {
            tell(&running.progress(now)?);
            tell_at += if now.saturating_since(running.began) < MINUTE { TOLD_EVERY } else { MINUTE };
        }
        let next = now + LOOK_EVERY;
        waiter.wait(Some(end.map_or(next, |end| next.min(end))))?;
    }
}

impl Running {
    fn start(what: &Comparing) -> Result<Self, CongestionError> {
        // What loads one says first what is missing for that.
        let has_mptcp = {
            io::bpf::require_objects("load a congestion control")?;
            io::features::require(io::features::Feature::Bpf)?;
            congestion_controls(None)?.has_mptcp
        };
        let with = match &what.with {
            Some(name) => name.clone(),
            None => io::sysctl::read_here("net/ipv4/tcp_congestion_control")?,
        };
        if with == KERNEL_NAME {
            return Err(CongestionError::WithItself(with));
        }
        io::find_congestion_control(&with)?;
        let program = register(Setup::usual())?;
        let controls = [with, program.name().to_owned()];
        let split = Split { seed: what.seed.into(), by: what.by };
        let mut splitter = Splitter::load(split, what.port, has_mptcp, [&controls[0], &controls[1]])?;
        splitter.attach(what.group.as_deref())?;
        let users = Users::New { port: what.port, group: what.group.clone() };
        let (began, began_ms) = (Clock::now(), Clock::wall_nanos() / 1_000_000);
        let comparison = RunningComparison {
            with: controls[0].clone(),
            by: what.by,
            seed: what.seed,
            began_ms,
            planned_ms: what.time.map(Duration::as_millis),
        };
        let instance = enter(&program, users.clone(), Some(comparison))?;
        let tally = Tally::new(what.by, Clock::tick());
        Ok(Self { splitter, tally, controls, users, began, began_ms, _instance: instance, program })
    }

    fn ready(&self, what: &Comparing) -> String {
        let [other, own] = &self.controls;
        format!(
            "ready: of {} half use '{own}' and half '{other}' from now on, by {}, seed {}; end with Ctrl-C or \
             `cellerator congestion unload`",
            self.users.name(),
            what.by.name(),
            what.seed
        )
    }

    fn progress(&self, now: Instant) -> Result<String, IoError> {
        let counts = self.splitter.counts()?;
        let [other, own] = &self.controls;
        let mut line = format!(
            "{} s: {} connections with '{own}', {} with '{other}'; {} of them have ended",
            now.saturating_since(self.began).as_secs(),
            counts.began[Group::Adaptive as usize],
            counts.began[Group::Other as usize],
            self.tally.ended()
        );
        let refused: u64 = counts.refused.iter().sum();
        if refused > 0 {
            line += &format!("; the kernel refused {refused} others");
        }
        Ok(line)
    }

    fn look(&mut self) -> Result<(), IoError> {
        self.splitter.take_ended()?.iter().for_each(|one| self.tally.add(one, false));
        Ok(())
    }

    fn finish(mut self, what: &Comparing, ended_by: EndedBy) -> Result<CompareReport, CongestionError> {
        let elapsed = Clock::now().saturating_since(self.began);
        self.splitter.detach();
        // One that closes just then is in both, or in the second one alone: the program writes it there before it
        // deletes it here.
        let running = self.splitter.running()?;
        let ended = self.splitter.take_ended()?;
        let cookies: BTreeSet<u64> = ended.iter().map(|one| one.cookie).collect();
        ended.iter().for_each(|one| self.tally.add(one, false));
        let running = running.iter().filter(|one| !cookies.contains(&one.cookie));
        running.for_each(|one| self.tally.add(one, true));
        let counts = self.splitter.counts()?;
        let side = |group: Group| {
            let at = group as usize;
            self.tally.side(group, &self.controls[at], counts.refused[at])
        };
        Ok(CompareReport {
            schema: "cellerator/congestion-compare/1",
            users: self.users.name(),
            by: what.by,
            seed: what.seed,
            began_ms: self.began_ms,
            planned_ms: what.time.map(Duration::as_millis),
            elapsed_ms: elapsed.as_millis(),
            ended_by,
            other: side(Group::Other),
            adaptive: side(Group::Adaptive),
            lost_connections: counts.lost + self.tally.lost,
            metrics: self.tally.metrics(),
        })
    }
}
