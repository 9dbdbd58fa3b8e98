//! The directory with what an instance has written down: made anew when others have deleted it, or when there was no room
//! for it at the start.
//!
//! Nothing depends on it while the watchdog lives, which has descriptors of the journals and a copy of the record. It is
//! needed by whoever asks this process anything, and by the next start when both have died.

use std::time::Duration;

use engine::Journal;
use io::{Interest, OWNER, ProcessId};

use super::start::{NewJournals, share_journals};
use super::{CONSOLE, Supervisor, WATCHDOG};
use crate::attachment::Attachment;
use crate::journal::{self, FlowJournal};
use crate::shards::Command;
use crate::watchdog::Guardian;
use crate::{Event, Processor, RunError};

/// Longest time that a shard may take to enter its flows into another journal.
const JOURNAL_TIME_MAX: Duration = Duration::from_secs(2);

impl<A: Attachment, P: Processor + Send + 'static> Supervisor<'_, A, P> {
    /// Looks whether the directory is there, and makes it anew if not. Why that is not possible is said once.
    pub(super) fn keep_directory(&mut self) {
        match self.restore_directory() {
            Ok(is_new) => {
                self.warnings.said_missing = false;
                if is_new {
                    self.forget_dead();
                    self.events.on_event(&Event::DirectoryRestored);
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.warnings.said_missing, true) {
                    self.events.on_event(&Event::DirectoryMissing { error: error.to_string() });
                }
            }
        }
    }

    /// True when something had to be made anew.
    fn restore_directory(&mut self) -> Result<bool, RunError> {
        let instance = self.ground.instance;
        let is_locked_anew = instance.restore()?;
        if let Some(guardian) = self.pulse.guardian.as_mut().filter(|_| is_locked_anew) {
            // With the new lock. What it kept is not in any directory.
            guardian.relaunch(instance)?;
            if let Some(fd) = self.pulse.guardian.as_ref().and_then(Guardian::fd) {
                self.inputs.waiter.add(&fd, Interest::Read, WATCHDOG)?;
            }
            self.entrust();
        }
        let has_console = self.inputs.console.is_there();
        if !has_console {
            self.inputs.console = self.inputs.console.again(instance.path())?;
            self.inputs.waiter.add(&self.inputs.console, Interest::Read, CONSOLE)?;
        }
        let has_journals = self.successor_needs.journals.are_named();
        if !has_journals {
            self.renew_journals()?;
            self.entrust();
        }
        Ok(is_locked_anew || !has_console || !has_journals)
    }

    /// Removes the directory of the one that has died, for which this process goes on: where nothing could be written,
    /// its watchdog could not either. Another process of its number may have it by this time.
    fn forget_dead(&self) {
        let Some(directory) = self.ground.config.recover.as_ref().and_then(|record| record.parent()) else {
            return;
        };
        let owner = std::fs::read_to_string(directory.join(OWNER)).ok();
        let owner = owner.and_then(|text| text.parse::<ProcessId>().ok());
        if owner.is_some_and(|owner| !owner.is_alive()) {
            drop(std::fs::remove_dir_all(directory));
        }
    }

    /// Has all shards go on with new journals. Packets wait meanwhile.
    fn renew_journals(&mut self) -> Result<(), RunError> {
        let (config, instance) = (self.ground.config, self.ground.instance);
        // Some of the files may be there still.
        journal::discard(instance.path());
        let headers = self.attachment.link_headers();
        let new = NewJournals { config, instance, headers, alarm: &self.warnings.journal_alarm };
        let mut new = new.create(self.shards.count())?;
        let shared = share_journals(instance, &new)?;
        let boxed =
            |[down, up]: [FlowJournal; 2]| -> [Box<dyn Journal>; 2] { [Box::new(down), Box::new(up)] };
        let others = new.split_off(1).into_iter().map(boxed);
        let answers =
            self.shards.tell_each(others, |journals, answer| Command::ChangeJournals { journals, answer });
        for [down, up] in new.into_iter().map(boxed) {
            self.processor.change_journals(down, up);
        }
        for answer in answers {
            // One that has ended is noticed elsewhere.
            _ = answer.recv_timeout(JOURNAL_TIME_MAX);
        }
        self.successor_needs.journals = shared;
        Ok(())
    }
}
