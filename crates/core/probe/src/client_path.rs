//! [`ClientPath`]: between which addresses a client and the server speak.

use core::net::{IpAddr, SocketAddr};

/// A client's address, and the server's address that it speaks to: a client believes no other, and neither do
/// firewalls and address translators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientPath {
    /// The client's.
    pub client: SocketAddr,
    /// The server's own; none where it does not matter.
    pub server: Option<IpAddr>,
}

impl From<SocketAddr> for ClientPath {
    fn from(client: SocketAddr) -> Self {
        Self { client, server: None }
    }
}
