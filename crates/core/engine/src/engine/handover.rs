//! Flows of one client that go to an engine in another box, and flows that come from one.
//!
//! ```text
//!   delivering ─▶ held, held, … (copies, while it goes on) ─▶ give_away ─▶ take_in of the other one
//! ```

use std::net::IpAddr;

use units::{Instant, SeqNum};

use super::Engine;
use crate::half::Half;
use crate::half::recover::RecoverError;
use crate::handover::{FlowEnds, HandoverFlow, HeldPiece};

impl Engine {
    /// Flows of a client that could be handed over: those that the engine delivers, in either direction. The
    /// time for it does not depend on the flows of others.
    #[must_use]
    pub fn delivering(&self, client: IpAddr) -> Vec<FlowEnds> {
        let up = self.up.as_deref().into_iter().flat_map(|up| up.delivering(client));
        self.down.delivering(client).chain(up).collect()
    }

    /// A copy of what a flow holds in order from number `from` on, or from the first byte that its sink has not
    /// acknowledged if that is later; `len_max` bytes at most. None for a flow that it does not deliver.
    #[must_use]
    pub fn held(&self, flow: &FlowEnds, from: Option<SeqNum>, len_max: usize) -> Option<HeldPiece> {
        let half = if flow.is_downlink { Some(&self.down) } else { self.up.as_deref() };
        half?.held(flow, from, len_max)
    }

    /// Bytes that a flow holds in order; none for a flow that it does not deliver.
    #[must_use]
    pub fn held_len(&self, flow: &FlowEnds) -> Option<u64> {
        let half = if flow.is_downlink { Some(&self.down) } else { self.up.as_deref() };
        half?.held_len(flow)
    }

    /// The longest packet that a flow sends, bytes with the IP header; none for a flow that it does not deliver.
    #[must_use]
    pub fn packet_len_max(&self, flow: &FlowEnds) -> Option<u32> {
        let half = if flow.is_downlink { Some(&self.down) } else { self.up.as_deref() };
        half?.packet_len_max(flow)
    }

    /// Flows that [`Engine::give_away`] would give: they stay.
    #[must_use]
    pub fn moved(&self, client: IpAddr, now: Instant) -> Vec<(HandoverFlow, Vec<u8>)> {
        let mut moved = Vec::new();
        for half in [Some(&self.down), self.up.as_deref()].into_iter().flatten() {
            moved.extend(half.moved(client, now));
        }
        moved
    }

    /// Gives up a client's flows for an engine in another box to go on with them ([`Engine::take_in`]), each
    /// with the data that it holds. No host hears of it: packets of these flows pass untouched from here on,
    /// so the caller has to keep them away.
    ///
    /// Its other flows (handshakes under way, lowered windows, a trial's) pass from here on, as those do that begin.
    #[must_use]
    pub fn give_away(&mut self, client: IpAddr, now: Instant) -> Vec<(HandoverFlow, Vec<u8>)> {
        let moved = self.moved(client, now);
        self.release(client);
        moved
    }

    /// Takes all flows of a client out of the table, without a word to any host.
    pub fn release(&mut self, client: IpAddr) {
        for half in [Some(&mut self.down), self.up.as_deref_mut()].into_iter().flatten() {
            half.release(client);
        }
    }

    /// Goes on with a flow that another engine has given away; `held` is the data that came with it.
    ///
    /// What the other engine had under way counts as in flight: what is sent here goes behind it, and shows what was
    /// lost of it. The controller is this box's own: its path to the client is another one. What the other one knew
    /// of its path, it takes for a guess.
    ///
    /// # Errors
    /// Why the flow cannot go on here; then this engine knows nothing of it.
    pub fn take_in(&mut self, flow: &HandoverFlow, held: &[u8], now: Instant) -> Result<(), RecoverError> {
        let half: Option<&mut Half> =
            if flow.ends.is_downlink { Some(&mut self.down) } else { self.uplink() };
        half.ok_or(RecoverError::Senseless)?.take_in(flow, held, now)
    }

    /// Forgets a flow that was taken in and not gone on with: no host hears of it.
    pub fn let_go(&mut self, flow: &FlowEnds) {
        let half = if flow.is_downlink { Some(&mut self.down) } else { self.up.as_deref_mut() };
        if let Some(half) = half {
            half.let_go(flow);
        }
    }

    /// Goes on with all of these flows, or with none if one of them cannot: false then.
    pub fn take_in_all(&mut self, flows: &[(HandoverFlow, Vec<u8>)], now: Instant) -> bool {
        let refused = flows.iter().position(|(flow, held)| self.take_in(flow, held, now).is_err());
        let taken = flows.iter().take(refused.unwrap_or(0));
        taken.for_each(|(flow, _)| self.let_go(&flow.ends));
        refused.is_none()
    }

    /// Says that packets of a flow may go past this engine, or have done so: as [`Engine::resynchronise`], for this flow.
    pub fn doubt(&mut self, flow: &FlowEnds, now: Instant) {
        let half = if flow.is_downlink { Some(&mut self.down) } else { self.up.as_deref_mut() };
        if let Some(half) = half {
            half.doubt(flow, now);
        }
    }

    /// Ends a flow: both its hosts are reset if it owes something, or it passes from here on.
    pub fn break_off(&mut self, flow: &FlowEnds, now: Instant) {
        let half = if flow.is_downlink { Some(&mut self.down) } else { self.up.as_deref_mut() };
        if let Some(half) = half {
            half.break_off(flow, now);
        }
    }
}
