//! [`MiddleboxUnderTest`]: a middlebox under test, and what the simulator wants to know of it.

use std::net::SocketAddr;

use engine::{Engine, Middlebox, PassThrough};
use units::Bytes;

/// A middlebox with answers to what a run measures and checks.
pub trait MiddleboxUnderTest: Middlebox {
    /// Bytes that it may have in flight towards the first client, and bytes that it has; none when it
    /// sends nothing of its own.
    fn sending(&self) -> Option<(Bytes, Bytes)> {
        None
    }
    /// Bytes it holds for flows.
    fn memory(&self) -> Bytes {
        Bytes::ZERO
    }
    /// It is on its way out, or gone: flows are handed back to plain forwarding.
    fn is_leaving(&self) -> bool {
        false
    }
    /// It has a flow between these in a table.
    fn has_flow(&self, _client: SocketAddr, _server: SocketAddr) -> bool {
        false
    }
    /// True when the last packet it handed out is one of a host's that it forwards, late.
    fn has_forwarded(&self) -> bool {
        false
    }
    /// True when the last packet it handed out is one that passes, after it has waited its turn.
    fn has_passed(&self) -> bool {
        false
    }
    /// Nobody is there to take packets in, and they wait; what it has handed out last is lost.
    fn is_shut(&self) -> bool {
        false
    }
    /// Packets that had come to it may have been lost: it has died and another one has gone on, or they go to another box.
    fn may_have_lost_packets(&self) -> bool {
        false
    }
    /// True, once, after it has lost everything it knew: what it owed is gone.
    fn take_crash(&mut self) -> bool {
        false
    }
}

impl MiddleboxUnderTest for PassThrough {}

impl MiddleboxUnderTest for Engine {
    fn sending(&self) -> Option<(Bytes, Bytes)> {
        let flows = || self.flow_reports(0);
        let client = flows().map(|flow| flow.client.ip()).next()?;
        let own = flows().filter(|flow| flow.client.ip() == client);
        let in_flight = own.map(|flow| flow.in_flight).fold(Bytes::ZERO, |sum, bytes| sum + bytes);
        Some((flows().next()?.subscriber_window?, in_flight))
    }

    fn has_flow(&self, client: SocketAddr, server: SocketAddr) -> bool {
        self.flow_reports(0).any(|flow| (flow.client, flow.server) == (client, server))
    }

    fn has_passed(&self) -> bool {
        self.hands_on()
    }

    fn memory(&self) -> Bytes {
        let both = [Some(self.stats()), self.uplink_stats()];
        Bytes::new(both.into_iter().flatten().map(|stats| stats.buffer_bytes_now).sum())
    }
}
