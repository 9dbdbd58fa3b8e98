//! Writes the seeds of the corpora: `cargo run -p cellerator-fuzzing --example seeds -- fuzz/corpus`.
//!
//! Everything is made here, from the project's own simulator, builders, generators and files; the
//! same seeds come out every time. `docs/fuzzing.md` says how the corpora are made smaller
//! afterwards.

// Broken seeds stop the program: there is nobody else to tell.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

mod captures;
mod layers;
#[path = "../../../capture/tests/made/mod.rs"]
mod made;
mod packets;
mod recorded;

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

fn main() {
    let root = std::env::args().nth(1).expect("the folder of the corpora");
    let root = Path::new(&root);
    write(root, "packet", packets::packet());
    write(root, "tcp_options", packets::tcp_options());
    write(root, "super_packet", packets::super_packet());
    write(root, "control", controllers());
    write(root, "trace", packets::trace());
    write(root, "scenario", packets::scenario());
    write(root, "script", packets::script());
    write(root, "engine", packets::engine());
    write(root, "engine_analyzed", packets::engine());
    write(root, "pcap", captures::pcap());
    write(root, "pcapng", captures::pcapng());
    write(root, "packed", captures::packed());
    write(root, "analyzer", captures::analyzer());
}
