//! Leftovers of killed instances: found and undone by the next start.

use std::path::Path;

use io::netlink::Netlink;
use io::{Clock, IoError, Leftover, Waiter};
use units::Duration;

use crate::record::Record;

/// The kind under which instances are registered.
pub(crate) const KIND: &str = "run";

/// How long to wait for a watchdog that is undoing a killed instance.
const UNDO_TIME_MAX: Duration = Duration::from_secs(3);

/// Undoes what killed instances left in this namespace; gives one line for each.
pub(crate) fn remove(base: &Path, netlink: &Netlink, namespace: u64) -> Result<Vec<String>, IoError> {
    let mut waiter = Waiter::new(Duration::ZERO)?;
    let give_up = Clock::now() + UNDO_TIME_MAX;
    while Leftover::is_any_being_undone(base, KIND)? && Clock::now() < give_up {
        waiter.wait(Some(Clock::now() + Duration::from_millis(20)))?;
    }
    let mut lines = Vec::new();
    for leftover in Leftover::find(base, KIND)? {
        let record = leftover.record().and_then(|text| Record::parse(&text));
        // Numbers are used again: a directory in our way is forgotten, wherever it came from.
        let is_in_our_way = leftover.owner().is_some_and(|owner| owner.pid() == std::process::id());
        match record {
            Some(record) if record.namespace != namespace && !is_in_our_way => continue,
            Some(record) if record.namespace != namespace => {}
            Some(record) => record.undo_all(netlink)?,
            // Killed before anything was set up.
            None => {}
        }
        let owner = leftover.owner().map_or("unknown".to_owned(), |owner| owner.pid().to_string());
        lines.push(format!("removed what process {owner} left behind"));
        leftover.forget()?;
    }
    Ok(lines)
}
