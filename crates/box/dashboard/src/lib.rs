//! A live page about running accelerators, for browsers.
//!
//! ```text
//!   run ◀─ control socket ─ top::Gate ◀─ a question a line ─ server (nobody) ◀─ HTTP, or HTTPS and a token ─ browser
//!                                                               LiveState ─ Feed: events of a second, or of 100 ms ─▶
//! ```
//!
//! The server asks for what some page shows, and for nothing while there is none. No question takes the packet loop a
//! time that depends on the number of flows ([`top`]).

mod feed;
mod guard;
mod line;
mod live_state;
mod overview;
mod site;
mod subscriber;

pub use overview::{Overview, Shown};
pub use site::{check_address, serve};
