//! The rules of ARCHITECTURE.md that a program can check: who depends on whom, and where unsafe code lives.

// A broken checkout is a failed test: no way to go on.
#![allow(clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Lowest layer first. A crate may depend only on those before it.
const LAYERS: &[&str] = &[
    "cellerator-units",
    "cellerator-wire",
    "cellerator-control",
    "cellerator-link",
    "cellerator-tcp",
    "cellerator-engine",
    "cellerator-scenario",
    "cellerator-capture",
    "cellerator-analysis",
    "cellerator-sim",
    "cellerator-fuzzing",
    "cellerator-tables",
    "cellerator-io",
    "cellerator-report",
    "cellerator-run",
    "cellerator-lab",
    "cellerator-contest",
    "cellerator-reproduce",
    "cellerator-bench",
    "cellerator",
];

/// The core: deterministic, without input or output. None of them may reach `io`.
const CORE_END: &str = "cellerator-sim";

/// Crates that bring clocks, sockets, threads or system calls; the core may not use them.
const NOT_IN_CORE: &[&str] = &["libc", "nix", "rustix", "tokio", "mio", "socket2", "rayon", "netlink-sys"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/cli lies two below the root")
}

/// Workspace packages with the names of their normal and build dependencies.
fn packages() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = metadata["packages"].as_array().expect("packages");
    list.iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            let names = dependencies
                .iter()
                .filter(|d| d["kind"].as_str() != Some("dev"))
                .map(|d| d["name"].as_str().expect("a name").to_owned())
                .collect();
            (package["name"].as_str().expect("a name").to_owned(), names)
        })
        .collect()
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == name)
}

#[test]
fn crates_depend_only_on_lower_layers() {
    let mut wrong = Vec::new();
    for (name, dependencies) in packages() {
        let own = layer(&name).unwrap_or_else(|| panic!("{name} has no layer: add it to LAYERS"));
        for dependency in dependencies {
            if layer(&dependency).is_some_and(|other| other >= own) {
                wrong.push(format!("{name} depends on {dependency}"));
            }
        }
    }
    assert!(wrong.is_empty(), "against the direction of dependencies: {wrong:?}");
}

#[test]
fn the_core_has_no_way_to_the_outside() {
    let core_end = layer(CORE_END).expect("a layer");
    let mut wrong = Vec::new();
    for (name, dependencies) in packages() {
        if layer(&name).is_some_and(|own| own <= core_end) {
            wrong.extend(
                dependencies
                    .iter()
                    .filter(|d| NOT_IN_CORE.contains(&d.as_str()) || *d == "cellerator-io")
                    .map(|d| format!("{name} depends on {d}")),
            );
        }
    }
    assert!(wrong.is_empty(), "the core must stay free of input and output: {wrong:?}");
}

fn sources(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a readable directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn unsafe_code_lives_in_io_only_and_says_why() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable source");
        let in_io = file.starts_with(root().join("crates/io"));
        let is_this = file.ends_with("cli/tests/architecture.rs");
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if !in_io && !is_this && code.contains("unsafe {") {
                wrong.push(format!("{}:{}", file.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "unsafe code outside crates/io: {wrong:?}");
}
