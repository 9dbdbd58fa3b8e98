//! [`Network`]: five machines in a row, whose middle one is the box that is troubled.
//!
//! ```text
//!   client ─ c0 a0 ─ cell ─ a1 m0 ─ box ─ w0 b1 ─ core ─ b0 s0 ─ server
//! ```
//!
//! The routers on both sides keep what happens to the box's cables away from the hosts, as a base
//! station and a provider's router do. The radio link is shaped at `a0` and `c0`, by the kernel.

use std::sync::atomic::{AtomicU32, Ordering};

use io::netlink::Family;
use io::{Host, Namespace};

/// Where the link is narrow, and what it loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// 1 Gbit/s both ways.
    Fast,
    /// 60 Mbit/s down, 30 up, and 2 of 1,000 packets lost.
    Lossy,
}

impl LinkKind {
    pub const ALL: [Self; 2] = [Self::Fast, Self::Lossy];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Fast => "1000M",
            Self::Lossy => "60/30M-lossy",
        }
    }

    /// The arguments of the token buckets: down, up.
    const fn buckets(self) -> [&'static str; 2] {
        match self {
            Self::Fast => ["rate 1gbit burst 256k latency 10ms", "rate 1gbit burst 256k latency 10ms"],
            Self::Lossy => ["rate 60mbit burst 32k latency 60ms", "rate 30mbit burst 32k latency 60ms"],
        }
    }
}

/// A side of the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Mobile,
    Wired,
}

impl Side {
    pub const BOTH: [Self; 2] = [Self::Mobile, Self::Wired];

    /// The box's interface, and the router's across.
    pub const fn devices(self) -> [&'static str; 2] {
        match self {
            Self::Mobile => ["m0", "a1"],
            Self::Wired => ["w0", "b1"],
        }
    }
}

pub const SERVER: [&str; 2] = ["10.2.0.2", "fd02::2"];

/// Five machines; their namespaces go with the value.
pub struct Network {
    pub client: Host,
    cell: Host,
    pub middle: Host,
    core: Host,
    pub server: Host,
    is_bridged: bool,
    link: LinkKind,
    /// Number of the networks on both sides of the box: mobile, wired. A change of addresses counts it up.
    generations: [u8; 2],
    /// Of the cables at the box.
    mtus: [u32; 2],
}

