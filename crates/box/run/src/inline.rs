//! [`Bridged`]: the accelerator as a bridge: two interfaces joined by this process, frame by frame.
//!
//! ```text
//!            ┌───────────── this process ─────────────┐
//!   WIRED ──▶│ socket ─▶ TCP, ICMP: handle_packet ─┐  │
//!            │        └▶ anything else ────────────┴─▶│─▶ MOBILE
//!   WIRED ◀──│◀───────────────── socket ◀─────────────│── MOBILE
//!            └────────────────────────────────────────┘
//! ```
//!
//! Datagrams to a host take the kernel's bridge, if one stands by ([`fallback`]).
//!
//! What is forwarded keeps its addresses and its VLAN tag; what the processor makes has those that
//! the flow's packets had in the same direction. There is no hop: neither end sees a machine here.
//! A bridge that dies cuts the wire, unless a [`fallback`] stands by.

mod fallback;
pub(crate) mod frame;
mod inheritance;
pub(crate) mod link_headers;
mod neighbors;
mod path;

use std::hash::{BuildHasher, Hasher, RandomState};

use engine::Port;
use io::features::Feature;
use io::netlink::{InterfaceIndex, Link, Netlink};
use io::{FrameSocket, IoError, NamespaceId, Waiter};

use crate::attachment::{Attachment, Ground, PATHS, Site};
use crate::firewall::{self, FilterWatch, Watched, WatchedWay};
use crate::inherited_resources::InheritedResources;
use crate::instances::refuse_taken;
use crate::interfaces::{Condition, Interfaces};
use crate::journal::Journals;
use crate::lasting::Lasting;
use crate::packet_loop::PacketLoop;
use crate::plan::find_interfaces;
use crate::record::Record;
use crate::{Config, Event, EventSink, InlineFallback, RunError, StandIn};
use fallback::Fallback;
use inheritance::Inheritance;
use path::InlinePath;

use link_headers::SharedHeaders;

/// Two interfaces that can be joined.
#[derive(Debug)]
pub(crate) struct BridgedSite {
    /// With their MTUs: wired, mobile.
    links: [(InterfaceIndex, u32); 2],
    namespace: NamespaceId,
    headers: SharedHeaders,
    /// The filter that is passed by, as the settings allow.
    known: Option<String>,
    /// Resources that another process has set up.
    inherited: Option<Inheritance>,
}

impl BridgedSite {
    fn new(links: [Link; 2], namespace: NamespaceId, inherited: Option<Inheritance>) -> Self {
        let links = links.map(|link| (link.index, link.mtu));
        let headers = SharedHeaders::new(RandomState::new().build_hasher().finish());
        Self { links, namespace, headers, known: None, inherited }
    }

    /// Opens the sockets, and has the kernel's bridge stand by if it is to.
    fn install(&self, ground: Ground<'_>, events: &mut dyn EventSink) -> Result<Inheritance, RunError> {
        let Ground { config, netlink, instance, .. } = ground;
        let mut record = Record {
            namespace: self.namespace,
            is_inline: true,
            name: config.instance_name(),
            wired: config.wired.clone(),
            mobile: config.mobile.clone(),
            ..Record::default()
        };
        // Written down first: of two that start at the same time at least one sees the other.
        instance.record(&record.to_text())?;
        refuse_taken(config, self.namespace, true, std::process::id())?;
        let [wired, mobile] = self.links.map(|(index, _)| index);
        let sockets = [FrameSocket::open(wired, &config.wired)?, FrameSocket::open(mobile, &config.mobile)?];
        let fallback = if config.inline == Some(InlineFallback::Bridge) {
            let bridge = free_name(netlink)?;
            record.bridge = Some(bridge.clone());
            // Written down first: whatever happens from here on can be undone by the next start.
            instance.record(&record.to_text())?;
            let hang_after = config.hang_after();
            let fallback = Fallback::install(&bridge, [wired, mobile], &sockets, hang_after, netlink)?;
            let (wired, mobile) = (config.wired.clone(), config.mobile.clone());
            events.on_event(&Event::BridgeStandsBy { bridge, wired, mobile });
            Some(fallback)
        } else {
            events.on_event(&Event::NothingStandsBy);
            None
        };
        Ok(Inheritance { record, sockets, fallback })
    }
}

