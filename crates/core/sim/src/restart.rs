//! [`Restarting`]: an engine whose process stops and starts again.
//!
//! ```text
//!   engine ── drain, or killed ──▶ nobody: packets pass ── absent ──▶ a new, empty engine
//!   engine ── stopped ──▶ nobody: packets pass ── absent ──▶ the same one, told so
//!   engine ── moved ──▶ another one with the same state, at once
//!   engine ── crashes ──▶ nobody: packets wait ── absent ──▶ a new one with what is in the vault
//! ```

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use engine::{
    ConfigError, Engine, EngineConfig, ImageError, Middlebox, PassReason, Port, Stats, Transmit, Verdict,
};
use units::{Bytes, Duration, Instant};
use wire::VirtioNetHeader;

use crate::MiddleboxUnderTest;
use crate::vault::Vault;

/// Reasons why a flow under way is handed back.
const HANDED_BACK: [PassReason; 4] = [
    PassReason::NonsensicalSack,
    PassReason::NotTcpLike,
    PassReason::Desynchronised,
    PassReason::AccurateEcn,
];

/// Way in which the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It drains; killed if that takes longer than this.
    Drain(Duration),
    /// Ends at once, with all it knows.
    Kill,
    /// It is stopped, packets pass, and it goes on with what it knew.
    Hang,
}

/// One end and the beginning after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Time of the restart, by the clock.
    pub at: Instant,
    /// Way in which the process ends.
    pub how: Stop,
    /// Time for which nobody is there.
    pub absent: Duration,
}

/// Times at which the engine moves: its state is stored, and another engine goes on with it at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moves {
    /// Never.
    #[default]
    Never,
    /// Before everything that it is asked: each packet, each deadline, each packet to be sent.
    AtEveryStep,
    /// Before the step of this number, counted from zero.
    AtStep(u64),
}

/// A death after which another engine goes on with what is written down of the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Number of the step in which it dies, counted from zero: each packet, each deadline, each packet to
    /// be sent is one. What the step would have sent is lost.
    pub step: u64,
    /// Records of the step that are written before it dies; all that there are, if there are fewer.
    pub records: u64,
    /// Time for which nobody is there, and packets wait.
    pub absent: Duration,
}

/// An engine that is restarted by plan.
#[derive(Debug, Default)]
pub struct Restarting {
    config: EngineConfig,
    engine: Option<Engine>,
    plan: VecDeque<Restart>,
    /// A drain under way: when patience ends, and how long nobody is there after it.
    draining: Option<(Instant, Duration)>,
    back_at: Option<Instant>,
    /// The one that is stopped.
    stopped: Option<Engine>,
    has_hung: bool,
    has_died: bool,
    /// It was not there for a while, and packets passed.
    has_left: bool,
    retired: Vec<Stats>,
    /// The packet sent last.
    leaving: Vec<u8>,
    has_passed: bool,
    moves: Moves,
    steps: u64,
    /// Reason why a move failed.
    unmoved: Option<ImageError>,
    /// The state that moved last.
    image: Vec<u8>,
    crashes: VecDeque<Crash>,
    vault: Option<Vault>,
    /// It has crashed: packets wait until then.
    recovers_at: Option<Instant>,
    /// Flows that went on with another engine, and such as could not.
    recovered: [u64; 2],
}

impl Restarting {
    /// An engine of `config`, stopped and started as `plan` says, in the order of time.
    ///
    /// # Errors
    /// A setting of the engine makes no sense.
    pub fn new(config: &EngineConfig, plan: Vec<Restart>) -> Result<Self, ConfigError> {
        Ok(Self {
            engine: Some(Engine::new(config.clone())?),
            config: config.clone(),
            plan: plan.into(),
            ..Self::default()
        })
    }

    /// The same, which also crashes, in the order of steps.
    #[must_use]
    pub fn crashing(mut self, crashes: Vec<Crash>) -> Self {
        if !crashes.is_empty() {
            let vault = Vault::default();
            self.engine.iter_mut().for_each(|engine| keep(engine, &vault));
            self.vault = Some(vault);
            self.crashes = crashes.into();
        }
        self
    }

    /// Flows that went on with another engine after a crash, and such as could not, over all crashes.
    #[must_use]
    pub fn recovered(&self) -> [u64; 2] {
        self.recovered
    }

    /// The same, which also moves.
    #[must_use]
    pub fn moving(self, moves: Moves) -> Self {
        Self { moves, ..self }
    }