impl Network {
    /// Everything connected; the box forwards, or has a bridge where `is_bridged`.
    pub fn build(link: LinkKind, is_bridged: bool, host_mtu: u32) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let create = |role: &str| {
            let name = format!("ct-chaos-{}-{number}-{role}", std::process::id());
            let made = Host::create(&name).unwrap_or_else(|e| panic!("this test needs root: {e}"));
            for (path, value) in [
                ("net/ipv6/conf/default/accept_dad", "0"),
                ("net/ipv6/conf/all/forwarding", "1"),
                ("net/ipv4/ip_forward", "1"),
                // What one transfer has learnt must not shape the next.
                ("net/ipv4/tcp_no_metrics_save", "1"),
            ] {
                made.set(path, value).unwrap();
            }
            made
        };
        let network = Self {
            client: create("client"),
            cell: create("cell"),
            middle: create("box"),
            core: create("core"),
            server: create("server"),
            is_bridged,
            link,
            generations: [0; 2],
            mtus: [1_500; 2],
        };
        network.connect_hosts(host_mtu);
        Side::BOTH.iter().for_each(|side| network.lay_cable(*side));
        network
    }

    fn connect_hosts(&self, mtu: u32) {
        let cable = |from: &Namespace, a: &str, to: &Namespace, b: &str| {
            batch(
                from,
                &[format!("link add {a} mtu {mtu} type veth peer name {b} mtu {mtu} netns {}", to.name())],
            );
        };
        cable(&self.client, "c0", &self.cell, "a0");
        cable(&self.server, "s0", &self.core, "b0");
        for (namespace, device, net, last) in [
            (&self.client, "c0", 1, 2),
            (&self.cell, "a0", 1, 1),
            (&self.server, "s0", 2, 2),
            (&self.core, "b0", 2, 1),
        ] {
            let mut lines = vec![
                "link set lo up".to_owned(),
                format!("link set {device} up"),
                format!("address add 10.{net}.0.{last}/24 dev {device}"),
                format!("address add fd0{net}::{last}/64 dev {device} nodad"),
            ];
            if last == 2 {
                lines.push(format!("route add default via 10.{net}.0.1"));
                lines.push(format!("route add default via fd0{net}::1"));
            }
            batch(namespace, &lines);
        }
        let [down, up] = self.link.buckets();
        for (namespace, device, bucket) in [(&self.cell, "a0", down), (&self.client, "c0", up)] {
            let line = format!("qdisc add dev {device} root tbf {bucket}");
            run(namespace, "tc", &line.split(' ').collect::<Vec<_>>());
        }
        if self.link == LinkKind::Lossy {
            // Loss is of packets, not of what the kernel carries together.
            batch(&self.client, &["link set c0 gso_max_segs 1".to_owned()]);
            let rules = "add table inet loss; \
                         add chain inet loss forward { type filter hook forward priority 0; }; \
                         add rule inet loss forward numgen random mod 1000 < 2 drop";
            run(&self.cell, "nft", &[rules]);
        }
    }

    /// Lays the cable on a side of the box, with addresses and routes.
    pub fn lay_cable(&self, side: Side) {
        let ([own, across], mtu) = (side.devices(), self.mtus[side as usize]);
        let router = self.router(side);
        batch(
            &self.middle,
            &[format!(
                "link add {own} mtu {mtu} type veth peer name {across} mtu {mtu} address 02:00:00:00:00:0{} \
                 netns {}",
                // A router keeps its address whatever becomes of the box.
                1 + side as u8,
                router.name()
            )],
        );
        if side == Side::Mobile && self.link == LinkKind::Lossy {
            batch(&self.middle, &[format!("link set {own} gso_max_segs 1")]);
        }
        self.set_up(side);
    }

    /// Takes the cable away.
    pub fn cut_cable(&self, side: Side) {
        batch(&self.middle, &[format!("link delete {}", side.devices()[0])]);
    }

    pub fn set_down(&self, side: Side) {
        batch(&self.middle, &[format!("link set {} down", side.devices()[0])]);
    }

    /// Switches the interfaces of a side on and gives them what the kernel takes away from those
    /// that are off.
    pub fn set_up(&self, side: Side) {
        let ([own, across], router) = (side.devices(), self.router(side));
        let (net, last, beyond, generation) = match side {
            Side::Mobile => (3, 2, 1, self.generations[0]),
            Side::Wired => (4, 3, 2, self.generations[1]),
        };
        if self.is_bridged {
            batch(&self.middle, &[format!("link set {own} up")]);
            // One network from router to router.
            let other = 5 - last;
            let far = if beyond == 1 { 2 } else { 1 };
            batch(
                router,
                &[
                    "link set lo up".to_owned(),
                    format!("link set {across} up"),
                    format!("address replace 10.3.0.{last}/24 dev {across}"),
                    format!("address replace fd03::{last}/64 dev {across} nodad"),
                    format!("route replace 10.{far}.0.0/24 via 10.3.0.{other}"),
                    format!("route replace fd0{far}::/64 via fd03::{other}"),
                ],
            );
            return;
        }
        batch(
            router,
            &[
                "link set lo up".to_owned(),
                format!("link set {across} up"),
                format!("address replace 10.{net}.{generation}.2/24 dev {across}"),
                format!("address replace fd0{net}:{generation}::2/64 dev {across} nodad"),
            ],
        );
        batch(
            &self.middle,
            &[
                "link set lo up".to_owned(),
                format!("link set {own} up"),
                format!("address replace 10.{net}.{generation}.1/24 dev {own}"),
                format!("address replace fd0{net}:{generation}::1/64 dev {own} nodad"),
                format!("route replace 10.{beyond}.0.0/24 via 10.{net}.{generation}.2"),
                format!("route replace fd0{beyond}::/64 via fd0{net}:{generation}::2"),
            ],
        );
        batch(
            router,
            &[
                format!("route replace default via 10.{net}.{generation}.1"),
                format!("route replace default via fd0{net}:{generation}::1"),
            ],
        );
    }

    /// Gives a side of the box another network: the old addresses go, and with them the routes.
    pub fn renumber(&mut self, side: Side) {
        let ([own, across], router) = (side.devices(), self.router(side));
        for (namespace, device) in [(&self.middle, own), (router, across)] {
            batch(namespace, &[format!("address flush dev {device} scope global")]);
        }
        self.generations[side as usize] = self.generations[side as usize].wrapping_add(1);
        self.set_up(side);
    }

    /// Changes the MTU of a side's cable, or of the box's end of it alone; on both sides where a
    /// bridge needs the same everywhere.
    pub fn set_mtu(&mut self, side: Side, mtu: u32, both_ends: bool) {
        let sides: &[Side] = if self.is_bridged { &Side::BOTH } else { &[side] };
        for side in sides {
            self.mtus[*side as usize] = mtu;
            let [own, across] = side.devices();
            batch(&self.middle, &[format!("link set {own} mtu {mtu}")]);
            if both_ends {
                batch(self.router(*side), &[format!("link set {across} mtu {mtu}")]);
            }
        }
        // Or hosts would keep to the least MTU for ten minutes.
        for host in [&self.client, &self.server] {
            ["-4", "-6"].iter().for_each(|family| run(host, "ip", &[family, "route", "flush", "cache"]));
        }
    }

    /// Has the kernel bridge in the box's place.
    pub fn bridge(&self) {
        batch(&self.middle, &["link add br0 type bridge".to_owned(), "link set br0 up".to_owned()]);
        Side::BOTH.iter().for_each(|side| self.join(*side));
    }

    /// Makes a side a port of that bridge.
    pub fn join(&self, side: Side) {
        batch(&self.middle, &[format!("link set {} master br0", side.devices()[0])]);
    }

    /// What a box without an accelerator must not show.
    pub fn leftovers(&self) -> Vec<String> {
        let netlink = self.middle.netlink().unwrap();
        let mut found = Vec::new();
        for family in Family::BOTH {
            let rules = netlink.rules(family).unwrap();
            found.extend(rules.iter().filter(|rule| rule.is_own).map(|rule| format!("left: rule {rule}")));
        }
        let links = netlink.links().unwrap().into_iter().map(|link| link.name);
        found
            .extend(links.filter(|name| name.starts_with("cell")).map(|name| format!("left: device {name}")));
        found
    }

    fn router(&self, side: Side) -> &Host {
        match side {
            Side::Mobile => &self.cell,
            Side::Wired => &self.core,
        }
    }
}

/// Has `ip` do all of `lines` in a namespace; each must succeed.
fn batch(namespace: &Namespace, lines: &[String]) {
    namespace.ip(&lines.join("\n")).unwrap_or_else(|error| panic!("{lines:#?}: {error}"));
}

/// Runs a program in a namespace; it must succeed.
fn run(namespace: &Namespace, program: &str, arguments: &[&str]) {
    let output = namespace.output(&[&[program], arguments].concat()).unwrap();
    assert!(output.status.success(), "{program} {arguments:?} in {}: {output:?}", namespace.name());
}

/// What a program in a namespace says, whether it succeeds or not.
pub fn output(namespace: &Namespace, program: &str, arguments: &[&str]) -> String {
    let output = namespace.output(&[&[program], arguments].concat()).unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
