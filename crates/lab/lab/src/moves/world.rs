//! [`World`]: the namespaces of an experiment with moving subscribers.
//!
//! ```text
//!   server ── TUN wan0 ── router ─┬─ veth ── box-a ── TUN radio0 ─┬─ TUN radio0 ── client
//!   10.1.1.N              routes  │            TUN wire0          │                10.2.0.N
//!                                 └─ veth ── box-b ── TUN radio0 ─┘
//! ```
//!
//! Subscriber N has the address 10.2.0.N and a server of its own, 10.1.1.N. Behind a split proxy it calls that 10.4.0.N,
//! an address that both boxes have, or, where the proxy's state moves, the one that has the subscriber.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use io::{Host, Namespace, OwnedChild, lay_cable};

use super::air::Devices;
use crate::LabError;
use crate::error::Context;
use crate::topology::{RADIO, WAN, device};

/// Port of the servers.
pub(crate) const PORT: u16 = 9_000;
/// Port at which the boxes listen for each other.
const HANDOVER_PORT: u16 = 7_320;
/// Last part of the first subscriber's addresses.
const FIRST: u8 = 10;
/// The wire between the boxes.
const WIRE: &str = "wire0";

/// The boxes' address towards the subscribers, the same at both.
const STATION: [(IpAddr, u8); 1] = [(IpAddr::V4(Ipv4Addr::new(10, 2, 0, 1)), 24)];

/// The parts of the namespaces' names.
pub(crate) const HOSTS: [&str; 5] = ["server", "router", "box-a", "box-b", "client"];

/// An address of subscriber `number` in a network.
fn address(net: [u8; 3], number: usize) -> IpAddr {
    let last = FIRST.saturating_add(u8::try_from(number).unwrap_or(u8::MAX));
    Ipv4Addr::new(net[0], net[1], net[2], last).into()
}

/// A subscriber's own address.
pub(crate) fn subscriber_address(number: usize) -> IpAddr {
    address([10, 2, 0], number)
}

/// Address of a subscriber's server.
pub(crate) fn server_of(number: usize) -> SocketAddr {
    SocketAddr::new(address([10, 1, 1], number), PORT)
}

/// Address by which a subscriber calls its server behind a split proxy.
pub(crate) fn proxy_of(number: usize) -> SocketAddr {
    SocketAddr::new(address([10, 4, 0], number), PORT)
}

/// Address on which a box listens for the other.
pub(crate) fn handover_address(station: usize) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(10, 5, 0, station as u8 + 1).into(), HANDOVER_PORT)
}

/// The namespaces; their names go when it is dropped.
pub(crate) struct World {
    // Dropped first.
    routes: Mutex<OwnedChild>,
    pub server: Host,
    pub router: Host,
    pub boxes: [Host; 2],
    pub client: Host,
}

impl World {
    /// Makes the namespaces and devices of `subscribers` subscribers, all of them at the first station. `control` is a
    /// congestion control, as an attribute of routes: whoever may not make it the default may use it so.
    pub fn create(instance: &str, subscribers: usize, control: &str) -> Result<(Self, Devices), LabError> {
        let [server, router, a, b, client] =
            HOSTS.map(|host| Host::create(&format!("cellab-{instance}-{host}")));
        let (router, boxes) = (router?, [a?, b?]);
        let routes = Mutex::new(changer(&router)?);
        let world = Self { routes, server: server?, router, boxes, client: client? };
        let devices = world.furnish(subscribers, control)?;
        Ok((world, devices))
    }

