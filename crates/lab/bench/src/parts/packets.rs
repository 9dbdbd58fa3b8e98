//! Packets per second: TCP whose server sends ordinary packets, one system call each way through a TUN.

use units::Duration;

use super::bulk;
use crate::comparison::Comparison;
use crate::results::Sample;
use crate::stage::{Measure, Plan, Stage, metric};
use crate::topology::NetworkOptions;
use crate::{BenchError, Way};

const FLOWS: usize = 4;

pub(crate) struct PacketsPart;

impl Measure for PacketsPart {
    fn plan(&self) -> Plan {
        let case = &bulk::flows_text(FLOWS);
        let ratio = |title: &str, metric, way, to| Comparison::ratio(title, metric, case, way, to);
        Plan {
            title: "Packets without super-packets",
            how: "This is as bulk throughput with 4 flows, but the server's interface takes no \
                  super-packets (`ip link set eth0 gso_max_segs 1`). So every segment of 1,448 \
                  bytes goes to the box as its own packet. With *no GSO* the TUN devices refuse \
                  super-packets as well; otherwise the engine may merge what it sends. Packets are \
                  those that the client's program has read, without acknowledgements. *Per core* is \
                  per second of processor time of the program in the box.",
            metrics: vec![
                metric("kpps", "1,000 packets/s", 0),
                metric("kpps_per_core", "1,000 packets/s and core", 0),
                metric("box_us_per_packet", "box, µs per packet", 2),
                bulk::bytes_per_write(),
            ],
            ways: vec![Way::Kernel, Way::EchoPlain, Way::Echo, Way::AdaptivePlain, Way::Adaptive],
            rounds: 5,
            time: Duration::from_millis(1_500),
            network: NetworkOptions { no_gso: true, ..NetworkOptions::default() },
            comparisons: vec![
                ratio(
                    "Packets per second and core: accelerating ÷ bare TUN echo without GSO",
                    "kpps_per_core",
                    Way::Adaptive,
                    Way::EchoPlain,
                )
                .at_least(0.7),
                ratio(
                    "Packets per second: accelerating ÷ bare TUN echo without GSO",
                    "kpps",
                    Way::Adaptive,
                    Way::EchoPlain,
                ),
                ratio(
                    "Packets per second and core: accelerating without GSO ÷ bare TUN echo without GSO",
                    "kpps_per_core",
                    Way::AdaptivePlain,
                    Way::EchoPlain,
                ),
            ],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        let boxed = stage.start(way)?;
        let transfer = bulk::transfer(stage, boxed.as_ref(), way, FLOWS)?;
        stage.stop(boxed, FLOWS as u64)?;
        Ok(vec![transfer.sample_of_packets(bulk::flows_text(FLOWS), way, round)])
    }
}
