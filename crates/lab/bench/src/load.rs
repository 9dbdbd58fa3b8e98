//! Load generators: bulk flows, short connections, ping-pong, datagrams, and flows held open in
//! many processes.

mod bulk;
mod computing;
mod connections;
mod datagrams;
mod held;
mod pings;

pub(crate) use bulk::Bulk;
pub(crate) use computing::Computing;
pub(crate) use connections::Connections;
pub(crate) use datagrams::{Datagrams, round_trips};
pub(crate) use held::Held;
pub(crate) use pings::{Ping, Pings};
