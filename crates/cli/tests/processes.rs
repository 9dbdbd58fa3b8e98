//! What lists of processes call those of an accelerator.

use std::fs;

use crate::network::{Network, PROGRAM, wait_until};

/// Of a process: its name, and the words that it was started with.
fn listed(process: u32) -> (String, Vec<String>) {
    let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
    (read("comm").trim().to_owned(), read("cmdline").split_terminator('\0').map(str::to_owned).collect())
}

/// A watchdog executes `/proc/self/exe`, and so does a successor, which the checks of other kernels look at.
#[test]
fn a_watchdog_is_listed_as_the_program() {
    let network = Network::build("names");
    let accelerator = network.accelerate(&[]);
    let process = accelerator.child.id();
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    let children: Vec<u32> = children.split_whitespace().map(|child| child.parse().unwrap()).collect();
    assert!(!children.is_empty(), "it has a watchdog");
    // Between its start and its first steps it is called by the path that was executed.
    wait_until("all are called cellerator", || {
        children.iter().all(|child| listed(*child).0 == listed(process).0 && listed(*child).0 == "cellerator")
    });
    for child in children {
        let (_, words) = listed(child);
        assert_eq!((words[0].as_str(), words[1].as_str()), (PROGRAM, "run"), "{words:?}");
        assert!(words.iter().any(|word| word == "--watchdog"), "{words:?}");
    }
    accelerator.stop();
}
