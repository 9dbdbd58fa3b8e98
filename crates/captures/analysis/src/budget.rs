//! [`TimeBudget`]: where the time of a flow went. Every moment has exactly one cause.
//!
//! It is that of the direction with most data, and asks what kept its sender from sending more. Beside the
//! sender the answer is in what is outstanding, in the window, and in what is sent again. Beside the receiver
//! nothing is outstanding for long; there it is in how data comes: up to the edge of the window that the
//! sender knew a round trip ago, after a pause behind a pushed segment, above a hole, or not at all.
//!
//! Time is that between packets, in whole nanoseconds, so that the parts sum exactly to the flow's duration.

use serde::ser::{Serialize, SerializeStruct, Serializer};
use units::Duration;

use crate::direction::Direction;

/// Cause on which a moment of a flow was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeCause {
    /// First packet to the end of the handshake.
    Handshake,
    /// The rate still grew from round trip to round trip, and nothing was lost.
    SlowStart,
    /// Less than a segment of the receiver's window was left.
    ReceiveWindow,
    /// All that was sent was acknowledged, and there was no more to send.
    Application,
    /// Loss was repaired, a time-out's silence of less than a second included.
    LossRecovery,
    /// A second and more without progress, though there was data to send.
    Outage,
    /// Data was under way at what path and congestion control allow.
    PathRate,
    /// As loss recovery and path rate, but the losses are those of a token bucket that drops.
    Policer,
    /// After all data was acknowledged, until the last packet.
    Closing,
    /// The capture does not show it.
    Unclear,
}

impl TimeCause {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Handshake,
        Self::SlowStart,
        Self::ReceiveWindow,
        Self::Application,
        Self::LossRecovery,
        Self::Outage,
        Self::PathRate,
        Self::Policer,
        Self::Closing,
        Self::Unclear,
    ];

    /// Reason why a flow is slow that spends its time so, as the end of a sentence.
    const fn reason(self) -> &'static str {
        match self {
            Self::Handshake => "of the handshake",
            Self::SlowStart => "it ended in slow start",
            Self::ReceiveWindow => "the receiver's window was full",
            Self::Application => "the sender had nothing to send",
            Self::LossRecovery => "losses were repaired",
            Self::Outage => "nothing got through",
            Self::PathRate => "the path or congestion control carried no more",
            Self::Policer => "a policer dropped what was above its rate",
            Self::Closing => "it stayed open after its last data",
            Self::Unclear => "of something that the capture does not show",
        }
    }
}

/// Split of the time of a flow. Each moment has one cause, and the parts sum to the total.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeBudget {
    /// Direction whose sender was waited for: 0 the first end, 1 the second; the one with most data.
    pub direction: Direction,
    /// First packet to last, nanoseconds: the sum of the parts.
    pub total_ns: u64,
    /// First packet to the end of the handshake, nanoseconds.
    pub handshake_ns: u64,
    /// The rate still grew from round trip to round trip, and nothing was lost, nanoseconds.
    pub slow_start_ns: u64,
    /// Less than a segment of the receiver's window was left, nanoseconds.
    pub receive_window_ns: u64,
    /// All that was sent was acknowledged, and there was no more to send, nanoseconds.
    pub application_ns: u64,
    /// Loss was repaired, with the silence of a time-out if shorter than a second, nanoseconds.
    pub loss_recovery_ns: u64,
    /// A second and more without progress, though there was data to send, nanoseconds.
    pub outage_ns: u64,
    /// Data was under way at what path and congestion control allow, nanoseconds.
    pub path_rate_ns: u64,
    /// As loss recovery and path rate, but the losses are those of a token bucket that drops, nanoseconds.
    pub policer_ns: u64,
    /// After all data was acknowledged, until the last packet, nanoseconds.
    pub closing_ns: u64,
    /// The capture does not show it, nanoseconds.
    pub unclear_ns: u64,
    /// Longest time without progress while data was to be acknowledged, nanoseconds; beside the receiver,
    /// between data that was no pause of the application. It is within the parts.
    pub longest_stall_ns: u64,
}

