//! What packages are made of, without making one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{ForAll, PROGRAM, Place};

/// The most that `systemd-analyze security` may say, in tenths.
const EXPOSURE_MAX: u32 = 25;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The options that the help of a command knows.
fn options(command: &str) -> BTreeSet<String> {
    let output = Command::new(PROGRAM).args([command, "--help"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("--"));
    words.map(str::to_owned).collect()
}

#[test]
fn every_setting_of_the_example_can_be_switched_on() {
    let example = read("packaging/example.toml");
    let settings: Vec<String> = example
        .lines()
        .filter_map(|line| {
            line.strip_prefix('#').filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
        })
        .map(|line| line.replace("eth0", "w0").replace("eth1", "m0"))
        .collect();
    assert!(settings.len() > 8, "{settings:?}");
    let machine = Place::new();
    let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    // Each alone, so that none hides another one, and all at once.
    let ends = &settings[..2];
    let texts = settings[2..].iter().map(|one| [ends, std::slice::from_ref(one)].concat().join("\n"));
    for text in texts.chain([settings.join("\n")]) {
        fs::write(&file, &text).unwrap();
        let output = machine.output(&[PROGRAM, "run", "--config", file.to_str().unwrap(), "--dry-run"]);
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && said.starts_with("# steering by"), "{text}\n{said}");
    }
    // As it is shipped nothing is set.
    assert!(example.lines().all(|line| line.is_empty() || line.starts_with('#')));
}

#[test]
fn the_units_use_options_that_there_are_and_are_well_shut() {
    let units = [
        ("cellerator@", 3),
        ("cellerator-metrics@", 1),
        ("cellerator-history@", 1),
        ("cellerator-dashboard", 1),
        ("cellerator-congestion", 1),
    ];
    for (name, commands) in units {
        check_unit(&format!("packaging/{name}.service"), commands);
    }
}

#[test]
fn systemd_starts_an_accelerator_anew_however_often_that_has_failed() {
    let unit = read("packaging/cellerator@.service");
    let (head, service) = unit.split_once("[Service]").unwrap();
    // An option of [Unit]: elsewhere systemd ignores it.
    assert!(head.lines().any(|line| line == "StartLimitIntervalSec=0"), "{head}");
    assert!(service.lines().any(|line| line == "Restart=on-failure"), "{service}");
}

fn check_unit(file: &str, commands: usize) {
    let (unit, text) = (root().join(file), read(file));
    let lines: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("Exec")?.split_once('=')).map(|(_, l)| l).collect();
    assert_eq!(lines.len(), commands, "{file}");
    for line in lines {
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some("/usr/bin/cellerator"));
        let known = options(words.next().unwrap());
        for option in words.filter(|word| word.starts_with("--")) {
            assert!(known.contains(option), "{line}: {option} is unknown");
        }
        // What is said of them beside it.
        let said = text
            .lines()
            .filter(|line| line.starts_with("#   OPTIONS="))
            .flat_map(|line| line.split(['=', ' ']));
        for option in said.filter(|word| word.starts_with("--")) {
            assert!(known.contains(option), "{file}: {option} is unknown");
        }
    }
    let Some(analyze) = io::features::find_program("systemd-analyze") else { return };
    let output =
        Command::new(analyze).args(["security", "--offline=true", "--no-pager"]).arg(unit).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let level = said.rsplit_once("service: ").and_then(|(_, rest)| rest.split(' ').next()?.split_once('.'));
    let (whole, tenth) = level.unwrap_or_else(|| panic!("{said}"));
    let level = 10 * whole.parse::<u32>().unwrap() + tenth.parse::<u32>().unwrap();
    assert!(level <= EXPOSURE_MAX, "{said}");
}

