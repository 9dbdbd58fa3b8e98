//! [`Worker`]: what a shard's thread does.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use io::{Clock, Interest, IoError, Waiter};
use units::Instant;

use super::{Beacon, Command, FreezeEnd, Outcome, Report, Terms};
use crate::Processor;
use crate::handover::JOBS_MAX;
use crate::packet_loop::PacketLoop;
use crate::packet_path::PacketPath;

const WIRED: u64 = 0;
const MOBILE: u64 = 1;
const TOLD: u64 = 2;

/// Channels by which a shard hears and is heard.
#[derive(Debug)]
pub(super) struct Ends<S> {
    pub inbox: mpsc::Receiver<Command<S>>,
    /// Readable when a command has come.
    pub woken: UnixStream,
    /// Wakes the supervisor.
    pub news: UnixStream,
}

/// A packet loop and its processor, on a thread of their own.
#[derive(Debug)]
pub(super) struct Worker<P: Processor, T> {
    packet_loop: PacketLoop<T>,
    processor: P,
    ends: Ends<P::Settings>,
    beacon: Arc<Beacon>,
    is_draining: bool,
    /// It was told to do nothing for a while: that is no hang.
    was_frozen: bool,
    /// Another process reads its queues.
    is_succeeded: bool,
    /// There is more work than one turn's.
    has_more: bool,
}

impl<P: Processor, T: PacketPath> Worker<P, T> {
    pub fn new(
        packet_loop: PacketLoop<T>,
        processor: P,
        ends: Ends<P::Settings>,
        beacon: Arc<Beacon>,
    ) -> Self {
        Self {
            packet_loop,
            processor,
            ends,
            beacon,
            is_draining: false,
            was_frozen: false,
            is_succeeded: false,
            has_more: false,
        }
    }

    /// Works until it is told to end, or a device is lost.
    pub fn run(mut self, terms: &Terms) -> Outcome<P> {
        let result = self.serve(terms);
        if result.is_ok() && !self.is_succeeded {
            self.packet_loop.finish(&mut self.processor);
        }
        self.announce();
        Outcome { processor: self.processor, counters: self.packet_loop.counters(), result }
    }

    fn serve(&mut self, terms: &Terms) -> Result<(), IoError> {
        // Here, because a waiter belongs to the thread that waits.
        let mut waiter = Waiter::new(terms.spin_margin)?;
        self.packet_loop.path().watch(&waiter, [WIRED, MOBILE])?;
        waiter.add(&self.ends.woken, Interest::Read, TOLD)?;
        let mut next_beat = Instant::ZERO;
        let mut last_turn = Clock::now();
        loop {
            let now = Clock::now();
            let was_frozen = std::mem::take(&mut self.was_frozen);
            let may_have_passed =
                || terms.bypass.as_ref().is_none_or(|it| it.is_silent_for(terms.hang_after));
            if now.saturating_since(last_turn) > terms.hang_after && !was_frozen && may_have_passed() {
                // Before the packets: they are behind those that went past.
                self.processor.resynchronise(now);
            }
            last_turn = now;
            let is_busy = self.packet_loop.turn(&mut self.processor)?;
            let now = Clock::now();
            if now >= next_beat {
                next_beat = now + terms.heartbeat;
                self.beacon.beats.fetch_add(1, Ordering::Relaxed);
                self.beacon.refusals.store(self.processor.refusals(), Ordering::Relaxed);
                self.processor.gather_measured();
                self.processor.release_idle_memory();
            }
            if self.is_draining && !self.is_drained() && self.processor.is_drained() {
                self.beacon.is_drained.store(true, Ordering::Release);
                self.announce();
            }
            if (self.beacon.is_told.load(Ordering::Relaxed) || self.has_more) && self.obey() {
                return Ok(());
            }
            if !is_busy && !self.has_more {
                let deadline = self.processor.next_deadline().map_or(next_beat, |at| at.min(next_beat));
                waiter.wait(Some(deadline))?;
            }
        }
    }

