//! Others that manage MPTCP endpoints on this host.

use std::path::Path;

use io::netlink::{EndpointFlags, MptcpEndpoint};

/// Daemons that add and remove endpoints: process name, and how it is kept from doing so.
const OTHERS: [(&str, &str); 2] = [
    ("mptcpd", "stop it: systemctl stop mptcp"),
    ("NetworkManager", "set connection.mptcp-flags=disabled for these interfaces"),
];

/// One line for each that is found running, if it may interfere. NetworkManager does only where it has made
/// endpoints.
#[must_use]
pub fn conflicts(endpoints: &[MptcpEndpoint]) -> Vec<String> {
    let names: Vec<String> = running().collect();
    let has_foreign = endpoints.iter().any(|e| !e.flags.contains(EndpointFlags::IMPLICIT));
    found(&names, has_foreign)
}

fn found(names: &[String], has_foreign: bool) -> Vec<String> {
    let is_running = |name: &str| names.iter().any(|n| n == name);
    let others = OTHERS.iter().filter(|(name, _)| is_running(name) && (*name == "mptcpd" || has_foreign));
    others.map(|(name, remedy)| format!("{name} also manages MPTCP endpoints: {remedy}")).collect()
}

/// Names of the processes in this network namespace: others have endpoints of their own.
fn running() -> impl Iterator<Item = String> {
    let namespace = |process: &Path| std::fs::read_link(process.join("ns/net")).ok();
    let own = namespace(Path::new("/proc/thread-self"));
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_number = |name: &std::ffi::OsStr| name.to_str().is_some_and(|n| n.parse::<u32>().is_ok());
    let processes = entries.filter(move |entry| is_number(&entry.file_name())).map(|entry| entry.path());
    processes
        .filter(move |process| namespace(process) == own)
        .filter_map(|process| std::fs::read_to_string(process.join("comm")).ok())
        .map(|name| name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_interferes_is_named_with_a_remedy() {
        let names = ["mptcpd", "NetworkManager", "sh"].map(str::to_owned);
        assert_eq!(found(&names, true).len(), 2);
        let without = found(&names, false);
        assert!(without.len() == 1 && without[0].contains("mptcpd") && without[0].contains("systemctl"));
        assert!(found(&names[2..], true).is_empty());
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert!(running().any(|name| name == own.trim_end()));
    }
}
