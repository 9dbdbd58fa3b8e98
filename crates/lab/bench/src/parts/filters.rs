//! Steering beside packet filters: what each way costs, with and without connection tracking.

use units::Duration;

use super::bulk;
use crate::comparison::Comparison;
use crate::results::Sample;
use crate::stage::{Measure, Plan, Stage, metric};
use crate::tool::Rules;
use crate::topology::{MOBILE, Network, NetworkOptions, WIRED};
use crate::{BenchError, Way};

const PACKETS: &str = "packets without super-packets, 4 flows";
const FLOWS: usize = 4;

pub(crate) struct FiltersPart;

impl Measure for FiltersPart {
    fn plan(&self) -> Plan {
        let tcp = &bulk::flows_text(1);
        let both = |title: &str, way, to| {
            [("Throughput, 1 flow", "gbps", tcp.as_str()), ("Packets per second", "kpps", PACKETS)].map(
                |(what, metric, case)| Comparison::ratio(format!("{what}: {title}"), metric, case, way, to),
            )
        };
        Plan {
            title: "Packet filters",
            how: "With *a filter by state* the box has a chain with policy drop, which accepts by \
                  connection tracking's state and by interface, and translates what goes to the \
                  servers (masquerade), as a usual router does. Programs do not steer there. \
                  Bulk throughput and packets are measured as in their own parts.",
            metrics: bulk::metrics().into_iter().chain([metric("kpps", "1,000 packets/s", 0)]).collect(),
            ways: vec![
                Way::Kernel,
                Way::KernelFiltered,
                Way::AdaptiveTcx,
                Way::AdaptiveRules,
                Way::AdaptiveFiltered,
            ],
            rounds: 5,
            time: Duration::from_secs(1),
            network: NetworkOptions::default(),
            comparisons: [
                both("accelerating, rules ÷ tcx", Way::AdaptiveRules, Way::AdaptiveTcx),
                both("accelerating, filter by state ÷ tcx", Way::AdaptiveFiltered, Way::AdaptiveTcx),
                both("kernel forwarding, filter by state ÷ without", Way::KernelFiltered, Way::Kernel),
            ]
            .concat(),
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        let filter = match way {
            Way::KernelFiltered | Way::AdaptiveFiltered => Some(filter(&stage.network)?),
            _ => None,
        };
        let boxed = stage.start(way)?;
        let transfer = bulk::transfer(stage, boxed.as_ref(), way, 1)?;
        let mut samples = vec![transfer.sample(bulk::flows_text(1), way, round)];
        let transfer = bulk::transfer_of_packets(stage, boxed.as_ref(), way, FLOWS)?;
        samples.push(transfer.sample_of_packets(PACKETS, way, round));
        stage.stop(boxed, 1 + FLOWS as u64)?;
        drop(filter);
        Ok(samples)
    }
}

/// A filter by state in the box.
fn filter(network: &Network) -> Result<Rules, BenchError> {
    let pairs = [(MOBILE, WIRED), ("cellw0", WIRED), (MOBILE, "cellm0"), ("cellm0", MOBILE)];
    let accepts: String =
        pairs.map(|(from, to)| format!("  iifname \"{from}\" oifname \"{to}\" accept\n")).concat();
    let chains = format!(
        " chain post {{\n  type nat hook postrouting priority srcnat;\n  \
         oifname \"{WIRED}\" masquerade\n }}\n chain forward {{\n  \
         type filter hook forward priority filter; policy drop;\n  \
         ct state established,related accept\n{accepts} }}\n"
    );
    Rules::load(&network.middle, "a packet filter", &chains)
}
