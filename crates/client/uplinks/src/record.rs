//! Record of what a daemon has changed, on disk, and how it is undone.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use io::netlink::{DefaultRoute, MptcpLimits, Netlink, PathManager, SocketDiagnosis};
use io::{Leftover, Namespace};
use serde::{Deserialize, Serialize};

use crate::demotion::{self, Demoted};
use crate::{UplinkError, profile};

/// The kind of instance, as in `/run/cellerator/multipath-PID`.
pub const KIND: &str = "multipath";

/// Changes by a daemon.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    /// The network namespace, by the number of its file.
    pub namespace: u64,
    /// Interfaces that are paths.
    pub paths: Vec<String>,
    /// Sysctls before.
    pub sysctls: BTreeMap<String, String>,
    /// Limits before: further subflows, addresses of the peer.
    pub limits: Option<(u32, u32)>,
    /// Default routes before they were demoted, as netlink messages, with the interface.
    pub routes: Vec<String>,
    /// Default routes in the order in which they stood before, as netlink messages.
    pub order: Vec<String>,
    /// Endpoints that the daemon added.
    pub endpoints: Vec<IpAddr>,
    /// The guard process.
    pub guard: Option<u32>,
}

/// Result of undoing.
#[derive(Debug, Default)]
pub(crate) struct Undone {
    /// Changes that could not be undone, one line each.
    pub problems: Vec<String>,
    /// Endpoints that live subflows use.
    pub in_use: Vec<IpAddr>,
}

impl Record {
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Undoes everything; endpoints only where no live subflow would end with them, unless `with_subflows`.
    pub fn undo(&mut self, with_subflows: bool) -> Undone {
        let mut undone = Undone { problems: profile::restore(&self.sysctls), in_use: Vec::new() };
        self.sysctls.clear();
        undone.problems.extend(self.restore_routes());
        let Ok(kernel) = PathManager::open() else { return undone };
        if let Some((subflows, add_addr_accepted)) = self.limits.take() {
            let limits = MptcpLimits { subflows, add_addr_accepted };
            undone.problems.extend(kernel.set_limits(limits).err().map(|error| error.to_string()));
        }
        let subflows = SocketDiagnosis::open().and_then(|diagnosis| diagnosis.subflows());
        let subflows = subflows.unwrap_or_default();
        let there = kernel.endpoints().unwrap_or_default();
        self.endpoints.retain(|address| {
            let Some(endpoint) = there.iter().find(|e| e.address == *address) else { return false };
            let is_used = subflows.iter().any(|s| s.local.ip() == *address && s.is_established);
            if is_used && !with_subflows {
                undone.in_use.push(*address);
                return true;
            }
            undone.problems.extend(kernel.delete(endpoint).err().map(|error| error.to_string()));
            false
        });
        undone
    }

    /// Brings demoted routes back; what is refused, one line each.
    fn restore_routes(&mut self) -> Vec<String> {
        let routes = std::mem::take(&mut self.routes);
        if routes.is_empty() {
            return Vec::new();
        }
        let Ok(netlink) = Netlink::open() else { return vec!["no netlink: routes stay demoted".to_owned()] };
        let mut problems = Vec::new();
        let order: Vec<DefaultRoute> =
            self.order.drain(..).filter_map(|text| DefaultRoute::from_text(&text)).collect();
        for demoted in routes.iter().filter_map(|text| Demoted::from_text(text)) {
            let result = demotion::restore(&netlink, &demoted, &order);
            problems.extend(result.err().map(|error| error.to_string()));
        }
        problems
    }
}

/// This thread's network namespace.
pub(crate) fn own_namespace() -> Result<u64, UplinkError> {
    Ok(Namespace::current()?.id()?)
}

/// Undoes what daemons of this namespace left behind whose process has ended. Gives the endpoints that live
/// subflows use, for who adopts them, and what could not be undone.
pub(crate) fn take_over(base: &Path) -> Result<(Vec<IpAddr>, Vec<String>), UplinkError> {
    let own = own_namespace()?;
    let (mut adopted, mut problems) = (Vec::new(), Vec::new());
    for left in Leftover::find(base, KIND)? {
        let Some(mut record) = left.record().and_then(|text| Record::parse(&text)) else {
            left.forget()?;
            continue;
        };
        if record.namespace != own {
            // The guard there does it, unless the namespace is gone with everything in it.
            if record.guard.is_none_or(|pid| io::ProcessId::of(pid).is_err()) {
                left.forget()?;
            }
            continue;
        }
        let undone = record.undo(false);
        adopted.extend(undone.in_use);
        problems.extend(undone.problems);
        left.forget()?;
    }
    Ok((adopted, problems))
}
