//! Bodies of the fuzz targets: one function each, from any bytes to checked promises.
//!
//! `fuzz/fuzz_targets/` holds a line per target that calls one of these under libFuzzer;
//! `tests/replay.rs` calls the same functions with every committed input. A promise that does not
//! hold is a panic here, on purpose: that is how a fuzzer learns of it. `docs/fuzzing.md` says what
//! each target checks.

// A broken promise ends the run: there is no other way to tell the fuzzer.
#![allow(clippy::expect_used, clippy::panic)]

mod capture;
mod control;
mod engine;
mod handover;
mod kept;
mod multipath;
mod mutation;
mod packet;
mod probe;
mod probe_tcp;
mod quic;
mod shells;
mod text;

pub use crate::handover::flow_record;
pub use mutation::Mutations;

/// A fuzz target: its name, which is that of its corpus, and what it does with bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name.
    pub name: &'static str,
    /// Checks everything the target promises about these bytes; panics if it does not hold.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "packet", run: packet::packet },
    Target { name: "tcp_options", run: packet::tcp_options },
    Target { name: "super_packet", run: packet::super_packet },
    Target { name: "feedback", run: packet::feedback },
    Target { name: "probe", run: crate::probe::probe },
    Target { name: "probe_tcp", run: crate::probe_tcp::probe_tcp },
    Target { name: "multipath", run: crate::multipath::multipath },
    Target { name: "handover", run: crate::handover::handover },
    Target { name: "handover_message", run: crate::handover::handover_message },
    Target { name: "handover_note", run: crate::handover::handover_note },
    Target { name: "control", run: crate::control::control },
    Target { name: "trace", run: text::trace },
    Target { name: "scenario", run: text::scenario },
    Target { name: "script", run: text::script },
    Target { name: "pcap", run: capture::pcap },
    Target { name: "pcapng", run: capture::pcapng },
    Target { name: "packed", run: capture::packed },
    Target { name: "analyzer", run: capture::analyzer },
    Target { name: "quic", run: crate::quic::quic },
    Target { name: "journal", run: kept::journal },
    Target { name: "record", run: kept::record },
    Target { name: "inventory", run: kept::inventory },
    Target { name: "offer", run: kept::offer },
    Target { name: "note", run: kept::note },
    Target { name: "image", run: kept::image },
    Target { name: "flow_record", run: kept::flow_record },
    Target { name: "question", run: kept::question },
    Target { name: "top_line", run: shells::top_line },
    Target { name: "probe_order", run: shells::probe_order },
    Target { name: "frame", run: shells::frame },
    Target { name: "firewall", run: shells::firewall },
    Target { name: "netlink", run: shells::netlink },
    Target { name: "engine", run: engine::engine },
    Target { name: "engine_analyzed", run: engine::engine_analyzed },
];

/// Runs one target.
///
/// # Panics
/// When a promise does not hold, or there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    match TARGETS.iter().find(|target| target.name == name) {
        Some(target) => (target.run)(bytes),
        None => panic!("there is no fuzz target `{name}`"),
    }
}
