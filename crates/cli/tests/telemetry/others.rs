//! What another user of this machine has of an accelerator, and what a view has of the machine.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use io::SpawnOptions;
use serde_json::Value;

use crate::network::{Network, PROGRAM, Running, wait_until};

/// `nobody`, and its group.
const NOBODY: u32 = 65_534;
const ITS_GROUP: &str = "nogroup";

/// Runs a program as that user, and waits for its end.
fn as_nobody(network: &Network, program: &str, arguments: &[&str]) -> Output {
    // Root goes into the namespace, and gives up being root there.
    let mut command = Command::new("setpriv");
    let user = NOBODY.to_string();
    command
        .args(["--reuid", &user, "--regid", &user, "--clear-groups", program])
        .args(arguments)
        .current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    network.middle.spawn(command, SpawnOptions::default()).unwrap().wait_with_output().unwrap()
}

/// The line with which a program fails.
fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

fn directory_of(accelerator: &Running) -> PathBuf {
    Path::new(io::INSTANCE_DIRECTORY).join(format!("run-{}", accelerator.child.id()))
}

/// Files that others than the owner may read or change, but those by which an instance is found.
fn open_files(directory: &Path) -> Vec<String> {
    let mut open = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let (data, name) = (entry.metadata().unwrap(), entry.file_name().into_string().unwrap());
        if data.is_dir() {
            open.extend(open_files(&entry.path()));
        }
        let is_for_finders = ["owner", "record"].contains(&name.as_str()) && data.mode() & 0o022 == 0;
        let is_look = name == "look" && data.file_type().is_socket();
        if data.mode() & 0o077 != 0 && !is_for_finders && !is_look {
            open.push(format!("{name} {:o}", data.mode()));
        }
    }
    open
}

#[test]
fn another_user_sees_nothing_of_an_accelerator_and_changes_nothing() {
    let network = Network::build("others");
    let accelerator = network.accelerate(&[]);
    let directory = directory_of(&accelerator);
    assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    assert_eq!(open_files(&directory), Vec::<String>::new());
    for question in ["status", "flows", "events", "drain", "reload"] {
        refusal(&as_nobody(&network, PROGRAM, &[question, &network.name]));
    }
    let sockets = ["console", "look"].map(|name| directory.join(name));
    let files = [
        &sockets[0],
        &sockets[1],
        &directory.join("record"),
        &Path::new(io::INSTANCE_DIRECTORY).join("lock"),
    ];
    for file in files {
        let read = as_nobody(&network, "cat", &[file.to_str().unwrap()]);
        assert!(!read.status.success(), "{} is open", file.display());
    }
    network.download(100_000);
    accelerator.stop();
}

#[test]
fn a_group_that_may_look_changes_nothing() {
    let network = Network::build("looks");
    let accelerator = network.accelerate(&["--look-group", ITS_GROUP]);
    let directory = directory_of(&accelerator);
    assert_eq!(open_files(&directory), Vec::<String>::new());
    let status = as_nobody(&network, PROGRAM, &["status", &network.name, "--json"]);
    assert!(status.status.success(), "{status:?}");
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert!(status["counters"]["packets_in"].is_u64(), "{status}");
    assert!(as_nobody(&network, PROGRAM, &["flows", &network.name, "--json"]).status.success());
    assert!(as_nobody(&network, PROGRAM, &["top", "--once", &network.name]).status.success());
    for question in ["drain", "reload"] {
        refusal(&as_nobody(&network, PROGRAM, &[question, &network.name]));
    }
    network.download(100_000);
    accelerator.stop();
}

/// A line of a process's status.
fn field(process: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim_start_matches(':').trim().to_owned()
}

#[test]
fn a_view_that_is_taken_over_has_nothing_of_the_machine() {
    let network = Network::build("views");
    let accelerator = network.accelerate(&[]);
    let folder = tempfile::tempdir().unwrap();
    let (directory, file) = (folder.path(), folder.path().join("flows.jsonl"));
    let [there, file] = [directory, &file].map(|path| path.to_str().unwrap().to_owned());
    let views: [&[&str]; 5] = [
        &["events", &network.name],
        &["export", "flows", &network.name, "--json", &file],
        &["export", "flows", &network.name, "--ipfix", "127.0.0.1:4739"],
        &["history", &network.name, "--directory", &there, "--every", "1 s"],
        &["status", &network.name, "--watch"],
    ];
    for arguments in views {
        let view = Running::start(&network.middle, arguments);
        let process = view.child.id();
        wait_until("it has given up its rights", || field(process, "NoNewPrivs") == "1");
        wait_until("it has no capability", || field(process, "CapEff") == "0000000000000000");
        assert_eq!(field(process, "CapBnd"), "0000000000000000", "{arguments:?}");
        // Its memory is root's alone to look at: so are the files about it.
        assert_eq!(fs::metadata(format!("/proc/{process}/environ")).unwrap().uid(), 0);
        assert!(fs::read_to_string(format!("/proc/{process}/status")).is_ok());
        std::thread::park_timeout(Duration::from_millis(1_500));
        assert_ne!(field(process, "State"), "", "{arguments:?} goes on");
        drop(view);
    }
    assert!(fs::read_dir(directory).unwrap().count() >= 2, "what they write is there");
    accelerator.stop();
}
