//! [`Maker`] and [`Peer`]: who has measured, and against whom.

use maud::{Markup, html};
use serde::Serialize;

/// Maker of a document.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Maker {
    /// Version of cellerator.
    pub cellerator: String,
    /// The command line.
    pub command: String,
    /// When it began: seconds since 1970-01-01 UTC.
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

impl Peer {
    /// The beginning of a page: its verdict, a warning where that is of a part of what was wanted, and how it
    /// was measured over `protocol`.
    pub(crate) fn page_head(
        &self,
        verdict: &str,
        is_partial: bool,
        protocol: &str,
        made_by: &Maker,
    ) -> Markup {
        html! {
            p class=(if is_partial { "finding warning" } else { "finding" }) { (verdict) }
            p class="soft" {
                "Measured against " (self.host) " (" (self.address) ", " (protocol) " " (self.port)
                ") with Cellerator " (made_by.cellerator) ": " code { (made_by.command) }
            }
        }
    }
}
