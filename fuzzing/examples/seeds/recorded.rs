//! Packets of simulated transfers, recorded beside the engine.

use control::{ControllerConfig, FixedParams};
use engine::{Engine, EngineConfig, Middlebox, Port, Transmit, Verdict};
use sim::{
    Application, EndpointConfig, Fault, FlowConfig, MiddleboxUnderTest, Network, NetworkConfig, PathConfig,
    RadioConfig, Role,
};
use units::{Bytes, Duration, Instant, Rate};
use wire::VirtioNetHeader;

/// A packet with its time and the port it was seen at.
pub struct Seen {
    pub at: Instant,
    pub side: Port,
    pub packet: Vec<u8>,
}

/// A middlebox that writes down what comes and goes.
struct Tap {
    inner: Engine,
    seen: Vec<Seen>,
}

impl Tap {
    fn note(&mut self, at: Instant, side: Port, packet: &[u8]) {
        self.seen.push(Seen { at, side, packet: packet.to_vec() });
    }
}

impl Middlebox for Tap {
    fn handle_packet(
        &mut self,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        self.note(now, from, packet);
        let verdict = self.inner.handle_packet(from, virtio, packet, now);
        if verdict == Verdict::Forward {
            self.note(now, from.opposite(), packet);
        }
        verdict
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let made = self.inner.poll_transmit(now)?;
        self.seen.push(Seen { at: now, side: made.to, packet: made.to_vec() });
        Some(made)
    }
    fn next_deadline(&self) -> Option<Instant> {
        self.inner.next_deadline()
    }
}

impl MiddleboxUnderTest for Tap {}

fn path(kbps: u64, ms: u64) -> PathConfig {
    PathConfig::constant(Rate::from_kbps(kbps), Duration::from_millis(ms), Bytes::new(60_000))
}

fn run(network: &NetworkConfig, accelerate: bool) -> Vec<Seen> {
    let rate = Rate::from_mbps(4);
    let controller = ControllerConfig::Fixed(FixedParams { rate, ..FixedParams::default() });
    let engine = Engine::new(EngineConfig { accelerate, controller, ..EngineConfig::default() }).unwrap();
    let mut network = Network::new(network, Tap { inner: engine, seen: Vec::new() }).unwrap();
    network.run().expect("the simulated transfer ends well");
    let seen = &network.middlebox().seen;
    seen.iter().map(|s| Seen { at: s.at, side: s.side, packet: s.packet.clone() }).collect()
}

fn network(is_v4: bool, server: Application, client: Application) -> NetworkConfig {
    let (a, b) =
        if is_v4 { ("10.9.0.1:80", "10.0.0.2:40000") } else { ("[fd00:9::1]:80", "[fd00::2]:40000") };
    let (a, b) = (a.parse().unwrap(), b.parse().unwrap());
    let mut server = EndpointConfig::new(a, b, Role::Listens, server);
    let client = EndpointConfig::new(b, a, Role::Connects(Instant::ZERO), client);
    (server.writes, server.expects) = (client.expects, client.writes);
    NetworkConfig {
        wan_down: path(20_000, 10),
        wan_up: path(20_000, 10),
        radios: vec![RadioConfig { down: path(4_000, 25), up: path(2_000, 25) }],
        flows: vec![FlowConfig { server, client, radio: 0 }],
        ..NetworkConfig::default()
    }
}

/// Transfers by name, each a few dozen packets.
pub fn transfers() -> Vec<(&'static str, Vec<Seen>)> {
    let plain = |is_v4| network(is_v4, Application::server(200, 24_000), Application::client(200));
    let lossy = |nth: &[u64]| {
        let mut network = plain(true);
        network.radios[0].down.faults.scheduled = nth.iter().map(|n| (*n, Fault::Drop)).collect();
        network
    };
    let mut reordered = plain(true);
    let held = Duration::from_millis(40);
    reordered.radios[0].down.faults.scheduled =
        [(6, Fault::HoldBack(held)), (9, Fault::Duplicate(held))].into_iter().collect();
    let mut old = plain(true);
    let FlowConfig { server, client, .. } = &mut old.flows[0];
    for host in [server, client] {
        (host.sack, host.timestamps, host.window_scale) = (false, None, None);
    }
    old.radios[0].down.faults.scheduled = [(5, Fault::Drop), (6, Fault::Drop)].into_iter().collect();
    let slow = network(
        true,
        Application::bulk(90_000),
        Application::sink().reading_slowly(9_000, Duration::from_millis(300)),
    );
    let mut slow = slow;
    slow.flows[0].client.window = sim::ReceiveWindow::Fixed(Bytes::new(12_000));
    let abort = network(true, Application::bulk(60_000), Application::sink().aborting_after(9_000));
    vec![
        ("plain", run(&plain(true), true)),
        ("ipv6", run(&plain(false), true)),
        ("passed", run(&lossy(&[4, 9, 10, 11]), false)),
        ("lossy", run(&lossy(&[4, 9, 10, 11, 14]), true)),
        ("tail", run(&lossy(&[0, 17, 18, 19, 20]), true)),
        ("reordered", run(&reordered, false)),
        ("old", run(&old, false)),
        ("slow_reader", run(&slow, true)),
        ("abort", run(&abort, true)),
    ]
}
