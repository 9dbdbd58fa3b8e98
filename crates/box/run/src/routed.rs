//! [`Routed`]: TCP taken out of what this machine forwards as a router, by way of two TUN devices.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use engine::Port;
use io::features::Feature;
use io::netlink::{InterfaceIndex, Netlink};
use io::{Clock, IoError, NamespaceId, Tun};
use units::{Duration, Instant};

use crate::attachment::{Attachment, Ground, Site};
use crate::firewall::FilterWatch;
use crate::inherited_resources::InheritedResources;
use crate::interfaces::Interfaces;
use crate::lasting::Lasting;
use crate::packet_loop::PacketLoop;
use crate::patience::Patience;
use crate::record::Record;
use crate::steering::bypass::Bypass;
use crate::steering::subscribers::SubscriberRoutes;
use crate::steering::{self, Method, Steering, Tcx};
use crate::tun_path::TunPath;
use crate::upgrade::predecessor::Predecessor;
use crate::{Config, Event, EventSink, Plan, RunError, plan, shards};

/// Times at which two starts may have chosen the same numbers before the second one gives up.
const PLAN_ATTEMPTS: usize = 10;

/// Routes are looked at this often, for their MTUs.
const ROUTES_EVERY: Duration = Duration::from_secs(10);

/// A plan, and what it says is there before anything is steered.
#[derive(Debug)]
pub(crate) struct RoutedSite {
    plan: Plan,
    tcx: Option<Tcx>,
    /// One for each shard.
    paths: Vec<TunPath>,
    /// Resources that another instance has installed, and what its nft table lives by.
    inherited: Option<(Record, Option<OwnedFd>)>,
}

impl Site for RoutedSite {
    type Path = TunPath;
    type Attachment<'a> = Routed<'a>;

    const NEEDS: &'static [Feature] = &[Feature::NetworkAdministration, Feature::Tun];
    const STANDS_BEHIND: bool = true;

