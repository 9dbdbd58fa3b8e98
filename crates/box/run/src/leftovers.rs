//! Leftovers of killed instances: found and undone by the next start.

use std::fs::File;
use std::path::Path;
use std::thread::{self, JoinHandle};

use handover::Ownership;
use io::netlink::Netlink;
use io::{Clock, IoError, Leftover, NamespaceId, Waiter};
use units::Duration;

use crate::handover::PendingHandovers;
use crate::instances::{self, KIND};
use crate::journal::{Journals, Left};
use crate::record::Record;
use crate::reset_orphans::{self, Haste};
use crate::{Config, Event};

/// Time to wait for a watchdog that is undoing a killed instance.
const UNDO_TIME_MAX: Duration = Duration::from_secs(3);

/// File in the directory of a killed instance of which nothing stands any more, and whose flows are being reset: who goes
/// on for the process that does so, if that dies too, has no more to do.
const UNDONE: &str = "undone";

/// Resources that were undone.
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

impl Indebted {
    fn of(leftover: Leftover, record: Record, base: &Path) -> Self {
        let mut owed = Journals::of(leftover.path()).read_owed();
        // Another box may have them: it is asked.
        let pending_handovers = PendingHandovers::read(base, record.namespace, &record.name);
        owed.retain(|left| pending_handovers.of(left) != Ownership::Leave);
        Self { leftover, owed, record }
    }
}

/// Resets flows of processes that have died, on threads of its own.
#[derive(Debug)]
pub(crate) struct Settling {
    threads: Vec<JoinHandle<Event>>,
    haste: Haste,
}

impl Settling {
    /// Those of `indebted`, and those in `lost`, which pass where those of an instance with settings `config` do.
    pub fn of(indebted: Vec<Indebted>, lost: Vec<Left>, config: &Config) -> Self {
        let haste = Haste::default();
        let settle_lost = (!lost.is_empty()).then(|| {
            let config = config.clone();
            thread::spawn(move || settle_lost(&lost, &config))
        });
        // At once: a stop waits for it.
        let settle = |one| {
            let haste = haste.clone();
            thread::spawn(move || settle_one(one, &haste))
        };
        let threads = indebted.into_iter().map(settle).chain(settle_lost).collect();
        Self { threads, haste }
    }

    /// True when it has ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the end, as a rule up to ten seconds; gives what to tell.
    pub fn end(self) -> Vec<Event> {
        self.haste.press();
        self.threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    }
}

/// Nobody else knows of these: they are waited for.
fn settle_lost(lost: &[Left], config: &Config) -> Event {
    let passage = reset_orphans::Passage::of(config);
    let reset = || reset_orphans::reset_ends(lost, passage, &Netlink::open()?, &Haste::default());
    match reset() {
        Ok(outcome) => Event::FlowsReset { outcome },
        Err(error) => Event::DebtOfKilledLeft { flows: lost.len(), error: error.to_string() },
    }
}

fn settle_one(indebted: Indebted, haste: &Haste) -> Event {
    let Indebted { leftover, owed, record } = indebted;
    let reset = || {
        reset_orphans::reset_ends(&owed, reset_orphans::Passage::of_record(&record), &Netlink::open()?, haste)
    };
    let (flows, result) = (owed.len(), reset());
    if haste.is_pressing()
        && let Err(error) = result
    {
        // What is written down stays, for the next start.
        return Event::DebtOfKilledLeft { flows, error: error.to_string() };
    }
    let rest = leftover.forget().map_or_else(|error| format!("; {error}"), |()| String::new());
    match result {
        Ok(outcome) => Event::DebtOfKilledSettled { outcome: format!("{outcome}{rest}") },
        Err(error) => Event::DebtOfKilledLeft { flows, error: format!("{error}{rest}") },
    }
}

/// Undoes what killed instances left in this namespace.
pub(crate) fn remove(base: &Path, netlink: &Netlink, namespace: NamespaceId) -> Result<Removed, IoError> {
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
            Some(ref record) if !record.namespace.is(&namespace) && !is_in_our_way => continue,
            Some(ref record) if !record.namespace.is(&namespace) => {}
            Some(ref record) => instances::undo_all(record, netlink, leftover.path())?,
            // Killed before anything was set up.
            None => {}
        }
        let process = leftover.owner().map_or("unknown".to_owned(), |owner| owner.pid().to_string());
        removed.events.push(Event::LeftoverRemoved { process });
        match record {
            // A directory in our way is needed: its name is ours.
            Some(record) if !is_in_our_way => {
                let indebted = Indebted::of(leftover, record, base);
                if indebted.owed.is_empty() {
                    indebted.leftover.forget()?;
                    continue;
                }
                // Without room for it the next start from nothing resets them.
                drop(File::create(indebted.leftover.path().join(UNDONE)));
                removed.indebted.push(indebted);
            }
            _ => leftover.forget()?,
        }
    }
    Ok(removed)
}

/// Killed instances of this namespace whose flows were being reset by a process that has died meanwhile.
///
/// # Errors
/// When `base` cannot be read.
pub(crate) fn find_unsettled(base: &Path, namespace: NamespaceId) -> Result<Vec<Indebted>, IoError> {
    let all = Leftover::find_with(base, KIND, UNDONE)?.into_iter();
    let here = all.filter_map(|leftover| {
        let record = Record::parse(&leftover.record()?)?;
        record.namespace.is(&namespace).then(|| Indebted::of(leftover, record, base))
    });
    Ok(here.collect())
}
