//! [`Maker`] and [`Peer`]: who has measured, and against whom.

use serde::Serialize;

/// Maker of a document.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Maker {
    /// Version of cellerator.
    pub cellerator: String,
    /// The command line.
    pub command: String,
    /// Time at which it began: seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
}

/// The server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peer {
    /// As given.
    pub host: String,
    /// Its address.
    pub address: String,
    /// Its port.
    pub port: u16,
    /// 4 or 6.
    pub ip_version: u8,
}
