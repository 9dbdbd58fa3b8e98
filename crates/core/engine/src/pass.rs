//! Reasons why a flow is forwarded untouched.

use core::fmt;

/// Reason why a flow is not accelerated, or no longer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, stored::Stored)]
pub enum PassReason {
    /// Acceleration is switched off.
    Disabled,
    /// Multipath TCP (RFC 8684): what one subflow acknowledges is not all there is.
    Mptcp,
    /// TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925): segments cannot be made in the peer's name.
    Authenticated,
    /// Data on the SYN or SYN-ACK (TCP Fast Open, RFC 7413).
    SynData,
    /// Accurate ECN (RFC 9768) on which the hosts do not agree, or L4S (RFC 9330) without it.
    AccurateEcn,
    /// Options that cannot be read, or timestamps that both hosts agreed on and that somebody takes out.
    MalformedOptions,
    /// Both sides opened at once.
    SimultaneousOpen,
    /// The flow table is full: of flows that are in use, or this one was unused for longest.
    TableFull,
    /// Too many handshakes under way: this was the oldest.
    HalfOpenFull,
    /// Buffers hold as much as they may.
    MemoryFull,
    /// The engine is draining: it takes on nothing new.
    Draining,
    /// The handshake did not finish in time.
    HandshakeTimeout,
    /// Acknowledgements of data the engine never sent: the flow also runs past us.
    Desynchronised,
    /// The flow has ended in both directions.
    Closed,
    /// One side reset it.
    Reset,
    /// Nothing was heard for the idle time-out.
    Idle,
    /// The client acknowledged nothing for the debt time-out; both sides were reset.
    ClientGone,
    /// A rule of the policy says so.
    Policy,
    /// The subscriber has as many flows as one may have.
    SubscriberFull,
    /// The segment towards the receiving host is too short for anything to be gained (H31).
    NoGain,
    /// Only one direction of the flow comes through us (H10).
    OneDirection,
    /// SACK blocks that make no sense, again and again: somebody rewrites numbers (H12).
    NonsensicalSack,
    /// It does not behave like TCP: a hole that is never filled, or numbers beyond all that was sent (H27).
    NotTcpLike,
    /// One side takes segments so short only that nothing is gained by them (H6).
    TinySegments,
}

impl PassReason {
    /// Number of reasons.
    pub const COUNT: usize = 24;

    /// All reasons, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Disabled,
        Self::Mptcp,
        Self::Authenticated,
        Self::SynData,
        Self::AccurateEcn,
        Self::MalformedOptions,
        Self::SimultaneousOpen,
        Self::TableFull,
        Self::HalfOpenFull,
        Self::MemoryFull,
        Self::Draining,
        Self::HandshakeTimeout,
        Self::Desynchronised,
        Self::Closed,
        Self::Reset,
        Self::Idle,
        Self::ClientGone,
        Self::Policy,
        Self::SubscriberFull,
        Self::NoGain,
        Self::OneDirection,
        Self::NonsensicalSack,
        Self::NotTcpLike,
        Self::TinySegments,
    ];

    /// True for the end of a flow that was accelerated until then: it was not passed.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Closed | Self::Reset | Self::Idle | Self::ClientGone)
    }

    /// The reason of that name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }

    /// The name used in counters and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Mptcp => "mptcp",
            Self::Authenticated => "authenticated",
            Self::SynData => "syn-data",
            Self::AccurateEcn => "accurate-ecn",
            Self::MalformedOptions => "malformed-options",
            Self::SimultaneousOpen => "simultaneous-open",
            Self::TableFull => "table-full",
            Self::HalfOpenFull => "half-open-full",
            Self::MemoryFull => "memory-full",
            Self::Draining => "draining",
            Self::HandshakeTimeout => "handshake-timeout",
            Self::Desynchronised => "desynchronised",
            Self::Closed => "closed",
            Self::Reset => "reset",
            Self::Idle => "idle",
            Self::ClientGone => "client-gone",
            Self::Policy => "policy",
            Self::SubscriberFull => "subscriber-full",
            Self::NoGain => "no-gain",
            Self::OneDirection => "one-direction",
            Self::NonsensicalSack => "nonsensical-sack",
            Self::NotTcpLike => "not-tcp-like",
            Self::TinySegments => "tiny-segments",
        }
    }

    /// Its place in [`PassReason::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for PassReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_listed_once_with_its_own_name() {
        for (i, reason) in PassReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), i);
        }
        let names: std::collections::BTreeSet<_> = PassReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), PassReason::COUNT);
    }
}
