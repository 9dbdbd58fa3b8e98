//! [`FilterWatch`]: notices packet filters that come up while TCP is steered.
//!
//! A thread is told of changes by nft at once, and looks twice a second whether anything else has changed: rules of the
//! older iptables, BPF programs, and queueing disciplines. It works out what that means only then: of many rules that
//! takes longer than packets may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use io::netlink::{HookProgram, LinkEvents, Netlink, PacketFilter};
use io::{Clock, Interest, IoError, Waiter, bpf};
use units::Duration;

use super::{Names, examine, read_legacy};
use crate::steering::SubscriberSteering;

const EVERY: Duration = Duration::from_millis(500);

/// Way in which packets come to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By programs of this name, before whatever else sees what comes in.
    Programs(&'static str),
    /// By rules.
    Rules {
        /// A table keeps tracking away from the mobile side.
        has_notrack: bool,
        /// The settings say that there is to be none.
        is_never: bool,
    },
    /// Frame by frame from sockets, with programs of this name where a bridge stands by.
    Frames(&'static str),
}

/// Steering whose filters are watched.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// Wired and mobile: interfaces.
    pub interfaces: [String; 2],
    /// Their devices.
    pub tuns: [String; 2],
    /// Way in which packets come to the process.
    pub way: Way,
    /// Obstacle that was known to be against it at the start.
    pub known: Option<String>,
}

/// Watch over changes of the filters; ends when dropped.
#[derive(Debug)]
pub(crate) struct FilterWatch {
    news: Receiver<Option<String>>,
    is_over: Arc<AtomicBool>,
}

impl FilterWatch {
    /// Begins, in the calling thread's namespace. `subscribers` leads what is no TCP here, as long as no filter would
    /// decide otherwise of it.
    ///
    /// # Errors
    /// When the system has no thread or socket left to give.
    pub fn start(watched: Watched, subscribers: Option<SubscriberSteering>) -> Result<Self, IoError> {
        let (send, news) = mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let (netlink, filter) = (Netlink::open()?, PacketFilter::open().ok());
        let mut watcher = Watcher { netlink, filter, watched, subscribers };
        let (waiter, pause) = (Waiter::new(Duration::ZERO)?, Waiter::new(Duration::ZERO)?);
        let over = Arc::clone(&is_over);
        let changes = LinkEvents::open_for_filters()?;
        waiter.add(&changes, Interest::Read, 0)?;
        let spawned = std::thread::Builder::new()
            .name("filters".to_owned())
            .spawn(move || watcher.watch([waiter, pause], &changes, &send, &over));
        spawned.map_err(|error| IoError::system("start a thread that watches packet filters", error))?;
        Ok(Self { news, is_over })
    }

    /// Obstacle to the steering now, if that has changed; the newest.
    pub fn take(&self) -> Option<Option<String>> {
        self.news.try_iter().last()
    }
}

impl Drop for FilterWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Values that are compared to see whether anything has changed.
#[derive(Debug, PartialEq, Eq)]
struct Signature {
    generation: Option<u32>,
    hooks: Vec<HookProgram>,
    legacy: Vec<io::netlink::Chain>,
    at_interfaces: Option<String>,
}

struct Watcher {
    netlink: Netlink,
    filter: Option<PacketFilter>,
    watched: Watched,
    subscribers: Option<SubscriberSteering>,
}

impl Watcher {
    fn watch(
        &mut self,
        [mut waiter, mut pause]: [Waiter; 2],
        changes: &LinkEvents,
        news: &Sender<Option<String>>,
        is_over: &AtomicBool,
    ) {
        let mut before = None;
        let mut said = self.watched.known.clone();
        while !is_over.load(Ordering::Relaxed) {
            let began = Clock::now();
            // What changes from here on is looked at anew.
            let _news = changes.take();
            let now = Some(self.signature());
            if now != before {
                let (reason, against_turns) =
                    self.reason(now.as_ref().and_then(|now| now.at_interfaces.clone()));
                if let Some(subscribers) = &self.subscribers {
                    subscribers.permit(against_turns.is_none());
                }
                before = now;
                if reason != said {
                    said.clone_from(&reason);
                    if news.send(reason).is_err() {
                        return;
                    }
                }
            }
            // Of many changes in a row each is told: at most half of the time is for looking at them.
            let ended = Clock::now();
            let calm = pause.wait(Some(ended + ended.saturating_since(began)));
            if calm.and(waiter.wait(Some(ended + EVERY))).is_err() {
                return;
            }
        }
    }

    fn signature(&self) -> Signature {
        let filter = self.filter.as_ref();
        Signature {
            generation: filter.and_then(|filter| filter.generation().ok().flatten()),
            hooks: filter.map(PacketFilter::programs).unwrap_or_default(),
            legacy: read_legacy(&mut Vec::new()),
            at_interfaces: self.at_interfaces(),
        }
    }

    /// Programs of others at the interfaces, before which packets are taken.
    fn at_interfaces(&self) -> Option<String> {
        let (Way::Programs(own) | Way::Frames(own)) = self.watched.way else { return None };
        let [wired, mobile] = &self.watched.interfaces;
        at_interfaces([wired, mobile], own, &self.netlink)
    }

    /// Reasons why TCP should not be steered as it is, and why nothing else should; none if nothing is against it.
    fn reason(&self, at_interfaces: Option<String>) -> (Option<String>, Option<String>) {
        let Watched { interfaces: [wired, mobile], tuns: [wired_tun, mobile_tun], way, .. } = &self.watched;
        let names = Names { wired, mobile, wired_tun, mobile_tun };
        let tracks_mobile = !matches!(way, Way::Rules { has_notrack: true, .. });
        let found = examine(names, &self.netlink, tracks_mobile);
        // What cannot be seen was not seen at the start, either.
        let tracks = found.tracks_connections && found.unknown.is_empty();
        let [by_programs, by_rules] = found.against_turns;
        match *way {
            Way::Frames(_) => (found.against_frames.or(at_interfaces), None),
            Way::Programs(_) => {
                let tracked = tracks.then(|| "connections are tracked or translated now".to_owned());
                (found.against_tcx.or(at_interfaces).or(tracked), by_programs)
            }
            Way::Rules { has_notrack, is_never } => {
                let tracked = (tracks && !has_notrack && !is_never)
                    .then(|| "connections are tracked or translated now, on the mobile side too".to_owned());
                (found.against_rules.or(tracked), by_rules)
            }
        }
    }
}

/// Programs at `interfaces` for incoming packets, except those of the name `own`.
pub(crate) fn at_interfaces(interfaces: [&str; 2], own: &str, netlink: &Netlink) -> Option<String> {
    interfaces.into_iter().find_map(|name| {
        let index = netlink.index_of(name).ok()?;
        // Whose names are not for everybody to see may be of a successor.
        let is_anothers = |program: &String| program != own && !bpf::is_number(program);
        if let Some(program) = bpf::programs_at(index).into_iter().find(is_anothers) {
            return Some(format!("BPF program '{program}' is at {name}"));
        }
        let kind = netlink.ingress_discipline(index).ok()??;
        Some(format!("{name} has a queueing discipline for what comes in ({kind})"))
    })
}