impl Site for BridgedSite {
    type Path = InlinePath;
    type Attachment<'a> = Bridged<'a>;

    const NEEDS: &'static [Feature] = &[Feature::NetworkAdministration, Feature::PacketSockets];
    /// Each of two bridges would have all frames.
    const STANDS_BEHIND: bool = false;

    fn survey(config: &Config, netlink: &Netlink, namespace: NamespaceId) -> Result<Self, RunError> {
        let links = find_interfaces(config, netlink)?;
        if let Some(down) = links.iter().find(|link| !link.is_up) {
            return Err(RunError::InterfaceDown(down.name.clone()));
        }
        let known = passed_by(config, netlink);
        match &known {
            Some(rule) if !config.bypass_filters => {
                Err(RunError::Filtered { rule: rule.clone(), not_tcx: None })
            }
            _ => Ok(Self { known, ..Self::new(links, namespace, None) }),
        }
    }

    fn inherit(
        config: &Config,
        netlink: &Netlink,
        kept: &mut InheritedResources,
        record: Record,
    ) -> Result<Self, RunError> {
        // One that is down now is waited for.
        let links = find_interfaces(config, netlink)?;
        let namespace = record.namespace;
        let inherited = Inheritance::of(config, netlink, kept, record, &links)?;
        Ok(Self::new(links, namespace, Some(inherited)))
    }

    fn links(&self) -> [(InterfaceIndex, u32); 2] {
        self.links
    }

    fn link_headers(&self) -> Option<&SharedHeaders> {
        Some(&self.headers)
    }

    fn attach<'a>(
        &'a mut self,
        ground: Ground<'a>,
        events: &mut dyn EventSink,
    ) -> Result<(Vec<InlinePath>, Bridged<'a>), RunError> {
        let Inheritance { record, sockets, fallback } = match self.inherited.take() {
            Some(inherited) => inherited,
            None => self.install(ground, events)?,
        };
        let path = InlinePath::new(sockets, self.headers.clone());
        let headers = self.headers.clone();
        let known = self.known.take();
        if let Some(rule) = known.clone() {
            events.on_event(&Event::FilterBypassed { rule });
        }
        let filters = FilterWatch::start(watched(ground.config, known), None)?;
        Ok((vec![path], Bridged { ground, record, must_join: [false; 2], fallback, headers, filters }))
    }
}

/// Watch over the filters at the interfaces: `known` was there at the start.
fn watched(config: &Config, known: Option<String>) -> Watched {
    let interfaces = [config.wired.clone(), config.mobile.clone()];
    Watched { interfaces, tuns: Default::default(), way: WatchedWay::Frames(fallback::NAME), known }
}

/// A filter of the kernel's that frames would not be shown to.
fn passed_by(config: &Config, netlink: &Netlink) -> Option<String> {
    let interfaces = [config.wired.as_str(), config.mobile.as_str()];
    let [wired, mobile] = interfaces;
    let names = firewall::Names { wired, mobile, wired_tun: "", mobile_tun: "" };
    let of_rules = firewall::examine(names, netlink, true).against_frames;
    of_rules.or_else(|| firewall::at_interfaces(interfaces, fallback::NAME, netlink))
}

/// A name that no interface has.
fn free_name(netlink: &Netlink) -> Result<String, RunError> {
    let links = netlink.links()?;
    let mut names = (0..100).map(|n| format!("cellbr{n}"));
    names.find(|name| !links.iter().any(|link| link.name == *name)).ok_or(RunError::NoFreeSlot)
}

/// The bridge, and what stands by for it.
#[derive(Debug)]
pub(crate) struct Bridged<'a> {
    ground: Ground<'a>,
    record: Record,
    /// They were made anew: wired, mobile.
    must_join: [bool; 2],
    fallback: Option<Fallback>,
    headers: SharedHeaders,
    filters: FilterWatch,
}

