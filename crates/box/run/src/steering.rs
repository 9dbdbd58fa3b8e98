//! [`Steering`]: what a [`Plan`] says, installed; and undone.

pub(crate) mod bypass;
pub(crate) mod method;
pub(crate) mod program;
pub(crate) mod subscribers;
pub(crate) mod tcx;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use engine::Port;
use io::netlink::{InterfaceIndex, LinkChange, Netlink, Route, Rule};
use io::{Framing, Instance, IoError, Tun, TunConfig, sysctl};

pub(crate) use method::Method;
pub(crate) use tcx::Tcx;

use bypass::Bypass;
use subscribers::SubscriberRoutes;

use crate::lasting::Lasting;
use crate::notrack::NotrackTable;
use crate::plan::{Plan, QUEUE_LEN_PACKETS, SidePlan};
use crate::record::{Record, RecordedRule};
use crate::{Config, RunError, SteeringChoice, instances, notrack, plan};

/// Makes both TUN devices, up; nothing leads there yet.
pub(crate) fn create_devices(plan: &Plan) -> Result<[Tun; 2], IoError> {
    let [wired, mobile] = &plan.sides;
    Ok([create_device(plan, wired)?, create_device(plan, mobile)?])
}

/// Loads the steering programs, if the plan has some; where they fail and need not be, the plan is
/// to have rules.
pub(crate) fn load(
    config: &Config,
    plan: &mut Plan,
    tuns: [InterfaceIndex; 2],
    netlink: &Netlink,
) -> Result<Option<Tcx>, RunError> {
    if plan.method != Method::Tcx {
        return Ok(None);
    }
    match Tcx::load(plan, config.hang_after(), tuns, netlink) {
        Ok(tcx) => Ok(Some(tcx)),
        Err(error) if config.steering == SteeringChoice::Tcx => Err(RunError::NoTcx(error.to_string())),
        Err(error) => {
            plan.fall_back(error.to_string())?;
            Ok(None)
        }
    }
}

fn create_device(plan: &Plan, side: &SidePlan) -> Result<Tun, IoError> {
    let config = TunConfig {
        name: side.tun.clone(),
        mtu: plan.mtu(),
        queue_len_packets: QUEUE_LEN_PACKETS,
        framing: if plan.gso { Framing::SuperPackets } else { Framing::Header },
        multi_queue: plan.shards > 1,
        has_frames: false,
    };
    let tun = Tun::create(&config)?;
    tun.set_up()?;
    // What we write into the device is forwarded whatever the default for new devices is.
    sysctl::write_here(&format!("net/ipv4/conf/{}/forwarding", side.tun), "1")?;
    Ok(tun)
}

/// Means that lead all that is sent to some subscribers here.
#[derive(Clone, Debug)]
pub(crate) enum SubscriberSteering {
    Programs(Arc<Bypass>),
    Routes(Arc<SubscriberRoutes>),
}

impl SubscriberSteering {
    /// Says whether it may: where it may not, nothing comes here any more but TCP and ICMP errors.
    pub fn permit(&self, is_permitted: bool) {
        match self {
            Self::Programs(bypass) => bypass.permit_schedules(is_permitted),
            Self::Routes(routes) => routes.permit(is_permitted),
        }
    }
}

/// Routes that lead subscribers into the wired device.
fn subscribers_of(plan: &Plan, netlink: &Netlink) -> Result<SubscriberRoutes, IoError> {
    let device = netlink.index_of(&plan.side(Port::Wired).tun)?;
    SubscriberRoutes::keep(plan.subscribers_table(), device, plan.ipv6_prefix_len)
}

/// Programs or rules, nft table and changed settings, as long as they are installed; undone when dropped.
#[derive(Debug)]
pub(crate) struct Steering<'a> {
    plan: &'a Plan,
    netlink: &'a Netlink,
    instance: &'a Instance,
    record: Record,
    /// Programs, where they steer.
    tcx: Option<Tcx>,
    /// Whether reverse paths were checked on all interfaces when that was last looked at.
    was_filter_for_all: Option<bool>,
    notrack: Option<NotrackTable>,
    /// Name and commands of the nft table that is needed now.
    table: Option<(String, Vec<String>)>,
    /// Rules that steer the packets of the instance before, as long as that one is there.
    chain: Vec<Rule>,
    /// Of the rules: wired, mobile.
    priorities: [u32; 2],
    /// Of rules: what leads subscribers here.
    subscribers: Option<Arc<SubscriberRoutes>>,
    /// Another process has it: nothing is to be undone.
    is_anothers: bool,
}

