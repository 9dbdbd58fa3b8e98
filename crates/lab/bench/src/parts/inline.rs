//! Inline mode: the box as a bridge, beside the kernel's bridge and the TUN path.

use units::Duration;

use super::{bulk, datagrams, latency};
use crate::comparison::Comparison;
use crate::load::{Pings, round_trips};
use crate::results::Sample;
use crate::segment::Segment;
use crate::stage::{Measure, Plan, Stage, metric};
use crate::topology::{CLIENT, NetworkOptions};
use crate::{BenchError, Way};

const PACKETS: &str = "packets without super-packets, 4 flows";
const PACKETS_FLOWS: usize = 4;
const UDP: &str = "UDP, 1,400 bytes";
const UDP_PINGS: &str = "UDP, 64 bytes each ms";

/// Flows side by side, one case each.
const FLOWS: [usize; 2] = [1, 4];

pub(crate) struct InlinePart;

impl Measure for InlinePart {
    fn plan(&self) -> Plan {
        let mut comparisons = Vec::new();
        for flows in FLOWS {
            let case = &bulk::flows_text(flows);
            let ratio = |title: &str, way, to| {
                Comparison::ratio(format!("Inline, {case}: {title}"), "gbps", case, way, to)
            };
            comparisons.extend([
                ratio("accelerating ÷ kernel bridge", Way::Inline, Way::KernelBridge),
                ratio("passing ÷ kernel bridge", Way::InlinePass, Way::KernelBridge),
                ratio("accelerating ÷ accelerating by the TUN path", Way::Inline, Way::Adaptive),
            ]);
        }
        let added = |title: &str, metric, way, to| {
            Comparison::difference(format!("Inline: {title}"), metric, latency::CASE, way, to)
                .in_unit(" µs", 1)
        };
        comparisons.extend([
            Comparison::ratio(
                "Inline, packets without super-packets per second and core: accelerating ÷ accelerating by the TUN \
                 path",
                "kpps_per_core",
                PACKETS,
                Way::Inline,
                Way::Adaptive,
            ),
            Comparison::ratio(
                "Inline, UDP: engine ÷ kernel bridge",
                "kpps",
                UDP,
                Way::Inline,
                Way::KernelBridge,
            )
            .at_least(0.9),
            Comparison::difference(
                "Inline, UDP: round trip over a kernel bridge, p50",
                "udp_rtt_p50",
                UDP_PINGS,
                Way::Inline,
                Way::KernelBridge,
            )
            .in_unit(" µs", 1)
            .at_most(3.0),
            added(
                "delay to the client over a kernel bridge, p50",
                "down_p50",
                Way::Inline,
                Way::KernelBridge,
            ),
            added(
                "delay to the client over a kernel bridge, p99",
                "down_p99",
                Way::Inline,
                Way::KernelBridge,
            ),
            added("delay to the client over the TUN path, p50", "down_p50", Way::Inline, Way::Adaptive),
            added("delay to the server over a kernel bridge, p50", "up_p50", Way::Inline, Way::KernelBridge),
        ]);
        let metrics =
            bulk::metrics().into_iter().chain([datagrams::metric_of_rates()]).chain(latency::metrics());
        let metrics = metrics.chain([
            metric("kpps_per_core", "1,000 packets/s and core", 0),
            metric("box_us_per_packet", "box, µs per packet", 2),
        ]);
        let metrics = metrics.chain([metric("udp_rtt_p50", "UDP there and back, p50 µs", 1)]);
        Plan {
            title: "Inline",
            how: "`cellerator run --inline` joins the box's two interfaces frame by frame, with a bridge of the kernel's that \
                  stands by. Client and server are neighbours in one Ethernet segment. It is compared with a kernel \
                  bridge in the same place, and with the TUN path, with the ends as in the other \
                  parts. Bulk throughput, packets, datagrams and delay are measured as in their own parts. \
                  Datagrams are left to the kernel: here to its bridge, by the TUN path to its forwarding.",
            metrics: metrics.collect(),
            ways: vec![Way::KernelBridge, Way::InlinePass, Way::Inline, Way::Adaptive],
            rounds: 5,
            time: Duration::from_secs(1),
            network: NetworkOptions::default(),
            comparisons,
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        let segment = Segment::make(&stage.network, way)?;
        let boxed = stage.start(way)?;
        let mut samples = Vec::new();
        for flows in FLOWS {
            let transfer = bulk::transfer(stage, boxed.as_ref(), way, flows)?;
            samples.push(transfer.sample(bulk::flows_text(flows), way, round));
        }
        let transfer = bulk::transfer_of_packets(stage, boxed.as_ref(), way, PACKETS_FLOWS)?;
        samples.push(transfer.sample_of_packets(PACKETS, way, round));
        let kpps = datagrams::rate(stage, way, CLIENT)?;
        samples.push(Sample::new(UDP, way, round, [("kpps", kpps)]));
        let mut times = round_trips(&stage.network, stage.time)?;
        times.sort_unstable();
        samples.push(Sample::new(
            UDP_PINGS,
            way,
            round,
            [("udp_rtt_p50", latency::percentile_us(&times, 500))],
        ));
        let mut pings = Pings::start(&stage.network)?;
        pings.run(latency::WARM_UP)?;
        samples.push(latency::sample(&pings.run(stage.time)?, way, round));
        drop(pings);
        stage.stop(boxed, (FLOWS.iter().sum::<usize>() + PACKETS_FLOWS) as u64 + 1)?;
        drop(segment);
        Ok(samples)
    }
}
