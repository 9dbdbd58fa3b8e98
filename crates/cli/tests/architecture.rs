//! The rules of ARCHITECTURE.md that a program can check: who depends on whom, and where unsafe code lives.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

mod modules;
mod names;

/// Folders below `crates`, lowest first. A crate may depend only on those of its own folder and of those before it.
const ROWS: &[&str] = &["base", "core", "captures", "linux", "client", "box", "lab", "cli", "fuzzing"];

/// Crates outside `core` that are without input, output and threads all the same. None of them may reach `io`.
const AS_THE_CORE: &[&str] = &["figures", "capture", "analysis"];

/// Crates that bring clocks, sockets, threads or system calls; the core may not use them.
const NOT_IN_CORE: &[&str] = &["libc", "nix", "rustix", "tokio", "mio", "socket2", "rayon", "netlink-sys"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/cli lies two below the root")
}

/// Of the workspace's packages.
fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Workspace packages with the names of their normal and build dependencies.
fn packages() -> BTreeMap<String, Vec<String>> {
    let metadata = metadata();
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

/// Those with the feature `bpf`.
const WITH_BPF: [&str; 4] =
    ["cellerator-io", "cellerator-drwa", "cellerator-coupled", "cellerator-congestion"];

/// What turns the feature `bpf` of `package` on: dependencies of a kind, `dev` or none.
fn turns_on<'a>(package: &'a Value, kind: Option<&str>) -> Vec<&'a str> {
    let dependencies = package["dependencies"].as_array().expect("dependencies");
    let of_kind = dependencies.iter().filter(|one| one["kind"].as_str() == kind);
    let with = of_kind.filter(|one| {
        let named = one["features"].as_array().expect("features").iter().any(|feature| feature == "bpf");
        named || one["uses_default_features"] == true
    });
    with.filter_map(|one| one["name"].as_str()).filter(|name| WITH_BPF.contains(name)).collect()
}

/// Packages whose feature `schema` tests of `package` turn on, by that of others too.
fn with_schema<'a>(package: &'a Value, list: &'a [Value]) -> Vec<&'a str> {
    let dependencies = package["dependencies"].as_array().expect("dependencies");
    let on = dependencies.iter().filter(|one| has(&one["features"], "schema"));
    let mut on: Vec<&str> = on.filter_map(|one| one["name"].as_str()).collect();
    let mut next = 0;
    while let Some(name) = on.get(next) {
        let of = list.iter().find(|package| package["name"] == *name);
        let turned_on = of.and_then(|package| package["features"]["schema"].as_array()).into_iter().flatten();
        let keys: Vec<&str> = turned_on.filter_map(|one| one.as_str()?.strip_suffix("/schema")).collect();
        for one in list.iter().filter_map(|package| package["name"].as_str()) {
            if !on.contains(&one) && keys.iter().any(|key| one.strip_prefix("cellerator-") == Some(*key)) {
                on.push(one);
            }
        }
        next += 1;
    }
    on
}

fn has(features: &Value, name: &str) -> bool {
    features.as_array().expect("features").iter().any(|feature| feature == name)
}

#[test]
fn a_plain_build_has_neither_bpf_nor_schemas_and_every_test_has_both() {
    let metadata = metadata();
    assert_eq!(
        metadata["workspace_default_members"].as_array().map(Vec::len),
        Some(1),
        "what a plain `cargo build` makes"
    );
    let list = metadata["packages"].as_array().expect("packages");
    let of = |name: &str| list.iter().find(|package| package["name"] == name);
    // Those that it reaches by what is not for tests alone.
    let reached = |name: &str| {
        let mut found = vec![name.to_owned()];
        let mut next = 0;
        while let Some(name) = found.get(next).cloned() {
            next += 1;
            let dependencies = of(&name).and_then(|package| package["dependencies"].as_array());
            for one in dependencies.into_iter().flatten().filter(|one| one["kind"].is_null()) {
                let name = one["name"].as_str().expect("a name").to_owned();
                if of(&name).is_some() && !found.contains(&name) {
                    found.push(name);
                }
            }
        }
        found
    };
    let mut looked_at = 0;
    for package in list {
        let name = package["name"].as_str().expect("a name");
        assert!(turns_on(package, None).is_empty(), "{name}: a plain build would have BPF");
        assert!(package["features"]["default"].is_null(), "{name}: a plain build would have BPF");
        let plain =
            package["dependencies"].as_array().into_iter().flatten().filter(|one| one["kind"] != "dev");
        let is_needed = |one: &Value| one["name"] == "schemars" && one["optional"] == false;
        let brings = plain.filter(|one| has(&one["features"], "schema") || is_needed(one)).count();
        assert_eq!(brings, 0, "{name}: a plain build would have what schemas need");
        let reached = reached(name);
        // With drwa's, coupled's or congestion's, io's is on.
        let mut on = turns_on(package, Some("dev"));
        if !on.is_empty() {
            on.push("cellerator-io");
            looked_at += 1;
        }
        let wanted = reached.iter().filter(|name| WITH_BPF.contains(&name.as_str()));
        let off: Vec<&String> = wanted.filter(|name| !on.contains(&name.as_str())).collect();
        assert!(off.is_empty(), "tests of {name} alone would have {off:?} without the feature bpf");
        let on = with_schema(package, list);
        let has_one = |name: &&String| of(name).is_some_and(|of| !of["features"]["schema"].is_null());
        let off: Vec<&String> =
            reached.iter().filter(has_one).filter(|name| !on.contains(&name.as_str())).collect();
        assert!(off.is_empty(), "tests of {name} alone would have {off:?} without the feature schema");
    }
    assert!(looked_at >= 10, "{looked_at} crates reach io");
}