    /// Plans and makes the devices; a start at the same moment may take the names first, then plans anew.
    fn survey(config: &Config, netlink: &Netlink, _namespace: NamespaceId) -> Result<Self, RunError> {
        const EBUSY: i32 = 16;
        let mut attempt = 1;
        loop {
            let mut plan = Plan::make(config, netlink)?;
            match steering::create_devices(&plan) {
                Ok(tuns) => {
                    let tcx = steering::load(config, &mut plan, tuns.each_ref().map(Tun::index), netlink)?;
                    let paths = open_paths(tuns, &plan, config.ipv6_prefix_len)?;
                    return Ok(Self { plan, tcx, paths, inherited: None });
                }
                Err(e) if e.raw_os_error() == Some(EBUSY) && attempt < PLAN_ATTEMPTS => attempt += 1,
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn inherit(
        config: &Config,
        netlink: &Netlink,
        kept: &mut InheritedResources,
        mut record: Record,
    ) -> Result<Self, RunError> {
        let plan = Plan::inherited(config, netlink, &record, kept)?;
        let [wired, mobile] = record.tuns.each_ref().map(|tun| netlink.index_of(tun));
        let tuns = [wired?, mobile?];
        let tcx = kept.shared.take().zip(kept.passed.take());
        let links = std::mem::take(&mut kept.links);
        let tcx = tcx.map(|maps| Tcx::inherit(config.hang_after(), tuns, links, maps)).transpose()?;
        let are_routed = tcx.is_none();
        record.name = config.instance_name();
        let paths = kept.take_queues().into_iter().map(|queues| TunPath::new(queues, are_routed)).collect();
        Ok(Self { plan, tcx, paths, inherited: Some((record, kept.table_owner.take())) })
    }

    fn shards(&self) -> usize {
        self.plan.shards
    }

    fn links(&self) -> [(InterfaceIndex, u32); 2] {
        [0, 1].map(|at: usize| (self.plan.links[at], self.plan.mtus[at]))
    }

    fn route_mtus(&self) -> [u32; 2] {
        self.plan.route_mtus
    }

    fn attach<'a>(
        &'a mut self,
        ground: Ground<'a>,
        events: &mut dyn EventSink,
    ) -> Result<(Vec<TunPath>, Routed<'a>), RunError> {
        let (tcx, paths) = (self.tcx.take(), std::mem::take(&mut self.paths));
        let plan = &self.plan;
        let Ground { config, netlink, instance, .. } = ground;
        let steering = match self.inherited.take() {
            Some((record, table_owner)) => {
                Steering::inherit(plan, (record, tcx, table_owner), netlink, instance)
            }
            None => {
                let steering = Steering::install(plan, config, tcx, netlink, instance)?;
                plan.tell(events);
                steering
            }
        };
        let subscribers = steering.subscriber_steering();
        if let Some(subscribers) = subscribers.as_ref().filter(|_| !config.schedules) {
            // Those of a process before this one.
            subscribers.permit(false);
        }
        let subscribers = subscribers.filter(|_| config.schedules);
        let filters = FilterWatch::start(plan.watched(config), subscribers)?;
        let routed = Routed {
            ground,
            plan,
            steering,
            must_follow: false,
            filters,
            next_routes: Clock::now() + ROUTES_EVERY,
            predecessor: plan.predecessor.as_ref(),
        };
        Ok((paths, routed))
    }
}

/// A queue of either device for each shard.
fn open_paths(tuns: [Tun; 2], plan: &Plan, ipv6_prefix_len: u8) -> Result<Vec<TunPath>, RunError> {
    let are_routed = plan.method != Method::Tcx;
    let mut further = Vec::new();
    if plan.shards > 1 {
        for (tun, side) in tuns.iter().zip(Port::BOTH) {
            shards::install(tun, side, ipv6_prefix_len)?;
        }
        let [wired, mobile] = &tuns;
        for _ in 1..plan.shards {
            further.push(TunPath::new([wired.open_queue()?, mobile.open_queue()?], are_routed));
        }
    }
    further.insert(0, TunPath::new(tuns.map(Tun::into_queue), are_routed));
    Ok(further)
}

/// The steering, and what has to be followed for it.
#[derive(Debug)]
pub(crate) struct Routed<'a> {
    ground: Ground<'a>,
    plan: &'a Plan,
    steering: Steering<'a>,
    /// An interface was made anew, and the programs are to follow.
    must_follow: bool,
    filters: FilterWatch,
    next_routes: Instant,
    /// The instance whose place this one takes, while it is there.
    predecessor: Option<&'a Predecessor>,
}

impl Routed<'_> {
    /// Lets the instance before go when it has ended; true then.
    fn part_from_predecessor(
        &mut self,
        patience: &mut Patience,
        events: &mut dyn EventSink,
    ) -> Result<bool, RunError> {
        if self.predecessor.is_some_and(|before| !before.is_there(self.ground.config))
            && patience.with(self.steering.unchain(), events)?.is_some()
        {
            self.predecessor = None;
            events.on_event(&Event::ReplacedEnded);
            return Ok(true);
        }
        Ok(false)
    }
}

