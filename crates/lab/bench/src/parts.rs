//! The parts of the benchmark: what is measured, in which ways, and the figures it gives.

mod bulk;
mod connections;
mod datagrams;
mod engine;
mod filters;
mod flows;
mod growth;
mod inline;
mod latency;
mod memory;
mod packets;
mod scrape;
mod steering;
mod stop;
mod upgrade;

use crate::listed::listed;
use crate::markdown::grouped;
use crate::stage::Measure;

listed! {
    /// A part of the benchmark.
    pub enum PartName;
    /// Description of the measurement, for help texts.
    fn about;
    /// Bulk throughput.
    Bulk: "bulk", "bulk TCP, 1, 4 and 16 flows, against a bare echo and HAProxy";
    /// Packets that are not super-packets.
    Packets: "packets", "packets per second without super-packets";
    /// Short connections.
    Connections: "connections", "short connections per second";
    /// Delay at low load.
    Latency: "latency", "delay at low load, per direction";
    /// UDP beside the engine.
    Datagrams: "datagrams", "UDP past the engine, and in turns with an accelerated flow";
    /// BPF program against policy rules.
    Steering: "steering", "a BPF program against policy rules, passed flows left to the kernel";
    /// Beside packet filters.
    Filters: "filters", "steering beside a filter by state, and without one";
    /// The box as a bridge.
    Inline: "inline", "the box as a bridge, against the kernel's bridge and the TUN path";
    /// Many flows at once.
    Flows: "flows", "100,000 flows at once: time per packet and memory against 1,000";
    /// The engine alone.
    Engine: "engine", "the engine alone, up to a million flows in virtual time";
    /// Against flows, subscribers, loss.
    Growth: "growth", "throughput, processor time and memory against flows, subscribers and loss";
    /// At rest, with held data, and behind it.
    Memory: "memory", "resident memory at rest, with 1 GB held, and given back";
    /// One program takes the place of another.
    Upgrade: "upgrade", "pause while live flows move to a new process, up to 100,000 flows, and beside other load";
    /// The end with live flows.
    Stop: "stop", "the end with 100,000 live flows: how long it takes, and what becomes of them";
    /// While somebody asks for metrics, or looks at a subscriber.
    Scrape: "scrape", "what it costs to be asked for metrics, and to be looked at, with 100,000 flows";
}

impl PartName {
    pub(crate) fn measure(self) -> Box<dyn Measure> {
        match self {
            Self::Bulk => Box::new(bulk::BulkPart),
            Self::Packets => Box::new(packets::PacketsPart),
            Self::Connections => Box::new(connections::ConnectionsPart),
            Self::Latency => Box::new(latency::LatencyPart),
            Self::Datagrams => Box::new(datagrams::DatagramsPart),
            Self::Steering => Box::new(steering::SteeringPart),
            Self::Filters => Box::new(filters::FiltersPart),
            Self::Inline => Box::new(inline::InlinePart),
            Self::Flows => Box::new(flows::FlowsPart),
            Self::Engine => Box::new(engine::EnginePart),
            Self::Growth => Box::new(growth::GrowthPart),
            Self::Memory => Box::new(memory::MemoryPart),
            Self::Upgrade => Box::new(upgrade::UpgradePart),
            Self::Stop => Box::new(stop::StopPart),
            Self::Scrape => Box::new(scrape::ScrapePart),
        }
    }
}

/// A case such as `1,000 flows`.
fn count_text(count: u32, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(f64::from(count), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_counts_with_their_thousands_apart() {
        assert_eq!(count_text(1, "flow"), "1 flow");
        assert_eq!(count_text(100_000, "flow"), "100,000 flows");
    }
}
