//! Upkeep, done a few times a second: heartbeat, watchdog, interfaces and their routes.

use std::sync::atomic::Ordering;

use engine::Port;
use io::{Clock, Interest};
use units::{Duration, Instant};

use super::passing::Passing;
use super::{Supervisor, WATCHDOG, Why};
use crate::attachment::Attachment;
use crate::leftovers::Settling;
use crate::shards::Command;
use crate::watchdog::News;
use crate::{AfterHang, Event, EventSink, Processor, RunError, StandIn};

/// An overload is told of once in so long, with all that was refused meanwhile.
const OVERLOAD_EVERY: Duration = Duration::from_secs(10);

/// Refusals because a table or memory was full.
#[derive(Debug, Default)]
pub(super) struct Overload {
    told: u64,
    next: Instant,
}

impl Overload {
    /// Event to be told when `refused` packets or flows were refused since the start.
    fn look(&mut self, refused: u64, now: Instant) -> Option<Event> {
        // Less than before: its flows, and their counters, are another process's.
        let refusals = refused.saturating_sub(self.told);
        if refusals == 0 || now < self.next {
            self.told = self.told.min(refused);
            return None;
        }
        (self.told, self.next) = (refused, now + OVERLOAD_EVERY);
        Some(Event::Overloaded { refusals })
    }
}

/// Number of handshakes that tell on which side clients are, and number of which one may come from a client
/// on the right side.
const OPENINGS: u64 = 30;
const OF_CLIENTS: u64 = 10;

/// Sides from which connections are opened.
#[derive(Debug, Default)]
pub(super) struct Sides {
    is_told: bool,
}

impl Sides {
    /// Event to be told, once, about the numbers of handshakes that have begun from the wired side and from
    /// the mobile one.
    fn look(&mut self, [by_servers, by_clients]: [u64; 2]) -> Option<Event> {
        let of = by_servers + by_clients;
        if self.is_told || of < OPENINGS || by_clients * OF_CLIENTS >= of {
            return None;
        }
        self.is_told = true;
        Some(Event::SidesSwapped { by_servers, of })
    }
}

impl<A: Attachment, P: Processor + Send + 'static> Supervisor<'_, A, P> {
    /// Shows that all is alive, and looks after everything; gives a reason to end.
    pub(super) fn beat(&mut self) -> Result<Option<Why>, RunError> {
        // Here too: it may have hung since the last packets.
        self.notice_gap()?;
        let are_alive = self.are_alive();
        if are_alive {
            self.attachment.beat();
            // One that ends may have been replaced.
            let main = self.stop.is_none().then(|| self.pulse.main_process());
            self.pulse.service.is_alive(main, self.ground.instance.path());
        }
        let checked = self.check_interfaces();
        self.patience.with(checked, self.events)?;
        let checked = self.check_routes();
        self.patience.with(checked, self.events)?;
        if self.shards.has_failed() {
            return Err(RunError::ShardLost);
        }
        if are_alive {
            self.keep_directory();
        }
        if let Some(event) = self.warnings.journal_alarm.take() {
            self.events.on_event(&event);
        }
        let refused = self.processor.refusals() + self.shards.refusals();
        if let Some(event) = self.warnings.overload.look(refused, Clock::now()) {
            self.events.on_event(&event);
        }
        if let Some(event) = self.warnings.sides.look(self.processor.openings()) {
            self.events.on_event(&event);
        }
        self.processor.gather_measured();
        self.processor.release_idle_memory();
        self.look_at_ab(Clock::now());
        if self.settling.as_ref().is_some_and(Settling::is_finished) {
            end_settling(self.settling.take(), self.events);
        }
        if let Some(handovers) = self.inputs.handovers.as_ref().filter(|_| self.settling.is_none()) {
            let lost = handovers.take_lost();
            self.settling = (!lost.is_empty()).then(|| Settling::of(Vec::new(), lost, self.ground.config));
        }
        if let Some(why) = self.hear_watchdog(are_alive)? {
            return Ok(Some(why));
        }
        self.resynchronise();
        // What the watchdog has taken away stays away until all shards are alive.
        let is_steered = are_alive && !self.pulse.is_unsteered;
        if self.attachment.ensure(is_steered, &mut self.patience, self.events)? {
            self.entrust();
        }
        self.part_from_before();
        Ok(self.look_at_filters())
    }

