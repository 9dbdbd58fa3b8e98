//! [`stand_by`]: a process that does not steer, because of a packet filter that has come up, waits until it may.

use io::netlink::Netlink;
use io::{Clock, Interest, Lifeline, Waiter};
use units::Duration;

use super::Why;
use crate::service::Service;
use crate::signals::CaughtSignals;
use crate::{Config, Event, EventSink, Plan, RunError};

/// How often is looked whether anything is against it still: all rules are read.
const EVERY: Duration = Duration::from_secs(1);

/// What the waiter reports: nothing of it is told apart.
const WOKEN: u64 = 0;

/// Waits until `config` could start as from nothing; a reason to end, if one comes before.
///
/// # Errors
/// When it cannot wait.
pub(super) fn stand_by(
    config: &Config,
    signals: &CaughtSignals,
    events: &mut dyn EventSink,
) -> Result<Option<Why>, RunError> {
    let (mut service, lifeline) = (Service::find(), Lifeline::inherited());
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(&signals.ending, Interest::Read, WOKEN)?;
    waiter.add(&signals.reload, Interest::Read, WOKEN)?;
    if let Some(line) = &lifeline {
        waiter.add(line, Interest::Read, WOKEN)?;
    }
    let mut said = None;
    loop {
        // At first, too: one that starts and stands by in turn is not to do so all the time.
        let look_at = Clock::now() + EVERY;
        while Clock::now() < look_at {
            service.stands_by();
            if let Some(signal) = signals.ending.take() {
                return Ok(Some(Why::Signal(signal)));
            }
            if lifeline.as_ref().is_some_and(Lifeline::is_cut) {
                return Ok(Some(Why::Abandoned));
            }
            // The settings are read at the start.
            let _reload = signals.reload.take();
            waiter.wait(Some(look_at))?;
        }
        let why = Netlink::open().map_err(RunError::from).and_then(|netlink| Plan::make(config, &netlink));
        let Err(why) = why else {
            events.on_event(&Event::StandbyEnds);
            return Ok(None);
        };
        let why = why.to_string();
        if said.as_ref() != Some(&why) {
            events.on_event(&Event::StandsBy { why: why.clone() });
            said = Some(why);
        }
    }
}
