//! [`EngineConfig`]: every setting of the engine with its default.

use control::{AdaptiveParams, ControllerConfig, CubicParams, DrwaParams};
use tcp::WindowPolicy;
use units::{Bytes, Duration};

use crate::direction::Direction;
use crate::key::FlowKey;
use crate::policy::{Action, Policy};

/// A setting that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A limit that must be positive is zero.
    #[error("engine setting `{0}` must be greater than zero")]
    Zero(&'static str),
    /// The window's ceiling lies below its floor.
    #[error("engine setting `window_max` ({max} B) must be at least `window_floor` ({floor} B)")]
    WindowOrder {
        /// Ceiling.
        max: u64,
        /// Floor.
        floor: u64,
    },
}

/// Unit that shares one controller, one pacer and the turns to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// All flows of a client address or prefix: they share one radio queue (H14).
    #[default]
    Subscriber,
    /// Each flow has its own.
    Flow,
}

/// ECN field of data to clients (RFC 3168 §5), on flows whose hosts agreed on ECN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientEcn {
    /// Queues drop, and do not mark: Not-ECT.
    #[default]
    NotEct,
    /// A queue may mark in place of dropping, and the controller answers once a round trip (RFC 8511): ECT(0).
    Ect0,
    /// ECT(1), as if the controller were a scalable one (RFC 9331 §4.3). No controller of an accelerator is
    /// (docs/engine.md). So nothing but studies may say so, and `run` cannot.
    Ect1,
}

impl ClientEcn {
    /// The ECN field.
    pub(crate) const fn field(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
        }
    }
}

/// Settings of the uplink, for flows whose [`crate::Action`] includes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UplinkConfig {
    /// The controller made for each flow on the wired segment. Default CUBIC, since it shares the
    /// network with others.
    pub controller: ControllerConfig,
    /// Part of the window offered to clients that does not depend on the path. Default 256 KiB.
    pub window_floor: Bytes,
    /// Largest window offered to clients. Default [`Bytes::MAX`]: what the path needs and the
    /// budgets of memory allow.
    pub window_max: Bytes,
}

impl Default for UplinkConfig {
    fn default() -> Self {
        Self {
            controller: ControllerConfig::Cubic(CubicParams::default()),
            window_floor: Bytes::from_kib(256),
            window_max: Bytes::MAX,
        }
    }
}

