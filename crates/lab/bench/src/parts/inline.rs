//! Inline mode: the box as a bridge, beside the kernel's bridge and the TUN path.

use units::Duration;

use super::{bulk, datagrams, latency};
use crate::comparison::Comparison;
use crate::load::Pings;
use crate::results::Sample;
use crate::segment::Segment;
use crate::stage::{Measure, Plan, Stage};
use crate::topology::NetworkOptions;
use crate::{BenchError, Way};

const UDP: &str = "UDP, 1,400 bytes";

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
                "Inline, UDP: engine ÷ kernel bridge",
                "kpps",
                UDP,
                Way::Inline,
                Way::KernelBridge,
            ),
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
        Plan {
            title: "Inline",
            how: "`cellerator run --inline` joins the box's two interfaces frame by frame. Client \
                  and server are neighbours in one Ethernet segment. It is compared with a kernel \
                  bridge in the same place, and with the TUN path, with the ends as in the other \
                  parts. Bulk throughput, datagrams and delay are measured as in their own parts. \
                  Here datagrams pass the program; the TUN path leaves them to the kernel.",
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
        let [kpps, _] = datagrams::rates(stage, way)?;
        samples.push(Sample::new(UDP, way, round, [("kpps", kpps)]));
        let mut pings = Pings::start(&stage.network)?;
        pings.run(latency::WARM_UP)?;
        samples.push(latency::sample(&pings.run(stage.time)?, way, round));
        drop(pings);
        stage.stop(boxed, FLOWS.iter().sum::<usize>() as u64 + 1)?;
        drop(segment);
        Ok(samples)
    }
}
