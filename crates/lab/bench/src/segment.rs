//! [`Segment`]: client and server as neighbours, for ways that bridge.

use io::netlink::{Cidr, InterfaceIndex, Netlink, Route, Table};

use crate::topology::{HOST_INTERFACE, MOBILE, Network, WIRED, client_network, server_network};
use crate::{BenchError, Way};

const BRIDGE: &str = "br0";

/// Each end believes that the other one is on its own cable; undone when dropped.
#[derive(Debug)]
pub(crate) struct Segment {
    routes: Vec<(Netlink, Route)>,
    bridge: Option<(Netlink, InterfaceIndex)>,
}

impl Segment {
    /// Makes the ends neighbours if `way` bridges, and the kernel's bridge if that is the way.
    pub fn make(network: &Network, way: Way) -> Result<Option<Self>, BenchError> {
        if !way.bridges() {
            return Ok(None);
        }
        let mut segment = Self { routes: Vec::new(), bridge: None };
        for (end, destination) in [(&network.client, server_network()), (&network.server, client_network())] {
            segment.add_neighbours(end.netlink()?, destination)?;
        }
        if way == Way::KernelBridge {
            let netlink = network.middle.netlink()?;
            netlink.create_bridge(BRIDGE)?;
            let bridge = netlink.index_of(BRIDGE)?;
            segment.bridge = Some((network.middle.netlink()?, bridge));
            netlink.set_up(bridge)?;
            for port in [WIRED, MOBILE] {
                netlink.set_bridge(netlink.index_of(port)?, bridge)?;
            }
        }
        Ok(Some(segment))
    }

    fn add_neighbours(&mut self, netlink: Netlink, destination: Cidr) -> Result<(), BenchError> {
        let device = Some(netlink.index_of(HOST_INTERFACE)?);
        let route = Route { destination, gateway: None, device, table: Table::MAIN };
        netlink.add_route(&route)?;
        self.routes.push((netlink, route));
        Ok(())
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // The namespaces go at the end in any case.
        if let Some((netlink, bridge)) = &self.bridge {
            drop(netlink.delete_link(*bridge));
        }
        for (netlink, route) in &self.routes {
            drop(netlink.delete_route(route));
        }
    }
}