/// Settings of an [`crate::Engine`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineConfig {
    /// Accelerate at all; otherwise everything passes. Default true.
    pub accelerate: bool,
    /// Policy that says which flows are accelerated, and in which direction. Default: the downlink of all.
    pub policy: Policy,
    /// Settings of the uplink where the policy says that it is accelerated.
    pub uplink: UplinkConfig,
    /// Parameters by which windows are lowered for flows whose [`crate::Action`] is `drwa`.
    pub drwa: DrwaParams,
    /// Unit that shares one controller. Default: the flows of a subscriber.
    pub sharing: Sharing,
    /// The controller made for each subscriber. Default `adaptive`.
    pub controller: ControllerConfig,
    /// Policy for the client's window: whether it limits us. Default `honour`; see NOTICE for the other.
    pub window_policy: WindowPolicy,
    /// ECN field of data to clients where the hosts agreed on ECN. Default Not-ECT.
    pub client_ecn: ClientEcn,
    /// Part of the window offered to servers that does not depend on the path. Default 256 KiB.
    pub window_floor: Bytes,
    /// Largest window offered to servers. Default [`Bytes::MAX`]: what the path needs and the
    /// budgets of memory allow.
    pub window_max: Bytes,
    /// q20 of \[WA\] (8): the window offered to servers is then a flow's share of what the
    /// controller allows, plus this, less what waits here; for the downlink only. Default none:
    /// twice the path and the floor, less what is held.
    pub waiting_target: Option<Bytes>,
    /// Flows in the table at most, handshakes under way apart; beyond it the longest unused one that owes
    /// nothing makes room. Default 100,000.
    pub flows_max: usize,
    /// Handshakes under way at most, a quarter of them of one subscriber; beyond it the oldest makes room.
    /// Default 65,536.
    pub half_open_max: usize,
    /// Memory in stream buffers at most. A subscriber may take as much as is left of it; at all of
    /// it new flows pass. What would need more is left to the server to send again. Default 1 GiB.
    pub buffer_max: Bytes,
    /// Flows of one subscriber at most; beyond it new ones pass. Default 4,096.
    pub subscriber_flows_max: u32,
    /// Memory in stream buffers of one subscriber at most; each of its flows may take as much as is
    /// left of it. Default 128 MiB.
    pub subscriber_buffer_max: Bytes,
    /// Memory in the stream buffer of one flow at most. Default 64 MiB.
    pub flow_buffer_max: Bytes,
    /// Flows whose handshake took the host the data goes to less than this pass: nothing would be
    /// gained (H31). Default zero: none.
    pub rtt_min: Duration,
    /// A handshake that takes longer is forgotten. Default 60 s.
    pub handshake_timeout: Duration,
    /// A flow that is silent for longer is forgotten. Default 2 h 4 min (RFC 5382 REQ-5).
    pub idle_timeout: Duration,
    /// A client that acknowledges nothing of its debt for longer is gone. Default 120 s: real traces have
    /// outages of 78 s.
    pub debt_timeout: Duration,
    /// Longest retransmission time-out towards a client. Default 3 s: after an outage the first attempt
    /// comes at most this late.
    pub rto_max: Duration,
    /// An ended flow answers retransmissions for this long. Default 30 s.
    pub linger: Duration,
    /// A subscriber without flows is forgotten after this long. Default 10 min.
    pub subscriber_memory: Duration,
    /// IPv6 prefix length that makes one subscriber, in bits, 1 to 128. Default 64.
    pub ipv6_prefix_len: u8,
    /// Whether what is sent may be longer than the path's packets: the caller cuts it then. Default true.
    pub super_packets: bool,
    /// Makes what passes to a subscriber (QUIC, other UDP, TCP that passes) take turns with its accelerated
    /// flows for its window, and wait for it alone where it is more than a trickle. Default true.
    pub schedule_passed: bool,
    /// Sends echo requests (ICMP) to a subscriber where nothing else says what has left its queue of what
    /// passes: one follows each 6 kB, 5 to 25 ms apart, while such packets are under way. Default false.
    pub echo_markers: bool,
    /// Seed of the flow table's hash, so that no sender can choose collisions. Default 0.
    pub hash_seed: u64,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            accelerate: true,
            policy: Policy::default(),
            uplink: UplinkConfig::default(),
            drwa: DrwaParams::default(),
            sharing: Sharing::default(),
            controller: ControllerConfig::Adaptive(AdaptiveParams::default()),
            window_policy: WindowPolicy::Honour,
            client_ecn: ClientEcn::NotEct,
            window_floor: Bytes::from_kib(256),
            window_max: Bytes::MAX,
            waiting_target: None,
            flows_max: 100_000,
            half_open_max: 65_536,
            buffer_max: Bytes::from_mib(1_024),
            subscriber_flows_max: 4_096,
            subscriber_buffer_max: Bytes::from_mib(128),
            flow_buffer_max: Bytes::from_mib(64),
            rtt_min: Duration::ZERO,
            handshake_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(2 * 3_600 + 4 * 60),
            debt_timeout: Duration::from_secs(120),
            rto_max: Duration::from_secs(3),
            linger: Duration::from_secs(30),
            subscriber_memory: Duration::from_secs(600),
            ipv6_prefix_len: 64,
            super_packets: true,
            schedule_passed: true,
            echo_markers: false,
            hash_seed: 0,
        }
    }
}