    /// Says what packet filters are against, and hands all flows back because of one: no flow begins here any more.
    fn look_at_filters(&mut self) -> Option<Why> {
        let event = match self.attachment.news_of_filters()? {
            None => Event::FilterResolved,
            Some(rule) if self.ground.config.bypass_filters => Event::FilterBypassed { rule },
            // What it does not take would not pass at all.
            Some(rule) if !self.attachment.is_passed_without() => Event::FilterUnseen { rule },
            Some(rule) => Event::FilterAppeared { rule },
        };
        self.events.on_event(&event);
        let Event::FilterAppeared { .. } = event else { return None };
        self.no_new_flows.store(true, Ordering::Relaxed);
        if let Some(bypass) = self.attachment.bypass() {
            bypass.refuse_new_flows(true);
        }
        // Who was told to end before ends.
        self.stop.is_none().then_some(Why::Filter)
    }

    /// Sends the heartbeat if all shards are alive, and acts on what the watchdog did.
    fn hear_watchdog(&mut self, are_alive: bool) -> Result<Option<Why>, RunError> {
        let Some(guardian) = self.pulse.guardian.as_mut() else { return Ok(None) };
        match guardian.news() {
            Some(News::SteeringRemoved) if !self.attachment.can_be_taken_away() => guardian.resumed(),
            Some(News::SteeringRemoved) if self.ground.config.watchdog.after_hang == AfterHang::Exit => {
                self.events.on_event(&Event::Hung { by: StandIn::Watchdog, aftermath: "ending" });
                return Ok(Some(Why::Hang));
            }
            Some(News::SteeringRemoved) => {
                self.pulse.is_unsteered = true;
                self.passing = Passing::Noticed;
                self.pulse.next_beat = Instant::ZERO;
            }
            Some(News::Died) => self.events.on_event(&Event::WatchdogDied),
            None => {}
        }
        // Not before all shards know that packets went past.
        let may_steer = are_alive && self.passing == Passing::No;
        if self.pulse.is_unsteered
            && may_steer
            && self.patience.with(self.attachment.steer(), self.events)?.is_some()
        {
            self.pulse.is_unsteered = false;
            guardian.resumed();
            self.events.on_event(&Event::Hung { by: StandIn::Watchdog, aftermath: "installed again" });
            self.entrust();
        }
        let Some(guardian) = self.pulse.guardian.as_mut() else { return Ok(None) };
        // Without one the flows are better off than without us: it is tried again.
        match guardian.revive(self.ground.instance) {
            Ok(true) => {
                if let Some(fd) = guardian.fd() {
                    self.inputs.waiter.add(&fd, Interest::Read, WATCHDOG)?;
                }
                // What leads packets here is as it was, also for a process that is about to take it over.
                self.entrust_watchdog();
            }
            Ok(false) => {}
            Err(error) => self.events.on_event(&Event::WatchdogMissing { error: error.to_string() }),
        }
        if let Some(guardian) = self.pulse.guardian.as_mut().filter(|_| are_alive) {
            guardian.beat();
        }
        Ok(None)
    }