    fn is_drained(&self) -> bool {
        self.beacon.is_drained.load(Ordering::Relaxed)
    }

    /// Wakes the supervisor; a full pipe wakes as well.
    fn announce(&mut self) {
        drop(self.ends.news.write(&[0]));
    }

    /// Does what it was told; true when that is to end.
    fn obey(&mut self) -> bool {
        let mut sink = [0; 16];
        while matches!(self.ends.woken.read(&mut sink), Ok(len) if len > 0) {}
        // Before the commands are taken: one that comes in between is heard of again.
        self.beacon.is_told.swap(false, Ordering::AcqRel);
        self.has_more = false;
        let mut jobs = 0;
        loop {
            if jobs == JOBS_MAX {
                // Whatever other boxes send, packets have their turn.
                self.has_more = true;
                return false;
            }
            match self.ends.inbox.try_recv() {
                Ok(Command::Finish) | Err(mpsc::TryRecvError::Disconnected) => return true,
                // A device that is gone is noticed in the next turn.
                Ok(Command::Work(job)) => {
                    jobs += 1;
                    drop(self.packet_loop.work(job, &mut self.processor));
                }
                Ok(command) => self.act(command),
                Err(_) if self.is_succeeded => return true,
                Err(mpsc::TryRecvError::Empty) => return false,
            }
        }
    }

    fn act(&mut self, command: Command<P::Settings>) {
        let now = Clock::now();
        if !command.is_question() {
            return self.carry_out(command, now);
        }
        let began = Clock::thread_time();
        self.carry_out(command, now);
        self.packet_loop.has_answered(began);
    }

    fn carry_out(&mut self, command: Command<P::Settings>, now: Instant) {
        match command {
            // Who asked and has gone misses nothing.
            Command::Report { answer } => {
                let (counters, processor) = (self.packet_loop.counters(), self.processor.status());
                drop(answer.send(Report { counters, processor }));
            }
            Command::Meter { answer } => {
                drop(answer.send(self.packet_loop.meters(&self.processor)));
            }
            Command::SetControlGroup(group) => self.processor.set_control_group(group),
            Command::Measured { answer } => drop(answer.send(self.processor.measured())),
            Command::Flows { skip, count, answer } => {
                let flows = self.processor.flows(skip, count, now);
                drop(answer.send((flows, self.processor.flow_count())));
            }
            Command::Subscribers { from, answer } => {
                drop(answer.send(self.processor.subscribers(from, now)));
            }
            Command::Subscriber { client, from, answer } => {
                drop(answer.send(self.processor.subscriber(client, from, now)));
            }
            Command::Feedback { client, feedback } => {
                let is_known = self.processor.handle_feedback(client, &feedback);
                let counter =
                    if is_known { &self.beacon.feedback_accepted } else { &self.beacon.feedback_unknown };
                counter.fetch_add(1, Ordering::Relaxed);
            }
            Command::SetMtu { to, mtu } => self.processor.set_mtu(to, mtu, now),
            // Shard 0 has taken the same settings, and says so.
            Command::Apply(settings) => drop(self.processor.apply(&settings)),
            Command::ChangeJournals { journals: [down, up], answer } => {
                self.processor.change_journals(down, up);
                // Who asked does not wait for ever.
                _ = answer.send(());
            }
            Command::Resynchronise => self.processor.resynchronise(now),
            Command::PrepareToStore(done) => self.processor.prepare_to_store(done),
            Command::Freeze { answer, are_gone } => {
                // Who asked and has gone lets it go on.
                let told = answer.send(self.processor.store()).is_ok();
                match are_gone.recv() {
                    Ok(FreezeEnd::Gone) if told => self.processor.abandon(),
                    Ok(FreezeEnd::Succeeded) if told => {
                        self.processor.part();
                        self.is_succeeded = true;
                    }
                    _ => {}
                }
                self.was_frozen = true;
            }
            Command::Drain => {
                self.is_draining = true;
                self.processor.begin_drain(now);
            }
            Command::Finish | Command::Work(_) => {}
        }
    }
}
