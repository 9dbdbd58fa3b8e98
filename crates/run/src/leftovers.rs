//! Leftovers of killed instances: found and undone by the next start.

use std::path::Path;
use std::thread::{self, JoinHandle};

use handover::Fate;
use io::netlink::Netlink;
use io::{Clock, IoError, Leftover, Waiter};
use units::Duration;

use crate::journal::{self, Left};
use crate::record::Record;
use crate::recovery;
use crate::roaming::Fates;
use crate::{Config, Event, RunError, console};

/// The kind under which instances are registered.
pub(crate) const KIND: &str = "run";

/// How long to wait for a watchdog that is undoing a killed instance.
const UNDO_TIME_MAX: Duration = Duration::from_secs(3);

/// What was undone.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// One for each instance.
    pub events: Vec<Event>,
    /// Those that owed something to flows, when not even their watchdog has lived to see to it.
    pub indebted: Vec<Indebted>,
}

/// A killed instance's debts.
#[derive(Debug)]
pub(crate) struct Indebted {
    leftover: Leftover,
    owed: Vec<Left>,
    record: Record,
}

/// Resets the flows of `indebted` on threads of their own, for up to ten seconds; gives what to tell.
pub(crate) fn settle(indebted: Vec<Indebted>) -> JoinHandle<Vec<Event>> {
    thread::spawn(move || {
        // At once: a stop waits for it.
        let each: Vec<_> = indebted.into_iter().map(|one| thread::spawn(move || settle_one(one))).collect();
        each.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

/// Resets the flows in `owed`, of a process that has died, on a thread of its own; gives what to tell.
pub(crate) fn reset(owed: Vec<Left>, config: &Config) -> JoinHandle<Vec<Event>> {
    let config = config.clone();
    thread::spawn(move || {
        let passage = recovery::Passage::of(&config);
        let reset = || recovery::reset_ends(&owed, passage, &Netlink::open()?);
        vec![match reset() {
            Ok(outcome) => Event::FlowsReset { outcome },
            Err(error) => Event::DebtOfKilledLeft { flows: owed.len(), error: error.to_string() },
        }]
    })
}

fn settle_one(indebted: Indebted) -> Event {
    let reset = || recovery::reset_ends(&indebted.owed, indebted.record.passage(), &Netlink::open()?);
    let (flows, result) = (indebted.owed.len(), reset());
    let rest = indebted.leftover.forget().map_or_else(|error| format!("; {error}"), |()| String::new());
    match result {
        Ok(outcome) => Event::DebtOfKilledSettled { outcome: format!("{outcome}{rest}") },
        Err(error) => Event::DebtOfKilledLeft { flows, error: format!("{error}{rest}") },
    }
}

/// Refuses an interface of `config` that another running instance in this namespace bridges, or steers by
/// programs: their names are not for everybody to see. With `is_inline` set also one that another steers in any
/// way, since a bridge takes all frames. `process` is not another. Who replaces one may stand behind it.
pub(crate) fn refuse_taken(
    config: &Config,
    namespace: u64,
    is_inline: bool,
    process: u32,
) -> Result<(), RunError> {
    for found in console::find(&config.state_directory)?.iter().filter(|found| found.process != process) {
        let Some(record) = found.record().filter(|record| record.namespace == namespace) else { continue };
        let theirs = [&record.wired, &record.mobile];
        let shared = [&config.wired, &config.mobile].into_iter().find(|name| theirs.contains(name));
        let has_programs = config.replace.is_none() && record.rules.is_empty();
        if let Some(interface) = shared.filter(|_| is_inline || record.is_inline || has_programs) {
            let how = format!("by '{}', process {}", found.name, found.process);
            return Err(RunError::AlreadySteered { interface: interface.clone(), how });
        }
    }
    Ok(())
}

/// Undoes what killed instances left in this namespace.
pub(crate) fn remove(base: &Path, netlink: &Netlink, namespace: u64) -> Result<Removed, IoError> {
    let mut waiter = Waiter::new(Duration::ZERO)?;
    let give_up = Clock::now() + UNDO_TIME_MAX;
    while Leftover::is_any_being_undone(base, KIND)? && Clock::now() < give_up {
        waiter.wait(Some(Clock::now() + Duration::from_millis(20)))?;
    }
    let mut removed = Removed::default();
    for leftover in Leftover::find(base, KIND)? {
        let record = leftover.record().and_then(|text| Record::parse(&text));
        // Numbers are used again: a directory in our way is forgotten, wherever it came from.
        let is_in_our_way = leftover.owner().is_some_and(|owner| owner.pid() == std::process::id());
        match record {
            Some(ref record) if record.namespace != namespace && !is_in_our_way => continue,
            Some(ref record) if record.namespace != namespace => {}
            Some(ref record) => record.undo_all(netlink, leftover.path())?,
            // Killed before anything was set up.
            None => {}
        }
        let process = leftover.owner().map_or("unknown".to_owned(), |owner| owner.pid().to_string());
        removed.events.push(Event::LeftoverRemoved { process });
        let mut owed = journal::read_owed(leftover.path());
        if let Some(record) = &record {
            // Another box may have them: it is asked.
            let fates = Fates::read(base, record.namespace, &record.name);
            owed.retain(|left| fates.of(left) != Fate::Leave);
        }
        match record {
            // A directory in our way is needed: its name is ours.
            Some(record) if !owed.is_empty() && !is_in_our_way => {
                removed.indebted.push(Indebted { leftover, owed, record });
            }
            _ => leftover.forget()?,
        }
    }
    Ok(removed)
}