    fn furnish(&self, subscribers: usize, control: &str) -> Result<Devices, LabError> {
        for host in self.hosts() {
            host.set("net/ipv4/conf/all/rp_filter", "0")?;
            host.set("net/ipv4/conf/default/rp_filter", "0")?;
            // Figures of one transfer must not shape the next.
            host.set("net/ipv4/tcp_no_metrics_save", "1")?;
        }
        for host in [&self.router, &self.boxes[0], &self.boxes[1]] {
            host.set("net/ipv4/ip_forward", "1")?;
        }
        let devices = Devices {
            server: device(&self.server, WAN, &[(Ipv4Addr::new(10, 1, 0, 2).into(), 24)])?,
            router: device(&self.router, WAN, &[(Ipv4Addr::new(10, 1, 0, 1).into(), 24)])?,
            stations: [device(&self.boxes[0], RADIO, &STATION)?, device(&self.boxes[1], RADIO, &STATION)?],
            client: device(&self.client, RADIO, &[])?,
            wires: [
                device(&self.boxes[0], WIRE, &[(Ipv4Addr::new(10, 5, 0, 1).into(), 30)])?,
                device(&self.boxes[1], WIRE, &[(Ipv4Addr::new(10, 5, 0, 2).into(), 30)])?,
            ],
        };
        let all = || 0..subscribers;
        let lines = |line: &dyn Fn(usize) -> String| all().map(line).collect::<String>();
        let own = subscriber_address;
        for (station, host) in self.boxes.iter().enumerate() {
            let (name, net) = (format!("to-{station}"), format!("10.3.{station}"));
            let (near, far) = (format!("{net}.1/30"), format!("{net}.2/30"));
            lay_cable([(&self.router, &name, &[&near]), (host, WAN, &[&far])])?;
            let proxies = lines(&|n| format!("addr add {}/32 dev lo\n", proxy_of(n).ip()));
            let text = format!(
                "link set lo up\n{proxies}\
                 route add default via {net}.1 {control}\nroute replace 10.2.0.0/24 dev {RADIO} {control}\n"
            );
            host.ip(&text)?;
        }
        let towards = lines(&|n| routes_of(n, 0, "add"));
        self.router.ip(&format!("route add 10.1.1.0/24 dev {WAN}\n{towards}"))?;
        let servers = lines(&|n| format!("addr add {}/32 dev lo\n", server_of(n).ip()));
        self.server.ip(&format!("link set lo up\n{servers}route add default dev {WAN} {control}\n"))?;
        let client = lines(&|n| {
            let (own, server, proxy) = (own(n), server_of(n).ip(), proxy_of(n).ip());
            format!(
                "addr add {own}/32 dev {RADIO}\nroute add {server}/32 dev {RADIO} src {own} {control}\n\
                 route add {proxy}/32 dev {RADIO} src {own} {control}\n"
            )
        });
        self.client.ip(&client)?;
        Ok(devices)
    }

    fn hosts(&self) -> [&Host; 5] {
        let [a, b] = &self.boxes;
        [&self.server, &self.router, a, b, &self.client]
    }

    /// Packets for subscriber `number`, and for its proxy, go to station `to` from now on.
    pub fn route(&self, number: usize, to: usize) -> Result<(), LabError> {
        let line = routes_of(number, to, "replace");
        let mut routes = self.routes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let input = routes.stdin.as_mut();
        let input = input.ok_or_else(|| LabError::Which("the router takes no routes".to_owned()))?;
        input.write_all(line.as_bytes()).doing(|| "write to ip".to_owned())
    }
}

/// A congestion control as an attribute of routes; nothing for the machine's own.
pub(crate) fn attribute_of(congestion_control: Option<&str>) -> String {
    congestion_control.map_or_else(String::new, |name| format!("congctl {name}"))
}

/// Lines for a subscriber's way to a station.
fn routes_of(number: usize, station: usize, verb: &str) -> String {
    let (own, proxy, via) = (subscriber_address(number), proxy_of(number).ip(), gateway(station));
    format!("route {verb} {own}/32 via {via}\nroute {verb} {proxy}/32 via {via}\n")
}

/// The box of a station, as the router calls it.
fn gateway(station: usize) -> String {
    format!("10.3.{station}.2")
}

/// `ip` in the router, which takes lines one by one: nothing has to be started for a change.
fn changer(router: &Namespace) -> Result<OwnedChild, LabError> {
    let mut command = Command::new("ip");
    command.args(["-force", "-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(router.spawn_owned(command)?)
}
