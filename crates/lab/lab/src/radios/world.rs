//! [`World`]: a client with several radios and a server, each in a namespace.
//!
//! ```text
//!  client                                              server
//!  wifi0 10.100.0.2, fd00:64::2 ──── link ──── wifi0 10.100.0.1, fd00:64::1
//!  lte0  10.101.0.2, fd00:65::2 ──── link ──── lte0  10.101.0.1, fd00:65::1
//!                                              lo    10.9.0.1, 10.9.1.1, fd00:9::1, fd00:9:1::1
//! ```
//!
//! Behind a NAT, the server sees a radio at 198.18.NUMBER.N.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use io::netlink::{EndpointFlags, MptcpEndpoint, MptcpLimits, Netlink, PathManager};
use io::{Host, Tun};
use scenario::{Family, MultiPath, MultiPathCase};

use crate::LabError;
use crate::topology::device;

/// A congestion control that leaves pacing alone, and that every namespace may have.
const UNPACED: &str = "reno";
const LIMITS: MptcpLimits = MptcpLimits { subflows: 8, add_addr_accepted: 8 };

/// The server's first or second address.
pub(crate) fn server_address(family: Family, number: u32) -> IpAddr {
    let n = number as u8;
    match family {
        Family::Ipv4 => Ipv4Addr::new(10, 9, n, 1).into(),
        Family::Ipv6 => Ipv6Addr::new(0xfd00, 9, u16::from(n), 0, 0, 0, 0, 1).into(),
    }
}

/// An address of a radio; `last` is 1 at the server, from 2 on at the client.
pub(crate) fn radio_address(family: Family, radio: usize, last: u8) -> IpAddr {
    let r = radio as u8 + 100;
    match family {
        Family::Ipv4 => Ipv4Addr::new(10, r, 0, last).into(),
        Family::Ipv6 => Ipv6Addr::new(0xfd00, u16::from(r), 0, 0, 0, 0, 0, u16::from(last)).into(),
    }
}

/// Address at which a NAT has a radio.
pub(crate) fn outer_address(radio: usize, generation: u8) -> [u8; 4] {
    [198, 18, radio as u8, generation]
}

/// True for a client's address at a radio, also as a server sees it behind a NAT.
pub(crate) fn is_address_of(ip: IpAddr, radio: usize) -> bool {
    let own = [Family::Ipv4, Family::Ipv6].map(|family| radio_address(family, radio, 0));
    match (ip, own) {
        (IpAddr::V4(ip), [IpAddr::V4(own), _]) => {
            let (ip, own, outer) = (ip.octets(), own.octets(), outer_address(radio, 0));
            ip[..3] == own[..3] || ip[..3] == outer[..3]
        }
        (IpAddr::V6(ip), [_, IpAddr::V6(own)]) => ip.segments()[..7] == own.segments()[..7],
        _ => false,
    }
}

/// The two namespaces; their names go when it is dropped.
pub(crate) struct World {
    pub client: Host,
    pub server: Host,
}

impl World {
    /// Makes the namespaces and devices of a case; devices by radio, the server's and the client's.
    pub fn create(
        instance: &str,
        scenario: &MultiPath,
        case: &MultiPathCase,
    ) -> Result<(Self, Vec<[Tun; 2]>), LabError> {
        let name = |host: &str| format!("cellab-{instance}-{host}");
        let world = Self { server: Host::create(&name("server"))?, client: Host::create(&name("client"))? };
        let mut devices = Vec::new();
        for (number, radio) in scenario.radios_of(case) {
            let device = |host: &Host, last| {
                let address = |family| radio_address(family, number, last);
                device(host, &radio.name, &[(address(Family::Ipv4), 24), (address(Family::Ipv6), 64)])
            };
            devices.push([device(&world.server, 1)?, device(&world.client, 2)?]);
        }
        world.configure(scenario, case)?;
        Ok((world, devices))
    }

