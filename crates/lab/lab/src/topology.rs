//! [`Network`]: three namespaces in a row, joined by TUN devices whose other ends this process holds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

use io::netlink::{Cidr, Netlink, Route};
use io::{Framing, Namespace, SpawnOptions, Tun, TunConfig, sysctl};
use scenario::{CongestionControl, Family};

use crate::LabError;
use crate::error::Context;

/// Queueing discipline of the lab's interfaces, whatever `net.core.default_qdisc` is: every kernel has it, and it neither
/// drops nor reorders before the emulated link does.
pub(crate) const DISCIPLINE: &str = "pfifo_fast";

/// One of the three hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Host {
    /// Behind the wired segment.
    Server,
    /// Between the links.
    Accelerator,
    /// Behind the radio link.
    Client,
}

impl Host {
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

    /// The host called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }
}

/// The server's address.
#[must_use]
pub const fn server_address(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2)),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 2)),
    }
}

/// The accelerator's address on the radio side.
#[must_use]
pub const fn radio_gateway(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::new(10, 2, 0, 1)),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 2, 0, 0, 0, 0, 0, 1)),
    }
}

/// The client's address.
#[must_use]
pub const fn client_address(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::new(10, 2, 0, 2)),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 2, 0, 0, 0, 0, 0, 2)),
    }
}

/// Name of the devices of the wired segment.
pub const WAN: &str = "wan0";
/// Name of the devices of the radio link.
pub const RADIO: &str = "radio0";

/// Packet size on every device.
const MTU: u32 = 1_500;

/// Settings of the three hosts.
#[derive(Clone, Debug, Default)]
pub struct HostSettings {
    /// The server's congestion control; the kernel's default otherwise.
    pub congestion_control: Option<CongestionControl>,
    /// The client's `tcp_rmem`; the kernel's default otherwise.
    pub client_rmem: Option<String>,
    /// The server's `tcp_wmem`; the kernel's default otherwise.
    pub server_wmem: Option<String>,
    /// The client does not offer SACK.
    pub without_sack: bool,
    /// The client does not offer timestamps.
    pub without_timestamps: bool,
}

/// The namespaces, named until dropped, and the four devices in the order the emulator wants them:
/// server `wan0`, accelerator `wan0`, accelerator `radio0`, client `radio0`.
#[derive(Debug)]
pub struct Network {
    namespaces: Vec<(Host, Namespace)>,
    tuns: Option<[Tun; 4]>,
}

impl Network {
    /// The name of a host's namespace in the lab called `instance`.
    #[must_use]
    pub fn namespace_name(instance: &str, host: Host) -> String {
        format!("cellab-{instance}-{}", host.name())
    }

    /// Makes the network of the lab called `instance`.
    ///
    /// # Errors
    /// Without root, or when the names are taken.
    pub fn create(instance: &str, settings: &HostSettings) -> Result<Self, LabError> {
        let mut network = Self { namespaces: Vec::new(), tuns: None };
        for host in Host::ALL {
            network.namespaces.push((host, Namespace::create(&Self::namespace_name(instance, host))?));
        }
        network.tuns = Some([
            network.device(Host::Server, WAN, 1, 2, true)?,
            network.device(Host::Accelerator, WAN, 1, 1, false)?,
            network.device(Host::Accelerator, RADIO, 2, 1, false)?,
            network.device(Host::Client, RADIO, 2, 2, true)?,
        ]);
        network.configure(settings)?;
        Ok(network)
    }

    /// The namespace of a host.
    ///
    /// # Errors
    /// Never for a network that was made whole.
    pub fn namespace(&self, host: Host) -> Result<&Namespace, LabError> {
        let found = self.namespaces.iter().find(|(h, _)| *h == host).map(|(_, namespace)| namespace);
        found.ok_or_else(|| LabError::Which(format!("the lab has no {}", host.name())))
    }

