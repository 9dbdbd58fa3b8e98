//! Benchmarks of the data path: `client — veth — box — veth — server` in namespaces of their own, real kernel TCP
//! at both ends, and in the box what is compared.
//!
//! Everything that takes part is seen from outside, as a user would: the load generator counts what the client
//! reads, the box is `cellerator run` itself, and processor time is the kernel's account. Throughput of a
//! processor shared by everyone differs from minute to minute, so that all ways through the box are measured
//! in turn, round by round, and compared within a round.

mod boxed;
mod echo;
mod error;
mod figures;
mod instance;
mod load;
mod machine;
mod markdown;
mod path;
mod topology;
mod way;

pub use echo::echo;
pub use error::BenchError;
pub use figures::{PathResults, Row, Run, SCHEMA, Spread};
pub use machine::Machine;
pub use path::{PathBenchmark, Progress};
pub use way::Way;