/// Of each package of the workspace its folder and the place of its row.
fn folders() -> BTreeMap<String, (PathBuf, usize)> {
    let metadata = metadata();
    let list = metadata["packages"].as_array().expect("packages");
    list.iter()
        .map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
            let folder = manifest.parent().expect("a folder").to_owned();
            let below = folder.strip_prefix(root()).expect("below the root");
            let below = below.strip_prefix("crates").unwrap_or(below);
            let row = below.iter().next().expect("a row").to_string_lossy();
            let row = ROWS.iter().position(|one| *one == row);
            let row = row.unwrap_or_else(|| panic!("{} is in no row: add it to ROWS", folder.display()));
            (package["name"].as_str().expect("a name").to_owned(), (folder, row))
        })
        .collect()
}

/// Packages that do neither input nor output, with their folders.
fn without_input_and_output() -> BTreeMap<String, PathBuf> {
    let core = ROWS.iter().position(|row| *row == "core");
    let is_one =
        |folder: &Path, row| Some(row) == core || AS_THE_CORE.iter().any(|name| folder.ends_with(name));
    let all = folders().into_iter();
    let found: BTreeMap<_, _> = all
        .filter(|(_, (folder, row))| is_one(folder, *row))
        .map(|(name, (folder, _))| (name, folder))
        .collect();
    assert_eq!(found.len(), 13 + AS_THE_CORE.len(), "{:?}", found.keys());
    found
}

#[test]
fn crates_depend_only_on_their_own_row_and_those_above() {
    let folders = folders();
    let mut wrong = Vec::new();
    for (name, dependencies) in packages() {
        let (_, own) = folders[&name];
        let upwards =
            dependencies.iter().filter(|other| folders.get(*other).is_some_and(|(_, row)| *row > own));
        wrong.extend(upwards.map(|other| format!("{name} depends on {other}")));
    }
    assert!(wrong.is_empty(), "against the direction of dependencies: {wrong:?}");
}

#[test]
fn the_core_has_no_way_to_the_outside() {
    let core = without_input_and_output();
    let mut wrong = Vec::new();
    for (name, dependencies) in packages().into_iter().filter(|(name, _)| core.contains_key(name)) {
        let ours = |name: &String| name.starts_with("cellerator-");
        wrong.extend(
            dependencies
                .iter()
                .filter(|d| NOT_IN_CORE.contains(&d.as_str()) || (ours(d) && !core.contains_key(*d)))
                .map(|d| format!("{name} depends on {d}")),
        );
    }
    assert!(wrong.is_empty(), "the core must stay free of input and output: {wrong:?}");
}

