//! [`Steering`]: what a [`Plan`] says, installed; and undone.

use io::netlink::{Netlink, Route, Rule};
use io::{Instance, IoError, Tun, TunConfig, sysctl};

use crate::notrack::NotrackTable;
use crate::plan::{Plan, QUEUE_LEN_PACKETS, SidePlan};
use crate::record::{Record, RecordedRule};
use crate::{RunError, Side, notrack};

/// Makes both TUN devices, up, with the routes into them; nothing leads there yet.
pub(crate) fn create_devices(plan: &Plan, netlink: &Netlink) -> Result<[Tun; 2], IoError> {
    let [wired, mobile] = &plan.sides;
    Ok([create_device(plan, wired, netlink)?, create_device(plan, mobile, netlink)?])
}

fn create_device(plan: &Plan, side: &SidePlan, netlink: &Netlink) -> Result<Tun, IoError> {
    let config = TunConfig {
        name: side.tun.clone(),
        mtu: plan.mtu,
        queue_len_packets: QUEUE_LEN_PACKETS,
        gso: plan.gso,
        multi_queue: false,
    };
    let tun = Tun::create(&config)?;
    tun.set_up()?;
    // What we write into the device is forwarded whatever the default for new devices is.
    sysctl::write_here(&format!("net/ipv4/conf/{}/forwarding", side.tun), "1")?;
    for &family in &plan.families {
        netlink.add_route(&Route::default_via_device(family, tun.index(), side.table))?;
    }
    Ok(tun)
}

/// Rules, nft table and changed settings, as long as they are installed; undone when dropped.
#[derive(Debug)]
pub(crate) struct Steering<'a> {
    plan: &'a Plan,
    netlink: &'a Netlink,
    instance: &'a Instance,
    record: Record,
    notrack: Option<NotrackTable>,
    /// Name and commands of the nft table that is needed now.
    table: Option<(String, Vec<String>)>,
    /// What steers the packets of the instance before, as long as that one is there.
    chain: Vec<Rule>,
}

impl<'a> Steering<'a> {
    /// Installs everything, the rules last, so that no packet comes before all is ready.
    pub fn install(
        plan: &'a Plan,
        name: &str,
        netlink: &'a Netlink,
        instance: &'a Instance,
    ) -> Result<Self, RunError> {
        let record = Record {
            namespace: plan.namespace,
            name: name.to_owned(),
            sysctls: plan.sysctls.iter().chain(&plan.handover_sysctls).cloned().collect(),
            tuns: plan.sides.each_ref().map(|side| side.tun.clone()),
            mobile: plan.side(Side::Mobile).interface.clone(),
            ..Record::default()
        };
        let (table, chain) = (plan.notrack.clone(), plan.chain_rules());
        let mut steering = Self { plan, netlink, instance, record, notrack: None, table, chain };
        instance.record(&steering.record.to_text())?;
        for setting in &steering.record.sysctls {
            match sysctl::write_here(&setting.path, &setting.during) {
                // The instance before owed little and has ended already, its devices with it.
                Err(e) if e.is_not_there() && steering.plan.handover_sysctls.contains(setting) => {}
                result => result?,
            }
        }
        steering.steer()?;
        Ok(steering)
    }

    /// Installs nft table and rules; those that are there already stay.
    pub fn steer(&mut self) -> Result<(), RunError> {
        self.ensure_notrack()?;
        let rules = self.rules();
        self.record.rules = rules.iter().map(RecordedRule::from).collect();
        // Written down first: whatever happens from here on can be undone by anybody.
        self.instance.record(&self.record.to_text())?;
        for rule in &rules {
            match self.netlink.add_rule(rule) {
                Err(e) if e.is_already_there() => {}
                result => result?,
            }
        }
        Ok(())
    }

    /// The rules that must be there now. Those behind the chain come first: no packet is to pass one instance only.
    fn rules(&self) -> Vec<Rule> {
        self.plan.rules().into_iter().chain(self.chain.iter().cloned()).collect()
    }

    /// The instance before has ended: what was needed beside it goes.
    pub fn unchain(&mut self) -> Result<(), RunError> {
        for rule in std::mem::take(&mut self.chain) {
            match self.netlink.delete_rule(&rule) {
                Err(e) if e.is_not_there() => {}
                result => result?,
            }
        }
        if let Some((name, _)) = self.table.take() {
            // Another name: the new table is there before the old one goes.
            let side = &self.plan.sides[1];
            let name = format!("{name}_alone");
            let commands = notrack::commands(&name, &side.interface, &side.tun, None);
            self.table = Some((name, commands));
            self.replace_notrack()?;
        }
        Record::put_back(&self.plan.handover_sysctls)?;
        self.record.sysctls.retain(|setting| !self.plan.handover_sysctls.contains(setting));
        self.record.rules = self.rules().iter().map(RecordedRule::from).collect();
        Ok(self.instance.record(&self.record.to_text())?)
    }

    fn replace_notrack(&mut self) -> Result<(), RunError> {
        let Some((name, commands)) = &self.table else { return Ok(()) };
        let table = NotrackTable::install(name, commands)?;
        self.record.nft = Some(table.holder().to_string());
        self.notrack = Some(table);
        Ok(())
    }

    /// Adds those rules again that somebody else took away; gives how many.
    pub fn ensure_rules(&self) -> Result<usize, IoError> {
        let mut present = Vec::new();
        for family in &self.plan.families {
            present.extend(self.netlink.rules(*family)?);
        }
        let mut added = 0;
        for rule in self.rules().iter().filter(|rule| !present.contains(rule)) {
            self.netlink.add_rule(rule)?;
            added += 1;
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
        self.instance.record(&self.record.to_text())?;
        Ok(true)
    }

    /// Takes the rules away: TCP goes the plain way from here on.
    pub fn unsteer(&mut self) -> Result<(), IoError> {
        for rule in self.rules() {
            match self.netlink.delete_rule(&rule) {
                Err(e) if e.is_not_there() => {}
                result => result?,
            }
        }
        Ok(())
    }
}

impl Drop for Steering<'_> {
    fn drop(&mut self) {
        // A failure here cannot be repaired; the watchdog tries the same right after.
        drop(self.record.undo_all(self.netlink));
    }
}