    /// Hands the devices over, once: to the emulator.
    pub fn take_devices(&mut self) -> Option<[Tun; 4]> {
        self.tuns.take()
    }

    /// Makes a device in `host`, address `10.NET.0.LAST` and `fd00:NET::LAST`, as the way to
    /// everything if `is_edge`.
    fn device(&self, host: Host, name: &str, net: u8, last: u8, is_edge: bool) -> Result<Tun, LabError> {
        let namespace = self.namespace(host)?;
        let config = TunConfig {
            name: name.to_owned(),
            mtu: MTU,
            queue_len_packets: 10_000,
            framing: Framing::Bare,
            multi_queue: false,
        };
        let made = namespace.run(|| -> Result<Tun, io::IoError> {
            let netlink = Netlink::open()?;
            netlink.set_up(netlink.index_of("lo")?)?;
            let tun = Tun::create(&config)?;
            netlink.set_root_discipline(tun.index(), DISCIPLINE)?;
            for (address, prefix) in [(v4(net, last), 24), (v6(net, last), 64)] {
                netlink.add_address(tun.index(), Cidr::new(address, prefix))?;
            }
            tun.set_up()?;
            if is_edge {
                for gateway in [v4(net, 1), v6(net, 1)] {
                    let everything = Cidr::everything(io::netlink::Family::of(gateway));
                    netlink.add_route(&Route::via(everything, gateway))?;
                }
            }
            Ok(tun)
        })?;
        Ok(made?)
    }

    fn configure(&self, settings: &HostSettings) -> Result<(), LabError> {
        for host in Host::ALL {
            // Figures of one transfer must not shape the next.
            self.set(host, "net/ipv4/tcp_no_metrics_save", "1")?;
        }
        self.set(Host::Accelerator, "net/ipv4/ip_forward", "1")?;
        self.set(Host::Accelerator, "net/ipv6/conf/all/forwarding", "1")?;
        if let Some(control) = settings.congestion_control {
            for (host, device, net) in [(Host::Server, WAN, 1), (Host::Client, RADIO, 2)] {
                for gateway in [v4(net, 1), v6(net, 1)] {
                    self.set_congestion_control(host, gateway, device, control)?;
                }
            }
        }
        if let Some(wmem) = &settings.server_wmem {
            self.set(Host::Server, "net/ipv4/tcp_wmem", wmem)?;
        }
        if let Some(rmem) = &settings.client_rmem {
            self.set(Host::Client, "net/ipv4/tcp_rmem", rmem)?;
        }
        for (setting, is_off) in
            [("tcp_sack", settings.without_sack), ("tcp_timestamps", settings.without_timestamps)]
        {
            if is_off {
                self.set(Host::Client, &format!("net/ipv4/{setting}"), "0")?;
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
        host: Host,
        gateway: IpAddr,
        device: &str,
        control: CongestionControl,
    ) -> Result<(), LabError> {
        let family = if gateway.is_ipv4() { "-4" } else { "-6" };
        let mut command = Command::new("ip");
        command.args([family, "route", "replace", "default", "via", &gateway.to_string(), "dev", device]);
        command.args(["congctl", control.name()]);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let child = self.namespace(host)?.spawn(command, SpawnOptions::default())?;
        let output = child.wait_with_output().doing(|| "wait for ip".to_owned())?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(LabError::NoCongestionControl { name: control.name(), said: said.trim().to_owned() })
    }

    fn set(&self, host: Host, path: &str, value: &str) -> Result<(), LabError> {
        Ok(sysctl::write(self.namespace(host)?, path, value)?)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for (_, namespace) in &self.namespaces {
            // A name already taken away by someone else is gone as wanted.
            let _ = Namespace::remove(namespace.name());
        }
    }
}

fn v4(net: u8, last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, net, 0, last))
}

fn v6(net: u8, last: u8) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd00, u16::from(net), 0, 0, 0, 0, 0, u16::from(last)))
}
