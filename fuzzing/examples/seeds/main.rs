//! Writes the seeds of the corpora: `cargo run -p cellerator-fuzzing --example seeds -- fuzz/corpus`.
//!
//! Everything is made here, from the project's own simulator, builders, generators and files; the
//! same seeds come out every time. `docs/fuzzing.md` says how the corpora are made smaller
//! afterwards.

// Broken seeds stop the program: there is nobody else to tell.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

mod captures;
mod handovers;
mod kept;
mod layers;
#[path = "../../../crates/captures/capture/tests/made.rs"]
mod made;
mod packets;
mod quic;
mod recorded;
mod shells;

/// Seeds of one target: file name and content.
type Seeds = Vec<(String, Vec<u8>)>;

fn write(root: &Path, target: &str, seeds: Seeds) {
    let folder = root.join(target);
    std::fs::create_dir_all(&folder).unwrap();
    let bytes: usize = seeds.iter().map(|(_, bytes)| bytes.len()).sum();
    println!("{target}: {} seeds, {bytes} bytes", seeds.len());
    for (name, bytes) in seeds {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

/// Sixty events for each controller, as a generator makes them.
fn controllers() -> Seeds {
    let count = control::ControllerConfig::NAMES.len();
    let events = |index: usize| {
        let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(index as u64 + 1);
        let next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let bytes = std::iter::once(index as u8).chain(std::iter::repeat_with(next).take(60 * 12));
        (control::ControllerConfig::NAMES[index].to_owned(), bytes.collect())
    };
    (0..count).map(events).collect()
}

/// The repository's event files, and one with every line that there is.
fn events() -> Seeds {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/multipath");
    let read = |name: &str| (name.to_owned(), std::fs::read(folder.join(name)).unwrap());
    let mut seeds: Seeds = ["silent-death.txt", "flapping.txt", "drive.txt"].into_iter().map(read).collect();
    let all = "0 path a\n0 path b rtt 20ms\n0 connections 2\n0 address a 10.1.0.2\n0 address b fd00::2\n\
               0.1 answer a 0 20000us 203.0.113.9\n0.12 answer a 1 20000us 203.0.113.9\n0.2 traffic b on\n\
               1 sample a arrived=12 due rtt=20123us subflows=1 alone=0\n2 strength a -118\n3 dies b\n\
               4 loses b 30\n4 nat b 198.51.100.1\n5 returns b\n5 retire a\n6 use a\n\
               7 flaps b 500ms 9\n9 address a none\n9.5 address a 10.1.0.9\n12 end\n";
    seeds.push(("every-line.txt".to_owned(), all.into()));
    seeds
}

fn main() {
    let root = std::env::args().nth(1).expect("the folder of the corpora");
    let root = Path::new(&root);
    write(root, "packet", packets::packet());
    write(root, "tcp_options", packets::tcp_options());
    write(root, "super_packet", packets::super_packet());
    write(root, "control", controllers());
    write(root, "multipath", events());
    write(root, "handover", handovers::handover());
    write(root, "handover_message", handovers::messages());
    write(root, "handover_note", handovers::notes());
    write(root, "trace", packets::trace());
    write(root, "scenario", packets::scenario());
    write(root, "script", packets::script());
    write(root, "quic", quic::quic());
    write(root, "engine", packets::engine());
    write(root, "engine_analyzed", packets::engine());
    write(root, "pcap", captures::pcap());
    write(root, "pcapng", captures::pcapng());
    write(root, "packed", captures::packed());
    write(root, "analyzer", captures::analyzer());
    write(root, "journal", kept::journal());
    write(root, "record", kept::record());
    write(root, "inventory", kept::inventory());
    write(root, "offer", kept::offer());
    write(root, "note", kept::note());
    write(root, "image", kept::image());
    write(root, "flow_record", kept::flow_record());
    write(root, "question", kept::question());
    write(root, "top_line", shells::top_line());
    write(root, "probe_order", shells::probe_order());
    write(root, "frame", shells::frame());
    write(root, "firewall", shells::firewall());
    write(root, "netlink", shells::netlink());
}