impl TimeBudget {
    /// The budget with these parts, in the order of [`TimeCause::ALL`].
    pub(crate) fn new(direction: Direction, parts: Parts, longest_stall: Duration) -> Self {
        let [
            handshake_ns,
            slow_start_ns,
            receive_window_ns,
            application_ns,
            loss_recovery_ns,
            outage_ns,
            path_rate_ns,
            policer_ns,
            closing_ns,
            unclear_ns,
        ] = parts.0.map(Duration::as_nanos);
        let total_ns = parts.0.iter().map(|part| part.as_nanos()).sum();
        Self {
            direction,
            total_ns,
            handshake_ns,
            slow_start_ns,
            receive_window_ns,
            application_ns,
            loss_recovery_ns,
            outage_ns,
            path_rate_ns,
            policer_ns,
            closing_ns,
            unclear_ns,
            longest_stall_ns: longest_stall.as_nanos(),
        }
    }

    /// The time of one cause, nanoseconds.
    #[must_use]
    pub const fn of(&self, cause: TimeCause) -> u64 {
        match cause {
            TimeCause::Handshake => self.handshake_ns,
            TimeCause::SlowStart => self.slow_start_ns,
            TimeCause::ReceiveWindow => self.receive_window_ns,
            TimeCause::Application => self.application_ns,
            TimeCause::LossRecovery => self.loss_recovery_ns,
            TimeCause::Outage => self.outage_ns,
            TimeCause::PathRate => self.path_rate_ns,
            TimeCause::Policer => self.policer_ns,
            TimeCause::Closing => self.closing_ns,
            TimeCause::Unclear => self.unclear_ns,
        }
    }

    /// Share of one cause, thousandths; zero of no time.
    #[must_use]
    pub fn per_mille(&self, cause: TimeCause) -> u64 {
        let scaled = u128::from(self.of(cause)) * 1_000 + u128::from(self.total_ns) / 2;
        scaled.checked_div(u128::from(self.total_ns)).unwrap_or(0) as u64
    }

    /// The largest part in words, with the next ones; none for a flow without duration.
    #[must_use]
    pub fn slow_because(&self) -> Option<String> {
        let mut order = TimeCause::ALL;
        order.sort_by_key(|cause| std::cmp::Reverse(self.of(*cause)));
        let percent = |cause: TimeCause| (self.per_mille(cause) + 5) / 10;
        let main = order[0];
        if self.of(main) == 0 {
            return None;
        }
        let others: Vec<String> = order[1..3]
            .iter()
            .filter(|cause| self.per_mille(**cause) >= 50)
            .map(|cause| format!("{} {} %", cause.name(), percent(*cause)))
            .collect();
        let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
        Some(format!("slow because {} {} % of the flow's time{others}", main.reason(), percent(main)))
    }
}

impl Serialize for TimeBudget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("TimeBudget", 14)?;
        fields.serialize_field("direction", &self.direction)?;
        fields.serialize_field("total_ns", &self.total_ns)?;
        fields.serialize_field("handshake_ns", &self.handshake_ns)?;
        fields.serialize_field("slow_start_ns", &self.slow_start_ns)?;
        fields.serialize_field("receive_window_ns", &self.receive_window_ns)?;
        fields.serialize_field("application_ns", &self.application_ns)?;
        fields.serialize_field("loss_recovery_ns", &self.loss_recovery_ns)?;
        fields.serialize_field("outage_ns", &self.outage_ns)?;
        fields.serialize_field("path_rate_ns", &self.path_rate_ns)?;
        fields.serialize_field("policer_ns", &self.policer_ns)?;
        fields.serialize_field("closing_ns", &self.closing_ns)?;
        fields.serialize_field("unclear_ns", &self.unclear_ns)?;
        fields.serialize_field("longest_stall_ns", &self.longest_stall_ns)?;
        // Made only for those who ask: most flows are shown nowhere.
        fields.serialize_field("slow_because", &self.slow_because())?;
        fields.end()
    }
}

impl TimeCause {
    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::SlowStart => "slow start",
            Self::ReceiveWindow => "receive window",
            Self::Application => "application",
            Self::LossRecovery => "loss recovery",
            Self::Outage => "outage",
            Self::PathRate => "path rate",
            Self::Policer => "policer",
            Self::Closing => "closing",
            Self::Unclear => "unclear",
        }
    }
}

/// Time by cause.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parts([Duration; TimeCause::ALL.len()]);

impl Parts {
    pub(crate) fn add(&mut self, cause: TimeCause, time: Duration) {
        self.0[cause as usize] += time;
    }

    pub(crate) fn of(&self, cause: TimeCause) -> Duration {
        self.0[cause as usize]
    }

    /// Moves the time of cause `from` to cause `to`.
    pub(crate) fn rename(&mut self, from: TimeCause, to: TimeCause) {
        let time = std::mem::take(&mut self.0[from as usize]);
        self.add(to, time);
    }
}