    /// Reason why a move failed, if one did; the engine before went on.
    #[must_use]
    pub fn unmoved(&self) -> Option<&ImageError> {
        self.unmoved.as_ref()
    }

    /// The state that moved last, as bytes; none before the first move.
    #[must_use]
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// Things that the engines were asked to do.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The engine dies in this step: what it was about to send is lost. True when it had written down that
    /// it would send it.
    fn crash(&mut self, crash: Crash, now: Instant) -> bool {
        let is_complete = self.vault.as_ref().is_some_and(Vault::die);
        if let Some(engine) = self.engine.take() {
            self.retired.extend(all_stats(&engine).cloned());
        }
        self.recovers_at = Some(now + crash.absent);
        is_complete
    }

    /// A new engine goes on with what is in the vault.
    fn recover(&mut self, now: Instant) {
        let Some(vault) = self.vault.clone() else { return };
        self.recovers_at = None;
        let entries = vault.begin_anew();
        // The settings were good before.
        let Ok(mut engine) = Engine::new(self.config.clone()) else { return };
        keep(&mut engine, &vault);
        for (receiver, entry) in entries {
            let is_there = engine.recover(receiver, &entry, now).is_ok();
            self.recovered[usize::from(!is_there)] += 1;
        }
        vault.clear();
        self.engine = Some(engine);
    }

    /// The crash that this step brings, if one is due. Its death is near.
    fn next_crash(&mut self) -> Option<Crash> {
        let is_due = |crash: &&Crash| crash.step < self.steps && self.engine.is_some();
        let crash = *self.crashes.front().filter(is_due)?;
        self.crashes.pop_front();
        if let Some(vault) = &self.vault {
            vault.die_after(crash.records);
        }
        Some(crash)
    }

    /// One step more: the engine moves before it, where it should.
    fn step(&mut self) {
        let is_due = match self.moves {
            Moves::Never => false,
            Moves::AtEveryStep => true,
            Moves::AtStep(step) => step == self.steps,
        };
        self.steps += 1;
        let are_right = self.engine.as_ref().is_none_or(Engine::levels_add_up);
        debug_assert!(are_right, "debt or flows by state are not what the flows add up to");
        if let Some(engine) = self.engine.as_mut().filter(|_| is_due) {
            self.image = engine.store();
            match resumed(engine.config(), &self.image) {
                Ok(next) => *engine = next,
                Err(error) => self.unmoved = Some(error),
            }
        }
    }

    /// A counter, over all engines there were and both directions.
    pub fn total(&self, counter: impl Fn(&Stats) -> u64) -> u64 {
        self.all_stats().map(counter).sum()
    }

    /// The counters of all engines there were, the ended ones first, each direction apart.
    pub(crate) fn all_stats(&self) -> impl Iterator<Item = &Stats> {
        let now = self.engine.iter().chain(&self.stopped).flat_map(all_stats);
        self.retired.iter().chain(now)
    }

    /// Bytes that the engine of now has acknowledged to one host and the other has not.
    #[must_use]
    pub fn debt(&self) -> Bytes {
        self.engine.as_ref().or(self.stopped.as_ref()).map_or(Bytes::ZERO, Engine::debt)
    }

    fn retire(&mut self, is_clean: bool, absent: Duration, now: Instant) {
        if let Some(engine) = self.engine.take() {
            self.retired.extend(all_stats(&engine).cloned());
        }
        self.has_died |= !is_clean;
        self.has_left = true;
        self.draining = None;
        self.back_at = Some(now + absent);
    }

    fn act_on_plan(&mut self, now: Instant) {
        if self.back_at.is_some_and(|at| at <= now) {
            self.back_at = None;
            // The settings were good before.
            self.engine = self.stopped.take().or_else(|| Engine::new(self.config.clone()).ok());
            if let Some(engine) = self.engine.as_mut() {
                engine.resynchronise(now);
            }
        }
        if self.draining.is_none()
            && self.engine.is_some()
            && let Some(restart) = self.plan.front().copied().filter(|restart| restart.at <= now)
        {
            self.plan.pop_front();
            match (restart.how, self.engine.as_mut()) {
                (Stop::Drain(patience), Some(engine)) => {
                    engine.drain(now);
                    self.draining = Some((now + patience, restart.absent));
                }
                (Stop::Hang, Some(_)) => {
                    self.stopped = self.engine.take();
                    self.has_hung = true;
                    self.back_at = Some(now + restart.absent);
                }
                _ => self.retire(false, restart.absent, now),
            }
        }
        self.end_drain(now);
    }

