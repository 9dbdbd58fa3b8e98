//! What the engine sends, when, and what it counts, in every scenario file and in 5,000 random
//! runs, is what stands in `scenarios-and-5000-runs.txt`. A change of shape leaves that file alone.
//!
//! A change of behaviour is a commit of its own, which says what changes and renews the file:
//!
//! ```text
//! cellerator sim digest scenarios/*.toml > crates/cli/tests/digest/scenarios-and-5000-runs.txt
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FILE: &str = "crates/cli/tests/digest/scenarios-and-5000-runs.txt";

#[test]
fn every_packet_its_time_and_every_counter_are_as_they_were() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let files = std::fs::read_dir(root.join("scenarios")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellerator"));
    command.args(["sim", "digest", "--against", FILE]).args(files).current_dir(root).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    assert!(output.status.success(), "{said}");
}
