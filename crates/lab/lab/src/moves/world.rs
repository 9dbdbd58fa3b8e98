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
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use io::netlink::{Cidr, Netlink, VethEnd};
use io::{Framing, Namespace, SpawnOptions, Tun, TunConfig, sysctl};

use super::air::Devices;
use crate::LabError;
use crate::error::Context;
use crate::radios::world::ip;
use crate::topology::{DISCIPLINE, RADIO, WAN};

const MTU: u32 = 1_500;
/// Port of the servers.
pub(crate) const PORT: u16 = 9_000;
/// Port at which the boxes listen for each other.
const HANDOVER_PORT: u16 = 7_320;
/// Last part of the first subscriber's addresses.
const FIRST: u8 = 10;
/// The wire between the boxes.
const WIRE: &str = "wire0";

/// The boxes' address towards the subscribers, the same at both.
const STATION: [(&str, u8); 1] = [("10.2.0.1", 24)];

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
    pub server: Namespace,
    pub router: Namespace,
    pub boxes: [Namespace; 2],
    pub client: Namespace,
    routes: Mutex<Child>,
}

impl World {
    /// Makes the namespaces and devices of `subscribers` subscribers, all of them at the first station. `control` is a
    /// congestion control, as an attribute of routes: whoever may not make it the default may use it so.
    pub fn create(instance: &str, subscribers: usize, control: &str) -> Result<(Self, Devices), LabError> {
        let mut made = Vec::new();
        let create = |made: &mut Vec<Namespace>| -> Result<(), LabError> {
            for host in HOSTS {
                made.push(Namespace::create(&format!("cellab-{instance}-{host}"))?);
            }
            Ok(())
        };
        let remove = |made: &[Namespace]| made.iter().for_each(|one| drop(Namespace::remove(one.name())));
        if let Err(error) = create(&mut made) {
            remove(&made);
            return Err(error);
        }
        let routes = changer(&made[1]).inspect_err(|_| remove(&made))?;
        let Ok([server, router, a, b, client]) = <[Namespace; 5]>::try_from(made) else {
            return Err(LabError::Which("the lab has not all of its hosts".to_owned()));
        };
        let world = Self { server, router, boxes: [a, b], client, routes: Mutex::new(routes) };
        let devices = world.furnish(subscribers, control)?;
        Ok((world, devices))
    }

    fn furnish(&self, subscribers: usize, control: &str) -> Result<Devices, LabError> {
        for namespace in self.namespaces() {
            sysctl::write(namespace, "net/ipv4/conf/all/rp_filter", "0")?;
            sysctl::write(namespace, "net/ipv4/conf/default/rp_filter", "0")?;
            // Figures of one transfer must not shape the next.
            sysctl::write(namespace, "net/ipv4/tcp_no_metrics_save", "1")?;
        }
        for namespace in [&self.router, &self.boxes[0], &self.boxes[1]] {
            sysctl::write(namespace, "net/ipv4/ip_forward", "1")?;
        }
        let devices = Devices {
            server: device(&self.server, WAN, &[("10.1.0.2", 24)])?,
            router: device(&self.router, WAN, &[("10.1.0.1", 24)])?,
            stations: [device(&self.boxes[0], RADIO, &STATION)?, device(&self.boxes[1], RADIO, &STATION)?],
            client: device(&self.client, RADIO, &[])?,
            wires: [
                device(&self.boxes[0], WIRE, &[("10.5.0.1", 30)])?,
                device(&self.boxes[1], WIRE, &[("10.5.0.2", 30)])?,
            ],
        };
        let all = || 0..subscribers;
        let lines = |line: &dyn Fn(usize) -> String| all().map(line).collect::<String>();
        let own = subscriber_address;
        for (station, namespace) in self.boxes.iter().enumerate() {
            let (name, net) = (format!("to-{station}"), format!("10.3.{station}"));
            let netlink = self.router.netlink()?;
            let far = VethEnd { name: WAN, namespace: Some(namespace) };
            netlink.create_veth(VethEnd { name: &name, namespace: None }, far)?;
            ip(&self.router, &format!("addr add {net}.1/30 dev {name}\nlink set {name} up\n"))?;
            let proxies = lines(&|n| format!("addr add {}/32 dev lo\n", proxy_of(n).ip()));
            let text = format!(
                "link set lo up\n{proxies}addr add {net}.2/30 dev {WAN}\nlink set {WAN} up\n\
                 route add default via {net}.1 {control}\nroute replace 10.2.0.0/24 dev {RADIO} {control}\n"
            );
            ip(namespace, &text)?;
        }
        let towards = lines(&|n| routes_of(n, 0, "add"));
        ip(&self.router, &format!("route add 10.1.1.0/24 dev {WAN}\n{towards}"))?;
        let servers = lines(&|n| format!("addr add {}/32 dev lo\n", server_of(n).ip()));
        ip(&self.server, &format!("link set lo up\n{servers}route add default dev {WAN} {control}\n"))?;
        let client = lines(&|n| {
            let (own, server, proxy) = (own(n), server_of(n).ip(), proxy_of(n).ip());
            format!(
                "addr add {own}/32 dev {RADIO}\nroute add {server}/32 dev {RADIO} src {own} {control}\n\
                 route add {proxy}/32 dev {RADIO} src {own} {control}\n"
            )
        });
        ip(&self.client, &client)?;
        Ok(devices)
    }

    fn namespaces(&self) -> [&Namespace; 5] {
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

impl Drop for World {
    fn drop(&mut self) {
        let routes = self.routes.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = routes.kill();
        let _ = routes.wait();
        for namespace in self.namespaces() {
            // A name already taken away by someone else is gone as wanted.
            let _ = Namespace::remove(namespace.name());
        }
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
fn changer(router: &Namespace) -> Result<Child, LabError> {
    let mut command = Command::new("ip");
    command.args(["-force", "-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(router.spawn(command, SpawnOptions { death_signal: Some(libc::SIGKILL), own_process_group: true })?)
}

fn device(namespace: &Namespace, name: &str, addresses: &[(&str, u8)]) -> Result<Tun, LabError> {
    let config = TunConfig {
        name: name.to_owned(),
        mtu: MTU,
        queue_len_packets: 10_000,
        framing: Framing::Bare,
        multi_queue: false,
    };
    let made = namespace.run(|| -> Result<Tun, io::IoError> {
        let netlink = Netlink::open()?;
        let tun = Tun::create(&config)?;
        netlink.set_root_discipline(tun.index(), DISCIPLINE)?;
        for (address, prefix) in addresses {
            if let Ok(address) = address.parse::<IpAddr>() {
                netlink.add_address(tun.index(), Cidr::new(address, *prefix))?;
            }
        }
        tun.set_up()?;
        Ok(tun)
    })?;
    Ok(made?)
}