impl<'a> Steering<'a> {
    /// Installs everything, programs or rules last, so that no packet comes before all is ready.
    pub fn install(
        plan: &'a Plan,
        config: &Config,
        tcx: Option<Tcx>,
        netlink: &'a Netlink,
        instance: &'a Instance,
    ) -> Result<Self, RunError> {
        let record = Record {
            namespace: plan.namespace,
            name: config.instance_name(),
            sysctls: plan.sysctls.iter().chain(&plan.upgrade_sysctls).cloned().collect(),
            tuns: plan.sides.each_ref().map(|side| side.tun.clone()),
            wired: plan.side(Port::Wired).interface.clone(),
            mobile: plan.side(Port::Mobile).interface.clone(),
            ..Record::default()
        };
        let (table, chain) = (plan.notrack.clone(), plan.chain_rules());
        let mut steering = Self {
            plan,
            netlink,
            instance,
            record,
            tcx,
            was_filter_for_all: None,
            notrack: None,
            table,
            chain,
            priorities: plan.sides.each_ref().map(|side| side.priority),
            subscribers: None,
            is_anothers: false,
        };
        // Written down first: of two that start at the same time at least one sees the other.
        instance.record(&steering.record.to_text())?;
        let is_alone = plan.predecessor.is_none();
        instances::refuse_taken(config, plan.namespace, is_alone, std::process::id())?;
        for setting in &steering.record.sysctls {
            match sysctl::write_here(&setting.path, &setting.during) {
                // The instance before owed little and has ended already, its devices with it.
                Err(e) if e.is_not_there() && steering.plan.upgrade_sysctls.contains(setting) => {}
                result => result?,
            }
        }
        if steering.tcx.is_none() {
            steering.add_routes()?;
            steering.subscribers = Some(Arc::new(subscribers_of(plan, netlink)?));
        }
        steering.ensure_paths()?;
        steering.ensure_notrack()?;
        let rules = steering.rules();
        steering.record.rules = rules.iter().map(RecordedRule::from).collect();
        // Written down first: whatever happens from here on can be undone by anybody.
        instance.record(&steering.record.to_text())?;
        steering.add_rules(&rules)?;
        steering.open_notrack()?;
        if let Some(tcx) = steering.tcx.as_mut() {
            tcx.attach()?;
        }
        Ok(steering)
    }

    /// Steering that leads subscribers here.
    pub fn subscriber_steering(&self) -> Option<SubscriberSteering> {
        let by_programs = self.bypass().map(|bypass| SubscriberSteering::Programs(Arc::clone(bypass)));
        let by_rules = || self.subscribers.clone().map(SubscriberSteering::Routes);
        by_programs.or_else(by_rules)
    }

    /// Routes that lead subscribers here, where rules steer.
    pub fn subscribers(&self) -> Option<&Arc<SubscriberRoutes>> {
        self.subscribers.as_ref()
    }

    /// The routes that rules lead to.
    fn add_routes(&self) -> Result<(), IoError> {
        for side in &self.plan.sides {
            let tun = self.netlink.index_of(&side.tun)?;
            for &family in &self.plan.families {
                self.netlink.add_route(&Route::default_via_device(family, tun, side.table))?;
            }
        }
        Ok(())
    }

    /// Has both devices let through what programs have steered, whatever is set for all interfaces.
    pub fn ensure_paths(&mut self) -> Result<(), IoError> {
        // What cannot be read now has hardly changed.
        let Some(is_filter_for_all) = method::is_filter_for_all() else { return Ok(()) };
        if self.tcx.is_some() && self.was_filter_for_all != Some(is_filter_for_all) {
            self.was_filter_for_all = Some(is_filter_for_all);
            for side in &self.plan.sides {
                method::let_through(&side.tun, self.netlink)?;
            }
        }
        Ok(())
    }

    /// Follows interfaces that were made anew: programs are at one that is gone, and rules know it
    /// by its name.
    pub fn follow_interfaces(&mut self) -> Result<(), RunError> {
        let (plan, netlink) = (self.plan, self.netlink);
        Ok(self.tcx.as_mut().map_or(Ok(()), |tcx| tcx.reload(plan, netlink))?)
    }

    /// Lets the devices take packets as long as those of an interface may be; never shorter ones than before.
    pub fn widen(&self, mtu: u32) -> Result<(), RunError> {
        for side in &self.plan.sides {
            let tun = self.netlink.link(&side.tun)?;
            if tun.mtu < mtu {
                self.netlink
                    .change_link(tun.index, &LinkChange { mtu: Some(mtu), ..LinkChange::default() })?;
            }
        }
        Ok(())
    }

