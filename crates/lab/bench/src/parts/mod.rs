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
mod packets;
mod scrape;
mod steering;
mod stop;
mod upgrade;

use crate::stage::Measure;

/// A part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PartName {
    /// Bulk throughput.
    Bulk,
    /// Packets that are not super-packets.
    Packets,
    /// Short connections.
    Connections,
    /// Delay at low load.
    Latency,
    /// UDP beside the engine.
    Datagrams,
    /// BPF program against policy rules.
    Steering,
    /// Beside packet filters.
    Filters,
    /// The box as a bridge.
    Inline,
    /// Many flows at once.
    Flows,
    /// The engine alone.
    Engine,
    /// Against flows, subscribers, loss.
    Growth,
    /// One program takes the place of another.
    Upgrade,
    /// The end with live flows.
    Stop,
    /// While somebody asks for metrics, or looks at a subscriber.
    Scrape,
}

impl PartName {
    /// All, in the order of the results.
    pub const ALL: [Self; 14] = [
        Self::Bulk,
        Self::Packets,
        Self::Connections,
        Self::Latency,
        Self::Datagrams,
        Self::Steering,
        Self::Filters,
        Self::Inline,
        Self::Flows,
        Self::Engine,
        Self::Growth,
        Self::Upgrade,
        Self::Stop,
        Self::Scrape,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Packets => "packets",
            Self::Connections => "connections",
            Self::Latency => "latency",
            Self::Datagrams => "datagrams",
            Self::Steering => "steering",
            Self::Filters => "filters",
            Self::Inline => "inline",
            Self::Flows => "flows",
            Self::Engine => "engine",
            Self::Growth => "growth",
            Self::Upgrade => "upgrade",
            Self::Stop => "stop",
            Self::Scrape => "scrape",
        }
    }

    /// Description of the measurement, for help texts.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Bulk => "bulk TCP, 1 and 4 flows, against a bare echo and HAProxy",
            Self::Packets => "packets per second without super-packets",
            Self::Connections => "short connections per second",
            Self::Latency => "delay at low load, per direction",
            Self::Datagrams => "UDP past the engine, and in turns with an accelerated flow",
            Self::Steering => "a BPF program against policy rules, passed flows left to the kernel",
            Self::Filters => "steering beside a filter by state, and without one",
            Self::Inline => "the box as a bridge, against the kernel's bridge and the TUN path",
            Self::Flows => "100,000 flows at once: time per packet and memory against 1,000",
            Self::Engine => "the engine alone, up to a million flows in virtual time",
            Self::Growth => "throughput, processor time and memory against flows, subscribers and loss",
            Self::Upgrade => "pause while live flows move to a new process, up to 100,000 flows",
            Self::Stop => "the end with 100,000 live flows: how long it takes, and what becomes of them",
            Self::Scrape => "what it costs to be asked for metrics, and to be looked at, with 100,000 flows",
        }
    }

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
            Self::Upgrade => Box::new(upgrade::UpgradePart),
            Self::Stop => Box::new(stop::StopPart),
            Self::Scrape => Box::new(scrape::ScrapePart),
        }
    }
}

/// A case such as `1,000 flows`.
fn count_text(count: u32, what: &str) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let plural = if count == 1 { "" } else { "s" };
    format!("{text} {what}{plural}")
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