    fn configure(&self, scenario: &MultiPath, case: &MultiPathCase) -> Result<(), LabError> {
        let mut client = String::new();
        let mut server = String::from("link set lo up\n");
        for n in 0..scenario.server_addresses {
            server += &format!("addr add {}/32 dev lo\n", server_address(Family::Ipv4, n));
            server += &format!("addr add {}/128 dev lo\n", server_address(Family::Ipv6, n));
        }
        for (number, radio) in scenario.radios_of(case) {
            for family in [Family::Ipv4, Family::Ipv6] {
                client += &format!(
                    "route add default via {} dev {} metric {}\n",
                    radio_address(family, number, 1),
                    radio.name,
                    100 + number
                );
            }
            if radio.nat {
                server += &format!("route add 198.18.{number}.0/24 dev {}\n", radio.name);
            }
        }
        self.client.ip(&client)?;
        self.server.ip(&server)?;
        for namespace in [&self.client, &self.server] {
            namespace.set("net/mptcp/enabled", "1")?;
            // A test's fallback must not switch MPTCP off for the next.
            let _ = namespace.set("net/mptcp/blackhole_timeout", "0");
            namespace.set("net/ipv4/conf/all/rp_filter", "0")?;
            namespace.run(|| PathManager::open().and_then(|pm| pm.set_limits(LIMITS)))??;
        }
        // A connection begins with the namespace's, and BBR's pacing stays with one that changes to another.
        let first = case.congestion_control.as_ref().map(|_| UNPACED);
        if let Some(control) = scenario.congestion_control.as_deref().or(first) {
            self.server.set("net/ipv4/tcp_congestion_control", control)?;
        }
        for (path, value) in scenario.server_sysctls.iter().chain(&case.server_sysctls) {
            self.server.set(path, value)?;
        }
        for (path, value) in &scenario.client_sysctls {
            self.client.set(path, value)?;
        }
        let family = scenario.further_family.unwrap_or(scenario.family);
        // The first address of the connection's own version is known.
        for n in u32::from(family == scenario.family)..scenario.server_addresses {
            let endpoint = endpoint(server_address(family, n), None, EndpointFlags::SIGNAL);
            self.server.run(|| PathManager::open().and_then(|pm| pm.add(&endpoint)))??;
        }
        Ok(())
    }

    /// Adds an endpoint for every radio, as an administrator without a daemon does.
    pub fn add_endpoints(&self, scenario: &MultiPath, case: &MultiPathCase) -> Result<(), LabError> {
        let flags = EndpointFlags::SUBFLOW;
        let is_mesh = scenario.server_addresses > 1 || scenario.further_family.is_some();
        let flags = if is_mesh { flags.with(EndpointFlags::FULL_MESH) } else { flags };
        let family = scenario.further_family.unwrap_or(scenario.family);
        for (number, radio) in scenario.radios_of(case) {
            let address = radio_address(family, number, 2);
            self.client.run(|| {
                let index = Netlink::open()?.index_of(&radio.name)?;
                PathManager::open()?.add(&endpoint(address, Some(index.get()), flags))
            })??;
        }
        Ok(())
    }

    /// Replaces the client's address at a radio, as DHCP would at another access point.
    pub fn readdress(&self, radio: &str, number: usize, family: Family, last: u8) -> Result<(), LabError> {
        let (old, new) = (radio_address(family, number, last), radio_address(family, number, last + 1));
        let len = if family == Family::Ipv4 { 24 } else { 64 };
        let nodad = if family == Family::Ipv4 { "" } else { " nodad" };
        let gateway = radio_address(family, number, 1);
        Ok(self.client.ip(&format!(
            "addr del {old}/{len} dev {radio}\naddr add {new}/{len} dev {radio}{nodad}\n\
             route replace default via {gateway} dev {radio} metric {}",
            100 + number
        ))?)
    }
}

fn endpoint(address: IpAddr, interface: Option<u32>, flags: EndpointFlags) -> MptcpEndpoint {
    MptcpEndpoint { id: 0, address, port: 0, interface, flags }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_radios_addresses_are_told_from_those_of_others() {
        for family in [Family::Ipv4, Family::Ipv6] {
            assert!(is_address_of(radio_address(family, 1, 3), 1));
            assert!(!is_address_of(radio_address(family, 1, 3), 0));
            assert!(!is_address_of(server_address(family, 0), 0));
        }
        assert!(
            is_address_of(outer_address(1, 2).into(), 1) && !is_address_of(outer_address(1, 2).into(), 0)
        );
    }
}