impl Bridged<'_> {
    fn can_join(&self, side: Port, interfaces: &Interfaces) -> bool {
        self.must_join[side.index()] && interfaces.condition(side) == Condition::Up
    }

    /// Joins an interface that was made anew.
    fn join(
        &mut self,
        side: Port,
        interfaces: &Interfaces,
        path: &mut InlinePath,
        waiter: &Waiter,
    ) -> Result<(), IoError> {
        let index = interfaces.index(side);
        let socket = FrameSocket::open(index, interfaces.name(side))?;
        if let Some(fallback) = self.fallback.as_mut() {
            fallback.rejoin(side, index, self.ground.netlink)?;
            Fallback::filter(&socket)?;
        }
        path.replace(side, socket, waiter, PATHS[side.index()])?;
        self.must_join[side.index()] = false;
        Ok(())
    }
}

impl Attachment for Bridged<'_> {
    type Path = InlinePath;

    fn name(&self) -> &'static str {
        "inline"
    }

    fn purpose(&self) -> String {
        format!("bridging {} and {}", self.ground.config.wired, self.ground.config.mobile)
    }

    fn lasting(&self) -> Option<Lasting<'_>> {
        let programs = self.fallback.as_ref().map(Fallback::lasting);
        Some(Lasting { tuns: None, programs, table_owner: None })
    }

    fn learn(&self, journals: &Journals) {
        let mut headers = self.headers.lock();
        for left in journals.read() {
            headers.recall(left.client_and_server(), left.links);
        }
    }

    fn link_headers(&self) -> Option<&SharedHeaders> {
        Some(&self.headers)
    }

    fn own(&mut self) -> Result<(), RunError> {
        self.fallback.iter_mut().for_each(Fallback::own);
        self.ground.instance.record_sooner_or_later(&self.record.to_text());
        Ok(())
    }

    fn leave(self) {
        self.fallback.into_iter().for_each(Fallback::leave);
    }

    fn beat(&self) {
        if let Some(fallback) = &self.fallback {
            fallback.beat();
        }
    }

    /// The kernel's bridge, where there is one, has had what waits in the sockets.
    fn on_silence(&mut self, path: &mut InlinePath, events: &mut dyn EventSink) -> Result<bool, RunError> {
        // The watchdog shows signs of life for a process that has no processor: frames wait for it then.
        let Some(fallback) = self.fallback.as_ref().filter(|fallback| fallback.has_bridged()) else {
            return Ok(false);
        };
        fallback.beat();
        path.discard()?;
        events.on_event(&Event::Hung { by: StandIn::Bridge, aftermath: "bridging here again" });
        Ok(true)
    }

    fn note_new(&mut self, side: Port) {
        self.must_join[side.index()] = true;
    }

    fn must_follow(&self, interfaces: &Interfaces) -> bool {
        Port::BOTH.into_iter().any(|side| self.can_join(side, interfaces))
    }

    fn news_of_filters(&mut self) -> Option<Option<String>> {
        self.filters.take()
    }

    fn is_passed_without(&self) -> bool {
        false
    }

    /// Each for itself: one that cannot be joined does not keep the other one out.
    fn follow(
        &mut self,
        interfaces: &Interfaces,
        path: &mut InlinePath,
        waiter: &Waiter,
    ) -> Result<(), RunError> {
        let mut result = Ok(());
        for side in Port::BOTH {
            if self.can_join(side, interfaces) {
                result = result.and(self.join(side, interfaces, path, waiter));
            }
        }
        Ok(result?)
    }

    fn remedy(&self) -> &'static str {
        "joined again"
    }

    fn consequence(&self) -> &'static str {
        "the wire is cut"
    }

    /// Frames lost because nobody read them in time.
    fn queue_drops(&self, path: &InlinePath) -> [u64; 2] {
        path.drops()
    }

    fn undo(self, packet_loop: PacketLoop<InlinePath>) -> Result<(), IoError> {
        drop(packet_loop);
        let Some(fallback) = self.fallback else { return Ok(()) };
        fallback.remove(self.ground.netlink)?;
        // Its name may be another one's from here on: nobody is to remove that.
        self.ground.instance.record_sooner_or_later(&Record { bridge: None, ..self.record }.to_text());
        Ok(())
    }
}
