//! When a flow has come to its end, and whether it is the one its applications wanted.

use super::Network;
use crate::{Ending, Endpoint, Middlebox, Role, Violation};

/// Every byte that was read is the one that was written.
pub(super) fn judge_bytes(flow: usize, host: &'static str, endpoint: &Endpoint) -> Result<(), Violation> {
    match endpoint.first_wrong_offset() {
        Some(offset) => Err(Violation::WrongByte { flow, host, offset }),
        None => Ok(()),
    }
}

fn is_over(endpoint: &Endpoint) -> bool {
    endpoint.is_finished() || endpoint.ending().is_some()
}

/// What the receiver has covers what the sender was told: nothing acknowledged is missing.
fn has_all_acked(sender: &Endpoint, receiver: &Endpoint) -> bool {
    receiver.bytes_received() >= sender.bytes_acked()
}

impl<M: Middlebox> Network<M> {
    fn pairs(&self) -> impl Iterator<Item = (&Endpoint, &Endpoint)> {
        self.servers.iter().zip(&self.clients)
    }

    /// Both hosts are done; or one ended abnormally, and the other has nothing left to find that out by.
    pub(super) fn has_ended(&self) -> bool {
        self.pairs().all(|(server, client)| {
            if is_over(server) && is_over(client) {
                return true;
            }
            let one_failed = server.ending().is_some() || client.ending().is_some();
            // A host that aborted takes nothing more; its peer's data may be lost, its own may not.
            let up = server.ending().is_some() || has_all_acked(client, server);
            let down = client.ending().is_some() || has_all_acked(server, client);
            one_failed && up && down && server.is_quiet() && client.is_quiet()
        })
    }

    pub(super) fn judge_ends(&self) -> Result<(), Violation> {
        for (flow, (server, client)) in self.pairs().enumerate() {
            if !is_right_end(server, client) || !is_right_end(client, server) {
                return Err(Violation::WrongEnd { flow, state: state(server, client) });
            }
        }
        Ok(())
    }

    pub(super) fn stalled(&self) -> Violation {
        let flow = self.pairs().position(|(s, c)| !is_over(s) || !is_over(c)).unwrap_or(0);
        let state = self.pairs().nth(flow).map_or_else(String::new, |(s, c)| state(s, c));
        Violation::Stalled { flow, state }
    }
}

fn is_right_end(host: &Endpoint, peer: &Endpoint) -> bool {
    match host.ending() {
        // H4: a clean end means that everything is there.
        None => !host.is_finished() || host.bytes_read() == peer.config().app.total(),
        Some(Ending::Aborted) => host.config().app.abort_after_reading.is_some(),
        Some(Ending::Reset) => {
            let peer_did = peer.ending().is_some();
            // Debt goes out before the reset.
            peer_did && (peer.ending() != Some(Ending::Aborted) || has_all_acked(peer, host))
        }
        Some(Ending::Refused) => peer.config().role == Role::Refuses,
        Some(Ending::TimedOut) => false,
    }
}

fn state(server: &Endpoint, client: &Endpoint) -> String {
    let one = |name: &str, host: &Endpoint| {
        format!(
            "{name}: {}, read {}, acked {} of {}, {:?}",
            match (host.ending(), host.is_finished()) {
                (Some(ending), _) => format!("{ending:?}"),
                (None, true) => "finished".to_owned(),
                (None, false) => "under way".to_owned(),
            },
            host.bytes_read(),
            host.bytes_acked(),
            host.config().app.total(),
            host.stats(),
        )
    };
    format!("{}; {}", one("server", server), one("client", client))
}
