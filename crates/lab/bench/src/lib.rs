//! Benchmarks of the accelerator: `client — veth — box — veth — server` in namespaces of their own,
//! real kernel TCP at both ends, and in the box what is compared.
//!
//! Everything that takes part is seen from outside, as a user would: the load generators count what
//! the client receives, the box is `cellerator run` itself, and processor time is the kernel's
//! account. Throughput of a processor shared by everyone differs from minute to minute, so that all
//! ways through the box are measured in turn, round by round, and compared within a round.

mod benchmark;
mod boxed;
mod comparison;
mod echo;
mod engine_cost;
mod error;
mod haproxy;
mod hold;
mod instance;
mod listed;
mod load;
mod machine;
mod markdown;
mod parts;
mod pause;
mod plots;
mod results;
mod scale;
mod segment;
mod stage;
mod tool;
mod topology;
mod way;

pub use benchmark::{Benchmark, Progress};
pub use echo::echo;
pub use engine_cost::{EngineCost, engine_cost};
pub use error::BenchError;
pub use hold::{ClientSide, hold_clients, hold_server};
pub use machine::Machine;
pub use parts::PartName;
pub use results::{Aim, Figure, Interrupted, Metric, Part, Results, Row, SCHEMA, Sample, Spread, WayNote};
pub use way::Way;
