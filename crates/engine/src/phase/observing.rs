//! [`Observing`]: a flow whose handshake is under way. Nothing in it is changed or answered.

use units::Instant;
use wire::Tcp;

use super::next::{About, Next};
use crate::boundary::Verdict;
use crate::direction::End;
use crate::handshake::{Agreement, Handshake, RoundTrips, Step};
use crate::pass::PassReason;
use crate::segment::{Context, Segment};

/// A flow whose handshake is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observing {
    handshake: Handshake,
    /// What it came to, once it is complete.
    established: Option<(Agreement, RoundTrips)>,
}
stored::fields!(Observing { handshake, established });

impl Observing {
    /// Starts with a SYN that came from `from`.
    ///
    /// # Errors
    /// What in it makes the flow one to pass.
    pub(crate) fn begin(tcp: &Tcp, from: End, now: Instant) -> Result<Self, PassReason> {
        Ok(Self { handshake: Handshake::begin(tcp, from, now)?, established: None })
    }

    /// Takes in a segment, which goes on in any case; or, where it completes the handshake, is the
    /// first of the next phase.
    pub(super) fn on_segment(
        &mut self,
        segment: &Segment<'_>,
        about: About<'_>,
        cx: &mut Context<'_>,
    ) -> (Verdict, Next) {
        let known = self.handshake;
        let next = match self.handshake.on_packet(segment.tcp, segment.from, cx.now) {
            Step::Continue => Next::Stay,
            Step::Pass(reason) => Next::Leave(reason),
            Step::Established(_, round_trips) if round_trips.to_sink < cx.config.rtt_min => {
                Next::Leave(PassReason::NoGain)
            }
            Step::Established(agreement, _) if agreement.has_tiny_segments(about.key.is_ipv4()) => {
                Next::Leave(PassReason::TinySegments)
            }
            Step::Established(agreement, round_trips) => {
                self.established = Some((agreement, round_trips));
                let lowers_window = cx.config.lowers_window(about.direction, about.key);
                if lowers_window { Next::LowerWindow } else { Next::Accelerate }
            }
        };
        cx.is_news = !self.handshake.says_as_much_as(&known) || !matches!(next, Next::Stay | Next::Leave(_));
        (Verdict::Forward, next)
    }

    /// What the handshake came to, if it is complete.
    pub(crate) const fn established(&self) -> Option<(Agreement, RoundTrips)> {
        self.established
    }

    /// A handshake has its time from the first SYN on.
    pub(super) fn on_deadline(&self, last_activity: Instant, cx: &Context<'_>) -> Next {
        let is_over = cx.now.saturating_since(last_activity) >= cx.config.handshake_timeout;
        if is_over { Next::Leave(PassReason::HandshakeTimeout) } else { Next::Stay }
    }
}
