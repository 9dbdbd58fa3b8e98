//! [`Network`]: `client — veth — box — veth — server` in three namespaces.

use std::net::{IpAddr, Ipv4Addr};

use io::netlink::{Cidr, LinkChange, Route};
use io::{Host, lay_cable};

use crate::BenchError;

/// The box's interface towards the server.
pub(crate) const WIRED: &str = "w0";
/// The box's interface towards the client.
pub(crate) const MOBILE: &str = "m0";
/// The interface of either end.
pub(crate) const HOST_INTERFACE: &str = "eth0";

const SERVER_NET: u8 = 2;
const CLIENT_NET: u8 = 1;

/// Last byte of the box's addresses, and of the others'.
const BOX: u8 = 1;
const HOST: u8 = 2;

/// The server's address.
pub(crate) const SERVER: IpAddr = address(SERVER_NET, HOST);
/// The client's own address; its other ones are those of subscribers.
pub(crate) const CLIENT: IpAddr = address(CLIENT_NET, HOST);

const fn address(net: u8, last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, net, 0, last))
}

const fn network(net: u8) -> Cidr {
    Cidr { address: address(net, 0), prefix_len_bits: 24 }
}

/// The network of the server.
pub(crate) const fn server_network() -> Cidr {
    network(SERVER_NET)
}

/// The network of the client's own address.
pub(crate) const fn client_network() -> Cidr {
    network(CLIENT_NET)
}

/// The `number`th subscriber's address, from 0.
pub(crate) const fn subscriber(number: u32) -> Ipv4Addr {
    let [_, high, middle, low] = (number + 1).to_be_bytes();
    Ipv4Addr::new(10, 128 | high, middle, low)
}

/// All subscribers.
const SUBSCRIBERS: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
const SUBSCRIBERS_LEN: u8 = 9;

/// Options that a part needs beyond three hosts in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NetworkOptions {
    /// Addresses of the client besides its own: [`subscriber`].
    pub subscribers: u32,
    /// The server sends ordinary packets instead of super-packets.
    pub no_gso: bool,
}

/// The three namespaces; their names are removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Network {
    pub client: Host,
    pub middle: Host,
    pub server: Host,
}

impl Network {
    /// The names of the namespaces that this process makes: client, box, server.
    pub fn names() -> [String; 3] {
        ["client", "box", "server"].map(|role| format!("cbench-{}-{role}", std::process::id()))
    }

    /// Makes the namespaces, joins them, and has the box forward. Offloads stay as the kernel sets them.
    pub fn create(options: NetworkOptions) -> Result<Self, BenchError> {
        let [client, middle, server] = Self::names().map(|name| Host::create(&name));
        let network = Self { client: client?, middle: middle?, server: server? };
        for (host, net, here) in [(&network.client, CLIENT_NET, MOBILE), (&network.server, SERVER_NET, WIRED)]
        {
            let [own, outer] = [BOX, HOST].map(|last| format!("{}/24", address(net, last)));
            lay_cable([(&network.middle, here, &[&own]), (host, HOST_INTERFACE, &[&outer])])?;
            host.add_default_route(address(net, BOX))?;
        }
        network.middle.set("net/ipv4/ip_forward", "1")?;
        for end in [&network.client, &network.server] {
            // Figures of one flow must not shape the next.
            end.set("net/ipv4/tcp_no_metrics_save", "1")?;
        }
        for end in [&network.client, &network.server, &network.middle] {
            // Thousands of connections a second need more than the 28,000 ports of the default; and
            // a queue of them.
            end.set("net/ipv4/ip_local_port_range", "2048 65000")?;
            end.set("net/core/somaxconn", "65535")?;
            end.set("net/ipv4/tcp_max_syn_backlog", "65535")?;
        }
        network.apply(options)?;
        Ok(network)
    }

    fn apply(&self, options: NetworkOptions) -> Result<(), BenchError> {
        if options.subscribers > 0 {
            let client = self.client.netlink()?;
            let interface = client.index_of(HOST_INTERFACE)?;
            for number in 0..options.subscribers {
                client.add_address(interface, Cidr::new(subscriber(number), 32))?;
            }
            let all = Cidr::new(SUBSCRIBERS, SUBSCRIBERS_LEN);
            self.middle.netlink()?.add_route(&Route::via(all, CLIENT))?;
        }
        if options.no_gso {
            let server = self.server.netlink()?;
            let change = LinkChange { gso_segments_max: Some(1), ..LinkChange::default() };
            server.change_link(server.index_of(HOST_INTERFACE)?, &change)?;
        }
        Ok(())
    }

    /// Packets that came in at the client so far.
    pub fn client_packets(&self) -> Result<u64, BenchError> {
        Ok(self.client.netlink()?.link(HOST_INTERFACE)?.stats.rx_packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_have_addresses_of_their_own_in_one_network() {
        assert_eq!(subscriber(0), Ipv4Addr::new(10, 128, 0, 1));
        assert_eq!(subscriber(65_535), Ipv4Addr::new(10, 129, 0, 0));
    }
}
