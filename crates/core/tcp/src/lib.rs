//! TCP in two halves that do not know each other.
//!
//! [`Receiver`] reassembles a byte stream and says what to acknowledge; [`Sender`] decides what to send,
//! what was lost and when to try again. Neither knows headers, ports or what a proxy is: the engine
//! joins a receiver that faces the server with a sender that faces the client, the simulator's end
//! hosts join both at one side. Both work on one [`StreamBuffer`], in which a byte has its place by its
//! sequence number.
//!
//! ```text
//!   segments ──▶ Receiver ──▶ StreamBuffer ──▶ Sender ──▶ transmissions
//!                   │ ack, SACK, window          ▲ acks, SACK, timers
//! ```

#![deny(clippy::float_arithmetic)]

mod buffer;
mod interface;
mod intervals;
mod opportunism;
mod peer_window;
mod receiver;
mod recovery;
mod return_delay;
mod ring;
mod scoreboard;
mod sender;

pub use buffer::{BufferPlace, StreamBuffer};
pub use interface::{
    AckIn, AckOutcome, FlightBefore, SendContext, SenderConfig, SentBefore, TimeoutOutcome, Transmission,
    WindowPolicy,
};
pub use receiver::{Arrival, Promises, Receiver, SegmentIn};
pub use recovery::RttEstimator;
pub use return_delay::{ReturnDelay, ReturnWait};
pub use ring::{NoMemory, Ring, RingProvider};
pub use scoreboard::ScoreboardMemory;
pub use sender::Sender;
