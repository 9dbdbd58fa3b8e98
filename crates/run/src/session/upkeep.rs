//! What a session follows while it runs: its interfaces, their routes, and packets that went past it.

use engine::Port;
use io::Clock;
use units::{Duration, Instant};

use super::Session;
use crate::plan;
use crate::shards::Command;
use crate::{Processor, RunError};

/// Routes are looked at this often, for their MTUs.
pub(super) const ROUTES_EVERY: Duration = Duration::from_secs(10);

/// When an interface has changed, it is looked at so much later: a change comes in several pieces.
pub(super) const LINK_PAUSE: Duration = Duration::from_millis(5);

/// Whether packets went past this process, because the steering was away or let them pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    /// Not that it is known.
    No,
    /// They did, and the shards are not told yet.
    Noticed,
    /// All shards are told; the next sign of life of each shows that it has heard.
    Told,
}

impl<P: Processor + Send + 'static> Session<'_, P> {
    /// Tells the processors when all signs of life have been away for so long that packets went past: before the next packet is
    /// read. What they know of their flows is no longer true.
    pub(super) fn notice_gap(&mut self, processor: &mut P) {
        let silent = Clock::now().saturating_since(self.last_alive);
        if self.passing == Passing::No && silent > self.config.hang_after() {
            self.passing = Passing::Noticed;
            self.resynchronise(processor);
            self.next_beat = Instant::ZERO;
        }
    }

    /// Tells all shards, if packets went past and they do not know.
    pub(super) fn resynchronise(&mut self, processor: &mut P) {
        if self.passing == Passing::Noticed {
            self.passing = Passing::Told;
            processor.resynchronise(Clock::now());
            self.shards.tell_all(|| Command::Resynchronise);
        }
    }

    /// True when all shards have shown a sign of life since this was asked last, and know of what went past them.
    pub(super) fn are_alive(&mut self, processor: &mut P) -> bool {
        let now = Clock::now();
        let are_alive = self.shards.are_alive();
        if self.passing == Passing::Told && are_alive {
            self.passing = Passing::No;
            // Once more: until now nothing was steered here.
            processor.resynchronise(now);
            self.shards.tell_all(|| Command::Resynchronise);
        }
        let are_ready = are_alive && self.passing == Passing::No;
        if are_ready {
            self.last_alive = now;
        }
        are_ready
    }

    /// Follows interfaces that go and come back, and has the processors keep to their MTUs.
    pub(super) fn check_interfaces(
        &mut self,
        processor: &mut P,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), RunError> {
        for side in Port::BOTH {
            let change = self.interfaces.look(side, self.netlink)?;
            let has_programs = self.steering.bypass().is_some();
            let remedy = if has_programs {
                "its steering program is attached again, and flows of before are handed back, since packets of theirs went past"
            } else {
                "going on with it, whose rules name it"
            };
            if let Some(line) = self.interfaces.line(side, change, remedy) {
                say(&line);
            }
            self.must_follow |= change.is_new && has_programs;
            if change.is_back || change.is_new {
                // With the routes through it.
                self.next_routes = Instant::ZERO;
            }
            if let Some(mtu) = change.mtu {
                say(&format!("the MTU of {} is {mtu}", self.interfaces.name(side)));
                self.steering.widen(mtu)?;
                self.tell_mtu(side, processor);
            }
        }
        if self.must_follow && self.interfaces.are_up() {
            // Until the programs are there packets go past.
            self.passing = Passing::Noticed;
            self.resynchronise(processor);
            match self.steering.follow_interfaces() {
                Ok(()) => self.must_follow = false,
                // It may have gone again; then it is followed again.
                Err(RunError::Io(error)) if error.is_not_there() => {}
                Err(error) => self.say_unsteered(&error, say),
            }
        }
        Ok(())
    }

    /// TCP passes as long as the programs cannot be attached: better than an end.
    fn say_unsteered(&mut self, error: &RunError, say: &mut dyn FnMut(&str)) {
        let line = format!("warning: {error}: TCP is forwarded without acceleration, and it is tried again");
        if self.said_unsteered.as_ref() != Some(&line) {
            say(&line);
            self.said_unsteered = Some(line);
        }
    }

    fn tell_mtu(&self, side: Port, processor: &mut P) {
        let mtu = self.interfaces.mtu(side).min(self.route_mtus[side.index()]);
        processor.set_mtu(side, mtu, Clock::now());
        self.shards.tell_all(|| Command::SetMtu { to: side, mtu });
    }

    /// Has the processors keep to the MTUs that routes state.
    pub(super) fn check_routes(
        &mut self,
        processor: &mut P,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), RunError> {
        let began = Clock::now();
        // One that is not there has no routes.
        if began < self.next_routes || !self.interfaces.are_up() {
            return Ok(());
        }
        let names = Port::BOTH.map(|side| self.interfaces.name(side));
        let found = match plan::route_mtus(names, self.netlink) {
            Err(error) if error.is_not_there() => return Ok(()),
            found => found,
        };
        // Where there are so many routes that it takes long, seldom.
        let now = Clock::now();
        self.next_routes = now + ROUTES_EVERY.max(now.saturating_since(began) * 1_000);
        for (side, route_mtu) in Port::BOTH.into_iter().zip(found?) {
            let before = std::mem::replace(&mut self.route_mtus[side.index()], route_mtu);
            if route_mtu != before {
                let mtu = route_mtu.min(self.interfaces.mtu(side));
                say(&format!("the least MTU of the routes through {} is {mtu}", self.interfaces.name(side)));
                self.tell_mtu(side, processor);
            }
        }
        Ok(())
    }
}