    /// Takes over what another instance has installed: `record` is what it wrote down, `tcx` its programs,
    /// `table_owner` what its nft table lives by. It is that one's until [`Steering::own`].
    pub fn inherit(
        plan: &'a Plan,
        (record, tcx, table_owner): (Record, Option<Tcx>, Option<OwnedFd>),
        netlink: &'a Netlink,
        instance: &'a Instance,
    ) -> Self {
        let notrack = table_owner.and_then(|table_owner| NotrackTable::adopt(&record, table_owner));
        let table = notrack.as_ref().map(|_| {
            // Another name: it may have to be installed again while the old one is still there.
            let side = &plan.sides[1];
            let name = format!("{}{}", crate::firewall::TABLE_PREFIX, std::process::id());
            let commands = notrack::commands(&name, &side.interface, &side.tun, None);
            (name, commands)
        });
        // Without routes what passes goes the plain way.
        let subscribers = if tcx.is_none() { subscribers_of(plan, netlink).ok().map(Arc::new) } else { None };
        Self {
            plan,
            netlink,
            instance,
            record,
            tcx,
            was_filter_for_all: method::is_filter_for_all(),
            notrack,
            table,
            chain: Vec::new(),
            priorities: plan.sides.each_ref().map(|side| side.priority),
            subscribers,
            is_anothers: true,
        }
    }

