//! [`Attachment`]: how the packets of two interfaces come to this process, as the supervisor knows it.
//!
//! ```text
//!   Site: looked at, devices made ── attach ──▶ Attachment: packets come ── release, undo ──▶ as before
//! ```
//!
//! There are two: [`crate::routed`] takes TCP out of what a router forwards, [`crate::inline`] is a bridge.

use std::sync::Arc;

use engine::Port;
use io::features::Feature;
use io::netlink::{InterfaceIndex, Netlink};
use io::{Instance, IoError, NamespaceId, Waiter};

use crate::inherited_resources::InheritedResources;
use crate::inline::link_headers::SharedHeaders;
use crate::interfaces::Interfaces;
use crate::journal::Journals;
use crate::lasting::Lasting;
use crate::packet_loop::PacketLoop;
use crate::packet_path::PacketPath;
use crate::patience::Patience;
use crate::record::Record;
use crate::steering::bypass::Bypass;
use crate::steering::subscribers::SubscriberRoutes;
use crate::upgrade::predecessor::Predecessor;
use crate::{Config, EventSink, RunError};

/// By what a waiter reports packets: of the wired side, of the mobile one.
pub(crate) const PATHS: [u64; 2] = [0, 1];

/// Inputs that an attachment is built on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground<'a> {
    pub config: &'a Config,
    pub netlink: &'a Netlink,
    pub instance: &'a Instance,
    /// The network namespace.
    pub namespace: NamespaceId,
}

/// Two interfaces that can be attached to, with the devices that takes; no packet comes yet.
pub(crate) trait Site: Sized {
    type Path: PacketPath + 'static;
    type Attachment<'a>: Attachment<Path = Self::Path>
    where
        Self: 'a;

    /// Features that the machine must allow.
    const NEEDS: &'static [Feature];

    /// Whether one may be made while another process has the same interfaces, and stand behind that one's.
    const STANDS_BEHIND: bool;

    /// Looks at the machine and makes the devices.
    ///
    /// # Errors
    /// When the interfaces cannot be used, or something that is needed is missing.
    fn survey(config: &Config, netlink: &Netlink, namespace: NamespaceId) -> Result<Self, RunError>;

    /// The same in the place of another process, with what that one has or has left, as `record` says: all of it
    /// stays at work.
    ///
    /// # Errors
    /// When something is not as it was any more, or the settings are others.
    fn inherit(
        config: &Config,
        netlink: &Netlink,
        kept: &mut InheritedResources,
        record: Record,
    ) -> Result<Self, RunError>;

    /// Threads that handle packets.
    fn shards(&self) -> usize {
        1
    }

    /// The interfaces and their MTUs: wired, mobile.
    fn links(&self) -> [(InterfaceIndex, u32); 2];

    /// The least that routes through them state, or the most there is.
    fn route_mtus(&self) -> [u32; 2] {
        [u32::MAX; 2]
    }

    /// Headers that packets have in front, where this machine has to know.
    fn link_headers(&self) -> Option<&SharedHeaders> {
        None
    }

    /// Attaches; gives a path for each shard, and the attachment, which is to be dropped before them.
    ///
    /// # Errors
    /// When the kernel refuses; then nothing stays.
    fn attach<'a>(
        &'a mut self,
        ground: Ground<'a>,
        events: &mut dyn EventSink,
    ) -> Result<(Vec<Self::Path>, Self::Attachment<'a>), RunError>;
}

/// Packets come to this process as long as this is there and beats.
pub(crate) trait Attachment: Sized {
    type Path: PacketPath + 'static;

    /// As in the status.
    fn name(&self) -> &'static str;

    /// Purpose of this run, in a few words.
    fn purpose(&self) -> String;

    /// Bypass for flows that are left to the kernel, if there is one.
    fn bypass(&self) -> Option<&Arc<Bypass>> {
        None
    }

    /// Routes that lead subscribers here, if there are any.
    fn subscribers(&self) -> Option<&Arc<SubscriberRoutes>> {
        None
    }

    /// The instance whose place this one takes, as long as it is there.
    fn predecessor(&self) -> Option<&Predecessor> {
        None
    }

