//! [`LineUp`]: the network of one run.

use core::fmt;
use core::net::{Ipv4Addr, SocketAddr};
use core::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use control::{ControllerConfig, CubicParams};
use engine::EngineConfig;
use link::{BaseStationConfig, Capacity, DelayModel, LinkConfig, QueueLimit, Trace};
use scenario::{LinkPlan, Quantity};
use sim::{
    Application, CheckConfig, EndpointConfig, FaultConfig, FlowConfig, NetworkConfig, PathConfig, Pattern,
    RadioConfig, Random, ReceiveWindow, Role,
};
use units::{Bytes, Duration, Instant, Rate, SeqNum};

use crate::path::RADIO_RTT;
use crate::{ContestError, PathSettings, Scheme, TraceSource};

/// Rate of an uplink without a trace of its own.
const UPLINK_RATE: Rate = Rate::from_mbps(50);
/// The wired segment never drops.
const WAN_QUEUE: Bytes = Bytes::from_mib(1_024);
/// The uplink's queue never drops either.
const UPLINK_QUEUE: Bytes = Bytes::from_mib(16);
/// Least length of a queue, however small the bandwidth-delay product.
const QUEUE_MIN: Bytes = Bytes::new(10 * 1_500);
/// A request, and a ping's response.
pub(crate) const PING_LEN: u64 = 100;
/// From ping to ping.
pub(crate) const PING_EVERY: Duration = Duration::from_millis(100);

/// Size of the radio link's drop-tail queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffer {
    /// Number of bytes.
    Bytes(Bytes),
    /// Number of bandwidth-delay products, of the trace's mean rate in the run and the round trip of the
    /// empty path.
    Bdp(u32),
}

impl Buffer {
    /// Bytes of it where the trace's mean rate is `rate` and the empty path's round trip `rtt`.
    #[must_use]
    pub fn bytes(self, rate: Rate, rtt: Duration) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Bdp(n) => Bytes::new(rate.bytes_in(rtt).get() * u64::from(n)).max(QUEUE_MIN),
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{}", Quantity(*bytes)),
            Self::Bdp(n) => write!(f, "{n} BDP"),
        }
    }
}

impl FromStr for Buffer {
    type Err = ContestError;

    fn from_str(text: &str) -> Result<Self, ContestError> {
        let lower = text.trim().to_ascii_lowercase();
        let bdp = lower.strip_suffix("bdp").and_then(|n| n.trim().parse().ok()).filter(|n| *n > 0);
        let bytes = || text.parse::<Quantity<Bytes>>().ok().filter(|q| q.0 >= QUEUE_MIN);
        bdp.map(Self::Bdp).or_else(|| bytes().map(|q| Self::Bytes(q.0))).ok_or_else(|| {
            ContestError::setting("buffer", format!("`{text}` is none; write 4MB (at least 15 KB) or 2bdp"))
        })
    }
}

/// Plan of one flow.
#[derive(Clone, Debug)]
pub(crate) struct FlowPlan {
    /// Time at which its client sends the SYN.
    pub begins: Instant,
    pub server: Application,
    pub client: Application,
}

impl FlowPlan {
    /// The client asks for `bytes`.
    pub(crate) fn download(bytes: u64, begins: Instant) -> Self {
        Self { begins, server: Application::server(PING_LEN, bytes), client: Application::client(PING_LEN) }
    }

    /// `count` requests, one each `every`, answered with `bytes`.
    pub(crate) fn requests(count: u32, every: Duration, bytes: u64) -> Self {
        Self {
            begins: Instant::ZERO,
            server: Application::responses(count, PING_LEN, bytes),
            client: Application::requests_every(every, count, PING_LEN, bytes),
        }
    }
}

/// The path that flows share.
pub(crate) struct LineUp<'a> {
    pub trace: &'a TraceSource,
    pub queue: Bytes,
    pub scheme: &'a Scheme,
    pub path: &'a PathSettings,
    pub seed: u64,
    /// The user wants no more of it.
    pub is_over: &'a AtomicBool,
}

