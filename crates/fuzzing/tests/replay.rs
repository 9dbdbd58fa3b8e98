//! Every committed input through the function its fuzz target calls.

// Broken test data shall stop the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fuzzing::{TARGETS, Target};

/// Corpora of all targets together at most, bytes.
const CORPORA_BYTES_MAX: u64 = 600_000;

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(kind)
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

macro_rules! replays {
    ($($name:ident),* $(,)?) => {
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
    engine,
    engine_analyzed,
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