#[test]
fn the_core_starts_no_threads() {
    let mut wrong = Vec::new();
    for (name, folder) in without_input_and_output() {
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        assert!(!files.is_empty(), "{name} has no sources");
        for file in files {
            let text = std::fs::read_to_string(&file).expect("readable source");
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                if code.contains("thread::") {
                    wrong.push(format!("{}:{}", file.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "whoever runs the core starts threads: {wrong:?}");
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
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
    sources(&root().join("fuzzing"), &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable source");
        let in_io = file.starts_with(root().join("crates/linux/io"));
        let is_this = file.ends_with("cli/tests/architecture.rs");
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if !in_io && !is_this && code.contains("unsafe {") {
                wrong.push(format!("{}:{}", file.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "unsafe code outside crates/linux/io: {wrong:?}");
}

/// Modules of the engine, lowest layer first. A module may import only those before it: no circle, no import
/// upwards.
const ENGINE_LAYERS: &[&str] = &[
    // What the outside says and hears.
    "boundary",
    "pass",
    "policy",
    "direction",
    "key",
    "config",
    "stats",
    "record",
    "handover",
    "journal",
    "report",
    "meters",
    "notice",
    "image",
    "timestamp",
    // Memory and time, without a protocol.
    "memory::slab",
    "memory::timer",
    "memory::index",
    "memory::half_open",
    "memory::ahead",
    "memory::buffer_pool",
    "memory",
    // The way to a subscriber.
    "path::pacing",
    "opaque::key",
    "opaque::markers",
    "opaque::trickle",
    "opaque::codel",
    "opaque::under_way",
    "opaque::quic",
    "opaque::queues",
    "opaque",
    "path::turns",
    "path::family",
    "path::sight",
    "path",
    "path::ready_list",
    "path::subscriber",
    // A segment, and a flow whose delivery is ours.
    "trial",
    "effect",
    "segment",
    "handshake",
    "relay::acceptance",
    "relay::accurate_ecn",
    "relay::sink_marks",
    "relay::sides",
    "relay::conduct",
    "relay::departure",
    "relay",
    "relay::window",
    "relay::from_source",
    "relay::from_sink",
    "relay::emit",
    "relay::record",
    "relay::survivor",
    // Where a flow is in its life.
    "phase::next",
    "phase::bounds",
    "phase::windowed::half_timer",
    "phase::windowed",
    "phase::watched",
    "phase::accelerated",
    "phase::closed",
    "phase::draining",
    "phase",
    "flow",
    // One direction, and both in line.
    "half",
    "half::broken",
    "half::deadlines",
    "half::disputes",
    "half::handshakes",
    "half::transitions",
    "half::feedback",
    "half::image",
    "half::look_ahead",
    "half::notices",
    "half::opaque",
    "half::schedule",
    "half::output",
    "half::path_mtu",
    "half::recover",
    "half::reopening",
    "half::handover",
    "half::reports",
    "half::room",
    "half::trial",
    "engine",
    "engine::handover",
    "engine::image",
];

#[test]
fn the_engines_modules_import_only_lower_ones() {
    let place = |module: &str| ENGINE_LAYERS.iter().position(|layer| *layer == module);
    let mut wrong = Vec::new();
    for (module, names) in modules::graph(&modules::of(&root().join("crates/core/engine/src"))) {
        let own = place(&module).unwrap_or_else(|| panic!("{module} has no layer: add it to ENGINE_LAYERS"));
        let upwards = names.iter().filter(|name| place(name).is_some_and(|other| other > own));
        wrong.extend(upwards.map(|name| format!("{module} imports {name}")));
    }
    assert!(wrong.is_empty(), "against the layers of the engine: {wrong:#?}");
}

/// Words in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn has_function(file: &str, name: &str) -> bool {
    let text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
    [format!("fn {name}("), format!("fn {name}<")].iter().any(|start| text.contains(start))
}

#[test]
fn the_reading_guide_names_functions_that_there_are() {
    let guide = std::fs::read_to_string(root().join("docs/reading.md")).expect("the guide");
    let rows = guide.lines().filter(|line| line.starts_with("| ") && line.contains("](../"));
    let mut stops = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').collect();
        let files: Vec<&str> =
            cells[4].split("](../").skip(1).map(|link| link.split(')').next().unwrap_or_default()).collect();
        for name in quoted(cells[3]) {
            assert!(files.iter().any(|file| has_function(file, name)), "no `{name}` in {files:?}");
        }
        stops += 1;
    }
    assert_eq!(stops, 10);
}

#[test]
fn the_way_of_a_segment_names_functions_that_there_are() {
    let text = std::fs::read_to_string(root().join("docs/reading.md")).expect("the guide");
    let mut found = 0;
    for line in
        text.lines().filter(|line| line.starts_with("  ") && line.contains("::") && line.contains(".rs "))
    {
        let mut words = line.split_whitespace();
        let (Some(function), Some(file)) = (words.next(), words.next()) else { continue };
        let name = function.rsplit("::").next().unwrap_or_default();
        assert!(has_function(&format!("crates/core/engine/src/{file}"), name), "no `{function}` in {file}");
        found += 1;
    }
    assert!(found >= 10, "the list has {found} lines");
}

/// The picture of the layout and the tables of docs/crates.md have every crate, in its row.
#[test]
fn the_layout_names_every_crate() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).expect("a page");
    let (picture, tables) = (read("ARCHITECTURE.md"), read("docs/crates.md"));
    let picture = picture.split("```").nth(1).expect("a picture");
    let mut found = Vec::new();
    let mut row = "";
    for line in picture.lines() {
        if let Some(word) = line.strip_prefix("  ").filter(|rest| !rest.starts_with([' ', '─'])) {
            row = word.split(' ').next().unwrap_or_default();
        }
        found.extend(
            line.get(19..).and_then(|rest| rest.split(' ').next()).map(|name| format!("{row}/{name}")),
        );
    }
    for (name, (folder, _)) in folders() {
        let below = folder.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
        let place = if below.matches('/').count() < 2 {
            format!("{below}/{}", folder.file_name().expect("a name").to_string_lossy())
        } else {
            below
        };
        assert!(
            found.contains(&place),
            "{name} is not in the picture of ARCHITECTURE.md as {place}: {found:?}"
        );
        let short = place.rsplit('/').next().unwrap_or_default().to_owned();
        assert!(tables.contains(&format!("`{short}` |")), "{name} is not in docs/crates.md");
    }
}
