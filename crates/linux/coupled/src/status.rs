//! [`CoupledStatus`]: what is loaded, and the connections that use it.

use control::coupled::Scheme;
use io::bpf::MapView;
use io::{Namespace, Recorded};
use serde::Serialize;

use crate::CoupledError;
use crate::program::connections;
use crate::record::{KIND, Record};

/// State of the coupled schemes that `cellerator multipath congestion` has loaded on this machine.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CoupledStatus {
    /// Of this document: `cellerator/coupled-status/1`.
    pub schema: &'static str,
    /// Schemes that are loaded.
    pub loaded: Vec<Loaded>,
}

/// A scheme that is loaded.
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
    /// The scheme.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["lia", "balia", "fully-coupled", "coupled-increase", "coupled-decrease"])))]
    pub scheme: String,
    /// The congestion control's name in the kernel.
    pub name: String,
    /// MPTCP subflows of the namespace use it, without asking for it.
    pub is_chosen: bool,
    /// Those that use it, of all network namespaces.
    pub connections: Vec<ConnectionStatus>,
}

/// A multi-path connection.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConnectionStatus {
    /// This host's token, as `ss -tiM` shows it.
    pub token: u32,
    /// Its subflows.
    pub subflows: Vec<SubflowStatus>,
}

/// A subflow.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubflowStatus {
    /// Segments; in recovery the window to which it shrinks.
    pub window: u32,
    /// Slow start ends here, segments; none before the first loss.
    pub ssthresh: Option<u32>,
    /// Smoothed, ms; none before the first.
    pub rtt_ms: Option<f64>,
}

/// Every scheme that is loaded on this machine.
///
/// # Errors
/// When records or maps cannot be read: as root.
pub fn status() -> Result<CoupledStatus, CoupledError> {
    io::bpf::require_objects("look for coupled congestion controls")?;
    let here = Namespace::current()?.id()?;
    let mut loaded = Vec::new();
    for Recorded { process, record, .. } in Recorded::<Record>::all_here(KIND)? {
        // One that has ended since is no error.
        let Ok(view) = MapView::by_id(record.connections_map) else { continue };
        loaded.push(Loaded {
            process,
            namespace: record.namespace,
            namespace_name: Namespace::name_of(record.namespace),
            is_here: record.namespace == here,
            is_chosen: record.is_chosen,
            connections: connections(&view).into_iter().map(connection).collect(),
            scheme: record.scheme,
            name: record.name,
        });
    }
    loaded.sort_by_key(|one| Scheme::named(&one.scheme).map(Scheme::number));
    Ok(CoupledStatus { schema: "cellerator/coupled-status/1", loaded })
}

fn connection((token, found): (u32, crate::layout::Connection)) -> ConnectionStatus {
    /// `TCP_INFINITE_SSTHRESH`.
    const NO_THRESHOLD: u32 = 0x7fff_ffff;
    let subflows = found.subflows.iter().filter(|one| one.number > 0).map(|one| SubflowStatus {
        window: one.window,
        ssthresh: Some(one.ssthresh).filter(|threshold| *threshold < NO_THRESHOLD),
        rtt_ms: Some(one.srtt_us).filter(|us| *us > 0).map(|us| f64::from(us) / 1e3),
    });
    ConnectionStatus { token, subflows: subflows.collect() }
}
