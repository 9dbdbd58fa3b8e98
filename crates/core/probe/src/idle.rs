//! [`IdleFlow`]: a flow that is silent for a time, and then hears whether the path still knows it.
//!
//! The server speaks first at the end: a packet of the client would make a forgotten binding anew.

use units::{Duration, Instant};

use crate::auth::{Cookie, Key};
use crate::message::{Message, Refusal, SessionId};

const RETRY: Duration = Duration::from_millis(500);
/// Questions that are not answered before the flow is given up.
const TRIES: u32 = 20;
/// Time by which the server's word may come later than expected.
const GRACE: Duration = Duration::from_secs(3);

/// End of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdleEnd {
    /// The server's word came.
    Lived,
    /// It did not.
    Died,
    /// There was no answer when it began.
    Unanswered,
    /// The server does not want it.
    Refused(Refusal),
}

#[derive(Debug)]
enum Stage {
    Asking { cookie: Cookie, at: Instant, tries: u32 },
    Silent { until: Instant },
    Over(IdleEnd),
}

/// One flow, with a socket of its own.
#[derive(Debug)]
pub struct IdleFlow {
    session: SessionId,
    flow: u32,
    after: Duration,
    stage: Stage,
}

impl IdleFlow {
    /// A flow of `session` that will be silent for `after`.
    #[must_use]
    pub fn new(session: SessionId, flow: u32, after: Duration, now: Instant) -> Self {
        Self { session, flow, after, stage: Stage::Asking { cookie: Cookie::default(), at: now, tries: 0 } }
    }

    /// A datagram came to its socket.
    pub fn handle_datagram(&mut self, bytes: &[u8], key: Option<&Key>, now: Instant) {
        let Ok(message) = Message::decode(bytes, key) else { return };
        if message.session() != Some(self.session) {
            return;
        }
        match (&mut self.stage, message) {
            (Stage::Asking { cookie, at, .. }, Message::Confirm { cookie: new, .. }) => {
                (*cookie, *at) = (new, now);
            }
            (Stage::Asking { .. }, Message::Held { flow, .. }) if flow == self.flow => {
                self.stage = Stage::Silent { until: now + self.after + GRACE };
            }
            (Stage::Asking { .. }, Message::Deny { reason, .. }) => {
                self.stage = Stage::Over(IdleEnd::Refused(reason));
            }
            // The word that the flow is held may have been lost.
            (Stage::Asking { .. } | Stage::Silent { .. }, Message::Speak { flow, .. })
                if flow == self.flow =>
            {
                self.stage = Stage::Over(IdleEnd::Lived);
            }
            _ => {}
        }
    }

    /// The next datagram, written to `out`; false when there is none at `now`.
    pub fn poll_transmit(&mut self, key: Option<&Key>, now: Instant, out: &mut Vec<u8>) -> bool {
        match &mut self.stage {
            Stage::Asking { tries, .. } if *tries >= TRIES => self.stage = Stage::Over(IdleEnd::Unanswered),
            Stage::Asking { cookie, at, tries } if *at <= now => {
                (*at, *tries) = (now + RETRY, *tries + 1);
                let (session, flow, after) = (self.session, self.flow, self.after);
                Message::Idle { session, flow, after, cookie: *cookie }.encode(key, out);
                return true;
            }
            Stage::Silent { until } if *until <= now => self.stage = Stage::Over(IdleEnd::Died),
            _ => {}
        }
        false
    }

    /// Time at which [`IdleFlow::poll_transmit`] has something to do; none when it is over.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Asking { at, .. } => Some(*at),
            Stage::Silent { until } => Some(*until),
            Stage::Over(_) => None,
        }
    }

    /// End of the flow; none while it has not ended.
    #[must_use]
    pub fn end(&self) -> Option<IdleEnd> {
        if let Stage::Over(end) = self.stage { Some(end) } else { None }
    }

    /// Time for which it is silent.
    #[must_use]
    pub fn after(&self) -> Duration {
        self.after
    }
}
