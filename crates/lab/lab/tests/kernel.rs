//! `cellerator run` between real kernel TCPs over emulated links, in network namespaces; needs root.
//!
//! Asserts on order, hashes, equality and bounds, never on exact times. One lab at a time: two
//! would share the processors that the emulator needs to be punctual.

mod ab_phase;
mod accurate_ecn;
mod addresses;
mod capture;
mod content;
mod counters;
mod deaths;
mod downloads;
mod duplex;
mod handshake;
mod keep_alive;
mod lowered_windows;
mod operation;
mod peers;
mod raw_peer;
mod receiver_windows;
mod resets;
mod server;
mod slow_readers;
mod stopping;
mod swarm;
mod testbed;
mod upgrade;
mod uplink;
