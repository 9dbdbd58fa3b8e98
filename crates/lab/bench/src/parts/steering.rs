//! Ways of packets into the program: policy rules against BPF programs, and the cost of passed flows.

use std::net::IpAddr;

use units::Duration;

use super::{bulk, datagrams};
use crate::comparison::Comparison;
use crate::results::Sample;
use crate::stage::{Measure, Plan, Stage};
use crate::topology::{NetworkOptions, subscriber};
use crate::{BenchError, Way};

const UDP: &str = "UDP, 1,400 bytes";

pub(crate) struct SteeringPart;

impl Measure for SteeringPart {
    fn plan(&self) -> Plan {
        let tcp = bulk::flows_text(1);
        let bulk_ratio = |title: &str, way, to| {
            Comparison::ratio(format!("Throughput, 1 flow: {title}"), "gbps", &tcp, way, to)
        };
        let udp_ratio =
            |title: &str, way, to| Comparison::ratio(format!("UDP: {title}"), "kpps", UDP, way, to);
        Plan {
            title: "Steering",
            how: "This compares policy rules (`ip rule iif … ipproto tcp`) with a BPF program at \
                  each interface (tcx). With tcx, flows that the engine passes can be left to the \
                  kernel: their packets no longer come through a TUN device. Bulk throughput and \
                  datagrams are measured as in their own parts, datagrams to another address of the client: those to the \
                  one of the flow take turns with it.",
            metrics: bulk::metrics().into_iter().chain([datagrams::metric_of_rates()]).collect(),
            ways: vec![
                Way::Kernel,
                Way::AdaptiveRules,
                Way::AdaptiveTcx,
                Way::PassRules,
                Way::PassTcxAll,
                Way::PassTcx,
            ],
            rounds: 5,
            time: Duration::from_secs(1),
            network: NetworkOptions { subscribers: 1, ..NetworkOptions::default() },
            comparisons: vec![
                bulk_ratio("accelerating, tcx ÷ rules", Way::AdaptiveTcx, Way::AdaptiveRules),
                bulk_ratio("passing, tcx and left to the kernel ÷ rules", Way::PassTcx, Way::PassRules),
                bulk_ratio("passing, left to the kernel ÷ kernel forwarding", Way::PassTcx, Way::Kernel),
                bulk_ratio("passing, left to the kernel ÷ through the engine", Way::PassTcx, Way::PassTcxAll),
                udp_ratio("engine on with rules ÷ off", Way::AdaptiveRules, Way::Kernel),
                udp_ratio("engine on with tcx ÷ off", Way::AdaptiveTcx, Way::Kernel),
            ],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        let boxed = stage.start(way)?;
        let transfer = bulk::transfer(stage, boxed.as_ref(), way, 1)?;
        let mut samples = vec![transfer.sample(bulk::flows_text(1), way, round)];
        if matches!(way, Way::Kernel | Way::AdaptiveRules | Way::AdaptiveTcx) {
            let kpps = datagrams::rate(stage, way, IpAddr::V4(subscriber(0)))?;
            samples.push(Sample::new(UDP, way, round, [("kpps", kpps)]));
        }
        stage.stop(boxed, 1)?;
        Ok(samples)
    }
}
