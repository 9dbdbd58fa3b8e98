//! The integration tests as one program, which is linked once.

// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod box_between;
mod budget;
mod diagnoses;
mod early_acks;
mod flows;
mod handshakes;
mod identifications;
mod kernel;
mod lifetimes;
mod made;
mod multipath;
mod pairs;
mod parts;
mod quic;
mod schema;
mod strays;
