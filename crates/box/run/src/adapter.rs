//! Feedback datagrams from what radio networks publish. `docs/feedback.md`.
//!
//! - [`srsran`]: the metrics an srsRAN gNB writes as JSON: throughput and RLC queue per UE, by RNTI;
//! - [`mec_rnis`]: layer 2 measurements of ETSI GS MEC 012: scheduled throughput per UE, by address.
//!
//! Both report what was carried, not what could have been: `is_throughput` says so. Neither can
//! know the other half: which address an RNTI has is in the core network, and RNIS has no queue.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;
use units::{Bytes, Duration, Rate};
use wire::FeedbackDatagram;

/// Addresses by what a document calls the device.
pub type Mapping = BTreeMap<String, IpAddr>;

/// Content of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adapted {
    /// Reports, without sender and sequence.
    pub reports: Vec<FeedbackDatagram>,
    /// Devices whose address is not known, as the document calls them.
    pub unmapped: Vec<String>,
    /// It is a document of its kind: it has a list of devices, and something is known of one of
    /// them if there are any.
    pub is_known: bool,
}

impl Adapted {
    fn has_devices(&self) -> bool {
        !self.reports.is_empty() || !self.unmapped.is_empty()
    }
}

/// A report of these figures; sender and sequence are set on sending.
fn report(subscriber: IpAddr, bandwidth: Rate, queue: Option<Bytes>, at: Stamp) -> FeedbackDatagram {
    FeedbackDatagram {
        sender: 0,
        sequence: 0,
        timestamp_us: at.us,
        is_synchronised: at.is_synchronised,
        subscriber,
        bandwidth: Some(bandwidth),
        is_throughput: true,
        queue,
        validity: Duration::ZERO,
    }
}

/// Time at which a document's figures were measured, as far as it says.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    us: u64,
    is_synchronised: bool,
}

impl Stamp {
    /// The document says nothing that can be used: it is as new as its arrival, and nobody can know
    /// how old that is.
    const fn arrival(us: u64) -> Self {
        Self { us, is_synchronised: false }
    }
}

/// A non-negative number, whole or not.
fn number(value: Option<&Value>) -> Option<f64> {
    value.and_then(Value::as_f64).filter(|number| number.is_finite() && *number >= 0.0)
}

/// Reads one metrics object of an srsRAN gNB.
///
/// Understood are the layouts `cells[].ue_list[]` (2025) and `ue_list[].ue_container` (before); of
/// each UE `pci`, `rnti`, `dl_brate` (bit/s) and `dl_bs` (bytes waiting for the air). Other objects
/// (RLC, application) give no reports. A device is looked up in `mapping` as `PCI/RNTI`, then as
/// `RNTI`, both decimal.
#[must_use]
pub fn srsran(document: &Value, mapping: &Mapping, arrival_us: u64) -> Adapted {
    // Seconds since the epoch where it is a number; text has no time zone.
    let stamp = number(document.get("timestamp"))
        .map_or(Stamp::arrival(arrival_us), |s| Stamp { us: (s * 1e6) as u64, is_synchronised: true });
    let cells = document.get("cells").and_then(Value::as_array).into_iter().flatten();
    let lists = cells.chain(std::iter::once(document)).filter_map(|holder| holder.get("ue_list"));
    let lists: Vec<&Vec<Value>> = lists.filter_map(Value::as_array).collect();
    let mut out = Adapted::default();
    for ue in lists.iter().copied().flatten() {
        let ue = ue.get("ue_container").unwrap_or(ue);
        let (Some(rnti), Some(rate)) = (number(ue.get("rnti")), number(ue.get("dl_brate"))) else { continue };
        let cell = number(ue.get("pci")).map(|pci| format!("{pci}/{rnti}"));
        let address = cell.as_ref().and_then(|name| mapping.get(name)).or(mapping.get(&rnti.to_string()));
        match address {
            Some(address) => {
                let queue = number(ue.get("dl_bs")).map(|bytes| Bytes::new(bytes as u64));
                out.reports.push(report(*address, Rate::from_bps(rate as u64), queue, stamp));
            }
            None => out.unmapped.push(cell.unwrap_or_else(|| rnti.to_string())),
        }
    }
    out.is_known = !lists.is_empty() && (out.has_devices() || lists.iter().all(|list| list.is_empty()));
    out
}

