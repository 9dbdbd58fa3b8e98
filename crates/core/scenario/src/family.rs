//! [`Family`]: IPv4 or IPv6.

use serde::{Deserialize, Serialize};

/// The address family of the transfers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}
