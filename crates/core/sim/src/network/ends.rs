//! End of a flow: when it has come, and whether it is the one its applications wanted.

use super::Network;
use crate::endpoint::SYN_TRIES;
use crate::{Ending, Endpoint, MiddleboxUnderTest, Path, Role, Tolerance, Violation};

/// Every byte that was read is the one that was written.
pub(super) fn judge_bytes(
    flow: usize,
    host: &'static str,
    endpoint: &Endpoint,
    tolerance: Tolerance,
) -> Result<(), Violation> {
    match endpoint.first_wrong_offset() {
        Some(offset) if tolerance < Tolerance::Tampering => Err(Violation::WrongByte { flow, host, offset }),
        _ => Ok(()),
    }
}

fn is_over(endpoint: &Endpoint) -> bool {
    endpoint.is_finished() || endpoint.ending().is_some()
}

/// It will not send anything more by itself, so that it cannot find out what became of its peer.
fn has_nothing_to_ask(endpoint: &Endpoint) -> bool {
    endpoint.ending().is_some() || (endpoint.is_quiet() && endpoint.next_deadline().is_none())
}

/// True when the receiver has all that the sender was told of: nothing acknowledged is missing.
fn has_all_acked(sender: &Endpoint, receiver: &Endpoint) -> bool {
    receiver.bytes_received() >= sender.bytes_acked()
}

impl<M: MiddleboxUnderTest> Network<M> {
    /// The hosts of the flows that the run waits for.
    fn pairs(&self) -> impl Iterator<Item = (&Endpoint, &Endpoint)> {
        self.servers.iter().zip(&self.clients).take(self.own_flows)
    }

    pub(super) fn has_ended(&mut self) -> bool {
        // Most often the flow that had not ended the last time has not ended yet.
        if !self.datagrams_are_out()
            || (self.unfinished < self.own_flows && !self.flow_has_ended(self.unfinished))
        {
            return false;
        }
        let unfinished = (0..self.own_flows).find(|flow| !self.flow_has_ended(*flow));
        self.unfinished = unfinished.unwrap_or(0);
        unfinished.is_none()
    }

    fn datagrams_are_out(&self) -> bool {
        let Some(source) = &self.datagrams else { return true };
        source.next_deadline().is_none()
            && (self.is_quiet_in_between() || (self.has_others() && source.is_over(self.now)))
    }

    /// Something goes on beside the run's own flows: the links may never be empty.
    fn has_others(&self) -> bool {
        self.servers.len() > self.own_flows || !self.datagrams_beside.is_empty()
    }

    /// Both hosts are done; or one ended abnormally, and the other has nothing left to find that out by.
    fn flow_has_ended(&self, flow: usize) -> bool {
        let (server, client) = (&self.servers[flow], &self.clients[flow]);
        if is_over(server) && is_over(client) {
            return true;
        }
        let is_lost = self.limits.tolerance > Tolerance::Nothing || self.checks.is_orphaned(flow);
        let one_failed = server.ending().is_some() || client.ending().is_some();
        if !(one_failed || is_lost) || !has_nothing_to_ask(server) || !has_nothing_to_ask(client) {
            return false;
        }
        // A host that aborted takes nothing more; its peer's data may be lost, its own may not.
        let up = is_lost || server.ending().is_some() || has_all_acked(client, server);
        let down = is_lost || client.ending().is_some() || has_all_acked(server, client);
        // What is on its way may be the news.
        up && down
            && !self.checks.is_owed(flow)
            && (self.pinger.is_some() || self.has_others() || self.is_quiet_in_between())
    }

    /// A handshake of which every try was lost: an error, and nobody's fault.
    fn has_no_luck(&self, server: &Endpoint, client: &Endpoint) -> bool {
        let has_timed_out = |host: &Endpoint| host.ending() == Some(Ending::TimedOut) && !host.has_opened();
        let is_untouched = |host: &Endpoint| host.bytes_read() == 0 && host.bytes_acked() == 0;
        let radios = self.radios.iter().flat_map(|radio| [&radio.down, &radio.up]);
        let harmed: u64 = radios.chain([&self.wan_down, &self.wan_up]).map(Path::harmed).sum();
        (has_timed_out(server) || has_timed_out(client))
            && is_untouched(server)
            && is_untouched(client)
            && harmed >= u64::from(SYN_TRIES)
    }

    fn is_quiet_in_between(&self) -> bool {
        self.due.links.earliest().is_none() && self.wan_down.is_empty() && self.wan_up.is_empty()
    }

    pub(super) fn judge_ends(&self) -> Result<(), Violation> {
        for (flow, (server, client)) in self.pairs().enumerate() {
            let tolerance = self.limits.tolerance;
            if self.has_no_luck(server, client) {
                continue;
            }
            if !is_right_end(server, client, tolerance) || !is_right_end(client, server, tolerance) {
                return Err(Violation::WrongEnd { flow, state: state(server, client) });
            }
            let may_lose = tolerance != Tolerance::Nothing || self.middlebox.may_have_lost_packets();
            let lost = self.checks.marks_lost(flow).filter(|_| !may_lose);
            if let Some(what) = lost.filter(|_| server.is_finished() && client.is_finished()) {
                return Err(Violation::MarkLost { flow, what });
            }
        }
        Ok(())
    }

    /// Somebody has made numbers later than they are on the way to a host, in a segment that shuts the window. No later
    /// window is one to it (SND.WL1, RFC 9293 §3.10.7.4), and it probes for ever, whatever stands in between.
    pub(super) fn waits_by_tampering(&self) -> bool {
        let waits =
            |flow: usize| self.servers[flow].waits_for_window() || self.clients[flow].waits_for_window();
        self.limits.tolerance == Tolerance::Tampering
            && (0..self.own_flows).all(|flow| self.flow_has_ended(flow) || waits(flow))
    }

    pub(super) fn stalled(&self) -> Violation {
        let flow = (0..self.own_flows).find(|flow| !self.flow_has_ended(*flow)).unwrap_or(0);
        let state = self.pairs().nth(flow).map_or_else(String::new, |(s, c)| state(s, c));
        Violation::Stalled { flow, state }
    }
}

fn is_right_end(host: &Endpoint, peer: &Endpoint, tolerance: Tolerance) -> bool {
    let Some(ending) = host.ending() else {
        // H4: a clean end means that everything is there.
        let is_whole = !host.is_finished() || host.bytes_read() == peer.config().app.total();
        return is_whole || tolerance == Tolerance::Tampering;
    };
    if tolerance > Tolerance::Nothing {
        return true;
    }
    match ending {
        Ending::Aborted => host.config().app.aborts(),
        Ending::Reset => {
            let peer_did = peer.ending().is_some();
            // Debt goes out before the reset.
            peer_did && (peer.ending() != Some(Ending::Aborted) || has_all_acked(peer, host))
        }
        Ending::Refused => peer.config().role == Role::Refuses,
        Ending::TimedOut => false,
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