    /// Takes ownership of what was inherited.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn own(&mut self) -> Result<(), RunError> {
        self.is_anothers = false;
        self.tcx.iter_mut().for_each(Tcx::own);
        self.instance.record_sooner_or_later(&self.record.to_text());
        Ok(())
    }

    /// Leaves everything at work for another process, which has it.
    pub fn leave(mut self) {
        self.is_anothers = true;
    }

    /// Resources that must stay for a successor; `tuns` are the devices.
    pub fn lasting(&self, tuns: [String; 2]) -> Lasting<'_> {
        let table_owner = self.notrack.as_ref().and_then(NotrackTable::table_owner);
        Lasting { tuns: Some(tuns), programs: self.tcx.as_ref().map(Tcx::lasting), table_owner }
    }

    /// The packet loop is alive: to be told several times in the time after which it counts as hung.
    pub fn beat(&self) {
        if let Some(tcx) = &self.tcx {
            tcx.beat();
        }
    }

    /// Bypass for flows that are left to the kernel, if they can be.
    pub fn bypass(&self) -> Option<&Arc<Bypass>> {
        self.tcx.as_ref().map(Tcx::bypass)
    }

    /// Installs nft table and rules again, which the watchdog has taken away; those that are there already stay.
    pub fn steer(&mut self) -> Result<(), RunError> {
        // With the owner's socket, which the watchdog has too, it may be gone.
        self.notrack = None;
        self.ensure_notrack()?;
        let rules = self.rules();
        self.record.rules = rules.iter().map(RecordedRule::from).collect();
        self.instance.record_sooner_or_later(&self.record.to_text());
        self.add_rules(&rules)?;
        self.open_notrack()
    }

    /// Rules steer: what comes from the clients may come in.
    fn open_notrack(&mut self) -> Result<(), RunError> {
        self.notrack.as_mut().map_or(Ok(()), NotrackTable::open)
    }

    fn add_rules(&self, rules: &[Rule]) -> Result<(), RunError> {
        for rule in rules {
            match self.netlink.add_rule(rule) {
                Err(e) if e.is_already_there() => {}
                result => result?,
            }
        }
        Ok(())
    }

    /// The rules that must be there now. Those behind the chain come first: no packet is to pass
    /// one instance only.
    fn rules(&self) -> Vec<Rule> {
        self.plan.rules_at(self.priorities).into_iter().chain(self.chain.iter().cloned()).collect()
    }

    /// The instance before has ended: what was needed beside it goes. Where that fails it can be
    /// asked for again.
    pub fn unchain(&mut self) -> Result<(), RunError> {
        if let Some(tcx) = self.tcx.as_mut() {
            tcx.unchain();
        }
        self.move_forward()?;
        for rule in &self.chain {
            match self.netlink.delete_rule(rule) {
                Err(e) if e.is_not_there() => {}
                result => result?,
            }
        }
        self.chain.clear();
        if let Some((name, _)) = self.table.take() {
            // Another name: the new table is there before the old one goes.
            let side = &self.plan.sides[1];
            let name = format!("{}_alone", name.trim_end_matches("_alone"));
            let commands = notrack::commands(&name, &side.interface, &side.tun, None);
            self.table = Some((name, commands));
            self.replace_notrack()?;
            self.open_notrack()?;
        }
        Record::put_back(&self.plan.upgrade_sysctls)?;
        self.record.sysctls.retain(|setting| !self.plan.upgrade_sysctls.contains(setting));
        self.record.rules = self.rules().iter().map(RecordedRule::from).collect();
        self.instance.record_sooner_or_later(&self.record.to_text());
        Ok(())
    }

    /// Adds the rules at the first free priorities; the old ones go with the chain's. Each
    /// successor's come behind those of the one it replaces: without this there would be no room
    /// behind them some day, and rules of others in between.
    fn move_forward(&mut self) -> Result<(), RunError> {
        let old = self.plan.rules_at(self.priorities);
        let free = plan::free_priorities(self.netlink, &self.plan.families)?;
        let Some(free) = free.filter(|free| !old.is_empty() && *free < self.priorities) else {
            return Ok(());
        };
        let new = self.plan.rules_at(free);
        // Written down first, as ever. Both lead to the same tables: no packet passes unsteered.
        self.record.rules.extend(new.iter().map(RecordedRule::from));
        self.instance.record_sooner_or_later(&self.record.to_text());
        for (number, rule) in new.iter().enumerate() {
            if let Err(error) = self.netlink.add_rule(rule) {
                for added in &new[..number] {
                    self.netlink.delete_rule(added)?;
                }
                return Err(error.into());
            }
        }
        self.priorities = free;
        self.chain.extend(old);
        Ok(())
    }

    fn replace_notrack(&mut self) -> Result<(), RunError> {
        let Some((name, commands)) = &self.table else { return Ok(()) };
        let table = NotrackTable::install(name, commands)?;
        table.note(&mut self.record);
        self.notrack = Some(table);
        Ok(())
    }

    /// Those of the rules that are not there.
    fn missing_rules(&self) -> Result<Vec<Rule>, IoError> {
        let mut present = Vec::new();
        for family in &self.plan.families {
            present.extend(self.netlink.rules(*family)?);
        }
        Ok(self.rules().into_iter().filter(|rule| !present.contains(rule)).collect())
    }

    /// True when packets went past this process since it has shown that it is alive, as far as that can be seen: the
    /// programs let them pass when it was silent for too long, and of rules the watchdog has taken some away.
    pub fn has_let_pass(&self) -> bool {
        match &self.tcx {
            Some(tcx) => tcx.has_let_pass(),
            None => self.missing_rules().map_or(true, |missing| !missing.is_empty()),
        }
    }

    /// Adds those rules again that somebody else took away; gives how many.
    pub fn ensure_rules(&self) -> Result<usize, IoError> {
        let mut added = 0;
        for rule in &self.missing_rules()? {
            match self.netlink.add_rule(rule) {
                Ok(()) => added += 1,
                // Somebody has changed rules while they were listed, and the list is not whole.
                Err(e) if e.is_already_there() => {}
                Err(e) => return Err(e),
            }
        }
        Ok(added)
    }

    /// Installs the nft table if it is needed and not there; true when it had to.
    pub fn ensure_notrack(&mut self) -> Result<bool, RunError> {
        if self.table.is_none() || self.notrack.as_ref().is_some_and(NotrackTable::is_there) {
            return Ok(false);
        }
        // The old one first: both have the same name.
        self.notrack = None;
        self.replace_notrack()?;
        self.instance.record_sooner_or_later(&self.record.to_text());
        Ok(true)
    }

    /// The same while rules steer.
    pub fn restore_notrack(&mut self) -> Result<bool, RunError> {
        let is_new = self.ensure_notrack()?;
        if is_new {
            self.open_notrack()?;
        }
        Ok(is_new)
    }

    /// Takes programs and rules away: TCP goes the plain way from here on.
    pub fn unsteer(&mut self) -> Result<(), IoError> {
        if let Some(tcx) = self.tcx.as_mut() {
            tcx.detach();
        }
        // Where it fails the table is gone, or goes with its owner: addresses may not be translated for a moment.
        drop(self.notrack.as_mut().map(NotrackTable::close));
        for rule in self.rules() {
            match self.netlink.delete_rule(&rule) {
                Err(e) if e.is_not_there() => {}
                result => result?,
            }
        }
        drop(self.notrack.as_mut().map(NotrackTable::release));
        Ok(())
    }
}

impl Drop for Steering<'_> {
    fn drop(&mut self) {
        if self.is_anothers {
            self.tcx.take().into_iter().for_each(Tcx::leave);
            self.notrack.take().into_iter().for_each(NotrackTable::leave);
            return;
        }
        // A failure here cannot be repaired; the watchdog tries the same right after.
        drop(self.notrack.as_mut().map(NotrackTable::close));
        drop(instances::undo_all(&self.record, self.netlink, self.instance.path()));
    }
}