    /// The process ends when it has handed every flow back, or when its time is over.
    fn end_drain(&mut self, now: Instant) {
        let Some((until, absent)) = self.draining else { return };
        let is_done = self.engine.as_ref().is_none_or(Engine::is_empty);
        if is_done || now >= until {
            self.retire(is_done, absent, now);
        }
    }
}

/// Has the engine write down what its flows need.
pub(crate) fn keep(engine: &mut Engine, vault: &Vault) {
    engine.set_ring_provider(Arc::new(vault.clone()));
    engine.set_journal(vault.journal(Port::Mobile));
    engine.set_uplink_journal(vault.journal(Port::Wired));
}

/// An engine that goes on with the state of another one.
fn resumed(config: &EngineConfig, image: &[u8]) -> Result<Engine, ImageError> {
    let mut next = Engine::new(config.clone())?;
    next.resume(image)?;
    Ok(next)
}

/// True when an engine has handed a flow back that was under way.
pub(crate) fn has_handed_back(engine: &Engine) -> bool {
    let gives_up = |stats: &Stats| HANDED_BACK.iter().any(|reason| stats.passed_for(*reason) > 0);
    all_stats(engine).any(gives_up)
}

/// The counters of both directions.
fn all_stats(engine: &Engine) -> impl Iterator<Item = &Stats> {
    core::iter::once(engine.stats()).chain(engine.uplink_stats())
}

impl Middlebox for Restarting {
    fn handle_packet(
        &mut self,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        self.step();
        let crash = self.next_crash();
        let Some(engine) = self.engine.as_mut() else { return Verdict::Forward };
        let verdict = engine.handle_packet(from, virtio, packet, now);
        match crash {
            Some(crash) if !self.crash(crash, now) => Verdict::Consumed,
            _ => verdict,
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.step();
        if self.recovers_at.is_some_and(|at| at <= now) {
            self.recover(now);
        }
        let crash = self.next_crash();
        if let Some(engine) = self.engine.as_mut() {
            engine.handle_timeout(now);
        }
        if let Some(crash) = crash {
            self.crash(crash, now);
        }
        self.act_on_plan(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        self.step();
        let crash = self.next_crash();
        let Some(made) = self.engine.as_mut().and_then(|engine| engine.poll_transmit(now)) else {
            crash.map(|crash| self.crash(crash, now));
            self.end_drain(now);
            return None;
        };
        // A loan of the engine's would last until it dies.
        self.leaving = made.to_vec();
        let (to, virtio) = (made.to, made.virtio);
        self.has_passed = self.engine.as_ref().is_some_and(Engine::hands_on);
        if crash.is_some_and(|crash| !self.crash(crash, now)) {
            return None;
        }
        Some(Transmit { to, virtio, header: &self.leaving, payload: (&[], &[]) })
    }

    fn next_deadline(&self) -> Option<Instant> {
        let engine = self.engine.as_ref().and_then(Engine::next_deadline);
        let restart = self.plan.front().map(|restart| restart.at);
        let restart = restart.filter(|_| self.draining.is_none() && self.engine.is_some());
        [engine, restart, self.draining.map(|(until, _)| until), self.back_at, self.recovers_at]
            .into_iter()
            .flatten()
            .min()
    }
}

impl MiddleboxUnderTest for Restarting {
    fn has_passed(&self) -> bool {
        self.has_passed
    }

    fn memory(&self) -> Bytes {
        self.engine.as_ref().map_or(Bytes::ZERO, MiddleboxUnderTest::memory)
    }

    fn has_flow(&self, client: SocketAddr, server: SocketAddr) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.has_flow(client, server))
    }

    fn is_leaving(&self) -> bool {
        self.engine.as_ref().map_or(self.recovers_at.is_none(), has_handed_back)
            || self.draining.is_some()
            || self.has_hung
            || self.has_left
    }

    fn is_shut(&self) -> bool {
        self.recovers_at.is_some()
    }

    fn may_have_lost_packets(&self) -> bool {
        self.recovered != [0; 2]
    }

    fn take_crash(&mut self) -> bool {
        core::mem::take(&mut self.has_died)
    }
}

#[cfg(test)]
mod tests;
