//! [`Passing`]: packets that went past this process, and whom that is told.

use io::Clock;
use units::Instant;

use super::Supervisor;
use crate::attachment::Attachment;
use crate::shards::Command;
use crate::{Processor, RunError};

/// Whether packets went past this process, because it was attached to nothing or hung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    /// Not that it is known.
    No,
    /// They did, and the shards are not told yet.
    Noticed,
    /// All shards are told; the next sign of life of each shows that it has heard.
    Told,
}

impl<A: Attachment, P: Processor + Send + 'static> Supervisor<'_, A, P> {
    /// Tells the processors when all signs of life have been away for so long that packets went past: before
    /// the next packet is
    /// read. What they know of their flows is no longer true.
    pub(super) fn notice_gap(&mut self) -> Result<(), RunError> {
        let silent = Clock::now().saturating_since(self.pulse.last_alive);
        if self.passing != Passing::No || silent <= self.ground.config.hang_after() {
            return Ok(());
        }
        if self.attachment.on_silence(self.packet_loop.path_mut(), self.events)? {
            self.note_passing();
            self.pulse.next_beat = Instant::ZERO;
        } else {
            self.pulse.last_alive = Clock::now();
        }
        Ok(())
    }

    /// Packets go past, and all shards are to know.
    pub(super) fn note_passing(&mut self) {
        self.passing = Passing::Noticed;
        self.resynchronise();
    }

    /// Tells all shards, if packets went past and they do not know.
    pub(super) fn resynchronise(&mut self) {
        if self.passing == Passing::Noticed {
            self.passing = Passing::Told;
            self.tell_of_gap();
        }
    }

    /// True when all shards have shown a sign of life since this was asked last, and know of what went past
    /// them.
    pub(super) fn are_alive(&mut self) -> bool {
        let are_alive = self.shards.are_alive();
        if self.passing == Passing::Told && are_alive {
            self.passing = Passing::No;
            // Once more: until now nothing was steered here.
            self.tell_of_gap();
        }
        let are_ready = are_alive && self.passing == Passing::No;
        if are_ready {
            self.pulse.last_alive = Clock::now();
        }
        are_ready
    }

    fn tell_of_gap(&mut self) {
        self.processor.resynchronise(Clock::now());
        self.shards.tell_all(|| Command::Resynchronise);
    }
}