    /// Has the instance end whose place this one takes, if there is one; true then.
    ///
    /// # Errors
    /// When it does not want to.
    fn retire_predecessor(&mut self) -> Result<bool, RunError> {
        Ok(false)
    }

    /// Resources that must outlive this process for a successor to go on; none where that cannot be.
    fn lasting(&self) -> Option<Lasting<'_>> {
        None
    }

    /// Learns of the flows of the process before what only this machine's side of them needs, from its journals.
    fn learn(&self, _journals: &Journals) {}

    /// Headers that packets have in front, where this machine has to know.
    fn link_headers(&self) -> Option<&SharedHeaders> {
        None
    }

    /// Takes ownership of what was inherited.
    ///
    /// # Errors
    /// When it cannot be written down.
    fn own(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    /// Leaves everything at work for another process, which has it.
    fn leave(self) {}

    /// All shards are alive: to be told several times in the time after which they count as hung.
    fn beat(&self);

    /// All was silent for longer than may be. True when packets may have gone past meanwhile.
    ///
    /// # Errors
    /// When a device is gone.
    fn on_silence(&mut self, path: &mut Self::Path, events: &mut dyn EventSink) -> Result<bool, RunError>;

    /// True when the watchdog takes something away after a hang, which [`Attachment::steer`] has to install
    /// again.
    fn can_be_taken_away(&self) -> bool {
        false
    }

    /// Installs what the watchdog has taken away.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn steer(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    /// Repairs what others have taken away, and lets the instance before go when it has ended; true when
    /// [`Attachment::lasting`] is another one then.
    ///
    /// # Errors
    /// The failure, if it is permanent.
    fn ensure(
        &mut self,
        _is_steered: bool,
        _patience: &mut Patience,
        _events: &mut dyn EventSink,
    ) -> Result<bool, RunError> {
        Ok(false)
    }

    /// Obstacle to the steering among packet filters of others, if that has changed: none any more, or which.
    fn news_of_filters(&mut self) -> Option<Option<String>> {
        None
    }

    /// An interface was made anew, and is to be followed.
    fn note_new(&mut self, side: Port);

    /// Some interface can be followed now.
    fn must_follow(&self, interfaces: &Interfaces) -> bool;

    /// True when packets pass while this is attached to nothing.
    fn is_passed_without(&self) -> bool;

    /// Attaches to interfaces that were made anew, and has `waiter` report their packets by [`PATHS`].
    ///
    /// # Errors
    /// When the kernel refuses, or one has gone again; it is to be tried again then.
    fn follow(
        &mut self,
        interfaces: &Interfaces,
        path: &mut Self::Path,
        waiter: &Waiter,
    ) -> Result<(), RunError>;

    /// Remedy for an interface that was made anew.
    fn remedy(&self) -> &'static str;

    /// Consequence while the remedy cannot be applied.
    fn consequence(&self) -> &'static str;

    /// Sets the longest packets of an interface from here on.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn widen(&self, _mtu: u32) -> Result<(), RunError> {
        Ok(())
    }

    /// Routes have changed, as far as is known.
    fn note_routes(&mut self) {}

    /// The least MTUs that routes through the interfaces state; none when they need not be looked at now.
    ///
    /// # Errors
    /// When the kernel does not say.
    fn route_mtus(&mut self, _interfaces: &Interfaces) -> Result<Option<[u32; 2]>, RunError> {
        Ok(None)
    }

    /// Packets lost because they were not read in time: wired, mobile.
    fn queue_drops(&self, path: &Self::Path) -> [u64; 2];

    /// The same, asked for by a thread that may wait for the kernel.
    fn queue_drops_later(&self, path: &Self::Path) -> Box<dyn FnOnce() -> [u64; 2] + Send> {
        let drops = self.queue_drops(path);
        Box::new(move || drops)
    }

    /// Explains an error of a path.
    fn explain(&self, error: IoError) -> RunError {
        error.into()
    }

    /// New packets take the plain way from here on, as far as there is one.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn release(&mut self) -> Result<(), IoError> {
        Ok(())
    }

    /// Undoes everything, the path too.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn undo(self, packet_loop: PacketLoop<Self::Path>) -> Result<(), IoError>;
}
