//! Answers of the daemon about itself.

use io::Clock;
use units::Instant;

use super::{Daemon, Uplink};
use crate::status::{PathStatus, SCHEMA, Status, SubflowStatus};

impl Daemon<'_> {
    pub(super) fn status(&self) -> Status {
        let now = Clock::now();
        let up_ms = |at: Instant| now.saturating_since(at).as_millis();
        let path = |i: usize, path: &multipath::Path| {
            let seen = path.observed(now);
            let addresses = self.uplinks.get(i).map(Uplink::addresses).unwrap_or_default();
            let subflows = self.kernel.subflows.iter().filter(|s| addresses.contains(&s.local.ip()));
            let rates = seen.address.map_or((0.0, 0.0), |address| self.kernel.rates_mbps(address));
            let ms = |us: Option<u64>| us.map(|us| us as f64 / 1e3);
            let since = Instant::from_millis(seen.since_ms);
            PathStatus {
                state: seen.state,
                cause: seen.cause,
                for_ms: up_ms(since),
                address: self.uplinks.get(i).and_then(|u| u.address),
                seen_as: seen.seen_as,
                is_backup: seen.endpoints.first().map(|(_, is_backup)| *is_backup),
                rtt_ms: ms(seen.rtt_us),
                rtt_min_ms: ms(seen.rtt_min_us),
                probes_lost: seen.probes_lost,
                strength_dbm: seen.strength_dbm,
                are_routes_demoted: seen.are_routes_demoted,
                is_retired: seen.is_retired,
                is_last: seen.is_last,
                hold_ms: seen.hold_ms,
                receive_mbps: rates.0,
                send_mbps: rates.1,
                subflows: subflows.map(subflow_status).collect(),
                name: seen.name,
            }
        };
        let mut paths: Vec<PathStatus> =
            self.paths.iter().map(|(id, p)| path(usize::from(id.0), p)).collect();
        paths.sort_by(|a, b| a.name.cmp(&b.name));
        Status {
            schema: SCHEMA.to_owned(),
            pid: std::process::id(),
            up_ms: up_ms(self.journal.started),
            connections: self.connections,
            fallbacks: self.counters.fallbacks(),
            paths,
            conflicts: self.journal.conflicts.clone(),
            lacks: self.journal.lacks.clone(),
            events: self.journal.events.iter().cloned().collect(),
        }
    }
}

fn subflow_status(s: &io::netlink::Subflow) -> SubflowStatus {
    SubflowStatus {
        token: s.token,
        local: s.local,
        remote: s.remote,
        is_established: s.is_established,
        is_backup: s.is_backup,
        rtt_ms: s.srtt.as_millis_f64(),
        cwnd: s.cwnd,
        backoff: s.backoff,
        bytes_received: s.bytes_received,
        bytes_acked: s.bytes_acked,
    }
}