impl LineUp<'_> {
    /// The accelerator's settings; none without one.
    pub(crate) fn engine(&self) -> Option<EngineConfig> {
        self.path.engine(self.scheme)
    }

    /// The network with these flows, all of one client.
    pub(crate) fn network(&self, flows: &[FlowPlan]) -> NetworkConfig {
        let engine = self.engine();
        let wan = PathConfig::constant(self.path.wan_rate, self.path.wan_rtt.mul_ratio(1, 2), WAN_QUEUE);
        let mut down = radio(Some(&self.trace.down), self.queue, self.seed, true);
        (down.link.loss_after, down.link.fades) = (self.path.radio.loss, self.path.radio.link_fades());
        let mut up = radio(self.trace.up.as_ref(), UPLINK_QUEUE, self.seed.wrapping_add(1), false);
        // The pattern is a constant that has slots for both.
        let _ = self.path.radio.set_air(&mut down.link, &mut up.link);
        NetworkConfig {
            wan_down: wan.clone(),
            wan_up: wan,
            radios: vec![RadioConfig { down, up }],
            flows: flows.iter().enumerate().map(|(number, plan)| self.flow(number, plan)).collect(),
            checks: CheckConfig {
                debt_max: engine.as_ref().map_or(Bytes::MAX, debt_max),
                ends_by: Instant::FAR_FUTURE,
                ..CheckConfig::default()
            },
            feedback: self
                .scheme
                .feedback
                .map(|delay| BaseStationConfig { delay, ..BaseStationConfig::default() }),
            merges_arrivals: engine.is_some(),
            ..NetworkConfig::default()
        }
    }

    /// The links alone, for the lab.
    pub(crate) fn plan(&self) -> LinkPlan {
        let network = self.network(&[]);
        let link = |path: &PathConfig| path.link.clone();
        let radio = network.radios.first().cloned().unwrap_or_default();
        LinkPlan {
            wan_down: link(&network.wan_down),
            wan_up: link(&network.wan_up),
            radio_down: link(&radio.down),
            radio_up: link(&radio.up),
            feedback: network.feedback,
        }
    }

    fn flow(&self, number: usize, plan: &FlowPlan) -> FlowConfig {
        let port = 40_000u16.wrapping_add(number as u16);
        let server_at: SocketAddr = (Ipv4Addr::new(10, 1, 0, 2), 80).into();
        let client_at: SocketAddr = (Ipv4Addr::new(10, 2, 0, 2), port).into();
        let mut server = EndpointConfig::new(server_at, client_at, Role::Listens, plan.server.clone());
        let mut client =
            EndpointConfig::new(client_at, server_at, Role::Connects(plan.begins), plan.client.clone());
        server.controller = self.scheme.server_controller();
        client.controller = ControllerConfig::Cubic(CubicParams::default());
        server.send_buffer = u32::try_from(self.path.host_buffer.get()).unwrap_or(u32::MAX);
        client.window = ReceiveWindow::Fixed(self.path.host_buffer);
        client.window_scale = Some(self.path.window_scale);
        let mut random = Random::new(self.seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (down, up) = (Pattern::new(random.word()), Pattern::new(random.word()));
        (server.writes, server.expects, client.writes, client.expects) = (down, up, up, down);
        (server.isn, client.isn) = (SeqNum::new(random.word() as u32), SeqNum::new(random.word() as u32));
        FlowConfig { server, client, radio: 0 }
    }
}

/// Largest debt of the accelerator to a client: its window, and a unit of the window scale.
fn debt_max(engine: &EngineConfig) -> Bytes {
    let window_max = engine.window_max.min(engine.flow_buffer_max);
    Bytes::new(window_max.get().max(65_535).saturating_add(1 << 14))
}

fn radio(trace: Option<&Arc<Trace>>, queue: Bytes, seed: u64, keeps_log: bool) -> PathConfig {
    let capacity = trace.map_or(Capacity::Constant(UPLINK_RATE), |trace| Capacity::Trace(Arc::clone(trace)));
    let link = LinkConfig {
        capacity,
        queue: QueueLimit::Bytes(queue),
        delay: DelayModel::Fixed(RADIO_RTT.mul_ratio(1, 2)),
        seed,
        keeps_log,
        ..LinkConfig::default()
    };
    PathConfig { link, faults: FaultConfig::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_read_and_sized() {
        let deep: Buffer = "4MB".parse().unwrap();
        let shallow: Buffer = "2 BDP".parse().unwrap();
        assert_eq!((deep.to_string(), shallow.to_string()), ("4 MB".to_owned(), "2 BDP".to_owned()));
        let rtt = Duration::from_millis(40);
        // 10 Mbit/s for 40 ms are 50 KB.
        assert_eq!(shallow.bytes(Rate::from_mbps(10), rtt), Bytes::new(100_000));
        assert_eq!(shallow.bytes(Rate::from_mbps(10), rtt * 2), Bytes::new(200_000));
        assert_eq!(shallow.bytes(Rate::from_kbps(10), rtt), QUEUE_MIN);
        assert_eq!(deep.bytes(Rate::from_mbps(10), rtt), Bytes::new(4_000_000));
        for wrong in ["0bdp", "4", "1 KB", ""] {
            assert!(wrong.parse::<Buffer>().is_err(), "{wrong}");
        }
    }
}
