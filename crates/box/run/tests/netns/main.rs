//! Steering, packet loop and fail-open with real kernel TCP in network namespaces; needs root.

// Test code outside of `#[test]` functions: a failure to build the topology is a failure of the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accelerated;
mod crash;
mod datagrams;
mod fail_open;
mod firewall;
mod firewall_matrix;
mod handover;
mod handover_deaths;
mod handover_far;
mod handover_peers;
mod handover_terms;
mod icmp;
mod inline;
mod inline_mac;
mod inline_successors;
mod interfaces;
mod nat;
mod offloads;
mod overload;
mod raw;
mod service;
mod sharded;
mod starved;
mod state;
mod steering;
mod strange;
mod strangers;
mod successor;
mod tcx;
mod topology;
mod upgrade;