impl EngineConfig {
    /// Checks that the settings fit together.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let positive = [
            ("window_floor", self.window_floor.get()),
            ("flows_max", self.flows_max as u64),
            ("half_open_max", self.half_open_max as u64),
            ("buffer_max", self.buffer_max.get()),
            ("subscriber_flows_max", u64::from(self.subscriber_flows_max)),
            ("subscriber_buffer_max", self.subscriber_buffer_max.get()),
            ("flow_buffer_max", self.flow_buffer_max.get()),
            ("handshake_timeout", self.handshake_timeout.as_nanos()),
            ("idle_timeout", self.idle_timeout.as_nanos()),
            ("debt_timeout", self.debt_timeout.as_nanos()),
            ("rto_max", self.rto_max.as_nanos()),
            ("ipv6_prefix_len", u64::from(self.ipv6_prefix_len)),
        ];
        if let Some((name, _)) = positive.into_iter().find(|&(_, value)| value == 0) {
            return Err(ConfigError::Zero(name));
        }
        if self.window_max < self.window_floor {
            let (max, floor) = (self.window_max.get(), self.window_floor.get());
            return Err(ConfigError::WindowOrder { max, floor });
        }
        Ok(())
    }

    /// True when the policy accelerates the data of a flow that goes as `direction` says.
    pub(crate) fn accelerates(&self, direction: Direction, key: &FlowKey) -> bool {
        let action = self.action(direction, key);
        match direction {
            Direction::Downlink => action.includes_downlink(),
            Direction::Uplink => action.includes_uplink(),
        }
    }

    /// True when the policy accelerates both directions of a flow, of which `direction` is one.
    pub(crate) fn accelerates_both(&self, direction: Direction, key: &FlowKey) -> bool {
        let action = self.action(direction, key);
        action.includes_downlink() && action.includes_uplink()
    }

    /// True when the policy only lowers the windows that the client of a flow advertises.
    pub(crate) fn lowers_window(&self, direction: Direction, key: &FlowKey) -> bool {
        direction == Direction::Downlink && self.action(direction, key) == Action::Drwa
    }

    fn action(&self, direction: Direction, key: &FlowKey) -> Action {
        let (client, server) = key.client_and_server(direction);
        self.policy.action(client, server)
    }

    /// The settings of the half that accelerates the uplink, or none where the policy has no use for it.
    pub(crate) fn for_uplink(&self) -> Option<Self> {
        self.policy.includes_uplink().then(|| self.of_uplink())
    }

    /// The settings of that half, whether or not the policy has a use for it.
    pub(crate) fn of_uplink(&self) -> Self {
        Self {
            controller: self.uplink.controller,
            window_floor: self.uplink.window_floor,
            window_max: self.uplink.window_max,
            // Never beyond what a server can take: the licence of [MA] is about the radio segment.
            window_policy: WindowPolicy::Honour,
            sharing: Sharing::Flow,
            // Servers are no clients.
            client_ecn: ClientEcn::NotEct,
            // [WA] (8) is about the queue of the radio segment.
            waiting_target: None,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_nonsense_is_named() {
        assert_eq!(EngineConfig::default().validate(), Ok(()));
        let zero = EngineConfig { rto_max: Duration::ZERO, ..EngineConfig::default() };
        assert_eq!(zero.validate(), Err(ConfigError::Zero("rto_max")));
        let order = EngineConfig { window_max: Bytes::new(1), ..EngineConfig::default() };
        assert!(order.validate().is_err_and(|e| e.to_string().contains("window_max")));
    }

    #[test]
    fn what_is_about_the_radio_segment_does_not_reach_the_uplink() {
        let both = EngineConfig {
            policy: crate::Policy { default: crate::Action::Both, ..crate::Policy::default() },
            waiting_target: Some(Bytes::new(75_000)),
            window_policy: WindowPolicy::Opportunistic,
            client_ecn: ClientEcn::Ect0,
            ..EngineConfig::default()
        };
        let uplink = both.for_uplink().unwrap();
        assert_eq!((uplink.waiting_target, uplink.window_policy), (None, WindowPolicy::Honour));
        assert_eq!(uplink.client_ecn, ClientEcn::NotEct);
    }
}
