//! [`Network`]: three namespaces in a row, joined by TUN devices whose other ends this process holds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use io::netlink::Cidr;
use io::{Framing, Host, Namespace, Tun, TunConfig};
use scenario::{Client, CongestionControl, Family, Server};

use crate::LabError;

/// Queueing discipline of the lab's interfaces, whatever `net.core.default_qdisc` is: every kernel has it, and it neither
/// drops nor reorders before the emulated link does.
pub(crate) const DISCIPLINE: &str = "pfifo_fast";

/// Role of one of the three hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Behind the wired segment.
    Server,
    /// Between the links.
    Accelerator,
    /// Behind the radio link.
    Client,
}

impl Role {
    /// All, from the server on.
    pub const ALL: [Self; 3] = [Self::Server, Self::Accelerator, Self::Client];

    /// Its name on the command line and at the end of its namespace's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Accelerator => "accelerator",
            Self::Client => "client",
        }
    }

    /// The role called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }
}

/// The server's address.
#[must_use]
pub const fn server_address(family: Family) -> IpAddr {
    address(family, 1, 2)
}

/// The accelerator's address on the radio side.
#[must_use]
pub const fn radio_gateway(family: Family) -> IpAddr {
    address(family, 2, 1)
}

/// The client's address.
#[must_use]
pub const fn client_address(family: Family) -> IpAddr {
    address(family, 2, 2)
}

/// An address of the wired segment, 1, or of the radio link, 2.
const fn address(family: Family, net: u8, last: u8) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::new(10, net, 0, last)),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::new(0xfd00, net as u16, 0, 0, 0, 0, 0, last as u16)),
    }
}

/// Addresses by version, with the lengths of their prefixes.
const FAMILIES: [(Family, u8); 2] = [(Family::Ipv4, 24), (Family::Ipv6, 64)];

/// Name of the devices of the wired segment.
pub const WAN: &str = "wan0";
/// Name of the devices of the radio link.
pub const RADIO: &str = "radio0";

/// The namespaces, named until dropped, and the four devices in the order the emulator wants them:
/// server `wan0`, accelerator `wan0`, accelerator `radio0`, client `radio0`.
#[derive(Debug)]
pub struct Network {
    hosts: [Host; 3],
    tuns: Option<[Tun; 4]>,
}

impl Network {
    /// The name of a host's namespace in the lab called `instance`.
    #[must_use]
    pub fn namespace_name(instance: &str, host: Role) -> String {
        format!("cellab-{instance}-{}", host.name())
    }

    /// Makes the network of the lab called `instance`, with these settings of the server and the client.
    ///
    /// # Errors
    /// Without root, or when the names are taken.
    pub fn create(instance: &str, server: &Server, client: &Client) -> Result<Self, LabError> {
        let create = |host| Host::create(&Self::namespace_name(instance, host));
        let hosts = [create(Role::Server)?, create(Role::Accelerator)?, create(Role::Client)?];
        for host in &hosts {
            let netlink = host.netlink()?;
            netlink.set_up(netlink.index_of("lo")?)?;
        }
        let [at_server, accelerator, at_client] = &hosts;
        let device = |host, name, net, last| {
            device(host, name, &FAMILIES.map(|(family, prefix)| (address(family, net, last), prefix)))
        };
        let tuns = [
            device(at_server, WAN, 1, 2)?,
            device(accelerator, WAN, 1, 1)?,
            device(accelerator, RADIO, 2, 1)?,
            device(at_client, RADIO, 2, 2)?,
        ];
        for (host, net) in [(at_server, 1), (at_client, 2)] {
            FAMILIES.iter().try_for_each(|(family, _)| host.add_default_route(address(*family, net, 1)))?;
        }
        let network = Self { hosts, tuns: Some(tuns) };
        network.configure(server, client)?;
        Ok(network)
    }

    /// The namespace of a host.
    #[must_use]
    pub fn namespace(&self, host: Role) -> &Namespace {
        &self.hosts[host as usize]
    }

    /// Hands the devices over, once: to the emulator.
    pub fn take_devices(&mut self) -> Option<[Tun; 4]> {
        self.tuns.take()
    }

    fn configure(&self, server: &Server, client: &Client) -> Result<(), LabError> {
        for host in Role::ALL {
            // Figures of one transfer must not shape the next.
            self.set(host, "net/ipv4/tcp_no_metrics_save", "1")?;
        }
        self.set(Role::Accelerator, "net/ipv4/ip_forward", "1")?;
        self.set(Role::Accelerator, "net/ipv6/conf/all/forwarding", "1")?;
        if let Some(control) = server.congestion_control {
            for (host, device, net) in [(Role::Server, WAN, 1), (Role::Client, RADIO, 2)] {
                for (family, _) in FAMILIES {
                    self.set_congestion_control(host, address(family, net, 1), device, control)?;
                }
            }
        }
        if let Some(wmem) = server.wmem() {
            self.set(Role::Server, "net/ipv4/tcp_wmem", &wmem)?;
        }
        if let Some(rmem) = client.rmem() {
            self.set(Role::Client, "net/ipv4/tcp_rmem", &rmem)?;
        }
        for (setting, is_on) in [("tcp_sack", client.sack), ("tcp_timestamps", client.timestamps)] {
            if is_on == Some(false) {
                self.set(Role::Client, &format!("net/ipv4/{setting}"), "0")?;
            }
        }
        Ok(())
    }

    /// Sets the congestion control on a host's default route.
    ///
    /// The sysctl would refuse, in any namespace but the first, what the whole machine does not
    /// allow to ordinary users (`tcp_allowed_congestion_control`); a route may name any.
    fn set_congestion_control(
        &self,
        host: Role,
        gateway: IpAddr,
        device: &str,
        control: CongestionControl,
    ) -> Result<(), LabError> {
        let (family, gateway) = (if gateway.is_ipv4() { "-4" } else { "-6" }, gateway.to_string());
        let words = ["ip", family, "route", "replace", "default", "via", &gateway, "dev", device];
        let output = self.namespace(host).output(&[&words[..], &["congctl", control.name()]].concat())?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(LabError::NoCongestionControl { name: control.name(), said: said.trim().to_owned() })
    }

    fn set(&self, host: Role, path: &str, value: &str) -> Result<(), LabError> {
        Ok(self.namespace(host).set(path, value)?)
    }
}

/// Makes a device of the lab, with addresses and the lengths of their prefixes.
pub(crate) fn device(namespace: &Namespace, name: &str, addresses: &[(IpAddr, u8)]) -> Result<Tun, LabError> {
    let config = TunConfig { name: name.to_owned(), framing: Framing::Bare, ..TunConfig::default() };
    let made = namespace.run(|| -> Result<Tun, io::IoError> {
        let tun = Tun::create(&config)?;
        tun.netlink().set_root_discipline(tun.index(), DISCIPLINE)?;
        for (address, prefix) in addresses {
            tun.netlink().add_address(tun.index(), Cidr::new(*address, *prefix))?;
        }
        tun.set_up()?;
        Ok(tun)
    })?;
    Ok(made?)
}