impl Attachment for Routed<'_> {
    type Path = TunPath;

    fn name(&self) -> &'static str {
        self.plan.method.name()
    }

    fn purpose(&self) -> String {
        format!("steering TCP between {} and {}", self.ground.config.wired, self.ground.config.mobile)
    }

    fn bypass(&self) -> Option<&Arc<Bypass>> {
        self.steering.bypass()
    }

    fn subscribers(&self) -> Option<&Arc<SubscriberRoutes>> {
        self.steering.subscribers()
    }

    fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor
    }

    fn retire_predecessor(&mut self) -> Result<bool, RunError> {
        self.predecessor.map_or(Ok(false), |before| before.retire(self.ground.config).map(|()| true))
    }

    fn lasting(&self) -> Option<Lasting<'_>> {
        let tuns = self.plan.sides.each_ref().map(|side| side.tun.clone());
        Some(self.steering.lasting(tuns))
    }

    fn own(&mut self) -> Result<(), RunError> {
        self.steering.own()
    }

    fn leave(self) {
        self.steering.leave();
    }

    fn beat(&self) {
        self.steering.beat();
    }

    /// The watchdog shows signs of life for a process that has no processor: packets wait for it then.
    fn on_silence(&mut self, _path: &mut TunPath, _events: &mut dyn EventSink) -> Result<bool, RunError> {
        Ok(self.steering.has_let_pass())
    }

    fn can_be_taken_away(&self) -> bool {
        true
    }

    fn steer(&mut self) -> Result<(), RunError> {
        self.steering.steer()
    }

    fn ensure(
        &mut self,
        is_steered: bool,
        patience: &mut Patience,
        events: &mut dyn EventSink,
    ) -> Result<bool, RunError> {
        let mut is_other = self.part_from_predecessor(patience, events)?;
        if !is_steered {
            return Ok(is_other);
        }
        if patience.with(self.steering.restore_notrack(), events)? == Some(true) {
            events.on_event(&Event::NotrackVanished);
            is_other = true;
        }
        patience.with(self.steering.ensure_paths().map_err(RunError::from), events)?;
        let added = self.steering.ensure_rules().map_err(RunError::from);
        if let Some(rules) = patience.with(added, events)?.filter(|added| *added > 0) {
            events.on_event(&Event::RulesVanished { rules });
        }
        Ok(is_other)
    }

    fn news_of_filters(&mut self) -> Option<Option<String>> {
        self.filters.take()
    }

    fn note_new(&mut self, _side: Port) {
        // Rules know an interface by its name.
        self.must_follow |= self.steering.bypass().is_some();
    }

    fn must_follow(&self, interfaces: &Interfaces) -> bool {
        self.must_follow && interfaces.are_up()
    }

    fn is_passed_without(&self) -> bool {
        true
    }

    fn follow(
        &mut self,
        _interfaces: &Interfaces,
        _path: &mut TunPath,
        _waiter: &io::Waiter,
    ) -> Result<(), RunError> {
        self.steering.follow_interfaces()?;
        self.must_follow = false;
        Ok(())
    }

    fn remedy(&self) -> &'static str {
        if self.steering.bypass().is_some() {
            "its steering program is attached again, and flows of before are handed back, since packets of \
             theirs went past"
        } else {
            "going on with it, whose rules name it"
        }
    }

    fn consequence(&self) -> &'static str {
        "TCP is forwarded without acceleration"
    }

    fn widen(&self, mtu: u32) -> Result<(), RunError> {
        self.steering.widen(mtu)
    }

    fn note_routes(&mut self) {
        self.next_routes = Instant::ZERO;
    }

    fn route_mtus(&mut self, interfaces: &Interfaces) -> Result<Option<[u32; 2]>, RunError> {
        let began = Clock::now();
        // One that is not there has no routes.
        if began < self.next_routes || !interfaces.are_up() {
            return Ok(None);
        }
        let found = match plan::route_mtus(Port::BOTH.map(|side| interfaces.name(side)), self.ground.netlink)
        {
            Err(error) if error.is_not_there() => return Ok(None),
            found => found,
        };
        // Where there are so many routes that it takes long, seldom.
        let now = Clock::now();
        self.next_routes = now + ROUTES_EVERY.max(now.saturating_since(began) * 1_000);
        Ok(Some(found?))
    }

    /// Packets lost because the queue of a device was full.
    fn queue_drops(&self, _path: &TunPath) -> [u64; 2] {
        let link = |side| self.ground.netlink.link(&self.plan.side(side).tun);
        Port::BOTH.map(|side| link(side).map_or(0, |link| link.stats.tx_dropped))
    }

    /// Defers the reading of the drops: a request for a device waits for the lock of the network configuration.
    fn queue_drops_later(&self, _path: &TunPath) -> Box<dyn FnOnce() -> [u64; 2] + Send> {
        let names = Port::BOTH.map(|side| self.plan.side(side).tun.clone());
        Box::new(move || {
            let netlink = Netlink::open();
            let link = |name: &String| netlink.as_ref().ok()?.link(name).ok();
            names.each_ref().map(|name| link(name).map_or(0, |link| link.stats.tx_dropped))
        })
    }

    /// A device of ours that is gone was deleted or switched off by somebody.
    fn explain(&self, error: IoError) -> RunError {
        let is_up = |name: &str| self.ground.netlink.link(name).is_ok_and(|link| link.is_up);
        let lost = self.plan.sides.iter().find(|side| error.is_device_gone() && !is_up(&side.tun));
        lost.map_or_else(|| error.into(), |side| RunError::InterfaceLost(side.tun.clone()))
    }

    fn release(&mut self) -> Result<(), IoError> {
        self.steering.unsteer()
    }

    /// The steering first, then the devices.
    fn undo(self, packet_loop: PacketLoop<TunPath>) -> Result<(), IoError> {
        drop(self.steering);
        drop(packet_loop);
        Ok(())
    }
}