/// Reads an `L2Meas` document of ETSI GS MEC 012 §6.2.4, alone or under that name.
///
/// Of each `cellUEInfo`: `associateId` (1 and 2 are addresses; a NATed address or a tunnel is
/// looked up in `mapping`) and the downlink throughputs of GBR and other traffic in kbit/s (ETSI TS
/// 136 314), added. With `queue_from_delay` the queue is reckoned by Little's law from throughput
/// and packet delay (ms), which counts what is under repair too.
#[must_use]
pub fn mec_rnis(document: &Value, mapping: &Mapping, queue_from_delay: bool, arrival_us: u64) -> Adapted {
    let document = document.get("L2Meas").unwrap_or(document);
    let stamp = document.get("timeStamp").and_then(|stamp| {
        let s = stamp.get("seconds").and_then(Value::as_u64)?;
        let ns = stamp.get("nanoSeconds").and_then(Value::as_u64).unwrap_or(0);
        Some(Stamp { us: s.saturating_mul(1_000_000).saturating_add(ns / 1_000), is_synchronised: true })
    });
    let mut out = Adapted::default();
    let list = document.get("cellUEInfo").and_then(Value::as_array);
    for ue in list.into_iter().flatten() {
        let field = |name: &str| number(ue.get(name));
        let throughput = match (field("dl_gbr_throughput_ue"), field("dl_nongbr_throughput_ue")) {
            (None, None) => continue,
            (gbr, other) => gbr.unwrap_or(0.0) + other.unwrap_or(0.0),
        };
        let bandwidth = Rate::from_kbps(throughput as u64);
        let delay_ms = field("dl_nongbr_delay_ue").or(field("dl_gbr_delay_ue"));
        let queue = delay_ms
            .filter(|_| queue_from_delay)
            .map(|ms| bandwidth.bytes_in(Duration::from_micros((ms * 1e3) as u64)));
        match associated(ue.get("associateId"), mapping) {
            Ok(address) => out.reports.push(report(
                address,
                bandwidth,
                queue,
                stamp.unwrap_or(Stamp::arrival(arrival_us)),
            )),
            Err(name) => out.unmapped.push(name),
        }
    }
    out.is_known = list.is_some_and(|list| list.is_empty() || out.has_devices());
    out
}

/// The address an `associateId` means (one, or the first usable of a list), or what it calls the device.
fn associated(id: Option<&Value>, mapping: &Mapping) -> Result<IpAddr, String> {
    let ids = match id {
        Some(Value::Array(ids)) => ids.iter().collect(),
        Some(id) => vec![id],
        None => Vec::new(),
    };
    let mut name = "no associateId".to_owned();
    for id in ids {
        let Some(value) = id.get("value").and_then(Value::as_str) else { continue };
        name = value.to_owned();
        if let Some(address) = mapping.get(value) {
            return Ok(*address);
        }
        let kind = id.get("type");
        let kind = kind.and_then(|k| k.as_u64().map(|n| n.to_string()).or(k.as_str().map(str::to_owned)));
        let is_address = kind.is_some_and(|kind| {
            ["1", "2", "UE_IPv4_ADDRESS", "UE_IPV4_ADDRESS", "UE_IPV6_ADDRESS"].contains(&kind.as_str())
        });
        if let Some(address) = value.parse().ok().filter(|_| is_address) {
            return Ok(address);
        }
    }
    Err(name)
}

#[cfg(test)]
mod tests;
