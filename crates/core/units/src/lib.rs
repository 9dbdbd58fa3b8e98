//! Time, rate, byte and sequence-number types.
//!
//! Every public signature of the project uses these instead of bare integers, so that
//! nanoseconds, bits per second and sequence numbers cannot be mixed by accident. All
//! arithmetic is on integers; products go through 128 bits and saturate instead of wrapping.

#![deny(clippy::float_arithmetic)]

mod bytes;
mod mix;
mod quantity;
mod rate;
mod seq;
mod time;

pub use bytes::Bytes;
pub use mix::{GOLDEN_GAMMA, mix64};
pub use rate::Rate;
pub use seq::{SeqNum, WindowScale};
pub use time::{Duration, Instant};