#[test]
fn packages_name_files_that_there_are() {
    let manifest: toml::Table = read("crates/cli/Cargo.toml").parse().unwrap();
    let metadata = &manifest["package"]["metadata"];
    let deb = metadata["deb"]["assets"].as_array().unwrap().iter().map(|asset| asset[0].as_str().unwrap());
    let rpm = metadata["generate-rpm"]["assets"].as_array().unwrap().iter();
    let rpm = rpm.map(|asset| asset["source"].as_str().unwrap());
    let all: BTreeSet<&str> = deb.chain(rpm).collect();
    assert!(all.contains("../../target/package/cellerator"), "the program without tables for debuggers");
    let makefile = read("Makefile");
    for file in all {
        match file.strip_prefix("../../") {
            // What `make package-files` writes.
            Some(made) if made.starts_with("target/package/") => {
                let name = made.trim_start_matches("target/package/").split('*').next().unwrap();
                assert!(makefile.contains(&format!("$(PACKAGE)/{}", name.trim_end_matches('/'))), "{file}");
            }
            Some(there) => assert!(root().join(there).exists(), "{file}"),
            None => assert!(file.starts_with("target/"), "{file}"),
        }
    }
    for script in ["postinst", "prerm", "postrm"] {
        assert!(read(&format!("packaging/debian/{script}")).starts_with("#!/bin/sh\nset -e\n"), "{script}");
    }
    let version = manifest["package"]["version"].get("workspace").map(|_| env!("CARGO_PKG_VERSION")).unwrap();
    assert!(read("packaging/debian/changelog").starts_with(&format!("cellerator ({version}-1)")));
}

#[test]
fn the_page_in_the_package_has_no_link_to_a_file_beside_it() {
    let output =
        Command::new(root().join("tools/package-document")).arg("docs/operation.md").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let base = format!("{}/blob/main/", env!("CARGO_PKG_REPOSITORY"));
    let mut files = 0;
    for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        if let Some(file) = link.strip_prefix(&base) {
            let file = file.split('#').next().unwrap();
            assert!(root().join(file).is_file(), "{link}");
            files += 1;
        } else {
            assert!(link.starts_with('#') || link.starts_with("http"), "{link}");
        }
    }
    let relative =
        read("docs/operation.md").split("](").skip(1).filter(|rest| !rest.starts_with(['#', 'h'])).count();
    assert!(files >= 10 && files >= relative, "{files} of {relative}");
}

#[test]
fn licences_name_every_folder_of_bpf_programs() {
    let places = std::fs::read_dir(root().join("crates/linux"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("bpf"));
    let folders: BTreeSet<String> = places
        .filter(|path| path.is_dir())
        .map(|path| path.strip_prefix(root().join("crates/linux")).unwrap().display().to_string())
        .collect();
    assert!(folders.contains("drwa/bpf"), "{folders:?}");
    for file in ["NOTICE", "packaging/debian/copyright", "README.md"] {
        let text = read(file);
        let missing: Vec<_> =
            folders.iter().filter(|folder| !text.contains(&format!("crates/linux/{folder}"))).collect();
        assert!(missing.is_empty(), "{file} does not name {missing:?}");
    }
}

#[test]
fn the_image_has_the_program_alone_and_runs_it_as_an_ordinary_user() {
    let text = read("packaging/Containerfile");
    let of = |instruction: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(instruction));
        lines.map(|line| line.trim().to_owned()).collect()
    };
    assert_eq!(of("FROM "), ["scratch"], "nothing comes from a network");
    assert_eq!(of("COPY "), ["cellerator/bin/cellerator /usr/bin/cellerator"]);
    assert!(
        read("Makefile").contains("strip -o $(3)/cellerator/bin/cellerator target/"),
        "what is copied is made"
    );
    assert!(of("RUN ").is_empty() && of("ADD ").is_empty());
    let user = of("USER ").remove(0);
    assert!(user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id != 0)), "{user}");
    assert_eq!(of("ENTRYPOINT "), [r#"["/usr/bin/cellerator"]"#]);
    // The example runs as that user.
    let example = text.lines().find_map(|line| line.strip_prefix("#   podman run --rm cellerator ")).unwrap();
    let program = ForAll::new("image");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", program.path()]);
    let output = command.args(example.split(' ')).output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty(), "{output:?}");
}
