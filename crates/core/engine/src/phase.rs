//! [`Phase`]: where a flow is in its life, as a value of its own.
//!
//! ```text
//!   Accelerated ──▶ Closed        Windowed        Watched
//!        │             │
//!        ▼             │
//!    Draining ◀────────┘
//! ```
//!
//! A phase takes in segments and says what is next ([`Next`]); what that does to tables, journal
//! and counts of flows stands in one file, `half/transitions.rs`. Why a flow leaves stands beside
//! the arrows in `docs/engine.md`.

use units::Instant;

use crate::boundary::Verdict;
use crate::config::EngineConfig;
use crate::relay::Relay;
use crate::relay::departure::Departure;
use crate::report::FlowState;
use crate::segment::{Context, Segment};

pub(crate) mod accelerated;
mod bounds;
pub(crate) mod closed;
pub(crate) mod draining;
pub(crate) mod next;
pub(crate) mod watched;
pub(crate) mod windowed;

use accelerated::Accelerated;
use closed::Closed;
use draining::Draining;
use next::Next;
use watched::Watched;
use windowed::Windowed;

/// Phase of a flow in its life.
///
/// What nearly all flows are lies in the table itself: a box would be one more place to fetch for
/// every packet.
#[derive(Debug, stored::Stored)]
pub(crate) enum Phase {
    /// Its delivery is ours.
    #[stored(number = 1)]
    Accelerated(Accelerated),
    /// It is delivered what is owed; then it is handed back.
    Draining(Draining),
    /// Both directions have ended; retransmissions are still answered.
    Closed(Closed),
    /// Its delivery is its hosts', and the window its sink advertises is lowered.
    Windowed(Box<Windowed>),
    /// It passes bit for bit, and is measured: a trial's control group.
    Watched(Box<Watched>),
}

impl Phase {
    /// Its name for those outside.
    pub(crate) fn state(&self) -> FlowState {
        match self {
            Self::Accelerated(_) => FlowState::Accelerated,
            Self::Draining(phase) if phase.has_ended => FlowState::Closed,
            Self::Draining(_) => FlowState::Draining,
            Self::Closed(_) => FlowState::Closed,
            Self::Windowed(_) => FlowState::Windowed,
            Self::Watched(_) => FlowState::Control,
        }
    }

    /// The window that is lowered, where one is.
    pub(crate) fn windowed(&self) -> Option<&Windowed> {
        match self {
            Self::Windowed(phase) => Some(phase),
            Self::Accelerated(_) | Self::Draining(_) | Self::Closed(_) | Self::Watched(_) => None,
        }
    }

    /// The flow of a trial's control group, where it is one.
    pub(crate) fn watched(&self) -> Option<&Watched> {
        if let Self::Watched(phase) = self { Some(phase) } else { None }
    }

    /// Takes in a segment that is intact.
    pub(crate) fn on_segment(&mut self, segment: &mut Segment<'_>, cx: &mut Context<'_>) -> (Verdict, Next) {
        match self {
            Self::Accelerated(phase) => phase.on_segment(segment, cx),
            Self::Draining(phase) => phase.on_segment(segment, cx),
            Self::Closed(phase) => phase.on_segment(segment, cx),
            Self::Windowed(phase) => phase.on_segment(segment, cx),
            Self::Watched(phase) => phase.on_segment(segment, cx.now),
        }
    }

    /// Acts on a deadline that has come; its last packet came at `last_activity`.
    pub(crate) fn on_deadline(&mut self, last_activity: Instant, cx: &mut Context<'_>) -> Next {
        match self {
            Self::Accelerated(phase) => phase.on_deadline(last_activity, cx),
            Self::Draining(phase) => phase.on_deadline(last_activity, cx),
            Self::Closed(phase) => phase.on_deadline(last_activity, cx),
            Self::Windowed(phase) => phase.on_deadline(last_activity, cx),
            Self::Watched(phase) => phase.on_deadline(last_activity, cx),
        }
    }

    /// The earliest thing that can happen to it without a packet.
    pub(crate) fn due(&self, config: &EngineConfig, last_activity: Instant) -> Instant {
        match self {
            Self::Accelerated(phase) => phase.due(config, last_activity),
            Self::Draining(phase) => phase.due(config, last_activity),
            Self::Closed(phase) => phase.due(config, last_activity),
            Self::Windowed(_) | Self::Watched(_) => last_activity + config.idle_timeout,
        }
    }

    /// True when a SYN opens its ports anew.
    pub(crate) fn gives_way_to(&self, syn: &Segment<'_>) -> bool {
        match self {
            Self::Accelerated(phase) => phase.gives_way_to(syn),
            Self::Draining(phase) => phase.gives_way_to(syn),
            Self::Closed(phase) => phase.gives_way_to(syn),
            Self::Windowed(phase) => phase.gives_way_to(syn),
            Self::Watched(phase) => phase.gives_way_to(syn),
        }
    }

    /// Relay that delivers in the source's place, where there is one.
    #[inline]
    pub(crate) fn relay(&self) -> Option<&Relay> {
        match self {
            Self::Accelerated(phase) => Some(&phase.relay),
            Self::Draining(phase) => Some(&phase.relay),
            Self::Closed(phase) => Some(&phase.relay),
            Self::Windowed(_) | Self::Watched(_) => None,
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn relay_mut(&mut self) -> Option<&mut Relay> {
        match self {
            Self::Accelerated(phase) => Some(&mut phase.relay),
            Self::Draining(phase) => Some(&mut phase.relay),
            Self::Closed(phase) => Some(&mut phase.relay),
            Self::Windowed(_) | Self::Watched(_) => None,
        }
    }

    /// The same, and on which terms it leaves, if it does.
    #[inline]
    pub(crate) fn relay_and_departure(&mut self) -> Option<(&mut Relay, Option<&Departure>)> {
        match self {
            Self::Accelerated(phase) => Some((&mut phase.relay, None)),
            Self::Draining(phase) => Some((&mut phase.relay, Some(&phase.departure))),
            Self::Closed(phase) => Some((&mut phase.relay, None)),
            Self::Windowed(_) | Self::Watched(_) => None,
        }
    }

    /// Terms on which it leaves, if it does.
    pub(crate) fn departure(&self) -> Option<&Departure> {
        match self {
            Self::Draining(phase) => Some(&phase.departure),
            Self::Accelerated(_) | Self::Closed(_) | Self::Windowed(_) | Self::Watched(_) => None,
        }
    }
}
