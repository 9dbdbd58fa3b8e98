//! Actions that the machine asks for: probes, endpoints, routes.

use io::netlink::{DefaultRoute, InterfaceIndex};
use multipath::{Action, PathId};
use units::Instant;

use super::Daemon;
use crate::demotion::{self, Demoted};
use crate::hands::Order;
use crate::{UplinkError, interfaces};

impl Daemon<'_> {
    pub(super) fn act(&mut self, action: Action, now: Instant) -> Result<(), UplinkError> {
        let (path, done) = match action {
            Action::Probe(id, number) => {
                let key = self.key.as_ref();
                if let Some(prober) = self.uplinks.get_mut(usize::from(id.0)).and_then(|u| u.prober.as_mut())
                {
                    prober.send(number, key, now);
                    self.probing.since.get_or_insert(now);
                }
                return Ok(());
            }
            Action::AddEndpoint(id, address, is_backup) => {
                // Written down before it is there.
                self.registration.record.endpoints.retain(|a| *a != address);
                self.registration.record.endpoints.push(address);
                self.registration.write()?;
                let uplink = self.uplinks.get(usize::from(id.0));
                let index = uplink.and_then(|u| u.found.index).map_or(0, InterfaceIndex::get);
                self.endpoints.hands.ask(id, Order::Add(address, index, self.settings.full_mesh, is_backup));
                return Ok(());
            }
            Action::RemoveEndpoint(id, address) => {
                self.endpoints.hands.ask(id, Order::Remove(address));
                return Ok(());
            }
            Action::SetBackup(id, address, is_backup) => {
                self.endpoints.hands.ask(id, Order::SetBackup(address, is_backup));
                return Ok(());
            }
            Action::DemoteRoutes(id) => (id, self.demote(id)),
            Action::RestoreRoutes(id) => (id, self.restore(id)),
        };
        self.registration.write()?;
        let name = self.name(path);
        match done {
            Ok(what) => self.journal.say(&name, what),
            // The system changed in the meantime; the next look tells what there is.
            Err(error) => self.journal.say(&name, error.to_string()),
        }
        Ok(())
    }

    /// Says what became of orders; an endpoint that is gone needs no undoing.
    pub(super) fn hear_of_orders(&mut self) -> Result<(), UplinkError> {
        for (path, order, result) in self.endpoints.hands.take() {
            match (order, &result) {
                (Order::Add(address, ..), Ok(_)) => self.endpoints.others.on_set(address),
                (Order::Remove(address), _) => self.endpoints.others.on_removed(address),
                _ => {}
            }
            if let (Order::Remove(address), Ok(_)) = (order, &result) {
                let is_there = self.paths.get(path).is_some_and(|p| p.has_endpoint(address));
                if !is_there {
                    self.registration.record.endpoints.retain(|a| *a != address);
                    self.registration.write()?;
                }
            }
            let name = self.name(path);
            self.journal.say(&name, result.unwrap_or_else(|error| error));
        }
        Ok(())
    }

    fn demote(&mut self, id: PathId) -> Result<String, UplinkError> {
        let Some(uplink) = self.uplinks.get(usize::from(id.0)) else { return Ok(String::new()) };
        let Some(index) = uplink.found.index else { return Ok("no routes to demote".to_owned()) };
        let all = interfaces::general_routes(&self.netlink, uplink.family)?;
        let known: Vec<Demoted> = self.uplinks.iter().flat_map(|one| one.demoted.clone()).collect();
        let planned = demotion::plan(&all, index, &known);
        let mut order: Vec<DefaultRoute> =
            self.registration.record.order.iter().filter_map(|text| DefaultRoute::from_text(text)).collect();
        demotion::note_order(&mut order, &all);
        self.registration.record.order = order.iter().map(DefaultRoute::to_text).collect();
        if let Some(uplink) = self.uplinks.get_mut(usize::from(id.0)) {
            uplink.demoted.retain(|one| !planned.iter().any(|(other, _)| other.is_same(one)));
            uplink.demoted.extend(planned.iter().map(|(demoted, _)| demoted.clone()));
        }
        // Written before it is done: of what was not done there is no copy that would be restored.
        self.record_demoted();
        self.registration.write()?;
        let count = planned.len();
        let leads_elsewhere = |route: &&DefaultRoute| route.with_hops(|device| device != index).is_some();
        let has_other = all.iter().filter(|route| !route.is_demoted()).any(|route| leads_elsewhere(&route));
        for (demoted, there) in planned {
            demotion::demote(&self.netlink, &demoted, &there)?;
        }
        let still = "; there is no other in the main table, so new connections begin here all the same";
        Ok(format!("{count} default routes demoted{}", if count > 0 && !has_other { still } else { "" }))
    }

    fn record_demoted(&mut self) {
        let all = self.uplinks.iter().flat_map(|uplink| &uplink.demoted);
        self.registration.record.routes = all.map(Demoted::to_text).collect();
    }

    fn restore(&mut self, id: PathId) -> Result<String, UplinkError> {
        let Some(uplink) = self.uplinks.get_mut(usize::from(id.0)) else { return Ok(String::new()) };
        let routes = std::mem::take(&mut uplink.demoted);
        let order: Vec<DefaultRoute> =
            self.registration.record.order.iter().filter_map(|text| DefaultRoute::from_text(text)).collect();
        // Each, whatever becomes of another one.
        let restored: Vec<Result<(), io::IoError>> =
            routes.iter().map(|demoted| demotion::restore(&self.netlink, demoted, &order)).collect();
        self.record_demoted();
        if self.registration.record.routes.is_empty() {
            // As they stand then, they may stand for other reasons.
            self.registration.record.order.clear();
        }
        restored.into_iter().collect::<Result<(), _>>()?;
        Ok(format!("{} default routes restored", routes.len()))
    }
}
