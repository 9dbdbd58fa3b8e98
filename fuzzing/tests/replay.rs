//! Every committed input through the function its fuzz target calls.

// Broken test data shall stop the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fuzzing::{Mutations, TARGETS, Target};

/// Corpora of all targets together at most, bytes.
const CORPORA_BYTES_MAX: u64 = 600_000;

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz").join(kind)
}

/// The files below `fuzz/<kind>/<target>`, none if there is no such folder.
fn inputs(kind: &str, target: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder(kind).join(target)) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs a target on all files of one kind; names the file that breaks a promise.
fn replay(target: &Target, kind: &str) -> usize {
    let files = inputs(kind, target.name);
    for file in &files {
        let bytes = std::fs::read(file).unwrap();
        let outcome = std::panic::catch_unwind(|| (target.run)(&bytes));
        assert!(outcome.is_ok(), "{} breaks a promise of `{}`", file.display(), target.name);
    }
    files.len()
}

/// Inputs for each target that are made of its corpus by chance: `FUZZ_INPUTS` says how many, `FUZZ_SEED` which.
fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

/// Those that play whole sessions take longer for each input.
const SLOW: [&str; 8] =
    ["engine", "engine_analyzed", "analyzer", "scenario", "script", "trace", "multipath", "packed"];

/// Runs a target on inputs made by chance; one that breaks a promise is written down.
fn mutate(target: &Target) {
    let files = inputs("corpus", target.name).into_iter().chain(inputs("regressions", target.name));
    let seeds: Vec<Vec<u8>> = files.map(|file| std::fs::read(file).unwrap()).collect();
    let usual = if SLOW.contains(&target.name) { 150 } else { 4_000 };
    let mut mutations = Mutations::new(target, &seeds, number("FUZZ_SEED", 1));
    for _ in 0..number("FUZZ_INPUTS", usual) {
        let input = mutations.input();
        if std::panic::catch_unwind(|| (target.run)(&input)).is_err() {
            let file = std::env::temp_dir().join(format!("cellerator-fuzz-{}", target.name));
            std::fs::write(&file, &input).unwrap();
            panic!("{} breaks a promise of `{}`", file.display(), target.name);
        }
    }
}

macro_rules! replays {
    ($($name:ident),* $(,)?) => {
        mod mutated {
            use super::*;
            $(
                #[test]
                fn $name() {
                    mutate(TARGETS.iter().find(|target| target.name == stringify!($name)).unwrap());
                }
            )*
        }
        $(
            #[test]
            fn $name() {
                let target = TARGETS.iter().find(|target| target.name == stringify!($name)).unwrap();
                assert!(replay(target, "corpus") > 0, "there is no corpus");
                replay(target, "regressions");
            }
        )*
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
    };
}

replays!(
    packet,
    tcp_options,
    super_packet,
    feedback,
    probe,
    probe_tcp,
    multipath,
    handover,
    handover_message,
    handover_note,
    control,
    trace,
    scenario,
    script,
    pcap,
    pcapng,
    packed,
    analyzer,
    quic,
    engine,
    engine_analyzed,
    journal,
    record,
    inventory,
    offer,
    note,
    image,
    flow_record,
    question,
    top_line,
    probe_order,
    frame,
    firewall,
    netlink,
);

#[test]
fn every_target_is_replayed_and_fuzzed() {
    let known: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(known, REPLAYED.iter().copied().collect());
    let manifest = std::fs::read_to_string(folder("Cargo.toml")).unwrap();
    for name in &known {
        let source = std::fs::read_to_string(folder("fuzz_targets").join(format!("{name}.rs"))).unwrap();
        assert!(source.contains(&format!("run(\"{name}\"")), "fuzz_targets/{name}.rs runs another target");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is missing in fuzz/Cargo.toml");
    }
    for kind in ["corpus", "regressions"] {
        for entry in std::fs::read_dir(folder(kind)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(known.contains(name.as_str()), "fuzz/{kind}/{name} belongs to no target");
        }
    }
}

#[test]
fn corpora_stay_small() {
    let files = TARGETS.iter().flat_map(|target| inputs("corpus", target.name));
    let bytes: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes <= CORPORA_BYTES_MAX, "{bytes} bytes of corpora: minimise them, see docs/fuzzing.md");
}