    /// Follows interfaces that go and come back, and has the processors keep to their MTUs.
    fn check_interfaces(&mut self) -> Result<(), RunError> {
        for side in Port::BOTH {
            let change = self.links.interfaces.look(side, self.ground.netlink)?;
            if let Some(event) = self.links.interfaces.event(side, change, self.attachment.remedy()) {
                self.events.on_event(&event);
            }
            if change.is_new {
                self.attachment.note_new(side);
            }
            if change.is_back || change.is_new {
                // With the routes through it.
                self.attachment.note_routes();
            }
            if let Some(mtu) = change.mtu {
                let interface = self.links.interfaces.name(side).to_owned();
                self.events.on_event(&Event::InterfaceMtu { interface, mtu });
                self.attachment.widen(mtu)?;
                self.tell_mtu(side);
            }
        }
        if self.attachment.must_follow(&self.links.interfaces) {
            self.follow();
        }
        Ok(())
    }

    /// Attaches to interfaces that were made anew. What cannot be attached is said once and tried again:
    /// better than an end.
    fn follow(&mut self) {
        if self.attachment.is_passed_without() {
            self.note_passing();
        }
        let path = self.packet_loop.path_mut();
        let followed = self.attachment.follow(&self.links.interfaces, path, &self.inputs.waiter);
        match followed.and_then(|()| Ok(self.renew_stock()?)) {
            Ok(()) => {
                self.links.said = None;
                self.entrust();
            }
            // It may have gone again; then it is followed again.
            Err(RunError::Io(error)) if error.is_not_there() || error.is_device_gone() => {}
            Err(error) => {
                let consequence = self.attachment.consequence();
                let event = Event::NotFollowed { error: error.to_string(), consequence };
                if self.links.said.as_ref() != Some(&event) {
                    self.events.on_event(&event);
                    self.links.said = Some(event);
                }
            }
        }
    }

    fn tell_mtu(&mut self, side: Port) {
        let mtu = self.links.interfaces.mtu(side).min(self.links.route_mtus[side.index()]);
        self.processor.set_mtu(side, mtu, Clock::now());
        self.shards.tell_all(|| Command::SetMtu { to: side, mtu });
    }

    /// Has the processors keep to the MTUs that routes state.
    fn check_routes(&mut self) -> Result<(), RunError> {
        let Some(found) = self.attachment.route_mtus(&self.links.interfaces)? else { return Ok(()) };
        for (side, route_mtu) in Port::BOTH.into_iter().zip(found) {
            let before = std::mem::replace(&mut self.links.route_mtus[side.index()], route_mtu);
            if route_mtu != before {
                let interface = self.links.interfaces.name(side).to_owned();
                let mtu = route_mtu.min(self.links.interfaces.mtu(side));
                self.events.on_event(&Event::RouteMtu { interface, mtu });
                self.tell_mtu(side);
            }
        }
        Ok(())
    }
}

/// Waits until flows of killed instances are reset.
pub(super) fn end_settling(settling: Option<Settling>, events: &mut dyn EventSink) {
    settling.map(Settling::end).into_iter().flatten().for_each(|event| events.on_event(&event));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overload_is_told_of_at_most_once_in_ten_seconds() {
        let mut overload = Overload::default();
        let at = Instant::from_millis;
        let mut look = |refused, ms| match overload.look(refused, at(ms)) {
            Some(Event::Overloaded { refusals }) => refusals,
            _ => 0,
        };
        assert_eq!([look(0, 1), look(5, 2), look(9, 3), look(9, 9_000), look(12, 10_002)], [0, 5, 0, 0, 7]);
        assert_eq!([look(1, 30_000), look(3, 30_001)], [0, 2], "another engine counts from the start");
    }

    #[test]
    fn interfaces_that_are_swapped_are_told_of_once() {
        let mut sides = Sides::default();
        assert!(sides.look([29, 0]).is_none(), "few say nothing");
        assert!(sides.look([30, 4]).is_none(), "servers open some, too");
        let told = sides.look([38, 3]);
        assert!(matches!(told, Some(Event::SidesSwapped { by_servers: 38, of: 41 })), "{told:?}");
        assert!(sides.look([100, 0]).is_none());
    }
}
