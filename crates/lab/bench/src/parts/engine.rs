//! Time per packet and memory per flow of the engine alone.

use std::process::{Command, Stdio};

use units::Duration;

use crate::comparison::Comparison;
use crate::engine_cost::EngineCost;
use crate::error::Context;
use crate::results::Sample;
use crate::stage::{Measure, Plan, Stage, metric};
use crate::topology::NetworkOptions;
use crate::{BenchError, Way};

const FLOWS: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];

pub(crate) struct EnginePart;

impl Measure for EnginePart {
    fn plan(&self) -> Plan {
        let against_1000 = |flows: &str, title: &str| {
            Comparison::between_cases(title, "ns_per_packet", Way::EngineAlone, flows, "1,000 flows")
        };
        Plan {
            title: "The engine alone",
            how: "The engine runs in virtual time, with a real clock around it and no input or \
                  output, in its own process. All flows, ten of each subscriber, are opened by \
                  handshakes. Then they are visited in an order that no cache can predict: the \
                  server sends a segment of 1,400 bytes, and the client acknowledges what the \
                  engine sent to it. As in `run`, up to 32 packets are announced to the engine \
                  before it handles them one by one, and its memory has huge pages if the kernel \
                  has them. The clock stands still while the state of a flow's two hosts is \
                  written. *Packet* is a packet handed in, with everything that the engine makes of \
                  it. Memory is that of the process with all flows open, before any has carried \
                  data, less that before the first flow, divided by the flows: control blocks, \
                  tables, timers and subscribers. *Used* is the same after all data has been \
                  acknowledged, with what the allocator keeps of the buffers. *Stored* is the state of \
                  all flows and subscribers as bytes, by which they go on in another process. \
                  *Scrape* is the time in which packets wait while the engine's metrics are copied.",
            metrics: vec![
                metric("ns_per_packet", "ns per packet", 0),
                metric("ns_per_flow_opened", "ns per flow opened", 0),
                metric("bytes_per_flow", "bytes per idle flow", 0),
                metric("bytes_per_used_flow", "used", 0),
                metric("stored_bytes_per_flow", "stored, bytes per flow", 0),
                metric("ns_per_flow_stored", "ns to store it", 0),
                metric("ns_per_flow_resumed", "ns to go on with it", 0),
                metric("ns_per_scrape", "ns per scrape", 0),
            ],
            ways: vec![Way::EngineAlone],
            rounds: 5,
            time: Duration::ZERO,
            network: NetworkOptions::default(),
            comparisons: vec![
                against_1000("100,000 flows", "Engine alone: time per packet, 100,000 flows ÷ 1,000")
                    .at_most(1.4),
                against_1000("1,000,000 flows", "Engine alone: time per packet, 1,000,000 flows ÷ 1,000")
                    .at_most(1.6),
                Comparison::between_cases(
                    "Engine alone: time per scrape of metrics, 100,000 flows ÷ 1,000",
                    "ns_per_scrape",
                    Way::EngineAlone,
                    "100,000 flows",
                    "1,000 flows",
                )
                .at_most(1.5),
                Comparison::alone(
                    "Engine alone: time per scrape of metrics with 100,000 flows",
                    "ns_per_scrape",
                    "100,000 flows",
                    Way::EngineAlone,
                )
                .in_unit(" ns", 0)
                .at_most(5_000_000.0),
                Comparison::alone(
                    "Engine alone: memory per idle flow of 1,000,000",
                    "bytes_per_flow",
                    "1,000,000 flows",
                    Way::EngineAlone,
                )
                .in_unit(" B", 0)
                .at_most(768.0),
            ],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        let mut samples = Vec::new();
        for flows in FLOWS {
            stage.pause.wait(Duration::ZERO)?;
            let cost = cost_in_own_process(stage, flows)?;
            let values = [
                ("ns_per_packet", cost.ns_per_packet),
                ("ns_per_flow_opened", cost.ns_per_flow_opened),
                ("bytes_per_flow", cost.bytes_per_flow),
                ("bytes_per_used_flow", cost.bytes_per_used_flow),
                ("stored_bytes_per_flow", cost.stored_bytes_per_flow),
                ("ns_per_flow_stored", cost.ns_per_flow_stored),
                ("ns_per_flow_resumed", cost.ns_per_flow_resumed),
                ("ns_per_scrape", cost.ns_per_scrape),
            ];
            samples.push(Sample::new(super::count_text(flows, "flow"), way, round, values));
        }
        Ok(samples)
    }
}

fn cost_in_own_process(stage: &Stage<'_>, flows: u32) -> Result<EngineCost, BenchError> {
    let doing = || format!("run the engine with {flows} flows");
    let mut command = Command::new(stage.program);
    command.args(["bench", "engine-cost", "--flows", &flows.to_string()]).stdin(Stdio::null());
    io::set_death_signal(&mut command, libc::SIGKILL);
    let output = command.output().doing(doing)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(BenchError::Load(format!("{flows} flows: {}", said.trim())));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| BenchError::Load(format!("{flows} flows: it did not say what it measured: {error}")))
}
