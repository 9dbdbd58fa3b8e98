//! [`Said`]: what a process has told its watchdog.

use std::os::fd::OwnedFd;

use units::Duration;

use super::{CLOSING, END_OF_LIST, ENDS, FORGET, GIVEN, KEEP, RESUMED};
use crate::inherited_resources::InheritedResources;
use crate::log;

/// Longest step of undoing everything. The state of many flows is given back in one step: seconds of silence are no
/// hang then. Packets do not come to the process any more.
const CLOSING_TIME_MAX: Duration = Duration::from_secs(30);

/// Messages and descriptors that the process has given.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// A list that is coming in.
    text: Option<Vec<u8>>,
    /// Descriptors that came with it.
    descriptors: Vec<OwnedFd>,
    pub kept: Option<InheritedResources>,
    pub has_resumed: bool,
    is_closing: bool,
    /// It ends in good order.
    pub ends: bool,
    /// Another process has all.
    pub is_given: bool,
    /// It was silent for too long, and was killed for it.
    pub has_hung: bool,
}

impl Said {
    /// True when another process can go on in its place.
    pub fn may_be_succeeded(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.inventory.has_successor())
    }

    /// Silence after which something is done.
    pub fn patience(&self, hang_after: Duration) -> Duration {
        if self.is_closing {
            return hang_after.max(CLOSING_TIME_MAX);
        }
        // Programs let packets pass after `hang_after`: before that it is too late for a successor.
        if self.may_be_succeeded() { hang_after * 3 / 4 } else { hang_after }
    }

    pub fn hear(&mut self, bytes: &[u8], descriptors: Vec<OwnedFd>) {
        self.descriptors.extend(descriptors);
        for &byte in bytes {
            match (self.text.as_mut(), byte) {
                (Some(_), END_OF_LIST) => {
                    let text = self.text.take().unwrap_or_default();
                    let kept = InheritedResources::parse(&text, std::mem::take(&mut self.descriptors));
                    self.kept = kept
                        .inspect_err(|error| {
                            let text = format!("no successor can go on: {error}");
                            log::warn(&text);
                        })
                        .ok();
                }
                (Some(text), byte) => text.push(byte),
                (None, KEEP) => self.text = Some(Vec::new()),
                (None, FORGET) => self.kept = None,
                (None, RESUMED) => self.has_resumed = true,
                (None, CLOSING) => self.is_closing = true,
                (None, ENDS) => self.ends = true,
                (None, GIVEN) => self.is_given = true,
                (None, _) => {}
            }
        }
    }
}
