//! [`CongestionStatus`]: what is loaded, and the connections that use it.

use std::net::IpAddr;

use io::bpf::MapView;
use io::{Namespace, Recorded};
use serde::Serialize;

use crate::layout::Shown;
use crate::program::shown;
use crate::record::{KIND, Record, RunningComparison};
use crate::{CongestionError, Users};

/// State of the congestion controls that `cellerator congestion` has loaded on this machine.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CongestionStatus {
    /// Of this document: `cellerator/congestion-status/1`.
    pub schema: &'static str,
    /// Congestion controls that are loaded.
    pub loaded: Vec<Loaded>,
}

/// A congestion control that is loaded.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Loaded {
    /// The process that holds it.
    pub process: u32,
    /// Its network namespace.
    pub namespace: u64,
    /// Its name, where it has one that can be seen from here.
    pub namespace_name: Option<String>,
    /// It is the network namespace of who asks.
    pub is_here: bool,
    /// The congestion control's name in the kernel.
    pub name: String,
    /// Users of it, in words.
    pub users: String,
    /// Comparison that is under way, in which only half of these users use it; none without one.
    pub comparison: Option<RunningComparison>,
    /// Those that use it, of all network namespaces: at most 8,192, the ones that were heard of last.
    pub connections: Vec<ConnectionStatus>,
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConnectionStatus {
    /// The other end's address.
    pub remote: IpAddr,
    /// The other end's port.
    pub remote_port: u16,
    /// This end's port.
    pub local_port: u16,
    /// Delivered of late, Mbit/s of payload; none before the first bin.
    pub rate_mbps: Option<f64>,
    /// Forecast of the link's rate, Mbit/s of payload; none before it is known.
    pub forecast_mbps: Option<f64>,
    /// Smoothed round trip less the smallest one, ms.
    pub queue_ms: Option<f64>,
    /// τ: the smallest round trip, ms; none before there was one.
    pub floor_ms: Option<f64>,
    /// Data that may be in flight, bytes.
    pub window_bytes: u64,
    /// Connections to the same destination with which it shares what is known: their delays have proved a common queue.
    pub shares_with: u16,
    /// Bound of the window.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["unknown", "start", "forecast", "full buffer", "policer", "slower link", "measures the floor", "time-out"])))]
    pub bound: &'static str,
}

/// Every congestion control of this kind that is loaded on this machine.
///
/// # Errors
/// When records or maps cannot be read: as root.
pub fn status() -> Result<CongestionStatus, CongestionError> {
    io::bpf::require_objects("look for congestion controls")?;
    let here = Namespace::current()?.id()?;
    let mut loaded = Vec::new();
    for Recorded { process, record, .. } in Recorded::<Record>::all_here(KIND)? {
        // One that has ended since is no error.
        let Ok(view) = MapView::by_id(record.connections_map) else { continue };
        let mut connections: Vec<_> = shown(&view).iter().map(|(_, shown)| connection(shown)).collect();
        connections.sort_by_key(|one| (one.remote, one.local_port, one.remote_port));
        loaded.push(Loaded {
            process,
            namespace: record.namespace,
            namespace_name: Namespace::name_of(record.namespace),
            is_here: record.namespace == here,
            name: record.name,
            users: Users::name(&record.users),
            comparison: record.comparison,
            connections,
        });
    }
    Ok(CongestionStatus { schema: "cellerator/congestion-status/1", loaded })
}

fn connection(shown: &Shown) -> ConnectionStatus {
    let mbps = |rate: u64| (rate > 0).then(|| rate as f64 * 8.0 / 1e6);
    let ms = |us: u64| us as f64 / 1e3;
    let has_floor = shown.floor_us > 0;
    let queue_us = u64::from(shown.rtt_us).saturating_sub(shown.floor_us);
    ConnectionStatus {
        remote: shown.remote.ip(),
        remote_port: shown.remote.port(),
        local_port: shown.local_port,
        rate_mbps: mbps(shown.average),
        forecast_mbps: mbps(shown.forecast),
        queue_ms: (has_floor && shown.rtt_us > 0).then(|| ms(queue_us)),
        floor_ms: has_floor.then(|| ms(shown.floor_us)),
        window_bytes: shown.window,
        shares_with: shown.others,
        bound: shown.bound.map_or("unknown", |bound| bound.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::server::Bound;

    #[test]
    fn a_connection_is_told_in_the_units_of_its_names() {
        let shown = Shown {
            remote: "[2001:db8::1]:40000".parse().unwrap(),
            local_port: 443,
            others: 2,
            bound: Some(Bound::Patience),
            rtt_us: 75_500,
            at_us: 1,
            window: 120_000,
            average: 1_250_000,
            forecast: 0,
            floor_us: 40_000,
            delivered: 7,
        };
        let told = connection(&shown);
        assert_eq!((told.rate_mbps, told.forecast_mbps), (Some(10.0), None));
        assert_eq!((told.queue_ms, told.floor_ms), (Some(35.5), Some(40.0)));
        assert_eq!((told.window_bytes, told.bound), (120_000, "slower link"));
        assert_eq!(told.shares_with, 2);
        assert_eq!(connection(&Shown { floor_us: 0, ..shown }).queue_ms, None);
    }
}
